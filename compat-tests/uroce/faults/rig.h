/* Shared by the scenes: one end of a connection, and functions to create, connect and observe it. */
#ifndef RIG_H
#define RIG_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define SIZE 65536 /* bytes of memory per end */
#define WAIT 20000 /* time limit in ms for anything: no test depends on time */

/* The address of an end: what the other one needs to connect and to access the memory. */
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
	char *memory; /* SIZE bytes between two inaccessible pages */
	int gid_index;
	struct address self;
};

/* Options of a queue pair. 0 stands for the default in the comment. */
struct options {
	enum ibv_qp_type type; /* RC */
	int cq_entries;        /* 64 */
	int mr_access;         /* ALL_ACCESS */
	int qp_access;         /* ALL_ACCESS */
	uint8_t timeout;       /* 14 */
	uint8_t retry_cnt;     /* 7; ZERO stands for 0 */
	uint8_t rnr_retry;     /* 7; ZERO stands for 0 */
	uint8_t min_rnr_timer; /* 12: 0.64 ms */
	struct ibv_srq *srq;
	bool share; /* use the end's existing pd, cq and mr */
	bool unsignalled;
};
#define ZERO 0xff
#define ALL_ACCESS \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

extern const char *device_name;
extern bool on_uroce;

void fail(const char *what) __attribute__((noreturn));
#define MUST(condition) ((condition) ? (void)0 : fail(#condition))

void report(const char *format, ...) __attribute__((format(printf, 1, 2)));
char *guarded(size_t size);
struct ibv_context *open_device(void);
int find_gid(struct ibv_context *context);
void open_end(struct end *end, const struct options *options);
void add_qp(struct end *end, const struct options *options);
void join(struct end *end, const struct address *peer, const struct options *options);
/* Creates two ends in this process and connects them. */
void make_pair(struct end *one, struct end *other, const struct options *options_one,
	       const struct options *options_other);
void close_end(struct end *end);
void close_pair(struct end *one, struct end *other);

int post(struct end *end, enum ibv_wr_opcode opcode, const struct address *to, uint64_t offset,
	 uint32_t length);
int post_receive(struct end *end);
struct ibv_wc next(struct end *end); /* waits for a completion */
bool nothing(struct end *end);       /* whether there is no completion now */
const char *status(struct end *end); /* status of the next completion */
const char *state(struct end *end);  /* state of the QP */
/* Waits for an asynchronous event of the context, acknowledges it, and returns its description. */
const char *event(struct end *end);
bool no_event(struct end *end);
void short_wait(void);
/* Sends a message from one end to the other and checks the data. */
const char *traffic(struct end *one, struct end *other);

/* Whether the library's threads sleep for that time, apart from one wakeup per second. */
bool sleeping(unsigned seconds);
void sh(const char *command);

/* Forks a child that is connected by a socket. Returns in both processes; in the child 0. */
int spawn(int *socket);
/* Stops a child by SIGSTOP, and waits until it is stopped. */
void stop(int pid);
void send_bytes(int socket, const void *data, size_t size);
void receive_bytes(int socket, void *data, size_t size);

struct scene {
	const char *name;
	void (*run)(void);
	bool uroce_only;
};
extern const struct scene remote_scenes[], retry_scenes[], local_scenes[], host_scenes[], flood_scenes[],
	stopped_scenes[];

#endif
