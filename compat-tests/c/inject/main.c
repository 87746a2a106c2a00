/*
 * inject SCENE [ARGUMENT...]: does something that rules of IBV_FAULTS disturb, and prints or checks the
 * result. The test case sets the rules. Exits with 0 if the scene's checks pass.
 */
#define _GNU_SOURCE
#include "../../uroce/verbs/check.h"

#include <dlfcn.h>
#include <fcntl.h>

int failures;
/* When the program started, which is before the rules were set. */
static double started;

static double milliseconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e3 + t.tv_nsec * 1e-6;
}

static void print_counter(const char *name)
{
	unsigned long long value = 0;
	char path[256];
	FILE *file;

	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/1/hw_counters/%s", getenv("DEVICE"),
		 name);
	NEED(file = fopen(path, "r"));
	NEED(fscanf(file, "%llu", &value) == 1);
	fclose(file);
	printf("%s=%llu\n", name, value);
}

static enum ibv_qp_state state_of(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	NEED(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init) == 0);
	return attr.qp_state;
}

static void connected(struct rig *rig, struct ibv_qp **a, struct ibv_qp **b)
{
	*a = make_qp(rig, IBV_QPT_RC, 0, NULL);
	*b = make_qp(rig, IBV_QPT_RC, 0, NULL);
	join(rig, *a, *b);
}

static void drop(struct rig *rig, struct ibv_qp *a, struct ibv_qp *b)
{
	CHECK(ibv_destroy_qp(a) == 0);
	CHECK(ibv_destroy_qp(b) == 0);
	tear_down(rig);
}

/* send N LENGTH: that many messages, one after the other, all of which arrive. */
static void send_messages(struct rig *rig, char **argv)
{
	static const char *const counters[] = { "rx_icrc_encapsulated", "duplicate_request", "send_rnr_err",
						"rcvd_rnr_err", "completer_retry_err" };
	int count = atoi(argv[0]), length = atoi(argv[1]), good = 0;
	double begin = milliseconds();
	struct ibv_qp *a, *b;

	connected(rig, &a, &b);
	for (int i = 0; i < count; i++) {
		NEED(post_recv(b, rig, 100 + i, SIZE / 2, SIZE / 2) == 0);
		NEED(post(a, rig, IBV_WR_SEND, 0, length, 0, 0) == 0);
		for (int k = 0; k < 2; k++)
			good += next_wc(rig->cq).status == IBV_WC_SUCCESS;
	}
	CHECK(good == 2 * count);
	printf("ms=%.0f\n", milliseconds() - begin);
	for (size_t i = 0; i < sizeof(counters) / sizeof(*counters); i++)
		print_counter(counters[i]);
	drop(rig, a, b);
}

/* status N: the send completes with this status, and its queue pair is in ERR. */
static void status_of_send(struct rig *rig, char **argv)
{
	struct ibv_wc wc = { .status = IBV_WC_SUCCESS };
	struct ibv_qp *a, *b;

	connected(rig, &a, &b);
	NEED(post_recv(b, rig, 100, SIZE / 2, 64) == 0);
	NEED(post(a, rig, IBV_WR_SEND, 0, 64, 0, 0) == 0);
	for (int i = 0; i < 2 && wc.qp_num != a->qp_num; i++)
		wc = next_wc(rig->cq);
	CHECK(wc.status == (enum ibv_wc_status)atoi(argv[0]));
	CHECK(state_of(a) == IBV_QPS_ERR);
	CHECK(post(a, rig, IBV_WR_SEND, 0, 64, 0, 0) == 0);
	do
		wc = next_wc(rig->cq);
	while (wc.qp_num != a->qp_num && !failures);
	CHECK(wc.status == IBV_WC_WR_FLUSH_ERR);
	drop(rig, a, b);
}

