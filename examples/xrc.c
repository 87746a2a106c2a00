/*
 * xrc: extended reliable connections (XRC).
 *
 * With RC, a process that communicates with all processes of another host needs a queue pair for each of
 * them. With XRC, one connection per host is enough: each send request names the shared receive queue (SRQ)
 * for which it is.
 *
 *   XRC domain     connects receiving queue pairs and SRQs, which may be of several processes
 *   XRC SRQ        has the receive requests and the completion queue of one receiver
 *   XRC_RECV QP    the receiving end of the connection. It has no queues of its own
 *   XRC_SEND QP    the sending end
 *
 * Here the server has two SRQs, for two receivers in one process. The client sends three messages to each of
 * them over one connection. On a device without XRC the example ends with "Operation not supported".
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common.h"

#define RECEIVERS 2
#define MESSAGES 3 /* for each receiver */
#define SIZE 64

struct receiver {
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	uint32_t number;
};

struct side {
	struct device device;
	struct ibv_mr *mr;
	struct ibv_qp *qp;
	struct ibv_cq *cq;                    /* client */
	struct ibv_xrcd *xrcd;                /* server */
	struct receiver receivers[RECEIVERS]; /* server; the client knows their numbers */
	struct {
		char sent[SIZE];
		char received[RECEIVERS][MESSAGES][SIZE];
	} buffers;
};

static void create_receiver(struct side *s, int index)
{
	struct receiver *r = &s->receivers[index];
	struct ibv_srq_init_attr_ex attr = {
		.attr = { .max_wr = MESSAGES, .max_sge = 1 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD |
			     IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.pd = s->device.pd,
		.xrcd = s->xrcd,
	};
	int err;

	/* Completions of an XRC SRQ go to its own completion queue. */
	r->cq = attr.cq = ibv_create_cq(s->device.context, MESSAGES, NULL, NULL, 0);
	if (!r->cq)
		fail(errno, "ibv_create_cq");
	r->srq = ibv_create_srq_ex(s->device.context, &attr);
	if (!r->srq)
		fail(errno, "ibv_create_srq_ex, XRC");
	err = ibv_get_srq_num(r->srq, &r->number);
	if (err)
		fail(err, "ibv_get_srq_num");
	for (uint64_t i = 0; i < MESSAGES; i++) {
		struct ibv_sge sge = { (uintptr_t)s->buffers.received[index][i], SIZE, s->mr->lkey };
		struct ibv_recv_wr wr = { .wr_id = i, .sg_list = &sge, .num_sge = 1 }, *bad;

		err = ibv_post_srq_recv(r->srq, &wr, &bad);
		if (err)
			fail(err, "ibv_post_srq_recv");
	}
}

static void create_server(struct side *s)
{
	/* Processes that name the same file share the domain. With -1 it is for this process alone. */
	struct ibv_xrcd_init_attr domain = { .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
					     .fd = -1,
					     .oflags = O_CREAT };
	struct ibv_qp_init_attr_ex attr = { .qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD };

	s->xrcd = ibv_open_xrcd(s->device.context, &domain);
	if (!s->xrcd)
		fail(errno, "ibv_open_xrcd (ibv_query_device reports IBV_DEVICE_XRC if a device has XRC)");
	for (int i = 0; i < RECEIVERS; i++)
		create_receiver(s, i);
	attr.xrcd = s->xrcd;
	s->qp = ibv_create_qp_ex(s->device.context, &attr);
	if (!s->qp)
		fail(errno, "ibv_create_qp_ex, XRC_RECV");
}

static void create_client(struct side *s)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_XRC_SEND,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.cap = { .max_send_wr = 1, .max_send_sge = 1 },
		.sq_sig_all = 1,
		.pd = s->device.pd,
	};

	s->cq = attr.send_cq = ibv_create_cq(s->device.context, 1, NULL, NULL, 0);
	if (!s->cq)
		fail(errno, "ibv_create_cq");
	s->qp = ibv_create_qp_ex(s->device.context, &attr);
	if (!s->qp)
		fail(errno, "ibv_create_qp_ex, XRC_SEND (does the device have XRC?)");
}

