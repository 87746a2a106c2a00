//! Objects as providers allocate them (driver.h): the public part, and the library's part behind it.

use crate::*;

/// Mask of the members of [`verbs_xrcd`] that are valid.
pub type verbs_xrcd_mask = u32;
pub const VERBS_XRCD_HANDLE: verbs_xrcd_mask = 1 << 0;
pub const VERBS_XRCD_RESERVED: verbs_xrcd_mask = 1 << 1;

/// An XRC domain.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct verbs_xrcd {
    pub xrcd: ibv_xrcd,
    pub comp_mask: u32,
    pub handle: u32,
}

/// A shared receive queue.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct verbs_srq {
    pub srq: ibv_srq,
    pub srq_type: ibv_srq_type,
    pub xrcd: *mut verbs_xrcd,
    pub cq: *mut ibv_cq,
    pub srq_num: u32,
}

/// Mask of the members of [`verbs_qp`] that are valid.
pub type verbs_qp_mask = u32;
pub const VERBS_QP_XRCD: verbs_qp_mask = 1 << 0;
pub const VERBS_QP_EX: verbs_qp_mask = 1 << 1;

/// A queue pair, plain or extended. The members behind the union have moved twice as [`ibv_qp_ex`] grew: a
/// provider's `comp_mask` is at one of `VERBS_QP_COMP_MASK_OFFSETS`. So the last two members must not be
/// written without knowing the provider's release.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct verbs_qp {
    pub u: verbs_qp_u,
    pub comp_mask: u32,
    pub xrcd: *mut verbs_xrcd,
}

/// The type of `u` in [`verbs_qp`].
#[repr(C)]
#[derive(Clone, Copy)]
pub union verbs_qp_u {
    pub qp: ibv_qp,
    pub qp_ex: ibv_qp_ex,
}

/// A completion queue, plain or extended.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct verbs_cq {
    pub u: verbs_cq_u,
}

/// The type of `u` in [`verbs_cq`].
#[repr(C)]
#[derive(Clone, Copy)]
pub union verbs_cq_u {
    pub cq: ibv_cq,
    pub cq_ex: ibv_cq_ex,
}

/// Kinds of [`verbs_mr`].
pub type ibv_mr_type = u32;
pub const IBV_MR_TYPE_MR: ibv_mr_type = 0;
pub const IBV_MR_TYPE_NULL_MR: ibv_mr_type = 1;
pub const IBV_MR_TYPE_IMPORTED_MR: ibv_mr_type = 2;
pub const IBV_MR_TYPE_DMABUF_MR: ibv_mr_type = 3;

/// A memory region.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct verbs_mr {
    pub ibv_mr: ibv_mr,
    pub mr_type: ibv_mr_type,
    pub access: c_int,
}

/// Kinds of [`verbs_flow_action`].
pub type ibv_flow_action_type = u32;
pub const IBV_FLOW_ACTION_UNSPECIFIED: ibv_flow_action_type = 0;
pub const IBV_FLOW_ACTION_ESP: ibv_flow_action_type = 1;

/// A flow action.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct verbs_flow_action {
    pub action: ibv_flow_action,
    pub handle: u32,
    pub type_: ibv_flow_action_type,
}

/// Device memory. `handle` is in what was padding of [`ibv_dm`] before v35.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct verbs_dm {
    pub dm: ibv_dm,
    pub handle: u32,
}

/// A DMA handle (since v59).
#[repr(C)]
#[derive(Clone, Copy)]
pub struct verbs_dmah {
    pub dmah: ibv_dmah,
    pub handle: u32,
}

/// A set of counters.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct verbs_counters {
    pub counters: ibv_counters,
    pub handle: u32,
}

/// A buffer for the provider's queues (since v64).
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_buf {
    pub addr: *mut c_void,
    pub size: usize,
    pub pd: *mut ibv_pd,
    /// -1 if the buffer is plain memory.
    pub dmabuf_fd: c_int,
}

/// Flags of `ibv_cmd_create_cq_ex`.
pub type create_cq_cmd_flags = u32;
pub const CREATE_CQ_CMD_FLAGS_TS_IGNORED_EX: create_cq_cmd_flags = 1 << 0;
pub const CREATE_CQ_CMD_FLAGS_WITH_MEM_VA: create_cq_cmd_flags = 1 << 1;
pub const CREATE_CQ_CMD_FLAGS_WITH_MEM_DMABUF: create_cq_cmd_flags = 1 << 2;

/// The provider's own memory for a completion queue (provider ABI 59 and later).
#[repr(C)]
#[derive(Clone, Copy)]
pub struct verbs_create_cq_prov_attr {
    pub buffer: verbs_create_cq_prov_attr_buffer,
}

/// The type of `buffer` in [`verbs_create_cq_prov_attr`].
#[repr(C)]
#[derive(Clone, Copy)]
pub struct verbs_create_cq_prov_attr_buffer {
    pub length: u64,
    pub u: verbs_create_cq_prov_attr_buffer_u,
}

/// The type of `u` in [`verbs_create_cq_prov_attr_buffer`].
#[repr(C)]
#[derive(Clone, Copy)]
pub union verbs_create_cq_prov_attr_buffer_u {
    pub ptr: *mut u8,
    pub dmabuf: verbs_create_cq_prov_attr_buffer_u_dmabuf,
}

/// The type of `dmabuf` in [`verbs_create_cq_prov_attr_buffer_u`].
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct verbs_create_cq_prov_attr_buffer_u_dmabuf {
    pub offset: u64,
    pub fd: c_int,
}

/// GID types that sysfs's `gid_attrs/types` distinguishes.
pub type ibv_gid_type_sysfs = u32;
pub const IBV_GID_TYPE_SYSFS_IB_ROCE_V1: ibv_gid_type_sysfs = 0;
pub const IBV_GID_TYPE_SYSFS_ROCE_V2: ibv_gid_type_sysfs = 1;

/// Attributes of a GID to query.
pub type verbs_query_gid_attr_mask = u32;
pub const VERBS_QUERY_GID_ATTR_GID: verbs_query_gid_attr_mask = 1 << 0;
pub const VERBS_QUERY_GID_ATTR_TYPE: verbs_query_gid_attr_mask = 1 << 1;
pub const VERBS_QUERY_GID_ATTR_NDEV_IFINDEX: verbs_query_gid_attr_mask = 1 << 2;
