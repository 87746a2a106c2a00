/* Device memory: copies and regions beyond it, sizes, order of freeing. */
#include "mistakes.h"

enum {
	LENGTH = 4096
};

static struct ibv_dm *allocate(struct rig *rig)
{
	struct ibv_alloc_dm_attr attr = { .length = LENGTH };
	struct ibv_dm *dm = KEEP(ibv_alloc_dm(rig->context, &attr));

	NEED(dm);
	return dm;
}

static void dm_copy_to_range(struct rig *rig, bool wrong)
{
	struct ibv_dm *dm = allocate(rig);

	CHECK(!ibv_memcpy_to_dm(dm, LENGTH - 64, rig->buf, wrong ? 128 : 64) == !wrong);
}

static void dm_copy_from_range(struct rig *rig, bool wrong)
{
	struct ibv_dm *dm = allocate(rig);

	CHECK(!ibv_memcpy_from_dm(rig->buf, dm, wrong ? LENGTH : 0, 64) == !wrong);
}

static void dm_copy_unaligned(struct rig *rig, bool wrong)
{
	struct ibv_dm *dm = allocate(rig);

	CHECK(!ibv_memcpy_to_dm(dm, wrong ? 2 : 4, rig->buf, 8) == !wrong);
}

/* The program's memory is not mapped. */
static void dm_copy_unmapped(struct rig *rig, bool wrong)
{
	struct ibv_dm *dm = allocate(rig);

	CHECK(!ibv_memcpy_to_dm(dm, 0, wrong ? (void *)4096 : rig->buf, 8) == !wrong);
}

static void dm_too_long(struct rig *rig, bool wrong)
{
	struct ibv_device_attr_ex limits;
	NEED(ibv_query_device_ex(rig->context, NULL, &limits) == 0);
	struct ibv_alloc_dm_attr attr = { .length = limits.max_dm_size + wrong };

	CHECK(!KEEP(ibv_alloc_dm(rig->context, &attr)) == wrong);
}

/* The memory of the device is allocated already. */
static void dm_no_more(struct rig *rig, bool wrong)
{
	struct ibv_device_attr_ex limits;
	NEED(ibv_query_device_ex(rig->context, NULL, &limits) == 0);
	struct ibv_alloc_dm_attr attr = { .length = limits.max_dm_size };
	struct ibv_dm *first = KEEP(ibv_alloc_dm(rig->context, &attr));

	NEED(first);
	if (!wrong)
		CHECK(end(first) == 0);
	CHECK(!KEEP(ibv_alloc_dm(rig->context, &attr)) == wrong);
}

/* The alignment in bytes, in place of its logarithm. */
static void dm_align_bytes(struct rig *rig, bool wrong)
{
	struct ibv_alloc_dm_attr attr = { .length = LENGTH, .log_align_req = wrong ? 64 : 6 };

	CHECK(!KEEP(ibv_alloc_dm(rig->context, &attr)) == wrong);
}

static void dm_mr(struct rig *rig, uint64_t offset, unsigned access, bool wrong)
{
	struct ibv_dm *dm = allocate(rig);

	CHECK(!KEEP(ibv_reg_dm_mr(rig->pd, dm, offset, 1024, access)) == wrong);
}

static void dm_mr_range(struct rig *rig, bool wrong)
{
	dm_mr(rig, LENGTH - (wrong ? 512 : 1024), IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE, wrong);
}

static void dm_mr_not_zero_based(struct rig *rig, bool wrong)
{
	dm_mr(rig, 0, IBV_ACCESS_LOCAL_WRITE | (wrong ? 0 : IBV_ACCESS_ZERO_BASED), wrong);
}

static void dm_free_with_mr(struct rig *rig, bool wrong)
{
	struct ibv_dm *dm = allocate(rig);
	struct ibv_mr *mr = KEEP(ibv_reg_dm_mr(rig->pd, dm, 0, LENGTH, IBV_ACCESS_ZERO_BASED));

	NEED(mr);
	if (wrong)
		CHECK(end(dm) == EBUSY);
}

/* A request that leaves a region of device memory, whose addresses begin at 0. */
static void dm_request_range(struct rig *rig, bool wrong)
{
	struct ends ends = link_up(rig, &(struct link){ 0 });
	struct ibv_dm *dm = allocate(rig);
	unsigned access = IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	struct ibv_mr *mr = KEEP(ibv_reg_dm_mr(rig->pd, dm, 0, LENGTH, access));
	NEED(mr);

	NEED(send_to(ends.a, part(rig, 0, 64), IBV_WR_RDMA_WRITE, wrong ? LENGTH - 32 : LENGTH - 64,
		     mr->rkey) == 0);
	CHECK((next_status(rig->cq) == IBV_WC_SUCCESS) == !wrong);
}

/* No memory has this handle. */
static void dm_import_unknown(struct rig *rig, bool wrong)
{
	struct ibv_dm *dm = allocate(rig), *again;

	again = ibv_import_dm(rig->context, wrong ? dm->handle + 1000 : dm->handle);
	CHECK(!again == wrong);
	if (again)
		ibv_unimport_dm(again);
}

const struct mistake device_memory_mistakes[] = {
	{ "dm-copy-to-range", dm_copy_to_range, "dm-range", "of 4096 bytes, by 64 bytes" },
	{ "dm-copy-from-range", dm_copy_from_range, "dm-range", "64 bytes at offset 4096" },
	{ "dm-copy-unaligned", dm_copy_unaligned, "argument", "dm_offset is 2 and length 8" },
	{ "dm-copy-unmapped", dm_copy_unmapped, "call-failed", "host_addr = 0x1000" },
	{ "dm-too-long", dm_too_long, "attr-range", "attr.length is" },
	{ "dm-no-more", dm_no_more, "argument", "of the device's" },
	{ "dm-align-bytes", dm_align_bytes, "argument", "an alignment of 2^64 bytes" },
	{ "dm-mr-range", dm_mr_range, "dm-range", "of 4096 bytes, by 512 bytes" },
	{ "dm-mr-not-zero-based", dm_mr_not_zero_based, "argument", "lacks IBV_ACCESS_ZERO_BASED" },
	{ "dm-free-with-mr", dm_free_with_mr, "busy", "MR 0x" },
	{ "dm-request-range", dm_request_range, "key-range", "32 bytes behind its end" },
	{ "dm-import-unknown", dm_import_unknown, "call-failed", "dm_handle = " },
	{ NULL },
};
