/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Commands of the kernel's write interface, as providers pass them to the library. A command consists of a
 * header, which the library fills in, the kernel's request, and the provider's own request. Part of driver.h.
 */
#ifndef KERN_ABI_H
#define KERN_ABI_H

#include <assert.h>
#include <stddef.h>

#include <linux/types.h>

#include <rdma/ib_user_verbs.h>

/*
 * A source tree like rdma-core's generates headers from the kernel's, with a macro _STRUCT_name that contains
 * the members of struct name. If they are available, the members of a request are members of the command too.
 */
#if defined(__has_include)
#if __has_include(<kernel-abi/ib_user_verbs.h>)
#include <kernel-abi/ib_user_verbs.h>
#define __IBV_MEMBERS(kabi) __extension__ _STRUCT_##kabi;
#endif
#endif
#ifndef __IBV_MEMBERS
#define __IBV_MEMBERS(kabi)
#endif

#define __IBV_ASSERT(is, why) __extension__ _Static_assert(is, why)

/* Versions of the kernel's uverbs ABI that the library supports. */
#define IB_USER_VERBS_MIN_ABI_VERSION 3
#define IB_USER_VERBS_MAX_ABI_VERSION 6

/* Headers of an extended command. */
struct ex_hdr {
	struct ib_uverbs_cmd_hdr hdr;
	struct ib_uverbs_ex_cmd_hdr ex_hdr;
};

/* For commands without a response, and for providers without data of their own. */
__extension__ struct empty {
};
#define _STRUCT_empty \
	struct { \
	}

/* From the number of a command: its struct, its request, its response, and the alignment of both. */
#define IBV_ABI_REQ(_enum) _ABI_REQ_STRUCT_##_enum
#define IBV_KABI_REQ(_enum) _KABI_REQ_STRUCT_##_enum
#define IBV_KABI_RESP(_enum) _KABI_RESP_STRUCT_##_enum
#define IBV_ABI_ALIGN(_enum) _ABI_ALIGN_##_enum

