/* Resources that a process uses, and the effects of fork. */
#include <dirent.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/syscall.h>

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
}

enum {
	CROWD = 250, /* The CQ has 256 entries. */
	ROUNDS = 60
};

/* QPs that all have work make progress at the same pace: none waits until others are done. */
static void crowd(struct rig *rig)
{
	static struct ibv_qp *qps[CROWD];
	int rounds[CROWD] = {}, done = 0, slowest;
	struct ibv_wc wc;

	for (int i = 0; i < CROWD; i++) {
		qps[i] = make_qp(rig, IBV_QPT_RC, 0, NULL);
		join(rig, qps[i], qps[i]);
	}
	for (int i = 0; i < CROWD; i++)
		NEED(post(qps[i], rig, IBV_WR_RDMA_WRITE, 0, 32, 1024, rig->mr->rkey) == 0);
	while (done < CROWD) {
		int i = 0;

		wc = next_wc(rig->cq);
		NEED(wc.status == IBV_WC_SUCCESS);
		while (qps[i]->qp_num != wc.qp_num)
			i++;
		if (++rounds[i] < ROUNDS) {
			NEED(post(qps[i], rig, IBV_WR_RDMA_WRITE, 0, 32, 1024, rig->mr->rkey) == 0);
			continue;
		}
		slowest = ROUNDS;
		for (int other = 0; other < CROWD; other++)
			slowest = rounds[other] < slowest ? rounds[other] : slowest;
		/* One lost packet costs 20 ms. */
		if (done++ == 0)
			CHECK(slowest > 0);
	}
}

/* In the child: inherited objects return errors; newly opened ones work. */
static int child(struct rig *rig, struct ibv_qp *qp)
{
	struct ibv_recv_wr *bad_recv, recv = {};
	struct ibv_qp *own_qp;
	struct rig own;
	struct ibv_wc wc;

	CHECK(ibv_poll_cq(rig->cq, 1, &wc) < 0);
	CHECK(post(qp, rig, IBV_WR_RDMA_WRITE, 0, 8, 64, rig->mr->rkey) == EACCES);
	CHECK(ibv_post_recv(qp, &recv, &bad_recv) == EACCES && bad_recv == &recv);
	CHECK(ibv_req_notify_cq(rig->cq, 0) == EACCES);
	CHECK(!ibv_reg_mr(rig->pd, rig->buf, 64, 0) && errno == EACCES);
	CHECK(!ibv_alloc_pd(rig->context) && errno == EACCES);
	CHECK(!ibv_create_cq(rig->context, 1, NULL, NULL, 0) && errno == EACCES);
	CHECK(to_init(qp) == EACCES);
	CHECK(end(qp) == 0);
	tear_down(rig);
	set_up(&own);
	own_qp = make_qp(&own, IBV_QPT_RC, 0, NULL);
	join(&own, own_qp, own_qp);
	CHECK(post(own_qp, &own, IBV_WR_RDMA_WRITE, 0, 8, 64, own.mr->rkey) == 0);
	CHECK(next_wc(own.cq).status == IBV_WC_SUCCESS);
	tear_down(&own);
	return failures;
}

static void forks(struct rig *rig)
{
	struct ibv_qp *qp = make_qp(rig, IBV_QPT_RC, 0, NULL);

	join(rig, qp, qp);
	for (int i = 0; i < 20; i++) {
		CHECK(post(qp, rig, IBV_WR_RDMA_WRITE, 0, 8, 64, rig->mr->rkey) == 0);
		pid_t pid = start_child();
		if (pid == 0)
			_exit(child(rig, qp));
		CHECK(next_wc(rig->cq).status == IBV_WC_SUCCESS);
		await_child(pid);
	}
}

#define NUMBERS 64

/* Closes all descriptors above 2, and uses their numbers for sockets of its own. */
static void take_numbers(int socks[])
{
	for (int fd = 3; fd < 3 + NUMBERS; fd++)
		close(fd);
	for (int i = 0; i < NUMBERS; i += 2)
		NEED(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, &socks[i]) == 0);
}

/* Sockets with numbers that uroce had are the program's: none gets a byte, is shut down, or is closed. */
static int closed_descriptors(void)
{
	struct ibv_comp_channel *channel;
	int socks[NUMBERS];
	struct ibv_qp *qp;
	struct ibv_cq *cq;
	struct rig own;
	clock_t cpu;
	char byte;

	set_up(&own);
	NEED(channel = ibv_create_comp_channel(own.context));
	NEED(cq = ibv_create_cq(own.context, 16, NULL, channel, 0));
	NEED(ibv_destroy_cq(own.cq) == 0);
	own.cq = cq;
	qp = make_qp(&own, IBV_QPT_RC, 0, NULL);
	join(&own, qp, qp);
	CHECK(post(qp, &own, IBV_WR_RDMA_WRITE, 0, 8, 64, own.mr->rkey) == 0);
	CHECK(next_wc(cq).status == IBV_WC_SUCCESS);
	take_numbers(socks);
	/* Sooner, packets may be sent to a number that was checked a few milliseconds ago. */
	usleep(40000);
	CHECK(ibv_req_notify_cq(cq, 0) == 0);
	for (int i = 0; i < 4; i++)
		CHECK(post(qp, &own, IBV_WR_RDMA_WRITE, 0, 8, 64, own.mr->rkey) == 0);
	cpu = clock();
	usleep(200000);
	CHECK(clock() - cpu < CLOCKS_PER_SEC / 20);
	CHECK(end(qp) == 0);
	/* Channel and context close their numbers, which the program knows; the kernel's do, too. */
	socks[channel->fd - 3] = socks[own.context->async_fd - 3] = -1;
	socks[own.context->cmd_fd - 3] = -1;
	tear_down(&own);
	for (int i = 0; i < NUMBERS; i++)
		if (socks[i] >= 0 && socks[i ^ 1] >= 0)
			CHECK(recv(socks[i], &byte, 1, 0) == -1 && errno == EAGAIN);
	return failures;
}

