//! Global identifiers: addresses of ports.

/// A port's 128-bit address, in network byte order: an IPv6 address in form. Filled by
/// `ibv_query_gid(3)`.
#[repr(C)]
#[derive(Clone, Copy)]
pub union ibv_gid {
    pub raw: [u8; 16],
    pub global: ibv_gid_global,
}

/// Part of [`ibv_gid`]: `global`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ibv_gid_global {
    pub subnet_prefix: u64,
    pub interface_id: u64,
}

/// What a table entry's packets look like: InfiniBand, RoCE v1 (Ethernet type 0x8915) or RoCE v2
/// (UDP port 4791).
pub type ibv_gid_type = u32;
pub const IBV_GID_TYPE_IB: ibv_gid_type = 0;
pub const IBV_GID_TYPE_ROCE_V1: ibv_gid_type = 1;
pub const IBV_GID_TYPE_ROCE_V2: ibv_gid_type = 2;

/// One entry of a port's GID table (`_ibv_query_gid_table`, `ibv_query_gid_ex(3)`). A newer library
/// may know a longer one: its size goes with every call.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_gid_entry {
    pub gid: ibv_gid,
    pub gid_index: u32,
    pub port_num: u32,
    pub gid_type: u32,
    /// Index of the network interface that the address belongs to; 0 when there is none.
    pub ndev_ifindex: u32,
}
