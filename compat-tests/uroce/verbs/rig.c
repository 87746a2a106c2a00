#include "check.h"

void set_up(struct rig *rig)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_gid_entry entries[64];
	const char *wanted = getenv("DEVICE");
	int i = 0;
	ssize_t n;

	memset(rig, 0, sizeof(*rig));
	NEED(list);
	while (list[i] && wanted && strcmp(ibv_get_device_name(list[i]), wanted))
		i++;
	NEED(list[i]);
	NEED(rig->context = ibv_open_device(list[i]));
	ibv_free_device_list(list);
	NEED(rig->pd = ibv_alloc_pd(rig->context));
	NEED(rig->cq = ibv_create_cq(rig->context, 256, NULL, NULL, 0));
	NEED(rig->buf = aligned_alloc(4096, SIZE));
	memset(rig->buf, 0, SIZE);
	NEED(rig->mr = ibv_reg_mr(rig->pd, rig->buf, SIZE, ALL_ACCESS));
	n = ibv_query_gid_table(rig->context, entries, 64, 0);
	NEED(n > 0);
	/* Prefers an IPv4 address: a link-local one may still be tentative. */
	rig->gid = entries[0].gid;
	rig->gid_index = entries[0].gid_index;
	while (n-- > 0)
		if (!memcmp(entries[n].gid.raw, "\0\0\0\0\0\0\0\0\0\0\xff\xff", 12)) {
			rig->gid = entries[n].gid;
			rig->gid_index = entries[n].gid_index;
		}
}

static struct kept {
	void *object;
	enum kept_kind kind;
} kept[256];
static size_t count;

void *keep(void *object, enum kept_kind kind)
{
	NEED(count < sizeof(kept) / sizeof(*kept));
	if (object)
		kept[count++] = (struct kept){ object, kind };
	return object;
}

static int destroy(struct kept of)
{
	switch (of.kind) {
	case KEPT_QP:
		return ibv_destroy_qp(of.object);
	case KEPT_CQ:
		return ibv_destroy_cq(of.object);
	case KEPT_CHANNEL:
		return ibv_destroy_comp_channel(of.object);
	case KEPT_SRQ:
		return ibv_destroy_srq(of.object);
	case KEPT_XRCD:
		return ibv_close_xrcd(of.object);
	case KEPT_AH:
		return ibv_destroy_ah(of.object);
	case KEPT_MW:
		return ibv_dealloc_mw(of.object);
	case KEPT_MR:
		return ibv_dereg_mr(of.object);
	case KEPT_DM:
		return ibv_free_dm(of.object);
	case KEPT_PD:
		return ibv_dealloc_pd(of.object);
	case KEPT_TD:
		return ibv_dealloc_td(of.object);
	case KEPT_CONTEXT:
		return ibv_close_device(of.object);
	case KEPT_MEMORY:
		free(of.object);
		return 0;
	}
	return -1;
}

int end(void *object)
{
	size_t i = count;

	do
		NEED(i-- > 0);
	while (kept[i].object != object);
	int error = destroy(kept[i]);
	if (!error)
		kept[i].object = NULL;
	return error;
}

void end_all(void)
{
	for (size_t i = 0; i < count; i++)
		if (kept[i].object && kept[i].kind == KEPT_QP)
			CHECK(end(kept[i].object) == 0);
	for (; count > 0; count--)
		if (kept[count - 1].object)
			CHECK(end(kept[count - 1].object) == 0);
}

void tear_down(struct rig *rig)
{
	end_all();
	CHECK(ibv_dereg_mr(rig->mr) == 0);
	CHECK(ibv_destroy_cq(rig->cq) == 0);
	CHECK(ibv_dealloc_pd(rig->pd) == 0);
	CHECK(ibv_close_device(rig->context) == 0);
	free(rig->buf);
}

struct ibv_qp *make_qp(struct rig *rig, enum ibv_qp_type type, uint64_t ops, struct ibv_srq *srq)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_context = rig,
		.send_cq = rig->cq,
		.recv_cq = rig->cq,
		.srq = srq,
		.cap = { 16, 16, 4, 4, 64 },
		.qp_type = type,
		.sq_sig_all = 1,
		.pd = rig->pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD | (ops ? IBV_QP_INIT_ATTR_SEND_OPS_FLAGS : 0),
		.send_ops_flags = ops,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(rig->context, &attr);

	NEED(qp);
	return qp;
}

