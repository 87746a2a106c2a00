#include "check.h"

#include <fcntl.h>
#include <sys/wait.h>

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
} kept[16384];
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

static struct kept *find(void *object)
{
	size_t i = count;

	do
		NEED(i-- > 0);
	while (kept[i].object != object);
	return &kept[i];
}

void forget(void *object)
{
	find(object)->object = NULL;
}

int end(void *object)
{
	struct kept *of = find(object);
	int error = destroy(*of);

	if (!error)
		of->object = NULL;
	return error;
}

void end_all(void)
{
	for (size_t i = 0; i < count; i++)
		if (kept[i].object && kept[i].kind == KEPT_QP) {
			CHECK(destroy(kept[i]) == 0);
			kept[i].object = NULL;
		}
	for (; count > 0; count--)
		if (kept[count - 1].object)
			CHECK(destroy(kept[count - 1]) == 0);
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
	struct ibv_qp *qp = KEEP(ibv_create_qp_ex(rig->context, &attr));

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

struct ibv_qp_attr rtr_attr(struct rig *rig, uint32_t dest)
{
	return (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = dest,
		.rq_psn = 7,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 1,
		.ah_attr = { .is_global = 1,
			     .port_num = PORT,
			     .grh = { .dgid = rig->gid, .sgid_index = rig->gid_index, .hop_limit = 1 } },
	};
}

int to_rtr(struct rig *rig, struct ibv_qp *qp, uint32_t dest)
{
	struct ibv_qp_attr attr = rtr_attr(rig, dest);
	int mask = qp->qp_type == IBV_QPT_UD ? IBV_QP_STATE : RTR_MASK;

	attr.rq_psn = 0xfffffe;
	attr.max_dest_rd_atomic = 4;
	if (qp->qp_type == IBV_QPT_UC || qp->qp_type == IBV_QPT_XRC_SEND)
		mask &= ~(IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
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
	bool requests = qp->qp_type == IBV_QPT_RC || qp->qp_type == IBV_QPT_XRC_SEND;
	int mask = requests ? RTS_MASK : IBV_QP_STATE | IBV_QP_SQ_PSN;

	if (qp->qp_type == IBV_QPT_XRC_RECV)
		mask |= IBV_QP_TIMEOUT;
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

void connected(struct rig *rig, struct ibv_qp **a, struct ibv_qp **b)
{
	*a = make_qp(rig, IBV_QPT_RC, 0, NULL);
	*b = make_qp(rig, IBV_QPT_RC, 0, NULL);
	join(rig, *a, *b);
}

double now(void)
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

struct ibv_sge part(struct rig *rig, int from, int length)
{
	return (struct ibv_sge){ (uintptr_t)rig->buf + from, length, rig->mr->lkey };
}

int post_one(struct ibv_qp *qp, struct ibv_sge sge, struct ibv_send_wr wr)
{
	struct ibv_send_wr *bad;

	wr.sg_list = &sge;
	wr.num_sge = 1;
	return ibv_post_send(qp, &wr, &bad);
}

int recv_one(struct ibv_qp *qp, struct ibv_sge sge)
{
	struct ibv_recv_wr *bad, wr = { .wr_id = 3, .sg_list = &sge, .num_sge = 1 };

	return ibv_post_recv(qp, &wr, &bad);
}

int srq_recv(struct ibv_srq *srq, struct ibv_sge sge)
{
	struct ibv_recv_wr *bad, wr = { .wr_id = 4, .sg_list = &sge, .num_sge = 1 };

	return ibv_post_srq_recv(srq, &wr, &bad);
}

int send_with(struct ibv_qp *qp, struct ibv_sge sge, struct ibv_send_wr wr, uint64_t to, uint32_t rkey)
{
	wr.wr.rdma.remote_addr = to;
	wr.wr.rdma.rkey = rkey;
	if (wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = to;
		wr.wr.atomic.rkey = rkey;
		wr.wr.atomic.compare_add = 1;
	}
	return post_one(qp, sge, wr);
}

int send_to(struct ibv_qp *qp, struct ibv_sge sge, enum ibv_wr_opcode op, uint64_t to, uint32_t rkey)
{
	struct ibv_send_wr wr = { .wr_id = 31, .opcode = op, .invalidate_rkey = rkey };

	return send_with(qp, sge, wr, to, rkey);
}

int datagram(struct ibv_qp *qp, struct ibv_ah *ah, uint32_t qpn, struct ibv_sge sge)
{
	struct ibv_send_wr wr = { .wr_id = 5, .opcode = IBV_WR_SEND, .wr.ud = { ah, qpn, QKEY } };

	return post_one(qp, sge, wr);
}

struct ibv_ah *new_ah(struct rig *rig, union ibv_gid to)
{
	struct ibv_ah_attr attr = { .is_global = 1,
				    .port_num = PORT,
				    .grh = { .dgid = to, .sgid_index = rig->gid_index, .hop_limit = 1 } };
	struct ibv_ah *ah = KEEP(ibv_create_ah(rig->pd, &attr));

	NEED(ah);
	return ah;
}

struct ibv_srq *new_srq(struct rig *rig, unsigned size)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = size, .max_sge = 1 } };
	struct ibv_srq *srq = KEEP(ibv_create_srq(rig->pd, &attr));

	NEED(srq);
	return srq;
}