/* status-recv N: the receive completes with this status, the send without error. */
static void status_of_receive(struct rig *rig, char **argv)
{
	struct ibv_qp *a, *b;

	connected(rig, &a, &b);
	NEED(post_recv(b, rig, 100, SIZE / 2, 64) == 0);
	NEED(post(a, rig, IBV_WR_SEND, 0, 64, 0, 0) == 0);
	for (int i = 0; i < 2; i++) {
		struct ibv_wc wc = next_wc(rig->cq);

		CHECK(wc.status ==
		      (wc.qp_num == b->qp_num ? (enum ibv_wc_status)atoi(argv[0]) : IBV_WC_SUCCESS));
	}
	CHECK(state_of(b) == IBV_QPS_ERR);
	drop(rig, a, b);
}

/* status-ex N: as status, with an extended CQ. */
static void status_of_extended(struct rig *rig, char **argv)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = 16, .wc_flags = IBV_WC_EX_WITH_QP_NUM };
	struct ibv_poll_cq_attr poll_attr = { 0 };
	struct ibv_cq_ex *cq = ibv_create_cq_ex(rig->context, &attr);
	struct ibv_cq *plain = rig->cq;
	double end = milliseconds() + 2000;
	int status = -1;
	struct ibv_qp *a, *b;

	NEED(cq);
	rig->cq = ibv_cq_ex_to_cq(cq);
	connected(rig, &a, &b);
	NEED(post_recv(b, rig, 100, SIZE / 2, 64) == 0);
	NEED(post(a, rig, IBV_WR_SEND, 0, 64, 0, 0) == 0);
	while (status < 0 && milliseconds() < end) {
		if (ibv_start_poll(cq, &poll_attr))
			continue;
		do
			if (ibv_wc_read_qp_num(cq) == a->qp_num)
				status = cq->status;
		while (ibv_next_poll(cq) == 0);
		ibv_end_poll(cq);
	}
	CHECK(status == atoi(argv[0]));
	CHECK(state_of(a) == IBV_QPS_ERR);
	CHECK(ibv_destroy_qp(a) == 0);
	CHECK(ibv_destroy_qp(b) == 0);
	CHECK(ibv_destroy_cq(rig->cq) == 0);
	rig->cq = plain;
	tear_down(rig);
}

