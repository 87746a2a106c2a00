/*
 * forkverbs DEVICE [hole]: with fork safety on, creates and destroys the objects whose memory a device
 * accesses, and prints which pages of an area are hidden from children, and how many KiB elsewhere (queues,
 * doorbells). With `hole`, a region is also moved to where a page is not mapped. src/suites/fork runs it.
 */
#define _GNU_SOURCE
#include "pages.h"

#include <infiniband/verbs.h>
#include <stdbool.h>

static struct ibv_context *context;
static struct ibv_pd *pd, *other_pd;

/* Adds up mappings other than the area and those of the kernel or the device. */
static void elsewhere(unsigned long from, unsigned long till, const char *flags, void *arg)
{
	unsigned long *sum = arg;

	if (strstr(flags, " dc") && !strstr(flags, " io") && !strstr(flags, " pf") &&
	    (till <= (unsigned long)area || from >= (unsigned long)area + area_pages * page))
		*sum += (till - from) / 1024;
}

static void see(const char *what, const void *object, int ret)
{
	int error = errno;
	unsigned long sum = 0;
	char text[80];

	each_mapping(elsewhere, &sum);
	snprintf(text, sizeof(text), "%s%s, %lu KiB elsewhere", what, object ? "" : " failed", sum);
	errno = error;
	show(text, ret);
	errno = 0;
}

static struct ibv_mr *reg(const char *what, size_t first, size_t pages, uint64_t iova, int access)
{
	struct ibv_mr *mr;
	void *addr = area + first * page;

	errno = 0;
	if (iova)
		mr = ibv_reg_mr_iova(pd, addr, pages * page, iova, access);
	else
		mr = ibv_reg_mr(pd, addr, pages * page, access);
	see(what, mr, mr ? 0 : -1);
	return mr;
}

static void dereg(const char *what, struct ibv_mr *mr)
{
	if (mr)
		see(what, mr, ibv_dereg_mr(mr));
}

static void rereg(const char *what, struct ibv_mr *mr, int flags, size_t first, size_t pages, int access)
{
	int ret;

	if (!mr)
		return;
	errno = 0;
	ret = ibv_rereg_mr(mr, flags, other_pd, area + first * page, pages * page, access);
	printf("rereg %d: ", ret);
	see(what, mr, ret ? -1 : 0);
}

static void regions(bool hole)
{
	const int write = IBV_ACCESS_LOCAL_WRITE;
	struct ibv_mr *a, *b, *c, *odp, *imported = NULL;
	/* not a constant, so that verbs.h uses ibv_reg_mr_iova2 */
	volatile int relaxed = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING;

	a = reg("region", 1, 2, 0, write);
	b = reg("overlapping", 2, 3, 0, write);
	c = reg("with an iova", 7, 1, 0x10000, write);
	dereg("region deregistered", a);
	a = reg("relaxed ordering", 1, 1, 0, relaxed);
	dereg("relaxed deregistered", a);
	reg("bad access", 9, 2, 0, IBV_ACCESS_REMOTE_WRITE);
	reg("no bytes", 9, 0, 0, write);
	odp = reg("on demand", 9, 2, 0, write | IBV_ACCESS_ON_DEMAND);
	if (odp) {
		reg("pinned, there", 10, 2, 0, write);
		dereg("on demand deregistered", odp);
	}
	if (b)
		imported = ibv_import_mr(pd, b->handle);
	see("import", imported, imported ? 0 : -1);
	if (imported)
		ibv_unimport_mr(imported);
	see("import released", context, 0);
	rereg("moved", b, IBV_REREG_MR_CHANGE_TRANSLATION, 12, 2, 0);
	rereg("moved half", b, IBV_REREG_MR_CHANGE_TRANSLATION, 13, 2, 0);
	rereg("access", b, IBV_REREG_MR_CHANGE_ACCESS, 0, 0, write | IBV_ACCESS_REMOTE_READ);
	rereg("domain", b, IBV_REREG_MR_CHANGE_PD, 0, 0, 0);
	rereg("nowhere", b, IBV_REREG_MR_CHANGE_TRANSLATION, 0, 0, 0);
	if (hole) {
		munmap(area + 5 * page, page);
		rereg("into a hole", b, IBV_REREG_MR_CHANGE_TRANSLATION, 4, 2, 0);
	}
	dereg("moved deregistered", b);
	dereg("iova deregistered", c);
}

static void objects(void)
{
	struct ibv_cq *cq = ibv_create_cq(context, 100, NULL, NULL, 0);
	struct ibv_srq_init_attr srq_attr = { .attr = { .max_wr = 64, .max_sge = 1 } };
	struct ibv_qp_init_attr attr = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = { .max_send_wr = 64, .max_recv_wr = 64, .max_send_sge = 1, .max_recv_sge = 1 }
	};
	struct ibv_qp *qp[3] = { NULL };
	struct ibv_srq *srq;

	see("cq", cq, cq ? 0 : -1);
	if (!cq)
		return;
	/* mlx4 waits for a response of the hardware */
	if (strncmp(ibv_get_device_name(context->device), "mlx4", 4))
		see("resized cq", cq, -!!(errno = ibv_resize_cq(cq, 1000)));
	srq = ibv_create_srq(pd, &srq_attr);
	see("srq", srq, srq ? 0 : -1);
	for (int i = 0; i < 3; i++) {
		static const int types[] = { IBV_QPT_RC, IBV_QPT_UD, IBV_QPT_RC };

		attr.qp_type = types[i];
		attr.srq = i == 2 ? srq : NULL;
		errno = 0;
		qp[i] = ibv_create_qp(pd, &attr);
		see("qp", qp[i], qp[i] ? 0 : -1);
	}
	for (int i = 0; i < 3; i++)
		if (qp[i])
			see("qp destroyed", context, -!!(errno = ibv_destroy_qp(qp[i])));
	if (srq)
		see("srq destroyed", context, -!!(errno = ibv_destroy_srq(srq)));
	see("cq destroyed", context, -!!(errno = ibv_destroy_cq(cq)));
}

int main(int argc, char **argv)
{
	struct ibv_device **list, **entry;
	int init = getenv("FORK_INIT") ? ibv_fork_init() : 0;

	if (argc < 2)
		return 2;
	list = ibv_get_device_list(NULL);
	for (entry = list; entry && *entry; entry++)
		if (!strcmp(ibv_get_device_name(*entry), argv[1]))
			context = ibv_open_device(*entry);
	printf("== verbs %s\ninit %d initialized %d\n", argv[1], init, ibv_is_fork_initialized());
	if (!context || !(pd = ibv_alloc_pd(context)) || !(other_pd = ibv_alloc_pd(context))) {
		printf("no device %s\n", argv[1]);
		return 2;
	}
	area = mmap(NULL, area_pages * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (area == MAP_FAILED)
		return 2;
	memset(area, 1, area_pages * page);
	see("open", context, 0);
	objects();
	regions(argc > 2);
	ibv_dealloc_pd(other_pd);
	ibv_dealloc_pd(pd);
	see("close", context, ibv_close_device(context));
	return 0;
}
