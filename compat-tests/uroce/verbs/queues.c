/* Completion queues, their channels and overruns; shared receive queues; XRC. */
#include <fcntl.h>

#include "check.h"

static void extended(struct rig *rig)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = 16,
		.wc_flags = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
			    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK,
	};
	struct ibv_cq_ex *ex = ibv_create_cq_ex(rig->context, &attr);
	struct ibv_poll_cq_attr poll_attr = {};
	struct ibv_values_ex values = { .comp_mask = IBV_VALUES_MASK_RAW_CLOCK };
	struct ibv_qp *qp;
	uint64_t stamp;
	int tries = 0;

	NEED(ex);
	rig->cq = ibv_cq_ex_to_cq(ex);
	qp = make_qp(rig, IBV_QPT_RC, 0, NULL);
	join(rig, qp, qp);
	CHECK(ibv_start_poll(ex, &poll_attr) == ENOENT);
	CHECK(ibv_query_rt_values_ex(rig->context, &values) == 0);
	CHECK(values.comp_mask == IBV_VALUES_MASK_RAW_CLOCK);
	for (int i = 0; i < 2; i++)
		CHECK(post(qp, rig, IBV_WR_RDMA_READ, 0, 77, 1024, rig->mr->rkey) == 0);
	usleep(20000);
	while (ibv_start_poll(ex, &poll_attr) && tries++ < WAIT_SECONDS * 1000)
		usleep(1000);
	NEED(tries < WAIT_SECONDS * 1000);
	CHECK(ex->status == IBV_WC_SUCCESS && ex->wr_id == IBV_WR_RDMA_READ);
	CHECK(ibv_wc_read_opcode(ex) == IBV_WC_RDMA_READ && ibv_wc_read_byte_len(ex) == 77);
	CHECK(ibv_wc_read_qp_num(ex) == qp->qp_num && ibv_wc_read_vendor_err(ex) == 0);
	stamp = ibv_wc_read_completion_ts(ex);
	CHECK(stamp > (uint64_t)values.raw_clock.tv_nsec &&
	      stamp < (uint64_t)values.raw_clock.tv_nsec + 60000000000);
	CHECK(ibv_wc_read_completion_wallclock_ns(ex) / 1000000000 - time(NULL) + 5 < 10);
	while (ibv_next_poll(ex) && tries++ < WAIT_SECONDS * 1000)
		usleep(1000);
	CHECK(ibv_wc_read_completion_ts(ex) >= stamp);
	CHECK(ibv_next_poll(ex) == ENOENT);
	ibv_end_poll(ex);
	attr.wc_flags = IBV_WC_EX_WITH_CVLAN;
	CHECK(!ibv_create_cq_ex(rig->context, &attr) && errno == EOPNOTSUPP);
	CHECK(end(qp) == 0);
	CHECK(ibv_destroy_cq(rig->cq) == 0);
}

static void channels(struct rig *rig)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(rig->context);
	struct ibv_cq *notified = NULL;
	struct pollfd fd = { .fd = channel->fd, .events = POLLIN };
	void *cq_context = NULL;
	struct ibv_qp *qp;

	NEED(rig->cq = ibv_create_cq(rig->context, 64, &fd, channel, 0));
	CHECK(ibv_destroy_comp_channel(channel) == EBUSY);
	qp = make_qp(rig, IBV_QPT_RC, 0, NULL);
	join(rig, qp, qp);
	CHECK(fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK) == 0);
	CHECK(ibv_get_cq_event(channel, &notified, &cq_context) == -1 && errno == EAGAIN);
	CHECK(ibv_req_notify_cq(rig->cq, 0) == 0);
	CHECK(poll(&fd, 1, 0) == 0);
	CHECK(post(qp, rig, IBV_WR_RDMA_WRITE, 0, 8, 64, rig->mr->rkey) == 0);
	CHECK(poll(&fd, 1, WAIT_SECONDS * 1000) == 1);
	CHECK(ibv_get_cq_event(channel, &notified, &cq_context) == 0 && notified == rig->cq &&
	      cq_context == &fd);
	ibv_ack_cq_events(rig->cq, 1);
	CHECK(next_wc(rig->cq).status == IBV_WC_SUCCESS);
	/* Only for messages sent with IBV_SEND_SOLICITED. */
	CHECK(ibv_req_notify_cq(rig->cq, 1) == 0);
	CHECK(post(qp, rig, IBV_WR_RDMA_WRITE, 0, 8, 64, rig->mr->rkey) == 0);
	CHECK(next_wc(rig->cq).status == IBV_WC_SUCCESS);
	CHECK(poll(&fd, 1, 20) == 0);
	/* An event that nobody has read is dropped with the CQ. */
	CHECK(ibv_req_notify_cq(rig->cq, 0) == 0);
	CHECK(post(qp, rig, IBV_WR_RDMA_WRITE, 0, 8, 64, rig->mr->rkey) == 0);
	CHECK(poll(&fd, 1, WAIT_SECONDS * 1000) == 1);
	CHECK(end(qp) == 0);
	CHECK(ibv_destroy_cq(rig->cq) == 0);
	CHECK(poll(&fd, 1, 0) == 0);
	CHECK(ibv_destroy_comp_channel(channel) == 0);
}

