/* Plausible responses to legacy write commands, and failures on request (FAKE_FAIL). */
#define _GNU_SOURCE
#include "fake.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>

#define KNOWN_FDS 1024
#define KNOWN_QPS 4096

static _Atomic uint32_t next_handle = 0x11;
static _Atomic uint32_t reported_comp, reported_async;
/* Our end of each pipe whose other end the program has. */
static _Atomic int write_ends[KNOWN_FDS];
/* State of each QP, by handle. */
static _Atomic uint8_t qp_states[KNOWN_QPS];

uint32_t fresh_handle(void)
{
	return next_handle++;
}

int fresh_fd(void)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC))
		return -1;
	/* A high number, so that the program's descriptors keep the numbers they have without the shim. */
	if (ends[0] < KNOWN_FDS) {
		int high = fcntl(ends[1], F_DUPFD_CLOEXEC, 512);

		if (high >= 0) {
			close(ends[1]);
			if (write_ends[ends[0]])
				close(write_ends[ends[0]]);
			write_ends[ends[0]] = high;
		}
	}
	return ends[0];
}

/* For test programs (dlsym): makes bytes readable from an event descriptor. */
__attribute__((visibility("default"))) int fake_push(int fd, const void *bytes, size_t len);
int fake_push(int fd, const void *bytes, size_t len)
{
	if (fd < 0 || fd >= KNOWN_FDS || !write_ends[fd])
		return -1;
	return write(write_ends[fd], bytes, len) == (ssize_t)len ? 0 : -1;
}

/* For test programs (dlsym): the event counts that the next destroy command returns. */
__attribute__((visibility("default"))) void fake_reported(uint32_t comp, uint32_t async);
void fake_reported(uint32_t comp, uint32_t async)
{
	reported_comp = comp;
	reported_async = async;
}

void reported_events(uint32_t counts[2])
{
	counts[0] = reported_comp;
	counts[1] = reported_async;
}

static const struct {
	const char *name;
	int number;
} errnos[] = {
#define E(name) \
	{ \
#name, name \
	}
	E(EPERM),           E(ENOENT),       E(EINTR),   E(EIO),     E(ENXIO),  E(EBADF),    E(EAGAIN),
	E(ENOMEM),          E(EACCES),       E(EFAULT),  E(EBUSY),   E(EEXIST), E(ENODEV),   E(EINVAL),
	E(ENFILE),          E(EMFILE),       E(ENOTTY),  E(ENOSPC),  E(ERANGE), E(ENOSYS),   E(EOPNOTSUPP),
	E(EPROTONOSUPPORT), E(EAFNOSUPPORT), E(ENOBUFS), E(ENODATA), E(EPROTO), E(EMSGSIZE), E(ETIMEDOUT),
	E(ECONNREFUSED),
#undef E
};

