#include "rig.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <sys/prctl.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

void fail(const char *what)
{
	int e = errno;

	fflush(stdout);
	fprintf(stderr, "faults: failed: %s (errno %d, %s)\n", what, e, strerror(e));
	_exit(1);
}

void report(const char *format, ...)
{
	va_list list;

	va_start(list, format);
	vprintf(format, list);
	va_end(list);
	putchar('\n');
	fflush(stdout);
}

static long now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

char *guarded(size_t size)
{
	size_t page = 4096, whole = (size + page - 1) / page * page;
	char *all = mmap(NULL, whole + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	MUST(all != MAP_FAILED);
	MUST(mprotect(all + page, whole, PROT_READ | PROT_WRITE) == 0);
	return all + page + (whole - size);
}

struct ibv_context *open_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = NULL;

	MUST(list);
	for (int i = 0; list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), device_name))
			MUST(context = ibv_open_device(list[i]));
	ibv_free_device_list(list);
	if (!context)
		fail("the device exists");
	return context;
}

/* Index of the first IPv4 address in the GID table. */
int find_gid(struct ibv_context *context)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	struct ibv_port_attr port;
	union ibv_gid gid;

	MUST(ibv_query_port(context, 1, &port) == 0);
	for (int i = 0; i < port.gid_tbl_len; i++)
		if (ibv_query_gid(context, 1, i, &gid) == 0 && !memcmp(gid.raw, mapped, 12))
			return i;
	fail("the port has an IPv4 address");
}

void add_qp(struct end *end, const struct options *options)
{
	struct ibv_qp_init_attr init = {
		.send_cq = end->cq,
		.recv_cq = end->cq,
		.srq = options->srq,
		.qp_type = options->type ? options->type : IBV_QPT_RC,
		.cap = { .max_send_wr = 64,
			 .max_recv_wr = options->srq ? 0 : 64,
			 .max_send_sge = 1,
			 .max_recv_sge = options->srq ? 0 : 1 },
		.sq_sig_all = !options->unsignalled,
	};
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT,
				    .port_num = 1,
				    .qp_access_flags = options->qp_access ? options->qp_access : ALL_ACCESS };

	MUST(end->qp = ibv_create_qp(end->pd, &init));
	MUST(ibv_modify_qp(end->qp, &attr,
			   IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0);
	MUST(getrandom(&end->self.psn, 3, 0) == 3);
	end->self.psn &= 0xffffff;
	end->self.qpn = end->qp->qp_num;
}

void open_end(struct end *end, const struct options *options)
{
	if (!options->share) {
		memset(end, 0, sizeof *end);
		end->context = open_device();
		end->gid_index = find_gid(end->context);
		MUST(end->pd = ibv_alloc_pd(end->context));
		MUST(end->channel = ibv_create_comp_channel(end->context));
		MUST(end->cq = ibv_create_cq(end->context, options->cq_entries ? options->cq_entries : 64,
					     end, end->channel, 0));
		end->memory = guarded(SIZE);
		MUST(end->mr = ibv_reg_mr(end->pd, end->memory, SIZE,
					  options->mr_access ? options->mr_access : ALL_ACCESS));
		MUST(ibv_query_gid(end->context, 1, end->gid_index, &end->self.gid) == 0);
		end->self.rkey = end->mr->rkey;
		end->self.addr = (uintptr_t)end->memory;
	}
	add_qp(end, options);
}

static uint8_t count(uint8_t n, uint8_t otherwise)
{
	return n == ZERO ? 0 : n ? n : otherwise;
}

void join(struct end *end, const struct address *peer, const struct options *options)
{
	bool rc = end->qp->qp_type == IBV_QPT_RC;
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer->qpn,
		.rq_psn = peer->psn,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = count(options->min_rnr_timer, 12),
		.ah_attr = { .is_global = 1,
			     .port_num = 1,
			     .grh = { .dgid = peer->gid, .sgid_index = end->gid_index, .hop_limit = 64 } },
	};

	MUST(ibv_modify_qp(end->qp, &attr,
			   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				   (rc ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0)) == 0);
	attr.qp_state = IBV_QPS_RTS;
	attr.timeout = count(options->timeout, 14);
	attr.retry_cnt = count(options->retry_cnt, 7);
	attr.rnr_retry = count(options->rnr_retry, 7);
	attr.sq_psn = end->self.psn;
	attr.max_rd_atomic = 4;
	MUST(ibv_modify_qp(end->qp, &attr,
			   IBV_QP_STATE | IBV_QP_SQ_PSN |
				   (rc ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
						    IBV_QP_MAX_QP_RD_ATOMIC
				       : 0)) == 0);
}

void make_pair(struct end *one, struct end *other, const struct options *options_one,
	       const struct options *options_other)
{
	open_end(one, options_one);
	open_end(other, options_other);
	join(one, &other->self, options_one);
	join(other, &one->self, options_other);
}

void close_end(struct end *end)
{
	MUST(ibv_destroy_qp(end->qp) == 0);
	MUST(ibv_dereg_mr(end->mr) == 0);
	MUST(ibv_destroy_cq(end->cq) == 0);
	MUST(ibv_destroy_comp_channel(end->channel) == 0);
	MUST(ibv_dealloc_pd(end->pd) == 0);
	MUST(ibv_close_device(end->context) == 0);
}

void close_pair(struct end *one, struct end *other)
{
	close_end(one);
	close_end(other);
}

/*
 * Posts a request that reads from or writes to the other end's memory; the first half of our memory is
 * sent.
 */
