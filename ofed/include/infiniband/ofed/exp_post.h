/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Part of infiniband/ofed.h: experimental verbs that post work requests.
 */
#ifndef INFINIBAND_OFED_EXP_POST_H
#define INFINIBAND_OFED_EXP_POST_H

#ifdef __cplusplus
extern "C" {
#endif

enum ibv_exp_calc_op {
	IBV_EXP_CALC_OP_ADD = 0,
	IBV_EXP_CALC_OP_MAXLOC,
	IBV_EXP_CALC_OP_BAND,
	IBV_EXP_CALC_OP_BXOR,
	IBV_EXP_CALC_OP_BOR,
	IBV_EXP_CALC_OP_NUMBER
};

enum ibv_exp_calc_data_type {
	IBV_EXP_CALC_DATA_TYPE_INT = 0,
	IBV_EXP_CALC_DATA_TYPE_UINT,
	IBV_EXP_CALC_DATA_TYPE_FLOAT,
	IBV_EXP_CALC_DATA_TYPE_NUMBER
};

enum ibv_exp_calc_data_size {
	IBV_EXP_CALC_DATA_SIZE_64_BIT = 0,
	IBV_EXP_CALC_DATA_SIZE_NUMBER
};

/*
 * No successor: SEND_ENABLE, RECV_ENABLE, CQE_WAIT, NOP, UMR_FILL, UMR_INVALIDATE. The masked atomics are
 * posted as plain ones if 8 bytes are compared, swapped or added as a whole; otherwise they have no successor
 * either.
 */
enum ibv_exp_wr_opcode {
	IBV_EXP_WR_RDMA_WRITE = IBV_WR_RDMA_WRITE,
	IBV_EXP_WR_RDMA_WRITE_WITH_IMM = IBV_WR_RDMA_WRITE_WITH_IMM,
	IBV_EXP_WR_SEND = IBV_WR_SEND,
	IBV_EXP_WR_SEND_WITH_IMM = IBV_WR_SEND_WITH_IMM,
	IBV_EXP_WR_RDMA_READ = IBV_WR_RDMA_READ,
	IBV_EXP_WR_ATOMIC_CMP_AND_SWP = IBV_WR_ATOMIC_CMP_AND_SWP,
	IBV_EXP_WR_ATOMIC_FETCH_AND_ADD = IBV_WR_ATOMIC_FETCH_AND_ADD,
	IBV_EXP_WR_LOCAL_INV = IBV_WR_LOCAL_INV,
	IBV_EXP_WR_BIND_MW = IBV_WR_BIND_MW,
	IBV_EXP_WR_SEND_WITH_INV = IBV_WR_SEND_WITH_INV,
	IBV_EXP_WR_TSO = 15 + IBV_EXP_START_ENUM,
	IBV_EXP_WR_SEND_ENABLE = 0x20 + IBV_EXP_START_ENUM,
	IBV_EXP_WR_RECV_ENABLE,
	IBV_EXP_WR_CQE_WAIT,
	IBV_EXP_WR_EXT_MASKED_ATOMIC_CMP_AND_SWP,
	IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD,
	IBV_EXP_WR_NOP,
	IBV_EXP_WR_UMR_FILL,
	IBV_EXP_WR_UMR_INVALIDATE
};

/* No successor: WITH_CALC, WAIT_EN_LAST. */
__extension__ enum ibv_exp_send_flags {
	IBV_EXP_SEND_FENCE = IBV_SEND_FENCE,
	IBV_EXP_SEND_SIGNALED = IBV_SEND_SIGNALED,
	IBV_EXP_SEND_SOLICITED = IBV_SEND_SOLICITED,
	IBV_EXP_SEND_INLINE = IBV_SEND_INLINE,
	IBV_EXP_SEND_IP_CSUM = (IBV_EXP_START_FLAG << 0),
	IBV_EXP_SEND_WITH_CALC = (IBV_EXP_START_FLAG << 1),
	IBV_EXP_SEND_WAIT_EN_LAST = (IBV_EXP_START_FLAG << 2),
	IBV_EXP_SEND_EXT_ATOMIC_INLINE = (IBV_EXP_START_FLAG << 3)
};

struct ibv_exp_cmp_swap {
	uint64_t compare_mask;
	uint64_t compare_val;
	uint64_t swap_val;
	uint64_t swap_mask;
};

struct ibv_exp_fetch_add {
	uint64_t add_val;
	uint64_t field_boundary;
};

enum ibv_exp_send_wr_comp_mask {
	IBV_EXP_SEND_WR_ATTR_RESERVED = 1 << 0
};

struct ibv_exp_mem_region {
	uint64_t base_addr;
	struct ibv_mr *mr;
	size_t length;
};

struct ibv_exp_mem_repeat_block {
	uint64_t base_addr;
	struct ibv_mr *mr;
	size_t *byte_count;
	size_t *stride;
};

enum ibv_exp_umr_wr_type {
	IBV_EXP_UMR_MR_LIST,
	IBV_EXP_UMR_REPEAT,
	IBV_EXP_UMR_MR_LIST_FIXED_SIZE
};

struct ibv_exp_mkey_list_container;

/* A send WR. Members of features without a successor (task, op, dc, ext_op.umr) are not read. */
struct ibv_exp_send_wr {
	uint64_t wr_id;
	struct ibv_exp_send_wr *next;
	struct ibv_sge *sg_list;
	int num_sge;
	enum ibv_exp_wr_opcode exp_opcode;
	int reserved;
	union {
		uint32_t imm_data; /* in network byte order */
		uint32_t invalidate_rkey;
	} ex;
	union {
		struct {
			uint64_t remote_addr;
			uint32_t rkey;
		} rdma;
		struct {
			uint64_t remote_addr;
			uint64_t compare_add;
			uint64_t swap;
			uint32_t rkey;
		} atomic;
		struct {
			struct ibv_ah *ah;
			uint32_t remote_qpn;
			uint32_t remote_qkey;
		} ud;
	} wr;
	__extension__ union {
		union {
			struct {
				uint32_t remote_srqn;
			} xrc;
		} qp_type;
		uint32_t xrc_remote_srq_num;
	};
	union {
		struct {
			uint64_t remote_addr;
			uint32_t rkey;
		} rdma;
		struct {
			uint64_t remote_addr;
			uint64_t compare_add;
			uint64_t swap;
			uint32_t rkey;
		} atomic;
		struct {
			struct ibv_cq *cq;
			int32_t cq_count;
		} cqe_wait;
		struct {
			struct ibv_qp *qp;
			int32_t wqe_count;
		} wqe_enable;
	} task;
	union {
		struct {
			enum ibv_exp_calc_op calc_op;
			enum ibv_exp_calc_data_type data_type;
			enum ibv_exp_calc_data_size data_size;
		} calc;
	} op;
	struct {
		struct ibv_ah *ah;
		uint64_t dct_access_key;
		uint32_t dct_number;
	} dc;
	__extension__ union {
		struct {
			struct ibv_mw *mw;
			uint32_t rkey;
			struct ibv_exp_mw_bind_info bind_info;
		} bind_mw;
		struct {
			void *hdr;
			uint16_t hdr_sz;
			uint16_t mss;
		} tso;
	};
	uint64_t exp_send_flags; /* enum ibv_exp_send_flags */
	uint32_t comp_mask;      /* must be 0; not checked, since many programs leave it uninitialised */
	union {
		struct {
			uint32_t umr_type;
			struct ibv_exp_mkey_list_container *memory_objects;
			uint64_t exp_access;
			struct ibv_mr *modified_mr;
			uint64_t base_addr;
			uint32_t num_mrs;
			union {
				struct ibv_exp_mem_region *mem_reg_list;
				struct {
					struct ibv_exp_mem_repeat_block *mem_repeat_block_list;
					size_t *repeat_count;
					uint32_t stride_dim;
				} rb;
			} mem_list;
		} umr;
		struct {
			uint32_t log_arg_sz; /* operands of 2^n bytes */
			uint64_t remote_addr;
			uint32_t rkey;
			union {
				struct {
					union {
						struct ibv_exp_cmp_swap cmp_swap;
						struct ibv_exp_fetch_add fetch_add;
					} op;
				} inline_data;
			} wr_data;
		} masked_atomics;
	} ext_op;
};

/* A masked atomic as a plain one, if that does the same. Returns 0 or ENOSYS. */
static inline int ibv_ofed_masked_atomic(struct ibv_send_wr *now, const struct ibv_exp_send_wr *wr)
{
	const uint64_t all = ~(uint64_t)0;
	const struct ibv_exp_cmp_swap *cmp_swap = &wr->ext_op.masked_atomics.wr_data.inline_data.op.cmp_swap;
	const struct ibv_exp_fetch_add *fetch_add = &wr->ext_op.masked_atomics.wr_data.inline_data.op
							     .fetch_add;

	if (wr->ext_op.masked_atomics.log_arg_sz != 3)
		return ENOSYS;
	now->wr.atomic.remote_addr = wr->ext_op.masked_atomics.remote_addr;
	now->wr.atomic.rkey = wr->ext_op.masked_atomics.rkey;
	if (wr->exp_opcode == IBV_EXP_WR_EXT_MASKED_ATOMIC_CMP_AND_SWP) {
		now->opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
		now->wr.atomic.compare_add = cmp_swap->compare_val;
		now->wr.atomic.swap = cmp_swap->swap_val;
		return cmp_swap->compare_mask == all && cmp_swap->swap_mask == all ? 0 : ENOSYS;
	}
	now->opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
	now->wr.atomic.compare_add = fetch_add->add_val;
	/* a carry out of the highest bit is lost in any case */
	return fetch_add->field_boundary & (all >> 1) ? ENOSYS : 0;
}

/* The opcode, and the members that belong to it alone. Returns 0, EINVAL or ENOSYS. */
static inline int ibv_ofed_send_opcode(struct ibv_send_wr *now, const struct ibv_exp_send_wr *wr,
				       enum ibv_qp_type type)
{
	now->opcode = (enum ibv_wr_opcode)wr->exp_opcode;
	switch (wr->exp_opcode) {
	case IBV_EXP_WR_SEND_WITH_IMM:
	case IBV_EXP_WR_SEND_WITH_INV:
	case IBV_EXP_WR_LOCAL_INV:
		now->invalidate_rkey = wr->ex.invalidate_rkey; /* the same bytes as imm_data */
							       /* fallthrough */
	case IBV_EXP_WR_SEND:
		if (type == IBV_QPT_UD) {
			now->wr.ud.ah = wr->wr.ud.ah;
			now->wr.ud.remote_qpn = wr->wr.ud.remote_qpn;
			now->wr.ud.remote_qkey = wr->wr.ud.remote_qkey;
		}
		return 0;
	case IBV_EXP_WR_RDMA_WRITE_WITH_IMM:
		now->invalidate_rkey = wr->ex.invalidate_rkey;
		/* fallthrough */
	case IBV_EXP_WR_RDMA_WRITE:
	case IBV_EXP_WR_RDMA_READ:
		now->wr.rdma.remote_addr = wr->wr.rdma.remote_addr;
		now->wr.rdma.rkey = wr->wr.rdma.rkey;
		return 0;
	case IBV_EXP_WR_ATOMIC_CMP_AND_SWP:
	case IBV_EXP_WR_ATOMIC_FETCH_AND_ADD:
		now->wr.atomic.remote_addr = wr->wr.atomic.remote_addr;
		now->wr.atomic.compare_add = wr->wr.atomic.compare_add;
		now->wr.atomic.swap = wr->wr.atomic.swap;
		now->wr.atomic.rkey = wr->wr.atomic.rkey;
		return 0;
	case IBV_EXP_WR_BIND_MW:
		now->bind_mw.mw = wr->bind_mw.mw;
		now->bind_mw.rkey = wr->bind_mw.rkey;
		return ibv_ofed_bind_info(&now->bind_mw.bind_info, &wr->bind_mw.bind_info);
	case IBV_EXP_WR_TSO:
		now->opcode = IBV_WR_TSO;
		if (type == IBV_QPT_UD) {
			now->wr.ud.ah = wr->wr.ud.ah;
			now->wr.ud.remote_qpn = wr->wr.ud.remote_qpn;
			now->wr.ud.remote_qkey = wr->wr.ud.remote_qkey;
		}
		now->tso.hdr = wr->tso.hdr;
		now->tso.hdr_sz = wr->tso.hdr_sz;
		now->tso.mss = wr->tso.mss;
		return 0;
	case IBV_EXP_WR_EXT_MASKED_ATOMIC_CMP_AND_SWP:
	case IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD:
		return ibv_ofed_masked_atomic(now, wr);
	case IBV_EXP_WR_SEND_ENABLE:
	case IBV_EXP_WR_RECV_ENABLE:
	case IBV_EXP_WR_CQE_WAIT:
	case IBV_EXP_WR_NOP:
	case IBV_EXP_WR_UMR_FILL:
	case IBV_EXP_WR_UMR_INVALIDATE:
		return ENOSYS;
	default:
		return EINVAL;
	}
}

/* Today's WR. Returns 0, EINVAL or ENOSYS. */
static inline int ibv_ofed_send_wr(struct ibv_send_wr *now, const struct ibv_exp_send_wr *wr,
				   enum ibv_qp_type type)
{
	const uint64_t plain = 0xf, masked = IBV_EXP_SEND_EXT_ATOMIC_INLINE, csum = IBV_EXP_SEND_IP_CSUM;

	memset(now, 0, sizeof(*now));
	now->wr_id = wr->wr_id;
	now->sg_list = wr->sg_list;
	now->num_sge = wr->num_sge;
	now->send_flags = (unsigned int)(wr->exp_send_flags & plain);
	if (wr->exp_send_flags & csum)
		now->send_flags |= IBV_SEND_IP_CSUM;
	if (wr->exp_send_flags & ~(plain | masked | csum))
		return ENOSYS;
	if (type == IBV_QPT_XRC_SEND)
		now->qp_type.xrc.remote_srqn = wr->qp_type.xrc.remote_srqn;
	return ibv_ofed_send_opcode(now, wr, type);
}

/*
 * Posts send WRs. On failure *bad_wr is the first that was not posted. The list is passed on in parts of up
 * to 16 WRs, between which other threads may post to the same QP.
 */
static inline int ibv_exp_post_send(struct ibv_qp *qp, struct ibv_exp_send_wr *wr,
				    struct ibv_exp_send_wr **bad_wr)
{
	struct ibv_exp_send_wr *first;
	struct ibv_send_wr now[16], *bad;
	int n, error = 0, post_error;

	while (wr && !error) {
		first = wr;
		for (n = 0; wr && n < 16; n++, wr = wr->next) {
			error = ibv_ofed_send_wr(&now[n], wr, qp->qp_type);
			if (error)
				break;
			if (n)
				now[n - 1].next = &now[n];
		}
		bad = NULL;
		post_error = n ? ibv_post_send(qp, now, &bad) : 0;
		if (post_error) {
			error = post_error;
			for (wr = first; bad && bad != now; bad--)
				wr = wr->next;
		}
	}
	if (error)
		*bad_wr = wr;
	return error;
}

enum ibv_exp_task_type {
	IBV_EXP_TASK_SEND = 0,
	IBV_EXP_TASK_RECV = 1
};

enum ibv_exp_task_comp_mask {
	IBV_EXP_TASK_RESERVED = (1 << 0)
};

struct ibv_exp_task {
	enum ibv_exp_task_type task_type;
	struct {
		struct ibv_qp *qp;
		__extension__ union {
			struct ibv_exp_send_wr *send_wr;
			struct ibv_recv_wr *recv_wr;
		};
	} item;
	struct ibv_exp_task *next;
	uint32_t comp_mask; /* must be 0 */
};

/* Posts a list of WRs to each of several QPs, in order. On failure *bad_task is the task that failed. */
static inline int ibv_exp_post_task(struct ibv_context *context, struct ibv_exp_task *task,
				    struct ibv_exp_task **bad_task)
{
	struct ibv_exp_send_wr *bad_send;
	struct ibv_recv_wr *bad_recv;
	int error = 0;

	(void)context;
	for (; task; task = task->next) {
		if (task->comp_mask)
			error = EINVAL;
		else if (task->task_type == IBV_EXP_TASK_SEND)
			error = ibv_exp_post_send(task->item.qp, task->item.send_wr, &bad_send);
		else
			error = ibv_post_recv(task->item.qp, task->item.recv_wr, &bad_recv);
		if (error)
			break;
	}
	if (error && bad_task)
		*bad_task = task;
	return error;
}

typedef int (*drv_exp_post_send_func)(struct ibv_qp *qp, struct ibv_exp_send_wr *wr,
				      struct ibv_exp_send_wr **bad_wr);
typedef int (*drv_post_send_func)(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr);
typedef int (*drv_exp_poll_cq_func)(struct ibv_cq *ibcq, int num_entries, struct ibv_exp_wc *wc,
				    uint32_t wc_size);
typedef int (*drv_poll_cq_func)(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc);
typedef int (*drv_post_recv_func)(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);

enum ibv_exp_func_name {
	IBV_EXP_POST_SEND_FUNC,
	IBV_EXP_POLL_CQ_FUNC,
	IBV_POST_SEND_FUNC,
	IBV_POLL_CQ_FUNC,
	IBV_POST_RECV_FUNC
};

/* The function of the data path that a context has, as one of the types above. */
static inline void *ibv_exp_get_provider_func(struct ibv_context *context, enum ibv_exp_func_name name)
{
	union {
		void *pointer;
		drv_exp_post_send_func exp_post_send;
		drv_exp_poll_cq_func exp_poll_cq;
		drv_post_send_func post_send;
		drv_poll_cq_func poll_cq;
		drv_post_recv_func post_recv;
	} function;

	function.pointer = NULL;
	switch (name) {
	case IBV_EXP_POST_SEND_FUNC:
		function.exp_post_send = ibv_exp_post_send;
		break;
	case IBV_EXP_POLL_CQ_FUNC:
		function.exp_poll_cq = ibv_exp_poll_cq;
		break;
	case IBV_POST_SEND_FUNC:
		function.post_send = context->ops.post_send;
		break;
	case IBV_POLL_CQ_FUNC:
		function.poll_cq = context->ops.poll_cq;
		break;
	case IBV_POST_RECV_FUNC:
		function.post_recv = context->ops.post_recv;
		break;
	}
	if (!function.pointer)
		errno = ENOSYS;
	return function.pointer;
}

#ifdef __cplusplus
}
#endif

#endif
