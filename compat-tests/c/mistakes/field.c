/* Mistakes of the kind that people ask about: shared queues, XRC, windows, threads, a peer that is gone. */
#include "mistakes.h"

#include <sys/wait.h>

/* A message of 64 bytes for the first receive of an SRQ, whose element is `sge`. */
static void by_srq(struct rig *rig, struct ibv_sge sge, bool wrong)
{
	struct link link = { .srq = new_srq(rig, 8) };
	struct ends ends = link_up(rig, &link);

	NEED(srq_recv(link.srq, sge) == 0);
	NEED(send_wr(ends.a, rig, IBV_WR_SEND, 0, 0, 64) == 0);
	CHECK(poll_for(rig->cq, 2, 2) == 2);
	CHECK(wrong || poll_for(rig->cq, 1, 0) == 0);
}

/* The receives of the SRQ are smaller than the messages. */
static void srq_small(struct rig *rig, bool wrong)
{
	by_srq(rig, part(rig, 4096, wrong ? 32 : 64), wrong);
}

/* A region of another protection domain in a receive of an SRQ. */
static void srq_other_pd(struct rig *rig, bool wrong)
{
	struct ibv_pd *pd = KEEP(ibv_alloc_pd(rig->context));
	struct ibv_mr *mr = KEEP(ibv_reg_mr(pd, rig->buf, SIZE, ALL_ACCESS));
	struct ibv_sge sge = part(rig, 4096, 64);

	NEED(mr);
	if (wrong)
		sge.lkey = mr->lkey;
	by_srq(rig, sge, wrong);
}

/* The region of a receive is deregistered before the message comes. */
static void recv_region_gone(struct rig *rig, bool wrong)
{
	struct ends ends = link_up(rig, &(struct link){ 0 });
	struct ibv_mr *mr = KEEP(ibv_reg_mr(rig->pd, rig->buf + 4096, 64, ALL_ACCESS));
	struct ibv_sge sge = { (uintptr_t)rig->buf + 4096, 64, mr->lkey };

	NEED(recv_one(ends.b, sge) == 0);
	if (wrong)
		CHECK(end(mr) == 0);
	NEED(send_wr(ends.a, rig, IBV_WR_SEND, 0, 0, 64) == 0);
	CHECK(poll_for(rig->cq, 2, 2) == 2);
}

/* The next datagram is written into the buffer before the last one has completed. */
static void ud_buffer_reused(struct rig *rig, bool wrong)
{
	struct ibv_ah *ah = new_ah(rig, rig->gid);
	struct ends ends = link_up(rig, &(struct link){ .type = IBV_QPT_UD });

	for (int i = 0; i < 2; i++)
		NEED(post_recv(ends.b, rig, i, 4096 + 256 * i, 256) == 0);
	for (int i = 0; i < 2; i++) {
		memset(rig->buf, 'a' + i, 64);
		NEED(datagram(ends.a, ah, ends.b->qp_num, part(rig, 0, 64)) == 0);
		if (!wrong)
			CHECK(poll_for(rig->cq, 2, 1) == 2);
	}
	if (wrong)
		CHECK(poll_for(rig->cq, 4, 1) == 4);
}

/* A datagram fails, and the next ones are posted as if nothing had happened: the queue pair is in SQE. */
static void ud_in_sqe(struct rig *rig, bool wrong)
{
	struct ibv_ah *ah = new_ah(rig, rig->gid);
	struct ends ends = link_up(rig, &(struct link){ .type = IBV_QPT_UD });
	struct ibv_sge sge = part(rig, 0, 64);

	NEED(post_recv(ends.b, rig, 1, 4096, 256) == 0);
	if (wrong) {
		sge.lkey ^= 0x5500;
		NEED(datagram(ends.a, ah, ends.b->qp_num, sge) == 0);
		CHECK(next_status(rig->cq) == IBV_WC_LOC_PROT_ERR);
	}
	NEED(datagram(ends.a, ah, ends.b->qp_num, part(rig, 0, 64)) == 0);
	CHECK((next_status(rig->cq) == IBV_WC_SUCCESS) == !wrong);
}

/* The request names an SRQ of another XRC domain than the queue pair it is sent to. */
static void xrc_other_domain(struct rig *rig, bool wrong)
{
	struct domain own = new_domain(rig), other = new_domain(rig);
	struct ends ends = xrc_ends(rig, own);
	struct ibv_sge sge = part(rig, 0, 64);
	struct ibv_send_wr *bad, wr = { .wr_id = 43, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND };

	NEED(srq_recv(own.srq, part(rig, 4096, 64)) == 0);
	NEED(srq_recv(other.srq, part(rig, 4096, 64)) == 0);
	wr.qp_type.xrc.remote_srqn = wrong ? other.number : own.number;
	NEED(ibv_post_send(ends.a, &wr, &bad) == 0);
	CHECK((next_status(rig->cq) == IBV_WC_SUCCESS) == !wrong);
	poll_for(rig->cq, 1, wrong ? 0 : 1);
}

