/* Mistakes of `reported.c` that two processes make. */
#define _GNU_SOURCE
#include "pairs.h"

#include <sys/mman.h>

/* The region, as the other side gets it. */
static struct card card_of(struct ibv_mr *mr)
{
	return (struct card){ .rkey = mr->rkey, .addr = (uintptr_t)mr->addr };
}

/* A region that is nowhere in the other process. */
static struct ibv_mr *map(struct rig *rig, bool server)
{
	struct ibv_mr *mr = KEEP(ibv_reg_mr(rig->pd, map_apart(server, SIZE), SIZE, ALL_ACCESS));

	NEED(mr);
	return mr;
}

/* The client writes to its own address with the server's key. */
static void far_own_address(struct rig *rig, int peer, bool server, bool wrong)
{
	struct ibv_mr *mr = map(rig, server);
	struct card other;
	struct ibv_qp *qp = connect_side(rig, peer, server, card_of(mr), &other);

	if (!server) {
		uint64_t addr = wrong ? (uintptr_t)mr->addr : other.addr;

		CHECK(write_to(rig, qp, addr, other.rkey) == !wrong);
	}
	meet(peer);
}

/* The server unmaps its memory while the client uses it. */
static void far_unmapped(struct rig *rig, int peer, bool server, bool wrong)
{
	struct ibv_mr *mr = map(rig, server);
	struct card other;
	struct ibv_qp *qp = connect_side(rig, peer, server, card_of(mr), &other);

	if (server && wrong)
		munmap(mr->addr, SIZE);
	meet(peer);
	if (!server)
		CHECK(write_to(rig, qp, other.addr, other.rkey) == !wrong);
	meet(peer);
}

/* The client sends a datagram; the server waits for it. */
static void far_datagram(struct rig *rig, int peer, bool server, union ibv_gid *group, bool attaches,
			 int64_t off)
{
	struct link link = { .type = IBV_QPT_UD };
	struct ibv_qp *qp = link_qp(rig, &link);
	struct card other = swap(peer, (struct card){ .qpn = qp->qp_num, .gid = rig->gid });

	NEED(link_to(rig, qp, &link, 0, rig->gid, false) == 0);
	if (server)
		NEED(post_recv(qp, rig, 1, 4096, 104) == 0);
	if (server && attaches)
		NEED(ibv_attach_mcast(qp, group, 0) == 0);
	meet(peer);
	if (!server) {
		struct ibv_ah *ah = new_ah(rig, group ? *group : other.gid);

		NEED(ah);
		NEED(datagram(qp, ah, group ? 0xffffff : other.qpn + off, part(rig, 0, 64)) == 0 &&
		     next_status(rig->cq) == IBV_WC_SUCCESS);
		meet(peer);
	} else {
		bool lost = group ? !attaches : off != 0;

		CHECK(poll_for(rig->cq, 1, lost ? LONG : 5) == !lost);
		meet(peer);
	}
	if (server && attaches)
		CHECK(ibv_detach_mcast(qp, group, 0) == 0);
}

/* The receiver of a group's datagrams has not attached its queue pair. */
static void far_group(struct rig *rig, int peer, bool server, bool wrong)
{
	union ibv_gid group = { .raw = { [10] = 0xff, 0xff, 239, 1, 2, 3 } };

	far_datagram(rig, peer, server, &group, !wrong, 0);
}

/* The sender has a wrong number. */
static void far_number(struct rig *rig, int peer, bool server, bool wrong)
{
	far_datagram(rig, peer, server, NULL, false, wrong ? 1 << 20 : 0);
}

/* The client's number of the server's queue pair went through 16 bits. */
static void far_short_number(struct rig *rig, int peer, bool server, bool wrong)
{
	struct link link = { 0 };
	struct ibv_qp *qp = link_qp(rig, &link);
	struct card other = swap(peer,
				 (struct card){ qp->qp_num, rig->mr->rkey, (uintptr_t)rig->buf, rig->gid });
	uint32_t dest = !server && wrong ? (uint16_t)other.qpn : other.qpn;

	NEED(link_to(rig, qp, &link, dest, other.gid, server) == 0);
	meet(peer);
	if (!server)
		CHECK(write_to(rig, qp, other.addr, other.rkey) == !wrong);
	meet(peer);
}