int post(struct end *end, enum ibv_wr_opcode opcode, const struct address *to, uint64_t offset,
	 uint32_t length)
{
	struct ibv_sge sge = { .addr = (uintptr_t)end->memory, .length = length, .lkey = end->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = opcode, .sg_list = &sge, .num_sge = 1, .opcode = opcode }, *bad;

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
		wr.wr.atomic.remote_addr = to->addr + offset;
		wr.wr.atomic.rkey = to->rkey;
		wr.wr.atomic.compare_add = opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
		wr.wr.atomic.swap = 1;
	} else if (opcode != IBV_WR_SEND) {
		wr.wr.rdma.remote_addr = to->addr + offset;
		wr.wr.rdma.rkey = to->rkey;
	}
	return ibv_post_send(end->qp, &wr, &bad);
}

int post_receive(struct end *end)
{
	struct ibv_sge sge = { .addr = (uintptr_t)end->memory + SIZE / 2,
			       .length = SIZE / 2,
			       .lkey = end->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = 1000, .sg_list = &sge, .num_sge = 1 }, *bad;

	return ibv_post_recv(end->qp, &wr, &bad);
}

struct ibv_wc next(struct end *end)
{
	long until = now_ms() + WAIT;
	struct ibv_wc wc;
	int n;

	while ((n = ibv_poll_cq(end->cq, 1, &wc)) == 0)
		if (now_ms() > until)
			fail("a completion arrives");
	MUST(n == 1);
	return wc;
}

bool nothing(struct end *end)
{
	struct ibv_wc wc;

	return ibv_poll_cq(end->cq, 1, &wc) == 0;
}

const char *status(struct end *end)
{
	return ibv_wc_status_str(next(end).status);
}

const char *state(struct end *end)
{
	static const char *names[] = { "RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR" };
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	MUST(ibv_query_qp(end->qp, &attr, IBV_QP_STATE, &init) == 0);
	return attr.qp_state <= IBV_QPS_ERR ? names[attr.qp_state] : "?";
}

/*
 * Waits for what follows shortly: the ERR state, for example, is set just after the completion is reported.
 */
void short_wait(void)
{
	usleep(200000);
}

const char *traffic(struct end *one, struct end *other)
{
	struct ibv_wc wc;

	memset(one->memory, 'x', 64);
	MUST(post_receive(other) == 0 && post(one, IBV_WR_SEND, NULL, 0, 64) == 0);
	wc = next(other);
	if (wc.status != IBV_WC_SUCCESS)
		return ibv_wc_status_str(wc.status);
	if (wc.byte_len != 64 || memcmp(one->memory, other->memory + SIZE / 2, 64))
		return "wrong bytes";
	return status(one);
}

static bool readable(int fd, int ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, ms) == 1;
}

const char *event(struct end *end)
{
	struct ibv_async_event event;

	if (!readable(end->context->async_fd, WAIT))
		return "none";
	MUST(ibv_get_async_event(end->context, &event) == 0);
	ibv_ack_async_event(&event);
	return ibv_event_type_str(event.event_type);
}

bool no_event(struct end *end)
{
	return !readable(end->context->async_fd, 0);
}

/* Sum of the voluntary context switches of all threads but the main one. */
static long switches(void)
{
	DIR *dir = opendir("/proc/self/task");
	struct dirent *entry;
	long sum = 0, n;

	MUST(dir);
	while ((entry = readdir(dir))) {
		char path[300], line[200];
		FILE *file;

		if (entry->d_name[0] == '.' || atoi(entry->d_name) == getpid())
			continue;
		snprintf(path, sizeof path, "/proc/self/task/%s/status", entry->d_name);
		MUST(file = fopen(path, "r"));
		while (fgets(line, sizeof line, file))
			if (sscanf(line, "voluntary_ctxt_switches: %ld", &n) == 1)
				sum += n;
		fclose(file);
	}
	closedir(dir);
	return sum;
}

bool sleeping(unsigned seconds)
{
	/* work that is still in progress may take a while to finish */
	for (int i = 0; i < 5; i++) {
		struct rusage before, after;
		long woken;

		sleep(1);
		woken = switches();
		MUST(getrusage(RUSAGE_SELF, &before) == 0);
		sleep(seconds);
		MUST(getrusage(RUSAGE_SELF, &after) == 0);
		woken = switches() - woken;
		long us = (after.ru_utime.tv_sec - before.ru_utime.tv_sec + after.ru_stime.tv_sec -
			   before.ru_stime.tv_sec) *
				  1000000 +
			  after.ru_utime.tv_usec - before.ru_utime.tv_usec + after.ru_stime.tv_usec -
			  before.ru_stime.tv_usec;
		fprintf(stderr, "faults: figure: %ld us of CPU time in %u idle seconds, %ld wakeups\n", us,
			seconds, woken);
		if (woken <= (long)seconds)
			return true;
	}
	return false;
}

void sh(const char *command)
{
	fflush(stdout);
	if (system(command) != 0)
		fail(command);
}

int spawn(int *socket)
{
	int both[2], pid;

	MUST(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, both) == 0);
	fflush(stdout);
	MUST((pid = fork()) >= 0);
	if (pid == 0)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	*socket = both[pid != 0];
	close(both[pid == 0]);
	return pid;
}

void stop(int pid)
{
	int status;

	MUST(kill(pid, SIGSTOP) == 0);
	MUST(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status));
}

void send_bytes(int socket, const void *data, size_t size)
{
	MUST(write(socket, data, size) == (ssize_t)size);
}

void receive_bytes(int socket, void *data, size_t size)
{
	MUST(readable(socket, WAIT));
	MUST(read(socket, data, size) == (ssize_t)size);
}