#define POINTER(name, expression) \
	if (!strcmp(call, #name)) \
	return (errno = 0, (expression) ? 0 : errno)
#define NUMBER(name, expression) \
	if (!strcmp(call, #name)) { \
		int ret = (errno = 0, (expression)); \
		return ret < 0 ? errno : ret; \
	}

struct objects {
	struct ibv_qp *qp, *extended;
	struct ibv_srq *srq;
	struct ibv_mw *mw;
};

/* ibv_reg_mr_ex, which the library that this program is linked with does not have. */
static struct ibv_mr *register_by(struct ibv_pd *pd, struct ibv_mr_init_attr *attr)
{
	union {
		void *found;
		struct ibv_mr *(*function)(struct ibv_pd *pd, struct ibv_mr_init_attr *attr);
	} symbol = { dlsym(RTLD_DEFAULT, "ibv_reg_mr_ex") };

	NEED(symbol.found);
	return symbol.function(pd, attr);
}

/* Calls a verb that creates something. Returns errno, 0 after success, -1 for an unknown verb. */
static int create(struct rig *rig, struct objects *of, const char *call)
{
	struct ibv_ah_attr ah = { .is_global = 1,
				  .port_num = PORT,
				  .grh = { .dgid = rig->gid, .sgid_index = rig->gid_index, .hop_limit = 1 } };
	struct ibv_qp_init_attr qp = {
		.send_cq = rig->cq, .recv_cq = rig->cq, .cap = { 1, 1, 1, 1, 0 }, .qp_type = IBV_QPT_RC
	};
	struct ibv_qp_init_attr_ex qp_ex = { .send_cq = rig->cq,
					     .recv_cq = rig->cq,
					     .cap = { 1, 1, 1, 1, 0 },
					     .qp_type = IBV_QPT_RC,
					     .comp_mask = IBV_QP_INIT_ATTR_PD |
							  IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
					     .pd = rig->pd,
					     .send_ops_flags = IBV_QP_EX_WITH_SEND };
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = 1, .max_sge = 1 } };
	struct ibv_srq_init_attr_ex srq_ex = { .attr = { .max_wr = 1, .max_sge = 1 },
					       .comp_mask = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE |
							    IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_XRCD,
					       .srq_type = IBV_SRQT_XRC,
					       .pd = rig->pd };
	struct ibv_cq_init_attr_ex cq_ex = { .cqe = 1, .wc_flags = IBV_WC_EX_WITH_TM_INFO };
	struct ibv_parent_domain_init_attr domain = { .pd = rig->pd };
	struct ibv_xrcd_init_attr xrcd = { .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
					   .fd = -1,
					   .oflags = O_CREAT };
	struct ibv_rwq_ind_table_init_attr table = { 0 };
	struct ibv_counters_init_attr counters = { 0 };
	struct ibv_wq_init_attr wq = { .pd = rig->pd, .cq = rig->cq };
	struct ibv_qp_open_attr open = { 0 };
	struct ibv_alloc_dm_attr dm = { .length = 4096 };
	struct ibv_dm no_dm = { .context = rig->context };
	struct ibv_flow_attr flow = { .size = sizeof(flow), .port = PORT };
	struct ibv_td_init_attr td = { 0 };
	struct ibv_mr_init_attr mr = { .length = 4096,
				       .access = IBV_ACCESS_LOCAL_WRITE,
				       .comp_mask = IBV_REG_MR_MASK_ADDR,
				       .addr = rig->buf };

	POINTER(alloc_dm, ibv_alloc_dm(rig->context, &dm));
	POINTER(alloc_mw, ibv_alloc_mw(rig->pd, IBV_MW_TYPE_1));
	POINTER(alloc_null_mr, ibv_alloc_null_mr(rig->pd));
	POINTER(alloc_parent_domain, ibv_alloc_parent_domain(rig->context, &domain));
	POINTER(alloc_pd, ibv_alloc_pd(rig->context));
	POINTER(alloc_td, ibv_alloc_td(rig->context, &td));
	POINTER(create_ah, ibv_create_ah(rig->pd, &ah));
	POINTER(create_counters, ibv_create_counters(rig->context, &counters));
	POINTER(create_cq, ibv_create_cq(rig->context, 1, NULL, NULL, 0));
	POINTER(create_cq_ex, ibv_create_cq_ex(rig->context, &cq_ex));
	POINTER(create_flow, ibv_create_flow(of->qp, &flow));
	POINTER(create_qp, ibv_create_qp(rig->pd, &qp));
	POINTER(create_qp_ex, ibv_create_qp_ex(rig->context, &qp_ex));
	POINTER(create_rwq_ind_table, ibv_create_rwq_ind_table(rig->context, &table));
	POINTER(create_srq, ibv_create_srq(rig->pd, &srq));
	POINTER(create_srq_ex, ibv_create_srq_ex(rig->context, &srq_ex));
	POINTER(create_wq, ibv_create_wq(rig->context, &wq));
	POINTER(open_qp, ibv_open_qp(rig->context, &open));
	POINTER(open_xrcd, ibv_open_xrcd(rig->context, &xrcd));
	POINTER(reg_dm_mr, ibv_reg_dm_mr(rig->pd, &no_dm, 0, 64, 0));
	POINTER(reg_dmabuf_mr, ibv_reg_dmabuf_mr(rig->pd, 0, 4096, 0, -1, IBV_ACCESS_LOCAL_WRITE));
	POINTER(reg_mr, ibv_reg_mr(rig->pd, rig->buf, SIZE, IBV_ACCESS_LOCAL_WRITE));
	POINTER(reg_mr_ex, register_by(rig->pd, &mr));
	return -1;
}

/* Posts a request by ibv_wr_complete, which takes what was built or drops it. Then the next one can be built.
 */
static int build(struct rig *rig, struct ibv_qp *qp)
{
	struct ibv_qp_ex *qpx = ibv_qp_to_qp_ex(qp);

	ibv_wr_start(qpx);
	qpx->wr_id = 5;
	qpx->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(qpx, rig->mr->rkey, (uintptr_t)rig->buf);
	ibv_wr_set_sge(qpx, rig->mr->lkey, (uintptr_t)rig->buf + 64, 8);
	return ibv_wr_complete(qpx);
}

/* Calls a verb that changes or queries something, or posts. */
static int change(struct rig *rig, struct objects *of, const char *call)
{
	struct ibv_mw_bind bind = { .bind_info = { .mr = rig->mr,
						   .addr = (uintptr_t)rig->buf,
						   .length = 8,
						   .mw_access_flags = IBV_ACCESS_REMOTE_READ } };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };
	struct ibv_srq_attr srq_attr = { .srq_limit = 1 };
	struct ibv_modify_cq_attr cq_attr = { 0 };
	struct ibv_qp_rate_limit_attr rate = { .rate_limit = 1 };
	struct ibv_wq wq = { .context = rig->context };
	struct ibv_wq_attr wq_attr = { 0 };
	struct ibv_device_attr_ex device;
	struct ibv_port_attr port;
	struct ibv_qp_init_attr init;
	struct ibv_sge sge = { (uintptr_t)rig->buf, 8, rig->mr->lkey };
	struct ibv_recv_wr *bad = NULL, wr = { .sg_list = &sge, .num_sge = 1 };
	union ibv_gid group = { .raw = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 224, 0, 0, 9 } };

	NUMBER(attach_mcast, ibv_attach_mcast(of->qp, &group, 0));
	NUMBER(bind_mw, ibv_bind_mw(of->qp, of->mw, &bind));
	NUMBER(modify_cq, ibv_modify_cq(rig->cq, &cq_attr));
	NUMBER(modify_qp, ibv_modify_qp(of->qp, &attr, IBV_QP_STATE));
	NUMBER(modify_qp_rate_limit, ibv_modify_qp_rate_limit(of->qp, &rate));
	NUMBER(modify_srq, ibv_modify_srq(of->srq, &srq_attr, IBV_SRQ_LIMIT));
	NUMBER(modify_wq, ibv_modify_wq(&wq, &wq_attr));
	NUMBER(post_recv, post_recv(of->qp, rig, 1, 0, 8));
	NUMBER(post_send, post(of->qp, rig, IBV_WR_SEND, 0, 8, 0, 0));
	NUMBER(post_srq_recv, ibv_post_srq_recv(of->srq, &wr, &bad));
	NUMBER(query_device_ex, ibv_query_device_ex(rig->context, NULL, &device));
	NUMBER(query_port, ibv_query_port(rig->context, PORT, &port));
	NUMBER(query_qp, ibv_query_qp(of->qp, &attr, IBV_QP_STATE, &init));
	NUMBER(query_srq, ibv_query_srq(of->srq, &srq_attr));
	NUMBER(req_notify_cq, ibv_req_notify_cq(rig->cq, 0));
	NUMBER(rereg_mr, ibv_rereg_mr(rig->mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, ALL_ACCESS));
	NUMBER(resize_cq, ibv_resize_cq(rig->cq, 300));
	NUMBER(wr_complete, build(rig, of->extended));
	return -1;
}

