/*
 * Moderation of completion events: an event waits for completions, or for its period. Prints `ok NAME` or
 * `not ok NAME`.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static int failed;

static void report(const char *name, int holds)
{
	printf("%s %s\n", holds ? "ok" : "not ok", name);
	fflush(stdout);
	failed |= !holds;
}

static struct ibv_comp_channel *channel;
static struct ibv_cq *cq;
static struct ibv_qp *qp;

/* A queue pair in ERR completes whatever is posted, at once. */
static int complete(int count)
{
	for (int i = 0; i < count; i++) {
		struct ibv_recv_wr wr = {}, *bad;

		if (ibv_post_recv(qp, &wr, &bad))
			return -1;
	}
	return 0;
}

/* Whether an event comes within `limit` milliseconds. It is acknowledged. */
static int event_within(int limit)
{
	struct pollfd poll_fd = { .fd = channel->fd, .events = POLLIN };
	struct ibv_cq *of;
	void *context;

	if (poll(&poll_fd, 1, limit) != 1 || ibv_get_cq_event(channel, &of, &context))
		return 0;
	ibv_ack_cq_events(of, 1);
	return 1;
}

/* Microseconds of the monotonic clock. */
static int64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000LL + time.tv_nsec / 1000;
}

static int moderate(uint16_t count, uint16_t period)
{
	struct ibv_modify_cq_attr attr = { .attr_mask = IBV_CQ_ATTR_MODERATE, .moderate = { count, period } };

	return ibv_modify_cq(cq, &attr);
}

int main(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = list && list[0] ? ibv_open_device(list[0]) : NULL;
	struct ibv_modify_cq_attr unknown = { .attr_mask = 2 };
	struct ibv_qp_attr start = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	struct ibv_qp_attr error = { .qp_state = IBV_QPS_ERR };
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC };
	struct ibv_device_attr_ex attr = {};
	struct ibv_pd *pd = context ? ibv_alloc_pd(context) : NULL;
	int64_t before;

	if (!pd || ibv_query_device_ex(context, NULL, &attr) ||
	    !(channel = ibv_create_comp_channel(context)) ||
	    !(cq = ibv_create_cq(context, 64, NULL, channel, 0)))
		return 2;
	init.send_cq = init.recv_cq = cq;
	init.cap.max_send_wr = init.cap.max_send_sge = init.cap.max_recv_sge = 1;
	init.cap.max_recv_wr = 32;
	if (!(qp = ibv_create_qp(pd, &init)) ||
	    ibv_modify_qp(qp, &start, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS) ||
	    ibv_modify_qp(qp, &error, IBV_QP_STATE))
		return 2;
	if (!attr.cq_mod_caps.max_cq_count) {
		report("no-moderation", moderate(2, 0) == EOPNOTSUPP);
		return failed;
	}
	report("caps", attr.cq_mod_caps.max_cq_period >= 4095);
	report("unknown", ibv_modify_cq(cq, &unknown) != 0);
	/* At once, without moderation. */
	report("arm", ibv_req_notify_cq(cq, 0) == 0 && complete(1) == 0);
	report("at-once", event_within(10000));
	/* The fourth completion raises the event. */
	report("count", moderate(4, 0) == 0 && ibv_req_notify_cq(cq, 0) == 0);
	report("waits", complete(3) == 0 && !event_within(100));
	report("fourth", complete(1) == 0 && event_within(10000));
	report("one-event", !event_within(20));
	/* Or the end of the period does. */
	report("period", moderate(4, 4000) == 0 && ibv_req_notify_cq(cq, 0) == 0);
	/* The clock is read before the completion: what delays this thread makes the time longer, never
	 * shorter. */
	before = now();
	report("after-it", complete(1) == 0 && event_within(10000) && now() - before >= 4000);
	report("off", moderate(0, 0) == 0 && ibv_req_notify_cq(cq, 0) == 0 && complete(1) == 0);
	report("at-once-again", event_within(10000));
	return failed;
}
