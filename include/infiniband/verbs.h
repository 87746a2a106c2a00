/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * RDMA verbs: the interface of libibverbs, up to symbol version IBVERBS_1.18.
 *
 * Written for libibverbs-rs. Names, values and layouts are those of rdma-core's libibverbs, so that programs
 * compile and run with either library.
 *
 * Unless a comment says otherwise:
 *  - a verb that returns a pointer returns NULL on failure and sets errno;
 *  - a verb that returns an int returns 0 on success and a positive errno value on failure;
 *  - a verb that the device's provider does not implement fails with EOPNOTSUPP;
 *  - lengths and sizes are in bytes; numbers are in host byte order unless their type is a __be one;
 *  - the caller owns what a verb allocates and frees it with the verb that the comment names. An object is
 *    destroyed before the objects it was made from: a queue pair before its completion queues, everything in
 *    a protection domain before the domain;
 *  - all verbs are thread-safe, but no thread may use an object while another destroys it.
 *
 * A struct with a comp_mask has optional members. A bit set in comp_mask says that its member is valid; bits
 * that are not defined here must be 0.
 */
#ifndef INFINIBAND_VERBS_H
#define INFINIBAND_VERBS_H

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#ifdef __cplusplus
#include <limits> /* not needed here; kept for programs that rely on it */
#endif

#include <linux/if_ether.h>
#include <linux/types.h>

#include <infiniband/verbs_api.h>

/*
 * A header that is included before this one may define these, to add members of older interfaces. All other
 * members stay where they are.
 */
#ifndef __IBV_MORE_MEMBERS
#define __IBV_MORE_IN_ASYNC_EVENT
#define __IBV_MORE_IN_SRQ
#define __IBV_MORE_IN_QP_INIT_ATTR
#define __IBV_BESIDE_QP_TYPE(...) __VA_ARGS__
#endif

