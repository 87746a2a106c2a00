//! Commands for devices and ports (`rdma/ib_user_verbs.h`).

/// Request of `IB_USER_VERBS_CMD_GET_CONTEXT`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_get_context {
    pub response: u64,
    pub driver_data: [u64; 0],
}

/// Response to [`ib_uverbs_get_context`].
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_get_context_resp {
    pub async_fd: u32,
    pub num_comp_vectors: u32,
    pub driver_data: [u64; 0],
}

/// Request of `IB_USER_VERBS_CMD_QUERY_DEVICE`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_query_device {
    pub response: u64,
    pub driver_data: [u64; 0],
}

/// Response to [`ib_uverbs_query_device`].
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_query_device_resp {
    pub fw_ver: u64,
    pub node_guid: u64,
    pub sys_image_guid: u64,
    pub max_mr_size: u64,
    pub page_size_cap: u64,
    pub vendor_id: u32,
    pub vendor_part_id: u32,
    pub hw_ver: u32,
    pub max_qp: u32,
    pub max_qp_wr: u32,
    pub device_cap_flags: u32,
    pub max_sge: u32,
    pub max_sge_rd: u32,
    pub max_cq: u32,
    pub max_cqe: u32,
    pub max_mr: u32,
    pub max_pd: u32,
    pub max_qp_rd_atom: u32,
    pub max_ee_rd_atom: u32,
    pub max_res_rd_atom: u32,
    pub max_qp_init_rd_atom: u32,
    pub max_ee_init_rd_atom: u32,
    pub atomic_cap: u32,
    pub max_ee: u32,
    pub max_rdd: u32,
    pub max_mw: u32,
    pub max_raw_ipv6_qp: u32,
    pub max_raw_ethy_qp: u32,
    pub max_mcast_grp: u32,
    pub max_mcast_qp_attach: u32,
    pub max_total_mcast_qp_attach: u32,
    pub max_ah: u32,
    pub max_fmr: u32,
    pub max_map_per_fmr: u32,
    pub max_srq: u32,
    pub max_srq_wr: u32,
    pub max_srq_sge: u32,
    pub max_pkeys: u16,
    pub local_ca_ack_delay: u8,
    pub phys_port_cnt: u8,
    pub reserved: [u8; 4],
}

/// Request of `IB_USER_VERBS_EX_CMD_QUERY_DEVICE`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_ex_query_device {
    pub comp_mask: u32,
    pub reserved: u32,
}

/// Response to [`ib_uverbs_ex_query_device`].
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_ex_query_device_resp {
    pub base: ib_uverbs_query_device_resp,
    pub comp_mask: u32,
    pub response_length: u32,
    pub odp_caps: ib_uverbs_odp_caps,
    pub timestamp_mask: u64,
    pub hca_core_clock: u64,
    pub device_cap_flags_ex: u64,
    pub rss_caps: ib_uverbs_rss_caps,
    pub max_wq_type_rq: u32,
    pub raw_packet_caps: u32,
    pub tm_caps: ib_uverbs_tm_caps,
    pub cq_moderation_caps: ib_uverbs_cq_moderation_caps,
    pub max_dm_size: u64,
    pub xrc_odp_caps: u32,
    pub reserved: u32,
}

/// The kernel's [`ibv_odp_general_caps`](crate::ibv_odp_general_caps).
pub type ib_uverbs_odp_general_cap_bits = u32;
pub const IB_UVERBS_ODP_SUPPORT: ib_uverbs_odp_general_cap_bits = 1 << 0;
pub const IB_UVERBS_ODP_SUPPORT_IMPLICIT: ib_uverbs_odp_general_cap_bits = 1 << 1;

/// The kernel's [`ibv_odp_transport_cap_bits`](crate::ibv_odp_transport_cap_bits).
pub type ib_uverbs_odp_transport_cap_bits = u32;
pub const IB_UVERBS_ODP_SUPPORT_SEND: ib_uverbs_odp_transport_cap_bits = 1 << 0;
pub const IB_UVERBS_ODP_SUPPORT_RECV: ib_uverbs_odp_transport_cap_bits = 1 << 1;
pub const IB_UVERBS_ODP_SUPPORT_WRITE: ib_uverbs_odp_transport_cap_bits = 1 << 2;
pub const IB_UVERBS_ODP_SUPPORT_READ: ib_uverbs_odp_transport_cap_bits = 1 << 3;
pub const IB_UVERBS_ODP_SUPPORT_ATOMIC: ib_uverbs_odp_transport_cap_bits = 1 << 4;
pub const IB_UVERBS_ODP_SUPPORT_SRQ_RECV: ib_uverbs_odp_transport_cap_bits = 1 << 5;
pub const IB_UVERBS_ODP_SUPPORT_FLUSH: ib_uverbs_odp_transport_cap_bits = 1 << 6;
pub const IB_UVERBS_ODP_SUPPORT_ATOMIC_WRITE: ib_uverbs_odp_transport_cap_bits = 1 << 7;

