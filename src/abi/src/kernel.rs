//! The kernel's user ABI: the write commands, the ioctl attributes and RDMA netlink.

use super::*;

pub type ib_uverbs_write_cmds = u32;

pub type ib_uverbs_odp_general_cap_bits = u32;

pub type ib_uverbs_odp_transport_cap_bits = u32;

pub type ib_uverbs_ex_create_cq_flags = u32;

pub type ib_uverbs_wc_opcode = u32;

pub type ib_uverbs_create_qp_mask = u32;

pub type ib_uverbs_wr_opcode = u32;

pub type ib_uverbs_device_cap_flags = u64;

pub type ib_uverbs_raw_packet_caps = u32;

pub type ib_uverbs_core_support = u32;

pub type ib_uverbs_access_flags = u32;

pub type ib_uverbs_srq_type = u32;

pub type ib_uverbs_wq_type = u32;

pub type ib_uverbs_wq_flags = u32;

pub type ib_uverbs_qp_type = u32;

pub type ib_uverbs_qp_create_flags = u32;

pub type ib_uverbs_query_port_cap_flags = u32;

pub type ib_uverbs_query_port_flags = u32;

pub type ib_uverbs_flow_action_esp_keymat = u32;

pub type ib_uverbs_flow_action_esp_keymat_aes_gcm_iv_algo = u32;

pub type ib_uverbs_flow_action_esp_replay = u32;

pub type ib_uverbs_flow_action_esp_flags = u32;

pub type ib_uverbs_read_counters_flags = u32;

pub type ib_uverbs_advise_mr_advice = u32;

pub type ib_uverbs_advise_mr_flag = u32;

pub type rdma_driver_id = u32;

pub type ib_uverbs_gid_type = u32;

pub type ib_uverbs_buffer_type = u32;

pub type ib_uverbs_comp_cntr_entry = u32;

pub type ib_uverbs_comp_cntr_modify_op = u32;

pub type ib_uverbs_qp_attach_comp_cntr_op = u32;

pub type uverbs_default_objects = u32;

pub type uverbs_methods_device = u32;

pub type uverbs_attrs_invoke_write_cmd_attr_ids = u32;

pub type uverbs_attrs_query_port_cmd_attr_ids = u32;

pub type uverbs_attrs_query_port_speed_cmd_attr_ids = u32;

pub type uverbs_attrs_query_comp_cntr_caps_attr_ids = u32;

pub type uverbs_attrs_get_context_attr_ids = u32;

pub type uverbs_attrs_query_context_attr_ids = u32;

pub type uverbs_attrs_create_cq_cmd_attr_ids = u32;

pub type uverbs_attrs_destroy_cq_cmd_attr_ids = u32;

pub type uverbs_attrs_create_flow_action_esp = u32;

pub type uverbs_attrs_modify_flow_action_esp = u32;

pub type uverbs_attrs_destroy_flow_action_esp = u32;

pub type uverbs_attrs_create_qp_cmd_attr_ids = u32;

pub type uverbs_attrs_destroy_qp_cmd_attr_ids = u32;

pub type uverbs_attrs_qp_attach_comp_cntr_cmd_attr_ids = u32;

pub type uverbs_methods_qp = u32;

pub type uverbs_attrs_create_srq_cmd_attr_ids = u32;

pub type uverbs_attrs_destroy_srq_cmd_attr_ids = u32;

pub type uverbs_methods_srq = u32;

pub type uverbs_methods_cq = u32;

pub type uverbs_attrs_create_wq_cmd_attr_ids = u32;

pub type uverbs_attrs_destroy_wq_cmd_attr_ids = u32;

pub type uverbs_methods_wq = u32;

pub type uverbs_methods_actions_flow_action_ops = u32;

pub type uverbs_attrs_alloc_dm_cmd_attr_ids = u32;

pub type uverbs_attrs_free_dm_cmd_attr_ids = u32;

pub type uverbs_methods_dm = u32;

pub type uverbs_attrs_alloc_dmah_cmd_attr_ids = u32;

pub type uverbs_attrs_free_dmah_cmd_attr_ids = u32;

pub type uverbs_methods_dmah = u32;

pub type uverbs_attrs_alloc_dmabuf_cmd_attr_ids = u32;

pub type uverbs_methods_dmabuf = u32;

pub type uverbs_attrs_reg_dm_mr_cmd_attr_ids = u32;

pub type uverbs_methods_mr = u32;

pub type uverbs_attrs_mr_destroy_ids = u32;

pub type uverbs_attrs_advise_mr_cmd_attr_ids = u32;

pub type uverbs_attrs_query_mr_cmd_attr_ids = u32;

pub type uverbs_attrs_reg_dmabuf_mr_cmd_attr_ids = u32;

pub type uverbs_attrs_reg_mr_cmd_attr_ids = u32;

pub type uverbs_attrs_create_counters_cmd_attr_ids = u32;

pub type uverbs_attrs_destroy_counters_cmd_attr_ids = u32;

pub type uverbs_attrs_read_counters_cmd_attr_ids = u32;

pub type uverbs_methods_actions_counters_ops = u32;

pub type uverbs_attrs_info_handles_id = u32;

pub type uverbs_methods_pd = u32;

pub type uverbs_attrs_pd_destroy_ids = u32;

pub type uverbs_methods_mw = u32;

pub type uverbs_attrs_mw_destroy_ids = u32;

pub type uverbs_methods_xrcd = u32;

pub type uverbs_attrs_xrcd_destroy_ids = u32;

pub type uverbs_methods_ah = u32;

pub type uverbs_attrs_ah_destroy_ids = u32;

pub type uverbs_methods_rwq_ind_tbl = u32;

pub type uverbs_attrs_rwq_ind_tbl_destroy_ids = u32;

pub type uverbs_methods_flow = u32;

pub type uverbs_attrs_flow_destroy_ids = u32;

pub type uverbs_method_async_event = u32;

pub type uverbs_attrs_async_event_create = u32;

pub type uverbs_attrs_query_gid_table_cmd_attr_ids = u32;

pub type uverbs_attrs_query_gid_entry_cmd_attr_ids = u32;

pub type uverbs_methods_comp_cntr = u32;

pub type uverbs_attrs_create_comp_cntr_cmd_attr_ids = u32;

pub type uverbs_attrs_destroy_comp_cntr_cmd_attr_ids = u32;

pub type uverbs_attrs_modify_comp_cntr_cmd_attr_ids = u32;

pub type uverbs_attrs_read_comp_cntr_cmd_attr_ids = u32;

pub type rdma_nldev_command = u32;

pub type rdma_nldev_print_type = u32;

pub type rdma_nldev_attr = u32;

pub type rdma_nl_counter_mode = u32;

pub type rdma_nl_counter_mask = u32;

pub type rdma_nl_dev_type = u32;

pub type rdma_nl_name_assign_type = u32;

pub type rdma_nl_notify_event_type = u32;

pub const IB_USER_VERBS_ABI_VERSION: u32 = 6;

pub const IB_USER_VERBS_CMD_THRESHOLD: u32 = 50;

pub const IB_USER_VERBS_CMD_COMMAND_MASK: u32 = 255;

pub const IB_USER_VERBS_CMD_FLAG_EXTENDED: u32 = 2147483648;

pub const IB_USER_VERBS_MAX_LOG_IND_TBL_SIZE: u32 = 13;

pub const IB_DEVICE_NAME_MAX: u32 = 64;

pub const IB_UVERBS_ACCESS_OPTIONAL_FIRST: u32 = 1048576;

pub const IB_UVERBS_ACCESS_OPTIONAL_LAST: u32 = 536870912;

pub const IB_ROCE_UDP_ENCAP_VALID_PORT_MIN: u32 = 49152;

pub const IB_ROCE_UDP_ENCAP_VALID_PORT_MAX: u32 = 65535;

pub const IB_GRH_FLOWLABEL_MASK: u32 = 1048575;

pub const IB_USER_VERBS_MIN_ABI_VERSION: u32 = 3;

pub const IB_USER_VERBS_MAX_ABI_VERSION: u32 = 6;

pub const RDMA_IOCTL_MAGIC: u32 = 27;

pub const UVERBS_ID_NS_MASK: u32 = 61440;

pub const UVERBS_ID_NS_SHIFT: u32 = 12;

pub const RDMA_NLA_F_MANDATORY: u32 = 8192;

pub const IB_USER_VERBS_CMD_GET_CONTEXT: ib_uverbs_write_cmds = 0;

pub const IB_USER_VERBS_CMD_QUERY_DEVICE: ib_uverbs_write_cmds = 1;

pub const IB_USER_VERBS_CMD_QUERY_PORT: ib_uverbs_write_cmds = 2;

pub const IB_USER_VERBS_CMD_ALLOC_PD: ib_uverbs_write_cmds = 3;

pub const IB_USER_VERBS_CMD_DEALLOC_PD: ib_uverbs_write_cmds = 4;

pub const IB_USER_VERBS_CMD_CREATE_AH: ib_uverbs_write_cmds = 5;

pub const IB_USER_VERBS_CMD_MODIFY_AH: ib_uverbs_write_cmds = 6;

pub const IB_USER_VERBS_CMD_QUERY_AH: ib_uverbs_write_cmds = 7;

pub const IB_USER_VERBS_CMD_DESTROY_AH: ib_uverbs_write_cmds = 8;

pub const IB_USER_VERBS_CMD_REG_MR: ib_uverbs_write_cmds = 9;

pub const IB_USER_VERBS_CMD_REG_SMR: ib_uverbs_write_cmds = 10;

pub const IB_USER_VERBS_CMD_REREG_MR: ib_uverbs_write_cmds = 11;

pub const IB_USER_VERBS_CMD_QUERY_MR: ib_uverbs_write_cmds = 12;

pub const IB_USER_VERBS_CMD_DEREG_MR: ib_uverbs_write_cmds = 13;

pub const IB_USER_VERBS_CMD_ALLOC_MW: ib_uverbs_write_cmds = 14;

pub const IB_USER_VERBS_CMD_BIND_MW: ib_uverbs_write_cmds = 15;

pub const IB_USER_VERBS_CMD_DEALLOC_MW: ib_uverbs_write_cmds = 16;

pub const IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL: ib_uverbs_write_cmds = 17;

pub const IB_USER_VERBS_CMD_CREATE_CQ: ib_uverbs_write_cmds = 18;

pub const IB_USER_VERBS_CMD_RESIZE_CQ: ib_uverbs_write_cmds = 19;

pub const IB_USER_VERBS_CMD_DESTROY_CQ: ib_uverbs_write_cmds = 20;

pub const IB_USER_VERBS_CMD_POLL_CQ: ib_uverbs_write_cmds = 21;

pub const IB_USER_VERBS_CMD_PEEK_CQ: ib_uverbs_write_cmds = 22;

pub const IB_USER_VERBS_CMD_REQ_NOTIFY_CQ: ib_uverbs_write_cmds = 23;

pub const IB_USER_VERBS_CMD_CREATE_QP: ib_uverbs_write_cmds = 24;

pub const IB_USER_VERBS_CMD_QUERY_QP: ib_uverbs_write_cmds = 25;

pub const IB_USER_VERBS_CMD_MODIFY_QP: ib_uverbs_write_cmds = 26;

pub const IB_USER_VERBS_CMD_DESTROY_QP: ib_uverbs_write_cmds = 27;

pub const IB_USER_VERBS_CMD_POST_SEND: ib_uverbs_write_cmds = 28;

pub const IB_USER_VERBS_CMD_POST_RECV: ib_uverbs_write_cmds = 29;

pub const IB_USER_VERBS_CMD_ATTACH_MCAST: ib_uverbs_write_cmds = 30;

pub const IB_USER_VERBS_CMD_DETACH_MCAST: ib_uverbs_write_cmds = 31;

pub const IB_USER_VERBS_CMD_CREATE_SRQ: ib_uverbs_write_cmds = 32;

pub const IB_USER_VERBS_CMD_MODIFY_SRQ: ib_uverbs_write_cmds = 33;

pub const IB_USER_VERBS_CMD_QUERY_SRQ: ib_uverbs_write_cmds = 34;

pub const IB_USER_VERBS_CMD_DESTROY_SRQ: ib_uverbs_write_cmds = 35;

pub const IB_USER_VERBS_CMD_POST_SRQ_RECV: ib_uverbs_write_cmds = 36;

pub const IB_USER_VERBS_CMD_OPEN_XRCD: ib_uverbs_write_cmds = 37;

pub const IB_USER_VERBS_CMD_CLOSE_XRCD: ib_uverbs_write_cmds = 38;

pub const IB_USER_VERBS_CMD_CREATE_XSRQ: ib_uverbs_write_cmds = 39;

pub const IB_USER_VERBS_CMD_OPEN_QP: ib_uverbs_write_cmds = 40;

pub const IB_USER_VERBS_EX_CMD_QUERY_DEVICE: u32 = 1;

pub const IB_USER_VERBS_EX_CMD_CREATE_CQ: u32 = 18;

pub const IB_USER_VERBS_EX_CMD_CREATE_QP: u32 = 24;

pub const IB_USER_VERBS_EX_CMD_MODIFY_QP: u32 = 26;

pub const IB_USER_VERBS_EX_CMD_CREATE_FLOW: u32 = 50;

pub const IB_USER_VERBS_EX_CMD_DESTROY_FLOW: u32 = 51;

pub const IB_USER_VERBS_EX_CMD_CREATE_WQ: u32 = 52;

pub const IB_USER_VERBS_EX_CMD_MODIFY_WQ: u32 = 53;

pub const IB_USER_VERBS_EX_CMD_DESTROY_WQ: u32 = 54;

pub const IB_USER_VERBS_EX_CMD_CREATE_RWQ_IND_TBL: u32 = 55;

pub const IB_USER_VERBS_EX_CMD_DESTROY_RWQ_IND_TBL: u32 = 56;

pub const IB_USER_VERBS_EX_CMD_MODIFY_CQ: u32 = 57;

pub const IB_FLUSH_GLOBAL: ib_placement_type = 1;

pub const IB_FLUSH_PERSISTENT: ib_placement_type = 2;

pub const IB_FLUSH_RANGE: ib_selectivity_level = 0;

