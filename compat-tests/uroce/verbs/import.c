/* Importing within one process: by a duplicate of the command descriptor, and by one that came over a socket.
 */
#include <fcntl.h>
#include <sys/socket.h>

#include "check.h"

/* Sends a descriptor over a socket pair and receives it: a new number for the same file. */
static int passed(int fd)
{
	char control[CMSG_SPACE(sizeof(int))] = {}, byte = 0;
	struct iovec iov = { &byte, 1 };
	struct msghdr message = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)
	};
	struct cmsghdr *part = CMSG_FIRSTHDR(&message);
	int pair[2], received;

	NEED(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	*part = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(int)),
				  .cmsg_level = SOL_SOCKET,
				  .cmsg_type = SCM_RIGHTS };
	memcpy(CMSG_DATA(part), &fd, sizeof(fd));
	NEED(sendmsg(pair[0], &message, 0) == 1 && recvmsg(pair[1], &message, 0) == 1);
	memcpy(&received, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(received));
	close(pair[0]);
	close(pair[1]);
	return received;
}

static void refusals(struct rig *rig)
{
	struct rig other;
	int null = open("/dev/null", O_RDWR), pipes[2];

	CHECK(rig->context->cmd_fd >= 0 && (fcntl(rig->context->cmd_fd, F_GETFD) & FD_CLOEXEC));
	CHECK(write(rig->context->cmd_fd, "", 1) == -1);
	CHECK(!ibv_import_device(-1) && errno == EINVAL);
	CHECK(!ibv_import_device(null) && errno == ENODEV);
	NEED(pipe(pipes) == 0);
	CHECK(!ibv_import_device(pipes[0]) && errno == EINVAL);
	CHECK(fcntl(pipes[0], F_GETFD) >= 0 && close(pipes[0]) == 0 && close(pipes[1]) == 0);
	close(null);
	/* Objects of a context that was not imported. */
	set_up(&other);
	CHECK(!ibv_import_pd(rig->context, other.pd->handle) && errno == ENOENT);
	CHECK(!ibv_import_mr(rig->pd, other.mr->handle) && errno == ENOENT);
	CHECK(!ibv_import_pd(rig->context, rig->mr->handle) && errno == ENOENT);
	tear_down(&other);
}

/* A descriptor whose context is closed. */
static void closed(struct rig *rig)
{
	struct rig gone;
	int fd;

	(void)rig;
	set_up(&gone);
	NEED((fd = dup(gone.context->cmd_fd)) >= 0);
	tear_down(&gone);
	CHECK(!ibv_import_device(fd) && errno == EOPNOTSUPP);
	CHECK(close(fd) == 0);
}

/* Imports all, and lets a queue pair of each domain write to the other's region. */
static void import_all(struct rig *rig, int fd)
{
	struct rig import = *rig;
	struct ibv_qp *a, *b;

	NEED(import.context = ibv_import_device(fd));
	CHECK(import.context->cmd_fd == fd && import.context->device == rig->context->device);
	NEED(import.pd = ibv_import_pd(import.context, rig->pd->handle));
	CHECK(import.pd != rig->pd && import.pd->context == import.context);
	NEED(import.mr = ibv_import_mr(import.pd, rig->mr->handle));
	CHECK(!import.mr->addr && import.mr->length == SIZE && import.mr->lkey == rig->mr->lkey &&
	      import.mr->rkey == rig->mr->rkey && import.mr->pd == import.pd);
	CHECK(ibv_rereg_mr(import.mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0) != 0);
	CHECK(ibv_dealloc_pd(rig->pd) == EBUSY);
	NEED(import.cq = ibv_create_cq(import.context, 16, NULL, NULL, 0));
	a = make_qp(rig, IBV_QPT_RC, 0, NULL);
	b = make_qp(&import, IBV_QPT_RC, 0, NULL);
	join(rig, a, b);
	rig->buf[0] = 1;
	CHECK(post(b, &import, IBV_WR_RDMA_WRITE, 0, 1, 100, rig->mr->rkey) == 0);
	CHECK(next_wc(import.cq).status == IBV_WC_SUCCESS && rig->buf[100] == 1);
	CHECK(post(a, rig, IBV_WR_RDMA_READ, 200, 1, 100, import.mr->rkey) == 0);
	CHECK(next_wc(rig->cq).status == IBV_WC_SUCCESS && rig->buf[200] == 1);
	/* The region goes on when its import has ended. */
	ibv_unimport_mr(import.mr);
	CHECK(post(a, rig, IBV_WR_RDMA_READ, 300, 1, 100, rig->mr->rkey) == 0);
	CHECK(next_wc(rig->cq).status == IBV_WC_SUCCESS && rig->buf[300] == 1);
	CHECK(end(a) == 0 && end(b) == 0);
	ibv_unimport_pd(import.pd);
	CHECK(ibv_destroy_cq(import.cq) == 0 && ibv_close_device(import.context) == 0);
}

