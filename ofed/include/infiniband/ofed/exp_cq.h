/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Part of infiniband/ofed.h: experimental verbs of completion queues, and resource domains.
 */
#ifndef INFINIBAND_OFED_EXP_CQ_H
#define INFINIBAND_OFED_EXP_CQ_H

#ifdef __cplusplus
extern "C" {
#endif

struct ibv_exp_dct;
struct ibv_exp_peer_direct_attr;

enum ibv_exp_thread_model {
	IBV_EXP_THREAD_SAFE,
	IBV_EXP_THREAD_UNSAFE,
	IBV_EXP_THREAD_SINGLE
};

enum ibv_exp_msg_model {
	IBV_EXP_MSG_DEFAULT,
	IBV_EXP_MSG_LOW_LATENCY,
	IBV_EXP_MSG_HIGH_BW,
	IBV_EXP_MSG_FORCE_LOW_LATENCY
};

enum ibv_exp_res_domain_init_attr_comp_mask {
	IBV_EXP_RES_DOMAIN_THREAD_MODEL = (1 << 0),
	IBV_EXP_RES_DOMAIN_MSG_MODEL = (1 << 1),
	IBV_EXP_RES_DOMAIN_RESERVED = (1 << 2)
};

struct ibv_exp_res_domain_init_attr {
	uint32_t comp_mask;
	enum ibv_exp_thread_model thread_model;
	enum ibv_exp_msg_model msg_model;
};

enum ibv_exp_destroy_res_domain_comp_mask {
	IBV_EXP_DESTROY_RES_DOMAIN_RESERVED = (1 << 0)
};

struct ibv_exp_destroy_res_domain_attr {
	uint32_t comp_mask; /* must be 0 */
};

/*
 * A resource domain: how threads share the objects in it. The models are hints here: all objects are
 * thread-safe. Today's programs use ibv_alloc_td and ibv_alloc_parent_domain.
 */
struct ibv_exp_res_domain {
	struct ibv_context *context;
};

static inline struct ibv_exp_res_domain *ibv_exp_create_res_domain(struct ibv_context *context,
								   struct ibv_exp_res_domain_init_attr *attr)
{
	struct ibv_exp_res_domain *domain;

	if (attr->comp_mask >= IBV_EXP_RES_DOMAIN_RESERVED)
		return (struct ibv_exp_res_domain *)ibv_ofed_null(EINVAL);
	domain = (struct ibv_exp_res_domain *)malloc(sizeof(*domain));
	if (domain)
		domain->context = context;
	return domain;
}

static inline int ibv_exp_destroy_res_domain(struct ibv_context *context, struct ibv_exp_res_domain *res_dom,
					     struct ibv_exp_destroy_res_domain_attr *attr)
{
	(void)context;
	if (attr && attr->comp_mask)
		return EINVAL;
	free(res_dom);
	return 0;
}

/* COMPRESSED_CQE is a hint, and ignored. No successor: CROSS_CHANNEL, AS_NOTIFY. */
enum ibv_exp_cq_create_flags {
	IBV_EXP_CQ_CREATE_CROSS_CHANNEL = 1 << 0,
	IBV_EXP_CQ_TIMESTAMP = 1 << 1,
	IBV_EXP_CQ_TIMESTAMP_TO_SYS_TIME = 1 << 2,
	IBV_EXP_CQ_COMPRESSED_CQE = 1 << 3,
	IBV_EXP_CQ_AS_NOTIFY = 1 << 4
};

enum {
	IBV_EXP_CQ_CREATE_FLAGS_MASK = 0x1f
};

/* comp_mask of struct ibv_exp_cq_init_attr. No successor: PEER_DIRECT. */
enum ibv_exp_cq_init_attr_mask {
	IBV_EXP_CQ_INIT_ATTR_FLAGS = 1 << 0,
	IBV_EXP_CQ_INIT_ATTR_RESERVED = 1 << 1,
	IBV_EXP_CQ_INIT_ATTR_RES_DOMAIN = 1 << 1,
	IBV_EXP_CQ_INIT_ATTR_PEER_DIRECT = 1 << 2,
	IBV_EXP_CQ_INIT_ATTR_RESERVED1 = 1 << 3
};

struct ibv_exp_cq_init_attr {
	uint32_t comp_mask;
	uint32_t flags; /* enum ibv_exp_cq_create_flags */
	struct ibv_exp_res_domain *res_domain;
	struct ibv_exp_peer_direct_attr *peer_direct_attrs;
};

static inline struct ibv_cq *ibv_ofed_create_timestamp_cq(struct ibv_context *context, int cqe,
							  void *cq_context, struct ibv_comp_channel *channel,
							  int comp_vector, uint32_t flags)
{
	struct ibv_cq_init_attr_ex now;
	struct ibv_cq_ex *cq;
	int error;

	memset(&now, 0, sizeof(now));
	now.cqe = (uint32_t)cqe;
	now.cq_context = cq_context;
	now.channel = channel;
	now.comp_vector = (uint32_t)comp_vector;
	now.wc_flags = (uint64_t)IBV_WC_STANDARD_FLAGS |
		       (flags & IBV_EXP_CQ_TIMESTAMP_TO_SYS_TIME
				? (uint64_t)IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK
				: (uint64_t)IBV_WC_EX_WITH_COMPLETION_TIMESTAMP);
	cq = ibv_create_cq_ex(context, &now);
	if (!cq)
		return NULL;
	error = ibv_ofed_add(IBV_OFED_TIMESTAMP_CQ, cq, NULL, (size_t)now.wc_flags);
	if (!error)
		return ibv_cq_ex_to_cq(cq);
	ibv_destroy_cq(ibv_cq_ex_to_cq(cq));
	return (struct ibv_cq *)ibv_ofed_null(error);
}

/*
 * Creates a CQ. Destroy it with ibv_destroy_cq. With a timestamp flag, ibv_exp_poll_cq returns timestamps: of
 * the device clock, or with TIMESTAMP_TO_SYS_TIME nanoseconds of the real-time clock.
 */
static inline struct ibv_cq *ibv_exp_create_cq(struct ibv_context *context, int cqe, void *cq_context,
					       struct ibv_comp_channel *channel, int comp_vector,
					       struct ibv_exp_cq_init_attr *attr)
{
	uint32_t flags = attr->comp_mask & IBV_EXP_CQ_INIT_ATTR_FLAGS ? attr->flags : 0;

	if (attr->comp_mask >= IBV_EXP_CQ_INIT_ATTR_RESERVED1 || flags > IBV_EXP_CQ_CREATE_FLAGS_MASK)
		return (struct ibv_cq *)ibv_ofed_null(EINVAL);
	if (attr->comp_mask & IBV_EXP_CQ_INIT_ATTR_PEER_DIRECT ||
	    flags & (IBV_EXP_CQ_CREATE_CROSS_CHANNEL | IBV_EXP_CQ_AS_NOTIFY))
		return (struct ibv_cq *)ibv_ofed_null(ENOSYS);
	if (flags & (IBV_EXP_CQ_TIMESTAMP | IBV_EXP_CQ_TIMESTAMP_TO_SYS_TIME))
		return ibv_ofed_create_timestamp_cq(context, cqe, cq_context, channel, comp_vector, flags);
	return ibv_create_cq(context, cqe, cq_context, channel, comp_vector);
}

/* As ibv_destroy_cq. */
static inline int ibv_ofed_destroy_cq(struct ibv_cq *cq)
{
	struct ibv_ofed_object entry;
	int has_timestamps = ibv_ofed_find(IBV_OFED_TIMESTAMP_CQ, cq, &entry, 1);
	int error = ibv_destroy_cq(cq);

	if (error && has_timestamps)
		ibv_ofed_add(IBV_OFED_TIMESTAMP_CQ, cq, NULL, entry.length);
	return error;
}
#define ibv_destroy_cq ibv_ofed_destroy_cq

enum ibv_exp_cq_attr_mask {
	IBV_EXP_CQ_MODERATION = 1 << 0,
	IBV_EXP_CQ_CAP_FLAGS = 1 << 1
};

/* No successor: IGNORE_OVERRUN, which is an attribute of ibv_create_cq_ex today. */
enum ibv_exp_cq_cap_flags {
	IBV_EXP_CQ_IGNORE_OVERRUN = (1 << 0),
	IBV_EXP_CQ_CAP_MASK = (0x00000001)
};

enum ibv_exp_cq_attr_comp_mask {
	IBV_EXP_CQ_ATTR_MODERATION = (1 << 0),
	IBV_EXP_CQ_ATTR_CQ_CAP_FLAGS = (1 << 1),
	IBV_EXP_CQ_ATTR_RESERVED = (1 << 2)
};

struct ibv_exp_cq_attr {
	uint32_t comp_mask; /* enum ibv_exp_cq_attr_comp_mask */
	struct {
		uint16_t cq_count;
		uint16_t cq_period; /* microseconds */
	} moderation;
	uint32_t cq_cap_flags; /* enum ibv_exp_cq_cap_flags */
};

/* Changes the moderation of a CQ. cq_attr_mask is a mask of enum ibv_exp_cq_attr_mask. */
static inline int ibv_exp_modify_cq(struct ibv_cq *cq, struct ibv_exp_cq_attr *cq_attr, int cq_attr_mask)
{
	struct ibv_modify_cq_attr now;

	if (cq_attr->comp_mask >= IBV_EXP_CQ_ATTR_RESERVED ||
	    cq_attr_mask & ~(IBV_EXP_CQ_MODERATION | IBV_EXP_CQ_CAP_FLAGS))
		return EINVAL;
	if (cq_attr_mask & IBV_EXP_CQ_CAP_FLAGS && cq_attr->cq_cap_flags)
		return cq_attr->cq_cap_flags & ~(uint32_t)IBV_EXP_CQ_CAP_MASK ? EINVAL : ENOSYS;
	if (!(cq_attr_mask & IBV_EXP_CQ_MODERATION))
		return 0;
	memset(&now, 0, sizeof(now));
	now.attr_mask = IBV_CQ_ATTR_MODERATE;
	now.moderate.cq_count = cq_attr->moderation.cq_count;
	now.moderate.cq_period = cq_attr->moderation.cq_period;
	return ibv_modify_cq(cq, &now);
}

enum ibv_exp_wc_opcode {
	IBV_EXP_WC_SEND,
	IBV_EXP_WC_RDMA_WRITE,
	IBV_EXP_WC_RDMA_READ,
	IBV_EXP_WC_COMP_SWAP,
	IBV_EXP_WC_FETCH_ADD,
	IBV_EXP_WC_BIND_MW,
	IBV_EXP_WC_LOCAL_INV,
	IBV_EXP_WC_MASKED_COMP_SWAP = 9,
	IBV_EXP_WC_MASKED_FETCH_ADD = 10,
	IBV_EXP_WC_TSO,
	IBV_EXP_WC_UMR = 0x100,
	IBV_EXP_WC_RECV = 1 << 7,
	IBV_EXP_WC_RECV_RDMA_WITH_IMM,
	IBV_EXP_WC_TM_ADD = IBV_EXP_WC_RECV + IBV_EXP_START_ENUM,
	IBV_EXP_WC_TM_DEL,
	IBV_EXP_WC_TM_SYNC,
	IBV_EXP_WC_TM_RECV,
	IBV_EXP_WC_TM_NO_TAG,
	IBV_EXP_WC_RECV_NOP
};

__extension__ enum ibv_exp_wc_flags {
	IBV_EXP_WC_GRH = IBV_WC_GRH,
	IBV_EXP_WC_WITH_IMM = IBV_WC_WITH_IMM,
	IBV_EXP_WC_WITH_INV = IBV_WC_WITH_INV,
	IBV_EXP_WC_WITH_SL = IBV_EXP_START_FLAG << 4,
	IBV_EXP_WC_WITH_SLID = IBV_EXP_START_FLAG << 5,
	IBV_EXP_WC_WITH_TIMESTAMP = IBV_EXP_START_FLAG << 6,
	IBV_EXP_WC_QP = IBV_EXP_START_FLAG << 7,
	IBV_EXP_WC_SRQ = IBV_EXP_START_FLAG << 8,
	IBV_EXP_WC_DCT = IBV_EXP_START_FLAG << 9,
	IBV_EXP_WC_RX_IP_CSUM_OK = IBV_EXP_START_FLAG << 10,
	IBV_EXP_WC_RX_TCP_UDP_CSUM_OK = IBV_EXP_START_FLAG << 11,
	IBV_EXP_WC_RX_IPV4_PACKET = IBV_EXP_START_FLAG << 12,
	IBV_EXP_WC_RX_IPV6_PACKET = IBV_EXP_START_FLAG << 13,
	IBV_EXP_WC_RX_TUNNEL_PACKET = IBV_EXP_START_FLAG << 14,
	IBV_EXP_WC_RX_OUTER_IP_CSUM_OK = IBV_EXP_START_FLAG << 15,
	IBV_EXP_WC_RX_OUTER_TCP_UDP_CSUM_OK = IBV_EXP_START_FLAG << 16,
	IBV_EXP_WC_RX_OUTER_IPV4_PACKET = IBV_EXP_START_FLAG << 17,
	IBV_EXP_WC_RX_OUTER_IPV6_PACKET = IBV_EXP_START_FLAG << 18,
	IBV_EXP_WC_TM_SYNC_REQ = IBV_EXP_START_FLAG << 19,
	IBV_EXP_WC_TM_DEL_FAILED = IBV_EXP_START_FLAG << 20,
	IBV_EXP_WC_TM_MATCH = IBV_EXP_START_FLAG << 21,
	IBV_EXP_WC_TM_DATA_VALID = IBV_EXP_START_FLAG << 22,
	IBV_EXP_WC_TM_RNDV_INCOMPLETE = IBV_EXP_START_FLAG << 23,
	IBV_EXP_WC_MP_WR_MORE_IN_MSG = IBV_EXP_START_FLAG << 24,
	IBV_EXP_WC_MP_WR_CONSUMED = IBV_EXP_START_FLAG << 25
};

/* A completion. qp, srq and dct are NULL: exp_wc_flags never says that they are valid. */
struct ibv_exp_wc {
	uint64_t wr_id;
	enum ibv_wc_status status;
	enum ibv_exp_wc_opcode exp_opcode;
	uint32_t vendor_err;
	__extension__ union {
		uint32_t byte_len;
		struct {
			uint16_t strides_offset;
			uint16_t byte_len;
		} mp_wr;
	};
	uint32_t imm_data; /* in network byte order; or the invalidated rkey */
	uint32_t qp_num;
	uint32_t src_qp;
	int reserved;
	uint16_t pkey_index;
	uint16_t slid;
	uint8_t sl;
	uint8_t dlid_path_bits;
	uint64_t timestamp;
	struct ibv_qp *qp;
	struct ibv_srq *srq;
	struct ibv_exp_dct *dct;
	uint64_t exp_wc_flags; /* enum ibv_exp_wc_flags */
	struct {
		uint64_t tag;
		uint32_t priv;
	} tm_info;
};

/* Opcodes of today that the old interface does not have become IBV_EXP_WC_RDMA_WRITE: they write remotely. */
static inline enum ibv_exp_wc_opcode ibv_ofed_wc_opcode(enum ibv_wc_opcode opcode)
{
	switch (opcode) {
	case IBV_WC_TSO:
		return IBV_EXP_WC_TSO;
	case IBV_WC_FLUSH:
	case IBV_WC_ATOMIC_WRITE:
		return IBV_EXP_WC_RDMA_WRITE;
	case IBV_WC_TM_ADD:
		return IBV_EXP_WC_TM_ADD;
	case IBV_WC_TM_DEL:
		return IBV_EXP_WC_TM_DEL;
	case IBV_WC_TM_SYNC:
		return IBV_EXP_WC_TM_SYNC;
	case IBV_WC_TM_RECV:
		return IBV_EXP_WC_TM_RECV;
	case IBV_WC_TM_NO_TAG:
		return IBV_EXP_WC_TM_NO_TAG;
	default:
		return (enum ibv_exp_wc_opcode)opcode;
	}
}

static inline uint64_t ibv_ofed_wc_flags(unsigned int now)
{
	uint64_t flags = now & (IBV_WC_GRH | IBV_WC_WITH_IMM | IBV_WC_WITH_INV);

	flags |= IBV_EXP_WC_WITH_SL | IBV_EXP_WC_WITH_SLID;
	if (now & IBV_WC_IP_CSUM_OK)
		flags |= IBV_EXP_WC_RX_IP_CSUM_OK;
	if (now & IBV_WC_TM_SYNC_REQ)
		flags |= IBV_EXP_WC_TM_SYNC_REQ;
	if (now & IBV_WC_TM_MATCH)
		flags |= IBV_EXP_WC_TM_MATCH;
	if (now & IBV_WC_TM_DATA_VALID)
		flags |= IBV_EXP_WC_TM_DATA_VALID;
	return flags;
}

/* The i-th entry of a program's array. Its entries have wc_size bytes: older structures are shorter. */
static inline void ibv_ofed_put_wc(struct ibv_exp_wc *array, int i, uint32_t wc_size,
				   const struct ibv_exp_wc *wc)
{
	memcpy((char *)array + (size_t)i * wc_size, wc, wc_size < sizeof(*wc) ? wc_size : sizeof(*wc));
}

static inline void ibv_ofed_wc(struct ibv_exp_wc *wc, const struct ibv_wc *now)
{
	memset(wc, 0, sizeof(*wc));
	wc->wr_id = now->wr_id;
	wc->status = now->status;
	wc->vendor_err = now->vendor_err;
	wc->qp_num = now->qp_num;
	wc->exp_opcode = ibv_ofed_wc_opcode(now->opcode);
	if (now->status)
		return;
	wc->byte_len = now->byte_len;
	wc->imm_data = now->invalidated_rkey; /* the same bytes as imm_data */
	wc->src_qp = now->src_qp;
	wc->pkey_index = now->pkey_index;
	wc->slid = now->slid;
	wc->sl = now->sl;
	wc->dlid_path_bits = now->dlid_path_bits;
	wc->exp_wc_flags = ibv_ofed_wc_flags(now->wc_flags);
}

/* The current completion of an extended CQ with a timestamp. */
static inline void ibv_ofed_timestamp_wc(struct ibv_exp_wc *wc, struct ibv_cq_ex *cq, uint64_t wc_flags)
{
	memset(wc, 0, sizeof(*wc));
	wc->wr_id = cq->wr_id;
	wc->status = cq->status;
	wc->vendor_err = ibv_wc_read_vendor_err(cq);
	wc->qp_num = ibv_wc_read_qp_num(cq);
	if (cq->status)
		return;
	wc->exp_opcode = ibv_ofed_wc_opcode(ibv_wc_read_opcode(cq));
	wc->byte_len = ibv_wc_read_byte_len(cq);
	wc->exp_wc_flags = ibv_ofed_wc_flags(ibv_wc_read_wc_flags(cq)) | IBV_EXP_WC_WITH_TIMESTAMP;
	if (wc->exp_wc_flags & (IBV_EXP_WC_WITH_IMM | IBV_EXP_WC_WITH_INV))
		wc->imm_data = ibv_wc_read_invalidated_rkey(cq);
	wc->src_qp = ibv_wc_read_src_qp(cq);
	wc->slid = (uint16_t)ibv_wc_read_slid(cq);
	wc->sl = ibv_wc_read_sl(cq);
	wc->dlid_path_bits = ibv_wc_read_dlid_path_bits(cq);
	wc->timestamp = wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP
				? ibv_wc_read_completion_ts(cq)
				: ibv_wc_read_completion_wallclock_ns(cq);
}

static inline int ibv_ofed_poll_timestamp_cq(struct ibv_cq_ex *cq, int num_entries, struct ibv_exp_wc *wc,
					     uint32_t wc_size, uint64_t wc_flags)
{
	struct ibv_poll_cq_attr attr;
	struct ibv_exp_wc entry;
	int n = 0, error;

	memset(&attr, 0, sizeof(attr));
	if (num_entries <= 0)
		return 0;
	error = ibv_start_poll(cq, &attr);
	if (error)
		return error == ENOENT ? 0 : -error;
	do {
		ibv_ofed_timestamp_wc(&entry, cq, wc_flags);
		ibv_ofed_put_wc(wc, n++, wc_size, &entry);
	} while (n < num_entries && !ibv_next_poll(cq));
	ibv_end_poll(cq);
	return n;
}

/*
 * Removes up to num_entries completions from a CQ; wc_size is the size of struct ibv_exp_wc in the program.
 * Returns their number, or a negative value on failure.
 */
static inline int ibv_exp_poll_cq(struct ibv_cq *ibcq, int num_entries, struct ibv_exp_wc *wc,
				  uint32_t wc_size)
{
	struct ibv_ofed_object timestamps;
	struct ibv_exp_wc entry;
	struct ibv_wc now[8];
	int done = 0, asked, n, i;

	if (ibv_ofed_find(IBV_OFED_TIMESTAMP_CQ, ibcq, &timestamps, 0))
		return ibv_ofed_poll_timestamp_cq((struct ibv_cq_ex *)timestamps.object, num_entries, wc,
						  wc_size, timestamps.length);
	while (done < num_entries) {
		asked = num_entries - done < 8 ? num_entries - done : 8;
		n = ibv_poll_cq(ibcq, asked, now);
		if (n < 0)
			return done ? done : n;
		for (i = 0; i < n; i++) {
			ibv_ofed_wc(&entry, &now[i]);
			ibv_ofed_put_wc(wc, done++, wc_size, &entry);
		}
		if (n < asked)
			break;
	}
	return done;
}

#ifdef __cplusplus
}
#endif

#endif
