//! The next hop of a route: pure.

use std::net::IpAddr;

use ibverbs_netlink::rtnl::Route;

use super::address::{Mac, embedded_mac};

/// The next hop of a destination: the host whose link-layer address packets to it are sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextHop {
    /// The destination is this host: the address is that of the source's interface.
    OwnInterface,
    /// The address follows from the next hop's IP address.
    Known(Mac),
    /// The address is this neighbour's, in the neighbour table.
    Neighbour(IpAddr),
    /// The route drops packets.
    Unreachable,
}

impl NextHop {
    /// The next hop of `route`, which leads to `destination`.
    pub fn of(route: &Route, destination: IpAddr) -> NextHop {
        match route.kind {
            libc::RTN_BLACKHOLE | libc::RTN_UNREACHABLE | libc::RTN_PROHIBIT | libc::RTN_THROW => {
                NextHop::Unreachable
            }
            libc::RTN_LOCAL => NextHop::OwnInterface,
            _ => {
                let hop = route.gateway.unwrap_or(destination);
                embedded_mac(hop).map_or(NextHop::Neighbour(hop), NextHop::Known)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn to(kind: u8, gateway: Option<&str>, destination: &str) -> NextHop {
        let route = Route {
            kind,
            gateway: gateway.map(ip),
            ..Route::default()
        };
        NextHop::of(&route, ip(destination))
    }

    #[test]
    fn on_the_link_or_behind_a_gateway() {
        let unicast = libc::RTN_UNICAST;
        assert_eq!(
            to(unicast, None, "10.0.0.2"),
            NextHop::Neighbour(ip("10.0.0.2"))
        );
        assert_eq!(
            to(unicast, Some("10.0.0.1"), "8.8.8.8"),
            NextHop::Neighbour(ip("10.0.0.1"))
        );
        assert_eq!(
            to(unicast, Some("fe80::ff:fe00:1"), "fd00::9"),
            NextHop::Known([2, 0, 0, 0, 0, 1]),
            "IPv6 routes mostly name the router by its link-local address"
        );
        // Packets to a group behind a router are sent to the router.
        assert_eq!(
            to(unicast, Some("10.0.0.1"), "239.1.1.1"),
            NextHop::Neighbour(ip("10.0.0.1"))
        );
        assert_eq!(
            to(libc::RTN_BROADCAST, None, "10.0.0.255"),
            NextHop::Neighbour(ip("10.0.0.255"))
        );
    }

    #[test]
    fn groups_and_link_local_addresses_need_no_neighbour() {
        assert_eq!(
            to(libc::RTN_MULTICAST, None, "224.0.0.5"),
            NextHop::Known([1, 0, 0x5e, 0, 0, 5])
        );
        assert_eq!(
            to(libc::RTN_UNICAST, None, "fe80::ff:fe00:2"),
            NextHop::Known([2, 0, 0, 0, 0, 2])
        );
    }

    #[test]
    fn own_and_unreachable_destinations() {
        assert_eq!(to(libc::RTN_LOCAL, None, "10.0.0.1"), NextHop::OwnInterface);
        assert_eq!(
            to(libc::RTN_LOCAL, None, "fe80::ff:fe00:2"),
            NextHop::OwnInterface
        );
        for kind in [
            libc::RTN_BLACKHOLE,
            libc::RTN_UNREACHABLE,
            libc::RTN_PROHIBIT,
            libc::RTN_THROW,
        ] {
            assert_eq!(to(kind, Some("10.0.0.1"), "10.0.0.2"), NextHop::Unreachable);
        }
    }
}
