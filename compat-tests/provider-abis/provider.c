/*
 * A provider for tests, compiled against driver.h for one provider ABI (-DIBVERBS_PABI_VERSION=N, for the
 * second layout of ABI 59 also -DIBVERBS_PABI_RELEASE=62). It drives devices named pabiN_*, where N is the
 * release.
 *
 * Each slot of its ops table has a function of its own, which records its name and its arguments in
 * pabi_call. pabi_commands() calls the commands whose form differs between the ABIs. probe.c checks both.
 */
#include <stdio.h>
#include <stdlib.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <infiniband/driver.h>
#include "ops.h"

#define STRING_(x) #x
#define STRING(x) STRING_(x)
#define NAME "pabi" STRING(IBVERBS_PABI_RELEASE)

struct op_call pabi_call;
int pabi_commands(struct ibv_context *context, char *result, size_t size);

/* An object that ops return: its first two members may be the context (struct ibv_flow has it second). */
static struct {
	struct ibv_context *first, *second;
	char rest[4096];
} object;

static unsigned long record(const char *op, const unsigned long args[6])
{
	pabi_call.op = op;
	memcpy(pabi_call.args, args, sizeof(pabi_call.args));
	pabi_call.calls++;
	return OP_RESULT;
}

/* Ops have up to six arguments, all of which are passed in registers. */
#define ARGS \
	unsigned long a, unsigned long b, unsigned long c, unsigned long d, unsigned long e, unsigned long f
#define RESULT_INT(call) return call
#define RESULT_VOID(call) return call
#define RESULT_PTR(call) \
	call; \
	return (unsigned long)pabi_call.object
#define DEFINE(name, result, count) \
	static unsigned long op_##name(ARGS) \
	{ \
		const unsigned long args[6] = { a, b, c, d, e, f }; \
\
		RESULT_##result(record(#name, args)); \
	}
#define SLOT(name, result, count) .name = (void *)op_##name,

OPS_34(DEFINE)
#if IBVERBS_PABI_VERSION >= 59
OPS_59(DEFINE)
#endif
#if IBVERBS_PABI_RELEASE >= 62
OPS_62(DEFINE)
#endif
#if IBVERBS_PABI_VERSION >= 64
OPS_64(DEFINE)
#endif
#if IBVERBS_PABI_VERSION >= 65
OPS_65(DEFINE)
#endif

struct pabi_context {
	char before[24];
	struct verbs_context ibv;
	uint64_t after;
};

static struct pabi_context *to_own(struct ibv_context *context)
{
	return container_of(context, struct pabi_context, ibv.context);
}

static void free_context(struct ibv_context *context)
{
	struct pabi_context *own = to_own(context);

	verbs_uninit_context(&own->ibv);
	free(own);
}

static const struct verbs_context_ops ops = {
	.free_context = free_context,
	/* clang-format off */
	OPS_34(SLOT)
#if IBVERBS_PABI_VERSION >= 59
	OPS_59(SLOT)
#endif
#if IBVERBS_PABI_RELEASE >= 62
	OPS_62(SLOT)
#endif
#if IBVERBS_PABI_VERSION >= 64
	OPS_64(SLOT)
#endif
#if IBVERBS_PABI_VERSION >= 65
	OPS_65(SLOT)
#endif
	/* clang-format on */
};

static int get_context(struct pabi_context *own)
{
	struct ib_uverbs_get_context_resp resp;
	struct ibv_get_context cmd;
#if IBVERBS_PABI_VERSION >= 57
	int fds[3] = { 0, 1, 2 };
	struct ibv_fd_arr fd_arr = { .arr = fds, .count = 3 };

	return ibv_cmd_get_context(&own->ibv, &cmd, sizeof(cmd), getenv("PABI_FDS") ? &fd_arr : NULL, &resp,
				   sizeof(resp));
#else
	return ibv_cmd_get_context(&own->ibv, &cmd, sizeof(cmd), &resp, sizeof(resp));
#endif
}

