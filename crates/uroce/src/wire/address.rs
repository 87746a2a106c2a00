//! RoCEv2 GIDs are IP addresses.

use std::net::{IpAddr, Ipv6Addr};

/// The GID of an IP address: an IPv6 address unchanged, an IPv4 address mapped to ::ffff:a.b.c.d.
pub fn gid_of(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

/// The IP address of a GID. IPv4 multicast groups may also be mapped to ff0e::ffff:a.b.c.d (annex A17.4.3.2).
pub fn ip_of(gid: &[u8; 16]) -> IpAddr {
    let v6 = Ipv6Addr::from(*gid);
    match (v6.segments(), *gid) {
        ([0 | 0xff0e, 0, 0, 0, 0, 0xffff, ..], [.., a, b, c, d]) => IpAddr::from([a, b, c, d]),
        _ => IpAddr::V6(v6),
    }
}
