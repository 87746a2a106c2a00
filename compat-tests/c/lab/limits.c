/*
 * What a device of a profile says, and what it refuses: `limits PROFILE`, on the first device. The numbers
 are those of the sources that crates/uroce/src/profile/table.rs names.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"

struct expected {
	const char *name;
	uint32_t vendor, part;
	int max_qp, max_qp_wr, max_sge, max_cqe, max_srq;
	uint32_t inline_data;
	int has_rc, has_uc, has_xrc, has_atomics, has_odp, has_mw, has_mcast, has_timestamps;
	uint64_t dm;
	uint8_t link_layer;
	int gids, pkeys, rd_atom;
	enum {
		IB,
		V1,
		V2
	} first_gid;
	int refuses_large_mtu;
};

/* clang-format would put each value on a line of its own. */
/* clang-format off */
static const struct expected all[] = {
	{ .name = "uroce", .vendor = 0xffffff, .link_layer = IBV_LINK_LAYER_ETHERNET,
	  .max_qp = 1048560, .max_qp_wr = 1048576, .max_sge = 32,
	  .max_cqe = 1048576, .max_srq = 1048576, .inline_data = 4096,
	  .has_rc = 1, .has_uc = 1, .has_xrc = 1, .has_atomics = 1,
	  .has_odp = 1, .has_mw = 1, .has_mcast = 1, .has_timestamps = 1,
	  .dm = 1 << 20, .gids = 256, .pkeys = 1, .rd_atom = 128, .first_gid = V2 },
	{ .name = "rxe", .vendor = 0xffffff, .link_layer = IBV_LINK_LAYER_ETHERNET,
	  .max_qp = 1048560, .max_qp_wr = 1048576, .max_sge = 32,
	  .max_cqe = 32767, .max_srq = 1048576, .inline_data = 512,
	  .has_rc = 1, .has_uc = 1, .has_atomics = 1, .has_mw = 1, .has_mcast = 1,
	  .gids = 256, .pkeys = 1, .rd_atom = 128, .first_gid = V2 },
	{ .name = "connectx-roce", .vendor = 0x02c9, .part = 4119, .link_layer = IBV_LINK_LAYER_ETHERNET,
	  .max_qp = 262144, .max_qp_wr = 32768, .max_sge = 30,
	  .max_cqe = 1048576, .max_srq = 1048576, .inline_data = 988,
	  .has_rc = 1, .has_uc = 1, .has_xrc = 1, .has_atomics = 1,
	  .has_odp = 1, .has_mw = 1, .has_mcast = 1, .has_timestamps = 1,
	  .dm = 131072, .gids = 255, .pkeys = 1, .rd_atom = 16, .first_gid = V1, .refuses_large_mtu = 1 },
	{ .name = "connectx-ib", .vendor = 0x02c9, .part = 4123, .link_layer = IBV_LINK_LAYER_INFINIBAND,
	  .max_qp = 262144, .max_qp_wr = 32768, .max_sge = 30,
	  .max_cqe = 1048576, .max_srq = 1048576, .inline_data = 988,
	  .has_rc = 1, .has_uc = 1, .has_xrc = 1, .has_atomics = 1,
	  .has_odp = 1, .has_mw = 1, .has_mcast = 1, .has_timestamps = 1,
	  .dm = 131072, .gids = 8, .pkeys = 128, .rd_atom = 16, .first_gid = IB, .refuses_large_mtu = 1 },
	{ .name = "irdma", .vendor = 0x8086, .part = 5522, .link_layer = IBV_LINK_LAYER_ETHERNET,
	  .max_qp = 4092, .max_qp_wr = 8127, .max_sge = 6, .max_cqe = 1048574, .inline_data = 101,
	  .has_rc = 1, .has_mw = 1, .has_mcast = 1,
	  .gids = 32, .pkeys = 1, .rd_atom = 8, .first_gid = V2 },
	{ .name = "efa", .vendor = 0x1d0f, .part = 61344, .link_layer = IBV_LINK_LAYER_UNSPECIFIED,
	  .max_qp = 256, .max_qp_wr = 4096, .max_sge = 2, .max_cqe = 32768, .inline_data = 32,
	  .gids = 1, .pkeys = 1, .first_gid = IB },
	{ .name = "small", .vendor = 0xffffff, .link_layer = IBV_LINK_LAYER_ETHERNET,
	  .max_qp = 16, .max_qp_wr = 64, .max_sge = 1, .max_cqe = 128,
	  .has_rc = 1, .has_uc = 1,
	  .gids = 8, .pkeys = 1, .rd_atom = 1, .first_gid = V2, .refuses_large_mtu = 1 },
};
/* clang-format on */

