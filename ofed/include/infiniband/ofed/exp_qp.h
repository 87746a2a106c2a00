/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Part of infiniband/ofed.h: experimental verbs of queue pairs.
 */
#ifndef INFINIBAND_OFED_EXP_QP_H
#define INFINIBAND_OFED_EXP_QP_H

#ifdef __cplusplus
extern "C" {
#endif

/* The requester of the dynamically connected transport: ibv_exp_create_qp answers ENOSYS. */
#define IBV_EXP_QP_TYPE_START 32
#define IBV_EXP_QPT_DC_INI ((enum ibv_qp_type)IBV_EXP_QP_TYPE_START)

/* exp_attr_mask of ibv_exp_modify_qp. No successor: GROUP_RSS, DC_KEY, FLOW_ENTROPY, OOO_RW_DATA_PLACEMENT.
 */
__extension__ enum ibv_exp_qp_attr_mask {
	IBV_EXP_QP_STATE = IBV_QP_STATE,
	IBV_EXP_QP_CUR_STATE = IBV_QP_CUR_STATE,
	IBV_EXP_QP_EN_SQD_ASYNC_NOTIFY = IBV_QP_EN_SQD_ASYNC_NOTIFY,
	IBV_EXP_QP_ACCESS_FLAGS = IBV_QP_ACCESS_FLAGS,
	IBV_EXP_QP_PKEY_INDEX = IBV_QP_PKEY_INDEX,
	IBV_EXP_QP_PORT = IBV_QP_PORT,
	IBV_EXP_QP_QKEY = IBV_QP_QKEY,
	IBV_EXP_QP_AV = IBV_QP_AV,
	IBV_EXP_QP_PATH_MTU = IBV_QP_PATH_MTU,
	IBV_EXP_QP_TIMEOUT = IBV_QP_TIMEOUT,
	IBV_EXP_QP_RETRY_CNT = IBV_QP_RETRY_CNT,
	IBV_EXP_QP_RNR_RETRY = IBV_QP_RNR_RETRY,
	IBV_EXP_QP_RQ_PSN = IBV_QP_RQ_PSN,
	IBV_EXP_QP_MAX_QP_RD_ATOMIC = IBV_QP_MAX_QP_RD_ATOMIC,
	IBV_EXP_QP_ALT_PATH = IBV_QP_ALT_PATH,
	IBV_EXP_QP_MIN_RNR_TIMER = IBV_QP_MIN_RNR_TIMER,
	IBV_EXP_QP_SQ_PSN = IBV_QP_SQ_PSN,
	IBV_EXP_QP_MAX_DEST_RD_ATOMIC = IBV_QP_MAX_DEST_RD_ATOMIC,
	IBV_EXP_QP_PATH_MIG_STATE = IBV_QP_PATH_MIG_STATE,
	IBV_EXP_QP_CAP = IBV_QP_CAP,
	IBV_EXP_QP_DEST_QPN = IBV_QP_DEST_QPN,
	IBV_EXP_QP_GROUP_RSS = IBV_EXP_START_FLAG << 21,
	IBV_EXP_QP_DC_KEY = IBV_EXP_START_FLAG << 22,
	IBV_EXP_QP_FLOW_ENTROPY = IBV_EXP_START_FLAG << 23,
	IBV_EXP_QP_OOO_RW_DATA_PLACEMENT = IBV_EXP_START_FLAG << 24,
	IBV_EXP_QP_RATE_LIMIT = IBV_EXP_START_FLAG << 25
};

/* comp_mask of struct ibv_exp_qp_attr. No successor: FLOW_ENTROPY. */
enum ibv_exp_qp_attr_comp_mask {
	IBV_EXP_QP_ATTR_FLOW_ENTROPY = 1 << 0,
	IBV_EXP_QP_ATTR_BURST_INFO = 1 << 1,
	IBV_EXP_QP_ATTR_RESERVED = 1 << 2
};

struct ibv_exp_burst_info {
	uint32_t max_burst_sz;
	uint16_t typical_pkt_sz;
};

/* The members up to alt_timeout are those of struct ibv_qp_attr. */
struct ibv_exp_qp_attr {
	enum ibv_qp_state qp_state;
	enum ibv_qp_state cur_qp_state;
	enum ibv_mtu path_mtu;
	enum ibv_mig_state path_mig_state;
	uint32_t qkey;
	uint32_t rq_psn;
	uint32_t sq_psn;
	uint32_t dest_qp_num;
	int qp_access_flags;
	struct ibv_qp_cap cap;
	struct ibv_ah_attr ah_attr;
	struct ibv_ah_attr alt_ah_attr;
	uint16_t pkey_index;
	uint16_t alt_pkey_index;
	uint8_t en_sqd_async_notify;
	uint8_t sq_draining;
	uint8_t max_rd_atomic;
	uint8_t max_dest_rd_atomic;
	uint8_t min_rnr_timer;
	uint8_t port_num;
	uint8_t timeout;
	uint8_t retry_cnt;
	uint8_t rnr_retry;
	uint8_t alt_port_num;
	uint8_t alt_timeout;
	uint64_t dct_key;
	uint32_t comp_mask; /* enum ibv_exp_qp_attr_comp_mask */
	uint32_t flow_entropy;
	uint32_t rate_limit;
	struct ibv_exp_burst_info burst_info;
};

/*
 * comp_mask of struct ibv_exp_qp_init_attr. RES_DOMAIN and PORT are ignored: objects are thread-safe, and the
 * port is that of the transition to INIT. INL_RECV is answered with max_inl_recv 0. No successor: QPG other
 * than NONE, MAX_INL_KLMS, PEER_DIRECT; ATOMICS_ARG above 8 bytes.
 */
enum ibv_exp_qp_init_attr_comp_mask {
	IBV_EXP_QP_INIT_ATTR_PD = 1 << 0,
	IBV_EXP_QP_INIT_ATTR_XRCD = 1 << 1,
	IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS = 1 << 2,
	IBV_EXP_QP_INIT_ATTR_INL_RECV = 1 << 3,
	IBV_EXP_QP_INIT_ATTR_QPG = 1 << 4,
	IBV_EXP_QP_INIT_ATTR_ATOMICS_ARG = 1 << 5,
	IBV_EXP_QP_INIT_ATTR_MAX_INL_KLMS = 1 << 6,
	IBV_EXP_QP_INIT_ATTR_RESERVED = 1 << 7,
	IBV_EXP_QP_INIT_ATTR_RES_DOMAIN = 1 << 7,
	IBV_EXP_QP_INIT_ATTR_RX_HASH = 1 << 8,
	IBV_EXP_QP_INIT_ATTR_PORT = 1 << 9,
	IBV_EXP_QP_INIT_ATTR_PEER_DIRECT = 1 << 10,
	IBV_EXP_QP_INIT_ATTR_MAX_TSO_HEADER = 1 << 11,
	IBV_EXP_QP_INIT_ATTR_ASSOCIATED_QPN = 1 << 12,
	IBV_EXP_QP_INIT_ATTR_RESERVED1 = 1 << 13
};

enum ibv_exp_qpg_type {
	IBV_EXP_QPG_NONE = 0,
	IBV_EXP_QPG_PARENT = (1 << 0),
	IBV_EXP_QPG_CHILD_RX = (1 << 1),
	IBV_EXP_QPG_CHILD_TX = (1 << 2)
};

struct ibv_exp_qpg_init_attrib {
	uint32_t tss_child_count;
	uint32_t rss_child_count;
};

struct ibv_exp_qpg {
	uint32_t qpg_type; /* enum ibv_exp_qpg_type */
	__extension__ union {
		struct ibv_qp *qpg_parent;
		struct ibv_exp_qpg_init_attrib parent_attrib;
	};
};

/* No successor: XOR. */
enum ibv_exp_rx_hash_function_flags {
	IBV_EXP_RX_HASH_FUNC_TOEPLITZ = 1 << 0,
	IBV_EXP_RX_HASH_FUNC_XOR = 1 << 1
};

enum ibv_exp_rx_hash_fields {
	IBV_EXP_RX_HASH_SRC_IPV4 = 1 << 0,
	IBV_EXP_RX_HASH_DST_IPV4 = 1 << 1,
	IBV_EXP_RX_HASH_SRC_IPV6 = 1 << 2,
	IBV_EXP_RX_HASH_DST_IPV6 = 1 << 3,
	IBV_EXP_RX_HASH_SRC_PORT_TCP = 1 << 4,
	IBV_EXP_RX_HASH_DST_PORT_TCP = 1 << 5,
	IBV_EXP_RX_HASH_SRC_PORT_UDP = 1 << 6,
	IBV_EXP_RX_HASH_DST_PORT_UDP = 1 << 7
};
#define IBV_EXP_RX_HASH_INNER (1ULL << 31)

struct ibv_exp_rx_hash_conf {
	uint8_t rx_hash_function; /* enum ibv_exp_rx_hash_function_flags */
	uint8_t rx_hash_key_len;
	uint8_t *rx_hash_key;
	uint64_t rx_hash_fields_mask; /* enum ibv_exp_rx_hash_fields */
	struct ibv_exp_rwq_ind_table *rwq_ind_tbl;
};

/* Successors have: RX_END_PADDING, SCATTER_FCS. All others are answered with ENOSYS. */
enum ibv_exp_qp_create_flags {
	IBV_EXP_QP_CREATE_CROSS_CHANNEL = (1 << 2),
	IBV_EXP_QP_CREATE_MANAGED_SEND = (1 << 3),
	IBV_EXP_QP_CREATE_MANAGED_RECV = (1 << 4),
	IBV_EXP_QP_CREATE_IGNORE_SQ_OVERFLOW = (1 << 6),
	IBV_EXP_QP_CREATE_IGNORE_RQ_OVERFLOW = (1 << 7),
	IBV_EXP_QP_CREATE_ATOMIC_BE_REPLY = (1 << 8),
	IBV_EXP_QP_CREATE_UMR = (1 << 9),
	IBV_EXP_QP_CREATE_EC_PARITY_EN = (1 << 10),
	IBV_EXP_QP_CREATE_RX_END_PADDING = (1 << 11),
	IBV_EXP_QP_CREATE_SCATTER_FCS = (1 << 12),
	IBV_EXP_QP_CREATE_TUNNEL_OFFLOADS = (1 << 13),
	IBV_EXP_QP_CREATE_INTERNAL_USE = (1 << 15),
	IBV_EXP_QP_CREATE_PACKET_BASED_CREDIT_MODE = (1 << 16),
	IBV_EXP_QP_CREATE_MASK = (0x00013FDC)
};

/* The members up to sq_sig_all are those of struct ibv_qp_init_attr. */
struct ibv_exp_qp_init_attr {
	void *qp_context;
	struct ibv_cq *send_cq;
	struct ibv_cq *recv_cq;
	struct ibv_srq *srq;
	struct ibv_qp_cap cap;
	enum ibv_qp_type qp_type;
	int sq_sig_all;
	uint32_t comp_mask; /* enum ibv_exp_qp_init_attr_comp_mask */
	struct ibv_pd *pd;
	struct ibv_xrcd *xrcd;
	uint32_t exp_create_flags; /* enum ibv_exp_qp_create_flags */
	uint32_t max_inl_recv;
	struct ibv_exp_qpg qpg;
	uint32_t max_atomic_arg;
	uint32_t max_inl_send_klms;
	struct ibv_exp_res_domain *res_domain;
	struct ibv_exp_rx_hash_conf *rx_hash_conf;
	uint8_t port_num;
	struct ibv_exp_peer_direct_attr *peer_direct_attrs;
	uint16_t max_tso_header;
	uint32_t associated_qpn;
};

/* Today's create flags and the features without a successor. Returns 0, EINVAL or ENOSYS. */
static inline int ibv_ofed_qp_features(const struct ibv_exp_qp_init_attr *attr,
				       struct ibv_qp_init_attr_ex *now)
{
	const uint32_t mask = attr->comp_mask;
	uint32_t flags = mask & IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS ? attr->exp_create_flags : 0;

	if (mask >= IBV_EXP_QP_INIT_ATTR_RESERVED1 ||
	    flags & ~(uint32_t)(IBV_EXP_QP_CREATE_MASK | IBV_EXP_QP_CREATE_INTERNAL_USE))
		return EINVAL;
	if (flags & IBV_EXP_QP_CREATE_RX_END_PADDING)
		now->create_flags |= IBV_QP_CREATE_PCI_WRITE_END_PADDING;
	if (flags & IBV_EXP_QP_CREATE_SCATTER_FCS)
		now->create_flags |= IBV_QP_CREATE_SCATTER_FCS;
	if (flags & ~(uint32_t)(IBV_EXP_QP_CREATE_RX_END_PADDING | IBV_EXP_QP_CREATE_SCATTER_FCS) ||
	    attr->qp_type == IBV_EXP_QPT_DC_INI || mask & IBV_EXP_QP_INIT_ATTR_PEER_DIRECT ||
	    (mask & IBV_EXP_QP_INIT_ATTR_QPG && attr->qpg.qpg_type != IBV_EXP_QPG_NONE) ||
	    (mask & IBV_EXP_QP_INIT_ATTR_ATOMICS_ARG && attr->max_atomic_arg > 8) ||
	    (mask & IBV_EXP_QP_INIT_ATTR_MAX_INL_KLMS && attr->max_inl_send_klms))
		return ENOSYS;
	if (mask & IBV_EXP_QP_INIT_ATTR_ASSOCIATED_QPN) {
		now->create_flags |= IBV_QP_CREATE_SOURCE_QPN;
		now->source_qpn = attr->associated_qpn;
	}
	if (now->create_flags)
		now->comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
	return 0;
}

static inline void ibv_ofed_rx_hash(const struct ibv_exp_rx_hash_conf *conf, struct ibv_qp_init_attr_ex *now)
{
	now->comp_mask |= IBV_QP_INIT_ATTR_RX_HASH | IBV_QP_INIT_ATTR_IND_TABLE;
	now->rx_hash_conf.rx_hash_function = conf->rx_hash_function;
	now->rx_hash_conf.rx_hash_key_len = conf->rx_hash_key_len;
	now->rx_hash_conf.rx_hash_key = conf->rx_hash_key;
	now->rx_hash_conf.rx_hash_fields_mask = conf->rx_hash_fields_mask;
	now->rwq_ind_tbl = conf->rwq_ind_tbl->table;
}

/* Creates a QP; its actual limits are returned in the attributes. Destroy it with ibv_destroy_qp. */
static inline struct ibv_qp *ibv_exp_create_qp(struct ibv_context *context, struct ibv_exp_qp_init_attr *attr)
{
	struct ibv_qp_init_attr_ex now;
	struct ibv_qp *qp;
	int error;

	memset(&now, 0, sizeof(now));
	now.qp_context = attr->qp_context;
	now.send_cq = attr->send_cq;
	now.recv_cq = attr->recv_cq;
	now.srq = attr->srq;
	now.cap = attr->cap;
	now.qp_type = attr->qp_type;
	now.sq_sig_all = attr->sq_sig_all;
	error = ibv_ofed_qp_features(attr, &now);
	if (error)
		return (struct ibv_qp *)ibv_ofed_null(error);
	if (attr->comp_mask & IBV_EXP_QP_INIT_ATTR_PD) {
		now.comp_mask |= IBV_QP_INIT_ATTR_PD;
		now.pd = attr->pd;
	}
	/* a sender needs no domain today */
	if (attr->comp_mask & IBV_EXP_QP_INIT_ATTR_XRCD && attr->qp_type != IBV_QPT_XRC_SEND) {
		now.comp_mask |= IBV_QP_INIT_ATTR_XRCD;
		now.xrcd = attr->xrcd;
	}
	if (attr->comp_mask & IBV_EXP_QP_INIT_ATTR_MAX_TSO_HEADER) {
		now.comp_mask |= IBV_QP_INIT_ATTR_MAX_TSO_HEADER;
		now.max_tso_header = attr->max_tso_header;
	}
	if (attr->comp_mask & IBV_EXP_QP_INIT_ATTR_RX_HASH)
		ibv_ofed_rx_hash(attr->rx_hash_conf, &now);
	qp = ibv_create_qp_ex(context, &now);
	if (!qp)
		return NULL;
	attr->cap = now.cap;
	if (attr->comp_mask & IBV_EXP_QP_INIT_ATTR_INL_RECV)
		attr->max_inl_recv = 0;
	return qp;
}

static inline void ibv_ofed_qp_attr(struct ibv_qp_attr *now, const struct ibv_exp_qp_attr *attr)
{
	memset(now, 0, sizeof(*now));
	now->qp_state = attr->qp_state;
	now->cur_qp_state = attr->cur_qp_state;
	now->path_mtu = attr->path_mtu;
	now->path_mig_state = attr->path_mig_state;
	now->qkey = attr->qkey;
	now->rq_psn = attr->rq_psn;
	now->sq_psn = attr->sq_psn;
	now->dest_qp_num = attr->dest_qp_num;
	now->qp_access_flags = (unsigned int)attr->qp_access_flags;
	now->cap = attr->cap;
	now->ah_attr = attr->ah_attr;
	now->alt_ah_attr = attr->alt_ah_attr;
	now->pkey_index = attr->pkey_index;
	now->alt_pkey_index = attr->alt_pkey_index;
	now->en_sqd_async_notify = attr->en_sqd_async_notify;
	now->sq_draining = attr->sq_draining;
	now->max_rd_atomic = attr->max_rd_atomic;
	now->max_dest_rd_atomic = attr->max_dest_rd_atomic;
	now->min_rnr_timer = attr->min_rnr_timer;
	now->port_num = attr->port_num;
	now->timeout = attr->timeout;
	now->retry_cnt = attr->retry_cnt;
	now->rnr_retry = attr->rnr_retry;
	now->alt_port_num = attr->alt_port_num;
	now->alt_timeout = attr->alt_timeout;
	now->rate_limit = attr->rate_limit;
}

/* Changes a QP. */
static inline int ibv_exp_modify_qp(struct ibv_qp *qp, struct ibv_exp_qp_attr *attr, uint64_t exp_attr_mask)
{
	const uint64_t rate_limit = (uint64_t)IBV_EXP_QP_RATE_LIMIT | IBV_QP_RATE_LIMIT;
	int plain = (int)(exp_attr_mask & 0x1fffff), error;
	struct ibv_qp_rate_limit_attr limit;
	struct ibv_qp_attr now;

	if (attr->comp_mask >= IBV_EXP_QP_ATTR_RESERVED || exp_attr_mask & 0xfde00000U)
		return EINVAL;
	if (exp_attr_mask & ~(0x1fffff | rate_limit) || attr->comp_mask & IBV_EXP_QP_ATTR_FLOW_ENTROPY)
		return ENOSYS;
	ibv_ofed_qp_attr(&now, attr);
	if (exp_attr_mask & rate_limit && !(attr->comp_mask & IBV_EXP_QP_ATTR_BURST_INFO))
		plain |= IBV_QP_RATE_LIMIT;
	error = plain || !exp_attr_mask ? ibv_modify_qp(qp, &now, plain) : 0;
	if (error || plain & IBV_QP_RATE_LIMIT || !(exp_attr_mask & rate_limit))
		return error;
	memset(&limit, 0, sizeof(limit));
	limit.rate_limit = attr->rate_limit;
	limit.max_burst_sz = attr->burst_info.max_burst_sz;
	limit.typical_pkt_sz = attr->burst_info.typical_pkt_sz;
	return ibv_modify_qp_rate_limit(qp, &limit);
}

#ifdef __cplusplus
}
#endif

#endif