#ifdef __cplusplus
extern "C" {
#endif

struct ibv_ah;
struct ibv_buf;
struct ibv_comp_channel;
struct ibv_context;
struct ibv_counters;
struct ibv_cq;
struct ibv_device;
struct ibv_flow_action;
struct ibv_mw;
struct ibv_pd;
struct ibv_qp;
struct ibv_srq;
struct ibv_wq;
struct verbs_context;
struct verbs_ex_private;

/*
 * Addresses: GIDs
 */

/* A port's 128-bit address in network byte order. It has the form of an IPv6 address. */
union ibv_gid {
	uint8_t raw[16];
	struct {
		__be64 subnet_prefix;
		__be64 interface_id;
	} global;
};

/*
 * How packets that use a GID are encapsulated: InfiniBand, RoCE v1 (Ethertype 0x8915), RoCE v2 (UDP port
 * 4791).
 */
enum ibv_gid_type {
	IBV_GID_TYPE_IB,
	IBV_GID_TYPE_ROCE_V1,
	IBV_GID_TYPE_ROCE_V2
};

/* An entry of a port's GID table. */
struct ibv_gid_entry {
	union ibv_gid gid;
	uint32_t gid_index;
	uint32_t port_num;
	uint32_t gid_type;     /* enum ibv_gid_type */
	uint32_t ndev_ifindex; /* the network interface that has the address; 0: none */
};

/*
 * Devices
 */

/* Kind of a node, from which the transport follows. */
enum ibv_node_type {
	IBV_NODE_UNKNOWN = -1,
	IBV_NODE_CA = 1, /* a channel adapter: InfiniBand or RoCE */
	IBV_NODE_SWITCH = 2,
	IBV_NODE_ROUTER = 3,
	IBV_NODE_RNIC = 4, /* iWARP */
	IBV_NODE_USNIC = 5,
	IBV_NODE_USNIC_UDP = 6,
	IBV_NODE_UNSPECIFIED = 7
};

/* Transport of a device. RoCE devices report IBV_TRANSPORT_IB; the link layer of their ports is Ethernet. */
enum ibv_transport_type {
	IBV_TRANSPORT_UNKNOWN = -1,
	IBV_TRANSPORT_IB = 0,
	IBV_TRANSPORT_IWARP = 1,
	IBV_TRANSPORT_USNIC = 2,
	IBV_TRANSPORT_USNIC_UDP = 3,
	IBV_TRANSPORT_UNSPECIFIED = 4
};

/* Sizes of the names in struct ibv_device, including the terminating zero byte. */
enum {
	IBV_SYSFS_NAME_MAX = 64,
	IBV_SYSFS_PATH_MAX = 256
};

/* Unused. They preserve the layout of struct ibv_device. */
struct _ibv_device_ops {
	struct ibv_context *(*_dummy1)(struct ibv_device *device, int cmd_fd);
	void (*_dummy2)(struct ibv_context *context);
};

/*
 * A device, owned by the library. It is valid as long as it is in a device list that has not been freed or
 * has an open context. Programs may read every member but must not write any.
 */
struct ibv_device {
	struct _ibv_device_ops _ops;
	enum ibv_node_type node_type;
	enum ibv_transport_type transport_type;
	char name[IBV_SYSFS_NAME_MAX];       /* kernel's name of the device, such as "rxe0" */
	char dev_name[IBV_SYSFS_NAME_MAX];   /* name of its character device, such as "uverbs0" */
	char dev_path[IBV_SYSFS_PATH_MAX];   /* its directory in sysfs, in class infiniband_verbs */
	char ibdev_path[IBV_SYSFS_PATH_MAX]; /* its directory in sysfs, in class infiniband */
};

/* Capabilities of a device: bits of device_cap_flags and device_cap_flags_ex. */
enum ibv_device_cap_flags {
	IBV_DEVICE_RESIZE_MAX_WR = 1 << 0,
	IBV_DEVICE_BAD_PKEY_CNTR = 1 << 1,
	IBV_DEVICE_BAD_QKEY_CNTR = 1 << 2,
	IBV_DEVICE_RAW_MULTI = 1 << 3,
	IBV_DEVICE_AUTO_PATH_MIG = 1 << 4,
	IBV_DEVICE_CHANGE_PHY_PORT = 1 << 5,
	IBV_DEVICE_UD_AV_PORT_ENFORCE = 1 << 6,
	IBV_DEVICE_CURR_QP_STATE_MOD = 1 << 7,
	IBV_DEVICE_SHUTDOWN_PORT = 1 << 8,
	IBV_DEVICE_INIT_TYPE = 1 << 9,
	IBV_DEVICE_PORT_ACTIVE_EVENT = 1 << 10,
	IBV_DEVICE_SYS_IMAGE_GUID = 1 << 11,
	IBV_DEVICE_RC_RNR_NAK_GEN = 1 << 12,
	IBV_DEVICE_SRQ_RESIZE = 1 << 13,
	IBV_DEVICE_N_NOTIFY_CQ = 1 << 14,
	IBV_DEVICE_MEM_WINDOW = 1 << 17,
	IBV_DEVICE_UD_IP_CSUM = 1 << 18,
	IBV_DEVICE_XRC = 1 << 20,
	IBV_DEVICE_MEM_MGT_EXTENSIONS = 1 << 21,
	IBV_DEVICE_MEM_WINDOW_TYPE_2A = 1 << 23,
	IBV_DEVICE_MEM_WINDOW_TYPE_2B = 1 << 24,
	IBV_DEVICE_RC_IP_CSUM = 1 << 25,
	IBV_DEVICE_RAW_IP_CSUM = 1 << 26,
	IBV_DEVICE_MANAGED_FLOW_STEERING = 1 << 29
};

/* Capabilities above bit 31, in device_cap_flags_ex only. */
#define IBV_DEVICE_RAW_SCATTER_FCS (1ULL << 34)
#define IBV_DEVICE_PCI_WRITE_END_PADDING (1ULL << 36)
#define IBV_DEVICE_CC_DMA_BOUNCE (1ULL << 41) /* in a confidential guest, DMA goes through bounce buffers */

/*
 * With respect to what a device's atomic operations are atomic: not supported, other operations of the same
 * device, or CPU accesses as well.
 */
enum ibv_atomic_cap {
	IBV_ATOMIC_NONE,
	IBV_ATOMIC_HCA,
	IBV_ATOMIC_GLOB
};

/* Identity and limits of a device (ibv_query_device). */
struct ibv_device_attr {
	char fw_ver[64]; /* firmware version, zero-terminated text */
	__be64 node_guid;
	__be64 sys_image_guid;
	uint64_t max_mr_size;
	uint64_t page_size_cap; /* bit n set: pages of 2^n bytes are supported */
	uint32_t vendor_id;
	uint32_t vendor_part_id;
	uint32_t hw_ver;
	int max_qp;
	int max_qp_wr;
	unsigned int device_cap_flags; /* enum ibv_device_cap_flags */
	int max_sge;                   /* per send or receive WR */
	int max_sge_rd;                /* per RDMA read WR */
	int max_cq;
	int max_cqe;
	int max_mr;
	int max_pd;
	int max_qp_rd_atom; /* RDMA reads and atomics outstanding as responder, per QP */
	int max_ee_rd_atom;
	int max_res_rd_atom;     /* RDMA reads and atomics outstanding as responder, per device */
	int max_qp_init_rd_atom; /* RDMA reads and atomics outstanding as requester, per QP */
	int max_ee_init_rd_atom;
	enum ibv_atomic_cap atomic_cap;
	int max_ee;
	int max_rdd;
	int max_mw;
	int max_raw_ipv6_qp;
	int max_raw_ethy_qp;
	int max_mcast_grp;
	int max_mcast_qp_attach;       /* QPs attached to one multicast group */
	int max_total_mcast_qp_attach; /* QPs attached to all multicast groups */
	int max_ah;
	int max_fmr;
	int max_map_per_fmr;
	int max_srq;
	int max_srq_wr;
	int max_srq_sge;
	uint16_t max_pkeys;
	uint8_t local_ca_ack_delay; /* a code n: 4.096 us * 2^n */
	uint8_t phys_port_cnt;      /* at most 255; see phys_port_cnt_ex */
};

/* On-demand paging (ODP): any support, and registration of the whole address space. */
enum ibv_odp_general_caps {
	IBV_ODP_SUPPORT = 1 << 0,
	IBV_ODP_SUPPORT_IMPLICIT = 1 << 1
};

/* Operations that may access pages that are not present. */
enum ibv_odp_transport_cap_bits {
	IBV_ODP_SUPPORT_SEND = 1 << 0,
	IBV_ODP_SUPPORT_RECV = 1 << 1,
	IBV_ODP_SUPPORT_WRITE = 1 << 2,
	IBV_ODP_SUPPORT_READ = 1 << 3,
	IBV_ODP_SUPPORT_ATOMIC = 1 << 4,
	IBV_ODP_SUPPORT_SRQ_RECV = 1 << 5,
	IBV_ODP_SUPPORT_FLUSH = 1 << 6,
	IBV_ODP_SUPPORT_ATOMIC_WRITE = 1 << 7
};

/* On-demand paging: enum ibv_odp_general_caps, and per transport enum ibv_odp_transport_cap_bits. */
struct ibv_odp_caps {
	uint64_t general_caps;
	struct {
		uint32_t rc_odp_caps;
		uint32_t uc_odp_caps;
		uint32_t ud_odp_caps;
	} per_transport_caps;
};

/* TCP segmentation offload: limits of IBV_WR_TSO. */
struct ibv_tso_caps {
	uint32_t max_tso;        /* longest payload; 0: not supported */
	uint32_t supported_qpts; /* bit n set: QP type n is supported; see ibv_is_qpt_supported */
};

/* Hash functions for receive side scaling. */
enum ibv_rx_hash_function_flags {
	IBV_RX_HASH_FUNC_TOEPLITZ = 1 << 0
};

/*
 * Header fields that the hash covers: of the outer headers or, with IBV_RX_HASH_INNER, of the tunnelled
 * packet.
 */
__extension__ enum ibv_rx_hash_fields {
	IBV_RX_HASH_SRC_IPV4 = 1 << 0,
	IBV_RX_HASH_DST_IPV4 = 1 << 1,
	IBV_RX_HASH_SRC_IPV6 = 1 << 2,
	IBV_RX_HASH_DST_IPV6 = 1 << 3,
	IBV_RX_HASH_SRC_PORT_TCP = 1 << 4,
	IBV_RX_HASH_DST_PORT_TCP = 1 << 5,
	IBV_RX_HASH_SRC_PORT_UDP = 1 << 6,
	IBV_RX_HASH_DST_PORT_UDP = 1 << 7,
	IBV_RX_HASH_IPSEC_SPI = 1 << 8,
	IBV_RX_HASH_INNER = 1UL << 31
};

/* Receive side scaling (RSS): distribution of received packets over work queues. */
struct ibv_rss_caps {
	uint32_t supported_qpts; /* bit n set: QP type n is supported */
	uint32_t max_rwq_indirection_tables;
	uint32_t max_rwq_indirection_table_size; /* entries */
	uint64_t rx_hash_fields_mask;            /* enum ibv_rx_hash_fields */
	uint8_t rx_hash_function;                /* enum ibv_rx_hash_function_flags */
};

/* Range of a QP's send rate, in kbit/s. Both are 0 if packet pacing is not supported. */
struct ibv_packet_pacing_caps {
	uint32_t qp_rate_limit_min;
	uint32_t qp_rate_limit_max;
	uint32_t supported_qpts; /* bit n set: QP type n is supported */
};

/* Capabilities of raw packet QPs and work queues. */
enum ibv_raw_packet_caps {
	IBV_RAW_PACKET_CAP_CVLAN_STRIPPING = 1 << 0,
	IBV_RAW_PACKET_CAP_SCATTER_FCS = 1 << 1,
	IBV_RAW_PACKET_CAP_IP_CSUM = 1 << 2,
	IBV_RAW_PACKET_CAP_DELAY_DROP = 1 << 3
};

/* Transports that support tag matching. */
enum ibv_tm_cap_flags {
	IBV_TM_CAP_RC = 1 << 0
};

/* Limits of tag matching by the device. */
struct ibv_tm_caps {
	uint32_t max_rndv_hdr_size;
	uint32_t max_num_tags;
	uint32_t flags; /* enum ibv_tm_cap_flags */
	uint32_t max_ops;
	uint32_t max_sge; /* per tagged buffer */
};

/* Limits of completion moderation: number of completions, and period in microseconds. */
struct ibv_cq_moderation_caps {
	uint16_t max_cq_count;
	uint16_t max_cq_period;
};

/* Operand sizes of PCI atomic operations. */
enum ibv_pci_atomic_op_size {
	IBV_PCI_ATOMIC_OPERATION_4_BYTE_SIZE_SUP = 1 << 0,
	IBV_PCI_ATOMIC_OPERATION_8_BYTE_SIZE_SUP = 1 << 1,
	IBV_PCI_ATOMIC_OPERATION_16_BYTE_SIZE_SUP = 1 << 2
};

/* PCI atomic operations that the device supports, each a mask of enum ibv_pci_atomic_op_size. */
struct ibv_pci_atomic_caps {
	uint16_t fetch_add;
	uint16_t swap;
	uint16_t compare_swap;
};

/* Input of ibv_query_device_ex; nothing can be requested yet. */
struct ibv_query_device_ex_input {
	uint32_t comp_mask; /* must be 0 */
};

/*
 * Identity, limits and capabilities of a device (ibv_query_device_ex). Members of features that the device
 * lacks are 0.
 */
struct ibv_device_attr_ex {
	struct ibv_device_attr orig_attr;
	uint32_t comp_mask;
	struct ibv_odp_caps odp_caps;
	uint64_t completion_timestamp_mask; /* valid bits of a completion timestamp */
	uint64_t hca_core_clock;            /* frequency of completion timestamps, in kHz */
	uint64_t device_cap_flags_ex;
	struct ibv_tso_caps tso_caps;
	struct ibv_rss_caps rss_caps;
	uint32_t max_wq_type_rq;
	struct ibv_packet_pacing_caps packet_pacing_caps;
	uint32_t raw_packet_caps; /* enum ibv_raw_packet_caps */
	struct ibv_tm_caps tm_caps;
	struct ibv_cq_moderation_caps cq_mod_caps;
	uint64_t max_dm_size; /* device memory available to ibv_alloc_dm */
	struct ibv_pci_atomic_caps pci_atomic_caps;
	uint32_t xrc_odp_caps;     /* enum ibv_odp_transport_cap_bits */
	uint32_t phys_port_cnt_ex; /* number of ports, also above 255 */
};

/*
 * Ports
 */

/* Largest payload of a packet: 128 << code bytes. */
enum ibv_mtu {
	IBV_MTU_256 = 1,
	IBV_MTU_512 = 2,
	IBV_MTU_1024 = 3,
	IBV_MTU_2048 = 4,
	IBV_MTU_4096 = 5
};

/* Logical state of a port. */
enum ibv_port_state {
	IBV_PORT_NOP = 0,
	IBV_PORT_DOWN = 1,
	IBV_PORT_INIT = 2,
	IBV_PORT_ARMED = 3,
	IBV_PORT_ACTIVE = 4,
	IBV_PORT_ACTIVE_DEFER = 5
};

/* link_layer of struct ibv_port_attr. */
enum {
	IBV_LINK_LAYER_UNSPECIFIED,
	IBV_LINK_LAYER_INFINIBAND,
	IBV_LINK_LAYER_ETHERNET
};

/* port_cap_flags of struct ibv_port_attr: CapabilityMask of the PortInfo attribute. */
enum ibv_port_cap_flags {
	IBV_PORT_SM = 1 << 1,
	IBV_PORT_NOTICE_SUP = 1 << 2,
	IBV_PORT_TRAP_SUP = 1 << 3,
	IBV_PORT_OPT_IPD_SUP = 1 << 4,
	IBV_PORT_AUTO_MIGR_SUP = 1 << 5,
	IBV_PORT_SL_MAP_SUP = 1 << 6,
	IBV_PORT_MKEY_NVRAM = 1 << 7,
	IBV_PORT_PKEY_NVRAM = 1 << 8,
	IBV_PORT_LED_INFO_SUP = 1 << 9,
	IBV_PORT_SYS_IMAGE_GUID_SUP = 1 << 11,
	IBV_PORT_PKEY_SW_EXT_PORT_TRAP_SUP = 1 << 12,
	IBV_PORT_EXTENDED_SPEEDS_SUP = 1 << 14,
	IBV_PORT_CAP_MASK2_SUP = 1 << 15,
	IBV_PORT_CM_SUP = 1 << 16,
	IBV_PORT_SNMP_TUNNEL_SUP = 1 << 17,
	IBV_PORT_REINIT_SUP = 1 << 18,
	IBV_PORT_DEVICE_MGMT_SUP = 1 << 19,
	IBV_PORT_VENDOR_CLASS_SUP = 1 << 20,
	IBV_PORT_DR_NOTICE_SUP = 1 << 21,
	IBV_PORT_CAP_MASK_NOTICE_SUP = 1 << 22,
	IBV_PORT_BOOT_MGMT_SUP = 1 << 23,
	IBV_PORT_LINK_LATENCY_SUP = 1 << 24,
	IBV_PORT_CLIENT_REG_SUP = 1 << 25,
	IBV_PORT_IP_BASED_GIDS = 1 << 26
};

/* port_cap_flags2 of struct ibv_port_attr: CapabilityMask2 of the PortInfo attribute. */
enum ibv_port_cap_flags2 {
	IBV_PORT_SET_NODE_DESC_SUP = 1 << 0,
	IBV_PORT_INFO_EXT_SUP = 1 << 1,
	IBV_PORT_VIRT_SUP = 1 << 2,
	IBV_PORT_SWITCH_PORT_STATE_TABLE_SUP = 1 << 3,
	IBV_PORT_LINK_WIDTH_2X_SUP = 1 << 4,
	IBV_PORT_LINK_SPEED_HDR_SUP = 1 << 5,
	IBV_PORT_LINK_SPEED_NDR_SUP = 1 << 10,
	IBV_PORT_LINK_SPEED_XDR_SUP = 1 << 12
};

/* State and limits of a port (ibv_query_port). */
struct ibv_port_attr {
	enum ibv_port_state state;
	enum ibv_mtu max_mtu;
	enum ibv_mtu active_mtu;
	int gid_tbl_len;         /* number of entries, including empty ones */
	uint32_t port_cap_flags; /* enum ibv_port_cap_flags */
	uint32_t max_msg_sz;
	uint32_t bad_pkey_cntr;
	uint32_t qkey_viol_cntr;
	uint16_t pkey_tbl_len; /* number of entries */
	uint16_t lid;          /* 0 on Ethernet */
	uint16_t sm_lid;
	uint8_t lmc;
	uint8_t max_vl_num; /* a code, VLCap of PortInfo */
	uint8_t sm_sl;
	uint8_t subnet_timeout; /* a code n: 4.096 us * 2^n */
	uint8_t init_type_reply;
	uint8_t active_width; /* a code: 1, 2, 4, 8, 16 stand for 1, 4, 8, 12, 2 lanes */
	uint8_t active_speed; /* per lane, a code: 1: 2.5 Gbit/s, 2: 5, 4 and 8: 10, 16: 14, 32: 25, 64: 50,
				 128: 100 */
	uint8_t phys_state;   /* a code: 5 is LinkUp */
	uint8_t link_layer;
	uint8_t flags;            /* IBV_QPF_GRH_REQUIRED */
	uint16_t port_cap_flags2; /* enum ibv_port_cap_flags2 */
	uint32_t active_speed_ex; /* active_speed with more bits; 0: active_speed is valid */
};

/*
 * Asynchronous events
 */

/* Asynchronous events of a CQ, QP, port, SRQ, work queue or the device; the name says which. */
enum ibv_event_type {
	IBV_EVENT_CQ_ERR,
	IBV_EVENT_QP_FATAL,
	IBV_EVENT_QP_REQ_ERR,
	IBV_EVENT_QP_ACCESS_ERR,
	IBV_EVENT_COMM_EST,
	IBV_EVENT_SQ_DRAINED,
	IBV_EVENT_PATH_MIG,
	IBV_EVENT_PATH_MIG_ERR,
	IBV_EVENT_DEVICE_FATAL,
	IBV_EVENT_PORT_ACTIVE,
	IBV_EVENT_PORT_ERR,
	IBV_EVENT_LID_CHANGE,
	IBV_EVENT_PKEY_CHANGE,
	IBV_EVENT_SM_CHANGE,
	IBV_EVENT_SRQ_ERR,
	IBV_EVENT_SRQ_LIMIT_REACHED,
	IBV_EVENT_QP_LAST_WQE_REACHED,
	IBV_EVENT_CLIENT_REREGISTER,
	IBV_EVENT_GID_CHANGE,
	IBV_EVENT_WQ_FATAL,
	IBV_EVENT_DEVICE_SPEED_CHANGE /* the speed of a port has changed */
};

/*
 * An asynchronous event. Its type says which member of element is valid. The program must acknowledge each
 * event with ibv_ack_async_event.
 */
struct ibv_async_event {
	union {
		struct ibv_cq *cq;
		struct ibv_qp *qp;
		struct ibv_srq *srq;
		struct ibv_wq *wq;
		int port_num;
		__IBV_MORE_IN_ASYNC_EVENT
	} element;
	enum ibv_event_type event_type;
};

/*
 * Work completions
 */

/* Status of a completed work request. */
enum ibv_wc_status {
	IBV_WC_SUCCESS,
	IBV_WC_LOC_LEN_ERR,
	IBV_WC_LOC_QP_OP_ERR,
	IBV_WC_LOC_EEC_OP_ERR,
	IBV_WC_LOC_PROT_ERR,
	IBV_WC_WR_FLUSH_ERR, /* flushed: the QP was in the error state */
	IBV_WC_MW_BIND_ERR,
	IBV_WC_BAD_RESP_ERR,
	IBV_WC_LOC_ACCESS_ERR,
	IBV_WC_REM_INV_REQ_ERR,
	IBV_WC_REM_ACCESS_ERR,
	IBV_WC_REM_OP_ERR,
	IBV_WC_RETRY_EXC_ERR,     /* retry_cnt exceeded: no acknowledgement arrived */
	IBV_WC_RNR_RETRY_EXC_ERR, /* rnr_retry exceeded: the receiver has posted no receive */
	IBV_WC_LOC_RDD_VIOL_ERR,
	IBV_WC_REM_INV_RD_REQ_ERR,
	IBV_WC_REM_ABORT_ERR,
	IBV_WC_INV_EECN_ERR,
	IBV_WC_INV_EEC_STATE_ERR,
	IBV_WC_FATAL_ERR,
	IBV_WC_RESP_TIMEOUT_ERR,
	IBV_WC_GENERAL_ERR,
	IBV_WC_TM_ERR,
	IBV_WC_TM_RNDV_INCOMPLETE
};

/* Operation that completed. Bit 7 is set for receives. */
enum ibv_wc_opcode {
	IBV_WC_SEND = 0,
	IBV_WC_RDMA_WRITE = 1,
	IBV_WC_RDMA_READ = 2,
	IBV_WC_COMP_SWAP = 3,
	IBV_WC_FETCH_ADD = 4,
	IBV_WC_BIND_MW = 5,
	IBV_WC_LOCAL_INV = 6,
	IBV_WC_TSO = 7,
	IBV_WC_FLUSH = 8,
	IBV_WC_ATOMIC_WRITE = 9,
	IBV_WC_RECV = 128,
	IBV_WC_RECV_RDMA_WITH_IMM = 129,
	IBV_WC_TM_ADD = 130,
	IBV_WC_TM_DEL = 131,
	IBV_WC_TM_SYNC = 132,
	IBV_WC_TM_RECV = 133,
	IBV_WC_TM_NO_TAG = 134,
	IBV_WC_DRIVER1 = 135, /* defined by the provider, as are the next two */
	IBV_WC_DRIVER2 = 136,
	IBV_WC_DRIVER3 = 137
};

/* Bit number of IBV_WC_IP_CSUM_OK. */
enum {
	IBV_WC_IP_CSUM_OK_SHIFT = 2
};

/* wc_flags of a completion. */
enum ibv_wc_flags {
	IBV_WC_GRH = 1 << 0,      /* the buffer starts with a struct ibv_grh (40 bytes) */
	IBV_WC_WITH_IMM = 1 << 1, /* imm_data is valid */
	IBV_WC_IP_CSUM_OK = 1 << IBV_WC_IP_CSUM_OK_SHIFT,
	IBV_WC_WITH_INV = 1 << 3, /* invalidated_rkey is valid */
	IBV_WC_TM_SYNC_REQ = 1 << 4,
	IBV_WC_TM_MATCH = 1 << 5,
	IBV_WC_TM_DATA_VALID = 1 << 6
};

/* A completion. If status is not IBV_WC_SUCCESS, only wr_id, status, qp_num and vendor_err are valid. */
struct ibv_wc {
	uint64_t wr_id; /* that of the work request */
	enum ibv_wc_status status;
	enum ibv_wc_opcode opcode;
	uint32_t vendor_err;
	uint32_t byte_len; /* bytes received, or read by RDMA read or atomic; for UD including the 40 bytes of
			      the GRH */
	__extension__ union {
		__be32 imm_data;
		uint32_t invalidated_rkey;
	};
	uint32_t qp_num;
	uint32_t src_qp;       /* UD only: QP number of the sender */
	unsigned int wc_flags; /* enum ibv_wc_flags */
	uint16_t pkey_index;
	uint16_t slid;
	uint8_t sl;
	uint8_t dlid_path_bits;
};

/* wc_flags of struct ibv_cq_init_attr_ex: completion fields that the program will read. */
enum ibv_create_cq_wc_flags {
	IBV_WC_EX_WITH_BYTE_LEN = 1 << 0,
	IBV_WC_EX_WITH_IMM = 1 << 1,
	IBV_WC_EX_WITH_QP_NUM = 1 << 2,
	IBV_WC_EX_WITH_SRC_QP = 1 << 3,
	IBV_WC_EX_WITH_SLID = 1 << 4,
	IBV_WC_EX_WITH_SL = 1 << 5,
	IBV_WC_EX_WITH_DLID_PATH_BITS = 1 << 6,
	IBV_WC_EX_WITH_COMPLETION_TIMESTAMP = 1 << 7,
	IBV_WC_EX_WITH_CVLAN = 1 << 8,
	IBV_WC_EX_WITH_FLOW_TAG = 1 << 9,
	IBV_WC_EX_WITH_TM_INFO = 1 << 10,
	IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK = 1 << 11
};

/* The fields that struct ibv_wc has too, and all the flags that this library knows. */
enum {
	IBV_WC_STANDARD_FLAGS = 0x7f
};
enum {
	IBV_CREATE_CQ_SUP_WC_FLAGS = 0xfff
};

/* Tag and private data of a tag-matched message. */
struct ibv_wc_tm_info {
	uint64_t tag;
	uint32_t priv;
};

/*
 * Protection domains, thread domains, XRC domains
 */

/* A protection domain. Objects can be used together only within the same domain. */
struct ibv_pd {
	struct ibv_context *context;
	uint32_t handle;
};

/* A thread domain: the program promises that no two threads use its objects at the same time. */
struct ibv_td {
	struct ibv_context *context;
};

/* Attributes for ibv_alloc_td; none are defined yet. */
struct ibv_td_init_attr {
	uint32_t comp_mask; /* must be 0 */
};

/* comp_mask of struct ibv_parent_domain_init_attr: which members are valid. */
enum ibv_parent_domain_init_attr_mask {
	IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS = 1 << 0, /* alloc and free */
	IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT = 1 << 1,
	/*
	 * has no member: in a confidential guest, alloc may return memory that the device cannot access
	 * directly
	 */
	IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC = 1 << 2
};

/* Returned by an allocator to have the provider allocate the memory itself. */
#define IBV_ALLOCATOR_USE_DEFAULT ((void *)-1)

/*
 * Attributes for ibv_alloc_parent_domain: a protection domain, to which a thread domain and an allocator for
 * the provider's own buffers may be added.
 */
struct ibv_parent_domain_init_attr {
	struct ibv_pd *pd;  /* required */
	struct ibv_td *td;  /* NULL: none */
	uint32_t comp_mask; /* enum ibv_parent_domain_init_attr_mask */
	/* alloc returns NULL on failure. The provider defines the values of resource_type. */
	void *(*alloc)(struct ibv_pd *pd, void *pd_context, size_t size, size_t alignment,
		       uint64_t resource_type);
	void (*free)(struct ibv_pd *pd, void *pd_context, void *ptr, uint64_t resource_type);
	void *pd_context;
};

/*
 * comp_mask of struct ibv_xrcd_init_attr. IBV_XRCD_INIT_ATTR_FD and IBV_XRCD_INIT_ATTR_OFLAGS are required.
 */
enum ibv_xrcd_init_attr_mask {
	IBV_XRCD_INIT_ATTR_FD = 1 << 0,
	IBV_XRCD_INIT_ATTR_OFLAGS = 1 << 1,
	IBV_XRCD_INIT_ATTR_RESERVED = 1 << 2
};

/* Attributes for ibv_open_xrcd. Processes that open the same file share its XRC domain. */
struct ibv_xrcd_init_attr {
	uint32_t comp_mask;
	int fd;     /* file that identifies the domain; -1: private domain */
	int oflags; /* O_CREAT, O_EXCL or 0 */
};

/* An XRC (extended reliable connected) domain. */
struct ibv_xrcd {
	struct ibv_context *context;
};

/*
 * Memory
 */

/*
 * Access rights to registered memory. The flags in IBV_ACCESS_OPTIONAL_RANGE are hints, ignored where the
 * kernel or the device does not support them.
 */
enum ibv_access_flags {
	IBV_ACCESS_LOCAL_WRITE = 1 << 0, /* for receives, and data of RDMA reads and atomics; required for
					    remote write and remote atomic */
	IBV_ACCESS_REMOTE_WRITE = 1 << 1,
	IBV_ACCESS_REMOTE_READ = 1 << 2,
	IBV_ACCESS_REMOTE_ATOMIC = 1 << 3,
	IBV_ACCESS_MW_BIND = 1 << 4,
	IBV_ACCESS_ZERO_BASED = 1 << 5, /* addresses in the region start at 0 */
	IBV_ACCESS_ON_DEMAND = 1 << 6,  /* on-demand paging: pages are not pinned */
	IBV_ACCESS_HUGETLB = 1 << 7,    /* with ON_DEMAND: the memory consists of huge pages */
	IBV_ACCESS_FLUSH_GLOBAL = 1 << 8,
	IBV_ACCESS_FLUSH_PERSISTENT = 1 << 9,
	IBV_ACCESS_RELAXED_ORDERING = IBV_ACCESS_OPTIONAL_FIRST
};

/* A memory region. */
struct ibv_mr {
	struct ibv_context *context;
	struct ibv_pd *pd;
	void *addr;
	size_t length;
	uint32_t handle;
	uint32_t lkey; /* key for struct ibv_sge */
	uint32_t rkey; /* key for remote access */
};

/* A DMA handle: hints for the device's DMA accesses. */
struct ibv_dmah {
	struct ibv_context *context;
};

/* Memory type of a TLP processing hint: volatile or persistent. */
enum ibv_tph_mem_type {
	IBV_TPH_MEM_TYPE_VM,
	IBV_TPH_MEM_TYPE_PM
};

/* comp_mask of struct ibv_dmah_init_attr: which members are valid. */
enum ibv_dmah_init_attr_mask {
	IBV_DMAH_INIT_ATTR_MASK_CPU_ID = 1 << 0,
	IBV_DMAH_INIT_ATTR_MASK_PH = 1 << 1,
	IBV_DMAH_INIT_ATTR_MASK_TPH_MEM_TYPE = 1 << 2
};

/* Attributes for ibv_alloc_dmah: PCIe TLP processing hints, and the CPU that will use the data. */
struct ibv_dmah_init_attr {
	uint32_t comp_mask; /* enum ibv_dmah_init_attr_mask */
	uint32_t cpu_id;
	uint8_t ph;
	uint8_t tph_mem_type; /* enum ibv_tph_mem_type */
};

/* comp_mask of struct ibv_mr_init_attr: which members are valid. */
enum ibv_mr_init_attr_mask {
	IBV_REG_MR_MASK_IOVA = 1 << 0,
	IBV_REG_MR_MASK_ADDR = 1 << 1,
	IBV_REG_MR_MASK_FD = 1 << 2,
	IBV_REG_MR_MASK_FD_OFFSET = 1 << 3,
	IBV_REG_MR_MASK_DMAH = 1 << 4,
	IBV_REG_MR_MASK_BUF = 1 << 5
};

/*
 * Attributes for ibv_reg_mr_ex: memory at addr, a part of a dma-buf, or a part of a buffer of ibv_alloc_buf.
 */
struct ibv_mr_init_attr {
	size_t length;
	int access;         /* enum ibv_access_flags */
	uint64_t comp_mask; /* enum ibv_mr_init_attr_mask */
	uint64_t iova;      /* start address for lkey and rkey accesses */
	void *addr;
	int fd; /* the dma-buf */
	uint64_t fd_offset;
	struct ibv_dmah *dmah;
	struct ibv_buf *buf;
};

/* Flags of ibv_rereg_mr: the parts that it changes. */
enum ibv_rereg_mr_flags {
	IBV_REREG_MR_CHANGE_TRANSLATION = 1 << 0, /* addr and length */
	IBV_REREG_MR_CHANGE_PD = 1 << 1,
	IBV_REREG_MR_CHANGE_ACCESS = 1 << 2,
	IBV_REREG_MR_FLAGS_SUPPORTED = (1 << 3) - 1
};

/*
 * Return values of ibv_rereg_mr on failure. After the first two, the region is unchanged. After
 * IBV_REREG_MR_ERR_DO_FORK_OLD the change has taken effect, but the old memory stays hidden from child
 * processes. After the others the region can only be deregistered.
 */
enum ibv_rereg_mr_err_code {
	IBV_REREG_MR_ERR_INPUT = -1,
	IBV_REREG_MR_ERR_DONT_FORK_NEW = -2,
	IBV_REREG_MR_ERR_DO_FORK_OLD = -3,
	IBV_REREG_MR_ERR_CMD = -4,
	IBV_REREG_MR_ERR_CMD_AND_DO_FORK_NEW = -5
};

/* On-chip memory of the device. */
struct ibv_dm {
	struct ibv_context *context;
	int (*memcpy_to_dm)(struct ibv_dm *dm, uint64_t dm_offset, const void *host_addr, size_t length);
	int (*memcpy_from_dm)(void *host_addr, struct ibv_dm *dm, uint64_t dm_offset, size_t length);
	uint32_t comp_mask; /* enum ibv_dm_mask */
	uint32_t handle;    /* pass it to ibv_import_dm */
};

/* comp_mask of struct ibv_dm: which members are valid. */
enum ibv_dm_mask {
	IBV_DM_MASK_HANDLE = 1 << 0
};

/* Attributes for ibv_alloc_dm. */
struct ibv_alloc_dm_attr {
	size_t length;
	uint32_t log_align_req; /* aligned to 2^n bytes */
	uint32_t comp_mask;     /* must be 0 */
};

/* Memory windows: type 1 is bound by ibv_bind_mw, type 2 by a work request. */
enum ibv_mw_type {
	IBV_MW_TYPE_1 = 1,
	IBV_MW_TYPE_2 = 2
};

/* A memory window: a part of a memory region, with its own rkey and access rights. */
struct ibv_mw {
	struct ibv_context *context;
	struct ibv_pd *pd;
	uint32_t rkey;
	uint32_t handle;
	enum ibv_mw_type type;
};

/* The range that a memory window is bound to. Length 0 invalidates the window. */
struct ibv_mw_bind_info {
	struct ibv_mr *mr;
	uint64_t addr;
	uint64_t length;
	unsigned int mw_access_flags; /* enum ibv_access_flags */
};

/* Attributes for ibv_bind_mw, which binds type 1 windows. */
struct ibv_mw_bind {
	uint64_t wr_id;
	unsigned int send_flags; /* enum ibv_send_flags */
	struct ibv_mw_bind_info bind_info;
};

/*
 * Address handles
 */

/* Fields of the global routing header (GRH). */
struct ibv_global_route {
	union ibv_gid dgid;
	uint32_t flow_label; /* 20 bits */
	uint8_t sgid_index;  /* index of the source GID in the port's GID table */
	uint8_t hop_limit;
	uint8_t traffic_class;
};

/* The GRH, as it precedes a received UD message. */
struct ibv_grh {
	__be32 version_tclass_flow;
	__be16 paylen;
	uint8_t next_hdr;
	uint8_t hop_limit;
	union ibv_gid sgid;
	union ibv_gid dgid;
};

/* Static rates, encoded as in the InfiniBand specification. */
enum ibv_rate {
	IBV_RATE_MAX = 0, /* the rate of the port */
	IBV_RATE_2_5_GBPS = 2,
	IBV_RATE_10_GBPS = 3,
	IBV_RATE_30_GBPS = 4,
	IBV_RATE_5_GBPS = 5,
	IBV_RATE_20_GBPS = 6,
	IBV_RATE_40_GBPS = 7,
	IBV_RATE_60_GBPS = 8,
	IBV_RATE_80_GBPS = 9,
	IBV_RATE_120_GBPS = 10,
	IBV_RATE_14_GBPS = 11,
	IBV_RATE_56_GBPS = 12,
	IBV_RATE_112_GBPS = 13,
	IBV_RATE_168_GBPS = 14,
	IBV_RATE_25_GBPS = 15,
	IBV_RATE_100_GBPS = 16,
	IBV_RATE_200_GBPS = 17,
	IBV_RATE_300_GBPS = 18,
	IBV_RATE_28_GBPS = 19,
	IBV_RATE_50_GBPS = 20,
	IBV_RATE_400_GBPS = 21,
	IBV_RATE_600_GBPS = 22,
	IBV_RATE_800_GBPS = 23,
	IBV_RATE_1200_GBPS = 24
};

/* Address vector: the path to a destination. */
struct ibv_ah_attr {
	struct ibv_global_route grh;
	uint16_t dlid; /* ignored on Ethernet */
	uint8_t sl;
	uint8_t src_path_bits;
	uint8_t static_rate; /* enum ibv_rate */
	uint8_t is_global;   /* grh is valid; required on Ethernet */
	uint8_t port_num;    /* local port */
};

/* An address handle: destination of UD messages. */
struct ibv_ah {
	struct ibv_context *context;
	struct ibv_pd *pd;
	uint32_t handle;
};

/*
 * Completion queues
 */

/*
 * A completion channel: reports completion events through a file descriptor, which the program may poll or
 * make non-blocking.
 */
struct ibv_comp_channel {
	struct ibv_context *context;
	int fd;
	int refcnt; /* CQs that use the channel */
};

/* A completion queue. */
struct ibv_cq {
	struct ibv_context *context;
	struct ibv_comp_channel *channel;
	void *cq_context; /* for the program */
	uint32_t handle;
	int cqe;               /* capacity, in completions */
	pthread_mutex_t mutex; /* for the library, as are the members that follow */
	pthread_cond_t cond;
	uint32_t comp_events_completed;
	uint32_t async_events_completed;
};

/* Attributes for ibv_start_poll; none are defined yet. */
struct ibv_poll_cq_attr {
	uint32_t comp_mask; /* must be 0 */
};

/*
 * An extended CQ: the program reads each field of the current completion with a function ibv_wc_read_*. The
 * struct starts with the members of struct ibv_cq. The provider fills in the functions; programs call them
 * through the inline functions below.
 */
struct ibv_cq_ex {
	struct ibv_context *context;
	struct ibv_comp_channel *channel;
	void *cq_context;
	uint32_t handle;
	int cqe;
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	uint32_t comp_events_completed;
	uint32_t async_events_completed;
	uint32_t comp_mask;
	enum ibv_wc_status status; /* of the current completion, as is wr_id */
	uint64_t wr_id;
	int (*start_poll)(struct ibv_cq_ex *current, struct ibv_poll_cq_attr *attr);
	int (*next_poll)(struct ibv_cq_ex *current);
	void (*end_poll)(struct ibv_cq_ex *current);
	enum ibv_wc_opcode (*read_opcode)(struct ibv_cq_ex *current);
	uint32_t (*read_vendor_err)(struct ibv_cq_ex *current);
	uint32_t (*read_byte_len)(struct ibv_cq_ex *current);
	__be32 (*read_imm_data)(struct ibv_cq_ex *current);
	uint32_t (*read_qp_num)(struct ibv_cq_ex *current);
	uint32_t (*read_src_qp)(struct ibv_cq_ex *current);
	unsigned int (*read_wc_flags)(struct ibv_cq_ex *current);
	uint32_t (*read_slid)(struct ibv_cq_ex *current);
	uint8_t (*read_sl)(struct ibv_cq_ex *current);
	uint8_t (*read_dlid_path_bits)(struct ibv_cq_ex *current);
	uint64_t (*read_completion_ts)(struct ibv_cq_ex *current);
	uint16_t (*read_cvlan)(struct ibv_cq_ex *current);
	uint32_t (*read_flow_tag)(struct ibv_cq_ex *current);
	void (*read_tm_info)(struct ibv_cq_ex *current, struct ibv_wc_tm_info *tm_info);
	uint64_t (*read_completion_wallclock_ns)(struct ibv_cq_ex *current);
};

/* comp_mask of struct ibv_cq_init_attr_ex: which members are valid. */
enum ibv_cq_init_attr_mask {
	IBV_CQ_INIT_ATTR_MASK_FLAGS = 1 << 0,
	IBV_CQ_INIT_ATTR_MASK_PD = 1 << 1
};

/* flags of struct ibv_cq_init_attr_ex. */
enum ibv_create_cq_attr_flags {
	IBV_CREATE_CQ_ATTR_SINGLE_THREADED = 1 << 0, /* only one thread uses the CQ: no locking */
	IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN = 1 << 1
};

/* Attributes for ibv_create_cq_ex. */
struct ibv_cq_init_attr_ex {
	uint32_t cqe; /* minimum capacity, in completions */
	void *cq_context;
	struct ibv_comp_channel *channel; /* NULL: none */
	uint32_t comp_vector;             /* less than num_comp_vectors of the context */
	uint64_t wc_flags;                /* enum ibv_create_cq_wc_flags */
	uint32_t comp_mask;               /* enum ibv_cq_init_attr_mask */
	uint32_t flags;                   /* enum ibv_create_cq_attr_flags */
	struct ibv_pd *parent_domain;
};

/* attr_mask of struct ibv_modify_cq_attr: which members are valid. */
enum ibv_cq_attr_mask {
	IBV_CQ_ATTR_MODERATE = 1 << 0,
	IBV_CQ_ATTR_RESERVED = 1 << 1
};

/*
 * Completion moderation: an event is delayed until cq_count completions are queued or cq_period microseconds
 * have passed.
 */
struct ibv_moderate_cq {
	uint16_t cq_count;
	uint16_t cq_period;
};

/* Attributes for ibv_modify_cq. */
struct ibv_modify_cq_attr {
	uint32_t attr_mask; /* enum ibv_cq_attr_mask */
	struct ibv_moderate_cq moderate;
};

/* Completion counters: count completions without queueing them */

/* Operations whose completions a counter counts. */
enum ibv_qp_attach_comp_cntr_op {
	IBV_QP_ATTACH_COMP_CNTR_OP_SEND = 1 << 0,
	IBV_QP_ATTACH_COMP_CNTR_OP_RECV = 1 << 1,
	IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_READ = 1 << 2,
	IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_READ = 1 << 3,
	IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE = 1 << 4,
	IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_WRITE = 1 << 5
};

/* Limits of a device's completion counters. */
struct ibv_comp_cntr_caps {
	uint64_t max_value;
	uint32_t max_counters;
	uint32_t supported_qp_attach_ops; /* enum ibv_qp_attach_comp_cntr_op */
};

/* A completion counter: one count of successful and one of failed completions. */
struct ibv_comp_cntr {
	struct ibv_context *context;
	uint32_t handle;
};

/* Unit of a counter: work requests or bytes. */
enum ibv_comp_cntr_type {
	IBV_COMP_CNTR_TYPE_WRS,
	IBV_COMP_CNTR_TYPE_BYTES
};

/* Attributes for ibv_create_comp_cntr. */
struct ibv_comp_cntr_init_attr {
	uint32_t comp_mask; /* must be 0 */
	enum ibv_comp_cntr_type type;
	uint32_t flags; /* must be 0 */
};

/* Attributes for ibv_qp_attach_comp_cntr: the operations of the QP to count. */
struct ibv_qp_attach_comp_cntr_attr {
	uint32_t comp_mask; /* must be 0 */
	uint32_t op_mask;   /* enum ibv_qp_attach_comp_cntr_op */
};

/*
 * Shared receive queues
 */

/* srq_attr_mask of ibv_modify_srq: which members of struct ibv_srq_attr to change. */
enum ibv_srq_attr_mask {
	IBV_SRQ_MAX_WR = 1 << 0,
	IBV_SRQ_LIMIT = 1 << 1
};

/* Limits of an SRQ. */
struct ibv_srq_attr {
	uint32_t max_wr;
	uint32_t max_sge;
	uint32_t srq_limit; /* fewer posted receives than this raise IBV_EVENT_SRQ_LIMIT_REACHED once; 0:
			       disarmed */
};

/* Attributes for ibv_create_srq. */
struct ibv_srq_init_attr {
	void *srq_context;
	struct ibv_srq_attr attr;
};

/* Types of SRQs: basic, for XRC, with tag matching. */
enum ibv_srq_type {
	IBV_SRQT_BASIC,
	IBV_SRQT_XRC,
	IBV_SRQT_TM
};

/* comp_mask of struct ibv_srq_init_attr_ex: which members are valid. */
enum ibv_srq_init_attr_mask {
	IBV_SRQ_INIT_ATTR_TYPE = 1 << 0,
	IBV_SRQ_INIT_ATTR_PD = 1 << 1,
	IBV_SRQ_INIT_ATTR_XRCD = 1 << 2,
	IBV_SRQ_INIT_ATTR_CQ = 1 << 3,
	IBV_SRQ_INIT_ATTR_TM = 1 << 4,
	IBV_SRQ_INIT_ATTR_RESERVED = 1 << 5
};

/* Limits of a tag matching SRQ: tags, and outstanding operations on them. */
struct ibv_tm_cap {
	uint32_t max_num_tags;
	uint32_t max_ops;
};

/* Attributes for ibv_create_srq_ex. Starts with the members of struct ibv_srq_init_attr. */
struct ibv_srq_init_attr_ex {
	void *srq_context;
	struct ibv_srq_attr attr;
	uint32_t comp_mask; /* enum ibv_srq_init_attr_mask */
	enum ibv_srq_type srq_type;
	struct ibv_pd *pd;
	struct ibv_xrcd *xrcd;
	struct ibv_cq *cq;
	struct ibv_tm_cap tm_cap;
};

/* A shared receive queue (SRQ). */
struct ibv_srq {
	struct ibv_context *context;
	void *srq_context; /* for the program */
	struct ibv_pd *pd;
	uint32_t handle;
	pthread_mutex_t mutex; /* for the library, as are the members that follow */
	pthread_cond_t cond;
	uint32_t events_completed;
	__IBV_MORE_IN_SRQ
};

/* Work queues and indirection tables */

/* Types of work queues: receive queues only. */
enum ibv_wq_type {
	IBV_WQT_RQ
};

/* comp_mask of struct ibv_wq_init_attr: which members are valid. */
enum ibv_wq_init_attr_mask {
	IBV_WQ_INIT_ATTR_FLAGS = 1 << 0,
	IBV_WQ_INIT_ATTR_RESERVED = 1 << 1
};

/* How a work queue treats packets. */
enum ibv_wq_flags {
	IBV_WQ_FLAGS_CVLAN_STRIPPING = 1 << 0,
	IBV_WQ_FLAGS_SCATTER_FCS = 1 << 1,
	IBV_WQ_FLAGS_DELAY_DROP = 1 << 2,
	IBV_WQ_FLAGS_PCI_WRITE_END_PADDING = 1 << 3,
	IBV_WQ_FLAGS_RESERVED = 1 << 4
};

/* Attributes for ibv_create_wq. */
struct ibv_wq_init_attr {
	void *wq_context;
	enum ibv_wq_type wq_type;
	uint32_t max_wr;
	uint32_t max_sge;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	uint32_t comp_mask;    /* enum ibv_wq_init_attr_mask */
	uint32_t create_flags; /* enum ibv_wq_flags */
};

/* State of a work queue. */
enum ibv_wq_state {
	IBV_WQS_RESET,
	IBV_WQS_RDY,
	IBV_WQS_ERR,
	IBV_WQS_UNKNOWN
};

/* attr_mask of struct ibv_wq_attr: which members are valid. */
enum ibv_wq_attr_mask {
	IBV_WQ_ATTR_STATE = 1 << 0,
	IBV_WQ_ATTR_CURR_STATE = 1 << 1,
	IBV_WQ_ATTR_FLAGS = 1 << 2,
	IBV_WQ_ATTR_RESERVED = 1 << 3
};

/* Attributes for ibv_modify_wq. */
struct ibv_wq_attr {
	uint32_t attr_mask; /* enum ibv_wq_attr_mask */
	enum ibv_wq_state wq_state;
	enum ibv_wq_state curr_wq_state; /* expected current state */
	uint32_t flags;                  /* enum ibv_wq_flags; only those in flags_mask change */
	uint32_t flags_mask;
};

struct ibv_recv_wr;

/* A work queue: receives the packets that an indirection table directs to it. */
struct ibv_wq {
	struct ibv_context *context;
	void *wq_context; /* for the program */
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	uint32_t wq_num;
	uint32_t handle;
	enum ibv_wq_state state;
	enum ibv_wq_type wq_type;
	int (*post_recv)(struct ibv_wq *current, struct ibv_recv_wr *recv_wr,
			 struct ibv_recv_wr **bad_recv_wr);
	pthread_mutex_t mutex; /* for the library, as are the next two members */
	pthread_cond_t cond;
	uint32_t events_completed;
	uint32_t comp_mask;
};

/* An indirection table: maps the hash of a received packet to a work queue. */
struct ibv_rwq_ind_table {
	struct ibv_context *context;
	int ind_tbl_handle;
	int ind_tbl_num;
	uint32_t comp_mask;
};

/* comp_mask of struct ibv_rwq_ind_table_init_attr; no bits are defined yet. */
enum ibv_ind_table_init_attr_mask {
	IBV_CREATE_IND_TABLE_RESERVED = 1 << 0
};

/* Attributes for ibv_create_rwq_ind_table. */
struct ibv_rwq_ind_table_init_attr {
	uint32_t log_ind_tbl_size; /* the table has 2^n entries */
	struct ibv_wq **ind_tbl;
	uint32_t comp_mask; /* must be 0 */
};

/*
 * Queue pairs
 */

/*
 * QP types: reliable connected, unreliable connected, unreliable datagram, raw Ethernet, both ends of an
 * extended reliable connection, and types that a provider defines.
 */
enum ibv_qp_type {
	IBV_QPT_RC = 2,
	IBV_QPT_UC = 3,
	IBV_QPT_UD = 4,
	IBV_QPT_RAW_PACKET = 8,
	IBV_QPT_XRC_SEND = 9,
	IBV_QPT_XRC_RECV = 10,
	IBV_QPT_DRIVER = 0xff
};

/* Limits of a QP. */
struct ibv_qp_cap {
	uint32_t max_send_wr;
	uint32_t max_recv_wr;
	uint32_t max_send_sge;
	uint32_t max_recv_sge;
	uint32_t max_inline_data; /* largest payload sent with IBV_SEND_INLINE */
};

/* Attributes for ibv_create_qp. */
struct ibv_qp_init_attr {
	void *qp_context;
	struct ibv_cq *send_cq;
	struct ibv_cq *recv_cq;
	struct ibv_srq *srq;   /* NULL: the QP has its own receive queue */
	struct ibv_qp_cap cap; /* in: minimum; out: actual limits */
	enum ibv_qp_type qp_type;
	int sq_sig_all; /* every send WR generates a completion, not only those with IBV_SEND_SIGNALED */
	__IBV_MORE_IN_QP_INIT_ATTR
};

/* comp_mask of struct ibv_qp_init_attr_ex: which members are valid. */
enum ibv_qp_init_attr_mask {
	IBV_QP_INIT_ATTR_PD = 1 << 0,
	IBV_QP_INIT_ATTR_XRCD = 1 << 1,
	IBV_QP_INIT_ATTR_CREATE_FLAGS = 1 << 2,
	IBV_QP_INIT_ATTR_MAX_TSO_HEADER = 1 << 3,
	IBV_QP_INIT_ATTR_IND_TABLE = 1 << 4,
	IBV_QP_INIT_ATTR_RX_HASH = 1 << 5,
	IBV_QP_INIT_ATTR_SEND_OPS_FLAGS = 1 << 6
};

/* create_flags of struct ibv_qp_init_attr_ex. */
enum ibv_qp_create_flags {
	IBV_QP_CREATE_BLOCK_SELF_MCAST_LB = 1 << 1, /* do not receive own multicast messages */
	IBV_QP_CREATE_SCATTER_FCS = 1 << 8,
	IBV_QP_CREATE_CVLAN_STRIPPING = 1 << 9,
	IBV_QP_CREATE_SOURCE_QPN = 1 << 10, /* use source_qpn as source QP number */
	IBV_QP_CREATE_PCI_WRITE_END_PADDING = 1 << 11
};

/* send_ops_flags of struct ibv_qp_init_attr_ex: the ibv_wr_* operations that the program will use. */
enum ibv_qp_create_send_ops_flags {
	IBV_QP_EX_WITH_RDMA_WRITE = 1 << 0,
	IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM = 1 << 1,
	IBV_QP_EX_WITH_SEND = 1 << 2,
	IBV_QP_EX_WITH_SEND_WITH_IMM = 1 << 3,
	IBV_QP_EX_WITH_RDMA_READ = 1 << 4,
	IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP = 1 << 5,
	IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD = 1 << 6,
	IBV_QP_EX_WITH_LOCAL_INV = 1 << 7,
	IBV_QP_EX_WITH_BIND_MW = 1 << 8,
	IBV_QP_EX_WITH_SEND_WITH_INV = 1 << 9,
	IBV_QP_EX_WITH_TSO = 1 << 10,
	IBV_QP_EX_WITH_FLUSH = 1 << 11,
	IBV_QP_EX_WITH_ATOMIC_WRITE = 1 << 12
};

/* RSS hash of received packets. */
struct ibv_rx_hash_conf {
	uint8_t rx_hash_function; /* enum ibv_rx_hash_function_flags */
	uint8_t rx_hash_key_len;
	uint8_t *rx_hash_key;
	uint64_t rx_hash_fields_mask; /* enum ibv_rx_hash_fields */
};

/* Attributes for ibv_create_qp_ex. Starts with the members of struct ibv_qp_init_attr. */
struct ibv_qp_init_attr_ex {
	void *qp_context;
	struct ibv_cq *send_cq;
	struct ibv_cq *recv_cq;
	struct ibv_srq *srq;
	struct ibv_qp_cap cap;
	enum ibv_qp_type qp_type;
	int sq_sig_all;
	uint32_t comp_mask; /* enum ibv_qp_init_attr_mask */
	struct ibv_pd *pd;
	struct ibv_xrcd *xrcd;
	uint32_t create_flags; /* enum ibv_qp_create_flags */
	uint16_t max_tso_header;
	struct ibv_rwq_ind_table *rwq_ind_tbl;
	struct ibv_rx_hash_conf rx_hash_conf;
	uint32_t source_qpn;
	uint64_t send_ops_flags; /* enum ibv_qp_create_send_ops_flags */
};

/* comp_mask of struct ibv_qp_open_attr: which members are valid. */
enum ibv_qp_open_attr_mask {
	IBV_QP_OPEN_ATTR_NUM = 1 << 0,
	IBV_QP_OPEN_ATTR_XRCD = 1 << 1,
	IBV_QP_OPEN_ATTR_CONTEXT = 1 << 2,
	IBV_QP_OPEN_ATTR_TYPE = 1 << 3,
	IBV_QP_OPEN_ATTR_RESERVED = 1 << 4
};

/* Attributes for ibv_open_qp: the shared QP to open. */
struct ibv_qp_open_attr {
	uint32_t comp_mask; /* enum ibv_qp_open_attr_mask */
	uint32_t qp_num;
	struct ibv_xrcd *xrcd;
	void *qp_context;
	enum ibv_qp_type qp_type;
};

/* attr_mask of ibv_modify_qp and ibv_query_qp: which members of struct ibv_qp_attr to set or to return. */
enum ibv_qp_attr_mask {
	IBV_QP_STATE = 1 << 0,
	IBV_QP_CUR_STATE = 1 << 1,
	IBV_QP_EN_SQD_ASYNC_NOTIFY = 1 << 2,
	IBV_QP_ACCESS_FLAGS = 1 << 3,
	IBV_QP_PKEY_INDEX = 1 << 4,
	IBV_QP_PORT = 1 << 5,
	IBV_QP_QKEY = 1 << 6,
	IBV_QP_AV = 1 << 7,
	IBV_QP_PATH_MTU = 1 << 8,
	IBV_QP_TIMEOUT = 1 << 9,
	IBV_QP_RETRY_CNT = 1 << 10,
	IBV_QP_RNR_RETRY = 1 << 11,
	IBV_QP_RQ_PSN = 1 << 12,
	IBV_QP_MAX_QP_RD_ATOMIC = 1 << 13,
	IBV_QP_ALT_PATH = 1 << 14,
	IBV_QP_MIN_RNR_TIMER = 1 << 15,
	IBV_QP_SQ_PSN = 1 << 16,
	IBV_QP_MAX_DEST_RD_ATOMIC = 1 << 17,
	IBV_QP_PATH_MIG_STATE = 1 << 18,
	IBV_QP_CAP = 1 << 19,
	IBV_QP_DEST_QPN = 1 << 20,
	IBV_QP_RATE_LIMIT = 1 << 25
};

/*
 * QP states: Reset, Initialized, Ready to Receive, Ready to Send, Send Queue Drained, Send Queue Error,
 * Error.
 */
enum ibv_qp_state {
	IBV_QPS_RESET,
	IBV_QPS_INIT,
	IBV_QPS_RTR,
	IBV_QPS_RTS,
	IBV_QPS_SQD,
	IBV_QPS_SQE,
	IBV_QPS_ERR,
	IBV_QPS_UNKNOWN
};

/* Path migration states. */
enum ibv_mig_state {
	IBV_MIG_MIGRATED,
	IBV_MIG_REARM,
	IBV_MIG_ARMED
};

/* State and attributes of a QP. */
struct ibv_qp_attr {
	enum ibv_qp_state qp_state;
	enum ibv_qp_state cur_qp_state; /* expected current state */
	enum ibv_mtu path_mtu;
	enum ibv_mig_state path_mig_state;
	uint32_t qkey;
	uint32_t rq_psn; /* 24 bits, as are sq_psn and dest_qp_num */
	uint32_t sq_psn;
	uint32_t dest_qp_num;
	unsigned int qp_access_flags; /* what the remote QP may do; enum ibv_access_flags */
	struct ibv_qp_cap cap;
	struct ibv_ah_attr ah_attr;
	struct ibv_ah_attr alt_ah_attr; /* alternate path, for path migration */
	uint16_t pkey_index;
	uint16_t alt_pkey_index;
	uint8_t en_sqd_async_notify;
	uint8_t sq_draining;
	uint8_t max_rd_atomic;      /* RDMA reads and atomics outstanding as requester */
	uint8_t max_dest_rd_atomic; /* RDMA reads and atomics outstanding as responder */
	uint8_t min_rnr_timer; /* a code: delay that an RNR NAK requests of the sender; 0: 655.36 ms, 1: 0.01
				  ms, 31: 491.52 ms */
	uint8_t port_num;
	uint8_t timeout;   /* a code n: ack timeout of 4.096 us * 2^n; 0: no timeout */
	uint8_t retry_cnt; /* retransmissions before the QP fails, 0 to 7 */
	uint8_t rnr_retry; /* retransmissions after RNR NAKs, 0 to 6; 7: unlimited */
	uint8_t alt_port_num;
	uint8_t alt_timeout;
	uint32_t rate_limit; /* kbit/s; 0: unlimited */
};

/* Attributes for ibv_modify_qp_rate_limit. */
struct ibv_qp_rate_limit_attr {
	uint32_t rate_limit;     /* kbit/s; 0: unlimited */
	uint32_t max_burst_sz;   /* bytes per burst */
	uint16_t typical_pkt_sz; /* bytes */
	uint32_t comp_mask;      /* must be 0 */
};

/*
 * flags of ibv_query_qp_data_in_order: return a mask of capabilities instead of 0 or 1; consider only the
 * device, not how the CPU and the system order accesses.
 */
enum ibv_query_qp_data_in_order_flags {
	IBV_QUERY_QP_DATA_IN_ORDER_RETURN_CAPS = 1 << 0,
	IBV_QUERY_QP_DATA_IN_ORDER_DEVICE_ONLY = 1 << 1
};

/* Guarantees of ibv_query_qp_data_in_order: the whole message, or each aligned block of 128 bytes. */
enum ibv_query_qp_data_in_order_caps {
	IBV_QUERY_QP_DATA_IN_ORDER_WHOLE_MSG = 1 << 0,
	IBV_QUERY_QP_DATA_IN_ORDER_ALIGNED_128_BYTES = 1 << 1
};

/* Options for enhanced connection establishment (ECE), which the two ends exchange. */
struct ibv_ece {
	uint32_t vendor_id;
	uint32_t options;
	uint32_t comp_mask; /* must be 0 */
};

/* A queue pair (QP). */
struct ibv_qp {
	struct ibv_context *context;
	void *qp_context; /* for the program */
	struct ibv_pd *pd;
	struct ibv_cq *send_cq;
	struct ibv_cq *recv_cq;
	struct ibv_srq *srq;
	uint32_t handle;
	uint32_t qp_num;         /* 24 bits */
	enum ibv_qp_state state; /* last state known to the library */
	enum ibv_qp_type qp_type;
	pthread_mutex_t mutex; /* for the library, as are the members that follow */
	pthread_cond_t cond;
	uint32_t events_completed;
};

/*
 * Work requests
 */

/* Operation of a send WR. */
enum ibv_wr_opcode {
	IBV_WR_RDMA_WRITE = 0,
	IBV_WR_RDMA_WRITE_WITH_IMM = 1,
	IBV_WR_SEND = 2,
	IBV_WR_SEND_WITH_IMM = 3,
	IBV_WR_RDMA_READ = 4,
	IBV_WR_ATOMIC_CMP_AND_SWP = 5,
	IBV_WR_ATOMIC_FETCH_AND_ADD = 6,
	IBV_WR_LOCAL_INV = 7,
	IBV_WR_BIND_MW = 8,
	IBV_WR_SEND_WITH_INV = 9,
	IBV_WR_TSO = 10,
	IBV_WR_DRIVER1 = 11, /* defined by the provider */
	IBV_WR_FLUSH = 14,
	IBV_WR_ATOMIC_WRITE = 15
};

/* Options of a send WR. */
enum ibv_send_flags {
	IBV_SEND_FENCE = 1 << 0,     /* start after all earlier RDMA reads and atomics have completed */
	IBV_SEND_SIGNALED = 1 << 1,  /* generate a completion */
	IBV_SEND_SOLICITED = 1 << 2, /* request a completion event at the receiver */
	IBV_SEND_INLINE = 1 << 3,    /* copy the data while posting: lkeys are ignored, and the buffers can be
					reused at once */
	IBV_SEND_IP_CSUM = 1 << 4
};

/* Placement guarantee of a flush: globally visible, or persistent. */
enum ibv_placement_type {
	IBV_FLUSH_GLOBAL = 1U << 0,
	IBV_FLUSH_PERSISTENT = 1U << 1
};

/* Scope of a flush: a range, or the whole memory region. */
enum ibv_selectivity_level {
	IBV_FLUSH_RANGE,
	IBV_FLUSH_MR
};

/* A buffer whose data is copied while posting; it needs no lkey. */
struct ibv_data_buf {
	void *addr;
	size_t length;
};

/* Scatter/gather entry: a buffer in a memory region. */
struct ibv_sge {
	uint64_t addr;
	uint32_t length;
	uint32_t lkey;
};

/* File descriptors to pass to the kernel. */
struct ibv_fd_arr {
	int *arr;
	uint32_t count;
};

/* A send WR in a linked list. The opcode says which members of the unions are valid. */
struct ibv_send_wr {
	uint64_t wr_id; /* returned in the completion */
	struct ibv_send_wr *next;
	struct ibv_sge *sg_list;
	int num_sge;
	enum ibv_wr_opcode opcode;
	unsigned int send_flags; /* enum ibv_send_flags */
	__extension__ union {
		__be32 imm_data;
		uint32_t invalidate_rkey;
	};
	union {
		struct {
			uint64_t remote_addr;
			uint32_t rkey;
		} rdma;
		struct {
			uint64_t remote_addr; /* must be a multiple of 8 */
			uint64_t compare_add; /* value to compare with, or to add */
			uint64_t swap;
			uint32_t rkey;
		} atomic;
		struct {
			struct ibv_ah *ah;
			uint32_t remote_qpn;
			uint32_t remote_qkey;
		} ud;
	} wr;
	__IBV_BESIDE_QP_TYPE(union {
		struct {
			uint32_t remote_srqn;
		} xrc;
	} qp_type;)
	__extension__ union {
		struct {
			struct ibv_mw *mw;
			uint32_t rkey; /* new rkey of the window */
			struct ibv_mw_bind_info bind_info;
		} bind_mw;
		struct {
			void *hdr;
			uint16_t hdr_sz;
			uint16_t mss; /* payload per segment */
		} tso;
	};
};

/* A receive WR in a linked list. */
struct ibv_recv_wr {
	uint64_t wr_id; /* returned in the completion */
	struct ibv_recv_wr *next;
	struct ibv_sge *sg_list;
	int num_sge;
};

/* Operations on the tag list of an SRQ. */
enum ibv_ops_wr_opcode {
	IBV_WR_TAG_ADD,
	IBV_WR_TAG_DEL,
	IBV_WR_TAG_SYNC
};

/* Options of a tag operation: generate a completion; unexpected_cnt is valid. */
enum ibv_ops_flags {
	IBV_OPS_SIGNALED = 1 << 0,
	IBV_OPS_TM_SYNC = 1 << 1
};

/* A tag operation in a linked list. */
struct ibv_ops_wr {
	uint64_t wr_id;
	struct ibv_ops_wr *next;
	enum ibv_ops_wr_opcode opcode;
	int flags; /* enum ibv_ops_flags */
	struct {
		uint32_t unexpected_cnt; /* unexpected messages that the program has processed so far */
		uint32_t handle; /* of the tag: returned by IBV_WR_TAG_ADD, passed to IBV_WR_TAG_DEL */
		struct {
			uint64_t recv_wr_id;
			struct ibv_sge *sg_list;
			int num_sge;
			uint64_t tag;
			uint64_t mask; /* bits of the tag to compare */
		} add;
	} tm;
};

/*
 * An extended QP: the program builds send WRs with functions ibv_wr_*, between ibv_wr_start and
 * ibv_wr_complete. The provider fills in the functions; programs call them through the inline functions
 * below.
 */
struct ibv_qp_ex {
	struct ibv_qp qp_base;
	uint64_t comp_mask;
	uint64_t wr_id;        /* of the next WR, as is wr_flags; set them before the operation */
	unsigned int wr_flags; /* enum ibv_send_flags */
	void (*wr_atomic_cmp_swp)(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr, uint64_t compare,
				  uint64_t swap);
	void (*wr_atomic_fetch_add)(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr, uint64_t add);
	void (*wr_bind_mw)(struct ibv_qp_ex *qp, struct ibv_mw *mw, uint32_t rkey,
			   const struct ibv_mw_bind_info *bind_info);
	void (*wr_local_inv)(struct ibv_qp_ex *qp, uint32_t invalidate_rkey);
	void (*wr_rdma_read)(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr);
	void (*wr_rdma_write)(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr);
	void (*wr_rdma_write_imm)(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr, __be32 imm_data);
	void (*wr_send)(struct ibv_qp_ex *qp);
	void (*wr_send_imm)(struct ibv_qp_ex *qp, __be32 imm_data);
	void (*wr_send_inv)(struct ibv_qp_ex *qp, uint32_t invalidate_rkey);
	void (*wr_send_tso)(struct ibv_qp_ex *qp, void *hdr, uint16_t hdr_sz, uint16_t mss);
	void (*wr_set_ud_addr)(struct ibv_qp_ex *qp, struct ibv_ah *ah, uint32_t remote_qpn,
			       uint32_t remote_qkey);
	void (*wr_set_xrc_srqn)(struct ibv_qp_ex *qp, uint32_t remote_srqn);
	void (*wr_set_inline_data)(struct ibv_qp_ex *qp, void *addr, size_t length);
	void (*wr_set_inline_data_list)(struct ibv_qp_ex *qp, size_t num_buf,
					const struct ibv_data_buf *buf_list);
	void (*wr_set_sge)(struct ibv_qp_ex *qp, uint32_t lkey, uint64_t addr, uint32_t length);
	void (*wr_set_sge_list)(struct ibv_qp_ex *qp, size_t num_sge, const struct ibv_sge *sg_list);
	void (*wr_start)(struct ibv_qp_ex *qp);
	int (*wr_complete)(struct ibv_qp_ex *qp);
	void (*wr_abort)(struct ibv_qp_ex *qp);
	void (*wr_atomic_write)(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr,
				const void *atomic_wr);
	void (*wr_flush)(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr, size_t len, uint8_t type,
			 uint8_t level);
};

/*
 * Flow steering: which packets go where
 */

/* Flags of a flow: other flows receive the packets as well; the flow matches sent packets. */
enum ibv_flow_flags {
	IBV_FLOW_ATTR_FLAGS_DONT_TRAP = 1 << 1,
	IBV_FLOW_ATTR_FLAGS_EGRESS = 1 << 2
};

/*
 * Packets that a flow receives: those that match, those that match no other flow, multicast packets that
 * match no other flow, all packets.
 */
enum ibv_flow_attr_type {
	IBV_FLOW_ATTR_NORMAL = 0x0,
	IBV_FLOW_ATTR_ALL_DEFAULT = 0x1,
	IBV_FLOW_ATTR_MC_DEFAULT = 0x2,
	IBV_FLOW_ATTR_SNIFFER = 0x3
};

/*
 * Types of flow specifications: headers to match (with IBV_FLOW_SPEC_INNER those of a tunnelled packet) and
 * actions.
 */
enum ibv_flow_spec_type {
	IBV_FLOW_SPEC_ETH = 0x20,
	IBV_FLOW_SPEC_IPV4 = 0x30,
	IBV_FLOW_SPEC_IPV6 = 0x31,
	IBV_FLOW_SPEC_IPV4_EXT = 0x32,
	IBV_FLOW_SPEC_ESP = 0x34,
	IBV_FLOW_SPEC_TCP = 0x40,
	IBV_FLOW_SPEC_UDP = 0x41,
	IBV_FLOW_SPEC_VXLAN_TUNNEL = 0x50,
	IBV_FLOW_SPEC_GRE = 0x51,
	IBV_FLOW_SPEC_MPLS = 0x60,
	IBV_FLOW_SPEC_INNER = 0x100,
	IBV_FLOW_SPEC_ACTION_TAG = 0x1000,
	IBV_FLOW_SPEC_ACTION_DROP = 0x1001,
	IBV_FLOW_SPEC_ACTION_HANDLE = 0x1002,
	IBV_FLOW_SPEC_ACTION_COUNT = 0x1003
};

/* Length of a MAC address. */
#define ETHERNET_LL_SIZE ETH_ALEN

/*
 * Headers to match. A packet matches if its header equals val in the bits set in mask, both in network byte
 * order. In these and in the actions below, size is that of the whole struct.
 */

/* Ethernet. */
struct ibv_flow_eth_filter {
	uint8_t dst_mac[ETHERNET_LL_SIZE];
	uint8_t src_mac[ETHERNET_LL_SIZE];
	uint16_t ether_type;
	uint16_t vlan_tag;
};

struct ibv_flow_spec_eth {
	enum ibv_flow_spec_type type;
	uint16_t size;
	struct ibv_flow_eth_filter val;
	struct ibv_flow_eth_filter mask;
};

/* IPv4 addresses. */
struct ibv_flow_ipv4_filter {
	uint32_t src_ip;
	uint32_t dst_ip;
};

struct ibv_flow_spec_ipv4 {
	enum ibv_flow_spec_type type;
	uint16_t size;
	struct ibv_flow_ipv4_filter val;
	struct ibv_flow_ipv4_filter mask;
};

/* IPv4 with more fields. */
struct ibv_flow_ipv4_ext_filter {
	uint32_t src_ip;
	uint32_t dst_ip;
	uint8_t proto;
	uint8_t tos;
	uint8_t ttl;
	uint8_t flags;
};

struct ibv_flow_spec_ipv4_ext {
	enum ibv_flow_spec_type type;
	uint16_t size;
	struct ibv_flow_ipv4_ext_filter val;
	struct ibv_flow_ipv4_ext_filter mask;
};

/* IPv6. */
struct ibv_flow_ipv6_filter {
	uint8_t src_ip[16];
	uint8_t dst_ip[16];
	uint32_t flow_label;
	uint8_t next_hdr;
	uint8_t traffic_class;
	uint8_t hop_limit;
};

struct ibv_flow_spec_ipv6 {
	enum ibv_flow_spec_type type;
	uint16_t size;
	struct ibv_flow_ipv6_filter val;
	struct ibv_flow_ipv6_filter mask;
};

/* IPsec ESP. */
struct ibv_flow_esp_filter {
	uint32_t spi;
	uint32_t seq;
};

struct ibv_flow_spec_esp {
	enum ibv_flow_spec_type type;
	uint16_t size;
	struct ibv_flow_esp_filter val;
	struct ibv_flow_esp_filter mask;
};

/* TCP or UDP. */
struct ibv_flow_tcp_udp_filter {
	uint16_t dst_port;
	uint16_t src_port;
};

struct ibv_flow_spec_tcp_udp {
	enum ibv_flow_spec_type type;
	uint16_t size;
	struct ibv_flow_tcp_udp_filter val;
	struct ibv_flow_tcp_udp_filter mask;
};

/* GRE: flags and version, protocol, key. */
struct ibv_flow_gre_filter {
	uint16_t c_ks_res0_ver;
	uint16_t protocol;
	uint32_t key;
};

struct ibv_flow_spec_gre {
	enum ibv_flow_spec_type type;
	uint16_t size;
	struct ibv_flow_gre_filter val;
	struct ibv_flow_gre_filter mask;
};

/* MPLS: a label stack entry, that is label, traffic class, bottom of stack, TTL. */
struct ibv_flow_mpls_filter {
	uint32_t label;
};

struct ibv_flow_spec_mpls {
	enum ibv_flow_spec_type type;
	uint16_t size;
	struct ibv_flow_mpls_filter val;
	struct ibv_flow_mpls_filter mask;
};

/* VXLAN network identifier (VNI). */
struct ibv_flow_tunnel_filter {
	uint32_t tunnel_id;
};

struct ibv_flow_spec_tunnel {
	enum ibv_flow_spec_type type;
	uint16_t size;
	struct ibv_flow_tunnel_filter val;
	struct ibv_flow_tunnel_filter mask;
};

/* Action: report tag_id in the completions of matching packets (ibv_wc_read_flow_tag). */
struct ibv_flow_spec_action_tag {
	enum ibv_flow_spec_type type;
	uint16_t size;
	uint32_t tag_id;
};

/* Action: drop matching packets. */
struct ibv_flow_spec_action_drop {
	enum ibv_flow_spec_type type;
	uint16_t size;
};

/* Action: apply a flow action to matching packets. */
struct ibv_flow_spec_action_handle {
	enum ibv_flow_spec_type type;
	uint16_t size;
	const struct ibv_flow_action *action;
};

/* Action: count matching packets. */
struct ibv_flow_spec_counter_action {
	enum ibv_flow_spec_type type;
	uint16_t size;
	struct ibv_counters *counters;
};

/* Any flow specification. */
__extension__ struct ibv_flow_spec {
	__extension__ union {
		struct {
			enum ibv_flow_spec_type type;
			uint16_t size;
		} hdr;
		struct ibv_flow_spec_eth eth;
		struct ibv_flow_spec_ipv4 ipv4;
		struct ibv_flow_spec_tcp_udp tcp_udp;
		struct ibv_flow_spec_ipv4_ext ipv4_ext;
		struct ibv_flow_spec_ipv6 ipv6;
		struct ibv_flow_spec_esp esp;
		struct ibv_flow_spec_tunnel tunnel;
		struct ibv_flow_spec_gre gre;
		struct ibv_flow_spec_mpls mpls;
		struct ibv_flow_spec_action_tag flow_tag;
		struct ibv_flow_spec_action_drop drop;
		struct ibv_flow_spec_action_handle handle;
		struct ibv_flow_spec_counter_action flow_count;
	};
};

/* A flow to create. num_of_specs specifications follow the struct in memory, without padding. */
struct ibv_flow_attr {
	uint32_t comp_mask; /* must be 0 */
	enum ibv_flow_attr_type type;
	uint16_t size;     /* including the specifications */
	uint16_t priority; /* 0: highest */
	uint8_t num_of_specs;
	uint8_t port;
	uint32_t flags; /* enum ibv_flow_flags */
};

/* A flow that steers packets. */
struct ibv_flow {
	uint32_t comp_mask;
	struct ibv_context *context;
	uint32_t handle;
};

/* An action for IBV_FLOW_SPEC_ACTION_HANDLE. */
struct ibv_flow_action {
	struct ibv_context *context;
};

/* comp_mask of struct ibv_flow_action_esp_attr: which members are valid. */
enum ibv_flow_action_esp_mask {
	IBV_FLOW_ACTION_ESP_MASK_ESN = 1UL << 0
};

/*
 * Attributes of an ESP flow action: how to encrypt or decrypt. The types of its members are in verbs_api.h.
 */
struct ibv_flow_action_esp_attr {
	struct ibv_flow_action_esp *esp_attr;
	enum ibv_flow_action_esp_keymat keymat_proto;
	uint16_t keymat_len;
	void *keymat_ptr;
	enum ibv_flow_action_esp_replay replay_proto;
	uint16_t replay_len;
	void *replay_ptr;
	struct ibv_flow_action_esp_encap *esp_encap;
	uint32_t comp_mask; /* enum ibv_flow_action_esp_mask */
	uint32_t esn;       /* high 32 bits of the extended sequence number */
};

/* A set of flow counters. */
struct ibv_counters {
	struct ibv_context *context;
};

/* Attributes for ibv_create_counters; none are defined yet. */
struct ibv_counters_init_attr {
	uint32_t comp_mask; /* must be 0 */
};

/* The unit of a flow counter. */
enum ibv_counter_description {
	IBV_COUNTER_PACKETS,
	IBV_COUNTER_BYTES
};

/* Attributes for ibv_attach_counters_point_flow: what the counter at an index counts. */
struct ibv_counter_attach_attr {
	enum ibv_counter_description counter_desc;
	uint32_t index;     /* in the set */
	uint32_t comp_mask; /* must be 0 */
};

/* flags of ibv_read_counters: values that the driver has cached are good enough. */
enum ibv_read_counters_flags {
	IBV_READ_COUNTERS_ATTR_PREFER_CACHED = 1 << 0
};

/*
 * Contexts: open devices
 */

/* comp_mask of struct ibv_values_ex. In: values to query; out: values that are valid. */
enum ibv_values_mask {
	IBV_VALUES_MASK_RAW_CLOCK = 1 << 0,
	IBV_VALUES_MASK_RESERVED = 1 << 1
};

/* Current values of a device. */
struct ibv_values_ex {
	uint32_t comp_mask;        /* enum ibv_values_mask */
	struct timespec raw_clock; /* device clock, in ticks, in tv_nsec */
};

/* struct ibv_port_attr without port_cap_flags2 and later members. */
struct _compat_ibv_port_attr;

/*
 * Functions of the provider that the inline verbs call. Those that start with _compat_ preserve the layout.
 */
struct ibv_context_ops {
	int (*_compat_query_device)(struct ibv_context *context, struct ibv_device_attr *device_attr);
	int (*_compat_query_port)(struct ibv_context *context, uint8_t port_num,
				  struct _compat_ibv_port_attr *port_attr);
	void *(*_compat_alloc_pd)(void);
	void *(*_compat_dealloc_pd)(void);
	void *(*_compat_reg_mr)(void);
	void *(*_compat_rereg_mr)(void);
	void *(*_compat_dereg_mr)(void);
	struct ibv_mw *(*alloc_mw)(struct ibv_pd *pd, enum ibv_mw_type type);
	int (*bind_mw)(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *mw_bind);
	int (*dealloc_mw)(struct ibv_mw *mw);
	void *(*_compat_create_cq)(void);
	int (*poll_cq)(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc);
	int (*req_notify_cq)(struct ibv_cq *cq, int solicited_only);
	void *(*_compat_cq_event)(void);
	void *(*_compat_resize_cq)(void);
	void *(*_compat_destroy_cq)(void);
	void *(*_compat_create_srq)(void);
	void *(*_compat_modify_srq)(void);
	void *(*_compat_query_srq)(void);
	void *(*_compat_destroy_srq)(void);
	int (*post_srq_recv)(struct ibv_srq *srq, struct ibv_recv_wr *recv_wr,
			     struct ibv_recv_wr **bad_recv_wr);
	void *(*_compat_create_qp)(void);
	void *(*_compat_query_qp)(void);
	void *(*_compat_modify_qp)(void);
	void *(*_compat_destroy_qp)(void);
	int (*post_send)(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr);
	int (*post_recv)(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);
	void *(*_compat_create_ah)(void);
	void *(*_compat_destroy_ah)(void);
	void *(*_compat_attach_mcast)(void);
	void *(*_compat_detach_mcast)(void);
	void *(*_compat_async_event)(void);
};

/* An open device. */
struct ibv_context {
	struct ibv_device *device;
	struct ibv_context_ops ops;
	int cmd_fd;   /* character device; ibv_import_device takes a duplicate of it in another process */
	int async_fd; /* the program may poll it or make it non-blocking; ibv_get_async_event reads it */
	int num_comp_vectors;
	pthread_mutex_t mutex; /* for the library */
	void *abi_compat;
};

/* Value of abi_compat in a context that is the last member of a struct verbs_context. */
#define __VERBS_ABI_IS_EXTENDED ((void *)~(uintptr_t)0)

/*
 * Extended context. New functions are added at the start of the struct, and sz is the size that the
 * provider's context has: use verbs_get_ctx_op, which measures from the end. The struct has the members of
 * provider ABI 34, which programs use, unless IBVERBS_PABI_VERSION is defined as the ABI of a newer provider.
 */
struct verbs_context {
#if defined(IBVERBS_PABI_VERSION) && IBVERBS_PABI_VERSION >= 59
#if IBVERBS_PABI_VERSION >= 64
	void (*free_buf)(struct ibv_buf *buf);
	void *(*alloc_buf)(struct ibv_pd *pd, size_t size, struct ibv_buf **buf);
#endif
#if IBVERBS_PABI_VERSION >= 64 || (defined(IBVERBS_PABI_RELEASE) && IBVERBS_PABI_RELEASE >= 62)
	int (*dm_export_dmabuf_fd)(struct ibv_dm *dm);
#endif
	struct ibv_mr *(*reg_mr_ex)(struct ibv_pd *pd, struct ibv_mr_init_attr *mr_init_attr);
	int (*dealloc_dmah)(struct ibv_dmah *dmah);
	struct ibv_dmah *(*alloc_dmah)(struct ibv_context *context, struct ibv_dmah_init_attr *attr);
#endif
	int (*query_port)(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *port_attr,
			  size_t port_attr_len);
	int (*advise_mr)(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
			 struct ibv_sge *sg_list, uint32_t num_sges);
	struct ibv_mr *(*alloc_null_mr)(struct ibv_pd *pd);
	int (*read_counters)(struct ibv_counters *counters, uint64_t *counters_value, uint32_t ncounters,
			     uint32_t flags);
	int (*attach_counters_point_flow)(struct ibv_counters *counters, struct ibv_counter_attach_attr *attr,
					  struct ibv_flow *flow);
	struct ibv_counters *(*create_counters)(struct ibv_context *context,
						struct ibv_counters_init_attr *init_attr);
	int (*destroy_counters)(struct ibv_counters *counters);
	struct ibv_mr *(*reg_dm_mr)(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t dm_offset, size_t length,
				    unsigned int access);
	struct ibv_dm *(*alloc_dm)(struct ibv_context *context, struct ibv_alloc_dm_attr *attr);
	int (*free_dm)(struct ibv_dm *dm);
	int (*modify_flow_action_esp)(struct ibv_flow_action *action, struct ibv_flow_action_esp_attr *attr);
	int (*destroy_flow_action)(struct ibv_flow_action *action);
	struct ibv_flow_action *(*create_flow_action_esp)(struct ibv_context *context,
							  struct ibv_flow_action_esp_attr *attr);
	int (*modify_qp_rate_limit)(struct ibv_qp *qp, struct ibv_qp_rate_limit_attr *attr);
	struct ibv_pd *(*alloc_parent_domain)(struct ibv_context *context,
					      struct ibv_parent_domain_init_attr *attr);
	int (*dealloc_td)(struct ibv_td *td);
	struct ibv_td *(*alloc_td)(struct ibv_context *context, struct ibv_td_init_attr *init_attr);
	int (*modify_cq)(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr);
	int (*post_srq_ops)(struct ibv_srq *srq, struct ibv_ops_wr *op, struct ibv_ops_wr **bad_op);
	int (*destroy_rwq_ind_table)(struct ibv_rwq_ind_table *rwq_ind_table);
	struct ibv_rwq_ind_table *(*create_rwq_ind_table)(struct ibv_context *context,
							  struct ibv_rwq_ind_table_init_attr *init_attr);
	int (*destroy_wq)(struct ibv_wq *wq);
	int (*modify_wq)(struct ibv_wq *wq, struct ibv_wq_attr *wq_attr);
	struct ibv_wq *(*create_wq)(struct ibv_context *context, struct ibv_wq_init_attr *wq_init_attr);
	int (*query_rt_values)(struct ibv_context *context, struct ibv_values_ex *values);
	struct ibv_cq_ex *(*create_cq_ex)(struct ibv_context *context, struct ibv_cq_init_attr_ex *init_attr);
	struct verbs_ex_private *priv; /* for the library */
	int (*query_device_ex)(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
			       struct ibv_device_attr_ex *attr, size_t attr_size);
	int (*ibv_destroy_flow)(struct ibv_flow *flow);
	void (*ABI_placeholder2)(void);
	struct ibv_flow *(*ibv_create_flow)(struct ibv_qp *qp, struct ibv_flow_attr *flow_attr);
	void (*ABI_placeholder1)(void);
	struct ibv_qp *(*open_qp)(struct ibv_context *context, struct ibv_qp_open_attr *attr);
	struct ibv_qp *(*create_qp_ex)(struct ibv_context *context,
				       struct ibv_qp_init_attr_ex *qp_init_attr_ex);
	int (*get_srq_num)(struct ibv_srq *srq, uint32_t *srq_num);
	struct ibv_srq *(*create_srq_ex)(struct ibv_context *context,
					 struct ibv_srq_init_attr_ex *srq_init_attr_ex);
	struct ibv_xrcd *(*open_xrcd)(struct ibv_context *context, struct ibv_xrcd_init_attr *xrcd_init_attr);
	int (*close_xrcd)(struct ibv_xrcd *xrcd);
	uint64_t _ABI_placeholder3;
	size_t sz;
	struct ibv_context context;
};

/* Whether the member fld of type starts within the first sz bytes. */
#define vext_field_avail(type, fld, sz) (offsetof(type, fld) < (sz))

/* The extended context that contains a context; NULL if there is none. */
static inline struct verbs_context *verbs_get_ctx(struct ibv_context *ctx)
{
	if (ctx->abi_compat == __VERBS_ABI_IS_EXTENDED) {
		uintptr_t end = (uintptr_t)ctx;

		return (struct verbs_context *)(end - offsetof(struct verbs_context, context));
	}
	return NULL;
}

/* The extended context, if its size includes the function at this offset and the function is not NULL. */
static inline struct verbs_context *__ibv_ctx_with_slot(struct ibv_context *ctx, size_t offset)
{
	struct verbs_context *vctx = verbs_get_ctx(ctx);
	uintptr_t slot;

	if (!vctx || vctx->sz < sizeof(*vctx) - offset)
		return NULL;
	memcpy(&slot, (const char *)vctx + offset, sizeof(slot));
	return slot ? vctx : NULL;
}

/* The extended context, if the provider has the operation op; otherwise NULL. */
#define verbs_get_ctx_op(ctx, op) __ibv_ctx_with_slot(ctx, offsetof(struct verbs_context, op))

/* Bodies of the verbs that only call an operation of the extended context. */
#define __IBV_EXT_INT(ctx, op, ...) \
	{ \
		struct verbs_context *__vctx = verbs_get_ctx_op(ctx, op); \
\
		return __vctx ? __vctx->op(__VA_ARGS__) : EOPNOTSUPP; \
	}
#define __IBV_EXT_PTR(ctx, op, ...) \
	{ \
		struct verbs_context *__vctx = verbs_get_ctx_op(ctx, op); \
\
		if (__vctx) \
			return __vctx->op(__VA_ARGS__); \
		errno = EOPNOTSUPP; \
		return NULL; \
	}

/*
 * Verbs: devices
 */

/*
 * Returns a NULL-terminated array of all RDMA devices, and their number in *num_devices unless that is NULL.
 * Free it with ibv_free_device_list. Open devices remain valid after that. Fails with ENOSYS if the kernel
 * has no RDMA support.
 */
struct ibv_device **ibv_get_device_list(int *num_devices);

#ifdef RDMA_STATIC_PROVIDERS
/*
 * A program linked with libibverbs.a defines RDMA_STATIC_PROVIDERS to select the providers to link, separated
 * by commas: -DRDMA_STATIC_PROVIDERS=mlx5,rxe, or all, or none. At most 20 can be named.
 */
struct verbs_device_ops;

#define __IBV_PROVIDER(name) extern const struct verbs_device_ops verbs_provider_##name
__IBV_PROVIDER(bnxt_re);
__IBV_PROVIDER(cxgb4);
__IBV_PROVIDER(efa);
__IBV_PROVIDER(erdma);
__IBV_PROVIDER(hfi1verbs);
__IBV_PROVIDER(hns);
__IBV_PROVIDER(ionic);
__IBV_PROVIDER(ipathverbs);
__IBV_PROVIDER(irdma);
__IBV_PROVIDER(mana);
__IBV_PROVIDER(mlx4);
__IBV_PROVIDER(mlx5);
__IBV_PROVIDER(mthca);
__IBV_PROVIDER(ocrdma);
__IBV_PROVIDER(qedr);
__IBV_PROVIDER(rxe);
__IBV_PROVIDER(siw);
__IBV_PROVIDER(vmw_pvrdma);
__IBV_PROVIDER(all);
__IBV_PROVIDER(none);
#undef __IBV_PROVIDER

/* Expands the names to the addresses of their providers, padded to 20 with that of none. */
#define _RDMA_STATIC_PREFIX(...) \
	_RDMA_STATIC_PREFIX_(__VA_ARGS__, none, none, none, none, none, none, none, none, none, none, none, \
			     none, none, none, none, none, none, none, none, none)
#define _RDMA_STATIC_PREFIX_(_1, _2, _3, _4, _5, _6, _7, _8, _9, _10, _11, _12, _13, _14, _15, _16, _17, \
			     _18, _19, _20, ...) \
	&verbs_provider_##_1, &verbs_provider_##_2, &verbs_provider_##_3, &verbs_provider_##_4, \
		&verbs_provider_##_5, &verbs_provider_##_6, &verbs_provider_##_7, &verbs_provider_##_8, \
		&verbs_provider_##_9, &verbs_provider_##_10, &verbs_provider_##_11, &verbs_provider_##_12, \
		&verbs_provider_##_13, &verbs_provider_##_14, &verbs_provider_##_15, &verbs_provider_##_16, \
		&verbs_provider_##_17, &verbs_provider_##_18, &verbs_provider_##_19, &verbs_provider_##_20

