/*
 * cm-mistakes NAME wrong|right: as c/mistakes, with librdmacm. What IBV_EXPLAIN says of its calls.
 */
#include "cm.h"

#include <arpa/inet.h>
#include <errno.h>
#include <sys/wait.h>

int failures;
static struct cm kept[8];
static size_t count;

struct cm begin_in(enum rdma_port_space space)
{
	struct cm cm = { .channel = rdma_create_event_channel() };

	CHECK(cm.channel && rdma_create_id(cm.channel, &cm.id, NULL, space) == 0);
	kept[count++] = cm;
	return cm;
}

struct cm begin(void)
{
	return begin_in(RDMA_PS_TCP);
}

void finish(struct cm cm)
{
	for (size_t i = 0; i < count; i++)
		if (kept[i].channel == cm.channel)
			kept[i] = kept[--count];
	CHECK(rdma_destroy_id(cm.id) == 0);
	rdma_destroy_event_channel(cm.channel);
}

/* The last first, with their queue pairs. */
static void finish_all(void)
{
	end_pair();
	while (count > 0) {
		struct cm cm = kept[count - 1];

		if (cm.id->qp)
			rdma_destroy_qp(cm.id);
		finish(cm);
	}
}

struct sockaddr_in address(const char *ip)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(PORT) };

	inet_pton(AF_INET, ip, &to.sin_addr);
	return to;
}

int next(struct cm cm)
{
	struct rdma_cm_event *event;
	int type;

	if (rdma_get_cm_event(cm.channel, &event))
		return -1;
	type = event->event;
	rdma_ack_cm_event(event);
	return type;
}

static void resolve_to(struct cm cm, struct sockaddr_in to, bool route)
{
	CHECK(rdma_resolve_addr(cm.id, NULL, (struct sockaddr *)&to, 2000) == 0);
	CHECK(next(cm) == RDMA_CM_EVENT_ADDR_RESOLVED);
	if (route) {
		CHECK(rdma_resolve_route(cm.id, 2000) == 0);
		CHECK(next(cm) == RDMA_CM_EVENT_ROUTE_RESOLVED);
	}
}

void resolve(struct cm cm, bool route)
{
	resolve_to(cm, address("127.0.0.1"), route);
}

void make_qp(struct cm cm)
{
	struct ibv_qp_init_attr attr = { .cap = { 4, 4, 1, 1, 0 }, .qp_type = IBV_QPT_RC };

	CHECK(rdma_create_qp(cm.id, NULL, &attr) == 0);
}

static void route_before_address(bool wrong)
{
	struct cm cm = begin();
	struct sockaddr_in any = address("127.0.0.1");

	if (wrong) {
		any.sin_port = 0;
		CHECK(rdma_bind_addr(cm.id, (struct sockaddr *)&any) == 0);
		CHECK(rdma_resolve_route(cm.id, 2000) != 0);
	} else {
		resolve(cm, true);
	}
}

static void connect_before_route(bool wrong)
{
	struct cm cm = begin();
	struct rdma_conn_param param = { .initiator_depth = 1, .responder_resources = 1, .retry_count = 7 };

	resolve(cm, !wrong);
	make_qp(cm);
	if (wrong)
		CHECK(rdma_connect(cm.id, &param) != 0);
}

static void private_data_long(bool wrong)
{
	static const char data[200];
	struct cm cm = begin();
	struct rdma_conn_param param = { .initiator_depth = 1,
					 .responder_resources = 1,
					 .private_data = data,
					 .private_data_len = wrong ? 100 : 56 };

	resolve(cm, true);
	make_qp(cm);
	if (wrong)
		CHECK(rdma_connect(cm.id, &param) != 0);
}

/* The client connects if `wrong` is true. */
static void client_of(struct sockaddr_in to, bool wrong)
{
	struct cm cm = begin();
	struct rdma_conn_param param = { .initiator_depth = 1, .responder_resources = 1 };

	resolve_to(cm, to, true);
	make_qp(cm);
	if (wrong) {
		CHECK(rdma_connect(cm.id, &param) == 0);
		CHECK(next(cm) == RDMA_CM_EVENT_REJECTED);
	}
}

static void no_listener(bool wrong)
{
	client_of(address("127.0.0.1"), wrong);
}

