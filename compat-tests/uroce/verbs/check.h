/* Shared by the checks: a device, and two connected QPs in one process. */
#pragma once

#include <errno.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "failures.h"

#define SIZE 8192
#define PORT 1
#define QKEY 0x11111111
/* Seconds to wait for what must come; a busy machine may take some. */
#define WAIT_SECONDS 20

enum {
	ALL_ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		     IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND
};

/* A context with the objects that most checks need. */
struct rig {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	uint8_t *buf;
	union ibv_gid gid;
	int gid_index;
};

void set_up(struct rig *rig);
void tear_down(struct rig *rig);

/* Objects that tear_down(), or the end of a check's part, destroys: the queue pairs first, then the others,
 * the last first. */
enum kept_kind {
	KEPT_QP,
	KEPT_CQ,
	KEPT_CHANNEL,
	KEPT_SRQ,
	KEPT_XRCD,
	KEPT_AH,
	KEPT_MW,
	KEPT_MR,
	KEPT_DM,
	KEPT_PD,
	KEPT_TD,
	KEPT_CONTEXT,
	KEPT_MEMORY
};
void *keep(void *object, enum kept_kind kind);
/* Keeps what `object` creates, and is that; NULL stays NULL. */
#define KEEP(object) \
	((__typeof__(object))keep((object), _Generic((object), \
						     struct ibv_qp *: KEPT_QP, \
						     struct ibv_cq *: KEPT_CQ, \
						     struct ibv_cq_ex *: KEPT_CQ, \
						     struct ibv_comp_channel *: KEPT_CHANNEL, \
						     struct ibv_srq *: KEPT_SRQ, \
						     struct ibv_xrcd *: KEPT_XRCD, \
						     struct ibv_ah *: KEPT_AH, \
						     struct ibv_mw *: KEPT_MW, \
						     struct ibv_mr *: KEPT_MR, \
						     struct ibv_dm *: KEPT_DM, \
						     struct ibv_pd *: KEPT_PD, \
						     struct ibv_td *: KEPT_TD, \
						     struct ibv_context *: KEPT_CONTEXT, \
						     void *: KEPT_MEMORY)))
/* Destroys a kept object now. Returns what the call returns; it is kept if that is an error. */
int end(void *object);
void end_all(void);
/* Stops keeping an object that has gone with its context. */
void forget(void *object);

/* Creates a QP in the Reset state, an extended one if `ops` is not 0. It is kept. */
struct ibv_qp *make_qp(struct rig *rig, enum ibv_qp_type type, uint64_t ops, struct ibv_srq *srq);
/* Attributes of the transition to RTR of an RC queue pair to `dest` on the rig's own address. */
struct ibv_qp_attr rtr_attr(struct rig *rig, uint32_t dest);
#define RTR_MASK \
	(IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | \
	 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)
#define RTS_MASK \
	(IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | \
	 IBV_QP_MAX_QP_RD_ATOMIC)
int to_init(struct ibv_qp *qp);
int to_rtr(struct rig *rig, struct ibv_qp *qp, uint32_t dest);
int to_rts(struct ibv_qp *qp);
/* Moves both QPs to RTS, connected with each other; they may be the same. */
void join(struct rig *rig, struct ibv_qp *a, struct ibv_qp *b);

/* Two connected RC queue pairs. */
void connected(struct rig *rig, struct ibv_qp **a, struct ibv_qp **b);

/* Seconds of the monotonic clock. */
double now(void);
/* The next completion, within WAIT_SECONDS. */
struct ibv_wc next_wc(struct ibv_cq *cq);
/* Type of the next asynchronous event, which is acknowledged; -1 after WAIT_SECONDS. */
int next_event(struct rig *rig);
/* A hardware counter of $DEVICE's port, as sysfs has it. */
unsigned long long counter(const char *name);
/* Posts one request with one buffer of the rig. */
int post(struct ibv_qp *qp, struct rig *rig, enum ibv_wr_opcode op, int from, int len, int64_t to,
	 uint32_t rkey);
int post_recv(struct ibv_qp *qp, struct rig *rig, uint64_t id, int at, int len);

/* The elements of requests: a part of the rig's buffer. */
struct ibv_sge part(struct rig *rig, int from, int length);
/* Posts a request, or a receive, with one element. */
int post_one(struct ibv_qp *qp, struct ibv_sge sge, struct ibv_send_wr wr);
int recv_one(struct ibv_qp *qp, struct ibv_sge sge);
int srq_recv(struct ibv_srq *srq, struct ibv_sge sge);
/* The same; `to` and `rkey` are the peer's, for one-sided requests and SEND with invalidate. */
int send_with(struct ibv_qp *qp, struct ibv_sge sge, struct ibv_send_wr wr, uint64_t to, uint32_t rkey);
int send_to(struct ibv_qp *qp, struct ibv_sge sge, enum ibv_wr_opcode op, uint64_t to, uint32_t rkey);
int datagram(struct ibv_qp *qp, struct ibv_ah *ah, uint32_t qpn, struct ibv_sge sge);
/* Kept objects. */
struct ibv_ah *new_ah(struct rig *rig, union ibv_gid to);
struct ibv_srq *new_srq(struct rig *rig, unsigned size);
/* The domain of a file, or of none if `fd` is -1; not kept. */
struct ibv_xrcd *open_domain(struct rig *rig, int fd, int oflags);
/* An XRC domain with an SRQ. */
struct domain {
	struct ibv_xrcd *xrcd;
	struct ibv_srq *srq;
	uint32_t number;
};
struct domain new_domain(struct rig *rig);
/* Two connected queue pairs; in `xrc_ends`, the receiving one, `b`, is of the domain. */
struct ends {
	struct ibv_qp *a, *b;
};
struct ends xrc_ends(struct rig *rig, struct domain domain);
/* Makes a request on a new connection, and returns the status of its completion. */
enum ibv_wc_status request(struct rig *rig, enum ibv_wr_opcode op, struct ibv_sge local, uint64_t remote,
			   uint32_t rkey);

/* Forks; 0 in the child, which says by its exit code that nothing has failed in it. */
pid_t start_child(void);
/* The child ends, and nothing has failed in it. */
void await_child(pid_t pid);

/* A part of a check. It may change the rig, which is a copy. */
typedef void (*check_part)(struct rig *rig);
/* A check, and the name of its case. */
struct check {
	const char *name;
	/* Run on one device, one after the other, until NULL. */
	const check_part *parts;
	/* In place of them: opens the device itself. */
	void (*run)(void);
};
/* Runs the check of this name, or all, and prints each name with `ok` or `FAILED`; lists them for `list`.
 * Returns the exit code. */
int run_checks(const struct check *checks, size_t count, const char *name);

extern const check_part objects_parts[], memory_parts[], states_parts[], posting_parts[], building_parts[],
	queues_parts[], process_parts[], windows_parts[], kernel_parts[], gids_parts[], cancel_parts[],
	errors_parts[], lifetime_parts[], order_parts[], odp_parts[], dm_parts[], dmabuf_parts[],
	import_parts[];
void check_lost(void);
void check_xrcd(void);