/* Registers the linked providers; the list of addresses ends with NULL. */
void ibv_static_providers(void *unused, ...);

static inline struct ibv_device **__ibv_get_device_list(int *num_devices)
{
	ibv_static_providers(NULL, _RDMA_STATIC_PREFIX(RDMA_STATIC_PROVIDERS), NULL);
	return ibv_get_device_list(num_devices);
}
#define ibv_get_device_list(num_devices) __ibv_get_device_list(num_devices)
#endif

/* Frees a device list. */
void ibv_free_device_list(struct ibv_device **list);

/* Name of a device, such as "rxe0". Valid as long as the device. */
const char *ibv_get_device_name(struct ibv_device *device);

/* Index of a device in the kernel; -1 if the kernel does not report it. */
int ibv_get_device_index(struct ibv_device *device);

/* Node GUID of a device; 0 if it cannot be read. */
__be64 ibv_get_device_guid(struct ibv_device *device);

/* Name of a node type. Strings returned by ibv_*_str functions are static and never NULL. */
const char *ibv_node_type_str(enum ibv_node_type node_type);

/* Opens a device. Close it with ibv_close_device. */
struct ibv_context *ibv_open_device(struct ibv_device *device);

/* Closes a device; destroy its objects first. Returns 0, or -1 with errno. */
int ibv_close_device(struct ibv_context *context);

