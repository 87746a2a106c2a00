/*
 * Behaviour that the kernel and Soft-RoCE define: which attributes apply, what completions and limits report.
 */
#include <fcntl.h>

#include "check.h"

/* Sets every attribute that RC needs, as programs do for all connected services. */
static int connect_as_rc(struct rig *rig, struct ibv_qp *qp, uint32_t dest)
{
	struct ibv_qp_attr attr = rtr_attr(rig, dest);
	int error = to_init(qp);

	error = error ?: ibv_modify_qp(qp, &attr, RTR_MASK);
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 3, .rnr_retry = 3, .max_rd_atomic = 4
	};
	return error ?: ibv_modify_qp(qp, &attr, RTS_MASK);
}

/* The kernel ignores the attributes of the half that an XRC QP does not have; perftest relies on it. */
static void xrc_attributes(struct rig *rig)
{
	struct ibv_xrcd *xrcd = KEEP(open_domain(rig, -1, O_CREAT));
	struct ibv_qp_init_attr_ex init = { .qp_type = IBV_QPT_XRC_RECV,
					    .xrcd = xrcd,
					    .comp_mask = IBV_QP_INIT_ATTR_XRCD };
	struct ibv_qp *send = make_qp(rig, IBV_QPT_XRC_SEND, 0, NULL), *recv;
	struct ibv_qp *uc = make_qp(rig, IBV_QPT_UC, 0, NULL);

	NEED(xrcd && (recv = KEEP(ibv_create_qp_ex(rig->context, &init))));
	CHECK(connect_as_rc(rig, send, recv->qp_num) == 0);
	CHECK(connect_as_rc(rig, recv, send->qp_num) == 0);
	CHECK(connect_as_rc(rig, uc, uc->qp_num) == EINVAL);
}

/* A receive of an SRQ belongs to the SRQ's protection domain, whatever the QP's is. */
static void domain_of_shared_receives(struct rig *rig)
{
	struct ibv_srq_init_attr init = { .attr = { 4, 1, 0 } };
	struct ibv_pd *other = KEEP(ibv_alloc_pd(rig->context));
	struct ibv_srq *srq = KEEP(ibv_create_srq(other, &init));
	struct ibv_mr *mr = KEEP(ibv_reg_mr(other, rig->buf, SIZE, IBV_ACCESS_LOCAL_WRITE));
	struct ibv_recv_wr *bad, wr = { .wr_id = 3, .num_sge = 1 };

	NEED(other && srq && mr);
	for (int own = 0; own < 2; own++) {
		struct ibv_qp *a = make_qp(rig, IBV_QPT_RC, 0, NULL), *b = make_qp(rig, IBV_QPT_RC, 0, srq);
		struct ibv_sge sge = { (uintptr_t)rig->buf + 4096, 3000, own ? rig->mr->lkey : mr->lkey };
		int received = 0;

		wr.sg_list = &sge;
		join(rig, a, b);
		CHECK(ibv_post_srq_recv(srq, &wr, &bad) == 0);
		/* The message has several packets, so that the later ones are checked too. */
		CHECK(post(a, rig, IBV_WR_SEND, 0, 3000, 0, 0) == 0);
		for (int i = 0; i < 2; i++) {
			struct ibv_wc wc = next_wc(rig->cq);

			if (wc.qp_num == b->qp_num) {
				CHECK(wc.wr_id == 3 && !received++);
				CHECK(wc.status == (own ? IBV_WC_LOC_PROT_ERR : IBV_WC_SUCCESS));
			}
		}
		CHECK(received == 1);
		if (own)
			CHECK(next_event(rig) == IBV_EVENT_QP_LAST_WQE_REACHED);
		CHECK(end(a) == 0 && end(b) == 0);
	}
}

/*
 * The receive that a WRITE with an invalid R_Key consumed completes with an error; the sender gets a remote
 * access error.
 */
static void refused_write_with_immediate(struct rig *rig)
{
	struct ibv_qp *a = make_qp(rig, IBV_QPT_RC, 0, NULL), *b = make_qp(rig, IBV_QPT_RC, 0, NULL);
	int seen = 0;

	join(rig, a, b);
	CHECK(post_recv(b, rig, 5, 0, 8) == 0);
	CHECK(post(a, rig, IBV_WR_RDMA_WRITE_WITH_IMM, 0, 8, 64, rig->mr->rkey ^ 0x5500) == 0);
	for (int i = 0; i < 2; i++) {
		struct ibv_wc wc = next_wc(rig->cq);

		seen |= wc.qp_num == a->qp_num ? 1 : 2;
		CHECK(wc.status == (wc.qp_num == a->qp_num ? IBV_WC_REM_ACCESS_ERR : IBV_WC_LOC_ACCESS_ERR));
		CHECK(wc.qp_num == a->qp_num || wc.wr_id == 5);
	}
	CHECK(seen == 3);
}

