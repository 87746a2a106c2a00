/*
 * verbs_cost DEVICE: under callgrind, calls each control verb a number of times, and dumps the instructions
 * of each verb separately. The shim does not count its own instructions. Prints a line "VERB CALLS" for each
 * dump, in order.
 */
#include "walk.h"

#include <fcntl.h>
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <valgrind/callgrind.h>

#define ROUNDS 20
#define WARM 3
#define LEN 4096

static int *collecting, none;

/* Counts one call. */
#define COUNT(call) \
	do { \
		*collecting = 1; \
		CALLGRIND_TOGGLE_COLLECT; \
		call; \
		CALLGRIND_TOGGLE_COLLECT; \
		*collecting = 0; \
	} while (0)

/* Ends the rounds of a verb and writes its dump. */
static void finished(const char *verb, int calls)
{
	if (!calls)
		return;
	CALLGRIND_DUMP_STATS_AT(verb);
	printf("%s %d\n", verb, calls);
}

/* A verb that creates an object, and the one that destroys it; each is counted in a pass of its own. */
#define PAIR(make_name, make, destroy_name, destroy, variable) \
	do { \
		int pass_, i_, made_; \
		for (pass_ = 0; pass_ < 2; pass_++) { \
			made_ = 0; \
			for (i_ = -WARM; i_ < ROUNDS; i_++) { \
				if (pass_ == 0 && i_ >= 0) \
					COUNT(variable = make); \
				else \
					variable = make; \
				if (!variable) \
					break; \
				made_ += i_ >= 0; \
				if (pass_ == 1 && i_ >= 0) \
					COUNT(destroy); \
				else \
					destroy; \
			} \
			if (made_ == ROUNDS) \
				finished(pass_ ? destroy_name : make_name, ROUNDS); \
			else \
				CALLGRIND_ZERO_STATS; \
		} \
	} while (0)

/* A verb that creates nothing. */
#define SINGLE(name, before, call) \
	do { \
		int i_; \
		for (i_ = -WARM; i_ < ROUNDS; i_++) { \
			before; \
			if (i_ >= 0) \
				COUNT(call); \
			else \
				call; \
		} \
		finished(name, ROUNDS); \
	} while (0)

static struct ibv_device *find(struct ibv_device **list, const char *name)
{
	for (; *list; list++)
		if (!strcmp(ibv_get_device_name(*list), name))
			return *list;
	exit(1);
}

