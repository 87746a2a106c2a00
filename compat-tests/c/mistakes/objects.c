/* Mistakes with shared receive queues, XRC, memory windows, regions and address handles. */
#include "mistakes.h"

#include <pthread.h>

/* The length of the region is a number of elements. */
static void local_range(struct rig *rig, bool wrong)
{
	struct ends ends = link_up(rig, &(struct link){ 0 });
	enum {
		COUNT = 256
	};
	double *values = KEEP(calloc(COUNT, sizeof(*values)));
	struct ibv_mr *mr = KEEP(
		ibv_reg_mr(rig->pd, values, wrong ? COUNT : COUNT * sizeof(*values), ALL_ACCESS));
	struct ibv_sge sge = { (uintptr_t)values, COUNT * sizeof(*values), mr->lkey };

	NEED(post_recv(ends.b, rig, 1, 4096, 4096) == 0);
	CHECK(succeeds(rig, ends.a, sge, IBV_WR_SEND, 0, 0) == !wrong);
}

/* The address of the pointer, and not the pointer. */
static void address_of_pointer(struct rig *rig, bool wrong)
{
	struct ends ends = link_up(rig, &(struct link){ 0 });
	char *data = KEEP(calloc(1, 4096));
	struct ibv_mr *mr = KEEP(ibv_reg_mr(rig->pd, data, 4096, ALL_ACCESS));
	struct ibv_sge sge = { wrong ? (uintptr_t)&data : (uintptr_t)data, 64, mr->lkey };

	NEED(post_recv(ends.b, rig, 1, 4096, 4096) == 0);
	CHECK(succeeds(rig, ends.a, sge, IBV_WR_SEND, 0, 0) == !wrong);
}

/* A receive without elements: num_sge was forgotten. */
static void recv_no_sge(struct rig *rig, bool wrong)
{
	struct ends ends = link_up(rig, &(struct link){ 0 });
	struct ibv_sge sge = part(rig, 4096, 64);
	struct ibv_recv_wr *bad, wr = { .wr_id = 3, .sg_list = &sge, .num_sge = !wrong };

	NEED(ibv_post_recv(ends.b, &wr, &bad) == 0);
	CHECK(works(rig, ends.a, IBV_WR_SEND, 64) == !wrong);
	poll_for(rig->cq, 1, 0.3);
}

/* The region that the peer adds to does not allow it. */
static void atomic_no_right(struct rig *rig, bool wrong)
{
	struct ends ends = link_up(rig, &(struct link){ 0 });
	uint64_t *counter = KEEP(aligned_alloc(4096, 4096));
	int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
	struct ibv_mr *mr = KEEP(
		ibv_reg_mr(rig->pd, counter, 4096, access | (wrong ? 0 : IBV_ACCESS_REMOTE_ATOMIC)));

	NEED(send_to(ends.a, part(rig, 0, 8), IBV_WR_ATOMIC_FETCH_AND_ADD, (uintptr_t)counter, mr->rkey) ==
	     0);
	CHECK((next_status(rig->cq) == IBV_WC_SUCCESS) == !wrong);
}

/* The region is zero-based: the peer's address is an offset. */
static void zero_based(struct rig *rig, bool wrong)
{
	struct ends ends = link_up(rig, &(struct link){ 0 });
	char *data = KEEP(aligned_alloc(4096, 4096));
	struct ibv_mr *mr = KEEP(ibv_reg_mr_iova(rig->pd, data, 4096, 0, ALL_ACCESS));

	NEED(mr);
	NEED(send_to(ends.a, part(rig, 0, 64), IBV_WR_RDMA_WRITE, wrong ? (uintptr_t)data : 0, mr->rkey) ==
	     0);
	CHECK((next_status(rig->cq) == IBV_WC_SUCCESS) == !wrong);
}

/* The region is registered again elsewhere; the peer has the old address. */
static void rereg_moved(struct rig *rig, bool wrong)
{
	struct ends ends = link_up(rig, &(struct link){ 0 });
	char *data = KEEP(calloc(2, 4096)), *to = data;
	struct ibv_mr *mr = KEEP(ibv_reg_mr(rig->pd, data, 4096, ALL_ACCESS));

	NEED(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, data + 4096, 4096, 0) == 0);
	to += wrong ? 0 : 4096;
	CHECK(succeeds(rig, ends.a, part(rig, 0, 64), IBV_WR_RDMA_WRITE, (uintptr_t)to, mr->rkey) == !wrong);
}

