/*
 * On-demand paging: regions of memory that is not there yet, of the whole address space, and advice. Each
 * operation of each transport that the device reports is made from and to such regions.
 */
#define _GNU_SOURCE
#include <sys/mman.h>

#include "check.h"

#define ODP (ALL_ACCESS | IBV_ACCESS_ON_DEMAND)

static uint8_t *map(size_t len, int protection)
{
	uint8_t *at = mmap(NULL, len, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	NEED(at != MAP_FAILED);
	return at;
}

static bool is_present(const uint8_t *at)
{
	unsigned char present = 0;

	NEED(mincore((void *)((uintptr_t)at & -4096), 1, &present) == 0);
	return present & 1;
}

static void capabilities(struct rig *rig)
{
	enum {
		DATAGRAM = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV,
		RELIABLE = DATAGRAM | IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC
	};
	struct ibv_device_attr_ex attr = {};

	NEED(ibv_query_device_ex(rig->context, NULL, &attr) == 0);
	CHECK(attr.odp_caps.general_caps == (IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT));
	CHECK((attr.odp_caps.per_transport_caps.rc_odp_caps & RELIABLE) == RELIABLE);
	CHECK(attr.odp_caps.per_transport_caps.uc_odp_caps == (DATAGRAM | IBV_ODP_SUPPORT_WRITE));
	CHECK(attr.odp_caps.per_transport_caps.ud_odp_caps == DATAGRAM);
	CHECK((attr.xrc_odp_caps & RELIABLE) == RELIABLE);
}

/* Sends `len` bytes between two regions by `op`, and checks what has arrived. */
static void transfer(struct rig *rig, enum ibv_wr_opcode op, struct ibv_mr *mr, uint8_t *from, uint8_t *to,
		     uint32_t len)
{
	struct ibv_qp *a = make_qp(rig, IBV_QPT_RC, 0, NULL), *b = make_qp(rig, IBV_QPT_RC, 0, NULL);
	bool reads = op == IBV_WR_RDMA_READ;
	struct ibv_sge local = { (uintptr_t)(reads ? to : from), len, mr->lkey };
	struct ibv_sge room = { (uintptr_t)to, len, mr->lkey };

	join(rig, a, b);
	if (op == IBV_WR_SEND)
		NEED(recv_one(b, room) == 0);
	NEED(send_to(a, local, op, (uintptr_t)(reads ? from : to), mr->rkey) == 0);
	for (int wanted = op == IBV_WR_SEND ? 2 : 1; wanted > 0; wanted--)
		CHECK(next_wc(rig->cq).status == IBV_WC_SUCCESS);
	CHECK(!memcmp(from, to, len));
}

static enum ibv_wc_status write_to(struct rig *rig, struct ibv_mr *mr, uint8_t *to, uint32_t len)
{
	return request(rig, IBV_WR_RDMA_WRITE, part(rig, 0, len), (uintptr_t)to, mr->rkey);
}

/* A region of addresses where no memory is at registration, then some is, and then other memory. They stay
 * reserved, as the library maps memory of its own, too. */
static void explicit(struct rig *rig)
{
	static const enum ibv_wr_opcode ops[] = { IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ };
	size_t half = 1 << 20, len = 2 * half;
	uint8_t *at = map(len, PROT_NONE);
	struct ibv_mr *mr;

	CHECK(!ibv_reg_mr(rig->pd, at, len, ALL_ACCESS) && errno == EFAULT);
	NEED(mr = ibv_reg_mr(rig->pd, at, len, ODP));
	CHECK(write_to(rig, mr, at, 100) == IBV_WC_REM_ACCESS_ERR);
	for (int turn = 0; turn < 2; turn++)
		for (size_t i = 0; i < sizeof(ops) / sizeof(*ops); i++) {
			NEED(mmap(at, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
				  -1, 0) == at);
			CHECK(!is_present(at + half));
			memset(at, 'a' + (int)i, half);
			transfer(rig, ops[i], mr, at, at + half, half);
			CHECK(is_present(at + half));
		}
	CHECK(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, ALL_ACCESS) != 0);
	CHECK(ibv_dereg_mr(mr) == 0);
	NEED(munmap(at, len) == 0);
}

