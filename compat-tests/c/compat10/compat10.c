/*
 * compat10 [-x] DEVICE [GID_INDEX]: a program of libibverbs 1.0 that calls all that 1.0 had, sends
 * itself messages of each kind and prints what came of it. Numbers that differ from run to run (queue
 * pairs, keys, addresses) are compared, not shown.
 *
 * On the bench, where nothing moves data, requests are posted and nothing is waited for; events come
 * from the shim.
 *
 * -x also tries what the C original overruns, leaves uninitialised or crashes on, and says whether it
 * is as it should be; the exit code is 1 if not.
 */
#include "walk.h"
#include "verbs10.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#define YES(what) printf("  " #what ": %s\n", (what) ? "yes" : "NO")
#define NUM(what) printf("  " #what ": %lld\n", (long long)(what))

/* What only a correct library does. */
static int wrong;
#define MUST(what) \
	do { \
		int good_ = !!(what); \
		printf("  must be: " #what ": %s\n", good_ ? "yes" : "NO"); \
		wrong |= !good_; \
	} while (0)

enum { DEPTH = 8, LEN = 4096, QKEY = 0x11111111, LONG_LIST = 40 };
static const int port = 1;
static int gid_index, extra, moves;

static struct v10_context *context;
static struct v10_pd *pd;
static struct v10_mr *mr;
static struct ibv_comp_channel *channel;
static struct v10_cq *send_cq, *recv_cq;
static struct v10_srq *srq;
static struct v10_qp *a, *b, *ud; /* a sends to b, which takes from the srq */
static struct v10_ah *ah;
static union ibv_gid gid;
static char buf[4 * LEN] __attribute__((aligned(4096)));

/* What the library keeps for the program. */
static char of_recv_cq, of_srq, of_a, of_b, of_ud;

static struct v10_device *find(struct v10_device **list, const char *name)
{
	for (; *list; list++)
		if (!strcmp(v10_get_device_name(*list), name))
			return *list;
	return NULL;
}

static void open_it(const char *name)
{
	struct v10_device **list, *device;
	int n = -1, i;

	PTR(list, v10_get_device_list(&n));
	NUM(n);
	if (!list)
		exit(2);
	for (i = 0; list[i]; i++)
		printf("  %s %016llx\n", v10_get_device_name(list[i]),
		       (unsigned long long)be64toh(v10_get_device_guid(list[i])));
	YES(i == n);
	device = find(list, name);
	if (!device) {
		printf("no device %s\n", name);
		exit(2);
	}
	PTR(context, v10_open_device(device));
	if (!context)
		exit(2);
	YES(context->device == device);
	VOID(v10_free_device_list(list));
	PTR(list, v10_get_device_list(NULL));
	if (list)
		VOID(v10_free_device_list(list));
}

static void queries(void)
{
	struct ibv_device_attr attr;
	union {
		struct ibv_port_attr attr;
		char bytes[2 * sizeof(struct ibv_port_attr)];
	} p;
	char head[V10_PORT_ATTR_LEN];
	uint16_t pkey;
	int i;

	FILL(attr);
	INT(v10_query_device(context, &attr));
	SHOW(attr);
	FILL(p);
	INT(v10_query_port(context, port, &p));
	memcpy(head, &p, sizeof(head));
	SHOW(head);
	if (extra)
		for (i = V10_PORT_ATTR_LEN; i < (int)sizeof(p); i++)
			if (p.bytes[i] != (char)0xa5 || i + 1 == sizeof(p)) {
				MUST(i + 1 == sizeof(p));
				break;
			}
	INT(v10_query_port(context, 99, &p));
	for (i = 0; i < 3; i++) {
		FILL(gid);
		INT(v10_query_gid(context, port, i, &gid));
		SHOW(gid);
	}
	/* errno is what is left over from the way the library went. */
	NUM(v10_query_gid(context, port, 100000, &gid));
	NUM(v10_query_gid(context, 99, 0, &gid));
	INT(v10_query_gid(context, port, gid_index, &gid));
	FILL(pkey);
	INT(v10_query_pkey(context, port, 0, &pkey));
	SHOW(pkey);
	NUM(v10_query_pkey(context, port, 100000, &pkey));
	NUM(v10_query_pkey(context, 99, 0, &pkey));
}

static void show_qp(struct v10_qp *qp, void *of_it)
{
	struct v10_qp_init_attr init;
	struct ibv_qp_attr attr;

	/* Whatever the provider leaves of it. */
	FILL(init);
	memset(&attr, 0, sizeof(attr));
	INT(v10_query_qp(qp, &attr, IBV_QP_STATE | IBV_QP_CAP | IBV_QP_AV, &init));
	NUM(attr.qp_state);
	NUM(attr.cur_qp_state);
	NUM(attr.path_mtu);
	NUM(attr.rq_psn);
	NUM(attr.sq_psn);
	NUM(attr.qp_access_flags);
	NUM(attr.timeout);
	NUM(attr.retry_cnt);
	NUM(attr.min_rnr_timer);
	YES(init.qp_context == of_it);
	YES(init.send_cq == qp->send_cq);
	YES(init.recv_cq == qp->recv_cq);
	YES(init.srq == qp->srq);
	SHOW(init.cap);
	NUM(init.qp_type);
	NUM(init.sq_sig_all);
	if (extra)
		MUST(qp->state == attr.qp_state);
}

static struct v10_qp *make_qp(enum ibv_qp_type type, struct v10_srq *from, void *of_it)
{
	struct v10_qp_init_attr init = {
		.qp_context = of_it, .send_cq = send_cq, .recv_cq = recv_cq, .srq = from,
		.cap = { DEPTH, DEPTH, 2, 2, 0 }, .qp_type = type, .sq_sig_all = 1,
	};
	struct v10_qp *qp;

	PTR(qp, v10_create_qp(pd, &init));
	if (!qp)
		return NULL;
	SHOW(init.cap);
	YES(qp->context == context);
	YES(qp->qp_context == of_it);
	YES(qp->pd == pd);
	YES(qp->send_cq == send_cq);
	YES(qp->recv_cq == recv_cq);
	YES(qp->srq == from);
	YES(qp->qp_num == qp->today->qp_num);
	NUM(qp->qp_type);
	if (extra)
		MUST(qp->state == IBV_QPS_RESET);
	return qp;
}

static void objects(void)
{
	struct ibv_srq_init_attr init = { .srq_context = &of_srq, .attr = { DEPTH, 2, 0 } };
	struct ibv_srq_attr attr;
	struct v10_mr *none;
	struct v10_cq *no_cq;
	struct v10_qp *no_qp;

	PTR(pd, v10_alloc_pd(context));
	YES(pd->context == context);
	PTR(mr, v10_reg_mr(pd, buf, sizeof(buf), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			   IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC));
	YES(mr->context == context);
	YES(mr->pd == pd);
	if (moves) {
		YES(mr->lkey != 0);
		YES(mr->rkey == mr->lkey);
		PTR(none, v10_reg_mr(pd, NULL, LEN, IBV_ACCESS_LOCAL_WRITE));
		PTR(none, v10_reg_mr(pd, buf, LEN, IBV_ACCESS_REMOTE_WRITE));
		PTR(no_cq, v10_create_cq(context, 0, NULL, NULL, 0));
		PTR(no_cq, v10_create_cq(context, 1 << 30, NULL, NULL, 0));
		PTR(no_cq, v10_create_cq(context, 1, NULL, NULL, 1000000));
	}

	if (extra)
		PTR(channel, v10_create_comp_channel(context));
	else
		PTR(channel, v10_create_comp_channel(context->today));
	if (!channel)
		exit(2);
	if (extra) {
		MUST(channel->context == context->today);
		MUST(channel->fd >= 0);
		MUST(context->cmd_fd == context->today->cmd_fd);
		MUST(context->async_fd == context->today->async_fd);
		MUST(context->num_comp_vectors == context->today->num_comp_vectors);
	}
	PTR(send_cq, v10_create_cq(context, 2 * DEPTH, NULL, NULL, 0));
	PTR(recv_cq, v10_create_cq(context, 2 * DEPTH, &of_recv_cq, channel, 0));
	YES(recv_cq->context == context);
	YES(recv_cq->cq_context == &of_recv_cq);
	YES(recv_cq->today->cq_context == recv_cq);
	NUM(recv_cq->cqe);
	INT(v10_resize_cq(recv_cq, 4 * DEPTH));
	NUM(recv_cq->cqe);
	if (moves)
		INT(v10_resize_cq(recv_cq, 1 << 30));

	PTR(srq, v10_create_srq(pd, &init));
	if (srq) {
		YES(srq->context == context);
		YES(srq->srq_context == &of_srq);
		YES(srq->pd == pd);
		YES(init.srq_context == &of_srq);
		SHOW(init.attr);
		FILL(attr);
		INT(v10_query_srq(srq, &attr));
		SHOW(attr);
		attr.srq_limit = 1 << 30;
		INT(v10_modify_srq(srq, &attr, IBV_SRQ_LIMIT));
	}
	if (moves) {
		struct v10_qp_init_attr huge = {
			.send_cq = send_cq, .recv_cq = recv_cq,
			.cap = { 1 << 30, 1, 1, 1, 0 }, .qp_type = IBV_QPT_RC,
		};

		PTR(no_qp, v10_create_qp(pd, &huge));
	}
	a = make_qp(IBV_QPT_RC, NULL, &of_a);
	b = make_qp(IBV_QPT_RC, srq, &of_b);
	ud = make_qp(IBV_QPT_UD, NULL, &of_ud);
	if (b && srq)
		show_qp(b, &of_b);
	if (a && extra)
		show_qp(a, &of_a);
	if (!a || !b || !ud || !srq)
		exit(1);
}

/* Moves qp up to RTS, connected with peer unless it is NULL. */
static void connect_qp(struct v10_qp *qp, struct v10_qp *peer)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = port, .qkey = QKEY,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				   IBV_ACCESS_REMOTE_ATOMIC,
	};
	int init = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
	int rtr = IBV_QP_STATE, rts = IBV_QP_STATE | IBV_QP_SQ_PSN;

	/* Out of turn. */
	if (moves) {
		struct ibv_qp_attr early = { .qp_state = IBV_QPS_RTS };

		INT(v10_modify_qp(qp, &early, IBV_QP_STATE));
		if (extra)
			MUST(qp->state == IBV_QPS_RESET);
	}
	init |= peer ? IBV_QP_ACCESS_FLAGS : IBV_QP_QKEY;
	INT(v10_modify_qp(qp, &attr, init));
	if (extra)
		MUST(qp->state == IBV_QPS_INIT);
	attr.qp_state = IBV_QPS_RTR;
	if (peer) {
		rtr |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
		attr.path_mtu = IBV_MTU_1024;
		attr.dest_qp_num = peer->qp_num;
		attr.rq_psn = 100;
		attr.max_dest_rd_atomic = 1;
		attr.min_rnr_timer = 1;
		attr.ah_attr.is_global = 1;
		attr.ah_attr.grh.dgid = gid;
		attr.ah_attr.grh.sgid_index = gid_index;
		attr.ah_attr.grh.hop_limit = 1;
		attr.ah_attr.port_num = port;
	}
	INT(v10_modify_qp(qp, &attr, rtr));
	attr.qp_state = IBV_QPS_RTS;
	attr.sq_psn = 100;
	if (peer) {
		rts |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
		attr.timeout = 14;
		attr.retry_cnt = 7;
		attr.rnr_retry = 7;
		attr.max_rd_atomic = 1;
	}
	INT(v10_modify_qp(qp, &attr, rts));
	if (extra)
		MUST(qp->state == IBV_QPS_RTS);
}

