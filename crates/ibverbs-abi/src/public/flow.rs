//! Flow steering: rules that direct received packets to queue pairs.

use crate::*;

/// Flags of an [`ibv_flow_attr`].
pub type ibv_flow_flags = u32;
pub const IBV_FLOW_ATTR_FLAGS_DONT_TRAP: ibv_flow_flags = 1 << 1;
pub const IBV_FLOW_ATTR_FLAGS_EGRESS: ibv_flow_flags = 1 << 2;

/// Types of flows.
pub type ibv_flow_attr_type = u32;
pub const IBV_FLOW_ATTR_NORMAL: ibv_flow_attr_type = 0;
pub const IBV_FLOW_ATTR_ALL_DEFAULT: ibv_flow_attr_type = 1;
pub const IBV_FLOW_ATTR_MC_DEFAULT: ibv_flow_attr_type = 2;
pub const IBV_FLOW_ATTR_SNIFFER: ibv_flow_attr_type = 3;

/// Types of flow specifications. IBV_FLOW_SPEC_INNER marks the inner headers of a tunnel.
pub type ibv_flow_spec_type = u32;
pub const IBV_FLOW_SPEC_ETH: ibv_flow_spec_type = 32;
pub const IBV_FLOW_SPEC_IPV4: ibv_flow_spec_type = 48;
pub const IBV_FLOW_SPEC_IPV6: ibv_flow_spec_type = 49;
pub const IBV_FLOW_SPEC_IPV4_EXT: ibv_flow_spec_type = 50;
pub const IBV_FLOW_SPEC_ESP: ibv_flow_spec_type = 52;
pub const IBV_FLOW_SPEC_TCP: ibv_flow_spec_type = 64;
pub const IBV_FLOW_SPEC_UDP: ibv_flow_spec_type = 65;
pub const IBV_FLOW_SPEC_VXLAN_TUNNEL: ibv_flow_spec_type = 80;
pub const IBV_FLOW_SPEC_GRE: ibv_flow_spec_type = 81;
pub const IBV_FLOW_SPEC_MPLS: ibv_flow_spec_type = 96;
pub const IBV_FLOW_SPEC_INNER: ibv_flow_spec_type = 256;
pub const IBV_FLOW_SPEC_ACTION_TAG: ibv_flow_spec_type = 0x1000;
pub const IBV_FLOW_SPEC_ACTION_DROP: ibv_flow_spec_type = 0x1001;
pub const IBV_FLOW_SPEC_ACTION_HANDLE: ibv_flow_spec_type = 0x1002;
pub const IBV_FLOW_SPEC_ACTION_COUNT: ibv_flow_spec_type = 0x1003;

/// Fields of an Ethernet header, in network byte order.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ibv_flow_eth_filter {
    pub dst_mac: [u8; 6],
    pub src_mac: [u8; 6],
    pub ether_type: u16,
    pub vlan_tag: u16,
}

/// Matches Ethernet headers.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ibv_flow_spec_eth {
    pub type_: ibv_flow_spec_type,
    pub size: u16,
    pub val: ibv_flow_eth_filter,
    pub mask: ibv_flow_eth_filter,
}

/// Addresses of an IPv4 header, in network byte order.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ibv_flow_ipv4_filter {
    pub src_ip: u32,
    pub dst_ip: u32,
}

/// Matches IPv4 headers by their addresses.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ibv_flow_spec_ipv4 {
    pub type_: ibv_flow_spec_type,
    pub size: u16,
    pub val: ibv_flow_ipv4_filter,
    pub mask: ibv_flow_ipv4_filter,
}

/// Fields of an IPv4 header, in network byte order.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ibv_flow_ipv4_ext_filter {
    pub src_ip: u32,
    pub dst_ip: u32,
    pub proto: u8,
    pub tos: u8,
    pub ttl: u8,
    pub flags: u8,
}

/// Matches IPv4 headers by all fields.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ibv_flow_spec_ipv4_ext {
    pub type_: ibv_flow_spec_type,
    pub size: u16,
    pub val: ibv_flow_ipv4_ext_filter,
    pub mask: ibv_flow_ipv4_ext_filter,
}

/// Fields of an IPv6 header, in network byte order.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ibv_flow_ipv6_filter {
    pub src_ip: [u8; 16],
    pub dst_ip: [u8; 16],
    pub flow_label: u32,
    pub next_hdr: u8,
    pub traffic_class: u8,
    pub hop_limit: u8,
}

/// Matches IPv6 headers.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ibv_flow_spec_ipv6 {
    pub type_: ibv_flow_spec_type,
    pub size: u16,
    pub val: ibv_flow_ipv6_filter,
    pub mask: ibv_flow_ipv6_filter,
}

