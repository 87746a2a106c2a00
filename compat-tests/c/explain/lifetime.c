/* Objects that are destroyed too early, too late, or by another process; and a scene without a mistake. */
#include "scenes.h"

#include <sys/wait.h>

static void busy(struct rig *rig)
{
	struct ibv_comp_channel *channel = KEEP(ibv_create_comp_channel(rig->context));
	struct ibv_cq *cq;

	NEED(channel && (cq = KEEP(ibv_create_cq(rig->context, 16, NULL, channel, 0))));
	CHECK(ibv_dealloc_pd(rig->pd) == EBUSY);
	CHECK(ibv_destroy_comp_channel(channel) == EBUSY);
}

/* The peer has no receive, so the request is outstanding. */
static void mr_in_use(struct rig *rig)
{
	struct ibv_mr *mr = KEEP(ibv_reg_mr(rig->pd, rig->buf, SIZE, 0));
	struct ibv_qp *a, *b;
	struct ibv_wc wc;

	NEED(mr);
	connected(rig, &a, &b);
	CHECK(ibv_poll_cq(rig->cq, 1, &wc) == 0);
	NEED(send_to(a, (struct ibv_sge){ (uintptr_t)rig->buf, 8, mr->lkey }, IBV_WR_SEND, 0, 0) == 0);
	CHECK(end(mr) == 0);
}

static void ah_in_use(struct rig *rig)
{
	struct ibv_ah *ah = new_ah(rig, rig->gid);
	struct ibv_qp *qp = make_qp(rig, IBV_QPT_UD, 0, NULL);
	struct ibv_wc wc;

	NEED(to_init(qp) == 0 && to_rtr(rig, qp, 0) == 0 && to_rts(qp) == 0);
	NEED(datagram(qp, ah, qp->qp_num + 1, part(rig, 0, 8)) == 0);
	CHECK(end(ah) == 0);
	/* A device that sends later has lost the address by then: rxe may not complete the request at all. */
	if (!strncmp(ibv_get_device_name(rig->context->device), "uroce", 5))
		await_status(rig, IBV_WC_SUCCESS);
	else
		for (int i = 0; i < 200 && ibv_poll_cq(rig->cq, 1, &wc) == 0; i++)
			usleep(1000);
}

static void leak(struct rig *rig)
{
	CHECK(ibv_close_device(rig->context) == 0);
	rig->context = NULL;
}

static void child_verb(struct rig *rig)
{
	struct ibv_qp *a, *b;

	connected(rig, &a, &b);
	pid_t child = start_child();
	if (child == 0) {
		struct ibv_send_wr *bad, wr = { .opcode = IBV_WR_SEND };

		_exit(ibv_post_send(a, &wr, &bad) == 0);
	}
	await_child(child);
}

static void fork_init_late(struct rig *rig)
{
	(void)rig;
	CHECK(ibv_fork_init() == EINVAL);
}

/* Requests of all kinds, a full send queue that is polled, events, in all the right ways. */
static void correct(struct rig *rig)
{
	const uint64_t ops = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE;
	struct ibv_comp_channel *channel = KEEP(ibv_create_comp_channel(rig->context));
	struct ibv_qp *a, *b, *ex = make_qp(rig, IBV_QPT_RC, ops, NULL);
	struct ibv_qp_ex *qpx = ibv_qp_to_qp_ex(ex);
	struct ibv_cq *cq;

	NEED(channel && (cq = KEEP(ibv_create_cq(rig->context, 16, NULL, channel, 0))) && qpx);
	connected(rig, &a, &b);
	join(rig, ex, ex);
	for (int i = 0; i < 100; i++) {
		NEED(post_recv(b, rig, 1, 4096, 64) == 0);
		NEED(post(a, rig, IBV_WR_SEND, 0, 64, 0, 0) == 0);
		CHECK(next_wc(rig->cq).status == IBV_WC_SUCCESS);
		CHECK(next_wc(rig->cq).status == IBV_WC_SUCCESS);
		NEED(post(a, rig, IBV_WR_RDMA_READ, 0, 64, 128, rig->mr->rkey) == 0);
		CHECK(next_wc(rig->cq).status == IBV_WC_SUCCESS);
		ibv_wr_start(qpx);
		qpx->wr_id = 1;
		qpx->wr_flags = IBV_SEND_SIGNALED;
		ibv_wr_rdma_write(qpx, rig->mr->rkey, (uintptr_t)rig->buf);
		ibv_wr_set_sge(qpx, rig->mr->lkey, (uintptr_t)rig->buf + 64, 8);
		CHECK(ibv_wr_complete(qpx) == 0);
		CHECK(next_wc(rig->cq).status == IBV_WC_SUCCESS);
	}
}

const struct scene lifetime_scenes[] = {
	{ "busy", busy, "busy", "it is still used by MR" },
	{ "mr-in-use", mr_in_use, "key-deregistered mr-in-use unread-error", "the first with wr_id 31" },
	{ "ah-in-use", ah_in_use, "ah-in-use", "was destroyed while 1 requests" },
	{ "leak", leak, "leak", "1 CQ, 1 MR, 1 PD left" },
	{ "child-verb", child_verb, "child-verb", "called ibv_post_send on an object" },
	{ "fork-init-late", fork_init_late, "fork-init-late", "after memory had been registered" },
	{ "correct", correct },
	{ 0 },
};
