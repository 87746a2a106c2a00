//! Commands for protection domains, XRC domains and memory (`rdma/ib_user_verbs.h`).

/// Request of `IB_USER_VERBS_CMD_ALLOC_PD`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_alloc_pd {
    pub response: u64,
    pub driver_data: [u64; 0],
}

/// Response to [`ib_uverbs_alloc_pd`].
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_alloc_pd_resp {
    pub pd_handle: u32,
    pub driver_data: [u32; 0],
}

/// Request of `IB_USER_VERBS_CMD_DEALLOC_PD`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_dealloc_pd {
    pub pd_handle: u32,
}

/// Request of `IB_USER_VERBS_CMD_OPEN_XRCD`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_open_xrcd {
    pub response: u64,
    pub fd: u32,
    pub oflags: u32,
    pub driver_data: [u64; 0],
}

/// Response to [`ib_uverbs_open_xrcd`].
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_open_xrcd_resp {
    pub xrcd_handle: u32,
    pub driver_data: [u32; 0],
}

/// Request of `IB_USER_VERBS_CMD_CLOSE_XRCD`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_close_xrcd {
    pub xrcd_handle: u32,
}

/// The kernel's [`ibv_access_flags`](crate::ibv_access_flags).
pub type ib_uverbs_access_flags = u32;
pub const IB_UVERBS_ACCESS_OPTIONAL_RANGE: ib_uverbs_access_flags = 0x3ff00000;

/// Request of `IB_USER_VERBS_CMD_REG_MR`.
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

/// Response to [`ib_uverbs_reg_mr`].
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_reg_mr_resp {
    pub mr_handle: u32,
    pub lkey: u32,
    pub rkey: u32,
    pub driver_data: [u32; 0],
}

/// Request of `IB_USER_VERBS_CMD_REREG_MR`.
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

/// Response to [`ib_uverbs_rereg_mr`].
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_rereg_mr_resp {
    pub lkey: u32,
    pub rkey: u32,
    pub driver_data: [u64; 0],
}

/// Request of `IB_USER_VERBS_CMD_DEREG_MR`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_dereg_mr {
    pub mr_handle: u32,
}

/// The kernel's [`ibv_advise_mr_advice`](crate::ibv_advise_mr_advice).
pub type ib_uverbs_advise_mr_advice = u32;
pub const IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH: ib_uverbs_advise_mr_advice = 0;
pub const IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE: ib_uverbs_advise_mr_advice = 1;
pub const IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT: ib_uverbs_advise_mr_advice = 2;

/// Flags of `ibv_advise_mr(3)`.
pub type ib_uverbs_advise_mr_flag = u32;
pub const IB_UVERBS_ADVISE_MR_FLAG_FLUSH: ib_uverbs_advise_mr_flag = 1 << 0;

/// Request of `IB_USER_VERBS_CMD_ALLOC_MW`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_alloc_mw {
    pub response: u64,
    pub pd_handle: u32,
    pub mw_type: u8,
    pub reserved: [u8; 3],
    pub driver_data: [u64; 0],
}

/// Response to [`ib_uverbs_alloc_mw`].
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_alloc_mw_resp {
    pub mw_handle: u32,
    pub rkey: u32,
    pub driver_data: [u64; 0],
}

/// Request of `IB_USER_VERBS_CMD_DEALLOC_MW`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_dealloc_mw {
    pub mw_handle: u32,
}

/// A buffer for a queue.
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
