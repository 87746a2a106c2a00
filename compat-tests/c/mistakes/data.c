/* Requests and receives that are wrong. */
#include "mistakes.h"

static int post_on(struct rig *rig, enum ibv_qp_type type, enum ibv_wr_opcode op, unsigned flags, int len)
{
	struct ends ends = link_up(rig, &(struct link){ .type = type });

	NEED(op != IBV_WR_SEND || post_recv(ends.b, rig, 1, 4096, 4096) == 0);
	int error = send_wr(ends.a, rig, op, flags, 0, len);
	return error ? -error : next_status(rig->cq);
}

static void read_on_uc(struct rig *rig, bool wrong)
{
	enum ibv_qp_type type = wrong ? IBV_QPT_UC : IBV_QPT_RC;

	CHECK((post_on(rig, type, IBV_WR_RDMA_READ, 0, 8) == IBV_WC_SUCCESS) == !wrong);
}

static void atomic_length(struct rig *rig, bool wrong)
{
	CHECK((post_on(rig, IBV_QPT_RC, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, wrong ? 4 : 8) == IBV_WC_SUCCESS) ==
	      !wrong);
}

static void read_inline(struct rig *rig, bool wrong)
{
	CHECK((post_on(rig, IBV_QPT_RC, IBV_WR_RDMA_READ, wrong ? IBV_SEND_INLINE : 0, 8) ==
	       IBV_WC_SUCCESS) == !wrong);
}

static void inline_too_big(struct rig *rig, bool wrong)
{
	CHECK((post_on(rig, IBV_QPT_RC, IBV_WR_SEND, IBV_SEND_INLINE, wrong ? 2000 : 20) == IBV_WC_SUCCESS) ==
	      !wrong);
}

static void atomic_unaligned(struct rig *rig, bool wrong)
{
	struct ends ends = link_up(rig, &(struct link){ 0 });

	NEED(post(ends.a, rig, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 8, wrong ? 4100 : 4096, rig->mr->rkey) == 0);
	CHECK((next_status(rig->cq) == IBV_WC_SUCCESS) == !wrong);
}

static void ud_no_ah(struct rig *rig, bool wrong)
{
	struct ends ends = link_up(rig, &(struct link){ .type = IBV_QPT_UD });
	struct ibv_ah *ah = new_ah(rig, rig->gid);

	CHECK(!datagram(ends.a, wrong ? NULL : ah, ends.b->qp_num, part(rig, 0, 8)) == !wrong);
	if (!wrong)
		CHECK(next_status(rig->cq) == IBV_WC_SUCCESS);
}

static void ud_too_long(struct rig *rig, bool wrong)
{
	struct ends ends = link_up(rig, &(struct link){ .type = IBV_QPT_UD });
	struct ibv_ah *ah = new_ah(rig, rig->gid);

	/* The datagram is dropped, which is no error of the request. */
	NEED(!datagram(ends.a, ah, ends.b->qp_num, part(rig, 0, wrong ? 6000 : 500)));
	CHECK(next_status(rig->cq) >= 0);
}

/* The receiver waits for a datagram that was dropped. */
static void ud_qkey(struct rig *rig, bool wrong)
{
	struct ibv_cq *cq = KEEP(ibv_create_cq(rig->context, 8, NULL, NULL, 0));
	struct ends ends = link_up(rig, &(struct link){ .type = IBV_QPT_UD, .recv_cq = cq });
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND };

	NEED(post_recv(ends.b, rig, 1, 4096, 200) == 0);
	wr.wr.ud.ah = new_ah(rig, rig->gid);
	wr.wr.ud.remote_qpn = ends.b->qp_num;
	wr.wr.ud.remote_qkey = wrong ? QKEY + 1 : QKEY;
	NEED(post_one(ends.a, part(rig, 0, 8), wr) == 0);
	CHECK(next_status(rig->cq) == IBV_WC_SUCCESS);
	CHECK(poll_for(cq, 1, LONG) == !wrong);
}

/* The datagram goes to another number. */
static void ud_wrong_qpn(struct rig *rig, bool wrong)
{
	struct ibv_cq *cq = KEEP(ibv_create_cq(rig->context, 8, NULL, NULL, 0));
	struct ends ends = link_up(rig, &(struct link){ .type = IBV_QPT_UD, .recv_cq = cq });
	struct ibv_ah *ah = new_ah(rig, rig->gid);

	NEED(post_recv(ends.b, rig, 1, 4096, 200) == 0);
	NEED(!datagram(ends.a, ah, ends.b->qp_num + (wrong ? 99 : 0), part(rig, 0, 8)));
	CHECK(next_status(rig->cq) == IBV_WC_SUCCESS);
	CHECK(poll_for(cq, 1, LONG) == !wrong);
}

