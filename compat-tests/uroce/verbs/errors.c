/* Every error that a manual page lists and that can be provoked on uroce, in the order of the pages. A verb
 * that fails leaves the value in errno too. Errors that other checks also provoke (EBUSY, EFAULT) are here
 * again, so that a page can be compared with this file. */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "check.h"

/* Exported, but not in verbs.h. */
int ibv_query_gid_type(struct ibv_context *context, uint8_t port, unsigned int index, int *type);

/* The call fails with the errno value, as a verb that returns it, or NULL or -1. */
#define RETURNS(value, call) CHECK((errno = 0, (call) == (value) && errno == (value)))
#define IS_NULL(value, call) CHECK((errno = 0, !(call) && errno == (value)))
#define MINUS_ONE(value, call) CHECK((errno = 0, (call) == -1 && errno == (value)))

static void domains(struct rig *rig)
{
	struct ibv_td_init_attr td_attr = { .comp_mask = 1 };
	struct ibv_parent_domain_init_attr parent_attr = { .comp_mask = 1 << 30, .pd = rig->pd };
	struct ibv_xrcd_init_attr xrcd_attr = { .comp_mask = IBV_XRCD_INIT_ATTR_FD |
							     IBV_XRCD_INIT_ATTR_OFLAGS,
						.fd = open("/proc/self/exe", O_RDONLY) };
	struct ibv_pd *parent;
	struct ibv_td *td;
	struct ibv_xrcd *xrcd;

	RETURNS(EBUSY, ibv_dealloc_pd(rig->pd));
	IS_NULL(EINVAL, ibv_alloc_td(rig->context, &td_attr));
	td_attr.comp_mask = 0;
	NEED(td = ibv_alloc_td(rig->context, &td_attr));
	IS_NULL(EOPNOTSUPP, ibv_alloc_parent_domain(rig->context, &parent_attr));
	parent_attr = (struct ibv_parent_domain_init_attr){ .td = td };
	IS_NULL(EINVAL, ibv_alloc_parent_domain(rig->context, &parent_attr));
	parent_attr.pd = rig->pd;
	NEED(parent = ibv_alloc_parent_domain(rig->context, &parent_attr));
	RETURNS(EBUSY, ibv_dealloc_td(td));
	CHECK(ibv_dealloc_pd(parent) == 0 && ibv_dealloc_td(td) == 0);
	IS_NULL(ENOENT, ibv_import_pd(rig->context, 0xffffff));

	NEED(xrcd_attr.fd >= 0);
	IS_NULL(EAGAIN, ibv_open_xrcd(rig->context, &xrcd_attr));
	xrcd_attr.oflags = O_CREAT;
	NEED(xrcd = KEEP(ibv_open_xrcd(rig->context, &xrcd_attr)));
	xrcd_attr.oflags = O_CREAT | O_EXCL;
	IS_NULL(EINVAL, ibv_open_xrcd(rig->context, &xrcd_attr));
	close(xrcd_attr.fd);
	IS_NULL(EBADF, ibv_open_xrcd(rig->context, &xrcd_attr));
	xrcd_attr.comp_mask = IBV_XRCD_INIT_ATTR_FD;
	IS_NULL(EINVAL, ibv_open_xrcd(rig->context, &xrcd_attr));
}

