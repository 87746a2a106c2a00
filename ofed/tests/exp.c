/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A program of MLNX_OFED 2 to 4: experimental verbs. It includes verbs_exp.h after verbs.h, as those programs
 * do.
 *
 * It connects two RC QPs of the same process, on device $DEVICE with GID index $GID_INDEX. It prints
 * what the device lacks.
 */
#include <unistd.h>

#include <infiniband/verbs.h>
#include <infiniband/verbs_exp.h>

#include "check.h"

#define SIZE 4096

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static struct ibv_qp *qp[2];
static struct ibv_exp_res_domain *res_domain;
static char *buffer;
static uint8_t gid_index;
static int has_timestamps;

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

static void register_memory(void)
{
	struct ibv_exp_reg_mr_in in;
	struct ibv_exp_rereg_mr_attr rereg;
	int error;

	memset(&in, 0, sizeof(in));
	in.pd = pd;
	in.length = 3 * SIZE;
	in.exp_access = IBV_EXP_ACCESS_LOCAL_WRITE | IBV_EXP_ACCESS_REMOTE_WRITE |
			IBV_EXP_ACCESS_REMOTE_READ | IBV_EXP_ACCESS_REMOTE_ATOMIC | IBV_EXP_ACCESS_MW_BIND;
	in.exp_access |= IBV_EXP_ACCESS_SHARED_MR_USER_READ;
	CHECK_NULL(ibv_exp_reg_mr(&in), ENOSYS);
	in.exp_access ^= IBV_EXP_ACCESS_SHARED_MR_USER_READ | IBV_EXP_ACCESS_RESERVED;
	CHECK_NULL(ibv_exp_reg_mr(&in), EINVAL);
	in.exp_access ^= IBV_EXP_ACCESS_RESERVED | IBV_EXP_ACCESS_ALLOCATE_MR;
	mr = ibv_exp_reg_mr(&in);
	CHECK(mr);
	buffer = (char *)mr->addr;
	CHECK(buffer && !((uintptr_t)buffer % SIZE));
	memset(buffer, 1, 3 * SIZE);
	in.addr = buffer;
	CHECK_NULL(ibv_exp_reg_mr(&in), EINVAL);

	rereg.comp_mask = 0;
	error = ibv_exp_rereg_mr(mr, IBV_EXP_REREG_MR_KEEP_VALID, NULL, NULL, 0, 0, &rereg);
	CHECK_IS(error, ENOSYS);
	error = ibv_exp_rereg_mr(mr, 16, NULL, NULL, 0, 0, &rereg);
	CHECK_IS(error, EINVAL);
}

static void create_queues(void)
{
	struct ibv_exp_cq_init_attr cq_attr;
	struct ibv_exp_qp_init_attr attr;
	struct ibv_exp_res_domain_init_attr res_attr;
	int i;

	memset(&res_attr, 0, sizeof(res_attr));
	res_attr.comp_mask = IBV_EXP_RES_DOMAIN_THREAD_MODEL | IBV_EXP_RES_DOMAIN_MSG_MODEL;
	res_attr.thread_model = IBV_EXP_THREAD_SINGLE;
	res_attr.msg_model = IBV_EXP_MSG_HIGH_BW;
	res_domain = ibv_exp_create_res_domain(context, &res_attr);
	CHECK(res_domain);

	memset(&cq_attr, 0, sizeof(cq_attr));
	cq_attr.comp_mask = IBV_EXP_CQ_INIT_ATTR_FLAGS | IBV_EXP_CQ_INIT_ATTR_RES_DOMAIN;
	cq_attr.res_domain = res_domain;
	cq_attr.flags = IBV_EXP_CQ_CREATE_CROSS_CHANNEL;
	CHECK_NULL(ibv_exp_create_cq(context, 64, NULL, NULL, 0, &cq_attr), ENOSYS);
	cq_attr.flags = 1 << 30;
	CHECK_NULL(ibv_exp_create_cq(context, 64, NULL, NULL, 0, &cq_attr), EINVAL);
	cq_attr.flags = IBV_EXP_CQ_TIMESTAMP;
	cq = ibv_exp_create_cq(context, 64, &cq, NULL, 0, &cq_attr);
	has_timestamps = cq != NULL;
	if (!cq) {
		printf("exp: no timestamps: %s\n", strerror(errno));
		cq_attr.flags = IBV_EXP_CQ_COMPRESSED_CQE;
		cq = ibv_exp_create_cq(context, 64, &cq, NULL, 0, &cq_attr);
	}
	CHECK(cq);
	CHECK(cq->cq_context == &cq);

	for (i = 0; i < 2; i++) {
		memset(&attr, 0, sizeof(attr));
		attr.send_cq = attr.recv_cq = cq;
		attr.cap.max_send_wr = attr.cap.max_recv_wr = 32;
		attr.cap.max_send_sge = attr.cap.max_recv_sge = 1;
		attr.cap.max_inline_data = 32;
		attr.qp_type = IBV_QPT_RC;
		attr.pd = pd;
		attr.comp_mask = IBV_EXP_QP_INIT_ATTR_PD | IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS;
		attr.exp_create_flags = IBV_EXP_QP_CREATE_CROSS_CHANNEL;
		CHECK_NULL(ibv_exp_create_qp(context, &attr), ENOSYS);
		attr.exp_create_flags = 1 << 14;
		CHECK_NULL(ibv_exp_create_qp(context, &attr), EINVAL);
		attr.comp_mask = IBV_EXP_QP_INIT_ATTR_PD | IBV_EXP_QP_INIT_ATTR_INL_RECV |
				 IBV_EXP_QP_INIT_ATTR_RES_DOMAIN | IBV_EXP_QP_INIT_ATTR_ATOMICS_ARG;
		attr.max_inl_recv = 32;
		attr.res_domain = res_domain;
		attr.max_atomic_arg = 8;
		qp[i] = ibv_exp_create_qp(context, &attr);
		CHECK(qp[i]);
		CHECK_IS(attr.max_inl_recv, 0);
		CHECK(attr.cap.max_send_wr >= 32);
	}
	attr.qp_type = IBV_EXP_QPT_DC_INI;
	CHECK_NULL(ibv_exp_create_qp(context, &attr), ENOSYS);
}

