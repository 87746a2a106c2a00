/*
 * threads MODE DEVICE THREADS ROUNDS [GID_INDEX]: calls the library from many threads at once. Prints for
 * each call how often it was made and how often it failed with which errno; this does not depend on the order
 * of the threads, so that two libraries can be compared. Suites `threads` and `sanitizers` run it.
 *
 *	list     list the devices, read their attributes, free the list; open and close
 *	objects  each thread creates, uses and destroys one object of each kind, in
 *	         its own context or in a shared one
 *	shared   all threads use one PD, CQ and SRQ; each has its own QP and regions
 *	events   threads get and acknowledge completion and asynchronous events, while
 *	         others destroy the objects and wait for the acknowledgements
 *	cancel   threads blocked in ibv_get_cq_event and ibv_get_async_event are
 *	         cancelled; everything works afterwards (one thread of each per round)
 *	fork     regions are registered and deregistered with fork safety on while the
 *	         process forks. Children register memory too. There the C library may
 *	         hang: it forks while another thread holds its lock
 *	loops    ROUNDS times list/free, then open/close, then objects, in THREADS
 *	         threads: descriptors and memory must not grow
 *
 * Over the fake kernel (../fake-uverbs) the test itself makes events readable. On a device that can send to
 * itself, at GID_INDEX, they are those of real messages.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define LEN 4096
#define MAX_THREADS 64
#define EVENTS 8 /* per completion queue and round of `events` */

static int (*push)(int fd, const void *bytes, size_t len);
static void (*reported)(uint32_t comp, uint32_t async);

static const char *device_name;
static int threads, rounds, gid_index = -1;
static struct ibv_context *shared;
static struct ibv_pd *shared_pd;
static struct ibv_cq *shared_cq;
static struct ibv_srq *shared_srq;
static union ibv_gid own_gid;

/* Calls, one entry per place in the source. */
struct call {
	const char *text;
	_Atomic long ok, failed;
	_Atomic int error;
	_Atomic(struct call *) next;
	atomic_flag known;
};
static _Atomic(struct call *) calls;

static void count(struct call *call, bool ok)
{
	int error = errno;

	if (!atomic_flag_test_and_set(&call->known)) {
		struct call *head = calls;

		do
			call->next = head;
		while (!atomic_compare_exchange_weak(&calls, &head, call));
	}
	if (ok) {
		call->ok++;
	} else {
		call->failed++;
		call->error = error;
	}
}

#define COUNT(words, good) \
	do { \
		static struct call call_ = { .text = words, .known = ATOMIC_FLAG_INIT }; \
		count(&call_, good); \
	} while (0)
