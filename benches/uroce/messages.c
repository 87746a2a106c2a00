/*
 * messages DEVICE send|write|read|datagram SIZE NUMBER: transfers NUMBER messages between two QPs of this
 * process, one after the other, busy-polling. Both ends are counted. They are RC; for datagrams UD.
 * benches/uroce/run runs it under callgrind and strace.
 */
#include "../../compat-tests/uroce/faults/rig.h"

#include <stdlib.h>
#include <string.h>

const char *device_name;
bool on_uroce;

enum {
	QKEY = 0x11111111,
	GRH = 40
};

/* Gives the end a UD queue pair in place of its RC one. */
static void make_datagram_end(struct end *end)
{
	struct ibv_qp_init_attr init = {
		.send_cq = end->cq,
		.recv_cq = end->cq,
		.qp_type = IBV_QPT_UD,
		.cap = { .max_send_wr = 64, .max_recv_wr = 64, .max_send_sge = 1, .max_recv_sge = 1 },
		.sq_sig_all = 1,
	};
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY };

	MUST(ibv_destroy_qp(end->qp) == 0 && (end->qp = ibv_create_qp(end->pd, &init)));
	MUST(ibv_modify_qp(end->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY) ==
	     0);
	attr.qp_state = IBV_QPS_RTR;
	MUST(ibv_modify_qp(end->qp, &attr, IBV_QP_STATE) == 0);
	attr.qp_state = IBV_QPS_RTS;
	MUST(ibv_modify_qp(end->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN) == 0);
}

static void post_datagram(struct end *from, const struct end *to, struct ibv_ah *ah, uint32_t size)
{
	struct ibv_sge sge = { .addr = (uintptr_t)from->memory, .length = size, .lkey = from->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND }, *bad;

	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = to->qp->qp_num;
	wr.wr.ud.remote_qkey = QKEY;
	MUST(ibv_post_send(from->qp, &wr, &bad) == 0);
}

static int datagrams(uint32_t size, int number)
{
	static const struct options plain;
	struct end a, b;
	struct ibv_ah *ah;

	open_end(&a, &plain);
	open_end(&b, &plain);
	make_datagram_end(&a);
	make_datagram_end(&b);
	struct ibv_ah_attr to = {
		.is_global = 1,
		.port_num = 1,
		.grh = { .dgid = b.self.gid, .sgid_index = a.gid_index, .hop_limit = 64 },
	};
	MUST(ah = ibv_create_ah(a.pd, &to));
	while (number-- > 0) {
		MUST(post_receive(&b) == 0);
		post_datagram(&a, &b, ah, size);
		MUST(next(&a).status == IBV_WC_SUCCESS);
		struct ibv_wc wc = next(&b);
		MUST(wc.status == IBV_WC_SUCCESS && wc.byte_len == size + GRH);
	}
	MUST(ibv_destroy_ah(ah) == 0);
	close_end(&a);
	close_end(&b);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct options plain;
	struct end a, b;

	if (argc != 5)
		return 2;
	device_name = argv[1];
	if (argv[2][0] == 'd')
		return datagrams(atoi(argv[3]), atoi(argv[4]));
	enum ibv_wr_opcode opcode = argv[2][0] == 's'   ? IBV_WR_SEND
				    : argv[2][0] == 'w' ? IBV_WR_RDMA_WRITE
							: IBV_WR_RDMA_READ;
	uint32_t size = atoi(argv[3]);
	make_pair(&a, &b, &plain, &plain);
	for (int i = atoi(argv[4]); i > 0; i--) {
		if (opcode == IBV_WR_SEND)
			MUST(post_receive(&b) == 0);
		MUST(post(&a, opcode, &b.self, 0, size) == 0);
		MUST(next(&a).status == IBV_WC_SUCCESS);
		if (opcode == IBV_WR_SEND)
			MUST(next(&b).status == IBV_WC_SUCCESS);
	}
	close_end(&a);
	close_end(&b);
	return 0;
}
