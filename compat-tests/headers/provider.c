/*
 * What a provider does with driver.h that compilers could object to: each macro is used. Compiled in C's
 * standards, with all warnings as errors; it is not run.
 */
#include <infiniband/driver.h>
#include <infiniband/cmd_write.h>
#include <infiniband/driver.h>

struct my_pd {
	__u32 number;
	__u32 reserved;
};
struct my_pd_resp {
	__u32 page;
};
#define _STRUCT_my_pd \
	struct { \
		__u32 number; \
		__u32 reserved; \
	}
#define _STRUCT_my_pd_resp \
	struct { \
		__u32 page; \
	}
DECLARE_DRV_CMD(my_alloc_pd, IB_USER_VERBS_CMD_ALLOC_PD, my_pd, my_pd_resp)
DECLARE_DRV_CMD(my_create_cq, IB_USER_VERBS_EX_CMD_CREATE_CQ, my_pd, empty)

struct my_context {
	int more;
	struct verbs_context ibv;
};

static const struct verbs_match_ent table[] = {
	VERBS_DRIVER_ID(RDMA_DRIVER_UNKNOWN),   VERBS_PCI_MATCH(0x15b3, 0x1013, NULL),
	VERBS_MODALIAS_MATCH("vmbus:*", table), VERBS_NAME_MATCH("mine", NULL),
	{ .kind = VERBS_MATCH_SENTINEL },
};

static struct ibv_pd *alloc_pd(struct ibv_context *context)
{
	struct verbs_context *vctx = verbs_get_ctx(context);
	struct my_alloc_pd_resp resp;
	struct my_alloc_pd cmd;
	static struct ibv_pd pd;

	memset(&cmd, 0, sizeof(cmd));
	cmd.number = cmd.drv_payload.reserved;
	if (ibv_cmd_alloc_pd(context, &pd, &cmd.ibv_cmd, sizeof(cmd), &resp.ibv_resp, sizeof(resp))) {
		verbs_err(vctx, "no domain\n");
		verbs_warn(vctx, "page %u\n", resp.page);
		return NULL;
	}
	verbs_info(vctx, "domain %u of %s\n", pd.handle, "mine");
	verbs_debug_datapath(vctx, "done\n");
	verbs_err_datapath(vctx, "done %d\n", 1);
	return &pd;
}

static int ask(struct ibv_context *context, struct ibv_command_buffer *more)
{
	uint32_t numbers[2] = { 1, 2 };
	uint64_t answer, answers[2];
	DECLARE_COMMAND_BUFFER(cmd, 1, 1, 9);
	DECLARE_COMMAND_BUFFER_LINK(linked, 2, 3, 1, more);

	attr_optional(fill_attr_in_ptr(cmd, 1, &answer));
	fill_attr_in_uint32(cmd, 2, 3);
	fill_attr_const_in(cmd, 3, 4);
	fill_attr_out_ptr(cmd, 4, &answer);
	fill_attr_in_ptr_array(cmd, 5, numbers, 2);
	fill_attr_out_ptr_array(cmd, 6, answers, 2);
	fill_attr_in_objs_arr(cmd, 7, numbers, 2);
	fill_attr_in_enum(cmd, 8, 1, numbers, sizeof(numbers));
	fill_attr_in_fd(cmd, 9, -1);
	fill_attr_out_fd(linked, 1, 0);
	fallback_require_ioctl(cmd);
	fallback_require_ex(linked);
	return execute_ioctl(context, cmd) || execute_ioctl(context, linked);
}

static struct ibv_mr *reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
				    int access)
{
	static struct verbs_mr mr;

#if IBVERBS_PABI_VERSION == 34
	/* as before rdma-core 54 */
	if (ibv_cmd_reg_dmabuf_mr(pd, offset, length, iova, fd, access, &mr))
		return NULL;
#endif
	if (ibv_cmd_reg_dmabuf_mr(pd, offset, length, iova, fd, access, &mr, NULL))
		return NULL;
	return &mr.ibv_mr;
}

static const struct verbs_context_ops operations = {
	.alloc_pd = alloc_pd,
	.dealloc_pd = ibv_cmd_dealloc_pd,
	.reg_dmabuf_mr = reg_dmabuf_mr,
};

static struct verbs_context *alloc_context(struct ibv_device *device, int cmd_fd, void *private_data)
{
	struct my_context *mine = verbs_init_and_alloc_context(device, cmd_fd, mine, ibv,
							       RDMA_DRIVER_UNKNOWN);
	int ret = 0;

	if (!mine)
		return NULL;
	verbs_set_ops(&mine->ibv, &operations);
	mine->more = ask(&mine->ibv.context, NULL) && verbs_is_destroy_err(&ret) && private_data;
	return &mine->ibv;
}

static const struct verbs_device_ops my_ops = {
	.name = "mine",
	.match_table = table,
	.alloc_context = alloc_context,
};
PROVIDER_DRIVER(mine, my_ops)