/*
 * Opens a device that another process has open, from a duplicate of that process's cmd_fd. The context owns
 * the descriptor. Objects of the other process can then be imported. Close the context with ibv_close_device.
 */
struct ibv_context *ibv_import_device(int cmd_fd);

/* Queries identity and limits of a device. */
int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *device_attr);

/*
 * Queries all attributes of a device. Falls back to those of ibv_query_device if the provider supports no
 * more. input may be NULL.
 */
static inline int ibv_query_device_ex(struct ibv_context *context,
				      const struct ibv_query_device_ex_input *input,
				      struct ibv_device_attr_ex *attr)
{
	struct verbs_context *vctx = verbs_get_ctx_op(context, query_device_ex);
	int err = EOPNOTSUPP;

	if (input && input->comp_mask)
		return EINVAL;
	if (vctx)
		err = vctx->query_device_ex(context, input, attr, sizeof(*attr));
	if (err == EOPNOTSUPP || err == ENOSYS) {
		memset(attr, 0, sizeof(*attr));
		err = ibv_query_device(context, &attr->orig_attr);
	}
	return err;
}

/* Whether a supported_qpts mask includes a QP type. */
static inline int ibv_is_qpt_supported(uint32_t caps, enum ibv_qp_type qpt)
{
	return (int)(caps >> (qpt & 31) & 1);
}