/* Shows one completion, waiting for it a few seconds at most. */
static void completion(const char *of, struct v10_cq *cq)
{
	struct ibv_wc wc;
	int n = 0, i;

	if (!moves)
		return;
	memset(&wc, 0, sizeof(wc));
	for (i = 0; i < 5000 && !n; i++) {
		n = context->ops.poll_cq(cq, 1, &wc);
		if (!n)
			usleep(1000);
	}
	printf("  %s: %d completions\n", of, n);
	if (n != 1)
		return;
	NUM(wc.wr_id);
	NUM(wc.status);
	if (wc.status == IBV_WC_SUCCESS)
		NUM(wc.opcode);
	if (wc.status == IBV_WC_SUCCESS && wc.opcode & IBV_WC_RECV) {
		NUM(wc.byte_len);
		NUM(wc.wc_flags);
		if (wc.wc_flags & IBV_WC_WITH_IMM)
			NUM(ntohl(wc.imm_data));
		if (wc.qp_num == ud->qp_num)
			YES(wc.src_qp == ud->qp_num);
	}
	YES(wc.qp_num == a->qp_num || wc.qp_num == b->qp_num || wc.qp_num == ud->qp_num);
}

/* What a request that failed leaves behind: its place in the list. */
#define BAD(list, bad) printf("  refused: %d\n", (bad) ? (int)((bad) - (list)) : -1)

