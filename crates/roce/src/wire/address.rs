//! RoCEv2 GIDs are IP addresses.

use std::net::{IpAddr, Ipv4Addr};

use ibverbs_abi::ip_of_gid;

/// The GID of an IP address: an IPv6 address unchanged, an IPv4 address mapped to ::ffff:a.b.c.d.
pub fn gid_of(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

/// A link-local GID that stands for an IPv4 address: fe80::5efe:a.b.c.d. RFC 5214 (6.1) reserves interface
/// identifiers of this form for nodes that have the IPv4 address.
pub fn link_local_gid_of(ip: Ipv4Addr) -> [u8; 16] {
    let [a, b, c, d] = ip.octets();
    [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0x5e, 0xfe, a, b, c, d]
}

/// The IP address of a GID, as [`ip_of_gid`]; also of the link-local GID of an IPv4 address
/// ([`link_local_gid_of`]).
pub fn ip_of(gid: &[u8; 16]) -> IpAddr {
    match *gid {
        [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0x5e, 0xfe, a, b, c, d] => IpAddr::from([a, b, c, d]),
        _ => ip_of_gid(gid),
    }
}
