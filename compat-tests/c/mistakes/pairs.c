/* Mistakes of one of two processes, seen from the other. */
#include "mistakes.h"

struct card {
	uint32_t qpn, rkey;
	uint64_t addr;
	union ibv_gid gid;
};

static struct card exchange(struct rig *rig, int peer, struct ibv_qp *qp, uint32_t rkey)
{
	struct card mine = { qp->qp_num, rkey, (uintptr_t)rig->buf, rig->gid }, other;

	NEED(write(peer, &mine, sizeof(mine)) == sizeof(mine));
	NEED(read(peer, &other, sizeof(other)) == sizeof(other));
	return other;
}

/* Both have come here. */
static void meet(int peer)
{
	char byte = 0;

	NEED(write(peer, &byte, 1) == 1 && read(peer, &byte, 1) == 1);
}

/* The client does `op`; the server is `b` of the link, and has posted `receives`. */
static void run(struct rig *rig, int peer, bool server, const struct link *link, enum ibv_wr_opcode op,
		int receives, int room, bool fails)
{
	struct ibv_qp *qp = link_qp(rig, link);
	struct card other = exchange(rig, peer, qp, rig->mr->rkey);

	NEED(link_to(rig, qp, link, other.qpn, other.gid, server) == 0);
	for (int i = 0; server && i < receives; i++)
		NEED(post_recv(qp, rig, 1, 4096, room) == 0);
	meet(peer);
	if (!server) {
		struct ibv_sge sge = { (uintptr_t)rig->buf, 64, rig->mr->lkey };
		struct ibv_send_wr *bad, wr = { .wr_id = 77, .sg_list = &sge, .num_sge = 1, .opcode = op };

		wr.wr.rdma.remote_addr = other.addr;
		wr.wr.rdma.rkey = other.rkey;
		NEED(ibv_post_send(qp, &wr, &bad) == 0);
		CHECK((next_status(rig->cq) == IBV_WC_SUCCESS) == !fails);
	} else {
		poll_for(rig->cq, receives && !fails ? 1 : 0, 1);
	}
	meet(peer);
	CHECK(ibv_destroy_qp(qp) == 0);
}

static void far_access(struct rig *rig, int peer, bool server, bool wrong)
{
	struct link link = { .access = wrong ? IBV_ACCESS_REMOTE_READ : 0 };

	run(rig, peer, server, &link, IBV_WR_RDMA_WRITE, 0, 0, wrong);
}

static void far_region(struct rig *rig, int peer, bool server, bool wrong)
{
	struct link link = { 0 };
	struct ibv_mr *kept = rig->mr;

	if (server && wrong)
		NEED(rig->mr = ibv_reg_mr(rig->pd, rig->buf, SIZE, IBV_ACCESS_LOCAL_WRITE));
	run(rig, peer, server, &link, IBV_WR_RDMA_WRITE, 0, 0, wrong);
	if (rig->mr != kept)
		CHECK(ibv_dereg_mr(rig->mr) == 0);
	rig->mr = kept;
}

static void far_no_recv(struct rig *rig, int peer, bool server, bool wrong)
{
	struct link link = { 0 };

	run(rig, peer, server, &link, IBV_WR_SEND, !wrong, 64, wrong);
}

static void far_rnr_forever(struct rig *rig, int peer, bool server, bool wrong)
{
	struct link link = { .rnr_retry = 7 };

	run(rig, peer, server, &link, IBV_WR_SEND, !wrong, 64, wrong);
}

static void far_small(struct rig *rig, int peer, bool server, bool wrong)
{
	struct link link = { 0 };

	run(rig, peer, server, &link, IBV_WR_SEND, 1, wrong ? 8 : 64, wrong);
}

static void far_init(struct rig *rig, int peer, bool server, bool wrong)
{
	struct link link = { .stays = wrong ? IBV_QPS_INIT : 0 };

	run(rig, peer, server, &link, IBV_WR_RDMA_WRITE, 0, 0, wrong);
}

static void far_psn(struct rig *rig, int peer, bool server, bool wrong)
{
	struct link link = { .rq_psn = wrong ? 7777 : 0 };

	run(rig, peer, server, &link, IBV_WR_RDMA_WRITE, 0, 0, wrong);
}

static void far_read_limit(struct rig *rig, int peer, bool server, bool wrong)
{
	struct link link = { .no_dest_rd_atomic = wrong };

	run(rig, peer, server, &link, IBV_WR_RDMA_READ, 0, 0, wrong);
}

const struct mistake pair_mistakes[] = {
	{ "far-access", NULL, "qp-access", "in process", far_access },
	{ "far-region", NULL, "key-access", "lacks IBV_ACCESS_REMOTE_WRITE", far_region },
	{ "far-no-recv", NULL, "rnr-exceeded", "has had no receive posted at all", far_no_recv },
	{ "far-rnr-forever", NULL, "no-completion", "has no receive posted", far_rnr_forever },
	{ "far-small", NULL, "receive-too-small", "a message of 64 bytes", far_small },
	{ "far-init", NULL, "retry-exceeded", "is in INIT, and receives nothing", far_init },
	{ "far-psn", NULL, "retry-exceeded", "expects PSN 7777 first", far_psn },
	{ "far-read-limit", NULL, "dest-rd-atomic", "is 0, and max_rd_atomic here is 4", far_read_limit },
	{ 0 },
};
