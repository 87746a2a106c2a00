/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Part of infiniband/ofed.h: the members that structs of verbs.h had in OFED and MLNX_OFED. verbs.h, which is
 * included next, adds them; all other members stay where they are.
 */
#ifndef INFINIBAND_OFED_MEMBERS_H
#define INFINIBAND_OFED_MEMBERS_H

#define __IBV_MORE_MEMBERS

/*
 * struct ibv_async_event. xrc_qp_num: with IBV_XRC_QP_EVENT_FLAG in event_type. dct: with
 * IBV_EXP_EVENT_DCT_*, which no provider of today reports.
 */
#define __IBV_MORE_IN_ASYNC_EVENT \
	uint32_t xrc_qp_num; \
	struct ibv_exp_dct *dct;

/* struct ibv_srq, only of type IBV_SRQT_XRC: the members that follow in struct verbs_srq of driver.h */
#define __IBV_MORE_IN_SRQ \
	uint32_t xrc_padding; \
	enum ibv_srq_type xrc_srq_type; \
	struct ibv_xrcd *xrc_domain; \
	struct ibv_cq *xrc_cq; \
	uint32_t xrc_srq_num;

/* struct ibv_qp_init_attr: only ibv_create_xrc_rcv_qp reads it */
#define __IBV_MORE_IN_QP_INIT_ATTR struct ibv_xrcd *xrc_domain;

/* struct ibv_send_wr */
#define __IBV_BESIDE_QP_TYPE(...) \
	__extension__ union { \
		__VA_ARGS__ \
		uint32_t xrc_remote_srq_num; \
	};

#endif
