/*
 * rc_send: messages over a reliable connection (RC), in both directions.
 *
 * The client sends a message, the server returns it in upper case, four times. RC delivers each message once
 * and in order: the devices acknowledge and retransmit packets.
 *
 * Every message consumes one receive request of the receiver, which must have posted it before. So each side
 * posts its next receive request before it sends the message that the peer will answer.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common.h"

#define SIZE 64
#define MESSAGES 4
/* wr_id is the program's own value. It comes back in the completion. */
enum {
	RECV_ID = 1,
	SEND_ID = 2
};

struct connection {
	struct device device;
	struct ibv_cq *send_cq, *recv_cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	struct {
		char sent[SIZE], received[SIZE];
	} buffers;
};

static struct ibv_cq *create_cq(struct device *device, int entries)
{
	struct ibv_cq *cq = ibv_create_cq(device->context, entries, NULL, NULL, 0);

	if (!cq)
		fail(errno, "ibv_create_cq with %d entries", entries);
	return cq;
}

static void create(struct connection *c)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
		.sq_sig_all = 1, /* every send request gets a completion */
	};

	/* The device reads and writes only registered memory. LOCAL_WRITE: receives store into it. */
	c->mr = ibv_reg_mr(c->device.pd, &c->buffers, sizeof(c->buffers), IBV_ACCESS_LOCAL_WRITE);
	if (!c->mr)
		fail(errno, "ibv_reg_mr of %zu bytes", sizeof(c->buffers));
	/* A completion queue needs room for all work requests that can be outstanding: if it overruns, it is
	 * unusable. */
	attr.send_cq = c->send_cq = create_cq(&c->device, 1);
	attr.recv_cq = c->recv_cq = create_cq(&c->device, 1);
	c->qp = ibv_create_qp(c->device.pd, &attr);
	if (!c->qp)
		fail(errno, "ibv_create_qp, RC");
}

static void post_receive(struct connection *c)
{
	struct ibv_sge sge = { (uintptr_t)c->buffers.received, SIZE, c->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = RECV_ID, .sg_list = &sge, .num_sge = 1 }, *bad;
	int err = ibv_post_recv(c->qp, &wr, &bad);

	if (err)
		fail(err, "ibv_post_recv");
}

/* Sends buffers.sent, and waits until the peer's device has acknowledged it: the buffer may be used again. */
static void send_message(struct connection *c)
{
	struct ibv_sge sge = { (uintptr_t)c->buffers.sent, (uint32_t)strlen(c->buffers.sent) + 1,
			       c->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = SEND_ID, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND },
			   *bad;
	int err = ibv_post_send(c->qp, &wr, &bad);

	if (err)
		fail(err, "ibv_post_send");
	wait_completion(c->send_cq, "send");
}

/* Waits for a message in buffers.received. */
static void receive_message(struct connection *c)
{
	struct ibv_wc wc = wait_completion(c->recv_cq, "receive");

	/* byte_len is the length of the message, which may be shorter than the buffer. */
	if (wc.byte_len == 0 || wc.byte_len > SIZE || c->buffers.received[wc.byte_len - 1] != '\0')
		fail(0, "received %u bytes that are not a string", wc.byte_len);
	printf("received \"%s\"\n", c->buffers.received);
}

static void upper(char *to, const char *from)
{
	do
		*to++ = (char)toupper((unsigned char)*from);
	while (*from++);
}

static void run_server(struct connection *c)
{
	for (int i = 0; i < MESSAGES; i++) {
		receive_message(c);
		upper(c->buffers.sent, c->buffers.received);
		if (i + 1 < MESSAGES)
			post_receive(c); /* for the next message, which follows this answer */
		send_message(c);
	}
}

static void run_client(struct connection *c)
{
	char expected[SIZE];

	for (int i = 0; i < MESSAGES; i++) {
		if (i > 0)
			post_receive(c); /* for the answer */
		snprintf(c->buffers.sent, SIZE, "message %d over a reliable connection", i);
		send_message(c);
		receive_message(c);
		upper(expected, c->buffers.sent);
		if (strcmp(c->buffers.received, expected) != 0)
			fail(0, "expected \"%s\"", expected);
	}
}

static void destroy(struct connection *c)
{
	int err;

	if ((err = ibv_destroy_qp(c->qp)))
		fail(err, "ibv_destroy_qp");
	if ((err = ibv_destroy_cq(c->send_cq)) || (err = ibv_destroy_cq(c->recv_cq)))
		fail(err, "ibv_destroy_cq");
	if ((err = ibv_dereg_mr(c->mr)))
		fail(err, "ibv_dereg_mr");
	close_device(&c->device);
}

int main(int argc, char **argv)
{
	struct options options = parse_options(argc, argv, "Messages over a reliable connection (RC).");
	static struct connection c;
	struct endpoint peer;
	uint32_t psn = random_psn();
	int sock = tcp_open(&options);

	c.device = open_device(&options, sock);
	create(&c);
	modify_to_init(&c.device, c.qp, 0);
	post_receive(&c);
	peer = exchange(&c.device, sock, c.qp->qp_num, psn);
	modify_to_rtr(&c.device, c.qp, &peer);
	modify_to_rts(c.qp, psn);
	/* Packets for a queue pair that is not yet in RTR are dropped: wait until both sides are. */
	barrier(sock);
	if (options.host)
		run_client(&c);
	else
		run_server(&c);
	/* A queue pair that is gone cannot acknowledge: wait until the peer has all acknowledgments. */
	barrier(sock);
	close(sock);
	destroy(&c);
	printf("done: %d messages in each direction\n", MESSAGES);
	return 0;
}