static void connect_to(struct ibv_qp *own, struct ibv_qp *other)
{
	struct ibv_exp_qp_attr attr;
	uint64_t mask;

	memset(&attr, 0, sizeof(attr));
	attr.qp_state = IBV_QPS_INIT;
	attr.port_num = 1;
	attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	mask = IBV_EXP_QP_STATE | IBV_EXP_QP_PKEY_INDEX | IBV_EXP_QP_PORT | IBV_EXP_QP_ACCESS_FLAGS;
	CHECK_IS(ibv_exp_modify_qp(own, &attr, mask | IBV_EXP_QP_DC_KEY), ENOSYS);
	CHECK_IS(ibv_exp_modify_qp(own, &attr, mask | 1 << 30), EINVAL);
	CHECK_IS(ibv_exp_modify_qp(own, &attr, mask), 0);
	attr.qp_state = IBV_QPS_RTR;
	attr.path_mtu = IBV_MTU_1024;
	attr.dest_qp_num = other->qp_num;
	attr.max_dest_rd_atomic = 4;
	attr.min_rnr_timer = 12;
	attr.ah_attr.is_global = 1;
	attr.ah_attr.port_num = 1;
	attr.ah_attr.grh.hop_limit = 1;
	attr.ah_attr.grh.sgid_index = gid_index;
	CHECK_IS(ibv_query_gid(context, 1, gid_index, &attr.ah_attr.grh.dgid), 0);
	CHECK_IS(ibv_exp_modify_qp(own, &attr,
				   IBV_EXP_QP_STATE | IBV_EXP_QP_AV | IBV_EXP_QP_PATH_MTU |
					   IBV_EXP_QP_DEST_QPN | IBV_EXP_QP_RQ_PSN |
					   IBV_EXP_QP_MAX_DEST_RD_ATOMIC | IBV_EXP_QP_MIN_RNR_TIMER),
		 0);
	attr.qp_state = IBV_QPS_RTS;
	attr.timeout = 14;
	attr.retry_cnt = attr.rnr_retry = 7;
	attr.max_rd_atomic = 4;
	CHECK_IS(ibv_exp_modify_qp(own, &attr,
				   IBV_EXP_QP_STATE | IBV_EXP_QP_TIMEOUT | IBV_EXP_QP_RETRY_CNT |
					   IBV_EXP_QP_RNR_RETRY | IBV_EXP_QP_SQ_PSN |
					   IBV_EXP_QP_MAX_QP_RD_ATOMIC),
		 0);
}

