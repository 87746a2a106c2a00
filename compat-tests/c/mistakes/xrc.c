/* Objects of XRC: a domain with an SRQ, and two connected queue pairs. */
#include "mistakes.h"

#include <fcntl.h>

struct domain new_domain(struct rig *rig)
{
	struct ibv_xrcd_init_attr init = { .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
					   .fd = -1,
					   .oflags = O_CREAT };
	struct domain domain = { .xrcd = KEEP(ibv_open_xrcd(rig->context, &init)) };
	struct ibv_srq_init_attr_ex srq = { .attr = { .max_wr = 8, .max_sge = 1 },
					    .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
							 IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
					    .srq_type = IBV_SRQT_XRC,
					    .pd = rig->pd,
					    .xrcd = domain.xrcd,
					    .cq = rig->cq };

	NEED(domain.xrcd && (domain.srq = KEEP(ibv_create_srq_ex(rig->context, &srq))));
	NEED(ibv_get_srq_num(domain.srq, &domain.number) == 0);
	return domain;
}

static void xrc_link(struct rig *rig, struct ibv_qp *qp, uint32_t dest)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR,
				    .path_mtu = IBV_MTU_1024,
				    .dest_qp_num = dest,
				    .max_dest_rd_atomic = 1,
				    .min_rnr_timer = 1,
				    .ah_attr = {
					    .is_global = 1,
					    .port_num = PORT,
					    .grh = { .dgid = rig->gid, .sgid_index = rig->gid_index } } };
	bool sends = qp->qp_type == IBV_QPT_XRC_SEND;
	int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;

	NEED(to_init(qp) == 0);
	NEED(ibv_modify_qp(qp, &attr,
			   mask | (sends ? 0 : IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)) == 0);
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .timeout = 15, .retry_cnt = 3, .rnr_retry = 3 };
	if (sends)
		NEED(ibv_modify_qp(qp, &attr,
				   IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
					   IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC) == 0);
}

struct ends xrc_ends(struct rig *rig, struct domain domain)
{
	struct ibv_qp_init_attr_ex send = { .send_cq = rig->cq,
					    .cap = { 8, 0, 1, 0, 0 },
					    .qp_type = IBV_QPT_XRC_SEND,
					    .sq_sig_all = 1,
					    .pd = rig->pd,
					    .comp_mask = IBV_QP_INIT_ATTR_PD };
	struct ibv_qp_init_attr_ex recv = { .qp_type = IBV_QPT_XRC_RECV,
					    .xrcd = domain.xrcd,
					    .comp_mask = IBV_QP_INIT_ATTR_XRCD };
	struct ends ends = { KEEP(ibv_create_qp_ex(rig->context, &send)),
			     KEEP(ibv_create_qp_ex(rig->context, &recv)) };

	NEED(ends.a && ends.b);
	xrc_link(rig, ends.b, ends.a->qp_num);
	xrc_link(rig, ends.a, ends.b->qp_num);
	return ends;
}
