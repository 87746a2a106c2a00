/* Mistakes with the extended interfaces, events, states and processes. */
#include "mistakes.h"

#include <sys/wait.h>

static struct ends extended(struct rig *rig, enum ibv_qp_type type, uint64_t ops)
{
	struct link link = { 0 };
	struct ends ends = { make_qp(rig, type, ops, NULL), make_qp(rig, type, ops, NULL) };

	NEED(link_to(rig, ends.b, &link, ends.a->qp_num, rig->gid, true) == 0);
	NEED(link_to(rig, ends.a, &link, ends.b->qp_num, rig->gid, false) == 0);
	return ends;
}

/* ibv_wr_start was forgotten. */
static void wr_no_start(struct rig *rig, bool wrong)
{
	struct ends ends = extended(rig, IBV_QPT_RC, IBV_QP_EX_WITH_SEND);
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(ends.a);

	NEED(post_recv(ends.b, rig, 1, 4096, 64) == 0);
	if (wrong)
		leave_after(2);
	else
		ibv_wr_start(ex);
	ex->wr_id = 5;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send(ex);
	ibv_wr_set_sge(ex, rig->mr->lkey, (uintptr_t)rig->buf, 64);
	int error = ibv_wr_complete(ex);
	CHECK(wrong || error == 0);
	CHECK(wrong || poll_for(rig->cq, 2, 1) == 2);
}

/* The data is set before the operation. */
static void wr_setter_first(struct rig *rig, bool wrong)
{
	struct ends ends = extended(rig, IBV_QPT_RC, IBV_QP_EX_WITH_SEND);
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(ends.a);

	NEED(post_recv(ends.b, rig, 1, 4096, 64) == 0);
	ibv_wr_start(ex);
	ex->wr_flags = IBV_SEND_SIGNALED;
	if (wrong)
		ibv_wr_set_sge(ex, rig->mr->lkey, (uintptr_t)rig->buf, 64);
	ibv_wr_send(ex);
	if (!wrong)
		ibv_wr_set_sge(ex, rig->mr->lkey, (uintptr_t)rig->buf, 64);
	int error = ibv_wr_complete(ex);
	CHECK(wrong || error == 0);
	poll_for(rig->cq, 2, 0.5);
}

/* A datagram without an address. */
static void wr_no_address(struct rig *rig, bool wrong)
{
	struct link link = { .type = IBV_QPT_UD };
	struct ends ends = { make_qp(rig, IBV_QPT_UD, IBV_QP_EX_WITH_SEND, NULL), link_qp(rig, &link) };
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(ends.a);
	struct ibv_ah *ah = new_ah(rig, rig->gid);

	NEED(link_to(rig, ends.b, &link, 0, rig->gid, true) == 0);
	NEED(link_to(rig, ends.a, &link, 0, rig->gid, false) == 0);
	NEED(post_recv(ends.b, rig, 1, 4096, 256) == 0);
	ibv_wr_start(ex);
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send(ex);
	if (!wrong)
		ibv_wr_set_ud_addr(ex, ah, ends.b->qp_num, QKEY);
	ibv_wr_set_sge(ex, rig->mr->lkey, (uintptr_t)rig->buf, 64);
	int error = ibv_wr_complete(ex);
	CHECK(wrong || error == 0);
	poll_for(rig->cq, 2, wrong ? 0.3 : 1);
}

/* ibv_wr_complete is missing on the way of an error: the next start waits for the lock. */
static void wr_start_twice(struct rig *rig, bool wrong)
{
	struct ends ends = extended(rig, IBV_QPT_RC, IBV_QP_EX_WITH_SEND);
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(ends.a);

	ibv_wr_start(ex);
	if (wrong)
		leave_after(2);
	else
		ibv_wr_abort(ex);
	ibv_wr_start(ex);
	ibv_wr_abort(ex);
}

/* More inline data than the queue pair was created for. */
static void wr_inline_large(struct rig *rig, bool wrong)
{
	struct ends ends = extended(rig, IBV_QPT_RC, IBV_QP_EX_WITH_RDMA_WRITE);
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(ends.a);

	ibv_wr_start(ex);
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(ex, rig->mr->rkey, (uintptr_t)rig->buf + 4096);
	ibv_wr_set_inline_data(ex, rig->buf, wrong ? 2000 : 32);
	CHECK((ibv_wr_complete(ex) == 0) == !wrong);
	poll_for(rig->cq, 1, wrong ? 0 : 1);
}