static void poll_exactly(int count, struct ibv_exp_wc *wc)
{
	int n, turns = 0, done = 0;

	while (done < count && turns++ < 5000) {
		n = ibv_exp_poll_cq(cq, count - done, wc + done, sizeof(*wc));
		CHECK(n >= 0);
		done += n;
		if (!n)
			usleep(1000);
	}
	CHECK_IS(done, count);
	for (n = 0; n < count; n++) {
		CHECK_IS(wc[n].status, IBV_WC_SUCCESS);
		CHECK_IS(!!(wc[n].exp_wc_flags & IBV_EXP_WC_WITH_TIMESTAMP), has_timestamps);
		CHECK_IS(wc[n].timestamp != 0, has_timestamps);
	}
}

static void fill_wr(struct ibv_exp_send_wr *wr, struct ibv_sge *sge, enum ibv_exp_wr_opcode opcode)
{
	memset(sge, 0, sizeof(*sge));
	sge->addr = (uintptr_t)buffer;
	sge->length = 64;
	sge->lkey = mr->lkey;
	/* what a WR does not need may be anything */
	memset(wr, 0x5a, sizeof(*wr));
	wr->wr_id = 100 + opcode;
	wr->next = NULL;
	wr->sg_list = sge;
	wr->num_sge = 1;
	wr->exp_opcode = opcode;
	wr->exp_send_flags = IBV_EXP_SEND_SIGNALED;
	wr->wr.rdma.remote_addr = (uintptr_t)buffer + SIZE;
	wr->wr.rdma.rkey = mr->rkey;
}

static void post(struct ibv_exp_send_wr *wr)
{
	struct ibv_exp_send_wr *bad;

	CHECK_IS(ibv_exp_post_send(qp[0], wr, &bad), 0);
}

static void sends(void)
{
	struct ibv_recv_wr recv_wr, *bad_recv;
	struct ibv_exp_send_wr wr;
	struct ibv_exp_wc wc[2];
	struct ibv_sge sge, recv_sge;
	int receive;

	memset(&recv_wr, 0, sizeof(recv_wr));
	recv_sge.addr = (uintptr_t)buffer + SIZE;
	recv_sge.length = SIZE;
	recv_sge.lkey = mr->lkey;
	recv_wr.wr_id = 7;
	recv_wr.sg_list = &recv_sge;
	recv_wr.num_sge = 1;
	CHECK_IS(ibv_post_recv(qp[1], &recv_wr, &bad_recv), 0);
	strcpy(buffer, "with immediate data");
	fill_wr(&wr, &sge, IBV_EXP_WR_SEND_WITH_IMM);
	wr.ex.imm_data = 0x0a0b0c0d;
	wr.exp_send_flags |= IBV_EXP_SEND_INLINE | IBV_EXP_SEND_SOLICITED;
	sge.length = 32;
	post(&wr);
	poll_exactly(2, wc);
	receive = wc[1].wr_id == 7;
	CHECK_IS(wc[receive].wr_id, 7);
	CHECK_IS(wc[receive].exp_opcode, IBV_EXP_WC_RECV);
	CHECK_IS(wc[receive].byte_len, 32);
	CHECK(wc[receive].exp_wc_flags & IBV_EXP_WC_WITH_IMM);
	CHECK_IS(wc[receive].imm_data, 0x0a0b0c0d);
	CHECK_IS(wc[receive].qp_num, qp[1]->qp_num);
	CHECK_IS(wc[!receive].exp_opcode, IBV_EXP_WC_SEND);
	CHECK_IS(wc[!receive].wr_id, 100 + IBV_EXP_WR_SEND_WITH_IMM);
	CHECK(!strcmp(buffer + SIZE, "with immediate data"));
}

