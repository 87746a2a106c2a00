/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the experimental verbs pass on to today's verbs: device memory, tags, limits. No software device has
 * these, so the functions of the context are in this file, and record their arguments.
 */
#include <infiniband/verbs_exp.h>

#include "check.h"

static struct verbs_context device;
static struct ibv_context *const context = &device.context;

/* Copies of what the functions got. */
static struct {
	struct ibv_srq_init_attr_ex srq;
	struct ibv_ops_wr ops;
	struct ibv_modify_cq_attr cq;
	struct ibv_qp_rate_limit_attr rate;
	struct ibv_alloc_dm_attr dm;
	enum ibv_advise_mr_advice advice;
	uint64_t advised;
	unsigned int access;
	uint64_t offset;
	int calls;
} got;

/* The objects that the functions of verbs return. */
static struct ibv_qp a_qp;
static struct ibv_srq an_srq;
static struct ibv_cq a_cq;
static struct ibv_dm a_dm;
static struct ibv_mr an_mr;
static struct ibv_pd a_pd;
static char dm_memory[64];

static int modify_rate(struct ibv_qp *qp, struct ibv_qp_rate_limit_attr *attr)
{
	CHECK(qp == &a_qp);
	got.rate = *attr;
	return 0;
}

static struct ibv_srq *create_srq(struct ibv_context *ctx, struct ibv_srq_init_attr_ex *attr)
{
	CHECK(ctx == context);
	got.srq = *attr;
	attr->attr.max_wr = 128;
	return &an_srq;
}

static int post_ops(struct ibv_srq *srq, struct ibv_ops_wr *op, struct ibv_ops_wr **bad)
{
	CHECK(srq == &an_srq && !op->next);
	got.ops = *op;
	got.calls++;
	op->tm.handle = 1234;
	*bad = op;
	return op->opcode == IBV_WR_TAG_SYNC ? EINVAL : 0;
}

static int modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr)
{
	CHECK(cq == &a_cq);
	got.cq = *attr;
	return 0;
}

static int to_dm(struct ibv_dm *dm, uint64_t offset, const void *host, size_t length)
{
	CHECK(dm == &a_dm);
	memcpy(dm_memory + offset, host, length);
	return 0;
}

static int from_dm(void *host, struct ibv_dm *dm, uint64_t offset, size_t length)
{
	CHECK(dm == &a_dm);
	memcpy(host, dm_memory + offset, length);
	return 0;
}

static struct ibv_dm *alloc_dm(struct ibv_context *ctx, struct ibv_alloc_dm_attr *attr)
{
	got.dm = *attr;
	if (attr->length > sizeof(dm_memory)) {
		errno = ENOMEM;
		return NULL;
	}
	a_dm.context = ctx;
	a_dm.memcpy_to_dm = to_dm;
	a_dm.memcpy_from_dm = from_dm;
	a_dm.handle = 8;
	return &a_dm;
}

static int free_dm(struct ibv_dm *dm)
{
	return dm == &a_dm ? 0 : EINVAL;
}

static struct ibv_mr *reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t offset, size_t length,
				unsigned int access)
{
	CHECK(pd == &a_pd && dm == &a_dm);
	CHECK_IS(length, 16);
	got.offset = offset;
	got.access = access;
	return &an_mr;
}

static int advise(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags, struct ibv_sge *sge,
		  uint32_t count)
{
	CHECK(pd == &a_pd);
	CHECK_IS(count, 1);
	CHECK_IS(flags, IBV_ADVISE_MR_FLAG_FLUSH);
	CHECK_IS(sge->lkey, 5);
	CHECK_IS(sge->addr, 0x1000 + got.advised);
	got.advice = advice;
	got.advised += sge->length;
	return 0;
}

static void fill_context(void)
{
	a_qp.context = a_cq.context = an_srq.context = a_pd.context = an_mr.context = context;
	device.sz = sizeof(device);
	context->abi_compat = __VERBS_ABI_IS_EXTENDED;
	device.modify_qp_rate_limit = modify_rate;
	device.create_srq_ex = create_srq;
	device.post_srq_ops = post_ops;
	device.modify_cq = modify_cq;
	device.alloc_dm = alloc_dm;
	device.free_dm = free_dm;
	device.reg_dm_mr = reg_dm_mr;
	device.advise_mr = advise;
	an_mr.pd = &a_pd;
	an_mr.lkey = 5;
}