pub const IB_FLUSH_MR: ib_selectivity_level = 1;

pub const IB_UVERBS_ODP_SUPPORT: ib_uverbs_odp_general_cap_bits = 1;

pub const IB_UVERBS_ODP_SUPPORT_IMPLICIT: ib_uverbs_odp_general_cap_bits = 2;

pub const IB_UVERBS_ODP_SUPPORT_SEND: ib_uverbs_odp_transport_cap_bits = 1;

pub const IB_UVERBS_ODP_SUPPORT_RECV: ib_uverbs_odp_transport_cap_bits = 2;

pub const IB_UVERBS_ODP_SUPPORT_WRITE: ib_uverbs_odp_transport_cap_bits = 4;

pub const IB_UVERBS_ODP_SUPPORT_READ: ib_uverbs_odp_transport_cap_bits = 8;

pub const IB_UVERBS_ODP_SUPPORT_ATOMIC: ib_uverbs_odp_transport_cap_bits = 16;

pub const IB_UVERBS_ODP_SUPPORT_SRQ_RECV: ib_uverbs_odp_transport_cap_bits = 32;

pub const IB_UVERBS_ODP_SUPPORT_FLUSH: ib_uverbs_odp_transport_cap_bits = 64;

pub const IB_UVERBS_ODP_SUPPORT_ATOMIC_WRITE: ib_uverbs_odp_transport_cap_bits = 128;

pub const IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION: ib_uverbs_ex_create_cq_flags = 1;

pub const IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN: ib_uverbs_ex_create_cq_flags = 2;

pub const IB_UVERBS_WC_SEND: ib_uverbs_wc_opcode = 0;

pub const IB_UVERBS_WC_RDMA_WRITE: ib_uverbs_wc_opcode = 1;

pub const IB_UVERBS_WC_RDMA_READ: ib_uverbs_wc_opcode = 2;

pub const IB_UVERBS_WC_COMP_SWAP: ib_uverbs_wc_opcode = 3;

pub const IB_UVERBS_WC_FETCH_ADD: ib_uverbs_wc_opcode = 4;

pub const IB_UVERBS_WC_BIND_MW: ib_uverbs_wc_opcode = 5;

pub const IB_UVERBS_WC_LOCAL_INV: ib_uverbs_wc_opcode = 6;

pub const IB_UVERBS_WC_TSO: ib_uverbs_wc_opcode = 7;

pub const IB_UVERBS_WC_FLUSH: ib_uverbs_wc_opcode = 8;

pub const IB_UVERBS_WC_ATOMIC_WRITE: ib_uverbs_wc_opcode = 9;

pub const IB_UVERBS_CREATE_QP_MASK_IND_TABLE: ib_uverbs_create_qp_mask = 1;

pub const IB_UVERBS_CREATE_QP_SUP_COMP_MASK: u32 = 1;

pub const IB_UVERBS_WR_RDMA_WRITE: ib_uverbs_wr_opcode = 0;

pub const IB_UVERBS_WR_RDMA_WRITE_WITH_IMM: ib_uverbs_wr_opcode = 1;

pub const IB_UVERBS_WR_SEND: ib_uverbs_wr_opcode = 2;

pub const IB_UVERBS_WR_SEND_WITH_IMM: ib_uverbs_wr_opcode = 3;

pub const IB_UVERBS_WR_RDMA_READ: ib_uverbs_wr_opcode = 4;

pub const IB_UVERBS_WR_ATOMIC_CMP_AND_SWP: ib_uverbs_wr_opcode = 5;

pub const IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD: ib_uverbs_wr_opcode = 6;

pub const IB_UVERBS_WR_LOCAL_INV: ib_uverbs_wr_opcode = 7;

pub const IB_UVERBS_WR_BIND_MW: ib_uverbs_wr_opcode = 8;

pub const IB_UVERBS_WR_SEND_WITH_INV: ib_uverbs_wr_opcode = 9;

pub const IB_UVERBS_WR_TSO: ib_uverbs_wr_opcode = 10;

pub const IB_UVERBS_WR_RDMA_READ_WITH_INV: ib_uverbs_wr_opcode = 11;

pub const IB_UVERBS_WR_MASKED_ATOMIC_CMP_AND_SWP: ib_uverbs_wr_opcode = 12;

pub const IB_UVERBS_WR_MASKED_ATOMIC_FETCH_AND_ADD: ib_uverbs_wr_opcode = 13;

pub const IB_UVERBS_WR_FLUSH: ib_uverbs_wr_opcode = 14;

pub const IB_UVERBS_WR_ATOMIC_WRITE: ib_uverbs_wr_opcode = 15;

pub const IB_UVERBS_DEVICE_RESIZE_MAX_WR: ib_uverbs_device_cap_flags = 1;

pub const IB_UVERBS_DEVICE_BAD_PKEY_CNTR: ib_uverbs_device_cap_flags = 2;

pub const IB_UVERBS_DEVICE_BAD_QKEY_CNTR: ib_uverbs_device_cap_flags = 4;

pub const IB_UVERBS_DEVICE_RAW_MULTI: ib_uverbs_device_cap_flags = 8;

pub const IB_UVERBS_DEVICE_AUTO_PATH_MIG: ib_uverbs_device_cap_flags = 16;

pub const IB_UVERBS_DEVICE_CHANGE_PHY_PORT: ib_uverbs_device_cap_flags = 32;

pub const IB_UVERBS_DEVICE_UD_AV_PORT_ENFORCE: ib_uverbs_device_cap_flags = 64;

pub const IB_UVERBS_DEVICE_CURR_QP_STATE_MOD: ib_uverbs_device_cap_flags = 128;

pub const IB_UVERBS_DEVICE_SHUTDOWN_PORT: ib_uverbs_device_cap_flags = 256;

pub const IB_UVERBS_DEVICE_PORT_ACTIVE_EVENT: ib_uverbs_device_cap_flags = 1024;

pub const IB_UVERBS_DEVICE_SYS_IMAGE_GUID: ib_uverbs_device_cap_flags = 2048;

pub const IB_UVERBS_DEVICE_RC_RNR_NAK_GEN: ib_uverbs_device_cap_flags = 4096;

pub const IB_UVERBS_DEVICE_SRQ_RESIZE: ib_uverbs_device_cap_flags = 8192;

pub const IB_UVERBS_DEVICE_N_NOTIFY_CQ: ib_uverbs_device_cap_flags = 16384;

pub const IB_UVERBS_DEVICE_MEM_WINDOW: ib_uverbs_device_cap_flags = 131072;

pub const IB_UVERBS_DEVICE_UD_IP_CSUM: ib_uverbs_device_cap_flags = 262144;

pub const IB_UVERBS_DEVICE_XRC: ib_uverbs_device_cap_flags = 1048576;

pub const IB_UVERBS_DEVICE_MEM_MGT_EXTENSIONS: ib_uverbs_device_cap_flags = 2097152;

pub const IB_UVERBS_DEVICE_MEM_WINDOW_TYPE_2A: ib_uverbs_device_cap_flags = 8388608;

pub const IB_UVERBS_DEVICE_MEM_WINDOW_TYPE_2B: ib_uverbs_device_cap_flags = 16777216;

pub const IB_UVERBS_DEVICE_RC_IP_CSUM: ib_uverbs_device_cap_flags = 33554432;

pub const IB_UVERBS_DEVICE_RAW_IP_CSUM: ib_uverbs_device_cap_flags = 67108864;

pub const IB_UVERBS_DEVICE_MANAGED_FLOW_STEERING: ib_uverbs_device_cap_flags = 536870912;

pub const IB_UVERBS_DEVICE_RAW_SCATTER_FCS: ib_uverbs_device_cap_flags = 17179869184;

pub const IB_UVERBS_DEVICE_PCI_WRITE_END_PADDING: ib_uverbs_device_cap_flags = 68719476736;

pub const IB_UVERBS_DEVICE_FLUSH_GLOBAL: ib_uverbs_device_cap_flags = 274877906944;

pub const IB_UVERBS_DEVICE_FLUSH_PERSISTENT: ib_uverbs_device_cap_flags = 549755813888;

pub const IB_UVERBS_DEVICE_ATOMIC_WRITE: ib_uverbs_device_cap_flags = 1099511627776;

pub const IB_UVERBS_DEVICE_CC_DMA_BOUNCE: ib_uverbs_device_cap_flags = 2199023255552;

pub const IB_UVERBS_RAW_PACKET_CAP_CVLAN_STRIPPING: ib_uverbs_raw_packet_caps = 1;

pub const IB_UVERBS_RAW_PACKET_CAP_SCATTER_FCS: ib_uverbs_raw_packet_caps = 2;

pub const IB_UVERBS_RAW_PACKET_CAP_IP_CSUM: ib_uverbs_raw_packet_caps = 4;

pub const IB_UVERBS_RAW_PACKET_CAP_DELAY_DROP: ib_uverbs_raw_packet_caps = 8;

pub const IB_UVERBS_CORE_SUPPORT_OPTIONAL_MR_ACCESS: ib_uverbs_core_support = 1;

pub const IB_UVERBS_CORE_SUPPORT_ROBUST_UDATA: ib_uverbs_core_support = 2;

pub const IB_UVERBS_ACCESS_LOCAL_WRITE: ib_uverbs_access_flags = 1;

pub const IB_UVERBS_ACCESS_REMOTE_WRITE: ib_uverbs_access_flags = 2;

pub const IB_UVERBS_ACCESS_REMOTE_READ: ib_uverbs_access_flags = 4;

pub const IB_UVERBS_ACCESS_REMOTE_ATOMIC: ib_uverbs_access_flags = 8;

pub const IB_UVERBS_ACCESS_MW_BIND: ib_uverbs_access_flags = 16;

pub const IB_UVERBS_ACCESS_ZERO_BASED: ib_uverbs_access_flags = 32;

pub const IB_UVERBS_ACCESS_ON_DEMAND: ib_uverbs_access_flags = 64;

pub const IB_UVERBS_ACCESS_HUGETLB: ib_uverbs_access_flags = 128;

pub const IB_UVERBS_ACCESS_FLUSH_GLOBAL: ib_uverbs_access_flags = 256;

pub const IB_UVERBS_ACCESS_FLUSH_PERSISTENT: ib_uverbs_access_flags = 512;

pub const IB_UVERBS_ACCESS_RELAXED_ORDERING: ib_uverbs_access_flags = 1048576;

pub const IB_UVERBS_ACCESS_OPTIONAL_RANGE: ib_uverbs_access_flags = 1072693248;

pub const IB_UVERBS_SRQT_BASIC: ib_uverbs_srq_type = 0;

pub const IB_UVERBS_SRQT_XRC: ib_uverbs_srq_type = 1;

pub const IB_UVERBS_SRQT_TM: ib_uverbs_srq_type = 2;

pub const IB_UVERBS_WQT_RQ: ib_uverbs_wq_type = 0;

pub const IB_UVERBS_WQ_FLAGS_CVLAN_STRIPPING: ib_uverbs_wq_flags = 1;

pub const IB_UVERBS_WQ_FLAGS_SCATTER_FCS: ib_uverbs_wq_flags = 2;

pub const IB_UVERBS_WQ_FLAGS_DELAY_DROP: ib_uverbs_wq_flags = 4;

pub const IB_UVERBS_WQ_FLAGS_PCI_WRITE_END_PADDING: ib_uverbs_wq_flags = 8;

pub const IB_UVERBS_QPT_RC: ib_uverbs_qp_type = 2;

pub const IB_UVERBS_QPT_UC: ib_uverbs_qp_type = 3;

pub const IB_UVERBS_QPT_UD: ib_uverbs_qp_type = 4;

pub const IB_UVERBS_QPT_RAW_PACKET: ib_uverbs_qp_type = 8;

pub const IB_UVERBS_QPT_XRC_INI: ib_uverbs_qp_type = 9;

pub const IB_UVERBS_QPT_XRC_TGT: ib_uverbs_qp_type = 10;

pub const IB_UVERBS_QPT_DRIVER: ib_uverbs_qp_type = 255;

pub const IB_UVERBS_QP_CREATE_BLOCK_MULTICAST_LOOPBACK: ib_uverbs_qp_create_flags = 2;

pub const IB_UVERBS_QP_CREATE_SCATTER_FCS: ib_uverbs_qp_create_flags = 256;

pub const IB_UVERBS_QP_CREATE_CVLAN_STRIPPING: ib_uverbs_qp_create_flags = 512;

pub const IB_UVERBS_QP_CREATE_PCI_WRITE_END_PADDING: ib_uverbs_qp_create_flags = 2048;

pub const IB_UVERBS_QP_CREATE_SQ_SIG_ALL: ib_uverbs_qp_create_flags = 4096;

pub const IB_UVERBS_PCF_SM: ib_uverbs_query_port_cap_flags = 2;

pub const IB_UVERBS_PCF_NOTICE_SUP: ib_uverbs_query_port_cap_flags = 4;

pub const IB_UVERBS_PCF_TRAP_SUP: ib_uverbs_query_port_cap_flags = 8;

pub const IB_UVERBS_PCF_OPT_IPD_SUP: ib_uverbs_query_port_cap_flags = 16;

pub const IB_UVERBS_PCF_AUTO_MIGR_SUP: ib_uverbs_query_port_cap_flags = 32;

pub const IB_UVERBS_PCF_SL_MAP_SUP: ib_uverbs_query_port_cap_flags = 64;

pub const IB_UVERBS_PCF_MKEY_NVRAM: ib_uverbs_query_port_cap_flags = 128;

pub const IB_UVERBS_PCF_PKEY_NVRAM: ib_uverbs_query_port_cap_flags = 256;

pub const IB_UVERBS_PCF_LED_INFO_SUP: ib_uverbs_query_port_cap_flags = 512;

pub const IB_UVERBS_PCF_SM_DISABLED: ib_uverbs_query_port_cap_flags = 1024;

pub const IB_UVERBS_PCF_SYS_IMAGE_GUID_SUP: ib_uverbs_query_port_cap_flags = 2048;

pub const IB_UVERBS_PCF_PKEY_SW_EXT_PORT_TRAP_SUP: ib_uverbs_query_port_cap_flags = 4096;