static void memory(struct rig *rig)
{
	void *read_only = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mw_bind bind = { .bind_info = { rig->mr, (uintptr_t)rig->buf, 8,
						   IBV_ACCESS_REMOTE_READ } };
	struct ibv_qp *qp = make_qp(rig, IBV_QPT_RC, 0, NULL);
	struct ibv_sge sge = { (uintptr_t)rig->buf, 8, rig->mr->lkey };
	struct ibv_mw *mw, *two;

	NEED(read_only != MAP_FAILED);
	IS_NULL(EINVAL, ibv_reg_mr(rig->pd, rig->buf, 64, IBV_ACCESS_REMOTE_WRITE));
	IS_NULL(EINVAL, ibv_reg_mr(rig->pd, rig->buf, 64, 1 << 15));
	IS_NULL(EINVAL, ibv_reg_mr(rig->pd, rig->buf, 64, IBV_ACCESS_ON_DEMAND | IBV_ACCESS_REMOTE_WRITE));
	IS_NULL(EFAULT, ibv_reg_mr(rig->pd, read_only, 64, IBV_ACCESS_LOCAL_WRITE));
	IS_NULL(EINVAL, ibv_reg_mr_iova(rig->pd, rig->buf, 64, (uintptr_t)rig->buf + 1, 0));
	IS_NULL(EINVAL, ibv_reg_mr(rig->pd, (void *)(uintptr_t)-4096, SIZE, 0));
	IS_NULL(EINVAL, ibv_reg_mr_iova(rig->pd, rig->buf, SIZE, (uintptr_t)-4096, 0));
	IS_NULL(EINVAL, ibv_reg_dmabuf_mr(rig->pd, 0, 64, 0, 0, 0));
	IS_NULL(EOPNOTSUPP, ibv_alloc_null_mr(rig->pd));
	IS_NULL(ENOENT, ibv_import_mr(rig->pd, 0xffffff));
	RETURNS(EINVAL, ibv_advise_mr(rig->pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1));
	CHECK(ibv_rereg_mr(rig->mr, 1 << 20, NULL, NULL, 0, 0) == IBV_REREG_MR_ERR_INPUT && errno == EINVAL);
	CHECK(ibv_rereg_mr(rig->mr, 0, NULL, NULL, 0, 0) == IBV_REREG_MR_ERR_CMD && errno == EINVAL);

	IS_NULL(EINVAL, ibv_alloc_mw(rig->pd, 0));
	IS_NULL(EINVAL, ibv_alloc_mw(rig->pd, 3));
	NEED((mw = ibv_alloc_mw(rig->pd, IBV_MW_TYPE_1)) && (two = ibv_alloc_mw(rig->pd, IBV_MW_TYPE_2)));
	/* The checks of the header's ibv_bind_mw set no errno. */
	CHECK(ibv_bind_mw(qp, two, &bind) == EINVAL);
	RETURNS(EINVAL, rig->context->ops.bind_mw(qp, two, &bind));
	RETURNS(EINVAL, ibv_bind_mw(qp, mw, &bind));
	join(rig, qp, qp);
	bind.bind_info.mw_access_flags = 1 << 15;
	RETURNS(EINVAL, ibv_bind_mw(qp, mw, &bind));
	bind.bind_info.mw_access_flags = IBV_ACCESS_REMOTE_READ;
	CHECK(ibv_bind_mw(qp, mw, &bind) == 0 && next_wc(rig->cq).status == IBV_WC_SUCCESS);
	RETURNS(EBUSY, ibv_dereg_mr(rig->mr));
	CHECK(end(qp) == 0 && ibv_dealloc_mw(mw) == 0 && ibv_dealloc_mw(two) == 0);
	munmap(read_only, 4096);
}

