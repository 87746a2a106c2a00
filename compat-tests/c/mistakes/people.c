/* Mistakes that people have asked about in forums and issue trackers. */
#include "mistakes.h"

#include <fcntl.h>

/* The region is as long as the pointer, in place of what it points to. */
static void sizeof_pointer(struct rig *rig, bool wrong)
{
	struct ends ends = link_up(rig, &(struct link){ 0 });
	char *data = KEEP(calloc(1, 4096));
	struct ibv_mr *mr = KEEP(
		ibv_reg_mr(rig->pd, data, wrong ? sizeof(data) : 4096, IBV_ACCESS_LOCAL_WRITE));
	struct ibv_sge sge = { (uintptr_t)data, 512, mr->lkey };

	NEED(post_recv(ends.b, rig, 1, 4096, 1024) == 0);
	CHECK(succeeds(rig, ends.a, sge, IBV_WR_SEND, 0, 0) == !wrong);
}

static bool write_to(struct rig *rig, uint64_t addr, uint32_t rkey)
{
	struct ends ends = link_up(rig, &(struct link){ 0 });

	return succeeds(rig, ends.a, part(rig, 0, 64), IBV_WR_RDMA_WRITE, addr, rkey);
}

/* The peer's address was exchanged in an int. */
static void address_in_int(struct rig *rig, bool wrong)
{
	uint64_t addr = (uintptr_t)rig->buf;

	CHECK(write_to(rig, wrong ? (uint32_t)addr : addr, rig->mr->rkey) == !wrong);
}

/* ntohll is missing. */
static void address_swapped(struct rig *rig, bool wrong)
{
	uint64_t addr = (uintptr_t)rig->buf;

	CHECK(write_to(rig, wrong ? __builtin_bswap64(addr) : addr, rig->mr->rkey) == !wrong);
}

/* ntohl of the key is missing. */
static void rkey_swapped(struct rig *rig, bool wrong)
{
	uint32_t key = rig->mr->rkey;

	CHECK(write_to(rig, (uintptr_t)rig->buf, wrong ? __builtin_bswap32(key) : key) == !wrong);
}

/* Armed once, for several events. */
static void armed_once(struct rig *rig, bool wrong)
{
	struct ibv_comp_channel *channel = KEEP(ibv_create_comp_channel(rig->context));
	struct ibv_cq *cq = KEEP(ibv_create_cq(rig->context, 16, NULL, channel, 0)), *got;
	struct ends ends = link_up(rig, &(struct link){ .send_cq = cq, .recv_cq = cq });
	struct pollfd fd = { .fd = channel->fd, .events = POLLIN };
	struct ibv_wc wc;
	void *context;

	NEED(ibv_req_notify_cq(cq, 0) == 0);
	for (int i = 0; i < 2; i++) {
		NEED(send_wr(ends.a, rig, IBV_WR_RDMA_WRITE, 0, 0, 8) == 0);
		if (poll(&fd, 1, 2 * LONG * 1000) == 0)
			break;
		NEED(ibv_get_cq_event(channel, &got, &context) == 0);
		ibv_ack_cq_events(got, 1);
		if (!wrong)
			NEED(ibv_req_notify_cq(cq, 0) == 0);
		while (ibv_poll_cq(cq, 1, &wc) > 0)
			;
	}
	if (wrong)
		poll_for(cq, 1, 1);
}

/* A channel that does not block has no event yet: no mistake if it is tried again. */
static void channel_does_not_block(struct rig *rig, bool wrong)
{
	struct ibv_comp_channel *channel = KEEP(ibv_create_comp_channel(rig->context));
	struct ibv_cq *got;
	void *context;

	NEED(KEEP(ibv_create_cq(rig->context, 16, NULL, channel, 0)));
	NEED(fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK) == 0);
	CHECK(ibv_get_cq_event(channel, &got, &context) != 0 && errno == EAGAIN);
	if (wrong)
		CHECK(end(channel) == EBUSY);
}

/* Both sides wait for a message of the other. */
static void both_receive(struct rig *rig, bool wrong)
{
	struct ends ends = link_up(rig, &(struct link){ 0 });

	NEED(post_recv(ends.a, rig, 1, 0, 64) == 0 && post_recv(ends.b, rig, 1, 4096, 64) == 0);
	if (!wrong)
		NEED(send_wr(ends.a, rig, IBV_WR_SEND, 0, 0, 64) == 0);
	CHECK((poll_for(rig->cq, 1, LONG) == 1) == !wrong);
}

/* Receives are posted to the queue pair of another connection. */
static void recv_on_other_qp(struct rig *rig, bool wrong)
{
	struct link link = { 0 };
	struct ends one = link_up(rig, &link), two = link_up(rig, &link);

	NEED(post_recv(wrong ? two.b : one.b, rig, 1, 4096, 64) == 0);
	CHECK(works(rig, one.a, IBV_WR_SEND, 64) == !wrong);
}

