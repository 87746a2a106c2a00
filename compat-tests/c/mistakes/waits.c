/* Programs that wait for what does not come. A thread ends the wait, so that the program does. */
#include "mistakes.h"

#include <fcntl.h>
#include <pthread.h>

/* A CQ with a channel. */
struct notified {
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
};

static struct notified notified(struct rig *rig)
{
	struct notified all = { .channel = KEEP(ibv_create_comp_channel(rig->context)) };

	NEED(all.channel && (all.cq = KEEP(ibv_create_cq(rig->context, 64, NULL, all.channel, 0))));
	return all;
}

static void drop(struct notified *all)
{
	CHECK(end(all->cq) == 0 && end(all->channel) == 0);
}

/* Waits for an event, and is interrupted if none comes. Returns whether one came. */
static bool event_comes(struct ibv_comp_channel *channel)
{
	struct ibv_cq *cq;
	void *context;

	interrupt_after(3);
	bool comes = ibv_get_cq_event(channel, &cq, &context) == 0;
	alarm(0);
	if (comes)
		ibv_ack_cq_events(cq, 1);
	return comes;
}

static void not_armed(struct rig *rig, bool wrong)
{
	struct notified all = notified(rig);
	struct ends ends = link_up(rig, &(struct link){ .send_cq = all.cq, .recv_cq = all.cq });

	if (!wrong)
		NEED(ibv_req_notify_cq(all.cq, 0) == 0);
	NEED(send_wr(ends.a, rig, IBV_WR_RDMA_WRITE, 0, 0, 8) == 0);
	CHECK(event_comes(all.channel) == !wrong);
	CHECK(next_status(all.cq) == IBV_WC_SUCCESS);
}

static void solicited_only(struct rig *rig, bool wrong)
{
	struct notified all = notified(rig);
	struct ends ends = link_up(rig, &(struct link){ .recv_cq = all.cq });

	NEED(post_recv(ends.b, rig, 1, 4096, 64) == 0 && ibv_req_notify_cq(all.cq, 1) == 0);
	NEED(send_wr(ends.a, rig, IBV_WR_SEND, wrong ? 0 : IBV_SEND_SOLICITED, 0, 8) == 0);
	CHECK(event_comes(all.channel) == !wrong);
	CHECK(next_status(all.cq) == IBV_WC_SUCCESS && next_status(rig->cq) == IBV_WC_SUCCESS);
}

/* The completion came before the CQ was armed. */
static void armed_late(struct rig *rig, bool wrong)
{
	struct notified all = notified(rig);
	struct ends ends = link_up(rig, &(struct link){ .send_cq = all.cq, .recv_cq = all.cq });

	NEED(send_wr(ends.a, rig, IBV_WR_RDMA_WRITE, 0, 0, 8) == 0);
	usleep(100000);
	NEED(ibv_req_notify_cq(all.cq, 0) == 0);
	if (wrong)
		CHECK(!event_comes(all.channel));
	CHECK(next_status(all.cq) == IBV_WC_SUCCESS);
}

/* Waits on a channel that the CQ was not created with. */
static void other_channel(struct rig *rig, bool wrong)
{
	struct notified all = notified(rig), other = notified(rig);
	struct ends ends = link_up(rig, &(struct link){ .send_cq = all.cq, .recv_cq = all.cq });

	NEED(ibv_req_notify_cq(all.cq, 0) == 0);
	NEED(send_wr(ends.a, rig, IBV_WR_RDMA_WRITE, 0, 0, 8) == 0);
	CHECK(event_comes(wrong ? other.channel : all.channel) == !wrong);
	if (wrong)
		CHECK(event_comes(all.channel));
	CHECK(next_status(all.cq) == IBV_WC_SUCCESS);
}

