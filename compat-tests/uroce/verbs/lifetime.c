/* How long objects exist: events of many objects and of none, what closing a context ends, handles that are
 * wrong, limits. */
#include <fcntl.h>
#include <sys/socket.h>

#include "check.h"

#define CQS 600

/* More completion events than a socket holds: each armed CQ's arrives. */
static void many_events(struct rig *rig)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(rig->context);
	static struct ibv_cq *cqs[CQS];
	static struct ibv_qp *qps[CQS];
	struct pollfd fd = { .fd = channel->fd, .events = POLLIN };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct ibv_cq *reported;
	void *cq_context;
	int events = 0;

	for (int i = 0; i < CQS; i++) {
		NEED(rig->cq = cqs[i] = ibv_create_cq(rig->context, 4, &cqs[i], channel, 0));
		qps[i] = make_qp(rig, IBV_QPT_RC, 0, NULL);
		NEED(to_init(qps[i]) == 0 && post_recv(qps[i], rig, i, 0, 8) == 0);
		NEED(ibv_req_notify_cq(cqs[i], 0) == 0);
	}
	/* Let the background thread go to sleep. */
	usleep(100000);
	for (int i = 0; i < CQS; i++)
		NEED(ibv_modify_qp(qps[i], &attr, IBV_QP_STATE) == 0);
	while (events < CQS && poll(&fd, 1, WAIT_SECONDS * 1000) == 1) {
		NEED(ibv_get_cq_event(channel, &reported, &cq_context) == 0);
		CHECK(cq_context == &cqs[events] && reported == cqs[events]);
		ibv_ack_cq_events(reported, 1);
		events++;
	}
	CHECK(events == CQS);
	CHECK(poll(&fd, 1, 20) == 0);
	for (int i = 0; i < CQS; i++)
		CHECK(end(qps[i]) == 0 && ibv_destroy_cq(cqs[i]) == 0);
	CHECK(ibv_destroy_comp_channel(channel) == 0);
}

/* An option of a socket, -1 for another file. */
static int option(int fd, int name)
{
	socklen_t len = sizeof(int);
	int value;

	return getsockopt(fd, SOL_SOCKET, name, &value, &len) == 0 ? value : -1;
}

/* Writes bytes that are no event to each socket of uroce but the program's own ends: event sockets, and the
 * connections of channels to peers in shared memory. */
static void forge(struct rig *rig, int own)
{
	uint64_t pointer[2] = { 0x4141414141414141, 0 };

	for (int fd = 3; fd < 64; fd++) {
		int type = option(fd, SO_TYPE), listens = option(fd, SO_ACCEPTCONN);

		if (fd != own && fd != rig->context->async_fd && type == SOCK_SEQPACKET && !listens) {
			NEED(send(fd, pointer, 8, MSG_DONTWAIT) == 8);
			NEED(send(fd, pointer, 16, MSG_DONTWAIT) == 16);
		}
	}
}

/* Events that name no object of this process are skipped. */
static void forged_events(struct rig *rig)
{
	struct ibv_comp_channel *channel = KEEP(ibv_create_comp_channel(rig->context));
	struct ibv_cq *reported = NULL;
	struct ibv_srq_attr limit = { .srq_limit = 1 };
	struct ibv_srq *srq = new_srq(rig, 4);
	void *cq_context;
	struct ibv_qp *qp;

	NEED(rig->cq = KEEP(ibv_create_cq(rig->context, 64, NULL, channel, 0)));
	qp = make_qp(rig, IBV_QPT_RC, 0, NULL);
	join(rig, qp, qp);
	CHECK(ibv_req_notify_cq(rig->cq, 0) == 0);
	forge(rig, channel->fd);
	CHECK(post(qp, rig, IBV_WR_RDMA_WRITE, 0, 8, 64, rig->mr->rkey) == 0);
	CHECK(next_wc(rig->cq).status == IBV_WC_SUCCESS);
	/* The 16 bytes are a record of another length, as an async event is here. */
	while (ibv_get_cq_event(channel, &reported, &cq_context) != 0)
		;
	CHECK(reported == rig->cq);
	ibv_ack_cq_events(rig->cq, 1);
	CHECK(ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT) == 0);
}