/* retry_cnt has three bits. */
static void retry_cnt_large(struct rig *rig, bool wrong)
{
	struct link link = { .stays = IBV_QPS_RTR };
	struct ibv_qp *qp = link_qp(rig, &link);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS,
				    .sq_psn = 100,
				    .timeout = 14,
				    .retry_cnt = wrong ? 10 : 7,
				    .rnr_retry = 7,
				    .max_rd_atomic = 1 };
	int mask = RTS_MASK;

	NEED(link_to(rig, qp, &link, qp->qp_num, rig->gid, true) == 0);
	CHECK(!ibv_modify_qp(qp, &attr, mask) == !wrong);
}

/* After an error the queue pair is moved back without RESET. */
static void rts_after_error(struct rig *rig, bool wrong)
{
	struct ends ends = link_up(rig, &(struct link){ 0 });
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	NEED(ibv_modify_qp(ends.a, &attr, IBV_QP_STATE) == 0);
	attr.qp_state = IBV_QPS_RESET;
	if (!wrong)
		NEED(ibv_modify_qp(ends.a, &attr, IBV_QP_STATE) == 0);
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_INIT, .port_num = PORT };
	CHECK(!ibv_modify_qp(ends.a, &attr,
			     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == !wrong);
}

/* ibv_modify_qp without the bit of the state: it succeeds, and the state stays. */
static void state_not_in_mask(struct rig *rig, bool wrong)
{
	struct ibv_qp *qp = link_qp(rig, &(struct link){ 0 });
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = PORT };
	int mask = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;

	ibv_modify_qp(qp, &attr, wrong ? mask : mask | IBV_QP_STATE);
	CHECK(!post_recv(qp, rig, 1, 0, 64) == !wrong);
}

/* The context is closed before its objects are freed. */
static void closed_early(struct rig *rig, bool wrong)
{
	struct ibv_context *context = KEEP(ibv_open_device(rig->context->device));
	struct ibv_pd *pd = ibv_alloc_pd(context);

	NEED(pd);
	if (wrong)
		CHECK(end(context) == 0);
	CHECK(!ibv_dealloc_pd(pd) == !wrong);
}

/* A queue pair that was not created as an extended one. */
static void not_extended(struct rig *rig, bool wrong)
{
	struct ibv_qp *qp = make_qp(rig, IBV_QPT_RC, wrong ? 0 : IBV_QP_EX_WITH_SEND, NULL);

	CHECK(!ibv_qp_to_qp_ex(qp) == wrong);
}

/* An operation that send_ops_flags does not have. */
static void op_not_asked(struct rig *rig, bool wrong)
{
	uint64_t ops = wrong ? IBV_QP_EX_WITH_SEND : IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE;
	struct ibv_qp *qp = make_qp(rig, IBV_QPT_RC, ops, NULL);
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);

	join(rig, qp, qp);
	ibv_wr_start(ex);
	ex->wr_id = 3;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(ex, rig->mr->rkey, (uintptr_t)rig->buf);
	ibv_wr_set_sge(ex, rig->mr->lkey, (uintptr_t)rig->buf + 512, 8);
	/* A device may have the function all the same. */
	CHECK(ibv_wr_complete(ex) == 0 && next_status(rig->cq) == IBV_WC_SUCCESS);
}

/* An SRQ without receives. */
static void srq_empty(struct rig *rig, bool wrong)
{
	struct ibv_srq *srq = new_srq(rig, 16);
	struct ends ends = link_up(rig, &(struct link){ .srq = srq });

	if (!wrong)
		NEED(srq_recv(srq, part(rig, 4096, 64)) == 0);
	CHECK(works(rig, ends.a, IBV_WR_SEND, 64) == !wrong);
}

const struct mistake people_mistakes[] = {
	{ "sizeof-pointer", sizeof_pointer, "key-range", "sizeof of a pointer" },
	{ "address-in-int", address_in_int, "key-range", "where uint64_t is needed" },
	{ "address-swapped", address_swapped, "key-range", "htobe64 or be64toh is missing" },
	{ "rkey-swapped", rkey_swapped, "key-unknown", "htonl or ntohl is missing" },
	{ "armed-once", armed_once, "no-event", "was not armed again after its last event" },
	{ "channel-busy", channel_does_not_block, "busy", "it is still used by CQ" },
	{ "both-receive", both_receive, "no-completion", "both sides wait for the first message" },
	{ "recv-on-other-qp", recv_on_other_qp, "rnr-exceeded",
	  "1 receives are posted to another queue pair" },
	{ "retry-cnt-large", retry_cnt_large, "attr-range", "retry_cnt is 10" },
	{ "rts-after-error", rts_after_error, "qp-transition", "from ERR to INIT" },
	{ "state-not-in-mask", state_not_in_mask, "qp-attr-missing", "lacks IBV_QP_STATE" },
	{ "closed-early", closed_early, "dead-object", "ibv_close_device has closed its device" },
	{ "not-extended", not_extended, "argument", "created without send_ops_flags" },
	{ "op-not-asked", op_not_asked, "argument", "lacks IBV_QP_EX_WITH_RDMA_WRITE" },
	{ "srq-empty", srq_empty, "rnr-exceeded", "the peer's queue pair's SRQ" },
	{ NULL },
};