/// The kernel's [`ibv_odp_caps`](crate::ibv_odp_caps).
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_odp_caps {
    pub general_caps: u64,
    pub per_transport_caps: ib_uverbs_odp_caps_per_transport_caps,
    pub reserved: u32,
}

/// The type of `per_transport_caps` in [`ib_uverbs_odp_caps`].
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_odp_caps_per_transport_caps {
    pub rc_odp_caps: u32,
    pub uc_odp_caps: u32,
    pub ud_odp_caps: u32,
}

/// The kernel's [`ibv_rss_caps`](crate::ibv_rss_caps).
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_rss_caps {
    pub supported_qpts: u32,
    pub max_rwq_indirection_tables: u32,
    pub max_rwq_indirection_table_size: u32,
    pub reserved: u32,
}

/// The kernel's [`ibv_tm_caps`](crate::ibv_tm_caps).
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_tm_caps {
    pub max_rndv_hdr_size: u32,
    pub max_num_tags: u32,
    pub flags: u32,
    pub max_ops: u32,
    pub max_sge: u32,
    pub reserved: u32,
}

/// The kernel's [`ibv_cq_moderation_caps`](crate::ibv_cq_moderation_caps).
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_cq_moderation_caps {
    pub max_cq_moderation_count: u16,
    pub max_cq_moderation_period: u16,
    pub reserved: u32,
}

/// The kernel's capability flags.
pub type ib_uverbs_device_cap_flags = u64;
pub const IB_UVERBS_DEVICE_RESIZE_MAX_WR: ib_uverbs_device_cap_flags = 1 << 0;
pub const IB_UVERBS_DEVICE_BAD_PKEY_CNTR: ib_uverbs_device_cap_flags = 1 << 1;
pub const IB_UVERBS_DEVICE_BAD_QKEY_CNTR: ib_uverbs_device_cap_flags = 1 << 2;
pub const IB_UVERBS_DEVICE_RAW_MULTI: ib_uverbs_device_cap_flags = 1 << 3;
pub const IB_UVERBS_DEVICE_AUTO_PATH_MIG: ib_uverbs_device_cap_flags = 1 << 4;
pub const IB_UVERBS_DEVICE_CHANGE_PHY_PORT: ib_uverbs_device_cap_flags = 1 << 5;
pub const IB_UVERBS_DEVICE_UD_AV_PORT_ENFORCE: ib_uverbs_device_cap_flags = 1 << 6;
pub const IB_UVERBS_DEVICE_CURR_QP_STATE_MOD: ib_uverbs_device_cap_flags = 1 << 7;
pub const IB_UVERBS_DEVICE_SHUTDOWN_PORT: ib_uverbs_device_cap_flags = 1 << 8;
pub const IB_UVERBS_DEVICE_PORT_ACTIVE_EVENT: ib_uverbs_device_cap_flags = 1 << 10;
pub const IB_UVERBS_DEVICE_SYS_IMAGE_GUID: ib_uverbs_device_cap_flags = 1 << 11;
pub const IB_UVERBS_DEVICE_RC_RNR_NAK_GEN: ib_uverbs_device_cap_flags = 1 << 12;
pub const IB_UVERBS_DEVICE_SRQ_RESIZE: ib_uverbs_device_cap_flags = 1 << 13;
pub const IB_UVERBS_DEVICE_N_NOTIFY_CQ: ib_uverbs_device_cap_flags = 1 << 14;
pub const IB_UVERBS_DEVICE_MEM_WINDOW: ib_uverbs_device_cap_flags = 1 << 17;
pub const IB_UVERBS_DEVICE_UD_IP_CSUM: ib_uverbs_device_cap_flags = 1 << 18;
pub const IB_UVERBS_DEVICE_XRC: ib_uverbs_device_cap_flags = 1 << 20;
pub const IB_UVERBS_DEVICE_MEM_MGT_EXTENSIONS: ib_uverbs_device_cap_flags = 1 << 21;
pub const IB_UVERBS_DEVICE_MEM_WINDOW_TYPE_2A: ib_uverbs_device_cap_flags = 1 << 23;
pub const IB_UVERBS_DEVICE_MEM_WINDOW_TYPE_2B: ib_uverbs_device_cap_flags = 1 << 24;
pub const IB_UVERBS_DEVICE_RC_IP_CSUM: ib_uverbs_device_cap_flags = 1 << 25;
pub const IB_UVERBS_DEVICE_RAW_IP_CSUM: ib_uverbs_device_cap_flags = 1 << 26;
pub const IB_UVERBS_DEVICE_MANAGED_FLOW_STEERING: ib_uverbs_device_cap_flags = 1 << 29;
pub const IB_UVERBS_DEVICE_RAW_SCATTER_FCS: ib_uverbs_device_cap_flags = 1 << 34;
pub const IB_UVERBS_DEVICE_PCI_WRITE_END_PADDING: ib_uverbs_device_cap_flags = 1 << 36;
pub const IB_UVERBS_DEVICE_FLUSH_GLOBAL: ib_uverbs_device_cap_flags = 1 << 38;
pub const IB_UVERBS_DEVICE_FLUSH_PERSISTENT: ib_uverbs_device_cap_flags = 1 << 39;
pub const IB_UVERBS_DEVICE_ATOMIC_WRITE: ib_uverbs_device_cap_flags = 1 << 40;
pub const IB_UVERBS_DEVICE_CC_DMA_BOUNCE: ib_uverbs_device_cap_flags = 1 << 41;