/// Fields of an ESP header, in network byte order.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ibv_flow_esp_filter {
    pub spi: u32,
    pub seq: u32,
}

/// Matches ESP headers.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ibv_flow_spec_esp {
    pub type_: ibv_flow_spec_type,
    pub size: u16,
    pub val: ibv_flow_esp_filter,
    pub mask: ibv_flow_esp_filter,
}

/// Ports of a TCP or UDP header, in network byte order.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ibv_flow_tcp_udp_filter {
    pub dst_port: u16,
    pub src_port: u16,
}

/// Matches TCP or UDP headers.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ibv_flow_spec_tcp_udp {
    pub type_: ibv_flow_spec_type,
    pub size: u16,
    pub val: ibv_flow_tcp_udp_filter,
    pub mask: ibv_flow_tcp_udp_filter,
}

/// Fields of a GRE header, in network byte order.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ibv_flow_gre_filter {
    pub c_ks_res0_ver: u16,
    pub protocol: u16,
    pub key: u32,
}

/// Matches GRE headers.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ibv_flow_spec_gre {
    pub type_: ibv_flow_spec_type,
    pub size: u16,
    pub val: ibv_flow_gre_filter,
    pub mask: ibv_flow_gre_filter,
}

/// An MPLS label stack entry, in network byte order.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ibv_flow_mpls_filter {
    pub label: u32,
}

/// Matches MPLS labels.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ibv_flow_spec_mpls {
    pub type_: ibv_flow_spec_type,
    pub size: u16,
    pub val: ibv_flow_mpls_filter,
    pub mask: ibv_flow_mpls_filter,
}

/// The VNI of a VXLAN header, in network byte order.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ibv_flow_tunnel_filter {
    pub tunnel_id: u32,
}

/// Matches VXLAN headers.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ibv_flow_spec_tunnel {
    pub type_: ibv_flow_spec_type,
    pub size: u16,
    pub val: ibv_flow_tunnel_filter,
    pub mask: ibv_flow_tunnel_filter,
}

/// Sets `flow_tag` of the completions of matching packets.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ibv_flow_spec_action_tag {
    pub type_: ibv_flow_spec_type,
    pub size: u16,
    pub tag_id: u32,
}

/// Drops matching packets.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ibv_flow_spec_action_drop {
    pub type_: ibv_flow_spec_type,
    pub size: u16,
}

/// Applies an [`ibv_flow_action`] to matching packets.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_flow_spec_action_handle {
    pub type_: ibv_flow_spec_type,
    pub size: u16,
    pub action: *const ibv_flow_action,
}

/// Counts matching packets.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_flow_spec_counter_action {
    pub type_: ibv_flow_spec_type,
    pub size: u16,
    pub counters: *mut ibv_counters,
}

/// A specification of a flow. `hdr` has its type, and its size, behind which the next one begins.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_flow_spec {
    pub u: ibv_flow_spec_u,
}

/// The type of `u` in [`ibv_flow_spec`].
#[repr(C)]
#[derive(Clone, Copy)]
pub union ibv_flow_spec_u {
    pub hdr: ibv_flow_spec_u_hdr,
    pub eth: ibv_flow_spec_eth,
    pub ipv4: ibv_flow_spec_ipv4,
    pub tcp_udp: ibv_flow_spec_tcp_udp,
    pub ipv4_ext: ibv_flow_spec_ipv4_ext,
    pub ipv6: ibv_flow_spec_ipv6,
    pub esp: ibv_flow_spec_esp,
    pub tunnel: ibv_flow_spec_tunnel,
    pub gre: ibv_flow_spec_gre,
    pub mpls: ibv_flow_spec_mpls,
    pub flow_tag: ibv_flow_spec_action_tag,
    pub drop: ibv_flow_spec_action_drop,
    pub handle: ibv_flow_spec_action_handle,
    pub flow_count: ibv_flow_spec_counter_action,
}

/// The type of `hdr` in [`ibv_flow_spec_u`].
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ibv_flow_spec_u_hdr {
    pub type_: ibv_flow_spec_type,
    pub size: u16,
}

/// Attributes of a flow (`ibv_create_flow(3)`). The specifications follow without padding.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ibv_flow_attr {
    pub comp_mask: u32,
    pub type_: ibv_flow_attr_type,
    /// In bytes, with the specifications.
    pub size: u16,
    pub priority: u16,
    pub num_of_specs: u8,
    pub port: u8,
    pub flags: u32,
}

/// An active flow. Allocated by the provider.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_flow {
    pub comp_mask: u32,
    pub context: *mut ibv_context,
    pub handle: u32,
}
