/* Device memory: limits, copies, regions, and what peers do with it. */
#include "check.h"

#define LEN 4096
#define DM_ACCESS (ALL_ACCESS | IBV_ACCESS_ZERO_BASED)

static struct ibv_dm *alloc(struct rig *rig, size_t length, uint32_t log_alignment)
{
	struct ibv_alloc_dm_attr attr = { .length = length, .log_align_req = log_alignment };

	return ibv_alloc_dm(rig->context, &attr);
}

static void limits(struct rig *rig)
{
	struct ibv_alloc_dm_attr unknown = { .length = LEN, .comp_mask = 1 };
	struct ibv_device_attr_ex attr = {};
	struct ibv_dm *all;

	NEED(ibv_query_device_ex(rig->context, NULL, &attr) == 0);
	NEED(attr.max_dm_size >= LEN);
	CHECK(!ibv_alloc_dm(rig->context, &unknown) && errno == EINVAL);
	CHECK(!alloc(rig, 0, 0) && errno == EINVAL);
	CHECK(!alloc(rig, attr.max_dm_size + 1, 0) && errno == EINVAL);
	CHECK(!alloc(rig, LEN, 40) && errno == EINVAL);
	/* The limit is the device's, and what is freed comes back. */
	for (int i = 0; i < 3; i++) {
		NEED(all = alloc(rig, attr.max_dm_size, 6));
		CHECK(!alloc(rig, 1, 0) && errno == ENOMEM);
		CHECK(ibv_free_dm(all) == 0);
	}
}

static void copies(struct rig *rig)
{
	struct ibv_dm *dm = alloc(rig, LEN, 0);
	uint8_t *buf = rig->buf;
	pid_t pid;

	NEED(dm && dm->comp_mask == IBV_DM_MASK_HANDLE);
	memset(buf, 3, LEN);
	CHECK(ibv_memcpy_from_dm(buf, dm, 0, LEN) == 0 && buf[0] == 0 && buf[LEN - 1] == 0);
	memcpy(buf, "abcdefgh", 8);
	CHECK(ibv_memcpy_to_dm(dm, LEN - 8, buf, 8) == 0);
	CHECK(ibv_memcpy_from_dm(buf + 100, dm, LEN - 4, 4) == 0 && !memcmp(buf + 100, "efgh", 4));
	CHECK(ibv_memcpy_to_dm(dm, LEN - 8, buf, 12) == EFAULT);
	CHECK(ibv_memcpy_from_dm(buf, dm, UINT64_MAX, 4) == EFAULT);
	/* As on NICs. */
	CHECK(ibv_memcpy_to_dm(dm, 2, buf, 4) == EINVAL && ibv_memcpy_from_dm(buf, dm, 4, 2) == EINVAL);
	CHECK(ibv_memcpy_to_dm(dm, 0, (void *)8, 4) == EFAULT);
	CHECK(ibv_memcpy_from_dm((void *)8, dm, 0, 4) == EFAULT);
	pid = start_child();
	if (pid == 0)
		_exit(ibv_memcpy_to_dm(dm, 0, buf, 4) == EACCES && ibv_free_dm(dm) == 0 ? 0 : 1);
	await_child(pid);
	CHECK(ibv_free_dm(dm) == 0);
	CHECK(ibv_free_dm(dm) == ENOENT);
}

static void regions(struct rig *rig)
{
	struct ibv_dm *dm = alloc(rig, LEN, 0);
	struct ibv_mr *mr;

	NEED(dm);
	CHECK(!ibv_reg_dm_mr(rig->pd, dm, 0, LEN, ALL_ACCESS) && errno == EINVAL);
	CHECK(!ibv_reg_dm_mr(rig->pd, dm, 0, LEN, DM_ACCESS | IBV_ACCESS_ON_DEMAND) && errno == EINVAL);
	CHECK(!ibv_reg_dm_mr(rig->pd, dm, 1, LEN, DM_ACCESS) && errno == EINVAL);
	CHECK(!ibv_reg_dm_mr(rig->pd, dm, UINT64_MAX, 2, DM_ACCESS) && errno == EINVAL);
	NEED(mr = ibv_reg_dm_mr(rig->pd, dm, 0, LEN, DM_ACCESS));
	CHECK(mr->length == LEN && mr->pd == rig->pd && mr->context == rig->context);
	CHECK(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0) != 0);
	CHECK(ibv_free_dm(dm) == EBUSY);
	CHECK(ibv_dereg_mr(mr) == 0);
	CHECK(ibv_free_dm(dm) == 0);
}

/* Every operation at either end; the region is a part of the memory. */
static void operations(struct rig *rig)
{
	struct ibv_dm *dm = alloc(rig, LEN, 0);
	struct ibv_mr *mr;
	uint64_t *words = (uint64_t *)rig->buf, read[2] = {};
	struct ibv_sge host, device;

	NEED(dm && (mr = ibv_reg_dm_mr(rig->pd, dm, 64, LEN - 64, DM_ACCESS)));
	host = (struct ibv_sge){ (uintptr_t)words, 16, rig->mr->lkey };
	device = (struct ibv_sge){ 8, 16, mr->lkey };
	words[0] = 11;
	words[1] = 12;
	CHECK(request(rig, IBV_WR_RDMA_WRITE, host, 8, mr->rkey) == IBV_WC_SUCCESS);
	CHECK(ibv_memcpy_from_dm(read, dm, 72, 16) == 0 && read[0] == 11 && read[1] == 12);
	CHECK(request(rig, IBV_WR_RDMA_WRITE, device, (uintptr_t)(words + 8), rig->mr->rkey) ==
	      IBV_WC_SUCCESS);
	CHECK(words[8] == 11 && words[9] == 12);
	host.addr = (uintptr_t)(words + 16);
	CHECK(request(rig, IBV_WR_RDMA_READ, host, 8, mr->rkey) == IBV_WC_SUCCESS && words[17] == 12);
	host.length = 8;
	CHECK(request(rig, IBV_WR_ATOMIC_FETCH_AND_ADD, host, 8, mr->rkey) == IBV_WC_SUCCESS);
	CHECK(words[16] == 11 && ibv_memcpy_from_dm(read, dm, 72, 8) == 0 && read[0] == 12);
	CHECK(request(rig, IBV_WR_RDMA_WRITE, host, LEN - 64, mr->rkey) == IBV_WC_REM_ACCESS_ERR);
	CHECK(ibv_dereg_mr(mr) == 0);
	CHECK(ibv_free_dm(dm) == 0);
}

/* Device memory that a program leaves goes with its context. */
static void left_behind(struct rig *rig)
{
	struct ibv_device_attr_ex attr = {};
	struct rig left;

	(void)rig;
	for (int i = 0; i < 3; i++) {
		struct ibv_dm *dm;

		set_up(&left);
		NEED(ibv_query_device_ex(left.context, NULL, &attr) == 0);
		NEED(dm = alloc(&left, attr.max_dm_size, 0));
		NEED(ibv_reg_dm_mr(left.pd, dm, 0, LEN, DM_ACCESS));
		CHECK(ibv_close_device(left.context) == 0);
	}
}

const check_part dm_parts[] = { limits, copies, regions, operations, left_behind, NULL };
