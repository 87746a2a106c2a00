/*
 * A peer process that is stopped: its own queue pairs wait for it, those with other peers notice nothing, and
 * what waits for it ends. Through shared memory its channel is full then.
 */
#include "rig.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	FILLS = 16,
	DATAGRAMS = 600,
	PAYLOAD = 1000,
	QKEY = 0x11111111
};

static const struct options plain, lenient = { .timeout = 19 }, strict = { .timeout = 10, .retry_cnt = 2 };

/* A UD queue pair of an end, which has others, too. */
static struct ibv_qp *datagram_qp(struct end *end)
{
	struct ibv_qp_init_attr init = {
		.send_cq = end->cq,
		.recv_cq = end->cq,
		.qp_type = IBV_QPT_UD,
		/* No completion is polled: each request keeps its slot. */
		.cap = { .max_send_wr = DATAGRAMS + 2,
			 .max_recv_wr = 8,
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
	};
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY };
	struct ibv_qp *qp;

	MUST(qp = ibv_create_qp(end->pd, &init));
	MUST(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY) == 0);
	attr.qp_state = IBV_QPS_RTR;
	MUST(ibv_modify_qp(qp, &attr, IBV_QP_STATE) == 0);
	attr.qp_state = IBV_QPS_RTS;
	MUST(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN) == 0);
	return qp;
}

static void send_datagram(struct end *end, struct ibv_qp *qp, struct ibv_ah *ah, uint32_t qpn)
{
	struct ibv_sge sge = { .addr = (uintptr_t)end->memory, .length = PAYLOAD, .lkey = end->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND }, *bad;

	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = qpn;
	wr.wr.ud.remote_qkey = QKEY;
	MUST(ibv_post_send(qp, &wr, &bad) == 0);
}

static struct ibv_ah *route(struct end *from, const union ibv_gid *gid)
{
	struct ibv_ah_attr attr = { .is_global = 1,
				    .port_num = 1,
				    .grh = { .dgid = *gid, .sgid_index = from->gid_index, .hop_limit = 64 } };
	struct ibv_ah *ah;

	MUST(ah = ibv_create_ah(from->pd, &attr));
	return ah;
}

/* A process with two connections and a UD queue pair. It waits to be stopped. */
static void stoppable_peer(int socket)
{
	struct end ends[2];
	struct address peers[2];
	struct options share = plain;
	uint32_t qpn;

	share.share = true;
	open_end(&ends[0], &plain);
	ends[1] = ends[0];
	open_end(&ends[1], &share);
	for (int i = 0; i < 2; i++) {
		send_bytes(socket, &ends[i].self, sizeof ends[i].self);
		receive_bytes(socket, &peers[i], sizeof peers[i]);
		join(&ends[i], &peers[i], &plain);
		for (int k = 0; k < FILLS + 2; k++)
			MUST(post_receive(&ends[i]) == 0);
	}
	qpn = datagram_qp(&ends[0])->qp_num;
	send_bytes(socket, &qpn, sizeof qpn);
	for (;;)
		pause();
}

struct stoppable {
	struct end ends[2]; /* connected: one that waits long, one that does not */
	struct address peers[2];
	uint32_t qpn; /* of the peer's UD queue pair */
	int pid;
};

static void begin(struct stoppable *peer, const struct options *one, const struct options *other)
{
	const struct options *options[] = { one, other };
	int socket;

	if ((peer->pid = spawn(&socket)) == 0)
		stoppable_peer(socket);
	for (int i = 0; i < 2; i++) {
		receive_bytes(socket, &peer->peers[i], sizeof peer->peers[i]);
		open_end(&peer->ends[i], options[i]);
		join(&peer->ends[i], &peer->peers[i], options[i]);
		send_bytes(socket, &peer->ends[i].self, sizeof peer->ends[i].self);
	}
	receive_bytes(socket, &peer->qpn, sizeof peer->qpn);
	/* From now on packets take the path that they will take. */
	for (int i = 0; i < 2; i++) {
		MUST(post(&peer->ends[i], IBV_WR_SEND, NULL, 0, 64) == 0);
		MUST(next(&peer->ends[i]).status == IBV_WC_SUCCESS);
	}
}

