/* The attributes of each uverbs ioctl method, and the responses. */
#define _GNU_SOURCE
#include "fake.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/rdma_user_ioctl_cmds.h>

#define NS (1u << UVERBS_ID_NS_SHIFT)

/* A method of the object MR, and its attributes for the keys, which the installed headers lack. */
enum {
	REG_MR = 5,
	REG_MR_RESP_LKEY = 9,
	REG_MR_RESP_RKEY = 10
};

/*
 * One letter per attribute, in the order of their ids: H handle in, N new handle out, F descriptor in, P new
 * descriptor out, I data in (inline up to 8 bytes), O data out, S array of handles, E data with a selector.
 * `vendor` starts at the driver namespace, where most common methods have the pair "IO".
 */
static const struct method {
	uint16_t object, method;
	const char *name, *common, *vendor;
} methods[] = {
#define M(object, method, common, vendor) \
	{ \
		UVERBS_OBJECT_##object, UVERBS_METHOD_##method, #method, common, vendor \
	}
	M(DEVICE, INVOKE_WRITE, "IOI", "IO"),
	M(DEVICE, INFO_HANDLES, "IOO", "IO"),
	M(DEVICE, QUERY_PORT, "IO", "IO"),
	M(DEVICE, GET_CONTEXT, "OOI", "IO"),
	M(DEVICE, QUERY_CONTEXT, "OO", "O"),
	M(DEVICE, QUERY_GID_TABLE, "IIOO", "IO"),
	M(DEVICE, QUERY_GID_ENTRY, "IIIO", "IO"),
	M(PD, PD_DESTROY, "H", "IO"),
	M(CQ, CQ_CREATE, "NIIFIIOFIIFII", "IO"),
	M(CQ, CQ_DESTROY, "HO", "IO"),
	M(QP, QP_CREATE, "NHHHHHHIIIIIFOO", "IO"),
	M(QP, QP_DESTROY, "HO", "IO"),
	M(SRQ, SRQ_CREATE, "NHHHIIIIIIFOOO", "IO"),
	M(SRQ, SRQ_DESTROY, "HO", "IO"),
	M(AH, AH_DESTROY, "H", "IO"),
	M(MR, DM_MR_REG, "NIIHIHOO", "IO"),
	M(MR, MR_DESTROY, "H", "IO"),
	M(MR, ADVISE_MR, "HIII", "IO"),
	M(MR, QUERY_MR, "HOOOO", "IO"),
	M(MR, REG_DMABUF_MR, "NHIIIFIOO", "IO"),
	M(MW, MW_DESTROY, "H", "IO"),
	M(FLOW, FLOW_DESTROY, "H", "IO"),
	M(XRCD, XRCD_DESTROY, "H", "IO"),
	M(RWQ_IND_TBL, RWQ_IND_TBL_DESTROY, "H", "IO"),
	M(WQ, WQ_CREATE, "NHHIIFIIIOOO", "IO"),
	M(WQ, WQ_DESTROY, "HO", "IO"),
	M(FLOW_ACTION, FLOW_ACTION_ESP_CREATE, "NIIEEI", "I"),
	M(FLOW_ACTION, FLOW_ACTION_ESP_MODIFY, "HIIEEI", "I"),
	M(FLOW_ACTION, FLOW_ACTION_DESTROY, "H", "IO"),
	M(DM, DM_ALLOC, "NII", "OOI"),
	M(DM, DM_FREE, "H", "IO"),
	M(COUNTERS, COUNTERS_CREATE, "N", "IO"),
	M(COUNTERS, COUNTERS_DESTROY, "H", "IO"),
	M(COUNTERS, COUNTERS_READ, "HOI", "IO"),
	M(ASYNC_EVENT, ASYNC_EVENT_ALLOC, "P", "IO"),
#undef M
	/* Methods of kernels newer than the installed headers. */
	{ UVERBS_OBJECT_DEVICE, 7, "QUERY_PORT_SPEED", "IO", "IO" },
	{ UVERBS_OBJECT_DEVICE, 8, "QUERY_COMP_CNTR_CAPS", "OOO", "IO" },
	{ UVERBS_OBJECT_QP, 2, "QP_ATTACH_COMP_CNTR", "HHI", "IO" },
	{ UVERBS_OBJECT_MR, REG_MR, "REG_MR", "NHHIIIIFIOO", "IO" },
	{ 17, 0, "DMAH_ALLOC", "NIEI", "IO" },
	{ 17, 1, "DMAH_FREE", "H", "IO" },
	{ 18, 0, "DMABUF_ALLOC", "PI", "IO" },
	{ 19, 0, "COMP_CNTR_CREATE", "N", "IO" },
	{ 19, 1, "COMP_CNTR_DESTROY", "H", "IO" },
	{ 19, 2, "COMP_CNTR_MODIFY", "HIII", "IO" },
	{ 19, 3, "COMP_CNTR_READ", "HIO", "IO" },
	{ UVERBS_OBJECT_DEVICE, MLX5_IB_METHOD_QUERY_PORT, "MLX5_QUERY_PORT", "", "IO" },
	{ UVERBS_OBJECT_PD, MLX5_IB_METHOD_PD_QUERY, "MLX5_PD_QUERY", "", "HO" },
	{ UVERBS_OBJECT_DM, MLX5_IB_METHOD_DM_MAP_OP_ADDR, "MLX5_DM_MAP_OP_ADDR", "", "HIOO" },
	{ UVERBS_OBJECT_DM, MLX5_IB_METHOD_DM_QUERY, "MLX5_DM_QUERY", "", "HOOO" },
	{ MLX5_IB_OBJECT_UAR, MLX5_IB_METHOD_UAR_OBJ_ALLOC, "MLX5_UAR_ALLOC", "", "NIOOO" },
	{ MLX5_IB_OBJECT_UAR, MLX5_IB_METHOD_UAR_OBJ_DESTROY, "MLX5_UAR_DESTROY", "", "H" },
	{ MLX5_IB_OBJECT_VAR, MLX5_IB_METHOD_VAR_OBJ_ALLOC, "MLX5_VAR_ALLOC", "", "NOOO" },
	{ MLX5_IB_OBJECT_VAR, MLX5_IB_METHOD_VAR_OBJ_DESTROY, "MLX5_VAR_DESTROY", "", "H" },
	{ MLX5_IB_OBJECT_DEVX, MLX5_IB_METHOD_DEVX_OTHER, "MLX5_DEVX_OTHER", "", "IO" },
	{ MLX5_IB_OBJECT_DEVX, MLX5_IB_METHOD_DEVX_QUERY_UAR, "MLX5_DEVX_QUERY_UAR", "", "IO" },
	{ MLX5_IB_OBJECT_DEVX, MLX5_IB_METHOD_DEVX_QUERY_EQN, "MLX5_DEVX_QUERY_EQN", "", "IO" },
	{ MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_CREATE, "MLX5_DEVX_CREATE", "", "NIO" },
	{ MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_DESTROY, "MLX5_DEVX_DESTROY", "", "H" },
	{ MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_MODIFY, "MLX5_DEVX_MODIFY", "", "HIO" },
	{ MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_QUERY, "MLX5_DEVX_QUERY", "", "HIO" },
};

