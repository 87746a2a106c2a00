/*
 * verbs_walk --strings: prints the results of the string and rate functions.
 *
 * verbs_walk DEVICE: calls each control verb that the fake device supports, with valid and some invalid
 * arguments, and prints the results. With FAKE_LOG, the bytes passed to the kernel are logged.
 */
#include "walk.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static struct ibv_context *ctx;
static struct ibv_pd *pd, *pd2;
static struct ibv_cq *cq;
static char *buf;
#define LEN 8192

static struct ibv_device *find(struct ibv_device **list, const char *name)
{
	for (; list && *list; list++)
		if (!strcmp(ibv_get_device_name(*list), name))
			return *list;
	return NULL;
}

static void walk_queries(void)
{
	struct ibv_query_device_ex_input input = { .comp_mask = 0 };
	struct ibv_device_attr attr;
	struct ibv_device_attr_ex attr_ex;
	struct ibv_port_attr port;
	struct ibv_values_ex values = { .comp_mask = IBV_VALUES_MASK_RAW_CLOCK };
	struct ibv_gid_entry entry, table[4];
	union ibv_gid gid;
	__be16 pkey;

	FILL(attr);
	INT(ibv_query_device(ctx, &attr));
	SHOW(attr);
	FILL(attr_ex);
	INT(ibv_query_device_ex(ctx, NULL, &attr_ex));
	SHOW(attr_ex);
	INT(ibv_query_device_ex(ctx, &input, &attr_ex));
	input.comp_mask = 1;
	INT(ibv_query_device_ex(ctx, &input, &attr_ex));
	FILL(port);
	INT(ibv_query_port(ctx, 1, &port));
	SHOW(port);
	INT(ibv_query_port(ctx, 0, &port));
	INT(ibv_query_port(ctx, 9, &port));
	for (int i = 0; i < 5; i++) {
		FILL(gid);
		INT(ibv_query_gid(ctx, 1, i, &gid));
		SHOW(gid);
	}
	INT(ibv_query_gid(ctx, 7, 0, &gid));
	FILL(entry);
	INT(ibv_query_gid_ex(ctx, 1, 0, &entry, 0));
	SHOW(entry);
	INT(ibv_query_gid_ex(ctx, 1, 4, &entry, 0));
	INT(ibv_query_gid_ex(ctx, 1, 0, &entry, 1));
	FILL(table);
	INT(ibv_query_gid_table(ctx, table, 4, 0));
	SHOW(table);
	INT(ibv_query_gid_table(ctx, table, 1, 0));
	INT(ibv_query_gid_table(ctx, table, 0, 0));
	INT(ibv_query_gid_table(ctx, table, 4, 1));
	INT(ibv_query_pkey(ctx, 1, 0, &pkey));
	SHOW(pkey);
	INT(ibv_query_pkey(ctx, 1, 5, &pkey));
	INT(ibv_get_pkey_index(ctx, 1, htobe16(0xffff)));
	INT(ibv_get_pkey_index(ctx, 1, htobe16(0x8001)));
	INT(ibv_query_rt_values_ex(ctx, &values));
	SHOW(values);
}

static void walk_strings(void)
{
	for (int i = -2; i < 25; i++)
		printf("  %d: %s | %s | %s | %s\n", i, ibv_node_type_str(i), ibv_port_state_str(i),
		       ibv_event_type_str(i), ibv_wc_status_str(i));
	for (int i = -1; i < 30; i++)
		printf("  rate %d: mult %d mbps %d\n", i, ibv_rate_to_mult(i), ibv_rate_to_mbps(i));
	for (int i = 0; i < 50; i++)
		printf("  mult %d: rate %d\n", i, mult_to_ibv_rate(i));
	for (int i = 0; i < 700000; i += 2500)
		if (mbps_to_ibv_rate(i) != IBV_RATE_MAX)
			printf("  mbps %d: rate %d\n", i, mbps_to_ibv_rate(i));
}

