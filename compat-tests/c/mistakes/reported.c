/* Mistakes that people have reported to public projects as defects of the library or of a device. */
#define _GNU_SOURCE
#include "mistakes.h"

#include <sys/mman.h>
#include <sys/wait.h>

/* No device has the name that the program looks for. The program ends, as with the C library. */
static void no_such_name(struct rig *rig, bool wrong)
{
	const char *name = wrong ? "mlx5_0" : getenv("DEVICE");
	int status;

	tear_down(rig);
	rig->context = NULL;
	pid_t child = fork();
	if (child == 0) {
		struct ibv_device **list = ibv_get_device_list(NULL), *device = NULL;

		for (int i = 0; list[i]; i++)
			if (!strcmp(ibv_get_device_name(list[i]), name))
				device = list[i];
		struct ibv_context *context = ibv_open_device(device);
		ibv_free_device_list(list);
		_exit(ibv_close_device(context));
	}
	CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) == wrong);
}

static void raw_packets(struct rig *rig, bool wrong)
{
	struct ibv_qp_init_attr attr = { .send_cq = rig->cq,
					 .recv_cq = rig->cq,
					 .cap = { 4, 4, 1, 1, 0 },
					 .qp_type = wrong ? IBV_QPT_RAW_PACKET : IBV_QPT_UD };
	struct ibv_qp *qp = ibv_create_qp(rig->pd, &attr);

	CHECK(!qp == wrong);
	if (qp)
		CHECK(ibv_destroy_qp(qp) == 0);
}

/* A file is given as a dma-buf. */
static void file_as_dmabuf(struct rig *rig, bool wrong)
{
	int fd = memfd_create("buffer", 0);
	NEED(fd >= 0 && ftruncate(fd, 4096) == 0);
	void *mapped = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	NEED(mapped != MAP_FAILED);
	struct ibv_mr *mr = wrong ? ibv_reg_dmabuf_mr(rig->pd, 0, 4096, 0, fd, IBV_ACCESS_LOCAL_WRITE)
				  : ibv_reg_mr(rig->pd, mapped, 4096, IBV_ACCESS_LOCAL_WRITE);

	CHECK(!mr == wrong);
	if (mr)
		CHECK(ibv_dereg_mr(mr) == 0);
	munmap(mapped, 4096);
	close(fd);
}

/* A receive is refused, and there is no place for its address: the program ends. */
static void bad_wr_null(struct rig *rig, bool wrong)
{
	struct link link = { .recv_wr = 1 };
	pid_t child = wrong ? fork() : 0;
	int status;

	if (wrong && child) {
		CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
		return;
	}
	struct rig own = *rig;
	if (wrong)
		set_up(&own);
	struct ends ends = link_up(&own, &link);
	struct ibv_sge sge = { (uintptr_t)own.buf, 64, own.mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = wrong ? 99 : 1 };

	CHECK(ibv_post_recv(ends.a, &wr, NULL) == 0);
	if (wrong)
		_exit(0);
	unlink_qps(ends);
}

/* A queue pair is connected once more without RESET. */
static void connected_again(struct rig *rig, bool wrong)
{
	struct link link = { 0 };
	struct ends ends = link_up(rig, &link);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };

	if (wrong) {
		attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .timeout = 15, .max_rd_atomic = 4 };
		CHECK(ibv_modify_qp(ends.a, &attr,
				    IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
					    IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC) == EINVAL);
	} else {
		CHECK(ibv_modify_qp(ends.a, &attr, IBV_QP_STATE) == 0);
		CHECK(ibv_modify_qp(ends.b, &attr, IBV_QP_STATE) == 0);
		CHECK(link_to(rig, ends.b, &link, ends.a->qp_num, rig->gid, true) == 0);
		CHECK(link_to(rig, ends.a, &link, ends.b->qp_num, rig->gid, false) == 0);
	}
	unlink_qps(ends);
}

const struct mistake reported_mistakes[] = {
	{ "no-such-name", no_such_name, "argument", "device is NULL; the list has uroce0" },
	{ "raw-packets", raw_packets, "argument", "qp_type is that of raw packet queue pairs" },
	{ "file-as-dmabuf", file_as_dmabuf, "argument", "is no dma-buf, but /memfd:buffer" },
	{ "bad-wr-null", bad_wr_null, "crash", "a call that refuses a request writes" },
	{ "connected-again", connected_again, "qp-attr-invalid", "to connect it anew, modify it to RESET" },
	{ NULL },
};
