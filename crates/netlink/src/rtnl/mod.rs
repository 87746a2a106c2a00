//! rtnetlink (rtnetlink(7)): links, addresses, routes, neighbours. A file per family has its requests and
//! parses its messages; these are pure. [`RtnlClient`] sends requests, [`RtnlMonitor`] receives
//! notifications.
//!
//! Of a message only the attributes that are used are parsed, so messages with other attributes, or longer
//! ones than today's, are accepted. A malformed attribute counts as absent.

#![deny(unsafe_code)]

pub mod address;
mod client;
pub mod link;
mod monitor;
pub mod neighbour;
mod reply;
pub mod route;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use arrayvec::ArrayVec;

pub use address::InterfaceAddress;
pub use client::RtnlClient;
pub use link::{Link, LinkAddress};
pub use monitor::{RtnlMonitor, concerns};
pub use route::Route;

/// The longest datagram that the kernel sends.
const DATAGRAM_MAX: usize = 32 << 10;

/// The address family of an IP address, as in a message's fixed part.
fn family(ip: IpAddr) -> u8 {
    match ip {
        IpAddr::V4(_) => libc::AF_INET as u8,
        IpAddr::V6(_) => libc::AF_INET6 as u8,
    }
}

/// The IP address in an attribute; None if the value does not have the length of the family's addresses.
fn ip(family: u8, octets: &[u8]) -> Option<IpAddr> {
    match family.into() {
        libc::AF_INET => Some(Ipv4Addr::from(<[u8; 4]>::try_from(octets).ok()?).into()),
        libc::AF_INET6 => Some(Ipv6Addr::from(<[u8; 16]>::try_from(octets).ok()?).into()),
        _ => None,
    }
}

/// The bytes of an IP address, for an attribute.
fn octets(ip: IpAddr) -> ArrayVec<u8, 16> {
    match ip {
        IpAddr::V4(v4) => v4.octets().into_iter().collect(),
        IpAddr::V6(v6) => v6.octets().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn takes_any_bytes(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
            let _ = (link::parse(&bytes), route::parse(&bytes), concerns(&bytes, 1));
            let _ = (address::parse(&bytes), neighbour::parse(&bytes));
        }
    }
}
