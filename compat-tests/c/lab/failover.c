/*
 * A device that dies and comes back, a link that goes down, and GIDs that are removed: what the program sees,
 * in order. IBV_FAULTS has the script; `failover device|link|gids`.
 */
#include "../../uroce/verbs/check.h"
#include "report.h"

int failures;

/* A device with a queue pair that is connected with itself. */
struct loop {
	struct rig rig;
	struct ibv_qp *qp;
};

static struct loop new_loop(void)
{
	struct ibv_qp_attr rts = { .qp_state = IBV_QPS_RTS,
				   .sq_psn = 0xfffffe,
				   .timeout = 14,
				   .retry_cnt = 7,
				   .rnr_retry = 7,
				   .max_rd_atomic = 1 };
	struct loop loop;

	set_up(&loop.rig);
	loop.qp = make_qp(&loop.rig, IBV_QPT_RC, 0, NULL);
	NEED(to_init(loop.qp) == 0 && to_rtr(&loop.rig, loop.qp, loop.qp->qp_num) == 0);
	NEED(ibv_modify_qp(loop.qp, &rts, RTS_MASK) == 0);
	return loop;
}

/* The status of a message from the queue pair to itself; -1 if it cannot be posted. */
static int exchange(struct loop *loop)
{
	int status = IBV_WC_SUCCESS;

	if (recv_one(loop->qp, part(&loop->rig, 0, 8)) ||
	    send_to(loop->qp, part(&loop->rig, 0, 8), IBV_WR_SEND, 0, 0))
		return -1;
	for (int left = 2; left; left--) {
		struct ibv_wc wc = next_wc(loop->rig.cq);

		if (wc.status)
			status = wc.status;
	}
	return status;
}

static int port_state(struct rig *rig)
{
	struct ibv_port_attr attr = {};

	return ibv_query_port(rig->context, 1, &attr) ? -1 : (int)attr.state;
}

static int qp_state(struct loop *loop)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr = {};

	return ibv_query_qp(loop->qp, &attr, IBV_QP_STATE, &init) ? -1 : (int)attr.qp_state;
}

/* Whether a new context of the device works. */
static bool is_back(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = list && list[0] ? ibv_open_device(list[0]) : NULL;

	return context && ibv_alloc_pd(context);
}

static void device_dies(void)
{
	struct loop loop = new_loop(), again;
	int tries = 0;

	report("works", exchange(&loop) == IBV_WC_SUCCESS);
	report("device-fatal", next_event(&loop.rig) == IBV_EVENT_DEVICE_FATAL);
	report("verbs-fail", !ibv_alloc_pd(loop.rig.context) && errno == EIO);
	/* The device is back: a new context works, the old queue pair does not. */
	while (!is_back() && ++tries < 100)
		usleep(50000);
	report("back", tries > 0 && tries < 100);
	again = new_loop();
	report("qp-in-error", qp_state(&loop) == IBV_QPS_ERR);
	report("flushed", exchange(&loop) == IBV_WC_WR_FLUSH_ERR);
	report("works-again", exchange(&again) == IBV_WC_SUCCESS);
}

static void link_down(void)
{
	struct loop loop = new_loop();
	double start;

	report("works", exchange(&loop) == IBV_WC_SUCCESS);
	report("port-err", next_event(&loop.rig) == IBV_EVENT_PORT_ERR);
	report("port-down", port_state(&loop.rig) == IBV_PORT_DOWN);
	/* Retransmission bridges the time until the link is up again. */
	start = now();
	report("survives", exchange(&loop) == IBV_WC_SUCCESS);
	report("took-time", now() - start > 0.05);
	report("port-active", next_event(&loop.rig) == IBV_EVENT_PORT_ACTIVE);
	report("port-up", port_state(&loop.rig) == IBV_PORT_ACTIVE);
	report("works-again", exchange(&loop) == IBV_WC_SUCCESS);
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
	struct loop loop = new_loop();

	report("works", exchange(&loop) == IBV_WC_SUCCESS);
	report("has-gid", has_gid(&loop.rig) == 1 && !ibv_query_gid(loop.rig.context, 1, 1, &attr.grh.dgid));
	report("gid-change", next_event(&loop.rig) == IBV_EVENT_GID_CHANGE);
	report("no-gid", has_gid(&loop.rig) == 0);
	report("no-ah", !ibv_create_ah(loop.rig.pd, &attr));
	report("port-is-up", port_state(&loop.rig) == IBV_PORT_ACTIVE);
	/* Retransmission bridges the time until the GID is there again. */
	report("survives", exchange(&loop) == IBV_WC_SUCCESS);
	report("gid-change-again", next_event(&loop.rig) == IBV_EVENT_GID_CHANGE);
	report("has-gid-again", has_gid(&loop.rig) == 1);
	report("ah-again", ibv_create_ah(loop.rig.pd, &attr) != NULL);
	report("works-again", exchange(&loop) == IBV_WC_SUCCESS);
}

/* The third message of each queue pair fails. */
static void third_of_each(void)
{
	struct loop one = new_loop(), two = new_loop();

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
