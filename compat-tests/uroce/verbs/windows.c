/* Memory windows: the keys that binds assign, and how binds across protection domains complete. */
#include "check.h"

static const struct ibv_mw_bind_info NONE;

static struct ibv_mw_bind_info part_of(struct rig *rig, struct ibv_mr *mr)
{
	return (struct ibv_mw_bind_info){ mr, (uintptr_t)rig->buf + 256, 16, IBV_ACCESS_REMOTE_WRITE };
}

/* Posts a bind of a type 2 window by ibv_post_send, and returns the status of its completion. */
static enum ibv_wc_status bind(struct rig *rig, struct ibv_qp *qp, struct ibv_mw *mw, uint32_t rkey)
{
	struct ibv_send_wr *bad, wr = { .wr_id = 2, .opcode = IBV_WR_BIND_MW };
	struct ibv_wc wc;

	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = rkey;
	wr.bind_mw.bind_info = part_of(rig, rig->mr);
	NEED(ibv_post_send(qp, &wr, &bad) == 0);
	wc = next_wc(rig->cq);
	CHECK(wc.wr_id == 2);
	return wc.status;
}

static enum ibv_wc_status invalidate(struct rig *rig, struct ibv_qp *qp, uint32_t rkey)
{
	struct ibv_send_wr *bad, wr = { .opcode = IBV_WR_LOCAL_INV, .invalidate_rkey = rkey };

	NEED(ibv_post_send(qp, &wr, &bad) == 0);
	return next_wc(rig->cq).status;
}

static enum ibv_wc_status write_through(struct rig *rig, struct ibv_qp *qp, uint32_t rkey)
{
	NEED(post(qp, rig, IBV_WR_RDMA_WRITE, 0, 16, 256, rkey) == 0);
	return next_wc(rig->cq).status;
}

/*
 * The program chooses the low 8 bits of a type 2 window's key; the other bits that it passes are ignored. The
 * key may be the current one, which is in mw->rkey.
 */
static void chosen_keys(struct rig *rig)
{
	struct ibv_qp *qp = make_qp(rig, IBV_QPT_RC, 0, NULL);
	struct ibv_mw *mw = KEEP(ibv_alloc_mw(rig->pd, IBV_MW_TYPE_2));
	uint32_t upper, key;

	NEED(mw);
	upper = mw->rkey & ~0xffu;
	join(rig, qp, qp);
	CHECK(bind(rig, qp, mw, 0x12345677) == IBV_WC_SUCCESS);
	key = upper | 0x77;
	CHECK(mw->rkey == key);
	CHECK(write_through(rig, qp, key) == IBV_WC_SUCCESS);
	CHECK(invalidate(rig, qp, key) == IBV_WC_SUCCESS);
	CHECK(bind(rig, qp, mw, key) == IBV_WC_SUCCESS && mw->rkey == key);
	CHECK(write_through(rig, qp, key) == IBV_WC_SUCCESS);
	CHECK(invalidate(rig, qp, key) == IBV_WC_SUCCESS);
	CHECK(bind(rig, qp, mw, ibv_inc_rkey(mw->rkey)) == IBV_WC_SUCCESS);
	CHECK(mw->rkey == (upper | 0x78));
}

/* The same with ibv_wr_bind_mw: the key changes when the request is posted, and not if it is aborted. */
static void built_binds(struct rig *rig)
{
	struct ibv_qp *qp = make_qp(rig, IBV_QPT_RC, IBV_QP_EX_WITH_BIND_MW, NULL);
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);
	struct ibv_mw *mw = KEEP(ibv_alloc_mw(rig->pd, IBV_MW_TYPE_2));
	struct ibv_mw_bind_info info = part_of(rig, rig->mr);
	uint32_t before;

	NEED(mw);
	before = mw->rkey;
	join(rig, qp, qp);
	for (int aborted = 1; aborted >= 0; aborted--) {
		ibv_wr_start(ex);
		ex->wr_flags = IBV_SEND_SIGNALED;
		ibv_wr_bind_mw(ex, mw, before + 5, &info);
		CHECK(mw->rkey == before);
		if (aborted)
			ibv_wr_abort(ex);
		else
			CHECK(ibv_wr_complete(ex) == 0);
	}
	CHECK(next_wc(rig->cq).status == IBV_WC_SUCCESS);
	CHECK(mw->rkey == ((before & ~0xffu) | ((before + 5) & 0xff)));
	CHECK(write_through(rig, qp, mw->rkey) == IBV_WC_SUCCESS);
}