/* The receive has no room for the GRH. */
static void ud_no_grh_room(struct rig *rig, bool wrong)
{
	struct ends ends = link_up(rig, &(struct link){ .type = IBV_QPT_UD });
	struct ibv_ah *ah = new_ah(rig, rig->gid);

	NEED(post_recv(ends.b, rig, 1, 4096, wrong ? 64 : 104) == 0);
	NEED(!datagram(ends.a, ah, ends.b->qp_num, part(rig, 0, 64)));
	CHECK(next_status(rig->cq) >= 0);
	poll_for(rig->cq, 1, LONG);
}

static void ud_ah_pd(struct rig *rig, bool wrong)
{
	struct ends ends = link_up(rig, &(struct link){ .type = IBV_QPT_UD });
	struct ibv_pd *pd = KEEP(ibv_alloc_pd(rig->context));
	struct rig of = *rig;

	if (wrong)
		of.pd = pd;
	struct ibv_ah *ah = new_ah(&of, rig->gid);
	if (!datagram(ends.a, ah, ends.b->qp_num, part(rig, 0, 8)))
		next_status(rig->cq);
}

/* A list of two requests, the second of which is followed by the first. */
static void chain_loop(struct rig *rig, bool wrong)
{
	struct ibv_sge sge = { (uintptr_t)rig->buf, 8, rig->mr->lkey };
	struct ibv_send_wr *bad, wr[2] = { { 0 } };
	struct ends ends = link_up(rig, &(struct link){ 0 });

	for (int i = 0; i < 2; i++) {
		wr[i] = (struct ibv_send_wr){ .next = i == 0  ? &wr[1]
						      : wrong ? &wr[0]
							      : NULL,
					      .sg_list = &sge,
					      .num_sge = 1,
					      .opcode = IBV_WR_RDMA_WRITE };
		wr[i].wr.rdma.remote_addr = (uintptr_t)rig->buf + 4096;
		wr[i].wr.rdma.rkey = rig->mr->rkey;
	}
	CHECK(!ibv_post_send(ends.a, wr, &bad) == !wrong);
	poll_for(rig->cq, 2, 1);
}

static void recv_on_srq_qp(struct rig *rig, bool wrong)
{
	struct ibv_srq *srq = new_srq(rig, 8);
	struct ends ends = link_up(rig, &(struct link){ .srq = srq });
	struct ibv_sge sge = { (uintptr_t)rig->buf, 64, rig->mr->lkey };

	if (wrong)
		CHECK(recv_one(ends.b, sge) != 0);
	else
		CHECK(srq_recv(srq, sge) == 0);
}

static void lkey_zero(struct rig *rig, bool wrong)
{
	struct ibv_sge sge = { (uintptr_t)rig->buf, 8, wrong ? 0 : rig->mr->lkey };
	struct ends ends = link_up(rig, &(struct link){ 0 });

	NEED(post_recv(ends.b, rig, 1, 4096, 64) == 0 && send_to(ends.a, sge, IBV_WR_SEND, 0, 0) == 0);
	CHECK((next_status(rig->cq) == IBV_WC_SUCCESS) == !wrong);
}

/* A receive into memory that may only be read. */
static void recv_read_only(struct rig *rig, bool wrong)
{
	struct ibv_mr *mr = KEEP(ibv_reg_mr(rig->pd, rig->buf, SIZE, wrong ? 0 : IBV_ACCESS_LOCAL_WRITE));
	struct ibv_sge sge = { (uintptr_t)rig->buf, 64, mr->lkey };
	struct ends ends = link_up(rig, &(struct link){ 0 });

	NEED(recv_one(ends.b, sge) == 0 && send_wr(ends.a, rig, IBV_WR_SEND, 0, 0, 8) == 0);
	CHECK((next_status(rig->cq) == IBV_WC_SUCCESS) == !wrong);
	next_status(rig->cq);
}

static void read_into_read_only(struct rig *rig, bool wrong)
{
	struct ibv_mr *mr = KEEP(ibv_reg_mr(rig->pd, rig->buf, SIZE, wrong ? 0 : IBV_ACCESS_LOCAL_WRITE));
	struct ibv_mr *kept = rig->mr;
	struct ends ends = link_up(rig, &(struct link){ 0 });
	struct ibv_sge sge = { (uintptr_t)rig->buf, 64, mr->lkey };

	CHECK(succeeds(rig, ends.a, sge, IBV_WR_RDMA_READ, (uintptr_t)rig->buf + 4096, kept->rkey) == !wrong);
}

