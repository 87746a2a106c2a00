//! Commands for flows (`rdma/ib_user_verbs.h`). Filters are in network byte order.

/// The header of every specification.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_flow_spec_hdr {
    pub type_: u32,
    /// In bytes, with this header.
    pub size: u16,
    pub reserved: u16,
    pub flow_spec_data: [u64; 0],
}

/// The kernel's [`ibv_flow_eth_filter`](crate::ibv_flow_eth_filter).
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_flow_eth_filter {
    pub dst_mac: [u8; 6],
    pub src_mac: [u8; 6],
    pub ether_type: u16,
    pub vlan_tag: u16,
}

/// The kernel's [`ibv_flow_spec_eth`](crate::ibv_flow_spec_eth).
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_flow_spec_eth {
    pub hdr: ib_uverbs_flow_spec_hdr,
    pub val: ib_uverbs_flow_eth_filter,
    pub mask: ib_uverbs_flow_eth_filter,
}

/// The kernel's [`ibv_flow_ipv4_ext_filter`](crate::ibv_flow_ipv4_ext_filter).
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_flow_ipv4_filter {
    pub src_ip: u32,
    pub dst_ip: u32,
    pub proto: u8,
    pub tos: u8,
    pub ttl: u8,
    pub flags: u8,
}

/// The kernel's [`ibv_flow_spec_ipv4_ext`](crate::ibv_flow_spec_ipv4_ext).
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_flow_spec_ipv4 {
    pub hdr: ib_uverbs_flow_spec_hdr,
    pub val: ib_uverbs_flow_ipv4_filter,
    pub mask: ib_uverbs_flow_ipv4_filter,
}

/// The kernel's [`ibv_flow_tcp_udp_filter`](crate::ibv_flow_tcp_udp_filter).
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_flow_tcp_udp_filter {
    pub dst_port: u16,
    pub src_port: u16,
}

/// The kernel's [`ibv_flow_spec_tcp_udp`](crate::ibv_flow_spec_tcp_udp).
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_flow_spec_tcp_udp {
    pub hdr: ib_uverbs_flow_spec_hdr,
    pub val: ib_uverbs_flow_tcp_udp_filter,
    pub mask: ib_uverbs_flow_tcp_udp_filter,
}

/// The kernel's [`ibv_flow_ipv6_filter`](crate::ibv_flow_ipv6_filter).
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_flow_ipv6_filter {
    pub src_ip: [u8; 16],
    pub dst_ip: [u8; 16],
    pub flow_label: u32,
    pub next_hdr: u8,
    pub traffic_class: u8,
    pub hop_limit: u8,
    pub reserved: u8,
}

/// The kernel's [`ibv_flow_spec_ipv6`](crate::ibv_flow_spec_ipv6).
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_flow_spec_ipv6 {
    pub hdr: ib_uverbs_flow_spec_hdr,
    pub val: ib_uverbs_flow_ipv6_filter,
    pub mask: ib_uverbs_flow_ipv6_filter,
}

/// The kernel's [`ibv_flow_spec_action_tag`](crate::ibv_flow_spec_action_tag).
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_flow_spec_action_tag {
    pub hdr: ib_uverbs_flow_spec_hdr,
    pub tag_id: u32,
    pub reserved1: u32,
}

/// The kernel's [`ibv_flow_spec_action_drop`](crate::ibv_flow_spec_action_drop).
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_flow_spec_action_drop {
    pub hdr: ib_uverbs_flow_spec_hdr,
}

/// The kernel's [`ibv_flow_spec_action_handle`](crate::ibv_flow_spec_action_handle).
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_flow_spec_action_handle {
    pub hdr: ib_uverbs_flow_spec_hdr,
    pub handle: u32,
    pub reserved1: u32,
}

/// The kernel's [`ibv_flow_spec_counter_action`](crate::ibv_flow_spec_counter_action).
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_flow_spec_action_count {
    pub hdr: ib_uverbs_flow_spec_hdr,
    pub handle: u32,
    pub reserved1: u32,
}

/// The kernel's [`ibv_flow_tunnel_filter`](crate::ibv_flow_tunnel_filter).
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_flow_tunnel_filter {
    pub tunnel_id: u32,
}

/// The kernel's [`ibv_flow_spec_tunnel`](crate::ibv_flow_spec_tunnel).
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_flow_spec_tunnel {
    pub hdr: ib_uverbs_flow_spec_hdr,
    pub val: ib_uverbs_flow_tunnel_filter,
    pub mask: ib_uverbs_flow_tunnel_filter,
}

