//! Commands for queue pairs, address handles and multicast groups (`rdma/ib_user_verbs.h`).

/// The kernel's [`ibv_qp_create_flags`](crate::ibv_qp_create_flags).
pub type ib_uverbs_qp_create_flags = u32;
pub const IB_UVERBS_QP_CREATE_SQ_SIG_ALL: ib_uverbs_qp_create_flags = 1 << 12;

/// The kernel's [`ibv_qp_cap`](crate::ibv_qp_cap).
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_qp_cap {
    pub max_send_wr: u32,
    pub max_recv_wr: u32,
    pub max_send_sge: u32,
    pub max_recv_sge: u32,
    pub max_inline_data: u32,
}

/// The kernel's [`ibv_global_route`](crate::ibv_global_route).
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

/// The kernel's [`ibv_ah_attr`](crate::ibv_ah_attr).
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

/// The kernel's [`ibv_qp_attr`](crate::ibv_qp_attr), which `ibv_copy_qp_attr_from_kern` translates for
/// librdmacm.
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

/// An address vector in a request to modify a queue pair.
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

/// Request of `IB_USER_VERBS_CMD_CREATE_QP`.
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

/// Response to [`ib_uverbs_create_qp`].
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

/// Mask of the members of [`ib_uverbs_ex_create_qp`] that are valid.
pub type ib_uverbs_create_qp_mask = u32;
pub const IB_UVERBS_CREATE_QP_MASK_IND_TABLE: ib_uverbs_create_qp_mask = 1 << 0;

/// Request of `IB_USER_VERBS_EX_CMD_CREATE_QP`.
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

/// Response to [`ib_uverbs_ex_create_qp`].
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_ex_create_qp_resp {
    pub base: ib_uverbs_create_qp_resp,
    pub comp_mask: u32,
    pub response_length: u32,
}

/// Request of `IB_USER_VERBS_CMD_OPEN_QP`.
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

/// Request of `IB_USER_VERBS_CMD_QUERY_QP`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_query_qp {
    pub response: u64,
    pub qp_handle: u32,
    pub attr_mask: u32,
    pub driver_data: [u64; 0],
}

/// Response to [`ib_uverbs_query_qp`].
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

/// Request of `IB_USER_VERBS_CMD_MODIFY_QP`.
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

/// Request of `IB_USER_VERBS_EX_CMD_MODIFY_QP`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_ex_modify_qp {
    pub base: ib_uverbs_modify_qp,
    pub rate_limit: u32,
    pub reserved: u32,
}

/// Response to [`ib_uverbs_ex_modify_qp`].
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_ex_modify_qp_resp {
    pub comp_mask: u32,
    pub response_length: u32,
}

/// Request of `IB_USER_VERBS_CMD_DESTROY_QP`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_destroy_qp {
    pub response: u64,
    pub qp_handle: u32,
    pub reserved: u32,
}

/// Response to [`ib_uverbs_destroy_qp`].
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_destroy_qp_resp {
    pub events_reported: u32,
}

/// Request of `IB_USER_VERBS_CMD_ATTACH_MCAST`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_attach_mcast {
    pub gid: [u8; 16],
    pub qp_handle: u32,
    pub mlid: u16,
    pub reserved: u16,
    pub driver_data: [u64; 0],
}

/// Request of `IB_USER_VERBS_CMD_DETACH_MCAST`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_detach_mcast {
    pub gid: [u8; 16],
    pub qp_handle: u32,
    pub mlid: u16,
    pub reserved: u16,
    pub driver_data: [u64; 0],
}

/// Request of `IB_USER_VERBS_CMD_CREATE_AH`.
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

/// Response to [`ib_uverbs_create_ah`].
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_create_ah_resp {
    pub ah_handle: u32,
    pub driver_data: [u32; 0],
}

/// Request of `IB_USER_VERBS_CMD_DESTROY_AH`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_destroy_ah {
    pub ah_handle: u32,
}

/// The kernel's [`ibv_qp_attach_comp_cntr_op`](crate::ibv_qp_attach_comp_cntr_op).
pub type ib_uverbs_qp_attach_comp_cntr_op = u32;
pub const IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_SEND: ib_uverbs_qp_attach_comp_cntr_op = 1 << 0;
pub const IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_RECV: ib_uverbs_qp_attach_comp_cntr_op = 1 << 1;
pub const IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_RDMA_READ: ib_uverbs_qp_attach_comp_cntr_op = 1 << 2;
pub const IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_READ: ib_uverbs_qp_attach_comp_cntr_op =
    1 << 3;
pub const IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE: ib_uverbs_qp_attach_comp_cntr_op = 1 << 4;
pub const IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_WRITE: ib_uverbs_qp_attach_comp_cntr_op =
    1 << 5;
