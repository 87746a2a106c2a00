/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A program of MLNX_OFED 2 to 4 that queries a device, its port, a GID and the clock, and creates an SRQ,
 * with experimental verbs: on device $DEVICE with GID index $GID_INDEX.
 */
#include <unistd.h>

#include <infiniband/verbs.h>
#include <infiniband/verbs_exp.h>

#include "check.h"

static struct ibv_context *context;
static struct ibv_pd *pd;
static uint8_t gid_index;

static void open_device(void)
{
	const char *name = getenv("DEVICE"), *index = getenv("GID_INDEX");
	struct ibv_device **list = ibv_exp_get_device_list(NULL), **device = list;

	CHECK(list);
	while (*device && name && strcmp(ibv_get_device_name(*device), name))
		device++;
	CHECK(*device);
	context = ibv_open_device(*device);
	CHECK(context);
	ibv_free_device_list(list);
	gid_index = (uint8_t)(index ? atoi(index) : 0);
	pd = ibv_alloc_pd(context);
	CHECK(pd);
}

static void query(void)
{
	struct ibv_exp_device_attr attr;
	struct ibv_exp_port_attr port;
	struct ibv_exp_gid_attr gid;
	struct ibv_device_attr plain;
	struct ibv_port_attr plain_port;
	union ibv_gid plain_gid;

	memset(&attr, 0xff, sizeof(attr));
	attr.comp_mask = IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS | IBV_EXP_DEVICE_ATTR_UMR |
			 IBV_EXP_DEVICE_ATTR_ODP | IBV_EXP_DEVICE_ATTR_COMP_MASK_2;
	CHECK_IS(ibv_exp_query_device(context, &attr), EINVAL);
	attr.comp_mask_2 = IBV_EXP_DEVICE_ATTR_PCI_ATOMIC_CAPS;
	CHECK_IS(ibv_exp_query_device(context, &attr), 0);
	CHECK_IS(attr.comp_mask, (uint32_t)(IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS | IBV_EXP_DEVICE_ATTR_ODP |
					    IBV_EXP_DEVICE_ATTR_COMP_MASK_2));
	CHECK_IS(attr.comp_mask_2, IBV_EXP_DEVICE_ATTR_PCI_ATOMIC_CAPS);
	CHECK_IS(ibv_query_device(context, &plain), 0);
	CHECK(!strcmp(attr.fw_ver, plain.fw_ver));
	CHECK_IS(attr.max_qp, plain.max_qp);
	CHECK_IS(attr.exp_atomic_cap, plain.atomic_cap);
	CHECK_IS(attr.max_srq_sge, plain.max_srq_sge);
	CHECK_IS(attr.phys_port_cnt, plain.phys_port_cnt);
	CHECK_IS(attr.umr_caps.max_klm_list_size, 0);

	memset(&port, 0xff, sizeof(port));
	CHECK_IS(ibv_exp_query_port(context, 1, &port), -EINVAL);
	port.comp_mask = IBV_EXP_QUERY_PORT_ATTR_MASK1;
	port.mask1 = IBV_EXP_QUERY_PORT_STATE | IBV_EXP_QUERY_PORT_LINK_LAYER;
	CHECK_IS(ibv_exp_query_port(context, 1, &port), 0);
	CHECK_IS(ibv_query_port(context, 1, &plain_port), 0);
	CHECK_IS(port.state, plain_port.state);
	CHECK_IS(port.link_layer, plain_port.link_layer);
	CHECK_IS(port.port_attr.gid_tbl_len, plain_port.gid_tbl_len);
	CHECK(ibv_exp_query_port(context, 99, &port) < 0);

	memset(&gid, 0, sizeof(gid));
	gid.comp_mask = IBV_EXP_QUERY_GID_ATTR_TYPE | IBV_EXP_QUERY_GID_ATTR_GID;
	CHECK_IS(ibv_exp_query_gid_attr(context, 1, gid_index, &gid), 0);
	CHECK_IS(ibv_query_gid(context, 1, gid_index, &plain_gid), 0);
	CHECK(!memcmp(&gid.gid, &plain_gid, sizeof(plain_gid)));
	CHECK_IS(gid.type, IBV_EXP_ROCE_V2_GID_TYPE);
	gid.comp_mask = IBV_EXP_QUERY_GID_ATTR_RESERVED;
	CHECK_IS(ibv_exp_query_gid_attr(context, 1, gid_index, &gid), EINVAL);
}

static void query_clock(void)
{
	struct ibv_exp_values first, second;
	uint64_t ns;
	int error;

	memset(&first, 0, sizeof(first));
	error = ibv_exp_query_values(context,
				     IBV_EXP_VALUES_HW_CLOCK | IBV_EXP_VALUES_HW_CLOCK_NS |
					     IBV_EXP_VALUES_CLOCK_INFO,
				     &first);
	if (error == -EOPNOTSUPP) {
		printf("exp: no device clock\n");
		return;
	}
	CHECK_IS(error, 0);
	CHECK_IS(first.comp_mask, 7);
	usleep(2000);
	memset(&second, 0, sizeof(second));
	CHECK_IS(ibv_exp_query_values(context, IBV_EXP_VALUES_HW_CLOCK | IBV_EXP_VALUES_HW_CLOCK_NS, &second),
		 0);
	CHECK(second.hwclock_ns - first.hwclock_ns >= 2000000);
	ns = ibv_exp_cqe_ts_to_ns(&first.clock_info, second.hwclock);
	CHECK(ns + 1000 > second.hwclock_ns && ns < second.hwclock_ns + 1000);
	CHECK_IS(ibv_exp_query_values(context, IBV_EXP_VALUES_RESERVED, &first), -EINVAL);
}

static void shared_receive_queue(void)
{
	struct ibv_exp_create_srq_attr attr;
	struct ibv_srq *srq;

	memset(&attr, 0, sizeof(attr));
	attr.pd = pd;
	attr.base.attr.max_wr = 4;
	attr.base.attr.max_sge = 1;
	attr.base.srq_context = &attr;
	attr.srq_type = IBV_EXP_SRQT_BASIC;
	srq = ibv_exp_create_srq(context, &attr);
	CHECK(srq);
	CHECK(srq->srq_context == &attr);
	CHECK(attr.base.attr.max_wr >= 4);
	CHECK_IS(ibv_destroy_srq(srq), 0);
	attr.comp_mask = IBV_EXP_CREATE_SRQ_DC_OFFLOAD_PARAMS;
	CHECK_NULL(ibv_exp_create_srq(context, &attr), ENOSYS);
}

int main(void)
{
	open_device();
	query();
	query_clock();
	shared_receive_queue();
	CHECK_IS(ibv_dealloc_pd(pd), 0);
	CHECK_IS(ibv_close_device(context), 0);
	printf("exp_query: %d checks passed\n", checks);
	return 0;
}
