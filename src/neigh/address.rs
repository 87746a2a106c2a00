//! MAC addresses that follow from an IP address alone: pure.

use std::net::IpAddr;

/// An Ethernet address.
pub type Mac = [u8; 6];

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

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
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
