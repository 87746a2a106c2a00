//! XRC domains.

use crate::*;

/// Mask of the members of [`ibv_xrcd_init_attr`] that are valid.
pub type ibv_xrcd_init_attr_mask = u32;
pub const IBV_XRCD_INIT_ATTR_FD: ibv_xrcd_init_attr_mask = 1 << 0;
pub const IBV_XRCD_INIT_ATTR_OFLAGS: ibv_xrcd_init_attr_mask = 1 << 1;
pub const IBV_XRCD_INIT_ATTR_RESERVED: ibv_xrcd_init_attr_mask = 1 << 2;

/// Attributes for opening an XRC domain (`ibv_open_xrcd(3)`).
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ibv_xrcd_init_attr {
    pub comp_mask: u32,
    /// A file whose inode identifies the domain to other processes; -1 for a private domain.
    pub fd: c_int,
    /// `O_CREAT` and `O_EXCL`, as `open(2)` takes them.
    pub oflags: c_int,
}

/// An XRC domain, within which processes share SRQs. Allocated by the provider.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_xrcd {
    pub context: *mut ibv_context,
}
