//! RTM_GETNEIGH and RTM_NEWNEIGH: the neighbour table, from IP to link-layer addresses.

use std::net::IpAddr;

use super::{LinkAddress, family, ip, octets};
use crate::message::{NLM_F_DUMP, Request, find_attribute};

/// Bytes of `struct ndmsg`.
const NDMSG_LEN: usize = 12;

/// Requests one neighbour. Linux 5.0 and later.
pub fn get(ip: IpAddr, interface: u32) -> Request {
    let mut fixed = [0; NDMSG_LEN];
    fixed[0] = family(ip);
    fixed[4..8].copy_from_slice(&interface.to_ne_bytes());
    Request::new(libc::RTM_GETNEIGH, 0, &fixed).attribute(libc::NDA_DST, &octets(ip))
}

/// Requests all neighbours of the family of `ip`.
pub fn get_all_like(ip: IpAddr) -> Request {
    let mut fixed = [0; NDMSG_LEN];
    fixed[0] = family(ip);
    Request::new(libc::RTM_GETNEIGH, NLM_F_DUMP, &fixed)
}

/// An entry of the neighbour table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// The index of the interface that it is behind.
    pub interface: u32,
    /// The neighbour's IP address.
    pub ip: IpAddr,
    /// None while the kernel does not know it.
    pub address: Option<LinkAddress>,
}

/// The neighbour in the payload of an RTM_NEWNEIGH message.
pub fn parse(payload: &[u8]) -> Option<Neighbour> {
    let &[family, _, _, _, i0, i1, i2, i3, ..] = payload.first_chunk::<NDMSG_LEN>()?;
    let attributes = payload.get(NDMSG_LEN..)?;
    Some(Neighbour {
        interface: u32::from_ne_bytes([i0, i1, i2, i3]),
        ip: ip(family, find_attribute(attributes, libc::NDA_DST)?)?,
        address: find_attribute(attributes, libc::NDA_LLADDR).and_then(LinkAddress::new),
    })
}

/// The link-layer address in the payload of an RTM_NEWNEIGH message, if it is about this neighbour and the
/// kernel knows its address.
pub fn parse_address_of(payload: &[u8], ip: IpAddr, interface: u32) -> Option<LinkAddress> {
    parse(payload)
        .filter(|neighbour| neighbour.ip == ip && neighbour.interface == interface)?
        .address
}

/// Whether the payload of an RTM_NEWNEIGH message is about this neighbour, and the kernel does not know its
/// address: it waits for a reply, or has received none.
pub fn is_unresolved(payload: &[u8], ip: IpAddr, interface: u32) -> bool {
    let state = payload
        .get(8..10)
        .map_or(0, |state| u16::from_ne_bytes([state[0], state[1]]));
    let found = parse(payload).is_some_and(|found| found.ip == ip && found.interface == interface);
    found && state & (libc::NUD_INCOMPLETE | libc::NUD_FAILED) != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, attribute, payload};

    #[test]
    fn requests() {
        #[rustfmt::skip]
        assert_eq!(get(testing::ip("10.9.9.2"), 0x1_0007).encode(1), [
            36, 0, 0, 0, 30, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0,
            2, 0, 0, 0, 7, 0, 1, 0, 0, 0, 0, 0,
            8, 0, 1, 0, 10, 9, 9, 2,
        ]);
    }

    #[test]
    fn neighbours() {
        let mut fixed = [0; NDMSG_LEN];
        fixed[0] = libc::AF_INET as u8;
        fixed[4] = 9;
        let dst = attribute(libc::NDA_DST, &[10, 0, 0, 2]);
        let mac = attribute(libc::NDA_LLADDR, &[2, 0, 0, 0, 0, 5]);
        let known = payload(&fixed, &[dst.clone(), mac.clone()]);
        let there = testing::ip("10.0.0.2");
        let address = parse_address_of(&known, there, 9);
        assert_eq!(address.unwrap().bytes(), [2, 0, 0, 0, 0, 5]);
        assert_eq!(parse_address_of(&known, there, 8), None);
        assert_eq!(parse_address_of(&known, testing::ip("10.0.0.3"), 9), None);
        let unknown = payload(&fixed, std::slice::from_ref(&dst));
        assert!(!is_unresolved(&unknown, there, 9));
        for state in [libc::NUD_INCOMPLETE, libc::NUD_FAILED] {
            let mut fixed = fixed;
            fixed[8] = state as u8;
            let entry = payload(&fixed, std::slice::from_ref(&dst));
            assert!(is_unresolved(&entry, there, 9) && !is_unresolved(&entry, there, 8));
        }
        assert_eq!(parse_address_of(&unknown, there, 9), None);
        assert_eq!(parse_address_of(&payload(&fixed, &[mac]), there, 9), None);
        let long = attribute(libc::NDA_LLADDR, &[1; 33]);
        assert_eq!(
            parse_address_of(&payload(&fixed, &[dst, long]), there, 9),
            None
        );
    }
}
