/* Programs with one mistake each, as people make them, and the same programs without it. */
#pragma once

#include "../../uroce/verbs/check.h"

struct mistake {
	const char *name;
	/* Makes the mistake if `wrong` is true; else it does the same in the right way. */
	void (*run)(struct rig *rig, bool wrong);
	/* The rule that names the mistake, and a part of the explanation: the case reads them here. */
	const char *rule, *says;
	/* The two processes of a pair: the second half of the name says which side has the mistake. */
	void (*pair)(struct rig *rig, int peer, bool server, bool wrong);
	/* In place of `run`: makes attributes of the transition to RTR, or of a new queue pair, wrong. */
	void (*rtr)(struct ibv_qp_attr *attr);
	void (*create)(struct ibv_qp_init_attr *attr);
};
void to_rtr_with(struct rig *rig, void (*change)(struct ibv_qp_attr *attr), bool wrong);
void create_with(struct rig *rig, void (*change)(struct ibv_qp_init_attr *attr), bool wrong);
extern const struct mistake call_mistakes[], state_mistakes[], data_mistakes[], wait_mistakes[],
	hazard_mistakes[], pair_mistakes[], people_mistakes[], more_mistakes[], object_mistakes[],
	extended_mistakes[], field_mistakes[], trial_mistakes[], device_memory_mistakes[],
	reported_mistakes[], reported_pairs[], more_trial_mistakes[];

/* How two ends are connected. Zero stands for what is usual. */
struct link {
	enum ibv_qp_type type;
	struct ibv_cq *send_cq, *recv_cq;
	struct ibv_srq *srq;
	unsigned send_wr, recv_wr;
	/* Requests are not signaled if they do not say so. */
	bool unsignaled;
	/* `b` has these. */
	unsigned access;
	enum ibv_mtu mtu;
	uint32_t rq_psn;
	uint8_t dest_rd_atomic;
	/* `a` has these; `no_` stands for 0. */
	uint8_t rnr_retry;
	bool no_timeout, no_rd_atomic, no_dest_rd_atomic;
	/* `b` stays in this state. */
	enum ibv_qp_state stays;
};
struct ibv_qp *link_qp(struct rig *rig, const struct link *link);
struct ends link_up(struct rig *rig, const struct link *link);
void unlink_qps(struct ends ends);
int link_to(struct rig *rig, struct ibv_qp *qp, const struct link *link, uint32_t dest, union ibv_gid gid,
	    bool is_b);
/* Returns its status. It is filled in like a WRITE if `in_rdma` is true. */
int compare_and_swap(struct rig *rig, struct ibv_qp *qp, uint64_t addr, uint32_t rkey, bool in_rdma);
/* Posts `wr` with one buffer of the rig. */
int send_wr(struct ibv_qp *qp, struct rig *rig, enum ibv_wr_opcode op, unsigned flags, int from, int len);
/* Fills the first two requests of `wr` with SENDs of `sge`, and posts receives for them. `next` of the second
 * points behind it. */
void two_sends(struct rig *rig, struct ibv_qp *to, struct ibv_sge *sge, struct ibv_send_wr *wr);
/* Polls for `seconds`, or until there are `count` completions. Returns their number. */
int poll_for(struct ibv_cq *cq, int count, double seconds);
/* The status of the next completion, or -1 after 3 s. */
int next_status(struct ibv_cq *cq);
/* Waits for an asynchronous event, and is interrupted if none comes. Returns its type, or -1. */
int next_async(struct rig *rig);
/* Makes a request, as send_to(). Returns whether it completes with success. */
bool succeeds(struct rig *rig, struct ibv_qp *qp, struct ibv_sge sge, enum ibv_wr_opcode op, uint64_t to,
	      uint32_t rkey);
/* Makes a request of the rig's first bytes. Returns whether it completes with success. */
bool works(struct rig *rig, struct ibv_qp *qp, enum ibv_wr_opcode op, int len);
/* Longer than IBV_EXPLAIN_WAIT. */
#define LONG 2.2
