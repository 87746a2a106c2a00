/* Mistakes that people have reported to public projects as defects of the library or of a device. */
#define _GNU_SOURCE
#include "mistakes.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>

/* No device has the name that the program looks for. The program ends, as with the C library. */
static void no_such_name(struct rig *rig, bool wrong)
{
	const char *name = wrong ? "mlx5_0" : getenv("DEVICE");
	int status;

	tear_down(rig);
	rig->context = NULL;
	pid_t child = fork();
	if (child == 0) {
		struct ibv_device **list = ibv_get_device_list(NULL), *device = NULL;

		for (int i = 0; list[i]; i++)
			if (!strcmp(ibv_get_device_name(list[i]), name))
				device = list[i];
		struct ibv_context *context = ibv_open_device(device);
		ibv_free_device_list(list);
		_exit(ibv_close_device(context));
	}
	CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) == wrong);
}

static void raw_packets(struct rig *rig, bool wrong)
{
	struct ibv_qp_init_attr attr = { .send_cq = rig->cq,
					 .recv_cq = rig->cq,
					 .cap = { 4, 4, 1, 1, 0 },
					 .qp_type = wrong ? IBV_QPT_RAW_PACKET : IBV_QPT_UD };

	CHECK(!KEEP(ibv_create_qp(rig->pd, &attr)) == wrong);
}

/* A file is given as a dma-buf. */
static void file_as_dmabuf(struct rig *rig, bool wrong)
{
	int fd = memfd_create("buffer", 0);
	NEED(fd >= 0 && ftruncate(fd, 4096) == 0);
	void *mapped = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	NEED(mapped != MAP_FAILED);

	CHECK(!KEEP(wrong ? ibv_reg_dmabuf_mr(rig->pd, 0, 4096, 0, fd, IBV_ACCESS_LOCAL_WRITE)
			  : ibv_reg_mr(rig->pd, mapped, 4096, IBV_ACCESS_LOCAL_WRITE)) == wrong);
}

/* An export has failed, unnoticed. Programs also pass -1 to ask whether the device has dma-bufs. */
static void dmabuf_not_exported(struct rig *rig, bool wrong)
{
	uint64_t iova = wrong ? (uintptr_t)rig->buf : 0;

	CHECK(!KEEP(ibv_reg_dmabuf_mr(rig->pd, 0, 4096, iova, -1, IBV_ACCESS_LOCAL_WRITE)));
}

/* A receive is refused, and there is no place for its address: the program ends. */
static void bad_wr_null(struct rig *rig, bool wrong)
{
	struct link link = { .recv_wr = 1 };
	pid_t child = wrong ? fork() : 0;
	int status;

	if (wrong && child) {
		CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
		return;
	}
	struct rig own = *rig;
	if (wrong)
		set_up(&own);
	struct ends ends = link_up(&own, &link);
	struct ibv_sge sge = { (uintptr_t)own.buf, 64, own.mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = wrong ? 99 : 1 };

	CHECK(ibv_post_recv(ends.a, &wr, NULL) == 0);
	if (wrong)
		_exit(0);
}

/* A queue pair is connected once more without RESET. */
static void connected_again(struct rig *rig, bool wrong)
{
	struct link link = { 0 };
	struct ends ends = link_up(rig, &link);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };

	if (wrong) {
		attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .timeout = 15, .max_rd_atomic = 4 };
		CHECK(ibv_modify_qp(ends.a, &attr, RTS_MASK) == EINVAL);
	} else {
		CHECK(ibv_modify_qp(ends.a, &attr, IBV_QP_STATE) == 0);
		CHECK(ibv_modify_qp(ends.b, &attr, IBV_QP_STATE) == 0);
		CHECK(link_to(rig, ends.b, &link, ends.a->qp_num, rig->gid, true) == 0);
		CHECK(link_to(rig, ends.a, &link, ends.b->qp_num, rig->gid, false) == 0);
	}
}

/* The memory was moved after it was registered, as by realloc(). */
static void region_moved(struct rig *rig, bool wrong)
{
	struct ends ends = link_up(rig, &(struct link){ 0 });
	char *old = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *place = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	NEED(old != MAP_FAILED && place != MAP_FAILED);
	struct ibv_mr *mr = KEEP(ibv_reg_mr(rig->pd, old, SIZE, IBV_ACCESS_LOCAL_WRITE));
	NEED(mr);

	if (wrong)
		NEED(mremap(old, SIZE, SIZE, MREMAP_MAYMOVE | MREMAP_FIXED, place) == place);
	struct ibv_sge sge = { (uintptr_t)(wrong ? place : old), 64, mr->lkey };

	NEED(post_recv(ends.b, rig, 1, 4096, 64) == 0 && send_to(ends.a, sge, IBV_WR_SEND, 0, 0) == 0);
	CHECK((next_status(rig->cq) == IBV_WC_SUCCESS) == !wrong);
}

