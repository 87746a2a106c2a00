/*
 * Effects of what the program itself does: queues that overrun, fork, exit, many objects, polling
 * descriptors.
 */
#include "rig.h"

#include <errno.h>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct options plain;

static const char *written(struct end *one, struct end *other)
{
	MUST(post(one, IBV_WR_RDMA_WRITE, &other->self, 0, 4096) == 0);
	return status(one);
}

/* Writes so often that the last requests go through shared memory, if there is any. */
static const char *written_often(struct end *one, struct end *other)
{
	for (int i = 0; i < 200; i++)
		MUST(strcmp(written(one, other), "success") == 0);
	return "success";
}

/* More completions than the CQ has room for. */
static void overrun(void)
{
	struct options small = { .cq_entries = 3 };
	struct end a, b;
	struct ibv_wc wc;
	int polled = 0, n;

	make_pair(&a, &b, &small, &plain);
	for (int i = 0; i < a.cq->cqe + 8; i++)
		MUST(post(&a, IBV_WR_RDMA_WRITE, &b.self, 0, 64) == 0);
	report("event: %s", event(&a));
	short_wait();
	report("queue pair: %s", state(&a));
	while (!no_event(&a))
		report("event: %s", event(&a));
	while ((n = ibv_poll_cq(a.cq, 1, &wc)) > 0)
		polled++;
	report("polled: %s", polled <= a.cq->cqe ? "at most its capacity" : "TOO MANY");
	report("the other end: %s", state(&b));
	close_pair(&a, &b);
}