pub const IB_UVERBS_PCF_EXTENDED_SPEEDS_SUP: ib_uverbs_query_port_cap_flags = 16384;

pub const IB_UVERBS_PCF_CM_SUP: ib_uverbs_query_port_cap_flags = 65536;

pub const IB_UVERBS_PCF_SNMP_TUNNEL_SUP: ib_uverbs_query_port_cap_flags = 131072;

pub const IB_UVERBS_PCF_REINIT_SUP: ib_uverbs_query_port_cap_flags = 262144;

pub const IB_UVERBS_PCF_DEVICE_MGMT_SUP: ib_uverbs_query_port_cap_flags = 524288;

pub const IB_UVERBS_PCF_VENDOR_CLASS_SUP: ib_uverbs_query_port_cap_flags = 1048576;

pub const IB_UVERBS_PCF_DR_NOTICE_SUP: ib_uverbs_query_port_cap_flags = 2097152;

pub const IB_UVERBS_PCF_CAP_MASK_NOTICE_SUP: ib_uverbs_query_port_cap_flags = 4194304;

pub const IB_UVERBS_PCF_BOOT_MGMT_SUP: ib_uverbs_query_port_cap_flags = 8388608;

pub const IB_UVERBS_PCF_LINK_LATENCY_SUP: ib_uverbs_query_port_cap_flags = 16777216;

pub const IB_UVERBS_PCF_CLIENT_REG_SUP: ib_uverbs_query_port_cap_flags = 33554432;

pub const IB_UVERBS_PCF_LINK_SPEED_WIDTH_TABLE_SUP: ib_uverbs_query_port_cap_flags = 134217728;

pub const IB_UVERBS_PCF_VENDOR_SPECIFIC_MADS_TABLE_SUP: ib_uverbs_query_port_cap_flags = 268435456;

pub const IB_UVERBS_PCF_MCAST_PKEY_TRAP_SUPPRESSION_SUP: ib_uverbs_query_port_cap_flags = 536870912;

pub const IB_UVERBS_PCF_MCAST_FDB_TOP_SUP: ib_uverbs_query_port_cap_flags = 1073741824;

pub const IB_UVERBS_PCF_HIERARCHY_INFO_SUP: ib_uverbs_query_port_cap_flags = 2147483648;

pub const IB_UVERBS_PCF_IP_BASED_GIDS: ib_uverbs_query_port_cap_flags = 67108864;

pub const IB_UVERBS_QPF_GRH_REQUIRED: ib_uverbs_query_port_flags = 1;

pub const IB_UVERBS_FLOW_ACTION_ESP_KEYMAT_AES_GCM: ib_uverbs_flow_action_esp_keymat = 0;

pub const IB_UVERBS_FLOW_ACTION_IV_ALGO_SEQ: ib_uverbs_flow_action_esp_keymat_aes_gcm_iv_algo = 0;

pub const IB_UVERBS_FLOW_ACTION_ESP_REPLAY_NONE: ib_uverbs_flow_action_esp_replay = 0;

pub const IB_UVERBS_FLOW_ACTION_ESP_REPLAY_BMP: ib_uverbs_flow_action_esp_replay = 1;

pub const IB_UVERBS_FLOW_ACTION_ESP_FLAGS_INLINE_CRYPTO: ib_uverbs_flow_action_esp_flags = 0;

pub const IB_UVERBS_FLOW_ACTION_ESP_FLAGS_FULL_OFFLOAD: ib_uverbs_flow_action_esp_flags = 1;

pub const IB_UVERBS_FLOW_ACTION_ESP_FLAGS_TUNNEL: ib_uverbs_flow_action_esp_flags = 0;

pub const IB_UVERBS_FLOW_ACTION_ESP_FLAGS_TRANSPORT: ib_uverbs_flow_action_esp_flags = 2;

pub const IB_UVERBS_FLOW_ACTION_ESP_FLAGS_DECRYPT: ib_uverbs_flow_action_esp_flags = 0;

pub const IB_UVERBS_FLOW_ACTION_ESP_FLAGS_ENCRYPT: ib_uverbs_flow_action_esp_flags = 4;

pub const IB_UVERBS_FLOW_ACTION_ESP_FLAGS_ESN_NEW_WINDOW: ib_uverbs_flow_action_esp_flags = 8;

pub const IB_UVERBS_READ_COUNTERS_PREFER_CACHED: ib_uverbs_read_counters_flags = 1;

pub const IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH: ib_uverbs_advise_mr_advice = 0;

pub const IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE: ib_uverbs_advise_mr_advice = 1;

pub const IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT: ib_uverbs_advise_mr_advice = 2;

pub const IB_UVERBS_ADVISE_MR_FLAG_FLUSH: ib_uverbs_advise_mr_flag = 1;

pub const RDMA_DRIVER_UNKNOWN: rdma_driver_id = 0;

pub const RDMA_DRIVER_MLX5: rdma_driver_id = 1;

pub const RDMA_DRIVER_MLX4: rdma_driver_id = 2;

pub const RDMA_DRIVER_CXGB3: rdma_driver_id = 3;

pub const RDMA_DRIVER_CXGB4: rdma_driver_id = 4;

pub const RDMA_DRIVER_MTHCA: rdma_driver_id = 5;

pub const RDMA_DRIVER_BNXT_RE: rdma_driver_id = 6;

pub const RDMA_DRIVER_OCRDMA: rdma_driver_id = 7;

pub const RDMA_DRIVER_NES: rdma_driver_id = 8;

pub const RDMA_DRIVER_I40IW: rdma_driver_id = 9;

pub const RDMA_DRIVER_IRDMA: rdma_driver_id = 9;

pub const RDMA_DRIVER_VMW_PVRDMA: rdma_driver_id = 10;

pub const RDMA_DRIVER_QEDR: rdma_driver_id = 11;

pub const RDMA_DRIVER_HNS: rdma_driver_id = 12;

pub const RDMA_DRIVER_USNIC: rdma_driver_id = 13;

pub const RDMA_DRIVER_RXE: rdma_driver_id = 14;

pub const RDMA_DRIVER_HFI1: rdma_driver_id = 15;

pub const RDMA_DRIVER_QIB: rdma_driver_id = 16;

pub const RDMA_DRIVER_EFA: rdma_driver_id = 17;

pub const RDMA_DRIVER_SIW: rdma_driver_id = 18;

pub const RDMA_DRIVER_ERDMA: rdma_driver_id = 19;

pub const RDMA_DRIVER_MANA: rdma_driver_id = 20;

pub const RDMA_DRIVER_IONIC: rdma_driver_id = 21;

pub const IB_UVERBS_GID_TYPE_IB: ib_uverbs_gid_type = 0;

pub const IB_UVERBS_GID_TYPE_ROCE_V1: ib_uverbs_gid_type = 1;

pub const IB_UVERBS_GID_TYPE_ROCE_V2: ib_uverbs_gid_type = 2;

pub const IB_UVERBS_BUFFER_TYPE_DMABUF: ib_uverbs_buffer_type = 0;

pub const IB_UVERBS_BUFFER_TYPE_VA: ib_uverbs_buffer_type = 1;

pub const IB_UVERBS_COMP_CNTR_ENTRY_COMP: ib_uverbs_comp_cntr_entry = 0;

pub const IB_UVERBS_COMP_CNTR_ENTRY_ERR: ib_uverbs_comp_cntr_entry = 1;

pub const IB_UVERBS_COMP_CNTR_MODIFY_OP_SET: ib_uverbs_comp_cntr_modify_op = 0;

pub const IB_UVERBS_COMP_CNTR_MODIFY_OP_INC: ib_uverbs_comp_cntr_modify_op = 1;

pub const IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_SEND: ib_uverbs_qp_attach_comp_cntr_op = 1;

pub const IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_RECV: ib_uverbs_qp_attach_comp_cntr_op = 2;

pub const IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_RDMA_READ: ib_uverbs_qp_attach_comp_cntr_op = 4;

pub const IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_READ: ib_uverbs_qp_attach_comp_cntr_op = 8;

pub const IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE: ib_uverbs_qp_attach_comp_cntr_op = 16;

pub const IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_WRITE: ib_uverbs_qp_attach_comp_cntr_op = 32;

pub const IB_USER_VERBS_CMD_MODIFY_SRQ_V3: u32 = 33;

pub const IB_USER_VERBS_CMD_CREATE_SRQ_V5: u32 = 32;

pub const IB_USER_VERBS_CMD_CREATE_QP_V4: u32 = 24;

pub const IB_USER_VERBS_CMD_CREATE_QP_V3: u32 = 24;

pub const UVERBS_ATTR_F_MANDATORY: u32 = 1;

pub const UVERBS_ATTR_F_VALID_OUTPUT: u32 = 2;

pub const UVERBS_OBJECT_DEVICE: uverbs_default_objects = 0;

pub const UVERBS_OBJECT_PD: uverbs_default_objects = 1;

pub const UVERBS_OBJECT_COMP_CHANNEL: uverbs_default_objects = 2;

pub const UVERBS_OBJECT_CQ: uverbs_default_objects = 3;

pub const UVERBS_OBJECT_QP: uverbs_default_objects = 4;

pub const UVERBS_OBJECT_SRQ: uverbs_default_objects = 5;

pub const UVERBS_OBJECT_AH: uverbs_default_objects = 6;

pub const UVERBS_OBJECT_MR: uverbs_default_objects = 7;

pub const UVERBS_OBJECT_MW: uverbs_default_objects = 8;

pub const UVERBS_OBJECT_FLOW: uverbs_default_objects = 9;

pub const UVERBS_OBJECT_XRCD: uverbs_default_objects = 10;

pub const UVERBS_OBJECT_RWQ_IND_TBL: uverbs_default_objects = 11;

pub const UVERBS_OBJECT_WQ: uverbs_default_objects = 12;

pub const UVERBS_OBJECT_FLOW_ACTION: uverbs_default_objects = 13;

pub const UVERBS_OBJECT_DM: uverbs_default_objects = 14;

pub const UVERBS_OBJECT_COUNTERS: uverbs_default_objects = 15;

pub const UVERBS_OBJECT_ASYNC_EVENT: uverbs_default_objects = 16;

pub const UVERBS_OBJECT_DMAH: uverbs_default_objects = 17;

pub const UVERBS_OBJECT_DMABUF: uverbs_default_objects = 18;

pub const UVERBS_OBJECT_COMP_CNTR: uverbs_default_objects = 19;

pub const UVERBS_ID_DRIVER_NS: u32 = 4096;

pub const UVERBS_ATTR_UHW_IN: u32 = 4096;

pub const UVERBS_ATTR_UHW_OUT: u32 = 4097;

pub const UVERBS_ID_DRIVER_NS_WITH_UHW: u32 = 4098;

pub const UVERBS_METHOD_INVOKE_WRITE: uverbs_methods_device = 0;

pub const UVERBS_METHOD_INFO_HANDLES: uverbs_methods_device = 1;

pub const UVERBS_METHOD_QUERY_PORT: uverbs_methods_device = 2;

pub const UVERBS_METHOD_GET_CONTEXT: uverbs_methods_device = 3;

pub const UVERBS_METHOD_QUERY_CONTEXT: uverbs_methods_device = 4;

pub const UVERBS_METHOD_QUERY_GID_TABLE: uverbs_methods_device = 5;

pub const UVERBS_METHOD_QUERY_GID_ENTRY: uverbs_methods_device = 6;

pub const UVERBS_METHOD_QUERY_PORT_SPEED: uverbs_methods_device = 7;

pub const UVERBS_METHOD_QUERY_COMP_CNTR_CAPS: uverbs_methods_device = 8;

pub const UVERBS_ATTR_CORE_IN: uverbs_attrs_invoke_write_cmd_attr_ids = 0;

pub const UVERBS_ATTR_CORE_OUT: uverbs_attrs_invoke_write_cmd_attr_ids = 1;

pub const UVERBS_ATTR_WRITE_CMD: uverbs_attrs_invoke_write_cmd_attr_ids = 2;

pub const UVERBS_ATTR_QUERY_PORT_PORT_NUM: uverbs_attrs_query_port_cmd_attr_ids = 0;

pub const UVERBS_ATTR_QUERY_PORT_RESP: uverbs_attrs_query_port_cmd_attr_ids = 1;

pub const UVERBS_ATTR_QUERY_PORT_SPEED_PORT_NUM: uverbs_attrs_query_port_speed_cmd_attr_ids = 0;

pub const UVERBS_ATTR_QUERY_PORT_SPEED_RESP: uverbs_attrs_query_port_speed_cmd_attr_ids = 1;

pub const UVERBS_ATTR_QUERY_COMP_CNTR_CAPS_MAX_COUNTERS:
    uverbs_attrs_query_comp_cntr_caps_attr_ids = 0;

pub const UVERBS_ATTR_QUERY_COMP_CNTR_CAPS_MAX_VALUE: uverbs_attrs_query_comp_cntr_caps_attr_ids =
    1;

pub const UVERBS_ATTR_QUERY_COMP_CNTR_CAPS_SUPPORTED_QP_ATTACH_OPS:
    uverbs_attrs_query_comp_cntr_caps_attr_ids = 2;

pub const UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS: uverbs_attrs_get_context_attr_ids = 0;

pub const UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT: uverbs_attrs_get_context_attr_ids = 1;

pub const UVERBS_ATTR_GET_CONTEXT_FD_ARR: uverbs_attrs_get_context_attr_ids = 2;

pub const UVERBS_ATTR_QUERY_CONTEXT_NUM_COMP_VECTORS: uverbs_attrs_query_context_attr_ids = 0;

pub const UVERBS_ATTR_QUERY_CONTEXT_CORE_SUPPORT: uverbs_attrs_query_context_attr_ids = 1;

pub const UVERBS_ATTR_CREATE_CQ_HANDLE: uverbs_attrs_create_cq_cmd_attr_ids = 0;

pub const UVERBS_ATTR_CREATE_CQ_CQE: uverbs_attrs_create_cq_cmd_attr_ids = 1;

pub const UVERBS_ATTR_CREATE_CQ_USER_HANDLE: uverbs_attrs_create_cq_cmd_attr_ids = 2;

