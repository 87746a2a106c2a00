//! Memory regions.

use crate::*;

/// Access rights to registered memory. Flags from `IBV_ACCESS_OPTIONAL_FIRST` on are hints, which are
/// cleared for a kernel that does not know them.
pub type ibv_access_flags = u32;
pub const IBV_ACCESS_LOCAL_WRITE: ibv_access_flags = 1 << 0;
pub const IBV_ACCESS_REMOTE_WRITE: ibv_access_flags = 1 << 1;
pub const IBV_ACCESS_REMOTE_READ: ibv_access_flags = 1 << 2;
pub const IBV_ACCESS_REMOTE_ATOMIC: ibv_access_flags = 1 << 3;
pub const IBV_ACCESS_MW_BIND: ibv_access_flags = 1 << 4;
pub const IBV_ACCESS_ZERO_BASED: ibv_access_flags = 1 << 5;
pub const IBV_ACCESS_ON_DEMAND: ibv_access_flags = 1 << 6;
pub const IBV_ACCESS_HUGETLB: ibv_access_flags = 1 << 7;
pub const IBV_ACCESS_FLUSH_GLOBAL: ibv_access_flags = 1 << 8;
pub const IBV_ACCESS_FLUSH_PERSISTENT: ibv_access_flags = 1 << 9;
pub const IBV_ACCESS_RELAXED_ORDERING: ibv_access_flags = 1 << 20;

/// The lowest flag that is a hint, and the mask of all hints.
pub const IBV_ACCESS_OPTIONAL_FIRST: u32 = 1 << 20;
pub const IBV_ACCESS_OPTIONAL_RANGE: ib_uverbs_access_flags = IB_UVERBS_ACCESS_OPTIONAL_RANGE;

/// Flags of `ibv_rereg_mr(3)`: what to change.
pub type ibv_rereg_mr_flags = u32;
pub const IBV_REREG_MR_CHANGE_TRANSLATION: ibv_rereg_mr_flags = 1 << 0;
pub const IBV_REREG_MR_CHANGE_PD: ibv_rereg_mr_flags = 1 << 1;
pub const IBV_REREG_MR_CHANGE_ACCESS: ibv_rereg_mr_flags = 1 << 2;
pub const IBV_REREG_MR_FLAGS_SUPPORTED: ibv_rereg_mr_flags = 0x7;

/// Errors of `ibv_rereg_mr(3)`, which say in which state the region is.
pub type ibv_rereg_mr_err_code = i32;
pub const IBV_REREG_MR_ERR_INPUT: ibv_rereg_mr_err_code = -1;
pub const IBV_REREG_MR_ERR_DONT_FORK_NEW: ibv_rereg_mr_err_code = -2;
pub const IBV_REREG_MR_ERR_DO_FORK_OLD: ibv_rereg_mr_err_code = -3;
pub const IBV_REREG_MR_ERR_CMD: ibv_rereg_mr_err_code = -4;
pub const IBV_REREG_MR_ERR_CMD_AND_DO_FORK_NEW: ibv_rereg_mr_err_code = -5;

/// A memory region (`ibv_reg_mr(3)`). Allocated by the provider.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_mr {
    pub context: *mut ibv_context,
    pub pd: *mut ibv_pd,
    pub addr: *mut c_void,
    /// In bytes.
    pub length: usize,
    pub handle: u32,
    pub lkey: u32,
    pub rkey: u32,
}

/// Mask of the members of [`ibv_mr_init_attr`] that are valid.
pub type ibv_mr_init_attr_mask = u32;
pub const IBV_REG_MR_MASK_IOVA: ibv_mr_init_attr_mask = 1 << 0;
pub const IBV_REG_MR_MASK_ADDR: ibv_mr_init_attr_mask = 1 << 1;
pub const IBV_REG_MR_MASK_FD: ibv_mr_init_attr_mask = 1 << 2;
pub const IBV_REG_MR_MASK_FD_OFFSET: ibv_mr_init_attr_mask = 1 << 3;
pub const IBV_REG_MR_MASK_DMAH: ibv_mr_init_attr_mask = 1 << 4;
pub const IBV_REG_MR_MASK_BUF: ibv_mr_init_attr_mask = 1 << 5;

/// Attributes for registering memory or a DMA-BUF (`ibv_reg_mr_ex(3)`, since v59). 72 bytes; before v64
/// 64, without `buf`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_mr_init_attr {
    pub length: usize,
    pub access: c_int,
    pub comp_mask: u64,
    pub iova: u64,
    pub addr: *mut c_void,
    pub fd: c_int,
    pub fd_offset: u64,
    pub dmah: *mut ibv_dmah,
    pub buf: *mut ibv_buf,
}

/// Advice for registered memory (`ibv_advise_mr(3)`).
pub type ibv_advise_mr_advice = ib_uverbs_advise_mr_advice;

/// Values of [`ibv_advise_mr_advice`]; the flag makes the call return when the advice has been applied.
pub const IBV_ADVISE_MR_ADVICE_PREFETCH: ib_uverbs_advise_mr_advice =
    IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH;
pub const IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE: ib_uverbs_advise_mr_advice =
    IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE;
pub const IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT: ib_uverbs_advise_mr_advice =
    IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT;
pub const IBV_ADVISE_MR_FLAG_FLUSH: ib_uverbs_advise_mr_flag = IB_UVERBS_ADVISE_MR_FLAG_FLUSH;