static struct verbs_context *alloc_context(struct ibv_device *device, int cmd_fd, void *private_data)
{
	struct pabi_context *own;

	(void)private_data;
	own = verbs_init_and_alloc_context(device, cmd_fd, own, ibv, RDMA_DRIVER_UNKNOWN);
	if (!own)
		return NULL;
	if (own->after || own->before[23] || own->ibv.context.device != device ||
	    own->ibv.sz != sizeof(own->ibv) || own->ibv.context.cmd_fd != cmd_fd || get_context(own)) {
		fprintf(stderr, NAME ": the library initialized the context with another layout\n");
		verbs_uninit_context(&own->ibv);
		free(own);
		return NULL;
	}
	own->after = 0x5a5a5a5a;
	object.first = object.second = &own->ibv.context;
	pabi_call.object = &object;
	/* In two parts: a slot that a table leaves out keeps its op. */
	verbs_set_ops(&own->ibv, &(const struct verbs_context_ops){ .free_context = free_context });
	verbs_set_ops(&own->ibv, &ops);
	return &own->ibv;
}

static struct verbs_device *alloc_device(struct verbs_sysfs_dev *sysfs_dev)
{
	(void)sysfs_dev;
	return calloc(1, sizeof(struct verbs_device));
}

static void uninit_device(struct verbs_device *device)
{
	free(device);
}

static const struct verbs_match_ent table[] = {
	VERBS_NAME_MATCH(NAME "_", NULL),
	{ .kind = VERBS_MATCH_SENTINEL },
};
static const struct verbs_device_ops driver = {
	.name = NAME,
	.match_max_abi_version = 99,
	.match_table = table,
	.alloc_context = alloc_context,
	.alloc_device = alloc_device,
	.uninit_device = uninit_device,
};
PROVIDER_DRIVER(pabi, driver)

/* Appends a result to the text that pabi_commands returns. */
#define SAY(...) \
	do { \
		int length_ = snprintf(result, size, __VA_ARGS__); \
\
		result += length_; \
		size -= length_; \
	} while (0)

/*
 * Calls the commands whose form differs between the ABIs, and those that newer ones have, with arguments that
 * can be distinguished in the log of the fake kernel. Writes the results to `result` as text.
 */
