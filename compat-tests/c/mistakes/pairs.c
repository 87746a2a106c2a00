/* Mistakes of one of two processes, seen from the other. */
#include "pairs.h"

#include <arpa/inet.h>
#include <sys/mman.h>
#include <sys/socket.h>

struct card swap(int peer, struct card mine)
{
	struct card other;

	NEED(write(peer, &mine, sizeof(mine)) == sizeof(mine));
	NEED(read(peer, &other, sizeof(other)) == sizeof(other));
	return other;
}

static struct card exchange(struct rig *rig, int peer, struct ibv_qp *qp, uint32_t rkey)
{
	return swap(peer, (struct card){ qp->qp_num, rkey, (uintptr_t)rig->buf, rig->gid });
}

void meet(int peer)
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
		CHECK(succeeds(rig, qp, part(rig, 0, 64), op, other.addr, other.rkey) == !fails);
	} else {
		poll_for(rig->cq, receives && !fails ? 1 : 0, 1);
	}
	meet(peer);
}

static void far_access(struct rig *rig, int peer, bool server, bool wrong)
{
	run(rig, peer, server, &(struct link){ .access = wrong ? IBV_ACCESS_REMOTE_READ : 0 },
	    IBV_WR_RDMA_WRITE, 0, 0, wrong);
}

static void far_region(struct rig *rig, int peer, bool server, bool wrong)
{
	struct link link = { 0 };
	struct ibv_mr *kept = rig->mr;

	if (server && wrong)
		NEED(rig->mr = KEEP(ibv_reg_mr(rig->pd, rig->buf, SIZE, IBV_ACCESS_LOCAL_WRITE)));
	run(rig, peer, server, &link, IBV_WR_RDMA_WRITE, 0, 0, wrong);
	rig->mr = kept;
}

static void far_no_recv(struct rig *rig, int peer, bool server, bool wrong)
{
	run(rig, peer, server, &(struct link){ 0 }, IBV_WR_SEND, !wrong, 64, wrong);
}

static void far_rnr_forever(struct rig *rig, int peer, bool server, bool wrong)
{
	run(rig, peer, server, &(struct link){ .rnr_retry = 7 }, IBV_WR_SEND, !wrong, 64, wrong);
}

static void far_small(struct rig *rig, int peer, bool server, bool wrong)
{
	run(rig, peer, server, &(struct link){ 0 }, IBV_WR_SEND, 1, wrong ? 8 : 64, wrong);
}

static void far_init(struct rig *rig, int peer, bool server, bool wrong)
{
	run(rig, peer, server, &(struct link){ .stays = wrong ? IBV_QPS_INIT : 0 }, IBV_WR_RDMA_WRITE, 0, 0,
	    wrong);
}

/* It works on one host, where nothing is cut into packets. The last to go to RTS sees the other. */
static void far_mtu(struct rig *rig, int peer, bool server, bool wrong)
{
	run(rig, peer, server, &(struct link){ .mtu = wrong ? IBV_MTU_2048 : 0 }, IBV_WR_RDMA_WRITE, 0, 0,
	    false);
}

static void far_psn(struct rig *rig, int peer, bool server, bool wrong)
{
	run(rig, peer, server, &(struct link){ .rq_psn = wrong ? 7777 : 0 }, IBV_WR_RDMA_WRITE, 0, 0, wrong);
}

static void far_read_limit(struct rig *rig, int peer, bool server, bool wrong)
{
	run(rig, peer, server, &(struct link){ .no_dest_rd_atomic = wrong }, IBV_WR_RDMA_READ, 0, 0, wrong);
}