/* Whatever a child does with its copy does not affect the parent. */
static void forked(void)
{
	struct end a, b;

	make_pair(&a, &b, &plain, &plain);
	report("before: %s", written(&a, &b));
	for (int way = 0; way < 4; way++) {
		if (way == 1 && !on_uroce)
			continue; /* the kernel's objects are shared with the child */
		static const char *ways[] = { "exits", "destroys all", "calls exec", "uses the queue pair" };
		int status, pid;

		fflush(stdout);
		MUST((pid = fork()) >= 0);
		if (pid == 0) {
			alarm(20);
			if (way == 1) {
				ibv_destroy_qp(a.qp);
				ibv_dereg_mr(a.mr);
				ibv_close_device(a.context);
			} else if (way == 2) {
				execlp("true", "true", NULL);
			} else if (way == 3) {
				struct ibv_wc wc;

				post(&a, IBV_WR_SEND, NULL, 0, 64);
				ibv_poll_cq(a.cq, 1, &wc);
			}
			exit(0);
		}
		MUST(waitpid(pid, &status, 0) == pid);
		report("a child %s (%s): %s, %s", ways[way], WIFEXITED(status) ? "ended" : "crashed",
		       written(&a, &b), state(&a));
	}
	/* while the child exists */
	int pid;
	MUST((pid = fork()) >= 0);
	if (pid == 0) {
		pause();
		_exit(0);
	}
	report("a child exists: %s", written(&a, &b));
	close_pair(&a, &b);
	make_pair(&a, &b, &plain, &plain);
	report("opened again: %s", written(&a, &b));
	close_pair(&a, &b);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* A child can open the device itself. */
static void child_opens(void)
{
	struct end a, b, c, d;
	int status, pid;

	make_pair(&a, &b, &plain, &plain);
	fflush(stdout);
	MUST((pid = fork()) >= 0);
	if (pid == 0) {
		alarm(30);
		make_pair(&c, &d, &plain, &plain);
		report("in the child: %s", written_often(&c, &d));
		close_pair(&c, &d);
		_exit(0);
	}
	MUST(waitpid(pid, &status, 0) == pid);
	report("the child %s; in the parent: %s", status == 0 ? "exited with 0" : "failed",
	       written_often(&a, &b));
	close_pair(&a, &b);
}

static int entries(const char *folder)
{
	DIR *dir = opendir(folder);
	int n = 0;

	MUST(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n - 3; /* ., .. and, in /proc/self/fd, the directory itself */
}

static long resident(void)
{
	FILE *file = fopen("/proc/self/statm", "r");
	long pages, size;

	MUST(file && fscanf(file, "%ld %ld", &size, &pages) == 2);
	fclose(file);
	return pages * sysconf(_SC_PAGESIZE);
}

/* 10,000 connected QPs need no threads or descriptors of their own. */
static void many_queue_pairs(void)
{
	enum {
		N = 10000
	};
	struct options small = { .cq_entries = 1000, .share = true }, first = { .cq_entries = 1000 };
	struct end base, *ends = calloc(N, sizeof *ends);
	int threads, descriptors;
	long memory;

	open_end(&base, &first);
	threads = entries("/proc/self/task");
	descriptors = entries("/proc/self/fd");
	memory = resident();
	for (int i = 0; i < N; i++) {
		ends[i] = base;
		open_end(&ends[i], &small);
	}
	for (int i = 0; i < N; i++)
		join(&ends[i], &ends[i ^ 1].self, &plain);
	memory = resident() - memory;
	report("%d queue pairs: %d more threads, %d more descriptors", N,
	       entries("/proc/self/task") - threads, entries("/proc/self/fd") - descriptors);
	fprintf(stderr, "faults: figure: %ld bytes per queue pair (64 + 64 work requests)\n", memory / N);
	MUST(memory / N < 100000);
	int good = 0;
	for (int i = 0; i < N; i += 2) {
		MUST(post_receive(&ends[i + 1]) == 0 && post(&ends[i], IBV_WR_SEND, NULL, 0, 64) == 0);
		struct ibv_wc one = next(&base), other = next(&base);
		good += one.status == IBV_WC_SUCCESS && other.status == IBV_WC_SUCCESS;
	}
	report("sends that arrived: %d", good);
	for (int i = 0; i < N; i++)
		MUST(ibv_destroy_qp(ends[i].qp) == 0);
	close_end(&base);
	free(ends);
}

static bool ready(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1 && p.revents == POLLIN;
}

static bool ready_by_epoll(int fd)
{
	struct epoll_event e = { .events = EPOLLIN }, got;
	int set = epoll_create1(0), n;

	MUST(set >= 0 && epoll_ctl(set, EPOLL_CTL_ADD, fd, &e) == 0);
	n = epoll_wait(set, &got, 1, WAIT);
	close(set);
	return n == 1 && got.events == EPOLLIN;
}

/* Event descriptors work with fcntl, poll and epoll. */
static void descriptors(void)
{
	struct end a, b;
	struct ibv_cq *cq;
	void *context;
	struct ibv_async_event e;
	struct ibv_wc wc;

	make_pair(&a, &b, &plain, &plain);
	for (int i = 0; i < 2; i++) {
		int fd = i ? a.channel->fd : a.context->async_fd;

		MUST(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) == 0);
		report("%s: close on exec %s, %s", i ? "channel" : "async",
		       fcntl(fd, F_GETFD) & FD_CLOEXEC ? "yes" : "no",
		       ready(fd) ? "readable" : "not readable");
	}
	errno = 0;
	report("ibv_get_cq_event: %s",
	       ibv_get_cq_event(a.channel, &cq, &context) == -1 && errno == EAGAIN ? "EAGAIN" : "?");
	errno = 0;
	report("ibv_get_async_event: %s",
	       ibv_get_async_event(a.context, &e) == -1 && errno == EAGAIN ? "EAGAIN" : "?");
	MUST(ibv_req_notify_cq(a.cq, 0) == 0);
	MUST(post(&a, IBV_WR_RDMA_WRITE, &b.self, 0, 64) == 0);
	report("a completion: epoll %s", ready_by_epoll(a.channel->fd) ? "reports it" : "?");
	report("poll %s", ready(a.channel->fd) ? "reports it" : "?");
	MUST(ibv_get_cq_event(a.channel, &cq, &context) == 0 && cq == a.cq && context == a.cq->cq_context);
	ibv_ack_cq_events(cq, 1);
	report("after reading: %s", ready(a.channel->fd) ? "readable" : "not readable");
	MUST(ibv_poll_cq(a.cq, 1, &wc) == 1);
	MUST(post(&a, IBV_WR_RDMA_WRITE, &b.self, 0, 64) == 0);
	next(&a);
	report("not armed: %s", ready(a.channel->fd) ? "readable" : "not readable");
	/* arming twice gives one event; with solicited_only an unsolicited completion gives none */
	MUST(ibv_req_notify_cq(a.cq, 0) == 0 && ibv_req_notify_cq(a.cq, 0) == 0);
	for (int i = 0; i < 3; i++)
		MUST(post(&a, IBV_WR_RDMA_WRITE, &b.self, 0, 64) == 0);
	for (int i = 0; i < 3; i++)
		next(&a);
	int events = 0;
	while (ibv_get_cq_event(a.channel, &cq, &context) == 0)
		events++;
	ibv_ack_cq_events(a.cq, events);
	report("armed twice, three completions: %d event", events);
	MUST(ibv_req_notify_cq(a.cq, 1) == 0);
	MUST(post(&a, IBV_WR_RDMA_WRITE, &b.self, 0, 64) == 0);
	next(&a);
	report("armed for solicited completions: %s", ready(a.channel->fd) ? "readable" : "not readable");
	/* an asynchronous event */
	struct address wrong = b.self;
	wrong.rkey ^= 0x100;
	MUST(post(&a, IBV_WR_RDMA_WRITE, &wrong, 0, 64) == 0);
	report("an access error: %s", status(&a));
	report("the responder's async: epoll %s", ready_by_epoll(b.context->async_fd) ? "reports it" : "?");
	MUST(ibv_get_async_event(b.context, &e) == 0);
	report("%s of %s", ibv_event_type_str(e.event_type), e.element.qp == b.qp ? "its queue pair" : "?");
	ibv_ack_async_event(&e);
	report("after reading: %s", ready(b.context->async_fd) ? "readable" : "not readable");
	close_pair(&a, &b);
}

/* An idle program uses no CPU time: its threads are not even woken. */
static void idle(void)
{
	struct end a, b;

	make_pair(&a, &b, &plain, &plain);
	report("traffic: %s", written(&a, &b));
	short_wait();
	report("idle: %s", sleeping(4) ? "its threads sleep" : "ITS THREADS WAKE UP");
	close_pair(&a, &b);
}

/* Exits without closing anything; the script checks that nothing remains. */
static void exit_without_close(void)
{
	static struct end a, b;

	make_pair(&a, &b, &plain, &plain);
	report("traffic: %s", written(&a, &b));
	exit(0);
}

const struct scene local_scenes[] = {
	{ "overrun", overrun },
	{ "fork", forked },
	{ "child-opens", child_opens, true },
	{ "many-queue-pairs", many_queue_pairs, true },
	{ "descriptors", descriptors },
	{ "idle", idle, true },
	{ "exit-without-close", exit_without_close },
	{ 0 },
};