/// The kernel's [`ibv_raw_packet_caps`](crate::ibv_raw_packet_caps).
pub type ib_uverbs_raw_packet_caps = u32;
pub const IB_UVERBS_RAW_PACKET_CAP_CVLAN_STRIPPING: ib_uverbs_raw_packet_caps = 1 << 0;
pub const IB_UVERBS_RAW_PACKET_CAP_SCATTER_FCS: ib_uverbs_raw_packet_caps = 1 << 1;
pub const IB_UVERBS_RAW_PACKET_CAP_IP_CSUM: ib_uverbs_raw_packet_caps = 1 << 2;
pub const IB_UVERBS_RAW_PACKET_CAP_DELAY_DROP: ib_uverbs_raw_packet_caps = 1 << 3;

/// Features of the kernel's RDMA core.
pub type ib_uverbs_core_support = u32;
pub const IB_UVERBS_CORE_SUPPORT_OPTIONAL_MR_ACCESS: ib_uverbs_core_support = 1 << 0;
pub const IB_UVERBS_CORE_SUPPORT_ROBUST_UDATA: ib_uverbs_core_support = 1 << 1;

/// Size of a device's name with the terminating NUL.
pub const IB_DEVICE_NAME_MAX: u32 = 64;

/// Request of `IB_USER_VERBS_CMD_QUERY_PORT`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_query_port {
    pub response: u64,
    pub port_num: u8,
    pub reserved: [u8; 7],
    pub driver_data: [u64; 0],
}

/// Response to [`ib_uverbs_query_port`].
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_query_port_resp {
    pub port_cap_flags: u32,
    pub max_msg_sz: u32,
    pub bad_pkey_cntr: u32,
    pub qkey_viol_cntr: u32,
    pub gid_tbl_len: u32,
    pub pkey_tbl_len: u16,
    pub lid: u16,
    pub sm_lid: u16,
    pub state: u8,
    pub max_mtu: u8,
    pub active_mtu: u8,
    pub lmc: u8,
    pub max_vl_num: u8,
    pub sm_sl: u8,
    pub subnet_timeout: u8,
    pub init_type_reply: u8,
    pub active_width: u8,
    pub active_speed: u8,
    pub phys_state: u8,
    pub link_layer: u8,
    pub flags: u8,
    pub reserved: u8,
}

/// Response of `UVERBS_METHOD_QUERY_PORT`: the response of the write command, and newer members.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_query_port_resp_ex {
    pub legacy_resp: ib_uverbs_query_port_resp,
    pub port_cap_flags2: u16,
    pub reserved: [u8; 2],
    pub active_speed_ex: u32,
}

