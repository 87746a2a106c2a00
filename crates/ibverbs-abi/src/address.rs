//! RoCE GIDs are IP addresses.

use std::net::{IpAddr, Ipv6Addr};

/// The IP address of a RoCE GID. IPv4 addresses are mapped to ::ffff:a.b.c.d, those of multicast groups
/// also to ff0e::ffff:a.b.c.d (InfiniBand specification, annex A17.4.3.2).
pub fn ip_of_gid(gid: &[u8; 16]) -> IpAddr {
    let v6 = Ipv6Addr::from(*gid);
    match (v6.segments(), *gid) {
        ([0 | 0xff0e, 0, 0, 0, 0, 0xffff, ..], [.., a, b, c, d]) => IpAddr::from([a, b, c, d]),
        _ => IpAddr::V6(v6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gid(text: &str) -> [u8; 16] {
        text.parse::<Ipv6Addr>().unwrap().octets()
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn ip_addresses_of_gids() {
        assert_eq!(ip_of_gid(&gid("::ffff:10.9.9.1")), ip("10.9.9.1"));
        assert_eq!(ip_of_gid(&gid("ff0e::ffff:224.1.2.3")), ip("224.1.2.3"));
        // The prefix of mapped groups, with an address that is no group.
        assert_eq!(ip_of_gid(&gid("ff0e::ffff:10.0.0.1")), ip("10.0.0.1"));
        for v6 in [
            "::",
            "::1",
            "::10.9.9.1",
            "fe80::ffff:10.9.9.1",
            "ff0e:0:0:1:0:ffff:e001:203",
            "ff02::1",
        ] {
            assert_eq!(ip_of_gid(&gid(v6)), ip(v6));
        }
    }
}
