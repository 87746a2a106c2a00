/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * RDMA verbs: the interface of libibverbs, up to IBVERBS_1.18.
 *
 * Written for libibverbs-rs. Names, values and layouts are those of rdma-core's library, so that programs
 * compile and run with either.
 *
 * Where a comment says nothing else:
 *  - a verb that returns a pointer returns NULL when it fails, and errno says why;
 *  - a verb that returns an int returns 0, or an errno value;
 *  - a verb that the device's provider does not have fails with EOPNOTSUPP;
 *  - lengths and sizes are in bytes, and numbers in the host's byte order unless their type is a __be one;
 *  - what a verb allocates is the program's until it calls the verb that frees it. Objects made of others go
 *    first: a completion queue after its queue pairs, a domain after what lives in it;
 *  - any thread may call any verb at any time, but nobody else may use an object that is being destroyed.
 *
 * Attributes with a comp_mask hold newer members whose bits are set there; all other bits must be 0.
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
#include <limits> /* not needed here, but programs may count on it */
#endif

#include <linux/if_ether.h>
#include <linux/types.h>

#include <infiniband/verbs_api.h>

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

/* A port's 128-bit address, in form an IPv6 address; in network byte order. */
union ibv_gid {
	uint8_t raw[16];
	struct {
		__be64 subnet_prefix;
		__be64 interface_id;
	} global;
};

/* What packets from a GID look like: InfiniBand, RoCE v1 (Ethernet type 0x8915) or v2 (UDP port 4791). */
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
	uint32_t ndev_ifindex; /* of the network interface whose address it is; 0 for none */
};

/*
 * Devices
 */

/* What stands behind a device's ports. */
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

/* What carries a device's packets. RoCE counts as InfiniBand; the link layer of the port tells them apart. */
enum ibv_transport_type {
	IBV_TRANSPORT_UNKNOWN = -1,
	IBV_TRANSPORT_IB = 0,
	IBV_TRANSPORT_IWARP = 1,
	IBV_TRANSPORT_USNIC = 2,
	IBV_TRANSPORT_USNIC_UDP = 3,
	IBV_TRANSPORT_UNSPECIFIED = 4
};

/* Sizes of the names in struct ibv_device, with their final zero. */
enum {
	IBV_SYSFS_NAME_MAX = 64,
	IBV_SYSFS_PATH_MAX = 256
};

/* Nobody calls these: they keep the place of what was here once. */
struct _ibv_device_ops {
	struct ibv_context *(*_dummy1)(struct ibv_device *device, int cmd_fd);
	void (*_dummy2)(struct ibv_context *context);
};

/* A device. The library's: it lives while a list or an open context holds it. Programs may read all of it. */
struct ibv_device {
	struct _ibv_device_ops _ops;
	enum ibv_node_type node_type;
	enum ibv_transport_type transport_type;
	char name[IBV_SYSFS_NAME_MAX];       /* the kernel's, "rxe0" */
	char dev_name[IBV_SYSFS_NAME_MAX];   /* of its character device, "uverbs0" */
	char dev_path[IBV_SYSFS_PATH_MAX];   /* in sysfs, under infiniband_verbs */
	char ibdev_path[IBV_SYSFS_PATH_MAX]; /* in sysfs, under infiniband */
};

/* What a device can do, as bits of device_cap_flags and device_cap_flags_ex. */
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

/* More of them, which only the 64 bits of device_cap_flags_ex have room for. */
#define IBV_DEVICE_RAW_SCATTER_FCS (1ULL << 34)
#define IBV_DEVICE_PCI_WRITE_END_PADDING (1ULL << 36)
#define IBV_DEVICE_CC_DMA_BOUNCE (1ULL << 41) /* a confidential guest's memory is copied for the device */

/* Towards whom a device's atomic operations are atomic: nobody, itself, or the processors too. */
enum ibv_atomic_cap {
	IBV_ATOMIC_NONE,
	IBV_ATOMIC_HCA,
	IBV_ATOMIC_GLOB
};

/* A device's identity and limits (ibv_query_device). */
struct ibv_device_attr {
	char fw_ver[64]; /* text */
	__be64 node_guid;
	__be64 sys_image_guid;
	uint64_t max_mr_size;
	uint64_t page_size_cap; /* bit n: pages of 2^n bytes */
	uint32_t vendor_id;
	uint32_t vendor_part_id;
	uint32_t hw_ver;
	int max_qp;
	int max_qp_wr;
	unsigned int device_cap_flags; /* enum ibv_device_cap_flags */
	int max_sge;                   /* of a send or a receive */
	int max_sge_rd;                /* of an RDMA read */
	int max_cq;
	int max_cqe;
	int max_mr;
	int max_pd;
	int max_qp_rd_atom; /* reads and atomics that a queue pair can answer at once */
	int max_ee_rd_atom;
	int max_res_rd_atom;     /* ... that all of them together can */
	int max_qp_init_rd_atom; /* ... that a queue pair can have asked for */
	int max_ee_init_rd_atom;
	enum ibv_atomic_cap atomic_cap;
	int max_ee;
	int max_rdd;
	int max_mw;
	int max_raw_ipv6_qp;
	int max_raw_ethy_qp;
	int max_mcast_grp;
	int max_mcast_qp_attach;       /* queue pairs in a group */
	int max_total_mcast_qp_attach; /* ... in all groups */
	int max_ah;
	int max_fmr;
	int max_map_per_fmr;
	int max_srq;
	int max_srq_wr;
	int max_srq_sge;
	uint16_t max_pkeys;
	uint8_t local_ca_ack_delay; /* 4.096 us * 2^n */
	uint8_t phys_port_cnt;      /* see also phys_port_cnt_ex */
};

/* On-demand paging at all, and of the whole address space. */
enum ibv_odp_general_caps {
	IBV_ODP_SUPPORT = 1 << 0,
	IBV_ODP_SUPPORT_IMPLICIT = 1 << 1
};

/* The operations that may meet pages that are not present. */
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

/* On-demand paging: enum ibv_odp_general_caps, and enum ibv_odp_transport_cap_bits of each transport. */
struct ibv_odp_caps {
	uint64_t general_caps;
	struct {
		uint32_t rc_odp_caps;
		uint32_t uc_odp_caps;
		uint32_t ud_odp_caps;
	} per_transport_caps;
};

/* Large sends that the device cuts up. */
struct ibv_tso_caps {
	uint32_t max_tso;        /* the longest payload; 0 for none */
	uint32_t supported_qpts; /* bit n: queue pair type n (ibv_is_qpt_supported) */
};

/* Hash functions that spread received packets. */
enum ibv_rx_hash_function_flags {
	IBV_RX_HASH_FUNC_TOEPLITZ = 1 << 0
};

/* Header fields that they cover: the outer headers', or with INNER those in a tunnel. */
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

/* Received packets spread over work queues. */
struct ibv_rss_caps {
	uint32_t supported_qpts; /* bit n: queue pair type n */
	uint32_t max_rwq_indirection_tables;
	uint32_t max_rwq_indirection_table_size; /* entries */
	uint64_t rx_hash_fields_mask;            /* enum ibv_rx_hash_fields */
	uint8_t rx_hash_function;                /* enum ibv_rx_hash_function_flags */
};

/* Limits of a queue pair's rate, in kilobits per second; both 0 where there is no pacing. */
struct ibv_packet_pacing_caps {
	uint32_t qp_rate_limit_min;
	uint32_t qp_rate_limit_max;
	uint32_t supported_qpts; /* bit n: queue pair type n */
};

/* What raw Ethernet queue pairs and work queues can do. */
enum ibv_raw_packet_caps {
	IBV_RAW_PACKET_CAP_CVLAN_STRIPPING = 1 << 0,
	IBV_RAW_PACKET_CAP_SCATTER_FCS = 1 << 1,
	IBV_RAW_PACKET_CAP_IP_CSUM = 1 << 2,
	IBV_RAW_PACKET_CAP_DELAY_DROP = 1 << 3
};

/* Transports with tag matching. */
enum ibv_tm_cap_flags {
	IBV_TM_CAP_RC = 1 << 0
};

/* Tag matching by the device. */
struct ibv_tm_caps {
	uint32_t max_rndv_hdr_size;
	uint32_t max_num_tags;
	uint32_t flags; /* enum ibv_tm_cap_flags */
	uint32_t max_ops;
	uint32_t max_sge; /* of a tagged buffer */
};

/* Limits of completion moderation: completions, and microseconds. */
struct ibv_cq_moderation_caps {
	uint16_t max_cq_count;
	uint16_t max_cq_period;
};

/* Sizes of atomic operations over PCI. */
enum ibv_pci_atomic_op_size {
	IBV_PCI_ATOMIC_OPERATION_4_BYTE_SIZE_SUP = 1 << 0,
	IBV_PCI_ATOMIC_OPERATION_8_BYTE_SIZE_SUP = 1 << 1,
	IBV_PCI_ATOMIC_OPERATION_16_BYTE_SIZE_SUP = 1 << 2
};

/* Atomic operations over PCI, each with its enum ibv_pci_atomic_op_size. */
struct ibv_pci_atomic_caps {
	uint16_t fetch_add;
	uint16_t swap;
	uint16_t compare_swap;
};

/* What to ask ibv_query_device_ex for: nothing yet. */
struct ibv_query_device_ex_input {
	uint32_t comp_mask; /* 0 */
};

/* All that is known of a device (ibv_query_device_ex); 0 stands for what it cannot do. */
struct ibv_device_attr_ex {
	struct ibv_device_attr orig_attr;
	uint32_t comp_mask;
	struct ibv_odp_caps odp_caps;
	uint64_t completion_timestamp_mask; /* the bits of a time stamp that count */
	uint64_t hca_core_clock;            /* of the time stamps, in kHz */
	uint64_t device_cap_flags_ex;
	struct ibv_tso_caps tso_caps;
	struct ibv_rss_caps rss_caps;
	uint32_t max_wq_type_rq;
	struct ibv_packet_pacing_caps packet_pacing_caps;
	uint32_t raw_packet_caps; /* enum ibv_raw_packet_caps */
	struct ibv_tm_caps tm_caps;
	struct ibv_cq_moderation_caps cq_mod_caps;
	uint64_t max_dm_size; /* of the device's own memory */
	struct ibv_pci_atomic_caps pci_atomic_caps;
	uint32_t xrc_odp_caps;     /* enum ibv_odp_transport_cap_bits */
	uint32_t phys_port_cnt_ex; /* where 8 bits do not suffice */
};

/*
 * Ports
 */

/* The largest payload of a packet: 128 << n bytes. */
enum ibv_mtu {
	IBV_MTU_256 = 1,
	IBV_MTU_512 = 2,
	IBV_MTU_1024 = 3,
	IBV_MTU_2048 = 4,
	IBV_MTU_4096 = 5
};