/* SEND with invalidate takes the key of a window, and not of a region. */
static void invalidates_region(struct rig *rig, bool wrong)
{
	struct ends ends = link_up(rig, &(struct link){ 0 });

	NEED(post_recv(ends.b, rig, 1, 4096, 64) == 0);
	NEED(send_to(ends.a, part(rig, 0, 64), wrong ? IBV_WR_SEND_WITH_INV : IBV_WR_SEND, 0,
		     rig->mr->rkey) == 0);
	CHECK((next_status(rig->cq) == IBV_WC_SUCCESS) == !wrong);
	poll_for(rig->cq, 1, 0.3);
}

/* More receives than the SRQ has room for. */
static void srq_full(struct rig *rig, bool wrong)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 8, .max_sge = 1 } };
	struct ibv_srq *srq = KEEP(ibv_create_srq(rig->pd, &attr));
	unsigned count = attr.attr.max_wr + wrong, taken = 0;

	NEED(srq);
	while (taken < count && !srq_recv(srq, part(rig, 0, 0)))
		taken++;
	CHECK(taken == attr.attr.max_wr);
}

/* More elements than the SRQ was created for. */
static void srq_sges(struct rig *rig, bool wrong)
{
	struct ibv_srq *srq = new_srq(rig, 8);
	struct ibv_sge sges[40];
	struct ibv_recv_wr *bad, wr = { .wr_id = 4, .sg_list = sges, .num_sge = wrong ? 40 : 1 };

	for (int i = 0; i < 40; i++)
		sges[i] = part(rig, 64 * i, 64);
	CHECK(!ibv_post_srq_recv(srq, &wr, &bad) == !wrong);
}

/* Waits for IBV_EVENT_SRQ_LIMIT_REACHED; the limit was not set. */
static void srq_limit_wait(struct rig *rig, bool wrong)
{
	struct ibv_srq *srq = new_srq(rig, 8);
	struct ends ends = link_up(rig, &(struct link){ .srq = srq });
	struct ibv_srq_attr attr = { .srq_limit = 2 };
	struct ibv_async_event event;

	for (int i = 0; i < 2; i++)
		NEED(srq_recv(srq, part(rig, 4096, 64)) == 0);
	if (!wrong)
		NEED(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT) == 0);
	NEED(send_wr(ends.a, rig, IBV_WR_SEND, 0, 0, 64) == 0);
	CHECK(poll_for(rig->cq, 2, 1) == 2);
	if (wrong)
		leave_after(3);
	NEED(ibv_get_async_event(rig->context, &event) == 0);
	ibv_ack_async_event(&event);
}

/* Acknowledges an event of an SRQ while that is destroyed, after it has created another SRQ. */
struct srq_ack {
	struct rig *rig;
	struct ibv_async_event event;
	bool late;
};

static void *ack_srq(void *arg)
{
	struct srq_ack *ack = arg;
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 4, .max_sge = 1 } };

	usleep(ack->late ? 2000000 : 100000);
	struct ibv_srq *srq = ibv_create_srq(ack->rig->pd, &attr);
	CHECK(srq && ibv_destroy_srq(srq) == 0);
	ibv_ack_async_event(&ack->event);
	return NULL;
}

static void srq_unacked(struct rig *rig, bool wrong)
{
	struct ibv_srq *srq = new_srq(rig, 8);
	struct ends ends = link_up(rig, &(struct link){ .srq = srq });
	struct ibv_srq_attr attr = { .srq_limit = 2 };
	struct srq_ack ack = { .rig = rig, .late = wrong };
	pthread_t thread;

	for (int i = 0; i < 2; i++)
		NEED(srq_recv(srq, part(rig, 4096, 64)) == 0);
	NEED(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT) == 0);
	CHECK(works(rig, ends.a, IBV_WR_SEND, 64) && next_status(rig->cq) == IBV_WC_SUCCESS);
	NEED(ibv_get_async_event(rig->context, &ack.event) == 0);
	unlink_qps(ends);
	NEED(pthread_create(&thread, NULL, ack_srq, &ack) == 0);
	CHECK(end(srq) == 0);
	NEED(pthread_join(thread, NULL) == 0);
}

