/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Part of infiniband/ofed.h: experimental verbs of work queues and their indirection tables.
 *
 * Receives are posted with the functions of IBV_EXP_INTF_WQ (ibv_exp_query_intf), or with ibv_post_wq_recv to
 * the member wq.
 */
#ifndef INFINIBAND_OFED_EXP_WQ_H
#define INFINIBAND_OFED_EXP_WQ_H

#ifdef __cplusplus
extern "C" {
#endif

/* No successor: WQT_SRQ. */
enum ibv_exp_wq_type {
	IBV_EXP_WQT_RQ,
	IBV_EXP_WQT_SRQ
};

enum ibv_exp_wq_state {
	IBV_EXP_WQS_RESET,
	IBV_EXP_WQS_RDY,
	IBV_EXP_WQS_ERR,
	IBV_EXP_WQS_UNKNOWN
};

/* No successor: CVLAN_INSERTION. */
enum ibv_exp_vlan_offloads {
	IBV_EXP_RECEIVE_WQ_CVLAN_STRIP = (1 << 0),
	IBV_EXP_RECEIVE_WQ_CVLAN_INSERTION = (1 << 1),
	IBV_EXP_RECEIVE_WQ_VLAN_OFFLOADS_RESERVED = (1 << 2)
};

struct ibv_exp_wq {
	struct ibv_context *context;
	void *wq_context;
	uint32_t handle;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	uint32_t wq_num;
	enum ibv_exp_wq_state state;
	enum ibv_exp_wq_type wq_type;
	uint32_t comp_mask;
	struct ibv_wq *wq; /* the object in today's verbs */
};

/* comp_mask of struct ibv_exp_wq_init_attr. No successor: MP_RQ. */
enum ibv_exp_wq_init_attr_mask {
	IBV_EXP_CREATE_WQ_RES_DOMAIN = (1 << 0),
	IBV_EXP_CREATE_WQ_MP_RQ = (1 << 1),
	IBV_EXP_CREATE_WQ_VLAN_OFFLOADS = (1 << 2),
	IBV_EXP_CREATE_WQ_FLAGS = (1 << 3),
	IBV_EXP_CREATE_WQ_RESERVED = (1 << 4)
};

struct ibv_exp_wq_mp_rq {
	enum ibv_exp_mp_rq_shifts use_shift;
	uint8_t single_wqe_log_num_of_strides;
	uint8_t single_stride_log_num_of_bytes;
};

enum ibv_exp_wq_init_attr_flags {
	IBV_EXP_CREATE_WQ_FLAG_RX_END_PADDING = (1 << 0),
	IBV_EXP_CREATE_WQ_FLAG_SCATTER_FCS = (1 << 1),
	IBV_EXP_CREATE_WQ_FLAG_DELAY_DROP = (1 << 2),
	IBV_EXP_CREATE_WQ_FLAG_RESERVED = (1 << 3)
};

struct ibv_exp_wq_init_attr {
	void *wq_context;
	enum ibv_exp_wq_type wq_type;
	uint32_t max_recv_wr;
	uint32_t max_recv_sge;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	uint32_t comp_mask; /* enum ibv_exp_wq_init_attr_mask */
	struct ibv_exp_res_domain *res_domain;
	struct ibv_exp_wq_mp_rq mp_rq;
	uint16_t vlan_offloads; /* enum ibv_exp_vlan_offloads */
	uint64_t flags;         /* enum ibv_exp_wq_init_attr_flags */
};

enum ibv_exp_wq_attr_mask {
	IBV_EXP_WQ_ATTR_STATE = 1 << 0,
	IBV_EXP_WQ_ATTR_CURR_STATE = 1 << 1,
	IBV_EXP_WQ_ATTR_VLAN_OFFLOADS = 1 << 2,
	IBV_EXP_WQ_ATTR_RESERVED = 1 << 3
};

struct ibv_exp_wq_attr {
	uint32_t attr_mask; /* enum ibv_exp_wq_attr_mask */
	enum ibv_exp_wq_state wq_state;
	enum ibv_exp_wq_state curr_wq_state;
	uint16_t vlan_offloads;
};

/* Today's flags of a work queue. Returns 0, EINVAL or ENOSYS. */
static inline int ibv_ofed_wq_flags(const struct ibv_exp_wq_init_attr *attr, struct ibv_wq_init_attr *now)
{
	if (attr->comp_mask & IBV_EXP_CREATE_WQ_FLAGS) {
		if (attr->flags >= IBV_EXP_CREATE_WQ_FLAG_RESERVED)
			return EINVAL;
		if (attr->flags & IBV_EXP_CREATE_WQ_FLAG_RX_END_PADDING)
			now->create_flags |= IBV_WQ_FLAGS_PCI_WRITE_END_PADDING;
		if (attr->flags & IBV_EXP_CREATE_WQ_FLAG_SCATTER_FCS)
			now->create_flags |= IBV_WQ_FLAGS_SCATTER_FCS;
		if (attr->flags & IBV_EXP_CREATE_WQ_FLAG_DELAY_DROP)
			now->create_flags |= IBV_WQ_FLAGS_DELAY_DROP;
	}
	if (attr->comp_mask & IBV_EXP_CREATE_WQ_VLAN_OFFLOADS) {
		if (attr->vlan_offloads & ~IBV_EXP_RECEIVE_WQ_CVLAN_STRIP)
			return ENOSYS;
		if (attr->vlan_offloads)
			now->create_flags |= IBV_WQ_FLAGS_CVLAN_STRIPPING;
	}
	if (now->create_flags)
		now->comp_mask |= IBV_WQ_INIT_ATTR_FLAGS;
	return 0;
}

/* Creates a work queue. Destroy it with ibv_exp_destroy_wq. */
static inline struct ibv_exp_wq *ibv_exp_create_wq(struct ibv_context *context,
						   struct ibv_exp_wq_init_attr *attr)
{
	struct ibv_wq_init_attr now;
	struct ibv_exp_wq *wq;
	int error;

	memset(&now, 0, sizeof(now));
	now.wq_context = attr->wq_context;
	now.wq_type = IBV_WQT_RQ;
	now.max_wr = attr->max_recv_wr;
	now.max_sge = attr->max_recv_sge;
	now.pd = attr->pd;
	now.cq = attr->cq;
	error = ibv_ofed_wq_flags(attr, &now);
	if (attr->wq_type != IBV_EXP_WQT_RQ || attr->comp_mask & IBV_EXP_CREATE_WQ_MP_RQ)
		error = ENOSYS;
	if (attr->comp_mask >= IBV_EXP_CREATE_WQ_RESERVED)
		error = EINVAL;
	if (error)
		return (struct ibv_exp_wq *)ibv_ofed_null(error);
	wq = (struct ibv_exp_wq *)calloc(1, sizeof(*wq));
	if (!wq)
		return NULL;
	wq->wq = ibv_create_wq(context, &now);
	if (!wq->wq) {
		free(wq);
		return NULL;
	}
	wq->context = context;
	wq->wq_context = attr->wq_context;
	wq->handle = wq->wq->handle;
	wq->pd = attr->pd;
	wq->cq = attr->cq;
	wq->wq_num = wq->wq->wq_num;
	wq->state = (enum ibv_exp_wq_state)wq->wq->state;
	wq->wq_type = IBV_EXP_WQT_RQ;
	return wq;
}

/* Changes the state and the VLAN offloads of a work queue. */
static inline int ibv_exp_modify_wq(struct ibv_exp_wq *wq, struct ibv_exp_wq_attr *wq_attr)
{
	struct ibv_wq_attr now;
	int error;

	if (wq_attr->attr_mask >= IBV_EXP_WQ_ATTR_RESERVED)
		return EINVAL;
	memset(&now, 0, sizeof(now));
	now.attr_mask = wq_attr->attr_mask & (IBV_WQ_ATTR_STATE | IBV_WQ_ATTR_CURR_STATE);
	now.wq_state = (enum ibv_wq_state)wq_attr->wq_state;
	now.curr_wq_state = (enum ibv_wq_state)wq_attr->curr_wq_state;
	if (wq_attr->attr_mask & IBV_EXP_WQ_ATTR_VLAN_OFFLOADS) {
		if (wq_attr->vlan_offloads & ~IBV_EXP_RECEIVE_WQ_CVLAN_STRIP)
			return ENOSYS;
		now.attr_mask |= IBV_WQ_ATTR_FLAGS;
		now.flags_mask = IBV_WQ_FLAGS_CVLAN_STRIPPING;
		now.flags = wq_attr->vlan_offloads ? now.flags_mask : 0;
	}
	error = ibv_modify_wq(wq->wq, &now);
	if (!error)
		wq->state = (enum ibv_exp_wq_state)wq->wq->state;
	return error;
}

static inline int ibv_exp_destroy_wq(struct ibv_exp_wq *wq)
{
	int error = ibv_destroy_wq(wq->wq);

	if (!error)
		free(wq);
	return error;
}

struct ibv_exp_rwq_ind_table {
	struct ibv_context *context;
	struct ibv_pd *pd;
	int ind_tbl_handle;
	int ind_tbl_num;
	uint32_t comp_mask;
	struct ibv_rwq_ind_table *table; /* the object in today's verbs */
};

enum ibv_exp_ind_table_init_attr_mask {
	IBV_EXP_CREATE_IND_TABLE_RESERVED = (1 << 0)
};

struct ibv_exp_rwq_ind_table_init_attr {
	struct ibv_pd *pd;
	uint32_t log_ind_tbl_size;
	struct ibv_exp_wq **ind_tbl;
	uint32_t comp_mask; /* must be 0 */
};

/* Creates an indirection table. Destroy it with ibv_exp_destroy_rwq_ind_table. */
static inline struct ibv_exp_rwq_ind_table *ibv_exp_create_rwq_ind_table(
	struct ibv_context *context, struct ibv_exp_rwq_ind_table_init_attr *init_attr)
{
	struct ibv_rwq_ind_table_init_attr now;
	struct ibv_exp_rwq_ind_table *table;
	struct ibv_wq **queues;
	size_t i, size;

	if (init_attr->comp_mask || init_attr->log_ind_tbl_size > 31)
		return (struct ibv_exp_rwq_ind_table *)ibv_ofed_null(EINVAL);
	size = (size_t)1 << init_attr->log_ind_tbl_size;
	table = (struct ibv_exp_rwq_ind_table *)calloc(1, sizeof(*table));
	queues = (struct ibv_wq **)calloc(size, sizeof(*queues));
	if (table && queues) {
		for (i = 0; i < size; i++)
			queues[i] = init_attr->ind_tbl[i]->wq;
		memset(&now, 0, sizeof(now));
		now.log_ind_tbl_size = init_attr->log_ind_tbl_size;
		now.ind_tbl = queues;
		table->table = ibv_create_rwq_ind_table(context, &now);
	}
	free(queues);
	if (!table || !table->table) {
		free(table);
		return NULL;
	}
	table->context = context;
	table->pd = init_attr->pd;
	table->ind_tbl_handle = table->table->ind_tbl_handle;
	table->ind_tbl_num = table->table->ind_tbl_num;
	return table;
}

static inline int ibv_exp_destroy_rwq_ind_table(struct ibv_exp_rwq_ind_table *rwq_ind_table)
{
	int error = ibv_destroy_rwq_ind_table(rwq_ind_table->table);

	if (!error)
		free(rwq_ind_table);
	return error;
}

#ifdef __cplusplus
}
#endif

#endif