/* In a child, which has a device of its own. */
static void closes_descriptors(struct rig *rig)
{
	pid_t pid = start_child();

	(void)rig;
	if (pid == 0)
		_exit(closed_descriptors());
	await_child(pid);
}

/* Locks that a thread of the parent holds while another one forks. */
struct held {
	struct ibv_qp_ex *qp;
	struct ibv_cq_ex *cq;
	pthread_barrier_t barrier;
};

static void *hold(void *arg)
{
	struct held *held = arg;

	ibv_wr_start(held->qp);
	pthread_barrier_wait(&held->barrier);
	pthread_barrier_wait(&held->barrier);
	ibv_wr_abort(held->qp);
	return NULL;
}

static int open_sockets(struct ibv_comp_channel *channel)
{
	int count = 0, type;

	for (int fd = 3; fd < 1024; fd++) {
		socklen_t len = sizeof(type);

		if (fd != channel->context->async_fd && fd != channel->fd &&
		    getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0)
			count++;
	}
	return count;
}

/* In the child: nothing of the parent's is read, written or waited for. */
static int child_of_threads(struct held *held, struct ibv_comp_channel *channel)
{
	struct ibv_poll_cq_attr attr = {};
	struct ibv_async_event event;
	struct ibv_cq *cq;
	void *context;

	alarm(20);
	ibv_wr_start(held->qp);
	ibv_wr_send(held->qp);
	ibv_wr_set_sge(held->qp, 0, 0, 0);
	CHECK(ibv_wr_complete(held->qp) == EACCES);
	ibv_wr_start(held->qp);
	ibv_wr_abort(held->qp);
	CHECK(ibv_start_poll(held->cq, &attr) == EACCES);
	ibv_end_poll(held->cq);
	CHECK(open_sockets(channel) == 0);
	CHECK(ibv_get_cq_event(channel, &cq, &context) == -1);
	CHECK(ibv_get_async_event(channel->context, &event) == -1);
	CHECK(send(channel->fd, "", 1, MSG_NOSIGNAL) == -1 && errno == EPIPE);
	end_all();
	return failures;
}

/* A child of a program whose other threads are in the middle of verbs. */
static void forks_with_threads(struct rig *rig)
{
	struct ibv_comp_channel *channel = KEEP(ibv_create_comp_channel(rig->context));
	struct ibv_cq_init_attr_ex attr = { .cqe = 4, .channel = channel };
	struct held held = { .qp = ibv_qp_to_qp_ex(make_qp(rig, IBV_QPT_RC, IBV_QP_EX_WITH_SEND, NULL)),
			     .cq = KEEP(ibv_create_cq_ex(rig->context, &attr)) };
	pthread_t thread;
	pid_t pid;

	NEED(channel && held.cq && open_sockets(channel) > 0);
	NEED(pthread_barrier_init(&held.barrier, NULL, 2) == 0);
	NEED(pthread_create(&thread, NULL, hold, &held) == 0);
	pthread_barrier_wait(&held.barrier);
	pid = start_child();
	if (pid == 0)
		_exit(child_of_threads(&held, channel));
	await_child(pid);
	pthread_barrier_wait(&held.barrier);
	NEED(pthread_join(thread, NULL) == 0);
}

enum {
	LAST = 16
};

enum way {
	EXIT,            /* exit(3) without closing anything */
	UNDERSCORE_EXIT, /* _exit(2) without closing anything */
	EXIT_GROUP,      /* the system call, which no library notices, behind ibv_destroy_qp() */
	WAYS
};

/* Receives the parent's messages and ends after the last one. */
static void take_and_leave(int in, int out, enum way way)
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
	if (way == EXIT)
		exit(0);
	if (way == EXIT_GROUP) {
		NEED(end(qp) == 0);
		syscall(SYS_exit_group, 0);
	}
	_exit(0);
}

/* Received messages are acknowledged even if the program ends at once. */
static void leaves(struct rig *rig)
{
	for (int i = 0; i < 20 * WAYS; i++) {
		struct ibv_qp *qp = make_qp(rig, IBV_QPT_RC, 0, NULL);
		int there[2], back[2];
		uint32_t peer;
		char ready;
		pid_t pid;

		NEED(pipe(there) == 0 && pipe(back) == 0);
		pid = start_child();
		if (pid == 0)
			take_and_leave(there[0], back[1], i % WAYS);
		NEED(read(back[0], &peer, 4) == 4 && write(there[1], &qp->qp_num, 4) == 4);
		NEED(to_init(qp) == 0 && to_rtr(rig, qp, peer) == 0 && to_rts(qp) == 0);
		NEED(read(back[0], &ready, 1) == 1);
		for (int message = 0; message < LAST; message++) {
			CHECK(post(qp, rig, IBV_WR_SEND, 0, 8, 0, 0) == 0);
			CHECK(next_wc(rig->cq).status == IBV_WC_SUCCESS);
		}
		await_child(pid);
		CHECK(end(qp) == 0);
		for (int end = 0; end < 2; end++)
			close(there[end]), close(back[end]);
	}
}

const check_part process_parts[] = {
	many, crowd, forks, closes_descriptors, forks_with_threads, leaves, NULL
};
