/*
 * A device that dies and comes back, a link that goes down, and GIDs that are removed: what the program sees,
 * in order. IBV_FAULTS has the script; `failover device|link|gids`. Prints `ok NAME` or `not ok NAME`.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int failed;

static void report(const char *name, int holds)
{
	printf("%s %s\n", holds ? "ok" : "not ok", name);
	fflush(stdout);
	failed |= !holds;
}

/* A device with a queue pair that is connected with itself. */
struct rig {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_qp *qp;
	char buf[64];
};

static int connect_qp(struct rig *rig)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };

	if (ibv_modify_qp(rig->qp, &attr,
			  IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS))
		return -1;
	memset(&attr, 0, sizeof(attr));
	attr.qp_state = IBV_QPS_RTR;
	attr.path_mtu = IBV_MTU_1024;
	attr.dest_qp_num = rig->qp->qp_num;
	attr.max_dest_rd_atomic = 1;
	attr.min_rnr_timer = 1;
	attr.ah_attr.port_num = 1;
	attr.ah_attr.is_global = 1;
	attr.ah_attr.grh.sgid_index = 1;
	if (ibv_query_gid(rig->context, 1, 1, &attr.ah_attr.grh.dgid) ||
	    ibv_modify_qp(rig->qp, &attr,
			  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
		return -1;
	memset(&attr, 0, sizeof(attr));
	attr.qp_state = IBV_QPS_RTS;
	attr.timeout = 14;
	attr.retry_cnt = 7;
	attr.rnr_retry = 7;
	attr.max_rd_atomic = 1;
	return ibv_modify_qp(rig->qp, &attr,
			     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				     IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

static int open_rig(struct rig *rig)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC, .sq_sig_all = 1 };
	struct ibv_device **list = ibv_get_device_list(NULL);

	memset(rig, 0, sizeof(*rig));
	rig->context = list && list[0] ? ibv_open_device(list[0]) : NULL;
	if (!rig->context || !(rig->pd = ibv_alloc_pd(rig->context)) ||
	    !(rig->cq = ibv_create_cq(rig->context, 8, NULL, NULL, 0)) ||
	    !(rig->mr = ibv_reg_mr(rig->pd, rig->buf, sizeof(rig->buf), IBV_ACCESS_LOCAL_WRITE)))
		return -1;
	init.send_cq = init.recv_cq = rig->cq;
	init.cap.max_send_wr = init.cap.max_recv_wr = 4;
	init.cap.max_send_sge = init.cap.max_recv_sge = 1;
	rig->qp = ibv_create_qp(rig->pd, &init);
	return rig->qp ? connect_qp(rig) : -1;
}

/* The status of a message from the queue pair to itself; -1 if it cannot be posted. */
static int exchange(struct rig *rig)
{
	struct ibv_sge sge = { (uintptr_t)rig->buf, 8, rig->mr->lkey };
	struct ibv_recv_wr recv = { .sg_list = &sge, .num_sge = 1 }, *bad_recv;
	struct ibv_send_wr send = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND }, *bad_send;
	struct ibv_wc wc = {};
	int status = IBV_WC_SUCCESS;

	if (ibv_post_recv(rig->qp, &recv, &bad_recv) || ibv_post_send(rig->qp, &send, &bad_send))
		return -1;
	for (int left = 2; left;) {
		if (ibv_poll_cq(rig->cq, 1, &wc) != 1)
			continue;
		left--;
		if (wc.status)
			status = wc.status;
	}
	return status;
}

/* The type of the next event, which must come within 20 seconds. */
static int next_event(struct rig *rig)
{
	struct pollfd poll_fd = { .fd = rig->context->async_fd, .events = POLLIN };
	struct ibv_async_event event;

	if (poll(&poll_fd, 1, 20000) != 1 || ibv_get_async_event(rig->context, &event))
		return -1;
	ibv_ack_async_event(&event);
	return event.event_type;
}

static int port_state(struct rig *rig)
{
	struct ibv_port_attr attr = {};

	return ibv_query_port(rig->context, 1, &attr) ? -1 : (int)attr.state;
}

static int qp_state(struct rig *rig)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr = {};

	return ibv_query_qp(rig->qp, &attr, IBV_QP_STATE, &init) ? -1 : (int)attr.qp_state;
}

