/* Calls with wrong arguments. */
#include "mistakes.h"

#include <sys/wait.h>

void create_with(struct rig *rig, void (*change)(struct ibv_qp_init_attr *attr), bool wrong)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = rig->cq, .recv_cq = rig->cq, .cap = { 8, 8, 1, 1, 0 }, .qp_type = IBV_QPT_RC
	};

	if (wrong)
		change(&attr);
	CHECK(!KEEP(ibv_create_qp(rig->pd, &attr)) == wrong);
}

static void without_cq(struct ibv_qp_init_attr *attr)
{
	attr->send_cq = NULL;
}

static void much_inline(struct ibv_qp_init_attr *attr)
{
	attr->cap.max_inline_data = 1 << 20;
}

static void many_sge(struct ibv_qp_init_attr *attr)
{
	attr->cap.max_send_sge = 4096;
}

static void no_type(struct ibv_qp_init_attr *attr)
{
	attr->qp_type = 0;
}

/* An XRC receiving queue pair needs a domain, which ibv_create_qp cannot pass. */
static void xrc_receive(struct ibv_qp_init_attr *attr)
{
	attr->qp_type = IBV_QPT_XRC_RECV;
}

static void qp_other_context(struct rig *rig, bool wrong)
{
	struct ibv_context *other = KEEP(ibv_open_device(rig->context->device));
	struct ibv_cq *cq = KEEP(ibv_create_cq(wrong ? other : rig->context, 8, NULL, NULL, 0));
	struct ibv_qp_init_attr attr = {
		.send_cq = cq, .recv_cq = cq, .cap = { 8, 8, 1, 1, 0 }, .qp_type = IBV_QPT_RC
	};

	CHECK(!KEEP(ibv_create_qp(rig->pd, &attr)) == wrong);
}

static void cq_vector(struct rig *rig, bool wrong)
{
	int vector = wrong ? rig->context->num_comp_vectors : rig->context->num_comp_vectors - 1;

	CHECK(!KEEP(ibv_create_cq(rig->context, 8, NULL, NULL, vector)) == wrong);
}

static void cq_zero(struct rig *rig, bool wrong)
{
	CHECK(!KEEP(ibv_create_cq(rig->context, wrong ? 0 : 1, NULL, NULL, 0)) == wrong);
}

static void cq_ex_mask(struct rig *rig, bool wrong)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = 8, .comp_mask = wrong ? 1 << 20 : 0 };

	CHECK(!KEEP(ibv_create_cq_ex(rig->context, &attr)) == wrong);
}

static void cq_channel_other(struct rig *rig, bool wrong)
{
	struct ibv_context *other = KEEP(ibv_open_device(rig->context->device));
	struct ibv_comp_channel *channel = KEEP(ibv_create_comp_channel(wrong ? other : rig->context));

	CHECK(!KEEP(ibv_create_cq(rig->context, 8, NULL, channel, 0)) == wrong);
}

static void srq_large(struct rig *rig, bool wrong)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = wrong ? 1u << 30 : 8, .max_sge = 1 } };

	CHECK(!KEEP(ibv_create_srq(rig->pd, &attr)) == wrong);
}

static void srq_limit(struct rig *rig, bool wrong)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 8, .max_sge = 1 } };
	struct ibv_srq *srq = KEEP(ibv_create_srq(rig->pd, &attr));
	struct ibv_srq_attr limit = { .srq_limit = wrong ? attr.attr.max_wr + 1 : 4 };

	NEED(srq);
	CHECK(!ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT) == !wrong);
}

