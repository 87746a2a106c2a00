/*
 * rest DEVICE: calls the exported functions that no other program over the fake kernel calls: those that only
 * other vendors' providers, librdmacm or very old programs use. Its output and the bytes passed to the kernel
 * must be the same on the C library. src/suites/matrix.rs runs it.
 *
 * rest --newer DEVICE: calls the functions that Debian 12's library does not have, to be compared with
 * newer.expected. No provider here supports them, so the output shows how they fail.
 *
 * Private functions are declared here as providers see them, and looked up with dlvsym by version.
 */
#define _GNU_SOURCE
#include "walk.h"

#include <infiniband/sa.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_sa.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define PRIVATE "IBVERBS_PRIVATE_34"
/* The header defines a macro for newer programs. */
#undef ibv_query_port
#define LEN 4096

static void *symbol(const char *name, const char *version)
{
	void *found = dlvsym(RTLD_DEFAULT, name, version);

	if (!found) {
		printf("no %s@%s\n", name, version);
		exit(1);
	}
	return found;
}

#define GET(ret, name, version, ...) ret (*name)(__VA_ARGS__) = symbol(#name, version)

/* The parts of these structs that providers need. */
struct verbs_device {
	struct ibv_device device;
	const void *ops;
	int refcount;
	void *entry[2];
	void *sysfs;
};

struct verbs_dm {
	struct ibv_dm dm;
	uint32_t handle;
};

struct verbs_mr {
	struct ibv_mr mr;
	int type;
	int access;
};

struct verbs_flow_action {
	struct ibv_flow_action action;
	uint32_t handle;
	int type;
};

union verbs_cq {
	struct ibv_cq cq;
	struct ibv_cq_ex cq_ex;
};

struct command_buffer {
	struct command_buffer *next;
	struct ib_uverbs_attr *next_attr;
	struct ib_uverbs_attr *last_attr;
	uint8_t uhw_in_idx, uhw_out_idx, in_headroom, out_headroom;
	uint8_t flags;
	struct ib_uverbs_ioctl_hdr hdr;
	struct ib_uverbs_attr attrs[4];
};

static struct ibv_device *device;
static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_srq *srq;
static struct ibv_qp *qp;
static char *buf;

static void fill_pattern(void *to, size_t len)
{
	uint8_t *bytes = to;

	for (size_t i = 0; i < len; i++)
		bytes[i] = (uint8_t)(i * 37 + 11);
}

static void marshalling(void)
{
	GET(void, ibv_copy_ah_attr_from_kern, "IBVERBS_1.1", struct ibv_ah_attr *,
	    struct ib_uverbs_ah_attr *);
	GET(void, ibv_copy_qp_attr_from_kern, "IBVERBS_1.0", struct ibv_qp_attr *,
	    struct ib_uverbs_qp_attr *);
	GET(void, ibv_copy_path_rec_from_kern, "IBVERBS_1.0", struct ibv_sa_path_rec *,
	    struct ib_user_path_rec *);
	GET(void, ibv_copy_path_rec_to_kern, "IBVERBS_1.0", struct ib_user_path_rec *,
	    struct ibv_sa_path_rec *);
	struct ib_uverbs_ah_attr kern_ah;
	struct ib_uverbs_qp_attr kern_qp;
	struct ib_user_path_rec kern_path, kern_back;
	struct ibv_ah_attr ah;
	struct ibv_qp_attr attr;
	struct ibv_sa_path_rec path;

	fill_pattern(&kern_ah, sizeof(kern_ah));
	FILL(ah);
	VOID(ibv_copy_ah_attr_from_kern(&ah, &kern_ah));
	SHOW(ah);
	fill_pattern(&kern_qp, sizeof(kern_qp));
	FILL(attr);
	VOID(ibv_copy_qp_attr_from_kern(&attr, &kern_qp));
	SHOW(attr);
	fill_pattern(&kern_path, sizeof(kern_path));
	FILL(path);
	VOID(ibv_copy_path_rec_from_kern(&path, &kern_path));
	SHOW(path);
	FILL(kern_back);
	VOID(ibv_copy_path_rec_to_kern(&kern_back, &path));
	SHOW(kern_back);
}

