/*
 * events: sleeping instead of polling. The client sends a message every 50 ms; the server sleeps in poll(2)
 * until there is an event.
 *
 *   Completion event    A completion was added to a queue that was armed by ibv_req_notify_cq. One event per
 *                       arming: then arm again.
 *   Asynchronous event  Something has happened to a device, port, queue pair or other object. Here a shared
 *                       receive queue runs low, and the server refills it.
 *
 * Both come through file descriptors, so a program can wait for them together with sockets and timers.
 */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "common.h"

#define MESSAGES 12
#define RECEIVES 8
#define LIMIT 4

struct connection {
	struct device device;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint32_t buffers[RECEIVES];
	int received, completion_events, limit_events;
};

static void create(struct connection *c)
{
	struct ibv_srq_init_attr srq_attr = { .attr = { .max_wr = RECEIVES, .max_sge = 1 } };
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 1, .max_send_sge = 1 },
		.sq_sig_all = 1,
	};

	c->mr = ibv_reg_mr(c->device.pd, c->buffers, sizeof(c->buffers), IBV_ACCESS_LOCAL_WRITE);
	if (!c->mr)
		fail(errno, "ibv_reg_mr of %zu bytes", sizeof(c->buffers));
	/* The channel is a file descriptor from which completion events are read. Many queues can use one. */
	c->channel = ibv_create_comp_channel(c->device.context);
	if (!c->channel)
		fail(errno, "ibv_create_comp_channel");
	c->cq = ibv_create_cq(c->device.context, RECEIVES + 1, c, c->channel, 0);
	if (!c->cq)
		fail(errno, "ibv_create_cq");
	/* A shared receive queue (SRQ) serves any number of queue pairs. */
	c->srq = ibv_create_srq(c->device.pd, &srq_attr);
	if (!c->srq)
		fail(errno, "ibv_create_srq");
	attr.send_cq = attr.recv_cq = c->cq;
	attr.srq = c->srq;
	c->qp = ibv_create_qp(c->device.pd, &attr);
	if (!c->qp)
		fail(errno, "ibv_create_qp, RC");
}

static void set_nonblocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
		fail(errno, "fcntl, O_NONBLOCK");
}

static void post_receives(struct connection *c, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++) {
		/* The refill uses buffers again: this example does not read the messages. */
		struct ibv_sge sge = { (uintptr_t)&c->buffers[i], sizeof(c->buffers[i]), c->mr->lkey };
		struct ibv_recv_wr wr = { .wr_id = i, .sg_list = &sge, .num_sge = 1 }, *bad;
		int err = ibv_post_srq_recv(c->srq, &wr, &bad);

		if (err)
			fail(err, "ibv_post_srq_recv");
	}
}

/* Requests IBV_EVENT_SRQ_LIMIT_REACHED for the moment when fewer than LIMIT receive requests are left. */
static void arm_limit(struct connection *c)
{
	struct ibv_srq_attr attr = { .srq_limit = LIMIT };
	int err = ibv_modify_srq(c->srq, &attr, IBV_SRQ_LIMIT);

	if (err)
		fail(err, "ibv_modify_srq, limit %d", LIMIT);
}

static void arm_cq(struct connection *c)
{
	/* 0: an event for any completion. 1: only for errors and for messages that the peer sent with
	 * IBV_SEND_SOLICITED. */
	int err = ibv_req_notify_cq(c->cq, 0);

	if (err)
		fail(err, "ibv_req_notify_cq");
}

static void drain_cq(struct connection *c)
{
	struct ibv_wc wc;
	int n;

	while ((n = ibv_poll_cq(c->cq, 1, &wc)) > 0) {
		check_completion(&wc, "receive");
		c->received++;
	}
	if (n < 0)
		fail(0, "ibv_poll_cq returned %d", n);
}

static void handle_completion_event(struct connection *c)
{
	struct ibv_cq *cq;
	void *context; /* the cq_context of ibv_create_cq: the connection */

	if (ibv_get_cq_event(c->channel, &cq, &context)) {
		if (errno == EAGAIN)
			return; /* no event: poll(2) may wake up without one */
		fail(errno, "ibv_get_cq_event");
	}
	c->completion_events++;
	/* ibv_destroy_cq waits until all events are acknowledged. It takes a lock: programs with many events
	 * acknowledge several at once. */
	ibv_ack_cq_events(cq, 1);
	/* First arm, then poll. Polling finds a completion that comes between the two. In the other
	 * order it would raise no event, and the server would not poll. */
	arm_cq(c);
	drain_cq(c);
}