/* State of a port's link. */
enum ibv_port_state {
	IBV_PORT_NOP = 0,
	IBV_PORT_DOWN = 1,
	IBV_PORT_INIT = 2,
	IBV_PORT_ARMED = 3,
	IBV_PORT_ACTIVE = 4,
	IBV_PORT_ACTIVE_DEFER = 5
};

/* link_layer of a port. */
enum {
	IBV_LINK_LAYER_UNSPECIFIED,
	IBV_LINK_LAYER_INFINIBAND,
	IBV_LINK_LAYER_ETHERNET
};

/* port_cap_flags of a port: PortInfo's CapabilityMask. */
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

/* port_cap_flags2 of a port: PortInfo's CapabilityMask2. */
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

/* A port's state and limits (ibv_query_port). */
struct ibv_port_attr {
	enum ibv_port_state state;
	enum ibv_mtu max_mtu;
	enum ibv_mtu active_mtu;
	int gid_tbl_len;         /* entries, the empty ones too */
	uint32_t port_cap_flags; /* enum ibv_port_cap_flags */
	uint32_t max_msg_sz;
	uint32_t bad_pkey_cntr;
	uint32_t qkey_viol_cntr;
	uint16_t pkey_tbl_len; /* entries */
	uint16_t lid;          /* 0 on Ethernet */
	uint16_t sm_lid;
	uint8_t lmc;
	uint8_t max_vl_num; /* a code */
	uint8_t sm_sl;
	uint8_t subnet_timeout; /* 4.096 us * 2^n */
	uint8_t init_type_reply;
	uint8_t active_width; /* lanes, as a code: 1, 2, 4, 8, 16 are 1, 4, 8, 12, 2 of them */
	uint8_t active_speed; /* of a lane, as a code: 1 is 2.5 Gb/s, 2: 5, 4 and 8: 10, 16: 14, 32: 25, 64:
				 50 */
	uint8_t phys_state;   /* a code: 5 is up */
	uint8_t link_layer;
	uint8_t flags;            /* IBV_QPF_GRH_REQUIRED */
	uint16_t port_cap_flags2; /* enum ibv_port_cap_flags2 */
	uint32_t active_speed_ex; /* where 8 bits do not suffice; 0: active_speed holds */
};

/*
 * Asynchronous events
 */

/* What has happened. To a completion queue, a queue pair, a port, a shared receive queue, a work queue ... */
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
	IBV_EVENT_DEVICE_SPEED_CHANGE /* of a port */
};

/* An event; its type says which member of element holds. Each must be acknowledged. */
struct ibv_async_event {
	union {
		struct ibv_cq *cq;
		struct ibv_qp *qp;
		struct ibv_srq *srq;
		struct ibv_wq *wq;
		int port_num;
	} element;
	enum ibv_event_type event_type;
};

/*
 * Work completions
 */

/* How a work request ended. */
enum ibv_wc_status {
	IBV_WC_SUCCESS,
	IBV_WC_LOC_LEN_ERR,
	IBV_WC_LOC_QP_OP_ERR,
	IBV_WC_LOC_EEC_OP_ERR,
	IBV_WC_LOC_PROT_ERR,
	IBV_WC_WR_FLUSH_ERR, /* it was not done: the queue was in error already */
	IBV_WC_MW_BIND_ERR,
	IBV_WC_BAD_RESP_ERR,
	IBV_WC_LOC_ACCESS_ERR,
	IBV_WC_REM_INV_REQ_ERR,
	IBV_WC_REM_ACCESS_ERR,
	IBV_WC_REM_OP_ERR,
	IBV_WC_RETRY_EXC_ERR,     /* the other side does not answer */
	IBV_WC_RNR_RETRY_EXC_ERR, /* ... has posted no receive */
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

/* What was completed. Bit 7 tells receives from sends. */
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
	IBV_WC_DRIVER1 = 135, /* the provider's own, and the next two */
	IBV_WC_DRIVER2 = 136,
	IBV_WC_DRIVER3 = 137
};

/* The place of the bit IBV_WC_IP_CSUM_OK. */
enum {
	IBV_WC_IP_CSUM_OK_SHIFT = 2
};

/* What else is known of a completion: wc_flags. */
enum ibv_wc_flags {
	IBV_WC_GRH = 1 << 0,      /* the first 40 bytes of the buffer are a struct ibv_grh */
	IBV_WC_WITH_IMM = 1 << 1, /* imm_data holds */
	IBV_WC_IP_CSUM_OK = 1 << IBV_WC_IP_CSUM_OK_SHIFT,
	IBV_WC_WITH_INV = 1 << 3, /* invalidated_rkey holds */
	IBV_WC_TM_SYNC_REQ = 1 << 4,
	IBV_WC_TM_MATCH = 1 << 5,
	IBV_WC_TM_DATA_VALID = 1 << 6
};

/* A completion. With an error only wr_id, status, qp_num and vendor_err hold. */
struct ibv_wc {
	uint64_t wr_id; /* the request's */
	enum ibv_wc_status status;
	enum ibv_wc_opcode opcode;
	uint32_t vendor_err;
	uint32_t byte_len; /* received, read or atomic; of a datagram with its global route header */
	__extension__ union {
		__be32 imm_data;
		uint32_t invalidated_rkey;
	};
	uint32_t qp_num;
	uint32_t src_qp;       /* the sender's, of a datagram */
	unsigned int wc_flags; /* enum ibv_wc_flags */
	uint16_t pkey_index;
	uint16_t slid;
	uint8_t sl;
	uint8_t dlid_path_bits;
};

/* The fields that an extended completion queue shall be able to give: wc_flags of its attributes. */
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

/* All that struct ibv_wc has; and all that this library knows. */
enum {
	IBV_WC_STANDARD_FLAGS = 0x7f
};
enum {
	IBV_CREATE_CQ_SUP_WC_FLAGS = 0xfff
};

/* Tag and private data of a message that tag matching has received. */
struct ibv_wc_tm_info {
	uint64_t tag;
	uint32_t priv;
};

/*
 * Protection domains, thread domains, XRC domains
 */

/* A protection domain: objects work together within one only. */
struct ibv_pd {
	struct ibv_context *context;
	uint32_t handle;
};

/* A thread domain: a promise that one thread at a time uses its objects. */
struct ibv_td {
	struct ibv_context *context;
};

/* How to make a thread domain: nothing to say yet. */
struct ibv_td_init_attr {
	uint32_t comp_mask; /* 0 */
};

/* The members of struct ibv_parent_domain_init_attr that hold. */
enum ibv_parent_domain_init_attr_mask {
	IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS = 1 << 0, /* alloc and free */
	IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT = 1 << 1,
	/* no member: in a confidential guest, alloc may give memory that the device cannot reach by itself */
	IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC = 1 << 2
};

/* What alloc returns to let the provider allocate. */
#define IBV_ALLOCATOR_USE_DEFAULT ((void *)-1)

/* A protection domain upon another, with a thread domain and an allocator for what providers allocate. */
struct ibv_parent_domain_init_attr {
	struct ibv_pd *pd;  /* required */
	struct ibv_td *td;  /* may be NULL */
	uint32_t comp_mask; /* enum ibv_parent_domain_init_attr_mask */
	/* NULL: no memory. resource_type is the provider's word for what it is for. */
	void *(*alloc)(struct ibv_pd *pd, void *pd_context, size_t size, size_t alignment,
		       uint64_t resource_type);
	void (*free)(struct ibv_pd *pd, void *pd_context, void *ptr, uint64_t resource_type);
	void *pd_context;
};

/* The members of struct ibv_xrcd_init_attr that hold; both must. */
enum ibv_xrcd_init_attr_mask {
	IBV_XRCD_INIT_ATTR_FD = 1 << 0,
	IBV_XRCD_INIT_ATTR_OFLAGS = 1 << 1,
	IBV_XRCD_INIT_ATTR_RESERVED = 1 << 2
};

/* The XRC domain to open: processes share the one of a file. */
struct ibv_xrcd_init_attr {
	uint32_t comp_mask;
	int fd;     /* -1: one of its own */
	int oflags; /* O_CREAT, O_EXCL */
};

/* A domain of extended reliable connections. */
struct ibv_xrcd {
	struct ibv_context *context;
};

/*
 * Memory
 */

/* Who may do what with memory. Those of IBV_ACCESS_OPTIONAL_RANGE are hints: not every kernel knows them. */
enum ibv_access_flags {
	IBV_ACCESS_LOCAL_WRITE =
		1 << 0, /* receives, reads and atomics land here; remote writing needs it too */
	IBV_ACCESS_REMOTE_WRITE = 1 << 1,
	IBV_ACCESS_REMOTE_READ = 1 << 2,
	IBV_ACCESS_REMOTE_ATOMIC = 1 << 3,
	IBV_ACCESS_MW_BIND = 1 << 4,
	IBV_ACCESS_ZERO_BASED = 1 << 5, /* addresses begin at 0 */
	IBV_ACCESS_ON_DEMAND = 1 << 6,  /* pages need not be present */
	IBV_ACCESS_HUGETLB = 1 << 7,    /* on-demand, of huge pages */
	IBV_ACCESS_FLUSH_GLOBAL = 1 << 8,
	IBV_ACCESS_FLUSH_PERSISTENT = 1 << 9,
	IBV_ACCESS_RELAXED_ORDERING = IBV_ACCESS_OPTIONAL_FIRST
};

/* Registered memory. */
struct ibv_mr {
	struct ibv_context *context;
	struct ibv_pd *pd;
	void *addr;
	size_t length;
	uint32_t handle;
	uint32_t lkey; /* names it in scatter/gather entries */
	uint32_t rkey; /* ... in remote requests */
};

/* Hints for the device's accesses to memory. */
struct ibv_dmah {
	struct ibv_context *context;
};

/* What kind of memory the hints are about: volatile or persistent. */
enum ibv_tph_mem_type {
	IBV_TPH_MEM_TYPE_VM,
	IBV_TPH_MEM_TYPE_PM
};

/* The members of struct ibv_dmah_init_attr that hold. */
enum ibv_dmah_init_attr_mask {
	IBV_DMAH_INIT_ATTR_MASK_CPU_ID = 1 << 0,
	IBV_DMAH_INIT_ATTR_MASK_PH = 1 << 1,
	IBV_DMAH_INIT_ATTR_MASK_TPH_MEM_TYPE = 1 << 2
};

/* The hints: of PCI's TLP processing hints, and the processor that the data is for. */
struct ibv_dmah_init_attr {
	uint32_t comp_mask; /* enum ibv_dmah_init_attr_mask */
	uint32_t cpu_id;
	uint8_t ph;
	uint8_t tph_mem_type; /* enum ibv_tph_mem_type */
};

