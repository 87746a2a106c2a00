/*
 * Posting requests: every operation, where an invalid request ends a list, and that progress does not depend
 * on polling.
 */
#include "check.h"

static void operations(struct rig *rig)
{
	struct ibv_qp *a = make_qp(rig, IBV_QPT_RC, 0, NULL), *b = make_qp(rig, IBV_QPT_RC, 0, NULL);
	uint64_t *number = (uint64_t *)(rig->buf + 1024);
	struct ibv_send_wr *bad, wr;
	struct ibv_sge sge = { (uintptr_t)rig->buf, 100, rig->mr->lkey };
	struct ibv_wc wc;
	int seen = 0;

	join(rig, a, b);
	for (int i = 0; i < 3000; i++)
		rig->buf[i] = i;
	CHECK(post(a, rig, IBV_WR_RDMA_WRITE, 0, 3000, 4096, rig->mr->rkey) == 0);
	wc = next_wc(rig->cq);
	CHECK(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RDMA_WRITE);
	CHECK(!memcmp(rig->buf, rig->buf + 4096, 3000));
	CHECK(post(a, rig, IBV_WR_RDMA_READ, 4096, 3000, 1, rig->mr->rkey) == 0);
	wc = next_wc(rig->cq);
	CHECK(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RDMA_READ && wc.byte_len == 3000);
	CHECK(!memcmp(rig->buf + 1, rig->buf + 4096, 3000));

	*number = 5;
	CHECK(post(a, rig, IBV_WR_ATOMIC_CMP_AND_SWP, 0, 8, 1024, rig->mr->rkey) == 0);
	wc = next_wc(rig->cq);
	CHECK(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_COMP_SWAP && wc.byte_len == 8);
	CHECK(*number == 9 && *(uint64_t *)rig->buf == 5);
	CHECK(post(a, rig, IBV_WR_ATOMIC_CMP_AND_SWP, 0, 8, 1024, rig->mr->rkey) == 0);
	CHECK(next_wc(rig->cq).status == IBV_WC_SUCCESS && *number == 9 && *(uint64_t *)rig->buf == 9);
	CHECK(post(a, rig, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 8, 1024, rig->mr->rkey) == 0);
	wc = next_wc(rig->cq);
	CHECK(wc.opcode == IBV_WC_FETCH_ADD && *number == 14 && *(uint64_t *)rig->buf == 9);

	CHECK(post_recv(b, rig, 11, 4096, 200) == 0);
	wr = (struct ibv_send_wr){ .wr_id = 1,
				   .sg_list = &sge,
				   .num_sge = 1,
				   .opcode = IBV_WR_SEND_WITH_IMM,
				   .imm_data = 0x12345678,
				   .send_flags = IBV_SEND_SOLICITED };
	CHECK(ibv_post_send(a, &wr, &bad) == 0);
	for (int i = 0; i < 2; i++) {
		wc = next_wc(rig->cq);
		CHECK(wc.status == IBV_WC_SUCCESS);
		if (wc.opcode != IBV_WC_RECV)
			continue;
		seen++;
		CHECK(wc.wr_id == 11 && wc.byte_len == 100 && wc.imm_data == 0x12345678);
		CHECK(wc.wc_flags & IBV_WC_WITH_IMM && wc.qp_num == b->qp_num);
	}
	CHECK(post_recv(b, rig, 12, 4096, 0) == 0);
	wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
	wr.wr.rdma.remote_addr = (uintptr_t)rig->buf + 5000;
	wr.wr.rdma.rkey = rig->mr->rkey;
	CHECK(ibv_post_send(a, &wr, &bad) == 0);
	for (int i = 0; i < 2; i++) {
		wc = next_wc(rig->cq);
		CHECK(wc.status == IBV_WC_SUCCESS);
		if (wc.opcode != IBV_WC_RECV_RDMA_WITH_IMM)
			continue;
		seen++;
		CHECK(wc.wr_id == 12 && wc.byte_len == 100);
	}
	CHECK(seen == 2 && !memcmp(rig->buf, rig->buf + 5000, 100));
}

