/* More mistakes that people have asked about. */
#include "mistakes.h"

#include <pthread.h>
#include <sys/epoll.h>

/* A queue pair that cannot send. */
static void no_send_queue(struct rig *rig, bool wrong)
{
	struct ibv_qp_init_attr attr = { .send_cq = rig->cq,
					 .recv_cq = rig->cq,
					 .cap = { .max_send_wr = wrong ? 0 : 1,
						  .max_recv_wr = 1,
						  .max_send_sge = 1,
						  .max_recv_sge = 1 },
					 .qp_type = IBV_QPT_RC,
					 .sq_sig_all = 1 };
	struct ibv_qp *qp = KEEP(ibv_create_qp(rig->pd, &attr));

	NEED(qp);
	join(rig, qp, qp);
	CHECK((post(qp, rig, IBV_WR_RDMA_WRITE, 0, 8, 512, rig->mr->rkey) == 0) == !wrong);
	if (!wrong)
		CHECK(next_status(rig->cq) == IBV_WC_SUCCESS);
}

/* A multicast group whose address is none. */
static void mcast_address(struct rig *rig, bool wrong)
{
	struct ends ends = link_up(rig, &(struct link){ .type = IBV_QPT_UD });
	union ibv_gid group = { .raw = { [10] = 0xff, 0xff, wrong ? 192 : 239, 0, 0, 7 } };

	CHECK(!ibv_attach_mcast(ends.a, &group, 0) == !wrong);
	if (!wrong)
		CHECK(ibv_detach_mcast(ends.a, &group, 0) == 0);
}

/* The region that the peer writes to is deregistered. */
static void stale_rkey(struct rig *rig, bool wrong)
{
	struct ends ends = link_up(rig, &(struct link){ 0 });
	char *data = KEEP(calloc(1, 4096));
	struct ibv_mr *mr = KEEP(ibv_reg_mr(rig->pd, data, 4096, ALL_ACCESS));
	uint32_t rkey = mr->rkey;

	if (wrong)
		NEED(end(mr) == 0);
	CHECK(succeeds(rig, ends.a, part(rig, 0, 64), IBV_WR_RDMA_WRITE, (uintptr_t)data, rkey) == !wrong);
}

/* An event of a channel that is in an epoll; the CQ was not armed. */
static void epoll_unarmed(struct rig *rig, bool wrong)
{
	struct ibv_comp_channel *channel = KEEP(ibv_create_comp_channel(rig->context));
	struct ibv_cq *cq = KEEP(ibv_create_cq(rig->context, 16, NULL, channel, 0)), *got;
	struct ends ends = link_up(rig, &(struct link){ .send_cq = cq, .recv_cq = cq });
	struct epoll_event event = { .events = EPOLLIN };
	int epoll = epoll_create1(0);
	void *context;

	NEED(epoll_ctl(epoll, EPOLL_CTL_ADD, channel->fd, &event) == 0);
	if (!wrong)
		NEED(ibv_req_notify_cq(cq, 0) == 0);
	NEED(send_wr(ends.a, rig, IBV_WR_RDMA_WRITE, 0, 0, 8) == 0);
	CHECK(epoll_wait(epoll, &event, 1, 2 * LONG * 1000) == !wrong);
	if (!wrong) {
		NEED(ibv_get_cq_event(channel, &got, &context) == 0);
		ibv_ack_cq_events(got, 1);
	}
	poll_for(cq, 1, 1);
	close(epoll);
}

/* num_sge is not set: stack garbage. */
static void num_sge_garbage(struct rig *rig, bool wrong)
{
	struct ends ends = link_up(rig, &(struct link){ 0 });
	struct ibv_sge sge = { (uintptr_t)rig->buf, 64, rig->mr->lkey };
	struct ibv_send_wr *bad, wr = { .wr_id = 5,
					.sg_list = &sge,
					.num_sge = wrong ? 21853 : 1,
					.opcode = IBV_WR_RDMA_WRITE,
					.send_flags = 0 };

	wr.wr.rdma.remote_addr = (uintptr_t)rig->buf + 4096;
	wr.wr.rdma.rkey = rig->mr->rkey;
	CHECK(!ibv_post_send(ends.a, &wr, &bad) == !wrong);
	if (!wrong)
		CHECK(next_status(rig->cq) == IBV_WC_SUCCESS);
}