int errno_by_name(const char *name)
{
	for (size_t i = 0; i < sizeof(errnos) / sizeof(errnos[0]); i++)
		if (!strncmp(name, errnos[i].name, strlen(errnos[i].name)) &&
		    !strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZ", name[strlen(errnos[i].name)] ?: '.'))
			return errnos[i].number;
	return atoi(name) ?: EIO;
}

int chosen_failure(const char *name)
{
	const char *list = getenv("FAKE_FAIL"), *at = list;
	size_t len = strlen(name);

	while (at && (at = strstr(at, name))) {
		if ((at == list || at[-1] == ',') && at[len] == '=')
			return strncmp(at + len + 1, "SHORT", 5) ? errno_by_name(at + len + 1) : -1;
		at += len;
	}
	return 0;
}

static const char *const names[] = {
	"GET_CONTEXT",   "QUERY_DEVICE", "QUERY_PORT", "ALLOC_PD",    "DEALLOC_PD", "CREATE_AH",
	"MODIFY_AH",     "QUERY_AH",     "DESTROY_AH", "REG_MR",      "REG_SMR",    "REREG_MR",
	"QUERY_MR",      "DEREG_MR",     "ALLOC_MW",   "BIND_MW",     "DEALLOC_MW", "CREATE_COMP_CHANNEL",
	"CREATE_CQ",     "RESIZE_CQ",    "DESTROY_CQ", "POLL_CQ",     "PEEK_CQ",    "REQ_NOTIFY_CQ",
	"CREATE_QP",     "QUERY_QP",     "MODIFY_QP",  "DESTROY_QP",  "POST_SEND",  "POST_RECV",
	"ATTACH_MCAST",  "DETACH_MCAST", "CREATE_SRQ", "MODIFY_SRQ",  "QUERY_SRQ",  "DESTROY_SRQ",
	"POST_SRQ_RECV", "OPEN_XRCD",    "CLOSE_XRCD", "CREATE_XSRQ", "OPEN_QP",
};

static const char *const ex_names[] = {
	[IB_USER_VERBS_EX_CMD_QUERY_DEVICE] = "EX_QUERY_DEVICE",
	[IB_USER_VERBS_EX_CMD_CREATE_CQ] = "EX_CREATE_CQ",
	[IB_USER_VERBS_EX_CMD_CREATE_QP] = "EX_CREATE_QP",
	[IB_USER_VERBS_EX_CMD_MODIFY_QP] = "EX_MODIFY_QP",
	[IB_USER_VERBS_EX_CMD_CREATE_FLOW] = "EX_CREATE_FLOW",
	[IB_USER_VERBS_EX_CMD_DESTROY_FLOW] = "EX_DESTROY_FLOW",
	[IB_USER_VERBS_EX_CMD_CREATE_WQ] = "EX_CREATE_WQ",
	[IB_USER_VERBS_EX_CMD_MODIFY_WQ] = "EX_MODIFY_WQ",
	[IB_USER_VERBS_EX_CMD_DESTROY_WQ] = "EX_DESTROY_WQ",
	[IB_USER_VERBS_EX_CMD_CREATE_RWQ_IND_TBL] = "EX_CREATE_RWQ_IND_TBL",
	[IB_USER_VERBS_EX_CMD_DESTROY_RWQ_IND_TBL] = "EX_DESTROY_RWQ_IND_TBL",
	[IB_USER_VERBS_EX_CMD_MODIFY_CQ] = "EX_MODIFY_CQ",
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

const char *write_name(uint32_t number, bool extended)
{
	const char *name = NULL;

	if (extended && number < COUNT(ex_names))
		name = ex_names[number];
	else if (!extended && number < COUNT(names))
		name = names[number];
	return name ?: "UNKNOWN";
}

/* Copies as much of a response as the caller has room for. */
static void respond(const struct write_cmd *cmd, size_t at, const void *answer, size_t len)
{
	if (at >= cmd->out_len)
		return;
	if (len > cmd->out_len - at)
		len = cmd->out_len - at;
	memcpy(cmd->out + at, answer, len);
}

/* A field of the request; 0 if the request is too short to contain it. */
static uint32_t u32_at(const struct write_cmd *cmd, size_t at)
{
	uint32_t value = 0;

	if (at + 4 <= cmd->in_len)
		memcpy(&value, cmd->in + at, 4);
	return value;
}

#define RESPOND(value) respond(cmd, 0, &(value), sizeof(value))
/* Offset of a request's member in cmd->in, which starts after `response`. */
#define OFF(type, member) (offsetof(struct type, member) - sizeof(uint64_t))

size_t vendor_context(int fd, void *out, size_t room)
{
	struct mlx5_ib_alloc_ucontext_resp mlx5 = {
		.qp_tab_size = 1 << 16,
		.bf_reg_size = 512,
		.tot_bfregs = 16,
		.cache_line_size = 64,
		.max_sq_desc_sz = 1024,
		.max_rq_desc_sz = 512,
		.max_send_wqebb = 32768,
		.max_recv_wr = 32768,
		.max_srq_recv_wr = 32767,
		.num_ports = 1,
		.response_length = sizeof(mlx5),
		.cqe_version = 1,
		.log_uar_size = 12,
		.num_uars_per_page = 1,
	};

	if (!fake_is_driver(fd, "mlx5"))
		return 0;
	if (room > sizeof(mlx5))
		room = sizeof(mlx5);
	memcpy(out, &mlx5, room);
	return room;
}

static void get_context(int fd, const struct write_cmd *cmd)
{
	struct ib_uverbs_get_context_resp resp = { .async_fd = (uint32_t)fresh_fd(), .num_comp_vectors = 4 };

	RESPOND(resp);
	if (cmd->out_len > sizeof(resp))
		vendor_context(fd, cmd->out + sizeof(resp), cmd->out_len - sizeof(resp));
}

static void query_device(struct ib_uverbs_query_device_resp *resp)
{
	*resp = (struct ib_uverbs_query_device_resp){
		.fw_ver = 0x0010001b00000007,
		.node_guid = htobe64(0x020000fffe000901),
		.sys_image_guid = htobe64(0x020000fffe000900),
		.max_mr_size = ~0ull,
		.page_size_cap = 0xfffff000,
		.vendor_id = 0x2c9,
		.vendor_part_id = 4119,
		.hw_ver = 1,
		.max_qp = 65536,
		.max_qp_wr = 16384,
		.device_cap_flags = 0x00221c76,
		.max_sge = 32,
		.max_sge_rd = 30,
		.max_cq = 65536,
		.max_cqe = 32767,
		.max_mr = 524288,
		.max_pd = 32768,
		.max_qp_rd_atom = 128,
		.max_res_rd_atom = 258048,
		.max_qp_init_rd_atom = 128,
		.atomic_cap = 1,
		.max_mw = 524288,
		.max_mcast_grp = 8192,
		.max_mcast_qp_attach = 56,
		.max_total_mcast_qp_attach = 458752,
		.max_ah = 32767,
		.max_srq = 65536,
		.max_srq_wr = 32767,
		.max_srq_sge = 27,
		.max_pkeys = 64,
		.local_ca_ack_delay = 15,
		.phys_port_cnt = 1,
	};
}

static void query_device_ex(const struct write_cmd *cmd)
{
	struct ib_uverbs_ex_query_device_resp resp = {
		.response_length = (uint32_t)(cmd->core_out_len < sizeof(resp) ? cmd->core_out_len
									       : sizeof(resp)),
		.odp_caps = { .general_caps = 3, .per_transport_caps = { 31, 1, 1 } },
		.timestamp_mask = ~0ull,
		.hca_core_clock = 156250,
		.device_cap_flags_ex = 0x00221c76,
		.rss_caps = { .supported_qpts = 1 << 8,
			      .max_rwq_indirection_tables = 1024,
			      .max_rwq_indirection_table_size = 2048 },
		.max_wq_type_rq = 65536,
		.raw_packet_caps = 6,
		.cq_moderation_caps = { .max_cq_moderation_count = 65535, .max_cq_moderation_period = 4095 },
		.xrc_odp_caps = 7,
	};

	query_device(&resp.base);
	respond(cmd, 0, &resp, cmd->core_out_len < sizeof(resp) ? cmd->core_out_len : sizeof(resp));
}

static void query_port(const struct write_cmd *cmd)
{
	struct ib_uverbs_query_port_resp resp = {
		.port_cap_flags = 0x04010000,
		.max_msg_sz = 1 << 30,
		.gid_tbl_len = 3,
		.pkey_tbl_len = 1,
		.state = 4,
		.max_mtu = 5,
		.active_mtu = 3,
		.active_width = 2,
		.active_speed = 32,
		.phys_state = 5,
		.link_layer = 2,
		.max_vl_num = 4,
		.subnet_timeout = 18,
	};

	RESPOND(resp);
}

static void create_qp(const struct write_cmd *cmd, size_t caps_at, bool extended)
{
	uint32_t handle = fresh_handle();
	struct ib_uverbs_ex_create_qp_resp resp = {
		.base = { .qp_handle = handle,
			  .qpn = handle,
			  .max_send_wr = u32_at(cmd, caps_at),
			  .max_recv_wr = u32_at(cmd, caps_at + 4),
			  .max_send_sge = u32_at(cmd, caps_at + 8),
			  .max_recv_sge = u32_at(cmd, caps_at + 12),
			  .max_inline_data = u32_at(cmd, caps_at + 16) },
		.response_length = sizeof(resp),
	};

	qp_states[handle % KNOWN_QPS] = IBV_QPS_RESET;
	respond(cmd, 0, &resp, extended ? sizeof(resp) : sizeof(resp.base));
}

/* The mask and the state are at the same offsets in both forms of the command. */
static void modify_qp(const struct write_cmd *cmd, size_t skip)
{
	const size_t base = offsetof(struct ib_uverbs_modify_qp, qp_handle) - skip;
	const size_t state = offsetof(struct ib_uverbs_modify_qp, qp_state) - skip;

	if (state < cmd->in_len && (u32_at(cmd, base + 4) & IBV_QP_STATE))
		qp_states[u32_at(cmd, base) % KNOWN_QPS] = cmd->in[state];
}

static void query_qp(const struct write_cmd *cmd)
{
	uint8_t state = qp_states[u32_at(cmd, OFF(ib_uverbs_query_qp, qp_handle)) % KNOWN_QPS];
	struct ib_uverbs_query_qp_resp resp = {
		.dest = { .dlid = 7, .port_num = 1, .is_global = 1, .hop_limit = 64, .dgid = { 0xfe, 0x80 } },
		.alt_dest = { .dlid = 9 },
		.max_send_wr = 16,
		.max_recv_wr = 16,
		.max_send_sge = 1,
		.max_recv_sge = 1,
		.max_inline_data = 32,
		.qkey = 0x11111111,
		.rq_psn = 0x123,
		.sq_psn = 0x456,
		.dest_qp_num = 0x77,
		.qp_access_flags = 7,
		.qp_state = state,
		.cur_qp_state = state,
		.path_mtu = 3,
		.max_rd_atomic = 1,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.port_num = 1,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.sq_sig_all = 1,
	};

	RESPOND(resp);
}

static void create_srq(const struct write_cmd *cmd, size_t max_wr_at)
{
	uint32_t handle = fresh_handle();
	struct ib_uverbs_create_srq_resp resp = { .srq_handle = handle,
						  .max_wr = u32_at(cmd, max_wr_at),
						  .max_sge = u32_at(cmd, max_wr_at + 4),
						  .srqn = handle };

	RESPOND(resp);
}

static void create_cq(const struct write_cmd *cmd, size_t cqe_at, bool extended)
{
	struct ib_uverbs_ex_create_cq_resp resp = {
		.base = { .cq_handle = fresh_handle(), .cqe = u32_at(cmd, cqe_at) },
		.response_length = sizeof(resp),
	};

	respond(cmd, 0, &resp, extended ? sizeof(resp) : sizeof(resp.base));
}

/* POLL_CQ always returns one completion. */
static void poll_cq(const struct write_cmd *cmd)
{
	struct {
		struct ib_uverbs_poll_cq_resp head;
		struct ib_uverbs_wc wc;
	} resp = {
		.head = { .count = 1 },
		.wc = { .wr_id = 42, .opcode = IB_UVERBS_WC_SEND, .byte_len = 64, .qp_num = 0x11 },
	};

	RESPOND(resp);
}

static void one_handle(const struct write_cmd *cmd)
{
	uint32_t handle = fresh_handle();

	RESPOND(handle);
}

static void extended(const struct write_cmd *cmd)
{
	switch (cmd->number) {
	case IB_USER_VERBS_EX_CMD_QUERY_DEVICE:
		query_device_ex(cmd);
		break;
	case IB_USER_VERBS_EX_CMD_CREATE_CQ:
		create_cq(cmd, offsetof(struct ib_uverbs_ex_create_cq, cqe), true);
		break;
	case IB_USER_VERBS_EX_CMD_CREATE_QP:
		create_qp(cmd, offsetof(struct ib_uverbs_ex_create_qp, max_send_wr), true);
		break;
	case IB_USER_VERBS_EX_CMD_MODIFY_QP: {
		struct ib_uverbs_ex_modify_qp_resp resp = { .response_length = sizeof(resp) };

		modify_qp(cmd, 0);
		RESPOND(resp);
		break;
	}
	case IB_USER_VERBS_EX_CMD_CREATE_FLOW: {
		struct ib_uverbs_create_flow_resp resp = { .flow_handle = fresh_handle() };

		RESPOND(resp);
		break;
	}
	case IB_USER_VERBS_EX_CMD_CREATE_WQ: {
		uint32_t handle = fresh_handle();
		struct ib_uverbs_ex_create_wq_resp resp = {
			.response_length = sizeof(resp),
			.wq_handle = handle,
			.wqn = handle,
			.max_wr = u32_at(cmd, offsetof(struct ib_uverbs_ex_create_wq, max_wr)),
			.max_sge = u32_at(cmd, offsetof(struct ib_uverbs_ex_create_wq, max_sge)),
		};

		RESPOND(resp);
		break;
	}
	case IB_USER_VERBS_EX_CMD_DESTROY_WQ: {
		struct ib_uverbs_ex_destroy_wq_resp resp = { .response_length = sizeof(resp),
							     .events_reported = reported_async };

		RESPOND(resp);
		break;
	}
	case IB_USER_VERBS_EX_CMD_CREATE_RWQ_IND_TBL: {
		uint32_t handle = fresh_handle();
		struct ib_uverbs_ex_create_rwq_ind_table_resp resp = {
			.response_length = sizeof(resp),
			.ind_tbl_handle = handle,
			.ind_tbl_num = handle,
		};

		RESPOND(resp);
		break;
	}
	}
}

static void legacy(int fd, const struct write_cmd *cmd)
{
	switch (cmd->number) {
	case IB_USER_VERBS_CMD_GET_CONTEXT:
		get_context(fd, cmd);
		break;
	case IB_USER_VERBS_CMD_QUERY_DEVICE: {
		struct ib_uverbs_query_device_resp resp;

		query_device(&resp);
		RESPOND(resp);
		break;
	}
	case IB_USER_VERBS_CMD_QUERY_PORT:
		query_port(cmd);
		break;
	case IB_USER_VERBS_CMD_ALLOC_PD: {
		/* Providers expect the number of the protection domain after the handle. */
		uint32_t handle = fresh_handle(), resp[2] = { handle, handle };

		RESPOND(resp);
		break;
	}
	case IB_USER_VERBS_CMD_CREATE_AH:
	case IB_USER_VERBS_CMD_OPEN_XRCD:
		one_handle(cmd);
		break;
	case IB_USER_VERBS_CMD_REG_MR: {
		uint32_t handle = fresh_handle();
		struct ib_uverbs_reg_mr_resp resp = { handle, handle << 8, handle << 8 };

		respond(cmd, 0, &resp, 12);
		break;
	}
	case IB_USER_VERBS_CMD_REREG_MR: {
		uint32_t key = u32_at(cmd, OFF(ib_uverbs_rereg_mr, mr_handle)) << 8 | 1;
		uint32_t resp[2] = { key, key };

		RESPOND(resp);
		break;
	}
	case IB_USER_VERBS_CMD_ALLOC_MW: {
		uint32_t handle = fresh_handle(), resp[2] = { handle, handle << 8 };

		RESPOND(resp);
		break;
	}
	case IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL: {
		uint32_t channel = (uint32_t)fresh_fd();

		RESPOND(channel);
		break;
	}
	case IB_USER_VERBS_CMD_CREATE_CQ:
		create_cq(cmd, OFF(ib_uverbs_create_cq, cqe), false);
		break;
	case IB_USER_VERBS_CMD_RESIZE_CQ: {
		uint32_t resp[2] = { u32_at(cmd, OFF(ib_uverbs_resize_cq, cqe)), 0 };

		RESPOND(resp);
		break;
	}
	case IB_USER_VERBS_CMD_DESTROY_CQ: {
		uint32_t resp[2] = { reported_comp, reported_async };

		RESPOND(resp);
		break;
	}
	case IB_USER_VERBS_CMD_POLL_CQ:
		poll_cq(cmd);
		break;
	case IB_USER_VERBS_CMD_CREATE_QP:
		create_qp(cmd, OFF(ib_uverbs_create_qp, max_send_wr), false);
		break;
	case IB_USER_VERBS_CMD_OPEN_QP: {
		uint32_t resp[8] = {
			fresh_handle(), u32_at(cmd, OFF(ib_uverbs_open_qp, qpn)), 16, 16, 1, 1, 0, 0
		};

		RESPOND(resp);
		break;
	}
	case IB_USER_VERBS_CMD_MODIFY_QP:
		modify_qp(cmd, 0);
		break;
	case IB_USER_VERBS_CMD_QUERY_QP:
		query_qp(cmd);
		break;
	case IB_USER_VERBS_CMD_DESTROY_QP:
	case IB_USER_VERBS_CMD_DESTROY_SRQ: {
		uint32_t events = reported_async;

		RESPOND(events);
		break;
	}
	case IB_USER_VERBS_CMD_CREATE_SRQ:
		create_srq(cmd, OFF(ib_uverbs_create_srq, max_wr));
		break;
	case IB_USER_VERBS_CMD_CREATE_XSRQ:
		create_srq(cmd, OFF(ib_uverbs_create_xsrq, max_wr));
		break;
	case IB_USER_VERBS_CMD_QUERY_SRQ: {
		struct ib_uverbs_query_srq_resp resp = { .max_wr = 128, .max_sge = 2, .srq_limit = 5 };

		RESPOND(resp);
		break;
	}
	}
}

void answer_write(int fd, const struct write_cmd *cmd)
{
	if (cmd->out_len)
		memset(cmd->out, 0, cmd->out_len);
	if (cmd->extended)
		extended(cmd);
	else
		legacy(fd, cmd);
}