/* call VERB ERRNO: of three calls of a verb, one fails with this errno value. */
static void call(struct rig *rig, char **argv)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 8, .max_sge = 1 } };
	struct objects of = { .qp = make_qp(rig, IBV_QPT_RC, 0, NULL) };
	int failed = 0;

	NEED(of.srq = ibv_create_srq(rig->pd, &attr));
	NEED(of.mw = ibv_alloc_mw(rig->pd, IBV_MW_TYPE_1));
	NEED(to_init(of.qp) == 0);
	if (!strcmp(argv[0], "wr_complete")) {
		of.extended = make_qp(rig, IBV_QPT_RC, IBV_QP_EX_WITH_RDMA_WRITE, NULL);
		join(rig, of.extended, of.extended);
	}
	for (int i = 0; i < 3; i++) {
		int error = create(rig, &of, argv[0]);

		if (error < 0)
			error = change(rig, &of, argv[0]);
		NEED(error >= 0);
		failed += error == atoi(argv[1]);
	}
	CHECK(failed == 1);
}

/* calls N: registers memory N times, and prints which calls failed. */
static void calls(struct rig *rig, char **argv)
{
	for (int i = 0; i < atoi(argv[0]); i++) {
		struct ibv_mr *mr = ibv_reg_mr(rig->pd, rig->buf, 64 + i, IBV_ACCESS_LOCAL_WRITE);

		putchar(mr ? '.' : 'x');
		if (mr)
			CHECK(ibv_dereg_mr(mr) == 0);
	}
	putchar('\n');
	tear_down(rig);
}

