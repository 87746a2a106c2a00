/* Mistakes of a trial whose programs were written without knowing the rules. */
#include "mistakes.h"

/* The peer, of which nobody knows, is waited for without end. */
static void nobody_forever(struct rig *rig, bool wrong)
{
	struct link link = { .no_timeout = true };
	struct ends ends = { link_qp(rig, &link), link_qp(rig, &link) };
	uint32_t dest = wrong ? 0xabcdef : ends.b->qp_num;

	if (!wrong)
		NEED(link_to(rig, ends.b, &link, ends.a->qp_num, rig->gid, true) == 0);
	NEED(link_to(rig, ends.a, &link, dest, rig->gid, false) == 0);
	NEED(send_wr(ends.a, rig, IBV_WR_RDMA_WRITE, 0, 0, 8) == 0);
	CHECK(poll_for(rig->cq, 1, LONG) == !wrong);
}

/* The request is not signaled, and a completion of the other end waits on another CQ. */
static void unsignaled_here(struct rig *rig, bool wrong)
{
	struct ibv_cq *sends = KEEP(ibv_create_cq(rig->context, 16, NULL, NULL, 0));
	struct ends ends = link_up(rig, &(struct link){ .send_cq = sends, .unsignaled = true });

	NEED(post_recv(ends.b, rig, 1, 4096, 64) == 0);
	NEED(send_wr(ends.a, rig, IBV_WR_SEND, wrong ? 0 : IBV_SEND_SIGNALED, 0, 64) == 0);
	CHECK(poll_for(sends, 1, LONG) == !wrong);
	CHECK(next_status(rig->cq) == IBV_WC_SUCCESS);
}

/* num_sge was forgotten: an empty message is sent. */
static void list_unused(struct rig *rig, bool wrong)
{
	struct ends ends = link_up(rig, &(struct link){ 0 });
	struct ibv_sge sge = { (uintptr_t)rig->buf, 64, rig->mr->lkey };
	struct ibv_send_wr *bad, wr = { .sg_list = &sge, .num_sge = !wrong, .opcode = IBV_WR_SEND };
	/* An empty message that is meant. */
	struct ibv_send_wr empty = { .opcode = IBV_WR_SEND };

	NEED(post_recv(ends.b, rig, 1, 4096, 64) == 0 && post_recv(ends.b, rig, 2, 5120, 64) == 0);
	NEED(ibv_post_send(ends.a, &wr, &bad) == 0 && ibv_post_send(ends.a, &empty, &bad) == 0);
	CHECK(poll_for(rig->cq, 4, 3) == 4);
}

/* An extended queue pair in place of the first. */
static struct ibv_qp_ex *extended(struct rig *rig)
{
	struct link link = { 0 };
	struct ends ends = { make_qp(rig, IBV_QPT_RC, IBV_QP_EX_WITH_SEND, NULL), link_qp(rig, &link) };

	join(rig, ends.a, ends.b);
	NEED(post_recv(ends.b, rig, 1, 4096, 64) == 0);
	struct ibv_qp_ex *qpx = ibv_qp_to_qp_ex(ends.a);
	NEED(qpx);
	return qpx;
}

/* The setter of the data was forgotten. */
static void wr_no_data(struct rig *rig, bool wrong)
{
	struct ibv_qp_ex *qpx = extended(rig);

	ibv_wr_start(qpx);
	qpx->wr_id = 1;
	qpx->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send(qpx);
	if (!wrong)
		ibv_wr_set_sge(qpx, rig->mr->lkey, (uintptr_t)rig->buf, 64);
	CHECK(ibv_wr_complete(qpx) == 0);
	CHECK(poll_for(rig->cq, 2, 3) == 2);
}

/* The flags are set after the operation that uses them. */
static void wr_flags_late(struct rig *rig, bool wrong)
{
	struct ibv_qp_ex *qpx = extended(rig);

	ibv_wr_start(qpx);
	qpx->wr_id = 1;
	qpx->wr_flags = wrong ? 0 : IBV_SEND_SIGNALED;
	ibv_wr_send(qpx);
	ibv_wr_set_sge(qpx, rig->mr->lkey, (uintptr_t)rig->buf, 64);
	if (wrong)
		qpx->wr_flags = IBV_SEND_SIGNALED;
	CHECK(ibv_wr_complete(qpx) == 0);
	CHECK(poll_for(rig->cq, 2, 0.5) >= 1);
}

