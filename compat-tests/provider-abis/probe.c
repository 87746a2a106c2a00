/*
 * Tests of devices of provider.c:
 *
 *	probe slots DEVICE RELEASE     calls every verb that the provider ABI has, and checks that the
 *	                               right op is called, with the right arguments
 *	probe commands DEVICE RELEASE  calls the commands whose form differs between the ABIs
 *	probe two DEVICE DEVICE        uses two devices of different provider ABIs at once
 *
 * Prints "ok NAME" or "not ok NAME" for each check.
 */
#include "open.h"
#include "ops.h"

#include <infiniband/driver.h>

static struct op_call *call;
static int release;
static int failures;

static void result(int ok, const char *name, const char *why)
{
	printf("%s %s%s%s\n", ok ? "ok" : "not ok", name, ok ? "" : ": ", ok ? "" : why);
	failures += !ok;
}

/* Checks the last call: the op, as many arguments as given, and what the verb returned. */
static void check(const char *op, unsigned long returned, unsigned long expected, int count,
		  const unsigned long *args)
{
	char why[256] = "";

	if (!call->op || strcmp(call->op, op))
		snprintf(why, sizeof(why), "the op %s was called", call->op ? call->op : "(none)");
	else if (call->calls != 1)
		snprintf(why, sizeof(why), "called %d times", call->calls);
	else if (returned != expected)
		snprintf(why, sizeof(why), "the verb returned %#lx", returned);
	/* The upper half of a 32-bit argument's register is undefined. */
	for (int i = 0; i < count && !why[0]; i++)
		if (call->args[i] != args[i] && (args[i] >> 32 || (uint32_t)call->args[i] != args[i]))
			snprintf(why, sizeof(why), "argument %d is %#lx, not %#lx", i, call->args[i],
				 args[i]);
	result(!why[0], op, why);
}

#define COUNT(...) ((int)(sizeof((unsigned long[]){ __VA_ARGS__ }) / sizeof(unsigned long)))
#define BEGIN (call->op = NULL, call->calls = 0, errno = 0)
/* A verb that returns a number, an object, or nothing, and the op's arguments. */
#define INT(verb, op, ...) \
	do { \
		BEGIN; \
		check(#op, (unsigned long)(verb), OP_RESULT, COUNT(__VA_ARGS__), \
		      (const unsigned long[]){ __VA_ARGS__ }); \
	} while (0)
#define PTR(verb, op, ...) \
	do { \
		BEGIN; \
		check(#op, (unsigned long)(verb), (unsigned long)call->object, COUNT(__VA_ARGS__), \
		      (const unsigned long[]){ __VA_ARGS__ }); \
	} while (0)
