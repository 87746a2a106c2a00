/*
 * A thread that is cancelled in the middle of a verb would leave the device locked. So verbs are no
 * cancellation points, but those that block until an event, and ibv_poll_cq when it has found nothing. Here a
 * request to cancel the thread is pending while it calls the verbs, so it acts at the first cancellation
 * point. A second thread only polls, and is cancelled there.
 */
#include <pthread.h>

#include "check.h"

/* The last step that the thread has completed. */
static const char *done = "nothing";
static bool finished;

#define STEP(condition) \
	do { \
		if (!(condition)) \
			return NULL; \
		done = #condition; \
	} while (0)

/* ibv_poll_cq may end the thread: until there is a completion, it must not. */
static struct ibv_wc poll_until_done(struct ibv_cq *cq)
{
	struct ibv_wc wc;
	int state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	wc = next_wc(cq);
	pthread_setcancelstate(state, NULL);
	return wc;
}

static void *only_poll(void *cq)
{
	struct ibv_wc wc;

	for (;;)
		ibv_poll_cq(cq, 1, &wc);
	return NULL;
}

/* Registers, binds, moves data both ways and with events, as long as it takes until the device replies. */
static void *use_verbs(void *arg)
{
	struct ibv_srq_init_attr srq_init = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_srq_attr srq_attr = { .max_wr = 4, .srq_limit = 1 };
	struct ibv_device_attr device_attr;
	struct ibv_qp_init_attr init;
	struct ibv_comp_channel *channel;
	struct ibv_port_attr port_attr;
	struct ibv_recv_wr *bad, recv = {};
	struct ibv_qp *a, *b, *full;
	struct ibv_qp_attr attr;
	struct rig *rig = arg;
	struct ibv_context *context;
	struct ibv_device **list;
	struct ibv_cq *cq, *tiny;
	union ibv_gid gid;
	struct ibv_srq *srq;
	struct ibv_mw *mw;
	struct ibv_mr *mr;
	struct ibv_pd *pd;

	list = ibv_get_device_list(NULL);
	pthread_cancel(pthread_self());
	STEP(context = ibv_open_device(list[0]));
	STEP(ibv_close_device(context) == 0);
	STEP(ibv_query_device(rig->context, &device_attr) == 0);
	STEP(ibv_query_port(rig->context, PORT, &port_attr) == 0);
	STEP(ibv_query_gid(rig->context, PORT, rig->gid_index, &gid) == 0);
	STEP(pd = ibv_alloc_pd(rig->context));
	STEP(mr = ibv_reg_mr(pd, rig->buf, SIZE, ALL_ACCESS));
	STEP(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0) == 0);
	STEP(mw = ibv_alloc_mw(pd, IBV_MW_TYPE_1));
	STEP(ibv_dealloc_mw(mw) == 0);
	STEP(ibv_dereg_mr(mr) == 0);
	STEP(srq = ibv_create_srq(pd, &srq_init));
	STEP(ibv_post_srq_recv(srq, &recv, &bad) == 0);
	STEP(ibv_modify_srq(srq, &srq_attr, IBV_SRQ_LIMIT) == 0);
	STEP(ibv_query_srq(srq, &srq_attr) == 0);
	STEP(ibv_destroy_srq(srq) == 0);
	STEP(ibv_dealloc_pd(pd) == 0);
	STEP(channel = ibv_create_comp_channel(rig->context));
	STEP(cq = ibv_create_cq(rig->context, 16, NULL, channel, 0));
	STEP(ibv_resize_cq(cq, 32) == 0);
	STEP(a = make_qp(rig, IBV_QPT_RC, 0, NULL));
	STEP(b = make_qp(rig, IBV_QPT_RC, 0, NULL));
	join(rig, a, b);
	STEP(ibv_query_qp(a, &attr, IBV_QP_STATE, &init) == 0);
	for (int i = 0; i < 100; i++) {
		STEP(post_recv(b, rig, 1, 0, 64) == 0);
		STEP(post(a, rig, IBV_WR_SEND, 0, 64, 0, 0) == 0);
		STEP(poll_until_done(rig->cq).status == IBV_WC_SUCCESS);
		STEP(poll_until_done(rig->cq).status == IBV_WC_SUCCESS);
		STEP(post(a, rig, IBV_WR_RDMA_READ, 0, 4096, 4096, rig->mr->rkey) == 0);
		STEP(poll_until_done(rig->cq).status == IBV_WC_SUCCESS);
		STEP(ibv_req_notify_cq(cq, 0) == 0);
	}
	STEP(end(a) == 0 && end(b) == 0);
	/* The error event of a queue that overruns, and its completion event, are sent to sockets. */
	STEP(tiny = ibv_create_cq(rig->context, 1, NULL, channel, 0));
	struct ibv_qp_init_attr on_tiny = { .send_cq = tiny,
					    .recv_cq = tiny,
					    .cap = { 4, 4, 1, 1 },
					    .qp_type = IBV_QPT_RC,
					    .sq_sig_all = 1 };
	STEP(full = ibv_create_qp(rig->pd, &on_tiny));
	join(rig, full, full);
	STEP(ibv_req_notify_cq(tiny, 0) == 0);
	STEP(post(full, rig, IBV_WR_RDMA_WRITE, 0, 64, 64, rig->mr->rkey) == 0);
	STEP(poll_until_done(tiny).status == IBV_WC_SUCCESS);
	for (int i = 0; i < 4; i++)
		STEP(post(full, rig, IBV_WR_RDMA_WRITE, 0, 64, 64, rig->mr->rkey) == 0);
	STEP(ibv_destroy_qp(full) == 0);
	STEP(ibv_destroy_cq(tiny) == 0);
	STEP(ibv_destroy_cq(cq) == 0);
	STEP(ibv_destroy_comp_channel(channel) == 0);
	finished = true;
	pthread_testcancel();
	return NULL;
}

static void cancelled(struct rig *rig)
{
	pthread_t thread;
	void *result;

	NEED(pthread_create(&thread, NULL, use_verbs, rig) == 0);
	NEED(pthread_join(thread, &result) == 0);
	CHECK(result == PTHREAD_CANCELED);
	if (!finished)
		printf("cancelled after %s\n", done);
	NEED(finished);
	/* With the device in use by this thread, too. */
	NEED(pthread_create(&thread, NULL, only_poll, rig->cq) == 0);
	usleep(1000);
	NEED(pthread_cancel(thread) == 0);
	NEED(pthread_join(thread, &result) == 0);
	CHECK(result == PTHREAD_CANCELED);
}

const check_part cancel_parts[] = { cancelled, NULL };