/* The members of struct ibv_mr_init_attr that hold. */
enum ibv_mr_init_attr_mask {
	IBV_REG_MR_MASK_IOVA = 1 << 0,
	IBV_REG_MR_MASK_ADDR = 1 << 1,
	IBV_REG_MR_MASK_FD = 1 << 2,
	IBV_REG_MR_MASK_FD_OFFSET = 1 << 3,
	IBV_REG_MR_MASK_DMAH = 1 << 4,
	IBV_REG_MR_MASK_BUF = 1 << 5
};

/* What ibv_reg_mr_ex registers: memory, a part of a dma-buf, or a part of a buffer of ibv_alloc_buf. */
struct ibv_mr_init_attr {
	size_t length;
	int access;         /* enum ibv_access_flags */
	uint64_t comp_mask; /* enum ibv_mr_init_attr_mask */
	uint64_t iova;      /* the address that the device shall see */
	void *addr;
	int fd; /* of a dma-buf */
	uint64_t fd_offset;
	struct ibv_dmah *dmah;
	struct ibv_buf *buf;
};

/* What ibv_rereg_mr changes. */
enum ibv_rereg_mr_flags {
	IBV_REREG_MR_CHANGE_TRANSLATION = 1 << 0, /* addr and length */
	IBV_REREG_MR_CHANGE_PD = 1 << 1,
	IBV_REREG_MR_CHANGE_ACCESS = 1 << 2,
	IBV_REREG_MR_FLAGS_SUPPORTED = (1 << 3) - 1
};

/*
 * What ibv_rereg_mr returns when it fails. After the first two the region is as it was, after the third it is
 * the new one but the old memory stays away from children, and after the others it can only be deregistered.
 */
enum ibv_rereg_mr_err_code {
	IBV_REREG_MR_ERR_INPUT = -1,
	IBV_REREG_MR_ERR_DONT_FORK_NEW = -2,
	IBV_REREG_MR_ERR_DO_FORK_OLD = -3,
	IBV_REREG_MR_ERR_CMD = -4,
	IBV_REREG_MR_ERR_CMD_AND_DO_FORK_NEW = -5
};

/* Memory of the device's own. */
struct ibv_dm {
	struct ibv_context *context;
	int (*memcpy_to_dm)(struct ibv_dm *dm, uint64_t dm_offset, const void *host_addr, size_t length);
	int (*memcpy_from_dm)(void *host_addr, struct ibv_dm *dm, uint64_t dm_offset, size_t length);
	uint32_t comp_mask; /* enum ibv_dm_mask */
	uint32_t handle;    /* for ibv_import_dm */
};

/* The members of struct ibv_dm that hold. */
enum ibv_dm_mask {
	IBV_DM_MASK_HANDLE = 1 << 0
};

/* How much of the device's memory to allocate. */
struct ibv_alloc_dm_attr {
	size_t length;
	uint32_t log_align_req; /* aligned to 2^n */
	uint32_t comp_mask;     /* 0 */
};

/* Memory windows: bound by ibv_bind_mw, or by a work request. */
enum ibv_mw_type {
	IBV_MW_TYPE_1 = 1,
	IBV_MW_TYPE_2 = 2
};

/* A memory window: a part of a region with a key and rights of its own. */
struct ibv_mw {
	struct ibv_context *context;
	struct ibv_pd *pd;
	uint32_t rkey;
	uint32_t handle;
	enum ibv_mw_type type;
};

/* What a window shows. Length 0 makes it invalid. */
struct ibv_mw_bind_info {
	struct ibv_mr *mr;
	uint64_t addr;
	uint64_t length;
	unsigned int mw_access_flags; /* enum ibv_access_flags */
};

/* A request to bind a window of type 1. */
struct ibv_mw_bind {
	uint64_t wr_id;
	unsigned int send_flags; /* enum ibv_send_flags */
	struct ibv_mw_bind_info bind_info;
};

/*
 * Address handles
 */

/* What only packets with a global route header need. */
struct ibv_global_route {
	union ibv_gid dgid;
	uint32_t flow_label; /* 20 bits */
	uint8_t sgid_index;  /* the sender's entry in its port's GID table */
	uint8_t hop_limit;
	uint8_t traffic_class;
};

/* The global route header that stands in front of a received datagram. */
struct ibv_grh {
	__be32 version_tclass_flow;
	__be16 paylen;
	uint8_t next_hdr;
	uint8_t hop_limit;
	union ibv_gid sgid;
	union ibv_gid dgid;
};

