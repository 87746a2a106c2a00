/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Part of infiniband/ofed.h: erasure coding by the device, which has no successor. See exp_none.h.
 */
#ifndef INFINIBAND_OFED_EXP_EC_H
#define INFINIBAND_OFED_EXP_EC_H

#ifdef __cplusplus
extern "C" {
#endif

enum ibv_exp_ec_calc_attr_comp_mask {
	IBV_EXP_EC_CALC_ATTR_MAX_INFLIGHT = (1 << 0),
	IBV_EXP_EC_CALC_ATTR_K = (1 << 1),
	IBV_EXP_EC_CALC_ATTR_M = (1 << 2),
	IBV_EXP_EC_CALC_ATTR_W = (1 << 3),
	IBV_EXP_EC_CALC_ATTR_MAX_DATA_SGE = (1 << 4),
	IBV_EXP_EC_CALC_ATTR_MAX_CODE_SGE = (1 << 5),
	IBV_EXP_EC_CALC_ATTR_ENCODE_MAT = (1 << 6),
	IBV_EXP_EC_CALC_ATTR_AFFINITY = (1 << 7),
	IBV_EXP_EC_CALC_ATTR_POLLING = (1 << 8),
	IBV_EXP_EC_CALC_INIT_ATTR_RESERVED = (1 << 9)
};

struct ibv_exp_ec_calc_init_attr {
	uint32_t comp_mask;
	uint32_t max_inflight_calcs;
	int k;
	int m;
	int w;
	int max_data_sge;
	int max_code_sge;
	uint8_t *encode_matrix;
	int affinity_hint;
	int polling;
};

enum ibv_exp_ec_status {
	IBV_EXP_EC_CALC_SUCCESS,
	IBV_EXP_EC_CALC_FAIL
};

struct ibv_exp_ec_comp {
	void (*done)(struct ibv_exp_ec_comp *comp);
	enum ibv_exp_ec_status status;
};

struct ibv_exp_ec_calc {
	struct ibv_pd *pd;
};

struct ibv_exp_ec_mem {
	struct ibv_sge *data_blocks;
	int num_data_sge;
	struct ibv_sge *code_blocks;
	int num_code_sge;
	int block_size;
};

struct ibv_exp_ec_stripe {
	struct ibv_qp *qp;
	struct ibv_send_wr *wr;
};

#define IBV_OFED_EC IBV_OFED_NO_SUCCESSOR("erasure coding: calculate it on the CPU")

IBV_OFED_EC static inline struct ibv_exp_ec_calc *ibv_exp_alloc_ec_calc(
	struct ibv_pd *pd, struct ibv_exp_ec_calc_init_attr *attr)
{
	(void)pd, (void)attr;
	return (struct ibv_exp_ec_calc *)ibv_ofed_null(ENOSYS);
}

IBV_OFED_EC static inline void ibv_exp_dealloc_ec_calc(struct ibv_exp_ec_calc *calc)
{
	(void)calc;
	errno = ENOSYS;
}

IBV_OFED_EC static inline int ibv_exp_ec_encode_async(struct ibv_exp_ec_calc *calc,
						      struct ibv_exp_ec_mem *ec_mem,
						      struct ibv_exp_ec_comp *ec_comp)
{
	(void)calc, (void)ec_mem, (void)ec_comp;
	return ENOSYS;
}

IBV_OFED_EC static inline int ibv_exp_ec_encode_sync(struct ibv_exp_ec_calc *calc,
						     struct ibv_exp_ec_mem *ec_mem)
{
	(void)calc, (void)ec_mem;
	return ENOSYS;
}

IBV_OFED_EC static inline int ibv_exp_ec_decode_async(struct ibv_exp_ec_calc *calc,
						      struct ibv_exp_ec_mem *ec_mem, uint8_t *erasures,
						      uint8_t *decode_matrix, struct ibv_exp_ec_comp *ec_comp)
{
	(void)calc, (void)ec_mem, (void)erasures, (void)decode_matrix, (void)ec_comp;
	return ENOSYS;
}

IBV_OFED_EC static inline int ibv_exp_ec_decode_sync(struct ibv_exp_ec_calc *calc,
						     struct ibv_exp_ec_mem *ec_mem, uint8_t *erasures,
						     uint8_t *decode_matrix)
{
	(void)calc, (void)ec_mem, (void)erasures, (void)decode_matrix;
	return ENOSYS;
}

IBV_OFED_EC static inline int ibv_exp_ec_update_async(struct ibv_exp_ec_calc *calc,
						      struct ibv_exp_ec_mem *ec_mem, uint8_t *data_updates,
						      uint8_t *code_updates, struct ibv_exp_ec_comp *ec_comp)
{
	(void)calc, (void)ec_mem, (void)data_updates, (void)code_updates, (void)ec_comp;
	return ENOSYS;
}

IBV_OFED_EC static inline int ibv_exp_ec_update_sync(struct ibv_exp_ec_calc *calc,
						     struct ibv_exp_ec_mem *ec_mem, uint8_t *data_updates,
						     uint8_t *code_updates)
{
	(void)calc, (void)ec_mem, (void)data_updates, (void)code_updates;
	return ENOSYS;
}

IBV_OFED_EC static inline int ibv_exp_ec_poll(struct ibv_exp_ec_calc *calc, int n)
{
	(void)calc, (void)n;
	return -ENOSYS;
}

IBV_OFED_EC static inline int ibv_exp_ec_encode_send(struct ibv_exp_ec_calc *calc,
						     struct ibv_exp_ec_mem *ec_mem,
						     struct ibv_exp_ec_stripe *data_stripes,
						     struct ibv_exp_ec_stripe *code_stripes)
{
	(void)calc, (void)ec_mem, (void)data_stripes, (void)code_stripes;
	return ENOSYS;
}

#ifdef __cplusplus
}
#endif

#endif
