/* One operation of each kind, for rules about some of them. */
#include "scenes.h"

enum {
	REMOTE = SIZE / 2,
	LENGTH = 64
};

static const struct operation {
	const char *name;
	enum ibv_wr_opcode opcode;
	int length;
	bool takes_receive;
} OPERATIONS[] = {
	{ "send", IBV_WR_SEND, LENGTH, true },
	{ "send-imm", IBV_WR_SEND_WITH_IMM, LENGTH, true },
	{ "send-inv", IBV_WR_SEND_WITH_INV, LENGTH, true },
	{ "write", IBV_WR_RDMA_WRITE, LENGTH, false },
	{ "write-imm", IBV_WR_RDMA_WRITE_WITH_IMM, LENGTH, true },
	{ "read", IBV_WR_RDMA_READ, LENGTH, false },
	{ "cmp-swap", IBV_WR_ATOMIC_CMP_AND_SWP, 8, false },
	{ "fetch-add", IBV_WR_ATOMIC_FETCH_AND_ADD, 8, false },
	{ "bind-mw", IBV_WR_BIND_MW, 0, false },
	{ "local-inv", IBV_WR_LOCAL_INV, 0, false },
	{ "flush", IBV_WR_FLUSH, LENGTH, false },
	{ "atomic-write", IBV_WR_ATOMIC_WRITE, 8, false },
};

/* Two connected queue pairs, and a window of the second one's memory. */
struct pair {
	struct rig *rig;
	struct ibv_qp *a, *b;
	struct ibv_mr *mr;
	struct ibv_mw *mw;
};

/* Binds the window to memory of the queue pair, and returns its key. */
static void bind(struct pair *of, struct ibv_qp *qp)
{
	struct ibv_send_wr *bad, wr = { .wr_id = IBV_WR_BIND_MW, .opcode = IBV_WR_BIND_MW };

	wr.bind_mw.mw = of->mw;
	wr.bind_mw.rkey = ibv_inc_rkey(of->mw->rkey);
	wr.bind_mw.bind_info = (struct ibv_mw_bind_info){ of->rig->mr, (uintptr_t)of->rig->buf, LENGTH,
							  IBV_ACCESS_REMOTE_READ };
	NEED(ibv_post_send(qp, &wr, &bad) == 0);
}

static void invalidate(struct pair *of, enum ibv_wr_opcode opcode)
{
	struct ibv_send_wr *bad, wr = { .wr_id = opcode, .opcode = opcode, .invalidate_rkey = of->mw->rkey };

	NEED(ibv_post_send(of->a, &wr, &bad) == 0);
}

/* Flush and atomic write have no form for ibv_post_send. */
static void build(struct pair *of, const struct operation *operation)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(of->a);
	uint64_t at = (uintptr_t)of->rig->buf + REMOTE;
	static const char value[8];

	ibv_wr_start(ex);
	ex->wr_id = operation->opcode;
	ex->wr_flags = IBV_SEND_SIGNALED;
	if (operation->opcode == IBV_WR_FLUSH)
		ibv_wr_flush(ex, of->mr->rkey, at, operation->length, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE);
	else
		ibv_wr_atomic_write(ex, of->mr->rkey, at, value);
	NEED(ibv_wr_complete(ex) == 0);
}

/* Prepares what the operation needs: a window of the side whose window it invalidates. */
static void prepare(struct pair *of, const struct operation *operation)
{
	bool is_local = operation->opcode == IBV_WR_LOCAL_INV;

	if (!is_local && operation->opcode != IBV_WR_SEND_WITH_INV)
		return;
	bind(of, is_local ? of->a : of->b);
	CHECK(next_wc(of->rig->cq).status == IBV_WC_SUCCESS);
}

static void start(struct pair *of, const struct operation *operation)
{
	switch (operation->opcode) {
	case IBV_WR_BIND_MW:
		bind(of, of->a);
		break;
	case IBV_WR_LOCAL_INV:
	case IBV_WR_SEND_WITH_INV:
		invalidate(of, operation->opcode);
		break;
	case IBV_WR_FLUSH:
	case IBV_WR_ATOMIC_WRITE:
		build(of, operation);
		break;
	default:
		NEED(post(of->a, of->rig, operation->opcode, 0, operation->length, REMOTE, of->mr->rkey) ==
		     0);
	}
}

/* operation NAME STATUS RECEIVED: it completes with STATUS, and the receive that it takes with RECEIVED. */
void operation(struct rig *rig, char **argv)
{
	const struct operation *operation = OPERATIONS;
	struct ibv_qp_attr attr = { .qp_access_flags = (ALL_ACCESS & ~IBV_ACCESS_MW_BIND) |
						       IBV_ACCESS_FLUSH_GLOBAL };
	struct pair of = { .rig = rig };

	while (strcmp(operation->name, argv[0]))
		NEED(++operation < OPERATIONS + sizeof(OPERATIONS) / sizeof(*OPERATIONS));
	of.a = make_qp(rig, IBV_QPT_RC, IBV_QP_EX_WITH_FLUSH | IBV_QP_EX_WITH_ATOMIC_WRITE, NULL);
	of.b = make_qp(rig, IBV_QPT_RC, 0, NULL);
	join(rig, of.a, of.b);
	NEED(ibv_modify_qp(of.b, &attr, IBV_QP_ACCESS_FLAGS) == 0);
	NEED(of.mr = KEEP(ibv_reg_mr(rig->pd, rig->buf, SIZE, ALL_ACCESS | IBV_ACCESS_FLUSH_GLOBAL)));
	NEED(of.mw = KEEP(ibv_alloc_mw(rig->pd, IBV_MW_TYPE_2)));
	prepare(&of, operation);
	if (operation->takes_receive)
		NEED(post_recv(of.b, rig, 100, REMOTE, LENGTH) == 0);
	start(&of, operation);
	for (int left = 1 + operation->takes_receive; left > 0; left--) {
		struct ibv_wc wc = next_wc(rig->cq);

		CHECK(wc.wr_id == (wc.qp_num == of.a->qp_num ? operation->opcode : 100));
		CHECK(wc.status == (enum ibv_wc_status)atoi(argv[wc.qp_num == of.a->qp_num ? 1 : 2]));
	}
}
