/*
 * inject SCENE [ARGUMENT...]: does something that rules of IBV_FAULTS disturb, and prints or checks the
 * result. The test case sets the rules. Exits with 0 if the scene's checks pass.
 */
#define _GNU_SOURCE
#include "scenes.h"

#include <dlfcn.h>
#include <fcntl.h>

int failures;
/* When the program started, which is before the rules were set. */
static double started;

static double milliseconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e3 + t.tv_nsec * 1e-6;
}

static void print_counter(const char *name)
{
	printf("%s=%llu\n", name, counter(name));
}

static enum ibv_qp_state state_of(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	NEED(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init) == 0);
	return attr.qp_state;
}

/* send N LENGTH: that many messages, one after the other, all of which arrive. */
static void send_messages(struct rig *rig, char **argv)
{
	static const char *const counters[] = { "rx_icrc_encapsulated", "duplicate_request",
						"send_rnr_err",         "rcvd_rnr_err",
						"completer_retry_err",  "np_ecn_marked_roce_packets",
						"np_cnp_sent",          "rp_cnp_handled" };
	int count = atoi(argv[0]), length = atoi(argv[1]), good = 0;
	double begin = milliseconds();
	struct ibv_qp *a, *b;

	connected(rig, &a, &b);
	for (int i = 0; i < count; i++) {
		NEED(post_recv(b, rig, 100 + i, SIZE / 2, SIZE / 2) == 0);
		NEED(post(a, rig, IBV_WR_SEND, 0, length, 0, 0) == 0);
		for (int k = 0; k < 2; k++)
			good += next_wc(rig->cq).status == IBV_WC_SUCCESS;
	}
	CHECK(good == 2 * count);
	printf("ms=%.0f\n", milliseconds() - begin);
	for (size_t i = 0; i < sizeof(counters) / sizeof(*counters); i++)
		print_counter(counters[i]);
}

/* send-copies N LENGTH: as send, and waits until a copy of a packet has arrived, which may take another path.
 */
static void send_copies(struct rig *rig, char **argv)
{
	double end = milliseconds() + 10000;
	struct ibv_qp *a, *b;
	struct ibv_wc wc;

	connected(rig, &a, &b);
	for (int i = 0; i < atoi(argv[0]); i++) {
		NEED(post_recv(b, rig, 100 + i, SIZE / 2, SIZE / 2) == 0);
		NEED(post(a, rig, IBV_WR_SEND, 0, atoi(argv[1]), 0, 0) == 0);
		for (int k = 0; k < 2; k++)
			CHECK(next_wc(rig->cq).status == IBV_WC_SUCCESS);
	}
	while (!counter("duplicate_request") && milliseconds() < end)
		CHECK(ibv_poll_cq(rig->cq, 1, &wc) == 0);
	print_counter("duplicate_request");
}

/* status N: the send completes with this status, and its queue pair is in ERR. */
static void status_of_send(struct rig *rig, char **argv)
{
	struct ibv_wc wc = { .status = IBV_WC_SUCCESS };
	struct ibv_qp *a, *b;

	connected(rig, &a, &b);
	NEED(post_recv(b, rig, 100, SIZE / 2, 64) == 0);
	NEED(post(a, rig, IBV_WR_SEND, 0, 64, 0, 0) == 0);
	for (int i = 0; i < 2 && wc.qp_num != a->qp_num; i++)
		wc = next_wc(rig->cq);
	CHECK(wc.status == (enum ibv_wc_status)atoi(argv[0]));
	CHECK(state_of(a) == IBV_QPS_ERR);
	CHECK(post(a, rig, IBV_WR_SEND, 0, 64, 0, 0) == 0);
	do
		wc = next_wc(rig->cq);
	while (wc.qp_num != a->qp_num && !failures);
	CHECK(wc.status == IBV_WC_WR_FLUSH_ERR);
}

