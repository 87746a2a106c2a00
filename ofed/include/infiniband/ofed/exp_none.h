/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Part of infiniband/ofed.h: experimental verbs without a successor in verbs. The compiler warns about their
 * use; at run time they fail with ENOSYS. The features are in libmlx5 (mlx5dv) today: DC targets, UMR,
 * out-of-order placement; or gone: erasure coding, peer direct (GPUDirect Async), shared regions.
 */
#ifndef INFINIBAND_OFED_EXP_NONE_H
#define INFINIBAND_OFED_EXP_NONE_H

#ifdef __cplusplus
extern "C" {
#endif

/* The dynamically connected transport. */

#define IBV_EXP_EVENT_DCT_KEY_VIOLATION ((enum ibv_event_type)32)
#define IBV_EXP_EVENT_DCT_ACCESS_ERR ((enum ibv_event_type)33)
#define IBV_EXP_EVENT_DCT_REQ_ERR ((enum ibv_event_type)34)

enum ibv_exp_dct_init_attr_comp_mask {
	IBV_EXP_DCT_INIT_ATTR_RESERVED = 1 << 0
};

enum ibv_exp_dct_create_flags {
	IBV_EXP_DCT_OOO_RW_DATA_PLACEMENT = 1 << 0,
	IBV_EXP_DCT_CREATE_FLAGS_MASK = IBV_EXP_DCT_OOO_RW_DATA_PLACEMENT
};

struct ibv_exp_dct_init_attr {
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	uint64_t dc_key;
	uint8_t port;
	uint32_t access_flags;
	uint8_t min_rnr_timer;
	uint8_t tclass;
	uint32_t flow_label;
	enum ibv_mtu mtu;
	uint8_t pkey_index;
	uint8_t gid_index;
	uint8_t hop_limit;
	uint32_t inline_size;
	uint32_t create_flags;
	uint32_t comp_mask;
};

enum {
	IBV_EXP_DCT_STATE_ACTIVE = 0,
	IBV_EXP_DCT_STATE_DRAINING = 1,
	IBV_EXP_DCT_STATE_DRAINED = 2
};

enum ibv_exp_dct_attr_comp_mask {
	IBV_EXP_DCT_ATTR_RESERVED = 1 << 0
};

struct ibv_exp_dct_attr {
	uint64_t dc_key;
	uint8_t port;
	uint32_t access_flags;
	uint8_t min_rnr_timer;
	uint8_t tclass;
	uint32_t flow_label;
	enum ibv_mtu mtu;
	uint8_t pkey_index;
	uint8_t gid_index;
	uint8_t hop_limit;
	uint32_t key_violations;
	uint8_t state;
	struct ibv_srq *srq;
	struct ibv_cq *cq;
	struct ibv_pd *pd;
	uint32_t comp_mask;
};

struct ibv_exp_dct {
	struct ibv_context *context;
	uint32_t handle;
	uint32_t dct_num;
	struct ibv_pd *pd;
	struct ibv_srq *srq;
	struct ibv_cq *cq;
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	uint32_t events_completed;
};

enum ibv_exp_arm_attr_comp_mask {
	IBV_EXP_ARM_ATTR_RESERVED = (1 << 0)
};

struct ibv_exp_arm_attr {
	uint32_t comp_mask;
};

enum {
	IBV_EXP_NUM_DC_INFO_LIDS = 30
};

struct ibv_exp_dc_info_ent {
	uint16_t lid[IBV_EXP_NUM_DC_INFO_LIDS];
	uint32_t seqnum;
};

#define IBV_OFED_DC IBV_OFED_NO_SUCCESSOR("DC targets are in libmlx5: mlx5dv_create_qp, MLX5DV_DCTYPE_DCT")

IBV_OFED_DC static inline struct ibv_exp_dct *ibv_exp_create_dct(struct ibv_context *context,
								 struct ibv_exp_dct_init_attr *attr)
{
	(void)context, (void)attr;
	return (struct ibv_exp_dct *)ibv_ofed_null(ENOSYS);
}

IBV_OFED_DC static inline int ibv_exp_destroy_dct(struct ibv_exp_dct *dct)
{
	(void)dct;
	return errno = ENOSYS;
}

IBV_OFED_DC static inline int ibv_exp_query_dct(struct ibv_exp_dct *dct, struct ibv_exp_dct_attr *attr)
{
	(void)dct, (void)attr;
	return errno = ENOSYS;
}

IBV_OFED_DC static inline int ibv_exp_arm_dct(struct ibv_exp_dct *dct, struct ibv_exp_arm_attr *attr)
{
	(void)dct, (void)attr;
	return errno = ENOSYS;
}

/* Returns -1 with errno. */
IBV_OFED_DC static inline int ibv_exp_poll_dc_info(struct ibv_context *context,
						   struct ibv_exp_dc_info_ent *ents, int nent, int port)
{
	(void)context, (void)ents, (void)nent, (void)port;
	errno = ENOSYS;
	return -1;
}

/* User-mode memory registration (UMR): regions made of others. */

enum ibv_exp_mr_create_flags {
	IBV_EXP_MR_SIGNATURE_EN = (1 << 0),
	IBV_EXP_MR_INDIRECT_KLMS = (1 << 1),
	IBV_EXP_MR_FIXED_BUFFER_SIZE = (1 << 2)
};

struct ibv_exp_mr_init_attr {
	uint32_t max_klm_list_size;
	uint32_t create_flags;
	uint64_t exp_access_flags;
};

enum ibv_exp_create_mr_in_comp_mask {
	IBV_EXP_CREATE_MR_IN_RESERVED = (1 << 0)
};

struct ibv_exp_create_mr_in {
	struct ibv_pd *pd;
	struct ibv_exp_mr_init_attr attr;
	uint32_t comp_mask;
};

enum ibv_exp_mkey_attr_comp_mask {
	IBV_EXP_MKEY_ATTR_RESERVED = (1 << 0)
};

struct ibv_exp_mkey_attr {
	uint32_t max_klm_list_size;
	uint32_t comp_mask;
};

struct ibv_exp_mkey_list_container {
	uint32_t max_klm_list_size;
	struct ibv_context *context;
};

enum ibv_exp_mkey_list_type {
	IBV_EXP_MKEY_LIST_TYPE_INDIRECT_MR
};

enum ibv_exp_alloc_mkey_list_comp_mask {
	IBV_EXP_MKEY_LIST_CONTAINER_RESERVED = (1 << 0)
};

struct ibv_exp_mkey_list_container_attr {
	struct ibv_pd *pd;
	uint32_t mkey_list_type;
	uint32_t max_klm_list_size;
	uint32_t comp_mask;
};

#define IBV_OFED_UMR IBV_OFED_NO_SUCCESSOR("memory keys of others are in libmlx5: mlx5dv_create_mkey")

IBV_OFED_UMR static inline struct ibv_mr *ibv_exp_create_mr(struct ibv_exp_create_mr_in *in)
{
	(void)in;
	return (struct ibv_mr *)ibv_ofed_null(ENOSYS);
}

IBV_OFED_UMR static inline int ibv_exp_query_mkey(struct ibv_mr *mr, struct ibv_exp_mkey_attr *attr)
{
	(void)mr, (void)attr;
	return errno = ENOSYS;
}

IBV_OFED_UMR static inline struct ibv_exp_mkey_list_container *ibv_exp_alloc_mkey_list_memory(
	struct ibv_exp_mkey_list_container_attr *attr)
{
	(void)attr;
	return (struct ibv_exp_mkey_list_container *)ibv_ofed_null(ENOSYS);
}

IBV_OFED_UMR static inline int ibv_exp_dealloc_mkey_list_memory(struct ibv_exp_mkey_list_container *mem)
{
	(void)mem;
	return errno = ENOSYS;
}

/* Regions shared between processes, and contexts with attributes or an environment of their own. */

enum ibv_exp_reg_shared_mr_comp_mask {
	IBV_EXP_REG_SHARED_MR_RESERVED = (1 << 0)
};

struct ibv_exp_reg_shared_mr_in {
	uint32_t mr_handle;
	struct ibv_pd *pd;
	void *addr;
	uint64_t exp_access;
	uint32_t comp_mask;
};

IBV_OFED_NO_SUCCESSOR("use shared memory (shm_open, mmap), and register it in each process")
static inline struct ibv_mr *ibv_exp_reg_shared_mr(struct ibv_exp_reg_shared_mr_in *mr_in)
{
	(void)mr_in;
	return (struct ibv_mr *)ibv_ofed_null(ENOSYS);
}

IBV_OFED_NO_SUCCESSOR("use ibv_open_device; peer direct is gone")
static inline struct ibv_context *ibv_exp_open_device(struct ibv_device *device,
						      struct ibv_exp_open_device_attr *attr)
{
	(void)device;
	/* a call without attributes was an error of the program */
	return (struct ibv_context *)ibv_ofed_null(
		attr->comp_mask && attr->comp_mask < IBV_EXP_SET_CONTEXT_ATTR_RESERVED ? ENOSYS : EINVAL);
}

/* Returns -1 with errno. */
IBV_OFED_NO_SUCCESSOR("providers read the environment of the process: use setenv")
static inline int ibv_exp_use_priv_env(struct ibv_context *context)
{
	(void)context;
	errno = ENOSYS;
	return -1;
}

#ifdef __cplusplus
}
#endif

#endif
