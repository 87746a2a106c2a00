/*
 * unwrapped N: posts N receives and N requests and polls their completions, on the device of c/loop. The test
 * counts the instructions of `measured`.
 */
#include "../../uroce/verbs/check.h"

int failures;

__attribute__((noinline)) void measured(struct ibv_qp *from, struct ibv_qp *to, struct ibv_cq *cq,
					struct ibv_sge *sge, int count);
__attribute__((noinline)) void measured(struct ibv_qp *from, struct ibv_qp *to, struct ibv_cq *cq,
					struct ibv_sge *sge, int count)
{
	struct ibv_recv_wr *bad_recv, recv = { .sg_list = sge, .num_sge = 1 };
	struct ibv_send_wr *bad_send, send = { .sg_list = sge, .num_sge = 1, .opcode = IBV_WR_SEND };
	struct ibv_wc wc[2];

	while (count-- > 0) {
		CHECK(ibv_post_recv(to, &recv, &bad_recv) == 0);
		CHECK(ibv_post_send(from, &send, &bad_send) == 0);
		CHECK(ibv_poll_cq(cq, 2, wc) == 2);
		CHECK(ibv_req_notify_cq(cq, 0) == 0);
	}
}

int main(int argc, char **argv)
{
	struct ibv_qp *a, *b;
	struct ibv_sge sge;
	struct rig rig;

	if (argc != 2)
		return 2;
	set_up(&rig);
	a = make_qp(&rig, IBV_QPT_RC, 0, NULL);
	b = make_qp(&rig, IBV_QPT_RC, 0, NULL);
	join(&rig, a, b);
	sge = (struct ibv_sge){ (uintptr_t)rig.buf, 8, rig.mr->lkey };
	measured(a, b, rig.cq, &sge, atoi(argv[1]));
	tear_down(&rig);
	return failures != 0;
}