static void addresses(struct rig *rig)
{
	struct ibv_ah_attr attr = { .is_global = 1, .port_num = 2, .grh.dgid = rig->gid };
	struct ibv_qp *ud = make_qp(rig, IBV_QPT_UD, 0, NULL), *rc = make_qp(rig, IBV_QPT_RC, 0, NULL);
	union ibv_gid group = { .raw = { [10] = 0xff, 0xff, 239, 1, 2, 9 } }, gid;
	struct ibv_wc wc = { .wc_flags = IBV_WC_GRH };
	uint8_t grh[40] = { [20] = 0x45, [36] = 239, 1, 2, 9 };
	struct ibv_gid_entry entry;
	struct ibv_port_attr port;
	int type;
	uint16_t pkey;

	IS_NULL(EINVAL, ibv_create_ah(rig->pd, &attr));
	attr.port_num = PORT;
	attr.grh.sgid_index = 200;
	IS_NULL(EINVAL, ibv_create_ah(rig->pd, &attr));
	MINUS_ONE(EINVAL, ibv_init_ah_from_wc(rig->context, PORT, &wc, (struct ibv_grh *)grh, &attr));
	memset(grh, 0, sizeof(grh));
	MINUS_ONE(EPROTONOSUPPORT,
		  ibv_init_ah_from_wc(rig->context, PORT, &wc, (struct ibv_grh *)grh, &attr));
	RETURNS(EINVAL, ibv_attach_mcast(rc, &group, 0));
	RETURNS(EINVAL, ibv_attach_mcast(ud, &rig->gid, 0));
	RETURNS(EINVAL, ibv_detach_mcast(ud, &group, 0));
	CHECK(ibv_attach_mcast(ud, &group, 0) == 0);
	RETURNS(EBUSY, ibv_destroy_qp(ud));
	CHECK(ibv_detach_mcast(ud, &group, 0) == 0);
	CHECK(end(ud) == 0 && end(rc) == 0);

	RETURNS(EINVAL, ibv_query_port(rig->context, 2, &port));
	MINUS_ONE(EINVAL, ibv_query_gid(rig->context, 2, 0, &gid));
	MINUS_ONE(EINVAL, ibv_query_gid(rig->context, PORT, 5000, &gid));
	MINUS_ONE(EINVAL, ibv_query_gid_type(rig->context, PORT, 5000, &type));
	MINUS_ONE(EINVAL, ibv_query_pkey(rig->context, PORT, 1, &pkey));
	RETURNS(ENODATA, ibv_query_gid_ex(rig->context, PORT, 255, &entry, 0));
	RETURNS(EINVAL, ibv_query_gid_ex(rig->context, PORT, 5000, &entry, 0));
	RETURNS(EOPNOTSUPP, ibv_query_gid_ex(rig->context, PORT, 0, &entry, 1));
	CHECK(ibv_query_gid_table(rig->context, &entry, 1, 1) == -EOPNOTSUPP && errno == EOPNOTSUPP);
}

static void completion_queues(struct rig *rig)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = 4, .wc_flags = IBV_WC_EX_WITH_CVLAN };
	struct ibv_modify_cq_attr moderation = { .attr_mask = IBV_CQ_ATTR_MODERATE << 1 };
	struct ibv_poll_cq_attr poll_attr = { .comp_mask = 1 };
	struct ibv_comp_channel *channel = ibv_create_comp_channel(rig->context);
	struct rlimit limit, none;
	struct ibv_device_attr device;
	struct ibv_qp *qp = make_qp(rig, IBV_QPT_RC, 0, NULL);
	struct ibv_cq_ex *ex;
	struct ibv_cq *cq;

	NEED(channel && ibv_query_device(rig->context, &device) == 0);
	IS_NULL(EINVAL, ibv_create_cq(rig->context, 0, NULL, NULL, 0));
	IS_NULL(EINVAL, ibv_create_cq(rig->context, device.max_cqe + 1, NULL, NULL, 0));
	IS_NULL(EINVAL, ibv_create_cq(rig->context, 1, NULL, NULL, 100000));
	IS_NULL(EINVAL, ibv_create_cq(rig->context, 1, NULL, NULL, -1));
	RETURNS(EBUSY, ibv_destroy_cq(rig->cq));
	CHECK(end(qp) == 0);
	IS_NULL(EOPNOTSUPP, ibv_create_cq_ex(rig->context, &attr));
	attr = (struct ibv_cq_init_attr_ex){ .cqe = 4, .comp_mask = 1 << 20 };
	IS_NULL(EOPNOTSUPP, ibv_create_cq_ex(rig->context, &attr));
	attr = (struct ibv_cq_init_attr_ex){ .cqe = 4,
					     .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
					     .flags = 1 << 20 };
	IS_NULL(EOPNOTSUPP, ibv_create_cq_ex(rig->context, &attr));
	attr = (struct ibv_cq_init_attr_ex){ .cqe = 4 };
	NEED(ex = ibv_create_cq_ex(rig->context, &attr));
	CHECK(ibv_start_poll(ex, &poll_attr) == EINVAL);
	poll_attr.comp_mask = 0;
	CHECK(ibv_start_poll(ex, &poll_attr) == ENOENT);
	RETURNS(EINVAL, ibv_resize_cq(ibv_cq_ex_to_cq(ex), 0));
	RETURNS(EINVAL, ibv_resize_cq(ibv_cq_ex_to_cq(ex), device.max_cqe + 1));
	RETURNS(EOPNOTSUPP, ibv_modify_cq(ibv_cq_ex_to_cq(ex), &moderation));
	CHECK(ibv_destroy_cq(ibv_cq_ex_to_cq(ex)) == 0);

	NEED(cq = ibv_create_cq(rig->context, 1, NULL, channel, 0));
	RETURNS(EBUSY, ibv_destroy_comp_channel(channel));
	CHECK(ibv_destroy_cq(cq) == 0 && ibv_destroy_comp_channel(channel) == 0);
	NEED(getrlimit(RLIMIT_NOFILE, &limit) == 0);
	none = (struct rlimit){ 0, limit.rlim_max };
	NEED(setrlimit(RLIMIT_NOFILE, &none) == 0);
	IS_NULL(EMFILE, ibv_create_comp_channel(rig->context));
	NEED(setrlimit(RLIMIT_NOFILE, &limit) == 0);
}

