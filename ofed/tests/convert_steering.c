/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the experimental verbs pass on to today's verbs: flows, work queues and their tables. No software
 * device has these, so the functions of the context are in this file, and record their arguments.
 */
#include <infiniband/verbs_exp.h>

#include "check.h"

static struct verbs_context device;
static struct ibv_context *const context = &device.context;

/* Copies of what the functions got. */
static struct {
	union {
		struct ibv_flow_attr attr;
		char bytes[512];
	} flow;
	struct ibv_wq_init_attr wq;
	struct ibv_wq_attr wq_attr;
	struct ibv_wq *table[4];
	struct ibv_qp_init_attr_ex qp;
	int calls;
} got;

/* The objects that the functions of verbs return. */
static struct ibv_flow a_flow;
static struct ibv_wq wqs[4];
static struct ibv_rwq_ind_table a_table;
static struct ibv_qp a_qp;
static struct ibv_cq a_cq;
static struct ibv_pd a_pd;

static struct ibv_flow *create_flow(struct ibv_qp *qp, struct ibv_flow_attr *attr)
{
	CHECK(qp == &a_qp);
	CHECK(attr->size <= sizeof(got.flow));
	memcpy(&got.flow, attr, attr->size);
	a_flow.handle = 31;
	return &a_flow;
}

static int destroy_flow(struct ibv_flow *flow)
{
	got.calls++;
	return flow == &a_flow ? 0 : EINVAL;
}

static struct ibv_wq *create_wq(struct ibv_context *ctx, struct ibv_wq_init_attr *attr)
{
	static int next;

	CHECK(ctx == context);
	got.wq = *attr;
	wqs[next % 4].wq_num = 50 + (uint32_t)(next % 4);
	wqs[next % 4].context = context;
	return &wqs[next++ % 4];
}

static int modify_wq(struct ibv_wq *wq, struct ibv_wq_attr *attr)
{
	got.wq_attr = *attr;
	wq->state = attr->wq_state;
	return 0;
}

static int destroy_wq(struct ibv_wq *wq)
{
	got.calls++;
	return wq >= wqs && wq < wqs + 4 ? 0 : EINVAL;
}

static int post_wq_recv(struct ibv_wq *wq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	(void)bad;
	CHECK(wq == &wqs[0]);
	got.calls += wr->num_sge;
	return 0;
}

static struct ibv_rwq_ind_table *create_table(struct ibv_context *ctx,
					      struct ibv_rwq_ind_table_init_attr *attr)
{
	CHECK(ctx == context);
	CHECK_IS(attr->log_ind_tbl_size, 2);
	memcpy(got.table, attr->ind_tbl, sizeof(got.table));
	a_table.context = context;
	a_table.ind_tbl_num = 77;
	return &a_table;
}

static int destroy_table(struct ibv_rwq_ind_table *table)
{
	got.calls++;
	return table == &a_table ? 0 : EINVAL;
}

static struct ibv_qp *create_qp(struct ibv_context *ctx, struct ibv_qp_init_attr_ex *attr)
{
	CHECK(ctx == context);
	got.qp = *attr;
	attr->cap.max_send_wr = 99;
	return &a_qp;
}

static void fill_context(void)
{
	a_qp.context = a_flow.context = context;
	device.sz = sizeof(device);
	context->abi_compat = __VERBS_ABI_IS_EXTENDED;
	device.ibv_create_flow = create_flow;
	device.ibv_destroy_flow = destroy_flow;
	device.create_wq = create_wq;
	device.modify_wq = modify_wq;
	device.destroy_wq = destroy_wq;
	device.create_rwq_ind_table = create_table;
	device.destroy_rwq_ind_table = destroy_table;
	device.create_qp_ex = create_qp;
	wqs[0].post_recv = post_wq_recv;
}

struct flow {
	struct ibv_exp_flow_attr attr;
	struct ibv_exp_flow_spec_eth eth;
	struct ibv_exp_flow_spec_ipv6 ipv6;
	struct ibv_exp_flow_spec_action_tag tag;
};

