/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A program of OFED 1.3 to 1.5: XRC domains, receive QPs known by number, events. It includes verbs.h only,
 * and compiles with "-include infiniband/ofed.h".
 *
 * It connects a send QP to a receive QP of the same process, on device $DEVICE with GID index $GID_INDEX.
 */
#include <fcntl.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#include "check.h"

#define SIZE 4096

struct side {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_comp_channel *channel;
	struct ibv_cq *send_cq, *recv_cq;
	struct ibv_xrc_domain *xrc_domain;
	struct ibv_srq *srq;
	struct ibv_qp *send_qp;
	uint32_t rcv_qpn;
	int file;
	uint8_t gid_index;
	char *buffer;
};

/* Programs have members of their own with these names. */
struct connection {
	uint32_t xrc_remote_srq_num;
	struct ibv_xrc_domain *xrc_domain;
};

static void open_side(struct side *side)
{
	const char *name = getenv("DEVICE"), *index = getenv("GID_INDEX");
	char path[] = "/tmp/ofed-xrc-XXXXXX";
	struct ibv_device **list = ibv_get_device_list(NULL), **device = list;

	CHECK(list);
	while (*device && name && strcmp(ibv_get_device_name(*device), name))
		device++;
	CHECK(*device);
	side->context = ibv_open_device(*device);
	CHECK(side->context);
	ibv_free_device_list(list);
	side->gid_index = (uint8_t)(index ? atoi(index) : 0);
	side->file = mkstemp(path);
	CHECK(side->file >= 0);
	unlink(path);
	side->pd = ibv_alloc_pd(side->context);
	side->channel = ibv_create_comp_channel(side->context);
	side->send_cq = ibv_create_cq(side->context, 16, NULL, NULL, 0);
	side->recv_cq = ibv_create_cq(side->context, 16, side, side->channel, 0);
	CHECK(side->pd && side->channel && side->send_cq && side->recv_cq);
	side->buffer = (char *)calloc(2, SIZE);
	side->mr = ibv_reg_mr(side->pd, side->buffer, 2 * SIZE,
			      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	CHECK(side->mr);
}

static void create_queues(struct side *side)
{
	struct ibv_srq_init_attr srq_attr;
	struct ibv_qp_init_attr qp_attr;

	side->xrc_domain = ibv_open_xrc_domain(side->context, side->file, O_CREAT);
	CHECK(side->xrc_domain);
	CHECK(side->xrc_domain->context == side->context);

	memset(&srq_attr, 0, sizeof(srq_attr));
	srq_attr.srq_context = side;
	srq_attr.attr.max_wr = 8;
	srq_attr.attr.max_sge = 1;
	side->srq = ibv_create_xrc_srq(side->pd, side->xrc_domain, side->recv_cq, &srq_attr);
	CHECK(side->srq);
	CHECK(side->srq->xrc_srq_num != 0);
	CHECK(side->srq->xrc_domain == side->xrc_domain);
	CHECK(side->srq->xrc_cq == side->recv_cq);
	CHECK(side->srq->srq_context == side);
	CHECK(srq_attr.attr.max_wr >= 8);

	/* only the domain counts */
	memset(&qp_attr, 0xff, sizeof(qp_attr));
	qp_attr.xrc_domain = side->xrc_domain;
	CHECK_IS(ibv_create_xrc_rcv_qp(&qp_attr, &side->rcv_qpn), 0);
	qp_attr.xrc_domain = NULL;
	CHECK_IS(ibv_create_xrc_rcv_qp(&qp_attr, &side->rcv_qpn), EINVAL);

	memset(&qp_attr, 0, sizeof(qp_attr));
	qp_attr.qp_type = IBV_QPT_XRC;
	qp_attr.send_cq = side->send_cq;
	qp_attr.recv_cq = side->recv_cq;
	qp_attr.cap.max_send_wr = 8;
	qp_attr.cap.max_send_sge = 1;
	qp_attr.sq_sig_all = 1;
	qp_attr.xrc_domain = side->xrc_domain;
	side->send_qp = ibv_create_qp(side->pd, &qp_attr);
	CHECK(side->send_qp);
	CHECK_IS(side->send_qp->qp_type, IBV_QPT_XRC);
	CHECK(qp_attr.xrc_domain == side->xrc_domain);
}

static void fill_path(struct side *side, struct ibv_qp_attr *attr, uint32_t number)
{
	attr->qp_state = IBV_QPS_RTR;
	attr->path_mtu = IBV_MTU_1024;
	attr->dest_qp_num = number;
	attr->rq_psn = 77;
	attr->max_dest_rd_atomic = 1;
	attr->min_rnr_timer = 12;
	attr->ah_attr.is_global = 1;
	attr->ah_attr.port_num = 1;
	attr->ah_attr.grh.hop_limit = 1;
	attr->ah_attr.grh.sgid_index = side->gid_index;
	CHECK_IS(ibv_query_gid(side->context, 1, side->gid_index, &attr->ah_attr.grh.dgid), 0);
}

static void connect_qps(struct side *side)
{
	const int to_init = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
	const int to_rtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	struct ibv_qp_init_attr init_attr;
	struct ibv_qp_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.qp_state = IBV_QPS_INIT;
	attr.port_num = 1;
	attr.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	CHECK_IS(ibv_modify_xrc_rcv_qp(side->xrc_domain, side->rcv_qpn, &attr, to_init), 0);
	fill_path(side, &attr, side->send_qp->qp_num);
	CHECK_IS(ibv_modify_xrc_rcv_qp(side->xrc_domain, side->rcv_qpn, &attr, to_rtr), 0);

	memset(&attr, 0, sizeof(attr));
	CHECK_IS(ibv_query_xrc_rcv_qp(side->xrc_domain, side->rcv_qpn, &attr, IBV_QP_STATE | IBV_QP_DEST_QPN,
				      &init_attr),
		 0);
	CHECK_IS(attr.qp_state, IBV_QPS_RTR);
	CHECK_IS(attr.dest_qp_num, side->send_qp->qp_num);
	CHECK(init_attr.xrc_domain == side->xrc_domain);

	memset(&attr, 0, sizeof(attr));
	attr.qp_state = IBV_QPS_INIT;
	attr.port_num = 1;
	CHECK_IS(ibv_modify_qp(side->send_qp, &attr, to_init), 0);
	fill_path(side, &attr, side->rcv_qpn);
	CHECK_IS(ibv_modify_qp(side->send_qp, &attr, to_rtr), 0);
	attr.qp_state = IBV_QPS_RTS;
	attr.sq_psn = 77;
	attr.timeout = 14;
	attr.retry_cnt = 7;
	attr.rnr_retry = 7;
	attr.max_rd_atomic = 1;
	CHECK_IS(ibv_modify_qp(side->send_qp, &attr,
			       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				       IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
		 0);
}

static void poll_one(struct ibv_cq *cq, struct ibv_wc *wc)
{
	int n, turns = 0;

	while ((n = ibv_poll_cq(cq, 1, wc)) == 0 && turns++ < 5000)
		usleep(1000);
	CHECK_IS(n, 1);
}

/* A message to the SRQ, whose receive raises a completion event. */
static void send_message(struct side *side)
{
	struct connection connection = { side->srq->xrc_srq_num, side->xrc_domain };
	struct ibv_recv_wr recv_wr, *bad_recv;
	struct ibv_send_wr wr, *bad;
	struct ibv_sge sge;
	struct ibv_cq *cq;
	struct ibv_wc wc;
	void *context;

	CHECK_IS(ibv_req_notify_cq(side->recv_cq, 0), 0);
	strcpy(side->buffer, "to an SRQ by its number");
	memset(&recv_wr, 0, sizeof(recv_wr));
	sge.addr = (uintptr_t)side->buffer + SIZE;
	sge.length = SIZE;
	sge.lkey = side->mr->lkey;
	recv_wr.wr_id = 1;
	recv_wr.sg_list = &sge;
	recv_wr.num_sge = 1;
	CHECK_IS(ibv_post_srq_recv(side->srq, &recv_wr, &bad_recv), 0);

	memset(&wr, 0, sizeof(wr));
	sge.addr = (uintptr_t)side->buffer;
	sge.length = 64;
	wr.wr_id = 2;
	wr.sg_list = &sge;
	wr.num_sge = 1;
	wr.opcode = IBV_WR_SEND_WITH_IMM;
	wr.imm_data = 0x01020304;
	wr.xrc_remote_srq_num = connection.xrc_remote_srq_num;
	CHECK_IS(ibv_post_send(side->send_qp, &wr, &bad), 0);

	poll_one(side->send_cq, &wc);
	CHECK_IS(wc.status, IBV_WC_SUCCESS);
	CHECK_IS(wc.wr_id, 2);
	CHECK_IS(ibv_get_cq_event(side->channel, &cq, &context), 0);
	CHECK(cq == side->recv_cq && context == side);
	ibv_ack_cq_events(cq, 1);
	poll_one(side->recv_cq, &wc);
	CHECK_IS(wc.status, IBV_WC_SUCCESS);
	CHECK_IS(wc.wr_id, 1);
	CHECK_IS(wc.byte_len, 64);
	CHECK_IS(wc.imm_data, 0x01020304);
	CHECK(!strcmp(side->buffer + SIZE, "to an SRQ by its number"));
}

/* Registrations count once per process; another handle of the same domain does as well. */
static void registrations(struct side *side)
{
	struct ibv_xrc_domain *again = ibv_open_xrc_domain(side->context, side->file, 0);
	struct ibv_xrc_domain *other = ibv_open_xrc_domain(side->context, -1, O_CREAT);
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init_attr;

	CHECK(again && other);
	CHECK_IS(ibv_reg_xrc_rcv_qp(side->xrc_domain, side->rcv_qpn), 0);
	CHECK_IS(ibv_reg_xrc_rcv_qp(again, side->rcv_qpn), 0);
	CHECK_IS(ibv_reg_xrc_rcv_qp(other, side->rcv_qpn), EINVAL);
	CHECK_IS(ibv_reg_xrc_rcv_qp(side->xrc_domain, side->send_qp->qp_num), EINVAL);
	CHECK_IS(ibv_unreg_xrc_rcv_qp(other, side->rcv_qpn), EINVAL);
	CHECK_IS(ibv_unreg_xrc_rcv_qp(side->xrc_domain, side->rcv_qpn ^ 1), EINVAL);
	CHECK_IS(ibv_query_xrc_rcv_qp(again, side->rcv_qpn, &attr, IBV_QP_STATE, &init_attr), 0);
	CHECK_IS(ibv_modify_xrc_rcv_qp(other, side->rcv_qpn, &attr, IBV_QP_STATE), EINVAL);
	CHECK_IS(ibv_close_xrc_domain(other), 0);
	CHECK_IS(ibv_close_xrc_domain(again), 0);
	CHECK_IS(ibv_close_xrc_domain(side->xrc_domain), EBUSY);
}

/* A write with a wrong R_Key breaks the receive QP, whose event has its number. */
static void asynchronous_event(struct side *side)
{
	struct ibv_async_event event;
	struct ibv_send_wr wr, *bad;
	struct ibv_sge sge;
	struct ibv_wc wc;

	memset(&wr, 0, sizeof(wr));
	sge.addr = (uintptr_t)side->buffer;
	sge.length = 64;
	sge.lkey = side->mr->lkey;
	wr.sg_list = &sge;
	wr.num_sge = 1;
	wr.opcode = IBV_WR_RDMA_WRITE;
	wr.wr.rdma.remote_addr = sge.addr;
	wr.wr.rdma.rkey = side->mr->rkey ^ 0x5500;
	wr.xrc_remote_srq_num = side->srq->xrc_srq_num;
	CHECK_IS(ibv_post_send(side->send_qp, &wr, &bad), 0);
	poll_one(side->send_cq, &wc);
	CHECK_IS(wc.status, IBV_WC_REM_ACCESS_ERR);
	do {
		CHECK_IS(ibv_get_async_event(side->context, &event), 0);
		ibv_ack_async_event(&event);
	} while (((unsigned int)event.event_type & ~IBV_XRC_QP_EVENT_FLAG) == IBV_EVENT_COMM_EST);
	CHECK_IS((unsigned int)event.event_type, IBV_EVENT_QP_ACCESS_ERR | IBV_XRC_QP_EVENT_FLAG);
	CHECK_IS(event.element.xrc_qp_num, side->rcv_qpn);
}

static void close_side(struct side *side)
{
	CHECK_IS(ibv_destroy_qp(side->send_qp), 0);
	CHECK_IS(ibv_unreg_xrc_rcv_qp(side->xrc_domain, side->rcv_qpn), 0);
	/* the last registration has destroyed it */
	CHECK_IS(ibv_unreg_xrc_rcv_qp(side->xrc_domain, side->rcv_qpn), EINVAL);
	CHECK_IS(ibv_reg_xrc_rcv_qp(side->xrc_domain, side->rcv_qpn), EINVAL);
	CHECK_IS(ibv_destroy_srq(side->srq), 0);
	CHECK_IS(ibv_close_xrc_domain(side->xrc_domain), 0);
	CHECK_IS(ibv_dereg_mr(side->mr), 0);
	CHECK_IS(ibv_destroy_cq(side->send_cq), 0);
	CHECK_IS(ibv_destroy_cq(side->recv_cq), 0);
	CHECK_IS(ibv_destroy_comp_channel(side->channel), 0);
	CHECK_IS(ibv_dealloc_pd(side->pd), 0);
	CHECK_IS(ibv_close_device(side->context), 0);
	free(side->buffer);
	close(side->file);
}

int main(void)
{
	struct side side;

	memset(&side, 0, sizeof(side));
	open_side(&side);
	create_queues(&side);
	connect_qps(&side);
	send_message(&side);
	registrations(&side);
	asynchronous_event(&side);
	close_side(&side);
	printf("xrc: %d checks passed\n", checks);
	return 0;
}
