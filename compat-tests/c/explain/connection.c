/* Address vectors, states, connections that do not work. */
#include "scenes.h"

/* Modifies a new queue pair to RTR with changed attributes. Whether that fails depends on the device. */
static void to_rtr_with(struct rig *rig, void (*change)(struct ibv_qp_attr *attr))
{
	struct ibv_qp *qp = make_qp(rig, IBV_QPT_RC, 0, NULL);
	struct ibv_qp_attr attr = rtr_attr(rig, qp->qp_num);

	NEED(to_init(qp) == 0);
	change(&attr);
	ibv_modify_qp(qp, &attr, RTR_MASK);
}

static void empty_index(struct ibv_qp_attr *attr)
{
	attr->ah_attr.grh.sgid_index = 250;
}

static void other_family(struct ibv_qp_attr *attr)
{
	memset(attr->ah_attr.grh.dgid.raw, 0, 16);
	attr->ah_attr.grh.dgid.raw[0] = 0xfd;
	attr->ah_attr.grh.dgid.raw[15] = 7;
}

static void no_grh(struct ibv_qp_attr *attr)
{
	attr->ah_attr.is_global = 0;
	attr->ah_attr.dlid = 9999;
}

static void zero(struct ibv_qp_attr *attr)
{
	memset(attr->ah_attr.grh.dgid.raw, 0, 16);
}

static void no_route(struct ibv_qp_attr *attr)
{
	static const uint8_t address[4] = { 198, 51, 100, 9 };

	memcpy(attr->ah_attr.grh.dgid.raw + 12, address, 4);
}

/* The number of bytes, in place of the enum. */
static void mtu_in_bytes(struct ibv_qp_attr *attr)
{
	attr->path_mtu = (enum ibv_mtu)1024;
}

static void attr_range(struct rig *rig)
{
	to_rtr_with(rig, mtu_in_bytes);
}

static void gid_empty(struct rig *rig)
{
	to_rtr_with(rig, empty_index);
}

static void gid_family(struct rig *rig)
{
	to_rtr_with(rig, other_family);
}

static void gid_no_grh(struct rig *rig)
{
	to_rtr_with(rig, no_grh);
}

static void gid_zero(struct rig *rig)
{
	to_rtr_with(rig, zero);
}

static void gid_unreachable(struct rig *rig)
{
	to_rtr_with(rig, no_route);
}

/* Nothing is wrong with the attributes; a rule of IBV_FAULTS finds no neighbour. */
static void unchanged(struct ibv_qp_attr *attr)
{
	(void)attr;
}

static void rtr_timeout(struct rig *rig)
{
	to_rtr_with(rig, unchanged);
}

/* An address handle is checked as a connection is. */
static void gid_of_ah(struct rig *rig)
{
	struct ibv_qp_attr attr = rtr_attr(rig, 0);
	struct ibv_ah *ah;

	other_family(&attr);
	ah = ibv_create_ah(rig->pd, &attr.ah_attr);
	if (ah)
		CHECK(ibv_destroy_ah(ah) == 0);
}

static void to_rts_with(struct ibv_qp *qp, uint32_t psn, uint8_t retries)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS,
				    .sq_psn = psn,
				    .timeout = 10,
				    .retry_cnt = retries,
				    .rnr_retry = retries,
				    .max_rd_atomic = 1 };

	NEED(ibv_modify_qp(qp, &attr, RTS_MASK) == 0);
}

/* The peer's queue pair stays in INIT. */
static void retry_exceeded(struct rig *rig)
{
	struct ibv_qp *qp = make_qp(rig, IBV_QPT_RC, 0, NULL), *peer = make_qp(rig, IBV_QPT_RC, 0, NULL);
	struct ibv_qp_attr attr = rtr_attr(rig, peer->qp_num);

	NEED(to_init(peer) == 0 && to_init(qp) == 0);
	NEED(ibv_modify_qp(qp, &attr, RTR_MASK) == 0);
	to_rts_with(qp, 7, 1);
	NEED(post(qp, rig, IBV_WR_SEND, 0, 8, 0, 0) == 0);
	await_status(rig, IBV_WC_RETRY_EXC_ERR);
}

static void rnr_exceeded(struct rig *rig)
{
	struct ibv_qp *a, *b;

	connected(rig, &a, &b);
	NEED(post(a, rig, IBV_WR_SEND, 0, 8, 0, 0) == 0);
	await_status(rig, IBV_WC_RNR_RETRY_EXC_ERR);
}

static void post_in_error(struct rig *rig)
{
	struct ibv_qp *a, *b;

	connected(rig, &a, &b);
	NEED(post(a, rig, IBV_WR_SEND, 0, 8, 0, 0) == 0);
	await_status(rig, IBV_WC_RNR_RETRY_EXC_ERR);
	NEED(post(a, rig, IBV_WR_SEND, 0, 8, 0, 0) == 0);
	await_status(rig, IBV_WC_WR_FLUSH_ERR);
}