static void queue_pairs(struct rig *rig)
{
	struct ibv_qp_init_attr init = { .send_cq = rig->cq, .recv_cq = rig->cq, .qp_type = IBV_QPT_RC };
	struct ibv_qp_init_attr_ex ex = { .send_cq = rig->cq,
					  .recv_cq = rig->cq,
					  .qp_type = IBV_QPT_RC,
					  .pd = rig->pd,
					  .comp_mask = IBV_QP_INIT_ATTR_PD | 1 << 30 };
	struct ibv_xrcd *xrcd = KEEP(open_domain(rig, -1, 0));
	struct ibv_qp_open_attr open = { .xrcd = xrcd,
					 .qp_num = 1,
					 .qp_type = IBV_QPT_XRC_RECV,
					 .comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD };
	struct ibv_qp_rate_limit_attr rate = {};
	struct ibv_ece ece = {};
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS };
	struct ibv_qp *qp;

	init.cap.max_send_sge = 1000;
	IS_NULL(EINVAL, ibv_create_qp(rig->pd, &init));
	init.cap.max_send_sge = 1;
	init.qp_type = IBV_QPT_RAW_PACKET;
	IS_NULL(EOPNOTSUPP, ibv_create_qp(rig->pd, &init));
	IS_NULL(EOPNOTSUPP, ibv_create_qp_ex(rig->context, &ex));
	ex.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	ex.send_ops_flags = IBV_QP_EX_WITH_TSO;
	IS_NULL(EOPNOTSUPP, ibv_create_qp_ex(rig->context, &ex));
	ex.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS;
	ex.create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB;
	IS_NULL(EOPNOTSUPP, ibv_create_qp_ex(rig->context, &ex));

	NEED(xrcd);
	IS_NULL(EINVAL, ibv_open_qp(rig->context, &open));
	open.comp_mask |= IBV_QP_OPEN_ATTR_TYPE;
	IS_NULL(EINVAL, ibv_open_qp(rig->context, &open));

	qp = make_qp(rig, IBV_QPT_RC, 0, NULL);
	RETURNS(EINVAL, ibv_modify_qp(qp, &attr, IBV_QP_STATE));
	RETURNS(EINVAL, to_rts(qp));
	RETURNS(EOPNOTSUPP, ibv_modify_qp_rate_limit(qp, &rate));
	RETURNS(EOPNOTSUPP, ibv_set_ece(qp, &ece));
	ece.vendor_id = 1;
	RETURNS(EOPNOTSUPP, ibv_set_ece(qp, &ece));
	RETURNS(EOPNOTSUPP, ibv_query_qp(qp, &attr, IBV_QP_RATE_LIMIT, &init));
}

