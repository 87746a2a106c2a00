/* The GID table of a device, whether IBV_UROCE gives it an interface or one address: a link-local GID at
 * index 0, the address at index 1. Programs with a fixed index rely on it. */
#include <arpa/inet.h>

#include "check.h"

/* RC from one index to another, within the process. */
static void connection(struct rig *rig, int from, int to)
{
	struct ibv_qp *a, *b;
	union ibv_gid peer;

	CHECK(ibv_query_gid(rig->context, PORT, to, &peer) == 0);
	a = make_qp(rig, IBV_QPT_RC, 0, NULL);
	b = make_qp(rig, IBV_QPT_RC, 0, NULL);
	rig->gid = peer;
	rig->gid_index = from;
	CHECK(to_init(a) == 0 && to_rtr(rig, a, b->qp_num) == 0 && to_rts(a) == 0);
	CHECK(ibv_query_gid(rig->context, PORT, from, &rig->gid) == 0);
	rig->gid_index = to;
	CHECK(to_init(b) == 0 && to_rtr(rig, b, a->qp_num) == 0 && to_rts(b) == 0);
	for (int i = 0; i < 3000; i++)
		rig->buf[i] = i + from + 2 * to;
	CHECK(post(a, rig, IBV_WR_RDMA_WRITE, 0, 3000, 4096, rig->mr->rkey) == 0);
	CHECK(next_wc(rig->cq).status == IBV_WC_SUCCESS);
	CHECK(!memcmp(rig->buf, rig->buf + 4096, 3000));
}

static void order_of_gids(struct rig *rig)
{
	const char *given = getenv("IBV_UROCE"), *address = given ? strchr(given, '=') : NULL;
	union ibv_gid first, second, wanted = { .raw = { [10] = 0xff, 0xff, 127, 0, 0, 1 } };

	CHECK(ibv_query_gid(rig->context, PORT, 0, &first) == 0);
	CHECK(first.raw[0] == 0xfe && first.raw[1] == 0x80);
	CHECK(ibv_query_gid(rig->context, PORT, 1, &second) == 0);
	if (address)
		inet_pton(AF_INET, address + 1, wanted.raw + 12);
	CHECK(!memcmp(&second, &wanted, 16));
	connection(rig, 0, 0);
	connection(rig, 1, 1);
}

const check_part gids_parts[] = { order_of_gids, NULL };
