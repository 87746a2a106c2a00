//! RoCEv2 GIDs are IP addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

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

/// The IP address of a GID. IPv4 multicast groups may also be mapped to ff0e::ffff:a.b.c.d (annex A17.4.3.2),
/// and other IPv4 addresses have a link-local GID too ([`link_local_gid_of`]).
pub fn ip_of(gid: &[u8; 16]) -> IpAddr {
    let v6 = Ipv6Addr::from(*gid);
    match (v6.segments(), *gid) {
        (
            [0 | 0xff0e, 0, 0, 0, 0, 0xffff, ..] | [0xfe80, 0, 0, 0, 0, 0x5efe, ..],
            [.., a, b, c, d],
        ) => IpAddr::from([a, b, c, d]),
        _ => IpAddr::V6(v6),
    }
}