/* A field that was not asked for at creation. */
static void cq_ex_field(struct rig *rig, bool wrong)
{
	struct ibv_cq_init_attr_ex init = { .cqe = 16, .wc_flags = wrong ? 0 : IBV_WC_EX_WITH_BYTE_LEN };
	struct ibv_cq_ex *cq = KEEP(ibv_create_cq_ex(rig->context, &init));
	struct ends ends = link_up(rig, &(struct link){ .send_cq = ibv_cq_ex_to_cq(cq),
							.recv_cq = ibv_cq_ex_to_cq(cq) });
	struct ibv_poll_cq_attr attr = { 0 };

	NEED(post_recv(ends.b, rig, 1, 4096, 64) == 0);
	NEED(send_wr(ends.a, rig, IBV_WR_SEND, 0, 0, 64) == 0);
	for (int seen = 0; seen < 2;) {
		if (ibv_start_poll(cq, &attr))
			continue;
		do {
			if (ibv_wc_read_opcode(cq) == IBV_WC_RECV) {
				/* Without the flag this may be a call of NULL. */
				if (wrong && fork() == 0) {
					_exit(ibv_wc_read_byte_len(cq) != 64);
				} else if (wrong) {
					wait(NULL);
				} else {
					CHECK(ibv_wc_read_byte_len(cq) == 64);
				}
			}
			seen++;
		} while (ibv_next_poll(cq) == 0);
		ibv_end_poll(cq);
	}
}

/* A poll that found nothing is ended. */
static void end_poll_empty(struct rig *rig, bool wrong)
{
	struct ibv_cq_init_attr_ex init = { .cqe = 16 };
	struct ibv_cq_ex *cq = KEEP(ibv_create_cq_ex(rig->context, &init));
	struct ibv_poll_cq_attr attr = { 0 };

	CHECK(ibv_start_poll(cq, &attr) == ENOENT);
	if (wrong)
		ibv_end_poll(cq);
}

/* All events of a channel are acknowledged at the last CQ. */
static void acks_wrong_cq(struct rig *rig, bool wrong)
{
	struct ibv_comp_channel *channel = KEEP(ibv_create_comp_channel(rig->context));
	struct ibv_cq *cq[2], *got;
	struct ends ends[2];
	void *context;

	for (int i = 0; i < 2; i++) {
		cq[i] = KEEP(ibv_create_cq(rig->context, 16, NULL, channel, 0));
		ends[i] = link_up(rig, &(struct link){ .send_cq = cq[i], .recv_cq = cq[i] });
		NEED(ibv_req_notify_cq(cq[i], 0) == 0);
		NEED(send_wr(ends[i].a, rig, IBV_WR_RDMA_WRITE, 0, 0, 8) == 0);
	}
	for (int i = 0; i < 2; i++) {
		NEED(ibv_get_cq_event(channel, &got, &context) == 0);
		if (!wrong)
			ibv_ack_cq_events(got, 1);
	}
	if (wrong)
		ibv_ack_cq_events(got, 2);
	for (int i = 0; i < 2; i++) {
		CHECK(poll_for(cq[i], 1, 1) == 1);
		unlink_qps(ends[i]);
	}
	if (wrong)
		leave_after(3);
	CHECK(end(cq[0]) == 0);
}

/* The descriptor of the channel was closed by hand. */
static void channel_fd_closed(struct rig *rig, bool wrong)
{
	struct ibv_comp_channel *channel = KEEP(ibv_create_comp_channel(rig->context));
	struct ibv_cq *cq = KEEP(ibv_create_cq(rig->context, 16, NULL, channel, 0)), *got;
	struct ends ends = link_up(rig, &(struct link){ .send_cq = cq, .recv_cq = cq });
	void *context;

	NEED(ibv_req_notify_cq(cq, 0) == 0);
	NEED(send_wr(ends.a, rig, IBV_WR_RDMA_WRITE, 0, 0, 8) == 0);
	if (wrong)
		close(channel->fd);
	CHECK((ibv_get_cq_event(channel, &got, &context) == 0) == !wrong);
	if (!wrong)
		ibv_ack_cq_events(got, 1);
	CHECK(poll_for(cq, 1, 1) == 1);
	if (wrong)
		_exit(0);
}