static void flows(void)
{
	struct ibv_flow_spec_eth *eth = (struct ibv_flow_spec_eth *)(got.flow.bytes + sizeof(got.flow.attr));
	struct ibv_flow_spec_ipv6 *ipv6 = (struct ibv_flow_spec_ipv6 *)(eth + 1);
	struct ibv_flow_spec_action_tag *tag = (struct ibv_flow_spec_action_tag *)(ipv6 + 1);
	struct ibv_exp_flow *created;
	struct flow flow;

	memset(&flow, 0, sizeof(flow));
	flow.attr.type = IBV_EXP_FLOW_ATTR_NORMAL;
	flow.attr.size = sizeof(flow);
	flow.attr.priority = 3;
	flow.attr.num_of_specs = 3;
	flow.attr.port = 2;
	flow.eth.type = IBV_EXP_FLOW_SPEC_ETH;
	flow.eth.size = sizeof(flow.eth);
	flow.eth.val.ether_type = 0xdd86;
	flow.ipv6.type = (enum ibv_exp_flow_spec_type)(IBV_EXP_FLOW_SPEC_IPV6 | IBV_EXP_FLOW_SPEC_INNER);
	flow.ipv6.size = sizeof(flow.ipv6);
	flow.ipv6.val.dst_ip[15] = 1;
	memset(flow.ipv6.mask.dst_ip, 0xff, 16);
	flow.tag.type = IBV_EXP_FLOW_SPEC_ACTION_TAG;
	flow.tag.size = sizeof(flow.tag);
	flow.tag.tag_id = 55;
	created = ibv_exp_create_flow(&a_qp, &flow.attr);
	CHECK(created);
	CHECK_IS(created->handle, 31);
	CHECK(created->context == context);
	CHECK_IS(got.flow.attr.comp_mask, 0);
	CHECK_IS(got.flow.attr.priority, 3);
	CHECK_IS(got.flow.attr.num_of_specs, 3);
	CHECK_IS(got.flow.attr.port, 2);
	CHECK_IS(got.flow.attr.size, sizeof(got.flow.attr) + sizeof(*eth) + sizeof(*ipv6) + sizeof(*tag));
	CHECK_IS(eth->type, IBV_FLOW_SPEC_ETH);
	CHECK_IS(eth->val.ether_type, 0xdd86);
	CHECK_IS(ipv6->type, IBV_FLOW_SPEC_IPV6 | IBV_FLOW_SPEC_INNER);
	CHECK_IS(ipv6->size, sizeof(*ipv6));
	CHECK_IS(ipv6->val.dst_ip[15], 1);
	CHECK_IS(ipv6->mask.dst_ip[3], 0xff);
	CHECK_IS(ipv6->mask.hop_limit, 0);
	CHECK_IS(tag->type, IBV_FLOW_SPEC_ACTION_TAG);
	CHECK_IS(tag->tag_id, 55);
	CHECK_IS(ibv_exp_destroy_flow(created), 0);

	flow.attr.size -= 8;
	CHECK_NULL(ibv_exp_create_flow(&a_qp, &flow.attr), EINVAL);
	flow.attr.size += 8;
	flow.eth.size = 4;
	CHECK_NULL(ibv_exp_create_flow(&a_qp, &flow.attr), EINVAL);
	flow.eth.size = sizeof(flow.eth);
	flow.eth.type = IBV_EXP_FLOW_SPEC_IB;
	CHECK_NULL(ibv_exp_create_flow(&a_qp, &flow.attr), ENOSYS);
	flow.eth.type = IBV_EXP_FLOW_SPEC_ETH;
	flow.attr.flags = IBV_EXP_FLOW_ATTR_FLAGS_ALLOW_LOOP_BACK;
	CHECK_NULL(ibv_exp_create_flow(&a_qp, &flow.attr), ENOSYS);
}

static void receive_with(struct ibv_exp_wq *wq)
{
	struct ibv_exp_query_intf_params params;
	struct ibv_exp_wq_family *family;
	struct ibv_sge sge[2];

	memset(&params, 0, sizeof(params));
	params.intf = IBV_EXP_INTF_WQ;
	params.obj = wq;
	family = (struct ibv_exp_wq_family *)ibv_exp_query_intf(context, &params, NULL);
	CHECK(family);
	got.calls = 0;
	CHECK_IS(family->recv_burst(wq, sge, 2), 0);
	CHECK_IS(family->recv_sg_list(wq, sge, 2), 0);
	CHECK_IS(got.calls, 4);
	params.intf_version = 1;
	CHECK_NULL(ibv_exp_query_intf(context, &params, NULL), ENOSYS);
}

