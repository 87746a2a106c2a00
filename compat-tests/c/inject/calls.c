/* Verbs that fail: create or change something, or post. */
#define _GNU_SOURCE
#include "scenes.h"

#include <dlfcn.h>
#include <fcntl.h>

#define POINTER(name, expression) \
	if (!strcmp(call, #name)) \
	return (errno = 0, (expression) ? 0 : errno)
#define NUMBER(name, expression) \
	if (!strcmp(call, #name)) { \
		int ret = (errno = 0, (expression)); \
		return ret < 0 ? errno : ret; \
	}

struct objects {
	struct ibv_qp *qp, *extended;
	struct ibv_srq *srq;
	struct ibv_mw *mw;
};

/* ibv_reg_mr_ex, which the library that this program is linked with does not have. */
static struct ibv_mr *register_by(struct ibv_pd *pd, struct ibv_mr_init_attr *attr)
{
	union {
		void *found;
		struct ibv_mr *(*function)(struct ibv_pd *pd, struct ibv_mr_init_attr *attr);
	} symbol = { dlsym(RTLD_DEFAULT, "ibv_reg_mr_ex") };

	NEED(symbol.found);
	return symbol.function(pd, attr);
}

/* Calls a verb that creates something. Returns errno, 0 after success, -1 for an unknown verb. */
static int create(struct rig *rig, struct objects *of, const char *call)
{
	struct ibv_ah_attr ah = rtr_attr(rig, 0).ah_attr;
	struct ibv_qp_init_attr qp = {
		.send_cq = rig->cq, .recv_cq = rig->cq, .cap = { 1, 1, 1, 1, 0 }, .qp_type = IBV_QPT_RC
	};
	struct ibv_qp_init_attr_ex qp_ex = { .send_cq = rig->cq,
					     .recv_cq = rig->cq,
					     .cap = { 1, 1, 1, 1, 0 },
					     .qp_type = IBV_QPT_RC,
					     .comp_mask = IBV_QP_INIT_ATTR_PD |
							  IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
					     .pd = rig->pd,
					     .send_ops_flags = IBV_QP_EX_WITH_SEND };
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = 1, .max_sge = 1 } };
	struct ibv_srq_init_attr_ex srq_ex = { .attr = { .max_wr = 1, .max_sge = 1 },
					       .comp_mask = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE |
							    IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_XRCD,
					       .srq_type = IBV_SRQT_XRC,
					       .pd = rig->pd };
	struct ibv_cq_init_attr_ex cq_ex = { .cqe = 1, .wc_flags = IBV_WC_EX_WITH_TM_INFO };
	struct ibv_parent_domain_init_attr domain = { .pd = rig->pd };
	struct ibv_rwq_ind_table_init_attr table = { 0 };
	struct ibv_counters_init_attr counters = { 0 };
	struct ibv_wq_init_attr wq = { .pd = rig->pd, .cq = rig->cq };
	struct ibv_qp_open_attr open = { 0 };
	struct ibv_alloc_dm_attr dm = { .length = 4096 };
	struct ibv_dm no_dm = { .context = rig->context };
	struct ibv_flow_attr flow = { .size = sizeof(flow), .port = PORT };
	struct ibv_td_init_attr td = { 0 };
	struct ibv_mr_init_attr mr = { .length = 4096,
				       .access = IBV_ACCESS_LOCAL_WRITE,
				       .comp_mask = IBV_REG_MR_MASK_ADDR,
				       .addr = rig->buf };

	POINTER(alloc_dm, ibv_alloc_dm(rig->context, &dm));
	POINTER(alloc_mw, ibv_alloc_mw(rig->pd, IBV_MW_TYPE_1));
	POINTER(alloc_null_mr, ibv_alloc_null_mr(rig->pd));
	POINTER(alloc_parent_domain, ibv_alloc_parent_domain(rig->context, &domain));
	POINTER(alloc_pd, ibv_alloc_pd(rig->context));
	POINTER(alloc_td, ibv_alloc_td(rig->context, &td));
	POINTER(create_ah, ibv_create_ah(rig->pd, &ah));
	POINTER(create_counters, ibv_create_counters(rig->context, &counters));
	POINTER(create_cq, ibv_create_cq(rig->context, 1, NULL, NULL, 0));
	POINTER(create_cq_ex, ibv_create_cq_ex(rig->context, &cq_ex));
	POINTER(create_flow, ibv_create_flow(of->qp, &flow));
	POINTER(create_qp, ibv_create_qp(rig->pd, &qp));
	POINTER(create_qp_ex, ibv_create_qp_ex(rig->context, &qp_ex));
	POINTER(create_rwq_ind_table, ibv_create_rwq_ind_table(rig->context, &table));
	POINTER(create_srq, ibv_create_srq(rig->pd, &srq));
	POINTER(create_srq_ex, ibv_create_srq_ex(rig->context, &srq_ex));
	POINTER(create_wq, ibv_create_wq(rig->context, &wq));
	POINTER(open_qp, ibv_open_qp(rig->context, &open));
	POINTER(open_xrcd, open_domain(rig, -1, O_CREAT));
	POINTER(reg_dm_mr, ibv_reg_dm_mr(rig->pd, &no_dm, 0, 64, 0));
	POINTER(reg_dmabuf_mr, ibv_reg_dmabuf_mr(rig->pd, 0, 4096, 0, -1, IBV_ACCESS_LOCAL_WRITE));
	POINTER(reg_mr, ibv_reg_mr(rig->pd, rig->buf, SIZE, IBV_ACCESS_LOCAL_WRITE));
	POINTER(reg_mr_ex, register_by(rig->pd, &mr));
	return -1;
}

/* Posts a request by ibv_wr_complete, which takes what was built or drops it. Then the next one can be built.
 */
static int build(struct rig *rig, struct ibv_qp *qp)
{
	struct ibv_qp_ex *qpx = ibv_qp_to_qp_ex(qp);

	ibv_wr_start(qpx);
	qpx->wr_id = 5;
	qpx->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(qpx, rig->mr->rkey, (uintptr_t)rig->buf);
	ibv_wr_set_sge(qpx, rig->mr->lkey, (uintptr_t)rig->buf + 64, 8);
	return ibv_wr_complete(qpx);
}

/* Calls a verb that changes or queries something, or posts. */
static int change(struct rig *rig, struct objects *of, const char *call)
{
	struct ibv_mw_bind bind = { .bind_info = { .mr = rig->mr,
						   .addr = (uintptr_t)rig->buf,
						   .length = 8,
						   .mw_access_flags = IBV_ACCESS_REMOTE_READ } };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };
	struct ibv_srq_attr srq_attr = { .srq_limit = 1 };
	struct ibv_modify_cq_attr cq_attr = { 0 };
	struct ibv_qp_rate_limit_attr rate = { .rate_limit = 1 };
	struct ibv_wq wq = { .context = rig->context };
	struct ibv_wq_attr wq_attr = { 0 };
	struct ibv_device_attr_ex device;
	struct ibv_port_attr port;
	struct ibv_qp_init_attr init;
	struct ibv_sge sge = { (uintptr_t)rig->buf, 8, rig->mr->lkey };
	struct ibv_recv_wr *bad = NULL, wr = { .sg_list = &sge, .num_sge = 1 };
	union ibv_gid group = { .raw = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 224, 0, 0, 9 } };

	NUMBER(attach_mcast, ibv_attach_mcast(of->qp, &group, 0));
	NUMBER(bind_mw, ibv_bind_mw(of->qp, of->mw, &bind));
	NUMBER(modify_cq, ibv_modify_cq(rig->cq, &cq_attr));
	NUMBER(modify_qp, ibv_modify_qp(of->qp, &attr, IBV_QP_STATE));
	NUMBER(modify_qp_rate_limit, ibv_modify_qp_rate_limit(of->qp, &rate));
	NUMBER(modify_srq, ibv_modify_srq(of->srq, &srq_attr, IBV_SRQ_LIMIT));
	NUMBER(modify_wq, ibv_modify_wq(&wq, &wq_attr));
	NUMBER(post_recv, post_recv(of->qp, rig, 1, 0, 8));
	NUMBER(post_send, post(of->qp, rig, IBV_WR_SEND, 0, 8, 0, 0));
	NUMBER(post_srq_recv, ibv_post_srq_recv(of->srq, &wr, &bad));
	NUMBER(query_device_ex, ibv_query_device_ex(rig->context, NULL, &device));
	NUMBER(query_port, ibv_query_port(rig->context, PORT, &port));
	NUMBER(query_qp, ibv_query_qp(of->qp, &attr, IBV_QP_STATE, &init));
	NUMBER(query_srq, ibv_query_srq(of->srq, &srq_attr));
	NUMBER(req_notify_cq, ibv_req_notify_cq(rig->cq, 0));
	NUMBER(rereg_mr, ibv_rereg_mr(rig->mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, ALL_ACCESS));
	NUMBER(resize_cq, ibv_resize_cq(rig->cq, 300));
	NUMBER(wr_complete, build(rig, of->extended));
	return -1;
}

