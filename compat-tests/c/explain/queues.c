/* Queues that are full or never emptied, events that are lost, threads. */
#include "scenes.h"

#include <pthread.h>

static void move_to(struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };

	NEED(ibv_modify_qp(qp, &attr, IBV_QP_STATE) == 0);
}

/* Posts until the queue is full, which happens after 16 requests: in SQD none of them completes. */
static void fill(struct rig *rig, bool signaled)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE,
				  .send_flags = signaled ? IBV_SEND_SIGNALED : 0,
				  .wr.rdma = { (uintptr_t)rig->buf, rig->mr->rkey } };
	struct ibv_qp_init_attr attr = {
		.send_cq = rig->cq, .recv_cq = rig->cq, .cap = { 16, 16, 1, 1, 0 }, .qp_type = IBV_QPT_RC
	};
	struct ibv_qp *qp = KEEP(ibv_create_qp(rig->pd, &attr));
	int posted = 0, error;

	NEED(qp);
	join(rig, qp, qp);
	move_to(qp, IBV_QPS_SQD);
	while (!(error = post_one(qp, part(rig, 0, 8), wr)) && posted < 10000)
		posted++;
	CHECK(error == ENOMEM && posted == 16);
	move_to(qp, IBV_QPS_RTS);
	if (signaled)
		await_status(rig, IBV_WC_SUCCESS);
}

static void send_queue_full(struct rig *rig)
{
	fill(rig, true);
}

static void never_signaled(struct rig *rig)
{
	fill(rig, false);
}

static void recv_queue_full(struct rig *rig)
{
	struct ibv_qp *qp = make_qp(rig, IBV_QPT_RC, 0, NULL);
	int error = 0;

	NEED(to_init(qp) == 0);
	for (int i = 0; i < 10000 && !error; i++)
		error = post_recv(qp, rig, i, 0, 8);
	CHECK(error == ENOMEM);
}

/* Two requests for a CQ of one entry: it overruns. */
static void cq_overrun(struct rig *rig)
{
	struct ibv_cq *cq = KEEP(ibv_create_cq(rig->context, 1, NULL, NULL, 0));
	struct ibv_qp_init_attr attr = { .send_cq = cq,
					 .recv_cq = cq,
					 .cap = { 16, 16, 1, 1, 0 },
					 .qp_type = IBV_QPT_RC,
					 .sq_sig_all = 1 };
	struct ibv_wc wc;
	struct ibv_qp *qp;
	int event;

	NEED(cq && (qp = KEEP(ibv_create_qp(rig->pd, &attr))));
	join(rig, qp, qp);
	for (int i = 0; i <= cq->cqe; i++)
		NEED(post(qp, rig, IBV_WR_RDMA_WRITE, 0, 8, 0, rig->mr->rkey) == 0);
	while ((event = next_event(rig)) >= 0 && event != IBV_EVENT_CQ_ERR)
		;
	CHECK(event == IBV_EVENT_CQ_ERR);
	ibv_poll_cq(cq, 1, &wc);
}

static void grh_room(struct rig *rig)
{
	struct ibv_qp *qp = make_qp(rig, IBV_QPT_UD, 0, NULL);

	NEED(to_init(qp) == 0 && post_recv(qp, rig, 1, 0, 40) == 0 && post_recv(qp, rig, 2, 0, 39) == 0);
}

/* uroce accepts the READ, which fails. */
static void rd_atomic_zero(struct rig *rig)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS, .sq_psn = 0xfffffe, .timeout = 14, .retry_cnt = 3, .rnr_retry = 3
	};
	struct ibv_qp *qp = make_qp(rig, IBV_QPT_RC, 0, NULL);

	NEED(to_init(qp) == 0 && to_rtr(rig, qp, qp->qp_num) == 0);
	NEED(ibv_modify_qp(qp, &attr, RTS_MASK) == 0);
	NEED(send_to(qp, part(rig, 0, 8), IBV_WR_RDMA_READ, (uintptr_t)rig->buf + 4096, rig->mr->rkey) == 0);
	await_status(rig, IBV_WC_LOC_QP_OP_ERR);
}

