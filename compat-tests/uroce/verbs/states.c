/* QP states and attributes. */
#include "check.h"

static void values(struct rig *rig)
{
	struct ibv_qp *qp = make_qp(rig, IBV_QPT_RC, 0, NULL);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 2 };
	const int init = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;

	CHECK(ibv_modify_qp(qp, &attr, init) == EINVAL);
	attr.port_num = PORT;
	attr.pkey_index = 1;
	CHECK(ibv_modify_qp(qp, &attr, init) == EINVAL);
	attr.pkey_index = 0;
	CHECK(ibv_modify_qp(qp, &attr, init & ~IBV_QP_PORT) == EINVAL);
	CHECK(ibv_modify_qp(qp, &attr, init | IBV_QP_QKEY) == EINVAL);
	CHECK(ibv_modify_qp(qp, &attr, init | IBV_QP_DEST_QPN << 1) == EOPNOTSUPP);
	CHECK(ibv_modify_qp(qp, &attr, init | IBV_QP_RATE_LIMIT) == EOPNOTSUPP);
	CHECK(qp->state == IBV_QPS_RESET);
	CHECK(to_rtr(rig, qp, 1) == EINVAL);
	CHECK(to_rts(qp) == EINVAL);
	CHECK(ibv_modify_qp(qp, &attr, init) == 0);
	CHECK(qp->state == IBV_QPS_INIT);
	CHECK(ibv_modify_qp(qp, &attr, init) == 0);
	CHECK(to_rts(qp) == EINVAL);
	rig->gid_index += 100;
	CHECK(to_rtr(rig, qp, 1) == EINVAL);
	rig->gid_index -= 100;
	CHECK(to_rtr(rig, qp, 1) == 0);
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .timeout = 32 };
	CHECK(ibv_modify_qp(qp, &attr, RTS_MASK) == EINVAL);
	attr.timeout = 1;
	attr.max_rd_atomic = 129;
	CHECK(ibv_modify_qp(qp, &attr, RTS_MASK) == EINVAL);
	CHECK(to_rts(qp) == 0);
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .cur_qp_state = IBV_QPS_SQD };
	CHECK(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_CUR_STATE) == EINVAL);
	attr.qp_state = 77;
	CHECK(ibv_modify_qp(qp, &attr, IBV_QP_STATE) == EINVAL);
}

static void queried(struct rig *rig)
{
	struct ibv_qp *qp = make_qp(rig, IBV_QPT_RC, 0, NULL);
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	join(rig, qp, qp);
	NEED(ibv_query_qp(qp, &attr, IBV_QP_RATE_LIMIT - 1, &init) == 0);
	CHECK(attr.qp_state == IBV_QPS_RTS && attr.cur_qp_state == IBV_QPS_RTS);
	CHECK(attr.path_mtu == IBV_MTU_1024 && attr.dest_qp_num == qp->qp_num);
	CHECK(attr.rq_psn == 0xfffffe && attr.sq_psn == 0xfffffe);
	CHECK(attr.timeout == 14 && attr.retry_cnt == 3 && attr.rnr_retry == 3 && attr.min_rnr_timer == 1);
	CHECK(attr.max_rd_atomic == 4 && attr.max_dest_rd_atomic == 4 && attr.port_num == PORT);
	CHECK(attr.ah_attr.is_global && attr.ah_attr.grh.sgid_index == rig->gid_index);
	CHECK(!memcmp(&attr.ah_attr.grh.dgid, &rig->gid, 16));
	CHECK(attr.qp_access_flags == (ALL_ACCESS & ~IBV_ACCESS_MW_BIND));
	CHECK(attr.cap.max_send_wr >= 16 && attr.cap.max_inline_data >= 64);
	CHECK(init.qp_type == IBV_QPT_RC && init.sq_sig_all == 1 && init.qp_context == rig &&
	      init.send_cq == rig->cq);
	/* Five bits, as in an RNR NAK: programs set 32, and drivers take its lower bits. */
	for (int bits = 0; bits < 256; bits += 32) {
		attr = (struct ibv_qp_attr){ .min_rnr_timer = bits | 5 };
		CHECK(ibv_modify_qp(qp, &attr, IBV_QP_MIN_RNR_TIMER) == 0);
		NEED(ibv_query_qp(qp, &attr, IBV_QP_MIN_RNR_TIMER, &init) == 0);
		CHECK(attr.min_rnr_timer == 5);
	}
}

static int move(struct ibv_qp *qp, enum ibv_qp_state state, int more)
{
	struct ibv_qp_attr attr = { .qp_state = state, .en_sqd_async_notify = 1 };

	return ibv_modify_qp(qp, &attr, IBV_QP_STATE | more);
}

/* The send queue is drained, the event is reported, and it continues. */
static void drained(struct rig *rig)
{
	struct ibv_qp *qp = make_qp(rig, IBV_QPT_RC, 0, NULL);

	join(rig, qp, qp);
	CHECK(move(qp, IBV_QPS_SQD, IBV_QP_EN_SQD_ASYNC_NOTIFY) == 0);
	CHECK(next_event(rig) == IBV_EVENT_SQ_DRAINED);
	CHECK(post(qp, rig, IBV_WR_RDMA_WRITE, 0, 8, 64, rig->mr->rkey) == 0);
	usleep(20000);
	CHECK(ibv_poll_cq(rig->cq, 0, NULL) == 0);
	CHECK(move(qp, IBV_QPS_RTS, 0) == 0);
	CHECK(next_wc(rig->cq).status == IBV_WC_SUCCESS);
}

/* Everything queued is flushed in order, also what is posted later; a reset discards it. */
static void flushed(struct rig *rig)
{
	struct ibv_qp *qp = make_qp(rig, IBV_QPT_RC, 0, NULL);
	struct ibv_wc wc;

	join(rig, qp, qp);
	for (int i = 0; i < 4; i++)
		CHECK(post_recv(qp, rig, 100 + i, 0, 8) == 0);
	CHECK(move(qp, IBV_QPS_ERR, 0) == 0);
	for (int i = 0; i < 4; i++) {
		wc = next_wc(rig->cq);
		CHECK(wc.status == IBV_WC_WR_FLUSH_ERR && wc.wr_id == 100u + i && wc.qp_num == qp->qp_num);
	}
	CHECK(post(qp, rig, IBV_WR_SEND, 0, 8, 0, 0) == 0);
	CHECK(next_wc(rig->cq).status == IBV_WC_WR_FLUSH_ERR);
	CHECK(post_recv(qp, rig, 7, 0, 8) == 0);
	CHECK(next_wc(rig->cq).status == IBV_WC_WR_FLUSH_ERR);
	CHECK(move(qp, IBV_QPS_RTS, 0) == EINVAL);
	CHECK(post_recv(qp, rig, 8, 0, 8) == 0);
	CHECK(move(qp, IBV_QPS_RESET, 0) == 0);
	CHECK(ibv_poll_cq(rig->cq, 1, &wc) == 0);
	join(rig, qp, qp);
	CHECK(post(qp, rig, IBV_WR_RDMA_WRITE, 0, 8, 64, rig->mr->rkey) == 0);
	CHECK(next_wc(rig->cq).status == IBV_WC_SUCCESS);
}

const check_part states_parts[] = { values, queried, drained, flushed, NULL };