static void srq_basic_to_xrc(struct rig *rig, bool wrong)
{
	struct ibv_srq_init_attr_ex attr = {
		.attr = { .max_wr = 8, .max_sge = 1 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD,
		.srq_type = wrong ? IBV_SRQT_XRC : IBV_SRQT_BASIC,
		.pd = rig->pd,
	};

	CHECK(!KEEP(ibv_create_srq_ex(rig->context, &attr)) == wrong);
}

static void ah_port(struct rig *rig, bool wrong)
{
	struct ibv_ah_attr attr = { .is_global = 1,
				    .port_num = wrong ? 0 : PORT,
				    .grh = { .dgid = rig->gid, .sgid_index = rig->gid_index } };

	CHECK(!KEEP(ibv_create_ah(rig->pd, &attr)) == wrong);
}

static void query_port(struct rig *rig, bool wrong)
{
	struct ibv_port_attr attr;

	CHECK(!ibv_query_port(rig->context, wrong ? 0 : PORT, &attr) == !wrong);
}

static void query_gid(struct rig *rig, bool wrong)
{
	union ibv_gid gid;

	CHECK(!ibv_query_gid(rig->context, PORT, wrong ? 5000 : rig->gid_index, &gid) == !wrong);
}

static void query_pkey(struct rig *rig, bool wrong)
{
	__be16 pkey;

	CHECK(!ibv_query_pkey(rig->context, PORT, wrong ? 500 : 0, &pkey) == !wrong);
}

static void reg(struct rig *rig, void *addr, size_t length, int access, bool wrong)
{
	CHECK(!KEEP(ibv_reg_mr(rig->pd, addr, length, access)) == wrong);
}

static void reg_null(struct rig *rig, bool wrong)
{
	reg(rig, wrong ? NULL : rig->buf, 4096, IBV_ACCESS_LOCAL_WRITE, wrong);
}

static void reg_atomic(struct rig *rig, bool wrong)
{
	reg(rig, rig->buf, 4096, IBV_ACCESS_REMOTE_ATOMIC | (wrong ? 0 : IBV_ACCESS_LOCAL_WRITE), wrong);
}

static void reg_unknown_flag(struct rig *rig, bool wrong)
{
	reg(rig, rig->buf, 4096, IBV_ACCESS_LOCAL_WRITE | (wrong ? 1 << 15 : 0), wrong);
}

/* The PD was deallocated, and is used again. */
static void reg_dead_pd(struct rig *rig, bool wrong)
{
	struct ibv_pd *pd = KEEP(ibv_alloc_pd(rig->context));

	NEED(pd);
	if (wrong)
		CHECK(end(pd) == 0);
	CHECK(!KEEP(ibv_reg_mr(pd, rig->buf, 4096, 0)) == wrong);
}

static void dereg_twice(struct rig *rig, bool wrong)
{
	struct ibv_mr *mr = ibv_reg_mr(rig->pd, rig->buf, 4096, 0);

	NEED(mr && ibv_dereg_mr(mr) == 0);
	if (wrong)
		CHECK(ibv_dereg_mr(mr) != 0);
}

static void destroy_qp_twice(struct rig *rig, bool wrong)
{
	struct ibv_qp *qp = make_qp(rig, IBV_QPT_RC, 0, NULL);

	CHECK(end(qp) == 0);
	if (wrong)
		CHECK(ibv_destroy_qp(qp) != 0);
}

static void destroy_order(struct rig *rig, bool wrong)
{
	struct ibv_cq *cq = KEEP(ibv_create_cq(rig->context, 8, NULL, NULL, 0));

	link_qp(rig, &(struct link){ .send_cq = cq, .recv_cq = cq });
	if (wrong)
		CHECK(end(cq) == EBUSY);
}

static void bind_without_right(struct rig *rig, bool wrong)
{
	struct ibv_mr *mr = KEEP(ibv_reg_mr(rig->pd, rig->buf, SIZE,
					    IBV_ACCESS_LOCAL_WRITE | (wrong ? 0 : IBV_ACCESS_MW_BIND)));
	struct ibv_mw *mw = KEEP(ibv_alloc_mw(rig->pd, IBV_MW_TYPE_1));
	struct ibv_mw_bind bind = { .bind_info = { mr, (uintptr_t)rig->buf, 4096, IBV_ACCESS_REMOTE_READ } };
	struct ends ends = link_up(rig, &(struct link){ 0 });

	NEED(mr && mw);
	if (!ibv_bind_mw(ends.a, mw, &bind))
		CHECK((next_status(rig->cq) == IBV_WC_SUCCESS) == !wrong);
}

/* The program ends by SIGSEGV, as with the C library. */
static void null_context(struct rig *rig, bool wrong)
{
	pid_t child = wrong ? fork() : 0;
	int status;

	if (wrong && child == 0) {
		struct ibv_context *volatile none = NULL;

		ibv_alloc_pd(none);
		_exit(0);
	}
	if (wrong)
		CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
	struct ibv_pd *pd = ibv_alloc_pd(rig->context);
	CHECK(pd && ibv_dealloc_pd(pd) == 0);
}

/* The queue pair was never created: verbs.h reads it within the program. */
static void null_qp(struct rig *rig, bool wrong)
{
	struct link link = { 0 };
	struct ibv_qp *volatile none = NULL;
	pid_t child = wrong ? fork() : 0;
	int status;

	if (wrong && child == 0) {
		send_wr(none, rig, IBV_WR_RDMA_WRITE, 0, 0, 8);
		_exit(0);
	}
	if (wrong) {
		CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
		return;
	}
	struct ends ends = link_up(rig, &link);
	CHECK(send_wr(ends.a, rig, IBV_WR_RDMA_WRITE, 0, 0, 8) == 0);
	CHECK(next_status(rig->cq) == IBV_WC_SUCCESS);
}

static void attach_rc(struct rig *rig, bool wrong)
{
	struct ibv_qp *qp = link_qp(rig, &(struct link){ .type = wrong ? IBV_QPT_RC : IBV_QPT_UD });
	union ibv_gid group = { .raw = { 0xff, 0x0e, [15] = 7 } };

	NEED(to_init(qp) == 0);
	CHECK(!ibv_attach_mcast(qp, &group, 0) == !wrong);
	if (!wrong)
		CHECK(ibv_detach_mcast(qp, &group, 0) == 0);
}

const struct mistake call_mistakes[] = {
	{ "qp-null-cq", NULL, "null-object", "send_cq is NULL", .create = without_cq },
	{ "qp-inline-huge", NULL, "argument", "cap.max_inline_data is 1048576", .create = much_inline },
	{ "qp-many-sge", NULL, "create-limit", "cap.max_send_sge = 4096", .create = many_sge },
	{ "qp-no-type", NULL, "argument", "qp_type is 0", .create = no_type },
	{ "qp-xrc-no-domain", NULL, "argument", "ibv_create_qp cannot pass an XRC domain",
	  .create = xrc_receive },
	{ "qp-other-context", qp_other_context, "other-context", "send_cq, the CQ" },
	{ "cq-vector", cq_vector, "attr-range", "comp_vector is" },
	{ "cq-zero", cq_zero, "attr-range", "cqe is 0" },
	{ "cq-ex-mask", cq_ex_mask, "unknown-bits", "comp_mask is 0x100000" },
	{ "cq-channel-other", cq_channel_other, "argument", "belongs to another device context than the CQ" },
	{ "srq-large", srq_large, "create-limit", "attr.max_wr = 1073741824" },
	{ "srq-limit", srq_limit, "attr-range", "srq_limit is 9" },
	{ "srq-xrc-fields", srq_basic_to_xrc, "argument", "comp_mask lacks IBV_SRQ_INIT_ATTR_XRCD" },
	{ "ah-port", ah_port, "attr-range", "attr.port_num is 0" },
	{ "query-port", query_port, "attr-range", "port_num is 0" },
	{ "query-gid", query_gid, "attr-range", "index is 5000" },
	{ "query-pkey", query_pkey, "attr-range", "index is 500" },
	{ "reg-null", reg_null, "reg-unmapped", "nothing is mapped at 0x0" },
	{ "reg-atomic", reg_atomic, "reg-access", "IBV_ACCESS_REMOTE_ATOMIC lack IBV_ACCESS_LOCAL_WRITE" },
	{ "reg-unknown-flag", reg_unknown_flag, "unknown-bits", "the bits 0x8000" },
	{ "reg-dead-pd", reg_dead_pd, "dead-object", "pd, the PD" },
	{ "dereg-twice", dereg_twice, "dead-object", "mr, the MR" },
	{ "destroy-qp-twice", destroy_qp_twice, "dead-object", "qp, the QP" },
	{ "destroy-order", destroy_order, "busy", "it is still used by QP" },
	{ "bind-without-right", bind_without_right, "argument", "was registered without IBV_ACCESS_MW_BIND" },
	{ "null-context", null_context, "crash", "context of ibv_alloc_pd is NULL" },
	{ "post-null-qp", null_qp, "crash", "qp of ibv_post_send is NULL" },
	{ "attach-rc", attach_rc, "argument", "the queue pair is not of type UD" },
	{ 0 },
};
