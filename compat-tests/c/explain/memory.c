/* Registrations that fail, and accesses with wrong keys. */
#include "scenes.h"

#include <fcntl.h>
#include <sys/mman.h>

static void refused(struct rig *rig, void *addr, size_t length, int access)
{
	CHECK(ibv_reg_mr(rig->pd, addr, length, access) == NULL);
}

static char *pages(int protection)
{
	char *memory = mmap(NULL, 3 * 4096, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	NEED(memory != MAP_FAILED);
	return memory;
}

static void reg_unmapped(struct rig *rig)
{
	char *memory = pages(PROT_READ | PROT_WRITE);

	NEED(munmap(memory + 4096, 4096) == 0);
	refused(rig, memory, 3 * 4096, IBV_ACCESS_LOCAL_WRITE);
}

static void reg_read_only(struct rig *rig)
{
	refused(rig, pages(PROT_READ), 4096, IBV_ACCESS_LOCAL_WRITE);
}

/* A rule of IBV_FAULTS refuses the memory. */
static void reg_no_memory(struct rig *rig)
{
	refused(rig, rig->buf, SIZE, IBV_ACCESS_LOCAL_WRITE);
}

/* A mapping of a file, of which a rule of IBV_FAULTS says that it cannot be pinned. */
static void reg_file(struct rig *rig)
{
	int fd = open("/proc/self/exe", O_RDONLY);
	void *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);

	NEED(fd >= 0 && memory != MAP_FAILED);
	refused(rig, memory, 4096, IBV_ACCESS_LOCAL_WRITE);
	close(fd);
}

static void reg_access(struct rig *rig)
{
	refused(rig, rig->buf, SIZE, IBV_ACCESS_REMOTE_WRITE);
}

static void reg_length(struct rig *rig)
{
	refused(rig, rig->buf, (size_t)-1, IBV_ACCESS_LOCAL_WRITE);
}

static void create_limit(struct rig *rig)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = rig->cq, .recv_cq = rig->cq, .cap = { 1u << 30, 1, 1, 1, 0 }, .qp_type = IBV_QPT_RC
	};

	CHECK(ibv_create_qp(rig->pd, &attr) == NULL);
	CHECK(ibv_create_cq(rig->context, 1 << 30, NULL, NULL, 0) == NULL);
}

/* No region has this handle. */
static void call_failed(struct rig *rig)
{
	CHECK(ibv_import_mr(rig->pd, 134217727) == NULL);
}

/* Sends with this key from this address, which the own side refuses. */
static void send_from(struct rig *rig, uint32_t lkey, uint8_t *from, uint32_t length)
{
	struct ibv_sge sge = { (uintptr_t)from, length, lkey };
	struct ibv_qp *a, *b;

	connected(rig, &a, &b);
	NEED(post_recv(b, rig, 1, 4096, 4096) == 0);
	NEED(send_to(a, sge, IBV_WR_SEND, 0, 0) == 0);
	await_either(rig, IBV_WC_LOC_PROT_ERR, IBV_WC_WR_FLUSH_ERR);
}

static void key_unknown(struct rig *rig)
{
	send_from(rig, rig->mr->lkey ^ 0x5a5a00, rig->buf, 8);
}

static void key_deregistered(struct rig *rig)
{
	struct ibv_mr *mr = ibv_reg_mr(rig->pd, rig->buf, SIZE, 0);
	uint32_t key;

	NEED(mr);
	key = mr->lkey;
	NEED(ibv_dereg_mr(mr) == 0);
	send_from(rig, key, rig->buf, 8);
}

/* The receive has a wrong key, which the sender cannot know. */
static void request_failed(struct rig *rig)
{
	struct ibv_sge sge = { (uintptr_t)rig->buf, 64, rig->mr->lkey ^ 0x5a5a00 };
	struct ibv_qp *a, *b;

	connected(rig, &a, &b);
	NEED(recv_one(b, sge) == 0);
	NEED(post(a, rig, IBV_WR_SEND, 0, 8, 0, 0) == 0);
	await_status(rig, IBV_WC_REM_OP_ERR);
}

static void key_pd(struct rig *rig)
{
	struct ibv_pd *pd = KEEP(ibv_alloc_pd(rig->context));
	struct ibv_mr *mr;

	NEED(pd && (mr = KEEP(ibv_reg_mr(pd, rig->buf, SIZE, 0))));
	send_from(rig, mr->lkey, rig->buf, 8);
}

static void key_range(struct rig *rig)
{
	send_from(rig, rig->mr->lkey, rig->buf + SIZE - 4, 8);
}

/* A receive into memory without local write access. */
static void key_access(struct rig *rig)
{
	struct ibv_mr *mr = KEEP(ibv_reg_mr(rig->pd, rig->buf, SIZE, 0));
	struct ibv_sge sge = { (uintptr_t)rig->buf, 64 };
	struct ibv_recv_wr *bad, wr = { .wr_id = 9, .sg_list = &sge, .num_sge = 1 };
	struct ibv_qp *a, *b;

	NEED(mr);
	sge.lkey = mr->lkey;
	connected(rig, &a, &b);
	NEED(ibv_post_recv(b, &wr, &bad) == 0);
	NEED(post(a, rig, IBV_WR_SEND, 0, 8, 0, 0) == 0);
	await_either(rig, IBV_WC_LOC_PROT_ERR, IBV_WC_LOC_QP_OP_ERR);
	CHECK(next_wc(rig->cq).status != IBV_WC_SUCCESS);
}

