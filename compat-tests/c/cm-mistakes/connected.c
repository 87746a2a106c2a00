/* Mistakes of clients and servers that are connected, or on the way to it. Both ends are in one process. */
#include "cm.h"

#include <sys/wait.h>

#define SIZE 4096

/* Both ends of the connection; the server's id is that of the request. */
static struct {
	struct cm listener, client;
	struct rdma_cm_id *server;
	char *buf;
	struct ibv_mr *mr;
} p;

static struct rdma_conn_param usual(void)
{
	return (struct rdma_conn_param){
		.initiator_depth = 1, .responder_resources = 1, .retry_count = 7, .rnr_retry_count = 3
	};
}

static int qp_for(struct rdma_cm_id *id, struct ibv_pd *pd, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr attr = { .cap = { 8, 8, 1, 1, 0 }, .qp_type = type, .sq_sig_all = 1 };

	return rdma_create_qp(id, pd, &attr);
}

/* The listener is there, the client is resolved and has a queue pair. */
static void prepare_in(enum rdma_port_space space, enum ibv_qp_type type)
{
	p.listener = server_in(space);
	p.client = begin_in(space);
	p.buf = calloc(2, SIZE);
	resolve(p.client, true);
	CHECK(qp_for(p.client.id, NULL, type) == 0);
}

static void prepare(void)
{
	prepare_in(RDMA_PS_TCP, IBV_QPT_RC);
}

static void connect_it(struct rdma_conn_param param)
{
	struct rdma_cm_event *event;

	CHECK(rdma_connect(p.client.id, &param) == 0);
	CHECK(rdma_get_cm_event(p.listener.channel, &event) == 0);
	p.server = event->id;
	rdma_ack_cm_event(event);
}

/* The client asks for a connection. */
static void request(void)
{
	prepare();
	connect_it(usual());
}

/* The server gets a queue pair, and accepts. */
static void answer_it(struct rdma_conn_param param, enum ibv_qp_type type)
{
	CHECK(qp_for(p.server, p.client.id->pd, type) == 0);
	CHECK(rdma_accept(p.server, &param) == 0);
}

static void accept_it(struct rdma_conn_param param)
{
	answer_it(param, IBV_QPT_RC);
	CHECK(next(p.client) == RDMA_CM_EVENT_ESTABLISHED);
	CHECK(next(p.listener) == RDMA_CM_EVENT_ESTABLISHED);
}

static void connected(void)
{
	request();
	accept_it(usual());
	p.mr = ibv_reg_mr(p.client.id->pd, p.buf, 2 * SIZE,
			  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE);
	CHECK(p.mr);
}

void end_pair(void)
{
	if (p.mr)
		CHECK(rdma_dereg_mr(p.mr) == 0);
	if (p.server) {
		if (p.server->qp)
			rdma_destroy_qp(p.server);
		rdma_destroy_id(p.server);
	}
}

static int status_of_send(struct rdma_cm_id *id)
{
	struct ibv_wc wc = { .status = -1 };

	for (int i = 0; i < 4000 && ibv_poll_cq(id->send_cq, 1, &wc) == 0; i++)
		usleep(1000);
	return wc.status;
}

/* The queue pair is created before the address is resolved. */
static void create_qp_early(bool wrong)
{
	struct cm cm = begin();

	if (!wrong) {
		resolve(cm, false);
	} else if (fork() == 0) {
		/* librdmacm may end here. */
		qp_for(cm.id, NULL, IBV_QPT_RC);
		_exit(0);
	}
	if (wrong) {
		wait(NULL);
	} else {
		CHECK(qp_for(cm.id, NULL, IBV_QPT_RC) == 0);
		rdma_destroy_qp(cm.id);
	}
}

/* The route is resolved before the event of the address has come. */
static void resolve_route_early(bool wrong)
{
	struct sockaddr_in to = address("127.0.0.1");
	struct cm cm;

	if (wrong && fork() == 0) {
		cm = begin();
		CHECK(rdma_resolve_addr(cm.id, NULL, (struct sockaddr *)&to, 2000) == 0);
		/* librdmacm may end here. */
		rdma_resolve_route(cm.id, 2000);
		_exit(0);
	}
	if (wrong)
		wait(NULL);
	cm = begin();
	resolve(cm, true);
}

