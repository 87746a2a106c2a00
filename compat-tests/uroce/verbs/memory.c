/* Memory regions and windows: what is rejected, and what a peer can access through them. */
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"

static void regions(struct rig *rig)
{
	size_t page = sysconf(_SC_PAGESIZE);
	void *gone = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void *read_only = mmap(NULL, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr;

	munmap((char *)gone + page, page);
	CHECK(!ibv_reg_mr(rig->pd, gone, 2 * page, 0) && errno == EFAULT);
	CHECK(!ibv_reg_mr(rig->pd, read_only, page, IBV_ACCESS_LOCAL_WRITE) && errno == EFAULT);
	NEED(mr = ibv_reg_mr(rig->pd, read_only, page, IBV_ACCESS_REMOTE_READ));
	CHECK(ibv_dereg_mr(mr) == 0);
	CHECK(!ibv_reg_mr(rig->pd, rig->buf, 64, IBV_ACCESS_REMOTE_WRITE) && errno == EINVAL);
	CHECK(!ibv_reg_mr(rig->pd, rig->buf, 64, IBV_ACCESS_REMOTE_ATOMIC) && errno == EINVAL);
	CHECK(!ibv_reg_mr(rig->pd, (void *)-4096L, 8192, 0));
	CHECK(!ibv_reg_mr_iova(rig->pd, rig->buf, 64, 1, 0) && errno == EINVAL);
	NEED(mr = ibv_reg_mr(rig->pd, rig->buf, 64, IBV_ACCESS_RELAXED_ORDERING | IBV_ACCESS_HUGETLB));
	CHECK(ibv_dereg_mr(mr) == 0);
	munmap(gone, page);
	munmap(read_only, page);
}

/* Status of an operation on a new connection. */
static enum ibv_wc_status status_of(struct rig *rig, enum ibv_wr_opcode op, int len, uint64_t to,
				    uint32_t rkey)
{
	return request(rig, op, part(rig, 0, len), to, rkey);
}

static void rights(struct rig *rig)
{
	uint8_t *at = rig->buf + 4096;
	struct ibv_pd *other_pd = KEEP(ibv_alloc_pd(rig->context));
	struct ibv_mr *part = KEEP(
		ibv_reg_mr(rig->pd, at, 64, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE));
	struct ibv_mr *other = KEEP(ibv_reg_mr(other_pd, at, 64, ALL_ACCESS));
	struct ibv_mr *based = KEEP(ibv_reg_mr(rig->pd, at, 64, ALL_ACCESS | IBV_ACCESS_ZERO_BASED));
	struct ibv_mr *moved = KEEP(ibv_reg_mr_iova(rig->pd, at, 64, 0x10000, ALL_ACCESS));
	uint64_t va = (uintptr_t)at;

	NEED(part && other && based && moved);
	memset(rig->buf, 7, 64);
	memset(at, 0, 128);
	CHECK(status_of(rig, IBV_WR_RDMA_WRITE, 64, va, part->rkey) == IBV_WC_SUCCESS);
	CHECK(at[0] == 7 && at[63] == 7 && at[64] == 0);
	memset(at, 0, 128);
	CHECK(status_of(rig, IBV_WR_RDMA_WRITE, 64, va + 1, part->rkey) == IBV_WC_REM_ACCESS_ERR);
	CHECK(status_of(rig, IBV_WR_RDMA_WRITE, 65, va, part->rkey) == IBV_WC_REM_ACCESS_ERR);
	CHECK(status_of(rig, IBV_WR_RDMA_WRITE, 1, va - 1, part->rkey) == IBV_WC_REM_ACCESS_ERR);
	CHECK(status_of(rig, IBV_WR_RDMA_READ, 1, va, part->rkey) == IBV_WC_REM_ACCESS_ERR);
	CHECK(status_of(rig, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, va, part->rkey) == IBV_WC_REM_ACCESS_ERR);
	CHECK(status_of(rig, IBV_WR_RDMA_WRITE, 1, va, part->rkey ^ 1) == IBV_WC_REM_ACCESS_ERR);
	CHECK(status_of(rig, IBV_WR_RDMA_WRITE, 1, va, part->rkey ^ 0x10000) == IBV_WC_REM_ACCESS_ERR);
	CHECK(status_of(rig, IBV_WR_RDMA_WRITE, 1, va, other->rkey) == IBV_WC_REM_ACCESS_ERR);
	for (int i = -1; i < 65; i++)
		CHECK(at[i] == 0 || i < 0);
	CHECK(status_of(rig, IBV_WR_RDMA_WRITE, 1, 5, based->rkey) == IBV_WC_SUCCESS && at[5] == 7);
	CHECK(status_of(rig, IBV_WR_RDMA_WRITE, 1, 0x10006, moved->rkey) == IBV_WC_SUCCESS && at[6] == 7);
	CHECK(status_of(rig, IBV_WR_RDMA_WRITE, 1, va, moved->rkey) == IBV_WC_REM_ACCESS_ERR);

	CHECK(ibv_rereg_mr(part, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_REMOTE_READ) == 0);
	CHECK(status_of(rig, IBV_WR_RDMA_READ, 1, va, part->rkey) == IBV_WC_SUCCESS);
	CHECK(status_of(rig, IBV_WR_RDMA_WRITE, 1, va, part->rkey) == IBV_WC_REM_ACCESS_ERR);
	CHECK(ibv_rereg_mr(part, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, at + 4, 8, 0) == 0);
	CHECK(status_of(rig, IBV_WR_RDMA_READ, 8, va + 4, part->rkey) == IBV_WC_SUCCESS);
	CHECK(status_of(rig, IBV_WR_RDMA_READ, 1, va, part->rkey) == IBV_WC_REM_ACCESS_ERR);
	CHECK(ibv_rereg_mr(part, IBV_REREG_MR_CHANGE_PD, other_pd, NULL, 0, 0) == 0);
	CHECK(status_of(rig, IBV_WR_RDMA_READ, 1, va + 4, part->rkey) == IBV_WC_REM_ACCESS_ERR);
}

/* Work requests with invalid local keys, ranges or access rights. */
static void local_errors(struct rig *rig)
{
	struct ibv_mr *read_only = KEEP(ibv_reg_mr(rig->pd, rig->buf, SIZE, 0)), *good = rig->mr;

	CHECK(status_of(rig, IBV_WR_RDMA_WRITE, SIZE + 1, (uintptr_t)rig->buf, good->rkey) ==
	      IBV_WC_LOC_PROT_ERR);
	rig->mr = read_only;
	CHECK(status_of(rig, IBV_WR_RDMA_WRITE, 8, (uintptr_t)rig->buf + 64, good->rkey) == IBV_WC_SUCCESS);
	CHECK(status_of(rig, IBV_WR_RDMA_READ, 8, (uintptr_t)rig->buf + 64, good->rkey) != IBV_WC_SUCCESS);
	rig->mr = good;
}

static void windows(struct rig *rig)
{
	struct ibv_qp *qp = make_qp(rig, IBV_QPT_RC, 0, NULL);
	struct ibv_mw *one = ibv_alloc_mw(rig->pd, IBV_MW_TYPE_1),
		      *two = KEEP(ibv_alloc_mw(rig->pd, IBV_MW_TYPE_2));
	struct ibv_mw_bind bind = { .wr_id = 1,
				    .send_flags = IBV_SEND_SIGNALED,
				    .bind_info = { rig->mr, (uintptr_t)rig->buf + 256, 16,
						   IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ } };
	struct ibv_send_wr *bad, wr = { .wr_id = 2, .opcode = IBV_WR_BIND_MW };
	uint32_t before;
	struct ibv_wc wc;

	NEED(one && two);
	join(rig, qp, qp);
	before = one->rkey;
	CHECK(ibv_bind_mw(qp, two, &bind) == EINVAL);
	CHECK(ibv_bind_mw(qp, one, &bind) == 0);
	CHECK(one->rkey != before && one->rkey >> 8 == before >> 8);
	wc = next_wc(rig->cq);
	CHECK(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_BIND_MW && wc.wr_id == 1);
	CHECK(ibv_dereg_mr(rig->mr) == EBUSY);
	CHECK(post(qp, rig, IBV_WR_RDMA_WRITE, 0, 16, 256, one->rkey) == 0);
	CHECK(next_wc(rig->cq).status == IBV_WC_SUCCESS);
	CHECK(ibv_dealloc_mw(one) == 0);

	wr.bind_mw.mw = two;
	wr.bind_mw.rkey = ibv_inc_rkey(two->rkey);
	wr.bind_mw.bind_info = bind.bind_info;
	CHECK(ibv_post_send(qp, &wr, &bad) == 0);
	CHECK(next_wc(rig->cq).status == IBV_WC_SUCCESS);
	CHECK(post(qp, rig, IBV_WR_RDMA_READ, 0, 16, 256, wr.bind_mw.rkey) == 0);
	CHECK(next_wc(rig->cq).status == IBV_WC_SUCCESS);
	/* Invalidated by the peer, which is the same QP. */
	CHECK(post_recv(qp, rig, 5, 0, 64) == 0);
	before = wr.bind_mw.rkey;
	wr = (struct ibv_send_wr){ .wr_id = 3, .opcode = IBV_WR_SEND_WITH_INV, .invalidate_rkey = before };
	CHECK(ibv_post_send(qp, &wr, &bad) == 0);
	for (int i = 0; i < 2; i++) {
		wc = next_wc(rig->cq);
		CHECK(wc.status == IBV_WC_SUCCESS);
		if (wc.opcode == IBV_WC_RECV)
			CHECK(wc.wc_flags & IBV_WC_WITH_INV && wc.invalidated_rkey == before);
	}
	/* Bound again, then invalidated locally. */
	wr = (struct ibv_send_wr){ .wr_id = 2, .opcode = IBV_WR_BIND_MW };
	wr.bind_mw.mw = two;
	wr.bind_mw.rkey = ibv_inc_rkey(before);
	wr.bind_mw.bind_info = bind.bind_info;
	CHECK(ibv_post_send(qp, &wr, &bad) == 0);
	CHECK(next_wc(rig->cq).status == IBV_WC_SUCCESS);
	before = wr.bind_mw.rkey;
	wr = (struct ibv_send_wr){ .wr_id = 3, .opcode = IBV_WR_LOCAL_INV, .invalidate_rkey = before };
	CHECK(ibv_post_send(qp, &wr, &bad) == 0);
	wc = next_wc(rig->cq);
	CHECK(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_LOCAL_INV);
	CHECK(post(qp, rig, IBV_WR_RDMA_READ, 0, 16, 256, before) == 0);
	/*
	 * The QP is its own peer: as responder it enters the error state, which flushes the request before
	 * the NAK arrives.
	 */
	CHECK(next_wc(rig->cq).status == IBV_WC_WR_FLUSH_ERR);
	CHECK(next_event(rig) == IBV_EVENT_QP_ACCESS_ERR);
}

const check_part memory_parts[] = { regions, rights, local_errors, windows, NULL };
