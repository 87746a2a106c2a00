/*
 * Lists the devices of a static program. On the first one, connects an RC QP to itself and transfers a
 * message, a write, a read and an atomic. The output is the same in every run. Compile with -DPROVIDERS=LIST
 * to define RDMA_STATIC_PROVIDERS.
 */
#ifdef PROVIDERS
#define RDMA_STATIC_PROVIDERS PROVIDERS
#endif
#include <infiniband/verbs.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(int ok, const char *what)
{
	if (ok)
		return;
	printf("%s failed: %s\n", what, strerror(errno));
	exit(1);
}

static struct ibv_qp *connect_to_itself(struct ibv_pd *pd, struct ibv_cq *cq, int gid_index)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 }
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &init);
	union ibv_gid gid;

	check(qp != NULL, "ibv_create_qp");
	check(!ibv_query_gid(pd->context, 1, gid_index, &gid), "ibv_query_gid");
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT,
				    .port_num = 1,
				    .qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
						       IBV_ACCESS_REMOTE_ATOMIC };
	check(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
	      "INIT");
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = qp->qp_num,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = { .is_global = 1,
			     .port_num = 1,
			     .grh = { .dgid = gid, .sgid_index = gid_index, .hop_limit = 1 } }
	};
	check(!ibv_modify_qp(qp, &attr,
			     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				     IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
	      "RTR");
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1
	};
	check(!ibv_modify_qp(qp, &attr,
			     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				     IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
	      "RTS");
	return qp;
}

static void wait_for(struct ibv_cq *cq, int completions)
{
	for (struct ibv_wc wc; completions > 0;) {
		int n = ibv_poll_cq(cq, 1, &wc);

		check(n >= 0, "ibv_poll_cq");
		if (n) {
			printf("  completion: opcode %d, %s\n", wc.opcode, ibv_wc_status_str(wc.status));
			check(wc.status == IBV_WC_SUCCESS, "work request");
			completions--;
		}
	}
}

int main(int argc, char **argv)
{
	int count = -1, gid_index = argc > 1 ? atoi(argv[1]) : 1;
	struct ibv_device **list = ibv_get_device_list(&count);

	check(list != NULL, "ibv_get_device_list");
	printf("%d devices\n", count);
	for (int i = 0; i < count; i++)
		printf("%s, %s, node %s\n", ibv_get_device_name(list[i]), list[i]->dev_name,
		       ibv_node_type_str(list[i]->node_type));
	if (!count)
		return 0;

	struct ibv_context *context = ibv_open_device(list[0]);
	check(context != NULL, "ibv_open_device");
	struct ibv_device_attr_ex device;
	check(!ibv_query_device_ex(context, NULL, &device), "ibv_query_device_ex");
	printf("max_qp %d, max_sge %d, vendor %x\n", device.orig_attr.max_qp, device.orig_attr.max_sge,
	       device.orig_attr.vendor_id);
	struct ibv_pd *pd = ibv_alloc_pd(context);
	check(pd != NULL, "ibv_alloc_pd");
	struct ibv_cq *cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	check(cq != NULL, "ibv_create_cq");
	static union {
		char bytes[4096];
		uint64_t number;
	} memory[2];
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, sizeof(memory),
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
					       IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
	check(mr != NULL, "ibv_reg_mr");
	struct ibv_qp *qp = connect_to_itself(pd, cq, gid_index);

	struct ibv_sge mine = { (uintptr_t)&memory[0], 4096, mr->lkey },
		       other = { (uintptr_t)&memory[1], 4096, mr->lkey };
	struct ibv_recv_wr recv = { .sg_list = &other, .num_sge = 1 }, *bad_recv;
	static const enum ibv_wr_opcode opcodes[] = { IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
						      IBV_WR_ATOMIC_FETCH_AND_ADD };

	for (unsigned i = 0; i < sizeof(opcodes) / sizeof(*opcodes); i++) {
		struct ibv_send_wr send = { .sg_list = &mine,
					    .num_sge = 1,
					    .opcode = opcodes[i],
					    .send_flags = IBV_SEND_SIGNALED,
					    .wr.rdma = { (uintptr_t)&memory[1], mr->rkey } },
				   *bad;

		if (opcodes[i] == IBV_WR_ATOMIC_FETCH_AND_ADD) {
			mine.length = 8;
			send.wr.atomic.remote_addr = (uintptr_t)&memory[1];
			send.wr.atomic.compare_add = 42;
			send.wr.atomic.rkey = mr->rkey;
		}
		memset(&memory[0], 'a' + (int)i, 4096);
		memset(&memory[1], 'z', 4096);
		printf("opcode %d\n", opcodes[i]);
		if (opcodes[i] == IBV_WR_SEND)
			check(!ibv_post_recv(qp, &recv, &bad_recv), "ibv_post_recv");
		check(!ibv_post_send(qp, &send, &bad), "ibv_post_send");
		wait_for(cq, opcodes[i] == IBV_WR_SEND ? 2 : 1);
		printf("  memory: %c %c, number + %d\n", memory[0].bytes[4095], memory[1].bytes[4095],
		       (int)(memory[1].number - UINT64_C(0x7a7a7a7a7a7a7a7a)) & 0xff);
	}
	check(!ibv_destroy_qp(qp) && !ibv_dereg_mr(mr) && !ibv_destroy_cq(cq) && !ibv_dealloc_pd(pd) &&
		      !ibv_close_device(context),
	      "clean-up");
	ibv_free_device_list(list);
	return 0;
}