static void one_sided(void)
{
	volatile uint64_t *remote = (volatile uint64_t *)(buffer + SIZE);
	uint64_t *local = (uint64_t *)buffer;
	struct ibv_exp_send_wr wr;
	struct ibv_exp_wc wc;
	struct ibv_sge sge;

	local[0] = 42;
	fill_wr(&wr, &sge, IBV_EXP_WR_RDMA_WRITE);
	post(&wr);
	poll_exactly(1, &wc);
	CHECK_IS(wc.exp_opcode, IBV_EXP_WC_RDMA_WRITE);
	CHECK_IS(remote[0], 42);

	remote[0] = 43;
	fill_wr(&wr, &sge, IBV_EXP_WR_RDMA_READ);
	post(&wr);
	poll_exactly(1, &wc);
	CHECK_IS(wc.exp_opcode, IBV_EXP_WC_RDMA_READ);
	CHECK_IS(local[0], 43);

	fill_wr(&wr, &sge, IBV_EXP_WR_ATOMIC_FETCH_AND_ADD);
	sge.length = 8;
	wr.wr.atomic.compare_add = 5;
	wr.wr.atomic.rkey = mr->rkey;
	wr.wr.atomic.remote_addr = (uintptr_t)remote;
	post(&wr);
	poll_exactly(1, &wc);
	CHECK_IS(wc.exp_opcode, IBV_EXP_WC_FETCH_ADD);
	CHECK_IS(remote[0], 48);
	CHECK_IS(local[0], 43);

	fill_wr(&wr, &sge, IBV_EXP_WR_EXT_MASKED_ATOMIC_CMP_AND_SWP);
	sge.length = 8;
	wr.exp_send_flags |= IBV_EXP_SEND_EXT_ATOMIC_INLINE;
	wr.ext_op.masked_atomics.log_arg_sz = 3;
	wr.ext_op.masked_atomics.remote_addr = (uintptr_t)remote;
	wr.ext_op.masked_atomics.rkey = mr->rkey;
	memset(&wr.ext_op.masked_atomics.wr_data.inline_data.op, 0xff,
	       sizeof(wr.ext_op.masked_atomics.wr_data.inline_data.op));
	wr.ext_op.masked_atomics.wr_data.inline_data.op.cmp_swap.compare_val = 48;
	wr.ext_op.masked_atomics.wr_data.inline_data.op.cmp_swap.swap_val = 50;
	post(&wr);
	poll_exactly(1, &wc);
	CHECK_IS(wc.exp_opcode, IBV_EXP_WC_COMP_SWAP);
	CHECK_IS(remote[0], 50);

	wr.exp_opcode = IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD;
	wr.ext_op.masked_atomics.wr_data.inline_data.op.fetch_add.add_val = 3;
	wr.ext_op.masked_atomics.wr_data.inline_data.op.fetch_add.field_boundary = 0;
	post(&wr);
	poll_exactly(1, &wc);
	CHECK_IS(wc.exp_opcode, IBV_EXP_WC_FETCH_ADD);
	CHECK_IS(remote[0], 53);
}

/* A list longer than the parts in which it is passed on, and one with an error in it. */
static void lists(void)
{
	struct ibv_exp_send_wr wr[20], *bad = NULL;
	struct ibv_sge sge[20];
	struct ibv_exp_wc wc[20];
	int i;

	for (i = 0; i < 20; i++) {
		fill_wr(&wr[i], &sge[i], IBV_EXP_WR_RDMA_WRITE);
		wr[i].wr_id = (uint64_t)i;
		wr[i].next = i < 19 ? &wr[i + 1] : NULL;
	}
	post(wr);
	poll_exactly(20, wc);
	for (i = 0; i < 20; i++)
		CHECK_IS(wc[i].wr_id, i);

	wr[17].exp_opcode = IBV_EXP_WR_NOP;
	CHECK_IS(ibv_exp_post_send(qp[0], wr, &bad), ENOSYS);
	CHECK(bad == &wr[17]);
	poll_exactly(17, wc);
	CHECK_IS(wc[16].wr_id, 16);

	wr[17].exp_opcode = IBV_EXP_WR_RDMA_WRITE;
	wr[18].num_sge = 100;
	CHECK(ibv_exp_post_send(qp[0], wr, &bad) > 0);
	CHECK(bad == &wr[18]);
	poll_exactly(18, wc);

	wr[0].exp_send_flags |= IBV_EXP_SEND_WITH_CALC;
	CHECK_IS(ibv_exp_post_send(qp[0], wr, &bad), ENOSYS);
	CHECK(bad == wr);
}

