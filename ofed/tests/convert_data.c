/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the experimental verbs pass on to today's verbs, and return: work requests, completions, attributes
 * and the clock of a device. The functions of the context are in this file, and record their arguments.
 */
#include <infiniband/verbs_exp.h>

#include "check.h"

static struct verbs_context device;
static struct ibv_context *const context = &device.context;

/* Copies of what post_send got. */
static struct ibv_send_wr sent[4];
static int sends;

static struct ibv_qp a_qp;
static struct ibv_cq a_cq;
static struct ibv_mr an_mr;

static int query_device(struct ibv_context *ctx, const struct ibv_query_device_ex_input *input,
			struct ibv_device_attr_ex *attr, size_t size)
{
	(void)input;
	CHECK(ctx == context && size == sizeof(*attr));
	memset(attr, 0, size);
	attr->orig_attr.device_cap_flags = 1 | IBV_DEVICE_XRC | IBV_DEVICE_MEM_WINDOW_TYPE_2B |
					   IBV_DEVICE_RAW_IP_CSUM | IBV_DEVICE_MANAGED_FLOW_STEERING;
	attr->orig_attr.phys_port_cnt = 2;
	attr->device_cap_flags_ex = IBV_DEVICE_RAW_SCATTER_FCS;
	attr->odp_caps.general_caps = IBV_ODP_SUPPORT;
	attr->odp_caps.per_transport_caps.ud_odp_caps = IBV_ODP_SUPPORT_SEND;
	attr->xrc_odp_caps = IBV_ODP_SUPPORT_RECV;
	attr->rss_caps.supported_qpts = 1 << IBV_QPT_RAW_PACKET;
	attr->rss_caps.max_rwq_indirection_table_size = 64;
	attr->rss_caps.rx_hash_fields_mask = IBV_RX_HASH_SRC_IPV4 | (uint64_t)IBV_RX_HASH_INNER;
	attr->raw_packet_caps = IBV_RAW_PACKET_CAP_CVLAN_STRIPPING;
	attr->packet_pacing_caps.qp_rate_limit_max = 1000;
	attr->tm_caps.max_num_tags = 16;
	attr->max_dm_size = 4096;
	attr->pci_atomic_caps.swap = 6;
	attr->hca_core_clock = 156250;
	attr->completion_timestamp_mask = 0xffffffffffff;
	return 0;
}

static int query_clock(struct ibv_context *ctx, struct ibv_values_ex *values)
{
	CHECK(ctx == context);
	values->comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
	values->raw_clock.tv_sec = 0;
	values->raw_clock.tv_nsec = 0xffffffffff00;
	return 0;
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	CHECK(qp == &a_qp);
	(void)bad;
	for (sends = 0; wr; wr = wr->next)
		sent[sends++] = *wr;
	return 0;
}

static int poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *wc)
{
	CHECK(cq == &a_cq && count == 3);
	memset(wc, 0, 3 * sizeof(*wc));
	wc[0].wr_id = 1;
	wc[0].opcode = IBV_WC_TSO;
	wc[1].wr_id = 2;
	wc[1].opcode = IBV_WC_TM_RECV;
	wc[1].wc_flags = IBV_WC_TM_MATCH | IBV_WC_WITH_IMM | IBV_WC_IP_CSUM_OK;
	wc[1].imm_data = 0x11223344;
	wc[1].sl = 3;
	wc[2].wr_id = 3;
	wc[2].status = IBV_WC_WR_FLUSH_ERR;
	wc[2].opcode = (enum ibv_wc_opcode)0x7777;
	wc[2].byte_len = 0x5555;
	return 3;
}

