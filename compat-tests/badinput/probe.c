/*
 * probe COMMAND...: calls parts of the library and prints the results, so that two libraries can be compared
 * under the same conditions.
 *
 *	list          lists the devices, twice
 *	open          opens each device, queries it, closes it
 *	sysfs         calls the helper functions that read sysfs
 *	reg           registers memory and prints whether a child of fork() would get it
 *	fork          enables fork safety, before and after a registration
 *	loop-list N   N times: list the devices and free the list; prints what leaked
 *	loop-open N   N times: open and close
 *	loop-verbs N  N times: create and destroy one object of each kind
 */
#include <dirent.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* Exported, but not declared in verbs.h. */
const char *ibv_get_sysfs_path(void);
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);

static int open_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int count = 0;

	while (dir && readdir(dir))
		count++;
	if (dir)
		closedir(dir);
	return count;
}

static void list_once(const char *when)
{
	struct ibv_device **list;
	int count = -7, i;

	errno = 0;
	list = ibv_get_device_list(&count);
	if (!list) {
		printf("%s: no list, errno %d, count %d\n", when, errno, count);
		return;
	}
	printf("%s: %d devices\n", when, count);
	for (i = 0; list[i]; i++)
		printf("  %s guid %016llx index %d type %d transport %d %s %s %s\n",
		       ibv_get_device_name(list[i]),
		       (unsigned long long)be64toh(ibv_get_device_guid(list[i])),
		       ibv_get_device_index(list[i]), list[i]->node_type, list[i]->transport_type,
		       list[i]->dev_name, list[i]->dev_path, list[i]->ibdev_path);
	ibv_free_device_list(list);
}

static void ask(struct ibv_context *ctx)
{
	struct ibv_port_attr port;
	struct ibv_gid_entry entry;
	union ibv_gid gid;
	__be16 pkey = 0;
	int i, ret;

	memset(&port, 0, sizeof(port));
	ret = ibv_query_port(ctx, 1, &port);
	printf("  port: %d state %d gids %d\n", ret, port.state, port.gid_tbl_len);
	for (i = -1; i < 2; i++) {
		memset(&gid, 0, sizeof(gid));
		errno = 0;
		ret = ibv_query_gid(ctx, 1, i, &gid);
		printf("  gid %d: %d errno %d %016llx %016llx\n", i, ret, ret ? errno : 0,
		       (unsigned long long)be64toh(gid.global.subnet_prefix),
		       (unsigned long long)be64toh(gid.global.interface_id));
		memset(&entry, 0, sizeof(entry));
		errno = 0;
		ret = ibv_query_gid_ex(ctx, 1, (uint32_t)i, &entry, 0);
		printf("  gid entry %d: %d errno %d type %u ndev %u\n", i, ret, ret ? errno : 0,
		       entry.gid_type, entry.ndev_ifindex);
		errno = 0;
		ret = ibv_query_pkey(ctx, 1, i, &pkey);
		printf("  pkey %d: %d errno %d %x\n", i, ret, ret ? errno : 0, pkey);
	}
}

static void open_all(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct timespec start, end;
	double seconds;

	if (!list) {
		printf("no list, errno %d\n", errno);
		return;
	}
	for (int i = 0; list[i]; i++) {
		struct ibv_context *ctx;

		clock_gettime(CLOCK_MONOTONIC, &start);
		errno = 0;
		ctx = ibv_open_device(list[i]);
		clock_gettime(CLOCK_MONOTONIC, &end);
		seconds = (double)(end.tv_sec - start.tv_sec) + (double)(end.tv_nsec - start.tv_nsec) / 1e9;
		/* The time limit is 5 s; on a busy machine the call may take a little longer. */
		printf("%s: %s, errno %d, %s\n", ibv_get_device_name(list[i]), ctx ? "open" : "not open",
		       ctx ? 0 : errno, seconds < 4.9 ? "in time" : "after the time limit");
		if (!ctx)
			continue;
		ask(ctx);
		printf("  close: %d\n", ibv_close_device(ctx));
	}
	ibv_free_device_list(list);
}

static void sysfs(void)
{
	static const char *const files[] = { "class/infiniband_verbs/abi_version", "nosuch", "class",
					     "class/infiniband/rxe0/node_guid" };
	const char *path = ibv_get_sysfs_path();
	char buf[64];
	size_t i, size;

	printf("path %s length %zu same %d\n", path ? path : "none", path ? strlen(path) : 0,
	       path == ibv_get_sysfs_path());
	for (i = 0; path && i < sizeof(files) / sizeof(files[0]); i++)
		for (size = 0; size < 25; size++) {
			int ret;

			memset(buf, '~', sizeof(buf));
			buf[63] = 0;
			errno = 0;
			ret = ibv_read_sysfs_file(path, files[i], buf, size);
			printf("%s, %zu: %d errno %d [%s] %d\n", files[i], size, ret, ret < 0 ? errno : 0,
			       buf, buf[size]);
		}
}