/* A window of type 1 is bound with ibv_bind_mw, and not with ibv_post_send. */
static void mw_type_1(struct rig *rig, bool wrong)
{
	struct ends ends = link_up(rig, &(struct link){ 0 });
	struct ibv_mr *mr = KEEP(ibv_reg_mr(rig->pd, rig->buf, 4096, ALL_ACCESS));
	struct ibv_mw *mw = KEEP(ibv_alloc_mw(rig->pd, wrong ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2));
	struct ibv_send_wr *bad, wr = { .wr_id = 6, .opcode = IBV_WR_BIND_MW };

	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
	wr.bind_mw.bind_info = (struct ibv_mw_bind_info){ mr, (uintptr_t)rig->buf, 64,
							  IBV_ACCESS_REMOTE_WRITE };
	/* Some devices do it nevertheless. */
	if (ibv_post_send(ends.a, &wr, &bad) == 0)
		CHECK(next_status(rig->cq) == IBV_WC_SUCCESS || wrong);
}

static struct ibv_mw *bound(struct rig *rig, struct ibv_qp *qp, unsigned length, int *status)
{
	struct ibv_mw *mw = KEEP(ibv_alloc_mw(rig->pd, IBV_MW_TYPE_1));
	struct ibv_mw_bind bind = { .wr_id = 7,
				    .send_flags = IBV_SEND_SIGNALED,
				    .bind_info = { rig->mr, (uintptr_t)rig->buf + 4096, length,
						   IBV_ACCESS_REMOTE_WRITE } };

	NEED(mw);
	*status = ibv_bind_mw(qp, mw, &bind) ? -1 : next_status(rig->cq);
	return mw;
}

/* The key from before the bind. */
static void mw_old_rkey(struct rig *rig, bool wrong)
{
	struct ends ends = link_up(rig, &(struct link){ 0 });
	int status;
	struct ibv_mw *mw = bound(rig, ends.b, 64, &status);
	uint32_t before = mw->rkey;
	struct ibv_mw_bind bind = { .send_flags = IBV_SEND_SIGNALED,
				    .bind_info = { rig->mr, (uintptr_t)rig->buf + 4096, 64,
						   IBV_ACCESS_REMOTE_WRITE } };

	CHECK(status == IBV_WC_SUCCESS);
	NEED(ibv_bind_mw(ends.b, mw, &bind) == 0);
	CHECK(next_status(rig->cq) == IBV_WC_SUCCESS);
	NEED(send_to(ends.a, part(rig, 0, 64), IBV_WR_RDMA_WRITE, (uintptr_t)rig->buf + 4096,
		     wrong ? before : mw->rkey) == 0);
	CHECK((next_status(rig->cq) == IBV_WC_SUCCESS) == !wrong);
}

/* The peer writes beyond the window. */
static void mw_range(struct rig *rig, bool wrong)
{
	struct ends ends = link_up(rig, &(struct link){ 0 });
	int status;
	struct ibv_mw *mw = bound(rig, ends.b, 64, &status);

	CHECK(status == IBV_WC_SUCCESS);
	NEED(send_to(ends.a, part(rig, 0, wrong ? 128 : 64), IBV_WR_RDMA_WRITE, (uintptr_t)rig->buf + 4096,
		     mw->rkey) == 0);
	CHECK((next_status(rig->cq) == IBV_WC_SUCCESS) == !wrong);
}

/* The window leaves the region that it is bound to. */
static void mw_beyond_region(struct rig *rig, bool wrong)
{
	struct ends ends = link_up(rig, &(struct link){ 0 });
	int status;

	bound(rig, ends.b, wrong ? 8192 : 4096, &status);
	CHECK((status == IBV_WC_SUCCESS) == !wrong);
}

/* The region is deregistered before the window. */
static void mr_with_window(struct rig *rig, bool wrong)
{
	struct ends ends = link_up(rig, &(struct link){ 0 });
	struct ibv_mr *kept = rig->mr;
	int status;

	rig->mr = KEEP(ibv_reg_mr(rig->pd, rig->buf, SIZE, ALL_ACCESS));
	bound(rig, ends.b, 64, &status);
	CHECK(status == IBV_WC_SUCCESS);
	if (wrong)
		CHECK(end(rig->mr) != 0);
	rig->mr = kept;
}

/* The number of the SRQ was not exchanged. */
static void xrc_no_srqn(struct rig *rig, bool wrong)
{
	struct domain domain = new_domain(rig);
	struct ends ends = xrc_ends(rig, domain);
	struct ibv_sge sge = part(rig, 0, 64);
	struct ibv_send_wr *bad, wr = { .wr_id = 8, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND };

	NEED(srq_recv(domain.srq, part(rig, 4096, 64)) == 0);
	wr.qp_type.xrc.remote_srqn = wrong ? 0 : domain.number;
	NEED(ibv_post_send(ends.a, &wr, &bad) == 0);
	CHECK((next_status(rig->cq) == IBV_WC_SUCCESS) == !wrong);
	poll_for(rig->cq, 1, 0.3);
}