static void unsignaled_wait(struct rig *rig, bool wrong)
{
	struct ends ends = link_up(rig, &(struct link){ .unsignaled = true });

	NEED(send_wr(ends.a, rig, IBV_WR_RDMA_WRITE, wrong ? 0 : IBV_SEND_SIGNALED, 0, 8) == 0);
	CHECK(poll_for(rig->cq, 1, LONG) == !wrong);
}

static void unsignaled_event(struct rig *rig, bool wrong)
{
	struct notified all = notified(rig);
	struct ends ends = link_up(rig, &(struct link){
						.send_cq = all.cq, .recv_cq = all.cq, .unsignaled = true });

	NEED(ibv_req_notify_cq(all.cq, 0) == 0);
	NEED(send_wr(ends.a, rig, IBV_WR_RDMA_WRITE, wrong ? 0 : IBV_SEND_SIGNALED, 0, 8) == 0);
	CHECK(event_comes(all.channel) == !wrong);
	CHECK(poll_for(all.cq, 1, 0.1) == !wrong);
}

static void polls_other_cq(struct rig *rig, bool wrong)
{
	struct ibv_cq *recv_cq = KEEP(ibv_create_cq(rig->context, 8, NULL, NULL, 0));
	struct ends ends = link_up(rig, &(struct link){ .recv_cq = recv_cq });

	NEED(post_recv(ends.b, rig, 1, 4096, 64) == 0 && send_wr(ends.a, rig, IBV_WR_SEND, 0, 0, 8) == 0);
	CHECK(next_status(rig->cq) == IBV_WC_SUCCESS);
	CHECK(poll_for(wrong ? rig->cq : recv_cq, 1, LONG) == !wrong);
}

static void rnr_forever(struct rig *rig, bool wrong)
{
	struct ends ends = link_up(rig, &(struct link){ .rnr_retry = 7 });

	if (!wrong)
		NEED(post_recv(ends.b, rig, 1, 4096, 64) == 0);
	NEED(send_wr(ends.a, rig, IBV_WR_SEND, 0, 0, 8) == 0);
	CHECK((poll_for(rig->cq, 1, LONG) == 1) == !wrong);
}

static void timeout_zero(struct rig *rig, bool wrong)
{
	struct ends ends = link_up(rig,
				   &(struct link){ .no_timeout = true, .stays = wrong ? IBV_QPS_INIT : 0 });

	NEED(send_wr(ends.a, rig, IBV_WR_RDMA_WRITE, 0, 0, 8) == 0);
	CHECK((poll_for(rig->cq, 1, LONG) == 1) == !wrong);
}

/* The receiver's peer has not moved to RTS, so it does not send. */
static void recv_in_init(struct rig *rig, bool wrong)
{
	struct link link = { .stays = wrong ? IBV_QPS_INIT : 0 };
	struct ibv_qp *qp = link_qp(rig, &link);

	NEED(link_to(rig, qp, &link, qp->qp_num, rig->gid, true) == 0);
	NEED(post_recv(qp, rig, 1, 4096, 64) == 0);
	if (!wrong)
		NEED(send_wr(qp, rig, IBV_WR_SEND, 0, 0, 8) == 0);
	CHECK(poll_for(rig->cq, 2, LONG) == (wrong ? 0 : 2));
}

/* A WRITE consumes no receive, so none completes. */
static void write_is_silent(struct rig *rig, bool wrong)
{
	struct ibv_cq *recv_cq = KEEP(ibv_create_cq(rig->context, 8, NULL, NULL, 0));
	struct ends ends = link_up(rig, &(struct link){ .recv_cq = recv_cq });

	NEED(post_recv(ends.b, rig, 1, 4096, 64) == 0);
	CHECK(works(rig, ends.a, wrong ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_WRITE_WITH_IMM, 8));
	CHECK(poll_for(recv_cq, 1, LONG) == !wrong);
}