static void overrun(struct rig *rig)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct ibv_qp *qp;
	struct ibv_wc wc;
	int events = 0, n = 0;

	NEED(rig->cq = ibv_create_cq(rig->context, 2, NULL, NULL, 0));
	qp = make_qp(rig, IBV_QPT_RC, 0, NULL);
	join(rig, qp, qp);
	n = rig->cq->cqe + 1;
	for (int i = 0; i < n; i++)
		CHECK(post(qp, rig, IBV_WR_RDMA_WRITE, 0, 8, 64, rig->mr->rkey) == 0);
	while (events != (1 << IBV_EVENT_CQ_ERR | 1 << IBV_EVENT_QP_FATAL)) {
		int event = next_event(rig);

		CHECK(event == IBV_EVENT_CQ_ERR || event == IBV_EVENT_QP_FATAL);
		if (event < 0)
			break;
		events |= 1 << event;
	}
	CHECK(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init) == 0 && attr.qp_state == IBV_QPS_ERR);
	while (n-- > 1)
		CHECK(ibv_poll_cq(rig->cq, 1, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
	CHECK(end(qp) == 0);
	CHECK(ibv_destroy_cq(rig->cq) == 0);
}

static void resized(struct rig *rig)
{
	struct ibv_cq *cq = KEEP(ibv_create_cq(rig->context, 4, NULL, NULL, 0));

	NEED(cq);
	CHECK(ibv_resize_cq(cq, 100) == 0 && cq->cqe >= 100);
	CHECK(ibv_resize_cq(cq, 0) == EINVAL);
}

static void shared(struct rig *rig)
{
	struct ibv_srq_init_attr init = { .attr = { 8, 2, 0 } };
	struct ibv_srq *srq = KEEP(ibv_create_srq(rig->pd, &init));
	struct ibv_srq_attr attr = { .max_wr = 16, .srq_limit = 3 };
	struct ibv_sge sge = { (uintptr_t)rig->buf + 4096, 64, rig->mr->lkey }, three[3] = {};
	struct ibv_recv_wr *bad, wr = { .sg_list = &sge, .num_sge = 1 };
	struct ibv_qp *a, *b;
	int received = 0;

	NEED(srq);
	a = make_qp(rig, IBV_QPT_RC, 0, srq);
	b = make_qp(rig, IBV_QPT_RC, 0, NULL);
	join(rig, a, b);
	CHECK(post_recv(a, rig, 1, 0, 1) == EINVAL);
	for (int i = 0; i < 4; i++) {
		wr.wr_id = 50 + i;
		CHECK(ibv_post_srq_recv(srq, &wr, &bad) == 0);
	}
	/* The posted request does not change any more. */
	memset(&sge, 0xff, sizeof(sge));
	memset(rig->buf, 7, 8);
	wr.sg_list = three;
	wr.num_sge = 3;
	CHECK(ibv_post_srq_recv(srq, &wr, &bad) == EINVAL && bad == &wr);
	CHECK(ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT) == 0);
	memset(&attr, 0, sizeof(attr));
	CHECK(ibv_query_srq(srq, &attr) == 0 && attr.max_wr >= 16 && attr.srq_limit == 3 &&
	      attr.max_sge >= 2);
	attr.srq_limit = attr.max_wr + 1;
	CHECK(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT) == EINVAL);
	for (int i = 0; i < 2; i++)
		CHECK(post(b, rig, IBV_WR_SEND, 0, 8, 0, 0) == 0);
	for (int i = 0; i < 4; i++) {
		struct ibv_wc wc = next_wc(rig->cq);

		CHECK(wc.status == IBV_WC_SUCCESS);
		if (wc.opcode == IBV_WC_RECV)
			CHECK(wc.wr_id == 50u + received++ && wc.qp_num == a->qp_num);
	}
	CHECK(received == 2 && !memcmp(rig->buf, rig->buf + 4096, 8));
	CHECK(next_event(rig) == IBV_EVENT_SRQ_LIMIT_REACHED);
	CHECK(ibv_query_srq(srq, &attr) == 0 && attr.srq_limit == 0);
}