/* Polls for the completion of an unsignaled request, for longer than IBV_EXPLAIN_WAIT. */
static void no_completion(struct rig *rig)
{
	struct ibv_qp_init_attr unsignaled = {
		.send_cq = rig->cq, .recv_cq = rig->cq, .cap = { 4, 4, 1, 1, 0 }, .qp_type = IBV_QPT_RC
	};
	struct ibv_qp *a = KEEP(ibv_create_qp(rig->pd, &unsignaled)), *b = make_qp(rig, IBV_QPT_RC, 0, NULL);
	struct ibv_wc wc;

	NEED(a);
	join(rig, a, b);
	NEED(send_to(a, part(rig, 0, 8), IBV_WR_RDMA_WRITE, (uintptr_t)rig->buf + 4096, rig->mr->rkey) == 0);
	for (time_t end = time(NULL) + 3; time(NULL) < end;)
		CHECK(ibv_poll_cq(rig->cq, 1, &wc) == 0);
}

static void cq_never_polled(struct rig *rig)
{
	struct ibv_cq *cq = KEEP(ibv_create_cq(rig->context, 16, NULL, NULL, 0));
	struct ibv_cq *other = rig->cq;
	struct ibv_qp *a, *b;

	NEED(cq);
	rig->cq = cq;
	connected(rig, &a, &b);
	rig->cq = other;
	NEED(post(a, rig, IBV_WR_RDMA_WRITE, 0, 8, 0, rig->mr->rkey) == 0);
}

static void over_limit(struct rig *rig, int num_sge, uint32_t length, unsigned flags)
{
	struct ibv_sge sge[64];
	struct ibv_send_wr *bad,
		wr = { .sg_list = sge, .num_sge = num_sge, .opcode = IBV_WR_SEND, .send_flags = flags };
	struct ibv_qp *a, *b;

	for (int i = 0; i < 64; i++)
		sge[i] = (struct ibv_sge){ (uintptr_t)rig->buf, length, rig->mr->lkey };
	connected(rig, &a, &b);
	CHECK(ibv_post_send(a, &wr, &bad) != 0);
}

static void inline_limit(struct rig *rig)
{
	over_limit(rig, 1, 4000, IBV_SEND_INLINE);
}

static void sge_limit(struct rig *rig)
{
	over_limit(rig, 64, 1, 0);
}

/* The objects that a request and its completion event need, with a CQ that has a channel. */
struct notified {
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_qp *a, *b;
};

static struct notified notified(struct rig *rig)
{
	struct ibv_cq *other = rig->cq;
	struct notified all = { .channel = KEEP(ibv_create_comp_channel(rig->context)) };

	NEED(all.channel && (all.cq = KEEP(ibv_create_cq(rig->context, 64, NULL, all.channel, 0))));
	rig->cq = all.cq;
	connected(rig, &all.a, &all.b);
	rig->cq = other;
	return all;
}

static void await_event(struct notified *all)
{
	struct ibv_cq *cq;
	void *context;

	NEED(ibv_get_cq_event(all->channel, &cq, &context) == 0);
	ibv_ack_cq_events(cq, 1);
}

/* Arms the CQ after a poll of `asked` completions, and waits without another poll. */
static void without_second_poll(struct rig *rig, int asked)
{
	struct notified all = notified(rig);
	struct ibv_wc wc[2];

	NEED(post_recv(all.b, rig, 1, 0, 8) == 0);
	NEED(ibv_req_notify_cq(all.cq, 0) == 0);
	NEED(post(all.a, rig, IBV_WR_RDMA_WRITE, 0, 8, 0, rig->mr->rkey) == 0);
	await_event(&all);
	NEED(ibv_poll_cq(all.cq, asked, wc) == 1);
	NEED(ibv_req_notify_cq(all.cq, 0) == 0);
	/* The event must not come from a request that is posted now: a receive completes, of which the CQ
	 * knows that it was posted before. */
	struct ibv_cq *other = KEEP(ibv_create_cq(rig->context, 16, NULL, NULL, 0));
	struct ibv_qp_init_attr attr = { .send_cq = other,
					 .recv_cq = all.cq,
					 .cap = { 4, 4, 1, 1, 0 },
					 .qp_type = IBV_QPT_RC,
					 .sq_sig_all = 1 };
	struct ibv_qp *qp;

	NEED(other && (qp = KEEP(ibv_create_qp(rig->pd, &attr))));
	join(rig, qp, qp);
	NEED(post_recv(qp, rig, 2, 0, 8) == 0);
	NEED(post(qp, rig, IBV_WR_SEND, 0, 8, 0, 0) == 0);
	await_event(&all);
	CHECK(next_wc(other).status == IBV_WC_SUCCESS);
}

static void notify_no_poll(struct rig *rig)
{
	without_second_poll(rig, 2);
}

static void events_coalesced(struct rig *rig)
{
	without_second_poll(rig, 1);
}