/* The receive was posted to the queue pair that sends. */
static void recv_on_sender(struct rig *rig, bool wrong)
{
	struct ends ends = link_up(rig, &(struct link){ .rnr_retry = 7 });

	NEED(post_recv(wrong ? ends.a : ends.b, rig, 1, 4096, 64) == 0);
	NEED(send_wr(ends.a, rig, IBV_WR_SEND, 0, 0, 8) == 0);
	CHECK((poll_for(rig->cq, 2, LONG) == 2) == !wrong);
}

/* ibv_wr_complete is missing. */
static void wr_not_completed(struct rig *rig, bool wrong)
{
	struct ibv_qp *qp = make_qp(rig, IBV_QPT_RC, IBV_QP_EX_WITH_RDMA_WRITE, NULL);
	struct ibv_qp_ex *qpx = ibv_qp_to_qp_ex(qp);

	join(rig, qp, qp);
	ibv_wr_start(qpx);
	qpx->wr_id = 1;
	qpx->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(qpx, rig->mr->rkey, (uintptr_t)rig->buf);
	ibv_wr_set_sge(qpx, rig->mr->lkey, (uintptr_t)rig->buf + 64, 8);
	if (!wrong)
		CHECK(ibv_wr_complete(qpx) == 0);
	CHECK(poll_for(rig->cq, 1, LONG) == !wrong);
	if (wrong)
		ibv_wr_abort(qpx);
}

static void *ack_late(void *cq)
{
	sleep(2);
	ibv_ack_cq_events(cq, 1);
	return NULL;
}

static void cq_unacked(struct rig *rig, bool wrong)
{
	struct notified all = notified(rig);
	struct ends ends = link_up(rig, &(struct link){ .send_cq = all.cq, .recv_cq = all.cq });
	struct ibv_cq *cq;
	pthread_t thread;
	void *context;

	NEED(ibv_req_notify_cq(all.cq, 0) == 0 && send_wr(ends.a, rig, IBV_WR_RDMA_WRITE, 0, 0, 8) == 0);
	NEED(ibv_get_cq_event(all.channel, &cq, &context) == 0);
	CHECK(next_status(all.cq) == IBV_WC_SUCCESS);
	if (wrong)
		NEED(pthread_create(&thread, NULL, ack_late, cq) == 0);
	else
		ibv_ack_cq_events(cq, 1);
	unlink_qps(ends);
	drop(&all);
	if (wrong)
		NEED(pthread_join(thread, NULL) == 0);
}

/* Asynchronous events say nothing of completions. */
static void async_wait(struct rig *rig, bool wrong)
{
	struct ends ends = link_up(rig, &(struct link){ 0 });

	NEED(send_wr(ends.a, rig, IBV_WR_RDMA_WRITE, 0, 0, 8) == 0);
	if (wrong)
		CHECK(next_async(rig) == -1);
	CHECK(next_status(rig->cq) == IBV_WC_SUCCESS);
}

/* The peer's WRITE is refused here, which an event says. */
static void access_event(struct rig *rig, bool wrong)
{
	struct ibv_mr *mr = KEEP(ibv_reg_mr(rig->pd, rig->buf, SIZE,
					    IBV_ACCESS_LOCAL_WRITE | (wrong ? 0 : IBV_ACCESS_REMOTE_WRITE)));
	struct ends ends = link_up(rig, &(struct link){ 0 });

	NEED(mr && post(ends.a, rig, IBV_WR_RDMA_WRITE, 0, 8, 4096, mr->rkey) == 0);
	CHECK((next_status(rig->cq) == IBV_WC_SUCCESS) == !wrong);
	if (wrong)
		CHECK(next_event(rig) == IBV_EVENT_QP_ACCESS_ERR);
}

/* The array of completions has no element. */
static void polls_none(struct rig *rig, bool wrong)
{
	struct ends ends = link_up(rig, &(struct link){ 0 });
	struct ibv_wc wc;
	time_t end = time(NULL) + 4;
	int got = 0;

	NEED(send_wr(ends.a, rig, IBV_WR_RDMA_WRITE, 0, 0, 8) == 0);
	while (time(NULL) < end && (got = ibv_poll_cq(rig->cq, wrong ? 0 : 1, &wc)) == 0)
		;
	CHECK(got == !wrong);
}