/* A call that returns 0 or an errno value, or sets errno. */
#define DO(call) \
	({ \
		int result_; \
		errno = 0; \
		result_ = call; \
		if (result_ > 0) \
			errno = result_; \
		COUNT(#call, !result_); \
		result_; \
	})
#define MAKE(call) \
	({ \
		__typeof__(call) made_; \
		errno = 0; \
		made_ = call; \
		COUNT(#call, made_); \
		made_; \
	})
#define EXPECT(condition) COUNT(#condition, condition)

static int by_text(const void *a, const void *b)
{
	return strcmp((*(struct call *const *)a)->text, (*(struct call *const *)b)->text);
}

static void report(void)
{
	struct call *all[256], *call;
	size_t n = 0, i;

	for (call = calls; call && n < 256; call = call->next)
		all[n++] = call;
	qsort(all, n, sizeof(*all), by_text);
	for (i = 0; i < n; i++) {
		printf("%s: %ld", all[i]->text, all[i]->ok);
		if (all[i]->failed)
			printf(", failed %ld (errno %d)", all[i]->failed, all[i]->error);
		printf("\n");
	}
}

static struct ibv_context *open_device(void)
{
	struct ibv_device **list = MAKE(ibv_get_device_list(NULL)), **entry;
	struct ibv_context *context = NULL;

	for (entry = list; entry && *entry; entry++)
		if (!strcmp(ibv_get_device_name(*entry), device_name))
			context = MAKE(ibv_open_device(*entry));
	if (list)
		ibv_free_device_list(list);
	return context;
}

/* --- list --- */

static void *list_thread(void *arg)
{
	long seed = (long)arg;

	for (int i = 0; i < rounds; i++) {
		int n = 0;
		struct ibv_device **list = MAKE(ibv_get_device_list(&n)), *device = NULL;
		struct ibv_context *context;

		if (!list)
			continue;
		for (int j = 0; j < n; j++) {
			if (!strcmp(ibv_get_device_name(list[j]), device_name))
				device = list[j];
			EXPECT(ibv_get_device_guid(list[j]) != 0);
			EXPECT(ibv_node_type_str(list[j]->node_type) != NULL);
		}
		EXPECT(device != NULL);
		EXPECT(list[n] == NULL);
		if (!device || (i + seed) % 3 == 0) {
			ibv_free_device_list(list);
			continue;
		}
		/* The context keeps its device when the list is freed first. */
		context = MAKE(ibv_open_device(device));
		if (seed % 2)
			ibv_free_device_list(list);
		if (context) {
			EXPECT(!strcmp(ibv_get_device_name(context->device), device_name));
			DO(ibv_close_device(context));
		}
		if (seed % 2 == 0)
			ibv_free_device_list(list);
	}
	return NULL;
}

/* --- objects --- */

static void queries(struct ibv_context *context)
{
	struct ibv_device_attr attr;
	struct ibv_port_attr port;
	struct ibv_gid_entry entry;
	union ibv_gid gid;
	__be16 pkey;

	DO(ibv_query_device(context, &attr));
	DO(ibv_query_port(context, 1, &port));
	DO(ibv_query_gid(context, 1, 0, &gid));
	DO(ibv_query_gid_ex(context, 1, 0, &entry, 0));
	DO(ibv_query_pkey(context, 1, 0, &pkey));
}

static struct ibv_qp *make_qp(struct ibv_pd *pd, struct ibv_cq *cq, struct ibv_srq *srq,
			      enum ibv_qp_type type)
{
	struct ibv_qp_init_attr init = {
		.qp_type = type,
		.send_cq = cq,
		.recv_cq = cq,
		.srq = srq,
		.cap = { .max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct ibv_qp *qp = MAKE(ibv_create_qp(pd, &init));
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 0x11111111 };

	if (qp)
		DO(ibv_modify_qp(qp, &attr,
				 IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
					 (type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)));
	return qp;
}

/* Connects an RC QP to itself. */
static void connect_qp(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = qp->qp_num,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = { .is_global = 1,
			     .port_num = 1,
			     .grh = { .dgid = own_gid,
				      .sgid_index = gid_index < 0 ? 0 : gid_index,
				      .hop_limit = 1 } },
	};

	DO(ibv_modify_qp(qp, &attr,
			 IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	attr.qp_state = IBV_QPS_RTS;
	attr.timeout = 14;
	attr.retry_cnt = attr.rnr_retry = 7;
	attr.max_rd_atomic = 1;
	DO(ibv_modify_qp(qp, &attr,
			 IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				 IBV_QP_MAX_QP_RD_ATOMIC));
}

static void post(struct ibv_qp *qp, struct ibv_srq *srq, struct ibv_mr *mr, bool send)
{
	struct ibv_sge sge = { .addr = (uintptr_t)mr->addr, .length = 64, .lkey = mr->lkey };
	struct ibv_recv_wr recv = { .sg_list = &sge, .num_sge = 1 }, *bad_recv;
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED },
			   *bad;

	if (send)
		DO(ibv_post_send(qp, &wr, &bad));
	else if (srq)
		DO(ibv_post_srq_recv(srq, &recv, &bad_recv));
	else
		DO(ibv_post_recv(qp, &recv, &bad_recv));
}

/* Polls until n completions have arrived. */
static void complete(struct ibv_cq *cq, int n)
{
	struct ibv_wc wc;
	int got, tries = 0;

	while (n > 0 && tries++ < 10000) {
		got = ibv_poll_cq(cq, 1, &wc);
		if (got > 0) {
			EXPECT(wc.status == IBV_WC_SUCCESS);
			n--;
		} else {
			usleep(1000);
		}
	}
	EXPECT(n == 0);
}

static void one_of_each(struct ibv_context *context)
{
	struct ibv_pd *pd = MAKE(ibv_alloc_pd(context));
	struct ibv_comp_channel *channel = MAKE(ibv_create_comp_channel(context));
	struct ibv_cq *cq = MAKE(ibv_create_cq(context, 64, NULL, channel, 0));
	struct ibv_srq_init_attr srq_attr = { .attr = { .max_wr = 16, .max_sge = 1 } };
	struct ibv_ah_attr ah_attr = { .port_num = 1,
				       .is_global = 1,
				       .grh = { .dgid = own_gid,
						.sgid_index = gid_index < 0 ? 0 : gid_index } };
	char *buf = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr, *other;
	struct ibv_srq *srq;
	struct ibv_qp *qp, *ud;
	struct ibv_mw *mw;
	struct ibv_ah *ah;

	if (!pd || !channel || !cq || buf == MAP_FAILED)
		return;
	mr = MAKE(ibv_reg_mr(pd, buf, LEN, IBV_ACCESS_LOCAL_WRITE));
	other = MAKE(ibv_reg_mr(pd, buf + 100, 300, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ));
	srq = MAKE(ibv_create_srq(pd, &srq_attr));
	qp = make_qp(pd, cq, NULL, IBV_QPT_RC);
	ud = make_qp(pd, cq, srq, IBV_QPT_UD);
	/* Over the fake kernel no GID can be resolved; the reason is tested by compat-tests/neigh. */
	ah = gid_index >= 0 ? MAKE(ibv_create_ah(pd, &ah_attr)) : NULL;
	mw = MAKE(ibv_alloc_mw(pd, IBV_MW_TYPE_1));
	queries(context);
	DO(ibv_req_notify_cq(cq, 0));
	DO(ibv_resize_cq(cq, 128));
	if (qp && mr) {
		connect_qp(qp);
		if (gid_index >= 0) {
			post(qp, NULL, mr, false);
			post(qp, NULL, mr, true);
			complete(cq, 2);
		}
	}
	if (mw)
		DO(ibv_dealloc_mw(mw));
	if (ah)
		DO(ibv_destroy_ah(ah));
	if (ud)
		DO(ibv_destroy_qp(ud));
	if (qp)
		DO(ibv_destroy_qp(qp));
	if (srq)
		DO(ibv_destroy_srq(srq));
	if (other)
		DO(ibv_dereg_mr(other));
	if (mr)
		DO(ibv_dereg_mr(mr));
	if (gid_index >= 0) {
		/* The events must be acknowledged before the CQ is destroyed. */
		struct ibv_cq *of;
		void *cq_context;

		DO(ibv_get_cq_event(channel, &of, &cq_context));
		EXPECT(of == cq);
		ibv_ack_cq_events(cq, 1);
	}
	DO(ibv_destroy_cq(cq));
	DO(ibv_destroy_comp_channel(channel));
	DO(ibv_dealloc_pd(pd));
	munmap(buf, LEN);
}

static void *objects_thread(void *arg)
{
	long seed = (long)arg;

	for (int i = 0; i < rounds; i++) {
		struct ibv_context *context = (i + seed) % 2 ? open_device() : shared;

		if (!context)
			continue;
		one_of_each(context);
		if (context != shared)
			DO(ibv_close_device(context));
	}
	return NULL;
}

/* --- shared --- */

static void *shared_thread(void *arg)
{
	char *buf = mmap(NULL, 4 * LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)arg;
	for (int i = 0; i < rounds; i++) {
		struct ibv_srq_attr limit = { .srq_limit = 1 };
		struct ibv_qp_init_attr init;
		struct ibv_qp_attr attr;
		struct ibv_mr *mrs[4];
		struct ibv_qp *qp = make_qp(shared_pd, shared_cq, i % 2 ? shared_srq : NULL, IBV_QPT_RC);

		for (int j = 0; j < 4; j++)
			mrs[j] = MAKE(ibv_reg_mr(shared_pd, buf + j * LEN / 2, LEN, IBV_ACCESS_LOCAL_WRITE));
		if (shared_srq) {
			DO(ibv_modify_srq(shared_srq, &limit, IBV_SRQ_LIMIT));
			DO(ibv_query_srq(shared_srq, &limit));
		}
		if (qp) {
			DO(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init));
			EXPECT(init.send_cq == shared_cq);
			connect_qp(qp);
		}
		queries(shared);
		for (int j = 0; j < 4; j++)
			if (mrs[j])
				DO(ibv_dereg_mr(mrs[j]));
		if (qp)
			DO(ibv_destroy_qp(qp));
	}
	munmap(buf, 4 * LEN);
	return NULL;
}

/* --- events --- */

struct getter {
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	bool one_by_one;
};

static void *getter_thread(void *arg)
{
	struct getter *getter = arg;
	struct ibv_cq *cq;
	void *cq_context;

	for (int i = 0; i < EVENTS; i++) {
		DO(ibv_get_cq_event(getter->channel, &cq, &cq_context));
		EXPECT(cq == getter->cq);
		EXPECT(cq_context == getter);
		if (getter->one_by_one) {
			/* late, so that a destroy is already waiting */
			usleep(200);
			ibv_ack_cq_events(cq, 1);
		}
	}
	if (!getter->one_by_one)
		ibv_ack_cq_events(getter->cq, EVENTS);
	return NULL;
}

/* Fake kernel: each CQ gets as many events as each destroy command returns. */
static void *pushed_events_thread(void *arg)
{
	long seed = (long)arg;

	for (int i = 0; i < rounds; i++) {
		struct getter getter = { .one_by_one = (i + seed) % 2 };
		uint64_t desc;
		pthread_t thread;

		getter.channel = MAKE(ibv_create_comp_channel(shared));
		getter.cq = MAKE(ibv_create_cq(shared, 64, &getter, getter.channel, 0));
		if (!getter.channel || !getter.cq)
			return NULL;
		desc = (uintptr_t)getter.cq;
		if (pthread_create(&thread, NULL, getter_thread, &getter))
			return NULL;
		for (int j = 0; j < EVENTS; j++)
			EXPECT(push(getter.channel->fd, &desc, sizeof(desc)) == 0);
		DO(ibv_destroy_cq(getter.cq));
		pthread_join(thread, NULL);
		DO(ibv_destroy_comp_channel(getter.channel));
	}
	return NULL;
}

/* Real device: the two completions of a message cause one or two events. */
static void *real_events_thread(void *arg)
{
	char *buf = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr = MAKE(ibv_reg_mr(shared_pd, buf, LEN, IBV_ACCESS_LOCAL_WRITE));

	(void)arg;
	for (int i = 0; mr && i < rounds; i++) {
		struct ibv_comp_channel *channel = MAKE(ibv_create_comp_channel(shared));
		struct ibv_cq *cq = MAKE(ibv_create_cq(shared, 64, &i, channel, 0)), *of;
		struct ibv_qp *qp = cq ? make_qp(shared_pd, cq, NULL, IBV_QPT_RC) : NULL;
		unsigned int unacknowledged = 0;
		void *cq_context;

		if (!qp)
			return NULL;
		connect_qp(qp);
		for (int j = 0; j < EVENTS; j++) {
			DO(ibv_req_notify_cq(cq, 0));
			post(qp, NULL, mr, false);
			post(qp, NULL, mr, true);
			DO(ibv_get_cq_event(channel, &of, &cq_context));
			EXPECT(of == cq && cq_context == &i);
			unacknowledged++;
			complete(cq, 2);
		}
		ibv_ack_cq_events(cq, unacknowledged);
		DO(ibv_destroy_qp(qp));
		DO(ibv_destroy_cq(cq));
		DO(ibv_destroy_comp_channel(channel));
	}
	if (mr)
		DO(ibv_dereg_mr(mr));
	munmap(buf, LEN);
	return NULL;
}

/* --- cancel --- */

static void *blocked_in_cq(void *channel)
{
	struct ibv_cq *cq;
	void *cq_context;

	ibv_get_cq_event(channel, &cq, &cq_context);
	return NULL;
}

static void *blocked_in_async(void *context)
{
	struct ibv_async_event event;

	ibv_get_async_event(context, &event);
	return NULL;
}

static void *cancel_thread(void *arg)
{
	struct ibv_context *context = open_device();
	struct ibv_comp_channel *channel = context ? MAKE(ibv_create_comp_channel(context)) : NULL;
	struct ibv_cq *cq = channel ? MAKE(ibv_create_cq(context, 8, NULL, channel, 0)) : NULL;

	(void)arg;
	for (int i = 0; cq && i < rounds; i++) {
		pthread_t blocked[2];
		void *ends[2] = { NULL, NULL };

		if (pthread_create(&blocked[0], NULL, blocked_in_cq, channel) ||
		    pthread_create(&blocked[1], NULL, blocked_in_async, context))
			return NULL;
		/* so that some are cancelled before they block */
		usleep(i % 4 * 2000);
		for (int j = 0; j < 2; j++)
			EXPECT(pthread_cancel(blocked[j]) == 0);
		for (int j = 0; j < 2; j++)
			pthread_join(blocked[j], &ends[j]);
		EXPECT(ends[0] == PTHREAD_CANCELED);
		EXPECT(ends[1] == PTHREAD_CANCELED);
	}
	if (cq) {
		DO(ibv_destroy_cq(cq));
		DO(ibv_destroy_comp_channel(channel));
		DO(ibv_close_device(context));
	}
	return NULL;
}

/* --- fork --- */

static _Atomic int forks_to_come;

static void *regions_thread(void *arg)
{
	long seed = (long)arg, i;
	char *buf = mmap(NULL, 16 * LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	for (i = 0; i < rounds; i++) {
		long at = (i + seed) % 12 * LEN;
		struct ibv_mr *a = MAKE(ibv_reg_mr(shared_pd, buf + at, 4 * LEN, IBV_ACCESS_LOCAL_WRITE));
		struct ibv_mr *b = MAKE(ibv_reg_mr(shared_pd, buf + at / 2, 100, IBV_ACCESS_LOCAL_WRITE));

		if (a)
			DO(ibv_dereg_mr(a));
		if (b)
			DO(ibv_dereg_mr(b));
	}
	munmap(buf, 16 * LEN);
	return NULL;
}

static void *forking_thread(void *arg)
{
	(void)arg;
	while (forks_to_come-- > 0) {
		pid_t child = fork();
		int status = -1;

		if (child == 0) {
			/* A child can register memory of its own. */
			char *buf = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
					 0);
			struct ibv_mr *mr;

			alarm(5);
			mr = ibv_reg_mr(shared_pd, buf, LEN, IBV_ACCESS_LOCAL_WRITE);
			_exit(mr ? ibv_dereg_mr(mr) : gid_index >= 0 ? 0 : 1);
		}
		EXPECT(child > 0);
		waitpid(child, &status, 0);
		COUNT("children that could register memory", status == 0);
	}
	return NULL;
}

/* --- loops --- */

static int descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *entry;
	int n = 0;

	/* Higher ones belong to the shim. */
	while (dir && (entry = readdir(dir)))
		if (entry->d_name[0] != '.' && atoi(entry->d_name) < 512)
			n++;
	if (dir)
		closedir(dir);
	return n;
}

static void *list_free(void *arg)
{
	(void)arg;
	for (int i = 0; i < rounds; i++) {
		struct ibv_device **list = MAKE(ibv_get_device_list(NULL));

		if (list)
			ibv_free_device_list(list);
	}
	return NULL;
}

static void *open_close(void *arg)
{
	(void)arg;
	for (int i = 0; i < rounds; i++) {
		struct ibv_context *context = open_device();

		if (context)
			DO(ibv_close_device(context));
	}
	return NULL;
}

static void *make_destroy(void *arg)
{
	(void)arg;
	for (int i = 0; i < rounds; i++)
		one_of_each(shared);
	return NULL;
}

/* --- */

static void run(void *(*body)(void *), int n)
{
	pthread_t all[MAX_THREADS];

	for (long i = 0; i < n; i++)
		if (pthread_create(&all[i], NULL, body, (void *)i))
			exit(3);
	for (long i = 0; i < n; i++)
		pthread_join(all[i], NULL);
}

static void loop(const char *name, void *(*body)(void *))
{
	int times = rounds, fds;
	size_t heap;
	long grown, most;

	rounds = 20;
	run(body, threads);
	fds = descriptors();
	heap = mallinfo2().uordblks;
	rounds = times;
	run(body, threads);
	grown = (long)(mallinfo2().uordblks - heap);
	/*
	 * Memory that malloc keeps per thread counts as used, and mlx5's provider varies by tables of 32 KiB,
	 * one or two, with either library. A leak in each round would be at least 32 bytes per thread, of
	 * which there are two at least.
	 */
	most = 4096L + 24L * times;
	printf("%s: %+d descriptors, memory %s\n", name, descriptors() - fds,
	       grown < most ? "even" : "GROWN");
	if (grown >= most)
		printf("  by %ld bytes\n", grown);
}

static void *stuck(void *arg)
{
	(void)arg;
	sleep(getenv("LIMIT") ? (unsigned int)atoi(getenv("LIMIT")) : 100);
	printf("still running: a thread is stuck\n");
	fflush(stdout);
	_exit(4);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	struct ibv_srq_init_attr srq_attr = { .attr = { .max_wr = 16, .max_sge = 1 } };
	pthread_t watchdog;

	if (argc < 5 || atoi(argv[3]) > MAX_THREADS) {
		fprintf(stderr, "usage: threads MODE DEVICE THREADS ROUNDS [GID_INDEX]\n");
		return 2;
	}
	device_name = argv[2];
	threads = atoi(argv[3]);
	rounds = atoi(argv[4]);
	if (argc > 5)
		gid_index = atoi(argv[5]);
	*(void **)&push = dlsym(RTLD_DEFAULT, "fake_push");
	*(void **)&reported = dlsym(RTLD_DEFAULT, "fake_reported");
	mallopt(M_ARENA_MAX, 1);
	pthread_create(&watchdog, NULL, stuck, NULL);

	if (!strcmp(mode, "fork"))
		DO(ibv_fork_init());
	if (!strcmp(mode, "list")) {
		/* Many threads make the first list at once, which loads the providers. */
		run(list_thread, threads);
		report();
		return 0;
	}
	if (!strcmp(mode, "cancel")) {
		run(cancel_thread, threads);
		report();
		return 0;
	}
	shared = open_device();
	if (!shared)
		return 3;
	ibv_query_gid(shared, 1, gid_index < 0 ? 0 : gid_index, &own_gid);
	shared_pd = MAKE(ibv_alloc_pd(shared));
	if (!strcmp(mode, "objects")) {
		run(objects_thread, threads);
	} else if (!strcmp(mode, "shared")) {
		shared_cq = MAKE(ibv_create_cq(shared, 1024, NULL, NULL, 0));
		shared_srq = MAKE(ibv_create_srq(shared_pd, &srq_attr));
		run(shared_thread, threads);
		DO(ibv_destroy_srq(shared_srq));
		DO(ibv_destroy_cq(shared_cq));
	} else if (!strcmp(mode, "events")) {
		if (reported)
			reported(EVENTS, 0);
		run(push ? pushed_events_thread : real_events_thread, threads);
		if (reported)
			reported(0, 0);
	} else if (!strcmp(mode, "fork")) {
		pthread_t forker;

		forks_to_come = rounds / 10 + 1;
		pthread_create(&forker, NULL, forking_thread, NULL);
		run(regions_thread, threads);
		pthread_join(forker, NULL);
	} else if (!strcmp(mode, "loops")) {
		loop("list and free", list_free);
		loop("open and close", open_close);
		rounds = rounds / 10 + 1;
		loop("one of each object", make_destroy);
	} else {
		return 2;
	}
	DO(ibv_dealloc_pd(shared_pd));
	DO(ibv_close_device(shared));
	report();
	return 0;
}
