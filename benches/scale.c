/*
 * scale DEVICE PROCESSES [QUEUE_PAIRS]: what peers on one host cost. Each
 * process connects QUEUE_PAIRS RC queue pairs (1) with each other one and sends
 * a message through each. Prints for the first process, while the others sleep:
 * its queue pairs, the time of an empty poll, memory (PSS) and descriptors
 * above those of an open device, the time that connecting took, and what is
 * left of memory and descriptors when all queue pairs are destroyed.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define POLLS 20000
#define LEN 64

/* The meeting point of the processes, in shared memory: who has arrived, and the QP numbers. */
struct meeting {
	atomic_int arrived[16];
	uint32_t qpns[];
};

static int processes, per_peer, count;
static struct meeting *meeting;

static void fail(const char *what)
{
	perror(what);
	kill(0, SIGTERM);
	exit(1);
}

static void meet(int number)
{
	atomic_fetch_add(&meeting->arrived[number], 1);
	while (atomic_load(&meeting->arrived[number]) < processes)
		usleep(1000);
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

static long pss(void)
{
	FILE *f = fopen("/proc/self/smaps_rollup", "re");
	char line[256];
	long kib = 0;

	if (!f)
		fail("smaps_rollup");
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "Pss: %ld", &kib) == 1)
			break;
	fclose(f);
	return kib;
}

static int descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	if (!dir)
		fail("/proc/self/fd");
	while (readdir(dir))
		n++;
	closedir(dir);
	return n - 3;
}

/* The queue pair of process `from` with number `i` of those to `to`. */
static uint32_t *qpn(int from, int to, int i)
{
	return &meeting->qpns[((size_t)from * processes + to) * per_peer + i];
}

static int gid_index(struct ibv_context *context, union ibv_gid *gid)
{
	struct ibv_gid_entry entry;

	for (int i = 0; i < 16; i++)
		if (!ibv_query_gid_ex(context, 1, i, &entry, 0) && entry.gid_type == IBV_GID_TYPE_ROCE_V2) {
			*gid = entry.gid;
			return i;
		}
	fail("no RoCEv2 GID");
	return -1;
}

static void connect_qp(struct ibv_qp *qp, uint32_t peer, int sgid, union ibv_gid gid)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
	};

	if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
		fail("INIT");
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = { .is_global = 1,
			     .port_num = 1,
			     .grh = { .dgid = gid, .sgid_index = sgid, .hop_limit = 64 } },
	};
	if (ibv_modify_qp(qp, &attr,
			  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
		fail("RTR");
}

static void send_rtr_to_rts(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.timeout = 18,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.max_rd_atomic = 1,
	};

	if (ibv_modify_qp(qp, &attr,
			  IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				  IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC))
		fail("RTS");
}

static void run(int self, const char *device)
{
	int all = (processes - 1) * per_peer, list_len, sgid, fds, done = 0;
	struct ibv_device **list = ibv_get_device_list(&list_len);
	struct ibv_context *context = NULL;
	struct ibv_qp **qps = calloc(all, sizeof(*qps));
	static char buffer[LEN];
	union ibv_gid gid;
	double begun, connected, poll;
	long memory;

	for (int i = 0; i < list_len; i++)
		if (!strcmp(ibv_get_device_name(list[i]), device))
			context = ibv_open_device(list[i]);
	if (!context || !qps)
		fail("ibv_open_device");
	ibv_free_device_list(list);
	sgid = gid_index(context, &gid);
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_mr *mr = ibv_reg_mr(pd, buffer, LEN, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_cq *cq = ibv_create_cq(context, 2 * all + 16, NULL, NULL, 0);
	if (!pd || !mr || !cq)
		fail("objects");
	meet(0);
	fds = descriptors();
	memory = pss();
	meet(1);
	begun = now();
	count = 0;
	for (int peer = 0; peer < processes; peer++)
		for (int i = 0; peer != self && i < per_peer; i++) {
			struct ibv_qp_init_attr init = {
				.send_cq = cq,
				.recv_cq = cq,
				.cap = { 4, 4, 1, 1, 0 },
				.qp_type = IBV_QPT_RC,
				.sq_sig_all = 1,
			};
			struct ibv_qp *qp = ibv_create_qp(pd, &init);

			if (!qp)
				fail("ibv_create_qp");
			qps[count++] = qp;
			*qpn(self, peer, i) = qp->qp_num;
		}
	meet(2);
	struct ibv_sge sge = { (uintptr_t)buffer, LEN, mr->lkey };
	count = 0;
	for (int peer = 0; peer < processes; peer++)
		for (int i = 0; peer != self && i < per_peer; i++) {
			struct ibv_recv_wr receive = { .sg_list = &sge, .num_sge = 1 }, *bad;

			connect_qp(qps[count], *qpn(peer, self, i), sgid, gid);
			if (ibv_post_recv(qps[count++], &receive, &bad))
				fail("ibv_post_recv");
		}
	meet(3);
	for (int i = 0; i < all; i++)
		send_rtr_to_rts(qps[i]);
	meet(4);
	connected = now() - begun;
	for (int i = 0; i < all; i++) {
		struct ibv_send_wr send = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND };
		struct ibv_send_wr *bad;

		if (ibv_post_send(qps[i], &send, &bad))
			fail("ibv_post_send");
	}
	while (done < 2 * all) {
		struct ibv_wc wc[16];
		int n = ibv_poll_cq(cq, 16, wc);

		for (int i = 0; i < n; i++)
			if (wc[i].status != IBV_WC_SUCCESS) {
				fprintf(stderr, "%s\n", ibv_wc_status_str(wc[i].status));
				fail("completion");
			}
		done += n;
	}
	meet(5);
	if (self == 0) {
		sleep(1);
		poll = now();
		for (int i = 0; i < POLLS; i++) {
			struct ibv_wc wc;

			if (ibv_poll_cq(cq, 1, &wc))
				fail("an unexpected completion");
		}
		poll = (now() - poll) / POLLS;
		printf("%d processes, %d queue pairs each: poll %.3f us, %ld KiB (%.1f each peer), "
		       "%d descriptors, connected in %.0f ms",
		       processes, all, poll, pss() - memory, (double)(pss() - memory) / (processes - 1),
		       descriptors() - fds, connected / 1e3);
	}
	meet(6);
	for (int i = 0; i < all; i++)
		if (ibv_destroy_qp(qps[i]))
			fail("ibv_destroy_qp");
	meet(7);
	if (self == 0)
		printf("; destroyed: %ld KiB, %d descriptors\n", pss() - memory, descriptors() - fds);
	fflush(stdout);
	meet(8);
	if (ibv_destroy_cq(cq) || ibv_dereg_mr(mr) || ibv_dealloc_pd(pd) || ibv_close_device(context))
		fail("destroying objects");
}

int main(int argc, char **argv)
{
	struct rlimit files;
	size_t len;

	if (argc < 3)
		return 2;
	processes = atoi(argv[2]);
	per_peer = argc > 3 ? atoi(argv[3]) : 1;
	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	len = sizeof(*meeting) + sizeof(uint32_t) * processes * processes * per_peer;
	meeting = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (meeting == MAP_FAILED)
		fail("mmap");
	for (int i = 0; i < processes; i++) {
		pid_t pid = fork();

		if (pid < 0)
			fail("fork");
		if (pid == 0) {
			run(i, argv[1]);
			return 0;
		}
	}
	for (int i = 0; i < processes; i++) {
		int status;

		if (wait(&status) < 0 || status)
			return 1;
	}
	return 0;
}
