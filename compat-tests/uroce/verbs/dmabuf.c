/*
 * dma-bufs: what is refused, and regions in one. The latter needs /dev/udmabuf, which makes a dma-buf of a
 * memfd; without it this is left out, unless $UDMABUF is set.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/udmabuf.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "check.h"

#define LEN 65536
#define ACCESS (ALL_ACCESS & ~IBV_ACCESS_MW_BIND)

static void refusals(struct rig *rig)
{
	int fd = memfd_create("dmabuf", MFD_CLOEXEC);

	NEED(fd >= 0 && ftruncate(fd, LEN) == 0);
	/* As from the kernel: only a dma-buf is one. */
	CHECK(!ibv_reg_dmabuf_mr(rig->pd, 0, LEN, 0, fd, ACCESS) && errno == EINVAL);
	CHECK(!ibv_reg_dmabuf_mr(rig->pd, 0, LEN, 0, -1, ACCESS) && errno == EBADF);
	CHECK(!ibv_reg_dmabuf_mr(rig->pd, 0, LEN, 8, fd, ACCESS) && errno == EINVAL);
	CHECK(!ibv_reg_dmabuf_mr(rig->pd, 0, LEN, 0, fd, IBV_ACCESS_REMOTE_WRITE) && errno == EINVAL);
	close(fd);
}

/* A dma-buf, and its memory as the program maps it. -1 without the device. */
static int dma_buf(uint8_t **memory)
{
	int device = open("/dev/udmabuf", O_RDWR | O_CLOEXEC);
	struct udmabuf_create create = { .size = LEN };
	int fd;

	if (device < 0)
		return -1;
	create.memfd = memfd_create("dmabuf", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	NEED((int)create.memfd >= 0 && ftruncate(create.memfd, LEN) == 0);
	NEED(fcntl(create.memfd, F_ADD_SEALS, F_SEAL_SHRINK) == 0);
	*memory = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, create.memfd, 0);
	NEED(*memory != MAP_FAILED);
	NEED((fd = ioctl(device, UDMABUF_CREATE, &create)) >= 0);
	close(create.memfd);
	close(device);
	return fd;
}

/* Requests at both ends; the descriptor is closed meanwhile. The region begins within a page. */
static void regions(struct rig *rig, int fd, uint8_t *memory)
{
	struct ibv_sge host = { (uintptr_t)rig->buf, 3000, rig->mr->lkey }, buf;
	struct ibv_mr *mr;

	CHECK(!ibv_reg_dmabuf_mr(rig->pd, 4096, LEN, 0, fd, ACCESS) && errno == EINVAL);
	CHECK(!ibv_reg_dmabuf_mr(rig->pd, 0, 0, 0, fd, ACCESS) && errno == EINVAL);
	CHECK(!ibv_reg_dmabuf_mr(rig->pd, 0, LEN, 0, fd, ACCESS | IBV_ACCESS_ON_DEMAND) && errno == EINVAL);
	NEED(mr = KEEP(ibv_reg_dmabuf_mr(rig->pd, 4196, LEN - 4196, 0x10064, fd, ACCESS)));
	close(fd);
	CHECK(mr->length == LEN - 4196 && mr->pd == rig->pd);
	memset(rig->buf, 7, 3000);
	CHECK(request(rig, IBV_WR_RDMA_WRITE, host, 0x10064 + 50, mr->rkey) == IBV_WC_SUCCESS);
	CHECK(memory[4196 + 49] == 0 && memory[4196 + 50] == 7 && memory[4196 + 50 + 2999] == 7);
	memset(memory + 4196, 9, 3000);
	CHECK(request(rig, IBV_WR_RDMA_READ, host, 0x10064, mr->rkey) == IBV_WC_SUCCESS);
	CHECK(rig->buf[0] == 9 && rig->buf[2999] == 9);
	buf = (struct ibv_sge){ 0x10064, 3000, mr->lkey };
	memset(rig->buf, 0, SIZE);
	CHECK(request(rig, IBV_WR_RDMA_WRITE, buf, (uintptr_t)rig->buf + 4000, rig->mr->rkey) ==
	      IBV_WC_SUCCESS);
	CHECK(rig->buf[4000] == 9 && rig->buf[6999] == 9 && rig->buf[7000] == 0);
	host.length = 8;
	CHECK(request(rig, IBV_WR_RDMA_WRITE, host, 0x10064 - 8, mr->rkey) == IBV_WC_REM_ACCESS_ERR);
	CHECK(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0) != 0);
}

static void in_a_dma_buf(struct rig *rig)
{
	uint8_t *memory = NULL;
	int fd = dma_buf(&memory);

	NEED(fd >= 0 || !getenv("UDMABUF"));
	if (fd >= 0) {
		regions(rig, fd, memory);
		munmap(memory, LEN);
	}
}

const check_part dmabuf_parts[] = { refusals, in_a_dma_buf, NULL };