static void files(void)
{
	GET(const char *, ibv_get_sysfs_path, "IBVERBS_1.0", void);
	GET(int, ibv_read_sysfs_file, "IBVERBS_1.0", const char *, const char *, char *, size_t);
	GET(int, ibv_read_ibdev_sysfs_file, PRIVATE, char *, size_t, void *, const char *, ...);
	GET(void, ibv_register_driver, "IBVERBS_1.1", const char *, void *);
	void *sysfs = ((struct verbs_device *)device)->sysfs;
	char text[32] = "";

	printf("sysfs path %d\n", !strcmp(ibv_get_sysfs_path(), getenv("SYSFS_PATH")));
	INT(ibv_read_sysfs_file(device->ibdev_path, "node_type", text, sizeof(text)));
	printf("  %s\n", text);
	INT(ibv_read_sysfs_file(device->ibdev_path, "none", text, sizeof(text)));
	INT(ibv_read_ibdev_sysfs_file(text, sizeof(text), sysfs, "ports/%d/%s/%u", 1, "pkeys", 0u));
	printf("  %s\n", text);
	INT(ibv_read_ibdev_sysfs_file(text, 4, sysfs, "ports/%d/%s/%u", 1, "pkeys", 0u));
	INT(ibv_read_ibdev_sysfs_file(text, sizeof(text), sysfs, "nothing"));
	INT(ibv_read_ibdev_sysfs_file(text, sizeof(text), NULL, "node_type"));
	VOID(ibv_register_driver("usnic", NULL));
}

static void contexts(void)
{
	GET(struct ibv_context *, verbs_open_device, PRIVATE, struct ibv_device *, void *);
	GET(int, ibv_query_port, "IBVERBS_1.1", struct ibv_context *, uint8_t, void *);
	GET(unsigned int, __ioctl_final_num_attrs, PRIVATE, unsigned int, struct command_buffer *);
	GET(void, verbs_init_cq, PRIVATE, struct ibv_cq *, struct ibv_context *, struct ibv_comp_channel *,
	    void *);
	struct command_buffer two = { .next_attr = two.attrs + 2 };
	struct command_buffer one = { .next = &two, .next_attr = one.attrs + 1 };
	struct ibv_comp_channel *channel;
	struct ibv_context *another;
	struct ibv_cq made;
	uint8_t port[64];

	/*
	 * With private data, mlx5 leaves the async descriptor to the caller; NULL is the same as
	 * ibv_open_device.
	 */
	PTR(another, verbs_open_device(device, NULL));
	DESTROY(ibv_close_device, another);
	FILL(port);
	INT(ibv_query_port(ctx, 1, port));
	SHOW(port);
	INT(ibv_query_port(ctx, 9, port));
	INT(__ioctl_final_num_attrs(3, NULL));
	INT(__ioctl_final_num_attrs(3, &one));
	PTR(channel, ibv_create_comp_channel(ctx));
	memset(&made, 0xa5, sizeof(made));
	VOID(verbs_init_cq(&made, ctx, channel, buf));
	printf("  %d %d %d, events %u %u, references %d\n", made.context == ctx, made.channel == channel,
	       made.cq_context == buf, made.comp_events_completed, made.async_events_completed,
	       channel->refcnt);
	INT(pthread_mutex_lock(&made.mutex));
	INT(pthread_mutex_unlock(&made.mutex));
	INT(pthread_cond_signal(&made.cond));
	VOID(verbs_init_cq(&made, ctx, NULL, NULL));
	channel->refcnt--;
	INT(ibv_destroy_comp_channel(channel));
}