#define __IBV_DECLARE_CMD(_enum, _name, _hdr, _kabi, _kabi_resp, _align) \
	__extension__ struct _name { \
		struct _hdr hdr; \
		__extension__ union { \
			__IBV_MEMBERS(_kabi) \
			__extension__ struct _kabi core_payload; \
		}; \
	}; \
	typedef struct _name IBV_ABI_REQ(_enum); \
	typedef struct _kabi IBV_KABI_REQ(_enum); \
	typedef struct _kabi_resp IBV_KABI_RESP(_enum); \
	enum { \
		IBV_ABI_ALIGN(_enum) = _align \
	}; \
	__IBV_ASSERT(sizeof(struct _name) == sizeof(struct _hdr) + sizeof(struct _kabi), #_name); \
	__IBV_ASSERT(sizeof(struct _name) % _align == 0 && sizeof(struct _kabi_resp) % _align == 0, #_name)

/* Declare a command with response _kabi_resp, or with response _kabi##_resp; EX is for extended commands. */
#define DECLARE_CMDX(_enum, _name, _kabi, _kabi_resp) \
	__IBV_DECLARE_CMD(_enum, _name, ib_uverbs_cmd_hdr, _kabi, _kabi_resp, 4)
#define DECLARE_CMD(_enum, _name, _kabi) DECLARE_CMDX(_enum, _name, _kabi, _kabi##_resp)
#define DECLARE_CMD_EXX(_enum, _name, _kabi, _kabi_resp) \
	__IBV_DECLARE_CMD(_enum, _name, ex_hdr, _kabi, _kabi_resp, 8)
#define DECLARE_CMD_EX(_enum, _name, _kabi) DECLARE_CMD_EXX(_enum, _name, _kabi, _kabi##_resp)

/*
 * Declares a command of a provider: struct _name is ibv_cmd followed by the provider's request, struct
 * _name_resp is ibv_resp followed by its response. For each struct of the provider, _STRUCT_name must be
 * defined as "struct { members }" or as nothing.
 */
#define DECLARE_DRV_CMD(_name, _enum, _kabi_req, _kabi_resp) \
	__extension__ struct _name { \
		__extension__ IBV_ABI_REQ(_enum) ibv_cmd; \
		__extension__ union { \
			__extension__ _STRUCT_##_kabi_req; \
			__extension__ struct _kabi_req drv_payload; \
		}; \
	}; \
	__extension__ struct _name##_resp { \
		__extension__ IBV_KABI_RESP(_enum) ibv_resp; \
		__extension__ union { \
			__extension__ _STRUCT_##_kabi_resp; \
			__extension__ struct _kabi_resp drv_payload; \
		}; \
	}; \
	__IBV_ASSERT(sizeof(struct _name) == sizeof(IBV_ABI_REQ(_enum)) + sizeof(struct _kabi_req), \
		     #_name ": a gap before the provider's part"); \
	__IBV_ASSERT(sizeof(struct _name) % IBV_ABI_ALIGN(_enum) == 0, #_name ": its length"); \
	__IBV_ASSERT(sizeof(struct _name##_resp) == \
			     sizeof(IBV_KABI_RESP(_enum)) + sizeof(struct _kabi_resp), \
		     #_name "_resp: a gap before the provider's part"); \
	__IBV_ASSERT(sizeof(struct _name##_resp) % IBV_ABI_ALIGN(_enum) == 0, #_name "_resp: its length");

/* The kernel's commands. */
DECLARE_CMD(IB_USER_VERBS_CMD_GET_CONTEXT, ibv_get_context, ib_uverbs_get_context);
DECLARE_CMD(IB_USER_VERBS_CMD_QUERY_DEVICE, ibv_query_device, ib_uverbs_query_device);
DECLARE_CMD(IB_USER_VERBS_CMD_QUERY_PORT, ibv_query_port, ib_uverbs_query_port);
DECLARE_CMD(IB_USER_VERBS_CMD_ALLOC_PD, ibv_alloc_pd, ib_uverbs_alloc_pd);
DECLARE_CMDX(IB_USER_VERBS_CMD_DEALLOC_PD, ibv_dealloc_pd, ib_uverbs_dealloc_pd, empty);
DECLARE_CMD(IB_USER_VERBS_CMD_OPEN_XRCD, ibv_open_xrcd, ib_uverbs_open_xrcd);
DECLARE_CMDX(IB_USER_VERBS_CMD_CLOSE_XRCD, ibv_close_xrcd, ib_uverbs_close_xrcd, empty);
DECLARE_CMD(IB_USER_VERBS_CMD_REG_MR, ibv_reg_mr, ib_uverbs_reg_mr);
DECLARE_CMD(IB_USER_VERBS_CMD_REREG_MR, ibv_rereg_mr, ib_uverbs_rereg_mr);
DECLARE_CMDX(IB_USER_VERBS_CMD_DEREG_MR, ibv_dereg_mr, ib_uverbs_dereg_mr, empty);
DECLARE_CMD(IB_USER_VERBS_CMD_ALLOC_MW, ibv_alloc_mw, ib_uverbs_alloc_mw);
DECLARE_CMDX(IB_USER_VERBS_CMD_DEALLOC_MW, ibv_dealloc_mw, ib_uverbs_dealloc_mw, empty);
DECLARE_CMD(IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL, ibv_create_comp_channel, ib_uverbs_create_comp_channel);
DECLARE_CMD(IB_USER_VERBS_CMD_CREATE_CQ, ibv_create_cq, ib_uverbs_create_cq);
DECLARE_CMD_EX(IB_USER_VERBS_EX_CMD_CREATE_CQ, ibv_create_cq_ex, ib_uverbs_ex_create_cq);
DECLARE_CMD(IB_USER_VERBS_CMD_RESIZE_CQ, ibv_resize_cq, ib_uverbs_resize_cq);
DECLARE_CMD(IB_USER_VERBS_CMD_POLL_CQ, ibv_poll_cq, ib_uverbs_poll_cq);
DECLARE_CMDX(IB_USER_VERBS_CMD_REQ_NOTIFY_CQ, ibv_req_notify_cq, ib_uverbs_req_notify_cq, empty);
DECLARE_CMD_EXX(IB_USER_VERBS_EX_CMD_MODIFY_CQ, ibv_modify_cq, ib_uverbs_ex_modify_cq, empty);
DECLARE_CMD(IB_USER_VERBS_CMD_DESTROY_CQ, ibv_destroy_cq, ib_uverbs_destroy_cq);
DECLARE_CMD(IB_USER_VERBS_CMD_CREATE_SRQ, ibv_create_srq, ib_uverbs_create_srq);
DECLARE_CMDX(IB_USER_VERBS_CMD_CREATE_XSRQ, ibv_create_xsrq, ib_uverbs_create_xsrq,
	     ib_uverbs_create_srq_resp);
DECLARE_CMDX(IB_USER_VERBS_CMD_MODIFY_SRQ, ibv_modify_srq, ib_uverbs_modify_srq, empty);
DECLARE_CMD(IB_USER_VERBS_CMD_QUERY_SRQ, ibv_query_srq, ib_uverbs_query_srq);
DECLARE_CMD(IB_USER_VERBS_CMD_DESTROY_SRQ, ibv_destroy_srq, ib_uverbs_destroy_srq);
DECLARE_CMD(IB_USER_VERBS_CMD_POST_SRQ_RECV, ibv_post_srq_recv, ib_uverbs_post_srq_recv);
DECLARE_CMD(IB_USER_VERBS_CMD_CREATE_QP, ibv_create_qp, ib_uverbs_create_qp);
DECLARE_CMD_EX(IB_USER_VERBS_EX_CMD_CREATE_QP, ibv_create_qp_ex, ib_uverbs_ex_create_qp);
DECLARE_CMDX(IB_USER_VERBS_CMD_OPEN_QP, ibv_open_qp, ib_uverbs_open_qp, ib_uverbs_create_qp_resp);
DECLARE_CMD(IB_USER_VERBS_CMD_QUERY_QP, ibv_query_qp, ib_uverbs_query_qp);
DECLARE_CMDX(IB_USER_VERBS_CMD_MODIFY_QP, ibv_modify_qp, ib_uverbs_modify_qp, empty);
DECLARE_CMD_EX(IB_USER_VERBS_EX_CMD_MODIFY_QP, ibv_modify_qp_ex, ib_uverbs_ex_modify_qp);
DECLARE_CMD(IB_USER_VERBS_CMD_DESTROY_QP, ibv_destroy_qp, ib_uverbs_destroy_qp);
DECLARE_CMD(IB_USER_VERBS_CMD_POST_SEND, ibv_post_send, ib_uverbs_post_send);
DECLARE_CMD(IB_USER_VERBS_CMD_POST_RECV, ibv_post_recv, ib_uverbs_post_recv);
DECLARE_CMDX(IB_USER_VERBS_CMD_ATTACH_MCAST, ibv_attach_mcast, ib_uverbs_attach_mcast, empty);
DECLARE_CMDX(IB_USER_VERBS_CMD_DETACH_MCAST, ibv_detach_mcast, ib_uverbs_detach_mcast, empty);
DECLARE_CMD(IB_USER_VERBS_CMD_CREATE_AH, ibv_create_ah, ib_uverbs_create_ah);
DECLARE_CMDX(IB_USER_VERBS_CMD_DESTROY_AH, ibv_destroy_ah, ib_uverbs_destroy_ah, empty);
DECLARE_CMD_EX(IB_USER_VERBS_EX_CMD_QUERY_DEVICE, ibv_query_device_ex, ib_uverbs_ex_query_device);
DECLARE_CMD_EX(IB_USER_VERBS_EX_CMD_CREATE_FLOW, ibv_create_flow, ib_uverbs_create_flow);
DECLARE_CMD_EXX(IB_USER_VERBS_EX_CMD_DESTROY_FLOW, ibv_destroy_flow, ib_uverbs_destroy_flow, empty);
DECLARE_CMD_EX(IB_USER_VERBS_EX_CMD_CREATE_WQ, ibv_create_wq, ib_uverbs_ex_create_wq);
DECLARE_CMD_EXX(IB_USER_VERBS_EX_CMD_MODIFY_WQ, ibv_modify_wq, ib_uverbs_ex_modify_wq, empty);
DECLARE_CMD_EX(IB_USER_VERBS_EX_CMD_DESTROY_WQ, ibv_destroy_wq, ib_uverbs_ex_destroy_wq);
DECLARE_CMD_EX(IB_USER_VERBS_EX_CMD_CREATE_RWQ_IND_TBL, ibv_create_rwq_ind_table,
	       ib_uverbs_ex_create_rwq_ind_table);
DECLARE_CMD_EXX(IB_USER_VERBS_EX_CMD_DESTROY_RWQ_IND_TBL, ibv_destroy_rwq_ind_table,
		ib_uverbs_ex_destroy_rwq_ind_table, empty);

/*
 * The part of an extended create QP request that has the layout of a plain one. Only members from user_handle
 * on are valid.
 */
static inline struct ib_uverbs_create_qp *ibv_create_qp_ex_to_reg(struct ibv_create_qp_ex *cmd_ex)
{
	char *at = (char *)&cmd_ex->core_payload.user_handle;

	return (struct ib_uverbs_create_qp *)(at - offsetof(struct ib_uverbs_create_qp, user_handle));
}

/* IPv4 filter from before the kernel had ib_uverbs_flow_spec_ipv4; and any flow specification. */
struct ibv_kern_ipv4_filter {
	__u32 src_ip;
	__u32 dst_ip;
};

struct ibv_kern_spec_ipv4 {
	__u32 type;
	__u16 size;
	__u16 reserved;
	struct ibv_kern_ipv4_filter val;
	struct ibv_kern_ipv4_filter mask;
};

__extension__ struct ibv_kern_spec {
	__extension__ union {
		struct ib_uverbs_flow_spec_hdr hdr;
		struct ib_uverbs_flow_spec_eth eth;
		struct ibv_kern_spec_ipv4 ipv4;
		struct ib_uverbs_flow_spec_ipv4 ipv4_ext;
		struct ib_uverbs_flow_spec_esp esp;
		struct ib_uverbs_flow_spec_tcp_udp tcp_udp;
		struct ib_uverbs_flow_spec_ipv6 ipv6;
		struct ib_uverbs_flow_spec_gre gre;
		struct ib_uverbs_flow_spec_tunnel tunnel;
		struct ib_uverbs_flow_spec_mpls mpls;
		struct ib_uverbs_flow_spec_action_tag flow_tag;
		struct ib_uverbs_flow_spec_action_drop drop;
		struct ib_uverbs_flow_spec_action_handle handle;
		struct ib_uverbs_flow_spec_action_count flow_count;
	};
};

/* Structs that differ in uverbs ABI versions 3 to 5. The library converts them. */
struct ib_uverbs_modify_srq_v3 {
	__u32 srq_handle;
	__u32 attr_mask;
	__u32 max_wr;
	__u32 max_sge;
	__u32 srq_limit;
	__u32 reserved;
};
#define _STRUCT_ib_uverbs_modify_srq_v3 _STRUCT_empty

struct ibv_create_qp_resp_v3 {
	__u32 qp_handle;
	__u32 qpn;
};

struct ibv_create_qp_resp_v4 {
	__u32 qp_handle;
	__u32 qpn;
	__u32 max_send_wr;
	__u32 max_recv_wr;
	__u32 max_send_sge;
	__u32 max_recv_sge;
	__u32 max_inline_data;
};

struct ibv_create_srq_resp_v5 {
	__u32 srq_handle;
};

/* Old versions, which have the command numbers of the current ones. */
enum {
	IB_USER_VERBS_CMD_MODIFY_SRQ_V3 = IB_USER_VERBS_CMD_MODIFY_SRQ
};
enum {
	IB_USER_VERBS_CMD_CREATE_QP_V3 = IB_USER_VERBS_CMD_CREATE_QP
};
enum {
	IB_USER_VERBS_CMD_CREATE_QP_V4 = IB_USER_VERBS_CMD_CREATE_QP
};
enum {
	IB_USER_VERBS_CMD_CREATE_SRQ_V5 = IB_USER_VERBS_CMD_CREATE_SRQ
};

DECLARE_CMDX(IB_USER_VERBS_CMD_MODIFY_SRQ_V3, ibv_modify_srq_v3, ib_uverbs_modify_srq_v3, empty);
DECLARE_CMDX(IB_USER_VERBS_CMD_CREATE_QP_V3, ibv_create_qp_v3, ib_uverbs_create_qp, ibv_create_qp_resp_v3);
DECLARE_CMDX(IB_USER_VERBS_CMD_CREATE_QP_V4, ibv_create_qp_v4, ib_uverbs_create_qp, ibv_create_qp_resp_v4);
DECLARE_CMDX(IB_USER_VERBS_CMD_CREATE_SRQ_V5, ibv_create_srq_v5, ib_uverbs_create_srq,
	     ibv_create_srq_resp_v5);

#endif
