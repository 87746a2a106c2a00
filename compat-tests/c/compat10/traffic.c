/* compat10: work requests, alone and in lists, and their completions. */
#include "compat10.h"

#include <arpa/inet.h>
#include <unistd.h>

enum {
	LONG_LIST = 40
};

/* Prints one completion; waits at most a few seconds for it. */
void completion(const char *of, struct v10_cq *cq)
{
	struct ibv_wc wc;
	int n = 0, i;

	if (!moves_data)
		return;
	memset(&wc, 0, sizeof(wc));
	for (i = 0; i < 5000 && !n; i++) {
		n = context->ops.poll_cq(cq, 1, &wc);
		if (!n)
			usleep(1000);
	}
	printf("  %s: %d completions\n", of, n);
	if (n != 1)
		return;
	NUM(wc.wr_id);
	NUM(wc.status);
	if (wc.status == IBV_WC_SUCCESS)
		NUM(wc.opcode);
	if (wc.status == IBV_WC_SUCCESS && wc.opcode & IBV_WC_RECV) {
		NUM(wc.byte_len);
		NUM(wc.wc_flags);
		if (wc.wc_flags & IBV_WC_WITH_IMM)
			NUM(ntohl(wc.imm_data));
		if (wc.qp_num == ud->qp_num)
			YES(wc.src_qp == ud->qp_num);
	}
	YES(wc.qp_num == a->qp_num || wc.qp_num == b->qp_num || wc.qp_num == ud->qp_num);
}

/* Prints the position in the list of the request that failed. */
#define BAD(list, bad) printf("  refused: %d\n", (bad) ? (int)((bad) - (list)) : -1)

void post_lists(void)
{
	/*
	 * The largest number that is rejected: a provider may read the entries before it checks their number.
	 */
	static struct ibv_sge sge[1000];
	struct v10_recv_wr recv[LONG_LIST], *bad_recv = NULL;
	struct v10_send_wr send[LONG_LIST], *bad_send = NULL;
	int i, n, taken;

	memset(recv, 0, sizeof(recv));
	memset(send, 0, sizeof(send));
	sge[0] = (struct ibv_sge){ (uintptr_t)buf, 64, mr->lkey };
	for (i = 0; i < LONG_LIST; i++) {
		recv[i].next = i + 1 < LONG_LIST ? &recv[i + 1] : NULL;
		recv[i].wr_id = 1000 + i;
		recv[i].sg_list = sge;
		recv[i].num_sge = 1;
		send[i].next = i + 1 < LONG_LIST ? &send[i + 1] : NULL;
		send[i].wr_id = 2000 + i;
		send[i].sg_list = sge;
		send[i].num_sge = 1;
		send[i].opcode = IBV_WR_RDMA_WRITE;
		send[i].wr.rdma.remote_addr = (uintptr_t)buf + LEN;
		send[i].wr.rdma.rkey = mr->rkey;
	}
	/*
	 * With too many scatter/gather entries, the request at that position fails; otherwise the first one
	 * for which the queue is full.
	 */
	for (n = 0; n < LONG_LIST; n += 13) {
		recv[n].num_sge = 1000;
		bad_recv = NULL;
		INT(context->ops.post_srq_recv(srq, recv, &bad_recv));
		BAD(recv, bad_recv);
		bad_recv = NULL;
		INT(context->ops.post_recv(a, recv, &bad_recv));
		BAD(recv, bad_recv);
		recv[n].num_sge = 1;
		/*
		 * A longer list fills the queue if nothing drains it; otherwise the result depends on timing.
		 */
		if (n < 2 * DEPTH || !moves_data) {
			send[n].num_sge = 1000;
			bad_send = NULL;
			INT(context->ops.post_send(b, send, &bad_send));
			BAD(send, bad_send);
			send[n].num_sge = 1;
			/* uroce accepts no more than the requested capacity. */
			taken = moves_data && bad_send ? bad_send - send : n;
			for (i = 0; i < taken; i++)
				completion("written", send_cq);
		}
	}
}