/* The other ways to post and to poll. */
static void tables(void)
{
	drv_exp_poll_cq_func poll = (drv_exp_poll_cq_func)(uintptr_t)
		ibv_exp_get_provider_func(context, IBV_EXP_POLL_CQ_FUNC);
	struct ibv_exp_query_intf_params params;
	enum ibv_exp_query_intf_status status;
	struct ibv_exp_qp_burst_family *family;
	struct ibv_exp_task task[2], *bad;
	struct ibv_exp_send_wr wr;
	struct ibv_exp_wc wc[2];
	struct ibv_recv_wr recv_wr;
	struct ibv_sge sge, recv_sge;

	memset(&params, 0, sizeof(params));
	params.intf = IBV_EXP_INTF_CQ;
	params.obj = cq;
	CHECK_NULL(ibv_exp_query_intf(context, &params, &status), ENOSYS);
	CHECK_IS(status, IBV_EXP_INTF_STAT_INTF_NOT_SUPPORTED);
	params.intf = IBV_EXP_INTF_QP_BURST;
	params.obj = qp[0];
	family = (struct ibv_exp_qp_burst_family *)ibv_exp_query_intf(context, &params, &status);
	CHECK(family);
	CHECK_IS(status, IBV_EXP_INTF_STAT_OK);
	recv_sge.addr = (uintptr_t)buffer + SIZE;
	recv_sge.length = SIZE;
	recv_sge.lkey = mr->lkey;
	CHECK_IS(family->recv_burst(qp[1], &recv_sge, 1), 0);
	CHECK_IS(family->send_pending(qp[0], (uintptr_t)buffer, 16, mr->lkey, IBV_EXP_QP_BURST_SIGNALED), 0);
	CHECK_IS(family->send_flush(qp[0]), 0);
	poll_exactly(2, wc);
	CHECK_IS(family->send_pending(qp[0], (uintptr_t)buffer, 16, mr->lkey, IBV_EXP_QP_BURST_TUNNEL),
		 ENOSYS);
	CHECK_IS(ibv_exp_release_intf(context, family, NULL), 0);

	fill_wr(&wr, &sge, IBV_EXP_WR_SEND);
	memset(&recv_wr, 0, sizeof(recv_wr));
	recv_wr.sg_list = &recv_sge;
	recv_wr.num_sge = 1;
	memset(task, 0, sizeof(task));
	task[0].task_type = IBV_EXP_TASK_RECV;
	task[0].item.qp = qp[1];
	task[0].item.recv_wr = &recv_wr;
	task[0].next = &task[1];
	task[1].task_type = IBV_EXP_TASK_SEND;
	task[1].item.qp = qp[0];
	task[1].item.send_wr = &wr;
	CHECK_IS(ibv_exp_post_task(context, task, &bad), 0);
	poll_exactly(2, wc);
	wr.exp_opcode = IBV_EXP_WR_CQE_WAIT;
	CHECK_IS(ibv_exp_post_task(context, &task[1], &bad), ENOSYS);
	CHECK(bad == &task[1]);
	CHECK_IS(poll(cq, 1, wc, sizeof(wc[0])), 0);
}

static void windows(void)
{
	struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_1);
	struct ibv_exp_mw_bind bind;
	struct ibv_exp_wc wc;
	int error;

	if (!mw) {
		printf("exp: no memory windows: %s\n", strerror(errno));
		return;
	}
	memset(&bind, 0, sizeof(bind));
	bind.qp = qp[0];
	bind.mw = mw;
	bind.wr_id = 9;
	bind.exp_send_flags = IBV_EXP_SEND_SIGNALED;
	bind.bind_info.mr = mr;
	bind.bind_info.addr = (uintptr_t)buffer;
	bind.bind_info.length = 64;
	bind.bind_info.exp_mw_access_flags = IBV_EXP_ACCESS_REMOTE_WRITE;
	error = ibv_exp_bind_mw(&bind);
	if (error) {
		printf("exp: no type 1 windows: %s\n", strerror(error));
	} else {
		poll_exactly(1, &wc);
		CHECK_IS(wc.wr_id, 9);
		CHECK_IS(wc.exp_opcode, IBV_EXP_WC_BIND_MW);
	}
	bind.bind_info.exp_mw_access_flags = IBV_EXP_ACCESS_TUNNELED_ATOMIC;
	CHECK_IS(ibv_exp_bind_mw(&bind), ENOSYS);
	CHECK_IS(ibv_dealloc_mw(mw), 0);
}

static void close_device(void)
{
	CHECK_IS(ibv_destroy_qp(qp[0]), 0);
	CHECK_IS(ibv_destroy_qp(qp[1]), 0);
	CHECK_IS(ibv_destroy_cq(cq), 0);
	CHECK_IS(ibv_exp_destroy_res_domain(context, res_domain, NULL), 0);
	/* frees its memory, too */
	CHECK_IS(ibv_dereg_mr(mr), 0);
	CHECK_IS(ibv_dealloc_pd(pd), 0);
	CHECK_IS(ibv_close_device(context), 0);
}

int main(void)
{
	open_device();
	register_memory();
	create_queues();
	connect_to(qp[0], qp[1]);
	connect_to(qp[1], qp[0]);
	sends();
	one_sided();
	lists();
	tables();
	windows();
	close_device();
	printf("exp: %d checks passed\n", checks);
	return 0;
}
