/*
 * datapath DEVICE: prints the location of each function that programs call inline: the file and, for a
 * provider's file, the offset in it. Functions that the C library leaves to the provider must be at the same
 * place with ours: no code of the library runs on the data path.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <string.h>

static void show(const char *name, void *function)
{
	Dl_info info;
	const char *file;

	if (!function) {
		printf("%s: none\n", name);
		return;
	}
	if (!dladdr(function, &info)) {
		printf("%s: nowhere\n", name);
		return;
	}
	file = strrchr(info.dli_fname, '/');
	file = file ? file + 1 : info.dli_fname;
	if (!strncmp(file, "libibverbs.so", 13))
		printf("%s: the library\n", name);
	else
		printf("%s: %s + %#tx\n", name, file, (char *)function - (char *)info.dli_fbase);
}

#define OP(name) show(#name, (void *)ctx->ops.name)
#define EXT(name) show("verbs_context." #name, (void *)vctx->name)

int main(int argc, char **argv)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx = NULL;
	struct verbs_context *vctx;

	for (int i = 0; argc > 1 && list && list[i] && !ctx; i++)
		if (!strcmp(ibv_get_device_name(list[i]), argv[1]))
			ctx = ibv_open_device(list[i]);
	if (!ctx) {
		fprintf(stderr, "datapath: no device\n");
		return 1;
	}
	OP(alloc_mw);
	OP(bind_mw);
	OP(dealloc_mw);
	OP(poll_cq);
	OP(req_notify_cq);
	OP(post_srq_recv);
	OP(post_send);
	OP(post_recv);
	vctx = verbs_get_ctx(ctx);
	if (!vctx)
		return 1;
	EXT(advise_mr);
	EXT(alloc_dm);
	EXT(alloc_null_mr);
	EXT(alloc_parent_domain);
	EXT(alloc_td);
	EXT(attach_counters_point_flow);
	EXT(close_xrcd);
	EXT(create_counters);
	EXT(create_cq_ex);
	EXT(create_flow_action_esp);
	EXT(create_qp_ex);
	EXT(create_rwq_ind_table);
	EXT(create_srq_ex);
	EXT(create_wq);
	EXT(dealloc_td);
	EXT(destroy_counters);
	EXT(destroy_flow_action);
	EXT(destroy_rwq_ind_table);
	EXT(destroy_wq);
	EXT(free_dm);
	EXT(get_srq_num);
	EXT(ibv_create_flow);
	EXT(ibv_destroy_flow);
	EXT(modify_cq);
	EXT(modify_flow_action_esp);
	EXT(modify_qp_rate_limit);
	EXT(modify_wq);
	EXT(open_qp);
	EXT(open_xrcd);
	EXT(post_srq_ops);
	EXT(query_device_ex);
	EXT(query_port);
	EXT(query_rt_values);
	EXT(read_counters);
	EXT(reg_dm_mr);
	EXT(ABI_placeholder1);
	EXT(ABI_placeholder2);
	return 0;
}