/*
 * event TYPE FROM: this event is raised, of an object that exists; what depends on it is so. The rule applies
 * from FROM milliseconds on, and not before the queue pairs are connected: if the machine is too slow for
 * that, the program begins anew.
 */
static void event(struct rig *rig, char **argv)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 8, .max_sge = 1 } };
	struct ibv_srq *srq = ibv_create_srq(rig->pd, &attr);
	int type = atoi(argv[0]);
	struct ibv_port_attr port;
	struct ibv_qp *a, *b;

	NEED(srq);
	connected(rig, &a, &b);
	if (atoi(argv[1]) && milliseconds() - started >= atoi(argv[1]))
		execl("/proc/self/exe", "inject", "event", argv[0], argv[1], NULL);
	CHECK(next_event(rig) == type);
	if (type == IBV_EVENT_QP_FATAL)
		CHECK(next_event(rig) == type);
	if (type == IBV_EVENT_QP_FATAL || type == IBV_EVENT_DEVICE_FATAL)
		CHECK(state_of(a) == IBV_QPS_ERR && state_of(b) == IBV_QPS_ERR);
	CHECK(ibv_query_port(rig->context, PORT, &port) == 0);
	CHECK(port.state == (type == IBV_EVENT_PORT_ERR ? IBV_PORT_DOWN : IBV_PORT_ACTIVE));
	CHECK(ibv_destroy_srq(srq) == 0);
	drop(rig, a, b);
}

/* built N: posts N requests by ibv_wr_complete. Prints which failed; the others complete, and no more. */
static void built(struct rig *rig, char **argv)
{
	struct ibv_qp *qp = make_qp(rig, IBV_QPT_RC, IBV_QP_EX_WITH_RDMA_WRITE, NULL);
	struct ibv_wc wc;

	join(rig, qp, qp);
	for (int i = 0; i < atoi(argv[0]); i++) {
		int error = build(rig, qp);

		putchar(error ? 'x' : '.');
		if (!error) {
			wc = next_wc(rig->cq);
			CHECK(wc.wr_id == 5);
			printf("%d", wc.status);
		}
	}
	CHECK(ibv_poll_cq(rig->cq, 1, &wc) == 0);
	putchar('\n');
	CHECK(ibv_destroy_qp(qp) == 0);
	tear_down(rig);
}

/*
 * waits: on a device of the fake kernel, blocks for an injected event of the port, for one of the kernel's,
 * and for an injected one of a queue pair. Another of them is not read, and is gone with its queue pair.
 */