/* Both sides know the text of each message. */
static void text_of(char *text, int receiver, int message)
{
	snprintf(text, SIZE, "message %d for receiver %d", message, receiver);
}

static void run_client(struct side *s)
{
	for (int i = 0; i < RECEIVERS * MESSAGES; i++) {
		struct ibv_sge sge = { (uintptr_t)s->buffers.sent, SIZE, s->mr->lkey };
		struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND }, *bad;
		int err;

		wr.qp_type.xrc.remote_srqn = s->receivers[i % RECEIVERS].number;
		text_of(s->buffers.sent, i % RECEIVERS, i / RECEIVERS);
		err = ibv_post_send(s->qp, &wr, &bad);
		if (err)
			fail(err, "ibv_post_send");
		wait_completion(s->cq, "send");
	}
	printf("done: %d messages to %d receivers\n", RECEIVERS * MESSAGES, RECEIVERS);
}

static void run_server(struct side *s)
{
	char expected[SIZE];

	for (int i = 0; i < RECEIVERS; i++) {
		struct receiver *r = &s->receivers[i];

		for (int message = 0; message < MESSAGES; message++) {
			struct ibv_wc wc = wait_completion(r->cq, "receive");

			text_of(expected, i, message);
			if (wc.wr_id >= MESSAGES ||
			    strncmp(s->buffers.received[i][wc.wr_id], expected, SIZE) != 0)
				fail(0, "receiver %d did not get \"%s\"", i, expected);
			printf("SRQ %u: \"%s\"\n", r->number, s->buffers.received[i][wc.wr_id]);
		}
	}
	printf("done: %d receivers got %d messages each\n", RECEIVERS, MESSAGES);
}

/* Sends the numbers of the SRQs to the client. */
static void exchange_numbers(struct side *s, const struct options *options, int sock)
{
	char line[32];

	for (int i = 0; i < RECEIVERS; i++) {
		if (!options->host) {
			send_line(sock, "%u", s->receivers[i].number);
			continue;
		}
		receive_line(sock, line, sizeof(line));
		if (sscanf(line, "%u", &s->receivers[i].number) != 1)
			fail(0, "the peer has sent \"%s\": is it the same example?", line);
	}
}

static void destroy(struct side *s)
{
	int err;

	if ((err = ibv_destroy_qp(s->qp)))
		fail(err, "ibv_destroy_qp");
	for (int i = 0; s->xrcd && i < RECEIVERS; i++)
		if ((err = ibv_destroy_srq(s->receivers[i].srq)) ||
		    (err = ibv_destroy_cq(s->receivers[i].cq)))
			fail(err, "cannot destroy receiver %d", i);
	if (s->xrcd && (err = ibv_close_xrcd(s->xrcd)))
		fail(err, "ibv_close_xrcd");
	if (s->cq && (err = ibv_destroy_cq(s->cq)))
		fail(err, "ibv_destroy_cq");
	if ((err = ibv_dereg_mr(s->mr)))
		fail(err, "ibv_dereg_mr");
	close_device(&s->device);
}

int main(int argc, char **argv)
{
	struct options options = parse_options(argc, argv, "Extended reliable connections (XRC).");
	static struct side s;
	struct endpoint peer;
	uint32_t psn = random_psn();
	int sock = tcp_open(&options);

	s.device = open_device(&options, sock);
	s.mr = ibv_reg_mr(s.device.pd, &s.buffers, sizeof(s.buffers), IBV_ACCESS_LOCAL_WRITE);
	if (!s.mr)
		fail(errno, "ibv_reg_mr of %zu bytes", sizeof(s.buffers));
	if (options.host)
		create_client(&s);
	else
		create_server(&s);
	modify_to_init(&s.device, s.qp, 0);
	peer = exchange(&s.device, sock, s.qp->qp_num, psn);
	exchange_numbers(&s, &options, sock);
	modify_to_rtr(&s.device, s.qp, &peer);
	/* The receiving end stays in RTR: it never sends. */
	if (options.host)
		modify_to_rts(s.qp, psn);
	barrier(sock); /* the server is ready to receive */
	if (options.host)
		run_client(&s);
	else
		run_server(&s);
	barrier(sock); /* the client has all acknowledgments */
	close(sock);
	destroy(&s);
	return 0;
}
