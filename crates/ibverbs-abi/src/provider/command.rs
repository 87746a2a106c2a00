//! Commands that providers and library build together.

use crate::*;

/// Both headers of an extended write command.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ex_hdr {
    pub hdr: ib_uverbs_cmd_hdr,
    pub ex_hdr: ib_uverbs_ex_cmd_hdr,
}

/// An ioctl command; room for its attributes follows. Providers allocate it on the stack and link further
/// ones with `next`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_command_buffer {
    pub next: *mut ibv_command_buffer,
    pub next_attr: *mut ib_uverbs_attr,
    pub last_attr: *mut ib_uverbs_attr,
    /// Index of the attribute with the provider's request; `_UHW_NO_INDEX` if there is none.
    pub uhw_in_idx: u8,
    pub uhw_out_idx: u8,
    /// The number of free 32-bit words in front of the provider's request, for a write command.
    pub uhw_in_headroom_dwords: u8,
    pub uhw_out_headroom_dwords: u8,
    /// `CMDB_*`; bit-fields in C.
    pub flags: u8,
    pub hdr: ib_uverbs_ioctl_hdr,
}

/// `uhw_in_idx` and `uhw_out_idx` without a provider's part.
pub const _UHW_NO_INDEX: u8 = 255;
/// `flags` of [`ibv_command_buffer`]: an attribute did not fit.
pub const CMDB_BUFFER_ERROR: u8 = 1;
/// `flags` of [`ibv_command_buffer`]: the plain write command cannot express this one.
pub const CMDB_FALLBACK_REQUIRE_EX: u8 = 2;
/// `flags` of [`ibv_command_buffer`]: no write command can express this one.
pub const CMDB_FALLBACK_IOCTL_ONLY: u8 = 4;

/// A write command: header and request. The provider's part follows.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Cmd<T> {
    pub hdr: ib_uverbs_cmd_hdr,
    pub core_payload: T,
}

/// An extended write command: both headers and the request. The provider's part follows.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct CmdEx<T> {
    pub hdr: ex_hdr,
    pub core_payload: T,
}

// The names of the commands in driver.h.
pub type ibv_alloc_mw = Cmd<ib_uverbs_alloc_mw>;
pub type ibv_alloc_pd = Cmd<ib_uverbs_alloc_pd>;
pub type ibv_attach_mcast = Cmd<ib_uverbs_attach_mcast>;
pub type ibv_close_xrcd = Cmd<ib_uverbs_close_xrcd>;
pub type ibv_create_ah = Cmd<ib_uverbs_create_ah>;
pub type ibv_create_comp_channel = Cmd<ib_uverbs_create_comp_channel>;
pub type ibv_create_cq = Cmd<ib_uverbs_create_cq>;
pub type ibv_create_qp = Cmd<ib_uverbs_create_qp>;
pub type ibv_create_srq = Cmd<ib_uverbs_create_srq>;
pub type ibv_create_xsrq = Cmd<ib_uverbs_create_xsrq>;
pub type ibv_dealloc_mw = Cmd<ib_uverbs_dealloc_mw>;
pub type ibv_dealloc_pd = Cmd<ib_uverbs_dealloc_pd>;
pub type ibv_dereg_mr = Cmd<ib_uverbs_dereg_mr>;
pub type ibv_destroy_ah = Cmd<ib_uverbs_destroy_ah>;
pub type ibv_destroy_cq = Cmd<ib_uverbs_destroy_cq>;
pub type ibv_destroy_qp = Cmd<ib_uverbs_destroy_qp>;
pub type ibv_destroy_srq = Cmd<ib_uverbs_destroy_srq>;
pub type ibv_detach_mcast = Cmd<ib_uverbs_detach_mcast>;
pub type ibv_get_context = Cmd<ib_uverbs_get_context>;
pub type ibv_modify_qp = Cmd<ib_uverbs_modify_qp>;
pub type ibv_modify_srq = Cmd<ib_uverbs_modify_srq>;
pub type ibv_open_qp = Cmd<ib_uverbs_open_qp>;
pub type ibv_open_xrcd = Cmd<ib_uverbs_open_xrcd>;
pub type ibv_poll_cq = Cmd<ib_uverbs_poll_cq>;
pub type ibv_post_recv = Cmd<ib_uverbs_post_recv>;
pub type ibv_post_send = Cmd<ib_uverbs_post_send>;
pub type ibv_post_srq_recv = Cmd<ib_uverbs_post_srq_recv>;
pub type ibv_query_device = Cmd<ib_uverbs_query_device>;
pub type ibv_query_port = Cmd<ib_uverbs_query_port>;
pub type ibv_query_qp = Cmd<ib_uverbs_query_qp>;
pub type ibv_query_srq = Cmd<ib_uverbs_query_srq>;
pub type ibv_reg_mr = Cmd<ib_uverbs_reg_mr>;
pub type ibv_req_notify_cq = Cmd<ib_uverbs_req_notify_cq>;
pub type ibv_rereg_mr = Cmd<ib_uverbs_rereg_mr>;
pub type ibv_resize_cq = Cmd<ib_uverbs_resize_cq>;
pub type ibv_create_cq_ex = CmdEx<ib_uverbs_ex_create_cq>;
pub type ibv_create_flow = CmdEx<ib_uverbs_create_flow>;
pub type ibv_create_qp_ex = CmdEx<ib_uverbs_ex_create_qp>;
pub type ibv_create_rwq_ind_table = CmdEx<ib_uverbs_ex_create_rwq_ind_table>;
pub type ibv_create_wq = CmdEx<ib_uverbs_ex_create_wq>;
pub type ibv_destroy_flow = CmdEx<ib_uverbs_destroy_flow>;
pub type ibv_destroy_rwq_ind_table = CmdEx<ib_uverbs_ex_destroy_rwq_ind_table>;
pub type ibv_destroy_wq = CmdEx<ib_uverbs_ex_destroy_wq>;
pub type ibv_modify_cq = CmdEx<ib_uverbs_ex_modify_cq>;
pub type ibv_modify_qp_ex = CmdEx<ib_uverbs_ex_modify_qp>;
pub type ibv_modify_wq = CmdEx<ib_uverbs_ex_modify_wq>;
pub type ibv_query_device_ex = CmdEx<ib_uverbs_ex_query_device>;
pub type ibv_modify_srq_v3 = Cmd<ib_uverbs_modify_srq_v3>;
pub type ibv_create_srq_v5 = Cmd<ib_uverbs_create_srq>;
pub type ibv_create_qp_v4 = Cmd<ib_uverbs_create_qp>;
pub type ibv_create_qp_v3 = Cmd<ib_uverbs_create_qp>;