/* The client does not acknowledge the event of its connection: rdma_destroy_id waits for that. */
static void client_unacked(bool wrong)
{
	struct rdma_cm_event *event;

	request();
	answer_it(usual(), IBV_QPT_RC);
	CHECK(rdma_get_cm_event(p.client.channel, &event) == 0);
	CHECK(event->event == RDMA_CM_EVENT_ESTABLISHED);
	CHECK(next(p.listener) == RDMA_CM_EVENT_ESTABLISHED);
	if (wrong)
		leave_after(3);
	else
		rdma_ack_cm_event(event);
}

/* The protection domain is that of a device that the program has opened itself. */
static void pd_of_own_context(bool wrong)
{
	struct cm cm = begin();
	int count;
	struct ibv_device **list = ibv_get_device_list(&count);
	struct ibv_context *context;
	struct ibv_pd *pd;

	resolve(cm, false);
	context = ibv_open_device(list[0]);
	ibv_free_device_list(list);
	pd = ibv_alloc_pd(wrong ? context : cm.id->verbs);
	CHECK((qp_for(cm.id, pd, IBV_QPT_RC) == 0) == !wrong);
	if (!wrong)
		rdma_destroy_qp(cm.id);
	CHECK(ibv_dealloc_pd(pd) == 0 && ibv_close_device(context) == 0);
}

/* RDMA_PS_UDP is for datagrams. */
static void space_of_other_type(bool wrong)
{
	struct cm cm = begin_in(wrong ? RDMA_PS_UDP : RDMA_PS_TCP);

	resolve(cm, false);
	CHECK((qp_for(cm.id, NULL, IBV_QPT_RC) == 0) == !wrong);
}

/* The server does not call rdma_accept: the client waits for ESTABLISHED. */
static void never_accepted(bool wrong)
{
	request();
	if (wrong) {
		leave_after(3);
		next(p.client);
	}
	accept_it(usual());
}

/* The client reads no events, and waits for the server's. */
static void client_deaf(bool wrong)
{
	request();
	answer_it(usual(), IBV_QPT_RC);
	if (wrong) {
		leave_after(3);
		next(p.listener);
	}
	CHECK(next(p.client) == RDMA_CM_EVENT_ESTABLISHED && next(p.listener) == RDMA_CM_EVENT_ESTABLISHED);
}

/* Requests are posted after rdma_disconnect. */
static void post_after_disconnect(bool wrong)
{
	connected();
	if (wrong)
		CHECK(rdma_disconnect(p.client.id) == 0);
	CHECK(rdma_post_write(p.client.id, NULL, p.buf, 64, p.mr, 0, (uintptr_t)p.buf + SIZE, p.mr->rkey) ==
	      0);
	CHECK((status_of_send(p.client.id) == IBV_WC_SUCCESS) == !wrong);
}

/* The next channel is where that of the destroyed id was: its events are for the program. */
static void channel_in_the_place_of(struct rdma_event_channel *gone)
{
	struct rdma_event_channel *all[64];
	struct sockaddr_in to = address("127.0.0.1");
	struct cm cm = { 0 };
	int count = 0;

	while (count < 64 && cm.channel != gone)
		CHECK((cm.channel = all[count++] = rdma_create_event_channel()) != NULL);
	CHECK(cm.channel == gone && rdma_create_id(cm.channel, &cm.id, NULL, RDMA_PS_TCP) == 0);
	CHECK(rdma_resolve_addr(cm.id, NULL, (struct sockaddr *)&to, 2000) == 0);
	CHECK(next(cm) == RDMA_CM_EVENT_ADDR_RESOLVED && rdma_destroy_id(cm.id) == 0);
	while (count)
		rdma_destroy_event_channel(all[--count]);
}

/* The id was created without a channel: its calls wait by themselves, and no events are left to read. */
static void events_of_synchronous_id(bool wrong)
{
	struct sockaddr_in to = address("127.0.0.1");
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	CHECK(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP) == 0);
	CHECK(rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 2000) == 0);
	if (wrong) {
		leave_after(3);
		rdma_get_cm_event(id->channel, &event);
	}
	struct rdma_event_channel *channel = id->channel;
	CHECK(rdma_destroy_id(id) == 0);
	if (!wrong)
		channel_in_the_place_of(channel);
}