static void walk_memory(void)
{
	struct ibv_sge sge = { .addr = (uintptr_t)buf, .length = 4096 };
	struct ibv_alloc_dm_attr dm_attr = { .length = 4096 };
	struct ibv_mr *mr, *other;
	struct ibv_mw *mw;
	struct ibv_dm *dm;
	int access;

	for (access = 0; access < 1 << 9; access = access ? access * 2 : 1) {
		printf("access %d\n", access);
		PTR(mr, ibv_reg_mr(pd, buf, LEN, access));
		if (mr) {
			printf("  lkey %x rkey %x handle %x length %zu context %d pd %d addr %d\n", mr->lkey,
			       mr->rkey, mr->handle, mr->length, mr->context == ctx, mr->pd == pd,
			       mr->addr == buf);
			INT(ibv_dereg_mr(mr));
		}
	}
	PTR(mr, ibv_reg_mr(pd, buf, 0, IBV_ACCESS_LOCAL_WRITE));
	DESTROY(ibv_dereg_mr, mr);
	PTR(mr, ibv_reg_mr(pd, buf, LEN, IBV_ACCESS_RELAXED_ORDERING | IBV_ACCESS_LOCAL_WRITE));
	DESTROY(ibv_dereg_mr, mr);
	PTR(mr, ibv_reg_mr(pd, NULL, SIZE_MAX, IBV_ACCESS_ON_DEMAND | IBV_ACCESS_LOCAL_WRITE));
	DESTROY(ibv_dereg_mr, mr);
	PTR(mr, ibv_reg_mr_iova(pd, buf, LEN, 0x1000, IBV_ACCESS_LOCAL_WRITE));
	DESTROY(ibv_dereg_mr, mr);
	PTR(mr, ibv_reg_mr_iova2(pd, buf, LEN, 0x1000, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_OPTIONAL_FIRST));
	DESTROY(ibv_dereg_mr, mr);
	PTR(mr, ibv_reg_dmabuf_mr(pd, 0, 4096, 0x1000, 5, IBV_ACCESS_LOCAL_WRITE));
	DESTROY(ibv_dereg_mr, mr);
	PTR(mr, ibv_alloc_null_mr(pd));
	DESTROY(ibv_dereg_mr, mr);

	PTR(mr, ibv_reg_mr(pd, buf, LEN, IBV_ACCESS_LOCAL_WRITE));
	if (mr) {
		INT(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, buf + 4096, 4096, 0));
		INT(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_REMOTE_READ));
		INT(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, pd2, NULL, 0, 0));
		INT(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, NULL, 4096, 0));
		INT(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, buf, 0, 0));
		INT(ibv_rereg_mr(mr, 0, NULL, NULL, 0, 0));
		INT(ibv_rereg_mr(mr, 1 << 20, NULL, NULL, 0, 0));
		printf("  lkey %x length %zu pd %d\n", mr->lkey, mr->length, mr->pd == pd2);
		sge.lkey = mr->lkey;
		INT(ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1));
		PTR(other, ibv_import_mr(pd, mr->handle));
		if (other)
			VOID(ibv_unimport_mr(other));
		INT(ibv_dereg_mr(mr));
	}
	PTR(mw, ibv_alloc_mw(pd, IBV_MW_TYPE_1));
	DESTROY(ibv_dealloc_mw, mw);
	PTR(mw, ibv_alloc_mw(pd, IBV_MW_TYPE_2));
	if (mw)
		printf("  rkey %x type %d next %x\n", mw->rkey, mw->type, ibv_inc_rkey(mw->rkey));
	DESTROY(ibv_dealloc_mw, mw);
	PTR(mw, ibv_alloc_mw(pd, 77));
	DESTROY(ibv_dealloc_mw, mw);
	PTR(dm, ibv_alloc_dm(ctx, &dm_attr));
	if (dm) {
		PTR(mr, ibv_reg_dm_mr(pd, dm, 0, 4096, IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE));
		DESTROY(ibv_dereg_mr, mr);
		INT(ibv_free_dm(dm));
	}
	PTR(dm, ibv_import_dm(ctx, 5));
	if (dm)
		VOID(ibv_unimport_dm(dm));
}