/* Static rates, as the specification numbers them. */
enum ibv_rate {
	IBV_RATE_MAX = 0, /* the port's */
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

/* An address. */
struct ibv_ah_attr {
	struct ibv_global_route grh;
	uint16_t dlid; /* not on Ethernet */
	uint8_t sl;
	uint8_t src_path_bits;
	uint8_t static_rate; /* enum ibv_rate */
	uint8_t is_global;   /* grh holds; always on Ethernet */
	uint8_t port_num;    /* of the sender */
};

/* An address handle: where a datagram goes. */
struct ibv_ah {
	struct ibv_context *context;
	struct ibv_pd *pd;
	uint32_t handle;
};

/*
 * Completion queues
 */

/* Tells of completions through a file descriptor, which may be polled and made non-blocking. */
struct ibv_comp_channel {
	struct ibv_context *context;
	int fd;
	int refcnt; /* completion queues that use it */
};

/* A completion queue. */
struct ibv_cq {
	struct ibv_context *context;
	struct ibv_comp_channel *channel;
	void *cq_context; /* the program's */
	uint32_t handle;
	int cqe;               /* completions it has room for */
	pthread_mutex_t mutex; /* the library's, with all that follows */
	pthread_cond_t cond;
	uint32_t comp_events_completed;
	uint32_t async_events_completed;
};

/* How to poll an extended completion queue: nothing to say yet. */
struct ibv_poll_cq_attr {
	uint32_t comp_mask; /* 0 */
};

/*
 * An extended completion queue: a completion's fields are asked for one by one, while it is the current one.
 * It begins as a struct ibv_cq. The functions are the provider's, called by the inline functions below.
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
	enum ibv_wc_status status; /* of the current completion, with wr_id */
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

/* The members of struct ibv_cq_init_attr_ex that hold. */
enum ibv_cq_init_attr_mask {
	IBV_CQ_INIT_ATTR_MASK_FLAGS = 1 << 0,
	IBV_CQ_INIT_ATTR_MASK_PD = 1 << 1
};

/* How an extended completion queue will be used. */
enum ibv_create_cq_attr_flags {
	IBV_CREATE_CQ_ATTR_SINGLE_THREADED = 1 << 0, /* it needs no lock */
	IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN = 1 << 1
};

/* How to make an extended completion queue. */
struct ibv_cq_init_attr_ex {
	uint32_t cqe; /* at least so many completions */
	void *cq_context;
	struct ibv_comp_channel *channel; /* may be NULL */
	uint32_t comp_vector;             /* below num_comp_vectors of the context */
	uint64_t wc_flags;                /* enum ibv_create_cq_wc_flags */
	uint32_t comp_mask;               /* enum ibv_cq_init_attr_mask */
	uint32_t flags;                   /* enum ibv_create_cq_attr_flags */
	struct ibv_pd *parent_domain;
};

/* The members of struct ibv_modify_cq_attr that hold. */
enum ibv_cq_attr_mask {
	IBV_CQ_ATTR_MODERATE = 1 << 0,
	IBV_CQ_ATTR_RESERVED = 1 << 1
};

/* An event is held back until there are so many completions, or so many microseconds have passed. */
struct ibv_moderate_cq {
	uint16_t cq_count;
	uint16_t cq_period;
};

/* What to change of a completion queue. */
struct ibv_modify_cq_attr {
	uint32_t attr_mask; /* enum ibv_cq_attr_mask */
	struct ibv_moderate_cq moderate;
};

/*
 * Completion counters: completions counted instead of queued
 */

/* The operations whose completions are counted. */
enum ibv_qp_attach_comp_cntr_op {
	IBV_QP_ATTACH_COMP_CNTR_OP_SEND = 1 << 0,
	IBV_QP_ATTACH_COMP_CNTR_OP_RECV = 1 << 1,
	IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_READ = 1 << 2,
	IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_READ = 1 << 3,
	IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE = 1 << 4,
	IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_WRITE = 1 << 5
};

/* What a device's counters can do. */
struct ibv_comp_cntr_caps {
	uint64_t max_value;
	uint32_t max_counters;
	uint32_t supported_qp_attach_ops; /* enum ibv_qp_attach_comp_cntr_op */
};

/* A counter, of successful and of failed completions. */
struct ibv_comp_cntr {
	struct ibv_context *context;
	uint32_t handle;
};

/* What a counter counts: work requests or bytes. */
enum ibv_comp_cntr_type {
	IBV_COMP_CNTR_TYPE_WRS,
	IBV_COMP_CNTR_TYPE_BYTES
};

/* How to make a counter. */
struct ibv_comp_cntr_init_attr {
	uint32_t comp_mask; /* 0 */
	enum ibv_comp_cntr_type type;
	uint32_t flags; /* 0 */
};

/* Which of a queue pair's completions a counter counts. */
struct ibv_qp_attach_comp_cntr_attr {
	uint32_t comp_mask; /* 0 */
	uint32_t op_mask;   /* enum ibv_qp_attach_comp_cntr_op */
};

/*
 * Shared receive queues
 */

/* What ibv_modify_srq changes. */
enum ibv_srq_attr_mask {
	IBV_SRQ_MAX_WR = 1 << 0,
	IBV_SRQ_LIMIT = 1 << 1
};

/* Sizes of a shared receive queue. */
struct ibv_srq_attr {
	uint32_t max_wr;
	uint32_t max_sge;
	uint32_t srq_limit; /* with fewer requests left there is an event, once; 0 for none */
};

/* How to make a shared receive queue. */
struct ibv_srq_init_attr {
	void *srq_context;
	struct ibv_srq_attr attr;
};

/* Basic, for extended reliable connections, or with tag matching. */
enum ibv_srq_type {
	IBV_SRQT_BASIC,
	IBV_SRQT_XRC,
	IBV_SRQT_TM
};

/* The members of struct ibv_srq_init_attr_ex that hold. */
enum ibv_srq_init_attr_mask {
	IBV_SRQ_INIT_ATTR_TYPE = 1 << 0,
	IBV_SRQ_INIT_ATTR_PD = 1 << 1,
	IBV_SRQ_INIT_ATTR_XRCD = 1 << 2,
	IBV_SRQ_INIT_ATTR_CQ = 1 << 3,
	IBV_SRQ_INIT_ATTR_TM = 1 << 4,
	IBV_SRQ_INIT_ATTR_RESERVED = 1 << 5
};

/* Room for tags, and for operations on them that are under way. */
struct ibv_tm_cap {
	uint32_t max_num_tags;
	uint32_t max_ops;
};

/* How to make a shared receive queue with all there is. It begins as a struct ibv_srq_init_attr. */
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

/* A shared receive queue. */
struct ibv_srq {
	struct ibv_context *context;
	void *srq_context; /* the program's */
	struct ibv_pd *pd;
	uint32_t handle;
	pthread_mutex_t mutex; /* the library's, with all that follows */
	pthread_cond_t cond;
	uint32_t events_completed;
};

/*
 * Work queues, and tables of them
 */

/* There are receive queues only. */
enum ibv_wq_type {
	IBV_WQT_RQ
};

/* The members of struct ibv_wq_init_attr that hold. */
enum ibv_wq_init_attr_mask {
	IBV_WQ_INIT_ATTR_FLAGS = 1 << 0,
	IBV_WQ_INIT_ATTR_RESERVED = 1 << 1
};

/* What a work queue does with packets. */
enum ibv_wq_flags {
	IBV_WQ_FLAGS_CVLAN_STRIPPING = 1 << 0,
	IBV_WQ_FLAGS_SCATTER_FCS = 1 << 1,
	IBV_WQ_FLAGS_DELAY_DROP = 1 << 2,
	IBV_WQ_FLAGS_PCI_WRITE_END_PADDING = 1 << 3,
	IBV_WQ_FLAGS_RESERVED = 1 << 4
};

/* How to make a work queue. */
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

/* The members of struct ibv_wq_attr that hold. */
enum ibv_wq_attr_mask {
	IBV_WQ_ATTR_STATE = 1 << 0,
	IBV_WQ_ATTR_CURR_STATE = 1 << 1,
	IBV_WQ_ATTR_FLAGS = 1 << 2,
	IBV_WQ_ATTR_RESERVED = 1 << 3
};

/* What to change of a work queue. */
struct ibv_wq_attr {
	uint32_t attr_mask; /* enum ibv_wq_attr_mask */
	enum ibv_wq_state wq_state;
	enum ibv_wq_state curr_wq_state; /* what it is thought to be */
	uint32_t flags;                  /* enum ibv_wq_flags; of those in flags_mask */
	uint32_t flags_mask;
};

struct ibv_recv_wr;

/* A work queue: the receive queue of packets that a table sends its way. */
struct ibv_wq {
	struct ibv_context *context;
	void *wq_context; /* the program's */
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	uint32_t wq_num;
	uint32_t handle;
	enum ibv_wq_state state;
	enum ibv_wq_type wq_type;
	int (*post_recv)(struct ibv_wq *current, struct ibv_recv_wr *recv_wr,
			 struct ibv_recv_wr **bad_recv_wr);
	pthread_mutex_t mutex; /* the library's, with the next two */
	pthread_cond_t cond;
	uint32_t events_completed;
	uint32_t comp_mask;
};

/* A table of work queues; hashes of packets are its indices. */
struct ibv_rwq_ind_table {
	struct ibv_context *context;
	int ind_tbl_handle;
	int ind_tbl_num;
	uint32_t comp_mask;
};

/* No member of struct ibv_rwq_ind_table_init_attr is optional yet. */
enum ibv_ind_table_init_attr_mask {
	IBV_CREATE_IND_TABLE_RESERVED = 1 << 0
};

/* How to make a table. */
struct ibv_rwq_ind_table_init_attr {
	uint32_t log_ind_tbl_size; /* 2^n entries */
	struct ibv_wq **ind_tbl;
	uint32_t comp_mask; /* 0 */
};

/*
 * Queue pairs
 */

/* Reliable or unreliable, connected or datagrams, raw Ethernet, extended reliable, the vendor's own. */
enum ibv_qp_type {
	IBV_QPT_RC = 2,
	IBV_QPT_UC = 3,
	IBV_QPT_UD = 4,
	IBV_QPT_RAW_PACKET = 8,
	IBV_QPT_XRC_SEND = 9,
	IBV_QPT_XRC_RECV = 10,
	IBV_QPT_DRIVER = 0xff
};

/* Sizes of a queue pair. */
struct ibv_qp_cap {
	uint32_t max_send_wr;
	uint32_t max_recv_wr;
	uint32_t max_send_sge;
	uint32_t max_recv_sge;
	uint32_t max_inline_data; /* payload that a send may carry in the request itself */
};

/* How to make a queue pair. */
struct ibv_qp_init_attr {
	void *qp_context;
	struct ibv_cq *send_cq;
	struct ibv_cq *recv_cq;
	struct ibv_srq *srq;   /* NULL: it has a receive queue of its own */
	struct ibv_qp_cap cap; /* comes back as what there is, at least so much */
	enum ibv_qp_type qp_type;
	int sq_sig_all; /* every send makes a completion, not only those that say so */
};

/* The members of struct ibv_qp_init_attr_ex that hold. */
enum ibv_qp_init_attr_mask {
	IBV_QP_INIT_ATTR_PD = 1 << 0,
	IBV_QP_INIT_ATTR_XRCD = 1 << 1,
	IBV_QP_INIT_ATTR_CREATE_FLAGS = 1 << 2,
	IBV_QP_INIT_ATTR_MAX_TSO_HEADER = 1 << 3,
	IBV_QP_INIT_ATTR_IND_TABLE = 1 << 4,
	IBV_QP_INIT_ATTR_RX_HASH = 1 << 5,
	IBV_QP_INIT_ATTR_SEND_OPS_FLAGS = 1 << 6
};

/* What else a queue pair shall do. */
enum ibv_qp_create_flags {
	IBV_QP_CREATE_BLOCK_SELF_MCAST_LB = 1 << 1, /* not hear its own multicasts */
	IBV_QP_CREATE_SCATTER_FCS = 1 << 8,
	IBV_QP_CREATE_CVLAN_STRIPPING = 1 << 9,
	IBV_QP_CREATE_SOURCE_QPN = 1 << 10, /* send as source_qpn */
	IBV_QP_CREATE_PCI_WRITE_END_PADDING = 1 << 11
};

/* The operations that ibv_wr_* will be called for. */
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

/* How received packets are hashed. */
struct ibv_rx_hash_conf {
	uint8_t rx_hash_function; /* enum ibv_rx_hash_function_flags */
	uint8_t rx_hash_key_len;
	uint8_t *rx_hash_key;
	uint64_t rx_hash_fields_mask; /* enum ibv_rx_hash_fields */
};

/* How to make a queue pair with all there is. It begins as a struct ibv_qp_init_attr. */
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

/* The members of struct ibv_qp_open_attr that hold. */
enum ibv_qp_open_attr_mask {
	IBV_QP_OPEN_ATTR_NUM = 1 << 0,
	IBV_QP_OPEN_ATTR_XRCD = 1 << 1,
	IBV_QP_OPEN_ATTR_CONTEXT = 1 << 2,
	IBV_QP_OPEN_ATTR_TYPE = 1 << 3,
	IBV_QP_OPEN_ATTR_RESERVED = 1 << 4
};

/* The shared queue pair to open. */
struct ibv_qp_open_attr {
	uint32_t comp_mask; /* enum ibv_qp_open_attr_mask */
	uint32_t qp_num;
	struct ibv_xrcd *xrcd;
	void *qp_context;
	enum ibv_qp_type qp_type;
};

/* The members of struct ibv_qp_attr that hold, or are asked for. */
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

/* State of a queue pair: new, initialised, ready to receive, ready to send, drained, send queue in error,
 * error. */
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

/* State of path migration. */
enum ibv_mig_state {
	IBV_MIG_MIGRATED,
	IBV_MIG_REARM,
	IBV_MIG_ARMED
};

/* State and attributes of a queue pair. */
struct ibv_qp_attr {
	enum ibv_qp_state qp_state;
	enum ibv_qp_state cur_qp_state; /* what it is thought to be */
	enum ibv_mtu path_mtu;
	enum ibv_mig_state path_mig_state;
	uint32_t qkey;
	uint32_t rq_psn; /* 24 bits, like sq_psn and dest_qp_num */
	uint32_t sq_psn;
	uint32_t dest_qp_num;
	unsigned int qp_access_flags; /* what the other side may do; enum ibv_access_flags */
	struct ibv_qp_cap cap;
	struct ibv_ah_attr ah_attr;
	struct ibv_ah_attr alt_ah_attr; /* the path to migrate to */
	uint16_t pkey_index;
	uint16_t alt_pkey_index;
	uint8_t en_sqd_async_notify;
	uint8_t sq_draining;
	uint8_t max_rd_atomic;      /* reads and atomics that it asks for at once */
	uint8_t max_dest_rd_atomic; /* ... that it answers at once */
	uint8_t min_rnr_timer; /* a code: what a sender waits when no receive is posted; 0 655 ms, 1 10 us, 31
				  492 ms */
	uint8_t port_num;
	uint8_t timeout;   /* for an acknowledgement: 4.096 us * 2^n, 0 for ever */
	uint8_t retry_cnt; /* times to ask again, up to 7 */
	uint8_t rnr_retry; /* times to try again when no receive is posted; 7 for ever */
	uint8_t alt_port_num;
	uint8_t alt_timeout;
	uint32_t rate_limit; /* kilobits per second; 0 for none */
};

/* At what rate to send. */
struct ibv_qp_rate_limit_attr {
	uint32_t rate_limit;     /* kilobits per second; 0 for none */
	uint32_t max_burst_sz;   /* bytes in one burst */
	uint16_t typical_pkt_sz; /* bytes */
	uint32_t comp_mask;      /* 0 */
};

/* How to ask ibv_query_qp_data_in_order: for capabilities rather than yes or no; of the device alone. */
enum ibv_query_qp_data_in_order_flags {
	IBV_QUERY_QP_DATA_IN_ORDER_RETURN_CAPS = 1 << 0,
	IBV_QUERY_QP_DATA_IN_ORDER_DEVICE_ONLY = 1 << 1
};

/* What is written in order. */
enum ibv_query_qp_data_in_order_caps {
	IBV_QUERY_QP_DATA_IN_ORDER_WHOLE_MSG = 1 << 0,
	IBV_QUERY_QP_DATA_IN_ORDER_ALIGNED_128_BYTES = 1 << 1
};

/* Options for enhanced connection establishment, which the two sides exchange. */
struct ibv_ece {
	uint32_t vendor_id;
	uint32_t options;
	uint32_t comp_mask; /* 0 */
};

/* A queue pair. */
struct ibv_qp {
	struct ibv_context *context;
	void *qp_context; /* the program's */
	struct ibv_pd *pd;
	struct ibv_cq *send_cq;
	struct ibv_cq *recv_cq;
	struct ibv_srq *srq;
	uint32_t handle;
	uint32_t qp_num;         /* 24 bits */
	enum ibv_qp_state state; /* as the library last heard */
	enum ibv_qp_type qp_type;
	pthread_mutex_t mutex; /* the library's, with all that follows */
	pthread_cond_t cond;
	uint32_t events_completed;
};

/*
 * Work requests
 */

/* What a send does. */
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
	IBV_WR_DRIVER1 = 11, /* the provider's own */
	IBV_WR_FLUSH = 14,
	IBV_WR_ATOMIC_WRITE = 15
};