/* Queries the current values of the device that values->comp_mask selects. */
static inline int ibv_query_rt_values_ex(struct ibv_context *context, struct ibv_values_ex *values)
	__IBV_EXT_INT(context, query_rt_values, context, values)

/*
 * Makes fork safe: keeps registered memory out of child processes, unless the kernel copies it for
 * them. Call it before registering memory; afterwards it fails with EINVAL.
 */
int ibv_fork_init(void);

/*
 * State of fork support: not requested; enabled by this library; not needed because the kernel copies pinned
 * pages.
 */
enum ibv_fork_status {
	IBV_FORK_DISABLED,
	IBV_FORK_ENABLED,
	IBV_FORK_UNNEEDED
};
enum ibv_fork_status ibv_is_fork_initialized(void);

/*
 * Verbs: asynchronous events
 */

/* Waits for the next asynchronous event. A cancellation point. Returns 0, or -1 with errno. */
int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event);

/*
 * Acknowledges an event. The verb that destroys the affected object waits until all its events are
 * acknowledged.
 */
void ibv_ack_async_event(struct ibv_async_event *event);

/* Description of an event type. */
const char *ibv_event_type_str(enum ibv_event_type event);

/*
 * Verbs: ports, GIDs and P_Keys. Port numbers start at 1.
 */