static void xrc(struct rig *rig)
{
	struct domain domain = new_domain(rig);
	struct ends ends = xrc_ends(rig, domain);
	struct ibv_qp_open_attr open = { .qp_type = IBV_QPT_XRC_RECV,
					 .qp_num = ends.b->qp_num,
					 .xrcd = domain.xrcd,
					 .comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD |
						      IBV_QP_OPEN_ATTR_TYPE };
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .qp_type.xrc.remote_srqn = domain.number };
	struct ibv_qp *opened = KEEP(ibv_open_qp(rig->context, &open));
	int seen = 0;

	NEED(opened);
	CHECK(domain.number && opened->qp_num == ends.b->qp_num);
	CHECK(ibv_close_xrcd(domain.xrcd) == EBUSY);
	CHECK(srq_recv(domain.srq, part(rig, 4096, 64)) == 0);
	CHECK(post_one(ends.a, part(rig, 4096, 64), wr) == 0);
	for (int i = 0; i < 2; i++) {
		struct ibv_wc wc = next_wc(rig->cq);

		CHECK(wc.status == IBV_WC_SUCCESS);
		if (wc.opcode == IBV_WC_RECV)
			CHECK(wc.wr_id == 4 && wc.byte_len == 64 && !seen++);
	}
	CHECK(seen == 1);
}

/* A program may close the descriptors of events itself. Events that it has not read are gone then, and
 * destroying their objects does not wait for them. */
static void closed_descriptors(struct rig *rig)
{
	struct ibv_comp_channel *channel;
	struct pollfd fds[2] = { { .events = POLLIN }, { .events = POLLIN } };
	struct ibv_cq *notified = NULL;
	void *cq_context;
	struct ibv_qp *qp;

	NEED(channel = ibv_create_comp_channel(rig->context));
	NEED(rig->cq = ibv_create_cq(rig->context, 2, NULL, channel, 0));
	fds[0].fd = channel->fd;
	fds[1].fd = rig->context->async_fd;
	qp = make_qp(rig, IBV_QPT_RC, 0, NULL);
	join(rig, qp, qp);
	for (int i = 0; i < 2; i++) {
		CHECK(ibv_req_notify_cq(rig->cq, 0) == 0);
		CHECK(post(qp, rig, IBV_WR_RDMA_WRITE, 0, 8, 64, rig->mr->rkey) == 0);
		CHECK(poll(fds, 1, WAIT_SECONDS * 1000) == 1);
		if (!i)
			CHECK(ibv_get_cq_event(channel, &notified, &cq_context) == 0 && notified == rig->cq);
		CHECK(next_wc(rig->cq).status == IBV_WC_SUCCESS);
	}
	for (int i = 0; i <= rig->cq->cqe; i++)
		CHECK(post(qp, rig, IBV_WR_RDMA_WRITE, 0, 8, 64, rig->mr->rkey) == 0);
	CHECK(poll(fds + 1, 1, WAIT_SECONDS * 1000) == 1);
	CHECK(close(fds[0].fd) == 0 && close(fds[1].fd) == 0);
	CHECK(end(qp) == 0);
	ibv_ack_cq_events(notified, 1);
	CHECK(ibv_destroy_cq(rig->cq) == 0);
	CHECK(ibv_destroy_comp_channel(channel) == 0);
}

const check_part queues_parts[] = { extended, channels,           overrun, resized, shared,
				    xrc,      closed_descriptors, NULL };