/* Closing a context ends what the program has left in it, although another context keeps the device open. */
static void closed_context(struct rig *rig)
{
	struct ibv_qp *left, *qp = make_qp(rig, IBV_QPT_RC, 0, NULL);
	struct rig other;
	uint32_t rkey;
	uint8_t *buf;

	set_up(&other);
	left = make_qp(&other, IBV_QPT_RC, 0, NULL);
	CHECK(ibv_create_comp_channel(other.context) != NULL);
	NEED(to_init(left) == 0 && to_rtr(&other, left, qp->qp_num) == 0 && to_rts(left) == 0);
	NEED(to_init(qp) == 0 && to_rtr(rig, qp, left->qp_num) == 0 && to_rts(qp) == 0);
	rkey = other.mr->rkey;
	buf = other.buf;
	memset(rig->buf, 0x55, 8);
	CHECK(post(qp, rig, IBV_WR_RDMA_WRITE, 0, 8, (char *)buf - (char *)rig->buf, rkey) == 0);
	CHECK(next_wc(rig->cq).status == IBV_WC_SUCCESS && buf[0] == 0x55);
	forget(left);
	CHECK(ibv_close_device(other.context) == 0);
	memset(rig->buf, 0x66, 8);
	CHECK(post(qp, rig, IBV_WR_RDMA_WRITE, 0, 8, (char *)buf - (char *)rig->buf, rkey) == 0);
	CHECK(next_wc(rig->cq).status == IBV_WC_RETRY_EXC_ERR);
	CHECK(buf[0] == 0x55);
	/* Even through a queue pair that lives, its key is none. */
	CHECK(end(qp) == 0);
	qp = make_qp(rig, IBV_QPT_RC, 0, NULL);
	left = make_qp(rig, IBV_QPT_RC, 0, NULL);
	join(rig, qp, left);
	CHECK(post(qp, rig, IBV_WR_RDMA_WRITE, 0, 8, (char *)buf - (char *)rig->buf, rkey) == 0);
	CHECK(next_wc(rig->cq).status == IBV_WC_REM_ACCESS_ERR);
	CHECK(buf[0] == 0x55);
	free(buf);
}

#define WRONG_HANDLE(object, call) \
	do { \
		uint32_t right = (object)->handle; \
\
		for (int bit = 0; bit < 32; bit++) { \
			(object)->handle = right ^ 1u << bit; \
			CHECK((errno = 0, call) && errno == ENOENT); \
		} \
		(object)->handle = right; \
	} while (0)

/* A handle that the program has changed names no object, although the address is right. */
static void wrong_handles(struct rig *rig)
{
	struct ibv_srq_init_attr srq_init = { .attr = { 4, 1, 0 } };
	struct ibv_srq *srq = KEEP(ibv_create_srq(rig->pd, &srq_init));
	struct ibv_mw *mw = KEEP(ibv_alloc_mw(rig->pd, IBV_MW_TYPE_1));
	struct ibv_ah_attr ah_attr = rtr_attr(rig, 0).ah_attr;
	struct ibv_qp_init_attr init = {
		.send_cq = rig->cq, .recv_cq = rig->cq, .cap = { 1, 1, 1, 1, 0 }, .qp_type = IBV_QPT_RC
	};
	struct ibv_ah *ah = KEEP(ibv_create_ah(rig->pd, &ah_attr));
	struct ibv_qp *qp = KEEP(ibv_create_qp(rig->pd, &init));
	struct ibv_srq_attr srq_attr = {};
	struct ibv_qp_attr attr = {};

	NEED(srq && mw && ah && qp);
	WRONG_HANDLE(rig->pd, !ibv_reg_mr(rig->pd, rig->buf, 64, 0));
	WRONG_HANDLE(rig->pd, !ibv_alloc_mw(rig->pd, IBV_MW_TYPE_1));
	WRONG_HANDLE(rig->pd, !ibv_create_ah(rig->pd, &ah_attr));
	WRONG_HANDLE(rig->pd, !ibv_create_qp(rig->pd, &init));
	WRONG_HANDLE(rig->pd, !ibv_create_srq(rig->pd, &srq_init));
	WRONG_HANDLE(rig->pd, ibv_dealloc_pd(rig->pd));
	WRONG_HANDLE(rig->cq, !ibv_create_qp(rig->pd, &init));
	WRONG_HANDLE(rig->cq, ibv_resize_cq(rig->cq, 300));
	WRONG_HANDLE(rig->cq, ibv_destroy_cq(rig->cq));
	WRONG_HANDLE(rig->mr, ibv_dereg_mr(rig->mr));
	WRONG_HANDLE(rig->mr, ibv_rereg_mr(rig->mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0));
	WRONG_HANDLE(mw, ibv_dealloc_mw(mw));
	WRONG_HANDLE(ah, ibv_destroy_ah(ah));
	WRONG_HANDLE(srq, ibv_query_srq(srq, &srq_attr));
	WRONG_HANDLE(srq, ibv_modify_srq(srq, &srq_attr, IBV_SRQ_LIMIT));
	WRONG_HANDLE(srq, ibv_destroy_srq(srq));
	WRONG_HANDLE(qp, ibv_query_qp(qp, &attr, IBV_QP_STATE, &init));
	WRONG_HANDLE(qp, ibv_modify_qp(qp, &attr, IBV_QP_STATE));
	WRONG_HANDLE(qp, ibv_destroy_qp(qp));
}

/* Calls a verb with an object whose context the program has changed. */
#define WRONG_CONTEXT(object, wrong, call) \
	do { \
		struct ibv_context *right = (object)->context; \
\
		(object)->context = (wrong); \
		CHECK((errno = 0, call) && errno == ENOENT); \
		(object)->context = right; \
	} while (0)