int to_init(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT,
				    .port_num = PORT,
				    .qkey = QKEY,
				    .qp_access_flags = ALL_ACCESS & ~IBV_ACCESS_MW_BIND };

	return ibv_modify_qp(qp, &attr,
			     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				     (qp->qp_type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
}

int to_rtr(struct rig *rig, struct ibv_qp *qp, uint32_t dest)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = dest,
		.rq_psn = 0xfffffe,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 1,
		.ah_attr = { .is_global = 1,
			     .port_num = PORT,
			     .grh = { .dgid = rig->gid, .sgid_index = rig->gid_index, .hop_limit = 1 } },
	};
	int mask = IBV_QP_STATE;

	if (qp->qp_type != IBV_QPT_UD)
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (qp->qp_type == IBV_QPT_RC)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	return ibv_modify_qp(qp, &attr, mask);
}

int to_rts(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS,
				    .sq_psn = 0xfffffe,
				    .timeout = 14,
				    .retry_cnt = 3,
				    .rnr_retry = 3,
				    .max_rd_atomic = 4 };
	int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;

	if (qp->qp_type == IBV_QPT_RC)
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	return ibv_modify_qp(qp, &attr, mask);
}

void join(struct rig *rig, struct ibv_qp *a, struct ibv_qp *b)
{
	struct ibv_qp *both[] = { a, b };

	for (int i = 0; i < (a == b ? 1 : 2); i++) {
		NEED(to_init(both[i]) == 0);
		NEED(to_rtr(rig, both[i], both[!i]->qp_num) == 0);
		NEED(to_rts(both[i]) == 0);
	}
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

struct ibv_wc next_wc(struct ibv_cq *cq)
{
	struct ibv_wc wc = { .status = IBV_WC_GENERAL_ERR };
	double end = now() + WAIT_SECONDS;
	int n;

	while ((n = ibv_poll_cq(cq, 1, &wc)) == 0 && now() < end)
		;
	CHECK(n == 1);
	return wc;
}

int next_event(struct rig *rig)
{
	struct pollfd fd = { .fd = rig->context->async_fd, .events = POLLIN };
	struct ibv_async_event event;

	if (poll(&fd, 1, WAIT_SECONDS * 1000) != 1 || ibv_get_async_event(rig->context, &event))
		return -1;
	ibv_ack_async_event(&event);
	return event.event_type;
}

int post(struct ibv_qp *qp, struct rig *rig, enum ibv_wr_opcode op, int from, int len, int64_t to,
	 uint32_t rkey)
{
	struct ibv_sge sge = { (uintptr_t)rig->buf + from, len, rig->mr->lkey };
	struct ibv_send_wr *bad = NULL, wr = { .wr_id = op, .sg_list = &sge, .num_sge = 1, .opcode = op };
	int error;

	if (op == IBV_WR_ATOMIC_CMP_AND_SWP || op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = (uintptr_t)rig->buf + to;
		wr.wr.atomic.rkey = rkey;
		wr.wr.atomic.compare_add = 5;
		wr.wr.atomic.swap = 9;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)rig->buf + to;
		wr.wr.rdma.rkey = rkey;
	}
	error = ibv_post_send(qp, &wr, &bad);
	CHECK(!error == !bad && (!error || bad == &wr));
	return error;
}

int post_recv(struct ibv_qp *qp, struct rig *rig, uint64_t id, int at, int len)
{
	struct ibv_sge sge = { (uintptr_t)rig->buf + at, len, rig->mr->lkey };
	struct ibv_recv_wr *bad, wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 };

	return ibv_post_recv(qp, &wr, &bad);
}

int run_checks(const struct check *checks, size_t count, const char *name)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (size_t i = 0; i < count; i++) {
		int before = failures;

		if (name && !strcmp(name, "list"))
			puts(checks[i].name);
		if (name && strcmp(name, checks[i].name))
			continue;
		checks[i].run();
		printf("%s: %s\n", checks[i].name, failures == before ? "ok" : "FAILED");
	}
	return failures != 0;
}

unsigned long long counter(const char *name)
{
	unsigned long long value = 0;
	char path[256];
	FILE *file;

	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/1/hw_counters/%s", getenv("DEVICE"),
		 name);
	NEED(file = fopen(path, "r"));
	NEED(fscanf(file, "%llu", &value) == 1);
	fclose(file);
	return value;
}