/* One region for the whole address space. */
static void implicit(struct rig *rig)
{
	struct ibv_mr *mr = ibv_reg_mr(rig->pd, NULL, SIZE_MAX, ODP);
	size_t len = 256 << 10;
	uint8_t *from = map(len, PROT_READ | PROT_WRITE), *to = map(len, PROT_READ | PROT_WRITE);

	CHECK(!ibv_reg_mr(rig->pd, NULL, SIZE_MAX, ALL_ACCESS) && errno == EFAULT);
	NEED(mr);
	memset(from, 5, len);
	transfer(rig, IBV_WR_SEND, mr, from, to, len);
	memset(from, 6, len);
	transfer(rig, IBV_WR_RDMA_WRITE, mr, from, to, len);
	memset(from, 7, len);
	transfer(rig, IBV_WR_RDMA_READ, mr, from, to, len);
	NEED(mprotect(to, len, PROT_READ) == 0);
	CHECK(write_to(rig, mr, to, 100) == IBV_WC_REM_ACCESS_ERR);
	CHECK(write_to(rig, mr, (uint8_t *)8, 100) == IBV_WC_REM_ACCESS_ERR);
	CHECK(write_to(rig, mr, (uint8_t *)-64L, 100) == IBV_WC_REM_ACCESS_ERR);
	CHECK(ibv_dereg_mr(mr) == 0);
	munmap(from, len);
	munmap(to, len);
}

static void advice(struct rig *rig)
{
	const enum ib_uverbs_advise_mr_advice FETCH = IBV_ADVISE_MR_ADVICE_PREFETCH;
	const enum ib_uverbs_advise_mr_advice WRITE = IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
	const enum ib_uverbs_advise_mr_advice NO_FAULT = IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT;
	const uint32_t FLUSH = IBV_ADVISE_MR_FLAG_FLUSH;
	size_t len = 64 << 10;
	uint8_t *at = map(len, PROT_READ | PROT_WRITE);
	struct ibv_pd *other = ibv_alloc_pd(rig->context);
	struct ibv_mr *mr = ibv_reg_mr(rig->pd, at, len, ODP);
	struct ibv_mr *reading = ibv_reg_mr(rig->pd, at, len, IBV_ACCESS_ON_DEMAND);
	struct ibv_sge sge;

	NEED(other && mr && reading);
	sge = (struct ibv_sge){ (uintptr_t)at, 100, mr->lkey };
	CHECK(ibv_advise_mr(rig->pd, NO_FAULT, FLUSH, &sge, 1) == 0 && !is_present(at));
	CHECK(ibv_advise_mr(rig->pd, WRITE, FLUSH, &sge, 1) == 0 && is_present(at));
	CHECK(!is_present(at + len / 2));
	sge.addr += len / 2;
	CHECK(ibv_advise_mr(rig->pd, WRITE, 0, &sge, 1) == 0 && is_present(at + len / 2));
	CHECK(ibv_advise_mr(rig->pd, FETCH, 0, &sge, 0) == EINVAL);
	CHECK(ibv_advise_mr(rig->pd, FETCH, 2, &sge, 1) == EINVAL);
	CHECK(ibv_advise_mr(rig->pd, (enum ib_uverbs_advise_mr_advice)77, 0, &sge, 1) == EOPNOTSUPP);
	CHECK(ibv_advise_mr(other, FETCH, 0, &sge, 1) == ENOENT);
	sge.length = len;
	CHECK(ibv_advise_mr(rig->pd, FETCH, 0, &sge, 1) == EINVAL);
	sge = (struct ibv_sge){ (uintptr_t)at, 100, mr->lkey ^ 1 };
	CHECK(ibv_advise_mr(rig->pd, FETCH, 0, &sge, 1) == ENOENT);
	sge.lkey = reading->lkey;
	CHECK(ibv_advise_mr(rig->pd, FETCH, 0, &sge, 1) == 0);
	CHECK(ibv_advise_mr(rig->pd, WRITE, 0, &sge, 1) == EPERM);
	sge = (struct ibv_sge){ (uintptr_t)rig->buf, 100, rig->mr->lkey };
	CHECK(ibv_advise_mr(rig->pd, FETCH, 0, &sge, 1) == EINVAL);
	/* Pages that cannot be fetched are an error only for those who wait for them. */
	NEED(mprotect(at, len, PROT_NONE) == 0);
	sge = (struct ibv_sge){ (uintptr_t)at, 100, mr->lkey };
	CHECK(ibv_advise_mr(rig->pd, FETCH, 0, &sge, 1) == 0);
	CHECK(ibv_advise_mr(rig->pd, FETCH, FLUSH, &sge, 1) == EFAULT);
	CHECK(ibv_dereg_mr(mr) == 0 && ibv_dereg_mr(reading) == 0 && ibv_dealloc_pd(other) == 0);
	munmap(at, len);
}

const check_part odp_parts[] = { capabilities, explicit, implicit, advice, NULL };