/* Requests name pointers in a region whose addresses begin at 0. */
static void offsets_wanted(struct rig *rig, bool wrong)
{
	struct ends ends = link_up(rig, &(struct link){ 0 });
	struct ibv_mr *mr = KEEP(ibv_reg_mr_iova(rig->pd, rig->buf, SIZE, 0, IBV_ACCESS_LOCAL_WRITE));
	NEED(mr);
	struct ibv_sge sge = { wrong ? (uintptr_t)rig->buf : 0, 64, mr->lkey };

	NEED(post_recv(ends.b, rig, 1, 4096, 64) == 0 && send_to(ends.a, sge, IBV_WR_SEND, 0, 0) == 0);
	CHECK((next_status(rig->cq) == IBV_WC_SUCCESS) == !wrong);
}

/* The address is that of the pointer to the peer's memory. */
static void address_far_away(struct rig *rig, bool wrong)
{
	static uint8_t *pointer;
	struct ends ends = link_up(rig, &(struct link){ 0 });
	void *memory = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr = KEEP(ibv_reg_mr(rig->pd, memory, SIZE, ALL_ACCESS));
	NEED(mr);

	pointer = memory;
	uint64_t addr = wrong ? (uintptr_t)&pointer : (uintptr_t)pointer;
	int64_t to = (int64_t)(addr - (uintptr_t)rig->buf);
	NEED(post(ends.a, rig, IBV_WR_RDMA_WRITE, 0, 64, to, mr->rkey) == 0);
	CHECK((next_status(rig->cq) == IBV_WC_SUCCESS) == !wrong);
}

/* One completion comes, and the event only with the sixteenth. */
static void moderated(struct rig *rig, bool wrong)
{
	struct ibv_comp_channel *channel = KEEP(ibv_create_comp_channel(rig->context));
	struct ibv_cq *cq = KEEP(ibv_create_cq(rig->context, 64, NULL, channel, 0)), *of;
	struct ends ends = link_up(rig, &(struct link){ .send_cq = cq });
	struct ibv_modify_cq_attr attr = { .attr_mask = IBV_CQ_ATTR_MODERATE,
					   .moderate = { .cq_count = 16, .cq_period = wrong ? 0 : 100 } };
	void *context;

	NEED(ibv_modify_cq(cq, &attr) == 0 && ibv_req_notify_cq(cq, 0) == 0);
	NEED(send_wr(ends.a, rig, IBV_WR_RDMA_WRITE, 0, 0, 8) == 0);
	if (wrong)
		leave_after(4);
	NEED(ibv_get_cq_event(channel, &of, &context) == 0);
	ibv_ack_cq_events(of, 1);
	CHECK(next_status(cq) == IBV_WC_SUCCESS);
}

/* The peer gets the key that the window had before it was bound. */
static void window_key_early(struct rig *rig, bool wrong)
{
	struct ends ends = link_up(rig, &(struct link){ 0 });
	struct ibv_mw *mw = KEEP(ibv_alloc_mw(rig->pd, IBV_MW_TYPE_1));
	struct ibv_mw_bind bind = { .bind_info = { rig->mr, (uintptr_t)rig->buf, SIZE,
						   IBV_ACCESS_REMOTE_WRITE } };

	NEED(mw);
	if (!wrong)
		NEED(ibv_bind_mw(ends.b, mw, &bind) == 0 && next_status(rig->cq) == IBV_WC_SUCCESS);
	NEED(post(ends.a, rig, IBV_WR_RDMA_WRITE, 0, 64, 4096, mw->rkey) == 0);
	CHECK((next_status(rig->cq) == IBV_WC_SUCCESS) == !wrong);
}

/* The last request of an array points behind it. */
static void next_behind_last(struct rig *rig, bool wrong)
{
	struct ends ends = link_up(rig, &(struct link){ 0 });
	struct ibv_sge sge = { (uintptr_t)rig->buf, 64, rig->mr->lkey };
	struct ibv_send_wr *bad, wr[3] = { 0 };

	two_sends(rig, ends.b, &sge, wr);
	if (!wrong)
		wr[1].next = NULL;
	NEED(ibv_post_send(ends.a, wr, &bad) == 0);
	CHECK(poll_for(rig->cq, 4 + wrong, 3) == 4 + wrong);
}

/* The SRQ of the receiver has no receive. */
static void srq_without_receives(struct rig *rig, bool wrong)
{
	struct link link = { .srq = new_srq(rig, 4), .rnr_retry = 7 };
	struct ends ends = link_up(rig, &link);

	if (!wrong)
		NEED(srq_recv(link.srq, part(rig, 4096, 64)) == 0);
	NEED(send_wr(ends.a, rig, IBV_WR_SEND, 0, 0, 64) == 0);
	CHECK(poll_for(rig->cq, 2, wrong ? LONG : 5) == (wrong ? 0 : 2));
}