static const char *const objects[] = {
	"DEVICE", "PD",       "COMP_CHANNEL", "CQ",   "QP",          "SRQ",       "AH",
	"MR",     "MW",       "FLOW",         "XRCD", "RWQ_IND_TBL", "WQ",        "FLOW_ACTION",
	"DM",     "COUNTERS", "ASYNC_EVENT",  "DMAH", "DMABUF",      "COMP_CNTR",
};

static const struct method *find(unsigned object, unsigned method)
{
	for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
		if (methods[i].object == object && methods[i].method == method)
			return &methods[i];
	return NULL;
}

const char *ioctl_object_name(unsigned object)
{
	return object < sizeof(objects) / sizeof(objects[0]) ? objects[object]
	       : object >= NS                                ? "VENDOR"
							     : "UNKNOWN";
}

const char *ioctl_method_name(unsigned object, unsigned method)
{
	const struct method *m = find(object, method);

	return m ? m->name : "UNKNOWN";
}

enum attr_kind ioctl_attr_kind(unsigned object, unsigned method, unsigned attr)
{
	const struct method *m = find(object, method);
	const char *kinds = m ? (attr < NS ? m->common : m->vendor) : attr < NS ? "" : "IO";
	size_t at = attr & (NS - 1);

	switch (at < strlen(kinds) ? kinds[at] : 0) {
	case 'H':
		return A_IDR;
	case 'N':
		return A_NEW;
	case 'F':
		return A_FD;
	case 'P':
		return A_NEWFD;
	case 'I':
		return A_IN;
	case 'O':
		return A_OUT;
	case 'S':
		return A_IDRS;
	case 'E':
		return A_ENUM;
	default:
		return A_UNKNOWN;
	}
}