struct cm server_in(enum rdma_port_space space)
{
	struct cm server = begin_in(space);
	struct sockaddr_in own = address("127.0.0.1");

	CHECK(rdma_bind_addr(server.id, (struct sockaddr *)&own) == 0 && rdma_listen(server.id, 1) == 0);
	return server;
}

/* The client's port is in the byte order of the host. */
static void port_reversed(bool wrong)
{
	struct cm server = server_in(RDMA_PS_TCP);
	struct sockaddr_in to = address("127.0.0.1");

	if (wrong)
		to.sin_port = PORT;
	client_of(to, wrong);
	finish(server);
}

/* The domain of the id is used before the address is resolved. */
static void pd_early(bool wrong)
{
	pid_t child = wrong ? fork() : 0;
	int status;

	if (wrong && child) {
		CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
		return;
	}
	struct cm cm = begin();
	if (!wrong)
		resolve(cm, false);
	struct ibv_mr *mr = ibv_reg_mr(cm.id->pd, &cm, sizeof(cm), 0);
	CHECK(mr && ibv_dereg_mr(mr) == 0);
	finish(cm);
	if (wrong)
		_exit(0);
}

/* The server listens in another port space. */
static void other_space(bool wrong)
{
	struct cm server = server_in(wrong ? RDMA_PS_UDP : RDMA_PS_TCP);

	no_listener(wrong);
	finish(server);
}

static void bind_elsewhere(bool wrong)
{
	struct cm cm = begin();
	struct sockaddr_in local = address(wrong ? "198.51.100.9" : "127.0.0.1");

	CHECK(!rdma_bind_addr(cm.id, (struct sockaddr *)&local) == !wrong);
}

static void port_in_use(bool wrong)
{
	struct cm cm = begin(), other = begin();
	struct sockaddr_in local = address("127.0.0.1");

	CHECK(rdma_bind_addr(cm.id, (struct sockaddr *)&local) == 0 && rdma_listen(cm.id, 1) == 0);
	local.sin_port = htons(wrong ? PORT : PORT + 1);
	if (!rdma_bind_addr(other.id, (struct sockaddr *)&local))
		CHECK(!rdma_listen(other.id, 1) == !wrong);
}

/* Waits for an event that nothing causes. */
static void waits_unresolved(bool wrong)
{
	struct cm cm = begin();

	interrupt_after(3);
	if (wrong)
		CHECK(next(cm) == -1);
	else
		resolve(cm, false);
}

/* An event is not acknowledged: rdma_destroy_id waits for that. */
static void destroy_unacked(bool wrong)
{
	struct cm cm = begin();
	struct sockaddr_in to = address("127.0.0.1");
	struct rdma_cm_event *event;

	CHECK(rdma_resolve_addr(cm.id, NULL, (struct sockaddr *)&to, 2000) == 0);
	CHECK(rdma_get_cm_event(cm.channel, &event) == 0);
	if (wrong) {
		leave_after(3);
	} else {
		rdma_ack_cm_event(event);
	}
}

/* The id of the listener is accepted, not that of the event. */
static void accept_listener(bool wrong)
{
	struct cm cm = begin();
	struct sockaddr_in local = address("127.0.0.1");
	struct rdma_conn_param param = { .initiator_depth = 1 };

	CHECK(rdma_bind_addr(cm.id, (struct sockaddr *)&local) == 0 && rdma_listen(cm.id, 1) == 0);
	if (wrong)
		CHECK(rdma_accept(cm.id, &param) != 0);
}

/* Nothing leads to the destination. */
static void no_route(bool wrong)
{
	struct cm cm = begin();
	struct sockaddr_in to = address(wrong ? "198.51.100.9" : "127.0.0.1");
	int error = rdma_resolve_addr(cm.id, NULL, (struct sockaddr *)&to, 500);

	if (!error)
		CHECK(next(cm) == (wrong ? RDMA_CM_EVENT_ADDR_ERROR : RDMA_CM_EVENT_ADDR_RESOLVED));
}

/* Disconnected before it is connected. */
static void disconnect_early(bool wrong)
{
	struct cm cm = begin();

	resolve(cm, true);
	make_qp(cm);
	if (wrong)
		CHECK(rdma_disconnect(cm.id) != 0);
}

