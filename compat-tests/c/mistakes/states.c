/* Queue pairs that are moved to the wrong state, or with wrong attributes. */
#include "mistakes.h"

/* Moves a queue pair of the right connection to RTR with attributes that `change` makes wrong. */
void to_rtr_with(struct rig *rig, void (*change)(struct ibv_qp_attr *attr), bool wrong)
{
	struct link link = { .stays = IBV_QPS_INIT };
	struct ibv_qp *qp = link_qp(rig, &link);
	struct ibv_qp_attr attr = rtr_attr(rig, qp->qp_num);

	link_to(rig, qp, &link, 0, rig->gid, true);
	if (wrong)
		change(&attr);
	ibv_modify_qp(qp, &attr, RTR_MASK);
}

/* The number was sent in network byte order, and not converted. */
static void swapped(struct ibv_qp_attr *attr)
{
	attr->dest_qp_num = __builtin_bswap32(attr->dest_qp_num);
}

/* lrand48() has 31 bits. */
static void long_psn(struct ibv_qp_attr *attr)
{
	attr->rq_psn = 0x12345678;
}

static void without_grh(struct ibv_qp_attr *attr)
{
	attr->ah_attr.is_global = 0;
	attr->ah_attr.dlid = 1;
}

static void bytes_mtu(struct ibv_qp_attr *attr)
{
	attr->path_mtu = 4096;
}

static void port_zero(struct ibv_qp_attr *attr)
{
	attr->ah_attr.port_num = 0;
}

static void much_rd(struct ibv_qp_attr *attr)
{
	attr->max_dest_rd_atomic = 255;
}

static void gid_swapped(struct ibv_qp_attr *attr)
{
	union ibv_gid *gid = &attr->ah_attr.grh.dgid;

	gid->global.subnet_prefix = __builtin_bswap64(gid->global.subnet_prefix);
	gid->global.interface_id = __builtin_bswap64(gid->global.interface_id);
}

static void pkey_index(struct rig *rig, bool wrong)
{
	struct ibv_qp *qp = link_qp(rig, &(struct link){ 0 });
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT,
				    .port_num = PORT,
				    .pkey_index = wrong ? 200 : 0 };

	CHECK(!ibv_modify_qp(qp, &attr,
			     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == !wrong);
}

static void init_port(struct rig *rig, bool wrong)
{
	struct ibv_qp *qp = link_qp(rig, &(struct link){ 0 });
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = wrong ? 0 : PORT };

	CHECK(!ibv_modify_qp(qp, &attr,
			     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == !wrong);
}

static void ud_no_qkey(struct rig *rig, bool wrong)
{
	struct ibv_qp *qp = link_qp(rig, &(struct link){ .type = IBV_QPT_UD });
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = PORT, .qkey = QKEY };
	int last = wrong ? IBV_QP_ACCESS_FLAGS : IBV_QP_QKEY;

	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | last) == !wrong);
}

static void rts_from_init(struct rig *rig, bool wrong)
{
	struct link link = { .stays = wrong ? IBV_QPS_INIT : IBV_QPS_RTR };
	struct ibv_qp *qp = link_qp(rig, &link);
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS, .sq_psn = 100, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7
	};

	NEED(link_to(rig, qp, &link, qp->qp_num, rig->gid, true) == 0);
	CHECK(!ibv_modify_qp(qp, &attr, RTS_MASK) == !wrong);
}

static void uc_with_rc_mask(struct rig *rig, bool wrong)
{
	struct link link = { .type = IBV_QPT_UC, .stays = IBV_QPS_RTR };
	struct ibv_qp *qp = link_qp(rig, &link);
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS, .sq_psn = 100, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7
	};

	NEED(link_to(rig, qp, &link, qp->qp_num, rig->gid, true) == 0);
	CHECK(!ibv_modify_qp(qp, &attr,
			     IBV_QP_STATE | IBV_QP_SQ_PSN |
				     (wrong ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY : 0)) ==
	      !wrong);
}

static void post_in_rtr(struct rig *rig, bool wrong)
{
	struct ibv_qp *qp = link_qp(rig, &(struct link){ 0 });
	struct link stay = { .stays = wrong ? IBV_QPS_RTR : 0 };

	NEED(link_to(rig, qp, &stay, qp->qp_num, rig->gid, true) == 0);
	CHECK(!send_wr(qp, rig, IBV_WR_RDMA_WRITE, 0, 0, 8) == !wrong);
	if (!wrong)
		CHECK(next_status(rig->cq) == IBV_WC_SUCCESS);
}

/* A request with data in ERR, to which the program itself has gone; one without data is a drain. */
static void post_after_err(struct rig *rig, bool wrong)
{
	struct ends ends = link_up(rig, &(struct link){ 0 });
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	NEED(ibv_modify_qp(ends.a, &attr, IBV_QP_STATE) == 0);
	NEED(send_wr(ends.a, rig, IBV_WR_RDMA_WRITE, 0, 0, wrong ? 64 : 0) == 0);
	CHECK(next_status(rig->cq) == IBV_WC_WR_FLUSH_ERR);
}

const struct mistake state_mistakes[] = {
	{ "qpn-swapped", NULL, "attr-range", "ntohl() may be missing", .rtr = swapped },
	{ "psn-long", NULL, "attr-range", "rq_psn is 305419896", .rtr = long_psn },
	{ "no-grh", NULL, "gid-no-grh", "is_global = 0", .rtr = without_grh },
	{ "mtu-bytes", NULL, "attr-range", "path_mtu is 4096", .rtr = bytes_mtu },
	{ "av-port", NULL, "attr-range", "ah_attr.port_num is 0", .rtr = port_zero },
	{ "rd-atomic-huge", NULL, "attr-range", "max_dest_rd_atomic is 255", .rtr = much_rd },
	{ "gid-byte-order", NULL, "gid-family", "the destination is", .rtr = gid_swapped },
	{ "pkey-index", pkey_index, "attr-range", "pkey_index is 200" },
	{ "init-port", init_port, "attr-range", "port_num is 0" },
	{ "ud-no-qkey", ud_no_qkey, "qp-attr-missing", "lacks IBV_QP_QKEY" },
	{ "rts-from-init", rts_from_init, "qp-transition", "from INIT to RTS" },
	{ "uc-with-rc-mask", uc_with_rc_mask, "qp-attr-invalid", "IBV_QP_RETRY_CNT" },
	{ "post-after-err", post_after_err, "post-after-err", "of 64 bytes is posted" },
	{ "post-in-rtr", post_in_rtr, "post-state", "is in RTR" },
	{ 0 },
};
