/* Posting and polling: requests are carried out when they are posted. */
#include "loop.h"

pthread_mutex_t loop_lock = PTHREAD_MUTEX_INITIALIZER;
struct loop_mr *regions;
struct loop_qp *queue_pairs;

struct loop_qp *to_loop(struct ibv_qp *qp)
{
	return container_of(qp, struct loop_qp, vqp.qp);
}

static void complete(struct ibv_cq *cq, const struct ibv_wc *wc)
{
	struct loop_cq *own = container_of(cq, struct loop_cq, vcq.cq);

	if (own->tail - own->head < QUEUE)
		own->wcs[own->tail++ % QUEUE] = *wc;
}

/* Whether a region has the key, the range and the right. */
static bool permits(uint32_t key, bool remote, uint64_t addr, uint64_t length, int right)
{
	for (struct loop_mr *mr = regions; mr; mr = mr->next)
		if (key == (remote ? mr->vmr.ibv_mr.rkey : mr->vmr.ibv_mr.lkey))
			return addr >= mr->start && addr + length <= mr->start + mr->vmr.ibv_mr.length &&
			       (mr->vmr.access & right) == right;
	return false;
}

static uint32_t length_of(const struct ibv_sge *sges, int count)
{
	uint32_t length = 0;

	while (count-- > 0)
		length += sges++->length;
	return length;
}

static struct loop_qp *peer_of(const struct loop_qp *qp)
{
	struct loop_qp *peer = queue_pairs;

	while (peer && (peer->vqp.qp.qp_num != qp->dest || peer->vqp.qp.context != qp->vqp.qp.context))
		peer = peer->next;
	return peer;
}

/* Delivers a message into the peer's next receive. Returns the status of the request. */
static enum ibv_wc_status deliver(struct loop_qp *qp, const struct request *request)
{
	uint32_t length = length_of(request->sges, request->count), done = 0;
	struct ibv_wc wc = { .opcode = IBV_WC_RECV, .byte_len = length };
	struct loop_qp *peer = peer_of(qp);
	struct receive *receive;

	if (!peer)
		return IBV_WC_RETRY_EXC_ERR;
	if (peer->head == peer->tail)
		return IBV_WC_RNR_RETRY_EXC_ERR;
	receive = &peer->receives[peer->head++ % QUEUE];
	wc.wr_id = receive->wr_id;
	wc.qp_num = peer->vqp.qp.qp_num;
	if (length_of(receive->sges, receive->count) < length)
		wc.status = IBV_WC_LOC_LEN_ERR;
	for (int i = 0; i < request->count && receive->count == 1 && !wc.status; i++) {
		memcpy((char *)(uintptr_t)receive->sges->addr + done,
		       (void *)(uintptr_t)request->sges[i].addr, request->sges[i].length);
		done += request->sges[i].length;
	}
	if (wc.status)
		peer->vqp.qp.state = IBV_QPS_ERR;
	complete(peer->vqp.qp.recv_cq, &wc);
	return wc.status ? IBV_WC_REM_INV_REQ_ERR : IBV_WC_SUCCESS;
}

/* Carries a request out. Returns its status. */
static enum ibv_wc_status carry_out(struct loop_qp *qp, const struct request *request)
{
	bool reads = request->opcode == IBV_WR_RDMA_READ;
	uint64_t at = request->remote_addr;

	for (int i = 0; i < request->count; i++)
		if (!permits(request->sges[i].lkey, false, request->sges[i].addr, request->sges[i].length,
			     reads ? IBV_ACCESS_LOCAL_WRITE : 0))
			return IBV_WC_LOC_PROT_ERR;
	if (request->opcode == IBV_WR_SEND)
		return deliver(qp, request);
	if (!permits(request->rkey, true, at, length_of(request->sges, request->count),
		     reads ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE))
		return IBV_WC_REM_ACCESS_ERR;
	for (int i = 0; i < request->count; i++) {
		void *here = (void *)(uintptr_t)request->sges[i].addr, *there = (void *)(uintptr_t)at;

		memmove(reads ? here : there, reads ? there : here, request->sges[i].length);
		at += request->sges[i].length;
	}
	return IBV_WC_SUCCESS;
}

static int send_one(struct loop_qp *qp, const struct request *request)
{
	static const enum ibv_wc_opcode opcodes[] = { [IBV_WR_RDMA_WRITE] = IBV_WC_RDMA_WRITE,
						      [IBV_WR_SEND] = IBV_WC_SEND,
						      [IBV_WR_RDMA_READ] = IBV_WC_RDMA_READ };
	struct ibv_wc wc = { .wr_id = request->wr_id, .qp_num = qp->vqp.qp.qp_num };

	if (qp->vqp.qp.state == IBV_QPS_ERR)
		wc.status = IBV_WC_WR_FLUSH_ERR;
	else if (qp->vqp.qp.state != IBV_QPS_RTS || request->opcode > IBV_WR_RDMA_READ)
		return EINVAL;
	else
		wc.status = carry_out(qp, request);
	wc.opcode = opcodes[request->opcode];
	if (wc.status)
		qp->vqp.qp.state = IBV_QPS_ERR;
	if (wc.status || qp->all_signaled || (request->flags & IBV_SEND_SIGNALED))
		complete(qp->vqp.qp.send_cq, &wc);
	return 0;
}