static void channel_unread(struct rig *rig)
{
	struct notified all = notified(rig);
	struct pollfd fd = { .fd = all.channel->fd, .events = POLLIN };

	for (int i = 0; i < 4; i++) {
		NEED(ibv_req_notify_cq(all.cq, 0) == 0);
		NEED(post(all.a, rig, IBV_WR_RDMA_WRITE, 0, 8, 0, rig->mr->rkey) == 0);
		CHECK(next_wc(all.cq).status == IBV_WC_SUCCESS);
	}
	CHECK(poll(&fd, 1, WAIT_SECONDS * 1000) == 1);
}

/* Acknowledges an event after a second. */
static void *acknowledge(void *cq)
{
	sleep(1);
	ibv_ack_cq_events(cq, 1);
	return NULL;
}

static void events_unacked(struct rig *rig)
{
	struct notified all = notified(rig);
	struct ibv_wc wc;
	struct ibv_cq *cq;
	pthread_t thread;
	void *context;

	NEED(ibv_req_notify_cq(all.cq, 0) == 0);
	NEED(post(all.a, rig, IBV_WR_RDMA_WRITE, 0, 8, 0, rig->mr->rkey) == 0);
	NEED(ibv_get_cq_event(all.channel, &cq, &context) == 0);
	NEED(ibv_poll_cq(cq, 1, &wc) == 1);
	NEED(pthread_create(&thread, NULL, acknowledge, cq) == 0);
	CHECK(end(all.a) == 0 && end(all.b) == 0 && end(all.cq) == 0);
	NEED(pthread_join(thread, NULL) == 0);
}

static void *poll_once(void *cq)
{
	struct ibv_poll_cq_attr attr = { 0 };

	CHECK(ibv_start_poll(cq, &attr) == ENOENT);
	return NULL;
}

/* A thread polls a CQ for one thread while another is between start_poll and end_poll. */
static void thread_domain(struct rig *rig)
{
	struct ibv_cq_init_attr_ex init = { .cqe = 16,
					    .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
					    .flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED };
	struct ibv_cq_ex *cq = KEEP(ibv_create_cq_ex(rig->context, &init));
	struct ibv_poll_cq_attr attr = { 0 };
	struct ibv_cq *other = rig->cq;
	struct ibv_qp *a, *b;
	pthread_t thread;
	int tries = 0;

	NEED(cq);
	rig->cq = ibv_cq_ex_to_cq(cq);
	connected(rig, &a, &b);
	rig->cq = other;
	NEED(post(a, rig, IBV_WR_RDMA_WRITE, 0, 8, 0, rig->mr->rkey) == 0);
	while (ibv_start_poll(cq, &attr) && ++tries < 10000)
		usleep(100);
	CHECK(cq->status == IBV_WC_SUCCESS);
	NEED(pthread_create(&thread, NULL, poll_once, cq) == 0 && pthread_join(thread, NULL) == 0);
	ibv_end_poll(cq);
}

const struct scene queue_scenes[] = {
	{ "send-queue-full", send_queue_full, "send-queue-full",
	  "16 of 16 requests are outstanding, 16 of them signaled" },
	{ "never-signaled", never_signaled, "never-signaled", "full with 16 of 16 requests" },
	{ "recv-queue-full", recv_queue_full, "recv-queue-full", "16 have no polled completion" },
	{ "cq-overrun", cq_overrun, "cq-overrun cq-overrun-foreseen", "requests are outstanding on the CQ" },
	{ "grh-room", grh_room, "grh-room", "a receive of 39 bytes" },
	{ "rd-atomic-zero", rd_atomic_zero, "rd-atomic-zero", "the RDMA READ (wr_id 31) is posted" },
	{ "no-completion", no_completion, "no-completion", "1 requests of queue pair" },
	{ "cq-never-polled", cq_never_polled, "cq-never-polled", "1 signaled requests" },
	{ "inline-limit", inline_limit, "inline-limit",
	  "4000 bytes of inline data, and max_inline_data is 64" },
	{ "sge-limit", sge_limit, "sge-limit", "64 scatter/gather elements, and max_send_sge is 4" },
	{ "notify-no-poll", notify_no_poll, "notify-no-poll", "found empty, then armed" },
	{ "events-coalesced", events_coalesced, "events-coalesced", "as requested (1)" },
	{ "channel-unread", channel_unread, "channel-unread", "was armed (times: 4)" },
	{ "events-unacked", events_unacked, "events-unacked", "1 completion events" },
	{ "thread-domain", thread_domain, "thread-domain", "IBV_CREATE_CQ_ATTR_SINGLE_THREADED" },
	{ 0 },
};