/* Whether the page at addr is hidden from children. */
static int dont_copy(void *addr)
{
	FILE *smaps = fopen("/proc/self/smaps", "re");
	unsigned long start, end;
	char line[1024];
	int inside = 0, found = -1;

	while (smaps && fgets(line, sizeof(line), smaps)) {
		if (sscanf(line, "%lx-%lx ", &start, &end) == 2 && strchr(line, '-') < strchr(line, ' '))
			inside = (unsigned long)addr >= start && (unsigned long)addr < end;
		else if (inside && !strncmp(line, "VmFlags:", 8))
			found = strstr(line, " dc") != NULL;
	}
	if (smaps)
		fclose(smaps);
	return found;
}

static struct ibv_context *open_first(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx = list && list[0] ? ibv_open_device(list[0]) : NULL;

	if (list)
		ibv_free_device_list(list);
	return ctx;
}

static void reg(void)
{
	struct ibv_context *ctx = open_first();
	struct ibv_pd *pd = ctx ? ibv_alloc_pd(ctx) : NULL;
	char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *one, *two;

	printf("fork initialized %d\n", ibv_is_fork_initialized());
	if (!pd || page == MAP_FAILED) {
		printf("no device\n");
		return;
	}
	page[0] = page[4096] = 1;
	one = ibv_reg_mr(pd, page, 4096, IBV_ACCESS_LOCAL_WRITE);
	printf("registered: %d %d\n", dont_copy(page), dont_copy(page + 4096));
	two = ibv_reg_mr(pd, page + 100, 5000, IBV_ACCESS_LOCAL_WRITE);
	printf("both: %d %d\n", dont_copy(page), dont_copy(page + 4096));
	if (one)
		ibv_dereg_mr(one);
	printf("one gone: %d %d\n", dont_copy(page), dont_copy(page + 4096));
	if (two)
		ibv_dereg_mr(two);
	printf("both gone: %d %d\n", dont_copy(page), dont_copy(page + 4096));
	ibv_dealloc_pd(pd);
	ibv_close_device(ctx);
	munmap(page, 8192);
}

static void fork_safety(void)
{
	printf("before: %d\n", ibv_is_fork_initialized());
	printf("init: %d\n", ibv_fork_init());
	printf("after: %d\n", ibv_is_fork_initialized());
	reg();
	printf("again: %d\n", ibv_fork_init());
}

static void one_of_each(struct ibv_context *ctx)
{
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	struct ibv_comp_channel *channel = ibv_create_comp_channel(ctx);
	struct ibv_cq *cq = ibv_create_cq(ctx, 16, NULL, channel, 0);
	struct ibv_qp_init_attr attr = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .cap = { 8, 8, 1, 1, 0 }
	};
	struct ibv_srq_init_attr srq_attr = { .attr = { .max_wr = 8, .max_sge = 1 } };
	struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	static char buf[4096];
	struct ibv_mr *mr = pd ? ibv_reg_mr(pd, buf, sizeof(buf), 0) : NULL;
	struct ibv_qp *qp = pd && cq ? ibv_create_qp(pd, &attr) : NULL;
	struct ibv_srq *srq = pd ? ibv_create_srq(pd, &srq_attr) : NULL;

	if (qp) {
		ibv_modify_qp(qp, &init,
			      IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS);
		ibv_destroy_qp(qp);
	}
	if (srq)
		ibv_destroy_srq(srq);
	if (mr)
		ibv_dereg_mr(mr);
	if (cq)
		ibv_destroy_cq(cq);
	if (channel)
		ibv_destroy_comp_channel(channel);
	if (pd)
		ibv_dealloc_pd(pd);
}

static void loop(const char *what, long times)
{
	struct ibv_context *kept = NULL;
	struct ibv_device **list;
	/* By then the caches and tables that are allocated once exist. */
	long i, warm = times / 2, bytes = 0;
	int fds = 0, n, mismatches = 0, first = -1;

	if (!strcmp(what, "loop-verbs"))
		kept = open_first();
	for (i = -warm; i < times; i++) {
		if (i == 0) {
			fds = open_fds();
			bytes = (long)mallinfo2().uordblks;
		}
		if (kept) {
			one_of_each(kept);
			continue;
		}
		list = ibv_get_device_list(&n);
		if (first < 0)
			first = n;
		mismatches += n != first;
		if (list && list[0] && !strcmp(what, "loop-open")) {
			struct ibv_context *ctx = ibv_open_device(list[0]);

			if (ctx)
				ibv_close_device(ctx);
			else
				mismatches++;
		}
		if (list)
			ibv_free_device_list(list);
	}
	bytes = (long)mallinfo2().uordblks - bytes;
	/* A few bytes come from stdio and the like; a leak shows in each round. */
	printf("%s: %d fds more, bytes per round %ld, %d mismatches\n", what, open_fds() - fds, bytes / times,
	       mismatches);
	if (kept)
		ibv_close_device(kept);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!strcmp(what, "list")) {
		list_once("first");
		list_once("second");
	} else if (!strcmp(what, "open")) {
		list_once("devices");
		open_all();
	} else if (!strcmp(what, "sysfs")) {
		sysfs();
	} else if (!strcmp(what, "reg")) {
		reg();
	} else if (!strcmp(what, "fork")) {
		fork_safety();
	} else if (!strncmp(what, "loop-", 5) && argc > 2) {
		loop(what, atol(argv[2]));
	} else {
		return 2;
	}
	printf("%d fds\n", open_fds());
	return 0;
}