/* The opcode is not set. */
static void opcode_unset(struct rig *rig, bool wrong)
{
	struct ends ends = link_up(rig, &(struct link){ 0 });

	NEED(post_recv(ends.b, rig, 1, 4096, 64) == 0);
	CHECK(!send_to(ends.a, part(rig, 0, 64), wrong ? 99 : IBV_WR_SEND, 0, 0) == !wrong);
	if (!wrong)
		CHECK(poll_for(rig->cq, 2, 1) == 2);
}

/* The peer's region may not be written to. */
static void mr_without_remote_write(struct rig *rig, bool wrong)
{
	struct ends ends = link_up(rig, &(struct link){ 0 });
	char *data = KEEP(calloc(1, 4096));
	int access = IBV_ACCESS_LOCAL_WRITE | (wrong ? 0 : IBV_ACCESS_REMOTE_WRITE);
	struct ibv_mr *mr = KEEP(ibv_reg_mr(rig->pd, data, 4096, access));

	CHECK(succeeds(rig, ends.a, part(rig, 0, 64), IBV_WR_RDMA_WRITE, (uintptr_t)data, mr->rkey) ==
	      !wrong);
}

/* A poll is begun and not ended. */
static void poll_not_ended(struct rig *rig, bool wrong)
{
	struct ibv_cq_init_attr_ex init = { .cqe = 16 };
	struct ibv_cq_ex *cq = KEEP(ibv_create_cq_ex(rig->context, &init));
	struct ends ends = link_up(rig, &(struct link){ .send_cq = ibv_cq_ex_to_cq(cq),
							.recv_cq = ibv_cq_ex_to_cq(cq) });
	struct ibv_poll_cq_attr attr = { 0 };
	int tries = 0;

	NEED(send_wr(ends.a, rig, IBV_WR_RDMA_WRITE, 0, 0, 8) == 0);
	while (ibv_start_poll(cq, &attr) && tries++ < 10000)
		usleep(100);
	if (wrong)
		leave_after(1);
	else
		ibv_end_poll(cq);
	if (ibv_start_poll(cq, &attr) == 0)
		ibv_end_poll(cq);
}

/* The device is opened a second time, and the region is of that one. */
static void region_of_other_context(struct rig *rig, bool wrong)
{
	struct ibv_context *context = KEEP(ibv_open_device(rig->context->device));
	struct ibv_pd *pd = KEEP(ibv_alloc_pd(context));
	struct ibv_mr *mr = KEEP(ibv_reg_mr(wrong ? pd : rig->pd, rig->buf, 4096, ALL_ACCESS));
	struct ends ends = link_up(rig, &(struct link){ 0 });
	struct ibv_sge sge = { (uintptr_t)rig->buf, 64, mr->lkey };

	NEED(post_recv(ends.b, rig, 1, 4096, 1024) == 0);
	CHECK(succeeds(rig, ends.a, sge, IBV_WR_SEND, 0, 0) == !wrong);
}

/* The device has one port. */
static void port_of_none(struct rig *rig, bool wrong)
{
	struct ibv_qp *qp = link_qp(rig, &(struct link){ 0 });
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = wrong ? 2 : PORT };
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;

	CHECK(!ibv_modify_qp(qp, &attr, mask) == !wrong);
}

/* More elements than the queue pair was created for. */
static void two_sge(struct rig *rig, bool wrong)
{
	struct ibv_qp *qp = make_qp(rig, IBV_QPT_RC, 0, NULL);
	struct ibv_sge sges[40];
	struct ibv_recv_wr *bad, wr = { .wr_id = 5, .sg_list = sges, .num_sge = wrong ? 40 : 1 };

	for (int i = 0; i < 40; i++)
		sges[i] = (struct ibv_sge){ (uintptr_t)rig->buf, 8, rig->mr->lkey };
	NEED(to_init(qp) == 0);
	CHECK(!ibv_post_recv(qp, &wr, &bad) == !wrong);
}

/* A CQ without entries. */
static void resize_small(struct rig *rig, bool wrong)
{
	CHECK(!ibv_resize_cq(rig->cq, wrong ? 0 : 64) == !wrong);
}

/* The peer's queue pair was reset. */
static void send_to_reset_peer(struct rig *rig, bool wrong)
{
	struct ends ends = link_up(rig, &(struct link){ 0 });
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };

	if (wrong)
		NEED(ibv_modify_qp(ends.b, &attr, IBV_QP_STATE) == 0);
	CHECK(works(rig, ends.a, IBV_WR_RDMA_WRITE, 8) == !wrong);
}