/* The length of an array that is empty, less one. */
static void polls_negative(struct rig *rig, bool wrong)
{
	struct ibv_wc wc[2];

	CHECK(ibv_poll_cq(rig->cq, wrong ? -1 : 2, wc) == 0);
}

/* Not signaled; the CQ is also that of a receive for which nothing comes. */
static void unsignaled_with_receive(struct rig *rig, bool wrong)
{
	struct ends ends = link_up(rig, &(struct link){ .unsignaled = true });

	NEED(post_recv(ends.b, rig, 1, 4096, 64) == 0);
	NEED(send_wr(ends.a, rig, IBV_WR_RDMA_WRITE, wrong ? 0 : IBV_SEND_SIGNALED, 0, 8) == 0);
	CHECK(poll_for(rig->cq, 1, LONG) == !wrong);
}

static void *take_back(void *argument)
{
	struct ibv_cq *cq = argument;

	sleep(2);
	pthread_mutex_lock(&cq->mutex);
	cq->comp_events_completed--;
	pthread_cond_signal(&cq->cond);
	pthread_mutex_unlock(&cq->mutex);
	return NULL;
}

static void acked_twice(struct rig *rig, bool wrong)
{
	struct notified all = notified(rig);
	struct ends ends = link_up(rig, &(struct link){ .send_cq = all.cq, .recv_cq = all.cq });
	struct ibv_cq *cq;
	pthread_t thread;
	void *context;

	NEED(ibv_req_notify_cq(all.cq, 0) == 0 && send_wr(ends.a, rig, IBV_WR_RDMA_WRITE, 0, 0, 8) == 0);
	NEED(ibv_get_cq_event(all.channel, &cq, &context) == 0);
	CHECK(next_status(all.cq) == IBV_WC_SUCCESS);
	ibv_ack_cq_events(cq, wrong ? 2 : 1);
	if (wrong)
		NEED(pthread_create(&thread, NULL, take_back, cq) == 0);
	unlink_qps(ends);
	drop(&all);
	if (wrong)
		NEED(pthread_join(thread, NULL) == 0);
}

/* The program polls the CQ of receives only, which are flushed. */
static void flushed_by_send(struct rig *rig, bool wrong)
{
	struct ibv_cq *recv_cq = KEEP(ibv_create_cq(rig->context, 8, NULL, NULL, 0));
	struct ends ends = link_up(rig, &(struct link){ .recv_cq = recv_cq,
							.access = wrong ? IBV_ACCESS_LOCAL_WRITE : 0 });

	NEED(post_recv(ends.a, rig, 1, 4096, 64) == 0);
	NEED(send_wr(ends.a, rig, IBV_WR_RDMA_WRITE, 0, 0, 8) == 0);
	if (wrong)
		CHECK(next_status(recv_cq) == IBV_WC_WR_FLUSH_ERR);
	else
		CHECK(next_status(rig->cq) == IBV_WC_SUCCESS);
}

static void in_error_since(struct rig *rig, bool wrong)
{
	struct ends ends = link_up(rig, &(struct link){ .access = wrong ? IBV_ACCESS_LOCAL_WRITE : 0 });

	CHECK(works(rig, ends.a, IBV_WR_RDMA_WRITE, 8) == !wrong);
	CHECK(works(rig, ends.a, IBV_WR_RDMA_WRITE, 8) == !wrong);
}

static void *poll_long(void *cq)
{
	CHECK(poll_for(cq, 1, LONG) == 0);
	return NULL;
}

