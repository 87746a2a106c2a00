/*
 * A provider for tests of IBV_EXPLAIN and IBV_FAULTS on devices of a kernel: it drives loop* over the fake
 * kernel. Objects are created by commands, as a real provider does; requests are carried out when they are
 * posted, between queue pairs of one context.
 *
 * The two keys of a memory region differ, as those of some adapters do.
 */
#include "loop.h"

static struct ibv_pd *alloc_pd(struct ibv_context *context)
{
	/* The fake kernel writes a number of the provider behind the response. */
	struct {
		struct ib_uverbs_alloc_pd_resp core;
		uint32_t number;
	} resp;
	struct ibv_pd *pd = calloc(1, sizeof(*pd));
	struct ibv_alloc_pd cmd;

	if (pd && ibv_cmd_alloc_pd(context, pd, &cmd, sizeof(cmd), &resp.core, sizeof(resp))) {
		free(pd);
		return NULL;
	}
	return pd;
}

static int dealloc_pd(struct ibv_pd *pd)
{
	int error = ibv_cmd_dealloc_pd(pd);

	if (!error)
		free(pd);
	return error;
}

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access)
{
	struct loop_mr *mr = calloc(1, sizeof(*mr));
	struct ib_uverbs_reg_mr_resp resp;
	struct ibv_reg_mr cmd;

	if (mr && ibv_cmd_reg_mr(pd, addr, length, iova, access, &mr->vmr, &cmd, sizeof(cmd), &resp,
				 sizeof(resp))) {
		free(mr);
		return NULL;
	}
	if (!mr)
		return NULL;
	mr->start = (uintptr_t)addr;
	mr->vmr.ibv_mr.length = length;
	mr->vmr.ibv_mr.rkey = mr->vmr.ibv_mr.lkey | REMOTE;
	pthread_mutex_lock(&loop_lock);
	mr->next = regions;
	regions = mr;
	pthread_mutex_unlock(&loop_lock);
	return &mr->vmr.ibv_mr;
}

static int dereg_mr(struct verbs_mr *vmr)
{
	struct loop_mr *mr = container_of(vmr, struct loop_mr, vmr), **at = &regions;
	int error = ibv_cmd_dereg_mr(vmr);

	if (error)
		return error;
	pthread_mutex_lock(&loop_lock);
	while (*at != mr)
		at = &(*at)->next;
	*at = mr->next;
	pthread_mutex_unlock(&loop_lock);
	free(mr);
	return 0;
}

static struct ibv_mw *alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	struct ibv_mw *mw = calloc(1, sizeof(*mw));
	struct ib_uverbs_alloc_mw_resp resp;
	struct ibv_alloc_mw cmd;

	if (mw && ibv_cmd_alloc_mw(pd, type, mw, &cmd, sizeof(cmd), &resp, sizeof(resp))) {
		free(mw);
		return NULL;
	}
	return mw;
}

static int dealloc_mw(struct ibv_mw *mw)
{
	int error = ibv_cmd_dealloc_mw(mw);

	if (!error)
		free(mw);
	return error;
}

static struct ibv_cq *create_cq(struct ibv_context *context, int cqe, struct ibv_comp_channel *channel,
				int vector)
{
	struct loop_cq *cq = calloc(1, sizeof(*cq));
	struct ib_uverbs_create_cq_resp resp;
	struct ibv_create_cq cmd;

	if (cq && ibv_cmd_create_cq(context, cqe, channel, vector, &cq->vcq.cq, &cmd, sizeof(cmd), &resp,
				    sizeof(resp))) {
		free(cq);
		return NULL;
	}
	return cq ? &cq->vcq.cq : NULL;
}

static int destroy_cq(struct ibv_cq *cq)
{
	int error = ibv_cmd_destroy_cq(cq);

	if (!error)
		free(container_of(cq, struct loop_cq, vcq.cq));
	return error;
}

static struct ibv_qp *create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
	struct loop_qp *qp = calloc(1, sizeof(*qp));
	struct ib_uverbs_create_qp_resp resp;
	struct ibv_create_qp cmd;

	if (qp && ibv_cmd_create_qp_ex(context, &qp->vqp, attr, &cmd, sizeof(cmd), &resp, sizeof(resp))) {
		free(qp);
		return NULL;
	}
	if (!qp)
		return NULL;
	qp->all_signaled = attr->sq_sig_all;
	if (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)
		extend(qp);
	pthread_mutex_lock(&loop_lock);
	qp->next = queue_pairs;
	queue_pairs = qp;
	pthread_mutex_unlock(&loop_lock);
	return &qp->vqp.qp;
}

static struct ibv_qp *create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp_init_attr_ex ex = { .qp_context = attr->qp_context,
					  .send_cq = attr->send_cq,
					  .recv_cq = attr->recv_cq,
					  .srq = attr->srq,
					  .cap = attr->cap,
					  .qp_type = attr->qp_type,
					  .sq_sig_all = attr->sq_sig_all,
					  .comp_mask = IBV_QP_INIT_ATTR_PD,
					  .pd = pd };

	return create_qp_ex(pd->context, &ex);
}

