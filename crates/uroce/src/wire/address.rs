//! GIDs and IP addresses: the same thing in RoCEv2.

use std::net::{IpAddr, Ipv6Addr};

/// An IPv6 address as it is, an IPv4 address mapped into one.
pub fn gid_of(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

/// The address that a GID stands for. IPv4 multicast groups are written ff0e::ffff:a.b.c.d too (annex
/// A17.4.3.2).
pub fn ip_of(gid: &[u8; 16]) -> IpAddr {
    let v6 = Ipv6Addr::from(*gid);
    match (v6.segments(), *gid) {
        ([0 | 0xff0e, 0, 0, 0, 0, 0xffff, ..], [.., a, b, c, d]) => IpAddr::from([a, b, c, d]),
        _ => IpAddr::V6(v6),
    }
}
