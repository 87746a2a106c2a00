/* Mistakes that no call and no completion reports. */
#include "mistakes.h"

#include <sys/mman.h>

/* More unsignaled requests than the queue has room for: all have completed, and no slot is free. */
static void unsignaled_many(struct rig *rig, bool wrong)
{
	struct ends ends = link_up(rig, &(struct link){ .unsignaled = true });
	int error = 0;

	for (int i = 0; i < 1000 && !error; i++) {
		bool signal = !wrong && i % 8 == 7;

		error = send_wr(ends.a, rig, IBV_WR_RDMA_WRITE, signal ? IBV_SEND_SIGNALED : 0, 0, 8);
		if (signal)
			CHECK(next_status(rig->cq) == IBV_WC_SUCCESS);
	}
	/* A device that frees slots by itself takes them all. */
	const char *device = getenv("IBV_UROCE");
	bool lenient = device && strstr(device, "slots=completed");
	CHECK(error == (wrong && !lenient ? ENOMEM : 0));
}

/* Receives are posted again when their messages have arrived, before their completions are polled. */
static void reposted_early(struct rig *rig, bool wrong)
{
	struct ibv_cq *receives = KEEP(ibv_create_cq(rig->context, 64, NULL, NULL, 0));
	struct ends ends = link_up(rig, &(struct link){ .recv_cq = receives });
	int error = 0;

	NEED(receives);
	for (int i = 0; i < 16; i++)
		NEED(post_recv(ends.b, rig, i, 4096, 64) == 0);
	for (int i = 0; i < 16; i++)
		NEED(send_wr(ends.a, rig, IBV_WR_SEND, 0, 0, 8) == 0);
	/* All have arrived when the last one is acknowledged. */
	CHECK(poll_for(rig->cq, 16, 3) == 16 && (wrong || poll_for(receives, 16, 3) == 16));
	for (int i = 0; i < 16 && !error; i++)
		error = post_recv(ends.b, rig, i, 4096, 64);
	CHECK(error == (wrong ? ENOMEM : 0));
	CHECK(poll_for(receives, wrong ? 16 : 0, 3) == (wrong ? 16 : 0));
}

/* The buffer is changed before the SEND has completed. */
static void buffer_changed(struct rig *rig, bool wrong)
{
	struct ends ends = link_up(rig, &(struct link){ .rnr_retry = 7 });

	memset(rig->buf, 1, 64);
	NEED(send_wr(ends.a, rig, IBV_WR_SEND, 0, 0, 64) == 0);
	if (wrong)
		memset(rig->buf, 2, 64);
	NEED(post_recv(ends.b, rig, 1, 4096, 64) == 0);
	CHECK(next_status(rig->cq) == IBV_WC_SUCCESS && next_status(rig->cq) == IBV_WC_SUCCESS);
}

static void receives_overlap(struct rig *rig, bool wrong)
{
	struct ends ends = link_up(rig, &(struct link){ 0 });

	NEED(post_recv(ends.b, rig, 1, 4096, 64) == 0 &&
	     post_recv(ends.b, rig, 2, wrong ? 4096 : 4160, 64) == 0);
	for (int i = 0; i < 2; i++) {
		rig->buf[0] = i + 1;
		NEED(send_wr(ends.a, rig, IBV_WR_SEND, 0, 0, 8) == 0);
		CHECK(next_status(rig->cq) == IBV_WC_SUCCESS && next_status(rig->cq) == IBV_WC_SUCCESS);
	}
}

/* The region is memory of the stack. */
static __attribute__((noinline)) struct ibv_mr *on_stack(struct rig *rig)
{
	char buffer[256];

	return KEEP(ibv_reg_mr(rig->pd, buffer, sizeof(buffer), IBV_ACCESS_LOCAL_WRITE));
}