pub const UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL: uverbs_attrs_create_cq_cmd_attr_ids = 3;

pub const UVERBS_ATTR_CREATE_CQ_COMP_VECTOR: uverbs_attrs_create_cq_cmd_attr_ids = 4;

pub const UVERBS_ATTR_CREATE_CQ_FLAGS: uverbs_attrs_create_cq_cmd_attr_ids = 5;

pub const UVERBS_ATTR_CREATE_CQ_RESP_CQE: uverbs_attrs_create_cq_cmd_attr_ids = 6;

pub const UVERBS_ATTR_CREATE_CQ_EVENT_FD: uverbs_attrs_create_cq_cmd_attr_ids = 7;

pub const UVERBS_ATTR_CREATE_CQ_BUFFER_VA: uverbs_attrs_create_cq_cmd_attr_ids = 8;

pub const UVERBS_ATTR_CREATE_CQ_BUFFER_LENGTH: uverbs_attrs_create_cq_cmd_attr_ids = 9;

pub const UVERBS_ATTR_CREATE_CQ_BUFFER_FD: uverbs_attrs_create_cq_cmd_attr_ids = 10;

pub const UVERBS_ATTR_CREATE_CQ_BUFFER_OFFSET: uverbs_attrs_create_cq_cmd_attr_ids = 11;

pub const UVERBS_ATTR_CREATE_CQ_BUF_UMEM: uverbs_attrs_create_cq_cmd_attr_ids = 12;

pub const UVERBS_ATTR_DESTROY_CQ_HANDLE: uverbs_attrs_destroy_cq_cmd_attr_ids = 0;

pub const UVERBS_ATTR_DESTROY_CQ_RESP: uverbs_attrs_destroy_cq_cmd_attr_ids = 1;

pub const UVERBS_ATTR_CREATE_FLOW_ACTION_ESP_HANDLE: uverbs_attrs_create_flow_action_esp = 0;

pub const UVERBS_ATTR_FLOW_ACTION_ESP_ATTRS: uverbs_attrs_create_flow_action_esp = 1;

pub const UVERBS_ATTR_FLOW_ACTION_ESP_ESN: uverbs_attrs_create_flow_action_esp = 2;

pub const UVERBS_ATTR_FLOW_ACTION_ESP_KEYMAT: uverbs_attrs_create_flow_action_esp = 3;

pub const UVERBS_ATTR_FLOW_ACTION_ESP_REPLAY: uverbs_attrs_create_flow_action_esp = 4;

pub const UVERBS_ATTR_FLOW_ACTION_ESP_ENCAP: uverbs_attrs_create_flow_action_esp = 5;

pub const UVERBS_ATTR_MODIFY_FLOW_ACTION_ESP_HANDLE: uverbs_attrs_modify_flow_action_esp = 0;

pub const UVERBS_ATTR_DESTROY_FLOW_ACTION_HANDLE: uverbs_attrs_destroy_flow_action_esp = 0;

pub const UVERBS_ATTR_CREATE_QP_HANDLE: uverbs_attrs_create_qp_cmd_attr_ids = 0;

pub const UVERBS_ATTR_CREATE_QP_XRCD_HANDLE: uverbs_attrs_create_qp_cmd_attr_ids = 1;

pub const UVERBS_ATTR_CREATE_QP_PD_HANDLE: uverbs_attrs_create_qp_cmd_attr_ids = 2;

pub const UVERBS_ATTR_CREATE_QP_SRQ_HANDLE: uverbs_attrs_create_qp_cmd_attr_ids = 3;

pub const UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE: uverbs_attrs_create_qp_cmd_attr_ids = 4;

pub const UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE: uverbs_attrs_create_qp_cmd_attr_ids = 5;

pub const UVERBS_ATTR_CREATE_QP_IND_TABLE_HANDLE: uverbs_attrs_create_qp_cmd_attr_ids = 6;

pub const UVERBS_ATTR_CREATE_QP_USER_HANDLE: uverbs_attrs_create_qp_cmd_attr_ids = 7;

pub const UVERBS_ATTR_CREATE_QP_CAP: uverbs_attrs_create_qp_cmd_attr_ids = 8;

pub const UVERBS_ATTR_CREATE_QP_TYPE: uverbs_attrs_create_qp_cmd_attr_ids = 9;

pub const UVERBS_ATTR_CREATE_QP_FLAGS: uverbs_attrs_create_qp_cmd_attr_ids = 10;

pub const UVERBS_ATTR_CREATE_QP_SOURCE_QPN: uverbs_attrs_create_qp_cmd_attr_ids = 11;

pub const UVERBS_ATTR_CREATE_QP_EVENT_FD: uverbs_attrs_create_qp_cmd_attr_ids = 12;

pub const UVERBS_ATTR_CREATE_QP_RESP_CAP: uverbs_attrs_create_qp_cmd_attr_ids = 13;

pub const UVERBS_ATTR_CREATE_QP_RESP_QP_NUM: uverbs_attrs_create_qp_cmd_attr_ids = 14;

pub const UVERBS_ATTR_CREATE_QP_BUF_UMEM: uverbs_attrs_create_qp_cmd_attr_ids = 15;

pub const UVERBS_ATTR_CREATE_QP_RQ_BUF_UMEM: uverbs_attrs_create_qp_cmd_attr_ids = 16;

pub const UVERBS_ATTR_CREATE_QP_SQ_BUF_UMEM: uverbs_attrs_create_qp_cmd_attr_ids = 17;

pub const UVERBS_ATTR_DESTROY_QP_HANDLE: uverbs_attrs_destroy_qp_cmd_attr_ids = 0;

pub const UVERBS_ATTR_DESTROY_QP_RESP: uverbs_attrs_destroy_qp_cmd_attr_ids = 1;

pub const UVERBS_ATTR_QP_ATTACH_COMP_CNTR_HANDLE: uverbs_attrs_qp_attach_comp_cntr_cmd_attr_ids = 0;

pub const UVERBS_ATTR_QP_ATTACH_COMP_CNTR_CNTR_HANDLE:
    uverbs_attrs_qp_attach_comp_cntr_cmd_attr_ids = 1;

pub const UVERBS_ATTR_QP_ATTACH_COMP_CNTR_OP_MASK: uverbs_attrs_qp_attach_comp_cntr_cmd_attr_ids =
    2;

pub const UVERBS_METHOD_QP_CREATE: uverbs_methods_qp = 0;

pub const UVERBS_METHOD_QP_DESTROY: uverbs_methods_qp = 1;

pub const UVERBS_METHOD_QP_ATTACH_COMP_CNTR: uverbs_methods_qp = 2;

pub const UVERBS_ATTR_CREATE_SRQ_HANDLE: uverbs_attrs_create_srq_cmd_attr_ids = 0;

pub const UVERBS_ATTR_CREATE_SRQ_PD_HANDLE: uverbs_attrs_create_srq_cmd_attr_ids = 1;

pub const UVERBS_ATTR_CREATE_SRQ_XRCD_HANDLE: uverbs_attrs_create_srq_cmd_attr_ids = 2;

pub const UVERBS_ATTR_CREATE_SRQ_CQ_HANDLE: uverbs_attrs_create_srq_cmd_attr_ids = 3;

pub const UVERBS_ATTR_CREATE_SRQ_USER_HANDLE: uverbs_attrs_create_srq_cmd_attr_ids = 4;

pub const UVERBS_ATTR_CREATE_SRQ_MAX_WR: uverbs_attrs_create_srq_cmd_attr_ids = 5;

pub const UVERBS_ATTR_CREATE_SRQ_MAX_SGE: uverbs_attrs_create_srq_cmd_attr_ids = 6;

pub const UVERBS_ATTR_CREATE_SRQ_LIMIT: uverbs_attrs_create_srq_cmd_attr_ids = 7;

pub const UVERBS_ATTR_CREATE_SRQ_MAX_NUM_TAGS: uverbs_attrs_create_srq_cmd_attr_ids = 8;

pub const UVERBS_ATTR_CREATE_SRQ_TYPE: uverbs_attrs_create_srq_cmd_attr_ids = 9;

pub const UVERBS_ATTR_CREATE_SRQ_EVENT_FD: uverbs_attrs_create_srq_cmd_attr_ids = 10;

pub const UVERBS_ATTR_CREATE_SRQ_RESP_MAX_WR: uverbs_attrs_create_srq_cmd_attr_ids = 11;

pub const UVERBS_ATTR_CREATE_SRQ_RESP_MAX_SGE: uverbs_attrs_create_srq_cmd_attr_ids = 12;

pub const UVERBS_ATTR_CREATE_SRQ_RESP_SRQ_NUM: uverbs_attrs_create_srq_cmd_attr_ids = 13;

pub const UVERBS_ATTR_DESTROY_SRQ_HANDLE: uverbs_attrs_destroy_srq_cmd_attr_ids = 0;

pub const UVERBS_ATTR_DESTROY_SRQ_RESP: uverbs_attrs_destroy_srq_cmd_attr_ids = 1;

pub const UVERBS_METHOD_SRQ_CREATE: uverbs_methods_srq = 0;

pub const UVERBS_METHOD_SRQ_DESTROY: uverbs_methods_srq = 1;

pub const UVERBS_METHOD_CQ_CREATE: uverbs_methods_cq = 0;

pub const UVERBS_METHOD_CQ_DESTROY: uverbs_methods_cq = 1;

pub const UVERBS_ATTR_CREATE_WQ_HANDLE: uverbs_attrs_create_wq_cmd_attr_ids = 0;

pub const UVERBS_ATTR_CREATE_WQ_PD_HANDLE: uverbs_attrs_create_wq_cmd_attr_ids = 1;

pub const UVERBS_ATTR_CREATE_WQ_CQ_HANDLE: uverbs_attrs_create_wq_cmd_attr_ids = 2;

pub const UVERBS_ATTR_CREATE_WQ_USER_HANDLE: uverbs_attrs_create_wq_cmd_attr_ids = 3;

pub const UVERBS_ATTR_CREATE_WQ_TYPE: uverbs_attrs_create_wq_cmd_attr_ids = 4;

pub const UVERBS_ATTR_CREATE_WQ_EVENT_FD: uverbs_attrs_create_wq_cmd_attr_ids = 5;

pub const UVERBS_ATTR_CREATE_WQ_MAX_WR: uverbs_attrs_create_wq_cmd_attr_ids = 6;

pub const UVERBS_ATTR_CREATE_WQ_MAX_SGE: uverbs_attrs_create_wq_cmd_attr_ids = 7;

pub const UVERBS_ATTR_CREATE_WQ_FLAGS: uverbs_attrs_create_wq_cmd_attr_ids = 8;

pub const UVERBS_ATTR_CREATE_WQ_RESP_MAX_WR: uverbs_attrs_create_wq_cmd_attr_ids = 9;

pub const UVERBS_ATTR_CREATE_WQ_RESP_MAX_SGE: uverbs_attrs_create_wq_cmd_attr_ids = 10;

pub const UVERBS_ATTR_CREATE_WQ_RESP_WQ_NUM: uverbs_attrs_create_wq_cmd_attr_ids = 11;

pub const UVERBS_ATTR_DESTROY_WQ_HANDLE: uverbs_attrs_destroy_wq_cmd_attr_ids = 0;

pub const UVERBS_ATTR_DESTROY_WQ_RESP: uverbs_attrs_destroy_wq_cmd_attr_ids = 1;

pub const UVERBS_METHOD_WQ_CREATE: uverbs_methods_wq = 0;

pub const UVERBS_METHOD_WQ_DESTROY: uverbs_methods_wq = 1;

pub const UVERBS_METHOD_FLOW_ACTION_ESP_CREATE: uverbs_methods_actions_flow_action_ops = 0;

pub const UVERBS_METHOD_FLOW_ACTION_DESTROY: uverbs_methods_actions_flow_action_ops = 1;

pub const UVERBS_METHOD_FLOW_ACTION_ESP_MODIFY: uverbs_methods_actions_flow_action_ops = 2;

pub const UVERBS_ATTR_ALLOC_DM_HANDLE: uverbs_attrs_alloc_dm_cmd_attr_ids = 0;

pub const UVERBS_ATTR_ALLOC_DM_LENGTH: uverbs_attrs_alloc_dm_cmd_attr_ids = 1;

pub const UVERBS_ATTR_ALLOC_DM_ALIGNMENT: uverbs_attrs_alloc_dm_cmd_attr_ids = 2;

pub const UVERBS_ATTR_FREE_DM_HANDLE: uverbs_attrs_free_dm_cmd_attr_ids = 0;

pub const UVERBS_METHOD_DM_ALLOC: uverbs_methods_dm = 0;

pub const UVERBS_METHOD_DM_FREE: uverbs_methods_dm = 1;

pub const UVERBS_ATTR_ALLOC_DMAH_HANDLE: uverbs_attrs_alloc_dmah_cmd_attr_ids = 0;

pub const UVERBS_ATTR_ALLOC_DMAH_CPU_ID: uverbs_attrs_alloc_dmah_cmd_attr_ids = 1;

pub const UVERBS_ATTR_ALLOC_DMAH_TPH_MEM_TYPE: uverbs_attrs_alloc_dmah_cmd_attr_ids = 2;

pub const UVERBS_ATTR_ALLOC_DMAH_PH: uverbs_attrs_alloc_dmah_cmd_attr_ids = 3;

pub const UVERBS_ATTR_FREE_DMA_HANDLE: uverbs_attrs_free_dmah_cmd_attr_ids = 0;

pub const UVERBS_METHOD_DMAH_ALLOC: uverbs_methods_dmah = 0;

pub const UVERBS_METHOD_DMAH_FREE: uverbs_methods_dmah = 1;

pub const UVERBS_ATTR_ALLOC_DMABUF_HANDLE: uverbs_attrs_alloc_dmabuf_cmd_attr_ids = 0;

pub const UVERBS_ATTR_ALLOC_DMABUF_PGOFF: uverbs_attrs_alloc_dmabuf_cmd_attr_ids = 1;

pub const UVERBS_METHOD_DMABUF_ALLOC: uverbs_methods_dmabuf = 0;

