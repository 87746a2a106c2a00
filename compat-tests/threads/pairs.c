/*
 * pairs DEVICE ROUNDS [KIND [KIND]]: tests which objects two threads may create and destroy at the same time
 * on one context. For each pair of kinds two threads, one each, create and destroy ROUNDS objects, in a child
 * process; a child that crashes (a provider that changes a table without its lock corrupts the heap) is
 * reported. Kinds that the device does not have are left out. Runs on the fake kernel (../fake-uverbs); the
 * library must make every pair safe. Exit status 1 if a child died.
 */
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_xrcd *xrcd;
static char memory[8192] __attribute__((aligned(4096)));

/* A create function returns NULL when the device cannot. Destroy functions take what create returned. */
static void *make_pd(void)
{
	return ibv_alloc_pd(context);
}

static int end_pd(void *object)
{
	return ibv_dealloc_pd(object);
}

static void *make_mr(void)
{
	return ibv_reg_mr(pd, memory, 4096, IBV_ACCESS_LOCAL_WRITE);
}

static int end_mr(void *object)
{
	return ibv_dereg_mr(object);
}

static void *make_mw(void)
{
	return ibv_alloc_mw(pd, IBV_MW_TYPE_1);
}

static int end_mw(void *object)
{
	return ibv_dealloc_mw(object);
}

static void *make_ah(void)
{
	struct ibv_ah_attr attr = { .port_num = 1, .dlid = 1, .is_global = 1, .grh = { .hop_limit = 1 } };

	attr.grh.dgid.raw[15] = 1;
	attr.grh.dgid.raw[10] = attr.grh.dgid.raw[11] = 0xff;
	attr.grh.dgid.raw[12] = 127;
	return ibv_create_ah(pd, &attr);
}

static int end_ah(void *object)
{
	return ibv_destroy_ah(object);
}

static void *make_cq(void)
{
	return ibv_create_cq(context, 16, NULL, NULL, 0);
}

static int end_cq(void *object)
{
	return ibv_destroy_cq(object);
}

static void *make_qp(enum ibv_qp_type type)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = type,
		.send_cq = cq,
		.recv_cq = cq,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
	};

	return ibv_create_qp(pd, &attr);
}

static void *make_rc(void)
{
	return make_qp(IBV_QPT_RC);
}

static void *make_ud(void)
{
	return make_qp(IBV_QPT_UD);
}

static void *make_xrc_recv(void)
{
	struct ibv_qp_init_attr_ex attr = { .qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD };

	attr.xrcd = xrcd;
	return xrcd ? ibv_create_qp_ex(context, &attr) : NULL;
}

static int end_qp(void *object)
{
	return ibv_destroy_qp(object);
}

static void *make_srq(void)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 16, .max_sge = 1 } };

	return ibv_create_srq(pd, &attr);
}

