//! RTM_GETROUTE and RTM_NEWROUTE: routes.

use std::net::IpAddr;

use super::{family, ip, octets};
use crate::message::{NLM_F_DUMP, Request, attributes, u32_value};

/// Bytes of `struct rtmsg`.
const RTMSG_LEN: usize = 12;

/// Requests the route of a packet to `destination`; with an interface, of one that leaves through it.
pub fn get(destination: IpAddr, interface: Option<u32>) -> Request {
    let mut fixed = [0; RTMSG_LEN];
    let octets = octets(destination);
    fixed[0] = family(destination);
    fixed[1] = 8 * octets.len() as u8; // rtm_dst_len, in bits
    let request = Request::new(libc::RTM_GETROUTE, 0, &fixed).attribute(libc::RTA_DST, &octets);
    match interface {
        Some(interface) => request.attribute(libc::RTA_OIF, &interface.to_ne_bytes()),
        None => request,
    }
}

/// Requests all routes of a family (AF_INET, AF_INET6).
pub fn get_all(family: u8) -> Request {
    let mut fixed = [0; RTMSG_LEN];
    fixed[0] = family;
    Request::new(libc::RTM_GETROUTE, NLM_F_DUMP, &fixed)
}

/// A route.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Route {
    /// RTN_UNICAST, RTN_LOCAL ...
    pub kind: u8,
    /// RT_TABLE_*
    pub table: u8,
    /// The length of the destination's prefix, in bits.
    pub prefix_len: u8,
    /// The next hop; None if the destination is on the link.
    pub gateway: Option<IpAddr>,
    /// The index of the interface that packets leave through.
    pub interface: Option<u32>,
    /// The address that packets leave from, unless their socket has one.
    pub source: Option<IpAddr>,
    /// The metric: of several routes to a destination, the kernel takes the one with the smallest.
    pub priority: u32,
}

impl Route {
    /// Whether this is a default route of the main table.
    pub fn is_default(&self) -> bool {
        self.prefix_len == 0 && self.table == libc::RT_TABLE_MAIN && self.kind == libc::RTN_UNICAST
    }
}

/// The route in the payload of an RTM_NEWROUTE message.
pub fn parse(payload: &[u8]) -> Option<Route> {
    let &[family, prefix_len, _, _, table, _, _, kind, ..] = payload.first_chunk::<RTMSG_LEN>()?;
    let mut route = Route {
        kind,
        table,
        prefix_len,
        ..Route::default()
    };
    for attribute in attributes(payload.get(RTMSG_LEN..)?) {
        match attribute.kind {
            libc::RTA_GATEWAY => route.gateway = ip(family, attribute.value),
            libc::RTA_OIF => route.interface = u32_value(attribute.value),
            libc::RTA_PREFSRC => route.source = ip(family, attribute.value),
            libc::RTA_PRIORITY => route.priority = u32_value(attribute.value).unwrap_or(0),
            _ => {}
        }
    }
    Some(route)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, attribute, payload};

    #[test]
    fn requests() {
        // On a little-endian machine.
        #[rustfmt::skip]
        assert_eq!(get(testing::ip("10.9.9.2"), Some(7)).encode(3), [
            44, 0, 0, 0, 26, 0, 1, 0, 3, 0, 0, 0, 0, 0, 0, 0, // RTM_GETROUTE, NLM_F_REQUEST
            2, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,              // AF_INET, /32
            8, 0, 1, 0, 10, 9, 9, 2,                          // RTA_DST
            8, 0, 4, 0, 7, 0, 0, 0,                           // RTA_OIF
        ]);
        let mut request = get(testing::ip("fd00::2"), Some(7));
        let bytes = request.encode(4);
        assert_eq!((bytes.len(), bytes[16], bytes[17]), (56, 10, 128));
        assert_eq!(
            get(testing::ip("10.9.9.2"), None).encode(5)[28..],
            [8, 0, 1, 0, 10, 9, 9, 2]
        );
        assert_eq!(
            get_all(2).encode(1)[16..],
            [2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
        );
    }

    #[test]
    fn routes() {
        let mut fixed = [0; RTMSG_LEN];
        fixed[0] = libc::AF_INET as u8;
        fixed[7] = libc::RTN_UNICAST;
        let gateway = attribute(libc::RTA_GATEWAY, &[10, 0, 0, 1]);
        let other = attribute(libc::RTA_DST, &[8, 8, 8, 8]);
        let source = attribute(libc::RTA_PREFSRC, &[10, 0, 0, 7]);
        let behind = Route {
            kind: libc::RTN_UNICAST,
            gateway: Some(testing::ip("10.0.0.1")),
            source: Some(testing::ip("10.0.0.7")),
            ..Route::default()
        };
        assert_eq!(
            parse(&payload(&fixed, &[other.clone(), source, gateway])),
            Some(behind)
        );
        let direct = Some(Route {
            kind: libc::RTN_UNICAST,
            gateway: None,
            ..Route::default()
        });
        assert_eq!(parse(&payload(&fixed, &[other])), direct);
        // A gateway whose address is not of this family.
        assert_eq!(
            parse(&payload(&fixed, &[attribute(libc::RTA_GATEWAY, &[1; 16])])),
            direct
        );
        assert_eq!(parse(&fixed[..11]), None);
        assert_eq!(parse(&[]), None);
    }

    #[test]
    fn default_routes() {
        let default = |prefix_len: u8, parts: &[Vec<u8>]| {
            let mut fixed = [0; RTMSG_LEN];
            (fixed[0], fixed[1]) = (libc::AF_INET as u8, prefix_len);
            (fixed[4], fixed[7]) = (libc::RT_TABLE_MAIN, libc::RTN_UNICAST);
            let route = parse(&payload(&fixed, parts)).filter(Route::is_default)?;
            Some((route.priority, route.interface?))
        };
        let oif = attribute(libc::RTA_OIF, &4_u32.to_ne_bytes());
        let priority = attribute(libc::RTA_PRIORITY, &100_u32.to_ne_bytes());
        assert_eq!(default(0, &[priority, oif.clone()]), Some((100, 4)));
        assert_eq!(default(0, std::slice::from_ref(&oif)), Some((0, 4)));
        assert_eq!(default(24, &[oif]), None);
        assert_eq!(default(0, &[]), None);
    }
}