/* How it does it. */
enum ibv_send_flags {
	IBV_SEND_FENCE = 1 << 0,     /* not before the reads and atomics in front of it are done */
	IBV_SEND_SIGNALED = 1 << 1,  /* with a completion */
	IBV_SEND_SOLICITED = 1 << 2, /* with an event at the receiver */
	IBV_SEND_INLINE = 1 << 3, /* the data is copied now: lkeys do not matter, buffers are free at once */
	IBV_SEND_IP_CSUM = 1 << 4
};

/* Where flushed data must have arrived: visible to all, or on stable storage. */
enum ibv_placement_type {
	IBV_FLUSH_GLOBAL = 1U << 0,
	IBV_FLUSH_PERSISTENT = 1U << 1
};

/* What a flush is about: a range, or the whole memory region. */
enum ibv_selectivity_level {
	IBV_FLUSH_RANGE,
	IBV_FLUSH_MR
};

/* A buffer to be copied from: no key is needed. */
struct ibv_data_buf {
	void *addr;
	size_t length;
};

/* A buffer in registered memory. */
struct ibv_sge {
	uint64_t addr;
	uint32_t length;
	uint32_t lkey;
};

/* File descriptors to be handed to the kernel. */
struct ibv_fd_arr {
	int *arr;
	uint32_t count;
};

/* A send, of a list. The opcode says which members of the unions hold. */
struct ibv_send_wr {
	uint64_t wr_id; /* comes back in the completion */
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
			uint64_t remote_addr; /* a multiple of 8 */
			uint64_t compare_add; /* compared with, or added */
			uint64_t swap;
			uint32_t rkey;
		} atomic;
		struct {
			struct ibv_ah *ah;
			uint32_t remote_qpn;
			uint32_t remote_qkey;
		} ud;
	} wr;
	union {
		struct {
			uint32_t remote_srqn;
		} xrc;
	} qp_type;
	__extension__ union {
		struct {
			struct ibv_mw *mw;
			uint32_t rkey; /* the one it shall have */
			struct ibv_mw_bind_info bind_info;
		} bind_mw;
		struct {
			void *hdr;
			uint16_t hdr_sz;
			uint16_t mss; /* payload of a segment */
		} tso;
	};
};

/* A receive, of a list. */
struct ibv_recv_wr {
	uint64_t wr_id; /* comes back in the completion */
	struct ibv_recv_wr *next;
	struct ibv_sge *sg_list;
	int num_sge;
};

/* Operations on the tags of a shared receive queue. */
enum ibv_ops_wr_opcode {
	IBV_WR_TAG_ADD,
	IBV_WR_TAG_DEL,
	IBV_WR_TAG_SYNC
};

/* How they are done: with a completion; with what has arrived unexpectedly counted. */
enum ibv_ops_flags {
	IBV_OPS_SIGNALED = 1 << 0,
	IBV_OPS_TM_SYNC = 1 << 1
};

/* An operation on tags, of a list. */
struct ibv_ops_wr {
	uint64_t wr_id;
	struct ibv_ops_wr *next;
	enum ibv_ops_wr_opcode opcode;
	int flags; /* enum ibv_ops_flags */
	struct {
		uint32_t unexpected_cnt; /* messages that the program has seen arrive without a tag */
		uint32_t handle;         /* of the tag: comes back from adding it, for deleting it */
		struct {
			uint64_t recv_wr_id;
			struct ibv_sge *sg_list;
			int num_sge;
			uint64_t tag;
			uint64_t mask; /* the bits of the tag that count */
		} add;
	} tm;
};

/*
 * A queue pair that work requests are written to step by step, each between ibv_wr_start and ibv_wr_complete.
 * The functions are the provider's, called by the inline functions ibv_wr_* below.
 */
struct ibv_qp_ex {
	struct ibv_qp qp_base;
	uint64_t comp_mask;
	uint64_t wr_id;        /* of the next request; set before it, with wr_flags */
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

/* Flags of a flow: others see its packets too; it is about packets that are sent. */
enum ibv_flow_flags {
	IBV_FLOW_ATTR_FLAGS_DONT_TRAP = 1 << 1,
	IBV_FLOW_ATTR_FLAGS_EGRESS = 1 << 2
};

/* Which packets: those that match, all that no other flow wants, multicasts likewise, all there are. */
enum ibv_flow_attr_type {
	IBV_FLOW_ATTR_NORMAL = 0x0,
	IBV_FLOW_ATTR_ALL_DEFAULT = 0x1,
	IBV_FLOW_ATTR_MC_DEFAULT = 0x2,
	IBV_FLOW_ATTR_SNIFFER = 0x3
};

/* Kinds of specifications: headers to match, with INNER those in a tunnel, and actions. */
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

/* Bytes of a MAC address. */
#define ETHERNET_LL_SIZE ETH_ALEN

/*
 * Headers to match: the fields of val under the bits of mask, all in network byte order. size is that of the
 * whole struct, and the same for the actions.
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

/* IPv4, by addresses. */
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

/* IPv4, by more fields. */
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

/* IPsec's ESP. */
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

/* GRE: its first 16 bits, the next 16, and the key. */
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

/* MPLS: label, traffic class, bottom of stack and time to live in one word. */
struct ibv_flow_mpls_filter {
	uint32_t label;
};

struct ibv_flow_spec_mpls {
	enum ibv_flow_spec_type type;
	uint16_t size;
	struct ibv_flow_mpls_filter val;
	struct ibv_flow_mpls_filter mask;
};

/* VXLAN, by the network's number. */
struct ibv_flow_tunnel_filter {
	uint32_t tunnel_id;
};

struct ibv_flow_spec_tunnel {
	enum ibv_flow_spec_type type;
	uint16_t size;
	struct ibv_flow_tunnel_filter val;
	struct ibv_flow_tunnel_filter mask;
};

/* Puts a number into the completions of what matches (ibv_wc_read_flow_tag). */
struct ibv_flow_spec_action_tag {
	enum ibv_flow_spec_type type;
	uint16_t size;
	uint32_t tag_id;
};

/* Drops what matches. */
struct ibv_flow_spec_action_drop {
	enum ibv_flow_spec_type type;
	uint16_t size;
};

/* Does an action to what matches. */
struct ibv_flow_spec_action_handle {
	enum ibv_flow_spec_type type;
	uint16_t size;
	const struct ibv_flow_action *action;
};

/* Counts what matches. */
struct ibv_flow_spec_counter_action {
	enum ibv_flow_spec_type type;
	uint16_t size;
	struct ibv_counters *counters;
};

/* Any of them. */
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

/* A flow. Its specifications follow in memory, without a gap. */
struct ibv_flow_attr {
	uint32_t comp_mask; /* 0 */
	enum ibv_flow_attr_type type;
	uint16_t size;     /* with the specifications */
	uint16_t priority; /* 0 is the highest */
	uint8_t num_of_specs;
	uint8_t port;
	uint32_t flags; /* enum ibv_flow_flags */
};

/* A flow in force. */
struct ibv_flow {
	uint32_t comp_mask;
	struct ibv_context *context;
	uint32_t handle;
};

/* An action that flows can refer to. */
struct ibv_flow_action {
	struct ibv_context *context;
};

/* The members of struct ibv_flow_action_esp_attr that hold. */
enum ibv_flow_action_esp_mask {
	IBV_FLOW_ACTION_ESP_MASK_ESN = 1UL << 0
};

/* How ESP packets are encrypted or decrypted. The types it names are in verbs_api.h. */
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
	uint32_t esn;       /* high half of the extended sequence number */
};

/* A set of counters for flows. */
struct ibv_counters {
	struct ibv_context *context;
};

/* How to make a set of counters: nothing to say yet. */
struct ibv_counters_init_attr {
	uint32_t comp_mask; /* 0 */
};

/* What a counter counts. */
enum ibv_counter_description {
	IBV_COUNTER_PACKETS,
	IBV_COUNTER_BYTES
};

/* Which counter of a set counts what. */
struct ibv_counter_attach_attr {
	enum ibv_counter_description counter_desc;
	uint32_t index;     /* in the set */
	uint32_t comp_mask; /* 0 */
};

/* How to read counters: what was read last will do. */
enum ibv_read_counters_flags {
	IBV_READ_COUNTERS_ATTR_PREFER_CACHED = 1 << 0
};

/*
 * Contexts: open devices
 */

/* The values that ibv_query_rt_values_ex is asked for; comes back as those it gave. */
enum ibv_values_mask {
	IBV_VALUES_MASK_RAW_CLOCK = 1 << 0,
	IBV_VALUES_MASK_RESERVED = 1 << 1
};

/* A device's running values. */
struct ibv_values_ex {
	uint32_t comp_mask;        /* enum ibv_values_mask */
	struct timespec raw_clock; /* the device's ticks, in tv_nsec */
};

/* A port's attributes as they were before port_cap_flags2. */
struct _compat_ibv_port_attr;

/* The provider's functions that the inline verbs call. What begins with _compat_ keeps a place. */
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
	int cmd_fd;   /* the character device; ibv_import_device takes a copy of it in another process */
	int async_fd; /* may be polled and made non-blocking; read by ibv_get_async_event */
	int num_comp_vectors;
	pthread_mutex_t mutex; /* the library's */
	void *abi_compat;
};

/* abi_compat of a context that is the end of a struct verbs_context. */
#define __VERBS_ABI_IS_EXTENDED ((void *)~(uintptr_t)0)

/*
 * A context and the functions that came later. It grows at its front, and sz says how much of it there is:
 * use verbs_get_ctx_op, and count from the end. This is as much as providers of ABI 34 have, and as programs
 * use; IBVERBS_PABI_VERSION, if it is defined, stands for the ABI of newer ones.
 */