static struct ib_uverbs_attr *attr_of(struct ib_uverbs_ioctl_hdr *hdr, unsigned id)
{
	for (unsigned i = 0; i < hdr->num_attrs; i++)
		if (hdr->attrs[i].attr_id == id)
			return &hdr->attrs[i];
	return NULL;
}

static const void *in_bytes(const struct ib_uverbs_attr *attr)
{
	return attr->len <= sizeof(attr->data) ? (const void *)&attr->data
					       : (const void *)(uintptr_t)attr->data;
}

static void put(struct ib_uverbs_ioctl_hdr *hdr, unsigned id, const void *bytes, size_t len)
{
	struct ib_uverbs_attr *attr = attr_of(hdr, id);

	if (attr)
		memcpy((void *)(uintptr_t)attr->data, bytes, len < attr->len ? len : attr->len);
}

static void put32(struct ib_uverbs_ioctl_hdr *hdr, unsigned id, uint32_t value)
{
	put(hdr, id, &value, sizeof(value));
}

static void put64(struct ib_uverbs_ioctl_hdr *hdr, unsigned id, uint64_t value)
{
	put(hdr, id, &value, sizeof(value));
}

/* Returns an input attribute as output. */
static void echo(struct ib_uverbs_ioctl_hdr *hdr, unsigned out, unsigned in)
{
	struct ib_uverbs_attr *attr = attr_of(hdr, in);

	if (attr)
		put(hdr, out, in_bytes(attr), attr->len);
}

/* INVOKE_WRITE, a legacy command in an ioctl: the same responses, in two buffers. */
static int invoke_write(int fd, struct ib_uverbs_ioctl_hdr *hdr)
{
	struct ib_uverbs_attr *number = attr_of(hdr, UVERBS_ATTR_WRITE_CMD);
	struct ib_uverbs_attr *in = attr_of(hdr, UVERBS_ATTR_CORE_IN);
	struct ib_uverbs_attr *out = attr_of(hdr, UVERBS_ATTR_CORE_OUT);
	struct ib_uverbs_attr *vendor = attr_of(hdr, UVERBS_ATTR_UHW_OUT);
	uint8_t answer[4096];
	struct write_cmd cmd = { 0 };
	size_t vendor_len = vendor ? vendor->len : 0;
	uint32_t command;
	int error;

	if (!number)
		return EINVAL;
	/* With this call the library finds out whether the method exists. */
	if (!in)
		return ENOSPC;
	memcpy(&command, &number->data, 4);
	cmd.number = command & 0xff;
	cmd.extended = command & IB_USER_VERBS_CMD_FLAG_EXTENDED;
	cmd.in = in_bytes(in);
	cmd.in_len = in->len;
	if (!cmd.extended && out && cmd.in_len >= 8) {
		cmd.in += 8;
		cmd.in_len -= 8;
	}
	cmd.out = answer;
	cmd.core_out_len = out ? out->len : 0;
	cmd.out_len = cmd.core_out_len + vendor_len;
	if (cmd.out_len > sizeof(answer))
		return EFAULT;
	error = chosen_failure(write_name(cmd.number, cmd.extended));
	if (error > 0)
		return error;
	answer_write(fd, &cmd);
	if (out)
		memcpy((void *)(uintptr_t)out->data, answer, out->len);
	if (vendor)
		memcpy((void *)(uintptr_t)vendor->data, answer + cmd.core_out_len, vendor_len);
	return 0;
}

/* Clears output buffers, and assigns handles and descriptors. */
static void answer_by_kind(struct ib_uverbs_ioctl_hdr *hdr)
{
	for (unsigned i = 0; i < hdr->num_attrs; i++) {
		struct ib_uverbs_attr *attr = &hdr->attrs[i];

		switch (ioctl_attr_kind(hdr->object_id, hdr->method_id, attr->attr_id)) {
		case A_OUT:
			if (attr->len)
				memset((void *)(uintptr_t)attr->data, 0, attr->len);
			attr->flags |= UVERBS_ATTR_F_VALID_OUTPUT;
			break;
		case A_NEW:
			attr->data = fresh_handle();
			break;
		case A_NEWFD:
			attr->data_s64 = fresh_fd();
			break;
		default:
			break;
		}
	}
}

