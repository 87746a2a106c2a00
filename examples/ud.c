/*
 * ud: unreliable datagrams (UD).
 *
 * The client sends five requests, and the server answers each. A UD queue pair has no peer: each send request
 * names the destination (address handle, queue pair number, Q_Key), so one queue pair serves any number of
 * peers.
 *
 * - Address handle: the path to the destination's port. The client makes it from what the server has sent
 *   over TCP. The server makes it from the completion of the request.
 * - Q_Key: a packet is dropped unless its Q_Key is the receiver's. Here the server chooses one at random, and
 *   sends it over TCP.
 * - Size: a message is one packet, so it is not larger than the path MTU.
 * - Receive buffer: the first 40 bytes are for the global route header, even if the packet has none. On RoCE
 *   over IPv4, the IPv4 header is in the last 20 of these.
 * - Loss: datagrams can be lost. Here the client sends a request again if no answer comes. It numbers the
 *   requests, to recognise a late answer.
 */
#include <endian.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common.h"

#define GRH 40
#define REQUESTS 5
#define ATTEMPTS 20
#define RECEIVES 8
/* With the highest bit set, the Q_Key of a send request is ignored, and the queue pair's own is sent. */
#define QKEY_MASK 0x7fffffff

struct message {
	uint32_t number; /* big endian: on the network, hosts of both byte orders meet */
	uint32_t value;
};

/* The packed layout that UD receives need: header space, then the message. */
struct receive {
	uint8_t grh[GRH];
	struct message message;
};

struct port {
	struct device device;
	struct ibv_cq *send_cq, *recv_cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint32_t qkey;
	struct {
		struct receive receives[RECEIVES];
		struct message sent;
	} buffers;
};

static void post_receive(struct port *p, uint64_t index)
{
	struct ibv_sge sge = { (uintptr_t)&p->buffers.receives[index], sizeof(struct receive), p->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = index, .sg_list = &sge, .num_sge = 1 }, *bad;
	int err = ibv_post_recv(p->qp, &wr, &bad);

	if (err)
		fail(err, "ibv_post_recv");
}

static void create(struct port *p)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_UD,
		.cap = { .max_send_wr = 1, .max_recv_wr = RECEIVES, .max_send_sge = 1, .max_recv_sge = 1 },
		.sq_sig_all = 1,
	};
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT,
				    .port_num = p->device.ib_port,
				    .qkey = p->qkey };

	p->mr = ibv_reg_mr(p->device.pd, &p->buffers, sizeof(p->buffers), IBV_ACCESS_LOCAL_WRITE);
	if (!p->mr)
		fail(errno, "ibv_reg_mr of %zu bytes", sizeof(p->buffers));
	p->send_cq = init.send_cq = ibv_create_cq(p->device.context, 1, NULL, NULL, 0);
	p->recv_cq = init.recv_cq = ibv_create_cq(p->device.context, RECEIVES, NULL, NULL, 0);
	if (!p->send_cq || !p->recv_cq)
		fail(errno, "ibv_create_cq");
	p->qp = ibv_create_qp(p->device.pd, &init);
	if (!p->qp)
		fail(errno, "ibv_create_qp, UD");
	/* The states are those of connected queue pairs, without anything about a peer. */
	modify_qp(p->qp, &attr, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, "INIT");
	for (uint64_t i = 0; i < RECEIVES; i++)
		post_receive(p, i);
	attr.qp_state = IBV_QPS_RTR;
	modify_qp(p->qp, &attr, 0, "RTR");
	attr.qp_state = IBV_QPS_RTS;
	attr.sq_psn = random_psn();
	modify_qp(p->qp, &attr, IBV_QP_SQ_PSN, "RTS");
}

/* Sends buffers.sent. It completes when the packet is sent, whether it arrives or not. */
static void send_to(struct port *p, struct ibv_ah *ah, uint32_t qpn)
{
	struct ibv_sge sge = { (uintptr_t)&p->buffers.sent, sizeof(p->buffers.sent), p->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND }, *bad;
	int err;

	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = qpn;
	wr.wr.ud.remote_qkey = p->qkey;
	err = ibv_post_send(p->qp, &wr, &bad);
	if (err)
		fail(err, "ibv_post_send");
	wait_completion(p->send_cq, "send");
}

/* Returns true and the completion if a message has arrived. */
static bool poll_receive(struct port *p, struct ibv_wc *wc)
{
	int n = ibv_poll_cq(p->recv_cq, 1, wc);

	if (n < 0)
		fail(0, "ibv_poll_cq returned %d", n);
	if (n > 0)
		check_completion(wc, "receive");
	/* byte_len includes the 40 bytes. Messages of strangers may have any length: ignore those. */
	if (n > 0 && wc->byte_len != sizeof(struct receive)) {
		post_receive(p, wc->wr_id);
		return false;
	}
	return n > 0;
}