/// The kernel's [`ibv_flow_esp_filter`](crate::ibv_flow_esp_filter).
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_flow_spec_esp_filter {
    pub spi: u32,
    pub seq: u32,
}

/// The kernel's [`ibv_flow_spec_esp`](crate::ibv_flow_spec_esp).
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_flow_spec_esp {
    pub hdr: ib_uverbs_flow_spec_hdr,
    pub val: ib_uverbs_flow_spec_esp_filter,
    pub mask: ib_uverbs_flow_spec_esp_filter,
}

/// The kernel's [`ibv_flow_gre_filter`](crate::ibv_flow_gre_filter).
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_flow_gre_filter {
    pub c_ks_res0_ver: u16,
    pub protocol: u16,
    pub key: u32,
}

/// The kernel's [`ibv_flow_spec_gre`](crate::ibv_flow_spec_gre).
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_flow_spec_gre {
    pub hdr: ib_uverbs_flow_spec_hdr,
    pub val: ib_uverbs_flow_gre_filter,
    pub mask: ib_uverbs_flow_gre_filter,
}

/// The kernel's [`ibv_flow_mpls_filter`](crate::ibv_flow_mpls_filter).
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_flow_mpls_filter {
    pub label: u32,
}

/// The kernel's [`ibv_flow_spec_mpls`](crate::ibv_flow_spec_mpls).
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_flow_spec_mpls {
    pub hdr: ib_uverbs_flow_spec_hdr,
    pub val: ib_uverbs_flow_mpls_filter,
    pub mask: ib_uverbs_flow_mpls_filter,
}

/// The kernel's [`ibv_flow_attr`](crate::ibv_flow_attr); the specifications follow.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_flow_attr {
    pub type_: u32,
    /// Size of the specifications in bytes.
    pub size: u16,
    pub priority: u16,
    pub num_of_specs: u8,
    pub reserved: [u8; 2],
    pub port: u8,
    pub flags: u32,
    pub flow_specs: [ib_uverbs_flow_spec_hdr; 0],
}

/// Request of `IB_USER_VERBS_EX_CMD_CREATE_FLOW`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_create_flow {
    pub comp_mask: u32,
    pub qp_handle: u32,
    pub flow_attr: ib_uverbs_flow_attr,
}

/// Response to [`ib_uverbs_create_flow`].
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_create_flow_resp {
    pub comp_mask: u32,
    pub flow_handle: u32,
}

/// Request of `IB_USER_VERBS_EX_CMD_DESTROY_FLOW`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_destroy_flow {
    pub comp_mask: u32,
    pub flow_handle: u32,
}

/// Addresses of an IPv4 header, for the specification without the extended fields.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ibv_kern_ipv4_filter {
    pub src_ip: u32,
    pub dst_ip: u32,
}

/// Matches IPv4 headers by their addresses.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ibv_kern_spec_ipv4 {
    pub type_: u32,
    pub size: u16,
    pub reserved: u16,
    pub val: ibv_kern_ipv4_filter,
    pub mask: ibv_kern_ipv4_filter,
}

/// A specification in the kernel's form.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_kern_spec {
    pub u: ibv_kern_spec_u,
}

/// The type of `u` in [`ibv_kern_spec`].
#[repr(C)]
#[derive(Clone, Copy)]
pub union ibv_kern_spec_u {
    pub hdr: ib_uverbs_flow_spec_hdr,
    pub eth: ib_uverbs_flow_spec_eth,
    pub ipv4: ibv_kern_spec_ipv4,
    pub ipv4_ext: ib_uverbs_flow_spec_ipv4,
    pub esp: ib_uverbs_flow_spec_esp,
    pub tcp_udp: ib_uverbs_flow_spec_tcp_udp,
    pub ipv6: ib_uverbs_flow_spec_ipv6,
    pub gre: ib_uverbs_flow_spec_gre,
    pub tunnel: ib_uverbs_flow_spec_tunnel,
    pub mpls: ib_uverbs_flow_spec_mpls,
    pub flow_tag: ib_uverbs_flow_spec_action_tag,
    pub drop: ib_uverbs_flow_spec_action_drop,
    pub handle: ib_uverbs_flow_spec_action_handle,
    pub flow_count: ib_uverbs_flow_spec_action_count,
}