/* Setting an attribute while the send queue drains does not cancel the event. */
static void modified_while_draining(struct rig *rig)
{
	struct ibv_qp *a = make_qp(rig, IBV_QPT_RC, 0, NULL), *b = make_qp(rig, IBV_QPT_RC, 0, NULL);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1, .rnr_retry = 7 };
	unsigned long long before = counter("rcvd_rnr_err");
	struct ibv_qp_init_attr init;
	struct ibv_wc wc;

	join(rig, a, b);
	/* Without a receive the message waits, however long, so the queue is not drained. */
	CHECK(ibv_modify_qp(a, &attr, IBV_QP_STATE) == 0);
	CHECK(ibv_modify_qp(a, &attr, IBV_QP_RNR_RETRY) == 0);
	attr.qp_state = IBV_QPS_RTS;
	CHECK(ibv_modify_qp(a, &attr, IBV_QP_STATE) == 0);
	attr.qp_state = IBV_QPS_SQD;
	CHECK(post(a, rig, IBV_WR_SEND, 0, 8, 0, 0) == 0);
	/* A message that has not begun before SQD does not begin then. */
	for (int tries = 0; tries < 5000 && counter("rcvd_rnr_err") == before; tries++) {
		CHECK(ibv_poll_cq(rig->cq, 1, &wc) == 0);
		usleep(1000);
	}
	CHECK(ibv_modify_qp(a, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY) == 0);
	CHECK(ibv_query_qp(a, &attr, IBV_QP_STATE, &init) == 0 && attr.sq_draining);
	attr.min_rnr_timer = 5;
	CHECK(ibv_modify_qp(a, &attr, IBV_QP_MIN_RNR_TIMER) == 0);
	CHECK(post_recv(b, rig, 1, 64, 8) == 0);
	for (int i = 0; i < 2; i++)
		CHECK(next_wc(rig->cq).status == IBV_WC_SUCCESS);
	CHECK(next_event(rig) == IBV_EVENT_SQ_DRAINED);
	CHECK(ibv_query_qp(a, &attr, IBV_QP_STATE, &init) == 0 && !attr.sq_draining);
}

/* ibv_create_srq(3): the limit is ignored there. */
static void limit_at_creation(struct rig *rig)
{
	struct ibv_srq_init_attr init = { .attr = { 4, 1, 1000 } };
	struct ibv_srq *srq = KEEP(ibv_create_srq(rig->pd, &init));
	struct ibv_srq_attr attr;

	NEED(srq);
	CHECK(ibv_query_srq(srq, &attr) == 0 && attr.srq_limit == 0 && attr.max_wr >= 4);
}

/* Without a channel there is no event, and the CQ works as if it had not been armed. */
static void armed_without_channel(struct rig *rig)
{
	struct ibv_qp *qp = make_qp(rig, IBV_QPT_RC, 0, NULL);

	join(rig, qp, qp);
	for (int solicited = 0; solicited < 2; solicited++) {
		CHECK(ibv_req_notify_cq(rig->cq, solicited) == 0);
		CHECK(post(qp, rig, IBV_WR_RDMA_WRITE, 0, 8, 64, rig->mr->rkey) == 0);
		CHECK(next_wc(rig->cq).status == IBV_WC_SUCCESS);
	}
}

