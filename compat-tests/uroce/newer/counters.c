/* Completion counters: limits, values, and what a queue pair counts. */
#include "newer.h"

#define SENT IBV_QP_ATTACH_COMP_CNTR_OP_SEND
#define RECEIVED IBV_QP_ATTACH_COMP_CNTR_OP_RECV
#define READ IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_READ
#define PEER_READ IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_READ
#define WRITTEN IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE
#define PEER_WROTE IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_WRITE
#define ALL_OPS (SENT | RECEIVED | READ | PEER_READ | WRITTEN | PEER_WROTE)

static struct ibv_comp_cntr *create(struct rig *rig, enum ibv_comp_cntr_type type)
{
	struct ibv_comp_cntr_init_attr attr = { .type = type };
	struct ibv_comp_cntr *counter = ibv_create_comp_cntr(rig->context, &attr);

	NEED(counter && counter->context == rig->context);
	return counter;
}

static int attach(struct ibv_qp *qp, struct ibv_comp_cntr *counter, uint32_t ops)
{
	struct ibv_qp_attach_comp_cntr_attr attr = { .op_mask = ops };

	return ibv_qp_attach_comp_cntr(qp, counter, &attr);
}

static bool counts(struct ibv_comp_cntr *counter, uint64_t succeeded, uint64_t failed)
{
	uint64_t value = 0, errors = 0;

	NEED(ibv_read_comp_cntr(counter, &value) == 0 && ibv_read_err_comp_cntr(counter, &errors) == 0);
	if (value != succeeded || errors != failed)
		printf("counted %llu and %llu\n", (unsigned long long)value, (unsigned long long)errors);
	return value == succeeded && errors == failed;
}

/* Whether the counter has that value within 2 s: the peer's responder counts when it has answered. */
static bool reaches(struct ibv_comp_cntr *counter, uint64_t succeeded)
{
	uint64_t value = 0;

	for (int i = 0; i < 2000 && value != succeeded; i++) {
		NEED(ibv_read_comp_cntr(counter, &value) == 0);
		usleep(1000);
	}
	return counts(counter, succeeded, 0);
}

static void values(struct rig *rig)
{
	struct ibv_comp_cntr_init_attr bad[] = { { .comp_mask = 1 }, { .type = 2 }, { .flags = 1 } };
	struct ibv_comp_cntr *counter = create(rig, IBV_COMP_CNTR_TYPE_WRS);
	struct ibv_comp_cntr_caps caps = {};
	uint64_t value;
	pid_t pid;

	CHECK(ibv_query_comp_cntr_caps(rig->context, &caps) == 0);
	CHECK(caps.max_value == UINT64_MAX && caps.max_counters > 1000 &&
	      caps.supported_qp_attach_ops == ALL_OPS);
	for (int i = 0; i < 3; i++)
		CHECK(!ibv_create_comp_cntr(rig->context, &bad[i]) && errno == EOPNOTSUPP);
	CHECK(counts(counter, 0, 0));
	CHECK(ibv_set_comp_cntr(counter, 40) == 0 && ibv_inc_comp_cntr(counter, 2) == 0);
	CHECK(ibv_set_err_comp_cntr(counter, UINT64_MAX) == 0 && counts(counter, 42, UINT64_MAX));
	CHECK(ibv_inc_err_comp_cntr(counter, 3) == 0 && counts(counter, 42, 2));
	pid = start_child();
	if (pid == 0)
		_exit(ibv_read_comp_cntr(counter, &value) == EACCES && ibv_destroy_comp_cntr(counter) == 0
			      ? 0
			      : 1);
	await_child(pid);
	CHECK(ibv_destroy_comp_cntr(counter) == 0);
	CHECK(ibv_destroy_comp_cntr(counter) == ENOENT && ibv_read_comp_cntr(counter, &value) == ENOENT);
}

static void attaching(struct rig *rig)
{
	struct ibv_qp *a = make_qp(rig, IBV_QPT_RC, 0, NULL), *b = make_qp(rig, IBV_QPT_RC, 0, NULL);
	struct ibv_comp_cntr *counter = create(rig, IBV_COMP_CNTR_TYPE_WRS);
	struct ibv_qp_attach_comp_cntr_attr unknown = { .comp_mask = 1, .op_mask = SENT };

	CHECK(attach(a, counter, 0) == EINVAL && attach(a, counter, ALL_OPS + 1) == EOPNOTSUPP);
	CHECK(ibv_qp_attach_comp_cntr(a, counter, &unknown) == EOPNOTSUPP);
	CHECK(attach(a, counter, SENT) == 0 && attach(a, counter, SENT | READ) == EBUSY);
	NEED(to_init(a) == 0);
	CHECK(attach(a, counter, READ) == 0 && ibv_destroy_comp_cntr(counter) == EBUSY);
	join(rig, a, b);
	CHECK(attach(a, counter, RECEIVED) == EINVAL);
	CHECK(end(a) == 0 && ibv_destroy_comp_cntr(counter) == 0);
}

/* Posts requests at `a`; only the last one has a completion. */
static void run(struct rig *rig, struct ibv_qp *a, enum ibv_wr_opcode op, int number, int len)
{
	struct ibv_send_wr wr = { .opcode = op };

	for (int i = 1; i <= number; i++) {
		wr.send_flags = i == number ? IBV_SEND_SIGNALED : 0;
		NEED(send_with(a, part(rig, 0, len), wr, (uintptr_t)rig->buf + SIZE / 2, rig->mr->rkey) == 0);
	}
}