static void post_lists(void)
{
	/* As many as are refused: a provider may look at them before it counts them. */
	static struct ibv_sge sge[1000];
	struct v10_recv_wr recv[LONG_LIST], *bad_recv = NULL;
	struct v10_send_wr send[LONG_LIST], *bad_send = NULL;
	int i, n;

	memset(recv, 0, sizeof(recv));
	memset(send, 0, sizeof(send));
	sge[0] = (struct ibv_sge){ (uintptr_t)buf, 64, mr->lkey };
	for (i = 0; i < LONG_LIST; i++) {
		recv[i].next = i + 1 < LONG_LIST ? &recv[i + 1] : NULL;
		recv[i].wr_id = 1000 + i;
		recv[i].sg_list = sge;
		recv[i].num_sge = 1;
		send[i].next = i + 1 < LONG_LIST ? &send[i + 1] : NULL;
		send[i].wr_id = 2000 + i;
		send[i].sg_list = sge;
		send[i].num_sge = 1;
		send[i].opcode = IBV_WR_RDMA_WRITE;
		send[i].wr.rdma.remote_addr = (uintptr_t)buf + LEN;
		send[i].wr.rdma.rkey = mr->rkey;
	}
	/* With too many pieces for any queue: the request at that place is refused. */
	for (n = 0; n < LONG_LIST; n += 13) {
		recv[n].num_sge = 1000;
		send[n].num_sge = 1000;
		bad_recv = NULL;
		INT(context->ops.post_srq_recv(srq, recv, &bad_recv));
		BAD(recv, bad_recv);
		bad_recv = NULL;
		INT(context->ops.post_recv(a, recv, &bad_recv));
		BAD(recv, bad_recv);
		bad_send = NULL;
		INT(context->ops.post_send(b, send, &bad_send));
		BAD(send, bad_send);
		recv[n].num_sge = 1;
		send[n].num_sge = 1;
		/* Once a queue is full, what comes after is refused there. */
	}
}