/*
 * For members that a request does not have, the C library passes uninitialized stack memory to the kernel:
 * clear the stack first.
 */
static __attribute__((noinline)) void clean_stack(void)
{
	volatile char below[65536];

	for (size_t i = 0; i < sizeof(below); i++)
		below[i] = 0;
}

/* Posts and polls through the kernel, for devices that have no other data path. */
static void posts(void)
{
	GET(int, ibv_cmd_poll_cq, PRIVATE, struct ibv_cq *, int, struct ibv_wc *);
	GET(int, ibv_cmd_post_send, PRIVATE, struct ibv_qp *, struct ibv_send_wr *, struct ibv_send_wr **);
	GET(int, ibv_cmd_post_recv, PRIVATE, struct ibv_qp *, struct ibv_recv_wr *, struct ibv_recv_wr **);
	GET(int, ibv_cmd_post_srq_recv, PRIVATE, struct ibv_srq *, struct ibv_recv_wr *,
	    struct ibv_recv_wr **);
	struct ibv_sge sge[2] = { { 0x1000, 64, 7 }, { 0x2000, 32, 8 } };
	struct ibv_recv_wr recv2 = { .wr_id = 12, .sg_list = sge, .num_sge = 1 };
	struct ibv_recv_wr recv = { .wr_id = 11, .next = &recv2, .sg_list = sge, .num_sge = 2 },
			   *bad_recv = NULL;
	struct ibv_send_wr wr3 = { .wr_id = 23,
				   .opcode = IBV_WR_ATOMIC_CMP_AND_SWP,
				   .sg_list = sge,
				   .num_sge = 1,
				   .wr.atomic = { 0x3000, 1, 2, 9 } };
	struct ibv_send_wr wr2 = { .wr_id = 22,
				   .next = &wr3,
				   .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
				   .sg_list = sge,
				   .num_sge = 2,
				   .imm_data = 0x12345678,
				   .wr.rdma = { 0x4000, 10 } };
	struct ibv_send_wr wr = { .wr_id = 21,
				  .next = &wr2,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED,
				  .sg_list = sge,
				  .num_sge = 1 },
			   *bad = NULL;
	struct ibv_wc wc[2];

	memset(wc, 0xa5, sizeof(wc));
	INT(ibv_cmd_poll_cq(cq, 2, wc));
	SHOW(wc[0].wr_id);
	if (qp) {
		walk_step("ibv_cmd_post_send");
		clean_stack();
		printf("ibv_cmd_post_send: %d\n", ibv_cmd_post_send(qp, &wr, &bad));
		printf("  bad %d\n", bad == &wr ? 1 : bad == &wr2 ? 2 : bad == &wr3 ? 3 : 0);
		INT(ibv_cmd_post_recv(qp, &recv, &bad_recv));
		printf("  bad %d\n", bad_recv == &recv ? 1 : bad_recv == &recv2 ? 2 : 0);
	}
	if (srq)
		INT(ibv_cmd_post_srq_recv(srq, &recv, &bad_recv));
}

static void device_memory(void)
{
	GET(int, ibv_cmd_alloc_dm, PRIVATE, struct ibv_context *, const struct ibv_alloc_dm_attr *,
	    struct verbs_dm *, void *);
	GET(int, ibv_cmd_free_dm, PRIVATE, struct verbs_dm *);
	GET(int, ibv_cmd_reg_dm_mr, PRIVATE, struct ibv_pd *, struct verbs_dm *, uint64_t, size_t,
	    unsigned int, struct verbs_mr *, void *);
	struct ibv_alloc_dm_attr attr = { .length = LEN, .log_align_req = 3 };
	struct verbs_dm dm = { .handle = 77 };
	struct verbs_mr mr = { .access = 0 };

	INT(ibv_cmd_alloc_dm(ctx, &attr, &dm, NULL));
	attr.comp_mask = 1;
	INT(ibv_cmd_alloc_dm(ctx, &attr, &dm, NULL));
	dm.dm.context = ctx;
	INT(ibv_cmd_reg_dm_mr(pd, &dm, 16, 64, IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE, &mr, NULL));
	INT(ibv_cmd_reg_dm_mr(pd, &dm, 16, 64, IBV_ACCESS_LOCAL_WRITE, &mr, NULL));
	printf("  lkey %x rkey %x type %d\n", mr.mr.lkey, mr.mr.rkey, mr.type);
	INT(ibv_cmd_free_dm(&dm));
}