static void walk_pds(void)
{
	struct ibv_td_init_attr td_attr = { 0 };
	struct ibv_parent_domain_init_attr parent = { 0 };
	struct ibv_pd *child, *imported;
	struct ibv_td *td;

	PTR(td, ibv_alloc_td(ctx, &td_attr));
	parent.pd = pd;
	parent.td = td;
	PTR(child, ibv_alloc_parent_domain(ctx, &parent));
	DESTROY(ibv_dealloc_pd, child);
	parent.comp_mask = 1 << 30;
	PTR(child, ibv_alloc_parent_domain(ctx, &parent));
	DESTROY(ibv_dealloc_pd, child);
	DESTROY(ibv_dealloc_td, td);
	td_attr.comp_mask = 1;
	PTR(td, ibv_alloc_td(ctx, &td_attr));
	DESTROY(ibv_dealloc_td, td);
	PTR(imported, ibv_import_pd(ctx, pd->handle));
	if (imported)
		VOID(ibv_unimport_pd(imported));
}

static void walk_cqs(void)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = 16 };
	struct ibv_modify_cq_attr moderate = { .attr_mask = IBV_CQ_ATTR_MODERATE, .moderate = { 10, 100 } };
	struct ibv_comp_channel *channel;
	struct ibv_cq *one, *got;
	struct ibv_cq_ex *ex;
	void *context;
	uint64_t cookie;
	int flag;

	PTR(channel, ibv_create_comp_channel(ctx));
	if (channel) {
		printf("  channel refcnt %d\n", channel->refcnt);
		PTR(one, ibv_create_cq(ctx, 100, &channel, channel, 1));
		if (one) {
			printf("  cqe %d handle %x refcnt %d context %d\n", one->cqe, one->handle,
			       channel->refcnt, one->cq_context == &channel);
			INT(ibv_destroy_comp_channel(channel));
			INT(ibv_req_notify_cq(one, 0));
			INT(ibv_req_notify_cq(one, 1));
			cookie = (uintptr_t)one;
			if (walk_push && !walk_push(channel->fd, &cookie, sizeof(cookie))) {
				INT(ibv_get_cq_event(channel, &got, &context));
				printf("  same cq %d context %d\n", got == one, context == &channel);
				VOID(ibv_ack_cq_events(one, 1));
				walk_reported(1, 0);
			}
			INT(fcntl(channel->fd, F_SETFL, O_NONBLOCK));
			INT(ibv_get_cq_event(channel, &got, &context));
			INT(ibv_modify_cq(one, &moderate));
			/* mlx4 waits for a response of the hardware. */
			if (strncmp(ibv_get_device_name(ctx->device), "mlx4", 4))
				INT(ibv_resize_cq(one, 200));
			printf("  cqe %d\n", one->cqe);
			INT(ibv_destroy_cq(one));
			if (walk_reported)
				walk_reported(0, 0);
			printf("  refcnt %d\n", channel->refcnt);
		}
		INT(ibv_destroy_comp_channel(channel));
	}
	PTR(one, ibv_create_cq(ctx, 0, NULL, NULL, 0));
	DESTROY(ibv_destroy_cq, one);
	PTR(one, ibv_create_cq(ctx, -1, NULL, NULL, 0));
	DESTROY(ibv_destroy_cq, one);
	PTR(one, ibv_create_cq(ctx, 10, NULL, NULL, 99));
	DESTROY(ibv_destroy_cq, one);
	PTR(one, ibv_create_cq(ctx, 1 << 30, NULL, NULL, 0));
	DESTROY(ibv_destroy_cq, one);
	PTR(ex, ibv_create_cq_ex(ctx, &attr));
	if (ex)
		INT(ibv_destroy_cq(ibv_cq_ex_to_cq(ex)));
	for (flag = 1; flag < 1 << 14; flag *= 2) {
		printf("wc_flags %x\n", flag);
		attr.wc_flags = (uint64_t)flag;
		PTR(ex, ibv_create_cq_ex(ctx, &attr));
		if (ex)
			INT(ibv_destroy_cq(ibv_cq_ex_to_cq(ex)));
	}
	attr.wc_flags = IBV_WC_EX_WITH_BYTE_LEN;
	attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
	attr.flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
	PTR(ex, ibv_create_cq_ex(ctx, &attr));
	if (ex)
		INT(ibv_destroy_cq(ibv_cq_ex_to_cq(ex)));
	attr.comp_mask = 1 << 20;
	PTR(ex, ibv_create_cq_ex(ctx, &attr));
	if (ex)
		INT(ibv_destroy_cq(ibv_cq_ex_to_cq(ex)));
}