/* XRC receives from the SRQ, and not from the queue pair. */
static void xrc_recv_post(struct rig *rig, bool wrong)
{
	struct domain domain = new_domain(rig);
	struct ends ends = xrc_ends(rig, domain);

	CHECK(!(wrong ? post_recv(ends.b, rig, 1, 4096, 64) : srq_recv(domain.srq, part(rig, 4096, 64))) ==
	      !wrong);
}

/* The buffer of a datagram is passed without its 40 bytes for the GRH in mind. */
static void ah_from_wc_offset(struct rig *rig, bool wrong)
{
	struct ends ends = link_up(rig, &(struct link){ .type = IBV_QPT_UD });
	struct ibv_ah *ah = new_ah(rig, rig->gid), *back;
	struct ibv_wc wc;

	NEED(post_recv(ends.b, rig, 1, 4096, 256) == 0);
	NEED(datagram(ends.a, ah, ends.b->qp_num, part(rig, 0, 64)) == 0);
	do
		wc = next_wc(rig->cq);
	while (wc.opcode != IBV_WC_RECV);
	poll_for(rig->cq, 1, 0.1);
	back = KEEP(ibv_create_ah_from_wc(rig->pd, &wc,
					  (struct ibv_grh *)(rig->buf + 4096 + (wrong ? 40 : 0)), PORT));
	CHECK(!back == wrong);
}

/* A datagram to a group that the receiver has not joined. */
static void mcast_not_attached(struct rig *rig, bool wrong)
{
	struct ends ends = link_up(rig, &(struct link){ .type = IBV_QPT_UD });
	union ibv_gid group = { .raw = { [10] = 0xff, 0xff, 239, 1, 2, 3 } };
	struct ibv_ah *ah = new_ah(rig, group);

	NEED(ah);
	if (!wrong)
		NEED(ibv_attach_mcast(ends.b, &group, 0) == 0);
	NEED(post_recv(ends.b, rig, 1, 4096, 256) == 0);
	NEED(datagram(ends.a, ah, 0xffffff, part(rig, 0, 64)) == 0);
	CHECK((poll_for(rig->cq, 2, LONG) == 2) == !wrong);
	if (!wrong)
		CHECK(ibv_detach_mcast(ends.b, &group, 0) == 0);
}

const struct mistake object_mistakes[] = {
	{ "local-range", local_range, "key-range", "1792 bytes behind its end" },
	{ "address-of-pointer", address_of_pointer, "key-range", "that of a pointer (&buffer)" },
	{ "recv-no-sge", recv_no_sge, "receive-too-small", "of 0 bytes" },
	{ "atomic-no-right", atomic_no_right, "key-access", "lacks IBV_ACCESS_REMOTE_ATOMIC" },
	{ "zero-based", zero_based, "key-range", "leaves the memory region 0x0..0x1000" },
	{ "rereg-moved", rereg_moved, "key-range", "4096 bytes before its start" },
	{ "invalidates-region", invalidates_region, "argument", "is that of the memory region" },
	{ "srq-full", srq_full, "recv-queue-full", "of 8 receives" },
	{ "srq-sges", srq_sges, "sge-limit", "40 scatter/gather elements" },
	{ "srq-limit-wait", srq_limit_wait, "no-async-event", "an SRQ has no limit that is armed" },
	{ "srq-unacked", srq_unacked, "events-unacked", "1 asynchronous events" },
	{ "mw-type-1", mw_type_1, "argument", "binds a memory window of type 1" },
	{ "mw-old-rkey", mw_old_rkey, "argument", "before it was bound again" },
	{ "mw-range", mw_range, "key-range", "64 bytes behind its end" },
	{ "mw-beyond-region", mw_beyond_region, "argument", "is not within the region" },
	{ "mr-with-window", mr_with_window, "busy", "one of the windows" },
	{ "xrc-no-srqn", xrc_no_srqn, "argument", "names the SRQ number 0x0: it was not set" },
	{ "xrc-recv-post", xrc_recv_post, "argument", "is the receiving end of XRC" },
	{ "ah-from-wc-offset", ah_from_wc_offset, "argument", "begin 40 bytes later" },
	{ "mcast-not-attached", mcast_not_attached, "no-completion",
	  "attached to the multicast group 239.1.2.3" },
	{ NULL },
};