/* remote_qpn of a datagram was not set. */
static void datagram_to_none(struct rig *rig, bool wrong)
{
	struct ends ends = link_up(rig, &(struct link){ .type = IBV_QPT_UD });
	struct ibv_ah *ah = new_ah(rig, rig->gid);

	NEED(ah && post_recv(ends.b, rig, 1, 4096, 104) == 0);
	CHECK(datagram(ends.a, ah, wrong ? 0 : ends.b->qp_num, part(rig, 0, 64)) == 0);
	CHECK(poll_for(rig->cq, 2, 0.5) == 2 - wrong);
}

/* The device list is freed before a device of it is opened. */
static void list_freed(struct rig *rig, bool wrong)
{
	tear_down(rig);
	rig->context = NULL;
	struct ibv_device **list = ibv_get_device_list(NULL);
	NEED(list && list[0]);
	struct ibv_device *device = list[0];

	if (wrong)
		ibv_free_device_list(list);
	struct ibv_context *context = KEEP(ibv_open_device(device));
	NEED(context);
	if (!wrong)
		ibv_free_device_list(list);
	/* The context keeps its device. */
	struct ibv_context *again = KEEP(ibv_open_device(context->device));
	NEED(again);
}

/* More completions than the CQ has room for. */
static void cq_overran(struct rig *rig, bool wrong)
{
	struct ibv_cq *cq = KEEP(ibv_create_cq(rig->context, wrong ? 1 : 16, NULL, NULL, 0));
	struct ends ends = link_up(rig, &(struct link){ .send_cq = cq });

	for (int i = 0; i < 8; i++)
		NEED(send_wr(ends.a, rig, IBV_WR_RDMA_WRITE, 0, 0, 8) == 0);
	usleep(200000);
	CHECK(poll_for(cq, 8, LONG) == (wrong ? 1 : 8));
}

/* A receive whose buffer is a local variable of a function that returns. */
static __attribute__((noinline)) void post_local(struct rig *rig, struct ibv_qp *qp, uint8_t *longer)
{
	uint8_t local[2048], *buf = longer ? longer : local;
	struct ibv_mr *mr = KEEP(ibv_reg_mr(rig->pd, buf, sizeof(local), IBV_ACCESS_LOCAL_WRITE));
	NEED(mr);
	struct ibv_sge sge = { (uintptr_t)buf, sizeof(local), mr->lkey };
	struct ibv_recv_wr *bad, wr = { .sg_list = &sge, .num_sge = 1 };

	NEED(ibv_post_recv(qp, &wr, &bad) == 0);
}

static void local_receive(struct rig *rig, bool wrong)
{
	uint8_t longer[2048];
	struct ends ends = link_up(rig, &(struct link){ 0 });

	post_local(rig, ends.a, wrong ? NULL : longer);
	/* Nothing comes, so that nothing is overwritten. */
	CHECK(poll_for(rig->cq, 1, 0.2) == 0);
}

/* The receiver of datagrams was not moved on to RTR. */
static void datagrams_too_early(struct rig *rig, bool wrong)
{
	struct link link = { .type = IBV_QPT_UD, .stays = wrong ? IBV_QPS_INIT : 0 };
	struct ibv_qp *qp = link_qp(rig, &link);

	NEED(link_to(rig, qp, &link, 0, rig->gid, true) == 0);
	NEED(post_recv(qp, rig, 1, 4096, 104) == 0);
	CHECK(poll_for(rig->cq, 1, wrong ? LONG : 0.1) == 0);
}

/* The request names a region of another context of the same device. */
static void key_of_other_context(struct rig *rig, bool wrong)
{
	struct ends ends = link_up(rig, &(struct link){ 0 });
	struct ibv_context *context = KEEP(ibv_open_device(rig->context->device));
	struct ibv_pd *pd = KEEP(ibv_alloc_pd(context));
	char *other = KEEP(calloc(1, 4096));
	struct ibv_mr *mr = KEEP(ibv_reg_mr(pd, other, 4096, ALL_ACCESS));
	NEED(mr);
	struct ibv_sge sge = { (uintptr_t)rig->buf, 64, wrong ? mr->lkey : rig->mr->lkey };

	NEED(post_recv(ends.b, rig, 1, 4096, 64) == 0 && send_to(ends.a, sge, IBV_WR_SEND, 0, 0) == 0);
	CHECK((next_status(rig->cq) == IBV_WC_SUCCESS) == !wrong);
}