static struct ibv_srq *walk_srqs(struct ibv_xrcd *xrcd)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 64, .max_sge = 1 } };
	struct ibv_srq_init_attr_ex ex = { .attr = { .max_wr = 64, .max_sge = 1 } };
	struct ibv_srq_attr change = { .max_wr = 100, .srq_limit = 5 };
	struct ibv_srq *srq, *other;
	uint32_t number = 0;

	attr.srq_context = &attr;
	PTR(srq, ibv_create_srq(pd, &attr));
	if (srq) {
		printf("  handle %x context %d pd %d max_wr %u\n", srq->handle, srq->srq_context == &attr,
		       srq->pd == pd, attr.attr.max_wr);
		INT(ibv_modify_srq(srq, &change, IBV_SRQ_LIMIT));
		INT(ibv_modify_srq(srq, &change, IBV_SRQ_MAX_WR));
		INT(ibv_query_srq(srq, &change));
		printf("  %u %u %u\n", change.max_wr, change.max_sge, change.srq_limit);
		INT(ibv_get_srq_num(srq, &number));
		printf("  number %x\n", number);
	}
	ex.srq_type = IBV_SRQT_BASIC;
	ex.pd = pd;
	ex.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
	PTR(other, ibv_create_srq_ex(ctx, &ex));
	DESTROY(ibv_destroy_srq, other);
	if (xrcd) {
		ex.srq_type = IBV_SRQT_XRC;
		ex.xrcd = xrcd;
		ex.cq = cq;
		ex.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD |
			       IBV_SRQ_INIT_ATTR_CQ;
		PTR(other, ibv_create_srq_ex(ctx, &ex));
		if (other) {
			INT(ibv_get_srq_num(other, &number));
			INT(ibv_destroy_srq(other));
		}
	}
	ex.srq_type = IBV_SRQT_TM;
	ex.cq = cq;
	ex.tm_cap.max_num_tags = 8;
	ex.tm_cap.max_ops = 8;
	ex.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ |
		       IBV_SRQ_INIT_ATTR_TM;
	PTR(other, ibv_create_srq_ex(ctx, &ex));
	DESTROY(ibv_destroy_srq, other);
	ex.comp_mask = 1 << 20;
	PTR(other, ibv_create_srq_ex(ctx, &ex));
	DESTROY(ibv_destroy_srq, other);
	attr.attr.max_wr = ~0u;
	PTR(other, ibv_create_srq(pd, &attr));
	DESTROY(ibv_destroy_srq, other);
	return srq;
}

static void show_qp(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	FILL(init);
	FILL(attr);
	INT(ibv_query_qp(qp, &attr, IBV_QP_STATE | IBV_QP_CAP | IBV_QP_AV, &init));
	SHOW(attr);
	SHOW(init);
}