/* Two threads build requests in a queue pair of a thread domain. */
struct shared {
	struct rig *rig;
	struct ibv_qp *qp;
	bool wrong;
};
static void *build(void *arg)
{
	struct shared *shared = arg;
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(shared->qp);

	ibv_wr_start(ex);
	if (shared->wrong)
		usleep(300000);
	ibv_wr_abort(ex);
	return NULL;
}

static void building_at_once(struct rig *rig, bool wrong)
{
	struct ibv_td_init_attr td_attr = { 0 };
	struct ibv_td *td = KEEP(ibv_alloc_td(rig->context, &td_attr));
	struct ibv_parent_domain_init_attr pd_attr = { .pd = rig->pd, .td = td };
	struct ibv_pd *own = rig->pd, *parent = KEEP(ibv_alloc_parent_domain(rig->context, &pd_attr));
	pthread_t threads[2];

	NEED(td && parent);
	rig->pd = parent;
	struct ibv_qp *qp = make_qp(rig, IBV_QPT_RC, IBV_QP_EX_WITH_RDMA_WRITE, NULL);
	rig->pd = own;
	struct shared shared = { rig, qp, wrong };
	join(rig, qp, qp);
	for (int i = 0; i < 2; i++) {
		NEED(pthread_create(&threads[i], NULL, build, &shared) == 0);
		if (!wrong)
			NEED(pthread_join(threads[i], NULL) == 0);
	}
	for (int i = 0; i < 2 && wrong; i++)
		NEED(pthread_join(threads[i], NULL) == 0);
}

/* The CQ has no channel: no event comes. */
static void armed_without_channel(struct rig *rig, bool wrong)
{
	struct ibv_comp_channel *channel = KEEP(ibv_create_comp_channel(rig->context));
	struct ibv_cq *cq = KEEP(ibv_create_cq(rig->context, 16, NULL, wrong ? NULL : channel, 0));

	NEED(cq && ibv_req_notify_cq(cq, 0) == 0);
}

/* UC drops what does not fit, or finds no receive. */
static void unreliable(struct rig *rig, int room, bool early)
{
	struct ends ends = link_up(rig, &(struct link){ .type = IBV_QPT_UC });
	bool arrives = room >= 64 && early;

	NEED(!early || post_recv(ends.b, rig, 1, 4096, room) == 0);
	CHECK(works(rig, ends.a, IBV_WR_SEND, 64));
	/* The message comes before the receive. */
	NEED(early || (poll_for(rig->cq, 1, 0.3) == 0 && post_recv(ends.b, rig, 1, 4096, room) == 0));
	CHECK(poll_for(rig->cq, 1, LONG) == arrives);
}

static void uc_small(struct rig *rig, bool wrong)
{
	unreliable(rig, wrong ? 8 : 64, true);
}

static void uc_late(struct rig *rig, bool wrong)
{
	unreliable(rig, 64, !wrong);
}

const struct mistake more_mistakes[] = {
	{ "no-send-queue", no_send_queue, "argument", "created with max_send_wr = 0" },
	{ "mcast-address", mcast_address, "argument", "is not that of a group" },
	{ "stale-rkey", stale_rkey, "key-deregistered", "has been deregistered" },
	{ "epoll-unarmed", epoll_unarmed, "no-event", "was never armed, and 1 completions wait in it" },
	{ "num-sge-garbage", num_sge_garbage, "sge-limit", "21853 scatter/gather elements" },
	{ "opcode-unset", opcode_unset, "argument", "is 99, which verbs.h does not have" },
	{ "mr-without-remote-write", mr_without_remote_write, "key-access", "lacks IBV_ACCESS_REMOTE_WRITE" },
	{ "poll-not-ended", poll_not_ended, "argument", "has not called ibv_end_poll" },
	{ "region-of-other-context", region_of_other_context, "key-unknown",
	  "of another context, that of uroce0" },
	{ "port-of-none", port_of_none, "attr-range", "port_num is 2" },
	{ "two-sge", two_sge, "sge-limit", "max_recv_sge is 4" },
	{ "resize-small", resize_small, "attr-range", "cqe is 0" },
	{ "send-to-reset-peer", send_to_reset_peer, "retry-exceeded", "is in RESET, and receives nothing" },
	{ "building-at-once", building_at_once, "thread-domain", "were in ibv_wr_start at the same time" },
	{ "armed-without-channel", armed_without_channel, "argument",
	  "created without a completion channel" },
	{ "uc-small", uc_small, "no-completion", "UC drops a message" },
	{ "uc-late", uc_late, "no-completion", "UC drops a message" },
	{ NULL },
};