static void *make_srq_of(enum ibv_srq_type type)
{
	struct ibv_srq_init_attr_ex attr = {
		.attr = { .max_wr = 16, .max_sge = 1 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD,
		.srq_type = type,
		.pd = pd,
	};

	if (type == IBV_SRQT_XRC) {
		if (!xrcd)
			return NULL;
		attr.comp_mask |= IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
		attr.xrcd = xrcd;
		attr.cq = cq;
	}
	return ibv_create_srq_ex(context, &attr);
}

static void *make_srq_ex(void)
{
	return make_srq_of(IBV_SRQT_BASIC);
}

static void *make_srq_xrc(void)
{
	return make_srq_of(IBV_SRQT_XRC);
}

static int end_srq(void *object)
{
	return ibv_destroy_srq(object);
}

static void *make_wq(void)
{
	struct ibv_wq_init_attr attr = {
		.wq_type = IBV_WQT_RQ, .max_wr = 4, .max_sge = 1, .pd = pd, .cq = cq
	};

	return ibv_create_wq(context, &attr);
}

static int end_wq(void *object)
{
	return ibv_destroy_wq(object);
}

static void *make_xrcd(void)
{
	struct ibv_xrcd_init_attr attr = { .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
					   .fd = -1,
					   .oflags = O_CREAT };

	return ibv_open_xrcd(context, &attr);
}

static int end_xrcd(void *object)
{
	return ibv_close_xrcd(object);
}

static void *make_td(void)
{
	struct ibv_td_init_attr attr = { .comp_mask = 0 };

	return ibv_alloc_td(context, &attr);
}

static int end_td(void *object)
{
	return ibv_dealloc_td(object);
}

static void *make_dm(void)
{
	struct ibv_alloc_dm_attr attr = { .length = 4096 };

	return ibv_alloc_dm(context, &attr);
}

static int end_dm(void *object)
{
	return ibv_free_dm(object);
}

static void *make_channel(void)
{
	return ibv_create_comp_channel(context);
}

static int end_channel(void *object)
{
	return ibv_destroy_comp_channel(object);
}

static const struct kind {
	const char *name;
	void *(*make)(void);
	int (*end)(void *object);
} kinds[] = {
	{ "pd", make_pd, end_pd },
	{ "mr", make_mr, end_mr },
	{ "mw", make_mw, end_mw },
	{ "ah", make_ah, end_ah },
	{ "cq", make_cq, end_cq },
	{ "rc", make_rc, end_qp },
	{ "ud", make_ud, end_qp },
	{ "xrc-recv", make_xrc_recv, end_qp },
	{ "srq", make_srq, end_srq },
	{ "srq-ex", make_srq_ex, end_srq },
	{ "srq-xrc", make_srq_xrc, end_srq },
	{ "wq", make_wq, end_wq },
	{ "xrcd", make_xrcd, end_xrcd },
	{ "td", make_td, end_td },
	{ "dm", make_dm, end_dm },
	{ "channel", make_channel, end_channel },
};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

static int rounds;
static pthread_barrier_t begin;

static void *thread(void *arg)
{
	const struct kind *kind = arg;

	pthread_barrier_wait(&begin);
	for (int i = 0; i < rounds; i++) {
		void *object = kind->make();

		if (object)
			kind->end(object);
	}
	return NULL;
}

static void open_device(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL), **at;

	for (at = list; at && *at && strcmp(ibv_get_device_name(*at), name); at++)
		;
	context = at && *at ? ibv_open_device(*at) : NULL;
	pd = context ? ibv_alloc_pd(context) : NULL;
	cq = pd ? ibv_create_cq(context, 16, NULL, NULL, 0) : NULL;
	xrcd = cq ? make_xrcd() : NULL;
}

/* In a child, so that its death is seen: both threads. */
static int run(const char *device, const struct kind *one, const struct kind *other)
{
	pid_t child = fork();
	int status = 0;

	if (child == 0) {
		pthread_t threads[2];

		alarm(120);
		open_device(device);
		pthread_barrier_init(&begin, NULL, 2);
		pthread_create(&threads[0], NULL, thread, (void *)one);
		pthread_create(&threads[1], NULL, thread, (void *)other);
		pthread_join(threads[0], NULL);
		pthread_join(threads[1], NULL);
		_exit(0);
	}
	waitpid(child, &status, 0);
	return status;
}

/* Whether the device makes such objects, asked in a child too: the parent never opens it. */
static bool has(const char *device, const struct kind *kind)
{
	pid_t child = fork();
	int status = 0;

	if (child == 0) {
		void *object;

		open_device(device);
		object = cq ? kind->make() : NULL;
		_exit(object ? 0 : 1);
	}
	waitpid(child, &status, 0);
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int main(int argc, char **argv)
{
	bool present[KINDS];
	int deaths = 0, pairs = 0;

	if (argc < 3)
		return 2;
	rounds = atoi(argv[2]);
	for (size_t i = 0; i < KINDS; i++)
		present[i] = has(argv[1], &kinds[i]);
	for (size_t i = 0; i < KINDS; i++)
		for (size_t j = i; j < KINDS; j++) {
			int status;

			if (!present[i] || !present[j])
				continue;
			if (argc > 3 && strcmp(kinds[i].name, argv[3]))
				continue;
			if (argc > 4 && strcmp(kinds[j].name, argv[4]))
				continue;
			pairs++;
			status = run(argv[1], &kinds[i], &kinds[j]);
			if (status) {
				deaths++;
				printf("%s: %s and %s: %s %d\n", argv[1], kinds[i].name, kinds[j].name,
				       WIFSIGNALED(status) ? "signal" : "exit code",
				       WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
			}
		}
	printf("%s: %d pairs, %d died\n", argv[1], pairs, deaths);
	return deaths || !pairs;
}