/* status-recv N: the receive completes with this status, the send without error. */
static void status_of_receive(struct rig *rig, char **argv)
{
	struct ibv_qp *a, *b;

	connected(rig, &a, &b);
	NEED(post_recv(b, rig, 100, SIZE / 2, 64) == 0);
	NEED(post(a, rig, IBV_WR_SEND, 0, 64, 0, 0) == 0);
	for (int i = 0; i < 2; i++) {
		struct ibv_wc wc = next_wc(rig->cq);

		CHECK(wc.status ==
		      (wc.qp_num == b->qp_num ? (enum ibv_wc_status)atoi(argv[0]) : IBV_WC_SUCCESS));
	}
	CHECK(state_of(b) == IBV_QPS_ERR);
}

/* status-ex N: as status, with an extended CQ. */
static void status_of_extended(struct rig *rig, char **argv)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = 16, .wc_flags = IBV_WC_EX_WITH_QP_NUM };
	struct ibv_poll_cq_attr poll_attr = { 0 };
	struct ibv_cq_ex *cq = KEEP(ibv_create_cq_ex(rig->context, &attr));
	struct ibv_cq *plain = rig->cq;
	double end = milliseconds() + WAIT_SECONDS * 1000;
	int status = -1;
	struct ibv_qp *a, *b;

	NEED(cq);
	rig->cq = ibv_cq_ex_to_cq(cq);
	connected(rig, &a, &b);
	NEED(post_recv(b, rig, 100, SIZE / 2, 64) == 0);
	NEED(post(a, rig, IBV_WR_SEND, 0, 64, 0, 0) == 0);
	while (status < 0 && milliseconds() < end) {
		if (ibv_start_poll(cq, &poll_attr))
			continue;
		do
			if (ibv_wc_read_qp_num(cq) == a->qp_num)
				status = cq->status;
		while (ibv_next_poll(cq) == 0);
		ibv_end_poll(cq);
	}
	CHECK(status == atoi(argv[0]));
	CHECK(state_of(a) == IBV_QPS_ERR);
	rig->cq = plain;
}

/*
 * event TYPE FROM: this event is raised, of an object that exists; what depends on it is so. The rule applies
 * from FROM milliseconds on, and not before the queue pairs are connected: if the machine is too slow for
 * that, the program begins anew.
 */
static void event(struct rig *rig, char **argv)
{
	int type = atoi(argv[0]);
	struct ibv_port_attr port;
	struct ibv_qp *a, *b;

	/* The event may be its. */
	new_srq(rig, 8);
	connected(rig, &a, &b);
	if (atoi(argv[1]) && milliseconds() - started >= atoi(argv[1]))
		execl("/proc/self/exe", "inject", "event", argv[0], argv[1], NULL);
	CHECK(next_event(rig) == type);
	if (type == IBV_EVENT_QP_FATAL)
		CHECK(next_event(rig) == type);
	if (type == IBV_EVENT_QP_FATAL || type == IBV_EVENT_DEVICE_FATAL)
		CHECK(state_of(a) == IBV_QPS_ERR && state_of(b) == IBV_QPS_ERR);
	CHECK(ibv_query_port(rig->context, PORT, &port) == 0);
	CHECK(port.state == (type == IBV_EVENT_PORT_ERR ? IBV_PORT_DOWN : IBV_PORT_ACTIVE));
}

/* events TYPE N: that many events of this type are raised after the program has started. */
static void events(struct rig *rig, char **argv)
{
	for (int i = 0; i < atoi(argv[1]); i++)
		CHECK(next_event(rig) == atoi(argv[0]));
	printf("ms=%.0f\n", milliseconds() - started);
}

/*
 * waits: on a device of the fake kernel, blocks for an injected event of the port, for one of the kernel's,
 * and for an injected one of a queue pair. Another of them is not read, and is gone with its queue pair.
 * The last two are raised after 500 ms: if the queue pairs are not there by then, the program begins anew.
 */