static void put_port(int fd, struct ib_uverbs_ioctl_hdr *hdr)
{
	struct ib_uverbs_query_port_resp resp;
	struct write_cmd cmd = { .number = IB_USER_VERBS_CMD_QUERY_PORT,
				 .out = (uint8_t *)&resp,
				 .out_len = sizeof(resp) };

	answer_write(fd, &cmd);
	put(hdr, UVERBS_ATTR_QUERY_PORT_RESP, &resp, sizeof(resp));
}

static void put_vendor_context(int fd, struct ib_uverbs_ioctl_hdr *hdr, unsigned id)
{
	uint8_t answer[512];

	put(hdr, id, answer, vendor_context(fd, answer, sizeof(answer)));
}

/* Number of GIDs of port 1, that of src/fake/sysfs.rs. */
#define GIDS 3

/* Whether this queries a GID that does not exist. */
static bool no_such_gid(struct ib_uverbs_ioctl_hdr *hdr)
{
	struct ib_uverbs_attr *port = attr_of(hdr, UVERBS_ATTR_QUERY_GID_ENTRY_PORT);
	struct ib_uverbs_attr *index = attr_of(hdr, UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX);

	return hdr->object_id == UVERBS_OBJECT_DEVICE && hdr->method_id == UVERBS_METHOD_QUERY_GID_ENTRY &&
	       (!port || (uint32_t)port->data != 1 || !index || (uint32_t)index->data >= GIDS);
}