/* More completions than the CQ has room for. */
static void cq_overrun(struct rig *rig, bool wrong)
{
	struct ibv_cq *cq = KEEP(ibv_create_cq(rig->context, wrong ? 1 : 64, NULL, NULL, 0));
	struct ends ends = link_up(rig, &(struct link){ .send_cq = cq });
	int got;

	for (int i = 0; i < 16; i++)
		send_wr(ends.a, rig, IBV_WR_RDMA_WRITE, 0, 0, 8);
	usleep(300000);
	got = poll_for(cq, 16, 0.5);
	CHECK((got == 16) == !wrong);
}

/* The child sends with the queue pair of its parent. */
static void fork_child(struct rig *rig, bool wrong)
{
	struct ends ends = link_up(rig, &(struct link){ 0 });
	pid_t child = wrong ? fork() : 0;
	int status;

	if (child == 0) {
		int error = send_wr(ends.a, rig, IBV_WR_RDMA_WRITE, 0, 0, 8);
		poll_for(rig->cq, 1, 0.5);
		if (wrong)
			_exit(0);
		CHECK(error == 0);
	} else {
		NEED(waitpid(child, &status, 0) == child);
	}
}

/* A GID index that the table does not have. */
static void sgid_index(struct rig *rig, bool wrong)
{
	struct link link = { 0 };
	struct ibv_qp *qp = link_qp(rig, &link);
	int kept = rig->gid_index;

	rig->gid_index = wrong ? 77 : kept;
	CHECK(!link_to(rig, qp, &link, qp->qp_num, rig->gid, false) == !wrong);
	rig->gid_index = kept;
}

/* The result of ibv_create_qp was not looked at. */
static void null_qp(struct rig *rig, bool wrong)
{
	struct ibv_qp_init_attr attr = { .send_cq = rig->cq,
					 .recv_cq = rig->cq,
					 .cap = { wrong ? 10000000 : 16, 16, 1, 1, 0 },
					 .qp_type = IBV_QPT_RC };
	struct ibv_qp *qp = KEEP(ibv_create_qp(rig->pd, &attr));
	int status;

	CHECK(!qp == wrong);
	if (wrong && fork() == 0) {
		to_init(qp);
		_exit(0);
	}
	if (wrong)
		wait(&status);
	else
		CHECK(to_init(qp) == 0);
}

static int move(struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };

	return ibv_modify_qp(qp, &attr, IBV_QP_STATE);
}

/* Waits for flushed requests; there are none. */
static void drain_nothing(struct rig *rig, bool wrong)
{
	struct ends ends = link_up(rig, &(struct link){ 0 });

	if (!wrong)
		NEED(post_recv(ends.b, rig, 1, 4096, 64) == 0);
	NEED(move(ends.b, IBV_QPS_ERR) == 0);
	CHECK(poll_for(rig->cq, 1, LONG) == !wrong);
}

/* RESET drops what is outstanding. */
static void reset_drops(struct rig *rig, bool wrong)
{
	struct ends ends = link_up(rig, &(struct link){ 0 });

	NEED(post_recv(ends.b, rig, 1, 4096, 64) == 0);
	NEED(move(ends.b, wrong ? IBV_QPS_RESET : IBV_QPS_ERR) == 0);
	CHECK(poll_for(rig->cq, 1, LONG) == !wrong);
}

/* In SQD nothing is sent. */
static void sqd_post(struct rig *rig, bool wrong)
{
	struct ends ends = link_up(rig, &(struct link){ 0 });

	NEED(move(ends.a, IBV_QPS_SQD) == 0);
	usleep(10000);
	if (!wrong)
		NEED(move(ends.a, IBV_QPS_RTS) == 0);
	NEED(send_wr(ends.a, rig, IBV_WR_RDMA_WRITE, 0, 0, 8) == 0);
	CHECK(poll_for(rig->cq, 1, LONG) == !wrong);
}

/* The peer's queue pair has another type. */
static void type_mismatch(struct rig *rig, bool wrong)
{
	struct link link = { 0 }, other = { .type = wrong ? IBV_QPT_UC : IBV_QPT_RC };
	struct ends ends = { link_qp(rig, &link), link_qp(rig, &other) };

	NEED(link_to(rig, ends.b, &other, ends.a->qp_num, rig->gid, true) == 0);
	NEED(link_to(rig, ends.a, &link, ends.b->qp_num, rig->gid, false) == 0);
	CHECK(works(rig, ends.a, IBV_WR_RDMA_WRITE, 8) == !wrong);
}

