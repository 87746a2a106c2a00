//! Memory windows.

use crate::*;

/// Types of memory windows: type 1 is bound by `ibv_bind_mw(3)`, type 2 by a work request.
pub type ibv_mw_type = u32;
pub const IBV_MW_TYPE_1: ibv_mw_type = 1;
pub const IBV_MW_TYPE_2: ibv_mw_type = 2;

/// The memory that a window gives access to.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_mw_bind_info {
    pub mr: *mut ibv_mr,
    pub addr: u64,
    /// In bytes.
    pub length: u64,
    pub mw_access_flags: c_uint,
}

/// A memory window (`ibv_alloc_mw(3)`). Allocated by the provider.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_mw {
    pub context: *mut ibv_context,
    pub pd: *mut ibv_pd,
    pub rkey: u32,
    pub handle: u32,
    pub type_: ibv_mw_type,
}

/// A request to bind a type 1 window (`ibv_bind_mw(3)`).
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_mw_bind {
    pub wr_id: u64,
    pub send_flags: c_uint,
    pub bind_info: ibv_mw_bind_info,
}