static void objects(struct rig *rig)
{
	import_all(rig, dup(rig->context->cmd_fd));
	import_all(rig, passed(rig->context->cmd_fd));
}

static void device_memory(struct rig *rig)
{
	struct ibv_alloc_dm_attr attr = { .length = 4096 };
	struct ibv_dm *dm = ibv_alloc_dm(rig->context, &attr), *imported;
	struct ibv_context *context = ibv_import_device(dup(rig->context->cmd_fd));
	char text[8] = "";

	NEED(dm && context && (imported = ibv_import_dm(context, dm->handle)));
	CHECK(ibv_memcpy_to_dm(dm, 8, "imports", 8) == 0);
	CHECK(ibv_memcpy_from_dm(text, imported, 8, 8) == 0 && !strcmp(text, "imports"));
	/* The memory exists as long as one of both does. */
	CHECK(ibv_free_dm(dm) == 0);
	memset(text, 0, sizeof(text));
	CHECK(ibv_memcpy_from_dm(text, imported, 8, 8) == 0 && !strcmp(text, "imports"));
	ibv_unimport_dm(imported);
	CHECK(!ibv_import_dm(context, imported->handle) && errno == ENOENT);
	CHECK(ibv_close_device(context) == 0);
}

/* Imported objects that are still in use go with their context, and the originals then are free. */
static void in_use(struct rig *rig)
{
	struct rig import = *rig;

	NEED(import.context = ibv_import_device(dup(rig->context->cmd_fd)));
	NEED(import.pd = ibv_import_pd(import.context, rig->pd->handle));
	NEED(import.cq = ibv_create_cq(import.context, 16, NULL, NULL, 0));
	forget(make_qp(&import, IBV_QPT_RC, 0, NULL));
	ibv_unimport_pd(import.pd);
	CHECK(ibv_close_device(import.context) == 0);
}

/* A region goes with its context, and then no window of another context is bound to it. */
static void windows(struct rig *rig)
{
	struct ibv_mw_bind bind = { .send_flags = IBV_SEND_SIGNALED,
				    .bind_info = { .length = 64,
						   .mw_access_flags = IBV_ACCESS_REMOTE_READ } };
	struct rig gone, import;
	struct ibv_qp *a, *b;
	struct ibv_mw *mw;
	uint64_t address;

	set_up(&gone);
	import = *rig;
	NEED(import.context = ibv_import_device(dup(gone.context->cmd_fd)));
	NEED(import.pd = ibv_import_pd(import.context, gone.pd->handle));
	NEED(import.cq = ibv_create_cq(import.context, 16, NULL, NULL, 0));
	NEED(import.mr = ibv_reg_mr(import.pd, import.buf, SIZE, ALL_ACCESS));
	bind.bind_info.addr = address = (uintptr_t)gone.buf;
	NEED(bind.bind_info.mr = ibv_import_mr(import.pd, gone.mr->handle));
	NEED(mw = ibv_alloc_mw(import.pd, IBV_MW_TYPE_1));
	a = make_qp(&import, IBV_QPT_RC, 0, NULL);
	b = make_qp(&import, IBV_QPT_RC, 0, NULL);
	join(&import, a, b);
	CHECK(ibv_bind_mw(a, mw, &bind) == 0 && next_wc(import.cq).status == IBV_WC_SUCCESS);
	CHECK(send_to(b, part(&import, 0, 8), IBV_WR_RDMA_READ, address, mw->rkey) == 0);
	CHECK(next_wc(import.cq).status == IBV_WC_SUCCESS);
	CHECK(ibv_dereg_mr(gone.mr) == EBUSY);
	CHECK(ibv_close_device(gone.context) == 0);
	CHECK(send_to(b, part(&import, 0, 8), IBV_WR_RDMA_READ, address, mw->rkey) == 0);
	CHECK(next_wc(import.cq).status == IBV_WC_REM_ACCESS_ERR);
	CHECK(ibv_dealloc_mw(mw) == 0 && end(a) == 0 && end(b) == 0);
	ibv_unimport_mr(bind.bind_info.mr);
	CHECK(ibv_dereg_mr(import.mr) == 0 && ibv_destroy_cq(import.cq) == 0);
	ibv_unimport_pd(import.pd);
	CHECK(ibv_close_device(import.context) == 0);
	free(gone.buf);
}

const check_part import_parts[] = { refusals, closed, objects, device_memory, in_use, windows, NULL };
