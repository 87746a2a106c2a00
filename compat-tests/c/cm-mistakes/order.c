/* Destroys too early, or by a call that is not for it: ids, their queue pairs, event channels. */
#include "cm.h"

#include <sys/wait.h>

/* The id is destroyed before its queue pair. */
static void destroy_id_with_qp(bool wrong)
{
	struct cm cm = begin();

	resolve(cm, false);
	make_qp(cm);
	struct ibv_qp *qp = cm.id->qp;
	struct ibv_cq *send_cq = cm.id->send_cq, *recv_cq = cm.id->recv_cq;
	struct ibv_comp_channel *channels[] = { cm.id->send_cq_channel, cm.id->recv_cq_channel };
	if (!wrong)
		rdma_destroy_qp(cm.id);
	finish(cm);
	if (!wrong)
		return;
	/* The objects of the id are the program's now. */
	CHECK(ibv_destroy_qp(qp) == 0 && ibv_destroy_cq(send_cq) == 0);
	CHECK(recv_cq == send_cq || ibv_destroy_cq(recv_cq) == 0);
	CHECK(ibv_destroy_comp_channel(channels[0]) == 0);
	CHECK(channels[0] == channels[1] || ibv_destroy_comp_channel(channels[1]) == 0);
}

/* ibv_destroy_qp for what rdma_create_qp has made. The id forgets it here, as a careful program does. */
static void destroy_qp_of_id(bool wrong)
{
	struct cm cm = begin();

	resolve(cm, false);
	struct ibv_cq *cq = ibv_create_cq(cm.id->verbs, 8, NULL, NULL, 0);
	struct ibv_qp_init_attr attr = {
		.send_cq = cq, .recv_cq = cq, .cap = { 4, 4, 1, 1, 0 }, .qp_type = IBV_QPT_RC
	};
	CHECK(cq && rdma_create_qp(cm.id, NULL, &attr) == 0);
	if (wrong) {
		CHECK(ibv_destroy_qp(cm.id->qp) == 0);
		cm.id->qp = NULL;
	} else {
		rdma_destroy_qp(cm.id);
	}
	CHECK(ibv_destroy_cq(cq) == 0);
}

/* The channel is destroyed before its ids. */
static void destroy_channel_first(bool wrong)
{
	struct cm cm = begin(), other = begin();

	if (wrong) {
		rdma_destroy_event_channel(cm.channel);
		finish(other);
		/* The first id has no channel any more. */
		exit(failures != 0);
	}
}

/* An id is used after it was destroyed: librdmacm reads freed memory, and may end the process. */
static void use_destroyed_id(bool wrong)
{
	struct cm cm = begin();
	struct sockaddr_in local = address("127.0.0.1");

	CHECK(rdma_destroy_id(cm.id) == 0);
	if (wrong && fork() == 0) {
		rdma_bind_addr(cm.id, (struct sockaddr *)&local);
		_exit(0);
	}
	if (wrong)
		wait(NULL);
	/* The new id may have the old one's address. */
	CHECK(rdma_create_id(cm.channel, &cm.id, NULL, RDMA_PS_TCP) == 0);
	CHECK(rdma_bind_addr(cm.id, (struct sockaddr *)&local) == 0);
	finish(cm);
}

const struct mistake order_mistakes[] = {
	{ "destroy-id-with-qp", destroy_id_with_qp, "cm-qp", "rdma_destroy_id destroys no queue pair" },
	{ "destroy-qp-of-id", destroy_qp_of_id, "cm-qp", "id->qp still points to it" },
	{ "destroy-channel-first", destroy_channel_first, "cm-order", "1 ids have it" },
	{ "use-destroyed-id", use_destroyed_id, "dead-object", "has been destroyed" },
	{ 0 },
};
