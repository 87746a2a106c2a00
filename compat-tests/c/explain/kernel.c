/* Scenes on a device of the kernel whose regions have two keys, and whose port has a GID of RoCE v1. */
#include "scenes.h"

/* The local key of a request is the region's rkey. */
static void key_swapped(struct rig *rig)
{
	struct ibv_sge sge = { (uintptr_t)rig->buf, 8, rig->mr->rkey };
	struct ibv_qp *a, *b;

	NEED(rig->mr->lkey != rig->mr->rkey);
	connected(rig, &a, &b);
	NEED(send_to(a, sge, IBV_WR_SEND, 0, 0) == 0);
	await_status(rig, IBV_WC_LOC_PROT_ERR);
}

/* The remote key of a request is the region's lkey. */
static void rkey_swapped(struct rig *rig)
{
	struct ibv_qp *a, *b;

	NEED(rig->mr->lkey != rig->mr->rkey);
	connected(rig, &a, &b);
	NEED(post(a, rig, IBV_WR_RDMA_WRITE, 0, 8, 64, rig->mr->lkey) == 0);
	await_status(rig, IBV_WC_REM_ACCESS_ERR);
}

/* Nobody answers, and the source GID is of RoCE v1. */
static void gid_type(struct rig *rig)
{
	struct ibv_qp *qp = make_qp(rig, IBV_QPT_RC, 0, NULL);
	struct ibv_gid_entry entry;

	NEED(ibv_query_gid_ex(rig->context, PORT, 0, &entry, 0) == 0 &&
	     entry.gid_type == IBV_GID_TYPE_ROCE_V1);
	rig->gid_index = 0;
	NEED(to_init(qp) == 0 && to_rtr(rig, qp, 0x777) == 0 && to_rts(qp) == 0);
	NEED(post(qp, rig, IBV_WR_SEND, 0, 8, 0, 0) == 0);
	await_status(rig, IBV_WC_RETRY_EXC_ERR);
}

const struct scene kernel_scenes[] = {
	{ "key-swapped", key_swapped },
	{ "rkey-swapped", rkey_swapped },
	{ "gid-type", gid_type },
	{ 0 },
};