/* Moves the QP through all states that its type has. */
static void walk_states(struct ibv_qp *qp, enum ibv_qp_type type)
{
	const int connected = type == IBV_QPT_RC || type == IBV_QPT_UC || type == IBV_QPT_XRC_SEND ||
			      type == IBV_QPT_XRC_RECV;
	const int reliable = connected && type != IBV_QPT_UC;
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 0x11111111, .qp_access_flags = 7
	};
	union ibv_gid gid = { .raw = { 0xfe, 0x80, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0xff, 0xfe, 0, 9, 1 } };

	INT(ibv_modify_qp(qp, &attr,
			  IBV_QP_STATE | IBV_QP_PORT | (type == IBV_QPT_RAW_PACKET ? 0 : IBV_QP_PKEY_INDEX) |
				  (type == IBV_QPT_UD ? IBV_QP_QKEY
				   : connected        ? IBV_QP_ACCESS_FLAGS
						      : 0)));
	printf("  state %d\n", qp->state);
	attr.qp_state = IBV_QPS_RTR;
	attr.path_mtu = IBV_MTU_1024;
	attr.dest_qp_num = 0x77;
	attr.rq_psn = 0x123;
	attr.max_dest_rd_atomic = 1;
	attr.min_rnr_timer = 12;
	attr.ah_attr = (struct ibv_ah_attr){
		.is_global = 1,
		.port_num = 1,
		.dlid = 3,
		.sl = 1,
		.grh = { .dgid = gid, .hop_limit = 64, .sgid_index = 0, .flow_label = 5, .traffic_class = 6 }
	};
	INT(ibv_modify_qp(qp, &attr,
			  IBV_QP_STATE |
				  (connected ? IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN
					     : 0) |
				  (reliable ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0)));
	printf("  state %d\n", qp->state);
	attr.qp_state = IBV_QPS_RTS;
	attr.timeout = 14;
	attr.retry_cnt = 7;
	attr.rnr_retry = 7;
	attr.sq_psn = 0x456;
	attr.max_rd_atomic = 1;
	INT(ibv_modify_qp(qp, &attr,
			  IBV_QP_STATE | (type == IBV_QPT_RAW_PACKET ? 0 : IBV_QP_SQ_PSN) |
				  (reliable ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
						      IBV_QP_MAX_QP_RD_ATOMIC
					    : 0)));
	printf("  state %d\n", qp->state);
	show_qp(qp);
	attr.rate_limit = 1000;
	INT(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_RATE_LIMIT));
	INT(ibv_modify_qp(qp, &attr, 1 << 30));
	attr.alt_ah_attr = attr.ah_attr;
	attr.alt_port_num = 1;
	attr.path_mig_state = IBV_MIG_REARM;
	INT(ibv_modify_qp(qp, &attr, IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE));
	attr.qp_state = IBV_QPS_SQD;
	attr.en_sqd_async_notify = 1;
	INT(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY));
	attr.qp_state = IBV_QPS_ERR;
	INT(ibv_modify_qp(qp, &attr, IBV_QP_STATE));
	attr.qp_state = IBV_QPS_RESET;
	INT(ibv_modify_qp(qp, &attr, IBV_QP_STATE));
	printf("  state %d\n", qp->state);
}

static void walk_events(struct ibv_qp *qp)
{
	struct {
		uint64_t element;
		uint32_t type, reserved;
	} desc = { (uintptr_t)qp, IBV_EVENT_COMM_EST, 0 };
	struct ibv_async_event event;

	if (walk_push && !walk_push(ctx->async_fd, &desc, sizeof(desc))) {
		FILL(event);
		INT(ibv_get_async_event(ctx, &event));
		printf("  type %d same qp %d\n", event.event_type, event.element.qp == qp);
		VOID(ibv_ack_async_event(&event));
		printf("  completed %u\n", qp->events_completed);
		walk_reported(0, 1);
	}
}