static void bad_ones(struct rig *rig)
{
	struct ibv_qp *qp = make_qp(rig, IBV_QPT_RC, 0, NULL);
	struct ibv_sge sges[5] = {};
	struct ibv_send_wr *bad, list[20] = {};
	struct ibv_recv_wr *bad_recv, receives[20] = {};

	CHECK(post(qp, rig, IBV_WR_SEND, 0, 8, 0, 0) == EINVAL);
	CHECK(post_recv(qp, rig, 0, 0, 8) == EINVAL);
	NEED(to_init(qp) == 0);
	CHECK(post(qp, rig, IBV_WR_SEND, 0, 8, 0, 0) == EINVAL);
	for (int i = 0; i < 20; i++)
		receives[i] = (struct ibv_recv_wr){ .wr_id = i, .next = i < 19 ? &receives[i + 1] : NULL };
	CHECK(ibv_post_recv(qp, receives, &bad_recv) == ENOMEM && bad_recv == &receives[16]);
	CHECK(end(qp) == 0);

	qp = make_qp(rig, IBV_QPT_RC, 0, NULL);
	join(rig, qp, qp);
	receives[2].num_sge = 5;
	receives[2].sg_list = sges;
	CHECK(ibv_post_recv(qp, receives, &bad_recv) == EINVAL && bad_recv == &receives[2]);
	for (int i = 0; i < 4; i++)
		list[i] = (struct ibv_send_wr){ .wr_id = i,
						.next = &list[i + 1],
						.opcode = IBV_WR_RDMA_WRITE };
	list[2].num_sge = 5;
	list[2].sg_list = sges;
	CHECK(ibv_post_send(qp, list, &bad) == EINVAL && bad == &list[2]);
	CHECK(next_wc(rig->cq).wr_id == 0 && next_wc(rig->cq).wr_id == 1);
	list[2].num_sge = 1;
	sges[0].addr = (uintptr_t)rig->buf;
	sges[0].length = 65;
	list[2].send_flags = IBV_SEND_INLINE;
	CHECK(ibv_post_send(qp, &list[2], &bad) == EINVAL && bad == &list[2]);
	list[2].opcode = 99;
	CHECK(ibv_post_send(qp, &list[2], &bad) == EINVAL);
}

/* Requests that an RNIC accepts and completes with an error. */
static void late_errors(struct rig *rig)
{
	static const enum ibv_wr_opcode missing[] = { IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD,
						      IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_RDMA_WRITE };
	uint64_t *number = (uint64_t *)(rig->buf + 1024);
	struct ibv_qp *qp, *target;

	for (int i = 0; i < 7; i++) {
		qp = make_qp(rig, i < 3 ? IBV_QPT_UC : IBV_QPT_UD, 0, NULL);
		join(rig, qp, qp);
		CHECK(post(qp, rig, missing[i < 3 ? i : i - 3], 0, 8, 1024, rig->mr->rkey) == 0);
		CHECK(next_wc(rig->cq).status == IBV_WC_LOC_QP_OP_ERR);
		CHECK(end(qp) == 0);
	}
	*number = 5;
	qp = make_qp(rig, IBV_QPT_RC, 0, NULL);
	target = make_qp(rig, IBV_QPT_RC, 0, NULL);
	join(rig, qp, target);
	CHECK(post(qp, rig, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 8, 1025, rig->mr->rkey) == 0);
	CHECK(next_wc(rig->cq).status == IBV_WC_REM_INV_REQ_ERR && *number == 5);
	CHECK(end(qp) == 0 && end(target) == 0);

	/* The peer executes an atomic before the L_Key is checked. */
	qp = make_qp(rig, IBV_QPT_RC, 0, NULL);
	join(rig, qp, qp);
	rig->mr->lkey ^= 1;
	CHECK(post(qp, rig, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 8, 1024, rig->mr->rkey) == 0);
	CHECK(next_wc(rig->cq).status == IBV_WC_LOC_PROT_ERR && *number == 10);
	rig->mr->lkey ^= 1;
}

