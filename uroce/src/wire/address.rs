//! GIDs and IP addresses: the same thing in RoCEv2.

use std::net::{IpAddr, Ipv6Addr};

/// An IPv6 address as it is, an IPv4 address mapped into one.
pub fn gid_of(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

/// The other way round.
pub fn ip_of(gid: &[u8; 16]) -> IpAddr {
    Ipv6Addr::from(*gid).to_canonical()
}
