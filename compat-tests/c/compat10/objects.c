/* compat10: devices and objects, from open to close. */
#include "compat10.h"

#include <endian.h>
#include <stdlib.h>

static struct v10_device *find(struct v10_device **list, const char *name)
{
	for (; *list; list++)
		if (!strcmp(v10_get_device_name(*list), name))
			return *list;
	return NULL;
}

void open_it(const char *name)
{
	struct v10_device **list, *device;
	int n = -1, i;

	PTR(list, v10_get_device_list(&n));
	NUM(n);
	if (!list)
		exit(2);
	for (i = 0; list[i]; i++)
		printf("  %s %016llx\n", v10_get_device_name(list[i]),
		       (unsigned long long)be64toh(v10_get_device_guid(list[i])));
	YES(i == n);
	device = find(list, name);
	if (!device) {
		printf("no device %s\n", name);
		exit(2);
	}
	PTR(context, v10_open_device(device));
	if (!context)
		exit(2);
	YES(context->device == device);
	VOID(v10_free_device_list(list));
	PTR(list, v10_get_device_list(NULL));
	if (list)
		VOID(v10_free_device_list(list));
}

void queries(void)
{
	struct ibv_device_attr attr;
	union {
		struct ibv_port_attr attr;
		char bytes[2 * sizeof(struct ibv_port_attr)];
	} p;
	char head[V10_PORT_ATTR_LEN];
	uint16_t pkey;

	FILL(attr);
	INT(v10_query_device(context, &attr));
	SHOW(attr);
	FILL(p);
	INT(v10_query_port(context, PORT, &p));
	memcpy(head, &p, sizeof(head));
	SHOW(head);
	if (extra)
		for (int i = V10_PORT_ATTR_LEN; i < (int)sizeof(p); i++)
			if (p.bytes[i] != (char)0xa5 || i + 1 == sizeof(p)) {
				MUST(i + 1 == sizeof(p));
				break;
			}
	INT(v10_query_port(context, 99, &p));
	for (int i = 0; i < 3; i++) {
		FILL(gid);
		INT(v10_query_gid(context, PORT, i, &gid));
		SHOW(gid);
	}
	/* errno depends on which call the library made last. */
	NUM(v10_query_gid(context, PORT, 100000, &gid));
	NUM(v10_query_gid(context, 99, 0, &gid));
	INT(v10_query_gid(context, PORT, gid_index, &gid));
	FILL(pkey);
	INT(v10_query_pkey(context, PORT, 0, &pkey));
	SHOW(pkey);
	NUM(v10_query_pkey(context, PORT, 100000, &pkey));
	NUM(v10_query_pkey(context, 99, 0, &pkey));
}

static void show_qp(struct v10_qp *qp, void *of_it)
{
	struct v10_qp_init_attr init;
	struct ibv_qp_attr attr;

	/* The provider may return any part of it. */
	FILL(init);
	memset(&attr, 0, sizeof(attr));
	INT(v10_query_qp(qp, &attr, IBV_QP_STATE | IBV_QP_CAP | IBV_QP_AV, &init));
	NUM(attr.qp_state);
	NUM(attr.cur_qp_state);
	NUM(attr.path_mtu);
	NUM(attr.rq_psn);
	NUM(attr.sq_psn);
	NUM(attr.qp_access_flags);
	NUM(attr.timeout);
	NUM(attr.retry_cnt);
	NUM(attr.min_rnr_timer);
	YES(init.qp_context == of_it);
	YES(init.send_cq == qp->send_cq);
	YES(init.recv_cq == qp->recv_cq);
	YES(init.srq == qp->srq);
	SHOW(init.cap);
	NUM(init.qp_type);
	NUM(init.sq_sig_all);
	if (extra)
		MUST(qp->state == attr.qp_state);
}