static void posting(struct rig *rig)
{
	struct ibv_srq *srq = new_srq(rig, 1);
	struct ibv_sge sges[40] = {};
	struct ibv_recv_wr *bad_recv, recv = { .num_sge = 40, .sg_list = sges };
	struct ibv_send_wr *bad, wr = { .opcode = 99 };
	struct ibv_ops_wr *bad_op, op = {};
	struct ibv_qp_attr sqd = { .qp_state = IBV_QPS_SQD };
	struct ibv_qp *qp = make_qp(rig, IBV_QPT_RC, IBV_QP_EX_WITH_RDMA_WRITE, NULL);
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);

	NEED(ex);
	/* In RESET. */
	RETURNS(EINVAL, ibv_post_recv(qp, &recv, &bad_recv));
	RETURNS(EINVAL, ibv_post_send(qp, &wr, &bad));
	NEED(to_init(qp) == 0);
	RETURNS(EINVAL, ibv_post_recv(qp, &recv, &bad_recv));
	RETURNS(EINVAL, ibv_post_srq_recv(srq, &recv, &bad_recv));
	recv.num_sge = 0;
	for (int i = 0; i < 16; i++)
		CHECK(ibv_post_recv(qp, &recv, &bad_recv) == 0);
	RETURNS(ENOMEM, ibv_post_recv(qp, &recv, &bad_recv));
	CHECK(ibv_post_srq_recv(srq, &recv, &bad_recv) == 0);
	RETURNS(ENOMEM, ibv_post_srq_recv(srq, &recv, &bad_recv));
	RETURNS(EOPNOTSUPP, ibv_post_srq_ops(srq, &op, &bad_op));
	CHECK(end(qp) == 0);

	qp = make_qp(rig, IBV_QPT_RC, IBV_QP_EX_WITH_RDMA_WRITE, NULL);
	ex = ibv_qp_to_qp_ex(qp);
	join(rig, qp, qp);
	RETURNS(EINVAL, ibv_post_send(qp, &wr, &bad));
	wr = (struct ibv_send_wr){ .opcode = IBV_WR_SEND, .num_sge = 40, .sg_list = sges };
	RETURNS(EINVAL, ibv_post_send(qp, &wr, &bad));
	sges[0] = (struct ibv_sge){ (uintptr_t)rig->buf, 65, 0 };
	wr = (struct ibv_send_wr){
		.opcode = IBV_WR_SEND, .num_sge = 1, .sg_list = sges, .send_flags = IBV_SEND_INLINE
	};
	RETURNS(EINVAL, ibv_post_send(qp, &wr, &bad));
	/* In SQD nothing is sent, so the queue fills. */
	CHECK(ibv_modify_qp(qp, &sqd, IBV_QP_STATE) == 0);
	wr.num_sge = 0;
	for (int i = 0; i < 16; i++)
		CHECK(ibv_post_send(qp, &wr, &bad) == 0);
	RETURNS(ENOMEM, ibv_post_send(qp, &wr, &bad));
	for (int bad_wr = 0; bad_wr < 2; bad_wr++) {
		ibv_wr_start(ex);
		ibv_wr_rdma_write(ex, 0, 0);
		if (bad_wr)
			ibv_wr_set_inline_data(ex, rig->buf, 65);
		RETURNS(bad_wr ? EINVAL : ENOMEM, ibv_wr_complete(ex));
	}
}

static void shared_queues(struct rig *rig)
{
	struct ibv_srq_init_attr init = { .attr = { 0, 1, 0 } };
	struct ibv_srq_init_attr_ex ex = { .attr = { 1, 1, 0 },
					   .pd = rig->pd,
					   .srq_type = IBV_SRQT_TM,
					   .comp_mask = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE };
	struct ibv_srq_attr attr = { .max_wr = 1, .srq_limit = 2 };
	struct ibv_srq *srq;
	uint32_t number;

	IS_NULL(EINVAL, ibv_create_srq(rig->pd, &init));
	init.attr.max_wr = 1;
	init.attr.max_sge = 1000;
	IS_NULL(EINVAL, ibv_create_srq(rig->pd, &init));
	IS_NULL(EOPNOTSUPP, ibv_create_srq_ex(rig->context, &ex));
	init.attr.max_sge = 1;
	NEED(srq = KEEP(ibv_create_srq(rig->pd, &init)));
	RETURNS(EINVAL, ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT));
	RETURNS(EINVAL, ibv_modify_srq(srq, &attr, 1 << 5));
	RETURNS(EOPNOTSUPP, ibv_get_srq_num(srq, &number));
	make_qp(rig, IBV_QPT_RC, 0, srq);
	RETURNS(EBUSY, ibv_destroy_srq(srq));
}