/// The kernel's [`ibv_port_cap_flags`](crate::ibv_port_cap_flags).
pub type ib_uverbs_query_port_cap_flags = u32;
pub const IB_UVERBS_PCF_SM: ib_uverbs_query_port_cap_flags = 1 << 1;
pub const IB_UVERBS_PCF_NOTICE_SUP: ib_uverbs_query_port_cap_flags = 1 << 2;
pub const IB_UVERBS_PCF_TRAP_SUP: ib_uverbs_query_port_cap_flags = 1 << 3;
pub const IB_UVERBS_PCF_OPT_IPD_SUP: ib_uverbs_query_port_cap_flags = 1 << 4;
pub const IB_UVERBS_PCF_AUTO_MIGR_SUP: ib_uverbs_query_port_cap_flags = 1 << 5;
pub const IB_UVERBS_PCF_SL_MAP_SUP: ib_uverbs_query_port_cap_flags = 1 << 6;
pub const IB_UVERBS_PCF_MKEY_NVRAM: ib_uverbs_query_port_cap_flags = 1 << 7;
pub const IB_UVERBS_PCF_PKEY_NVRAM: ib_uverbs_query_port_cap_flags = 1 << 8;
pub const IB_UVERBS_PCF_LED_INFO_SUP: ib_uverbs_query_port_cap_flags = 1 << 9;
pub const IB_UVERBS_PCF_SM_DISABLED: ib_uverbs_query_port_cap_flags = 1 << 10;
pub const IB_UVERBS_PCF_SYS_IMAGE_GUID_SUP: ib_uverbs_query_port_cap_flags = 1 << 11;
pub const IB_UVERBS_PCF_PKEY_SW_EXT_PORT_TRAP_SUP: ib_uverbs_query_port_cap_flags = 1 << 12;
pub const IB_UVERBS_PCF_EXTENDED_SPEEDS_SUP: ib_uverbs_query_port_cap_flags = 1 << 14;
pub const IB_UVERBS_PCF_CM_SUP: ib_uverbs_query_port_cap_flags = 1 << 16;
pub const IB_UVERBS_PCF_SNMP_TUNNEL_SUP: ib_uverbs_query_port_cap_flags = 1 << 17;
pub const IB_UVERBS_PCF_REINIT_SUP: ib_uverbs_query_port_cap_flags = 1 << 18;
pub const IB_UVERBS_PCF_DEVICE_MGMT_SUP: ib_uverbs_query_port_cap_flags = 1 << 19;
pub const IB_UVERBS_PCF_VENDOR_CLASS_SUP: ib_uverbs_query_port_cap_flags = 1 << 20;
pub const IB_UVERBS_PCF_DR_NOTICE_SUP: ib_uverbs_query_port_cap_flags = 1 << 21;
pub const IB_UVERBS_PCF_CAP_MASK_NOTICE_SUP: ib_uverbs_query_port_cap_flags = 1 << 22;
pub const IB_UVERBS_PCF_BOOT_MGMT_SUP: ib_uverbs_query_port_cap_flags = 1 << 23;
pub const IB_UVERBS_PCF_LINK_LATENCY_SUP: ib_uverbs_query_port_cap_flags = 1 << 24;
pub const IB_UVERBS_PCF_CLIENT_REG_SUP: ib_uverbs_query_port_cap_flags = 1 << 25;
pub const IB_UVERBS_PCF_LINK_SPEED_WIDTH_TABLE_SUP: ib_uverbs_query_port_cap_flags = 1 << 27;
pub const IB_UVERBS_PCF_VENDOR_SPECIFIC_MADS_TABLE_SUP: ib_uverbs_query_port_cap_flags = 1 << 28;
pub const IB_UVERBS_PCF_MCAST_PKEY_TRAP_SUPPRESSION_SUP: ib_uverbs_query_port_cap_flags = 1 << 29;
pub const IB_UVERBS_PCF_MCAST_FDB_TOP_SUP: ib_uverbs_query_port_cap_flags = 1 << 30;
pub const IB_UVERBS_PCF_HIERARCHY_INFO_SUP: ib_uverbs_query_port_cap_flags = 1 << 31;
pub const IB_UVERBS_PCF_IP_BASED_GIDS: ib_uverbs_query_port_cap_flags = 1 << 26;

/// `flags` of [`ib_uverbs_query_port_resp`].
pub type ib_uverbs_query_port_flags = u32;
pub const IB_UVERBS_QPF_GRH_REQUIRED: ib_uverbs_query_port_flags = 1 << 0;

/// The kernel's [`ibv_gid_type`](crate::ibv_gid_type).
pub type ib_uverbs_gid_type = u32;
pub const IB_UVERBS_GID_TYPE_IB: ib_uverbs_gid_type = 0;
pub const IB_UVERBS_GID_TYPE_ROCE_V1: ib_uverbs_gid_type = 1;
pub const IB_UVERBS_GID_TYPE_ROCE_V2: ib_uverbs_gid_type = 2;

/// The kernel's [`ibv_gid_entry`](crate::ibv_gid_entry).
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_gid_entry {
    pub gid: [u64; 2],
    pub gid_index: u32,
    pub port_num: u32,
    pub gid_type: u32,
    pub netdev_ifindex: u32,
}

/// A page with the parameters of the device's clock.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_clock_info {
    pub sign: u32,
    pub resv: u32,
    pub nsec: u64,
    pub cycles: u64,
    pub frac: u64,
    pub mult: u32,
    pub shift: u32,
    pub mask: u64,
    pub overflow_period: u64,
}