static void waits(struct rig *rig, char **argv)
{
	struct {
		uint64_t element;
		uint32_t type, reserved;
	} desc = { 1, IBV_EVENT_SM_CHANGE, 0 };
	union {
		void *found;
		int (*function)(int fd, const void *bytes, size_t len);
	} push = { dlsym(RTLD_DEFAULT, "fake_push") };
	struct pollfd fd = { .fd = rig->context->async_fd, .events = POLLIN };
	struct ibv_async_event event;
	struct ibv_qp *a, *b;

	(void)argv;
	connected(rig, &a, &b);
	if (milliseconds() - started >= 500)
		execl("/proc/self/exe", "inject", "waits", NULL);
	CHECK(ibv_get_async_event(rig->context, &event) == 0 && event.event_type == IBV_EVENT_PORT_ERR);
	ibv_ack_async_event(&event);
	NEED(push.found && push.function(rig->context->async_fd, &desc, sizeof(desc)) == 0);
	CHECK(ibv_get_async_event(rig->context, &event) == 0 && event.event_type == IBV_EVENT_SM_CHANGE);
	ibv_ack_async_event(&event);
	CHECK(ibv_get_async_event(rig->context, &event) == 0 && event.event_type == IBV_EVENT_COMM_EST);
	CHECK(event.element.qp == a || event.element.qp == b);
	/* Both queue pairs have the event: the other one's is not read. */
	CHECK(poll(&fd, 1, 10000) == 1);
	ibv_ack_async_event(&event);
	CHECK(end(event.element.qp == a ? b : a) == 0);
	CHECK(poll(&fd, 1, 0) == 0);
	NEED(fcntl(fd.fd, F_SETFL, O_NONBLOCK) == 0);
	CHECK(ibv_get_async_event(rig->context, &event) == -1 && errno == EAGAIN);
}

/* Registers memory until that fails, or until it succeeds; for 30 s. */
static void register_until(struct rig *rig, bool succeeds)
{
	double end = milliseconds() + 30000;
	bool done = false;

	while (!done && milliseconds() < end) {
		struct ibv_mr *mr = ibv_reg_mr(rig->pd, rig->buf, 64, IBV_ACCESS_LOCAL_WRITE);

		done = !mr == !succeeds;
		if (mr)
			CHECK(ibv_dereg_mr(mr) == 0);
		usleep(1000);
	}
	CHECK(done);
}

/* changes: registering memory succeeds, then fails, then succeeds again, as the rules change. */
static void changes(struct rig *rig, char **argv)
{
	(void)argv;
	for (int i = 0; i < 3; i++) {
		register_until(rig, i != 1);
		puts(i == 1 ? "fails" : "works");
		fflush(stdout);
	}
}

/* polls N: polls an empty CQ N times. */
static void polls(struct rig *rig, char **argv)
{
	double begin = milliseconds();
	struct ibv_wc wc;

	for (int i = 0; i < atoi(argv[0]); i++)
		CHECK(ibv_poll_cq(rig->cq, 1, &wc) == 0);
	printf("ms=%.0f\n", milliseconds() - begin);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(struct rig *rig, char **argv);
		int arguments;
	} scenes[] = {
		{ "send", send_messages, 2 },
		{ "send-copies", send_copies, 2 },
		{ "status", status_of_send, 1 },
		{ "status-recv", status_of_receive, 1 },
		{ "status-ex", status_of_extended, 1 },
		{ "call", call, 2 },
		{ "calls", calls, 1 },
		{ "built", built, 1 },
		{ "waits", waits, 0 },
		{ "event", event, 2 },
		{ "events", events, 2 },
		{ "operation", operation, 3 },
		{ "polls", polls, 1 },
		{ "changes", changes, 0 },
	};
	struct rig rig;

	started = milliseconds();
	for (size_t i = 0; i < sizeof(scenes) / sizeof(*scenes); i++)
		if (argc == 2 + scenes[i].arguments && !strcmp(argv[1], scenes[i].name)) {
			set_up(&rig);
			scenes[i].run(&rig, argv + 2);
			tear_down(&rig);
			return failures != 0;
		}
	fprintf(stderr, "unknown scene, or not its number of arguments\n");
	return 2;
}