/* A receive is posted to the sending end of XRC. */
static void xrc_recv_on_sender(struct rig *rig, bool wrong)
{
	struct domain own = new_domain(rig);
	struct ends ends = xrc_ends(rig, own);

	if (wrong)
		CHECK(post_recv(ends.a, rig, 1, 4096, 64) != 0);
	else
		NEED(srq_recv(own.srq, part(rig, 4096, 64)) == 0);
}

/* A window of type 2 that `b` has bound for `access`. */
static struct ibv_mw *window(struct rig *rig, struct ibv_qp *b, unsigned access, uint32_t *rkey)
{
	struct ibv_mw *mw = KEEP(ibv_alloc_mw(rig->pd, IBV_MW_TYPE_2));
	struct ibv_send_wr *bad, wr = { .wr_id = 44, .opcode = IBV_WR_BIND_MW };

	NEED(mw);
	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = *rkey = ibv_inc_rkey(mw->rkey);
	wr.bind_mw.bind_info = (struct ibv_mw_bind_info){ rig->mr, (uintptr_t)rig->buf + 4096, 64, access };
	NEED(ibv_post_send(b, &wr, &bad) == 0);
	NEED(next_status(rig->cq) == IBV_WC_SUCCESS);
	return mw;
}

/* The window allows WRITE, and the peer READs. */
static void mw_read(struct rig *rig, bool wrong)
{
	struct ends ends = link_up(rig, &(struct link){ 0 });
	uint32_t rkey;

	window(rig, ends.b, IBV_ACCESS_REMOTE_WRITE, &rkey);
	NEED(send_to(ends.a, part(rig, 0, 64), wrong ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE,
		     (uintptr_t)rig->buf + 4096, rkey) == 0);
	CHECK((next_status(rig->cq) == IBV_WC_SUCCESS) == !wrong);
}

/* The window is deallocated while the peer still has its key. */
static void mw_gone(struct rig *rig, bool wrong)
{
	struct ends ends = link_up(rig, &(struct link){ 0 });
	uint32_t rkey;
	struct ibv_mw *mw = window(rig, ends.b, IBV_ACCESS_REMOTE_WRITE, &rkey);

	if (wrong)
		CHECK(end(mw) == 0);
	CHECK(succeeds(rig, ends.a, part(rig, 0, 64), IBV_WR_RDMA_WRITE, (uintptr_t)rig->buf + 4096, rkey) ==
	      !wrong);
}

/* A window of type 2 belongs to the queue pair that has bound it: the key is used by another connection. */
static void mw_other_qp(struct rig *rig, bool wrong)
{
	struct link link = { 0 };
	struct ends one = link_up(rig, &link), other = link_up(rig, &link);
	uint32_t rkey;

	window(rig, one.b, IBV_ACCESS_REMOTE_WRITE, &rkey);
	NEED(send_to(wrong ? other.a : one.a, part(rig, 0, 64), IBV_WR_RDMA_WRITE, (uintptr_t)rig->buf + 4096,
		     rkey) == 0);
	CHECK((next_status(rig->cq) == IBV_WC_SUCCESS) == !wrong);
}

/* An extended queue pair that is connected to a plain one, both not signaling by themselves. */
static struct ends built(struct rig *rig, uint64_t ops)
{
	struct link link = { 0 };
	struct ibv_qp_init_attr_ex init = {
		.send_cq = rig->cq,
		.recv_cq = rig->cq,
		.cap = { 16, 16, 4, 4, 64 },
		.qp_type = IBV_QPT_RC,
		.pd = rig->pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = ops,
	};
	struct ends ends = { KEEP(ibv_create_qp_ex(rig->context, &init)), link_qp(rig, &link) };

	NEED(ends.a);
	NEED(link_to(rig, ends.b, &link, ends.a->qp_num, rig->gid, true) == 0);
	NEED(link_to(rig, ends.a, &link, ends.b->qp_num, rig->gid, false) == 0);
	return ends;
}

/* wr_flags is not set: the request is not signaled. */
static void wr_unsignaled(struct rig *rig, bool wrong)
{
	struct ends ends = built(rig, IBV_QP_EX_WITH_RDMA_WRITE);
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(ends.a);

	ibv_wr_start(ex);
	ex->wr_id = 46;
	ex->wr_flags = wrong ? 0 : IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(ex, rig->mr->rkey, (uintptr_t)rig->buf + 4096);
	ibv_wr_set_sge(ex, rig->mr->lkey, (uintptr_t)rig->buf, 64);
	CHECK(ibv_wr_complete(ex) == 0);
	CHECK(poll_for(rig->cq, 1, LONG) == !wrong);
}

/* The result of an atomic operation needs eight bytes. */
static void wr_atomic_short(struct rig *rig, bool wrong)
{
	struct ends ends = built(rig, IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD);
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(ends.a);

	ibv_wr_start(ex);
	ex->wr_id = 47;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_atomic_fetch_add(ex, rig->mr->rkey, (uintptr_t)rig->buf + 4096, 1);
	ibv_wr_set_sge(ex, rig->mr->lkey, (uintptr_t)rig->buf, wrong ? sizeof(int) : 8);
	int error = ibv_wr_complete(ex);
	CHECK(wrong || error == 0);
	poll_for(rig->cq, 1, error ? 0 : 1);
}