/* Both acknowledgments are for the CQ of the event that came last. */
static void acks_the_last(struct rig *rig, bool wrong)
{
	struct ibv_comp_channel *channel = KEEP(ibv_create_comp_channel(rig->context));
	struct ibv_cq *cq[2], *of[2];
	void *context;

	for (int i = 0; i < 2; i++)
		cq[i] = KEEP(ibv_create_cq(rig->context, 16, NULL, channel, 0));
	for (int i = 0; i < 2; i++) {
		struct ends ends = link_up(rig, &(struct link){ .send_cq = cq[i] });

		NEED(ibv_req_notify_cq(cq[i], 0) == 0);
		NEED(send_wr(ends.a, rig, IBV_WR_RDMA_WRITE, 0, 0, 8) == 0);
		NEED(ibv_get_cq_event(channel, &of[i], &context) == 0);
		CHECK(next_status(cq[i]) == IBV_WC_SUCCESS);
	}
	ibv_ack_cq_events(of[wrong], 1);
	ibv_ack_cq_events(of[1], 1);
	if (wrong)
		leave_after(3);
}

/* A UD queue pair with these operations and flags. */
static void new_ud(struct rig *rig, uint64_t ops, uint32_t flags, bool wrong)
{
	struct ibv_qp_init_attr_ex attr = { .send_cq = rig->cq,
					    .recv_cq = rig->cq,
					    .cap = { 4, 4, 1, 1, 0 },
					    .qp_type = IBV_QPT_UD,
					    .comp_mask = IBV_QP_INIT_ATTR_PD |
							 (ops ? IBV_QP_INIT_ATTR_SEND_OPS_FLAGS
							      : IBV_QP_INIT_ATTR_CREATE_FLAGS),
					    .pd = rig->pd,
					    .create_flags = flags,
					    .send_ops_flags = ops };

	CHECK(!KEEP(ibv_create_qp_ex(rig->context, &attr)) == wrong);
}

static void write_on_ud(struct rig *rig, bool wrong)
{
	new_ud(rig, IBV_QP_EX_WITH_SEND | (wrong ? IBV_QP_EX_WITH_RDMA_WRITE : 0), 0, wrong);
}

static void vlan_stripping(struct rig *rig, bool wrong)
{
	new_ud(rig, 0, wrong ? IBV_QP_CREATE_CVLAN_STRIPPING : 0, wrong);
}

/* Advice about a region whose pages are pinned. */
static void advice_if_pinned(struct rig *rig, bool wrong)
{
	unsigned access = IBV_ACCESS_LOCAL_WRITE | (wrong ? 0 : IBV_ACCESS_ON_DEMAND);
	struct ibv_mr *mr = KEEP(ibv_reg_mr(rig->pd, rig->buf, SIZE, access));
	NEED(mr);
	struct ibv_sge sge = { (uintptr_t)rig->buf, SIZE, mr->lkey };

	CHECK(!ibv_advise_mr(rig->pd, IBV_ADVISE_MR_ADVICE_PREFETCH, IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1) ==
	      !wrong);
}

static void destroyed_cq_polled(struct rig *rig, bool wrong)
{
	struct ibv_cq *cq = KEEP(ibv_create_cq(rig->context, 16, NULL, NULL, 0));
	struct ibv_wc wc;

	NEED(cq);
	if (wrong)
		CHECK(end(cq) == 0);
	CHECK(ibv_poll_cq(cq, 1, &wc) <= 0);
}

static void closed_file_of_domain(struct rig *rig, bool wrong)
{
	CHECK(!KEEP(open_domain(rig, wrong ? 1000 : -1, O_CREAT)) == wrong);
}

const struct mistake reported_mistakes[] = {
	{ "write-on-ud", write_on_ud, "argument", "UD queue pairs do not have the operations of 0x1" },
	{ "vlan-stripping", vlan_stripping, "argument", "IBV_QP_CREATE_CVLAN_STRIPPING" },
	{ "advice-if-pinned", advice_if_pinned, "argument", "lacks IBV_ACCESS_ON_DEMAND" },
	{ "destroyed-cq-polled", destroyed_cq_polled, "dead-object", "has been destroyed" },
	{ "closed-file-of-domain", closed_file_of_domain, "call-failed",
	  "a file descriptor that an argument" },
	{ "region-moved", region_moved, "key-range", "realloc() has moved it" },
	{ "offsets-wanted", offsets_wanted, "key-range", "the region begins at 0" },
	{ "address-far-away", address_far_away, "key-range", "that of a pointer (&buffer)" },
	{ "moderated", moderated, "no-event", "one comes with 16 completions" },
	{ "window-key-early", window_key_early, "argument", "which it had before any bind" },
	{ "next-behind-last", next_behind_last, "no-data", "all its members are 0" },
	{ "srq-without-receives", srq_without_receives, "no-completion", "has an SRQ without a receive" },
	{ "acks-the-last", acks_the_last, "events-overacked", "which has the same channel, was not" },
	{ "no-such-name", no_such_name, "argument", "device is NULL; the list has uroce0" },
	{ "raw-packets", raw_packets, "argument", "qp_type is that of raw packet queue pairs" },
	{ "file-as-dmabuf", file_as_dmabuf, "argument", "is no dma-buf, but /memfd:buffer" },
	{ "dmabuf-not-exported", dmabuf_not_exported, "argument", "fd -1 is no open file" },
	{ "bad-wr-null", bad_wr_null, "crash", "a call that refuses a request writes" },
	{ "connected-again", connected_again, "qp-attr-invalid", "to connect it anew, modify it to RESET" },
	{ NULL },
};
