/* Resources that a process uses, and the effects of fork. */
#include <dirent.h>
#include <sys/wait.h>

#include "check.h"

#define MANY 10000

static long resident(void)
{
	long size, pages = 0;
	FILE *statm = fopen("/proc/self/statm", "r");

	NEED(statm && fscanf(statm, "%ld %ld", &size, &pages) == 2);
	fclose(statm);
	return pages * sysconf(_SC_PAGESIZE);
}

static int entries(const char *folder)
{
	DIR *dir = opendir(folder);
	int n = 0;

	NEED(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

/* 10,000 QPs need neither threads nor descriptors of their own, and little memory. */
static void many(struct rig *rig)
{
	static struct ibv_qp *qps[MANY];
	int threads = entries("/proc/self/task");
	long before = resident(), each;

	for (int i = 0; i < MANY; i++)
		qps[i] = make_qp(rig, IBV_QPT_RC, 0, NULL);
	for (int i = 0; i < MANY; i++)
		NEED(to_init(qps[i]) == 0 && to_rtr(rig, qps[i], qps[MANY - 1 - i]->qp_num) == 0 &&
		     to_rts(qps[i]) == 0);
	each = (resident() - before) / MANY;
	printf("%d queue pairs: %ld bytes each\n", MANY, each);
	CHECK(each < 4096);
	CHECK(entries("/proc/self/task") == threads);
	CHECK(entries("/proc/self/fd") < 200);
	CHECK(post(qps[1], rig, IBV_WR_RDMA_WRITE, 0, 64, 1024, rig->mr->rkey) == 0);
	CHECK(next_wc(rig->cq).status == IBV_WC_SUCCESS);
	for (int i = 0; i < MANY; i++)
		CHECK(ibv_destroy_qp(qps[i]) == 0);
}

/* In the child: inherited objects return errors; newly opened ones work. */
static int child(struct rig *rig, struct ibv_qp *qp)
{
	struct ibv_recv_wr *bad_recv, recv = {};
	struct ibv_qp *own_qp;
	struct rig own;
	struct ibv_wc wc;

	failures = 0;
	CHECK(ibv_poll_cq(rig->cq, 1, &wc) < 0);
	CHECK(post(qp, rig, IBV_WR_RDMA_WRITE, 0, 8, 64, rig->mr->rkey) == EACCES);
	CHECK(ibv_post_recv(qp, &recv, &bad_recv) == EACCES && bad_recv == &recv);
	CHECK(ibv_req_notify_cq(rig->cq, 0) == EACCES);
	CHECK(!ibv_reg_mr(rig->pd, rig->buf, 64, 0) && errno == EACCES);
	CHECK(!ibv_alloc_pd(rig->context) && errno == EACCES);
	CHECK(!ibv_create_cq(rig->context, 1, NULL, NULL, 0) && errno == EACCES);
	CHECK(to_init(qp) == EACCES);
	CHECK(ibv_destroy_qp(qp) == 0);
	tear_down(rig);
	set_up(&own);
	own_qp = make_qp(&own, IBV_QPT_RC, 0, NULL);
	join(&own, own_qp, own_qp);
	CHECK(post(own_qp, &own, IBV_WR_RDMA_WRITE, 0, 8, 64, own.mr->rkey) == 0);
	CHECK(next_wc(own.cq).status == IBV_WC_SUCCESS);
	CHECK(ibv_destroy_qp(own_qp) == 0);
	tear_down(&own);
	return failures;
}

static void forks(struct rig *rig)
{
	struct ibv_qp *qp = make_qp(rig, IBV_QPT_RC, 0, NULL);
	int status = -1;
	pid_t pid;

	join(rig, qp, qp);
	for (int i = 0; i < 20; i++) {
		CHECK(post(qp, rig, IBV_WR_RDMA_WRITE, 0, 8, 64, rig->mr->rkey) == 0);
		fflush(stdout);
		pid = fork();
		if (pid == 0)
			_exit(child(rig, qp));
		CHECK(next_wc(rig->cq).status == IBV_WC_SUCCESS);
		CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	}
	CHECK(ibv_destroy_qp(qp) == 0);
}

enum {
	LAST = 16
};

/* Receives the parent's messages and exits after the last one without closing anything. */
static void take_and_leave(int in, int out)
{
	struct ibv_qp *qp;
	struct rig rig;
	uint32_t peer;

	set_up(&rig);
	qp = make_qp(&rig, IBV_QPT_RC, 0, NULL);
	NEED(write(out, &qp->qp_num, 4) == 4 && read(in, &peer, 4) == 4);
	NEED(to_init(qp) == 0 && to_rtr(&rig, qp, peer) == 0 && to_rts(qp) == 0);
	for (int i = 0; i < LAST; i++)
		NEED(post_recv(qp, &rig, i, 0, 8) == 0);
	NEED(write(out, "", 1) == 1);
	for (int i = 0; i < LAST; i++)
		NEED(next_wc(rig.cq).status == IBV_WC_SUCCESS);
	exit(0);
}

/* Received messages are acknowledged even if the program exits at once. */
static void leaves(struct rig *rig)
{
	for (int i = 0; i < 20; i++) {
		struct ibv_qp *qp = make_qp(rig, IBV_QPT_RC, 0, NULL);
		int there[2], back[2], status;
		uint32_t peer;
		char ready;
		pid_t pid;

		NEED(pipe(there) == 0 && pipe(back) == 0);
		fflush(stdout);
		pid = fork();
		if (pid == 0)
			take_and_leave(there[0], back[1]);
		NEED(read(back[0], &peer, 4) == 4 && write(there[1], &qp->qp_num, 4) == 4);
		NEED(to_init(qp) == 0 && to_rtr(rig, qp, peer) == 0 && to_rts(qp) == 0);
		NEED(read(back[0], &ready, 1) == 1);
		for (int message = 0; message < LAST; message++) {
			CHECK(post(qp, rig, IBV_WR_SEND, 0, 8, 0, 0) == 0);
			CHECK(next_wc(rig->cq).status == IBV_WC_SUCCESS);
		}
		CHECK(waitpid(pid, &status, 0) == pid && status == 0);
		CHECK(ibv_destroy_qp(qp) == 0);
		for (int end = 0; end < 2; end++)
			close(there[end]), close(back[end]);
	}
}

void check_process(void)
{
	struct rig rig;

	set_up(&rig);
	many(&rig);
	forks(&rig);
	leaves(&rig);
	tear_down(&rig);
}