/* rdma_reg_msgs is for SEND and receive. */
static void region_for_messages(bool wrong)
{
	char *target = calloc(1, SIZE);

	connected();
	struct ibv_mr *mr = wrong ? rdma_reg_msgs(p.server, target, SIZE)
				  : rdma_reg_write(p.server, target, SIZE);
	CHECK(rdma_post_write(p.client.id, NULL, p.buf, 64, p.mr, 0, (uintptr_t)target, mr->rkey) == 0);
	CHECK((status_of_send(p.client.id) == IBV_WC_SUCCESS) == !wrong);
	rdma_dereg_mr(mr);
	free(target);
}

/* A send without a region. */
static void post_without_region(bool wrong)
{
	connected();
	CHECK(rdma_post_recv(p.server, NULL, p.buf + SIZE, 64, p.mr) == 0);
	CHECK(rdma_post_send(p.client.id, NULL, p.buf, 64, wrong ? NULL : p.mr, 0) == 0);
	CHECK((status_of_send(p.client.id) == IBV_WC_SUCCESS) == !wrong);
	usleep(100000);
	struct ibv_wc wc;
	ibv_poll_cq(p.server->recv_cq, 1, &wc);
}

/* An id is connected a second time. */
static void connect_twice(bool wrong)
{
	struct rdma_conn_param param = usual();

	connected();
	if (wrong)
		CHECK(rdma_connect(p.client.id, &param) != 0);
}

/* The id that listens gets the queue pair and is accepted, in place of the request's. */
static void accept_listener_with_qp(bool wrong)
{
	struct rdma_conn_param param = usual();

	request();
	if (!wrong) {
		accept_it(usual());
		return;
	}
	CHECK(qp_for(p.listener.id, p.client.id->pd, IBV_QPT_RC) == 0);
	CHECK(rdma_accept(p.listener.id, &param) != 0);
	rdma_destroy_qp(p.listener.id);
}

/* Datagrams, whose queue pairs are in RTS before they are connected: the request is accepted twice. */
static void accept_datagrams(bool wrong)
{
	struct rdma_conn_param param = usual();

	prepare_in(RDMA_PS_UDP, IBV_QPT_UD);
	connect_it(usual());
	answer_it(param, IBV_QPT_UD);
	CHECK(next(p.client) == RDMA_CM_EVENT_ESTABLISHED);
	if (wrong)
		CHECK(rdma_accept(p.server, &param) != 0);
}

/* The server has no queue pair. */
static void accept_without_qp(bool wrong)
{
	struct rdma_conn_param param = usual();
	int error;

	request();
	if (!wrong) {
		accept_it(usual());
		return;
	}
	error = rdma_accept(p.server, &param);
	if (!error) {
		CHECK(next(p.client) == RDMA_CM_EVENT_ESTABLISHED);
		p.mr = ibv_reg_mr(p.client.id->pd, p.buf, SIZE, IBV_ACCESS_LOCAL_WRITE);
		CHECK(rdma_post_send(p.client.id, NULL, p.buf, 64, p.mr, 0) == 0);
		CHECK(status_of_send(p.client.id) != IBV_WC_SUCCESS);
	}
}

/* The server rejects. */
static void server_rejects(bool wrong)
{
	request();
	if (wrong) {
		CHECK(rdma_reject(p.server, "busy", 5) == 0);
		CHECK(next(p.client) == RDMA_CM_EVENT_REJECTED);
	} else {
		accept_it(usual());
	}
}

/* Sends before the connection is there. */
static void send_before_established(bool wrong)
{
	int error;

	prepare();
	p.mr = ibv_reg_mr(p.client.id->pd, p.buf, SIZE, IBV_ACCESS_LOCAL_WRITE);
	connect_it(usual());
	if (wrong) {
		error = rdma_post_send(p.client.id, NULL, p.buf, 64, p.mr, 0);
		CHECK(error != 0);
	}
	accept_it(usual());
}