static void fill_context(void)
{
	device.sz = sizeof(device);
	context->abi_compat = __VERBS_ABI_IS_EXTENDED;
	context->ops.post_send = post_send;
	context->ops.poll_cq = poll_cq;
	device.query_device_ex = query_device;
	device.query_rt_values = query_clock;
	a_qp.context = a_cq.context = context;
}
static void work_requests(void)
{
	struct ibv_exp_send_wr wr, *bad;
	struct ibv_ah ah;
	struct ibv_mw mw;

	memset(&wr, 0, sizeof(wr));
	wr.exp_opcode = IBV_EXP_WR_TSO;
	wr.exp_send_flags = IBV_EXP_SEND_IP_CSUM | IBV_EXP_SEND_FENCE;
	wr.tso.hdr = &ah;
	wr.tso.hdr_sz = 54;
	wr.tso.mss = 1460;
	a_qp.qp_type = IBV_QPT_RAW_PACKET;
	CHECK_IS(ibv_exp_post_send(&a_qp, &wr, &bad), 0);
	CHECK_IS(sends, 1);
	CHECK_IS(sent[0].opcode, IBV_WR_TSO);
	CHECK_IS(sent[0].send_flags, IBV_SEND_IP_CSUM | IBV_SEND_FENCE);
	CHECK(sent[0].tso.hdr == &ah);
	CHECK_IS(sent[0].tso.hdr_sz, 54);
	CHECK_IS(sent[0].tso.mss, 1460);

	wr.exp_opcode = IBV_EXP_WR_BIND_MW;
	wr.bind_mw.mw = &mw;
	wr.bind_mw.rkey = 3;
	wr.bind_mw.bind_info.mr = &an_mr;
	wr.bind_mw.bind_info.addr = 10;
	wr.bind_mw.bind_info.length = 20;
	wr.bind_mw.bind_info.exp_mw_access_flags = IBV_EXP_ACCESS_REMOTE_READ | IBV_EXP_ACCESS_MW_ZERO_BASED;
	CHECK_IS(ibv_exp_post_send(&a_qp, &wr, &bad), 0);
	CHECK_IS(sent[0].opcode, IBV_WR_BIND_MW);
	CHECK(sent[0].bind_mw.mw == &mw && sent[0].bind_mw.bind_info.mr == &an_mr);
	CHECK_IS(sent[0].bind_mw.rkey, 3);
	CHECK_IS(sent[0].bind_mw.bind_info.length, 20);
	CHECK_IS(sent[0].bind_mw.bind_info.mw_access_flags, IBV_ACCESS_REMOTE_READ | IBV_ACCESS_ZERO_BASED);

	a_qp.qp_type = IBV_QPT_UD;
	wr.exp_opcode = IBV_EXP_WR_SEND;
	wr.wr.ud.ah = &ah;
	wr.wr.ud.remote_qpn = 6;
	wr.wr.ud.remote_qkey = 7;
	CHECK_IS(ibv_exp_post_send(&a_qp, &wr, &bad), 0);
	CHECK(sent[0].wr.ud.ah == &ah);
	CHECK_IS(sent[0].wr.ud.remote_qpn, 6);
	CHECK_IS(sent[0].wr.ud.remote_qkey, 7);

	a_qp.qp_type = IBV_QPT_XRC_SEND;
	wr.exp_opcode = IBV_EXP_WR_SEND_WITH_INV;
	wr.ex.invalidate_rkey = 99;
	wr.xrc_remote_srq_num = 12;
	CHECK_IS(ibv_exp_post_send(&a_qp, &wr, &bad), 0);
	CHECK_IS(sent[0].opcode, IBV_WR_SEND_WITH_INV);
	CHECK_IS(sent[0].invalidate_rkey, 99);
	CHECK_IS(sent[0].qp_type.xrc.remote_srqn, 12);
	CHECK_IS(sent[0].xrc_remote_srq_num, 12);

	wr.exp_opcode = IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD;
	wr.ext_op.masked_atomics.log_arg_sz = 3;
	wr.ext_op.masked_atomics.wr_data.inline_data.op.fetch_add.field_boundary = 1;
	CHECK_IS(ibv_exp_post_send(&a_qp, &wr, &bad), ENOSYS);
	wr.ext_op.masked_atomics.wr_data.inline_data.op.fetch_add.field_boundary = (uint64_t)1 << 63;
	CHECK_IS(ibv_exp_post_send(&a_qp, &wr, &bad), 0);
	wr.ext_op.masked_atomics.log_arg_sz = 2;
	CHECK_IS(ibv_exp_post_send(&a_qp, &wr, &bad), ENOSYS);
}

/* The array of an older program, whose entries end before tm_info. */
static void completions(void)
{
	const uint32_t size = offsetof(struct ibv_exp_wc, tm_info);
	char array[3 * sizeof(struct ibv_exp_wc)];
	struct ibv_exp_wc wc[3];
	int i;

	memset(array, 0x77, sizeof(array));
	CHECK_IS(ibv_exp_poll_cq(&a_cq, 3, (struct ibv_exp_wc *)(void *)array, size), 3);
	memset(wc, 0, sizeof(wc));
	for (i = 0; i < 3; i++)
		memcpy(&wc[i], array + (size_t)i * size, size);
	CHECK_IS(array[3 * size], 0x77);
	CHECK_IS(wc[0].wr_id, 1);
	CHECK_IS(wc[0].exp_opcode, IBV_EXP_WC_TSO);
	CHECK_IS(wc[1].exp_opcode, IBV_EXP_WC_TM_RECV);
	CHECK_IS(wc[1].imm_data, 0x11223344);
	CHECK_IS(wc[1].sl, 3);
	CHECK_IS(wc[1].exp_wc_flags, IBV_EXP_WC_WITH_IMM | IBV_EXP_WC_WITH_SL | IBV_EXP_WC_WITH_SLID |
					     IBV_EXP_WC_TM_MATCH | IBV_EXP_WC_RX_IP_CSUM_OK);
	CHECK_IS(wc[2].status, IBV_WC_WR_FLUSH_ERR);
	CHECK_IS(wc[2].byte_len, 0);
	CHECK_IS(wc[2].exp_wc_flags, 0);
}