static void handle_async_event(struct connection *c)
{
	struct ibv_async_event event;

	if (ibv_get_async_event(c->device.context, &event)) {
		if (errno == EAGAIN)
			return;
		fail(errno, "ibv_get_async_event");
	}
	printf("event: %s\n", ibv_event_type_str(event.event_type));
	if (event.event_type == IBV_EVENT_SRQ_LIMIT_REACHED) {
		c->limit_events++;
		post_receives(c, RECEIVES - LIMIT);
		arm_limit(c); /* the limit is 0 after the event */
	}
	/* Destroying the object waits for this. */
	ibv_ack_async_event(&event);
}

static void run_server(struct connection *c)
{
	struct pollfd fds[] = { { .fd = c->channel->fd, .events = POLLIN },
				{ .fd = c->device.context->async_fd, .events = POLLIN } };
	struct rusage usage;

	while (c->received < MESSAGES) {
		int n = poll(fds, 2, 10000);

		if (n < 0)
			fail(errno, "poll");
		if (n == 0)
			fail(0, "no event within 10 s, after %d messages: did the client end?", c->received);
		if (fds[1].revents)
			handle_async_event(c);
		if (fds[0].revents)
			handle_completion_event(c);
	}
	if (c->limit_events == 0)
		fail(0, "the SRQ raised no event when fewer than %d receive requests were left", LIMIT);
	getrusage(RUSAGE_SELF, &usage);
	printf("done: %d messages, %d completion events, %d limit events, %ld ms of CPU time\n", c->received,
	       c->completion_events, c->limit_events,
	       (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000 +
		       (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1000);
}

/* The client waits for its completions in a blocking call, without poll(2). */
static void run_client(struct connection *c)
{
	static const struct timespec pause = { .tv_nsec = 50000000 };
	struct ibv_cq *cq;
	void *context;

	for (uint32_t i = 0; i < MESSAGES; i++) {
		struct ibv_sge sge = { (uintptr_t)&c->buffers[0], sizeof(c->buffers[0]), c->mr->lkey };
		struct ibv_send_wr wr = { .wr_id = i, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND },
				   *bad;
		int err;

		c->buffers[0] = i;
		err = ibv_post_send(c->qp, &wr, &bad);
		if (err)
			fail(err, "ibv_post_send");
		if (ibv_get_cq_event(c->channel, &cq, &context))
			fail(errno, "ibv_get_cq_event");
		ibv_ack_cq_events(cq, 1);
		arm_cq(c);
		wait_completion(c->cq, "send");
		nanosleep(&pause, NULL);
	}
	printf("done: %d messages\n", MESSAGES);
}

int main(int argc, char **argv)
{
	struct options options = parse_options(argc, argv, "Completion events and asynchronous events.");
	static struct connection c;
	struct endpoint peer;
	uint32_t psn = random_psn();
	int sock = tcp_open(&options), err;

	c.device = open_device(&options, sock);
	create(&c);
	arm_cq(&c); /* before anything can complete */
	modify_to_init(&c.device, c.qp, 0);
	if (!options.host) {
		set_nonblocking(c.channel->fd);
		set_nonblocking(c.device.context->async_fd);
		post_receives(&c, RECEIVES);
		arm_limit(&c);
	}
	peer = exchange(&c.device, sock, c.qp->qp_num, psn);
	modify_to_rtr(&c.device, c.qp, &peer);
	modify_to_rts(c.qp, psn);
	barrier(sock); /* both are ready to receive */
	if (options.host)
		run_client(&c);
	else
		run_server(&c);
	barrier(sock); /* the peer has all acknowledgments */
	close(sock);
	if ((err = ibv_destroy_qp(c.qp)))
		fail(err, "ibv_destroy_qp");
	if ((err = ibv_destroy_srq(c.srq)))
		fail(err, "ibv_destroy_srq");
	if ((err = ibv_destroy_cq(c.cq)))
		fail(err, "ibv_destroy_cq");
	if ((err = ibv_destroy_comp_channel(c.channel)))
		fail(err, "ibv_destroy_comp_channel");
	if ((err = ibv_dereg_mr(c.mr)))
		fail(err, "ibv_dereg_mr");
	close_device(&c.device);
	return 0;
}