static struct ibv_qp *quiet_qp(struct rig *rig)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = rig->cq, .recv_cq = rig->cq, .cap = { 16, 16, 1, 1, 0 }, .qp_type = IBV_QPT_RC
	};
	struct ibv_qp *qp = ibv_create_qp(rig->pd, &attr);

	NEED(qp);
	return qp;
}

/* Each operation at both ends, in work requests (at `a`) and in bytes (at `b`). */
static void operations(struct rig *rig)
{
	static const uint32_t of_a[] = { SENT, READ, WRITTEN }, of_b[] = { RECEIVED, PEER_READ, PEER_WROTE };
	struct ibv_qp *a = quiet_qp(rig), *b = quiet_qp(rig);
	struct ibv_comp_cntr *at_a[3], *at_b[3];

	for (int i = 0; i < 3; i++) {
		NEED(attach(a, at_a[i] = create(rig, IBV_COMP_CNTR_TYPE_WRS), of_a[i]) == 0);
		NEED(attach(b, at_b[i] = create(rig, IBV_COMP_CNTR_TYPE_BYTES), of_b[i]) == 0);
	}
	join(rig, a, b);
	for (int i = 0; i < 5; i++)
		NEED(post_recv(b, rig, i, SIZE / 2, 2000) == 0);
	run(rig, a, IBV_WR_SEND, 3, 1500);
	run(rig, a, IBV_WR_RDMA_READ, 2, 3000);
	run(rig, a, IBV_WR_RDMA_WRITE, 4, 100);
	/* This counts as a write and, at its target, as a receive, too. */
	run(rig, a, IBV_WR_RDMA_WRITE_WITH_IMM, 1, 10);
	/* Four of the requests and four receives. */
	for (int i = 0; i < 8; i++)
		CHECK(next_wc(rig->cq).status == IBV_WC_SUCCESS);
	CHECK(counts(at_a[0], 3, 0) && counts(at_a[1], 2, 0) && counts(at_a[2], 5, 0));
	CHECK(reaches(at_b[0], 4510) && reaches(at_b[1], 6000) && reaches(at_b[2], 410));
	CHECK(ibv_destroy_qp(a) == 0 && ibv_destroy_qp(b) == 0);
	for (int i = 0; i < 3; i++)
		CHECK(ibv_destroy_comp_cntr(at_a[i]) == 0 && ibv_destroy_comp_cntr(at_b[i]) == 0);
}

/* A request that is refused fails at both ends; what waits behind it is flushed. */
static void failures_count(struct rig *rig)
{
	struct ibv_qp *a = make_qp(rig, IBV_QPT_RC, 0, NULL), *b = make_qp(rig, IBV_QPT_RC, 0, NULL);
	struct ibv_comp_cntr *at_a = create(rig, IBV_COMP_CNTR_TYPE_WRS);
	struct ibv_comp_cntr *at_b = create(rig, IBV_COMP_CNTR_TYPE_BYTES);

	NEED(attach(a, at_a, SENT | WRITTEN) == 0 && attach(b, at_b, PEER_WROTE | RECEIVED) == 0);
	join(rig, a, b);
	NEED(post_recv(b, rig, 1, 0, 8) == 0);
	CHECK(post(a, rig, IBV_WR_RDMA_WRITE, 0, 8, 0, rig->mr->rkey ^ 0x5500) == 0);
	CHECK(post(a, rig, IBV_WR_SEND, 0, 8, 0, 0) == 0);
	for (int i = 0; i < 3; i++)
		CHECK(next_wc(rig->cq).status != IBV_WC_SUCCESS);
	CHECK(next_event(rig) == IBV_EVENT_QP_ACCESS_ERR);
	CHECK(counts(at_a, 0, 2) && counts(at_b, 0, 2));
	/* An attached counter outlives a reset. */
	NEED(ibv_modify_qp(a, &(struct ibv_qp_attr){ .qp_state = IBV_QPS_RESET }, IBV_QP_STATE) == 0);
	CHECK(attach(a, at_a, SENT) == EBUSY);
	CHECK(end(a) == 0 && end(b) == 0);
	CHECK(ibv_destroy_comp_cntr(at_a) == 0 && ibv_destroy_comp_cntr(at_b) == 0);
}

/* A counter counts for several queue pairs; what a program leaves goes with its context. */
static void shared(struct rig *rig)
{
	struct ibv_comp_cntr *counter = create(rig, IBV_COMP_CNTR_TYPE_WRS);
	struct ibv_qp *qps[3];
	struct rig left;

	for (int i = 0; i < 3; i++) {
		NEED(attach(qps[i] = quiet_qp(rig), counter, SENT) == 0);
		join(rig, qps[i], qps[i]);
		NEED(post_recv(qps[i], rig, i, 0, 8) == 0);
		run(rig, qps[i], IBV_WR_SEND, 1, 8);
		CHECK(next_wc(rig->cq).status == IBV_WC_SUCCESS && next_wc(rig->cq).status == IBV_WC_SUCCESS);
	}
	CHECK(counts(counter, 3, 0));
	for (int i = 0; i < 3; i++) {
		CHECK(ibv_destroy_comp_cntr(counter) == EBUSY);
		CHECK(ibv_destroy_qp(qps[i]) == 0);
	}
	CHECK(ibv_destroy_comp_cntr(counter) == 0);
	set_up(&left);
	NEED(attach(quiet_qp(&left), create(&left, IBV_COMP_CNTR_TYPE_WRS), ALL_OPS) == 0);
	CHECK(ibv_close_device(left.context) == 0);
}

const check_part counters_parts[] = { values, attaching, operations, failures_count, shared, NULL };