static void flow_actions(void)
{
	GET(int, ibv_cmd_create_flow_action_esp, PRIVATE, struct ibv_context *,
	    struct ibv_flow_action_esp_attr *, struct verbs_flow_action *, void *);
	GET(int, ibv_cmd_modify_flow_action_esp, PRIVATE, struct verbs_flow_action *,
	    struct ibv_flow_action_esp_attr *, void *);
	GET(int, ibv_cmd_destroy_flow_action, PRIVATE, struct verbs_flow_action *);
	struct ibv_flow_action_esp esp = { .spi = 0x1234, .tfc_pad = 1, .hard_limit_pkts = 99 };
	struct ibv_flow_action_esp_keymat_aes_gcm key = {
		.iv = 5, .salt = 6, .icv_len = 16, .key_len = 16, .aes_key = { 1, 2, 3 }
	};
	struct ibv_flow_action_esp_replay_bmp replay = { .size = 64 };
	struct ibv_flow_action_esp_encap encap = { .len = 0 };
	struct ibv_flow_action_esp_attr attr = {
		.esp_attr = &esp,
		.keymat_proto = IBV_FLOW_ACTION_ESP_KEYMAT_AES_GCM,
		.keymat_len = sizeof(key),
		.keymat_ptr = &key,
		.replay_proto = IBV_FLOW_ACTION_ESP_REPLAY_BMP,
		.replay_len = sizeof(replay),
		.replay_ptr = &replay,
		.esp_encap = &encap,
		.esn = 3,
		.comp_mask = IBV_FLOW_ACTION_ESP_MASK_ESN,
	};
	struct verbs_flow_action action = { .handle = 55 };
	struct ibv_flow_action *made;
	int parts;

	PTR(made, ibv_create_flow_action_esp(ctx, &attr));
	if (made) {
		INT(ibv_modify_flow_action_esp(made, &attr));
		INT(ibv_destroy_flow_action(made));
	}
	/* With each part missing in turn. */
	for (parts = 0; parts < 16; parts++) {
		attr.keymat_ptr = parts & 1 ? &key : NULL;
		attr.replay_ptr = parts & 2 ? &replay : NULL;
		attr.esp_encap = parts & 4 ? &encap : NULL;
		attr.comp_mask = parts & 8 ? IBV_FLOW_ACTION_ESP_MASK_ESN : 0;
		INT(ibv_cmd_create_flow_action_esp(ctx, &attr, &action, NULL));
		action.action.context = ctx;
		INT(ibv_cmd_modify_flow_action_esp(&action, &attr, NULL));
	}
	attr.comp_mask = 1 << 9;
	INT(ibv_cmd_create_flow_action_esp(ctx, &attr, &action, NULL));
	INT(ibv_cmd_modify_flow_action_esp(&action, &attr, NULL));
	INT(ibv_cmd_destroy_flow_action(&action));
}

/* --- functions that Debian 12's library does not have --- */

struct dmah {
	struct ibv_context *context;
};
struct comp_cntr {
	struct ibv_context *context;
	uint32_t handle;
};
struct buffer {
	void *addr;
	size_t size;
	struct ibv_pd *pd;
	int dmabuf_fd;
};
struct mr_init_attr {
	size_t length;
	int access;
	uint64_t comp_mask, iova;
	void *addr;
	int fd;
	uint64_t fd_offset;
	struct dmah *dmah;
	struct buffer *buf;
};