void messages(void)
{
	struct ibv_sge from = { (uintptr_t)buf, 100, mr->lkey };
	struct ibv_sge to[2] = {
		{ (uintptr_t)buf + LEN, 60, mr->lkey },
		{ (uintptr_t)buf + LEN + 60, 140, mr->lkey },
	};
	struct v10_recv_wr recv[3], *bad_recv = NULL;
	struct v10_send_wr send[4], *bad_send = NULL;
	struct ibv_ah_attr at = {
		.is_global = 1,
		.port_num = PORT,
		.grh = { .dgid = gid, .sgid_index = gid_index, .hop_limit = 1 },
	};
	uint64_t *word = (uint64_t *)(buf + 2 * LEN), *was = (uint64_t *)(buf + 3 * LEN);
	struct ibv_sge there = { (uintptr_t)was, sizeof(*was), mr->lkey };

	/* To the SRQ: three of four requests in one list, one of them with immediate data. */
	memset(recv, 0, sizeof(recv));
	for (int i = 0; i < 3; i++) {
		recv[i].next = i < 2 ? &recv[i + 1] : NULL;
		recv[i].wr_id = 10 + i;
		recv[i].sg_list = to;
		recv[i].num_sge = 2;
	}
	INT(context->ops.post_srq_recv(srq, recv, &bad_recv));
	for (int i = 0; i < LEN; i++)
		buf[i] = i;
	INT(context->ops.req_notify_cq(recv_cq, 0));
	memset(send, 0, sizeof(send));
	send[0].wr_id = 20;
	send[0].sg_list = &from;
	send[0].num_sge = 1;
	send[0].opcode = IBV_WR_SEND_WITH_IMM;
	send[0].imm_data = htonl(0x01020304);
	INT(context->ops.post_send(a, send, &bad_send));
	completion("sent", send_cq);
	completion("received", recv_cq);
	if (moves_data)
		YES(!memcmp(buf, buf + LEN, 100));

	/* RDMA write, RDMA read and both atomics, in one list. */
	*word = 40;
	for (int i = 0; i < 4; i++) {
		send[i].next = i < 3 ? &send[i + 1] : NULL;
		send[i].wr_id = 30 + i;
		send[i].sg_list = i < 2 ? &from : &there;
		send[i].num_sge = 1;
	}
	send[0].opcode = IBV_WR_RDMA_WRITE;
	send[0].wr.rdma.remote_addr = (uintptr_t)buf + LEN + 1000;
	send[0].wr.rdma.rkey = mr->rkey;
	send[1].opcode = IBV_WR_RDMA_READ;
	send[1].sg_list = to;
	send[1].wr.rdma.remote_addr = (uintptr_t)buf + 50;
	send[1].wr.rdma.rkey = mr->rkey;
	send[2].opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
	send[2].wr.atomic.remote_addr = (uintptr_t)word;
	send[2].wr.atomic.compare_add = 2;
	send[2].wr.atomic.rkey = mr->rkey;
	send[3].opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
	send[3].wr.atomic.remote_addr = (uintptr_t)word;
	send[3].wr.atomic.compare_add = 42;
	send[3].wr.atomic.swap = 43;
	send[3].wr.atomic.rkey = mr->rkey;
	INT(context->ops.post_send(a, send, &bad_send));
	for (int i = 0; i < 4; i++)
		completion("one-sided", send_cq);
	if (moves_data) {
		YES(!memcmp(buf, buf + LEN + 1000, 100));
		YES(!memcmp(buf + 50, buf + LEN, 60));
		NUM(*word);
		NUM(*was);
	}

	/* A UD message to ourselves. */
	/* Over the fake kernel no neighbour has the address, and errno is arbitrary. */
	ah = v10_create_ah(pd, &at);
	YES(ah || !moves_data);
	if (!ah)
		return;
	YES(ah->context == context);
	YES(ah->pd == pd);
	recv[0].next = NULL;
	recv[0].wr_id = 40;
	INT(context->ops.post_recv(ud, recv, &bad_recv));
	send[0].next = NULL;
	send[0].wr_id = 41;
	send[0].opcode = IBV_WR_SEND;
	send[0].sg_list = &from;
	send[0].wr.ud.ah = ah;
	send[0].wr.ud.remote_qpn = ud->qp_num;
	send[0].wr.ud.remote_qkey = QKEY;
	INT(context->ops.post_send(ud, send, &bad_send));
	completion("sent datagram", send_cq);
	completion("received datagram", recv_cq);
	if (moves_data)
		YES(!memcmp(buf, buf + LEN + 40, 60) && !memcmp(buf + 60, buf + LEN + 100, 40));
	at.port_num = 99;
	if (moves_data) {
		struct v10_ah *none;

		PTR(none, v10_create_ah(pd, &at));
	}
}

void groups(void)
{
	union ibv_gid group = { .raw = { 0xff, 0x0e, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 239, 1, 2, 3 } };

	INT(v10_attach_mcast(ud, &group, 0xc001));
	INT(v10_detach_mcast(ud, &group, 0xc001));
	if (moves_data) {
		INT(v10_detach_mcast(ud, &group, 0xc001));
		INT(v10_attach_mcast(a, &group, 0xc001));
	}
}
