/* The objects of the provider. */
#pragma once

#include <errno.h>
#include <infiniband/driver.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define QUEUE 64
#define SGES 4
/* The bit that distinguishes a region's rkey from its lkey. */
#define REMOTE 0x80000000u

struct loop_mr {
	struct verbs_mr vmr;
	uintptr_t start;
	struct loop_mr *next;
};

struct loop_cq {
	struct verbs_cq vcq;
	struct ibv_wc wcs[QUEUE];
	unsigned int head, tail;
};

struct receive {
	uint64_t wr_id;
	struct ibv_sge sges[SGES];
	int count;
};

struct request {
	uint64_t wr_id, remote_addr;
	uint32_t rkey;
	unsigned int flags;
	enum ibv_wr_opcode opcode;
	struct ibv_sge sges[SGES];
	int count;
};

struct loop_qp {
	struct verbs_qp vqp;
	struct receive receives[QUEUE];
	unsigned int head, tail;
	uint32_t dest;
	bool all_signaled;
	/* The requests that wr_* functions have built since wr_start. */
	struct request built[QUEUE];
	unsigned int built_count;
	struct loop_qp *next;
};

extern pthread_mutex_t loop_lock;
/* The lists that requests are carried out with. Changed with the lock held. */
extern struct loop_mr *regions;
extern struct loop_qp *queue_pairs;

struct loop_qp *to_loop(struct ibv_qp *qp);
int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int poll_cq(struct ibv_cq *cq, int room, struct ibv_wc *wc);
int req_notify_cq(struct ibv_cq *cq, int solicited_only);
/* Gives a new queue pair the functions of ibv_wr_post(3). */
void extend(struct loop_qp *qp);