/* A request that the peer refuses. */
static void refused(struct rig *rig, const struct link *link, enum ibv_wr_opcode op, bool wrong)
{
	struct ends ends = link_up(rig, link);

	CHECK(works(rig, ends.a, op, 8) == !wrong);
	poll_for(rig->cq, 1, 0.1);
}

static void qp_no_remote_read(struct rig *rig, bool wrong)
{
	struct link link = { .access = wrong ? IBV_ACCESS_REMOTE_WRITE : 0 };

	refused(rig, &link, IBV_WR_RDMA_READ, wrong);
}

static void dest_rd_atomic_zero(struct rig *rig, bool wrong)
{
	struct link link = { .no_dest_rd_atomic = wrong };

	refused(rig, &link, IBV_WR_RDMA_READ, wrong);
}

static void rd_atomic_zero(struct rig *rig, bool wrong)
{
	struct link link = { .no_rd_atomic = wrong };

	refused(rig, &link, IBV_WR_RDMA_READ, wrong);
}

/* The address of the peer's buffer was not exchanged. */
static void remote_addr_zero(struct rig *rig, bool wrong)
{
	struct ends ends = link_up(rig, &(struct link){ 0 });
	int64_t to = wrong ? -(int64_t)(uintptr_t)rig->buf : 4096;

	NEED(post(ends.a, rig, IBV_WR_RDMA_WRITE, 0, 8, to, rig->mr->rkey) == 0);
	CHECK((next_status(rig->cq) == IBV_WC_SUCCESS) == !wrong);
}

static void recv_too_small(struct rig *rig, bool wrong)
{
	struct ends ends = link_up(rig, &(struct link){ 0 });

	NEED(post_recv(ends.b, rig, 1, 4096, wrong ? 8 : 64) == 0);
	CHECK(works(rig, ends.a, IBV_WR_SEND, 64) == !wrong);
	next_status(rig->cq);
}

static void imm_without_recv(struct rig *rig, bool wrong)
{
	struct ends ends = link_up(rig, &(struct link){ 0 });

	if (!wrong)
		NEED(post_recv(ends.b, rig, 1, 0, 8) == 0);
	CHECK(works(rig, ends.a, IBV_WR_RDMA_WRITE_WITH_IMM, 8) == !wrong);
	if (!wrong)
		CHECK(next_status(rig->cq) == IBV_WC_SUCCESS);
}

/* The second SEND finds no receive: only one was posted. */
static void recv_not_reposted(struct rig *rig, bool wrong)
{
	struct ends ends = link_up(rig, &(struct link){ 0 });

	for (int i = 0; i < (wrong ? 1 : 2); i++)
		NEED(post_recv(ends.b, rig, 1, 4096 + 64 * i, 64) == 0);
	for (int i = 0; i < 2; i++) {
		CHECK(works(rig, ends.a, IBV_WR_SEND, 8) || (wrong && i == 1));
		if (!wrong || i == 0)
			CHECK(next_status(rig->cq) == IBV_WC_SUCCESS);
	}
}

static void no_recv_queue(struct rig *rig, bool wrong)
{
	struct ibv_qp_init_attr attr = { .send_cq = rig->cq,
					 .recv_cq = rig->cq,
					 .cap = { 8, wrong ? 0 : 8, 1, 1, 0 },
					 .qp_type = IBV_QPT_RC };
	struct ibv_qp *qp = KEEP(ibv_create_qp(rig->pd, &attr));

	NEED(qp && to_init(qp) == 0);
	CHECK(!post_recv(qp, rig, 1, 0, 64) == !wrong);
}

static void mtu_mismatch(struct rig *rig, bool wrong)
{
	struct ends ends = link_up(rig, &(struct link){ .mtu = wrong ? IBV_MTU_256 : 0 });

	/* Within one process the WRITE succeeds nevertheless: no packet is sent. */
	NEED(send_wr(ends.a, rig, IBV_WR_RDMA_WRITE, 0, 0, 4000) == 0);
	CHECK(next_status(rig->cq) >= 0);
}

static void psn_mismatch(struct rig *rig, bool wrong)
{
	struct ends ends = link_up(rig, &(struct link){ .rq_psn = wrong ? 5000 : 0 });

	CHECK(works(rig, ends.a, IBV_WR_RDMA_WRITE, 8) == !wrong);
}

/* The peer's number is that of no queue pair. */
static void dest_qpn_wrong(struct rig *rig, bool wrong)
{
	struct link link = { 0 };
	struct ends ends = { link_qp(rig, &link), link_qp(rig, &link) };

	NEED(link_to(rig, ends.b, &link, ends.a->qp_num, rig->gid, true) == 0);
	NEED(link_to(rig, ends.a, &link, ends.b->qp_num + (wrong ? 77 : 0), rig->gid, false) == 0);
	CHECK(works(rig, ends.a, IBV_WR_RDMA_WRITE, 8) == !wrong);
}