#define VOID(verb, op, ...) \
	do { \
		BEGIN; \
		verb; \
		check(#op, 0, 0, COUNT(__VA_ARGS__), (const unsigned long[]){ __VA_ARGS__ }); \
	} while (0)
#define P(pointer) ((unsigned long)(pointer))
/* Argument values that are only passed on. */
#define ANY1 ((void *)0x11110)
#define ANY2 ((void *)0x22220)

/* Objects of the context. */
static struct ibv_context *context;
static struct ibv_pd pd;
static struct ibv_qp qp;
static struct ibv_cq cq;
static struct ibv_srq srq;
static struct ibv_wq wq;
static struct ibv_mw mw;
static struct ibv_dm dm;
static struct ibv_td td;
static struct ibv_ah ah;
static struct verbs_mr mr;

static void make_objects(void)
{
	pd.context = qp.context = cq.context = srq.context = wq.context = mw.context = dm.context =
		td.context = ah.context = mr.ibv_mr.context = context;
	srq.pd = &pd;
	mr.ibv_mr.pd = &pd;
}

static void base_verbs(void)
{
	union ibv_gid gid;
	struct ibv_port_attr port;
	struct ibv_qp_attr qp_attr = {};
	struct ibv_qp_init_attr qp_init = {};
	struct ibv_srq_init_attr srq_attr = {};
	struct ibv_ece ece = { .vendor_id = 1 };
	struct verbs_context *ext = verbs_get_ctx(context);

	PTR(ibv_alloc_pd(context), alloc_pd, P(context));
	INT(ibv_dealloc_pd(&pd), dealloc_pd, P(&pd));
	PTR(ibv_reg_mr_iova2(&pd, ANY1, 0, 0x123456789, 1), reg_mr, P(&pd), P(ANY1), 0, 0x123456789, 1);
	PTR(ibv_reg_dmabuf_mr(&pd, 1, 2, 3, 4, 5), reg_dmabuf_mr, P(&pd), 1, 2, 3, 4, 5);
	INT(ibv_dereg_mr(&mr.ibv_mr), dereg_mr, P(&mr));
	BEGIN;
	ibv_rereg_mr(&mr.ibv_mr, IBV_REREG_MR_CHANGE_ACCESS, &pd, NULL, 0, 3);
	check("rereg_mr", 0, 0, 6, (const unsigned long[]){ P(&mr), 4, P(&pd), 0, 0, 3 });
	PTR(ibv_create_cq(context, 5, NULL, NULL, 6), create_cq, P(context), 5, 0, 6);
	INT(ibv_resize_cq(&cq, 9), resize_cq, P(&cq), 9);
	INT(ibv_destroy_cq(&cq), destroy_cq, P(&cq));
	INT(ibv_poll_cq(&cq, 3, ANY1), poll_cq, P(&cq), 3, P(ANY1));
	INT(ibv_req_notify_cq(&cq, 1), req_notify_cq, P(&cq), 1);
	PTR(ibv_create_srq(&pd, &srq_attr), create_srq, P(&pd), P(&srq_attr));
	INT(ibv_modify_srq(&srq, ANY1, 7), modify_srq, P(&srq), P(ANY1), 7);
	INT(ibv_query_srq(&srq, ANY1), query_srq, P(&srq), P(ANY1));
	INT(ibv_destroy_srq(&srq), destroy_srq, P(&srq));
	INT(ibv_post_srq_recv(&srq, ANY1, ANY2), post_srq_recv, P(&srq), P(ANY1), P(ANY2));
	PTR(ibv_create_qp(&pd, &qp_init), create_qp, P(&pd), P(&qp_init));
	INT(ibv_modify_qp(&qp, &qp_attr, 8), modify_qp, P(&qp), P(&qp_attr), 8);
	INT(ibv_query_qp(&qp, ANY1, 8, ANY2), query_qp, P(&qp), P(ANY1), 8, P(ANY2));
	INT(ibv_destroy_qp(&qp), destroy_qp, P(&qp));
	INT(ibv_post_send(&qp, ANY1, ANY2), post_send, P(&qp), P(ANY1), P(ANY2));
	INT(ibv_post_recv(&qp, ANY1, ANY2), post_recv, P(&qp), P(ANY1), P(ANY2));
	INT(ibv_attach_mcast(&qp, &gid, 4), attach_mcast, P(&qp), P(&gid), 4);
	INT(ibv_detach_mcast(&qp, &gid, 4), detach_mcast, P(&qp), P(&gid), 4);
	PTR(ibv_create_ah(&pd, ANY1), create_ah, P(&pd), P(ANY1));
	INT(ibv_destroy_ah(&ah), destroy_ah, P(&ah));
	INT(ibv_query_ece(&qp, &ece), query_ece, P(&qp), P(&ece));
	INT(ibv_set_ece(&qp, &ece), set_ece, P(&qp), P(&ece));
	BEGIN;
	/* The library adds what the provider's answer implies. */
	check("query_qp_data_in_order",
	      ibv_query_qp_data_in_order(&qp, IBV_WR_SEND, IBV_QUERY_QP_DATA_IN_ORDER_RETURN_CAPS),
	      OP_RESULT | IBV_QUERY_QP_DATA_IN_ORDER_ALIGNED_128_BYTES, 3,
	      (const unsigned long[]){ P(&qp), IBV_WR_SEND, IBV_QUERY_QP_DATA_IN_ORDER_RETURN_CAPS });
	BEGIN;
	check("query_port", ext->query_port(context, 2, &port, sizeof(port)), OP_RESULT, 2,
	      (const unsigned long[]){ P(context), 2 });
	PTR(ibv_import_pd(context, 21), import_pd, P(context), 21);
	PTR(ibv_import_mr(&pd, 22), import_mr, P(&pd), 22);
	PTR(ibv_import_dm(context, 23), import_dm, P(context), 23);
	VOID(ibv_unimport_pd(&pd), unimport_pd, P(&pd));
	VOID(ibv_unimport_mr(&mr.ibv_mr), unimport_mr, P(&mr));
	VOID(ibv_unimport_dm(&dm), unimport_dm, P(&dm));
}

/* Verbs that programs call through the slots of the context. */
static void slots(void)
{
	struct verbs_context *ext = verbs_get_ctx(context);
	struct ibv_cq_init_attr_ex cq_attr = { .cqe = 1 };
	struct ibv_srq_init_attr_ex srq_attr = { .comp_mask = 0xff };

	PTR(context->ops.alloc_mw(&pd, 1), alloc_mw, P(&pd), 1);
	INT(context->ops.dealloc_mw(&mw), dealloc_mw, P(&mw));
	INT(context->ops.bind_mw(&qp, &mw, ANY1), bind_mw, P(&qp), P(&mw), P(ANY1));
	PTR(ext->create_cq_ex(context, &cq_attr), create_cq_ex, P(context), P(&cq_attr));
	PTR(ext->create_srq_ex(context, &srq_attr), create_srq_ex, P(context), P(&srq_attr));
	INT(ext->advise_mr(&pd, 1, 2, ANY1, 3), advise_mr, P(&pd), 1, 2, P(ANY1), 3);
	PTR(ext->alloc_null_mr(&pd), alloc_null_mr, P(&pd));
	INT(ext->read_counters(ANY1, ANY2, 3, 4), read_counters, P(ANY1), P(ANY2), 3, 4);
	INT(ext->attach_counters_point_flow(ANY1, ANY2, NULL), attach_counters_point_flow, P(ANY1), P(ANY2),
	    0);
	PTR(ext->create_counters(context, ANY1), create_counters, P(context), P(ANY1));
	INT(ext->destroy_counters(ANY1), destroy_counters, P(ANY1));
	PTR(ext->reg_dm_mr(&pd, &dm, 1, 2, 3), reg_dm_mr, P(&pd), P(&dm), 1, 2, 3);
	PTR(ext->alloc_dm(context, ANY1), alloc_dm, P(context), P(ANY1));
	INT(ext->free_dm(&dm), free_dm, P(&dm));
	INT(ext->modify_flow_action_esp(ANY1, ANY2), modify_flow_action_esp, P(ANY1), P(ANY2));
	INT(ext->destroy_flow_action(ANY1), destroy_flow_action, P(ANY1));
	PTR(ext->create_flow_action_esp(context, ANY1), create_flow_action_esp, P(context), P(ANY1));
	INT(ext->modify_qp_rate_limit(&qp, ANY1), modify_qp_rate_limit, P(&qp), P(ANY1));
	PTR(ext->alloc_parent_domain(context, ANY1), alloc_parent_domain, P(context), P(ANY1));
	INT(ext->dealloc_td(&td), dealloc_td, P(&td));
	PTR(ext->alloc_td(context, ANY1), alloc_td, P(context), P(ANY1));
	INT(ext->modify_cq(&cq, ANY1), modify_cq, P(&cq), P(ANY1));
	INT(ext->post_srq_ops(&srq, ANY1, ANY2), post_srq_ops, P(&srq), P(ANY1), P(ANY2));
	INT(ext->destroy_rwq_ind_table(ANY1), destroy_rwq_ind_table, P(ANY1));
	PTR(ext->create_rwq_ind_table(context, ANY1), create_rwq_ind_table, P(context), P(ANY1));
	INT(ext->destroy_wq(&wq), destroy_wq, P(&wq));
	INT(ext->modify_wq(&wq, ANY1), modify_wq, P(&wq), P(ANY1));
	PTR(ext->create_wq(context, ANY1), create_wq, P(context), P(ANY1));
	INT(ext->query_rt_values(context, ANY1), query_rt_values, P(context), P(ANY1));
	INT(ext->query_device_ex(context, ANY1, ANY2, 8), query_device_ex, P(context), P(ANY1), P(ANY2), 8);
	INT(ext->ibv_destroy_flow(ANY1), destroy_flow, P(ANY1));
	PTR(ext->ibv_create_flow(&qp, ANY1), create_flow, P(&qp), P(ANY1));
	PTR(ext->open_qp(context, ANY1), open_qp, P(context), P(ANY1));
	PTR(ext->create_qp_ex(context, ANY1), create_qp_ex, P(context), P(ANY1));
	INT(ext->get_srq_num(&srq, ANY1), get_srq_num, P(&srq), P(ANY1));
	PTR(ext->open_xrcd(context, ANY1), open_xrcd, P(context), P(ANY1));
	INT(ext->close_xrcd(ANY1), close_xrcd, P(ANY1));
	VOID(((void (*)(struct ibv_cq *))(void (*)(void))context->ops._compat_cq_event)(&cq), cq_event,
	     P(&cq));
	VOID(((void (*)(struct ibv_context *, void *))(
		      void (*)(void))context->ops._compat_async_event)(context, ANY1),
	     async_event, P(context), P(ANY1));
}

/* A verb that a provider of this release does not have. */
#define LACKS(verb, expected) \
	do { \
		unsigned long ret_; \
\
		BEGIN; \
		ret_ = (unsigned long)(verb); \
		result(ret_ == P(expected) && !call->op && \
			       (P(expected) == EOPNOTSUPP || errno == EOPNOTSUPP), \
		       "without: " #verb, "not EOPNOTSUPP"); \
	} while (0)

static void since_59(void)
{
	struct ibv_mr_init_attr attr = { .comp_mask = IBV_REG_MR_MASK_ADDR, .addr = ANY1, .access = 1 };
	struct ibv_mr_init_attr with_dmah = attr;
	struct {
		struct ibv_context *context;
		uint32_t handle;
	} dmah = { context, 1 };

	with_dmah.comp_mask |= IBV_REG_MR_MASK_DMAH;
	with_dmah.dmah = (void *)&dmah;
	if (release < 59) {
		LACKS(ibv_alloc_dmah(context, ANY1), NULL);
		LACKS(ibv_dealloc_dmah((void *)&dmah), EOPNOTSUPP);
		/* The library translates what it can. */
		PTR(ibv_reg_mr_ex(&pd, &attr), reg_mr, P(&pd), P(ANY1), 0, P(ANY1), 1);
		LACKS(ibv_reg_mr_ex(&pd, &with_dmah), NULL);
		return;
	}
	PTR(ibv_alloc_dmah(context, ANY1), alloc_dmah, P(context), P(ANY1));
	INT(ibv_dealloc_dmah((void *)&dmah), dealloc_dmah, P(&dmah));
	PTR(ibv_reg_mr_ex(&pd, &with_dmah), reg_mr_ex, P(&pd));
}

static void since_62(void)
{
	if (release < 62) {
		LACKS(ibv_dm_export_dmabuf_fd(&dm), -1);
		LACKS(ibv_query_port_speed(context, 1, ANY1), EOPNOTSUPP);
		return;
	}
	INT(ibv_dm_export_dmabuf_fd(&dm), dm_export_dmabuf_fd, P(&dm));
	INT(ibv_query_port_speed(context, 3, ANY1), query_port_speed, P(context), 3, P(ANY1));
}

static void since_64(void)
{
	struct {
		void *addr;
		size_t size;
		struct ibv_pd *pd;
		int dmabuf_fd;
	} buf = { ANY1, 1, &pd, -1 };
	struct ibv_buf *own = NULL;

	if (release < 64) {
		char *memory = ibv_alloc_buf(&pd, 100, &own);

		result(memory && own && !((uintptr_t)memory & 4095), "without: alloc_buf",
		       "the library allocates pages");
		BEGIN;
		result(ibv_export_buf_dmabuf_fd(own) == -1 && errno == ENODATA,
		       "without: export_buf_dmabuf_fd", "not ENODATA");
		ibv_free_buf(own);
		return;
	}
	PTR(ibv_alloc_buf(&pd, 100, &own), alloc_buf, P(&pd), 100, P(&own));
	VOID(ibv_free_buf((void *)&buf), free_buf, P(&buf));
}

static void since_65(void)
{
	struct ibv_comp_cntr counter = { .context = context };
	struct ibv_comp_cntr_caps caps;

	if (release < 65) {
		LACKS(ibv_create_comp_cntr(context, ANY1), NULL);
		LACKS(ibv_destroy_comp_cntr(&counter), EOPNOTSUPP);
		LACKS(ibv_inc_comp_cntr(&counter, 1), EOPNOTSUPP);
		LACKS(ibv_qp_attach_comp_cntr(&qp, &counter, ANY1), EOPNOTSUPP);
		LACKS(ibv_query_comp_cntr_caps(context, &caps), EOPNOTSUPP);
		return;
	}
	PTR(ibv_create_comp_cntr(context, ANY1), create_comp_cntr, P(context), P(ANY1));
	INT(ibv_destroy_comp_cntr(&counter), destroy_comp_cntr, P(&counter));
	INT(ibv_inc_comp_cntr(&counter, 1), inc_comp_cntr, P(&counter), 1);
	INT(ibv_inc_err_comp_cntr(&counter, 2), inc_err_comp_cntr, P(&counter), 2);
	INT(ibv_set_comp_cntr(&counter, 3), set_comp_cntr, P(&counter), 3);
	INT(ibv_set_err_comp_cntr(&counter, 4), set_err_comp_cntr, P(&counter), 4);
	INT(ibv_read_comp_cntr(&counter, ANY1), read_comp_cntr, P(&counter), P(ANY1));
	INT(ibv_read_err_comp_cntr(&counter, ANY1), read_err_comp_cntr, P(&counter), P(ANY1));
	INT(ibv_qp_attach_comp_cntr(&qp, &counter, ANY1), qp_attach_comp_cntr, P(&qp), P(&counter), P(ANY1));
	INT(ibv_query_comp_cntr_caps(context, &caps), query_comp_cntr_caps, P(context), P(&caps),
	    sizeof(caps));
}

/* The six slots that newer layouts have in front, which the library fills in only where they exist. */
static void front_slots(void)
{
	static const struct {
		int since, before;
		const char *op;
	} front[] = {
		{ 59, 328, "alloc_dmah" },          { 59, 336, "dealloc_dmah" }, { 59, 344, "reg_mr_ex" },
		{ 62, 352, "dm_export_dmabuf_fd" }, { 64, 360, "alloc_buf" },    { 64, 368, "free_buf" },
	};

	for (size_t i = 0; i < sizeof(front) / sizeof(front[0]); i++) {
		char name[64];
		void (*op)(void *, void *, void *);

		if (front[i].since > release)
			continue;
		memcpy(&op, (char *)context - front[i].before, sizeof(op));
		BEGIN;
		op(ANY1, ANY2, NULL);
		snprintf(name, sizeof(name), "slot of %s", front[i].op);
		result(call->op && !strcmp(call->op, front[i].op), name, "another function");
	}
}

static int probe_slots(const char *name)
{
	context = open_named(name);
	call = of_provider(context, "pabi_call");
	make_objects();
	result(verbs_get_ctx(context)->sz == (release < 59   ? 648u
					      : release < 62 ? 672u
					      : release < 64 ? 680u
							     : 696u),
	       "sz is the provider's", "another size");
	base_verbs();
	slots();
	since_59();
	since_62();
	since_64();
	since_65();
	front_slots();
	result(ibv_close_device(context) == 0, "close", "");
	return failures;
}

static int probe_two(const char *first, const char *second)
{
	const char *names[2] = { first, second };
	struct ibv_context *contexts[2];
	struct op_call *calls[2];
	int i, round;

	for (i = 0; i < 2; i++) {
		contexts[i] = open_named(names[i]);
		calls[i] = of_provider(contexts[i], "pabi_call");
	}
	result(calls[0] != calls[1], "two providers", "one");
	for (round = 0; round < 3; round++)
		for (i = 0; i < 2; i++) {
			call = calls[i];
			context = contexts[i];
			make_objects();
			PTR(ibv_alloc_pd(context), alloc_pd, P(context));
			INT(ibv_poll_cq(&cq, 3, ANY1), poll_cq, P(&cq), 3, P(ANY1));
			PTR(ibv_reg_mr_iova2(&pd, ANY1, 0, 2, 1), reg_mr, P(&pd), P(ANY1), 0, 2, 1);
		}
	for (i = 0; i < 2; i++)
		result(ibv_close_device(contexts[i]) == 0, "close", "");
	return failures;
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc != 4)
		return 2;
	release = atoi(argv[3]);
	if (!strcmp(argv[1], "slots"))
		return probe_slots(argv[2]) != 0;
	return probe_two(argv[2], argv[3]) != 0;
}
