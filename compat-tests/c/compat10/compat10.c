/*
 * compat10 [-x] DEVICE [GID_INDEX]: a program linked to symbol version IBVERBS_1.0. Calls every function of
 * libibverbs 1.0, sends messages of each kind to itself and prints the results. Numbers that differ from run
 * to run (QPs, keys, addresses) are checked, not printed.
 *
 * The fake kernel moves no data: there, requests are posted without waiting for completions, and events
 * come from the shim.
 *
 * -x also calls the cases in which the C library writes out of bounds, leaves memory uninitialized or
 * crashes, and prints whether the result is correct; the exit code is 1 if not.
 */
#include "compat10.h"

#include <stdlib.h>
#include <unistd.h>

int gid_index, extra, moves_data, wrong;

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
	moves_data = !walk_push;

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