/* Verbs that uroce does not have. */
static void unsupported(struct rig *rig)
{
	struct ibv_query_device_ex_input input = { .comp_mask = 1 };
	struct ibv_device_attr_ex device;
	struct ibv_alloc_dm_attr dm = { .length = 0 };
	struct ibv_counters_init_attr counters = {};
	struct ibv_wq_init_attr wq = { .max_wr = 1, .max_sge = 1, .pd = rig->pd, .cq = rig->cq };
	struct ibv_rwq_ind_table_init_attr table = {};
	struct ibv_flow_attr flow = {};
	struct ibv_flow_action_esp_attr esp = {};
	struct ibv_qp *qp = make_qp(rig, IBV_QPT_UD, 0, NULL);

	/* The header's function checks it, and sets no errno. */
	CHECK(ibv_query_device_ex(rig->context, &input, &device) == EINVAL);
	IS_NULL(EINVAL, ibv_alloc_dm(rig->context, &dm));
	IS_NULL(EOPNOTSUPP, ibv_create_counters(rig->context, &counters));
	IS_NULL(EOPNOTSUPP, ibv_create_wq(rig->context, &wq));
	IS_NULL(EOPNOTSUPP, ibv_create_rwq_ind_table(rig->context, &table));
	IS_NULL(EOPNOTSUPP, ibv_create_flow(qp, &flow));
	IS_NULL(EOPNOTSUPP, ibv_create_flow_action_esp(rig->context, &esp));
}

/* libibverbs-rs(7): verbs on a context of the parent fail with EACCES, queries too. */
static int in_child(struct rig *rig, struct ibv_qp *qp, struct ibv_srq *srq)
{
	struct ibv_values_ex values = { .comp_mask = IBV_VALUES_MASK_RAW_CLOCK };
	struct ibv_td_init_attr td = {};
	struct ibv_srq_attr srq_attr = { .max_wr = 2 };
	struct ibv_ah_attr ah = rtr_attr(rig, 0).ah_attr;
	struct ibv_device_attr device;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct ibv_port_attr port;
	struct ibv_gid_entry entry;
	union ibv_gid gid;
	uint16_t pkey;

	RETURNS(EACCES, ibv_query_port(rig->context, PORT, &port));
	RETURNS(EACCES, ibv_query_device(rig->context, &device));
	RETURNS(EACCES, ibv_query_rt_values_ex(rig->context, &values));
	MINUS_ONE(EACCES, ibv_query_gid(rig->context, PORT, 0, &gid));
	MINUS_ONE(EACCES, ibv_query_pkey(rig->context, PORT, 0, &pkey));
	RETURNS(EACCES, ibv_query_gid_ex(rig->context, PORT, 0, &entry, 0));
	CHECK(ibv_query_gid_table(rig->context, &entry, 1, 0) == -EACCES && errno == EACCES);
	RETURNS(EACCES, ibv_query_qp(qp, &attr, IBV_QP_STATE, &init));
	RETURNS(EACCES, ibv_query_srq(srq, &srq_attr));
	RETURNS(EACCES, ibv_modify_srq(srq, &srq_attr, IBV_SRQ_MAX_WR));
	RETURNS(EACCES, ibv_resize_cq(rig->cq, 100));
	IS_NULL(EACCES, ibv_alloc_td(rig->context, &td));
	IS_NULL(EACCES, ibv_create_ah(rig->pd, &ah));
	IS_NULL(EACCES, ibv_create_comp_channel(rig->context));
	IS_NULL(EACCES, ibv_alloc_mw(rig->pd, IBV_MW_TYPE_1));
	IS_NULL(EACCES, ibv_reg_mr(rig->pd, rig->buf, 64, 0));
	return failures;
}

static void children(struct rig *rig)
{
	struct ibv_srq *srq = new_srq(rig, 1);
	struct ibv_qp *qp = make_qp(rig, IBV_QPT_RC, 0, NULL);
	pid_t pid = start_child();

	if (pid == 0)
		_exit(in_child(rig, qp, srq));
	await_child(pid);
}

const check_part errors_parts[] = { domains, memory,        addresses,   completion_queues, queue_pairs,
				    posting, shared_queues, unsupported, children,          NULL };
