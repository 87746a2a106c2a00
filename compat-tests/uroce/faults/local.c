/* What a program does to itself: queues that run over, fork, exit, many objects, descriptors that it polls.
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

static const struct how plain;

static const char *written(struct end *one, struct end *other)
{
	MUST(post(one, IBV_WR_RDMA_WRITE, &other->self, 0, 4096) == 0);
	return status(one);
}

/* More completions than the queue has room for. */
static void overrun(void)
{
	struct how small = { .cq_entries = 3 };
	struct end a, b;
	struct ibv_wc wc;
	int polled = 0, n;

	make_pair(&a, &b, &small, &plain);
	for (int i = 0; i < a.cq->cqe + 8; i++)
		MUST(post(&a, IBV_WR_RDMA_WRITE, &b.self, 0, 64) == 0);
	tell("event: %s", event(&a));
	settle();
	tell("queue pair: %s", state(&a));
	while (!no_event(&a))
		tell("event: %s", event(&a));
	while ((n = ibv_poll_cq(a.cq, 1, &wc)) > 0)
		polled++;
	tell("polled: %s", polled <= a.cq->cqe ? "no more than it has room for" : "TOO MANY");
	tell("the other end: %s", state(&b));
	close_end(&a);
	close_end(&b);
}

/* A child that does what it likes with its copy does not disturb the parent. */
static void forked(void)
{
	struct end a, b;

	make_pair(&a, &b, &plain, &plain);
	tell("before: %s", written(&a, &b));
	for (int way = 0; way < 4; way++) {
		if (way == 1 && !on_uroce)
			continue; /* the kernel's objects are the child's too */
		static const char *ways[] = { "exit", "destroys all", "calls exec", "uses the queue pair" };
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
		tell("a child %s (%s): %s, %s", ways[way], WIFEXITED(status) ? "ended" : "crashed",
		     written(&a, &b), state(&a));
	}
	/* and while the child lives */
	int pid;
	MUST((pid = fork()) >= 0);
	if (pid == 0) {
		pause();
		_exit(0);
	}
	tell("a child lives: %s", written(&a, &b));
	close_end(&a);
	close_end(&b);
	make_pair(&a, &b, &plain, &plain);
	tell("opened again: %s", written(&a, &b));
	close_end(&a);
	close_end(&b);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* A child may open the device itself. */
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
		tell("the child's: %s", written(&c, &d));
		close_end(&c);
		close_end(&d);
		_exit(0);
	}
	MUST(waitpid(pid, &status, 0) == pid);
	tell("the child %s; the parent's: %s", status == 0 ? "ended well" : "failed", written(&a, &b));
	close_end(&a);
	close_end(&b);
}

