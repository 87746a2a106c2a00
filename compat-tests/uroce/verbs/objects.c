/* Objects in use cannot be destroyed, and invalid attributes are rejected. */
#define _GNU_SOURCE
#include <sched.h>

#include "check.h"

static void domains(struct rig *rig)
{
	struct ibv_td_init_attr td_attr = {};
	struct ibv_td *td = KEEP(ibv_alloc_td(rig->context, &td_attr));
	struct ibv_parent_domain_init_attr attr = { .pd = rig->pd, .td = td };
	struct ibv_pd *parent = KEEP(ibv_alloc_parent_domain(rig->context, &attr));
	struct ibv_mr *mr;

	CHECK(td && parent);
	CHECK(ibv_dealloc_td(td) == EBUSY);
	CHECK(ibv_dealloc_pd(rig->pd) == EBUSY);
	NEED(mr = KEEP(ibv_reg_mr(parent, rig->buf, 64, 0)));
	CHECK(ibv_dealloc_pd(parent) == EBUSY);
}

static void users(struct rig *rig)
{
	struct ibv_srq *srq = new_srq(rig, 4);
	struct ibv_qp *qp = make_qp(rig, IBV_QPT_RC, 0, srq);
	struct ibv_pd *pd = KEEP(ibv_alloc_pd(rig->context));
	struct ibv_ah_attr ah_attr = rtr_attr(rig, 0).ah_attr;
	struct ibv_ah *ah;

	CHECK(ibv_destroy_srq(srq) == EBUSY);
	CHECK(ibv_destroy_cq(rig->cq) == EBUSY);
	CHECK(end(qp) == 0);
	CHECK(end(srq) == 0);
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
	NEED(qp = KEEP(ibv_create_qp(rig->pd, &attr)));
	CHECK(attr.cap.max_send_sge >= (unsigned)device.max_sge);
	CHECK(ibv_qp_to_qp_ex(qp) == NULL);
}

/* Whether the call fails with the value, and leaves it in errno too. */
#define FAILS_WITH(value, call) (errno = 0, (call) == (value) && errno == (value))

/* The completion vectors are the context's, whatever CPUs the calling thread may use now. */
static void vectors(struct rig *rig)
{
	int vectors = rig->context->num_comp_vectors;
	struct ibv_cq *cq;
	cpu_set_t all, one;

	NEED(sched_getaffinity(0, sizeof(all), &all) == 0);
	CPU_ZERO(&one);
	for (int cpu = 0; cpu < CPU_SETSIZE && !CPU_COUNT(&one); cpu++)
		if (CPU_ISSET(cpu, &all))
			CPU_SET(cpu, &one);
	NEED(sched_setaffinity(0, sizeof(one), &one) == 0);
	CHECK((cq = ibv_create_cq(rig->context, 4, NULL, NULL, vectors - 1)) && ibv_destroy_cq(cq) == 0);
	CHECK(!ibv_create_cq(rig->context, 4, NULL, NULL, vectors) && errno == EINVAL);
	CHECK(sched_setaffinity(0, sizeof(all), &all) == 0);
}

/* A verb that returns an errno value sets errno too, as the C library's do: programs print %m. */
static void failures_set_errno(struct rig *rig)
{
	struct ibv_srq *srq = new_srq(rig, 1);
	struct ibv_srq_attr srq_attr = { .max_wr = 1, .srq_limit = 2 };
	struct ibv_qp *ud = make_qp(rig, IBV_QPT_UD, 0, NULL), *qp = make_qp(rig, IBV_QPT_RC, 0, srq);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS };
	struct ibv_port_attr port;
	struct ibv_send_wr send = { .opcode = IBV_WR_SEND }, *bad_send;
	struct ibv_recv_wr recv = {}, *bad_recv;
	uint32_t number;

	CHECK(FAILS_WITH(EBUSY, ibv_dealloc_pd(rig->pd)));
	CHECK(FAILS_WITH(EBUSY, ibv_destroy_cq(rig->cq)));
	CHECK(FAILS_WITH(EBUSY, ibv_destroy_srq(srq)));
	CHECK(FAILS_WITH(EINVAL, ibv_query_port(rig->context, 2, &port)));
	CHECK(FAILS_WITH(EINVAL, ibv_modify_qp(qp, &attr, IBV_QP_STATE)));
	CHECK(FAILS_WITH(EINVAL, ibv_resize_cq(rig->cq, 0)));
	CHECK(FAILS_WITH(EINVAL, ibv_modify_srq(srq, &srq_attr, IBV_SRQ_LIMIT)));
	CHECK(FAILS_WITH(EOPNOTSUPP, ibv_get_srq_num(srq, &number)));
	CHECK(FAILS_WITH(EINVAL, ibv_attach_mcast(ud, &rig->gid, 0)));
	CHECK(FAILS_WITH(EINVAL, ibv_detach_mcast(ud, &rig->gid, 0)));
	CHECK(FAILS_WITH(EINVAL, ibv_post_send(qp, &send, &bad_send)));
	CHECK(FAILS_WITH(EINVAL, ibv_post_recv(qp, &recv, &bad_recv)));
	CHECK(ibv_post_srq_recv(srq, &recv, &bad_recv) == 0);
	CHECK(FAILS_WITH(ENOMEM, ibv_post_srq_recv(srq, &recv, &bad_recv)));
}

const check_part objects_parts[] = { domains, users, groups, refused, vectors, failures_set_errno, NULL };
