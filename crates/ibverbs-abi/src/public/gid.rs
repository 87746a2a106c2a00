//! GIDs: the addresses of ports.

/// A port's 128-bit address in the form of an IPv6 address; in network byte order (`ibv_query_gid(3)`).
#[repr(C)]
#[derive(Clone, Copy)]
pub union ibv_gid {
    pub raw: [u8; 16],
    pub global: ibv_gid_global,
}

/// The type of `global` in [`ibv_gid`].
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ibv_gid_global {
    pub subnet_prefix: u64,
    pub interface_id: u64,
}

/// Type of a GID table entry: InfiniBand, RoCE v1 (Ethertype 0x8915) or RoCE v2 (UDP port 4791).
pub type ibv_gid_type = u32;
pub const IBV_GID_TYPE_IB: ibv_gid_type = 0;
pub const IBV_GID_TYPE_ROCE_V1: ibv_gid_type = 1;
pub const IBV_GID_TYPE_ROCE_V2: ibv_gid_type = 2;

/// An entry of a port's GID table (`_ibv_query_gid_table`, `ibv_query_gid_ex(3)`). Releases may append
/// members, so every call passes the size.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_gid_entry {
    pub gid: ibv_gid,
    pub gid_index: u32,
    pub port_num: u32,
    pub gid_type: u32,
    /// Index of the network interface that has the address; 0 if there is none.
    pub ndev_ifindex: u32,
}