static int entries(const char *folder)
{
	DIR *dir = opendir(folder);
	int n = 0;

	MUST(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n - 3; /* . and .. and, of descriptors, the folder itself */
}

static long resident(void)
{
	FILE *file = fopen("/proc/self/statm", "r");
	long pages, size;

	MUST(file && fscanf(file, "%ld %ld", &size, &pages) == 2);
	fclose(file);
	return pages * sysconf(_SC_PAGESIZE);
}

/* Ten thousand queue pairs, each connected to another, without a thread or a descriptor of its own. */
static void many(void)
{
	enum {
		N = 10000
	};
	struct how small = { .cq_entries = 1000, .share = true }, first = { .cq_entries = 1000 };
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
	tell("%d queue pairs: %d more threads, %d more descriptors", N, entries("/proc/self/task") - threads,
	     entries("/proc/self/fd") - descriptors);
	fprintf(stderr, "faults: figure: %ld bytes a queue pair (64 + 64 work requests)\n", memory / N);
	MUST(memory / N < 100000);
	int good = 0;
	for (int i = 0; i < N; i += 2) {
		MUST(post_receive(&ends[i + 1]) == 0 && post(&ends[i], IBV_WR_SEND, NULL, 0, 64) == 0);
		struct ibv_wc one = next(&base), other = next(&base);
		good += one.status == IBV_WC_SUCCESS && other.status == IBV_WC_SUCCESS;
	}
	tell("sends that arrived: %d", good);
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

/* The descriptors of events are descriptors. */
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
		tell("%s: close on exec %s, %s", i ? "channel" : "async",
		     fcntl(fd, F_GETFD) & FD_CLOEXEC ? "yes" : "no", ready(fd) ? "readable" : "not readable");
	}
	errno = 0;
	tell("ibv_get_cq_event: %s",
	     ibv_get_cq_event(a.channel, &cq, &context) == -1 && errno == EAGAIN ? "EAGAIN" : "?");
	errno = 0;
	tell("ibv_get_async_event: %s",
	     ibv_get_async_event(a.context, &e) == -1 && errno == EAGAIN ? "EAGAIN" : "?");
	MUST(ibv_req_notify_cq(a.cq, 0) == 0);
	MUST(post(&a, IBV_WR_RDMA_WRITE, &b.self, 0, 64) == 0);
	tell("a completion: epoll %s", ready_by_epoll(a.channel->fd) ? "sees it" : "?");
	tell("poll %s", ready(a.channel->fd) ? "sees it" : "?");
	MUST(ibv_get_cq_event(a.channel, &cq, &context) == 0 && cq == a.cq && context == a.cq->cq_context);
	ibv_ack_cq_events(cq, 1);
	tell("read: %s", ready(a.channel->fd) ? "readable" : "not readable");
	MUST(ibv_poll_cq(a.cq, 1, &wc) == 1);
	MUST(post(&a, IBV_WR_RDMA_WRITE, &b.self, 0, 64) == 0);
	next(&a);
	tell("not armed: %s", ready(a.channel->fd) ? "readable" : "not readable");
	/* armed twice is one event; solicited only does not count a plain completion */
	MUST(ibv_req_notify_cq(a.cq, 0) == 0 && ibv_req_notify_cq(a.cq, 0) == 0);
	for (int i = 0; i < 3; i++)
		MUST(post(&a, IBV_WR_RDMA_WRITE, &b.self, 0, 64) == 0);
	for (int i = 0; i < 3; i++)
		next(&a);
	int events = 0;
	while (ibv_get_cq_event(a.channel, &cq, &context) == 0)
		events++;
	ibv_ack_cq_events(a.cq, events);
	tell("armed twice, three completions: %d event", events);
	MUST(ibv_req_notify_cq(a.cq, 1) == 0);
	MUST(post(&a, IBV_WR_RDMA_WRITE, &b.self, 0, 64) == 0);
	next(&a);
	tell("armed for solicited ones: %s", ready(a.channel->fd) ? "readable" : "not readable");
	/* an asynchronous event */
	struct address wrong = b.self;
	wrong.rkey ^= 0x100;
	MUST(post(&a, IBV_WR_RDMA_WRITE, &wrong, 0, 64) == 0);
	tell("an access error: %s", status(&a));
	tell("the responder's async: epoll %s", ready_by_epoll(b.context->async_fd) ? "sees it" : "?");
	MUST(ibv_get_async_event(b.context, &e) == 0);
	tell("%s of %s", ibv_event_type_str(e.event_type), e.element.qp == b.qp ? "its queue pair" : "?");
	ibv_ack_async_event(&e);
	tell("read: %s", ready(b.context->async_fd) ? "readable" : "not readable");
	close_end(&a);
	close_end(&b);
}

/* A program that does nothing uses no processor: its threads are not even woken. */
static void idle(void)
{
	struct end a, b;

	make_pair(&a, &b, &plain, &plain);
	tell("traffic: %s", written(&a, &b));
	settle();
	tell("idle: %s", sleeping(4) ? "its threads sleep" : "ITS THREADS WAKE UP");
	close_end(&a);
	close_end(&b);
}

/* Ends without closing anything; the script looks for what is left. */
static void leaves(void)
{
	static struct end a, b;

	make_pair(&a, &b, &plain, &plain);
	tell("traffic: %s", written(&a, &b));
	exit(0);
}

const struct scene local_scenes[] = {
	{ "overrun", overrun },
	{ "fork", forked },
	{ "child-opens", child_opens, true },
	{ "many", many, true },
	{ "descriptors", descriptors },
	{ "idle", idle, true },
	{ "leaves", leaves },
	{ 0 },
};
