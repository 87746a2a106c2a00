/*
 * mistakes NAME wrong|right: makes the mistake, or does the same in the right way. The library, with
 * IBV_EXPLAIN, names the mistake, and says nothing of the right way.
 */
#include "mistakes.h"

#include <sys/socket.h>
#include <sys/wait.h>

int failures;

static const struct mistake *const groups[] = { call_mistakes,          state_mistakes,    data_mistakes,
						wait_mistakes,          hazard_mistakes,   pair_mistakes,
						people_mistakes,        more_mistakes,     object_mistakes,
						extended_mistakes,      field_mistakes,    trial_mistakes,
						device_memory_mistakes, reported_mistakes, reported_pairs,
						more_trial_mistakes };

struct ibv_qp *link_qp(struct rig *rig, const struct link *link)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = link->send_cq ? link->send_cq : rig->cq,
		.recv_cq = link->recv_cq ? link->recv_cq : rig->cq,
		.srq = link->srq,
		.cap = { link->send_wr ? link->send_wr : 16, link->recv_wr ? link->recv_wr : 16, 4, 4, 64 },
		.qp_type = link->type ? link->type : IBV_QPT_RC,
		.sq_sig_all = !link->unsignaled,
	};
	struct ibv_qp *qp = KEEP(ibv_create_qp(rig->pd, &attr));

	NEED(qp);
	return qp;
}

int link_to(struct rig *rig, struct ibv_qp *qp, const struct link *link, uint32_t dest, union ibv_gid gid,
	    bool is_b)
{
	unsigned access = is_b && link->access ? link->access : ALL_ACCESS & ~IBV_ACCESS_MW_BIND;
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = PORT, .qkey = QKEY, .qp_access_flags = access
	};
	bool ud = qp->qp_type == IBV_QPT_UD, rc = qp->qp_type == IBV_QPT_RC;
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);

	NEED(ibv_modify_qp(qp, &attr, mask) == 0);
	if (is_b && link->stays == IBV_QPS_INIT)
		return 0;
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR,
		.path_mtu = is_b && link->mtu ? link->mtu : IBV_MTU_1024,
		.dest_qp_num = dest,
		.rq_psn = is_b && link->rq_psn ? link->rq_psn : 100,
		.max_dest_rd_atomic = is_b && link->no_dest_rd_atomic ? 0
				      : is_b && link->dest_rd_atomic  ? link->dest_rd_atomic
								      : 4,
		.min_rnr_timer = 1,
		.ah_attr = { .is_global = 1,
			     .port_num = PORT,
			     .grh = { .dgid = gid, .sgid_index = rig->gid_index, .hop_limit = 64 } },
	};
	mask = IBV_QP_STATE | (ud ? 0 : IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN) |
	       (rc ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0);
	int error = ibv_modify_qp(qp, &attr, mask);
	if (error || (is_b && link->stays == IBV_QPS_RTR))
		return error;
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS,
				     .sq_psn = 100,
				     .timeout = !is_b && link->no_timeout ? 0 : 15,
				     .retry_cnt = 3,
				     .rnr_retry = !is_b && link->rnr_retry ? link->rnr_retry : 3,
				     .max_rd_atomic = !is_b && link->no_rd_atomic ? 0 : 4 };
	mask = IBV_QP_STATE | IBV_QP_SQ_PSN |
	       (rc ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC : 0);
	return ibv_modify_qp(qp, &attr, mask);
}

struct ends link_up(struct rig *rig, const struct link *link)
{
	struct ends ends = { link_qp(rig, link), link_qp(rig, link) };

	NEED(link_to(rig, ends.b, link, ends.a->qp_num, rig->gid, true) == 0);
	NEED(link_to(rig, ends.a, link, ends.b->qp_num, rig->gid, false) == 0);
	return ends;
}

void unlink_qps(struct ends ends)
{
	CHECK(end(ends.a) == 0 && end(ends.b) == 0);
}