static void modify_with(struct rig *rig, enum ibv_qp_state to, int mask)
{
	struct ibv_qp *qp = make_qp(rig, IBV_QPT_RC, 0, NULL);
	struct ibv_qp_attr attr = { .qp_state = to, .port_num = PORT, .path_mtu = IBV_MTU_1024 };

	CHECK(ibv_modify_qp(qp, &attr, mask) == EINVAL);
}

static void qp_transition(struct rig *rig)
{
	modify_with(rig, IBV_QPS_RTS, IBV_QP_STATE);
}

static void qp_attr_missing(struct rig *rig)
{
	modify_with(rig, IBV_QPS_INIT, IBV_QP_STATE | IBV_QP_PORT);
}

static void qp_attr_invalid(struct rig *rig)
{
	modify_with(rig, IBV_QPS_INIT,
		    IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS | IBV_QP_PATH_MTU);
}

static void post_state(struct rig *rig)
{
	struct ibv_qp *qp = make_qp(rig, IBV_QPT_RC, 0, NULL);

	CHECK(send_to(qp, part(rig, 0, 8), IBV_WR_SEND, 0, 0) != 0);
}

/* Two queue pairs, the second of which is connected with other attributes. */
static void differing(struct rig *rig, enum ibv_mtu mtu, uint32_t psn, bool elsewhere)
{
	struct ibv_qp *a = make_qp(rig, IBV_QPT_RC, 0, NULL), *b = make_qp(rig, IBV_QPT_RC, 0, NULL);
	struct ibv_qp_attr attr = rtr_attr(rig, b->qp_num);

	NEED(to_init(a) == 0 && to_init(b) == 0);
	NEED(ibv_modify_qp(a, &attr, RTR_MASK) == 0);
	to_rts_with(a, 7, 1);
	attr = rtr_attr(rig, elsewhere ? b->qp_num : a->qp_num);
	attr.path_mtu = mtu;
	attr.rq_psn = psn;
	if (elsewhere) {
		/* The other names itself, so the first one's peer is not connected to it. */
		NEED(ibv_modify_qp(b, &attr, RTR_MASK) == 0);
		NEED(ibv_modify_qp(a, &(struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS }, IBV_QP_STATE) == 0);
	} else {
		NEED(ibv_modify_qp(b, &attr, RTR_MASK) == 0);
	}
}

static void mtu_differs(struct rig *rig)
{
	differing(rig, IBV_MTU_512, 7, false);
}

static void psn_differs(struct rig *rig)
{
	differing(rig, IBV_MTU_1024, 8, false);
}

static void pair_qpn(struct rig *rig)
{
	differing(rig, IBV_MTU_1024, 7, true);
}

const struct scene connection_scenes[] = {
	{ "gid-empty", gid_empty, "gid-empty", "GID index 250 of port 1" },
	{ "gid-family", gid_family, "gid-family", "the destination is fd00::7 (IPv6)" },
	{ "gid-of-ah", gid_of_ah, "gid-family", "(IPv4)" },
	{ "gid-no-grh", gid_no_grh, "gid-no-grh", "grh.sgid_index (here" },
	{ "gid-zero", gid_zero, "gid-zero", "destination GID is zero" },
	{ "gid-unreachable", gid_unreachable, "gid-unreachable", "198.51.100.9 cannot be reached from lo" },
	{ "rtr-timeout", rtr_timeout, "rtr-timeout", "no MAC address was found for" },
	{ "retry-exceeded", retry_exceeded, "retry-exceeded", "is in INIT" },
	{ "rnr-exceeded", rnr_exceeded, "rnr-exceeded", "no receive posted at all" },
	{ "post-in-error", post_in_error, "post-in-error rnr-exceeded", "after 3 retries" },
	{ "qp-transition", qp_transition, "qp-transition", "from RESET to RTS" },
	{ "qp-attr-missing", qp_attr_missing, "qp-attr-missing", "IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX" },
	{ "qp-attr-invalid", qp_attr_invalid, "qp-attr-invalid", "has IBV_QP_PATH_MTU" },
	{ "post-state", post_state, "post-state", "is in RESET" },
	{ "mtu-differs", mtu_differs, "mtu-differs", "path MTU is 512 here and 1024" },
	{ "psn-differs", psn_differs, "psn-differs", "sends from PSN 7" },
	{ "pair-qpn", pair_qpn, "pair-qpn", "as its peer" },
	{ "attr-range", attr_range, "attr-range", "path_mtu is 1024" },
	{ 0 },
};