pub const UVERBS_ATTR_REG_DM_MR_HANDLE: uverbs_attrs_reg_dm_mr_cmd_attr_ids = 0;

pub const UVERBS_ATTR_REG_DM_MR_OFFSET: uverbs_attrs_reg_dm_mr_cmd_attr_ids = 1;

pub const UVERBS_ATTR_REG_DM_MR_LENGTH: uverbs_attrs_reg_dm_mr_cmd_attr_ids = 2;

pub const UVERBS_ATTR_REG_DM_MR_PD_HANDLE: uverbs_attrs_reg_dm_mr_cmd_attr_ids = 3;

pub const UVERBS_ATTR_REG_DM_MR_ACCESS_FLAGS: uverbs_attrs_reg_dm_mr_cmd_attr_ids = 4;

pub const UVERBS_ATTR_REG_DM_MR_DM_HANDLE: uverbs_attrs_reg_dm_mr_cmd_attr_ids = 5;

pub const UVERBS_ATTR_REG_DM_MR_RESP_LKEY: uverbs_attrs_reg_dm_mr_cmd_attr_ids = 6;

pub const UVERBS_ATTR_REG_DM_MR_RESP_RKEY: uverbs_attrs_reg_dm_mr_cmd_attr_ids = 7;

pub const UVERBS_METHOD_DM_MR_REG: uverbs_methods_mr = 0;

pub const UVERBS_METHOD_MR_DESTROY: uverbs_methods_mr = 1;

pub const UVERBS_METHOD_ADVISE_MR: uverbs_methods_mr = 2;

pub const UVERBS_METHOD_QUERY_MR: uverbs_methods_mr = 3;

pub const UVERBS_METHOD_REG_DMABUF_MR: uverbs_methods_mr = 4;

pub const UVERBS_METHOD_REG_MR: uverbs_methods_mr = 5;

pub const UVERBS_ATTR_DESTROY_MR_HANDLE: uverbs_attrs_mr_destroy_ids = 0;

pub const UVERBS_ATTR_ADVISE_MR_PD_HANDLE: uverbs_attrs_advise_mr_cmd_attr_ids = 0;

pub const UVERBS_ATTR_ADVISE_MR_ADVICE: uverbs_attrs_advise_mr_cmd_attr_ids = 1;

pub const UVERBS_ATTR_ADVISE_MR_FLAGS: uverbs_attrs_advise_mr_cmd_attr_ids = 2;

pub const UVERBS_ATTR_ADVISE_MR_SGE_LIST: uverbs_attrs_advise_mr_cmd_attr_ids = 3;

pub const UVERBS_ATTR_QUERY_MR_HANDLE: uverbs_attrs_query_mr_cmd_attr_ids = 0;

pub const UVERBS_ATTR_QUERY_MR_RESP_LKEY: uverbs_attrs_query_mr_cmd_attr_ids = 1;

pub const UVERBS_ATTR_QUERY_MR_RESP_RKEY: uverbs_attrs_query_mr_cmd_attr_ids = 2;

pub const UVERBS_ATTR_QUERY_MR_RESP_LENGTH: uverbs_attrs_query_mr_cmd_attr_ids = 3;

pub const UVERBS_ATTR_QUERY_MR_RESP_IOVA: uverbs_attrs_query_mr_cmd_attr_ids = 4;

pub const UVERBS_ATTR_REG_DMABUF_MR_HANDLE: uverbs_attrs_reg_dmabuf_mr_cmd_attr_ids = 0;

pub const UVERBS_ATTR_REG_DMABUF_MR_PD_HANDLE: uverbs_attrs_reg_dmabuf_mr_cmd_attr_ids = 1;

pub const UVERBS_ATTR_REG_DMABUF_MR_OFFSET: uverbs_attrs_reg_dmabuf_mr_cmd_attr_ids = 2;

pub const UVERBS_ATTR_REG_DMABUF_MR_LENGTH: uverbs_attrs_reg_dmabuf_mr_cmd_attr_ids = 3;

pub const UVERBS_ATTR_REG_DMABUF_MR_IOVA: uverbs_attrs_reg_dmabuf_mr_cmd_attr_ids = 4;

pub const UVERBS_ATTR_REG_DMABUF_MR_FD: uverbs_attrs_reg_dmabuf_mr_cmd_attr_ids = 5;

pub const UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS: uverbs_attrs_reg_dmabuf_mr_cmd_attr_ids = 6;

pub const UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY: uverbs_attrs_reg_dmabuf_mr_cmd_attr_ids = 7;

pub const UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY: uverbs_attrs_reg_dmabuf_mr_cmd_attr_ids = 8;

pub const UVERBS_ATTR_REG_MR_HANDLE: uverbs_attrs_reg_mr_cmd_attr_ids = 0;

pub const UVERBS_ATTR_REG_MR_PD_HANDLE: uverbs_attrs_reg_mr_cmd_attr_ids = 1;

pub const UVERBS_ATTR_REG_MR_DMA_HANDLE: uverbs_attrs_reg_mr_cmd_attr_ids = 2;

pub const UVERBS_ATTR_REG_MR_IOVA: uverbs_attrs_reg_mr_cmd_attr_ids = 3;

pub const UVERBS_ATTR_REG_MR_ADDR: uverbs_attrs_reg_mr_cmd_attr_ids = 4;

pub const UVERBS_ATTR_REG_MR_LENGTH: uverbs_attrs_reg_mr_cmd_attr_ids = 5;

pub const UVERBS_ATTR_REG_MR_ACCESS_FLAGS: uverbs_attrs_reg_mr_cmd_attr_ids = 6;

pub const UVERBS_ATTR_REG_MR_FD: uverbs_attrs_reg_mr_cmd_attr_ids = 7;

pub const UVERBS_ATTR_REG_MR_FD_OFFSET: uverbs_attrs_reg_mr_cmd_attr_ids = 8;

pub const UVERBS_ATTR_REG_MR_RESP_LKEY: uverbs_attrs_reg_mr_cmd_attr_ids = 9;

pub const UVERBS_ATTR_REG_MR_RESP_RKEY: uverbs_attrs_reg_mr_cmd_attr_ids = 10;

pub const UVERBS_ATTR_CREATE_COUNTERS_HANDLE: uverbs_attrs_create_counters_cmd_attr_ids = 0;

pub const UVERBS_ATTR_DESTROY_COUNTERS_HANDLE: uverbs_attrs_destroy_counters_cmd_attr_ids = 0;

pub const UVERBS_ATTR_READ_COUNTERS_HANDLE: uverbs_attrs_read_counters_cmd_attr_ids = 0;

pub const UVERBS_ATTR_READ_COUNTERS_BUFF: uverbs_attrs_read_counters_cmd_attr_ids = 1;

pub const UVERBS_ATTR_READ_COUNTERS_FLAGS: uverbs_attrs_read_counters_cmd_attr_ids = 2;

pub const UVERBS_METHOD_COUNTERS_CREATE: uverbs_methods_actions_counters_ops = 0;

pub const UVERBS_METHOD_COUNTERS_DESTROY: uverbs_methods_actions_counters_ops = 1;

pub const UVERBS_METHOD_COUNTERS_READ: uverbs_methods_actions_counters_ops = 2;

pub const UVERBS_ATTR_INFO_OBJECT_ID: uverbs_attrs_info_handles_id = 0;

pub const UVERBS_ATTR_INFO_TOTAL_HANDLES: uverbs_attrs_info_handles_id = 1;

pub const UVERBS_ATTR_INFO_HANDLES_LIST: uverbs_attrs_info_handles_id = 2;

pub const UVERBS_METHOD_PD_DESTROY: uverbs_methods_pd = 0;

pub const UVERBS_ATTR_DESTROY_PD_HANDLE: uverbs_attrs_pd_destroy_ids = 0;

pub const UVERBS_METHOD_MW_DESTROY: uverbs_methods_mw = 0;

pub const UVERBS_ATTR_DESTROY_MW_HANDLE: uverbs_attrs_mw_destroy_ids = 0;

pub const UVERBS_METHOD_XRCD_DESTROY: uverbs_methods_xrcd = 0;

pub const UVERBS_ATTR_DESTROY_XRCD_HANDLE: uverbs_attrs_xrcd_destroy_ids = 0;

pub const UVERBS_METHOD_AH_DESTROY: uverbs_methods_ah = 0;

pub const UVERBS_ATTR_DESTROY_AH_HANDLE: uverbs_attrs_ah_destroy_ids = 0;

pub const UVERBS_METHOD_RWQ_IND_TBL_DESTROY: uverbs_methods_rwq_ind_tbl = 0;

pub const UVERBS_ATTR_DESTROY_RWQ_IND_TBL_HANDLE: uverbs_attrs_rwq_ind_tbl_destroy_ids = 0;

pub const UVERBS_METHOD_FLOW_DESTROY: uverbs_methods_flow = 0;

pub const UVERBS_ATTR_DESTROY_FLOW_HANDLE: uverbs_attrs_flow_destroy_ids = 0;

pub const UVERBS_METHOD_ASYNC_EVENT_ALLOC: uverbs_method_async_event = 0;

pub const UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE: uverbs_attrs_async_event_create = 0;

pub const UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE: uverbs_attrs_query_gid_table_cmd_attr_ids = 0;

pub const UVERBS_ATTR_QUERY_GID_TABLE_FLAGS: uverbs_attrs_query_gid_table_cmd_attr_ids = 1;

pub const UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES: uverbs_attrs_query_gid_table_cmd_attr_ids = 2;

pub const UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES: uverbs_attrs_query_gid_table_cmd_attr_ids =
    3;

pub const UVERBS_ATTR_QUERY_GID_ENTRY_PORT: uverbs_attrs_query_gid_entry_cmd_attr_ids = 0;

pub const UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX: uverbs_attrs_query_gid_entry_cmd_attr_ids = 1;

pub const UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS: uverbs_attrs_query_gid_entry_cmd_attr_ids = 2;

pub const UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY: uverbs_attrs_query_gid_entry_cmd_attr_ids = 3;

pub const UVERBS_METHOD_COMP_CNTR_CREATE: uverbs_methods_comp_cntr = 0;

pub const UVERBS_METHOD_COMP_CNTR_DESTROY: uverbs_methods_comp_cntr = 1;

pub const UVERBS_METHOD_COMP_CNTR_MODIFY: uverbs_methods_comp_cntr = 2;

pub const UVERBS_METHOD_COMP_CNTR_READ: uverbs_methods_comp_cntr = 3;

pub const UVERBS_ATTR_CREATE_COMP_CNTR_HANDLE: uverbs_attrs_create_comp_cntr_cmd_attr_ids = 0;

pub const UVERBS_ATTR_DESTROY_COMP_CNTR_HANDLE: uverbs_attrs_destroy_comp_cntr_cmd_attr_ids = 0;

pub const UVERBS_ATTR_MODIFY_COMP_CNTR_HANDLE: uverbs_attrs_modify_comp_cntr_cmd_attr_ids = 0;

pub const UVERBS_ATTR_MODIFY_COMP_CNTR_ENTRY: uverbs_attrs_modify_comp_cntr_cmd_attr_ids = 1;

pub const UVERBS_ATTR_MODIFY_COMP_CNTR_OP: uverbs_attrs_modify_comp_cntr_cmd_attr_ids = 2;

pub const UVERBS_ATTR_MODIFY_COMP_CNTR_VALUE: uverbs_attrs_modify_comp_cntr_cmd_attr_ids = 3;

pub const UVERBS_ATTR_READ_COMP_CNTR_HANDLE: uverbs_attrs_read_comp_cntr_cmd_attr_ids = 0;

pub const UVERBS_ATTR_READ_COMP_CNTR_ENTRY: uverbs_attrs_read_comp_cntr_cmd_attr_ids = 1;

pub const UVERBS_ATTR_READ_COMP_CNTR_RESP_VALUE: uverbs_attrs_read_comp_cntr_cmd_attr_ids = 2;

pub const IB_PATH_GMP: u32 = 1;

pub const IB_PATH_PRIMARY: u32 = 2;

pub const IB_PATH_ALTERNATE: u32 = 4;

pub const IB_PATH_OUTBOUND: u32 = 8;

pub const IB_PATH_INBOUND: u32 = 16;

pub const IB_PATH_INBOUND_REVERSE: u32 = 32;

pub const IB_PATH_BIDIRECTIONAL: u32 = 40;

pub const RDMA_NL_IWCM: u32 = 2;

pub const RDMA_NL_RSVD: u32 = 3;

pub const RDMA_NL_NLDEV: u32 = 5;

pub const RDMA_NL_NUM_CLIENTS: u32 = 6;

pub const RDMA_NL_GROUP_IWPM: u32 = 2;

pub const RDMA_NL_GROUP_LS: u32 = 3;

pub const RDMA_NL_GROUP_NOTIFY: u32 = 4;

pub const RDMA_NL_NUM_GROUPS: u32 = 5;

pub const RDMA_NODE_IB_CA: u32 = 1;

pub const RDMA_NODE_IB_SWITCH: u32 = 2;

pub const RDMA_NODE_IB_ROUTER: u32 = 3;

pub const RDMA_NODE_RNIC: u32 = 4;

pub const RDMA_NODE_USNIC: u32 = 5;

pub const RDMA_NODE_USNIC_UDP: u32 = 6;

pub const RDMA_NODE_UNSPECIFIED: u32 = 7;

pub const RDMA_NLDEV_CMD_UNSPEC: rdma_nldev_command = 0;

pub const RDMA_NLDEV_CMD_GET: rdma_nldev_command = 1;

pub const RDMA_NLDEV_CMD_SET: rdma_nldev_command = 2;

pub const RDMA_NLDEV_CMD_NEWLINK: rdma_nldev_command = 3;

pub const RDMA_NLDEV_CMD_DELLINK: rdma_nldev_command = 4;

pub const RDMA_NLDEV_CMD_PORT_GET: rdma_nldev_command = 5;

pub const RDMA_NLDEV_CMD_SYS_GET: rdma_nldev_command = 6;

pub const RDMA_NLDEV_CMD_SYS_SET: rdma_nldev_command = 7;

pub const RDMA_NLDEV_CMD_RES_GET: rdma_nldev_command = 9;