static void messages(void)
{
	struct ibv_sge from = { (uintptr_t)buf, 100, mr->lkey };
	struct ibv_sge to[2] = {
		{ (uintptr_t)buf + LEN, 60, mr->lkey }, { (uintptr_t)buf + LEN + 60, 140, mr->lkey },
	};
	struct v10_recv_wr recv[3], *bad_recv = NULL;
	struct v10_send_wr send[4], *bad_send = NULL;
	struct ibv_ah_attr at = {
		.is_global = 1, .port_num = port,
		.grh = { .dgid = gid, .sgid_index = gid_index, .hop_limit = 1 },
	};
	uint64_t *word = (uint64_t *)(buf + 2 * LEN), *was = (uint64_t *)(buf + 3 * LEN);
	struct ibv_sge there = { (uintptr_t)was, sizeof(*was), mr->lkey };
	int i;

	/* To the shared receive queue: three of four requests in one list, one with immediate data. */
	memset(recv, 0, sizeof(recv));
	for (i = 0; i < 3; i++) {
		recv[i].next = i < 2 ? &recv[i + 1] : NULL;
		recv[i].wr_id = 10 + i;
		recv[i].sg_list = to;
		recv[i].num_sge = 2;
	}
	INT(context->ops.post_srq_recv(srq, recv, &bad_recv));
	for (i = 0; i < LEN; i++)
		buf[i] = i;
	INT(context->ops.req_notify_cq(recv_cq, 0));
	memset(send, 0, sizeof(send));
	send[0].wr_id = 20;
	send[0].sg_list = &from;
	send[0].num_sge = 1;
	send[0].opcode = IBV_WR_SEND_WITH_IMM;
	send[0].imm_data = htonl(0x01020304);
	INT(context->ops.post_send(a, send, &bad_send));
	completion("sent", send_cq);
	completion("received", recv_cq);
	if (moves)
		YES(!memcmp(buf, buf + LEN, 100));

	/* Write, read and the two atomics, in one list. */
	*word = 40;
	for (i = 0; i < 4; i++) {
		send[i].next = i < 3 ? &send[i + 1] : NULL;
		send[i].wr_id = 30 + i;
		send[i].sg_list = i < 2 ? &from : &there;
		send[i].num_sge = 1;
	}
	send[0].opcode = IBV_WR_RDMA_WRITE;
	send[0].wr.rdma.remote_addr = (uintptr_t)buf + LEN + 1000;
	send[0].wr.rdma.rkey = mr->rkey;
	send[1].opcode = IBV_WR_RDMA_READ;
	send[1].sg_list = to;
	send[1].wr.rdma.remote_addr = (uintptr_t)buf + 50;
	send[1].wr.rdma.rkey = mr->rkey;
	send[2].opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
	send[2].wr.atomic.remote_addr = (uintptr_t)word;
	send[2].wr.atomic.compare_add = 2;
	send[2].wr.atomic.rkey = mr->rkey;
	send[3].opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
	send[3].wr.atomic.remote_addr = (uintptr_t)word;
	send[3].wr.atomic.compare_add = 42;
	send[3].wr.atomic.swap = 43;
	send[3].wr.atomic.rkey = mr->rkey;
	INT(context->ops.post_send(a, send, &bad_send));
	for (i = 0; i < 4; i++)
		completion("one-sided", send_cq);
	if (moves) {
		YES(!memcmp(buf, buf + LEN + 1000, 100));
		YES(!memcmp(buf + 50, buf + LEN, 60));
		NUM(*word);
		NUM(*was);
	}

	/* A datagram to ourselves. */
	/* The bench has no neighbour of that address, and then errno is anything. */
	ah = v10_create_ah(pd, &at);
	YES(ah || !moves);
	if (!ah)
		return;
	YES(ah->context == context);
	YES(ah->pd == pd);
	recv[0].next = NULL;
	recv[0].wr_id = 40;
	INT(context->ops.post_recv(ud, recv, &bad_recv));
	send[0].next = NULL;
	send[0].wr_id = 41;
	send[0].opcode = IBV_WR_SEND;
	send[0].sg_list = &from;
	send[0].wr.ud.ah = ah;
	send[0].wr.ud.remote_qpn = ud->qp_num;
	send[0].wr.ud.remote_qkey = QKEY;
	INT(context->ops.post_send(ud, send, &bad_send));
	completion("sent datagram", send_cq);
	completion("received datagram", recv_cq);
	if (moves)
		YES(!memcmp(buf, buf + LEN + 40, 60) && !memcmp(buf + 60, buf + LEN + 100, 40));
	at.port_num = 99;
	if (moves) {
		struct v10_ah *none;

		PTR(none, v10_create_ah(pd, &at));
	}
}