struct ibv_xrcd *open_domain(struct rig *rig, int fd, int oflags)
{
	struct ibv_xrcd_init_attr attr = { .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
					   .fd = fd,
					   .oflags = oflags };

	errno = 0;
	return ibv_open_xrcd(rig->context, &attr);
}

struct domain new_domain(struct rig *rig)
{
	struct domain domain = { .xrcd = KEEP(open_domain(rig, -1, O_CREAT)) };
	struct ibv_srq_init_attr_ex srq = { .attr = { .max_wr = 8, .max_sge = 1 },
					    .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
							 IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
					    .srq_type = IBV_SRQT_XRC,
					    .pd = rig->pd,
					    .xrcd = domain.xrcd,
					    .cq = rig->cq };

	NEED(domain.xrcd && (domain.srq = KEEP(ibv_create_srq_ex(rig->context, &srq))));
	NEED(ibv_get_srq_num(domain.srq, &domain.number) == 0);
	return domain;
}

struct ends xrc_ends(struct rig *rig, struct domain domain)
{
	struct ibv_qp_init_attr_ex recv = { .qp_type = IBV_QPT_XRC_RECV,
					    .xrcd = domain.xrcd,
					    .comp_mask = IBV_QP_INIT_ATTR_XRCD };
	struct ends ends = { make_qp(rig, IBV_QPT_XRC_SEND, 0, NULL),
			     KEEP(ibv_create_qp_ex(rig->context, &recv)) };

	NEED(ends.b);
	join(rig, ends.b, ends.a);
	return ends;
}

enum ibv_wc_status request(struct rig *rig, enum ibv_wr_opcode op, struct ibv_sge local, uint64_t remote,
			   uint32_t rkey)
{
	struct ibv_qp *a = make_qp(rig, IBV_QPT_RC, 0, NULL), *b = make_qp(rig, IBV_QPT_RC, 0, NULL);
	struct ibv_wc wc;

	join(rig, a, b);
	NEED(send_to(a, local, op, remote, rkey) == 0);
	wc = next_wc(rig->cq);
	CHECK(wc.qp_num == a->qp_num && wc.wr_id == 31);
	CHECK(wc.status != IBV_WC_REM_ACCESS_ERR || next_event(rig) == IBV_EVENT_QP_ACCESS_ERR);
	CHECK(end(a) == 0 && end(b) == 0);
	return wc.status;
}

pid_t start_child(void)
{
	fflush(stdout);
	pid_t pid = fork();

	NEED(pid >= 0);
	if (pid == 0)
		failures = 0;
	return pid;
}

void await_child(pid_t pid)
{
	int status;

	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

static void run_check(const struct check *check)
{
	struct rig rig, copy;

	if (check->run) {
		check->run();
		return;
	}
	set_up(&rig);
	for (const check_part *run = check->parts; *run; run++) {
		copy = rig;
		(*run)(&copy);
		end_all();
	}
	tear_down(&rig);
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
		run_check(&checks[i]);
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