static void queue_pairs(struct ibv_context *ctx, struct ibv_pd *pd, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .cap = { 16, 16, 1, 1, 0 }
	};
	struct ibv_qp_init_attr_ex init_ex = { .send_cq = cq,
					       .recv_cq = cq,
					       .qp_type = IBV_QPT_RC,
					       .cap = { 16, 16, 1, 1, 0 },
					       .pd = pd,
					       .comp_mask = IBV_QP_INIT_ATTR_PD |
							    IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
					       .send_ops_flags = IBV_QP_EX_WITH_SEND };
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = 7 };
	struct ibv_qp_attr rtr = { .qp_state = IBV_QPS_RTR,
				   .path_mtu = IBV_MTU_1024,
				   .dest_qp_num = 7,
				   .ah_attr = { .port_num = 1, .dlid = 3 } };
	struct ibv_qp_attr rts = { .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7 };
	struct ibv_qp_attr out;
	struct ibv_qp *qp;

	PAIR("create_qp", ibv_create_qp(pd, &init), "destroy_qp", ibv_destroy_qp(qp), qp);
	PAIR("create_qp_ex", ibv_create_qp_ex(ctx, &init_ex), "destroy_qp (extended)", ibv_destroy_qp(qp),
	     qp);
	qp = ibv_create_qp(pd, &init);
	if (!qp)
		return;
	SINGLE("modify_qp to INIT", ibv_modify_qp(qp, &reset, IBV_QP_STATE),
	       ibv_modify_qp(qp, &attr,
			     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	SINGLE("modify_qp to RTR", (void)0,
	       ibv_modify_qp(qp, &rtr,
			     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				     IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	SINGLE("modify_qp to RTS", (void)0,
	       ibv_modify_qp(qp, &rts,
			     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				     IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC));
	SINGLE("query_qp", (void)0, ibv_query_qp(qp, &out, IBV_QP_STATE, &init));
	ibv_destroy_qp(qp);
}

static void events(struct ibv_context *ctx, struct ibv_comp_channel *channel, struct ibv_cq *cq)
{
	struct {
		uint64_t element;
		uint32_t type, reserved;
	} desc = { 1, IBV_EVENT_PORT_ACTIVE, 0 };
	struct ibv_async_event event;
	uint64_t cookie = (uintptr_t)cq;
	struct ibv_cq *got;
	void *context;

	if (!walk_push)
		return;
	SINGLE("get_async_event", walk_push(ctx->async_fd, &desc, sizeof(desc)),
	       ibv_get_async_event(ctx, &event));
	SINGLE("ack_async_event", (void)0, ibv_ack_async_event(&event));
	SINGLE("get_cq_event", walk_push(channel->fd, &cookie, sizeof(cookie)),
	       ibv_get_cq_event(channel, &got, &context));
	SINGLE("ack_cq_events", (void)0, ibv_ack_cq_events(cq, 1));
	walk_reported(ROUNDS + WARM, 0);
}

int main(int argc, char **argv)
{
	struct ibv_srq_init_attr srq_init = { .attr = { .max_wr = 64, .max_sge = 1 } };
	struct ibv_cq_init_attr_ex cq_init = { .cqe = 16 };
	struct ibv_ah_attr ah_attr = { .port_num = 1, .dlid = 3 };
	struct ibv_srq_attr srq_attr = { .srq_limit = 3 };
	struct ibv_device **list, **kept;
	struct ibv_device_attr_ex device_ex;
	struct ibv_device_attr device_attr;
	struct ibv_gid_entry entries[8];
	struct ibv_comp_channel *channel;
	struct ibv_port_attr port;
	struct ibv_context *ctx;
	struct ibv_device *dev;
	struct ibv_cq_ex *cq_ex;
	union ibv_gid gid;
	struct ibv_srq *srq;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_mw *mw;
	struct ibv_cq *cq;
	struct ibv_ah *ah;
	__be16 pkey;
	char *buf;

	if (argc < 2)
		return 2;
	walk_init();
	collecting = dlsym(RTLD_DEFAULT, "fake_collecting");
	if (!collecting)
		collecting = &none;
	COUNT(kept = ibv_get_device_list(NULL));
	if (!kept || posix_memalign((void **)&buf, LEN, LEN))
		return 1;
	finished("get_device_list, the first", 1);
	PAIR("get_device_list", ibv_get_device_list(NULL), "free_device_list", ibv_free_device_list(list),
	     list);
	dev = find(kept, argv[1]);
	PAIR("open_device", ibv_open_device(dev), "close_device", ibv_close_device(ctx), ctx);
	ctx = ibv_open_device(dev);
	if (!ctx)
		return 1;
	SINGLE("query_device", (void)0, ibv_query_device(ctx, &device_attr));
	SINGLE("query_device_ex", (void)0, ibv_query_device_ex(ctx, NULL, &device_ex));
	SINGLE("query_port", (void)0, ibv_query_port(ctx, 1, &port));
	SINGLE("query_gid", (void)0, ibv_query_gid(ctx, 1, 0, &gid));
	SINGLE("query_gid_ex", (void)0, ibv_query_gid_ex(ctx, 1, 0, entries, 0));
	SINGLE("query_gid_table", (void)0, ibv_query_gid_table(ctx, entries, 8, 0));
	SINGLE("query_pkey", (void)0, ibv_query_pkey(ctx, 1, 0, &pkey));
	PAIR("alloc_pd", ibv_alloc_pd(ctx), "dealloc_pd", ibv_dealloc_pd(pd), pd);
	pd = ibv_alloc_pd(ctx);
	if (!pd)
		return 1;
	PAIR("reg_mr", ibv_reg_mr(pd, buf, LEN, IBV_ACCESS_LOCAL_WRITE), "dereg_mr", ibv_dereg_mr(mr), mr);
	PAIR("alloc_mw", ibv_alloc_mw(pd, IBV_MW_TYPE_1), "dealloc_mw", ibv_dealloc_mw(mw), mw);
	PAIR("create_comp_channel", ibv_create_comp_channel(ctx), "destroy_comp_channel",
	     ibv_destroy_comp_channel(channel), channel);
	channel = ibv_create_comp_channel(ctx);
	PAIR("create_cq", ibv_create_cq(ctx, 16, NULL, channel, 0), "destroy_cq", ibv_destroy_cq(cq), cq);
	PAIR("create_cq_ex", ibv_create_cq_ex(ctx, &cq_init), "destroy_cq (extended)",
	     ibv_destroy_cq(ibv_cq_ex_to_cq(cq_ex)), cq_ex);
	cq = ibv_create_cq(ctx, 16, NULL, channel, 0);
	if (!cq)
		return 1;
	queue_pairs(ctx, pd, cq);
	PAIR("create_srq", ibv_create_srq(pd, &srq_init), "destroy_srq", ibv_destroy_srq(srq), srq);
	srq = ibv_create_srq(pd, &srq_init);
	if (srq) {
		SINGLE("modify_srq", (void)0, ibv_modify_srq(srq, &srq_attr, IBV_SRQ_LIMIT));
		SINGLE("query_srq", (void)0, ibv_query_srq(srq, &srq_attr));
		ibv_destroy_srq(srq);
	}
	PAIR("create_ah", ibv_create_ah(pd, &ah_attr), "destroy_ah", ibv_destroy_ah(ah), ah);
	events(ctx, channel, cq);
	ibv_destroy_cq(cq);
	ibv_destroy_comp_channel(channel);
	ibv_dealloc_pd(pd);
	ibv_close_device(ctx);
	ibv_free_device_list(kept);
	free(buf);
	return 0;
}