char *map_apart(bool server, size_t size)
{
	/* Both begin at the same end of the same gap. */
	void *memory = mmap(NULL, server ? size : 64 << 20, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	NEED(memory != MAP_FAILED);
	return memory;
}

bool write_to(struct rig *rig, struct ibv_qp *qp, uint64_t addr, uint32_t rkey)
{
	return succeeds(rig, qp, part(rig, 0, 64), IBV_WR_RDMA_WRITE, addr, rkey);
}

struct ibv_qp *connect_side(struct rig *rig, int peer, bool server, struct card mine, struct card *other)
{
	struct link link = { 0 };
	struct ibv_qp *qp = link_qp(rig, &link);

	mine.qpn = qp->qp_num;
	mine.gid = rig->gid;
	*other = swap(peer, mine);
	NEED(link_to(rig, qp, &link, other->qpn, other->gid, server) == 0);
	meet(peer);
	return qp;
}

/* The server ends while the client still has work for it. */
static void far_exited(struct rig *rig, int peer, bool server, bool wrong)
{
	struct card other, mine = { .rkey = rig->mr->rkey, .addr = (uintptr_t)rig->buf };
	struct ibv_qp *qp = connect_side(rig, peer, server, mine, &other);
	char byte;

	if (server && wrong) {
		shutdown(peer, SHUT_RDWR);
		_exit(0);
	}
	if (!server && wrong) {
		while (read(peer, &byte, 1) > 0)
			;
		usleep(200000);
	}
	if (!server)
		CHECK(write_to(rig, qp, other.addr, other.rkey) == !wrong);
	if (!wrong)
		meet(peer);
}

/* The client names its own region, not the one that the server has sent. */
static void far_own_region(struct rig *rig, int peer, bool server, bool wrong)
{
	struct card other, mine = { .rkey = rig->mr->rkey, .addr = (uintptr_t)rig->buf };
	struct ibv_mr *own = KEEP(ibv_reg_mr(rig->pd, rig->buf + 4096, 64, ALL_ACCESS));
	struct ibv_qp *qp = connect_side(rig, peer, server, mine, &other);

	NEED(own);
	if (!server && wrong)
		CHECK(!write_to(rig, qp, (uintptr_t)rig->buf + 4096, own->rkey));
	else if (!server)
		CHECK(write_to(rig, qp, other.addr, other.rkey));
	meet(peer);
}

/* The server deregisters its region before the client has finished. */
static void far_deregistered(struct rig *rig, int peer, bool server, bool wrong)
{
	struct link link = { 0 };
	struct ibv_qp *qp = link_qp(rig, &link);
	struct ibv_mr *mine = KEEP(ibv_reg_mr(rig->pd, rig->buf, 4096, ALL_ACCESS));
	struct card other;

	NEED(mine);
	other = exchange(rig, peer, qp, mine->rkey);
	NEED(link_to(rig, qp, &link, other.qpn, other.gid, server) == 0);
	if (server && wrong)
		CHECK(end(mine) == 0);
	meet(peer);
	if (!server)
		CHECK(write_to(rig, qp, other.addr, other.rkey) == !wrong);
	meet(peer);
}

/* The server sends its rkey in network byte order, and the client takes it as it is. */
static void far_key_order(struct rig *rig, int peer, bool server, bool wrong)
{
	struct card other, mine = { .rkey = htonl(rig->mr->rkey), .addr = (uintptr_t)rig->buf };
	struct ibv_qp *qp = connect_side(rig, peer, server, mine, &other);

	if (!server) {
		uint32_t rkey = wrong ? other.rkey : ntohl(other.rkey);

		CHECK(write_to(rig, qp, other.addr, rkey) == !wrong);
	}
	meet(peer);
}

/* Each side connects to the number that it has sent, not to the one that it has got. */
static void far_own_number(struct rig *rig, int peer, bool server, bool wrong)
{
	struct link link = { .send_cq = KEEP(ibv_create_cq(rig->context, 16, NULL, NULL, 0)) };
	struct ibv_qp *qp = link_qp(rig, &link);
	struct card other = exchange(rig, peer, qp, 0);

	NEED(link_to(rig, qp, &link, wrong ? qp->qp_num : other.qpn, other.gid, server) == 0);
	NEED(post_recv(qp, rig, 1, 4096, 64) == 0);
	meet(peer);
	if (!server) {
		NEED(send_wr(qp, rig, IBV_WR_SEND, 0, 0, 64) == 0);
		CHECK(next_status(link.send_cq) == IBV_WC_SUCCESS);
	} else {
		CHECK(poll_for(rig->cq, 1, LONG) == !wrong);
	}
	meet(peer);
}

const struct mistake pair_mistakes[] = {
	{ "far-access", NULL, "qp-access", "in process", far_access },
	{ "far-region", NULL, "key-access", "lacks IBV_ACCESS_REMOTE_WRITE", far_region },
	{ "far-no-recv", NULL, "rnr-exceeded", "has had no receive posted at all", far_no_recv },
	{ "far-rnr-forever", NULL, "no-completion", "has no receive posted", far_rnr_forever },
	{ "far-small", NULL, "receive-too-small", "a message of 64 bytes", far_small },
	{ "far-init", NULL, "retry-exceeded", "is in INIT, and receives nothing", far_init },
	{ "far-mtu", NULL, "mtu-differs", "in process", far_mtu },
	{ "far-psn-early", NULL, "psn-differs", "expects 7777", far_psn },
	{ "far-psn", NULL, "retry-exceeded", "expects PSN 7777 first", far_psn },
	{ "far-read-limit", NULL, "dest-rd-atomic", "is 0, and max_rd_atomic here is 4", far_read_limit },
	{ "far-exited", NULL, "retry-exceeded", "its process has ended", far_exited },
	{ "far-own-region", NULL, "key-unknown", "it is one of this side, and", far_own_region },
	{ "far-key-order", NULL, "key-unknown", "htonl or ntohl is missing", far_key_order },
	{ "far-own-number", NULL, "no-completion", "is connected to itself", far_own_number },
	{ "far-deregistered", NULL, "key-deregistered", "has been deregistered", far_deregistered },
	{ 0 },
};