pub const RDMA_NLDEV_CMD_RES_QP_GET: rdma_nldev_command = 10;

pub const RDMA_NLDEV_CMD_RES_CM_ID_GET: rdma_nldev_command = 11;

pub const RDMA_NLDEV_CMD_RES_CQ_GET: rdma_nldev_command = 12;

pub const RDMA_NLDEV_CMD_RES_MR_GET: rdma_nldev_command = 13;

pub const RDMA_NLDEV_CMD_RES_PD_GET: rdma_nldev_command = 14;

pub const RDMA_NLDEV_CMD_GET_CHARDEV: rdma_nldev_command = 15;

pub const RDMA_NLDEV_CMD_STAT_SET: rdma_nldev_command = 16;

pub const RDMA_NLDEV_CMD_STAT_GET: rdma_nldev_command = 17;

pub const RDMA_NLDEV_CMD_STAT_DEL: rdma_nldev_command = 18;

pub const RDMA_NLDEV_CMD_RES_QP_GET_RAW: rdma_nldev_command = 19;

pub const RDMA_NLDEV_CMD_RES_CQ_GET_RAW: rdma_nldev_command = 20;

pub const RDMA_NLDEV_CMD_RES_MR_GET_RAW: rdma_nldev_command = 21;

pub const RDMA_NLDEV_CMD_RES_CTX_GET: rdma_nldev_command = 22;

pub const RDMA_NLDEV_CMD_RES_SRQ_GET: rdma_nldev_command = 23;

pub const RDMA_NLDEV_CMD_STAT_GET_STATUS: rdma_nldev_command = 24;

pub const RDMA_NLDEV_CMD_RES_SRQ_GET_RAW: rdma_nldev_command = 25;

pub const RDMA_NLDEV_CMD_NEWDEV: rdma_nldev_command = 26;

pub const RDMA_NLDEV_CMD_DELDEV: rdma_nldev_command = 27;

pub const RDMA_NLDEV_CMD_MONITOR: rdma_nldev_command = 28;

pub const RDMA_NLDEV_CMD_FRMR_POOLS_GET: rdma_nldev_command = 29;

pub const RDMA_NLDEV_CMD_FRMR_POOLS_SET: rdma_nldev_command = 30;

pub const RDMA_NLDEV_NUM_OPS: rdma_nldev_command = 31;

pub const RDMA_NLDEV_PRINT_TYPE_UNSPEC: rdma_nldev_print_type = 0;

pub const RDMA_NLDEV_PRINT_TYPE_HEX: rdma_nldev_print_type = 1;

pub const RDMA_NLDEV_ATTR_UNSPEC: rdma_nldev_attr = 0;

pub const RDMA_NLDEV_ATTR_PAD: rdma_nldev_attr = 0;

pub const RDMA_NLDEV_ATTR_DEV_INDEX: rdma_nldev_attr = 1;

pub const RDMA_NLDEV_ATTR_DEV_NAME: rdma_nldev_attr = 2;

pub const RDMA_NLDEV_ATTR_PORT_INDEX: rdma_nldev_attr = 3;

pub const RDMA_NLDEV_ATTR_CAP_FLAGS: rdma_nldev_attr = 4;

pub const RDMA_NLDEV_ATTR_FW_VERSION: rdma_nldev_attr = 5;

pub const RDMA_NLDEV_ATTR_NODE_GUID: rdma_nldev_attr = 6;

pub const RDMA_NLDEV_ATTR_SYS_IMAGE_GUID: rdma_nldev_attr = 7;

pub const RDMA_NLDEV_ATTR_SUBNET_PREFIX: rdma_nldev_attr = 8;

pub const RDMA_NLDEV_ATTR_LID: rdma_nldev_attr = 9;

pub const RDMA_NLDEV_ATTR_SM_LID: rdma_nldev_attr = 10;

pub const RDMA_NLDEV_ATTR_LMC: rdma_nldev_attr = 11;

pub const RDMA_NLDEV_ATTR_PORT_STATE: rdma_nldev_attr = 12;

pub const RDMA_NLDEV_ATTR_PORT_PHYS_STATE: rdma_nldev_attr = 13;

pub const RDMA_NLDEV_ATTR_DEV_NODE_TYPE: rdma_nldev_attr = 14;

pub const RDMA_NLDEV_ATTR_RES_SUMMARY: rdma_nldev_attr = 15;

pub const RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY: rdma_nldev_attr = 16;

pub const RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_NAME: rdma_nldev_attr = 17;

pub const RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_CURR: rdma_nldev_attr = 18;

pub const RDMA_NLDEV_ATTR_RES_QP: rdma_nldev_attr = 19;

pub const RDMA_NLDEV_ATTR_RES_QP_ENTRY: rdma_nldev_attr = 20;

pub const RDMA_NLDEV_ATTR_RES_LQPN: rdma_nldev_attr = 21;

pub const RDMA_NLDEV_ATTR_RES_RQPN: rdma_nldev_attr = 22;

pub const RDMA_NLDEV_ATTR_RES_RQ_PSN: rdma_nldev_attr = 23;

pub const RDMA_NLDEV_ATTR_RES_SQ_PSN: rdma_nldev_attr = 24;

pub const RDMA_NLDEV_ATTR_RES_PATH_MIG_STATE: rdma_nldev_attr = 25;

pub const RDMA_NLDEV_ATTR_RES_TYPE: rdma_nldev_attr = 26;

pub const RDMA_NLDEV_ATTR_RES_STATE: rdma_nldev_attr = 27;

pub const RDMA_NLDEV_ATTR_RES_PID: rdma_nldev_attr = 28;

pub const RDMA_NLDEV_ATTR_RES_KERN_NAME: rdma_nldev_attr = 29;

pub const RDMA_NLDEV_ATTR_RES_CM_ID: rdma_nldev_attr = 30;

pub const RDMA_NLDEV_ATTR_RES_CM_ID_ENTRY: rdma_nldev_attr = 31;

pub const RDMA_NLDEV_ATTR_RES_PS: rdma_nldev_attr = 32;

pub const RDMA_NLDEV_ATTR_RES_SRC_ADDR: rdma_nldev_attr = 33;

pub const RDMA_NLDEV_ATTR_RES_DST_ADDR: rdma_nldev_attr = 34;

pub const RDMA_NLDEV_ATTR_RES_CQ: rdma_nldev_attr = 35;

pub const RDMA_NLDEV_ATTR_RES_CQ_ENTRY: rdma_nldev_attr = 36;

pub const RDMA_NLDEV_ATTR_RES_CQE: rdma_nldev_attr = 37;

pub const RDMA_NLDEV_ATTR_RES_USECNT: rdma_nldev_attr = 38;

pub const RDMA_NLDEV_ATTR_RES_POLL_CTX: rdma_nldev_attr = 39;

pub const RDMA_NLDEV_ATTR_RES_MR: rdma_nldev_attr = 40;

pub const RDMA_NLDEV_ATTR_RES_MR_ENTRY: rdma_nldev_attr = 41;

pub const RDMA_NLDEV_ATTR_RES_RKEY: rdma_nldev_attr = 42;

pub const RDMA_NLDEV_ATTR_RES_LKEY: rdma_nldev_attr = 43;

pub const RDMA_NLDEV_ATTR_RES_IOVA: rdma_nldev_attr = 44;

pub const RDMA_NLDEV_ATTR_RES_MRLEN: rdma_nldev_attr = 45;

pub const RDMA_NLDEV_ATTR_RES_PD: rdma_nldev_attr = 46;

pub const RDMA_NLDEV_ATTR_RES_PD_ENTRY: rdma_nldev_attr = 47;

pub const RDMA_NLDEV_ATTR_RES_LOCAL_DMA_LKEY: rdma_nldev_attr = 48;

pub const RDMA_NLDEV_ATTR_RES_UNSAFE_GLOBAL_RKEY: rdma_nldev_attr = 49;

pub const RDMA_NLDEV_ATTR_NDEV_INDEX: rdma_nldev_attr = 50;

pub const RDMA_NLDEV_ATTR_NDEV_NAME: rdma_nldev_attr = 51;

pub const RDMA_NLDEV_ATTR_DRIVER: rdma_nldev_attr = 52;

pub const RDMA_NLDEV_ATTR_DRIVER_ENTRY: rdma_nldev_attr = 53;

pub const RDMA_NLDEV_ATTR_DRIVER_STRING: rdma_nldev_attr = 54;

pub const RDMA_NLDEV_ATTR_DRIVER_PRINT_TYPE: rdma_nldev_attr = 55;

pub const RDMA_NLDEV_ATTR_DRIVER_S32: rdma_nldev_attr = 56;

pub const RDMA_NLDEV_ATTR_DRIVER_U32: rdma_nldev_attr = 57;

pub const RDMA_NLDEV_ATTR_DRIVER_S64: rdma_nldev_attr = 58;

pub const RDMA_NLDEV_ATTR_DRIVER_U64: rdma_nldev_attr = 59;

pub const RDMA_NLDEV_ATTR_RES_PDN: rdma_nldev_attr = 60;

pub const RDMA_NLDEV_ATTR_RES_CQN: rdma_nldev_attr = 61;

pub const RDMA_NLDEV_ATTR_RES_MRN: rdma_nldev_attr = 62;

pub const RDMA_NLDEV_ATTR_RES_CM_IDN: rdma_nldev_attr = 63;

pub const RDMA_NLDEV_ATTR_RES_CTXN: rdma_nldev_attr = 64;

pub const RDMA_NLDEV_ATTR_LINK_TYPE: rdma_nldev_attr = 65;

pub const RDMA_NLDEV_SYS_ATTR_NETNS_MODE: rdma_nldev_attr = 66;

pub const RDMA_NLDEV_ATTR_DEV_PROTOCOL: rdma_nldev_attr = 67;

pub const RDMA_NLDEV_NET_NS_FD: rdma_nldev_attr = 68;

pub const RDMA_NLDEV_ATTR_CHARDEV_TYPE: rdma_nldev_attr = 69;

pub const RDMA_NLDEV_ATTR_CHARDEV_NAME: rdma_nldev_attr = 70;

pub const RDMA_NLDEV_ATTR_CHARDEV_ABI: rdma_nldev_attr = 71;

pub const RDMA_NLDEV_ATTR_CHARDEV: rdma_nldev_attr = 72;

pub const RDMA_NLDEV_ATTR_UVERBS_DRIVER_ID: rdma_nldev_attr = 73;

pub const RDMA_NLDEV_ATTR_STAT_MODE: rdma_nldev_attr = 74;

pub const RDMA_NLDEV_ATTR_STAT_RES: rdma_nldev_attr = 75;

pub const RDMA_NLDEV_ATTR_STAT_AUTO_MODE_MASK: rdma_nldev_attr = 76;

pub const RDMA_NLDEV_ATTR_STAT_COUNTER: rdma_nldev_attr = 77;

pub const RDMA_NLDEV_ATTR_STAT_COUNTER_ENTRY: rdma_nldev_attr = 78;

pub const RDMA_NLDEV_ATTR_STAT_COUNTER_ID: rdma_nldev_attr = 79;

pub const RDMA_NLDEV_ATTR_STAT_HWCOUNTERS: rdma_nldev_attr = 80;

pub const RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY: rdma_nldev_attr = 81;

pub const RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME: rdma_nldev_attr = 82;

pub const RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_VALUE: rdma_nldev_attr = 83;

pub const RDMA_NLDEV_ATTR_DEV_DIM: rdma_nldev_attr = 84;

pub const RDMA_NLDEV_ATTR_RES_RAW: rdma_nldev_attr = 85;

pub const RDMA_NLDEV_ATTR_RES_CTX: rdma_nldev_attr = 86;

pub const RDMA_NLDEV_ATTR_RES_CTX_ENTRY: rdma_nldev_attr = 87;

pub const RDMA_NLDEV_ATTR_RES_SRQ: rdma_nldev_attr = 88;

pub const RDMA_NLDEV_ATTR_RES_SRQ_ENTRY: rdma_nldev_attr = 89;

pub const RDMA_NLDEV_ATTR_RES_SRQN: rdma_nldev_attr = 90;

pub const RDMA_NLDEV_ATTR_MIN_RANGE: rdma_nldev_attr = 91;

pub const RDMA_NLDEV_ATTR_MAX_RANGE: rdma_nldev_attr = 92;

pub const RDMA_NLDEV_SYS_ATTR_COPY_ON_FORK: rdma_nldev_attr = 93;

pub const RDMA_NLDEV_ATTR_STAT_HWCOUNTER_INDEX: rdma_nldev_attr = 94;

pub const RDMA_NLDEV_ATTR_STAT_HWCOUNTER_DYNAMIC: rdma_nldev_attr = 95;

pub const RDMA_NLDEV_SYS_ATTR_PRIVILEGED_QKEY_MODE: rdma_nldev_attr = 96;

pub const RDMA_NLDEV_ATTR_DRIVER_DETAILS: rdma_nldev_attr = 97;

pub const RDMA_NLDEV_ATTR_RES_SUBTYPE: rdma_nldev_attr = 98;

pub const RDMA_NLDEV_ATTR_DEV_TYPE: rdma_nldev_attr = 99;

pub const RDMA_NLDEV_ATTR_PARENT_NAME: rdma_nldev_attr = 100;

pub const RDMA_NLDEV_ATTR_NAME_ASSIGN_TYPE: rdma_nldev_attr = 101;

pub const RDMA_NLDEV_ATTR_EVENT_TYPE: rdma_nldev_attr = 102;

pub const RDMA_NLDEV_SYS_ATTR_MONITOR_MODE: rdma_nldev_attr = 103;

pub const RDMA_NLDEV_ATTR_STAT_OPCOUNTER_ENABLED: rdma_nldev_attr = 104;

pub const RDMA_NLDEV_ATTR_FRMR_POOLS: rdma_nldev_attr = 105;

pub const RDMA_NLDEV_ATTR_FRMR_POOL_ENTRY: rdma_nldev_attr = 106;

pub const RDMA_NLDEV_ATTR_FRMR_POOL_KEY: rdma_nldev_attr = 107;

pub const RDMA_NLDEV_ATTR_FRMR_POOL_KEY_ATS: rdma_nldev_attr = 108;