/* call VERB ERRNO: of three calls of a verb, one fails with this errno value. */
void call(struct rig *rig, char **argv)
{
	struct objects of = { .qp = make_qp(rig, IBV_QPT_RC, 0, NULL), .srq = new_srq(rig, 8) };
	int failed = 0;

	NEED(of.mw = ibv_alloc_mw(rig->pd, IBV_MW_TYPE_1));
	NEED(to_init(of.qp) == 0);
	if (!strcmp(argv[0], "wr_complete")) {
		of.extended = make_qp(rig, IBV_QPT_RC, IBV_QP_EX_WITH_RDMA_WRITE, NULL);
		join(rig, of.extended, of.extended);
	}
	for (int i = 0; i < 3; i++) {
		int error = create(rig, &of, argv[0]);

		if (error < 0)
			error = change(rig, &of, argv[0]);
		NEED(error >= 0);
		failed += error == atoi(argv[1]);
	}
	CHECK(failed == 1);
	/* The objects of the calls are left. */
	exit(failures != 0);
}

/* calls N: registers memory N times, and prints which calls failed. */
void calls(struct rig *rig, char **argv)
{
	for (int i = 0; i < atoi(argv[0]); i++) {
		struct ibv_mr *mr = ibv_reg_mr(rig->pd, rig->buf, 64 + i, IBV_ACCESS_LOCAL_WRITE);

		putchar(mr ? '.' : 'x');
		if (mr)
			CHECK(ibv_dereg_mr(mr) == 0);
	}
	putchar('\n');
}

/* built N: posts N requests by ibv_wr_complete. Prints which failed; the others complete, and no more. */
void built(struct rig *rig, char **argv)
{
	struct ibv_qp *qp = make_qp(rig, IBV_QPT_RC, IBV_QP_EX_WITH_RDMA_WRITE, NULL);
	struct ibv_wc wc;

	join(rig, qp, qp);
	for (int i = 0; i < atoi(argv[0]); i++) {
		int error = build(rig, qp);

		putchar(error ? 'x' : '.');
		if (!error) {
			wc = next_wc(rig->cq);
			CHECK(wc.wr_id == 5);
			printf("%d", wc.status);
		}
	}
	CHECK(ibv_poll_cq(rig->cq, 1, &wc) == 0);
	putchar('\n');
}