/* A server forks after it has created its id, and the child listens. */
static void listen_in_child(bool wrong)
{
	struct sockaddr_in local = address("127.0.0.1");
	struct cm cm = { 0 };
	pid_t child;
	int status;

	if (wrong)
		cm = begin();
	child = fork();
	if (!child) {
		if (!wrong)
			cm = begin();
		CHECK(!rdma_bind_addr(cm.id, (struct sockaddr *)&local) == !wrong);
		CHECK(!rdma_listen(cm.id, 1) == !wrong);
		if (!wrong)
			finish(cm);
		_exit(failures);
	}
	CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
	if (wrong)
		finish(cm);
}

/* The child waits for the events of a channel that its parent has created. */
static void events_in_child(bool wrong)
{
	struct cm cm = begin();
	struct rdma_cm_event *event;
	pid_t child = wrong ? fork() : 0;
	int status;

	if (wrong && !child) {
		CHECK(rdma_get_cm_event(cm.channel, &event) == -1 && errno == EACCES);
		_exit(failures);
	}
	if (wrong)
		CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
	resolve(cm, false);
}

/* An id is moved to another channel before its event is acknowledged: rdma_migrate_id waits for that. */
static void migrate_unacked(bool wrong)
{
	struct cm cm = begin();
	struct sockaddr_in to = address("127.0.0.1");
	struct rdma_event_channel *other = rdma_create_event_channel();
	struct rdma_cm_event *event;

	CHECK(rdma_resolve_addr(cm.id, NULL, (struct sockaddr *)&to, 2000) == 0);
	CHECK(rdma_get_cm_event(cm.channel, &event) == 0);
	if (wrong)
		leave_after(3);
	else
		rdma_ack_cm_event(event);
	CHECK(rdma_migrate_id(cm.id, other) == 0);
	finish(cm);
	rdma_destroy_event_channel(other);
}

static const struct mistake early_mistakes[] = {
	{ "route-before-address", route_before_address, "cm-failed", "RDMA_CM_EVENT_ADDR_RESOLVED" },
	{ "connect-before-route", connect_before_route, "cm-failed", "RDMA_CM_EVENT_ROUTE_RESOLVED" },
	{ "private-data-long", private_data_long, "cm-failed", "private_data_len is 100" },
	{ "no-listener", no_listener, "cm-event", "nobody listens" },
	{ "port-reversed", port_reversed, "cm-event", "which is the same number with its two bytes" },
	{ "pd-early", pd_early, "crash", "these members are verbs, pd, qp NULL" },
	{ "other-space", other_space, "cm-event", "at port 17923 in the port space RDMA_PS_UDP" },
	{ "bind-elsewhere", bind_elsewhere, "cm-failed", "no RDMA device has this address" },
	{ "port-in-use", port_in_use, "cm-failed", "has the port" },
	{ "waits-unresolved", waits_unresolved, "no-cm-event", "no call is under way" },
	{ "destroy-unacked", destroy_unacked, "events-unacked", "rdma_ack_cm_event" },
	{ "accept-listener", accept_listener, "argument", "the id has no peer" },
	{ "no-route", no_route, "cm-failed", "ip route get" },
	{ "disconnect-early", disconnect_early, "cm-failed", "only a connection can be ended" },
	{ "listen-in-child", listen_in_child, "cm-failed", "this one was forked later" },
	{ "events-in-child", events_in_child, "cm-failed", "this one was forked later" },
	{ "migrate-unacked", migrate_unacked, "events-unacked", "some events of the id were received" },
	{ 0 },
};

static const struct mistake *const groups[] = { early_mistakes, connected_mistakes, order_mistakes,
						own_mistakes };

int main(int argc, char **argv)
{
	if (argc == 1)
		return 2;
	for (size_t g = 0; g < sizeof(groups) / sizeof(*groups); g++)
		for (const struct mistake *mistake = groups[g]; mistake->name; mistake++) {
			if (!strcmp(argv[1], "list"))
				puts(mistake->name);
			if (strcmp(argv[1], mistake->name))
				continue;
			mistake->run(argc > 2 && !strcmp(argv[2], "wrong"));
			finish_all();
		}
	return failures != 0;
}