/* Writes to the peer, which refuses it. */
static void write_to(struct rig *rig, uint32_t rkey, int64_t to)
{
	struct ibv_qp *a, *b;

	connected(rig, &a, &b);
	NEED(post(a, rig, IBV_WR_RDMA_WRITE, 0, 8, to, rkey) == 0);
	await_status(rig, IBV_WC_REM_ACCESS_ERR);
	CHECK(end(a) == 0 && end(b) == 0);
	while (next_event(rig) >= 0)
		;
}

static void rkey_range(struct rig *rig)
{
	write_to(rig, rig->mr->rkey, SIZE);
}

static void rkey_unknown(struct rig *rig)
{
	write_to(rig, rig->mr->rkey ^ 0x5a5a00, 0);
}

/* The peer has a memory window, whose keys are not known here. */
static void key_remote(struct rig *rig)
{
	struct ibv_mw *mw = KEEP(ibv_alloc_mw(rig->pd, IBV_MW_TYPE_1));

	NEED(mw);
	write_to(rig, rig->mr->rkey ^ 0x5a5a00, 0);
}

static void rkey_access(struct rig *rig)
{
	struct ibv_mr *mr = KEEP(ibv_reg_mr(rig->pd, rig->buf, SIZE, IBV_ACCESS_LOCAL_WRITE));

	NEED(mr);
	write_to(rig, mr->rkey, 0);
}

static void qp_access(struct rig *rig)
{
	struct ibv_qp_attr attr = { .qp_access_flags = IBV_ACCESS_LOCAL_WRITE };
	struct ibv_qp *a, *b;

	connected(rig, &a, &b);
	NEED(ibv_modify_qp(b, &attr, IBV_QP_ACCESS_FLAGS) == 0);
	NEED(post(a, rig, IBV_WR_RDMA_WRITE, 0, 8, 0, rig->mr->rkey) == 0);
	await_status(rig, IBV_WC_REM_INV_REQ_ERR);
}

static void atomic_unaligned(struct rig *rig)
{
	struct ibv_qp *a, *b;

	connected(rig, &a, &b);
	NEED(post(a, rig, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 8, 1025, rig->mr->rkey) == 0);
	await_status(rig, IBV_WC_REM_INV_REQ_ERR);
}

static void receive_too_small(struct rig *rig)
{
	struct ibv_qp *a, *b;

	connected(rig, &a, &b);
	NEED(post_recv(b, rig, 1, 4096, 16) == 0);
	NEED(post(a, rig, IBV_WR_SEND, 0, 64, 0, 0) == 0);
	await_either(rig, IBV_WC_REM_INV_REQ_ERR, IBV_WC_REM_OP_ERR);
}

const struct scene memory_scenes[] = {
	{ "reg-unmapped", reg_unmapped, "reg-unmapped", "12288 bytes at" },
	{ "reg-read-only", reg_read_only, "reg-read-only", "is mapped r--p" },
	{ "reg-no-memory", reg_no_memory, "reg-no-memory",
	  "out of memory or of memory regions (1 are registered)" },
	{ "reg-file", reg_file, "reg-file", "is a mapping of /" },
	{ "reg-access", reg_access, "reg-access", "IBV_ACCESS_REMOTE_WRITE lack IBV_ACCESS_LOCAL_WRITE" },
	{ "reg-length", reg_length, "reg-length", "18446744073709551615 bytes" },
	{ "create-limit", create_limit, "create-limit", "cap.max_send_wr = 1073741824" },
	{ "call-failed", call_failed, "call-failed", "mr_handle = 134217727" },
	{ "request-failed", request_failed, "key-unknown request-failed", "the local key" },
	{ "key-unknown", key_unknown, "key-unknown", "the local key" },
	{ "key-deregistered", key_deregistered, "key-deregistered", "has been deregistered" },
	{ "key-pd", key_pd, "key-pd", "the queue pair has PD" },
	{ "key-range", key_range, "key-range", "by 4 bytes behind its end" },
	{ "key-access", key_access, "key-access request-failed", "lacks IBV_ACCESS_LOCAL_WRITE" },
	{ "rkey-range", rkey_range, "key-range", "by 8 bytes behind its end" },
	{ "rkey-unknown", rkey_unknown, "key-unknown", "the remote key" },
	{ "key-remote", key_remote, "key-remote", "the key may be that of a memory window" },
	{ "rkey-access", rkey_access, "key-access", "lacks IBV_ACCESS_REMOTE_WRITE" },
	{ "qp-access", qp_access, "qp-access", "lacks IBV_ACCESS_REMOTE_WRITE in its qp_access_flags" },
	{ "atomic-unaligned", atomic_unaligned, "atomic-unaligned", "which is not a multiple of 8" },
	{ "receive-too-small", receive_too_small, "receive-too-small", "a message of 64 bytes" },
	{ 0 },
};