pub const RDMA_NLDEV_ATTR_FRMR_POOL_KEY_ACCESS_FLAGS: rdma_nldev_attr = 109;

pub const RDMA_NLDEV_ATTR_FRMR_POOL_KEY_VENDOR_KEY: rdma_nldev_attr = 110;

pub const RDMA_NLDEV_ATTR_FRMR_POOL_KEY_NUM_DMA_BLOCKS: rdma_nldev_attr = 111;

pub const RDMA_NLDEV_ATTR_FRMR_POOL_QUEUE_HANDLES: rdma_nldev_attr = 112;

pub const RDMA_NLDEV_ATTR_FRMR_POOL_MAX_IN_USE: rdma_nldev_attr = 113;

pub const RDMA_NLDEV_ATTR_FRMR_POOL_IN_USE: rdma_nldev_attr = 114;

pub const RDMA_NLDEV_ATTR_FRMR_POOLS_AGING_PERIOD: rdma_nldev_attr = 115;

pub const RDMA_NLDEV_ATTR_FRMR_POOL_PINNED_HANDLES: rdma_nldev_attr = 116;

pub const RDMA_NLDEV_ATTR_FRMR_POOL_KEY_KERNEL_VENDOR_KEY: rdma_nldev_attr = 117;

pub const RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_MAX: rdma_nldev_attr = 118;

pub const RDMA_NLDEV_ATTR_MAX: rdma_nldev_attr = 119;

pub const RDMA_COUNTER_MODE_NONE: rdma_nl_counter_mode = 0;

pub const RDMA_COUNTER_MODE_AUTO: rdma_nl_counter_mode = 1;

pub const RDMA_COUNTER_MODE_MANUAL: rdma_nl_counter_mode = 2;

pub const RDMA_COUNTER_MODE_MAX: rdma_nl_counter_mode = 3;

pub const RDMA_COUNTER_MASK_QP_TYPE: rdma_nl_counter_mask = 1;

pub const RDMA_COUNTER_MASK_PID: rdma_nl_counter_mask = 2;

pub const RDMA_DEVICE_TYPE_SMI: rdma_nl_dev_type = 1;

pub const RDMA_NAME_ASSIGN_TYPE_UNKNOWN: rdma_nl_name_assign_type = 0;

pub const RDMA_NAME_ASSIGN_TYPE_USER: rdma_nl_name_assign_type = 1;

pub const RDMA_REGISTER_EVENT: rdma_nl_notify_event_type = 0;

pub const RDMA_UNREGISTER_EVENT: rdma_nl_notify_event_type = 1;

pub const RDMA_NETDEV_ATTACH_EVENT: rdma_nl_notify_event_type = 2;

pub const RDMA_NETDEV_DETACH_EVENT: rdma_nl_notify_event_type = 3;

pub const RDMA_RENAME_EVENT: rdma_nl_notify_event_type = 4;