static void work_queues(void)
{
	struct ibv_exp_rwq_ind_table_init_attr table_attr;
	struct ibv_exp_rwq_ind_table *table;
	struct ibv_exp_rx_hash_conf hash;
	struct ibv_exp_qp_init_attr qp_attr;
	struct ibv_exp_wq_init_attr attr;
	struct ibv_exp_wq_attr change;
	struct ibv_exp_wq *wq[4];
	int i;

	memset(&attr, 0, sizeof(attr));
	attr.wq_context = &attr;
	attr.max_recv_wr = 12;
	attr.max_recv_sge = 2;
	attr.pd = &a_pd;
	attr.cq = &a_cq;
	attr.comp_mask = IBV_EXP_CREATE_WQ_FLAGS | IBV_EXP_CREATE_WQ_VLAN_OFFLOADS;
	attr.flags = IBV_EXP_CREATE_WQ_FLAG_SCATTER_FCS | IBV_EXP_CREATE_WQ_FLAG_RX_END_PADDING;
	attr.vlan_offloads = IBV_EXP_RECEIVE_WQ_CVLAN_STRIP;
	for (i = 0; i < 4; i++) {
		wq[i] = ibv_exp_create_wq(context, &attr);
		CHECK(wq[i] && wq[i]->wq == &wqs[i]);
		CHECK_IS(wq[i]->wq_num, 50 + i);
	}
	CHECK_IS(got.wq.max_wr, 12);
	CHECK_IS(got.wq.max_sge, 2);
	CHECK(got.wq.pd == &a_pd && got.wq.cq == &a_cq && got.wq.wq_context == &attr);
	CHECK_IS(got.wq.comp_mask, IBV_WQ_INIT_ATTR_FLAGS);
	CHECK_IS(got.wq.create_flags, IBV_WQ_FLAGS_SCATTER_FCS | IBV_WQ_FLAGS_PCI_WRITE_END_PADDING |
					      IBV_WQ_FLAGS_CVLAN_STRIPPING);
	attr.vlan_offloads = IBV_EXP_RECEIVE_WQ_CVLAN_INSERTION;
	CHECK_NULL(ibv_exp_create_wq(context, &attr), ENOSYS);
	attr.comp_mask = IBV_EXP_CREATE_WQ_RESERVED;
	CHECK_NULL(ibv_exp_create_wq(context, &attr), EINVAL);
	attr.comp_mask = 0;
	attr.wq_type = IBV_EXP_WQT_SRQ;
	CHECK_NULL(ibv_exp_create_wq(context, &attr), ENOSYS);
	receive_with(wq[0]);

	memset(&change, 0, sizeof(change));
	change.attr_mask = IBV_EXP_WQ_ATTR_STATE | IBV_EXP_WQ_ATTR_VLAN_OFFLOADS;
	change.wq_state = IBV_EXP_WQS_RDY;
	CHECK_IS(ibv_exp_modify_wq(wq[0], &change), 0);
	CHECK_IS(wq[0]->state, IBV_EXP_WQS_RDY);
	CHECK_IS(got.wq_attr.attr_mask, IBV_WQ_ATTR_STATE | IBV_WQ_ATTR_FLAGS);
	CHECK_IS(got.wq_attr.flags_mask, IBV_WQ_FLAGS_CVLAN_STRIPPING);
	CHECK_IS(got.wq_attr.flags, 0);

	memset(&table_attr, 0, sizeof(table_attr));
	table_attr.pd = &a_pd;
	table_attr.log_ind_tbl_size = 2;
	table_attr.ind_tbl = wq;
	table = ibv_exp_create_rwq_ind_table(context, &table_attr);
	CHECK(table);
	CHECK_IS(table->ind_tbl_num, 77);
	for (i = 0; i < 4; i++)
		CHECK(got.table[i] == &wqs[i]);

	memset(&hash, 0, sizeof(hash));
	hash.rx_hash_function = IBV_EXP_RX_HASH_FUNC_TOEPLITZ;
	hash.rx_hash_key_len = 40;
	hash.rx_hash_fields_mask = IBV_EXP_RX_HASH_SRC_IPV4;
	hash.rwq_ind_tbl = table;
	memset(&qp_attr, 0, sizeof(qp_attr));
	qp_attr.qp_type = IBV_QPT_RAW_PACKET;
	qp_attr.pd = &a_pd;
	qp_attr.rx_hash_conf = &hash;
	qp_attr.max_tso_header = 60;
	qp_attr.associated_qpn = 5;
	qp_attr.exp_create_flags = IBV_EXP_QP_CREATE_SCATTER_FCS;
	qp_attr.comp_mask = IBV_EXP_QP_INIT_ATTR_PD | IBV_EXP_QP_INIT_ATTR_RX_HASH |
			    IBV_EXP_QP_INIT_ATTR_MAX_TSO_HEADER | IBV_EXP_QP_INIT_ATTR_ASSOCIATED_QPN |
			    IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS;
	CHECK(ibv_exp_create_qp(context, &qp_attr) == &a_qp);
	CHECK_IS(got.qp.comp_mask, IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS |
					   IBV_QP_INIT_ATTR_MAX_TSO_HEADER | IBV_QP_INIT_ATTR_IND_TABLE |
					   IBV_QP_INIT_ATTR_RX_HASH);
	CHECK_IS(got.qp.create_flags, IBV_QP_CREATE_SCATTER_FCS | IBV_QP_CREATE_SOURCE_QPN);
	CHECK_IS(got.qp.source_qpn, 5);
	CHECK_IS(got.qp.max_tso_header, 60);
	CHECK(got.qp.rwq_ind_tbl == &a_table);
	CHECK_IS(got.qp.rx_hash_conf.rx_hash_key_len, 40);
	CHECK_IS(qp_attr.cap.max_send_wr, 99);

	got.calls = 0;
	CHECK_IS(ibv_exp_destroy_rwq_ind_table(table), 0);
	for (i = 0; i < 4; i++)
		CHECK_IS(ibv_exp_destroy_wq(wq[i]), 0);
	CHECK_IS(got.calls, 5);
}

int main(void)
{
	fill_context();
	flows();
	work_queues();
	printf("convert_steering: %d checks passed\n", checks);
	return 0;
}
