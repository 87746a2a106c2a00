//! RTM_GETADDR and RTM_NEWADDR: addresses of interfaces.

use std::net::IpAddr;

use super::{family, ip};
use crate::message::{NLM_F_DUMP, Request, find_attribute};

/// Bytes of `struct ifaddrmsg`.
const IFADDRMSG_LEN: usize = 8;

/// Requests all addresses of a family (AF_INET, AF_INET6).
pub fn get_all(family: u8) -> Request {
    let mut fixed = [0; IFADDRMSG_LEN];
    fixed[0] = family;
    Request::new(libc::RTM_GETADDR, NLM_F_DUMP, &fixed)
}

/// Requests all addresses of the family of `ip`.
pub fn get_all_like(ip: IpAddr) -> Request {
    get_all(family(ip))
}

/// An address of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterfaceAddress {
    /// The interface's index.
    pub interface: u32,
    /// The address, without its prefix.
    pub ip: IpAddr,
}

/// The address in the payload of an RTM_NEWADDR message.
pub fn parse(payload: &[u8]) -> Option<InterfaceAddress> {
    let &[family, _, _, _, i0, i1, i2, i3] = payload.first_chunk::<IFADDRMSG_LEN>()?;
    let attributes = payload.get(IFADDRMSG_LEN..)?;
    // On a point-to-point link IFA_ADDRESS is the peer's address. IPv6 has IFA_LOCAL only there.
    let own = find_attribute(attributes, libc::IFA_LOCAL)
        .or_else(|| find_attribute(attributes, libc::IFA_ADDRESS))?;
    Some(InterfaceAddress {
        interface: u32::from_ne_bytes([i0, i1, i2, i3]),
        ip: ip(family, own)?,
    })
}

/// The address in the payload of an RTM_NEWADDR message, if duplicate address detection has ended and found
/// no duplicate.
pub fn parse_usable(payload: &[u8]) -> Option<InterfaceAddress> {
    let flags = u32::from(*payload.get(2)?);
    if flags & (libc::IFA_F_TENTATIVE | libc::IFA_F_DADFAILED) != 0 {
        return None;
    }
    parse(payload)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use super::*;
    use crate::testing::{self, attribute, payload};

    #[test]
    fn requests() {
        assert_eq!(
            get_all_like(testing::ip("::1")).encode(1)[..24],
            [
                24, 0, 0, 0, 22, 0, 1, 3, 1, 0, 0, 0, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0, 0, 0
            ]
        );
    }

    #[test]
    fn addresses() {
        let parsed = |family: i32, parts: &[Vec<u8>]| {
            let fixed = [family as u8, 24, 0, 0, 3, 0, 0, 0];
            parse_usable(&payload(&fixed, parts))
        };
        let at = |ip: &str| {
            Some(InterfaceAddress {
                interface: 3,
                ip: testing::ip(ip),
            })
        };
        let (own, peer) = (
            attribute(libc::IFA_LOCAL, &[10, 0, 0, 1]),
            attribute(libc::IFA_ADDRESS, &[10, 0, 0, 2]),
        );
        assert_eq!(parsed(libc::AF_INET, &[peer.clone(), own]), at("10.0.0.1"));
        assert_eq!(parsed(libc::AF_INET, &[peer]), at("10.0.0.2"));
        let v6 = attribute(libc::IFA_ADDRESS, &Ipv6Addr::LOCALHOST.octets());
        assert_eq!(parsed(libc::AF_INET6, std::slice::from_ref(&v6)), at("::1"));
        assert_eq!(parsed(libc::AF_INET, &[]), None);
        assert_eq!(
            parsed(libc::AF_INET, &[attribute(libc::IFA_LOCAL, &[1; 3])]),
            None
        );
        assert_eq!(parse_usable(&[0; 7]), None);
        assert_eq!(parse(&[2]), None);
        let flags = libc::IFA_F_TENTATIVE as u8;
        let tentative = [libc::AF_INET6 as u8, 64, flags, 0, 3, 0, 0, 0];
        let tentative = payload(&tentative, &[v6]);
        assert_eq!(parse_usable(&tentative), None);
        assert_eq!(parse(&tentative), at("::1"));
    }
}