/* A READ of a connection without room for it. */
static void read_depth_zero(bool wrong)
{
	struct rdma_conn_param param = usual();
	int status;

	prepare();
	if (wrong)
		param.initiator_depth = 0;
	connect_it(param);
	accept_it(usual());
	p.mr = ibv_reg_mr(p.client.id->pd, p.buf, 2 * SIZE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
	int error = rdma_post_read(p.client.id, NULL, p.buf, 64, p.mr, 0, (uintptr_t)p.buf + SIZE,
				   p.mr->rkey);
	if (!error) {
		status = status_of_send(p.client.id);
		CHECK(wrong || status == IBV_WC_SUCCESS);
	}
}

/* The server posts its receives too late. */
static void receive_too_late(bool wrong)
{
	struct rdma_conn_param param = usual();

	prepare();
	param.rnr_retry_count = 0;
	connect_it(param);
	accept_it(param);
	p.mr = ibv_reg_mr(p.client.id->pd, p.buf, 2 * SIZE, IBV_ACCESS_LOCAL_WRITE);
	if (!wrong)
		CHECK(rdma_post_recv(p.server, NULL, p.buf + SIZE, 64, p.mr) == 0);
	CHECK(rdma_post_send(p.client.id, NULL, p.buf, 64, p.mr, 0) == 0);
	CHECK((status_of_send(p.client.id) == IBV_WC_SUCCESS) == !wrong);
	if (!wrong)
		usleep(100000);
	struct ibv_wc wc;
	ibv_poll_cq(p.server->recv_cq, 1, &wc);
}

/* rdma_listen without rdma_bind_addr takes any port. */
static void listen_unbound(bool wrong)
{
	struct sockaddr_in local = address("127.0.0.1");
	struct rdma_conn_param param = usual();

	p.listener = begin();
	p.client = begin();
	if (!wrong)
		CHECK(rdma_bind_addr(p.listener.id, (struct sockaddr *)&local) == 0);
	CHECK(rdma_listen(p.listener.id, 1) == 0);
	resolve(p.client, true);
	CHECK(qp_for(p.client.id, NULL, IBV_QPT_RC) == 0);
	if (wrong) {
		CHECK(rdma_connect(p.client.id, &param) == 0);
		CHECK(next(p.client) == RDMA_CM_EVENT_REJECTED);
	} else {
		connect_it(usual());
		accept_it(usual());
	}
}

/* The queue pair is destroyed with ibv_destroy_qp: librdmacm does not know. */
static void destroyed_behind(bool wrong)
{
	connected();
	if (wrong) {
		struct ibv_qp *qp = p.client.id->qp;
		CHECK(ibv_destroy_qp(qp) == 0);
		rdma_disconnect(p.client.id);
		p.client.id->qp = NULL;
	} else {
		CHECK(rdma_disconnect(p.client.id) == 0);
		rdma_destroy_qp(p.client.id);
	}
}

/* Waits for a completion of a receive that was not posted. */
static void recv_comp_without_recv(bool wrong)
{
	struct ibv_wc wc;

	connected();
	if (wrong) {
		leave_after(3);
	} else {
		CHECK(rdma_post_recv(p.server, NULL, p.buf, 64, p.mr) == 0);
		CHECK(rdma_post_send(p.client.id, NULL, p.buf, 64, p.mr, 0) == 0);
	}
	CHECK(rdma_get_recv_comp(p.server, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
	status_of_send(p.client.id);
}

/* After a rejection the client connects again with the same id. */
static void connect_after_rejection(bool wrong)
{
	struct rdma_conn_param param = usual();

	request();
	if (wrong) {
		CHECK(rdma_reject(p.server, NULL, 0) == 0);
		CHECK(next(p.client) == RDMA_CM_EVENT_REJECTED);
		CHECK(rdma_connect(p.client.id, &param) != 0);
	} else {
		accept_it(usual());
	}
}

/* A second queue pair for an id. */
static void two_qps(bool wrong)
{
	prepare();
	if (wrong)
		CHECK(qp_for(p.client.id, NULL, IBV_QPT_RC) != 0);
}

/* More private data with the answer than it has room for. */
static void accept_data_long(bool wrong)
{
	static const char data[256];
	struct rdma_conn_param param = usual();

	prepare();
	param.private_data = data;
	param.private_data_len = wrong ? 200 : 196;
	connect_it(usual());
	CHECK(qp_for(p.server, p.client.id->pd, IBV_QPT_RC) == 0);
	CHECK((rdma_accept(p.server, &param) == 0) == !wrong);
}

/* A group is joined with an id for connections. */
static void join_connected(bool wrong)
{
	struct cm cm = begin_in(wrong ? RDMA_PS_TCP : RDMA_PS_UDP);
	struct sockaddr_in group = address("239.0.0.9");

	resolve(cm, false);
	CHECK(qp_for(cm.id, NULL, wrong ? IBV_QPT_RC : IBV_QPT_UD) == 0);
	CHECK((rdma_join_multicast(cm.id, (struct sockaddr *)&group, NULL) == 0) == !wrong);
	if (!wrong) {
		CHECK(next(cm) == RDMA_CM_EVENT_MULTICAST_JOIN);
		CHECK(rdma_leave_multicast(cm.id, (struct sockaddr *)&group) == 0);
	}
}

/* The address of a server was resolved as that of a client. */
static void not_passive(bool wrong)
{
	struct rdma_addrinfo *found,
		hints = { .ai_flags = wrong ? 0 : RAI_PASSIVE, .ai_port_space = RDMA_PS_TCP };
	struct ibv_qp_init_attr attr = { .cap = { 8, 8, 1, 1, 0 }, .sq_sig_all = 1 };
	struct rdma_cm_id *id;

	CHECK(rdma_getaddrinfo("127.0.0.1", "17924", &hints, &found) == 0);
	CHECK(rdma_create_ep(&id, found, NULL, &attr) == 0);
	CHECK((rdma_listen(id, 1) == 0) == !wrong);
	rdma_destroy_ep(id);
	rdma_freeaddrinfo(found);
}

/* A request is accepted twice. */
static void accepted_twice(bool wrong)
{
	struct rdma_conn_param param = usual();

	connected();
	if (wrong)
		CHECK(rdma_accept(p.server, &param) != 0);
}

const struct mistake connected_mistakes[] = {
	{ "accepted-twice", accepted_twice, "argument", "the id is connected already" },
	{ "join-connected", join_connected, "argument", "is that of connections" },
	{ "not-passive", not_passive, "cm-failed", "RAI_PASSIVE" },
	{ "create-qp-early", create_qp_early, "argument", "the id has no device yet" },
	{ "resolve-route-early", resolve_route_early, "argument", "rdma_resolve_addr only begins that" },
	{ "client-unacked", client_unacked, "events-unacked", "rdma_ack_cm_event" },
	{ "pd-of-own-context", pd_of_own_context, "argument", "pd belongs to the device context" },
	{ "space-of-other-type", space_of_other_type, "argument", "qp_type does not fit the port space" },
	{ "never-accepted", never_accepted, "no-cm-event", "has neither accepted nor rejected it" },
	{ "client-deaf", client_deaf, "no-cm-event", "RDMA_CM_EVENT_CONNECT_RESPONSE of the id" },
	{ "post-after-disconnect", post_after_disconnect, "argument", "is posted after rdma_disconnect" },
	{ "events-of-synchronous-id", events_of_synchronous_id, "argument", "such an id is synchronous" },
	{ "region-for-messages", region_for_messages, "key-access", "lacks IBV_ACCESS_REMOTE_WRITE" },
	{ "post-without-region", post_without_region, "key-unknown",
	  "the mr of an rdma_post_* function was NULL" },
	{ "connect-twice", connect_twice, "argument", "connected already" },
	{ "accept-listener-with-qp", accept_listener_with_qp, "argument", "the id has no peer" },
	{ "accept-datagrams", accept_datagrams, "cm-failed", "the id is in the state: connected" },
	{ "accept-without-qp", accept_without_qp, "argument", "the id has no queue pair" },
	{ "server-rejects", server_rejects, "cm-event", "has called rdma_reject" },
	{ "send-before-established", send_before_established, "post-state",
	  "wait for the event RDMA_CM_EVENT_ESTABLISHED" },
	{ "read-depth-zero", read_depth_zero, "qp-access", "initiator_depth of this side's rdma_conn_param" },
	{ "receive-too-late", receive_too_late, "rnr-exceeded", "has had no receive posted at all" },
	{ "listen-unbound", listen_unbound, "cm-event", "nobody listens" },
	{ "destroyed-behind", destroyed_behind, "dead-object", "has been destroyed" },
	{ "recv-comp-without-recv", recv_comp_without_recv, "no-event",
	  "neither a signaled request nor a receive is outstanding" },
	{ "connect-after-rejection", connect_after_rejection, "cm-failed", "an id connects once" },
	{ "two-qps", two_qps, "argument", "the id has a queue pair already" },
	{ "accept-data-long", accept_data_long, "cm-failed", "private_data_len is 200" },
	{ 0 },
};