static const struct expected *want;
static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;

/* Whether a call has succeeded, or has failed with the error that is expected: 0 for none. */
static int is(const void *made, int error)
{
	return error ? !made && errno == error : made != NULL;
}

static struct ibv_qp_init_attr init(enum ibv_qp_type type)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = cq,
		.recv_cq = cq,
		.qp_type = type,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
	};

	return attr;
}

static enum ibv_qp_type basic_type(void)
{
	return want->has_rc ? IBV_QPT_RC : IBV_QPT_UD;
}

static int creates(struct ibv_qp_init_attr attr, int error)
{
	struct ibv_qp *qp = ibv_create_qp(pd, &attr);
	int holds = is(qp, error);

	if (qp)
		ibv_destroy_qp(qp);
	return holds;
}

static void attributes(void)
{
	struct ibv_device_attr_ex ex = {};
	struct ibv_device_attr *attr = &ex.orig_attr;

	report("query-device", ibv_query_device_ex(context, NULL, &ex) == 0);
	report("identity", attr->vendor_id == want->vendor && attr->vendor_part_id == want->part);
	report("objects", attr->max_qp == want->max_qp && attr->max_srq == want->max_srq);
	report("sizes", attr->max_qp_wr == want->max_qp_wr && attr->max_sge == want->max_sge &&
				attr->max_cqe == want->max_cqe);
	report("rd-atom",
	       attr->max_qp_rd_atom == want->rd_atom && attr->max_qp_init_rd_atom == want->rd_atom);
	report("atomic-cap", (attr->atomic_cap != IBV_ATOMIC_NONE) == want->has_atomics);
	report("odp-caps", ((ex.odp_caps.general_caps & IBV_ODP_SUPPORT) != 0) == want->has_odp);
	report("dm-size", ex.max_dm_size == want->dm);
	report("xrc-cap", ((attr->device_cap_flags & IBV_DEVICE_XRC) != 0) == want->has_xrc);
	report("clock", (ex.completion_timestamp_mask != 0) == want->has_timestamps);
}

static void port(void)
{
	static const uint32_t types[] = { IBV_GID_TYPE_IB, IBV_GID_TYPE_ROCE_V1, IBV_GID_TYPE_ROCE_V2 };
	int is_ib = want->link_layer == IBV_LINK_LAYER_INFINIBAND;
	struct ibv_port_attr attr = {};
	struct ibv_gid_entry entry = {};
	union ibv_gid gid;
	__be16 pkey = 0;

	report("query-port", ibv_query_port(context, 1, &attr) == 0 && attr.state == IBV_PORT_ACTIVE);
	report("link-layer", attr.link_layer == want->link_layer);
	report("lids", (attr.lid != 0) == is_ib && (attr.sm_lid != 0) == is_ib);
	report("tables", attr.gid_tbl_len == want->gids && attr.pkey_tbl_len == want->pkeys);
	report("no-port-2", ibv_query_port(context, 2, &attr) != 0);
	report("gid-type",
	       ibv_query_gid_ex(context, 1, 0, &entry, 0) == 0 && entry.gid_type == types[want->first_gid]);
	report("gid-index", ibv_query_gid(context, 1, want->gids, &gid) != 0);
	report("pkey", ibv_query_pkey(context, 1, 0, &pkey) == 0 && pkey == 0xffff);
	report("pkey-index", ibv_query_pkey(context, 1, want->pkeys - 1, &pkey) == 0 &&
				     ibv_query_pkey(context, 1, want->pkeys, &pkey) != 0);
}

