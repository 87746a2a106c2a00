/* What the scenes share: one end of a connection, and how to make, join and watch it. */
#ifndef RIG_H
#define RIG_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define SIZE 65536 /* of an end's memory */
#define WAIT 20000 /* ms that anything may take: none of the tests is about time */

/* What the other end must know. */
struct address {
	uint32_t qpn, psn, rkey;
	uint64_t addr;
	union ibv_gid gid;
};

struct end {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_qp *qp;
	char *memory; /* SIZE bytes between pages that nobody may touch */
	int gid_index;
	struct address self;
};

/* How a queue pair is made and connected; a member that is 0 has the value behind it. */
struct how {
	enum ibv_qp_type type; /* RC */
	int cq_entries;        /* 64 */
	int mr_access;         /* everything */
	int qp_access;         /* everything */
	uint8_t timeout;       /* 14 */
	uint8_t retry_cnt;     /* 7; NEVER for 0 */
	uint8_t rnr_retry;     /* 7; NEVER for 0 */
	uint8_t min_rnr_timer; /* 12: 0.64 ms */
	struct ibv_srq *srq;
	bool share; /* pd, cq and mr of the end are there already */
	bool unsignalled;
};
#define NEVER 0xff
#define EVERYTHING \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

extern const char *device_name;
extern bool on_uroce;

void fail(const char *what) __attribute__((noreturn));
#define MUST(condition) ((condition) ? (void)0 : fail(#condition))

void tell(const char *format, ...) __attribute__((format(printf, 1, 2)));
char *guarded(size_t size);
struct ibv_context *open_device(void);
int find_gid(struct ibv_context *context);
void open_end(struct end *end, const struct how *how);
void add_qp(struct end *end, const struct how *how);
void join(struct end *end, const struct address *peer, const struct how *how);
/* Two ends in this process, connected. */
void make_pair(struct end *one, struct end *other, const struct how *how_one, const struct how *how_other);
void close_end(struct end *end);

int post(struct end *end, enum ibv_wr_opcode opcode, const struct address *to, uint64_t offset,
	 uint32_t length);
int post_receive(struct end *end);
struct ibv_wc next(struct end *end); /* waits for a completion */
bool nothing(struct end *end);       /* no completion now */
const char *status(struct end *end); /* of the next completion */
const char *state(struct end *end);  /* of the queue pair */
/* Waits for an event of this context, and acknowledges it. */
const char *event(struct end *end);
bool no_event(struct end *end);
void settle(void);
/* Sends a message from one end to the other, and looks at what has come. */
const char *traffic(struct end *one, struct end *other);

/* Whether the library's threads sleep for so long, but for once a second: a program that does nothing uses no
 * processor. */
bool sleeping(unsigned seconds);
void sh(const char *command);

/* A child with a socket to its parent. Returns in both; in the child 0. */
int spawn(int *socket);
void give(int socket, const void *data, size_t size);
void take(int socket, void *data, size_t size);

struct scene {
	const char *name;
	void (*run)(void);
	bool uroce_only;
};
extern const struct scene remote_scenes[], tries_scenes[], local_scenes[], host_scenes[], flood_scenes[];

#endif