/* Queries a port in the older, shorter form. Programs get the newer form through the macro below. */
int ibv_query_port(struct ibv_context *context, uint8_t port_num, struct _compat_ibv_port_attr *port_attr);

/*
 * Queries a port. Falls back to the older form if the provider supports no more; the other members are then
 * 0.
 */
static inline int ___ibv_query_port(struct ibv_context *context, uint8_t port_num,
				    struct ibv_port_attr *port_attr)
{
	struct verbs_context *vctx = verbs_get_ctx_op(context, query_port);

	if (vctx)
		return vctx->query_port(context, port_num, port_attr, sizeof(*port_attr));
	memset(port_attr, 0, sizeof(*port_attr));
	return ibv_query_port(context, port_num, (struct _compat_ibv_port_attr *)port_attr);
}
#define ibv_query_port(context, port_num, port_attr) ___ibv_query_port(context, port_num, port_attr)

/* Speed of a port, over all lanes, in units of 100 Mbit/s. */
int ibv_query_port_speed(struct ibv_context *context, uint32_t port_num, uint64_t *port_speed);

/* Name of a port state. */
const char *ibv_port_state_str(enum ibv_port_state port_state);

/* Reads a GID of a port; all zeros if the entry is empty. Returns 0, or -1 with errno. */
int ibv_query_gid(struct ibv_context *context, uint8_t port_num, int index, union ibv_gid *gid);

/* Reads an entry of a port's GID table. Fails with ENODATA if the entry is empty. flags must be 0. */
int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port_num, uint32_t gid_index,
		      struct ibv_gid_entry *entry, uint32_t flags, size_t entry_size);
static inline int ibv_query_gid_ex(struct ibv_context *context, uint32_t port_num, uint32_t gid_index,
				   struct ibv_gid_entry *entry, uint32_t flags)
{
	return _ibv_query_gid_ex(context, port_num, gid_index, entry, flags, sizeof(*entry));
}

/*
 * Reads the non-empty entries of the GID tables of all ports. Returns their number, or a negative errno
 * value: -EINVAL if there are more than max_entries. flags must be 0.
 */
ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries, size_t max_entries,
			     uint32_t flags, size_t entry_size);
static inline ssize_t ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
					  size_t max_entries, uint32_t flags)
{
	return _ibv_query_gid_table(context, entries, max_entries, flags, sizeof(*entries));
}

/* Reads a P_Key of a port. Returns 0, or -1 with errno. */
int ibv_query_pkey(struct ibv_context *context, uint8_t port_num, int index, __be16 *pkey);

/* Index of the first entry of a port's P_Key table that equals pkey; -1 if there is none. */
int ibv_get_pkey_index(struct ibv_context *context, uint8_t port_num, __be16 pkey);

/*
 * Verbs: protection domains, thread domains, XRC domains
 */

/* Allocates a protection domain. Free it with ibv_dealloc_pd. */
struct ibv_pd *ibv_alloc_pd(struct ibv_context *context);

/* Frees a protection domain or parent domain. Fails with EBUSY while objects use it. */
int ibv_dealloc_pd(struct ibv_pd *pd);

/* Imports a protection domain of another process by its handle. Release it with ibv_unimport_pd. */
struct ibv_pd *ibv_import_pd(struct ibv_context *context, uint32_t pd_handle);

/* Releases an imported protection domain. The domain itself remains. */
void ibv_unimport_pd(struct ibv_pd *pd);

/* Allocates a thread domain. Free it with ibv_dealloc_td. */
static inline struct ibv_td *ibv_alloc_td(struct ibv_context *context, struct ibv_td_init_attr *init_attr)
	__IBV_EXT_PTR(context, alloc_td, context, init_attr)

/* Frees a thread domain. Fails with EBUSY while a parent domain uses it. */
static inline int ibv_dealloc_td(struct ibv_td *td) __IBV_EXT_INT(td->context, dealloc_td, td)

/*
 * Allocates a parent domain on top of a protection domain. Free it with ibv_dealloc_pd, before that
 * domain.
 */
static inline struct ibv_pd *ibv_alloc_parent_domain(struct ibv_context *context,
						     struct ibv_parent_domain_init_attr *attr)
	__IBV_EXT_PTR(context, alloc_parent_domain, context, attr)