/* The peer's queue pair was destroyed. */
static void peer_gone(struct rig *rig, bool wrong)
{
	struct ends ends = link_up(rig, &(struct link){ 0 });

	if (wrong)
		CHECK(end(ends.b) == 0);
	CHECK(works(rig, ends.a, IBV_WR_RDMA_WRITE, 8) == !wrong);
}

/* Two READs at once, of which the peer accepts one. One after the other is right, whatever the limits are. */
static void reads_at_once(struct rig *rig, bool wrong)
{
	struct link link = { .dest_rd_atomic = 1 };
	struct ends ends = link_up(rig, &link);

	for (int i = 0; i < 2; i++) {
		CHECK(send_wr(ends.a, rig, IBV_WR_RDMA_READ, 0, 64 * i, 8) == 0);
		if (!wrong)
			CHECK(next_status(rig->cq) == IBV_WC_SUCCESS);
	}
	if (wrong)
		CHECK(poll_for(rig->cq, 2, 20) == 2);
}

const struct mistake data_mistakes[] = {
	{ "read-on-uc", read_on_uc, "opcode-type", "is posted to a UC queue pair" },
	{ "atomic-length", atomic_length, "argument", "has 4 bytes" },
	{ "atomic-unaligned", atomic_unaligned, "atomic-unaligned", "which is not a multiple of 8" },
	{ "read-inline", read_inline, "argument", "has IBV_SEND_INLINE" },
	{ "inline-too-big", inline_too_big, "inline-limit", "2000 bytes of inline data" },
	{ "ud-no-ah", ud_no_ah, "null-object", "wr.ud.ah is NULL" },
	{ "ud-too-long", ud_too_long, "datagram-too-long", "a datagram of 6000 bytes" },
	{ "ud-qkey", ud_qkey, "no-completion", "with a Q_Key that is not its own" },
	{ "ud-wrong-qpn", ud_wrong_qpn, "no-completion", "which is no queue pair of this process" },
	{ "ud-no-grh-room", ud_no_grh_room, "no-completion", "with 40 bytes for the GRH, do not fit" },
	{ "ud-ah-pd", ud_ah_pd, "ah-pd", "belongs to the PD" },
	{ "chain-loop", chain_loop, "chain-loop", "behind 2 requests" },
	{ "recv-on-srq-qp", recv_on_srq_qp, "argument", "was created with an SRQ" },
	{ "lkey-zero", lkey_zero, "key-unknown", "the local key 0x0" },
	{ "recv-read-only", recv_read_only, "key-access", "lacks IBV_ACCESS_LOCAL_WRITE" },
	{ "read-into-read-only", read_into_read_only, "key-access", "lacks IBV_ACCESS_LOCAL_WRITE" },
	{ "qp-no-remote-read", qp_no_remote_read, "qp-access",
	  "lacks IBV_ACCESS_REMOTE_READ in its qp_access_flags" },
	{ "reads-at-once", reads_at_once, "read-limit-rnic", "accepts 1 (max_dest_rd_atomic)" },
	{ "dest-rd-atomic-zero", dest_rd_atomic_zero, "dest-rd-atomic", "is 0, and max_rd_atomic here is 4" },
	{ "rd-atomic-zero", rd_atomic_zero, "rd-atomic-zero", "max_rd_atomic of the queue pair is 0" },
	{ "remote-addr-zero", remote_addr_zero, "key-range", "at 0x0 leaves the memory region" },
	{ "recv-too-small", recv_too_small, "receive-too-small", "a message of 64 bytes" },
	{ "imm-without-recv", imm_without_recv, "rnr-exceeded", "has had no receive posted at all" },
	{ "recv-not-reposted", recv_not_reposted, "rnr-exceeded",
	  "1 receives posted in all, and each is consumed" },
	{ "no-recv-queue", no_recv_queue, "argument", "max_recv_wr = 0" },
	{ "mtu-mismatch", mtu_mismatch, "mtu-differs", "path MTU is 1024 here and 256" },
	{ "psn-mismatch", psn_mismatch, "retry-exceeded", "expects PSN 5000 first (rq_psn)" },
	{ "dest-qpn-wrong", dest_qpn_wrong, "retry-exceeded", "names this one as its peer" },
	{ "peer-gone", peer_gone, "retry-exceeded", "was in this process, and has been destroyed" },
	{ 0 },
};