/* The peer's card was never filled in. */
static void key_of_nobody(struct rig *rig, bool wrong)
{
	struct ends ends = link_up(rig, &(struct link){ 0 });
	int64_t to = wrong ? -(int64_t)(uintptr_t)rig->buf : 512;

	NEED(post(ends.a, rig, IBV_WR_RDMA_WRITE, 0, 8, to, wrong ? 0 : rig->mr->rkey) == 0);
	CHECK((next_status(rig->cq) == IBV_WC_SUCCESS) == !wrong);
}

/* Receives are posted to a full SRQ again before the completions of those before them are polled. */
static void srq_unpolled(struct rig *rig, bool wrong)
{
	struct ibv_cq *cq = KEEP(ibv_create_cq(rig->context, 16, NULL, NULL, 0));
	struct link link = { .srq = new_srq(rig, 4), .recv_cq = cq };
	struct ends ends = link_up(rig, &link);
	struct ibv_sge sge = { (uintptr_t)rig->buf + 4096, 64, rig->mr->lkey };

	for (int i = 0; i < 4; i++)
		NEED(srq_recv(link.srq, sge) == 0);
	for (int i = 0; i < 2; i++)
		NEED(send_wr(ends.a, rig, IBV_WR_SEND, 0, 0, 64) == 0);
	CHECK(poll_for(rig->cq, 2, 3) == 2);
	if (!wrong)
		CHECK(poll_for(cq, 2, 3) == 2);
	CHECK(srq_recv(link.srq, sge) == (wrong ? ENOMEM : 0));
}

/* The access begins in the region of the peer, and runs past its end. */
static void write_past_end(struct rig *rig, bool wrong)
{
	struct ends ends = link_up(rig, &(struct link){ 0 });
	struct ibv_mr *mr = KEEP(ibv_reg_mr(rig->pd, rig->buf + 4096, 4096, ALL_ACCESS));

	NEED(mr && post(ends.a, rig, IBV_WR_RDMA_WRITE, 0, 64, wrong ? 8186 : 8128, mr->rkey) == 0);
	CHECK((next_status(rig->cq) == IBV_WC_SUCCESS) == !wrong);
}

/* `next` of the only receive is that of a request of which nothing else is set. */
static void stale_receive(struct rig *rig, bool wrong)
{
	struct ends ends = link_up(rig, &(struct link){ 0 });
	struct ibv_sge sge = { (uintptr_t)rig->buf, 64, rig->mr->lkey };
	struct ibv_recv_wr *bad, stale = { .num_sge = 9 };
	struct ibv_recv_wr wr = { .wr_id = 3, .sg_list = &sge, .num_sge = 1, .next = wrong ? &stale : NULL };

	CHECK(!ibv_post_recv(ends.b, &wr, &bad) == !wrong);
}

/* The same with an SRQ, and a negative number. */
static void stale_srq_receive(struct rig *rig, bool wrong)
{
	struct ibv_srq *srq = new_srq(rig, 4);
	struct ibv_sge sge = { (uintptr_t)rig->buf, 64, rig->mr->lkey };
	struct ibv_recv_wr *bad, stale = { .num_sge = -1515870811 };
	struct ibv_recv_wr wr = { .wr_id = 3, .sg_list = &sge, .num_sge = 1, .next = wrong ? &stale : NULL };

	CHECK(!ibv_post_srq_recv(srq, &wr, &bad) == !wrong);
}

/* The last request of an array points to memory behind it that was never set. */
static void garbage_behind_last(struct rig *rig, bool wrong)
{
	struct ends ends = link_up(rig, &(struct link){ 0 });
	struct ibv_sge sge = { (uintptr_t)rig->buf, 64, rig->mr->lkey };
	struct ibv_send_wr *bad, wr[3];

	memset(wr, 0x5a, sizeof(wr));
	wr[2].next = NULL;
	two_sends(rig, ends.b, &sge, wr);
	if (!wrong)
		wr[1].next = NULL;
	CHECK(!ibv_post_send(ends.a, wr, &bad) == !wrong);
	CHECK(poll_for(rig->cq, 4, 3) == 4);
}

