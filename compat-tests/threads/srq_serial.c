/*
 * srq_serial DEVICE: checks that the library lets only one SRQ command at a time per context reach a
 * provider. Runs on the fake kernel (../fake-uverbs). Prints two lines:
 *
 * - "create during destroy: yes" or "no". A thread is stopped in the kernel command of ibv_destroy_srq until
 *   another one has sent that of ibv_create_srq, or for a second. libmlx5 changes a table without its lock
 *   after that command, so the answer must be "no". It is "yes" on the C library.
 * - "create before acknowledge: ok": a destroy that waits for events to be acknowledged lets other threads
 *   create SRQs.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

/* IB_USER_VERBS_CMD_*, the first word of a legacy command; UVERBS_OBJECT_SRQ and the methods of the ioctl. */
enum {
	WRITE_CREATE_SRQ = 32,
	WRITE_DESTROY_SRQ = 35,
	OBJECT_SRQ = 5,
	METHOD_CREATE = 0,
	METHOD_DESTROY = 1
};

static struct ibv_pd *pd;
static __thread bool destroyer, creator;
static _Atomic bool destroying, created, overlapped;

static void nap(void)
{
	struct timespec ms = { .tv_nsec = 1000000 };

	nanosleep(&ms, NULL);
}

/* A command is about to reach the kernel. */
static void see(bool is_create, bool is_destroy)
{
	if (creator && is_create)
		created = true;
	if (!destroyer || !is_destroy)
		return;
	destroying = true;
	for (int i = 0; i < 1000 && !created; i++)
		nap();
	overlapped = created;
	destroyer = false;
}

ssize_t write(int fd, const void *bytes, size_t len)
{
	static ssize_t (*next)(int, const void *, size_t);
	uint32_t command;

	if (!next)
		*(void **)&next = dlsym(RTLD_NEXT, "write");
	if ((creator || destroyer) && len >= 8) {
		memcpy(&command, bytes, 4);
		see(command == WRITE_CREATE_SRQ, command == WRITE_DESTROY_SRQ);
	}
	return next(fd, bytes, len);
}

int ioctl(int fd, unsigned long request, ...)
{
	static int (*next)(int, unsigned long, ...);
	uint16_t header[4]; /* struct ib_uverbs_ioctl_hdr: length, object, method */
	va_list args;
	void *arg;

	if (!next)
		*(void **)&next = dlsym(RTLD_NEXT, "ioctl");
	va_start(args, request);
	arg = va_arg(args, void *);
	va_end(args);
	if (creator || destroyer) {
		memcpy(header, arg, sizeof(header));
		see(header[1] == OBJECT_SRQ && header[2] == METHOD_CREATE,
		    header[1] == OBJECT_SRQ && header[2] == METHOD_DESTROY);
	}
	return next(fd, request, arg);
}

static struct ibv_srq *create(void)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 16, .max_sge = 1 } };
	struct ibv_srq *srq = ibv_create_srq(pd, &attr);

	if (!srq) {
		printf("ibv_create_srq: %s\n", strerror(errno));
		exit(1);
	}
	return srq;
}

static void *destroy_and_stop(void *srq)
{
	destroyer = true;
	return (void *)(intptr_t)ibv_destroy_srq(srq);
}

static void *create_meanwhile(void *unused)
{
	(void)unused;
	creator = true;
	return create();
}

static void *destroy(void *srq)
{
	return (void *)(intptr_t)ibv_destroy_srq(srq);
}

static void create_during_destroy(void)
{
	pthread_t one, other;
	void *result, *srq;

	pthread_create(&one, NULL, destroy_and_stop, create());
	while (!destroying)
		nap();
	pthread_create(&other, NULL, create_meanwhile, NULL);
	pthread_join(one, &result);
	pthread_join(other, &srq);
	ibv_destroy_srq(srq);
	printf("create during destroy: %s\n", overlapped ? "yes" : "no");
}

static void create_before_acknowledge(struct ibv_context *context)
{
	struct ib_uverbs_async_event_desc {
		uint64_t element;
		uint32_t type, reserved;
	} pushed = { .type = IBV_EVENT_SRQ_LIMIT_REACHED };
	int (*push)(int, const void *, size_t);
	void (*reported)(uint32_t, uint32_t);
	struct ibv_srq *srq = create(), *other;
	struct ibv_async_event event;
	pthread_t thread;
	void *result;

	*(void **)&push = dlsym(RTLD_DEFAULT, "fake_push");
	*(void **)&reported = dlsym(RTLD_DEFAULT, "fake_reported");
	pushed.element = (uintptr_t)srq;
	push(context->async_fd, &pushed, sizeof(pushed));
	if (ibv_get_async_event(context, &event) || event.element.srq != srq)
		exit(1);
	reported(0, 1);
	pthread_create(&thread, NULL, destroy, srq);
	/* Until it waits, or nearly so: if it does not yet, the rest only proves less. */
	for (int i = 0; i < 100; i++)
		nap();
	reported(0, 0);
	other = create();
	ibv_ack_async_event(&event);
	pthread_join(thread, &result);
	ibv_destroy_srq(other);
	printf("create before acknowledge: %s\n", result ? "failed" : "ok");
}

int main(int argc, char **argv)
{
	struct ibv_device **list = ibv_get_device_list(NULL), **at;
	struct ibv_context *context;

	if (argc < 2)
		return 2;
	alarm(60);
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (at = list; at && *at && strcmp(ibv_get_device_name(*at), argv[1]); at++)
		;
	context = at && *at ? ibv_open_device(*at) : NULL;
	pd = context ? ibv_alloc_pd(context) : NULL;
	if (!pd)
		return 1;
	create_during_destroy();
	create_before_acknowledge(context);
	return 0;
}