struct verbs_context {
#if defined(IBVERBS_PABI_VERSION) && IBVERBS_PABI_VERSION >= 59
	void (*free_buf)(struct ibv_buf *buf);
	void *(*alloc_buf)(struct ibv_pd *pd, size_t size, struct ibv_buf **buf);
	int (*dm_export_dmabuf_fd)(struct ibv_dm *dm);
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
	struct verbs_ex_private *priv; /* the library's */
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

/* Whether the field begins within the first sz bytes of the type. */
#define vext_field_avail(type, fld, sz) (offsetof(type, fld) < (sz))

/* The extended context around a context; NULL if there is none. */
static inline struct verbs_context *verbs_get_ctx(struct ibv_context *ctx)
{
	if (ctx->abi_compat == __VERBS_ABI_IS_EXTENDED) {
		uintptr_t end = (uintptr_t)ctx;

		return (struct verbs_context *)(end - offsetof(struct verbs_context, context));
	}
	return NULL;
}

/* The extended context, if it reaches to the slot at an offset and there is something in it. */
static inline struct verbs_context *__ibv_ctx_with_slot(struct ibv_context *ctx, size_t offset)
{
	struct verbs_context *vctx = verbs_get_ctx(ctx);
	uintptr_t slot;

	if (!vctx || vctx->sz < sizeof(*vctx) - offset)
		return NULL;
	memcpy(&slot, (const char *)vctx + offset, sizeof(slot));
	return slot ? vctx : NULL;
}

/* The extended context of a context, if the provider has the operation; otherwise NULL. */
#define verbs_get_ctx_op(ctx, op) __ibv_ctx_with_slot(ctx, offsetof(struct verbs_context, op))

/* Bodies of the verbs that are one operation of the extended context. */
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
 * The devices there are, in an array that ends with NULL, and how many if num_devices is not NULL. Freed by
 * ibv_free_device_list; devices that are open stay. errno ENOSYS: the kernel has no RDMA.
 */
struct ibv_device **ibv_get_device_list(int *num_devices);

#ifdef RDMA_STATIC_PROVIDERS
/*
 * A program that is linked with libibverbs.a names the providers to be linked in, separated by commas:
 * RDMA_STATIC_PROVIDERS=mlx5,rxe, or all, or none. There is room for 20.
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

/* The names become a list of addresses, filled up with that of none. */
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

/* Registers what is linked in; the addresses end with NULL. */
void ibv_static_providers(void *unused, ...);

static inline struct ibv_device **__ibv_get_device_list(int *num_devices)
{
	ibv_static_providers(NULL, _RDMA_STATIC_PREFIX(RDMA_STATIC_PROVIDERS), NULL);
	return ibv_get_device_list(num_devices);
}
#define ibv_get_device_list(num_devices) __ibv_get_device_list(num_devices)
#endif

/* Frees a list of devices. */
void ibv_free_device_list(struct ibv_device **list);

/* The device's name, such as "rxe0"; it lives as long as the device. */
const char *ibv_get_device_name(struct ibv_device *device);

/* The device's number in the kernel; -1 if the kernel does not tell. */
int ibv_get_device_index(struct ibv_device *device);

/* The device's node GUID; 0 if it cannot be read. */
__be64 ibv_get_device_guid(struct ibv_device *device);

/* What stands behind the ports, in words, as all the ..._str: they live for ever, and are never NULL. */
const char *ibv_node_type_str(enum ibv_node_type node_type);

/* Opens a device. Closed by ibv_close_device. */
struct ibv_context *ibv_open_device(struct ibv_device *device);

/* Closes a device; what was made with it should be gone by then. Returns 0, or -1 with errno. */
int ibv_close_device(struct ibv_context *context);

/*
 * Opens the device of another process's cmd_fd, of which this process has a duplicate; the context owns that
 * from now on. What the other has made can then be imported. ibv_close_device closes both.
 */
struct ibv_context *ibv_import_device(int cmd_fd);

/* A device's identity and limits. */
int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *device_attr);

/* All that is known of a device; only the older part where the provider knows no more. input may be NULL. */
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

/* Whether a capability's mask of queue pair types has this one. */
static inline int ibv_is_qpt_supported(uint32_t caps, enum ibv_qp_type qpt)
{
	return (int)(caps >> (qpt & 31) & 1);
}

/* Reads the values of the device that comp_mask asks for. */
static inline int ibv_query_rt_values_ex(struct ibv_context *context, struct ibv_values_ex *values)
	__IBV_EXT_INT(context, query_rt_values, context, values)

	/*
	 * Makes fork safe: registered memory stays out of children, or the kernel copies it for them. To be
	 * called before anything is registered (EINVAL afterwards).
	 */
	int ibv_fork_init(void);

/* Whether fork is safe for registered memory, and if by this library's doing. */
enum ibv_fork_status {
	IBV_FORK_DISABLED,
	IBV_FORK_ENABLED,
	IBV_FORK_UNNEEDED
};
enum ibv_fork_status ibv_is_fork_initialized(void);

/*
 * Verbs: asynchronous events
 */

/* Waits for the next event of a context, a cancellation point. Returns 0, or -1 with errno. */
int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event);

/* Acknowledges an event. Destroying the object that it is about waits for that. */
void ibv_ack_async_event(struct ibv_async_event *event);

/* What has happened, in words. */
const char *ibv_event_type_str(enum ibv_event_type event);

/*
 * Verbs: ports, GIDs and P_Keys. Ports are numbered from 1.
 */

/* A port's attributes in the older, shorter form: the macro below takes programs to the newer one. */
int ibv_query_port(struct ibv_context *context, uint8_t port_num, struct _compat_ibv_port_attr *port_attr);

/* A port's attributes. */
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

/* A port's speed, lanes and all, in units of 100 Mb/s. */
int ibv_query_port_speed(struct ibv_context *context, uint32_t port_num, uint64_t *port_speed);

/* What a port does, in words. */
const char *ibv_port_state_str(enum ibv_port_state port_state);

/* A GID of a port; all zeros if the entry is empty. Returns 0, or -1 with errno. */
int ibv_query_gid(struct ibv_context *context, uint8_t port_num, int index, union ibv_gid *gid);

/* An entry of a port's GID table; ENODATA if it is empty. flags: 0. */
int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port_num, uint32_t gid_index,
		      struct ibv_gid_entry *entry, uint32_t flags, size_t entry_size);
static inline int ibv_query_gid_ex(struct ibv_context *context, uint32_t port_num, uint32_t gid_index,
				   struct ibv_gid_entry *entry, uint32_t flags)
{
	return _ibv_query_gid_ex(context, port_num, gid_index, entry, flags, sizeof(*entry));
}

/*
 * All entries of all ports' GID tables, but the empty ones. Returns how many, or a negative errno value:
 * -EINVAL if there are more than max_entries. flags: 0.
 */
ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries, size_t max_entries,
			     uint32_t flags, size_t entry_size);
static inline ssize_t ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
					  size_t max_entries, uint32_t flags)
{
	return _ibv_query_gid_table(context, entries, max_entries, flags, sizeof(*entries));
}

/* A P_Key of a port. Returns 0, or -1 with errno. */
int ibv_query_pkey(struct ibv_context *context, uint8_t port_num, int index, __be16 *pkey);

/* Where in the port's table a P_Key first stands. Returns the index, or -1. */
int ibv_get_pkey_index(struct ibv_context *context, uint8_t port_num, __be16 pkey);

/*
 * Verbs: protection domains, thread domains, XRC domains
 */

/* Makes a protection domain. Freed by ibv_dealloc_pd. */
struct ibv_pd *ibv_alloc_pd(struct ibv_context *context);

/* Frees a protection domain of any kind; EBUSY while something lives in it. */
int ibv_dealloc_pd(struct ibv_pd *pd);

/* Makes another process's protection domain usable here, by its handle. Given back by ibv_unimport_pd. */
struct ibv_pd *ibv_import_pd(struct ibv_context *context, uint32_t pd_handle);

/* Gives an imported protection domain back; the domain itself stays. */
void ibv_unimport_pd(struct ibv_pd *pd);

/* Makes a thread domain. Freed by ibv_dealloc_td. */
static inline struct ibv_td *ibv_alloc_td(struct ibv_context *context, struct ibv_td_init_attr *init_attr)
	__IBV_EXT_PTR(context, alloc_td, context, init_attr)

	/* Frees a thread domain; EBUSY while a parent domain has it. */
	static inline int ibv_dealloc_td(struct ibv_td *td) __IBV_EXT_INT(td->context, dealloc_td, td)

	/* Makes a protection domain upon another. Freed by ibv_dealloc_pd, before that one. */
	static inline struct ibv_pd *ibv_alloc_parent_domain(struct ibv_context *context,
							     struct ibv_parent_domain_init_attr *attr)
		__IBV_EXT_PTR(context, alloc_parent_domain, context, attr)

	/* Opens an XRC domain. Closed by ibv_close_xrcd. */
	static inline struct ibv_xrcd *ibv_open_xrcd(struct ibv_context *context,
						     struct ibv_xrcd_init_attr *xrcd_init_attr)
		__IBV_EXT_PTR(context, open_xrcd, context, xrcd_init_attr)

	/* Closes an XRC domain; EBUSY while something lives in it. */
	static inline int ibv_close_xrcd(struct ibv_xrcd *xrcd)
{
	return verbs_get_ctx(xrcd->context)->close_xrcd(xrcd);
}

/*
 * Verbs: memory regions. Each is freed by ibv_dereg_mr, before its memory is.
 */

/* Registers memory of the program's, which the device knows by the same addresses. */
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access);

/* Registers memory that the device knows by addresses from iova on. */
struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access);

/* The same, with access flags that the kernel need not know (IBV_ACCESS_OPTIONAL_RANGE). */
struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				unsigned int access);

/* Only where it is certain that there are no such flags, the older symbols do: libraries before 1.8 have
 * them. */
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

/* Registers a part of a dma-buf, from offset on; fd may be closed afterwards. */
struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
				 int access);

/* Registers what the attributes say. */
struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *pd, struct ibv_mr_init_attr *mr_init_attr);

/* A region that reads as zeros and swallows what is written, of any length. */
static inline struct ibv_mr *ibv_alloc_null_mr(struct ibv_pd *pd)
	__IBV_EXT_PTR(pd->context, alloc_null_mr, pd)

	/*
	 * Changes a region: flags are of enum ibv_rereg_mr_flags. Returns 0, or a value of enum
	 * ibv_rereg_mr_err_code with errno. Nothing may be using the region meanwhile.
	 */
	int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length,
			 int access);

/* Frees a region; EBUSY while a window is bound to it. */
int ibv_dereg_mr(struct ibv_mr *mr);

/* Makes another process's region usable here, by its handle. Given back by ibv_unimport_mr. */
struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t mr_handle);

/* Gives an imported region back; the region itself stays. */
void ibv_unimport_mr(struct ibv_mr *mr);

/* Advises the kernel about registered memory; IBV_ADVISE_MR_FLAG_FLUSH waits for the effect. */
static inline int ibv_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
				struct ibv_sge *sg_list, uint32_t num_sge)
	__IBV_EXT_INT(pd->context, advise_mr, pd, advice, flags, sg_list, num_sge)

	/* Makes hints for ibv_reg_mr_ex. Freed by ibv_dealloc_dmah. */
	struct ibv_dmah *ibv_alloc_dmah(struct ibv_context *context, struct ibv_dmah_init_attr *attr);

/* Frees hints; EBUSY while a region has them. */
int ibv_dealloc_dmah(struct ibv_dmah *dmah);

/*
 * Allocates memory fit for the device, aligned to pages, and returns its address and a handle. In a
 * confidential guest it is a dma-buf that the device can reach. Freed by ibv_free_buf.
 */
void *ibv_alloc_buf(struct ibv_pd *pd, size_t size, struct ibv_buf **buf);

/* A file descriptor of the buffer's dma-buf, for the caller to close; -1 with errno (ENODATA: it is none). */
int ibv_export_buf_dmabuf_fd(struct ibv_buf *buf);

