/* Interface between the files of compat10. */
#ifndef COMPAT10_H
#define COMPAT10_H

#include "walk.h"
#include "verbs10.h"

#define YES(what) printf("  " #what ": %s\n", (what) ? "yes" : "NO")
#define NUM(what) printf("  " #what ": %lld\n", (long long)(what))

/* Checked with -x only: the C library fails this. */
#define MUST(what) \
	do { \
		int good_ = !!(what); \
		printf("  must be: " #what ": %s\n", good_ ? "yes" : "NO"); \
		wrong |= !good_; \
	} while (0)

enum {
	PORT = 1,
	DEPTH = 8,
	LEN = 4096,
	QKEY = 0x11111111
};

extern int gid_index;
extern int extra;      /* -x was given */
extern int moves_data; /* data is moved: a real device, not the fake kernel */
extern int wrong;      /* a MUST has failed */

extern struct v10_context *context;
extern struct v10_pd *pd;
extern struct v10_mr *mr;
extern struct ibv_comp_channel *channel;
extern struct v10_cq *send_cq, *recv_cq;
extern struct v10_srq *srq;
extern struct v10_qp *a, *b, *ud; /* a sends to b, which receives from the SRQ */
extern struct v10_ah *ah;
extern union ibv_gid gid;
extern char buf[4 * LEN];

/* Targets of the context pointers of the library's objects. */
extern char of_recv_cq, of_srq, of_a, of_b, of_ud;

/* Each file has its own pointers to the functions of the shim. */
__attribute__((constructor)) static void find_shim(void)
{
	walk_init();
}

/* objects.c */
void open_it(const char *name);
void queries(void);
void objects(void);
void connect_qp(struct v10_qp *qp, struct v10_qp *peer);
void clean_up(void);

/* traffic.c */
void messages(void);
void groups(void);
void post_lists(void);
void completion(const char *of, struct v10_cq *cq);

/* events.c */
void events(void);

#endif
