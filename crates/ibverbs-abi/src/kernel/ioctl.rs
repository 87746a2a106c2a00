//! The ioctl for commands with attributes (`rdma/rdma_user_ioctl_cmds.h`).

use crate::*;

/// `flags` of [`ib_uverbs_attr`].
pub const UVERBS_ATTR_F_MANDATORY: u32 = 1;
pub const UVERBS_ATTR_F_VALID_OUTPUT: u32 = 2;

/// An attribute of a command. `data` is a handle, input of up to 8 bytes, or the address of longer input
/// or of output.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ib_uverbs_attr {
    pub attr_id: u16,
    /// In bytes.
    pub len: u16,
    pub flags: u16,
    pub attr_data: ib_uverbs_attr_data,
    pub data: u64,
}

/// The type of `attr_data` in [`ib_uverbs_attr`].
#[repr(C)]
#[derive(Clone, Copy)]
pub union ib_uverbs_attr_data {
    pub enum_data: ib_uverbs_attr_enum_data,
    pub reserved: u16,
}

/// The type of `enum_data` in [`ib_uverbs_attr_data`].
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_attr_enum_data {
    pub elem_id: u8,
    pub reserved: u8,
}

/// The header of a command; the attributes follow.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ib_uverbs_ioctl_hdr {
    /// In bytes, with this header and the attributes.
    pub length: u16,
    pub object_id: u16,
    pub method_id: u16,
    pub num_attrs: u16,
    pub reserved1: u64,
    pub driver_id: u32,
    pub reserved2: u32,
    pub attrs: [ib_uverbs_attr; 0],
}

/// The first driver-specific ids: the provider's input and output (UHW).
pub const UVERBS_ID_DRIVER_NS: u32 = 0x1000;
pub const UVERBS_ATTR_UHW_IN: u32 = 0x1000;
pub const UVERBS_ATTR_UHW_OUT: u32 = 0x1001;

/// Kernel drivers: `driver_id` of a command, of RDMA netlink and of
/// [`verbs_match_ent`](crate::verbs_match_ent).
pub type rdma_driver_id = u32;
pub const RDMA_DRIVER_UNKNOWN: rdma_driver_id = 0;
pub const RDMA_DRIVER_MLX5: rdma_driver_id = 1;
pub const RDMA_DRIVER_MLX4: rdma_driver_id = 2;
pub const RDMA_DRIVER_CXGB4: rdma_driver_id = 4;
pub const RDMA_DRIVER_MTHCA: rdma_driver_id = 5;
pub const RDMA_DRIVER_BNXT_RE: rdma_driver_id = 6;
pub const RDMA_DRIVER_OCRDMA: rdma_driver_id = 7;
pub const RDMA_DRIVER_IRDMA: rdma_driver_id = 9;
pub const RDMA_DRIVER_VMW_PVRDMA: rdma_driver_id = 10;
pub const RDMA_DRIVER_QEDR: rdma_driver_id = 11;
pub const RDMA_DRIVER_HNS: rdma_driver_id = 12;
pub const RDMA_DRIVER_RXE: rdma_driver_id = 14;
pub const RDMA_DRIVER_HFI1: rdma_driver_id = 15;
pub const RDMA_DRIVER_QIB: rdma_driver_id = 16;
pub const RDMA_DRIVER_EFA: rdma_driver_id = 17;
pub const RDMA_DRIVER_SIW: rdma_driver_id = 18;
pub const RDMA_DRIVER_ERDMA: rdma_driver_id = 19;
pub const RDMA_DRIVER_MANA: rdma_driver_id = 20;
pub const RDMA_DRIVER_IONIC: rdma_driver_id = 21;

/// The request number of the ioctl; its argument begins with an [`ib_uverbs_ioctl_hdr`].
pub const RDMA_VERBS_IOCTL: c_ulong = 0xC018_1B01;