static struct v10_qp *make_qp(enum ibv_qp_type type, struct v10_srq *from, void *of_it)
{
	struct v10_qp_init_attr init = {
		.qp_context = of_it,
		.send_cq = send_cq,
		.recv_cq = recv_cq,
		.srq = from,
		.cap = { DEPTH, DEPTH, 2, 2, 0 },
		.qp_type = type,
		.sq_sig_all = 1,
	};
	struct v10_qp *qp;

	PTR(qp, v10_create_qp(pd, &init));
	if (!qp)
		return NULL;
	SHOW(init.cap);
	YES(qp->context == context);
	YES(qp->qp_context == of_it);
	YES(qp->pd == pd);
	YES(qp->send_cq == send_cq);
	YES(qp->recv_cq == recv_cq);
	YES(qp->srq == from);
	YES(qp->qp_num == qp->today->qp_num);
	NUM(qp->qp_type);
	if (extra)
		MUST(qp->state == IBV_QPS_RESET);
	return qp;
}

void objects(void)
{
	struct ibv_srq_init_attr init = { .srq_context = &of_srq, .attr = { DEPTH, 2, 0 } };
	struct ibv_srq_attr attr;
	struct v10_mr *none;
	struct v10_cq *no_cq;
	struct v10_qp *no_qp;

	PTR(pd, v10_alloc_pd(context));
	YES(pd->context == context);
	PTR(mr, v10_reg_mr(pd, buf, sizeof(buf),
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				   IBV_ACCESS_REMOTE_ATOMIC));
	YES(mr->context == context);
	YES(mr->pd == pd);
	if (moves_data) {
		YES(mr->lkey != 0);
		YES(mr->rkey == mr->lkey);
		PTR(none, v10_reg_mr(pd, NULL, LEN, IBV_ACCESS_LOCAL_WRITE));
		PTR(none, v10_reg_mr(pd, buf, LEN, IBV_ACCESS_REMOTE_WRITE));
		PTR(no_cq, v10_create_cq(context, 0, NULL, NULL, 0));
		PTR(no_cq, v10_create_cq(context, 1 << 30, NULL, NULL, 0));
		PTR(no_cq, v10_create_cq(context, 1, NULL, NULL, 1000000));
	}

	if (extra)
		PTR(channel, v10_create_comp_channel(context));
	else
		PTR(channel, v10_create_comp_channel(context->today));
	if (!channel)
		exit(2);
	if (extra) {
		MUST(channel->context == context->today);
		MUST(channel->fd >= 0);
		MUST(context->cmd_fd == context->today->cmd_fd);
		MUST(context->async_fd == context->today->async_fd);
		MUST(context->num_comp_vectors == context->today->num_comp_vectors);
	}
	PTR(send_cq, v10_create_cq(context, 2 * DEPTH, NULL, NULL, 0));
	PTR(recv_cq, v10_create_cq(context, 2 * DEPTH, &of_recv_cq, channel, 0));
	YES(recv_cq->context == context);
	YES(recv_cq->cq_context == &of_recv_cq);
	YES(recv_cq->today->cq_context == recv_cq);
	NUM(recv_cq->cqe);
	INT(v10_resize_cq(recv_cq, 4 * DEPTH));
	NUM(recv_cq->cqe);
	if (moves_data)
		INT(v10_resize_cq(recv_cq, 1 << 30));

	PTR(srq, v10_create_srq(pd, &init));
	if (srq) {
		YES(srq->context == context);
		YES(srq->srq_context == &of_srq);
		YES(srq->pd == pd);
		YES(init.srq_context == &of_srq);
		SHOW(init.attr);
		FILL(attr);
		INT(v10_query_srq(srq, &attr));
		SHOW(attr);
		attr.srq_limit = 1 << 30;
		INT(v10_modify_srq(srq, &attr, IBV_SRQ_LIMIT));
	}
	if (moves_data) {
		struct v10_qp_init_attr huge = {
			.send_cq = send_cq,
			.recv_cq = recv_cq,
			.cap = { 1 << 30, 1, 1, 1, 0 },
			.qp_type = IBV_QPT_RC,
		};

		PTR(no_qp, v10_create_qp(pd, &huge));
	}
	a = make_qp(IBV_QPT_RC, NULL, &of_a);
	b = make_qp(IBV_QPT_RC, srq, &of_b);
	ud = make_qp(IBV_QPT_UD, NULL, &of_ud);
	if (b && srq)
		show_qp(b, &of_b);
	if (a && extra)
		show_qp(a, &of_a);
	if (!a || !b || !ud || !srq)
		exit(1);
}

