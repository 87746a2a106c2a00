/*
 * compat10 [-x] DEVICE [GID_INDEX]: a program of libibverbs 1.0 that calls all that 1.0 had, sends
 * itself messages of each kind and prints what came of it. Numbers that differ from run to run (queue
 * pairs, keys, addresses) are compared, not shown.
 *
 * On the bench, where nothing moves data, requests are posted and nothing is waited for; events come
 * from the shim.
 *
 * -x also tries what the C original overruns, leaves uninitialised or crashes on, and says whether it
 * is as it should be; the exit code is 1 if not.
 */
#include "compat10.h"

#include <stdlib.h>
#include <unistd.h>

int gid_index, extra, moves, wrong;

struct v10_context *context;
struct v10_pd *pd;
struct v10_mr *mr;
struct ibv_comp_channel *channel;
struct v10_cq *send_cq, *recv_cq;
struct v10_srq *srq;
struct v10_qp *a, *b, *ud;
struct v10_ah *ah;
union ibv_gid gid;
char buf[4 * LEN] __attribute__((aligned(4096)));
char of_recv_cq, of_srq, of_a, of_b, of_ud;

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "-x")) {
		extra = 1;
		argv++;
		argc--;
	}
	if (argc < 2) {
		fprintf(stderr, "usage: compat10 [-x] DEVICE [GID_INDEX]\n");
		return 2;
	}
	gid_index = argc > 2 ? atoi(argv[2]) : 0;
	alarm(60);
	moves = !walk_push;

	open_it(argv[1]);
	queries();
	objects();
	connect_qp(a, b);
	connect_qp(b, a);
	connect_qp(ud, NULL);
	messages();
	events();
	groups();
	post_lists();
	clean_up();
	return wrong;
}