static void groups(void)
{
	union ibv_gid group = { .raw = { 0xff, 0x0e, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 239, 1, 2, 3 } };

	INT(v10_attach_mcast(ud, &group, 0xc001));
	INT(v10_detach_mcast(ud, &group, 0xc001));
	if (moves) {
		INT(v10_detach_mcast(ud, &group, 0xc001));
		INT(v10_attach_mcast(a, &group, 0xc001));
	}
}

static int readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 5000) == 1;
}

static void async_event(void)
{
	struct ibv_async_event event;
	int fd = context->today->async_fd;

	FILL(event);
	if (!readable(fd)) {
		printf("  no asynchronous event\n");
		return;
	}
	INT(v10_get_async_event(context, &event));
	printf("  %s\n", ibv_event_type_str(event.event_type));
	switch (event.event_type) {
	case IBV_EVENT_CQ_ERR:
		YES((void *)event.element.cq == recv_cq);
		break;
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		YES((void *)event.element.qp == a || (void *)event.element.qp == b);
		break;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		YES((void *)event.element.srq == srq);
		break;
	default:
		NUM(event.element.port_num);
		break;
	}
	VOID(v10_ack_async_event(&event));
}

/* On the bench: what the kernel would tell of an object of the library's. */
static void push_async(enum ibv_event_type type, const void *object)
{
	struct {
		uint64_t element;
		uint32_t type;
		uint32_t reserved;
	} event = { (uintptr_t)object, type, 0 };

	if (walk_push(context->today->async_fd, &event, sizeof(event)))
		printf("  no event\n");
	else
		async_event();
}