int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	int error = 0;

	pthread_mutex_lock(&loop_lock);
	for (; wr && !error; wr = error ? wr : wr->next) {
		struct request request = { .wr_id = wr->wr_id,
					   .remote_addr = wr->wr.rdma.remote_addr,
					   .rkey = wr->wr.rdma.rkey,
					   .flags = wr->send_flags,
					   .opcode = wr->opcode,
					   .count = wr->num_sge };

		if (wr->num_sge > SGES)
			error = EINVAL;
		else
			memcpy(request.sges, wr->sg_list, wr->num_sge * sizeof(struct ibv_sge));
		error = error ? error : send_one(to_loop(qp), &request);
	}
	if (error)
		*bad = wr;
	pthread_mutex_unlock(&loop_lock);
	return error;
}

int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct loop_qp *own = to_loop(qp);
	int error = 0;

	pthread_mutex_lock(&loop_lock);
	for (; wr && !error; wr = error ? wr : wr->next) {
		struct receive *receive = &own->receives[own->tail % QUEUE];

		if (own->tail - own->head == QUEUE || wr->num_sge > SGES) {
			error = ENOMEM;
			continue;
		}
		receive->wr_id = wr->wr_id;
		receive->count = wr->num_sge;
		memcpy(receive->sges, wr->sg_list, wr->num_sge * sizeof(struct ibv_sge));
		own->tail++;
	}
	if (error)
		*bad = wr;
	pthread_mutex_unlock(&loop_lock);
	return error;
}

int poll_cq(struct ibv_cq *cq, int room, struct ibv_wc *wc)
{
	struct loop_cq *own = container_of(cq, struct loop_cq, vcq.cq);
	int count = 0;

	pthread_mutex_lock(&loop_lock);
	while (count < room && own->head != own->tail)
		wc[count++] = own->wcs[own->head++ % QUEUE];
	pthread_mutex_unlock(&loop_lock);
	return count;
}

int req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	(void)cq;
	(void)solicited_only;
	return 0;
}

/* The functions of an extended queue pair. */

static void wr_start(struct ibv_qp_ex *qp)
{
	to_loop(&qp->qp_base)->built_count = 0;
}

static struct request *begin(struct ibv_qp_ex *qp, enum ibv_wr_opcode opcode)
{
	struct loop_qp *own = to_loop(&qp->qp_base);
	struct request *request = &own->built[own->built_count++ % QUEUE];

	*request = (struct request){ .wr_id = qp->wr_id, .flags = qp->wr_flags, .opcode = opcode };
	return request;
}

static void wr_send(struct ibv_qp_ex *qp)
{
	begin(qp, IBV_WR_SEND);
}

static void wr_rdma_write(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr)
{
	struct request *request = begin(qp, IBV_WR_RDMA_WRITE);

	request->rkey = rkey;
	request->remote_addr = addr;
}

static void wr_set_sge(struct ibv_qp_ex *qp, uint32_t lkey, uint64_t addr, uint32_t length)
{
	struct loop_qp *own = to_loop(&qp->qp_base);
	struct request *request = &own->built[(own->built_count - 1) % QUEUE];

	request->sges[0] = (struct ibv_sge){ addr, length, lkey };
	request->count = 1;
}

static int wr_complete(struct ibv_qp_ex *qp)
{
	struct loop_qp *own = to_loop(&qp->qp_base);
	int error = 0;

	pthread_mutex_lock(&loop_lock);
	for (unsigned int i = 0; i < own->built_count && !error; i++)
		error = send_one(own, &own->built[i]);
	pthread_mutex_unlock(&loop_lock);
	return error;
}

static void wr_abort(struct ibv_qp_ex *qp)
{
	to_loop(&qp->qp_base)->built_count = 0;
}

void extend(struct loop_qp *qp)
{
	qp->vqp.comp_mask |= VERBS_QP_EX;
	qp->vqp.qp_ex.wr_start = wr_start;
	qp->vqp.qp_ex.wr_send = wr_send;
	qp->vqp.qp_ex.wr_rdma_write = wr_rdma_write;
	qp->vqp.qp_ex.wr_set_sge = wr_set_sge;
	qp->vqp.qp_ex.wr_complete = wr_complete;
	qp->vqp.qp_ex.wr_abort = wr_abort;
}