static int modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	struct ibv_modify_qp cmd;
	int error = ibv_cmd_modify_qp(qp, attr, mask, &cmd, sizeof(cmd));

	pthread_mutex_lock(&loop_lock);
	if (!error && (mask & IBV_QP_STATE))
		qp->state = attr->qp_state;
	if (!error && (mask & IBV_QP_DEST_QPN))
		to_loop(qp)->dest = attr->dest_qp_num;
	pthread_mutex_unlock(&loop_lock);
	return error;
}

static int query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init)
{
	struct ibv_query_qp cmd;
	enum ibv_qp_state state = qp->state;
	int error = ibv_cmd_query_qp(qp, attr, mask, init, &cmd, sizeof(cmd));

	if (!error && state == IBV_QPS_ERR)
		qp->state = attr->qp_state = state;
	return error;
}

static int destroy_qp(struct ibv_qp *qp)
{
	struct loop_qp *own = to_loop(qp), **at = &queue_pairs;
	int error = ibv_cmd_destroy_qp(qp);

	if (error)
		return error;
	pthread_mutex_lock(&loop_lock);
	while (*at != own)
		at = &(*at)->next;
	*at = own->next;
	pthread_mutex_unlock(&loop_lock);
	free(own);
	return 0;
}

static struct ibv_srq *create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	struct ibv_srq *srq = calloc(1, sizeof(*srq));
	struct ib_uverbs_create_srq_resp resp;
	struct ibv_create_srq cmd;

	if (srq && ibv_cmd_create_srq(pd, srq, attr, &cmd, sizeof(cmd), &resp, sizeof(resp))) {
		free(srq);
		return NULL;
	}
	return srq;
}

static int destroy_srq(struct ibv_srq *srq)
{
	int error = ibv_cmd_destroy_srq(srq);

	if (!error)
		free(srq);
	return error;
}

static int query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr)
{
	struct ibv_query_port cmd;

	return ibv_cmd_query_port(context, port, attr, &cmd, sizeof(cmd));
}

static int query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
			   struct ibv_device_attr_ex *attr, size_t size)
{
	struct ib_uverbs_ex_query_device_resp resp;
	size_t resp_size = sizeof(resp);

	return ibv_cmd_query_device_any(context, input, attr, size, &resp, &resp_size);
}

static void free_context(struct ibv_context *context)
{
	struct verbs_context *own = verbs_get_ctx(context);

	verbs_uninit_context(own);
	free(own);
}

static const struct verbs_context_ops ops = {
	.alloc_mw = alloc_mw,
	.alloc_pd = alloc_pd,
	.create_cq = create_cq,
	.create_qp = create_qp,
	.create_qp_ex = create_qp_ex,
	.create_srq = create_srq,
	.dealloc_mw = dealloc_mw,
	.dealloc_pd = dealloc_pd,
	.dereg_mr = dereg_mr,
	.destroy_cq = destroy_cq,
	.destroy_qp = destroy_qp,
	.destroy_srq = destroy_srq,
	.free_context = free_context,
	.modify_qp = modify_qp,
	.poll_cq = poll_cq,
	.post_recv = post_recv,
	.post_send = post_send,
	.query_device_ex = query_device_ex,
	.query_port = query_port,
	.query_qp = query_qp,
	.reg_mr = reg_mr,
	.req_notify_cq = req_notify_cq,
};

static struct verbs_context *alloc_context(struct ibv_device *device, int cmd_fd, void *private_data)
{
	struct loop_context {
		struct verbs_context ibv;
	} * own;
	struct ib_uverbs_get_context_resp resp;
	struct ibv_get_context cmd;

	(void)private_data;
	own = verbs_init_and_alloc_context(device, cmd_fd, own, ibv, RDMA_DRIVER_UNKNOWN);
	if (!own)
		return NULL;
	if (ibv_cmd_get_context(&own->ibv, &cmd, sizeof(cmd), &resp, sizeof(resp))) {
		verbs_uninit_context(&own->ibv);
		free(own);
		return NULL;
	}
	verbs_set_ops(&own->ibv, &ops);
	return &own->ibv;
}

static struct verbs_device *alloc_device(struct verbs_sysfs_dev *sysfs_dev)
{
	(void)sysfs_dev;
	return calloc(1, sizeof(struct verbs_device));
}

static void uninit_device(struct verbs_device *device)
{
	free(device);
}

static const struct verbs_match_ent table[] = {
	VERBS_NAME_MATCH("loop", NULL),
	{ .kind = VERBS_MATCH_SENTINEL },
};
static const struct verbs_device_ops driver = {
	.name = "loop",
	.match_max_abi_version = 1,
	.match_table = table,
	.alloc_context = alloc_context,
	.alloc_device = alloc_device,
	.uninit_device = uninit_device,
};
PROVIDER_DRIVER(loop, driver)