static void events(void)
{
	struct ibv_srq_attr limit = { .srq_limit = 2 };
	struct v10_cq *cq = NULL;
	void *of_it = NULL;

	if (!moves) {
		uint64_t element = (uintptr_t)recv_cq->today;

		walk_push(channel->fd, &element, sizeof(element));
	}
	if (readable(channel->fd)) {
		INT(v10_get_cq_event(channel, &cq, &of_it));
		YES(cq == recv_cq);
		YES(of_it == &of_recv_cq);
		NUM(recv_cq->today->comp_events_completed);
		VOID(v10_ack_cq_events(recv_cq, 1));
		NUM(recv_cq->today->comp_events_completed);
	} else {
		printf("  no completion event\n");
	}
	fcntl(channel->fd, F_SETFL, O_NONBLOCK);
	fcntl(context->today->async_fd, F_SETFL, O_NONBLOCK);
	if (moves) {
		struct ibv_async_event none;
		struct ibv_sge from = { (uintptr_t)buf, 100, mr->lkey };
		struct v10_send_wr send = {
			.wr_id = 50, .sg_list = &from, .num_sge = 1, .opcode = IBV_WR_SEND,
		}, *bad;

		INT(v10_get_cq_event(channel, &cq, &of_it));
		INT(v10_get_async_event(context, &none));
		/* Two requests are left: taking one falls below the limit. */
		INT(v10_modify_srq(srq, &limit, IBV_SRQ_LIMIT));
		INT(context->ops.post_send(a, &send, &bad));
		completion("sent", send_cq);
		completion("received", recv_cq);
		async_event();
	} else {
		INT(v10_modify_srq(srq, &limit, IBV_SRQ_LIMIT));
		push_async(IBV_EVENT_CQ_ERR, recv_cq->today);
		push_async(IBV_EVENT_COMM_EST, a->today);
		push_async(IBV_EVENT_QP_LAST_WQE_REACHED, b->today);
		push_async(IBV_EVENT_SRQ_LIMIT_REACHED, srq->today);
		push_async(IBV_EVENT_PORT_ERR, (void *)1);
		push_async(IBV_EVENT_DEVICE_FATAL, (void *)7);
	}
}

/* How many events of what is destroyed next the kernel has delivered: destroying waits for them to be
 * acknowledged. A real kernel knows. */
static void reported(uint32_t completion_events, uint32_t async_events)
{
	if (walk_reported)
		walk_reported(completion_events, async_events);
}

static void clean_up(void)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	if (moves) {
		INT(v10_dealloc_pd(pd));
		INT(v10_destroy_cq(recv_cq));
		INT(v10_destroy_srq(srq));
	}
	if (ah)
		INT(v10_destroy_ah(ah));
	INT(v10_modify_qp(a, &attr, IBV_QP_STATE));
	if (extra)
		MUST(a->state == IBV_QPS_ERR);
	show_qp(b, &of_b);
	reported(0, 1);
	INT(v10_destroy_qp(a));
	INT(v10_destroy_qp(b));
	INT(v10_destroy_srq(srq));
	reported(0, 0);
	INT(v10_destroy_qp(ud));
	INT(v10_destroy_cq(send_cq));
	reported(1, 1);
	INT(v10_destroy_cq(recv_cq));
	INT(ibv_destroy_comp_channel(channel));
	INT(v10_dereg_mr(mr));
	INT(v10_dealloc_pd(pd));
	INT(v10_close_device(context));
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "-x")) {
		extra = 1;
		argv++;
		argc--;
	}
	if (argc < 2) {
		fprintf(stderr, "usage: compat10 [-x] DEVICE [GID_INDEX]\n");
		return 2;
	}
	gid_index = argc > 2 ? atoi(argv[2]) : 0;
	alarm(60);
	walk_init();
	moves = !walk_push;

	open_it(argv[1]);
	queries();
	objects();
	connect_qp(a, b);
	connect_qp(b, a);
	connect_qp(ud, NULL);
	messages();
	events();
	groups();
	post_lists();
	clean_up();
	return wrong;
}