/* The own number as that of the peer: messages come back, and the peer gets none. */
static void own_number(struct rig *rig, bool wrong)
{
	struct ibv_cq *cq = KEEP(ibv_create_cq(rig->context, 16, NULL, NULL, 0));
	struct link link = { 0 }, with_cq = { .recv_cq = cq, .send_cq = cq };
	struct ends ends = { link_qp(rig, &link), link_qp(rig, &with_cq) };

	NEED(link_to(rig, ends.b, &with_cq, ends.a->qp_num, rig->gid, true) == 0);
	NEED(link_to(rig, ends.a, &link, wrong ? ends.a->qp_num : ends.b->qp_num, rig->gid, false) == 0);
	NEED(post_recv(ends.a, rig, 1, 0, 64) == 0 && post_recv(ends.b, rig, 1, 4096, 64) == 0);
	NEED(send_wr(ends.a, rig, IBV_WR_SEND, 0, 0, 64) == 0);
	CHECK(poll_for(cq, 1, LONG) == !wrong);
	poll_for(rig->cq, 1, 0.1);
}

/* `next` was not set: the list goes on into nowhere. */
static void next_garbage(struct rig *rig, bool wrong)
{
	struct ends ends = link_up(rig, &(struct link){ 0 });
	struct ibv_sge sge = { (uintptr_t)rig->buf, 8, rig->mr->lkey };
	struct ibv_send_wr *bad, wr = { .wr_id = 5,
					.next = wrong ? (void *)0x11110000 : NULL,
					.sg_list = &sge,
					.num_sge = 1,
					.opcode = IBV_WR_RDMA_WRITE };

	wr.wr.rdma.remote_addr = (uintptr_t)rig->buf + 4096;
	wr.wr.rdma.rkey = rig->mr->rkey;
	if (wrong && fork() == 0) {
		ibv_post_send(ends.a, &wr, &bad);
		_exit(0);
	}
	if (wrong)
		wait(NULL);
	else
		CHECK(ibv_post_send(ends.a, &wr, &bad) == 0 && next_status(rig->cq) == IBV_WC_SUCCESS);
}

/* A timer of more than 31. */
static void field_too_wide(struct rig *rig, bool wrong)
{
	struct ends ends = link_up(rig, &(struct link){ 0 });
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS, .min_rnr_timer = wrong ? 100 : 12 };

	/* Some devices take the lower bits. */
	CHECK(ibv_modify_qp(ends.a, &attr, IBV_QP_STATE | IBV_QP_MIN_RNR_TIMER) == 0 || wrong);
}

const struct mistake extended_mistakes[] = {
	{ "wr-no-start", wr_no_start, "argument", "built without ibv_wr_start" },
	{ "wr-setter-first", wr_setter_first, "argument", "no request that it can be set in" },
	{ "wr-no-address", wr_no_address, "argument", "ibv_wr_set_ud_addr was not called" },
	{ "wr-start-twice", wr_start_twice, "argument", "neither ibv_wr_complete nor ibv_wr_abort" },
	{ "wr-inline-large", wr_inline_large, "inline-limit", "2000 bytes of inline data" },
	{ "cq-ex-field", cq_ex_field, "argument", "without IBV_WC_EX_WITH_BYTE_LEN" },
	{ "end-poll-empty", end_poll_empty, "argument", "no poll of this thread has begun" },
	{ "acks-wrong-cq", acks_wrong_cq, "events-unacked", "1 events more were acknowledged than came" },
	{ "channel-fd-closed", channel_fd_closed, "argument", "cannot be read" },
	{ "cq-overrun", cq_overrun, "cq-overrun-foreseen", "whose capacity is 1" },
	{ "fork-child", fork_child, "child-verb", "called ibv_post_send on an object that process" },
	{ "sgid-index", sgid_index, "gid-empty", "GID index 77 of port 1" },
	{ "null-qp", null_qp, "create-limit", "cap.max_send_wr = 10000000" },
	{ "drain-nothing", drain_nothing, "no-completion", "so that nothing is flushed" },
	{ "reset-drops", reset_drops, "no-completion", "dropped 0 requests and 1 receives" },
	{ "sqd-post", sqd_post, "no-completion", "is in SQD" },
	{ "type-mismatch", type_mismatch, "retry-exceeded", "is of type UC, and this one of type RC" },
	{ "own-number", own_number, "no-completion", "which is not polled" },
	{ "next-garbage", next_garbage, "crash", "a pointer to memory that is not mapped was read" },
	{ "field-too-wide", field_too_wide, "attr-range", "min_rnr_timer is 100" },
	{ NULL },
};
