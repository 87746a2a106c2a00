/* Extended work requests, built by function calls (ibv_wr_post(3)). */
#include "check.h"

#define OPS \
	(IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_SEND | \
	 IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | \
	 IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV)

static void built(struct rig *rig)
{
	struct ibv_qp *qp = make_qp(rig, IBV_QPT_RC, OPS, NULL);
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);
	uint64_t at = (uintptr_t)rig->buf, *number = (uint64_t *)(rig->buf + 2048);
	struct ibv_sge list[2] = { { at, 10, rig->mr->lkey }, { at + 10, 20, rig->mr->lkey } };
	struct ibv_data_buf bufs[2] = { { "ab", 2 }, { "cde", 4 } };

	NEED(ex);
	join(rig, qp, qp);
	for (int i = 0; i < 30; i++)
		rig->buf[i] = i + 1;
	*number = 40;
	ibv_wr_start(ex);
	ex->wr_id = 1;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(ex, rig->mr->rkey, at + 1024);
	ibv_wr_set_sge_list(ex, 2, list);
	ex->wr_id = 2;
	ibv_wr_rdma_read(ex, rig->mr->rkey, at + 1024);
	ibv_wr_set_sge(ex, rig->mr->lkey, at + 1100, 30);
	ex->wr_id = 3;
	ibv_wr_rdma_write(ex, rig->mr->rkey, at + 1200);
	ibv_wr_set_inline_data_list(ex, 2, bufs);
	ex->wr_id = 4;
	ibv_wr_atomic_fetch_add(ex, rig->mr->rkey, (uintptr_t)number, 2);
	ibv_wr_set_sge(ex, rig->mr->lkey, at + 3000, 8);
	CHECK(ibv_wr_complete(ex) == 0);
	for (unsigned i = 1; i <= 4; i++) {
		struct ibv_wc wc = next_wc(rig->cq);

		CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == i);
	}
	CHECK(!memcmp(rig->buf, rig->buf + 1024, 30) && !memcmp(rig->buf, rig->buf + 1100, 30));
	CHECK(!strcmp((char *)rig->buf + 1200, "abcde"));
	CHECK(*number == 42 && *(uint64_t *)(rig->buf + 3000) == 40);
}

/* A batch that is aborted, contains an error or does not fit posts nothing. */
static void rolled_back(struct rig *rig)
{
	struct ibv_qp *qp = make_qp(rig, IBV_QPT_RC, OPS, NULL);
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);
	uint64_t at = (uintptr_t)rig->buf;
	struct ibv_wc wc;
	char large[65] = "";

	join(rig, qp, qp);
	rig->buf[100] = 0;
	rig->buf[0] = 1;
	for (int way = 0; way < 4; way++) {
		ibv_wr_start(ex);
		for (int i = 0; i < (way == 2 ? 17 : 2); i++) {
			ibv_wr_rdma_write(ex, rig->mr->rkey, at + 100);
			ibv_wr_set_sge(ex, rig->mr->lkey, at, 1);
		}
		if (way == 1)
			ibv_wr_set_inline_data(ex, large, sizeof(large));
		if (way == 3)
			ibv_wr_send_tso(ex, large, 1, 1);
		if (way == 0)
			ibv_wr_abort(ex);
		else
			CHECK(ibv_wr_complete(ex) == (way == 1 ? EINVAL : way == 2 ? ENOMEM : EOPNOTSUPP));
	}
	usleep(20000);
	CHECK(ibv_poll_cq(rig->cq, 1, &wc) == 0 && rig->buf[100] == 0);
	ibv_wr_start(ex);
	ibv_wr_rdma_write(ex, rig->mr->rkey, at + 100);
	ibv_wr_set_sge(ex, rig->mr->lkey, at, 1);
	CHECK(ibv_wr_complete(ex) == 0);
	CHECK(next_wc(rig->cq).status == IBV_WC_SUCCESS && rig->buf[100] == 1);
}

static void refused(struct rig *rig)
{
	struct ibv_qp_init_attr_ex attr = { .send_cq = rig->cq,
					    .recv_cq = rig->cq,
					    .qp_type = IBV_QPT_UD,
					    .pd = rig->pd,
					    .comp_mask = IBV_QP_INIT_ATTR_PD |
							 IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
					    .send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE };

	CHECK(!ibv_create_qp_ex(rig->context, &attr) && errno == EOPNOTSUPP);
	attr.qp_type = IBV_QPT_RC;
	attr.send_ops_flags = IBV_QP_EX_WITH_TSO;
	CHECK(!ibv_create_qp_ex(rig->context, &attr) && errno == EOPNOTSUPP);
}

const check_part building_parts[] = { built, rolled_back, refused, NULL };
