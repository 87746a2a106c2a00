/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Part of infiniband/ofed.h: experimental verbs of shared receive queues.
 *
 * Completions of tag-matched messages have their flags, but tm_info is 0: it takes an extended CQ with
 * IBV_WC_EX_WITH_TM_INFO.
 */
#ifndef INFINIBAND_OFED_EXP_SRQ_H
#define INFINIBAND_OFED_EXP_SRQ_H

#ifdef __cplusplus
extern "C" {
#endif

enum ibv_exp_srq_type {
	IBV_EXP_SRQT_BASIC = IBV_SRQT_BASIC,
	IBV_EXP_SRQT_XRC = IBV_SRQT_XRC,
	IBV_EXP_SRQT_TAG_MATCHING = 32
};

/* comp_mask of struct ibv_exp_create_srq_attr. No successor: DC_OFFLOAD_PARAMS, MP_WR. */
enum ibv_exp_create_srq_comp_mask {
	IBV_EXP_CREATE_SRQ_CQ = (1 << 0),
	IBV_EXP_CREATE_SRQ_XRCD = (1 << 1),
	IBV_EXP_CREATE_SRQ_TM = (1 << 2),
	IBV_EXP_CREATE_SRQ_DC_OFFLOAD_PARAMS = (1 << 3),
	IBV_EXP_CREATE_SRQ_MP_WR = (1 << 4),
	IBV_EXP_CREATE_SRQ_RESERVED = (1 << 5)
};

struct ibv_exp_tm_cap {
	uint32_t max_num_tags;
	uint32_t max_ops;
};

struct ibv_exp_srq_dc_offload_params {
	uint16_t pkey_index;
	enum ibv_mtu path_mtu;
	uint8_t sl;
	uint8_t max_rd_atomic;
	uint8_t min_rnr_timer;
	uint8_t timeout;
	uint8_t retry_cnt;
	uint8_t rnr_retry;
	uint64_t dct_key;
	uint32_t ooo_caps;
	uint32_t comp_mask;
};

struct ibv_exp_mp_wr {
	uint8_t log_num_of_strides;
	uint8_t log_stride_size;
};

struct ibv_exp_create_srq_attr {
	struct ibv_srq_init_attr base;
	enum ibv_exp_srq_type srq_type;
	struct ibv_pd *pd;
	uint32_t comp_mask; /* enum ibv_exp_create_srq_comp_mask */
	struct ibv_cq *cq;
	struct ibv_xrcd *xrcd;
	struct ibv_exp_tm_cap tm_cap;
	struct ibv_exp_srq_dc_offload_params *dc_offload_params;
	struct ibv_exp_mp_wr mp_wr;
};

/* Creates an SRQ; its actual limits are returned in the attributes. Destroy it with ibv_destroy_srq. */
static inline struct ibv_srq *ibv_exp_create_srq(struct ibv_context *context,
						 struct ibv_exp_create_srq_attr *attr)
{
	struct ibv_srq_init_attr_ex now;
	struct ibv_srq *srq;

	if (attr->comp_mask >= IBV_EXP_CREATE_SRQ_RESERVED)
		return (struct ibv_srq *)ibv_ofed_null(EINVAL);
	if (attr->comp_mask & (IBV_EXP_CREATE_SRQ_DC_OFFLOAD_PARAMS | IBV_EXP_CREATE_SRQ_MP_WR))
		return (struct ibv_srq *)ibv_ofed_null(ENOSYS);
	memset(&now, 0, sizeof(now));
	now.srq_context = attr->base.srq_context;
	now.attr = attr->base.attr;
	now.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
	now.pd = attr->pd;
	switch (attr->srq_type) {
	case IBV_EXP_SRQT_BASIC:
		now.srq_type = IBV_SRQT_BASIC;
		break;
	case IBV_EXP_SRQT_XRC:
		now.srq_type = IBV_SRQT_XRC;
		break;
	case IBV_EXP_SRQT_TAG_MATCHING:
		now.srq_type = IBV_SRQT_TM;
		break;
	default:
		return (struct ibv_srq *)ibv_ofed_null(EINVAL);
	}
	if (attr->comp_mask & IBV_EXP_CREATE_SRQ_CQ) {
		now.comp_mask |= IBV_SRQ_INIT_ATTR_CQ;
		now.cq = attr->cq;
	}
	if (attr->comp_mask & IBV_EXP_CREATE_SRQ_XRCD) {
		now.comp_mask |= IBV_SRQ_INIT_ATTR_XRCD;
		now.xrcd = attr->xrcd;
	}
	if (attr->comp_mask & IBV_EXP_CREATE_SRQ_TM) {
		now.comp_mask |= IBV_SRQ_INIT_ATTR_TM;
		now.tm_cap.max_num_tags = attr->tm_cap.max_num_tags;
		now.tm_cap.max_ops = attr->tm_cap.max_ops;
	}
	srq = ibv_create_srq_ex(context, &now);
	if (srq)
		attr->base.attr = now.attr;
	return srq;
}

enum ibv_exp_ops_wr_opcode {
	IBV_EXP_WR_TAG_ADD,
	IBV_EXP_WR_TAG_DEL,
	IBV_EXP_WR_TAG_SYNC
};

enum ibv_exp_ops_flags {
	IBV_EXP_OPS_SIGNALED = 1 << 0,
	IBV_EXP_OPS_TM_SYNC = 1 << 1
};

struct ibv_exp_ops_wr {
	uint64_t wr_id;
	struct ibv_exp_ops_wr *next;
	enum ibv_exp_ops_wr_opcode opcode;
	int flags; /* enum ibv_exp_ops_flags */
	struct {
		uint32_t unexpected_cnt;
		uint32_t handle; /* returned by IBV_EXP_WR_TAG_ADD */
		struct {
			uint64_t recv_wr_id;
			struct ibv_sge *sg_list;
			int num_sge;
			uint64_t tag;
			uint64_t mask;
		} add;
	} tm;
};

/* Posts tag operations. On failure *bad_op is the first that was not posted. */
static inline int ibv_exp_post_srq_ops(struct ibv_srq *srq, struct ibv_exp_ops_wr *op,
				       struct ibv_exp_ops_wr **bad_op)
{
	struct ibv_ops_wr now, *bad;
	int error = 0;

	for (; op; op = op->next) {
		memset(&now, 0, sizeof(now));
		now.wr_id = op->wr_id;
		now.opcode = (enum ibv_ops_wr_opcode)op->opcode;
		now.flags = op->flags;
		now.tm.unexpected_cnt = op->tm.unexpected_cnt;
		now.tm.handle = op->tm.handle;
		if (op->opcode == IBV_EXP_WR_TAG_ADD) {
			now.tm.add.recv_wr_id = op->tm.add.recv_wr_id;
			now.tm.add.sg_list = op->tm.add.sg_list;
			now.tm.add.num_sge = op->tm.add.num_sge;
			now.tm.add.tag = op->tm.add.tag;
			now.tm.add.mask = op->tm.add.mask;
		}
		error = ibv_post_srq_ops(srq, &now, &bad);
		if (error)
			break;
		op->tm.handle = now.tm.handle;
	}
	if (error)
		*bad_op = op;
	return error;
}

enum ibv_exp_tmh_op {
	IBV_EXP_TMH_NO_TAG = 0,
	IBV_EXP_TMH_RNDV = 1,
	IBV_EXP_TMH_FIN = 2,
	IBV_EXP_TMH_EAGER = 3
};

/* Headers of tag-matched messages; see tm_types.h for today's. */
struct ibv_exp_tmh {
	uint8_t opcode; /* enum ibv_exp_tmh_op */
	uint8_t reserved[3];
	uint32_t app_ctx;
	uint64_t tag;
};

struct ibv_exp_tmh_rvh {
	uint64_t va;
	uint32_t rkey;
	uint32_t len;
};

struct ibv_exp_tmh_ravh {
	uint32_t sl_dct;
	uint32_t reserved;
	uint64_t dc_access_key;
};

#ifdef __cplusplus
}
#endif

#endif