static void walk_qps(struct ibv_srq *srq, struct ibv_xrcd *xrcd)
{
	static const enum ibv_qp_type types[] = { IBV_QPT_RC,         IBV_QPT_UC,       IBV_QPT_UD,
						  IBV_QPT_RAW_PACKET, IBV_QPT_XRC_SEND, 77 };
	union ibv_gid gid = { .raw = { 0xff, 0x12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1 } };
	struct ibv_ece ece = { .vendor_id = 0 };
	struct ibv_qp *qp;

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		struct ibv_qp_init_attr attr = { .send_cq = cq,
						 .recv_cq = cq,
						 .qp_type = types[i],
						 .cap = { 16, 16, 1, 1, 32 },
						 .sq_sig_all = 1,
						 .qp_context = &gid };

		printf("qp type %d\n", types[i]);
		PTR(qp, ibv_create_qp(pd, &attr));
		if (!qp)
			continue;
		printf("  num %x handle %x state %d type %d context %d cap %u %u %u %u %u\n", qp->qp_num,
		       qp->handle, qp->state, qp->qp_type, qp->qp_context == &gid, attr.cap.max_send_wr,
		       attr.cap.max_recv_wr, attr.cap.max_send_sge, attr.cap.max_recv_sge,
		       attr.cap.max_inline_data);
		if (types[i] == IBV_QPT_UD) {
			INT(ibv_attach_mcast(qp, &gid, 0));
			INT(ibv_detach_mcast(qp, &gid, 0));
		}
		INT(ibv_query_ece(qp, &ece));
		INT(ibv_set_ece(qp, &ece));
		ece.vendor_id = 0x15b3;
		INT(ibv_set_ece(qp, &ece));
		ece.vendor_id = 0;
		INT(ibv_query_qp_data_in_order(qp, IBV_WR_RDMA_WRITE, 0));
		INT(ibv_qp_to_qp_ex(qp) != NULL);
		walk_states(qp, types[i]);
		if (types[i] == IBV_QPT_RC)
			walk_events(qp);
		INT(ibv_destroy_qp(qp));
		if (walk_reported)
			walk_reported(0, 0);
	}
	if (srq) {
		struct ibv_qp_init_attr attr = { .send_cq = cq,
						 .recv_cq = cq,
						 .srq = srq,
						 .qp_type = IBV_QPT_RC,
						 .cap = { 16, 0, 1, 0, 0 } };

		PTR(qp, ibv_create_qp(pd, &attr));
		DESTROY(ibv_destroy_qp, qp);
	}
	for (size_t i = 0; i < 10; i++) {
		struct ibv_qp_init_attr_ex attr = { .send_cq = cq,
						    .recv_cq = cq,
						    .pd = pd,
						    .qp_type = i % 2 ? IBV_QPT_RC : IBV_QPT_UD,
						    .cap = { 16, 16, 1, 1, 0 },
						    .comp_mask = IBV_QP_INIT_ATTR_PD };

		printf("qp_ex %zu\n", i);
		switch (i) {
		case 2:
		case 3:
			attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
			attr.send_ops_flags = IBV_QP_EX_WITH_SEND;
			break;
		case 4:
			attr.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
			attr.create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB;
			break;
		case 5:
			attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
			attr.send_ops_flags = ~0ull;
			break;
		case 6:
			attr.comp_mask |= IBV_QP_INIT_ATTR_RX_HASH;
			break;
		case 7:
			attr.qp_type = IBV_QPT_XRC_RECV;
			attr.comp_mask = IBV_QP_INIT_ATTR_XRCD;
			attr.xrcd = xrcd;
			break;
		case 8:
			attr.comp_mask |= 1u << 31;
			break;
		case 9:
			attr.comp_mask |= IBV_QP_INIT_ATTR_MAX_TSO_HEADER;
			attr.max_tso_header = 64;
			break;
		}
		if (i == 7 && !xrcd)
			continue;
		PTR(qp, ibv_create_qp_ex(ctx, &attr));
		if (!qp)
			continue;
		INT(ibv_qp_to_qp_ex(qp) != NULL);
		if (i == 7) {
			struct ibv_qp_open_attr open_attr = {
				.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD |
					     IBV_QP_OPEN_ATTR_CONTEXT | IBV_QP_OPEN_ATTR_TYPE,
				.qp_num = qp->qp_num,
				.xrcd = xrcd,
				.qp_type = IBV_QPT_XRC_RECV,
			};
			struct ibv_qp *opened;

			walk_states(qp, IBV_QPT_XRC_RECV);
			PTR(opened, ibv_open_qp(ctx, &open_attr));
			/* Not destroyed: mlx5 of rdma-core 44 crashes on that. */
			printf("  opened %d\n", opened && opened->qp_num == qp->qp_num);
		}
		INT(ibv_destroy_qp(qp));
	}
}

