/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Part of infiniband/ofed.h: experimental verbs of devices and ports.
 *
 * ibv_exp_query_device clears in comp_mask the bits of what today's verbs cannot query. Their members are 0.
 */
#ifndef INFINIBAND_OFED_EXP_DEVICE_H
#define INFINIBAND_OFED_EXP_DEVICE_H

#ifdef __cplusplus
extern "C" {
#endif

/* Where the values begin that the experimental verbs add to an enum, or to a set of flags. */
__extension__ enum ibv_exp_start_values {
	IBV_EXP_START_ENUM = 0x40,
	IBV_EXP_START_FLAG_LOC = 0x20,
	IBV_EXP_START_FLAG = (1ULL << IBV_EXP_START_FLAG_LOC)
};

enum ibv_exp_atomic_cap {
	IBV_EXP_ATOMIC_NONE = IBV_ATOMIC_NONE,
	IBV_EXP_ATOMIC_HCA = IBV_ATOMIC_HCA,
	IBV_EXP_ATOMIC_GLOB = IBV_ATOMIC_GLOB,
	IBV_EXP_ATOMIC_HCA_REPLY_BE = IBV_EXP_START_ENUM
};

/* exp_device_cap_flags of struct ibv_exp_device_attr */
__extension__ enum ibv_exp_device_cap_flags {
	IBV_EXP_DEVICE_RESIZE_MAX_WR = IBV_DEVICE_RESIZE_MAX_WR,
	IBV_EXP_DEVICE_BAD_PKEY_CNTR = IBV_DEVICE_BAD_PKEY_CNTR,
	IBV_EXP_DEVICE_BAD_QKEY_CNTR = IBV_DEVICE_BAD_QKEY_CNTR,
	IBV_EXP_DEVICE_RAW_MULTI = IBV_DEVICE_RAW_MULTI,
	IBV_EXP_DEVICE_AUTO_PATH_MIG = IBV_DEVICE_AUTO_PATH_MIG,
	IBV_EXP_DEVICE_CHANGE_PHY_PORT = IBV_DEVICE_CHANGE_PHY_PORT,
	IBV_EXP_DEVICE_UD_AV_PORT_ENFORCE = IBV_DEVICE_UD_AV_PORT_ENFORCE,
	IBV_EXP_DEVICE_CURR_QP_STATE_MOD = IBV_DEVICE_CURR_QP_STATE_MOD,
	IBV_EXP_DEVICE_SHUTDOWN_PORT = IBV_DEVICE_SHUTDOWN_PORT,
	IBV_EXP_DEVICE_INIT_TYPE = IBV_DEVICE_INIT_TYPE,
	IBV_EXP_DEVICE_PORT_ACTIVE_EVENT = IBV_DEVICE_PORT_ACTIVE_EVENT,
	IBV_EXP_DEVICE_SYS_IMAGE_GUID = IBV_DEVICE_SYS_IMAGE_GUID,
	IBV_EXP_DEVICE_RC_RNR_NAK_GEN = IBV_DEVICE_RC_RNR_NAK_GEN,
	IBV_EXP_DEVICE_SRQ_RESIZE = IBV_DEVICE_SRQ_RESIZE,
	IBV_EXP_DEVICE_N_NOTIFY_CQ = IBV_DEVICE_N_NOTIFY_CQ,
	IBV_EXP_DEVICE_XRC = IBV_DEVICE_XRC,
	IBV_EXP_DEVICE_DC_TRANSPORT = (IBV_EXP_START_FLAG << 0),
	IBV_EXP_DEVICE_QPG = (IBV_EXP_START_FLAG << 1),
	IBV_EXP_DEVICE_UD_RSS = (IBV_EXP_START_FLAG << 2),
	IBV_EXP_DEVICE_UD_TSS = (IBV_EXP_START_FLAG << 3),
	IBV_EXP_DEVICE_EXT_ATOMICS = (IBV_EXP_START_FLAG << 4),
	IBV_EXP_DEVICE_NOP = (IBV_EXP_START_FLAG << 5),
	IBV_EXP_DEVICE_UMR = (IBV_EXP_START_FLAG << 6),
	IBV_EXP_DEVICE_ODP = (IBV_EXP_START_FLAG << 7),
	IBV_EXP_DEVICE_VXLAN_SUPPORT = (IBV_EXP_START_FLAG << 10),
	IBV_EXP_DEVICE_RX_CSUM_TCP_UDP_PKT = (IBV_EXP_START_FLAG << 11),
	IBV_EXP_DEVICE_RX_CSUM_IP_PKT = (IBV_EXP_START_FLAG << 12),
	IBV_EXP_DEVICE_EC_OFFLOAD = (IBV_EXP_START_FLAG << 13),
	IBV_EXP_DEVICE_EXT_MASKED_ATOMICS = (IBV_EXP_START_FLAG << 14),
	IBV_EXP_DEVICE_RX_TCP_UDP_PKT_TYPE = (IBV_EXP_START_FLAG << 15),
	IBV_EXP_DEVICE_SCATTER_FCS = (IBV_EXP_START_FLAG << 16),
	IBV_EXP_DEVICE_MEM_WINDOW = (IBV_EXP_START_FLAG << 17),
	IBV_EXP_DEVICE_WQ_DELAY_DROP = (IBV_EXP_START_FLAG << 18),
	IBV_EXP_DEVICE_PHYSICAL_RANGE_MR = (IBV_EXP_START_FLAG << 19),
	IBV_EXP_DEVICE_CAPI = (IBV_EXP_START_FLAG << 20),
	IBV_EXP_DEVICE_MEM_MGT_EXTENSIONS = (IBV_EXP_START_FLAG << 21),
	IBV_EXP_DEVICE_DC_INFO = (IBV_EXP_START_FLAG << 22),
	IBV_EXP_DEVICE_MW_TYPE_2A = (IBV_EXP_START_FLAG << 23),
	IBV_EXP_DEVICE_MW_TYPE_2B = (IBV_EXP_START_FLAG << 24),
	IBV_EXP_DEVICE_UMR_FIXED_SIZE = (IBV_EXP_START_FLAG << 25),
	IBV_EXP_DEVICE_PACKET_BASED_CREDIT_MODE = (IBV_EXP_START_FLAG << 26),
	IBV_EXP_DEVICE_CROSS_CHANNEL = (IBV_EXP_START_FLAG << 28),
	IBV_EXP_DEVICE_MANAGED_FLOW_STEERING = (IBV_EXP_START_FLAG << 29),
	IBV_EXP_DEVICE_MR_ALLOCATE = (IBV_EXP_START_FLAG << 30),
	IBV_EXP_DEVICE_SHARED_MR = (IBV_EXP_START_FLAG << 31)
};

/* comp_mask of struct ibv_exp_device_attr. In: members to query; out: members that are valid. */
__extension__ enum ibv_exp_device_attr_comp_mask {
	IBV_EXP_DEVICE_ATTR_CALC_CAP = (1 << 0),
	IBV_EXP_DEVICE_ATTR_WITH_TIMESTAMP_MASK = (1 << 1),
	IBV_EXP_DEVICE_ATTR_WITH_HCA_CORE_CLOCK = (1 << 2),
	IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS = (1 << 3),
	IBV_EXP_DEVICE_DC_RD_REQ = (1 << 4),
	IBV_EXP_DEVICE_DC_RD_RES = (1 << 5),
	IBV_EXP_DEVICE_ATTR_INLINE_RECV_SZ = (1 << 6),
	IBV_EXP_DEVICE_ATTR_RSS_TBL_SZ = (1 << 7),
	IBV_EXP_DEVICE_ATTR_EXT_ATOMIC_ARGS = (1 << 8),
	IBV_EXP_DEVICE_ATTR_UMR = (1 << 9),
	IBV_EXP_DEVICE_ATTR_ODP = (1 << 10),
	IBV_EXP_DEVICE_ATTR_MAX_DCT = (1 << 11),
	IBV_EXP_DEVICE_ATTR_MAX_CTX_RES_DOMAIN = (1 << 12),
	IBV_EXP_DEVICE_ATTR_RX_HASH = (1 << 13),
	IBV_EXP_DEVICE_ATTR_MAX_WQ_TYPE_RQ = (1 << 14),
	IBV_EXP_DEVICE_ATTR_MAX_DEVICE_CTX = (1 << 15),
	IBV_EXP_DEVICE_ATTR_MP_RQ = (1 << 16),
	IBV_EXP_DEVICE_ATTR_VLAN_OFFLOADS = (1 << 17),
	IBV_EXP_DEVICE_ATTR_EC_CAPS = (1 << 18),
	IBV_EXP_DEVICE_ATTR_MASKED_ATOMICS = (1 << 19),
	IBV_EXP_DEVICE_ATTR_RX_PAD_END_ALIGN = (1 << 20),
	IBV_EXP_DEVICE_ATTR_TSO_CAPS = (1 << 21),
	IBV_EXP_DEVICE_ATTR_PACKET_PACING_CAPS = (1 << 22),
	IBV_EXP_DEVICE_ATTR_EC_GF_BASE = (1 << 23),
	IBV_EXP_DEVICE_ATTR_OOO_CAPS = (1 << 24),
	IBV_EXP_DEVICE_ATTR_SW_PARSING_CAPS = (1 << 25),
	IBV_EXP_DEVICE_ATTR_ODP_MAX_SIZE = (1 << 26),
	IBV_EXP_DEVICE_ATTR_TM_CAPS = (1 << 27),
	IBV_EXP_DEVICE_ATTR_TUNNEL_OFFLOADS_CAPS = (1 << 28),
	IBV_EXP_DEVICE_ATTR_MAX_DM_SIZE = (1 << 29),
	IBV_EXP_DEVICE_ATTR_TUNNELED_ATOMIC = (1 << 30),
	IBV_EXP_DEVICE_ATTR_COMP_MASK_2 = (1U << 31) /* comp_mask_2 is valid */
};
#define IBV_EXP_DEVICE_ATTR_RESERVED (1ULL << 32)

/* comp_mask_2 of struct ibv_exp_device_attr, likewise */
enum ibv_exp_device_attr_comp_mask_2 {
	IBV_EXP_DEVICE_ATTR_UMR_FIXED_SIZE_CAPS = (1 << 0),
	IBV_EXP_DEVICE_ATTR_PCI_ATOMIC_CAPS = (1 << 1),
	IBV_EXP_DEVICE_ATTR_RESERVED_2 = (1 << 2)
};

enum ibv_exp_tunnel_offloads_caps {
	IBV_EXP_RAW_PACKET_CAP_TUNNELED_OFFLOAD_VXLAN = 1 << 0,
	IBV_EXP_RAW_PACKET_CAP_TUNNELED_OFFLOAD_GRE = 1 << 1,
	IBV_EXP_RAW_PACKET_CAP_TUNNELED_OFFLOAD_GENEVE = 1 << 2
};

enum ibv_exp_tunneled_atomic_caps {
	IBV_EXP_TUNNELED_ATOMIC_SUPPORTED = 1 << 0
};

struct ibv_exp_device_calc_cap {
	uint64_t data_types;
	uint64_t data_sizes;
	uint64_t int_ops;
	uint64_t uint_ops;
	uint64_t fp_ops;
};

struct ibv_exp_ext_atomics_params {
	uint64_t log_atomic_arg_sizes;
	uint32_t max_fa_bit_boundary;
	uint32_t log_max_atomic_inline;
};

struct ibv_exp_masked_atomic_params {
	uint32_t max_fa_bit_boundary;
	uint32_t log_max_atomic_inline;
	uint64_t masked_log_atomic_arg_sizes;
	uint64_t masked_log_atomic_arg_sizes_network_endianness;
};

enum ibv_odp_general_cap_bits {
	IBV_EXP_ODP_SUPPORT = 1 << 0,
	IBV_EXP_ODP_SUPPORT_IMPLICIT = 1 << 1
};

enum ibv_exp_odp_transport_cap_bits {
	IBV_EXP_ODP_SUPPORT_SEND = 1 << 0,
	IBV_EXP_ODP_SUPPORT_RECV = 1 << 1,
	IBV_EXP_ODP_SUPPORT_WRITE = 1 << 2,
	IBV_EXP_ODP_SUPPORT_READ = 1 << 3,
	IBV_EXP_ODP_SUPPORT_ATOMIC = 1 << 4,
	IBV_EXP_ODP_SUPPORT_SRQ_RECV = 1 << 5
};

struct ibv_exp_umr_caps {
	uint32_t max_klm_list_size;
	uint32_t max_send_wqe_inline_klms;
	uint32_t max_umr_recursion_depth;
	uint32_t max_umr_stride_dimension;
};

struct ibv_exp_odp_caps {
	uint64_t general_odp_caps; /* enum ibv_odp_general_cap_bits */
	struct {
		uint32_t rc_odp_caps; /* enum ibv_exp_odp_transport_cap_bits, as are the others */
		uint32_t uc_odp_caps;
		uint32_t ud_odp_caps;
		uint32_t dc_odp_caps;
		uint32_t xrc_odp_caps;
		uint32_t raw_eth_odp_caps;
	} per_transport_caps;
};

/* supported_qps of struct ibv_exp_rx_hash_caps. Other masks of QP types have bit n for QP type n. */
enum ibv_exp_supported_qp_types {
	IBV_EXP_QPT_RC = 1 << 0,
	IBV_EXP_QPT_UC = 1 << 1,
	IBV_EXP_QPT_UD = 1 << 2,
	IBV_EXP_QPT_XRC_INIT = 1 << 3,
	IBV_EXP_QPT_XRC_TGT = 1 << 4,
	IBV_EXP_QPT_RAW_PACKET = 1 << 5,
	IBV_EXP_QPT_RESERVED = 1 << 6
};

struct ibv_exp_rx_hash_caps {
	uint32_t max_rwq_indirection_tables;
	uint32_t max_rwq_indirection_table_size;
	uint8_t supported_hash_functions; /* enum ibv_exp_rx_hash_function_flags */
	uint64_t supported_packet_fields; /* enum ibv_exp_rx_hash_fields */
	uint32_t supported_qps;           /* enum ibv_exp_supported_qp_types */
};

enum ibv_exp_mp_rq_shifts {
	IBV_EXP_MP_RQ_NO_SHIFT = 0,
	IBV_EXP_MP_RQ_2BYTES_SHIFT = 1 << 0
};

enum ibv_exp_mp_rq_sup_types {
	IBV_EXP_MP_RQ_SUP_TYPE_SRQ_TM = 1 << 0,
	IBV_EXP_MP_RQ_SUP_TYPE_WQ_RQ = 1 << 5
};

struct ibv_exp_mp_rq_caps {
	uint32_t supported_qps;
	uint32_t allowed_shifts;
	uint8_t min_single_wqe_log_num_of_strides;
	uint8_t max_single_wqe_log_num_of_strides;
	uint8_t min_single_stride_log_num_of_bytes;
	uint8_t max_single_stride_log_num_of_bytes;
};

struct ibv_exp_ec_caps {
	uint32_t max_ec_data_vector_count;
	uint32_t max_ec_calc_inflight_calcs;
};

struct ibv_exp_tso_caps {
	uint32_t max_tso;
	uint32_t supported_qpts;
};

enum ibv_exp_packet_pacing_cap_flags {
	IBV_EXP_QP_SUPPORT_BURST = 1 << 0
};

struct ibv_exp_packet_pacing_caps {
	uint32_t qp_rate_limit_min; /* kbit/s */
	uint32_t qp_rate_limit_max;
	uint32_t supported_qpts;
	uint8_t cap_flags;
	uint8_t reserved[3];
};

enum ibv_exp_ooo_transport_cap_bits {
	IBV_EXP_OOO_SUPPORT_RW_DATA_PLACEMENT = (1 << 0)
};

struct ibv_exp_ooo_caps {
	uint32_t rc_caps;
	uint32_t xrc_caps;
	uint32_t dc_caps;
	uint32_t ud_caps;
};

enum ibv_exp_sw_parsing_offloads {
	IBV_EXP_SW_PARSING = (1 << 0),
	IBV_EXP_SW_PARSING_CSUM = (1 << 1),
	IBV_EXP_SW_PARSING_LSO = (1 << 2)
};

struct ibv_exp_sw_parsing_caps {
	uint32_t sw_parsing_offloads;
	uint32_t supported_qpts;
};

enum ibv_exp_tm_cap_flags {
	IBV_EXP_TM_CAP_RC = 1 << 0,
	IBV_EXP_TM_CAP_DC = 1 << 1
};

struct ibv_exp_tm_caps {
	uint32_t max_rndv_hdr_size;
	uint32_t max_num_tags;
	uint32_t capability_flags; /* enum ibv_exp_tm_cap_flags */
	uint32_t max_ops;
	uint32_t max_sge;
};

struct ibv_exp_umr_fixed_size_caps {
	uint64_t max_entity_size;
};

struct ibv_exp_pci_atomic_caps {
	uint16_t fetch_add;
	uint16_t swap;
	uint16_t compare_swap;
};

enum ibv_exp_pci_atomic_cap_ops_supported_sizes {
	IBV_EXP_PCI_ATOMIC_OP_SIZE_SUP_4_BYTES = (1 << 0),
	IBV_EXP_PCI_ATOMIC_OP_SIZE_SUP_8_BYTES = (1 << 1),
	IBV_EXP_PCI_ATOMIC_OP_SIZE_SUP_16_BYTES = (1 << 2)
};

/* The members up to phys_port_cnt are those of struct ibv_device_attr. */
struct ibv_exp_device_attr {
	char fw_ver[64];
	uint64_t node_guid;
	uint64_t sys_image_guid;
	uint64_t max_mr_size;
	uint64_t page_size_cap;
	uint32_t vendor_id;
	uint32_t vendor_part_id;
	uint32_t hw_ver;
	int max_qp;
	int max_qp_wr;
	int reserved; /* device_cap_flags of struct ibv_device_attr */
	int max_sge;
	int max_sge_rd;
	int max_cq;
	int max_cqe;
	int max_mr;
	int max_pd;
	int max_qp_rd_atom;
	int max_ee_rd_atom;
	int max_res_rd_atom;
	int max_qp_init_rd_atom;
	int max_ee_init_rd_atom;
	enum ibv_exp_atomic_cap exp_atomic_cap;
	int max_ee;
	int max_rdd;
	int max_mw;
	int max_raw_ipv6_qp;
	int max_raw_ethy_qp;
	int max_mcast_grp;
	int max_mcast_qp_attach;
	int max_total_mcast_qp_attach;
	int max_ah;
	int max_fmr;
	int max_map_per_fmr;
	int max_srq;
	int max_srq_wr;
	int max_srq_sge;
	uint16_t max_pkeys;
	uint8_t local_ca_ack_delay;
	uint8_t phys_port_cnt;
	uint32_t comp_mask; /* enum ibv_exp_device_attr_comp_mask */
	struct ibv_exp_device_calc_cap calc_cap;
	uint64_t timestamp_mask;
	uint64_t hca_core_clock;       /* kHz */
	uint64_t exp_device_cap_flags; /* enum ibv_exp_device_cap_flags */
	int max_dc_req_rd_atom;
	int max_dc_res_rd_atom;
	int inline_recv_sz;
	uint32_t max_rss_tbl_sz;
	struct ibv_exp_ext_atomics_params ext_atom;
	struct ibv_exp_umr_caps umr_caps;
	struct ibv_exp_odp_caps odp_caps;
	int max_dct;
	int max_ctx_res_domain;
	struct ibv_exp_rx_hash_caps rx_hash_caps;
	uint32_t max_wq_type_rq;
	int max_device_ctx;
	struct ibv_exp_mp_rq_caps mp_rq_caps;
	uint16_t wq_vlan_offloads_cap; /* enum ibv_exp_vlan_offloads */
	struct ibv_exp_ec_caps ec_caps;
	struct ibv_exp_masked_atomic_params masked_atomic;
	int rx_pad_end_addr_align;
	struct ibv_exp_tso_caps tso_caps;
	struct ibv_exp_packet_pacing_caps packet_pacing_caps;
	uint32_t ec_w_mask;
	struct ibv_exp_ooo_caps ooo_caps;
	struct ibv_exp_sw_parsing_caps sw_parsing_caps;
	uint64_t odp_mr_max_size;
	struct ibv_exp_tm_caps tm_caps;
	uint32_t tunnel_offloads_caps; /* enum ibv_exp_tunnel_offloads_caps */
	uint64_t max_dm_size;
	uint32_t tunneled_atomic_caps; /* enum ibv_exp_tunneled_atomic_caps */
	uint64_t comp_mask_2;          /* enum ibv_exp_device_attr_comp_mask_2 */
	struct ibv_exp_umr_fixed_size_caps umr_fixed_size_caps;
	struct ibv_exp_pci_atomic_caps pci_atomic_caps;
};

/* exp_device_cap_flags: capabilities below bit 32 have kept their place, others have moved by 32 bits. */
static inline uint64_t ibv_ofed_device_cap_flags(const struct ibv_device_attr_ex *now)
{
	uint64_t base = now->orig_attr.device_cap_flags, flags = base & 0x107fff;
	const uint64_t moved = IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_MGT_EXTENSIONS |
			       IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B |
			       IBV_DEVICE_MANAGED_FLOW_STEERING;

	flags |= (base & moved) << 32;
	if (base & (IBV_DEVICE_UD_IP_CSUM | IBV_DEVICE_RC_IP_CSUM | IBV_DEVICE_RAW_IP_CSUM))
		flags |= IBV_EXP_DEVICE_RX_CSUM_IP_PKT | IBV_EXP_DEVICE_RX_CSUM_TCP_UDP_PKT;
	if (now->device_cap_flags_ex & IBV_DEVICE_RAW_SCATTER_FCS)
		flags |= IBV_EXP_DEVICE_SCATTER_FCS;
	if (now->raw_packet_caps & IBV_RAW_PACKET_CAP_DELAY_DROP)
		flags |= IBV_EXP_DEVICE_WQ_DELAY_DROP;
	if (now->odp_caps.general_caps & IBV_ODP_SUPPORT)
		flags |= IBV_EXP_DEVICE_ODP;
	return flags | IBV_EXP_DEVICE_MR_ALLOCATE;
}

static inline void ibv_ofed_rss_caps(struct ibv_exp_rx_hash_caps *caps, const struct ibv_rss_caps *now)
{
	caps->max_rwq_indirection_tables = now->max_rwq_indirection_tables;
	caps->max_rwq_indirection_table_size = now->max_rwq_indirection_table_size;
	caps->supported_hash_functions = now->rx_hash_function;
	caps->supported_packet_fields = now->rx_hash_fields_mask;
	if (ibv_is_qpt_supported(now->supported_qpts, IBV_QPT_UD))
		caps->supported_qps |= IBV_EXP_QPT_UD;
	if (ibv_is_qpt_supported(now->supported_qpts, IBV_QPT_RAW_PACKET))
		caps->supported_qps |= IBV_EXP_QPT_RAW_PACKET;
}

/* The members from comp_mask on. */
static inline void ibv_ofed_device_caps(struct ibv_exp_device_attr *attr,
					const struct ibv_device_attr_ex *now)
{
	attr->timestamp_mask = now->completion_timestamp_mask;
	attr->hca_core_clock = now->hca_core_clock;
	attr->exp_device_cap_flags = ibv_ofed_device_cap_flags(now);
	attr->max_rss_tbl_sz = now->rss_caps.max_rwq_indirection_table_size;
	attr->odp_caps.general_odp_caps = now->odp_caps.general_caps & 3;
	attr->odp_caps.per_transport_caps.rc_odp_caps = now->odp_caps.per_transport_caps.rc_odp_caps & 0x3f;
	attr->odp_caps.per_transport_caps.uc_odp_caps = now->odp_caps.per_transport_caps.uc_odp_caps & 0x3f;
	attr->odp_caps.per_transport_caps.ud_odp_caps = now->odp_caps.per_transport_caps.ud_odp_caps & 0x3f;
	attr->odp_caps.per_transport_caps.xrc_odp_caps = now->xrc_odp_caps & 0x3f;
	attr->max_ctx_res_domain = 0x7fffffff;
	ibv_ofed_rss_caps(&attr->rx_hash_caps, &now->rss_caps);
	attr->max_wq_type_rq = now->max_wq_type_rq;
	attr->wq_vlan_offloads_cap = now->raw_packet_caps & IBV_RAW_PACKET_CAP_CVLAN_STRIPPING;
	attr->tso_caps.max_tso = now->tso_caps.max_tso;
	attr->tso_caps.supported_qpts = now->tso_caps.supported_qpts;
	attr->packet_pacing_caps.qp_rate_limit_min = now->packet_pacing_caps.qp_rate_limit_min;
	attr->packet_pacing_caps.qp_rate_limit_max = now->packet_pacing_caps.qp_rate_limit_max;
	attr->packet_pacing_caps.supported_qpts = now->packet_pacing_caps.supported_qpts;
	attr->tm_caps.max_rndv_hdr_size = now->tm_caps.max_rndv_hdr_size;
	attr->tm_caps.max_num_tags = now->tm_caps.max_num_tags;
	attr->tm_caps.capability_flags = now->tm_caps.flags & IBV_EXP_TM_CAP_RC;
	attr->tm_caps.max_ops = now->tm_caps.max_ops;
	attr->tm_caps.max_sge = now->tm_caps.max_sge;
	attr->max_dm_size = now->max_dm_size;
	attr->pci_atomic_caps.fetch_add = now->pci_atomic_caps.fetch_add;
	attr->pci_atomic_caps.swap = now->pci_atomic_caps.swap;
	attr->pci_atomic_caps.compare_swap = now->pci_atomic_caps.compare_swap;
}

/* Queries a device. */
static inline int ibv_exp_query_device(struct ibv_context *context, struct ibv_exp_device_attr *attr)
{
	const uint32_t known = IBV_EXP_DEVICE_ATTR_WITH_TIMESTAMP_MASK |
			       IBV_EXP_DEVICE_ATTR_WITH_HCA_CORE_CLOCK | IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS |
			       IBV_EXP_DEVICE_ATTR_INLINE_RECV_SZ | IBV_EXP_DEVICE_ATTR_RSS_TBL_SZ |
			       IBV_EXP_DEVICE_ATTR_ODP | IBV_EXP_DEVICE_ATTR_MAX_CTX_RES_DOMAIN |
			       IBV_EXP_DEVICE_ATTR_RX_HASH | IBV_EXP_DEVICE_ATTR_MAX_WQ_TYPE_RQ |
			       IBV_EXP_DEVICE_ATTR_VLAN_OFFLOADS | IBV_EXP_DEVICE_ATTR_TSO_CAPS |
			       IBV_EXP_DEVICE_ATTR_PACKET_PACING_CAPS | IBV_EXP_DEVICE_ATTR_TM_CAPS |
			       IBV_EXP_DEVICE_ATTR_MAX_DM_SIZE | (uint32_t)IBV_EXP_DEVICE_ATTR_COMP_MASK_2;
	uint32_t mask = attr->comp_mask & known;
	uint64_t mask_2 = mask & IBV_EXP_DEVICE_ATTR_COMP_MASK_2 ? attr->comp_mask_2 : 0;
	struct ibv_device_attr_ex now;
	int error;

	if (mask_2 >= IBV_EXP_DEVICE_ATTR_RESERVED_2)
		return EINVAL;
	memset(&now, 0, sizeof(now));
	error = ibv_query_device_ex(context, NULL, &now);
	if (error)
		return error;
	memset(attr, 0, sizeof(*attr));
	/* the members up to comp_mask have the layout of today's structure */
	memcpy(attr, &now.orig_attr, offsetof(struct ibv_exp_device_attr, comp_mask));
	ibv_ofed_device_caps(attr, &now);
	attr->comp_mask = mask;
	attr->comp_mask_2 = mask_2 & IBV_EXP_DEVICE_ATTR_PCI_ATOMIC_CAPS;
	return 0;
}

/* As ibv_get_device_list. */
static inline struct ibv_device **ibv_exp_get_device_list(int *num_devices)
{
	return ibv_get_device_list(num_devices);
}

#ifndef __cplusplus
/* <stdlib.h> hides it in the strict standards of C. */
int setenv(const char *name, const char *value, int overwrite);
#endif

/* As setenv: contexts have no environment of their own. */
static inline int ibv_exp_setenv(struct ibv_context *context, const char *name, const char *value,
				 int overwrite)
{
	(void)context;
	return setenv(name, value, overwrite);
}

#ifdef __cplusplus
}
#endif

#endif