static void queue_pairs(void)
{
	struct ibv_qp_init_attr attr = init(basic_type());
	int no_uc = want->has_uc ? 0 : EOPNOTSUPP;

	report("rc", creates(init(IBV_QPT_RC), want->has_rc ? 0 : EOPNOTSUPP));
	report("uc", creates(init(IBV_QPT_UC), no_uc));
	report("ud", creates(init(IBV_QPT_UD), 0));
	/* EFA's SRD. */
	report("driver-type", creates(init(IBV_QPT_DRIVER), EOPNOTSUPP));
	attr.cap.max_inline_data = want->inline_data;
	report("inline", creates(attr, 0));
	attr.cap.max_inline_data++;
	report("inline-beyond", creates(attr, EINVAL));
	attr = init(basic_type());
	attr.cap.max_send_sge = want->max_sge;
	report("sge", creates(attr, 0));
	attr.cap.max_send_sge++;
	report("sge-beyond", creates(attr, EINVAL));
	attr = init(basic_type());
	attr.cap.max_recv_wr = want->max_qp_wr;
	report("wr", creates(attr, 0));
	attr.cap.max_recv_wr++;
	report("wr-beyond", creates(attr, EINVAL));
	attr = init(basic_type());
	attr.cap.max_inline_data = 0;
	report("cq-beyond", is(ibv_create_cq(context, want->max_cqe + 1, NULL, NULL, 0), EINVAL));
}

/* As many as the device has, if that is a number that a test reaches. */
static void all_queue_pairs(void)
{
	struct ibv_qp_init_attr attr = init(basic_type());
	struct ibv_qp *qps[300];
	int count = 0, error;

	if (want->max_qp >= 300) {
		report("max-qp", 1);
		return;
	}
	while (count < 300 && (qps[count] = ibv_create_qp(pd, &attr)))
		count++;
	error = errno;
	report("max-qp", count == want->max_qp && error == ENOMEM);
	while (count)
		ibv_destroy_qp(qps[--count]);
}

static void objects(void)
{
	struct ibv_srq_init_attr srq_attr = { .attr = { .max_wr = 1, .max_sge = 1 } };
	struct ibv_alloc_dm_attr dm_attr = { .length = 4096 };
	struct ibv_cq_init_attr_ex cq_attr = { .cqe = 1, .wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP };
	struct ibv_srq *srq = ibv_create_srq(pd, &srq_attr);
	struct ibv_mw *mw;
	struct ibv_dm *dm;
	struct ibv_cq_ex *timed;
	struct ibv_mr *mr;
	static char page[4096];

	report("srq", is(srq, want->max_srq ? 0 : EOPNOTSUPP));
	if (srq)
		ibv_destroy_srq(srq);
	mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
	report("mw", is(mw, want->has_mw ? 0 : EOPNOTSUPP));
	if (mw)
		ibv_dealloc_mw(mw);
	dm = ibv_alloc_dm(context, &dm_attr);
	report("dm", is(dm, want->dm ? 0 : EOPNOTSUPP));
	if (dm)
		ibv_free_dm(dm);
	timed = ibv_create_cq_ex(context, &cq_attr);
	report("timestamps", is(timed, want->has_timestamps ? 0 : EOPNOTSUPP));
	if (timed)
		ibv_destroy_cq(ibv_cq_ex_to_cq(timed));
	mr = ibv_reg_mr(pd, page, sizeof(page), IBV_ACCESS_ON_DEMAND);
	report("odp", is(mr, want->has_odp ? 0 : EOPNOTSUPP));
	if (mr)
		ibv_dereg_mr(mr);
}