/* Any path MTU up to max_mtu is accepted, whatever the port's active MTU is, and reported as set. */
static void path_mtus(struct rig *rig)
{
	const int mask = RTR_MASK & ~(IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	struct ibv_qp_attr attr = rtr_attr(rig, 1);
	struct ibv_qp_init_attr init;

	for (int mtu = 0; mtu <= IBV_MTU_4096 + 1; mtu++) {
		struct ibv_qp *qp = make_qp(rig, IBV_QPT_UC, 0, NULL);
		bool valid = mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096;

		NEED(to_init(qp) == 0);
		attr.path_mtu = mtu;
		CHECK(ibv_modify_qp(qp, &attr, mask) == (valid ? 0 : EINVAL));
		if (valid) {
			struct ibv_qp_attr got;

			CHECK(ibv_query_qp(qp, &got, IBV_QP_PATH_MTU, &init) == 0);
			CHECK((int)got.path_mtu == mtu);
		}
		CHECK(end(qp) == 0);
	}
}

/* Every packet has a GRH, and rxe reports that for every receive. */
static void receive_flags(struct rig *rig)
{
	static const enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_UC };
	static const struct {
		enum ibv_wr_opcode op;
		unsigned flags;
	} ways[] = { { IBV_WR_SEND, IBV_WC_GRH },
		     { IBV_WR_SEND_WITH_IMM, IBV_WC_GRH | IBV_WC_WITH_IMM },
		     { IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WC_GRH | IBV_WC_WITH_IMM } };

	for (int type = 0; type < 2; type++) {
		struct ibv_qp *a = make_qp(rig, types[type], 0, NULL),
			      *b = make_qp(rig, types[type], 0, NULL);

		join(rig, a, b);
		for (int way = 0; way < 3; way++) {
			CHECK(post_recv(b, rig, 1, 64, 8) == 0);
			CHECK(post(a, rig, ways[way].op, 0, 8, 128, rig->mr->rkey) == 0);
			for (int i = 0; i < 2; i++) {
				struct ibv_wc wc = next_wc(rig->cq);

				CHECK(wc.status == IBV_WC_SUCCESS);
				if (wc.qp_num == b->qp_num)
					CHECK(wc.wc_flags == ways[way].flags);
			}
		}
		CHECK(end(a) == 0 && end(b) == 0);
	}
}

static void atomics(struct rig *rig)
{
	struct ibv_device_attr attr;

	CHECK(ibv_query_device(rig->context, &attr) == 0 && attr.atomic_cap == IBV_ATOMIC_HCA);
}

/*
 * A datagram to our own address at this index. Its service level shows which IP header it had, and a reply
 * reaches the sender.
 */
static void datagram_at(struct rig *rig, const struct ibv_gid_entry *entry)
{
	struct ibv_qp *a = make_qp(rig, IBV_QPT_UD, 0, NULL), *b = make_qp(rig, IBV_QPT_UD, 0, NULL);
	bool ipv4 = !memcmp(entry->gid.raw, "\0\0\0\0\0\0\0\0\0\0\xff\xff", 12);
	struct ibv_ah_attr attr = {
		.is_global = 1,
		.port_num = PORT,
		.grh = { .dgid = entry->gid, .sgid_index = entry->gid_index, .hop_limit = 9 }
	};
	struct ibv_grh *grh = (struct ibv_grh *)(rig->buf + 1000);
	struct ibv_ah *ah = KEEP(ibv_create_ah(rig->pd, &attr)), *back;
	struct ibv_wc wc = {};

	NEED(ah);
	join(rig, a, b);
	CHECK(post_recv(b, rig, 1, 1000, 48) == 0);
	CHECK(datagram(a, ah, b->qp_num, part(rig, 0, 8)) == 0);
	for (int i = 0; i < 2; i++) {
		struct ibv_wc one = next_wc(rig->cq);

		if (one.opcode == IBV_WC_RECV)
			wc = one;
	}
	CHECK(wc.status == IBV_WC_SUCCESS && wc.sl == (ipv4 ? 10 : 9));
	CHECK(ibv_init_ah_from_wc(rig->context, PORT, &wc, grh, &attr) == 0);
	CHECK(attr.grh.sgid_index == entry->gid_index && !memcmp(&attr.grh.dgid, &entry->gid, 16));
	NEED(back = KEEP(ibv_create_ah(rig->pd, &attr)));
	CHECK(post_recv(a, rig, 2, 1000, 48) == 0);
	CHECK(datagram(b, back, wc.src_qp, part(rig, 0, 8)) == 0);
	for (int i = 0; i < 2; i++)
		CHECK(next_wc(rig->cq).status == IBV_WC_SUCCESS);
}

static void datagrams(struct rig *rig)
{
	struct ibv_gid_entry entries[16];
	int n = ibv_query_gid_table(rig->context, entries, 16, 0);

	CHECK(n >= 2);
	for (int i = 0; i < n; i++)
		datagram_at(rig, &entries[i]);
}

const check_part kernel_parts[] = { xrc_attributes,
				    domain_of_shared_receives,
				    refused_write_with_immediate,
				    modified_while_draining,
				    limit_at_creation,
				    armed_without_channel,
				    path_mtus,
				    receive_flags,
				    atomics,
				    datagrams,
				    NULL };