/* Opens an XRC domain. Close it with ibv_close_xrcd. */
static inline struct ibv_xrcd *ibv_open_xrcd(struct ibv_context *context,
					     struct ibv_xrcd_init_attr *xrcd_init_attr)
	__IBV_EXT_PTR(context, open_xrcd, context, xrcd_init_attr)

/* Closes an XRC domain. Fails with EBUSY while objects use it. */
static inline int ibv_close_xrcd(struct ibv_xrcd *xrcd)
{
	return verbs_get_ctx(xrcd->context)->close_xrcd(xrcd);
}

/*
 * Verbs: memory regions. Deregister each with ibv_dereg_mr before its memory is freed.
 */

/* Registers memory. Local and remote accesses use its virtual addresses. */
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access);

/* Registers memory. Local and remote accesses use addresses that start at iova. */
struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access);

/* As ibv_reg_mr_iova; access may include flags of IBV_ACCESS_OPTIONAL_RANGE. */
struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				unsigned int access);

/*
 * Programs compiled without optional access flags call the older symbols, so that they also run with
 * libraries older than 1.8. The older symbols are used only if the compiler can tell that no such flag is
 * set.
 */
#define __IBV_ACCESS_IS_CONST(access) \
	__builtin_constant_p(((int)(access) & (int)IBV_ACCESS_OPTIONAL_RANGE) == 0)

__attribute__((__always_inline__)) static inline struct ibv_mr *__ibv_reg_mr(struct ibv_pd *pd, void *addr,
									     size_t length,
									     unsigned int access,
									     int is_access_const)
{
	if (is_access_const && !(access & IBV_ACCESS_OPTIONAL_RANGE))
		return ibv_reg_mr(pd, addr, length, (int)access);
	return ibv_reg_mr_iova2(pd, addr, length, (uintptr_t)addr, access);
}
#define ibv_reg_mr(pd, addr, length, access) \
	__ibv_reg_mr(pd, addr, length, access, __IBV_ACCESS_IS_CONST(access))

__attribute__((__always_inline__)) static inline struct ibv_mr *__ibv_reg_mr_iova(
	struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access, int is_access_const)
{
	if (is_access_const && !(access & IBV_ACCESS_OPTIONAL_RANGE))
		return ibv_reg_mr_iova(pd, addr, length, iova, (int)access);
	return ibv_reg_mr_iova2(pd, addr, length, iova, access);
}
#define ibv_reg_mr_iova(pd, addr, length, iova, access) \
	__ibv_reg_mr_iova(pd, addr, length, iova, access, __IBV_ACCESS_IS_CONST(access))

/* Registers a part of a dma-buf that starts at offset. The caller may close fd afterwards. */
struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
				 int access);

/* Registers memory as described by the attributes. */
struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *pd, struct ibv_mr_init_attr *mr_init_attr);

/* Allocates a null region of unlimited length: reads return zeros and writes are discarded. */
static inline struct ibv_mr *ibv_alloc_null_mr(struct ibv_pd *pd)
	__IBV_EXT_PTR(pd->context, alloc_null_mr, pd)

/*
 * Changes a memory region; flags is a mask of enum ibv_rereg_mr_flags. Returns 0, or a value of enum
 * ibv_rereg_mr_err_code with errno set. No operation may use the region meanwhile.
 */
int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length, int access);

/* Deregisters a memory region. Fails with EBUSY while a memory window is bound to it. */
int ibv_dereg_mr(struct ibv_mr *mr);

/* Imports a memory region of another process by its handle. Release it with ibv_unimport_mr. */
struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t mr_handle);

/* Releases an imported memory region. The region itself remains. */
void ibv_unimport_mr(struct ibv_mr *mr);

/*
 * Gives the kernel advice about registered memory. With IBV_ADVISE_MR_FLAG_FLUSH, returns when it has taken
 * effect.
 */
static inline int ibv_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
				struct ibv_sge *sg_list, uint32_t num_sge)
	__IBV_EXT_INT(pd->context, advise_mr, pd, advice, flags, sg_list, num_sge)

/* Allocates a DMA handle for ibv_reg_mr_ex. Free it with ibv_dealloc_dmah. */
struct ibv_dmah *ibv_alloc_dmah(struct ibv_context *context, struct ibv_dmah_init_attr *attr);

/* Frees a DMA handle. Fails with EBUSY while a memory region uses it. */
int ibv_dealloc_dmah(struct ibv_dmah *dmah);

/*
 * Allocates page-aligned memory that the device can access; in a confidential guest it is backed by a
 * dma-buf. Returns its address, and a handle in *buf. Free it with ibv_free_buf.
 */
void *ibv_alloc_buf(struct ibv_pd *pd, size_t size, struct ibv_buf **buf);

/*
 * Returns a new file descriptor for the buffer's dma-buf, which the caller closes; -1 with errno on failure
 * (ENODATA: no dma-buf backs the buffer).
 */
int ibv_export_buf_dmabuf_fd(struct ibv_buf *buf);

/* Frees a buffer of ibv_alloc_buf and its memory. */
void ibv_free_buf(struct ibv_buf *buf);

/* Registers a part of a buffer of ibv_alloc_buf. */
struct ibv_mr *ibv_reg_buf_mr(struct ibv_pd *pd, struct ibv_buf *buf, void *addr, size_t length, int access);

/*
 * Verbs: device memory
 */

/* Allocates device memory. Free it with ibv_free_dm. */
static inline struct ibv_dm *ibv_alloc_dm(struct ibv_context *context, struct ibv_alloc_dm_attr *attr)
	__IBV_EXT_PTR(context, alloc_dm, context, attr)

/* Frees device memory. Fails with EBUSY while it is registered. */
static inline int ibv_free_dm(struct ibv_dm *dm) __IBV_EXT_INT(dm->context, free_dm, dm)

/* Registers a part of the device memory. */
static inline struct ibv_mr *ibv_reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t dm_offset,
					   size_t length, unsigned int access)
	__IBV_EXT_PTR(pd->context, reg_dm_mr, pd, dm, dm_offset, length, access)

/* Copies to device memory. The device may require that dm_offset and length are multiples of 4. */
static inline int ibv_memcpy_to_dm(struct ibv_dm *dm, uint64_t dm_offset, const void *host_addr,
				   size_t length)
{
	return dm->memcpy_to_dm(dm, dm_offset, host_addr, length);
}

/* Copies from device memory, with the same restrictions. */
static inline int ibv_memcpy_from_dm(void *host_addr, struct ibv_dm *dm, uint64_t dm_offset, size_t length)
{
	return dm->memcpy_from_dm(host_addr, dm, dm_offset, length);
}

/*
 * Returns a new file descriptor for a dma-buf of the device memory, which the caller closes; -1 with errno on
 * failure.
 */
int ibv_dm_export_dmabuf_fd(struct ibv_dm *dm);

/* Imports device memory of another process by its handle. Release it with ibv_unimport_dm. */
struct ibv_dm *ibv_import_dm(struct ibv_context *context, uint32_t dm_handle);

/* Releases imported device memory. The memory itself remains. */
void ibv_unimport_dm(struct ibv_dm *dm);

/*
 * Verbs: memory windows
 */

/* Allocates a memory window, not bound yet. Free it with ibv_dealloc_mw. */
static inline struct ibv_mw *ibv_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	if (pd->context->ops.alloc_mw)
		return pd->context->ops.alloc_mw(pd, type);
	errno = EOPNOTSUPP;
	return NULL;
}

/* Frees a memory window. */
static inline int ibv_dealloc_mw(struct ibv_mw *mw)
{
	return mw->context->ops.dealloc_mw(mw);
}

/* The next rkey for a type 2 window: increments the low 8 bits. */
static inline uint32_t ibv_inc_rkey(uint32_t rkey)
{
	return (rkey & ~0xffU) | ((rkey + 1) & 0xffU);
}

/*
 * Posts a bind of a type 1 window to a QP. The window gets a new rkey. Fails with EINVAL if the window is not
 * of type 1, or if a range is given without a region; with EPERM if the region is in another protection
 * domain.
 */
static inline int ibv_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *mw_bind)
{
	const struct ibv_mw_bind_info *to = &mw_bind->bind_info;

	if (mw->type != IBV_MW_TYPE_1)
		return EINVAL;
	if (to->mr) {
		if (to->mr->pd != mw->pd)
			return EPERM;
	} else if (to->addr || to->length) {
		return EINVAL;
	}
	return mw->context->ops.bind_mw(qp, mw, mw_bind);
}

/*
 * Verbs: completion queues
 */

/* Creates a completion channel. Destroy it with ibv_destroy_comp_channel. */
struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context);

/* Destroys a completion channel. Fails with EBUSY while a CQ uses it. */
int ibv_destroy_comp_channel(struct ibv_comp_channel *channel);

/*
 * Creates a CQ for at least cqe completions. channel may be NULL. comp_vector, below num_comp_vectors of the
 * context, selects the interrupt that signals completions. Destroy it with ibv_destroy_cq.
 */
struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
			     struct ibv_comp_channel *channel, int comp_vector);

/* Creates an extended CQ. Destroy it by passing ibv_cq_ex_to_cq(cq) to ibv_destroy_cq. */
static inline struct ibv_cq_ex *ibv_create_cq_ex(struct ibv_context *context,
						 struct ibv_cq_init_attr_ex *cq_attr)
	__IBV_EXT_PTR(context, create_cq_ex, context, cq_attr)

/* The extended CQ as a plain CQ, for verbs that take one. */
static inline struct ibv_cq *ibv_cq_ex_to_cq(struct ibv_cq_ex *cq)
{
	return (struct ibv_cq *)cq;
}

/* Changes the capacity of a CQ to at least cqe completions. */
int ibv_resize_cq(struct ibv_cq *cq, int cqe);

/* Changes the completion moderation of a CQ. */
static inline int ibv_modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr)
	__IBV_EXT_INT(cq->context, modify_cq, cq, attr)

/* Destroys a CQ, after all its events are acknowledged. Fails with EBUSY while a QP uses it. */
int ibv_destroy_cq(struct ibv_cq *cq);

/* Removes up to num_entries completions from a CQ. Returns their number, or a negative value on failure. */
static inline int ibv_poll_cq(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc)
{
	return cq->context->ops.poll_cq(cq, num_entries, wc);
}

/*
 * Requests one completion event, for the next completion that is added to the CQ. With solicited_only, only
 * errors and receives of messages sent with IBV_SEND_SOLICITED count.
 */
static inline int ibv_req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	return cq->context->ops.req_notify_cq(cq, solicited_only);
}

/*
 * Waits for a completion event. A cancellation point. Returns 0 with the CQ and its cq_context, or -1 with
 * errno.
 */
int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context);

/* Acknowledges completion events. ibv_destroy_cq waits until all events are acknowledged. */
void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int nevents);

/* Description of a completion status. */
const char *ibv_wc_status_str(enum ibv_wc_status status);

/*
 * Starts polling: the first completion becomes the current one. Fails with ENOENT if there is none; do not
 * call ibv_end_poll then.
 */
static inline int ibv_start_poll(struct ibv_cq_ex *cq, struct ibv_poll_cq_attr *attr)
{
	return cq->start_poll(cq, attr);
}

/* Makes the next completion the current one. Fails with ENOENT if there is none. */
static inline int ibv_next_poll(struct ibv_cq_ex *cq)
{
	return cq->next_poll(cq);
}

/* Ends polling, after ibv_start_poll has returned 0. */
static inline void ibv_end_poll(struct ibv_cq_ex *cq)
{
	cq->end_poll(cq);
}

/*
 * Fields of the current completion; its wr_id and status are members of the CQ. All but the first three
 * functions require their flag of enum ibv_create_cq_wc_flags when the CQ is created.
 */
static inline enum ibv_wc_opcode ibv_wc_read_opcode(struct ibv_cq_ex *cq)
{
	return cq->read_opcode(cq);
}

static inline uint32_t ibv_wc_read_vendor_err(struct ibv_cq_ex *cq)
{
	return cq->read_vendor_err(cq);
}

static inline unsigned int ibv_wc_read_wc_flags(struct ibv_cq_ex *cq)
{
	return cq->read_wc_flags(cq);
}

static inline uint32_t ibv_wc_read_byte_len(struct ibv_cq_ex *cq)
{
	return cq->read_byte_len(cq);
}

static inline __be32 ibv_wc_read_imm_data(struct ibv_cq_ex *cq)
{
	return cq->read_imm_data(cq);
}

/* Invalidated rkey; takes the place of the immediate data. */
static inline uint32_t ibv_wc_read_invalidated_rkey(struct ibv_cq_ex *cq)
{
#ifdef __CHECKER__
	return (__attribute__((force)) uint32_t)cq->read_imm_data(cq);
#else
	return cq->read_imm_data(cq);
#endif
}

static inline uint32_t ibv_wc_read_qp_num(struct ibv_cq_ex *cq)
{
	return cq->read_qp_num(cq);
}

static inline uint32_t ibv_wc_read_src_qp(struct ibv_cq_ex *cq)
{
	return cq->read_src_qp(cq);
}

static inline uint32_t ibv_wc_read_slid(struct ibv_cq_ex *cq)
{
	return cq->read_slid(cq);
}

static inline uint8_t ibv_wc_read_sl(struct ibv_cq_ex *cq)
{
	return cq->read_sl(cq);
}

static inline uint8_t ibv_wc_read_dlid_path_bits(struct ibv_cq_ex *cq)
{
	return cq->read_dlid_path_bits(cq);
}

/* Timestamp in ticks of the device clock (hca_core_clock). */
static inline uint64_t ibv_wc_read_completion_ts(struct ibv_cq_ex *cq)
{
	return cq->read_completion_ts(cq);
}

/* Timestamp in nanoseconds of the real-time clock. */
static inline uint64_t ibv_wc_read_completion_wallclock_ns(struct ibv_cq_ex *cq)
{
	return cq->read_completion_wallclock_ns(cq);
}

static inline uint16_t ibv_wc_read_cvlan(struct ibv_cq_ex *cq)
{
	return cq->read_cvlan(cq);
}

static inline uint32_t ibv_wc_read_flow_tag(struct ibv_cq_ex *cq)
{
	return cq->read_flow_tag(cq);
}

static inline void ibv_wc_read_tm_info(struct ibv_cq_ex *cq, struct ibv_wc_tm_info *tm_info)
{
	cq->read_tm_info(cq, tm_info);
}

/*
 * Verbs: completion counters
 */

/* Queries the limits of completion counters. */
int _ibv_query_comp_cntr_caps(struct ibv_context *context, struct ibv_comp_cntr_caps *caps, size_t caps_size);
static inline int ibv_query_comp_cntr_caps(struct ibv_context *context, struct ibv_comp_cntr_caps *caps)
{
	return _ibv_query_comp_cntr_caps(context, caps, sizeof(*caps));
}

/* Creates a counter; its counts start at 0. Destroy it with ibv_destroy_comp_cntr. */
struct ibv_comp_cntr *ibv_create_comp_cntr(struct ibv_context *context,
					   struct ibv_comp_cntr_init_attr *cc_attr);

/* Destroys a counter. Fails with EBUSY while a QP uses it. */
int ibv_destroy_comp_cntr(struct ibv_comp_cntr *comp_cntr);

/* Set the count of successful or of failed completions. */
int ibv_set_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t value);
int ibv_set_err_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t value);

/* Add to the count of successful or of failed completions. */
int ibv_inc_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t amount);
int ibv_inc_err_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t amount);

/* Read the count of successful or of failed completions. */
int ibv_read_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t *value);
int ibv_read_err_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t *value);

/* Counts completions of a QP with a counter until the QP is destroyed. */
int ibv_qp_attach_comp_cntr(struct ibv_qp *qp, struct ibv_comp_cntr *comp_cntr,
			    struct ibv_qp_attach_comp_cntr_attr *attr);

/*
 * Verbs: shared receive queues
 */

/*
 * Creates an SRQ with at least the limits in srq_init_attr->attr, which returns the actual ones. Destroy it
 * with ibv_destroy_srq.
 */
struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *srq_init_attr);

/* Creates an SRQ of any type. Destroy it with ibv_destroy_srq. */
static inline struct ibv_srq *ibv_create_srq_ex(struct ibv_context *context,
						struct ibv_srq_init_attr_ex *srq_init_attr_ex)
{
	uint32_t mask = srq_init_attr_ex->comp_mask;
	int basic = !(mask & IBV_SRQ_INIT_ATTR_TYPE) || srq_init_attr_ex->srq_type == IBV_SRQT_BASIC;
	struct verbs_context *vctx;

	/* use ibv_create_srq if it can express the attributes */
	if (basic && (mask & ~(uint32_t)IBV_SRQ_INIT_ATTR_TYPE) == IBV_SRQ_INIT_ATTR_PD)
		return ibv_create_srq(srq_init_attr_ex->pd, (struct ibv_srq_init_attr *)srq_init_attr_ex);
	vctx = verbs_get_ctx_op(context, create_srq_ex);
	if (vctx)
		return vctx->create_srq_ex(context, srq_init_attr_ex);
	errno = EOPNOTSUPP;
	return NULL;
}

/* Resizes an SRQ or arms its limit event. srq_attr_mask is a mask of enum ibv_srq_attr_mask. */
int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *srq_attr, int srq_attr_mask);

