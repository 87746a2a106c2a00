//! Address handles and address vectors.

use crate::*;

/// The part of an address vector that packets with a global route header need.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_global_route {
    pub dgid: ibv_gid,
    /// 20 bits are used.
    pub flow_label: u32,
    pub sgid_index: u8,
    pub hop_limit: u8,
    pub traffic_class: u8,
}

/// The global route header in front of the payload of a received UD message; in network byte order.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_grh {
    pub version_tclass_flow: u32,
    pub paylen: u16,
    pub next_hdr: u8,
    pub hop_limit: u8,
    pub sgid: ibv_gid,
    pub dgid: ibv_gid,
}

/// An address vector (`ibv_create_ah(3)`).
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_ah_attr {
    pub grh: ibv_global_route,
    pub dlid: u16,
    pub sl: u8,
    pub src_path_bits: u8,
    /// An [`ibv_rate`].
    pub static_rate: u8,
    /// Whether `grh` is valid; always 1 on RoCE.
    pub is_global: u8,
    pub port_num: u8,
}

/// An address handle: the destination of a UD message. Allocated by the provider.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_ah {
    pub context: *mut ibv_context,
    pub pd: *mut ibv_pd,
    pub handle: u32,
}

/// Size of an Ethernet address in bytes.
pub const ETHERNET_LL_SIZE: usize = 6;