/* Frees a buffer and its memory. */
void ibv_free_buf(struct ibv_buf *buf);

/* Registers a part of a buffer. */
struct ibv_mr *ibv_reg_buf_mr(struct ibv_pd *pd, struct ibv_buf *buf, void *addr, size_t length, int access);

/*
 * Verbs: the device's own memory
 */

/* Allocates memory of the device's. Freed by ibv_free_dm. */
static inline struct ibv_dm *ibv_alloc_dm(struct ibv_context *context, struct ibv_alloc_dm_attr *attr)
	__IBV_EXT_PTR(context, alloc_dm, context, attr)

	/* Frees memory of the device's; EBUSY while it is registered. */
	static inline int ibv_free_dm(struct ibv_dm *dm) __IBV_EXT_INT(dm->context, free_dm, dm)

	/* Registers a part of the device's memory. */
	static inline struct ibv_mr *ibv_reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t dm_offset,
						   size_t length, unsigned int access)
		__IBV_EXT_PTR(pd->context, reg_dm_mr, pd, dm, dm_offset, length, access)

	/* Copies to the device's memory. Offset and length may have to be multiples of 4. */
	static inline int ibv_memcpy_to_dm(struct ibv_dm *dm, uint64_t dm_offset, const void *host_addr,
					   size_t length)
{
	return dm->memcpy_to_dm(dm, dm_offset, host_addr, length);
}

/* Copies from it. */
static inline int ibv_memcpy_from_dm(void *host_addr, struct ibv_dm *dm, uint64_t dm_offset, size_t length)
{
	return dm->memcpy_from_dm(host_addr, dm, dm_offset, length);
}

/* A file descriptor of a dma-buf that is this memory, for the caller to close; -1 with errno. */
int ibv_dm_export_dmabuf_fd(struct ibv_dm *dm);

/* Makes another process's memory of the device usable here, by its handle. Given back by ibv_unimport_dm. */
struct ibv_dm *ibv_import_dm(struct ibv_context *context, uint32_t dm_handle);

/* Gives imported memory back; the memory itself stays. */
void ibv_unimport_dm(struct ibv_dm *dm);

/*
 * Verbs: memory windows
 */

/* Makes a window, with nothing to see yet. Freed by ibv_dealloc_mw. */
static inline struct ibv_mw *ibv_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	if (pd->context->ops.alloc_mw)
		return pd->context->ops.alloc_mw(pd, type);
	errno = EOPNOTSUPP;
	return NULL;
}

/* Frees a window. */
static inline int ibv_dealloc_mw(struct ibv_mw *mw)
{
	return mw->context->ops.dealloc_mw(mw);
}

/* The next key for a window of type 2: keys differ in their lowest 8 bits. */
static inline uint32_t ibv_inc_rkey(uint32_t rkey)
{
	return (rkey & ~0xffU) | ((rkey + 1) & 0xffU);
}

/*
 * Posts the binding of a window of type 1 to a queue pair; its rkey changes. EINVAL: another type, or a range
 * without a region; EPERM: a region of another domain.
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

/* Makes a channel. Freed by ibv_destroy_comp_channel. */
struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context);

/* Frees a channel; EBUSY while a completion queue uses it. */
int ibv_destroy_comp_channel(struct ibv_comp_channel *channel);

/*
 * Makes a queue for at least cqe completions; channel may be NULL, comp_vector says which of the device's
 * interrupts tells of completions. Freed by ibv_destroy_cq.
 */
struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
			     struct ibv_comp_channel *channel, int comp_vector);

/* Makes an extended completion queue. Freed by ibv_destroy_cq of its ibv_cq_ex_to_cq. */
static inline struct ibv_cq_ex *ibv_create_cq_ex(struct ibv_context *context,
						 struct ibv_cq_init_attr_ex *cq_attr)
	__IBV_EXT_PTR(context, create_cq_ex, context, cq_attr)

	/* The same queue for the verbs that take any. */
	static inline struct ibv_cq *ibv_cq_ex_to_cq(struct ibv_cq_ex *cq)
{
	return (struct ibv_cq *)cq;
}

/* Changes for how many completions a queue has room. */
int ibv_resize_cq(struct ibv_cq *cq, int cqe);

/* Changes when a queue tells of completions. */
static inline int ibv_modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr)
	__IBV_EXT_INT(cq->context, modify_cq, cq, attr)

	/* Frees a queue when its events are acknowledged; EBUSY while a queue pair uses it. */
	int ibv_destroy_cq(struct ibv_cq *cq);

/* Takes up to num_entries completions. Returns how many, or a negative number. */
static inline int ibv_poll_cq(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc)
{
	return cq->context->ops.poll_cq(cq, num_entries, wc);
}

/* Asks for one event, when the next completion (of a solicited message or an error) is added. */
static inline int ibv_req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	return cq->context->ops.req_notify_cq(cq, solicited_only);
}

/* Waits for an event of a channel, a cancellation point. Returns 0 and whose it is, or -1 with errno. */
int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context);

/* Acknowledges events. Destroying the queue waits for that. */
void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int nevents);

/* How a request ended, in words. */
const char *ibv_wc_status_str(enum ibv_wc_status status);

/* Begins to poll: ENOENT if there is no completion, and then ibv_end_poll must not be called. */
static inline int ibv_start_poll(struct ibv_cq_ex *cq, struct ibv_poll_cq_attr *attr)
{
	return cq->start_poll(cq, attr);
}

/* Goes on to the next completion: ENOENT if there is none. */
static inline int ibv_next_poll(struct ibv_cq_ex *cq)
{
	return cq->next_poll(cq);
}

/* Ends polling. */
static inline void ibv_end_poll(struct ibv_cq_ex *cq)
{
	cq->end_poll(cq);
}

/*
 * The fields of the current completion; wr_id and status are members of the queue. But for the first three,
 * each needs its flag of enum ibv_create_cq_wc_flags when the queue is made.
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

/* The key that was invalidated: it takes the place of the immediate data. */
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

/* In ticks of the device's clock (hca_core_clock). */
static inline uint64_t ibv_wc_read_completion_ts(struct ibv_cq_ex *cq)
{
	return cq->read_completion_ts(cq);
}

/* In nanoseconds of the real time clock. */
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

/* What the device's counters can do. */
int _ibv_query_comp_cntr_caps(struct ibv_context *context, struct ibv_comp_cntr_caps *caps, size_t caps_size);
static inline int ibv_query_comp_cntr_caps(struct ibv_context *context, struct ibv_comp_cntr_caps *caps)
{
	return _ibv_query_comp_cntr_caps(context, caps, sizeof(*caps));
}

/* Makes a counter, at 0. Freed by ibv_destroy_comp_cntr. */
struct ibv_comp_cntr *ibv_create_comp_cntr(struct ibv_context *context,
					   struct ibv_comp_cntr_init_attr *cc_attr);

/* Frees a counter; EBUSY while a queue pair uses it. */
int ibv_destroy_comp_cntr(struct ibv_comp_cntr *comp_cntr);

/* Sets the count of successful completions; of failed ones. */
int ibv_set_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t value);
int ibv_set_err_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t value);

/* Adds to the count of successful completions; of failed ones. */
int ibv_inc_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t amount);
int ibv_inc_err_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t amount);

/* Reads the count of successful completions; of failed ones. */
int ibv_read_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t *value);
int ibv_read_err_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t *value);

/* Makes a counter count completions of a queue pair, until that is destroyed. */
int ibv_qp_attach_comp_cntr(struct ibv_qp *qp, struct ibv_comp_cntr *comp_cntr,
			    struct ibv_qp_attach_comp_cntr_attr *attr);

/*
 * Verbs: shared receive queues
 */

/* Makes a queue of at least the sizes asked for; they come back as what there is. Freed by ibv_destroy_srq.
 */
struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *srq_init_attr);

/* Makes a queue of any type. Freed by ibv_destroy_srq. */
static inline struct ibv_srq *ibv_create_srq_ex(struct ibv_context *context,
						struct ibv_srq_init_attr_ex *srq_init_attr_ex)
{
	uint32_t mask = srq_init_attr_ex->comp_mask;
	int basic = !(mask & IBV_SRQ_INIT_ATTR_TYPE) || srq_init_attr_ex->srq_type == IBV_SRQT_BASIC;
	struct verbs_context *vctx;

	/* what ibv_create_srq can do too, it does */
	if (basic && (mask & ~(uint32_t)IBV_SRQ_INIT_ATTR_TYPE) == IBV_SRQ_INIT_ATTR_PD)
		return ibv_create_srq(srq_init_attr_ex->pd, (struct ibv_srq_init_attr *)srq_init_attr_ex);
	vctx = verbs_get_ctx_op(context, create_srq_ex);
	if (vctx)
		return vctx->create_srq_ex(context, srq_init_attr_ex);
	errno = EOPNOTSUPP;
	return NULL;
}

/* Changes a queue's size, or arms its limit; the mask is of enum ibv_srq_attr_mask. */
int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *srq_attr, int srq_attr_mask);

/* A queue's sizes. */
int ibv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *srq_attr);

/* The number of an XRC queue, which senders need. */
static inline int ibv_get_srq_num(struct ibv_srq *srq, uint32_t *srq_num)
	__IBV_EXT_INT(srq->context, get_srq_num, srq, srq_num)

	/* Frees a queue when its events are acknowledged; EBUSY while a queue pair uses it. */
	int ibv_destroy_srq(struct ibv_srq *srq);

/* Posts receives, as ibv_post_recv. */
static inline int ibv_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *recv_wr,
				    struct ibv_recv_wr **bad_recv_wr)
{
	return srq->context->ops.post_srq_recv(srq, recv_wr, bad_recv_wr);
}

/* Posts operations on tags. On failure bad_op is the first that was not posted. */
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

/* Makes a work queue. Freed by ibv_destroy_wq. */
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

/* Changes a work queue's state or flags. */
static inline int ibv_modify_wq(struct ibv_wq *wq, struct ibv_wq_attr *wq_attr)
	__IBV_EXT_INT(wq->context, modify_wq, wq, wq_attr)

	/* Frees a work queue when its events are acknowledged; EBUSY while a table has it. */
	static inline int ibv_destroy_wq(struct ibv_wq *wq) __IBV_EXT_INT(wq->context, destroy_wq, wq)

	/* Posts receives, as ibv_post_recv. */
	static inline int ibv_post_wq_recv(struct ibv_wq *wq, struct ibv_recv_wr *recv_wr,
					   struct ibv_recv_wr **bad_recv_wr)
{
	return wq->post_recv(wq, recv_wr, bad_recv_wr);
}