void two_sends(struct rig *rig, struct ibv_qp *to, struct ibv_sge *sge, struct ibv_send_wr *wr)
{
	for (int i = 0; i < 2; i++) {
		NEED(post_recv(to, rig, i, 4096 + 64 * i, 64) == 0);
		wr[i] = (struct ibv_send_wr){
			.wr_id = i, .next = wr + i + 1, .sg_list = sge, .num_sge = 1, .opcode = IBV_WR_SEND
		};
	}
}

int send_wr(struct ibv_qp *qp, struct rig *rig, enum ibv_wr_opcode op, unsigned flags, int from, int len)
{
	struct ibv_send_wr wr = { .wr_id = 77, .opcode = op, .send_flags = flags };

	return send_with(qp, part(rig, from, len), wr, (uintptr_t)rig->buf + 4096, rig->mr->rkey);
}

int compare_and_swap(struct rig *rig, struct ibv_qp *qp, uint64_t addr, uint32_t rkey, bool in_rdma)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_ATOMIC_CMP_AND_SWP, .wr.atomic.swap = 1 };

	if (in_rdma) {
		wr.wr.rdma.remote_addr = addr;
		wr.wr.rdma.rkey = rkey;
	} else {
		wr.wr.atomic.remote_addr = addr;
		wr.wr.atomic.rkey = rkey;
	}
	NEED(post_one(qp, part(rig, 0, 8), wr) == 0);
	return next_status(rig->cq);
}

int poll_for(struct ibv_cq *cq, int count, double seconds)
{
	struct ibv_wc wc;
	int got = 0;

	for (double end = now() + seconds; got < count && now() < end;)
		got += ibv_poll_cq(cq, 1, &wc) > 0;
	return got;
}

int next_status(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	for (double end = now() + 3; now() < end;)
		if (ibv_poll_cq(cq, 1, &wc) > 0)
			return wc.status;
	return -1;
}

int next_async(struct rig *rig)
{
	struct ibv_async_event event;

	interrupt_after(3);
	if (ibv_get_async_event(rig->context, &event))
		return -1;
	alarm(0);
	ibv_ack_async_event(&event);
	return event.event_type;
}

bool succeeds(struct rig *rig, struct ibv_qp *qp, struct ibv_sge sge, enum ibv_wr_opcode op, uint64_t to,
	      uint32_t rkey)
{
	NEED(send_to(qp, sge, op, to, rkey) == 0);
	return next_status(rig->cq) == IBV_WC_SUCCESS;
}

bool works(struct rig *rig, struct ibv_qp *qp, enum ibv_wr_opcode op, int len)
{
	NEED(send_wr(qp, rig, op, 0, 0, len) == 0);
	return next_status(rig->cq) == IBV_WC_SUCCESS;
}

/* Two processes, connected by a socket. */
static void run_pair(const struct mistake *mistake, bool wrong)
{
	struct rig rig;
	int fds[2];

	NEED(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
	pid_t child = start_child();
	bool server = child == 0;
	set_up(&rig);
	mistake->pair(&rig, fds[server], server, wrong);
	tear_down(&rig);
	if (server)
		exit(failures != 0);
	close(fds[0]);
	await_child(child);
}

int main(int argc, char **argv)
{
	struct rig rig;

	if (argc == 1)
		return 2;
	bool wrong = argc > 2 && !strcmp(argv[2], "wrong");
	for (size_t g = 0; g < sizeof(groups) / sizeof(*groups); g++)
		for (const struct mistake *mistake = groups[g]; mistake->name; mistake++) {
			if (!strcmp(argv[1], "list"))
				puts(mistake->name);
			if (strcmp(argv[1], mistake->name))
				continue;
			if (mistake->pair) {
				run_pair(mistake, wrong);
				continue;
			}
			set_up(&rig);
			if (mistake->rtr)
				to_rtr_with(&rig, mistake->rtr, wrong);
			else if (mistake->create)
				create_with(&rig, mistake->create, wrong);
			else
				mistake->run(&rig, wrong);
			if (rig.context)
				tear_down(&rig);
		}
	return failures != 0;
}