/* One side starts again from RESET after an error, the other one does not. */
static void one_side_reset(struct rig *rig, bool wrong)
{
	struct link link = { 0 };
	struct ends ends = link_up(rig, &link);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };

	for (int i = 0; i < 3; i++) {
		CHECK(works(rig, ends.a, IBV_WR_RDMA_WRITE, 8));
	}
	NEED(ibv_modify_qp(ends.a, &attr, IBV_QP_STATE) == 0);
	if (!wrong) {
		NEED(ibv_modify_qp(ends.b, &attr, IBV_QP_STATE) == 0);
		NEED(link_to(rig, ends.b, &link, ends.a->qp_num, rig->gid, true) == 0);
	}
	NEED(link_to(rig, ends.a, &link, ends.b->qp_num, rig->gid, false) == 0);
	NEED(post_recv(ends.b, rig, 1, 4096, 64) == 0);
	NEED(send_wr(ends.a, rig, IBV_WR_SEND, 0, 0, 64) == 0);
	CHECK(poll_for(rig->cq, 2, LONG) == 2 || wrong);
}

/* An asynchronous event of the queue pair is read and not acknowledged: destroying it does not end. */
static void qp_unacked(struct rig *rig, bool wrong)
{
	struct link link = { 0 };
	struct ibv_async_event event;

	/* b is in RTR when the message comes: IBV_EVENT_COMM_EST. */
	struct ibv_qp *late = link_qp(rig, &link), *early = link_qp(rig, &link);
	struct link stays = { .stays = IBV_QPS_RTR };
	NEED(link_to(rig, late, &stays, early->qp_num, rig->gid, true) == 0);
	NEED(link_to(rig, early, &link, late->qp_num, rig->gid, false) == 0);
	NEED(post_recv(late, rig, 1, 4096, 64) == 0);
	NEED(send_wr(early, rig, IBV_WR_SEND, 0, 0, 64) == 0);
	CHECK(poll_for(rig->cq, 2, 1) == 2);
	NEED(ibv_get_async_event(rig->context, &event) == 0);
	CHECK(event.event_type == IBV_EVENT_COMM_EST && event.element.qp == late);
	if (wrong)
		leave_after(LONG);
	else
		ibv_ack_async_event(&event);
}

/* The GID of the peer is that of a machine on which no such program runs. */
static void gid_of_nobody(struct rig *rig, bool wrong)
{
	struct link link = { 0 };
	struct ends ends = { link_qp(rig, &link), link_qp(rig, &link) };
	union ibv_gid gid = rig->gid;

	if (wrong)
		gid.raw[15] = 77;
	NEED(link_to(rig, ends.b, &link, ends.a->qp_num, rig->gid, true) == 0);
	NEED(link_to(rig, ends.a, &link, ends.b->qp_num, gid, false) == 0);
	CHECK(works(rig, ends.a, IBV_WR_RDMA_WRITE, 8) == !wrong);
}

/* A child of fork tidies up what is its parent's. */
static void child_destroys(struct rig *rig, bool wrong)
{
	struct ends ends = link_up(rig, &(struct link){ 0 });
	pid_t child = fork();

	if (child == 0) {
		if (wrong)
			ibv_destroy_qp(ends.a);
		_exit(0);
	}
	NEED(waitpid(child, NULL, 0) == child);
	CHECK(works(rig, ends.a, IBV_WR_RDMA_WRITE, 8));
}

const struct mistake field_mistakes[] = {
	{ "srq-small", srq_small, "receive-too-small", "a message of 64 bytes" },
	{ "srq-other-pd", srq_other_pd, "key-pd", "belongs to a memory region of PD" },
	{ "recv-region-gone", recv_region_gone, "key-deregistered", "has been deregistered" },
	{ "ud-buffer-reused", ud_buffer_reused, "buffer-changed", "64 bytes at" },
	{ "ud-in-sqe", ud_in_sqe, "post-in-error", "in SQE (or ERR)" },
	{ "xrc-other-domain", xrc_other_domain, "argument", "is not that of an SRQ of the XRC domain" },
	{ "xrc-recv-on-sender", xrc_recv_on_sender, "argument", "is the sending end of XRC" },
	{ "mw-read", mw_read, "key-access", "is that of a memory window" },
	{ "mw-gone", mw_gone, "argument", "until it was deallocated" },
	{ "mw-other-qp", mw_other_qp, "argument", "has bound, and the request came to" },
	{ "wr-unsignaled", wr_unsignaled, "no-completion", "none is signaled" },
	{ "wr-atomic-short", wr_atomic_short, "argument", "has 4 bytes" },
	{ "one-side-reset", one_side_reset, "argument", "takes requests with PSNs before that" },
	{ "qp-unacked", qp_unacked, "events-unacked", "1 asynchronous events" },
	{ "gid-of-nobody", gid_of_nobody, "retry-exceeded", "the destination GID is 127.0.0.77" },
	{ "child-destroys", child_destroys, "child-verb", "called ibv_destroy_qp on an object" },
	{ NULL },
};