/* Makes a table of work queues. Freed by ibv_destroy_rwq_ind_table. */
static inline struct ibv_rwq_ind_table *ibv_create_rwq_ind_table(
	struct ibv_context *context, struct ibv_rwq_ind_table_init_attr *init_attr)
	__IBV_EXT_PTR(context, create_rwq_ind_table, context, init_attr)

	/* Frees a table; EBUSY while a queue pair uses it. */
	static inline int ibv_destroy_rwq_ind_table(struct ibv_rwq_ind_table *rwq_ind_table)
		__IBV_EXT_INT(rwq_ind_table->context, destroy_rwq_ind_table, rwq_ind_table)

	/*
	 * Verbs: queue pairs
	 */

	/* Makes a queue pair, in the state RESET. Freed by ibv_destroy_qp. */
	struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *qp_init_attr);

/* Makes a queue pair with all there is. Freed by ibv_destroy_qp. */
static inline struct ibv_qp *ibv_create_qp_ex(struct ibv_context *context,
					      struct ibv_qp_init_attr_ex *qp_init_attr_ex)
{
	struct verbs_context *vctx;

	/* what ibv_create_qp can do too, it does */
	if (qp_init_attr_ex->comp_mask == IBV_QP_INIT_ATTR_PD)
		return ibv_create_qp(qp_init_attr_ex->pd, (struct ibv_qp_init_attr *)qp_init_attr_ex);
	vctx = verbs_get_ctx_op(context, create_qp_ex);
	if (vctx)
		return vctx->create_qp_ex(context, qp_init_attr_ex);
	errno = EOPNOTSUPP;
	return NULL;
}

/* Opens another process's shared queue pair (IBV_QPT_XRC_RECV), by its number. Freed by ibv_destroy_qp. */
static inline struct ibv_qp *ibv_open_qp(struct ibv_context *context, struct ibv_qp_open_attr *qp_open_attr)
	__IBV_EXT_PTR(context, open_qp, context, qp_open_attr)

	/* The extended form of a queue pair made with send_ops_flags; NULL for others. */
	struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp);

/* Changes the attributes that the mask, of enum ibv_qp_attr_mask, names. */
int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask);

/* Changes at what rate it sends. */
static inline int ibv_modify_qp_rate_limit(struct ibv_qp *qp, struct ibv_qp_rate_limit_attr *attr)
	__IBV_EXT_INT(qp->context, modify_qp_rate_limit, qp, attr)

	/* A queue pair's attributes. At least those of the mask hold afterwards. */
	int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask,
			 struct ibv_qp_init_attr *init_attr);

/*
 * Whether the data of an operation is written in order: 1 or 0, or with the flag for it capabilities. Both
 * flags and capabilities are of the enums ibv_query_qp_data_in_order_*.
 */
int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags);

/* Frees a queue pair when its events are acknowledged; EBUSY while it is in a multicast group. */
int ibv_destroy_qp(struct ibv_qp *qp);

/* Gives it the options that the other side offers. EOPNOTSUPP if no vendor is named. */
int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece);

/* Its options, to be offered to the other side. */
int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece);

/* Posts sends; those before bad_wr are posted even if it fails. Buffers are the device's until completion. */
static inline int ibv_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
{
	return qp->context->ops.post_send(qp, wr, bad_wr);
}

/* Posts receives; those before bad_wr are posted even if it fails. Buffers are the device's until completion.
 */
static inline int ibv_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	return qp->context->ops.post_recv(qp, wr, bad_wr);
}

/* What a send does, in words. */
const char *ibv_wr_opcode_str(enum ibv_wr_opcode opcode);

/* Lets a queue pair of datagrams receive what is sent to a group; lid is 0 on Ethernet. */
int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);

/* Undoes that. */
int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);

/*
 * Verbs: work requests, step by step. Between ibv_wr_start, which takes the queue's lock, and ibv_wr_complete
 * or ibv_wr_abort, which release it: wr_id and wr_flags are set, then comes an operation, then where to
 * (ibv_wr_set_ud_addr, ibv_wr_set_xrc_srqn) and with what data.
 */

/* Begins a batch of requests. */
static inline void ibv_wr_start(struct ibv_qp_ex *qp)
{
	qp->wr_start(qp);
}

/* Posts the whole batch, or nothing. */
static inline int ibv_wr_complete(struct ibv_qp_ex *qp)
{
	return qp->wr_complete(qp);
}

/* Forgets the batch. */
static inline void ibv_wr_abort(struct ibv_qp_ex *qp)
{
	qp->wr_abort(qp);
}

/* Operations. Each is the opcode of struct ibv_send_wr with that name. */
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

/* Writes 8 bytes at once. */
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

/* Flushes what was written: type is of enum ibv_placement_type, level of enum ibv_selectivity_level. */
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

/* The header is read before ibv_wr_complete returns. mss: payload of a segment. */
static inline void ibv_wr_send_tso(struct ibv_qp_ex *qp, void *hdr, uint16_t hdr_sz, uint16_t mss)
{
	qp->wr_send_tso(qp, hdr, hdr_sz, mss);
}

/* Where a datagram goes. */
static inline void ibv_wr_set_ud_addr(struct ibv_qp_ex *qp, struct ibv_ah *ah, uint32_t remote_qpn,
				      uint32_t remote_qkey)
{
	qp->wr_set_ud_addr(qp, ah, remote_qpn, remote_qkey);
}

/* Which shared receive queue an XRC message is for. */
static inline void ibv_wr_set_xrc_srqn(struct ibv_qp_ex *qp, uint32_t remote_srqn)
{
	qp->wr_set_xrc_srqn(qp, remote_srqn);
}

/* Data that is copied now, so that the buffer is free at once. */
static inline void ibv_wr_set_inline_data(struct ibv_qp_ex *qp, void *addr, size_t length)
{
	qp->wr_set_inline_data(qp, addr, length);
}

static inline void ibv_wr_set_inline_data_list(struct ibv_qp_ex *qp, size_t num_buf,
					       const struct ibv_data_buf *buf_list)
{
	qp->wr_set_inline_data_list(qp, num_buf, buf_list);
}

/* Data in registered memory; the list itself is copied. */
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

/* Makes an address handle. Freed by ibv_destroy_ah, when no request posted with it is left. */
struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr);

/* The address of a received datagram's sender. Returns 0, or -1 with errno. grh: the first 40 bytes received.
 */
int ibv_init_ah_from_wc(struct ibv_context *context, uint8_t port_num, struct ibv_wc *wc, struct ibv_grh *grh,
			struct ibv_ah_attr *ah_attr);

/* Makes an address handle for an answer to a received datagram. Freed by ibv_destroy_ah. */
struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh,
				     uint8_t port_num);

/* Frees an address handle. */
int ibv_destroy_ah(struct ibv_ah *ah);

/*
 * The MAC address, and unless vid is NULL the VLAN (0xffff: none), that packets to attr->grh.dgid go to. May
 * take 3 seconds. Returns 0, or a negative number.
 */
int ibv_resolve_eth_l2_from_gid(struct ibv_context *context, struct ibv_ah_attr *attr,
				uint8_t eth_mac[ETHERNET_LL_SIZE], uint16_t *vid);

/* A rate as a multiple of 2.5 Gb/s (-1: it is none), and back (IBV_RATE_MAX: there is none). */
int ibv_rate_to_mult(enum ibv_rate rate) __attribute__((__const__));
enum ibv_rate mult_to_ibv_rate(int mult) __attribute__((__const__));

/* A rate in Mb/s (-1: unknown), and back (IBV_RATE_MAX: there is none). */
int ibv_rate_to_mbps(enum ibv_rate rate) __attribute__((__const__));
enum ibv_rate mbps_to_ibv_rate(int mbps) __attribute__((__const__));

/* The UDP source ports of RoCE v2, and the bits of a flow label. */
#define IB_ROCE_UDP_ENCAP_VALID_PORT_MIN (0xC000)
#define IB_ROCE_UDP_ENCAP_VALID_PORT_MAX (0xFFFF)
#define IB_GRH_FLOWLABEL_MASK (0x000FFFFF)

/* The UDP source port that stands for a flow label: its 6 high bits are folded into the 14 low ones. */
static inline uint16_t ibv_flow_label_to_udp_sport(uint32_t fl)
{
	fl &= IB_GRH_FLOWLABEL_MASK;
	return (uint16_t)(IB_ROCE_UDP_ENCAP_VALID_PORT_MIN | ((fl ^ (fl >> 14)) & 0x3fff));
}

/*
 * Verbs: flow steering
 */

/* Steers packets to a queue pair. Undone by ibv_destroy_flow. */
static inline struct ibv_flow *ibv_create_flow(struct ibv_qp *qp, struct ibv_flow_attr *flow)
	__IBV_EXT_PTR(qp->context, ibv_create_flow, qp, flow)

		static inline int ibv_destroy_flow(struct ibv_flow *flow_id)
			__IBV_EXT_INT(flow_id->context, ibv_destroy_flow, flow_id)

	/* Makes an action on ESP packets. Freed by ibv_destroy_flow_action. */
	static inline struct ibv_flow_action *ibv_create_flow_action_esp(struct ibv_context *ctx,
									 struct ibv_flow_action_esp_attr *esp)
		__IBV_EXT_PTR(ctx, create_flow_action_esp, ctx, esp)

	/* Changes an action. */
	static inline int ibv_modify_flow_action_esp(struct ibv_flow_action *action,
						     struct ibv_flow_action_esp_attr *esp)
		__IBV_EXT_INT(action->context, modify_flow_action_esp, action, esp)

	/* Frees an action; EBUSY while a flow refers to it. */
	static inline int ibv_destroy_flow_action(struct ibv_flow_action *action)
		__IBV_EXT_INT(action->context, destroy_flow_action, action)

	/* Makes a set of counters. Freed by ibv_destroy_counters. */
	static inline struct ibv_counters *ibv_create_counters(struct ibv_context *context,
							       struct ibv_counters_init_attr *init_attr)
		__IBV_EXT_PTR(context, create_counters, context, init_attr)

	/* Frees a set; EBUSY while a flow has it. */
	static inline int ibv_destroy_counters(struct ibv_counters *counters)
		__IBV_EXT_INT(counters->context, destroy_counters, counters)

	/* Says what a counter of the set counts: of a flow, or with NULL of all flows that it is bound to. */
	static inline int ibv_attach_counters_point_flow(struct ibv_counters *counters,
							 struct ibv_counter_attach_attr *attr,
							 struct ibv_flow *flow)
		__IBV_EXT_INT(counters->context, attach_counters_point_flow, counters, attr, flow)

	/* Reads a set; flags are of enum ibv_read_counters_flags. */
	static inline int ibv_read_counters(struct ibv_counters *counters, uint64_t *counters_value,
					    uint32_t ncounters, uint32_t flags)
		__IBV_EXT_INT(counters->context, read_counters, counters, counters_value, ncounters, flags)

#undef __IBV_EXT_INT
#undef __IBV_EXT_PTR

#ifdef __cplusplus
}
#endif

#endif