/*
 * With a QP or region of another protection domain, or a range beyond the region, the bind is posted and
 * completes with an error. (If region and window differ, ibv_bind_mw in the header rejects it first.)
 */
static void across_domains(struct rig *rig)
{
	struct ibv_pd *other = KEEP(ibv_alloc_pd(rig->context));
	struct ibv_mr *mr = KEEP(ibv_reg_mr(other, rig->buf, SIZE, ALL_ACCESS));
	struct ibv_mw_bind wr = { .wr_id = 9, .send_flags = IBV_SEND_SIGNALED };

	NEED(other && mr);
	for (int which = 0; which < 3; which++) {
		struct ibv_qp *qp = make_qp(rig, IBV_QPT_RC, 0, NULL);
		struct ibv_mw *mw = ibv_alloc_mw(which == 0 ? other : rig->pd, IBV_MW_TYPE_1);
		struct ibv_wc wc;

		NEED(mw);
		join(rig, qp, qp);
		wr.bind_info = part_of(rig, which == 2 ? rig->mr : mr);
		if (which == 1)
			CHECK(ibv_bind_mw(qp, mw, &wr) == EPERM);
		if (which == 2)
			wr.bind_info.addr = (uintptr_t)rig->buf + SIZE;
		CHECK(rig->context->ops.bind_mw(qp, mw, &wr) == 0);
		wc = next_wc(rig->cq);
		CHECK(wc.status == IBV_WC_MW_BIND_ERR && wc.wr_id == 9);
		CHECK(end(qp) == 0);
		CHECK(ibv_dealloc_mw(mw) == 0);
	}
}

/* A bind of length 0 needs no region, and undoes the previous bind. */
static void unbound(struct rig *rig)
{
	struct ibv_qp *qp = make_qp(rig, IBV_QPT_RC, 0, NULL);
	struct ibv_mw *mw = KEEP(ibv_alloc_mw(rig->pd, IBV_MW_TYPE_1));
	struct ibv_mw_bind wr = { .send_flags = IBV_SEND_SIGNALED, .bind_info = part_of(rig, rig->mr) };

	NEED(mw);
	join(rig, qp, qp);
	CHECK(ibv_bind_mw(qp, mw, &wr) == 0 && next_wc(rig->cq).status == IBV_WC_SUCCESS);
	CHECK(ibv_dereg_mr(rig->mr) == EBUSY);
	wr.bind_info = NONE;
	CHECK(ibv_bind_mw(qp, mw, &wr) == 0 && next_wc(rig->cq).status == IBV_WC_SUCCESS);
	wr.bind_info.length = 1;
	CHECK(ibv_bind_mw(qp, mw, &wr) == EINVAL);
}

/* Windows and regions are freed by their handles, whatever the program has written to their keys. */
static void overwritten_keys(struct rig *rig)
{
	struct ibv_qp *qp = make_qp(rig, IBV_QPT_RC, 0, NULL);
	struct ibv_mw *mw = ibv_alloc_mw(rig->pd, IBV_MW_TYPE_2);
	struct ibv_mr *mr = ibv_reg_mr(rig->pd, rig->buf, SIZE, ALL_ACCESS);
	uint32_t key;

	NEED(mw && mr);
	join(rig, qp, qp);
	mw->rkey = rig->mr->rkey;
	CHECK(ibv_dealloc_mw(mw) == 0);
	key = mr->rkey;
	mr->lkey = mr->rkey = rig->mr->rkey;
	CHECK(ibv_dereg_mr(mr) == 0);
	CHECK(write_through(rig, qp, rig->mr->rkey) == IBV_WC_SUCCESS);
	/* The queue pair is its own peer, so its request may be flushed. */
	CHECK(write_through(rig, qp, key) != IBV_WC_SUCCESS);
}

const check_part windows_parts[] = {
	chosen_keys, built_binds, across_domains, unbound, overwritten_keys, NULL
};