/* Inline data: the buffer can be reused at once, and needs no lkey. */
static void inlined(struct rig *rig)
{
	struct ibv_qp *qp = make_qp(rig, IBV_QPT_RC, 0, NULL);
	char text[64] = "carried in the request";
	struct ibv_sge sges[] = { { (uintptr_t)text, 11, 0 }, { (uintptr_t)text + 11, 53, 0 } };
	struct ibv_send_wr *bad, wr = {
		.sg_list = sges, .num_sge = 2, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_INLINE
	};

	join(rig, qp, qp);
	wr.wr.rdma.remote_addr = (uintptr_t)rig->buf;
	wr.wr.rdma.rkey = rig->mr->rkey;
	CHECK(ibv_post_send(qp, &wr, &bad) == 0);
	text[0] = 'X';
	CHECK(next_wc(rig->cq).status == IBV_WC_SUCCESS);
	CHECK(!strcmp((char *)rig->buf, "carried in the request"));
}

static void datagrams(struct rig *rig)
{
	struct ibv_qp *a = make_qp(rig, IBV_QPT_UD, 0, NULL), *b = make_qp(rig, IBV_QPT_UD, 0, NULL);
	struct ibv_ah *ah = new_ah(rig, rig->gid), *back;
	struct ibv_sge sge = { (uintptr_t)rig->buf, 100, rig->mr->lkey };
	struct ibv_send_wr *bad,
		wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND_WITH_IMM, .imm_data = 3 };
	struct ibv_wc wc, received = {};

	join(rig, a, b);
	memset(rig->buf, 9, 100);
	memset(rig->buf + 1000, 0, 200);
	CHECK(post_recv(b, rig, 1, 1000, 140) == 0);
	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = b->qp_num;
	wr.wr.ud.remote_qkey = QKEY;
	CHECK(ibv_post_send(a, &wr, &bad) == 0);
	for (int i = 0; i < 2; i++) {
		wc = next_wc(rig->cq);
		CHECK(wc.status == IBV_WC_SUCCESS);
		if (wc.opcode == IBV_WC_RECV)
			received = wc;
	}
	CHECK(received.byte_len == 140 && received.src_qp == a->qp_num && received.imm_data == 3);
	CHECK(received.wc_flags == (IBV_WC_GRH | IBV_WC_WITH_IMM) && received.pkey_index == 0);
	CHECK(!memcmp(rig->buf, rig->buf + 1040, 100));
	back = ibv_create_ah_from_wc(rig->pd, &received, (struct ibv_grh *)(rig->buf + 1000), PORT);
	CHECK(back && ibv_destroy_ah(back) == 0);
	/* With another Q_Key, nothing is received. */
	CHECK(post_recv(b, rig, 2, 1000, 140) == 0);
	wr.wr.ud.remote_qkey = QKEY + 1;
	CHECK(ibv_post_send(a, &wr, &bad) == 0);
	CHECK(next_wc(rig->cq).opcode == IBV_WC_SEND);
	usleep(20000);
	CHECK(ibv_poll_cq(rig->cq, 1, &wc) == 0);
	wr.wr.ud.ah = NULL;
	CHECK(ibv_post_send(a, &wr, &bad) == EINVAL);
}

/* All posted requests are sent although the program does not poll. */
static void unattended(struct rig *rig)
{
	struct ibv_qp *a = make_qp(rig, IBV_QPT_RC, 0, NULL), *b = make_qp(rig, IBV_QPT_RC, 0, NULL);
	volatile uint8_t *to = rig->buf + 4096;
	int wait = WAIT_SECONDS * 1000;

	join(rig, a, b);
	for (int round = 1; round <= 20; round++) {
		for (int i = 0; i < 16; i++) {
			rig->buf[i] = round;
			CHECK(post(a, rig, IBV_WR_RDMA_WRITE, i, 1, 4096 + i, rig->mr->rkey) == 0);
		}
		for (int i = 0; i < 16; i++)
			while (to[i] != round && wait-- > 0)
				usleep(1000);
		CHECK(wait > 0);
		for (int i = 0; i < 16; i++)
			CHECK(next_wc(rig->cq).status == IBV_WC_SUCCESS);
	}
}

const check_part posting_parts[] = {
	operations, bad_ones, late_errors, inlined, datagrams, unattended, NULL
};