static void walk_ahs(void)
{
	struct ibv_ah_attr attr = { .dlid = 3, .sl = 1, .port_num = 1 };
	struct ibv_wc wc = { .wc_flags = IBV_WC_GRH, .slid = 4, .sl = 2 };
	struct ibv_grh grh = { .version_tclass_flow = htobe32(6u << 28), .hop_limit = 3 };
	struct ibv_ah *ah;

	PTR(ah, ibv_create_ah(pd, &attr));
	DESTROY(ibv_destroy_ah, ah);
	attr.is_global = 1;
	attr.grh.hop_limit = 64;
	inet_pton(AF_INET6, "fe80::200:ff:fe00:901", &attr.grh.dgid);
	PTR(ah, ibv_create_ah(pd, &attr));
	if (ah)
		printf("  context %d pd %d\n", ah->context == ctx, ah->pd == pd);
	DESTROY(ibv_destroy_ah, ah);
	inet_pton(AF_INET6, "ff0e::1", &attr.grh.dgid);
	PTR(ah, ibv_create_ah(pd, &attr));
	DESTROY(ibv_destroy_ah, ah);
	attr.port_num = 9;
	PTR(ah, ibv_create_ah(pd, &attr));
	DESTROY(ibv_destroy_ah, ah);
	ibv_query_gid(ctx, 1, 1, &grh.dgid);
	inet_pton(AF_INET6, "fe80::200:ff:fe00:902", &grh.sgid);
	/* A GRH with an unknown next header, that of RoCE v2, and that of InfiniBand. */
	FILL(attr);
	INT(ibv_init_ah_from_wc(ctx, 1, &wc, &grh, &attr));
	SHOW(attr);
	grh.next_hdr = IPPROTO_UDP;
	FILL(attr);
	INT(ibv_init_ah_from_wc(ctx, 1, &wc, &grh, &attr));
	SHOW(attr);
	grh.next_hdr = 0x1b;
	FILL(attr);
	INT(ibv_init_ah_from_wc(ctx, 1, &wc, &grh, &attr));
	SHOW(attr);
	grh.next_hdr = IPPROTO_UDP;
	PTR(ah, ibv_create_ah_from_wc(pd, &wc, &grh, 1));
	DESTROY(ibv_destroy_ah, ah);
	inet_pton(AF_INET6, "fe80::dead", &grh.dgid);
	INT(ibv_init_ah_from_wc(ctx, 1, &wc, &grh, &attr));
	wc.wc_flags = 0;
	FILL(attr);
	INT(ibv_init_ah_from_wc(ctx, 1, &wc, &grh, &attr));
	SHOW(attr);
}

static void walk_rest(void)
{
	struct ibv_wq_init_attr wq_attr = {
		.wq_type = IBV_WQT_RQ, .max_wr = 16, .max_sge = 1, .pd = pd, .cq = cq
	};
	struct ibv_wq_attr change = { .attr_mask = IBV_WQ_ATTR_STATE, .wq_state = IBV_WQS_RDY };
	struct ibv_counters_init_attr counters_attr = { 0 };
	struct ibv_counter_attach_attr attach = { .counter_desc = IBV_COUNTER_PACKETS };
	struct ibv_qp_init_attr qp_attr = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RAW_PACKET, .cap = { 16, 16, 1, 1, 0 }
	};
	struct {
		struct ibv_flow_attr attr;
		struct ibv_flow_spec_eth eth;
		struct ibv_flow_spec_ipv4 ip;
	} rule = {
		.attr = { .type = IBV_FLOW_ATTR_NORMAL, .size = sizeof(rule), .num_of_specs = 2, .port = 1 },
		.eth = { .type = IBV_FLOW_SPEC_ETH,
			 .size = sizeof(rule.eth),
			 .val = { .dst_mac = { 2, 0, 0, 0, 0, 1 }, .ether_type = htobe16(0x800) },
			 .mask = { .dst_mac = { 255, 255, 255, 255, 255, 255 }, .ether_type = 0xffff } },
		.ip = { .type = IBV_FLOW_SPEC_IPV4,
			.size = sizeof(rule.ip),
			.val = { .dst_ip = htobe32(0x0a000001) },
			.mask = { .dst_ip = 0xffffffff } },
	};
	struct ibv_counters *counters;
	struct ibv_flow *flow;
	struct ibv_wq *wq;
	struct ibv_qp *qp;
	uint64_t values[2] = { 0 };

	PTR(wq, ibv_create_wq(ctx, &wq_attr));
	if (wq) {
		struct ibv_wq *wqs[2] = { wq, wq };
		struct ibv_rwq_ind_table_init_attr table_attr = { .log_ind_tbl_size = 1, .ind_tbl = wqs };
		struct ibv_rwq_ind_table *table;

		printf("  num %x handle %x state %d\n", wq->wq_num, wq->handle, wq->state);
		INT(ibv_modify_wq(wq, &change));
		printf("  state %d\n", wq->state);
		PTR(table, ibv_create_rwq_ind_table(ctx, &table_attr));
		if (table) {
			uint8_t key[40] = { 1, 2, 3 };
			struct ibv_qp_init_attr_ex rss = {
				.qp_type = IBV_QPT_RAW_PACKET,
				.pd = pd,
				.rwq_ind_tbl = table,
				.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE |
					     IBV_QP_INIT_ATTR_RX_HASH,
				.rx_hash_conf = { .rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ,
						  .rx_hash_key_len = 40,
						  .rx_hash_key = key,
						  .rx_hash_fields_mask = IBV_RX_HASH_DST_IPV4 },
			};

			PTR(qp, ibv_create_qp_ex(ctx, &rss));
			DESTROY(ibv_destroy_qp, qp);
			INT(ibv_destroy_rwq_ind_table(table));
		}
		INT(ibv_destroy_wq(wq));
	}
	PTR(counters, ibv_create_counters(ctx, &counters_attr));
	if (counters) {
		INT(ibv_attach_counters_point_flow(counters, &attach, NULL));
		INT(ibv_read_counters(counters, values, 2, 0));
		INT(ibv_destroy_counters(counters));
	}
	qp_attr.qp_type = IBV_QPT_RAW_PACKET;
	qp = ibv_create_qp(pd, &qp_attr);
	if (qp) {
		PTR(flow, ibv_create_flow(qp, &rule.attr));
		DESTROY(ibv_destroy_flow, flow);
		rule.attr.num_of_specs = 1;
		rule.eth.size = 3;
		PTR(flow, ibv_create_flow(qp, &rule.attr));
		DESTROY(ibv_destroy_flow, flow);
		rule.eth.size = sizeof(rule.eth);
		rule.eth.type = 0x777;
		PTR(flow, ibv_create_flow(qp, &rule.attr));
		DESTROY(ibv_destroy_flow, flow);
		ibv_destroy_qp(qp);
	}
}