/* The client waits for a message of the server, which ends, or destroys its queue pair. */
static void waits_for(struct rig *rig, int peer, bool server, bool ends, bool destroys)
{
	bool wrong = ends || destroys;
	struct link link = { 0 };
	struct ibv_qp *qp = link_qp(rig, &link);
	struct card other = swap(peer, (struct card){ qp->qp_num, 0, 0, rig->gid });

	/* The client is the last, so that it has seen the server. */
	if (!server)
		meet(peer);
	NEED(link_to(rig, qp, &link, other.qpn, other.gid, server) == 0);
	NEED(post_recv(qp, rig, 1, 4096, 64) == 0);
	if (server)
		meet(peer);
	meet(peer);
	if (server && ends)
		_exit(0);
	if (server && !wrong)
		NEED(send_wr(qp, rig, IBV_WR_SEND, 0, 0, 64) == 0 && next_status(rig->cq) == IBV_WC_SUCCESS);
	if (server && destroys)
		CHECK(end(qp) == 0);
	if (!server)
		CHECK(poll_for(rig->cq, 1, LONG) == !wrong);
	if (!ends)
		meet(peer);
}

static void far_ended(struct rig *rig, int peer, bool server, bool wrong)
{
	waits_for(rig, peer, server, wrong, false);
}

static void far_destroyed(struct rig *rig, int peer, bool server, bool wrong)
{
	waits_for(rig, peer, server, false, wrong);
}

/* The client connects its queue pair to its own number. */
static void far_itself(struct rig *rig, int peer, bool server, bool wrong)
{
	struct link link = { 0 };
	struct ibv_qp *qp = link_qp(rig, &link);
	struct card other = swap(peer, (struct card){ qp->qp_num, 0, 0, rig->gid });

	NEED(link_to(rig, qp, &link, wrong && !server ? qp->qp_num : other.qpn, other.gid, server) == 0);
	if (server)
		NEED(post_recv(qp, rig, 1, 4096, 64) == 0);
	meet(peer);
	if (!server) {
		NEED(send_wr(qp, rig, IBV_WR_SEND, IBV_SEND_SIGNALED, 0, 64) == 0);
		CHECK((next_status(rig->cq) == IBV_WC_SUCCESS) == !wrong);
	}
	meet(peer);
}

/* The client fills in an atomic operation like a WRITE. */
static void far_atomic_in_rdma(struct rig *rig, int peer, bool server, bool wrong)
{
	struct ibv_mr *mr = map(rig, server);
	struct card other;
	struct ibv_qp *qp = connect_side(rig, peer, server, card_of(mr), &other);

	if (!server)
		CHECK((compare_and_swap(rig, qp, other.addr, other.rkey, wrong) == IBV_WC_SUCCESS) == !wrong);
	meet(peer);
}

const struct mistake reported_pairs[] = {
	{ "far-atomic-in-rdma", NULL, "key-unknown", "wr.rdma was filled in", far_atomic_in_rdma },
	{ "far-short-number", NULL, "retry-exceeded", "its lower 16 bits are the same", far_short_number },
	{ "far-ended", NULL, "no-completion", "is there no more: its process has ended", far_ended },
	{ "far-itself", NULL, "rnr-exceeded", "the queue pair is connected to itself", far_itself },
	{ "far-destroyed", NULL, "no-completion", "its process lives, and has destroyed it", far_destroyed },
	{ "far-own-address", NULL, "key-range", "in this side's own region", far_own_address },
	{ "far-unmapped", NULL, "memory-gone", "the memory is that of the peer, in process", far_unmapped },
	{ "far-group", NULL, "no-completion", "to which no queue pair of this process is attached",
	  far_group },
	{ "far-number", NULL, "no-completion", "which no observed process has", far_number },
	{ NULL },
};