/* The request of an atomic operation is filled in like that of a WRITE. */
static void atomic_in_rdma(struct rig *rig, bool wrong)
{
	struct ends ends = link_up(rig, &(struct link){ 0 });
	uint64_t addr = (uintptr_t)rig->buf + 4096;

	CHECK((compare_and_swap(rig, ends.a, addr, rig->mr->rkey, wrong) == IBV_WC_SUCCESS) == !wrong);
}

/* A reply goes to the number of the receiver of the message, not to that of its sender. */
static void reply_to_itself(struct rig *rig, bool wrong)
{
	struct ends ends = link_up(rig, &(struct link){ .type = IBV_QPT_UD });
	struct ibv_sge sge = { (uintptr_t)rig->buf, 64, rig->mr->lkey };
	struct ibv_send_wr *bad, wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND };
	struct ibv_ah *ah = new_ah(rig, rig->gid);

	NEED(ah && post_recv(ends.a, rig, 1, 4096, 104) == 0 && post_recv(ends.b, rig, 1, 4608, 104) == 0);
	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = ends.b->qp_num;
	wr.wr.ud.remote_qkey = QKEY;
	NEED(ibv_post_send(ends.a, &wr, &bad) == 0 && poll_for(rig->cq, 2, 3) == 2);
	wr.wr.ud.remote_qpn = wrong ? ends.b->qp_num : ends.a->qp_num;
	CHECK(ibv_post_send(ends.b, &wr, &bad) == 0);
	CHECK(poll_for(rig->cq, 2, wrong ? 0.3 : 3) == 2 - wrong);
	/* With a receive it may be meant. */
	if (!wrong) {
		wr.wr.ud.remote_qpn = ends.b->qp_num;
		NEED(post_recv(ends.b, rig, 1, 4608, 104) == 0 && ibv_post_send(ends.b, &wr, &bad) == 0);
		CHECK(poll_for(rig->cq, 2, 3) == 2);
	}
}

const struct mistake trial_mistakes[] = {
	{ "reply-to-itself", reply_to_itself, "to-itself", "a reply goes to src_qp of the completion" },
	{ "atomic-in-rdma", atomic_in_rdma, "key-unknown", "wr.rdma was filled in" },
	{ "stale-receive", stale_receive, "sge-limit",
	  "request 2 of the list, reached by `next` of wr_id 3" },
	{ "stale-srq-receive", stale_srq_receive, "sge-limit", "of wr_id 3; if one request was meant" },
	{ "garbage-behind-last", garbage_behind_last, "sge-limit", "request 3 of the list" },
	{ "write-past-end", write_past_end, "key-range", "by 58 bytes behind its end" },
	{ "datagrams-too-early", datagrams_too_early, "no-completion", "it receives in RTR and later" },
	{ "key-of-other-context", key_of_other_context, "key-unknown", "of another context" },
	{ "key-of-nobody", key_of_nobody, "key-unknown", "rkey was not received" },
	{ "srq-unpolled", srq_unpolled, "recv-queue-full", "of 4 receives, 4 have no polled completion" },
	{ "nobody-forever", nobody_forever, "no-completion", "has a queue pair 0xabcdef" },
	{ "unsignaled-here", unsignaled_here, "no-completion", "none is signaled" },
	{ "list-unused", list_unused, "no-data", "num_sge is 0" },
	{ "wr-no-data", wr_no_data, "no-data", "no setter was called" },
	{ "wr-flags-late", wr_flags_late, "argument", "after the operation of the last request" },
	{ "datagram-to-none", datagram_to_none, "argument", "remote_qpn was not set" },
	{ "list-freed", list_freed, "argument", "ibv_free_device_list has freed before" },
	{ "cq-overran", cq_overran, "no-completion", "has overrun" },
	{ "local-receive", local_receive, "stack-region", "of a function that has returned" },
	{ NULL },
};