/* Moves qp to RTS; connects it with peer unless that is NULL. */
void connect_qp(struct v10_qp *qp, struct v10_qp *peer)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = PORT,
		.qkey = QKEY,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				   IBV_ACCESS_REMOTE_ATOMIC,
	};
	int init = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
	int rtr = IBV_QP_STATE, rts = IBV_QP_STATE | IBV_QP_SQ_PSN;

	/* An invalid transition. */
	if (moves_data) {
		struct ibv_qp_attr early = { .qp_state = IBV_QPS_RTS };

		INT(v10_modify_qp(qp, &early, IBV_QP_STATE));
		if (extra)
			MUST(qp->state == IBV_QPS_RESET);
	}
	init |= peer ? IBV_QP_ACCESS_FLAGS : IBV_QP_QKEY;
	INT(v10_modify_qp(qp, &attr, init));
	if (extra)
		MUST(qp->state == IBV_QPS_INIT);
	attr.qp_state = IBV_QPS_RTR;
	if (peer) {
		rtr |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
		attr.path_mtu = IBV_MTU_1024;
		attr.dest_qp_num = peer->qp_num;
		attr.rq_psn = 100;
		attr.max_dest_rd_atomic = 1;
		attr.min_rnr_timer = 1;
		attr.ah_attr.is_global = 1;
		attr.ah_attr.grh.dgid = gid;
		attr.ah_attr.grh.sgid_index = gid_index;
		attr.ah_attr.grh.hop_limit = 1;
		attr.ah_attr.port_num = PORT;
	}
	INT(v10_modify_qp(qp, &attr, rtr));
	attr.qp_state = IBV_QPS_RTS;
	attr.sq_psn = 100;
	if (peer) {
		rts |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
		attr.timeout = 14;
		attr.retry_cnt = 7;
		attr.rnr_retry = 7;
		attr.max_rd_atomic = 1;
	}
	INT(v10_modify_qp(qp, &attr, rts));
	if (extra)
		MUST(qp->state == IBV_QPS_RTS);
}

/*
 * Sets the event counts that the next destroy command returns: destroying waits until as many are
 * acknowledged. A real kernel counts them itself.
 */
static void reported(uint32_t completion_events, uint32_t async_events)
{
	if (walk_reported)
		walk_reported(completion_events, async_events);
}

void clean_up(void)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	if (moves_data) {
		INT(v10_dealloc_pd(pd));
		INT(v10_destroy_cq(recv_cq));
		INT(v10_destroy_srq(srq));
	}
	if (ah)
		INT(v10_destroy_ah(ah));
	INT(v10_modify_qp(a, &attr, IBV_QP_STATE));
	if (extra)
		MUST(a->state == IBV_QPS_ERR);
	show_qp(b, &of_b);
	reported(0, 1);
	INT(v10_destroy_qp(a));
	INT(v10_destroy_qp(b));
	INT(v10_destroy_srq(srq));
	reported(0, 0);
	INT(v10_destroy_qp(ud));
	INT(v10_destroy_cq(send_cq));
	reported(1, 1);
	INT(v10_destroy_cq(recv_cq));
	INT(ibv_destroy_comp_channel(channel));
	INT(v10_dereg_mr(mr));
	INT(v10_dealloc_pd(pd));
	INT(v10_close_device(context));
}
