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

/* Objects that tear_down() destroys: the queue pairs first, then the others, the last first. */
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

/* Creates a QP in the Reset state, an extended one if `ops` is not 0. */
struct ibv_qp *make_qp(struct rig *rig, enum ibv_qp_type type, uint64_t ops, struct ibv_srq *srq);
int to_init(struct ibv_qp *qp);
int to_rtr(struct rig *rig, struct ibv_qp *qp, uint32_t dest);
int to_rts(struct ibv_qp *qp);
/* Moves both QPs to RTS, connected with each other; they may be the same. */
void join(struct rig *rig, struct ibv_qp *a, struct ibv_qp *b);

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

/* A check, and the name of its case. */
struct check {
	const char *name;
	void (*run)(void);
};
/* Runs the check of this name, or all, and prints each name with `ok` or `FAILED`; lists them for `list`.
 * Returns the exit code. */
int run_checks(const struct check *checks, size_t count, const char *name);

void check_objects(void);
void check_memory(void);
void check_states(void);
void check_posting(void);
void check_building(void);
void check_queues(void);
void check_process(void);
void check_windows(void);
void check_kernel(void);
void check_gid_order(void);
void check_cancel(void);
void check_errors(void);
void check_lifetime(void);
void check_order(void);
void check_lost(void);
void check_odp(void);
void check_dm(void);
void check_import(void);
void check_xrcd(void);
void check_dmabuf(void);