static void multicast(void)
{
	static const uint8_t group[16] = { [10] = 0xff, 0xff, 239, 1, 2, 3 };
	struct ibv_qp_init_attr attr = init(IBV_QPT_UD);
	struct ibv_qp *qp = ibv_create_qp(pd, &attr);
	union ibv_gid gid;
	int error;

	memcpy(gid.raw, group, sizeof(group));
	error = qp ? ibv_attach_mcast(qp, &gid, 0) : -1;
	report("multicast", error == (want->has_mcast ? 0 : EOPNOTSUPP));
	if (error == 0)
		ibv_detach_mcast(qp, &gid, 0);
	if (qp)
		ibv_destroy_qp(qp);
}

static int to_rts(struct ibv_qp *qp, uint8_t rd_atom)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS, .retry_cnt = 1, .rnr_retry = 1, .max_rd_atomic = rd_atom
	};

	return ibv_modify_qp(qp, &attr,
			     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				     IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

static int to_rtr(struct ibv_qp *qp, enum ibv_mtu mtu)
{
	struct ibv_port_attr port_attr;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };

	if (ibv_query_port(context, 1, &port_attr))
		return -1;
	ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS);
	memset(&attr, 0, sizeof(attr));
	attr.qp_state = IBV_QPS_RTR;
	attr.path_mtu = mtu;
	attr.dest_qp_num = qp->qp_num;
	attr.ah_attr.port_num = 1;
	/* InfiniBand needs no GRH within a subnet, RoCE does. */
	attr.ah_attr.dlid = port_attr.lid;
	attr.ah_attr.is_global = port_attr.link_layer != IBV_LINK_LAYER_INFINIBAND;
	if (attr.ah_attr.is_global && ibv_query_gid(context, 1, 0, &attr.ah_attr.grh.dgid))
		return -1;
	return ibv_modify_qp(qp, &attr,
			     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				     IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

/* A queue pair that is connected with itself: path MTU, outstanding READs, atomics. */
static void connected(void)
{
	struct ibv_sge sge = {};
	struct ibv_send_wr wr = { .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .sg_list = &sge, .num_sge = 1 },
			   *bad;
	struct ibv_qp_init_attr attr = init(IBV_QPT_RC);
	struct ibv_port_attr port_attr = {};
	struct ibv_qp *qp = ibv_create_qp(pd, &attr);
	int error;

	if (!qp) {
		report("connected", !want->has_rc);
		return;
	}
	ibv_query_port(context, 1, &port_attr);
	error = to_rtr(qp, IBV_MTU_4096);
	if (port_attr.active_mtu == IBV_MTU_4096)
		report("large-mtu", error == 0);
	else
		report("large-mtu", error == (want->refuses_large_mtu ? EINVAL : 0));
	report("connected", !error || to_rtr(qp, port_attr.active_mtu) == 0);
	report("rd-atomic-beyond", to_rts(qp, want->rd_atom + 1) == EINVAL);
	report("rd-atomic", to_rts(qp, want->rd_atom) == 0);
	sge.length = 8;
	wr.wr.atomic.remote_addr = 0x1000;
	error = ibv_post_send(qp, &wr, &bad);
	report("atomics", error == (want->has_atomics ? 0 : EINVAL));
	ibv_destroy_qp(qp);
}

int main(int argc, char **argv)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	for (size_t i = 0; argc > 1 && i < sizeof(all) / sizeof(*all); i++)
		if (!strcmp(argv[1], all[i].name))
			want = &all[i];
	if (!want || !list || !list[0] || !(context = ibv_open_device(list[0]))) {
		fprintf(stderr, "no such profile, or no device\n");
		return 2;
	}
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 8, NULL, NULL, 0);
	if (!pd || !cq)
		return 2;
	attributes();
	port();
	queue_pairs();
	all_queue_pairs();
	objects();
	multicast();
	connected();
	return failed;
}
