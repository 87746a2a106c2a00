/* A READ has the bytes from before the requests behind it, without IBV_SEND_FENCE: RNICs answer a READ before
 * they execute the next request, and programs rely on that. */
#include "check.h"

enum {
	TARGET = 4096,
	LEN = 1500,
	/* The READs of a list, and where they put the bytes. */
	READS = 3,
	RESULTS = 8192
};

/* A list of requests of `rig`, with memory for the results. */
struct order {
	struct ibv_mr *mr;
	uint8_t *buf;
	struct ibv_send_wr list[8];
	struct ibv_sge sges[8];
	int len;
};

static struct ibv_send_wr *add(struct order *order, enum ibv_wr_opcode op, int at, int len)
{
	struct ibv_sge *sge = &order->sges[order->len];
	struct ibv_send_wr *wr = &order->list[order->len++];

	*sge = (struct ibv_sge){ (uintptr_t)order->buf + at, len, order->mr->lkey };
	*wr = (struct ibv_send_wr){ .wr_id = op, .sg_list = sge, .num_sge = 1, .opcode = op };
	wr->wr.rdma.remote_addr = (uintptr_t)order->buf + TARGET;
	wr->wr.rdma.rkey = order->mr->rkey;
	if (order->len > 1)
		wr[-1].next = wr;
	return wr;
}

static void add_atomic(struct order *order, int to)
{
	struct ibv_send_wr *wr = add(order, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 8);

	wr->wr.atomic.remote_addr = (uintptr_t)order->buf + to;
	wr->wr.atomic.rkey = order->mr->rkey;
	wr->wr.atomic.compare_add = 1;
}

/* Reads, and changes what was read in three ways. The first request makes the others packets. */
static void make_list(struct order *order)
{
	order->len = 0;
	add_atomic(order, TARGET + 2048);
	for (int i = 0; i < READS; i++) {
		add(order, IBV_WR_RDMA_READ, RESULTS + i * 2048, LEN);
		if (i == 0)
			add(order, IBV_WR_RDMA_WRITE, 1024, LEN);
		else if (i == 1)
			add(order, IBV_WR_SEND, 2048 + 512, LEN);
		else
			add_atomic(order, TARGET);
	}
}

static bool holds(const struct order *order, int result, int value)
{
	for (int i = 0; i < LEN; i++)
		if (order->buf[RESULTS + result * 2048 + i] != value)
			return false;
	return true;
}

static void order_of_reads(struct rig *rig)
{
	struct order order;
	struct ibv_qp *a = make_qp(rig, IBV_QPT_RC, 0, NULL), *b = make_qp(rig, IBV_QPT_RC, 0, NULL);
	struct ibv_send_wr *bad;
	struct ibv_wc wc;
	int wrong = 0;

	join(rig, a, b);
	NEED(order.buf = KEEP(aligned_alloc(4096, 16384)));
	NEED(order.mr = KEEP(ibv_reg_mr(rig->pd, order.buf, 16384, ALL_ACCESS)));
	for (int round = 0; round < 500; round++) {
		struct ibv_sge sge = { (uintptr_t)order.buf + TARGET, LEN, order.mr->lkey };
		struct ibv_recv_wr *bad_recv, recv = { .sg_list = &sge, .num_sge = 1 };

		memset(order.buf, 0, 16384);
		memset(order.buf + TARGET, 1, LEN);
		memset(order.buf + 1024, 2, LEN);
		memset(order.buf + 2048 + 512, 3, LEN);
		NEED(ibv_post_recv(b, &recv, &bad_recv) == 0);
		make_list(&order);
		NEED(ibv_post_send(a, order.list, &bad) == 0);
		for (int i = 0; i < order.len + 1; i++) {
			wc = next_wc(rig->cq);
			NEED(wc.status == IBV_WC_SUCCESS);
		}
		for (int i = 0; i < READS; i++)
			wrong += !holds(&order, i, i + 1);
	}
	if (wrong)
		printf("%d of %d READs have bytes from after them\n", wrong, 500 * READS);
	CHECK(wrong == 0);
}

const check_part order_parts[] = { order_of_reads, NULL };