static void stack_region(struct rig *rig, bool wrong)
{
	struct ibv_mr *mr = wrong ? on_stack(rig) : KEEP(ibv_reg_mr(rig->pd, rig->buf, 256, 1));
	struct ibv_sge sge = { (uintptr_t)mr->addr, 64, mr->lkey };
	struct ends ends = link_up(rig, &(struct link){ 0 });

	NEED(recv_one(ends.b, sge) == 0);
}

/* The buffer is unmapped while it is registered. */
static void unmapped(struct rig *rig, bool wrong)
{
	char *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr = KEEP(ibv_reg_mr(rig->pd, memory, 4096, IBV_ACCESS_LOCAL_WRITE));
	struct ibv_sge sge = { (uintptr_t)memory, 64, mr->lkey };
	struct ends ends = link_up(rig, &(struct link){ 0 });

	NEED(post_recv(ends.b, rig, 1, 4096, 64) == 0);
	if (wrong)
		munmap(memory, 4096);
	CHECK(succeeds(rig, ends.a, sge, IBV_WR_SEND, 0, 0) == !wrong);
}

static void mr_dropped_early(struct rig *rig, bool wrong)
{
	struct ibv_mr *mr = KEEP(ibv_reg_mr(rig->pd, rig->buf, 64, IBV_ACCESS_LOCAL_WRITE));
	struct ibv_sge sge = { (uintptr_t)rig->buf, 64, mr->lkey };
	struct ends ends = link_up(rig, &(struct link){ 0 });

	NEED(recv_one(ends.b, sge) == 0);
	if (wrong)
		CHECK(end(mr) == 0);
	CHECK(works(rig, ends.a, IBV_WR_SEND, 8) == !wrong);
	next_status(rig->cq);
}

/* An error that the program never polls. */
static void unread_error(struct rig *rig, bool wrong)
{
	struct ends ends = link_up(rig, &(struct link){ .access = wrong ? IBV_ACCESS_LOCAL_WRITE : 0 });

	NEED(poll_for(rig->cq, 1, 0.05) == 0);
	NEED(send_wr(ends.a, rig, IBV_WR_RDMA_WRITE, 0, 0, 8) == 0);
	usleep(300000);
	if (!wrong)
		CHECK(next_status(rig->cq) == IBV_WC_SUCCESS);
}

static void post_to_dead_qp(struct rig *rig, bool wrong)
{
	struct ends ends = link_up(rig, &(struct link){ 0 });

	if (wrong)
		CHECK(end(ends.a) == 0);
	CHECK(!send_wr(ends.a, rig, IBV_WR_RDMA_WRITE, 0, 0, 8) == !wrong);
	if (!wrong)
		CHECK(next_status(rig->cq) == IBV_WC_SUCCESS);
}

static void leak(struct rig *rig, bool wrong)
{
	struct ibv_pd *pd = ibv_alloc_pd(rig->context);

	NEED(pd);
	if (!wrong)
		CHECK(ibv_dealloc_pd(pd) == 0);
}

const struct mistake hazard_mistakes[] = {
	{ "unsignaled-many", unsignaled_many, "never-signaled",
	  "16 of 16 requests, and none of them is signaled" },
	{ "reposted-early", reposted_early, "recv-queue-full",
	  "of 16 receives, 16 have no polled completion" },
	{ "buffer-changed", buffer_changed, "buffer-changed", "64 bytes at" },
	{ "receives-overlap", receives_overlap, "receives-overlap", "64 bytes at" },
	{ "stack-region", stack_region, "stack-region", "of a function that has returned" },
	{ "unmapped", unmapped, "memory-gone", "is not mapped any more" },
	{ "mr-dropped-early", mr_dropped_early, "key-deregistered", "has been deregistered" },
	{ "unread-error", unread_error, "unread-error", "nobody has polled" },
	{ "leak", leak, "leak", "1 PD left" },
	{ "post-to-dead-qp", post_to_dead_qp, "dead-object", "qp, the QP" },
	{ 0 },
};