static void newer(void)
{
	GET(struct dmah *, ibv_alloc_dmah, "IBVERBS_1.15", struct ibv_context *, void *);
	GET(int, ibv_dealloc_dmah, "IBVERBS_1.15", struct dmah *);
	GET(struct ibv_mr *, ibv_reg_mr_ex, "IBVERBS_1.15", struct ibv_pd *, struct mr_init_attr *);
	GET(int, ibv_dm_export_dmabuf_fd, "IBVERBS_1.16", struct ibv_dm *);
	GET(int, ibv_query_port_speed, "IBVERBS_1.16", struct ibv_context *, uint32_t, uint64_t *);
	GET(void *, ibv_alloc_buf, "IBVERBS_1.17", struct ibv_pd *, size_t, struct buffer **);
	GET(void, ibv_free_buf, "IBVERBS_1.17", struct buffer *);
	GET(struct ibv_mr *, ibv_reg_buf_mr, "IBVERBS_1.17", struct ibv_pd *, struct buffer *, void *, size_t,
	    int);
	GET(int, ibv_export_buf_dmabuf_fd, "IBVERBS_1.18", struct buffer *);
	GET(int, _ibv_query_comp_cntr_caps, "IBVERBS_1.18", struct ibv_context *, void *, size_t);
	GET(struct comp_cntr *, ibv_create_comp_cntr, "IBVERBS_1.18", struct ibv_context *, void *);
	GET(int, ibv_destroy_comp_cntr, "IBVERBS_1.18", struct comp_cntr *);
	GET(int, ibv_set_comp_cntr, "IBVERBS_1.18", struct comp_cntr *, uint64_t);
	GET(int, ibv_set_err_comp_cntr, "IBVERBS_1.18", struct comp_cntr *, uint64_t);
	GET(int, ibv_inc_comp_cntr, "IBVERBS_1.18", struct comp_cntr *, uint64_t);
	GET(int, ibv_inc_err_comp_cntr, "IBVERBS_1.18", struct comp_cntr *, uint64_t);
	GET(int, ibv_read_comp_cntr, "IBVERBS_1.18", struct comp_cntr *, uint64_t *);
	GET(int, ibv_read_err_comp_cntr, "IBVERBS_1.18", struct comp_cntr *, uint64_t *);
	GET(int, ibv_qp_attach_comp_cntr, "IBVERBS_1.18", struct ibv_qp *, struct comp_cntr *, void *);
	GET(const char *, ibv_wr_opcode_str, PRIVATE, int);
	GET(int, ibv_cmd_create_cq_ex2, PRIVATE, struct ibv_context *, const struct ibv_cq_init_attr_ex *,
	    union verbs_cq *, void *, size_t, void *, size_t, uint32_t, void *);
	struct {
		uint32_t hdr[2];
		uint32_t ex_hdr[4];
		struct ib_uverbs_ex_create_cq core;
	} cmd;
	struct ib_uverbs_ex_create_cq_resp resp;
	struct ibv_cq_init_attr_ex cq_attr = { .cqe = 16 };
	struct buffer *made = NULL;
	struct mr_init_attr attr = {
		.length = 64, .access = IBV_ACCESS_LOCAL_WRITE, .comp_mask = 1 << 1, .addr = buf
	};
	struct comp_cntr counter = { .context = ctx };
	struct dmah hints = { .context = ctx };
	struct ibv_dm dm = { .context = ctx };
	uint64_t dmah_attr[2] = { 0 }, number = 0, caps[2], cntr_attr[2] = { 0 };
	static union verbs_cq another;
	void *address;
	struct ibv_mr *mr;

	PTR(address, ibv_alloc_dmah(ctx, dmah_attr));
	INT(ibv_dealloc_dmah(&hints));
	PTR(mr, ibv_reg_mr_ex(pd, &attr));
	DESTROY(ibv_dereg_mr, mr);
	attr.comp_mask = 1 << 20;
	PTR(mr, ibv_reg_mr_ex(pd, &attr));
	INT(ibv_dm_export_dmabuf_fd(&dm));
	INT(ibv_query_port_speed(ctx, 1, &number));
	PTR(address, ibv_alloc_buf(pd, LEN, &made));
	if (made) {
		printf("  %d %zu %d %d\n", made->addr == address, made->size, made->pd == pd,
		       made->dmabuf_fd);
		PTR(mr, ibv_reg_buf_mr(pd, made, (char *)address + 100, 100, IBV_ACCESS_LOCAL_WRITE));
		DESTROY(ibv_dereg_mr, mr);
		PTR(mr, ibv_reg_buf_mr(pd, made, (char *)address + 100, LEN, IBV_ACCESS_LOCAL_WRITE));
		INT(ibv_export_buf_dmabuf_fd(made));
		VOID(ibv_free_buf(made));
	}
	FILL(caps);
	INT(_ibv_query_comp_cntr_caps(ctx, caps, sizeof(caps)));
	SHOW(caps);
	PTR(address, ibv_create_comp_cntr(ctx, cntr_attr));
	INT(ibv_set_comp_cntr(&counter, 1));
	INT(ibv_set_err_comp_cntr(&counter, 1));
	INT(ibv_inc_comp_cntr(&counter, 1));
	INT(ibv_inc_err_comp_cntr(&counter, 1));
	INT(ibv_read_comp_cntr(&counter, &number));
	INT(ibv_read_err_comp_cntr(&counter, &number));
	INT(ibv_qp_attach_comp_cntr(qp, &counter, cntr_attr));
	INT(ibv_destroy_comp_cntr(&counter));
	for (int i = -1; i < 20; i++)
		printf("opcode %d: %s\n", i, ibv_wr_opcode_str(i));
	memset(&cmd, 0, sizeof(cmd));
	memset(&resp, 0, sizeof(resp));
	INT(ibv_cmd_create_cq_ex2(ctx, &cq_attr, &another, &cmd, sizeof(cmd), &resp, sizeof(resp), 0, NULL));
	printf("  cqe %d context %d\n", another.cq.cqe, another.cq.context == ctx);
}

