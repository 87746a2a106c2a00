//! What a route says to do next.

use super::address::{Mac, embedded_mac};
use super::message::Route;
use std::net::IpAddr;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The destination is this host: it is reached at the address of the interface itself.
    Own,
    /// The next hop's address is this one, no need to ask.
    Known(Mac),
    /// Look for this neighbour.
    Neighbour(IpAddr),
    /// Packets to the destination are dropped here.
    Nowhere,
}

/// Whom to send packets for `destination` to, given the route that leads there.
pub fn next(route: &Route, destination: IpAddr) -> Next {
    match route.kind {
        libc::RTN_BLACKHOLE | libc::RTN_UNREACHABLE | libc::RTN_PROHIBIT | libc::RTN_THROW => {
            Next::Nowhere
        }
        libc::RTN_LOCAL => Next::Own,
        _ => {
            let hop = route.gateway.unwrap_or(destination);
            embedded_mac(hop).map_or(Next::Neighbour(hop), Next::Known)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn to(kind: u8, gateway: Option<&str>, destination: &str) -> Next {
        next(
            &Route {
                kind,
                gateway: gateway.map(ip),
            },
            ip(destination),
        )
    }

    #[test]
    fn on_the_link_or_behind_a_gateway() {
        let unicast = libc::RTN_UNICAST;
        assert_eq!(
            to(unicast, None, "10.0.0.2"),
            Next::Neighbour(ip("10.0.0.2"))
        );
        assert_eq!(
            to(unicast, Some("10.0.0.1"), "8.8.8.8"),
            Next::Neighbour(ip("10.0.0.1"))
        );
        assert_eq!(
            to(unicast, Some("fe80::ff:fe00:1"), "fd00::9"),
            Next::Known([2, 0, 0, 0, 0, 1]),
            "an IPv6 router is mostly known by its link-local address"
        );
        // It is the router that gets packets for a group behind it.
        assert_eq!(
            to(unicast, Some("10.0.0.1"), "239.1.1.1"),
            Next::Neighbour(ip("10.0.0.1"))
        );
        assert_eq!(
            to(libc::RTN_BROADCAST, None, "10.0.0.255"),
            Next::Neighbour(ip("10.0.0.255"))
        );
    }

    #[test]
    fn groups_and_link_local_need_no_question() {
        assert_eq!(
            to(libc::RTN_MULTICAST, None, "224.0.0.5"),
            Next::Known([1, 0, 0x5e, 0, 0, 5])
        );
        assert_eq!(
            to(libc::RTN_UNICAST, None, "fe80::ff:fe00:2"),
            Next::Known([2, 0, 0, 0, 0, 2])
        );
    }

    #[test]
    fn here_and_nowhere() {
        assert_eq!(to(libc::RTN_LOCAL, None, "10.0.0.1"), Next::Own);
        assert_eq!(to(libc::RTN_LOCAL, None, "fe80::ff:fe00:2"), Next::Own);
        for kind in [
            libc::RTN_BLACKHOLE,
            libc::RTN_UNREACHABLE,
            libc::RTN_PROHIBIT,
            libc::RTN_THROW,
        ] {
            assert_eq!(to(kind, Some("10.0.0.1"), "10.0.0.2"), Next::Nowhere);
        }
    }
}
