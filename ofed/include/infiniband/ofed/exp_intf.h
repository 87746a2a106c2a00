/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Part of infiniband/ofed.h: ibv_exp_query_intf, tables of functions of the data path.
 *
 * The tables of QPs and work queues exist, over ibv_post_send, ibv_post_recv and ibv_post_wq_recv; they save
 * no time over those. send_pending posts at once, and send_flush does nothing. The table of CQs has no
 * successor: it reports an error without removing the completion, which ibv_poll_cq cannot do.
 */
#ifndef INFINIBAND_OFED_EXP_INTF_H
#define INFINIBAND_OFED_EXP_INTF_H

#ifdef __cplusplus
extern "C" {
#endif

enum ibv_exp_query_intf_flags {
	IBV_EXP_QUERY_INTF_FLAG_ENABLE_CHECKS = (1 << 0)
};

enum ibv_exp_intf_family {
	IBV_EXP_INTF_QP_BURST,
	IBV_EXP_INTF_CQ,
	IBV_EXP_INTF_WQ,
	IBV_EXP_INTF_RESERVED
};

enum ibv_exp_experimental_intf_family {
	IBV_EXP_EXPERIMENTAL_INTF_RESERVED
};

enum ibv_exp_intf_scope {
	IBV_EXP_INTF_GLOBAL,
	IBV_EXP_INTF_EXPERIMENTAL,
	IBV_EXP_INTF_VENDOR,
	IBV_EXP_INTF_VENDOR_EXPERIMENTAL
};

enum ibv_exp_query_intf_status {
	IBV_EXP_INTF_STAT_OK,
	IBV_EXP_INTF_STAT_VENDOR_NOT_SUPPORTED,
	IBV_EXP_INTF_STAT_INTF_NOT_SUPPORTED,
	IBV_EXP_INTF_STAT_VERSION_NOT_SUPPORTED,
	IBV_EXP_INTF_STAT_INVAL_PARARM,
	IBV_EXP_INTF_STAT_INVAL_OBJ_STATE,
	IBV_EXP_INTF_STAT_INVAL_OBJ,
	IBV_EXP_INTF_STAT_FLAGS_NOT_SUPPORTED,
	IBV_EXP_INTF_STAT_FAMILY_FLAGS_NOT_SUPPORTED
};

enum ibv_exp_query_intf_comp_mask {
	IBV_EXP_QUERY_INTF_RESERVED = (1 << 0)
};

struct ibv_exp_query_intf_params {
	uint32_t flags; /* enum ibv_exp_query_intf_flags */
	enum ibv_exp_intf_scope intf_scope;
	uint64_t vendor_guid;
	uint32_t intf; /* enum ibv_exp_intf_family */
	uint32_t intf_version;
	void *obj; /* the QP, CQ or WQ */
	void *family_params;
	uint32_t family_flags;
	uint32_t comp_mask; /* must be 0 */
};

enum ibv_exp_release_intf_comp_mask {
	IBV_EXP_RELEASE_INTF_RESERVED = (1 << 0)
};

struct ibv_exp_release_intf_params {
	uint32_t comp_mask; /* must be 0 */
};

/* family_flags of IBV_EXP_INTF_QP_BURST. No successor: both. */
enum ibv_exp_qp_burst_family_create_flags {
	IBV_EXP_QP_BURST_CREATE_DISABLE_ETH_LOOPBACK = (1 << 0),
	IBV_EXP_QP_BURST_CREATE_ENABLE_MULTI_PACKET_SEND_WR = (1 << 1)
};

/* flags of the send functions. No successor: TUNNEL. */
enum ibv_exp_qp_burst_family_flags {
	IBV_EXP_QP_BURST_SIGNALED = 1 << 0,
	IBV_EXP_QP_BURST_SOLICITED = 1 << 1,
	IBV_EXP_QP_BURST_IP_CSUM = 1 << 2,
	IBV_EXP_QP_BURST_TUNNEL = 1 << 3,
	IBV_EXP_QP_BURST_FENCE = 1 << 4
};

/* Functions that post sends to a QP, and receives. WRs have wr_id 0. */
struct ibv_exp_qp_burst_family {
	int (*send_pending)(struct ibv_qp *qp, uint64_t addr, uint32_t length, uint32_t lkey, uint32_t flags);
	int (*send_pending_inline)(struct ibv_qp *qp, void *addr, uint32_t length, uint32_t flags);
	int (*send_pending_sg_list)(struct ibv_qp *qp, struct ibv_sge *sg_list, uint32_t num, uint32_t flags);
	int (*send_flush)(struct ibv_qp *qp);
	int (*send_burst)(struct ibv_qp *qp, struct ibv_sge *msg_list, uint32_t num, uint32_t flags);
	int (*recv_burst)(struct ibv_qp *qp, struct ibv_sge *msg_list, uint32_t num);
};

/* Version 1. No successor: the functions that insert a VLAN tag, which answer ENOSYS. */
struct ibv_exp_qp_burst_family_v1 {
	int (*send_pending)(struct ibv_qp *qp, uint64_t addr, uint32_t length, uint32_t lkey, uint32_t flags);
	int (*send_pending_inline)(struct ibv_qp *qp, void *addr, uint32_t length, uint32_t flags);
	int (*send_pending_sg_list)(struct ibv_qp *qp, struct ibv_sge *sg_list, uint32_t num, uint32_t flags);
	int (*send_flush)(struct ibv_qp *qp);
	int (*send_burst)(struct ibv_qp *qp, struct ibv_sge *msg_list, uint32_t num, uint32_t flags);
	int (*recv_burst)(struct ibv_qp *qp, struct ibv_sge *msg_list, uint32_t num);
	int (*send_pending_vlan)(struct ibv_qp *qp, uint64_t addr, uint32_t length, uint32_t lkey,
				 uint32_t flags, uint16_t *vlan_tci);
	int (*send_pending_inline_vlan)(struct ibv_qp *qp, void *addr, uint32_t length, uint32_t flags,
					uint16_t *vlan_tci);
	int (*send_pending_sg_list_vlan)(struct ibv_qp *qp, struct ibv_sge *sg_list, uint32_t num,
					 uint32_t flags, uint16_t *vlan_tci);
};

/* Functions that post receives to a work queue. */
struct ibv_exp_wq_family {
	int (*recv_sg_list)(struct ibv_exp_wq *wq, struct ibv_sge *sg_list, uint32_t num_sg);
	int (*recv_burst)(struct ibv_exp_wq *wq, struct ibv_sge *msg_list, uint32_t num);
};

enum ibv_exp_cq_family_flags {
	IBV_EXP_CQ_RX_IP_CSUM_OK = 1 << 0,
	IBV_EXP_CQ_RX_TCP_UDP_CSUM_OK = 1 << 1,
	IBV_EXP_CQ_RX_IPV4_PACKET = 1 << 2,
	IBV_EXP_CQ_RX_IPV6_PACKET = 1 << 3,
	IBV_EXP_CQ_RX_TUNNEL_PACKET = 1 << 4,
	IBV_EXP_CQ_RX_OUTER_IP_CSUM_OK = 1 << 5,
	IBV_EXP_CQ_RX_OUTER_TCP_UDP_CSUM_OK = 1 << 6,
	IBV_EXP_CQ_RX_OUTER_IPV4_PACKET = 1 << 7,
	IBV_EXP_CQ_RX_OUTER_IPV6_PACKET = 1 << 8,
	IBV_EXP_CQ_RX_MULTI_PACKET_LAST_V1 = 1 << 9,
	IBV_EXP_CQ_RX_CVLAN_STRIPPED_V1 = 1 << 10,
	IBV_EXP_CQ_RX_TCP_PACKET = 1 << 11,
	IBV_EXP_CQ_RX_UDP_PACKET = 1 << 12,
	IBV_EXP_CQ_RX_WITH_TIMESTAMP = 1 << 13
};

/* Never returned; a program may name their members. */
struct ibv_exp_cq_family {
	int32_t (*poll_cnt)(struct ibv_cq *cq, uint32_t max);
	int32_t (*poll_length)(struct ibv_cq *cq, void *buf, uint32_t *inl);
	int32_t (*poll_length_flags)(struct ibv_cq *cq, void *buf, uint32_t *inl, uint32_t *flags);
};

struct ibv_exp_cq_family_v1 {
	int32_t (*poll_cnt)(struct ibv_cq *cq, uint32_t max);
	int32_t (*poll_length)(struct ibv_cq *cq, void *buf, uint32_t *inl);
	int32_t (*poll_length_flags)(struct ibv_cq *cq, void *buf, uint32_t *inl, uint32_t *flags);
	int32_t (*poll_length_flags_mp_rq)(struct ibv_cq *cq, uint32_t *offset, uint32_t *flags);
	int32_t (*poll_length_flags_cvlan)(struct ibv_cq *cq, void *buf, uint32_t *inl, uint32_t *flags,
					   uint16_t *vlan_tci);
	int32_t (*poll_length_flags_mp_rq_cvlan)(struct ibv_cq *cq, uint32_t *offset, uint32_t *flags,
						 uint16_t *vlan_tci);
	int32_t (*poll_length_flags_ts)(struct ibv_cq *cq, void *buf, uint32_t *inl, uint32_t *flags,
					uint64_t *timestamp);
	int32_t (*poll_length_flags_mp_rq_ts)(struct ibv_cq *cq, uint32_t *offset, uint32_t *flags,
					      uint64_t *timestamp);
	int32_t (*poll_length_flags_cvlan_ts)(struct ibv_cq *cq, void *buf, uint32_t *inl, uint32_t *flags,
					      uint16_t *vlan_tci, uint64_t *timestamp);
	int32_t (*poll_length_flags_mp_rq_cvlan_ts)(struct ibv_cq *cq, uint32_t *offset, uint32_t *flags,
						    uint16_t *vlan_tci, uint64_t *timestamp);
};

/* Today's send flags in *now. Returns 0 or ENOSYS. */
static inline int ibv_ofed_burst_flags(uint32_t flags, unsigned int *now)
{
	*now = 0;
	if (flags & IBV_EXP_QP_BURST_SIGNALED)
		*now |= IBV_SEND_SIGNALED;
	if (flags & IBV_EXP_QP_BURST_SOLICITED)
		*now |= IBV_SEND_SOLICITED;
	if (flags & IBV_EXP_QP_BURST_IP_CSUM)
		*now |= IBV_SEND_IP_CSUM;
	if (flags & IBV_EXP_QP_BURST_FENCE)
		*now |= IBV_SEND_FENCE;
	return flags & ~(uint32_t)0x1f || flags & IBV_EXP_QP_BURST_TUNNEL ? ENOSYS : 0;
}

static inline int ibv_ofed_send_sg_list(struct ibv_qp *qp, struct ibv_sge *sg_list, uint32_t num,
					uint32_t flags)
{
	struct ibv_send_wr wr, *bad;
	unsigned int send_flags;

	if (ibv_ofed_burst_flags(flags, &send_flags))
		return ENOSYS;
	memset(&wr, 0, sizeof(wr));
	wr.sg_list = sg_list;
	wr.num_sge = (int)num;
	wr.opcode = IBV_WR_SEND;
	wr.send_flags = send_flags;
	return ibv_post_send(qp, &wr, &bad);
}

static inline int ibv_ofed_send_pending(struct ibv_qp *qp, uint64_t addr, uint32_t length, uint32_t lkey,
					uint32_t flags)
{
	struct ibv_sge sge;

	sge.addr = addr;
	sge.length = length;
	sge.lkey = lkey;
	return ibv_ofed_send_sg_list(qp, &sge, 1, flags);
}

static inline int ibv_ofed_send_pending_inline(struct ibv_qp *qp, void *addr, uint32_t length, uint32_t flags)
{
	struct ibv_send_wr wr, *bad;
	unsigned int send_flags;
	struct ibv_sge sge;

	if (ibv_ofed_burst_flags(flags, &send_flags))
		return ENOSYS;
	sge.addr = (uintptr_t)addr;
	sge.length = length;
	sge.lkey = 0;
	memset(&wr, 0, sizeof(wr));
	wr.sg_list = &sge;
	wr.num_sge = 1;
	wr.opcode = IBV_WR_SEND;
	wr.send_flags = send_flags | IBV_SEND_INLINE;
	return ibv_post_send(qp, &wr, &bad);
}

static inline int ibv_ofed_send_flush(struct ibv_qp *qp)
{
	(void)qp;
	return 0;
}

static inline int ibv_ofed_send_burst(struct ibv_qp *qp, struct ibv_sge *msg_list, uint32_t num,
				      uint32_t flags)
{
	uint32_t i;
	int error = 0;

	for (i = 0; i < num && !error; i++)
		error = ibv_ofed_send_sg_list(qp, &msg_list[i], 1, flags);
	return error;
}

static inline int ibv_ofed_recv_burst(struct ibv_qp *qp, struct ibv_sge *msg_list, uint32_t num)
{
	struct ibv_recv_wr wr, *bad;
	uint32_t i;
	int error = 0;

	memset(&wr, 0, sizeof(wr));
	wr.num_sge = 1;
	for (i = 0; i < num && !error; i++) {
		wr.sg_list = &msg_list[i];
		error = ibv_post_recv(qp, &wr, &bad);
	}
	return error;
}

static inline int ibv_ofed_send_vlan(struct ibv_qp *qp, uint64_t addr, uint32_t length, uint32_t lkey,
				     uint32_t flags, uint16_t *vlan_tci)
{
	(void)qp, (void)addr, (void)length, (void)lkey, (void)flags, (void)vlan_tci;
	return ENOSYS;
}

static inline int ibv_ofed_send_inline_vlan(struct ibv_qp *qp, void *addr, uint32_t length, uint32_t flags,
					    uint16_t *vlan_tci)
{
	(void)qp, (void)addr, (void)length, (void)flags, (void)vlan_tci;
	return ENOSYS;
}

static inline int ibv_ofed_send_sg_list_vlan(struct ibv_qp *qp, struct ibv_sge *sg_list, uint32_t num,
					     uint32_t flags, uint16_t *vlan_tci)
{
	(void)qp, (void)sg_list, (void)num, (void)flags, (void)vlan_tci;
	return ENOSYS;
}

static inline int ibv_ofed_wq_recv_sg_list(struct ibv_exp_wq *wq, struct ibv_sge *sg_list, uint32_t num_sg)
{
	struct ibv_recv_wr wr, *bad;

	memset(&wr, 0, sizeof(wr));
	wr.sg_list = sg_list;
	wr.num_sge = (int)num_sg;
	return ibv_post_wq_recv(wq->wq, &wr, &bad);
}

static inline int ibv_ofed_wq_recv_burst(struct ibv_exp_wq *wq, struct ibv_sge *msg_list, uint32_t num)
{
	uint32_t i;
	int error = 0;

	for (i = 0; i < num && !error; i++)
		error = ibv_ofed_wq_recv_sg_list(wq, &msg_list[i], 1);
	return error;
}

static inline void *ibv_ofed_intf(uint32_t family, uint32_t version)
{
	/* version 1 begins with the functions of version 0 */
	static struct ibv_exp_qp_burst_family_v1 qp_burst = {
		ibv_ofed_send_pending, ibv_ofed_send_pending_inline, ibv_ofed_send_sg_list,
		ibv_ofed_send_flush,   ibv_ofed_send_burst,          ibv_ofed_recv_burst,
		ibv_ofed_send_vlan,    ibv_ofed_send_inline_vlan,    ibv_ofed_send_sg_list_vlan,
	};
	static struct ibv_exp_wq_family wq = { ibv_ofed_wq_recv_sg_list, ibv_ofed_wq_recv_burst };

	if (family == IBV_EXP_INTF_QP_BURST && version <= 1)
		return &qp_burst;
	return family == IBV_EXP_INTF_WQ && !version ? (void *)&wq : NULL;
}

/* A table of functions, valid as long as the program runs. NULL with *status if there is none. */
static inline void *ibv_exp_query_intf(struct ibv_context *context, struct ibv_exp_query_intf_params *params,
				       enum ibv_exp_query_intf_status *status)
{
	enum ibv_exp_query_intf_status answer = IBV_EXP_INTF_STAT_OK;
	void *intf = NULL;

	(void)context;
	if (params->comp_mask) {
		answer = IBV_EXP_INTF_STAT_INVAL_PARARM;
	} else if (params->intf_scope != IBV_EXP_INTF_GLOBAL) {
		answer = IBV_EXP_INTF_STAT_VENDOR_NOT_SUPPORTED;
	} else if (params->family_flags) {
		answer = IBV_EXP_INTF_STAT_FAMILY_FLAGS_NOT_SUPPORTED;
	} else {
		intf = ibv_ofed_intf(params->intf, params->intf_version);
		if (!intf)
			answer = ibv_ofed_intf(params->intf, 0) ? IBV_EXP_INTF_STAT_VERSION_NOT_SUPPORTED
								: IBV_EXP_INTF_STAT_INTF_NOT_SUPPORTED;
	}
	if (status)
		*status = answer;
	if (!intf)
		errno = answer == IBV_EXP_INTF_STAT_INVAL_PARARM ? EINVAL : ENOSYS;
	return intf;
}

static inline int ibv_exp_release_intf(struct ibv_context *context, void *intf,
				       struct ibv_exp_release_intf_params *params)
{
	(void)context, (void)intf;
	return params && params->comp_mask ? EINVAL : 0;
}

#ifdef __cplusplus
}
#endif

#endif
