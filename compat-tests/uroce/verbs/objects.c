/* Objects in use are not freed, and what cannot be made is refused. */
#include "check.h"

static void domains(struct rig *rig)
{
	struct ibv_td_init_attr td_attr = {};
	struct ibv_td *td = ibv_alloc_td(rig->context, &td_attr);
	struct ibv_parent_domain_init_attr attr = { .pd = rig->pd, .td = td };
	struct ibv_pd *parent = ibv_alloc_parent_domain(rig->context, &attr);
	struct ibv_mr *mr;

	CHECK(td && parent);
	CHECK(ibv_dealloc_td(td) == EBUSY);
	CHECK(ibv_dealloc_pd(rig->pd) == EBUSY);
	NEED(mr = ibv_reg_mr(parent, rig->buf, 64, 0));
	CHECK(ibv_dealloc_pd(parent) == EBUSY);
	CHECK(ibv_dereg_mr(mr) == 0);
	CHECK(ibv_dealloc_pd(parent) == 0);
	CHECK(ibv_dealloc_td(td) == 0);
}

static void users(struct rig *rig)
{
	struct ibv_srq_init_attr srq_attr = { .attr = { 4, 1, 0 } };
	struct ibv_srq *srq = ibv_create_srq(rig->pd, &srq_attr);
	struct ibv_qp *qp = make_qp(rig, IBV_QPT_RC, 0, srq);
	struct ibv_pd *pd = ibv_alloc_pd(rig->context);
	struct ibv_ah_attr ah_attr = { .is_global = 1,
				       .port_num = PORT,
				       .grh = { .dgid = rig->gid, .sgid_index = rig->gid_index } };
	struct ibv_ah *ah;

	CHECK(ibv_destroy_srq(srq) == EBUSY);
	CHECK(ibv_destroy_cq(rig->cq) == EBUSY);
	CHECK(ibv_destroy_qp(qp) == 0);
	CHECK(ibv_destroy_srq(srq) == 0);
	NEED(ah = ibv_create_ah(pd, &ah_attr));
	CHECK(ibv_dealloc_pd(pd) == EBUSY);
	CHECK(ibv_destroy_ah(ah) == 0);
	ah_attr.grh.sgid_index = 200;
	CHECK(!ibv_create_ah(pd, &ah_attr) && errno == EINVAL);
	ah_attr.grh.sgid_index = rig->gid_index;
	ah_attr.is_global = 0;
	CHECK(!ibv_create_ah(pd, &ah_attr) && errno == EINVAL);
	ah_attr.is_global = 1;
	ah_attr.port_num = 2;
	CHECK(!ibv_create_ah(pd, &ah_attr) && errno == EINVAL);
	CHECK(ibv_dealloc_pd(pd) == 0);
}

static void groups(struct rig *rig)
{
	struct ibv_qp *qp = make_qp(rig, IBV_QPT_UD, 0, NULL), *rc = make_qp(rig, IBV_QPT_RC, 0, NULL);
	union ibv_gid group = { .raw = { [10] = 0xff, 0xff, 239, 1, 2, 3 } };

	CHECK(ibv_attach_mcast(rc, &group, 0) == EINVAL);
	CHECK(ibv_attach_mcast(qp, &rig->gid, 0) == EINVAL);
	CHECK(ibv_attach_mcast(qp, &group, 0) == 0);
	CHECK(ibv_destroy_qp(qp) == EBUSY);
	CHECK(ibv_detach_mcast(qp, &group, 0) == 0);
	CHECK(ibv_detach_mcast(qp, &group, 0) == EINVAL);
	CHECK(ibv_destroy_qp(qp) == 0);
	CHECK(ibv_destroy_qp(rc) == 0);
}

static void refused(struct rig *rig)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = rig->cq, .recv_cq = rig->cq, .qp_type = IBV_QPT_RC, .cap = { 1, 1, 1, 1, 0 }
	};
	struct ibv_device_attr device;
	struct ibv_qp *qp;

	NEED(ibv_query_device(rig->context, &device) == 0);
	CHECK(!ibv_create_cq(rig->context, 0, NULL, NULL, 0) && errno == EINVAL);
	CHECK(!ibv_create_cq(rig->context, device.max_cqe + 1, NULL, NULL, 0) && errno == EINVAL);
	CHECK(!ibv_create_cq(rig->context, 1, NULL, NULL, 100000) && errno == EINVAL);
	attr.cap.max_send_sge = device.max_sge + 1;
	CHECK(!ibv_create_qp(rig->pd, &attr) && errno == EINVAL);
	attr.cap.max_send_sge = device.max_sge;
	attr.cap.max_recv_wr = device.max_qp_wr + 1;
	CHECK(!ibv_create_qp(rig->pd, &attr) && errno == EINVAL);
	attr.cap.max_recv_wr = 1;
	attr.qp_type = IBV_QPT_RAW_PACKET;
	CHECK(!ibv_create_qp(rig->pd, &attr) && errno == EOPNOTSUPP);
	attr.qp_type = IBV_QPT_RC;
	NEED(qp = ibv_create_qp(rig->pd, &attr));
	CHECK(attr.cap.max_send_sge >= (unsigned)device.max_sge);
	CHECK(ibv_qp_to_qp_ex(qp) == NULL);
	CHECK(ibv_destroy_qp(qp) == 0);
}

void check_objects(void)
{
	struct rig rig;

	set_up(&rig);
	domains(&rig);
	users(&rig);
	groups(&rig);
	refused(&rig);
	tear_down(&rig);
}