int pabi_commands(struct ibv_context *context, char *result, size_t size)
{
	struct {
		struct ibv_port_attr attr;
		uint32_t canary;
	} port;
	struct ibv_pd pd = { .context = context, .handle = 0x1111 };
	struct ibv_cq_init_attr_ex cq_attr = { .cqe = 16 };
	struct ib_uverbs_ex_create_cq_resp cq_resp;
	struct ib_uverbs_ex_create_qp_resp qp_resp;
	struct ibv_create_cq_ex create_cq;
	struct ibv_create_qp_ex create_qp;
	struct ibv_query_port query_port;
	struct verbs_mr mr = {};
	struct verbs_cq cq = {};
	struct verbs_qp qp = {};
	struct ibv_qp_init_attr_ex qp_attr = { .qp_type = IBV_QPT_RC,
					       .comp_mask = IBV_QP_INIT_ATTR_PD,
					       .pd = &pd,
					       .send_cq = &cq.cq,
					       .recv_cq = &cq.cq };
	DECLARE_COMMAND_BUFFER(driver_attrs, UVERBS_OBJECT_MR, 0, 1);

	fill_attr_in_uint32(driver_attrs, (1U << UVERBS_ID_NS_SHIFT) + 9, 0xabcd);
	memset(&port, 0x5a, sizeof(port));
	SAY("query_port %d", ibv_cmd_query_port(context, 1, &port.attr, &query_port, sizeof(query_port)));
	SAY(" speed_ex %x canary %x\n", port.attr.active_speed_ex, port.canary);
	SAY("reg_dmabuf_mr %d\n",
	    ibv_cmd_reg_dmabuf_mr(&pd, 0x1000, 0x2000, 0x3000, 0x705, 1, &mr, driver_attrs));
#if IBVERBS_PABI_VERSION >= 59
	struct verbs_create_cq_prov_attr memory = { .buffer = { .length = 0x4000, .ptr = (void *)0x70000 } };
	struct verbs_create_cq_prov_attr dmabuf = {
		.buffer = { .length = 0x4000, .dmabuf = { .offset = 0x100, .fd = 0x707 } }
	};

	SAY("create_cq_ex %d\n", ibv_cmd_create_cq_ex(context, &cq_attr, NULL, &cq, &create_cq,
						      sizeof(create_cq), &cq_resp, sizeof(cq_resp), 0));
	SAY("create_cq_ex va %d\n",
	    ibv_cmd_create_cq_ex(context, &cq_attr, &memory, &cq, &create_cq, sizeof(create_cq), &cq_resp,
				 sizeof(cq_resp), CREATE_CQ_CMD_FLAGS_WITH_MEM_VA));
	SAY("create_cq_ex without memory %d\n",
	    ibv_cmd_create_cq_ex(context, &cq_attr, NULL, &cq, &create_cq, sizeof(create_cq), &cq_resp,
				 sizeof(cq_resp), CREATE_CQ_CMD_FLAGS_WITH_MEM_VA));
	SAY("create_cq_ex2 dmabuf %d\n",
	    ibv_cmd_create_cq_ex2(context, &cq_attr, &dmabuf, &cq, &create_cq, sizeof(create_cq), &cq_resp,
				  sizeof(cq_resp), CREATE_CQ_CMD_FLAGS_WITH_MEM_DMABUF, driver_attrs));
#else
	SAY("create_cq_ex %d\n", ibv_cmd_create_cq_ex(context, &cq_attr, &cq, &create_cq, sizeof(create_cq),
						      &cq_resp, sizeof(cq_resp), 0));
	SAY("create_cq_ex2 %d\n", ibv_cmd_create_cq_ex2(context, &cq_attr, &cq, &create_cq, sizeof(create_cq),
							&cq_resp, sizeof(cq_resp), 0, driver_attrs));
#endif
#if IBVERBS_PABI_VERSION >= 64
	SAY("create_qp_ex2 %d\n", ibv_cmd_create_qp_ex2(context, &qp, &qp_attr, &create_qp, sizeof(create_qp),
							&qp_resp, sizeof(qp_resp), driver_attrs));
	SAY("create_qp_ex2 without attributes %d\n",
	    ibv_cmd_create_qp_ex2(context, &qp, &qp_attr, &create_qp, sizeof(create_qp), &qp_resp,
				  sizeof(qp_resp), NULL));
#else
	SAY("create_qp_ex2 %d\n", ibv_cmd_create_qp_ex2(context, &qp, &qp_attr, &create_qp, sizeof(create_qp),
							&qp_resp, sizeof(qp_resp)));
#endif
	SAY("qp_num %d\n", qp.qp.qp_num != 0);
#if IBVERBS_PABI_VERSION >= 59
	struct ibv_dmah_init_attr dmah_attr = { .comp_mask = IBV_DMAH_INIT_ATTR_MASK_CPU_ID |
							     IBV_DMAH_INIT_ATTR_MASK_PH |
							     IBV_DMAH_INIT_ATTR_MASK_TPH_MEM_TYPE,
						.cpu_id = 3,
						.ph = 2,
						.tph_mem_type = IBV_TPH_MEM_TYPE_PM };
	struct verbs_dmah dmah = {};
	struct ibv_mr_init_attr by_address = {
		.length = 0x1000, .access = 1, .comp_mask = IBV_REG_MR_MASK_ADDR, .addr = (void *)0x5000
	};
	struct ibv_mr_init_attr by_file = { .length = 0x1000,
					    .access = 1,
					    .comp_mask = IBV_REG_MR_MASK_FD | IBV_REG_MR_MASK_FD_OFFSET |
							 IBV_REG_MR_MASK_IOVA | IBV_REG_MR_MASK_DMAH,
					    .fd = 0x706,
					    .fd_offset = 0x20,
					    .iova = 0x9000,
					    .dmah = &dmah.dmah };

	SAY("alloc_dmah %d\n", ibv_cmd_alloc_dmah(context, &dmah, &dmah_attr));
	SAY("dmah context %d\n", dmah.dmah.context == context);
	SAY("reg_mr_ex by address %d\n", ibv_cmd_reg_mr_ex(&pd, &mr, &by_address));
	SAY("mr type %d access %d context %d\n", mr.mr_type, mr.access, mr.ibv_mr.context == context);
	dmah.dmah.context = context;
	dmah.handle = 0x2222;
	SAY("reg_mr_ex by file %d\n", ibv_cmd_reg_mr_ex(&pd, &mr, &by_file));
	SAY("mr type %d\n", mr.mr_type);
	by_file.comp_mask &= ~IBV_REG_MR_MASK_IOVA;
	SAY("reg_mr_ex without iova %d\n", ibv_cmd_reg_mr_ex(&pd, &mr, &by_file));
	by_address.comp_mask |= IBV_REG_MR_MASK_FD_OFFSET;
	SAY("reg_mr_ex with both %d\n", ibv_cmd_reg_mr_ex(&pd, &mr, &by_address));
	SAY("free_dmah %d\n", ibv_cmd_free_dmah(&dmah));
#endif
#if IBVERBS_PABI_RELEASE >= 62
	uint64_t speed = 0;
	int fd = ibv_cmd_export_dmabuf_fd(context, 0x8000);

	SAY("export_dmabuf_fd %d\n", fd >= 0);
	SAY("query_port_speed %d", ibv_cmd_query_port_speed(context, 1, &speed));
	SAY(" %llu\n", (unsigned long long)speed);
#endif
#if IBVERBS_PABI_VERSION >= 65
	struct ibv_qp_attach_comp_cntr_attr attach = { .op_mask = 0x15 };
	struct ibv_comp_cntr_caps caps = {};
	struct ibv_comp_cntr counter = {};
	uint64_t value = 0;

	SAY("query_comp_cntr_caps %d", ibv_cmd_query_comp_cntr_caps(context, &caps, sizeof(caps)));
	SAY(" %x %u %llx\n", caps.supported_qp_attach_ops, caps.max_counters,
	    (unsigned long long)caps.max_value);
	SAY("query_comp_cntr_caps short %d\n", ibv_cmd_query_comp_cntr_caps(context, &caps, 8));
	SAY("create_comp_cntr %d\n", ibv_cmd_create_comp_cntr(context, &counter, driver_attrs));
	counter.context = context;
	counter.handle = 0x3333;
	SAY("set %d\n", ibv_cmd_set_comp_cntr(&counter, 1));
	SAY("set_err %d\n", ibv_cmd_set_err_comp_cntr(&counter, 2));
	SAY("inc %d\n", ibv_cmd_inc_comp_cntr(&counter, 3));
	SAY("inc_err %d\n", ibv_cmd_inc_err_comp_cntr(&counter, 4));
	SAY("read %d", ibv_cmd_read_comp_cntr(&counter, &value));
	SAY(" %llu\n", (unsigned long long)value);
	SAY("read_err %d", ibv_cmd_read_err_comp_cntr(&counter, &value));
	SAY(" %llu\n", (unsigned long long)value);
	qp.qp.context = context;
	SAY("attach %d\n", ibv_cmd_qp_attach_comp_cntr(&qp.qp, &counter, &attach));
	SAY("destroy_comp_cntr %d\n", ibv_cmd_destroy_comp_cntr(&counter));
#endif
	return 0;
}
