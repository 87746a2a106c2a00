//! GIDs as IP addresses, and MAC addresses that follow from an IP address alone: pure.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An Ethernet address.
pub type Mac = [u8; 6];

/// The IP address of a RoCE GID. IPv4 addresses are mapped to ::ffff:a.b.c.d, those of multicast groups
/// also to ff0e::ffff:a.b.c.d (InfiniBand specification, annex A17.4.3.2).
pub fn ip_of_gid(gid: [u8; 16]) -> IpAddr {
    let v6 = Ipv6Addr::from(gid);
    match (v6.segments(), gid) {
        ([0 | 0xff0e, 0, 0, 0, 0, 0xffff, _, _], [.., a, b, c, d]) => {
            IpAddr::V4(Ipv4Addr::new(a, b, c, d))
        }
        _ => IpAddr::V6(v6),
    }
}

/// The MAC address that follows from the IP address, without the neighbour table: that of multicast groups
/// (RFC 1112 section 6.4, RFC 2464 section 7) and of link-local addresses.
///
/// A link-local address is assumed to contain its owner's MAC address, as those of RDMA ports do (RFC 4291
/// appendix A). Its two middle bytes are ignored: RoCE ports may have the VLAN id there.
pub fn embedded_mac(ip: IpAddr) -> Option<Mac> {
    match ip {
        IpAddr::V4(v4) if v4.is_multicast() => {
            let [_, b, c, d] = v4.octets();
            Some([0x01, 0x00, 0x5e, b & 0x7f, c, d])
        }
        IpAddr::V4(_) => None,
        IpAddr::V6(v6) => match v6.octets() {
            [0xff, .., a, b, c, d] => Some([0x33, 0x33, a, b, c, d]),
            // Only fe80::/64, with 54 zero bits after the prefix, not all of fe80::/10.
            [0xfe, 0x80, 0, 0, 0, 0, 0, 0, a, b, c, _, _, d, e, f] => Some([a ^ 2, b, c, d, e, f]),
            _ => None,
        },
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
        assert_eq!(ip_of_gid(gid("::ffff:10.9.9.1")), ip("10.9.9.1"));
        assert_eq!(ip_of_gid(gid("ff0e::ffff:224.1.2.3")), ip("224.1.2.3"));
        // The prefix of mapped groups, with an address that is no group.
        assert_eq!(ip_of_gid(gid("ff0e::ffff:10.0.0.1")), ip("10.0.0.1"));
        for v6 in [
            "::",
            "::1",
            "::10.9.9.1",
            "fe80::ffff:10.9.9.1",
            "ff0e:0:0:1:0:ffff:e001:203",
            "ff02::1",
        ] {
            assert_eq!(ip_of_gid(gid(v6)), ip(v6));
        }
    }

    #[test]
    fn macs_of_multicast_groups() {
        assert_eq!(embedded_mac(ip("224.0.0.1")), Some([1, 0, 0x5e, 0, 0, 1]));
        assert_eq!(
            embedded_mac(ip("239.255.254.253")),
            Some([1, 0, 0x5e, 0x7f, 254, 253])
        );
        assert_eq!(embedded_mac(ip("223.255.255.255")), None);
        assert_eq!(embedded_mac(ip("240.0.0.1")), None);
        assert_eq!(
            embedded_mac(ip("ff02::1:ff00:1234")),
            Some([0x33, 0x33, 0xff, 0, 0x12, 0x34])
        );
    }

    #[test]
    fn macs_of_link_local_addresses() {
        let mac = Some([0x02, 0x11, 0x22, 0x33, 0x44, 0x55]);
        assert_eq!(embedded_mac(ip("fe80::11:22ff:fe33:4455")), mac);
        assert_eq!(
            embedded_mac(ip("fe80::11:2200:6433:4455")),
            mac,
            "VLAN 100 in the middle"
        );
        assert_eq!(
            embedded_mac(ip("fe80:0:0:1:11:22ff:fe33:4455")),
            None,
            "not fe80::/64"
        );
        assert_eq!(embedded_mac(ip("fd00::11:22ff:fe33:4455")), None);
    }
}