/* A handle is valid in the object's context only, as in the kernel, where each open file has its own. */
static void wrong_contexts(struct rig *rig, struct ibv_context *other)
{
	struct ibv_srq *srq = new_srq(rig, 4);
	struct ibv_mw *mw = KEEP(ibv_alloc_mw(rig->pd, IBV_MW_TYPE_1));
	struct ibv_ah *ah = new_ah(rig, rig->gid);
	struct ibv_qp *qp = make_qp(rig, IBV_QPT_RC, 0, NULL);
	struct ibv_td_init_attr td_attr = {};
	struct ibv_td *td = KEEP(ibv_alloc_td(rig->context, &td_attr));
	struct ibv_xrcd *xrcd = KEEP(open_domain(rig, -1, O_CREAT));
	struct ibv_pd *pd = KEEP(ibv_alloc_pd(rig->context));
	struct ibv_cq *cq = KEEP(ibv_create_cq(rig->context, 4, NULL, NULL, 0));
	struct ibv_srq_attr srq_attr = {};
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr = {};

	NEED(mw && td && xrcd && pd && cq);
	WRONG_CONTEXT(pd, other, ibv_dealloc_pd(pd));
	WRONG_CONTEXT(pd, other, !ibv_alloc_mw(pd, IBV_MW_TYPE_1));
	WRONG_CONTEXT(cq, other, ibv_resize_cq(cq, 8));
	WRONG_CONTEXT(cq, other, ibv_destroy_cq(cq));
	WRONG_CONTEXT(rig->mr, other, ibv_dereg_mr(rig->mr));
	WRONG_CONTEXT(mw, other, ibv_dealloc_mw(mw));
	WRONG_CONTEXT(ah, other, ibv_destroy_ah(ah));
	WRONG_CONTEXT(srq, other, ibv_query_srq(srq, &srq_attr));
	WRONG_CONTEXT(srq, other, ibv_destroy_srq(srq));
	WRONG_CONTEXT(qp, other, ibv_query_qp(qp, &attr, IBV_QP_STATE, &init));
	WRONG_CONTEXT(qp, other, ibv_modify_qp(qp, &attr, IBV_QP_STATE));
	WRONG_CONTEXT(qp, other, ibv_destroy_qp(qp));
	WRONG_CONTEXT(td, other, ibv_dealloc_td(td));
	WRONG_CONTEXT(xrcd, other, ibv_close_xrcd(xrcd));
}

/* Objects of one context are none of another's, of the same device or not. */
static void other_context(struct rig *rig)
{
	struct ibv_comp_channel *channel;
	struct rig other;

	set_up(&other);
	NEED(channel = ibv_create_comp_channel(other.context));
	CHECK(!ibv_create_cq(rig->context, 4, NULL, channel, 0) && errno == EINVAL);
	for (int which = 0; which < 3; which++) {
		struct ibv_qp_init_attr_ex init = {
			.send_cq = which == 0 ? other.cq : rig->cq,
			.recv_cq = which == 1 ? other.cq : rig->cq,
			.cap = { 1, 1, 1, 1, 0 },
			.qp_type = IBV_QPT_RC,
			.comp_mask = IBV_QP_INIT_ATTR_PD,
			.pd = which == 2 ? other.pd : rig->pd,
		};

		CHECK(!ibv_create_qp_ex(rig->context, &init) && errno == EINVAL);
	}
	CHECK(ibv_rereg_mr(rig->mr, IBV_REREG_MR_CHANGE_PD, other.pd, NULL, 0, 0) != 0 && errno == EINVAL);
	wrong_contexts(rig, other.context);
	CHECK(ibv_destroy_comp_channel(channel) == 0);
	tear_down(&other);
}

/* The limits that ibv_query_device reports for multicast are those that hold. */
static void limits(struct rig *rig)
{
	union ibv_gid group = { .raw = { [10] = 0xff, 0xff, 239, 1, 2, 4 } };
	struct ibv_device_attr device;
	struct ibv_qp *qps[100];
	int attached = 0, n = 0;

	NEED(ibv_query_device(rig->context, &device) == 0 && device.max_mcast_qp_attach < 100);
	while (n < 100 && attached == n) {
		qps[n] = make_qp(rig, IBV_QPT_UD, 0, NULL);
		attached += ibv_attach_mcast(qps[n], &group, 0) == 0;
		n++;
	}
	CHECK(attached == device.max_mcast_qp_attach && errno == ENOMEM);
	CHECK(ibv_attach_mcast(qps[0], &group, 0) == 0);
	CHECK(ibv_detach_mcast(qps[0], &group, 0) == 0);
	CHECK(ibv_attach_mcast(qps[n - 1], &group, 0) == 0);
	for (int i = 1; i < n; i++)
		CHECK(ibv_detach_mcast(qps[i], &group, 0) == 0);
}

const check_part lifetime_parts[] = { many_events,   forged_events, closed_context,
				      wrong_handles, other_context, limits,
				      NULL };