/* Queries the limits of an SRQ. */
int ibv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *srq_attr);

/* Number of an XRC SRQ, which the remote side needs to send to it. */
static inline int ibv_get_srq_num(struct ibv_srq *srq, uint32_t *srq_num)
	__IBV_EXT_INT(srq->context, get_srq_num, srq, srq_num)

/* Destroys an SRQ, after all its events are acknowledged. Fails with EBUSY while a QP uses it. */
int ibv_destroy_srq(struct ibv_srq *srq);

/* Posts receives to an SRQ, as ibv_post_recv does to a QP. */
static inline int ibv_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *recv_wr,
				    struct ibv_recv_wr **bad_recv_wr)
{
	return srq->context->ops.post_srq_recv(srq, recv_wr, bad_recv_wr);
}

/* Posts tag operations. On failure, *bad_op is the first that was not posted. */
static inline int ibv_post_srq_ops(struct ibv_srq *srq, struct ibv_ops_wr *op, struct ibv_ops_wr **bad_op)
{
	struct verbs_context *vctx = verbs_get_ctx_op(srq->context, post_srq_ops);

	if (vctx)
		return vctx->post_srq_ops(srq, op, bad_op);
	*bad_op = op;
	return EOPNOTSUPP;
}

/*
 * Verbs: work queues
 */

/* Creates a work queue. Destroy it with ibv_destroy_wq. */
static inline struct ibv_wq *ibv_create_wq(struct ibv_context *context, struct ibv_wq_init_attr *wq_init_attr)
{
	struct verbs_context *vctx = verbs_get_ctx_op(context, create_wq);
	struct ibv_wq *wq;

	if (!vctx) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	wq = vctx->create_wq(context, wq_init_attr);
	if (wq) {
		pthread_cond_init(&wq->cond, NULL);
		pthread_mutex_init(&wq->mutex, NULL);
		wq->events_completed = 0;
		wq->wq_context = wq_init_attr->wq_context;
	}
	return wq;
}

/* Changes state or flags of a work queue. */
static inline int ibv_modify_wq(struct ibv_wq *wq, struct ibv_wq_attr *wq_attr)
	__IBV_EXT_INT(wq->context, modify_wq, wq, wq_attr)

/*
 * Destroys a work queue, after all its events are acknowledged. Fails with EBUSY while an indirection
 * table uses it.
 */
static inline int ibv_destroy_wq(struct ibv_wq *wq) __IBV_EXT_INT(wq->context, destroy_wq, wq)

/* Posts receives to a work queue, as ibv_post_recv does to a QP. */
static inline int ibv_post_wq_recv(struct ibv_wq *wq, struct ibv_recv_wr *recv_wr,
				   struct ibv_recv_wr **bad_recv_wr)
{
	return wq->post_recv(wq, recv_wr, bad_recv_wr);
}

/* Creates an indirection table. Destroy it with ibv_destroy_rwq_ind_table. */
static inline struct ibv_rwq_ind_table *ibv_create_rwq_ind_table(
	struct ibv_context *context, struct ibv_rwq_ind_table_init_attr *init_attr)
	__IBV_EXT_PTR(context, create_rwq_ind_table, context, init_attr)

/* Destroys an indirection table. Fails with EBUSY while a QP uses it. */
static inline int ibv_destroy_rwq_ind_table(struct ibv_rwq_ind_table *rwq_ind_table)
	__IBV_EXT_INT(rwq_ind_table->context, destroy_rwq_ind_table, rwq_ind_table)

/*
 * Verbs: queue pairs
 */

/* Creates a QP in the Reset state. Destroy it with ibv_destroy_qp. */
struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *qp_init_attr);

/* Creates a QP with extended attributes. Destroy it with ibv_destroy_qp. */
static inline struct ibv_qp *ibv_create_qp_ex(struct ibv_context *context,
					      struct ibv_qp_init_attr_ex *qp_init_attr_ex)
{
	struct verbs_context *vctx;

	/* use ibv_create_qp if it can express the attributes */
	if (qp_init_attr_ex->comp_mask == IBV_QP_INIT_ATTR_PD)
		return ibv_create_qp(qp_init_attr_ex->pd, (struct ibv_qp_init_attr *)qp_init_attr_ex);
	vctx = verbs_get_ctx_op(context, create_qp_ex);
	if (vctx)
		return vctx->create_qp_ex(context, qp_init_attr_ex);
	errno = EOPNOTSUPP;
	return NULL;
}

/* Opens a shared QP (IBV_QPT_XRC_RECV) of another process by its number. Release it with ibv_destroy_qp. */
static inline struct ibv_qp *ibv_open_qp(struct ibv_context *context, struct ibv_qp_open_attr *qp_open_attr)
	__IBV_EXT_PTR(context, open_qp, context, qp_open_attr)

/* Extended form of a QP that was created with send_ops_flags; NULL for any other QP. */
struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp);

/* Changes the attributes that attr_mask, a mask of enum ibv_qp_attr_mask, selects. */
int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask);

/* Changes the send rate of a QP. */
static inline int ibv_modify_qp_rate_limit(struct ibv_qp *qp, struct ibv_qp_rate_limit_attr *attr)
	__IBV_EXT_INT(qp->context, modify_qp_rate_limit, qp, attr)

/*
 * Queries a QP. At least the attributes in attr_mask are valid afterwards; the provider may return
 * more.
 */
int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask,
		 struct ibv_qp_init_attr *init_attr);

/*
 * Whether the data of an operation is written to memory in order. Returns 1 or 0, or with
 * IBV_QUERY_QP_DATA_IN_ORDER_RETURN_CAPS a mask of enum ibv_query_qp_data_in_order_caps. flags is a mask of
 * enum ibv_query_qp_data_in_order_flags.
 */
int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags);

/*
 * Destroys a QP, after all its events are acknowledged. Fails with EBUSY while it is attached to a multicast
 * group.
 */
int ibv_destroy_qp(struct ibv_qp *qp);

/* Sets the ECE options that the remote side offered. Fails with EOPNOTSUPP if ece->vendor_id is 0. */
int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece);

/* Queries the ECE options to offer to the remote side. */
int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece);

/*
 * Posts send WRs. On failure, *bad_wr is the first that was not posted; those before it are posted. Buffers
 * must not be changed or freed until the WR has completed.
 */
static inline int ibv_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
{
	return qp->context->ops.post_send(qp, wr, bad_wr);
}

/*
 * Posts receive WRs. On failure, *bad_wr is the first that was not posted; those before it are posted.
 * Buffers belong to the device until the WR has completed.
 */
static inline int ibv_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	return qp->context->ops.post_recv(qp, wr, bad_wr);
}

/* Name of a send operation. */
const char *ibv_wr_opcode_str(enum ibv_wr_opcode opcode);

/* Attaches a UD QP to a multicast group, so that it receives the group's messages. lid is 0 on Ethernet. */
int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);

/* Detaches a QP from a multicast group. */
int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);

/*
 * Verbs: extended work requests. Build a batch of WRs between ibv_wr_start, which locks the send queue, and
 * ibv_wr_complete or ibv_wr_abort, which unlock it. For each WR set wr_id and wr_flags of the QP, call an
 * operation, then set the destination (ibv_wr_set_ud_addr, ibv_wr_set_xrc_srqn) if the QP type needs one,
 * then the data.
 */

/* Starts a batch. */
static inline void ibv_wr_start(struct ibv_qp_ex *qp)
{
	qp->wr_start(qp);
}

/* Posts all WRs of the batch; on failure none is posted. */
static inline int ibv_wr_complete(struct ibv_qp_ex *qp)
{
	return qp->wr_complete(qp);
}

/* Discards the batch. */
static inline void ibv_wr_abort(struct ibv_qp_ex *qp)
{
	qp->wr_abort(qp);
}

/* Operations. Each corresponds to the opcode IBV_WR_* of the same name. */
static inline void ibv_wr_atomic_cmp_swp(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr,
					 uint64_t compare, uint64_t swap)
{
	qp->wr_atomic_cmp_swp(qp, rkey, remote_addr, compare, swap);
}

static inline void ibv_wr_atomic_fetch_add(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr,
					   uint64_t add)
{
	qp->wr_atomic_fetch_add(qp, rkey, remote_addr, add);
}

/* Writes 8 bytes atomically. */
static inline void ibv_wr_atomic_write(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr,
				       const void *atomic_wr)
{
	qp->wr_atomic_write(qp, rkey, remote_addr, atomic_wr);
}

static inline void ibv_wr_bind_mw(struct ibv_qp_ex *qp, struct ibv_mw *mw, uint32_t rkey,
				  const struct ibv_mw_bind_info *bind_info)
{
	qp->wr_bind_mw(qp, mw, rkey, bind_info);
}

/*
 * Flushes earlier writes. type is a mask of enum ibv_placement_type; level is one of enum
 * ibv_selectivity_level.
 */
static inline void ibv_wr_flush(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr, size_t len,
				uint8_t type, uint8_t level)
{
	qp->wr_flush(qp, rkey, remote_addr, len, type, level);
}

static inline void ibv_wr_local_inv(struct ibv_qp_ex *qp, uint32_t invalidate_rkey)
{
	qp->wr_local_inv(qp, invalidate_rkey);
}

static inline void ibv_wr_rdma_read(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr)
{
	qp->wr_rdma_read(qp, rkey, remote_addr);
}

static inline void ibv_wr_rdma_write(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr)
{
	qp->wr_rdma_write(qp, rkey, remote_addr);
}

static inline void ibv_wr_rdma_write_imm(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr,
					 __be32 imm_data)
{
	qp->wr_rdma_write_imm(qp, rkey, remote_addr, imm_data);
}

static inline void ibv_wr_send(struct ibv_qp_ex *qp)
{
	qp->wr_send(qp);
}

static inline void ibv_wr_send_imm(struct ibv_qp_ex *qp, __be32 imm_data)
{
	qp->wr_send_imm(qp, imm_data);
}

static inline void ibv_wr_send_inv(struct ibv_qp_ex *qp, uint32_t invalidate_rkey)
{
	qp->wr_send_inv(qp, invalidate_rkey);
}

/* hdr is read before ibv_wr_complete returns. mss is the payload per segment. */
static inline void ibv_wr_send_tso(struct ibv_qp_ex *qp, void *hdr, uint16_t hdr_sz, uint16_t mss)
{
	qp->wr_send_tso(qp, hdr, hdr_sz, mss);
}

/* Sets the destination of a UD message. */
static inline void ibv_wr_set_ud_addr(struct ibv_qp_ex *qp, struct ibv_ah *ah, uint32_t remote_qpn,
				      uint32_t remote_qkey)
{
	qp->wr_set_ud_addr(qp, ah, remote_qpn, remote_qkey);
}

/* Sets the remote SRQ of an XRC message. */
static inline void ibv_wr_set_xrc_srqn(struct ibv_qp_ex *qp, uint32_t remote_srqn)
{
	qp->wr_set_xrc_srqn(qp, remote_srqn);
}

/* Sets the data, which is copied at once: the buffers can be reused when the call returns. */
static inline void ibv_wr_set_inline_data(struct ibv_qp_ex *qp, void *addr, size_t length)
{
	qp->wr_set_inline_data(qp, addr, length);
}

static inline void ibv_wr_set_inline_data_list(struct ibv_qp_ex *qp, size_t num_buf,
					       const struct ibv_data_buf *buf_list)
{
	qp->wr_set_inline_data_list(qp, num_buf, buf_list);
}

/* Sets the data as buffers in memory regions. sg_list itself is copied. */
static inline void ibv_wr_set_sge(struct ibv_qp_ex *qp, uint32_t lkey, uint64_t addr, uint32_t length)
{
	qp->wr_set_sge(qp, lkey, addr, length);
}

static inline void ibv_wr_set_sge_list(struct ibv_qp_ex *qp, size_t num_sge, const struct ibv_sge *sg_list)
{
	qp->wr_set_sge_list(qp, num_sge, sg_list);
}

/*
 * Verbs: address handles
 */

/* Creates an address handle. Destroy it with ibv_destroy_ah, after the WRs that use it have completed. */
struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr);

/*
 * Fills in the path to the sender of a received UD message. grh points to the first 40 bytes of the receive
 * buffer. Returns 0, or -1 with errno.
 */
int ibv_init_ah_from_wc(struct ibv_context *context, uint8_t port_num, struct ibv_wc *wc, struct ibv_grh *grh,
			struct ibv_ah_attr *ah_attr);

/* Creates an address handle for replies to a received UD message. Destroy it with ibv_destroy_ah. */
struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh,
				     uint8_t port_num);

/* Destroys an address handle. */
int ibv_destroy_ah(struct ibv_ah *ah);

/*
 * Resolves attr->grh.dgid to a MAC address and, unless vid is NULL, a VLAN ID (0xffff: none). May block for 3
 * seconds. Returns 0, or a negative value on failure.
 */
int ibv_resolve_eth_l2_from_gid(struct ibv_context *context, struct ibv_ah_attr *attr,
				uint8_t eth_mac[ETHERNET_LL_SIZE], uint16_t *vid);

/*
 * Convert between a rate and a multiple of 2.5 Gbit/s. A rate without a multiple gives -1; a multiple without
 * a rate gives IBV_RATE_MAX.
 */
int ibv_rate_to_mult(enum ibv_rate rate) __attribute__((__const__));
enum ibv_rate mult_to_ibv_rate(int mult) __attribute__((__const__));

/* Convert between a rate and Mbit/s. An unknown rate gives -1; a value without a rate gives IBV_RATE_MAX. */
int ibv_rate_to_mbps(enum ibv_rate rate) __attribute__((__const__));
enum ibv_rate mbps_to_ibv_rate(int mbps) __attribute__((__const__));

/* Range of UDP source ports of RoCE v2, and mask of a flow label. */
#define IB_ROCE_UDP_ENCAP_VALID_PORT_MIN (0xC000)
#define IB_ROCE_UDP_ENCAP_VALID_PORT_MAX (0xFFFF)
#define IB_GRH_FLOWLABEL_MASK (0x000FFFFF)

/* UDP source port for a flow label: folds its high 6 bits into the low 14. */
static inline uint16_t ibv_flow_label_to_udp_sport(uint32_t fl)
{
	fl &= IB_GRH_FLOWLABEL_MASK;
	return (uint16_t)(IB_ROCE_UDP_ENCAP_VALID_PORT_MIN | ((fl ^ (fl >> 14)) & 0x3fff));
}

/*
 * Verbs: flow steering
 */

/* Create a flow, which steers packets to a QP, and destroy it. */
static inline struct ibv_flow *ibv_create_flow(struct ibv_qp *qp, struct ibv_flow_attr *flow)
	__IBV_EXT_PTR(qp->context, ibv_create_flow, qp, flow)

static inline int ibv_destroy_flow(struct ibv_flow *flow_id)
	__IBV_EXT_INT(flow_id->context, ibv_destroy_flow, flow_id)

/* Creates an ESP flow action. Destroy it with ibv_destroy_flow_action. */
static inline struct ibv_flow_action *ibv_create_flow_action_esp(struct ibv_context *ctx,
								 struct ibv_flow_action_esp_attr *esp)
	__IBV_EXT_PTR(ctx, create_flow_action_esp, ctx, esp)

/* Changes an ESP flow action. */
static inline int ibv_modify_flow_action_esp(struct ibv_flow_action *action,
					     struct ibv_flow_action_esp_attr *esp)
	__IBV_EXT_INT(action->context, modify_flow_action_esp, action, esp)

/* Destroys a flow action. Fails with EBUSY while a flow uses it. */
static inline int ibv_destroy_flow_action(struct ibv_flow_action *action)
	__IBV_EXT_INT(action->context, destroy_flow_action, action)

/* Creates a set of flow counters. Destroy it with ibv_destroy_counters. */
static inline struct ibv_counters *ibv_create_counters(struct ibv_context *context,
						       struct ibv_counters_init_attr *init_attr)
	__IBV_EXT_PTR(context, create_counters, context, init_attr)

/* Destroys a set of flow counters. Fails with EBUSY while a flow uses it. */
static inline int ibv_destroy_counters(struct ibv_counters *counters)
	__IBV_EXT_INT(counters->context, destroy_counters, counters)

/*
 * Defines what one counter of a set counts: for one flow or, if flow is NULL, for all flows bound to
 * the set.
 */
static inline int ibv_attach_counters_point_flow(struct ibv_counters *counters,
						 struct ibv_counter_attach_attr *attr, struct ibv_flow *flow)
	__IBV_EXT_INT(counters->context, attach_counters_point_flow, counters, attr, flow)

/* Reads the counters of a set. flags is a mask of enum ibv_read_counters_flags. */
static inline int ibv_read_counters(struct ibv_counters *counters, uint64_t *counters_value,
				    uint32_t ncounters, uint32_t flags)
	__IBV_EXT_INT(counters->context, read_counters, counters, counters_value, ncounters, flags)

#undef __IBV_EXT_INT
#undef __IBV_EXT_PTR
#undef __IBV_MORE_IN_ASYNC_EVENT
#undef __IBV_MORE_IN_SRQ
#undef __IBV_MORE_IN_QP_INIT_ATTR
#undef __IBV_BESIDE_QP_TYPE

#ifdef __cplusplus
}
#endif

#endif