int main(int argc, char **argv)
{
	struct ibv_xrcd_init_attr xrcd_attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = O_CREAT
	};
	struct ibv_context *imported;
	struct ibv_async_event event;
	struct ibv_device **list, *dev;
	struct ibv_xrcd *xrcd;
	struct ibv_srq *srq;

	if (argc < 2)
		return 2;
	walk_init();
	if (!strcmp(argv[1], "--strings")) {
		walk_strings();
		return 0;
	}
	PTR(list, ibv_get_device_list(NULL));
	dev = find(list, argv[1]);
	if (!dev) {
		printf("no device %s\n", argv[1]);
		return 1;
	}
	PTR(ctx, ibv_open_device(dev));
	if (!ctx)
		return 1;
	printf("  num_comp_vectors %d\n", ctx->num_comp_vectors);
	VOID(ibv_free_device_list(list));
	if (posix_memalign((void **)&buf, 4096, LEN))
		return 1;
	walk_queries();
	PTR(pd, ibv_alloc_pd(ctx));
	PTR(pd2, ibv_alloc_pd(ctx));
	if (!pd || !pd2)
		return 1;
	printf("  handles %x %x context %d\n", pd->handle, pd2->handle, pd->context == ctx);
	walk_pds();
	walk_memory();
	walk_cqs();
	PTR(cq, ibv_create_cq(ctx, 64, NULL, NULL, 0));
	PTR(xrcd, ibv_open_xrcd(ctx, &xrcd_attr));
	if (cq) {
		srq = walk_srqs(xrcd);
		walk_qps(srq, xrcd);
		walk_rest();
		DESTROY(ibv_destroy_srq, srq);
	}
	DESTROY(ibv_close_xrcd, xrcd);
	walk_ahs();
	INT(fcntl(ctx->async_fd, F_SETFL, O_NONBLOCK));
	INT(ibv_get_async_event(ctx, &event));
	PTR(imported, ibv_import_device(ctx->cmd_fd));
	PTR(imported, ibv_import_device(0));
	PTR(imported, ibv_import_device(-1));
	DESTROY(ibv_destroy_cq, cq);
	INT(ibv_dealloc_pd(pd2));
	INT(ibv_dealloc_pd(pd));
	INT(ibv_fork_init());
	INT(ibv_is_fork_initialized());
	INT(ibv_close_device(ctx));
	free(buf);
	return 0;
}
