/*
 * Moderation of completion events: an event waits for completions, or for its period.
 */
#include "../../uroce/verbs/check.h"
#include "report.h"

int failures;

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

static int moderate(uint16_t count, uint16_t period)
{
	struct ibv_modify_cq_attr attr = { .attr_mask = IBV_CQ_ATTR_MODERATE, .moderate = { count, period } };

	return ibv_modify_cq(cq, &attr);
}

int main(void)
{
	struct ibv_modify_cq_attr unknown = { .attr_mask = 2 };
	struct ibv_qp_attr error = { .qp_state = IBV_QPS_ERR };
	struct ibv_device_attr_ex attr = {};
	struct rig rig;
	double before;

	set_up(&rig);
	NEED(ibv_query_device_ex(rig.context, NULL, &attr) == 0);
	NEED(channel = ibv_create_comp_channel(rig.context));
	NEED(cq = ibv_create_cq(rig.context, 64, NULL, channel, 0));
	rig.cq = cq;
	qp = make_qp(&rig, IBV_QPT_RC, 0, NULL);
	NEED(to_init(qp) == 0 && ibv_modify_qp(qp, &error, IBV_QP_STATE) == 0);
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
	report("after-it", complete(1) == 0 && event_within(10000) && now() - before >= 0.004);
	report("off", moderate(0, 0) == 0 && ibv_req_notify_cq(cq, 0) == 0 && complete(1) == 0);
	report("at-once-again", event_within(10000));
	return failed;
}