static void waits(struct rig *rig, char **argv)
{
	struct {
		uint64_t element;
		uint32_t type, reserved;
	} desc = { 1, IBV_EVENT_SM_CHANGE, 0 };
	union {
		void *found;
		int (*function)(int fd, const void *bytes, size_t len);
	} push = { dlsym(RTLD_DEFAULT, "fake_push") };
	struct pollfd fd = { .fd = rig->context->async_fd, .events = POLLIN };
	struct ibv_async_event event;
	struct ibv_qp *a, *b;

	(void)argv;
	connected(rig, &a, &b);
	CHECK(ibv_get_async_event(rig->context, &event) == 0 && event.event_type == IBV_EVENT_PORT_ERR);
	ibv_ack_async_event(&event);
	NEED(push.found && push.function(rig->context->async_fd, &desc, sizeof(desc)) == 0);
	CHECK(ibv_get_async_event(rig->context, &event) == 0 && event.event_type == IBV_EVENT_SM_CHANGE);
	ibv_ack_async_event(&event);
	CHECK(ibv_get_async_event(rig->context, &event) == 0 && event.event_type == IBV_EVENT_COMM_EST);
	CHECK(event.element.qp == a || event.element.qp == b);
	/* Both queue pairs have the event: the other one's is not read. */
	CHECK(poll(&fd, 1, 10000) == 1);
	ibv_ack_async_event(&event);
	CHECK(ibv_destroy_qp(event.element.qp == a ? b : a) == 0);
	CHECK(poll(&fd, 1, 0) == 0);
	NEED(fcntl(fd.fd, F_SETFL, O_NONBLOCK) == 0);
	CHECK(ibv_get_async_event(rig->context, &event) == -1 && errno == EAGAIN);
	CHECK(ibv_destroy_qp(event.element.qp) == 0);
	tear_down(rig);
}

/* Registers memory until that fails, or until it succeeds; for 30 s. */
static void register_until(struct rig *rig, bool succeeds)
{
	double end = milliseconds() + 30000;
	bool done = false;

	while (!done && milliseconds() < end) {
		struct ibv_mr *mr = ibv_reg_mr(rig->pd, rig->buf, 64, IBV_ACCESS_LOCAL_WRITE);

		done = !mr == !succeeds;
		if (mr)
			CHECK(ibv_dereg_mr(mr) == 0);
		usleep(1000);
	}
	CHECK(done);
}

/* changes: registering memory succeeds, then fails, then succeeds again, as the rules change. */
static void changes(struct rig *rig, char **argv)
{
	(void)argv;
	for (int i = 0; i < 3; i++) {
		register_until(rig, i != 1);
		puts(i == 1 ? "fails" : "works");
		fflush(stdout);
	}
	tear_down(rig);
}

/* polls N: polls an empty CQ N times. */
static void polls(struct rig *rig, char **argv)
{
	double begin = milliseconds();
	struct ibv_wc wc;

	for (int i = 0; i < atoi(argv[0]); i++)
		CHECK(ibv_poll_cq(rig->cq, 1, &wc) == 0);
	printf("ms=%.0f\n", milliseconds() - begin);
	tear_down(rig);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(struct rig *rig, char **argv);
		int arguments;
	} scenes[] = {
		{ "send", send_messages, 2 },
		{ "status", status_of_send, 1 },
		{ "status-recv", status_of_receive, 1 },
		{ "status-ex", status_of_extended, 1 },
		{ "call", call, 2 },
		{ "calls", calls, 1 },
		{ "built", built, 1 },
		{ "waits", waits, 0 },
		{ "event", event, 2 },
		{ "polls", polls, 1 },
		{ "changes", changes, 0 },
	};
	struct rig rig;

	started = milliseconds();
	for (size_t i = 0; i < sizeof(scenes) / sizeof(*scenes); i++)
		if (argc == 2 + scenes[i].arguments && !strcmp(argv[1], scenes[i].name)) {
			set_up(&rig);
			scenes[i].run(&rig, argv + 2);
			return failures != 0;
		}
	fprintf(stderr, "unknown scene, or not its number of arguments\n");
	return 2;
}