static void attributes(void)
{
	struct ibv_exp_device_attr attr;
	struct ibv_exp_values values;
	uint64_t early, late;

	memset(&attr, 0, sizeof(attr));
	attr.comp_mask = 0xffffffff;
	CHECK_IS(ibv_exp_query_device(context, &attr), 0);
	CHECK_IS(attr.phys_port_cnt, 2);
	CHECK_IS(attr.exp_device_cap_flags,
		 IBV_EXP_DEVICE_RESIZE_MAX_WR | IBV_EXP_DEVICE_XRC | IBV_EXP_DEVICE_MW_TYPE_2B |
			 IBV_EXP_DEVICE_RX_CSUM_IP_PKT | IBV_EXP_DEVICE_RX_CSUM_TCP_UDP_PKT |
			 IBV_EXP_DEVICE_MANAGED_FLOW_STEERING | IBV_EXP_DEVICE_SCATTER_FCS |
			 IBV_EXP_DEVICE_ODP | IBV_EXP_DEVICE_MR_ALLOCATE);
	CHECK_IS(attr.odp_caps.per_transport_caps.ud_odp_caps, IBV_EXP_ODP_SUPPORT_SEND);
	CHECK_IS(attr.odp_caps.per_transport_caps.xrc_odp_caps, IBV_EXP_ODP_SUPPORT_RECV);
	CHECK_IS(attr.rx_hash_caps.supported_qps, IBV_EXP_QPT_RAW_PACKET);
	CHECK_IS(attr.rx_hash_caps.supported_packet_fields,
		 (uint64_t)IBV_EXP_RX_HASH_SRC_IPV4 | IBV_EXP_RX_HASH_INNER);
	CHECK_IS(attr.max_rss_tbl_sz, 64);
	CHECK_IS(attr.wq_vlan_offloads_cap, IBV_EXP_RECEIVE_WQ_CVLAN_STRIP);
	CHECK_IS(attr.packet_pacing_caps.qp_rate_limit_max, 1000);
	CHECK_IS(attr.tm_caps.max_num_tags, 16);
	CHECK_IS(attr.max_dm_size, 4096);
	CHECK_IS(attr.pci_atomic_caps.swap, 6);
	CHECK_IS(attr.comp_mask & IBV_EXP_DEVICE_ATTR_UMR, 0);
	CHECK(attr.comp_mask & IBV_EXP_DEVICE_ATTR_MAX_DM_SIZE);

	/* 6.4 ns per tick; the clock is about to wrap */
	CHECK_IS(ibv_exp_query_values(context,
				      IBV_EXP_VALUES_HW_CLOCK | IBV_EXP_VALUES_HW_CLOCK_NS |
					      IBV_EXP_VALUES_CLOCK_INFO,
				      &values),
		 0);
	CHECK_IS(values.hwclock, 0xffffffffff00);
	CHECK_IS(values.hwclock_ns, 0xffffffffff00 / 10 * 64 + 0xffffffffff00 % 10 * 64 / 10);
	early = ibv_exp_cqe_ts_to_ns(&values.clock_info, values.hwclock - 1000);
	late = ibv_exp_cqe_ts_to_ns(&values.clock_info, 744);
	CHECK(values.hwclock_ns - early >= 6399 && values.hwclock_ns - early <= 6401);
	CHECK(late - values.hwclock_ns >= 6399 && late - values.hwclock_ns <= 6401);

	device.sz = 0;
	CHECK_IS(ibv_exp_query_values(context, IBV_EXP_VALUES_HW_CLOCK, &values), -EOPNOTSUPP);
}

int main(void)
{
	fill_context();
	work_requests();
	completions();
	attributes();
	printf("convert_data: %d checks passed\n", checks);
	return 0;
}