static void answer_specially(int fd, struct ib_uverbs_ioctl_hdr *hdr)
{
	uint32_t key = fresh_handle() << 8, events[2];

	reported_events(events);
	switch (hdr->object_id << 16 | hdr->method_id) {
#define CASE(object, method) case UVERBS_OBJECT_##object << 16 | UVERBS_METHOD_##method
		CASE(DEVICE, QUERY_PORT) : put_port(fd, hdr);
		break;
		CASE(DEVICE, GET_CONTEXT) : put32(hdr, UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS, 4);
		put_vendor_context(fd, hdr, UVERBS_ATTR_UHW_OUT);
		break;
		CASE(DEVICE, QUERY_CONTEXT) : put32(hdr, UVERBS_ATTR_QUERY_CONTEXT_NUM_COMP_VECTORS, 4);
		put_vendor_context(fd, hdr, MLX5_IB_ATTR_QUERY_CONTEXT_RESP_UCTX);
		break;
		CASE(CQ, CQ_CREATE) : echo(hdr, UVERBS_ATTR_CREATE_CQ_RESP_CQE, UVERBS_ATTR_CREATE_CQ_CQE);
		break;
		CASE(CQ, CQ_DESTROY) : put(hdr, UVERBS_ATTR_DESTROY_CQ_RESP, events, sizeof(events));
		break;
		CASE(QP, QP_DESTROY) : put32(hdr, UVERBS_ATTR_DESTROY_QP_RESP, events[1]);
		break;
		CASE(SRQ, SRQ_DESTROY) : put32(hdr, UVERBS_ATTR_DESTROY_SRQ_RESP, events[1]);
		break;
		CASE(WQ, WQ_DESTROY) : put32(hdr, UVERBS_ATTR_DESTROY_WQ_RESP, events[1]);
		break;
		CASE(QP, QP_CREATE) : echo(hdr, UVERBS_ATTR_CREATE_QP_RESP_CAP, UVERBS_ATTR_CREATE_QP_CAP);
		put32(hdr, UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, key >> 8);
		break;
		CASE(SRQ, SRQ_CREATE)
		    : echo(hdr, UVERBS_ATTR_CREATE_SRQ_RESP_MAX_WR, UVERBS_ATTR_CREATE_SRQ_MAX_WR);
		echo(hdr, UVERBS_ATTR_CREATE_SRQ_RESP_MAX_SGE, UVERBS_ATTR_CREATE_SRQ_MAX_SGE);
		put32(hdr, UVERBS_ATTR_CREATE_SRQ_RESP_SRQ_NUM, key >> 8);
		break;
		CASE(WQ, WQ_CREATE)
		    : echo(hdr, UVERBS_ATTR_CREATE_WQ_RESP_MAX_WR, UVERBS_ATTR_CREATE_WQ_MAX_WR);
		echo(hdr, UVERBS_ATTR_CREATE_WQ_RESP_MAX_SGE, UVERBS_ATTR_CREATE_WQ_MAX_SGE);
		put32(hdr, UVERBS_ATTR_CREATE_WQ_RESP_WQ_NUM, key >> 8);
		break;
		CASE(MR, DM_MR_REG) : put32(hdr, UVERBS_ATTR_REG_DM_MR_RESP_LKEY, key);
		put32(hdr, UVERBS_ATTR_REG_DM_MR_RESP_RKEY, key);
		break;
		CASE(MR, REG_DMABUF_MR) : put32(hdr, UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY, key);
		put32(hdr, UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY, key);
		break;
		CASE(MR, QUERY_MR) : put32(hdr, UVERBS_ATTR_QUERY_MR_RESP_LKEY, key);
		put32(hdr, UVERBS_ATTR_QUERY_MR_RESP_RKEY, key);
		put64(hdr, UVERBS_ATTR_QUERY_MR_RESP_LENGTH, 4096);
		put64(hdr, UVERBS_ATTR_QUERY_MR_RESP_IOVA, 0x1000);
		break;
		CASE(DEVICE, QUERY_GID_ENTRY) :
		{
			uint32_t index = (uint32_t)attr_of(hdr, UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX)->data;
			struct ib_uverbs_gid_entry entry = { .gid = { htobe64(0xfe80000000000000),
								      htobe64(0x000000fffe000901 +
									      256 * index) },
							     .gid_index = index,
							     .port_num = 1,
							     .gid_type = 2 };

			put(hdr, UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY, &entry, sizeof(entry));
			break;
		}
		CASE(DEVICE, QUERY_GID_TABLE) :
		{
			struct ib_uverbs_gid_entry entry = { .gid = { htobe64(0xfe80000000000000),
								      htobe64(0x000000fffe000901) },
							     .port_num = 1,
							     .gid_type = 2 };

			put(hdr, UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES, &entry, sizeof(entry));
			put64(hdr, UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES, 1);
			break;
		}
#undef CASE
	case UVERBS_OBJECT_DEVICE << 16 | 7: /* QUERY_PORT_SPEED */
		put64(hdr, 1, 4000);
		break;
	case UVERBS_OBJECT_DEVICE << 16 | 8: /* QUERY_COMP_CNTR_CAPS */
		put32(hdr, 0, 16);
		put64(hdr, 1, 1ull << 40);
		put32(hdr, 2, 0x2f);
		break;
	case UVERBS_OBJECT_MR << 16 | REG_MR:
		put32(hdr, REG_MR_RESP_LKEY, key);
		put32(hdr, REG_MR_RESP_RKEY, key);
		break;
	case 19 << 16 | 3: /* COMP_CNTR_READ */
		put64(hdr, 2, 77);
		break;
	case MLX5_IB_OBJECT_UAR << 16 | MLX5_IB_METHOD_UAR_OBJ_ALLOC:
		put64(hdr, MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET, 0x10000);
		put64(hdr, MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH, 4096);
		put32(hdr, MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID, 1);
		break;
	default:
		break;
	}
}

/*
 * FAKE_IOCTL: an errno name (default ENOTTY, a kernel without the ioctl), `ok`, or `nowrite`, a kernel that
 * has the ioctl but not INVOKE_WRITE.
 */
int answer_ioctl(int fd, void *header)
{
	struct ib_uverbs_ioctl_hdr *hdr = header;
	const char *mode = getenv("FAKE_IOCTL");
	bool is_write = hdr->object_id == UVERBS_OBJECT_DEVICE &&
			hdr->method_id == UVERBS_METHOD_INVOKE_WRITE;
	int error;

	if (!mode)
		return ENOTTY;
	if (strcmp(mode, "ok") && strcmp(mode, "nowrite"))
		return errno_by_name(mode);
	if (is_write)
		return strcmp(mode, "ok") ? EPROTONOSUPPORT : invoke_write(fd, hdr);
	if (!find(hdr->object_id, hdr->method_id))
		return EPROTONOSUPPORT;
	error = chosen_failure(ioctl_method_name(hdr->object_id, hdr->method_id));
	if (error > 0)
		return error;
	if (no_such_gid(hdr))
		return EINVAL;
	answer_by_kind(hdr);
	answer_specially(fd, hdr);
	return 0;
}