int main(int argc, char **argv)
{
	bool only_newer = argc > 1 && !strcmp(argv[1], "--newer");
	const char *name = argv[argc - 1];
	struct ibv_device **list = ibv_get_device_list(NULL), **entry;
	struct ibv_srq_init_attr srq_attr = { .attr = { .max_wr = 16, .max_sge = 2 } };
	struct ibv_qp_init_attr qp_attr = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 2, .max_recv_sge = 2 },
	};

	walk_init();
	for (entry = list; entry && *entry; entry++)
		if (!strcmp(ibv_get_device_name(*entry), name))
			device = *entry;
	if (!device) {
		printf("no device %s\n", name);
		return 2;
	}
	printf("index %d\n", ibv_get_device_index(device));
	PTR(ctx, ibv_open_device(device));
	if (!ctx)
		return 1;
	buf = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	PTR(pd, ibv_alloc_pd(ctx));
	PTR(cq, ibv_create_cq(ctx, 16, NULL, NULL, 0));
	PTR(srq, ibv_create_srq(pd, &srq_attr));
	qp_attr.send_cq = qp_attr.recv_cq = cq;
	PTR(qp, ibv_create_qp(pd, &qp_attr));
	if (only_newer) {
		newer();
	} else {
		marshalling();
		files();
		contexts();
		posts();
		device_memory();
		flow_actions();
	}
	DESTROY(ibv_destroy_qp, qp);
	DESTROY(ibv_destroy_srq, srq);
	DESTROY(ibv_destroy_cq, cq);
	DESTROY(ibv_dealloc_pd, pd);
	INT(ibv_close_device(ctx));
	ibv_free_device_list(list);
	return 0;
}