/* Every second request is signaled, and the program awaits a completion of each. */
static void counts_each(struct rig *rig, bool wrong)
{
	struct link link = { .unsignaled = true };
	struct ends ends = link_up(rig, &link);
	pthread_t thread;

	for (int i = 0; i < 4; i++)
		NEED(send_wr(ends.a, rig, IBV_WR_RDMA_WRITE, i % 2 ? IBV_SEND_SIGNALED : 0, 0, 8) == 0);
	CHECK(poll_for(rig->cq, wrong ? 4 : 2, LONG) == 2);
	/* A thread whose task is to poll waits for others' requests. */
	if (!wrong)
		NEED(pthread_create(&thread, NULL, poll_long, rig->cq) == 0 &&
		     pthread_join(thread, NULL) == 0);
}

static void *poll_one(void *cq)
{
	CHECK(poll_for(cq, 1, 20) == 1);
	return NULL;
}

/* Another thread polls the completion. The right program knows that, and posts again. */
static void taken_by_other(struct rig *rig, bool wrong)
{
	struct link link = { 0 };
	struct ends ends = link_up(rig, &link);
	pthread_t thread;

	for (int i = 0; i < (wrong ? 1 : 2); i++) {
		NEED(send_wr(ends.a, rig, IBV_WR_RDMA_WRITE, 0, 0, 8) == 0);
		NEED(pthread_create(&thread, NULL, poll_one, rig->cq) == 0 &&
		     pthread_join(thread, NULL) == 0);
		CHECK(poll_for(rig->cq, 1, 0.1) == 0);
	}
	CHECK(poll_for(rig->cq, 1, LONG) == 0);
}

const struct mistake wait_mistakes[] = {
	{ "not-armed", not_armed, "no-event", "was never armed, and 1 completions wait in it" },
	{ "solicited-only", solicited_only, "no-event", "was armed for solicited completions only" },
	{ "armed-late", armed_late, "no-event", "that came before it was armed" },
	{ "other-channel", other_channel, "no-event", "no queue pair uses a CQ of this channel" },
	{ "unsignaled-wait", unsignaled_wait, "no-completion", "none is signaled" },
	{ "unsignaled-event", unsignaled_event, "no-event", "none is signaled" },
	{ "polls-other-cq", polls_other_cq, "no-completion", "1 completions wait on the CQ" },
	{ "rnr-forever", rnr_forever, "no-completion",
	  "with rnr_retry 7 the request is repeated without end" },
	{ "timeout-zero", timeout_zero, "no-completion", "is in INIT; timeout 0 waits" },
	{ "recv-in-init", recv_in_init, "no-completion", "is in INIT: it receives in RTR and later" },
	{ "write-is-silent", write_is_silent, "no-completion", "none of which consumes a receive" },
	{ "recv-on-sender", recv_on_sender, "no-completion", "has no receive posted" },
	{ "wr-not-completed", wr_not_completed, "no-completion", "ibv_wr_complete, which was not called" },
	{ "cq-unacked", cq_unacked, "events-unacked", "1 completion events" },
	{ "polls-negative", polls_negative, "argument", "num_entries is -1" },
	{ "unsignaled-with-receive", unsignaled_with_receive, "no-completion",
	  "none is signaled, so that none causes a completion (sq_sig_all is 0); and of the receives" },
	{ "polls-none", polls_none, "no-completion", "was called with num_entries 0" },
	{ "acked-twice", acked_twice, "events-overacked", "1 events more were acknowledged" },
	{ "flushed-by-send", flushed_by_send, "qp-access",
	  "lacks IBV_ACCESS_REMOTE_WRITE in its qp_access_flags" },
	{ "in-error-since", in_error_since, "post-in-error",
	  "is in ERR since a request (wr_id 77, RDMA WRITE)" },
	{ "counts-each", counts_each, "no-completion", "all 2 signaled requests of queue pair" },
	{ "taken-by-other", taken_by_other, "completion-taken", "the completion of its request (wr_id 77)" },
	{ "async-wait", async_wait, "no-async-event", "never of requests and receives" },
	{ "access-event", access_event, "async-error", "IBV_EVENT_QP_ACCESS_ERR" },
	{ 0 },
};