/* Answers requests until the client reports over TCP that it has finished. */
static void run_server(struct port *p, int sock)
{
	struct pollfd tcp = { .fd = sock, .events = POLLIN };
	struct ibv_wc wc;
	int answered = 0, err;

	while (poll(&tcp, 1, 0) == 0) {
		struct receive *request;
		struct ibv_ah *ah;

		if (!poll_receive(p, &wc))
			continue;
		request = &p->buffers.receives[wc.wr_id];
		/* The path back, from the packet's header. On RoCE this asks the kernel for the Ethernet
		 * address: a server with much traffic keeps the handles of its clients. */
		ah = ibv_create_ah_from_wc(p->device.pd, &wc, (struct ibv_grh *)request->grh,
					   p->device.ib_port);
		if (!ah)
			fail(errno, "ibv_create_ah_from_wc");
		p->buffers.sent.number = request->message.number;
		p->buffers.sent.value = htobe32(2 * be32toh(request->message.value));
		post_receive(p, wc.wr_id);
		send_to(p, ah, wc.src_qp);
		/* A handle must live until all send requests that use it have completed. */
		err = ibv_destroy_ah(ah);
		if (err)
			fail(err, "ibv_destroy_ah");
		answered++;
	}
	printf("done: answered %d requests\n", answered);
}

/* Waits up to 100 ms for the answer to a request. */
static bool receive_answer(struct port *p, uint32_t number, uint32_t *value)
{
	struct timespec begin, now;
	struct ibv_wc wc;

	clock_gettime(CLOCK_MONOTONIC, &begin);
	do {
		clock_gettime(CLOCK_MONOTONIC, &now);
		if (poll_receive(p, &wc)) {
			struct message message = p->buffers.receives[wc.wr_id].message;

			post_receive(p, wc.wr_id);
			*value = be32toh(message.value);
			if (be32toh(message.number) == number)
				return true;
		}
	} while ((now.tv_sec - begin.tv_sec) * 1000 + (now.tv_nsec - begin.tv_nsec) / 1000000 < 100);
	return false;
}

static void run_client(struct port *p, const struct endpoint *server)
{
	struct ibv_ah_attr path = path_to(&p->device, server->lid, &server->gid);
	/* On RoCE this resolves the GID to an Ethernet address, which can take seconds if the host is not
	 * there. */
	struct ibv_ah *ah = ibv_create_ah(p->device.pd, &path);
	uint32_t value;
	int lost = 0, err;

	if (!ah)
		fail(errno, "ibv_create_ah (is the server's GID reachable from the GID of this port?)");
	for (uint32_t i = 0; i < REQUESTS; i++) {
		int attempt = 0;

		do {
			if (attempt++ == ATTEMPTS)
				fail(0, "no answer to %d requests: does a firewall drop packets?", ATTEMPTS);
			p->buffers.sent.number = htobe32(i);
			p->buffers.sent.value = htobe32(100 + i);
			send_to(p, ah, server->qpn);
		} while (!receive_answer(p, i, &value));
		if (value != 2 * (100 + i))
			fail(0, "the answer to request %u is %u", i, value);
		printf("request %u: %u, answer: %u\n", i, 100 + i, value);
		lost += attempt - 1;
	}
	err = ibv_destroy_ah(ah);
	if (err)
		fail(err, "ibv_destroy_ah");
	printf("done: %d requests, %d sent again\n", REQUESTS, lost);
}

static uint32_t exchange_qkey(const struct options *options, int sock)
{
	uint32_t qkey = (random_psn() << 8 ^ random_psn()) & QKEY_MASK;
	char line[32];

	if (!options->host) {
		send_line(sock, "%" PRIu32, qkey);
		return qkey;
	}
	receive_line(sock, line, sizeof(line));
	return (uint32_t)strtoul(line, NULL, 10);
}

int main(int argc, char **argv)
{
	struct options options = parse_options(argc, argv, "Unreliable datagrams (UD).");
	static struct port p;
	struct endpoint peer;
	int sock = tcp_open(&options), err;

	p.device = open_device(&options, sock);
	p.qkey = exchange_qkey(&options, sock);
	create(&p);
	peer = exchange(&p.device, sock, p.qp->qp_num, 0);
	if (options.host)
		run_client(&p, &peer);
	else
		run_server(&p, sock);
	barrier(sock);
	close(sock);
	if ((err = ibv_destroy_qp(p.qp)))
		fail(err, "ibv_destroy_qp");
	if ((err = ibv_destroy_cq(p.send_cq)) || (err = ibv_destroy_cq(p.recv_cq)))
		fail(err, "ibv_destroy_cq");
	if ((err = ibv_dereg_mr(p.mr)))
		fail(err, "ibv_dereg_mr");
	close_device(&p.device);
	return 0;
}