static void end(struct stoppable *peer)
{
	MUST(kill(peer->pid, SIGKILL) == 0 && waitpid(peer->pid, NULL, 0) == peer->pid);
	close_end(&peer->ends[0]);
	close_end(&peer->ends[1]);
}

/* Nobody else waits for a peer that does not run, however much is to be sent to it. */
static void stopped(void)
{
	struct stoppable peer;
	struct end own;
	struct ibv_qp *from, *to;
	struct ibv_ah *to_peer, *to_self;
	struct ibv_sge sge = { 0 };
	struct ibv_recv_wr wr = { .wr_id = 1, .sg_list = &sge, .num_sge = 1 }, *bad;
	struct ibv_wc wc;
	int successes = 0;

	begin(&peer, &lenient, &strict);
	open_end(&own, &plain);
	from = datagram_qp(&own);
	to = datagram_qp(&own);
	to_peer = route(&own, &peer.peers[0].gid);
	to_self = route(&own, &own.self.gid);
	sge = (struct ibv_sge){ .addr = (uintptr_t)own.memory + SIZE / 2,
				.length = SIZE / 2,
				.lkey = own.mr->lkey };
	MUST(ibv_post_recv(to, &wr, &bad) == 0);
	send_datagram(&own, from, to_peer, peer.qpn);
	short_wait();

	stop(peer.pid);
	for (int i = 0; i < FILLS; i++)
		MUST(post(&peer.ends[0], IBV_WR_SEND, NULL, 0, SIZE / 2) == 0);
	MUST(post(&peer.ends[1], IBV_WR_SEND, NULL, 0, 64) == 0);
	for (int i = 0; i < DATAGRAMS; i++)
		send_datagram(&own, from, to_peer, peer.qpn);
	send_datagram(&own, from, to_self, to->qp_num);
	wc = next(&own);
	report("datagram behind those to the peer: %s, %u bytes", ibv_wc_status_str(wc.status), wc.byte_len);
	report("request with timeout 10, retry_cnt 2: %s", status(&peer.ends[1]));
	report("requests with timeout 19: %s", nothing(&peer.ends[0]) ? "still retrying" : "COMPLETED");
	MUST(kill(peer.pid, SIGCONT) == 0);
	for (int i = 0; i < FILLS; i++)
		successes += next(&peer.ends[0]).status == IBV_WC_SUCCESS;
	report("peer continued: %s", successes == FILLS ? "success" : "FAILED");
	MUST(ibv_destroy_qp(from) == 0 && ibv_destroy_qp(to) == 0);
	MUST(ibv_destroy_ah(to_peer) == 0 && ibv_destroy_ah(to_self) == 0);
	close_end(&own);
	end(&peer);
}

/* A host knows that a process is there which does not run: no retry is used up in a second. */
static void stopped_briefly(void)
{
	struct stoppable peer;

	begin(&peer, &plain, &strict);
	stop(peer.pid);
	for (int i = 0; i < 2; i++)
		MUST(post(&peer.ends[i], IBV_WR_SEND, NULL, 0, 64) == 0);
	sleep(1);
	for (int i = 0; i < 2; i++)
		report("peer stopped for a second: %s",
		       nothing(&peer.ends[i]) ? "still retrying" : status(&peer.ends[i]));
	MUST(kill(peer.pid, SIGCONT) == 0);
	for (int i = 0; i < 2; i++)
		report("peer continued: %s, %s", status(&peer.ends[i]), state(&peer.ends[i]));
	end(&peer);
}

const struct scene stopped_scenes[] = {
	{ "stopped", stopped, true },
	{ "stopped-briefly", stopped_briefly, true },
	{ 0 },
};