static void device_dies(void)
{
	struct rig rig, again;
	int tries = 0;

	report("open", open_rig(&rig) == 0);
	report("works", exchange(&rig) == IBV_WC_SUCCESS);
	report("device-fatal", next_event(&rig) == IBV_EVENT_DEVICE_FATAL);
	report("verbs-fail", !ibv_alloc_pd(rig.context) && errno == EIO);
	/* The device is back: a new context works, the old queue pair does not. */
	while (open_rig(&again) && ++tries < 100)
		usleep(50000);
	report("back", tries > 0 && tries < 100);
	report("qp-in-error", qp_state(&rig) == IBV_QPS_ERR);
	report("flushed", exchange(&rig) == IBV_WC_WR_FLUSH_ERR);
	report("works-again", exchange(&again) == IBV_WC_SUCCESS);
}

static void link_down(void)
{
	struct timespec start, end;
	struct rig rig;

	report("open", open_rig(&rig) == 0);
	report("works", exchange(&rig) == IBV_WC_SUCCESS);
	report("port-err", next_event(&rig) == IBV_EVENT_PORT_ERR);
	report("port-down", port_state(&rig) == IBV_PORT_DOWN);
	/* Retransmission bridges the time until the link is up again. */
	clock_gettime(CLOCK_MONOTONIC, &start);
	report("survives", exchange(&rig) == IBV_WC_SUCCESS);
	clock_gettime(CLOCK_MONOTONIC, &end);
	report("took-time",
	       (end.tv_sec - start.tv_sec) * 1000 + (end.tv_nsec - start.tv_nsec) / 1000000 > 50);
	report("port-active", next_event(&rig) == IBV_EVENT_PORT_ACTIVE);
	report("port-up", port_state(&rig) == IBV_PORT_ACTIVE);
	report("works-again", exchange(&rig) == IBV_WC_SUCCESS);
}

/* Whether the GID that the queue pairs have is there. */
static int has_gid(struct rig *rig)
{
	struct ibv_gid_entry entry, table[16];
	int found = ibv_query_gid_ex(rig->context, 1, 1, &entry, 0) == 0;
	ssize_t entries = ibv_query_gid_table(rig->context, table, 16, 0);

	return entries < 0 || found != (entries > 1) ? -1 : found;
}

static void gids_removed(void)
{
	struct ibv_ah_attr attr = { .is_global = 1, .port_num = 1, .grh.sgid_index = 1 };
	struct rig rig;

	report("open", open_rig(&rig) == 0);
	report("works", exchange(&rig) == IBV_WC_SUCCESS);
	report("has-gid", has_gid(&rig) == 1 && !ibv_query_gid(rig.context, 1, 1, &attr.grh.dgid));
	report("gid-change", next_event(&rig) == IBV_EVENT_GID_CHANGE);
	report("no-gid", has_gid(&rig) == 0);
	report("no-ah", !ibv_create_ah(rig.pd, &attr));
	report("port-is-up", port_state(&rig) == IBV_PORT_ACTIVE);
	/* Retransmission bridges the time until the GID is there again. */
	report("survives", exchange(&rig) == IBV_WC_SUCCESS);
	report("gid-change-again", next_event(&rig) == IBV_EVENT_GID_CHANGE);
	report("has-gid-again", has_gid(&rig) == 1);
	report("ah-again", ibv_create_ah(rig.pd, &attr) != NULL);
	report("works-again", exchange(&rig) == IBV_WC_SUCCESS);
}

/* The third message of each queue pair fails. */
static void third_of_each(void)
{
	struct rig one, two;

	report("open", open_rig(&one) == 0 && open_rig(&two) == 0);
	report("first", exchange(&one) == IBV_WC_SUCCESS && exchange(&two) == IBV_WC_SUCCESS);
	report("second", exchange(&one) == IBV_WC_SUCCESS && exchange(&two) == IBV_WC_SUCCESS);
	report("third", exchange(&one) == IBV_WC_RETRY_EXC_ERR);
	report("third-of-other", exchange(&two) == IBV_WC_RETRY_EXC_ERR);
	report("in-error", qp_state(&one) == IBV_QPS_ERR && qp_state(&two) == IBV_QPS_ERR);
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "device"))
		device_dies();
	else if (argc > 1 && !strcmp(argv[1], "link"))
		link_down();
	else if (argc > 1 && !strcmp(argv[1], "gids"))
		gids_removed();
	else
		third_of_each();
	return failed;
}
