/* Ids that are bound to no device yet, and queue pairs that the program makes, or moves, itself. */
#include "cm.h"

#include <sys/wait.h>

static struct rdma_conn_param usual(unsigned number)
{
	return (struct rdma_conn_param){ .retry_count = 7, .rnr_retry_count = 3, .qp_num = number };
}

/* Moves the queue pair of a connection, which the program has made, to a state. */
static void move(struct rdma_cm_id *id, struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };
	int mask;

	CHECK(rdma_init_qp_attr(id, &attr, &mask) == 0 && ibv_modify_qp(qp, &attr, mask) == 0);
}

/* A listener, and a client that is resolved. */
static struct cm listening(struct cm *client)
{
	struct cm listener = server_in(RDMA_PS_TCP);

	*client = begin();
	resolve(*client, true);
	return listener;
}

/* The server accepts, with a queue pair of rdma_create_qp. */
static struct rdma_cm_id *accept_next(struct cm listener)
{
	struct rdma_conn_param param = usual(0);
	struct rdma_cm_event *event;

	CHECK(rdma_get_cm_event(listener.channel, &event) == 0);
	struct cm server = { listener.channel, event->id };
	rdma_ack_cm_event(event);
	make_qp(server);
	CHECK(rdma_accept(server.id, &param) == 0);
	return server.id;
}

static void disconnect(struct cm client, struct cm listener, struct rdma_cm_id *server)
{
	CHECK(next(listener) == RDMA_CM_EVENT_ESTABLISHED);
	CHECK(rdma_disconnect(client.id) == 0 && next(listener) == RDMA_CM_EVENT_DISCONNECTED);
	CHECK(rdma_disconnect(server) == 0 && next(client) == RDMA_CM_EVENT_DISCONNECTED);
	rdma_destroy_qp(server);
	CHECK(rdma_destroy_id(server) == 0);
}

/* The client has made its queue pair itself, and does not call rdma_establish. */
static void not_established(bool wrong)
{
	struct cm client, listener = listening(&client);
	struct ibv_pd *pd = ibv_alloc_pd(client.id->verbs);
	struct ibv_cq *cq = ibv_create_cq(client.id->verbs, 8, NULL, NULL, 0);
	struct ibv_qp_init_attr attr = {
		.send_cq = cq, .recv_cq = cq, .cap = { 4, 4, 1, 1, 0 }, .qp_type = IBV_QPT_RC
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &attr);

	CHECK(qp);
	move(client.id, qp, IBV_QPS_INIT);
	struct rdma_conn_param param = usual(qp->qp_num);
	CHECK(rdma_connect(client.id, &param) == 0);
	struct rdma_cm_id *server = accept_next(listener);
	CHECK(next(client) == RDMA_CM_EVENT_CONNECT_RESPONSE);
	move(client.id, qp, IBV_QPS_RTR);
	move(client.id, qp, IBV_QPS_RTS);
	if (wrong) {
		leave_after(3);
		next(listener);
	}
	CHECK(rdma_establish(client.id) == 0);
	disconnect(client, listener, server);
	CHECK(ibv_destroy_qp(qp) == 0 && ibv_destroy_cq(cq) == 0 && ibv_dealloc_pd(pd) == 0);
	finish(client);
	finish(listener);
}

/* The queue pair of rdma_create_qp is moved by hand before rdma_connect. */
static void moved_by_hand(bool wrong)
{
	struct cm client, listener = listening(&client);
	struct rdma_conn_param param = usual(0);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR,
				    .path_mtu = IBV_MTU_1024,
				    .ah_attr = {
					    .is_global = 1, .port_num = 1, .grh = { .hop_limit = 64 } } };
	int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;

	make_qp(client);
	if (wrong) {
		attr.dest_qp_num = client.id->qp->qp_num;
		CHECK(ibv_query_gid(client.id->verbs, 1, 0, &attr.ah_attr.grh.dgid) == 0);
		CHECK(ibv_modify_qp(client.id->qp, &attr, mask) == 0);
	}
	CHECK(rdma_connect(client.id, &param) == 0);
	struct rdma_cm_id *server = accept_next(listener);
	if (wrong) {
		CHECK(next(client) == RDMA_CM_EVENT_CONNECT_ERROR);
		rdma_destroy_qp(server);
		CHECK(rdma_destroy_id(server) == 0);
	} else {
		CHECK(next(client) == RDMA_CM_EVENT_ESTABLISHED);
		disconnect(client, listener, server);
	}
	rdma_destroy_qp(client.id);
	finish(client);
	finish(listener);
}

/* `verbs` of an id is used before the address is resolved. The process ends by SIGSEGV. */
static void verbs_unresolved(bool wrong)
{
	struct cm cm = begin();
	pid_t child = wrong ? fork() : 0;
	int status;

	if (wrong && child == 0) {
		ibv_alloc_pd(cm.id->verbs);
		_exit(0);
	}
	if (wrong)
		CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
	resolve(cm, false);
	struct ibv_pd *pd = ibv_alloc_pd(cm.id->verbs);
	CHECK(pd && ibv_dealloc_pd(pd) == 0);
	finish(cm);
}

/* The id is garbage: librdmacm reads it, and so does what explains the crash. The process ends by SIGSEGV. */
static void id_garbage(bool wrong)
{
	struct cm cm = begin();
	struct sockaddr_in local = address("127.0.0.1");
	pid_t child = wrong ? fork() : 0;
	int status;

	if (wrong && child == 0) {
		rdma_bind_addr((struct rdma_cm_id *)0x123456789000, (struct sockaddr *)&local);
		_exit(0);
	}
	if (wrong)
		CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
	CHECK(rdma_bind_addr(cm.id, (struct sockaddr *)&local) == 0);
	finish(cm);
}

const struct mistake own_mistakes[] = {
	{ "not-established", not_established, "no-cm-event", "has not called rdma_establish" },
	{ "moved-by-hand", moved_by_hand, "argument", "the program has called ibv_modify_qp itself" },
	{ "verbs-unresolved", verbs_unresolved, "crash", "so that its member verbs is NULL" },
	{ "id-garbage", id_garbage, "crash", "the program is in rdma_bind_addr of librdmacm" },
	{ 0 },
};