static void device_memory(void)
{
	struct ibv_exp_alloc_dm_attr attr;
	struct ibv_exp_memcpy_dm_attr copy;
	struct ibv_exp_prefetch_attr prefetch;
	struct ibv_exp_reg_mr_in in;
	struct ibv_exp_dm *dm;
	char host[8] = "0123456";

	memset(&attr, 0, sizeof(attr));
	attr.length = 1000;
	CHECK_NULL(ibv_exp_alloc_dm(context, &attr), ENOMEM);
	attr.length = 64;
	dm = ibv_exp_alloc_dm(context, &attr);
	CHECK(dm && dm->handle == 8 && dm->context == context);
	CHECK_IS(got.dm.length, 64);
	CHECK_IS(got.dm.log_align_req, 0);

	memset(&copy, 0, sizeof(copy));
	copy.memcpy_dir = IBV_EXP_DM_CPY_TO_DEVICE;
	copy.host_addr = host;
	copy.dm_offset = 16;
	copy.length = sizeof(host);
	CHECK_IS(ibv_exp_memcpy_dm(dm, &copy), 0);
	CHECK(!memcmp(dm_memory + 16, "0123456", 8));
	memset(host, 0, sizeof(host));
	copy.memcpy_dir = IBV_EXP_DM_CPY_TO_HOST;
	CHECK_IS(ibv_exp_memcpy_dm(dm, &copy), 0);
	CHECK(!strcmp(host, "0123456"));

	memset(&in, 0, sizeof(in));
	in.pd = &a_pd;
	in.addr = (void *)16;
	in.length = 16;
	in.comp_mask = IBV_EXP_REG_MR_DM;
	in.dm = dm;
	in.exp_access = IBV_EXP_ACCESS_LOCAL_WRITE | IBV_EXP_ACCESS_REMOTE_READ;
	CHECK(ibv_exp_reg_mr(&in) == &an_mr);
	CHECK_IS(got.offset, 16);
	CHECK_IS(got.access, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_ZERO_BASED);
	CHECK_IS(ibv_exp_free_dm(dm), 0);

	memset(&prefetch, 0, sizeof(prefetch));
	prefetch.flags = IBV_EXP_PREFETCH_WRITE_ACCESS;
	prefetch.addr = (void *)0x1000;
	prefetch.length = (size_t)5 << 30;
	CHECK_IS(ibv_exp_prefetch_mr(&an_mr, &prefetch), 0);
	CHECK_IS(got.advised, (uint64_t)5 << 30);
	CHECK_IS(got.advice, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE);
	prefetch.comp_mask = 1;
	CHECK_IS(ibv_exp_prefetch_mr(&an_mr, &prefetch), EINVAL);
}

static void limits(void)
{
	struct ibv_exp_cq_attr cq;
	struct ibv_exp_qp_attr qp;

	memset(&cq, 0, sizeof(cq));
	cq.comp_mask = IBV_EXP_CQ_ATTR_MODERATION;
	cq.moderation.cq_count = 7;
	cq.moderation.cq_period = 9;
	CHECK_IS(ibv_exp_modify_cq(&a_cq, &cq, IBV_EXP_CQ_MODERATION), 0);
	CHECK_IS(got.cq.attr_mask, IBV_CQ_ATTR_MODERATE);
	CHECK_IS(got.cq.moderate.cq_count, 7);
	CHECK_IS(got.cq.moderate.cq_period, 9);
	cq.cq_cap_flags = IBV_EXP_CQ_IGNORE_OVERRUN;
	CHECK_IS(ibv_exp_modify_cq(&a_cq, &cq, IBV_EXP_CQ_CAP_FLAGS), ENOSYS);

	memset(&qp, 0, sizeof(qp));
	qp.rate_limit = 1000;
	qp.comp_mask = IBV_EXP_QP_ATTR_BURST_INFO;
	qp.burst_info.max_burst_sz = 2000;
	qp.burst_info.typical_pkt_sz = 300;
	CHECK_IS(ibv_exp_modify_qp(&a_qp, &qp, IBV_EXP_QP_RATE_LIMIT), 0);
	CHECK_IS(got.rate.rate_limit, 1000);
	CHECK_IS(got.rate.max_burst_sz, 2000);
	CHECK_IS(got.rate.typical_pkt_sz, 300);
}