pub const RDMA_NETDEV_RENAME_EVENT: rdma_nl_notify_event_type = 5;

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_async_event_desc {
    pub element: u64,
    pub event_type: u32,
    pub reserved: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_comp_event_desc {
    pub cq_handle: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_cq_moderation_caps {
    pub max_cq_moderation_count: u16,
    pub max_cq_moderation_period: u16,
    pub reserved: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_cmd_hdr {
    pub command: u32,
    pub in_words: u16,
    pub out_words: u16,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_ex_cmd_hdr {
    pub response: u64,
    pub provider_in_words: u16,
    pub provider_out_words: u16,
    pub cmd_hdr_reserved: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_get_context {
    pub response: u64,
    pub driver_data: [u64; 0],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_get_context_resp {
    pub async_fd: u32,
    pub num_comp_vectors: u32,
    pub driver_data: [u64; 0],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_query_device {
    pub response: u64,
    pub driver_data: [u64; 0],
}

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

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_ex_query_device {
    pub comp_mask: u32,
    pub reserved: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_odp_caps {
    pub general_caps: u64,
    pub per_transport_caps: ib_uverbs_odp_caps_per_transport_caps,
    pub reserved: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_odp_caps_per_transport_caps {
    pub rc_odp_caps: u32,
    pub uc_odp_caps: u32,
    pub ud_odp_caps: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_rss_caps {
    pub supported_qpts: u32,
    pub max_rwq_indirection_tables: u32,
    pub max_rwq_indirection_table_size: u32,
    pub reserved: u32,
}

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

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_query_port {
    pub response: u64,
    pub port_num: u8,
    pub reserved: [u8; 7],
    pub driver_data: [u64; 0],
}

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

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_alloc_pd {
    pub response: u64,
    pub driver_data: [u64; 0],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_alloc_pd_resp {
    pub pd_handle: u32,
    pub driver_data: [u32; 0],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_dealloc_pd {
    pub pd_handle: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_open_xrcd {
    pub response: u64,
    pub fd: u32,
    pub oflags: u32,
    pub driver_data: [u64; 0],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_open_xrcd_resp {
    pub xrcd_handle: u32,
    pub driver_data: [u32; 0],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_close_xrcd {
    pub xrcd_handle: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_reg_mr {
    pub response: u64,
    pub start: u64,
    pub length: u64,
    pub hca_va: u64,
    pub pd_handle: u32,
    pub access_flags: u32,
    pub driver_data: [u64; 0],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_reg_mr_resp {
    pub mr_handle: u32,
    pub lkey: u32,
    pub rkey: u32,
    pub driver_data: [u32; 0],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_rereg_mr {
    pub response: u64,
    pub mr_handle: u32,
    pub flags: u32,
    pub start: u64,
    pub length: u64,
    pub hca_va: u64,
    pub pd_handle: u32,
    pub access_flags: u32,
    pub driver_data: [u64; 0],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_rereg_mr_resp {
    pub lkey: u32,
    pub rkey: u32,
    pub driver_data: [u64; 0],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_dereg_mr {
    pub mr_handle: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_alloc_mw {
    pub response: u64,
    pub pd_handle: u32,
    pub mw_type: u8,
    pub reserved: [u8; 3],
    pub driver_data: [u64; 0],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_alloc_mw_resp {
    pub mw_handle: u32,
    pub rkey: u32,
    pub driver_data: [u64; 0],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_dealloc_mw {
    pub mw_handle: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_create_comp_channel {
    pub response: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_create_comp_channel_resp {
    pub fd: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_create_cq {
    pub response: u64,
    pub user_handle: u64,
    pub cqe: u32,
    pub comp_vector: u32,
    pub comp_channel: i32,
    pub reserved: u32,
    pub driver_data: [u64; 0],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_ex_create_cq {
    pub user_handle: u64,
    pub cqe: u32,
    pub comp_vector: u32,
    pub comp_channel: i32,
    pub comp_mask: u32,
    pub flags: u32,
    pub reserved: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_create_cq_resp {
    pub cq_handle: u32,
    pub cqe: u32,
    pub driver_data: [u64; 0],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_ex_create_cq_resp {
    pub base: ib_uverbs_create_cq_resp,
    pub comp_mask: u32,
    pub response_length: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_resize_cq {
    pub response: u64,
    pub cq_handle: u32,
    pub cqe: u32,
    pub driver_data: [u64; 0],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_resize_cq_resp {
    pub cqe: u32,
    pub reserved: u32,
    pub driver_data: [u64; 0],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_poll_cq {
    pub response: u64,
    pub cq_handle: u32,
    pub ne: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct ib_uverbs_wc {
    pub wr_id: u64,
    pub status: u32,
    pub opcode: u32,
    pub vendor_err: u32,
    pub byte_len: u32,
    pub ex: ib_uverbs_wc_ex,
    pub qp_num: u32,
    pub src_qp: u32,
    pub wc_flags: u32,
    pub pkey_index: u16,
    pub slid: u16,
    pub sl: u8,
    pub dlid_path_bits: u8,
    pub port_num: u8,
    pub reserved: u8,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub union ib_uverbs_wc_ex {
    pub imm_data: u32,
    pub invalidate_rkey: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct ib_uverbs_poll_cq_resp {
    pub count: u32,
    pub reserved: u32,
    pub wc: [ib_uverbs_wc; 0],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_req_notify_cq {
    pub cq_handle: u32,
    pub solicited_only: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_destroy_cq {
    pub response: u64,
    pub cq_handle: u32,
    pub reserved: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_destroy_cq_resp {
    pub comp_events_reported: u32,
    pub async_events_reported: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_global_route {
    pub dgid: [u8; 16],
    pub flow_label: u32,
    pub sgid_index: u8,
    pub hop_limit: u8,
    pub traffic_class: u8,
    pub reserved: u8,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_ah_attr {
    pub grh: ib_uverbs_global_route,
    pub dlid: u16,
    pub sl: u8,
    pub src_path_bits: u8,
    pub static_rate: u8,
    pub is_global: u8,
    pub port_num: u8,
    pub reserved: u8,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_qp_attr {
    pub qp_attr_mask: u32,
    pub qp_state: u32,
    pub cur_qp_state: u32,
    pub path_mtu: u32,
    pub path_mig_state: u32,
    pub qkey: u32,
    pub rq_psn: u32,
    pub sq_psn: u32,
    pub dest_qp_num: u32,
    pub qp_access_flags: u32,
    pub ah_attr: ib_uverbs_ah_attr,
    pub alt_ah_attr: ib_uverbs_ah_attr,
    pub max_send_wr: u32,
    pub max_recv_wr: u32,
    pub max_send_sge: u32,
    pub max_recv_sge: u32,
    pub max_inline_data: u32,
    pub pkey_index: u16,
    pub alt_pkey_index: u16,
    pub en_sqd_async_notify: u8,
    pub sq_draining: u8,
    pub max_rd_atomic: u8,
    pub max_dest_rd_atomic: u8,
    pub min_rnr_timer: u8,
    pub port_num: u8,
    pub timeout: u8,
    pub retry_cnt: u8,
    pub rnr_retry: u8,
    pub alt_port_num: u8,
    pub alt_timeout: u8,
    pub reserved: [u8; 5],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_create_qp {
    pub response: u64,
    pub user_handle: u64,
    pub pd_handle: u32,
    pub send_cq_handle: u32,
    pub recv_cq_handle: u32,
    pub srq_handle: u32,
    pub max_send_wr: u32,
    pub max_recv_wr: u32,
    pub max_send_sge: u32,
    pub max_recv_sge: u32,
    pub max_inline_data: u32,
    pub sq_sig_all: u8,
    pub qp_type: u8,
    pub is_srq: u8,
    pub reserved: u8,
    pub driver_data: [u64; 0],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_ex_create_qp {
    pub user_handle: u64,
    pub pd_handle: u32,
    pub send_cq_handle: u32,
    pub recv_cq_handle: u32,
    pub srq_handle: u32,
    pub max_send_wr: u32,
    pub max_recv_wr: u32,
    pub max_send_sge: u32,
    pub max_recv_sge: u32,
    pub max_inline_data: u32,
    pub sq_sig_all: u8,
    pub qp_type: u8,
    pub is_srq: u8,
    pub reserved: u8,
    pub comp_mask: u32,
    pub create_flags: u32,
    pub rwq_ind_tbl_handle: u32,
    pub source_qpn: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_open_qp {
    pub response: u64,
    pub user_handle: u64,
    pub pd_handle: u32,
    pub qpn: u32,
    pub qp_type: u8,
    pub reserved: [u8; 7],
    pub driver_data: [u64; 0],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_create_qp_resp {
    pub qp_handle: u32,
    pub qpn: u32,
    pub max_send_wr: u32,
    pub max_recv_wr: u32,
    pub max_send_sge: u32,
    pub max_recv_sge: u32,
    pub max_inline_data: u32,
    pub reserved: u32,
    pub driver_data: [u32; 0],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_ex_create_qp_resp {
    pub base: ib_uverbs_create_qp_resp,
    pub comp_mask: u32,
    pub response_length: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_qp_dest {
    pub dgid: [u8; 16],
    pub flow_label: u32,
    pub dlid: u16,
    pub reserved: u16,
    pub sgid_index: u8,
    pub hop_limit: u8,
    pub traffic_class: u8,
    pub sl: u8,
    pub src_path_bits: u8,
    pub static_rate: u8,
    pub is_global: u8,
    pub port_num: u8,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_query_qp {
    pub response: u64,
    pub qp_handle: u32,
    pub attr_mask: u32,
    pub driver_data: [u64; 0],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_query_qp_resp {
    pub dest: ib_uverbs_qp_dest,
    pub alt_dest: ib_uverbs_qp_dest,
    pub max_send_wr: u32,
    pub max_recv_wr: u32,
    pub max_send_sge: u32,
    pub max_recv_sge: u32,
    pub max_inline_data: u32,
    pub qkey: u32,
    pub rq_psn: u32,
    pub sq_psn: u32,
    pub dest_qp_num: u32,
    pub qp_access_flags: u32,
    pub pkey_index: u16,
    pub alt_pkey_index: u16,
    pub qp_state: u8,
    pub cur_qp_state: u8,
    pub path_mtu: u8,
    pub path_mig_state: u8,
    pub sq_draining: u8,
    pub max_rd_atomic: u8,
    pub max_dest_rd_atomic: u8,
    pub min_rnr_timer: u8,
    pub port_num: u8,
    pub timeout: u8,
    pub retry_cnt: u8,
    pub rnr_retry: u8,
    pub alt_port_num: u8,
    pub alt_timeout: u8,
    pub sq_sig_all: u8,
    pub reserved: [u8; 5],
    pub driver_data: [u64; 0],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_modify_qp {
    pub dest: ib_uverbs_qp_dest,
    pub alt_dest: ib_uverbs_qp_dest,
    pub qp_handle: u32,
    pub attr_mask: u32,
    pub qkey: u32,
    pub rq_psn: u32,
    pub sq_psn: u32,
    pub dest_qp_num: u32,
    pub qp_access_flags: u32,
    pub pkey_index: u16,
    pub alt_pkey_index: u16,
    pub qp_state: u8,
    pub cur_qp_state: u8,
    pub path_mtu: u8,
    pub path_mig_state: u8,
    pub en_sqd_async_notify: u8,
    pub max_rd_atomic: u8,
    pub max_dest_rd_atomic: u8,
    pub min_rnr_timer: u8,
    pub port_num: u8,
    pub timeout: u8,
    pub retry_cnt: u8,
    pub rnr_retry: u8,
    pub alt_port_num: u8,
    pub alt_timeout: u8,
    pub reserved: [u8; 2],
    pub driver_data: [u64; 0],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_ex_modify_qp {
    pub base: ib_uverbs_modify_qp,
    pub rate_limit: u32,
    pub reserved: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_ex_modify_qp_resp {
    pub comp_mask: u32,
    pub response_length: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_destroy_qp {
    pub response: u64,
    pub qp_handle: u32,
    pub reserved: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_destroy_qp_resp {
    pub events_reported: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_sge {
    pub addr: u64,
    pub length: u32,
    pub lkey: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct ib_uverbs_send_wr {
    pub wr_id: u64,
    pub num_sge: u32,
    pub opcode: u32,
    pub send_flags: u32,
    pub ex: ib_uverbs_send_wr_ex,
    pub wr: ib_uverbs_send_wr_wr,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub union ib_uverbs_send_wr_ex {
    pub imm_data: u32,
    pub invalidate_rkey: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub union ib_uverbs_send_wr_wr {
    pub rdma: ib_uverbs_send_wr_wr_rdma,
    pub atomic: ib_uverbs_send_wr_wr_atomic,
    pub ud: ib_uverbs_send_wr_wr_ud,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_send_wr_wr_rdma {
    pub remote_addr: u64,
    pub rkey: u32,
    pub reserved: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_send_wr_wr_atomic {
    pub remote_addr: u64,
    pub compare_add: u64,
    pub swap: u64,
    pub rkey: u32,
    pub reserved: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_send_wr_wr_ud {
    pub ah: u32,
    pub remote_qpn: u32,
    pub remote_qkey: u32,
    pub reserved: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct ib_uverbs_post_send {
    pub response: u64,
    pub qp_handle: u32,
    pub wr_count: u32,
    pub sge_count: u32,
    pub wqe_size: u32,
    pub send_wr: [ib_uverbs_send_wr; 0],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_post_send_resp {
    pub bad_wr: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_recv_wr {
    pub wr_id: u64,
    pub num_sge: u32,
    pub reserved: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_post_recv {
    pub response: u64,
    pub qp_handle: u32,
    pub wr_count: u32,
    pub sge_count: u32,
    pub wqe_size: u32,
    pub recv_wr: [ib_uverbs_recv_wr; 0],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_post_recv_resp {
    pub bad_wr: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_post_srq_recv {
    pub response: u64,
    pub srq_handle: u32,
    pub wr_count: u32,
    pub sge_count: u32,
    pub wqe_size: u32,
    pub recv: [ib_uverbs_recv_wr; 0],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_post_srq_recv_resp {
    pub bad_wr: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_create_ah {
    pub response: u64,
    pub user_handle: u64,
    pub pd_handle: u32,
    pub reserved: u32,
    pub attr: ib_uverbs_ah_attr,
    pub driver_data: [u64; 0],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_create_ah_resp {
    pub ah_handle: u32,
    pub driver_data: [u32; 0],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_destroy_ah {
    pub ah_handle: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_attach_mcast {
    pub gid: [u8; 16],
    pub qp_handle: u32,
    pub mlid: u16,
    pub reserved: u16,
    pub driver_data: [u64; 0],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_detach_mcast {
    pub gid: [u8; 16],
    pub qp_handle: u32,
    pub mlid: u16,
    pub reserved: u16,
    pub driver_data: [u64; 0],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_flow_spec_hdr {
    pub type_: u32,
    pub size: u16,
    pub reserved: u16,
    pub flow_spec_data: [u64; 0],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_flow_eth_filter {
    pub dst_mac: [u8; 6],
    pub src_mac: [u8; 6],
    pub ether_type: u16,
    pub vlan_tag: u16,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_flow_spec_eth {
    pub hdr: ib_uverbs_flow_spec_hdr,
    pub val: ib_uverbs_flow_eth_filter,
    pub mask: ib_uverbs_flow_eth_filter,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_flow_ipv4_filter {
    pub src_ip: u32,
    pub dst_ip: u32,
    pub proto: u8,
    pub tos: u8,
    pub ttl: u8,
    pub flags: u8,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_flow_spec_ipv4 {
    pub hdr: ib_uverbs_flow_spec_hdr,
    pub val: ib_uverbs_flow_ipv4_filter,
    pub mask: ib_uverbs_flow_ipv4_filter,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_flow_tcp_udp_filter {
    pub dst_port: u16,
    pub src_port: u16,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_flow_spec_tcp_udp {
    pub hdr: ib_uverbs_flow_spec_hdr,
    pub val: ib_uverbs_flow_tcp_udp_filter,
    pub mask: ib_uverbs_flow_tcp_udp_filter,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_flow_ipv6_filter {
    pub src_ip: [u8; 16],
    pub dst_ip: [u8; 16],
    pub flow_label: u32,
    pub next_hdr: u8,
    pub traffic_class: u8,
    pub hop_limit: u8,
    pub reserved: u8,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_flow_spec_ipv6 {
    pub hdr: ib_uverbs_flow_spec_hdr,
    pub val: ib_uverbs_flow_ipv6_filter,
    pub mask: ib_uverbs_flow_ipv6_filter,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_flow_spec_action_tag {
    pub hdr: ib_uverbs_flow_spec_hdr,
    pub tag_id: u32,
    pub reserved1: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_flow_spec_action_drop {
    pub hdr: ib_uverbs_flow_spec_hdr,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_flow_spec_action_handle {
    pub hdr: ib_uverbs_flow_spec_hdr,
    pub handle: u32,
    pub reserved1: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_flow_spec_action_count {
    pub hdr: ib_uverbs_flow_spec_hdr,
    pub handle: u32,
    pub reserved1: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_flow_tunnel_filter {
    pub tunnel_id: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_flow_spec_tunnel {
    pub hdr: ib_uverbs_flow_spec_hdr,
    pub val: ib_uverbs_flow_tunnel_filter,
    pub mask: ib_uverbs_flow_tunnel_filter,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_flow_spec_esp_filter {
    pub spi: u32,
    pub seq: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_flow_spec_esp {
    pub hdr: ib_uverbs_flow_spec_hdr,
    pub val: ib_uverbs_flow_spec_esp_filter,
    pub mask: ib_uverbs_flow_spec_esp_filter,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_flow_gre_filter {
    pub c_ks_res0_ver: u16,
    pub protocol: u16,
    pub key: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_flow_spec_gre {
    pub hdr: ib_uverbs_flow_spec_hdr,
    pub val: ib_uverbs_flow_gre_filter,
    pub mask: ib_uverbs_flow_gre_filter,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_flow_mpls_filter {
    pub label: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_flow_spec_mpls {
    pub hdr: ib_uverbs_flow_spec_hdr,
    pub val: ib_uverbs_flow_mpls_filter,
    pub mask: ib_uverbs_flow_mpls_filter,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_flow_attr {
    pub type_: u32,
    pub size: u16,
    pub priority: u16,
    pub num_of_specs: u8,
    pub reserved: [u8; 2],
    pub port: u8,
    pub flags: u32,
    pub flow_specs: [ib_uverbs_flow_spec_hdr; 0],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_create_flow {
    pub comp_mask: u32,
    pub qp_handle: u32,
    pub flow_attr: ib_uverbs_flow_attr,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_create_flow_resp {
    pub comp_mask: u32,
    pub flow_handle: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_destroy_flow {
    pub comp_mask: u32,
    pub flow_handle: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_create_srq {
    pub response: u64,
    pub user_handle: u64,
    pub pd_handle: u32,
    pub max_wr: u32,
    pub max_sge: u32,
    pub srq_limit: u32,
    pub driver_data: [u64; 0],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_create_xsrq {
    pub response: u64,
    pub user_handle: u64,
    pub srq_type: u32,
    pub pd_handle: u32,
    pub max_wr: u32,
    pub max_sge: u32,
    pub srq_limit: u32,
    pub max_num_tags: u32,
    pub xrcd_handle: u32,
    pub cq_handle: u32,
    pub driver_data: [u64; 0],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_create_srq_resp {
    pub srq_handle: u32,
    pub max_wr: u32,
    pub max_sge: u32,
    pub srqn: u32,
    pub driver_data: [u32; 0],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_modify_srq {
    pub srq_handle: u32,
    pub attr_mask: u32,
    pub max_wr: u32,
    pub srq_limit: u32,
    pub driver_data: [u64; 0],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_query_srq {
    pub response: u64,
    pub srq_handle: u32,
    pub reserved: u32,
    pub driver_data: [u64; 0],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_query_srq_resp {
    pub max_wr: u32,
    pub max_sge: u32,
    pub srq_limit: u32,
    pub reserved: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_destroy_srq {
    pub response: u64,
    pub srq_handle: u32,
    pub reserved: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_destroy_srq_resp {
    pub events_reported: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_ex_create_wq {
    pub comp_mask: u32,
    pub wq_type: u32,
    pub user_handle: u64,
    pub pd_handle: u32,
    pub cq_handle: u32,
    pub max_wr: u32,
    pub max_sge: u32,
    pub create_flags: u32,
    pub reserved: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_ex_create_wq_resp {
    pub comp_mask: u32,
    pub response_length: u32,
    pub wq_handle: u32,
    pub max_wr: u32,
    pub max_sge: u32,
    pub wqn: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_ex_destroy_wq {
    pub comp_mask: u32,
    pub wq_handle: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_ex_destroy_wq_resp {
    pub comp_mask: u32,
    pub response_length: u32,
    pub events_reported: u32,
    pub reserved: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_ex_modify_wq {
    pub attr_mask: u32,
    pub wq_handle: u32,
    pub wq_state: u32,
    pub curr_wq_state: u32,
    pub flags: u32,
    pub flags_mask: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_ex_create_rwq_ind_table {
    pub comp_mask: u32,
    pub log_ind_tbl_size: u32,
    pub wq_handles: [u32; 0],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_ex_create_rwq_ind_table_resp {
    pub comp_mask: u32,
    pub response_length: u32,
    pub ind_tbl_handle: u32,
    pub ind_tbl_num: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_ex_destroy_rwq_ind_table {
    pub comp_mask: u32,
    pub ind_tbl_handle: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_cq_moderation {
    pub cq_count: u16,
    pub cq_period: u16,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_ex_modify_cq {
    pub cq_handle: u32,
    pub attr_mask: u32,
    pub attr: ib_uverbs_cq_moderation,
    pub reserved: u32,
}

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

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_flow_action_esp_keymat_aes_gcm {
    pub iv: u64,
    pub iv_algo: u32,
    pub salt: u32,
    pub icv_len: u32,
    pub key_len: u32,
    pub aes_key: [u32; 8],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_flow_action_esp_replay_bmp {
    pub size: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct ib_uverbs_flow_action_esp_encap {
    pub val_ptr: *mut c_void,
    pub next_ptr: *mut ib_uverbs_flow_action_esp_encap,
    pub len: u16,
    pub type_: u16,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_flow_action_esp {
    pub spi: u32,
    pub seq: u32,
    pub tfc_pad: u32,
    pub flags: u32,
    pub hard_limit_pkts: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_query_port_resp_ex {
    pub legacy_resp: ib_uverbs_query_port_resp,
    pub port_cap_flags2: u16,
    pub reserved: [u8; 2],
    pub active_speed_ex: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_qp_cap {
    pub max_send_wr: u32,
    pub max_recv_wr: u32,
    pub max_send_sge: u32,
    pub max_recv_sge: u32,
    pub max_inline_data: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_gid_entry {
    pub gid: [u64; 2],
    pub gid_index: u32,
    pub port_num: u32,
    pub gid_type: u32,
    pub netdev_ifindex: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_buffer_desc {
    pub type_: u32,
    pub fd: i32,
    pub flags: u32,
    pub optional_flags: u32,
    pub addr: u64,
    pub length: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_modify_srq_v3 {
    pub srq_handle: u32,
    pub attr_mask: u32,
    pub max_wr: u32,
    pub max_sge: u32,
    pub srq_limit: u32,
    pub reserved: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct ib_uverbs_attr {
    pub attr_id: u16,
    pub len: u16,
    pub flags: u16,
    pub attr_data: ib_uverbs_attr_data,
    pub data: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub union ib_uverbs_attr_data {
    pub enum_data: ib_uverbs_attr_enum_data,
    pub reserved: u16,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_attr_enum_data {
    pub elem_id: u8,
    pub reserved: u8,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct ib_uverbs_ioctl_hdr {
    pub length: u16,
    pub object_id: u16,
    pub method_id: u16,
    pub num_attrs: u16,
    pub reserved1: u64,
    pub driver_id: u32,
    pub reserved2: u32,
    pub attrs: [ib_uverbs_attr; 0],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_path_rec_data {
    pub flags: u32,
    pub reserved: u32,
    pub path_rec: [u32; 16],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_user_path_rec {
    pub dgid: [u8; 16],
    pub sgid: [u8; 16],
    pub dlid: u16,
    pub slid: u16,
    pub raw_traffic: u32,
    pub flow_label: u32,
    pub reversible: u32,
    pub mtu: u32,
    pub pkey: u16,
    pub hop_limit: u8,
    pub traffic_class: u8,
    pub numb_path: u8,
    pub sl: u8,
    pub mtu_selector: u8,
    pub rate_selector: u8,
    pub rate: u8,
    pub packet_life_time_selector: u8,
    pub packet_life_time: u8,
    pub preference: u8,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct ib_user_service_rec {
    pub id: u64,
    pub gid: [u8; 16],
    pub pkey: u16,
    pub reserved: [u8; 2],
    pub lease: u32,
    pub key: [u8; 16],
    pub name: [u8; 64],
    pub data_8: [u8; 16],
    pub data_16: [u16; 8],
    pub data_32: [u32; 4],
    pub data_64: [u64; 2],
}

/// The ioctl that carries every attribute-based command on an uverbs file.
pub const RDMA_VERBS_IOCTL: c_ulong = 0xC018_1B01;