static void tags(void)
{
	struct ibv_exp_create_srq_attr attr;
	struct ibv_exp_ops_wr op[2], *bad = NULL;
	struct ibv_xrcd xrcd = { context };

	memset(&attr, 0, sizeof(attr));
	attr.base.attr.max_wr = 100;
	attr.srq_type = IBV_EXP_SRQT_TAG_MATCHING;
	attr.pd = &a_pd;
	attr.cq = &a_cq;
	attr.comp_mask = IBV_EXP_CREATE_SRQ_CQ | IBV_EXP_CREATE_SRQ_TM;
	attr.tm_cap.max_num_tags = 31;
	attr.tm_cap.max_ops = 32;
	CHECK(ibv_exp_create_srq(context, &attr) == &an_srq);
	CHECK_IS(got.srq.srq_type, IBV_SRQT_TM);
	CHECK_IS(got.srq.comp_mask,
		 IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_TM);
	CHECK_IS(got.srq.tm_cap.max_num_tags, 31);
	CHECK_IS(got.srq.tm_cap.max_ops, 32);
	CHECK(got.srq.cq == &a_cq && got.srq.pd == &a_pd);
	CHECK_IS(attr.base.attr.max_wr, 128);
	attr.srq_type = IBV_EXP_SRQT_XRC;
	attr.comp_mask = IBV_EXP_CREATE_SRQ_CQ | IBV_EXP_CREATE_SRQ_XRCD;
	attr.xrcd = &xrcd;
	CHECK(ibv_exp_create_srq(context, &attr) == &an_srq);
	CHECK_IS(got.srq.srq_type, IBV_SRQT_XRC);
	CHECK(got.srq.xrcd == &xrcd);

	memset(op, 0, sizeof(op));
	op[0].wr_id = 5;
	op[0].next = &op[1];
	op[0].opcode = IBV_EXP_WR_TAG_ADD;
	op[0].flags = IBV_EXP_OPS_SIGNALED;
	op[0].tm.unexpected_cnt = 2;
	op[0].tm.add.tag = 0xabc;
	op[0].tm.add.mask = 0xfff;
	op[1].opcode = IBV_EXP_WR_TAG_DEL;
	op[1].tm.handle = 4;
	got.calls = 0;
	CHECK_IS(ibv_exp_post_srq_ops(&an_srq, op, &bad), 0);
	CHECK_IS(got.calls, 2);
	CHECK_IS(op[0].tm.handle, 1234);
	CHECK_IS(got.ops.opcode, IBV_WR_TAG_DEL);
	CHECK_IS(got.ops.tm.handle, 4);
	op[1].opcode = IBV_EXP_WR_TAG_SYNC;
	CHECK_IS(ibv_exp_post_srq_ops(&an_srq, op, &bad), EINVAL);
	CHECK(bad == &op[1]);
	op[0].next = NULL;
	CHECK_IS(ibv_exp_post_srq_ops(&an_srq, op, &bad), 0);
	CHECK_IS(got.ops.wr_id, 5);
	CHECK_IS(got.ops.flags, IBV_OPS_SIGNALED);
	CHECK_IS(got.ops.tm.unexpected_cnt, 2);
	CHECK_IS(got.ops.tm.add.tag, 0xabc);
	CHECK_IS(got.ops.tm.add.mask, 0xfff);
}

/* A context without any of it: what today's verbs answer. */
static void nothing(void)
{
	struct ibv_exp_alloc_dm_attr dm;
	struct ibv_exp_wq_init_attr wq;

	memset(&dm, 0, sizeof(dm));
	memset(&wq, 0, sizeof(wq));
	device.sz = 0;
	CHECK_NULL(ibv_exp_alloc_dm(context, &dm), EOPNOTSUPP);
	CHECK_NULL(ibv_exp_create_wq(context, &wq), EOPNOTSUPP);
}

int main(void)
{
	fill_context();
	device_memory();
	limits();
	tags();
	nothing();
	printf("convert_objects: %d checks passed\n", checks);
	return 0;
}
