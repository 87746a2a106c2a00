//! Socket addresses as commands carry them: `sockaddr_in`, `sockaddr_in6`, `sockaddr_ib`. Pure.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use roce::engine::Gid;
use roce::wire::gid_of;

const AF_INET: u16 = libc::AF_INET as u16;
const AF_INET6: u16 = libc::AF_INET6 as u16;
/// The address family of linux/socket.h; not in the libc crate.
const AF_IB: u16 = 27;

const SOCKADDR_IN: usize = 16;
const SOCKADDR_IN6: usize = 28;
const SOCKADDR_IB: usize = 48;

/// A `sockaddr_ib`, without the fields that nothing here uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IbAddress {
    pub gid: Gid,
    pub service_id: u64,
    pub service_mask: u64,
}

/// A socket address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Address {
    Ip(SocketAddr),
    Ib(IbAddress),
}

impl Address {
    /// Parses the address at the start of `bytes`. None for another family, or if it does not fit.
    pub fn parse(bytes: &[u8]) -> Option<Address> {
        let family = u16::from_ne_bytes(*bytes.first_chunk()?);
        let port = || Some(u16::from_be_bytes(*bytes.get(2..)?.first_chunk()?));
        match family {
            AF_INET => {
                bytes.get(..SOCKADDR_IN)?;
                let ip: [u8; 4] = *bytes.get(4..)?.first_chunk()?;
                Some(Address::Ip(
                    SocketAddrV4::new(Ipv4Addr::from(ip), port()?).into(),
                ))
            }
            AF_INET6 => {
                let ip: [u8; 16] = *bytes.get(8..)?.first_chunk()?;
                let flow = u32::from_be_bytes(*bytes.get(4..)?.first_chunk()?);
                let scope = u32::from_ne_bytes(*bytes.get(24..)?.first_chunk()?);
                Some(Address::Ip(
                    SocketAddrV6::new(Ipv6Addr::from(ip), port()?, flow, scope).into(),
                ))
            }
            AF_IB => Some(Address::Ib(IbAddress {
                gid: *bytes.get(8..)?.first_chunk()?,
                service_id: u64::from_be_bytes(*bytes.get(24..)?.first_chunk()?),
                service_mask: u64::from_be_bytes(*bytes.get(32..)?.first_chunk()?),
            })),
            _ => None,
        }
    }

    /// The length of its structure, in bytes.
    pub fn len(&self) -> usize {
        match self {
            Address::Ip(SocketAddr::V4(_)) => SOCKADDR_IN,
            Address::Ip(SocketAddr::V6(_)) => SOCKADDR_IN6,
            Address::Ib(_) => SOCKADDR_IB,
        }
    }

    /// Writes it to the start of `to`, as far as it fits.
    pub fn write(&self, to: &mut [u8]) {
        let mut bytes = [0; SOCKADDR_IB];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        match self {
            Address::Ip(SocketAddr::V4(v4)) => {
                put(0, &AF_INET.to_ne_bytes());
                put(2, &v4.port().to_be_bytes());
                put(4, &v4.ip().octets());
            }
            Address::Ip(SocketAddr::V6(v6)) => {
                put(0, &AF_INET6.to_ne_bytes());
                put(2, &v6.port().to_be_bytes());
                put(4, &v6.flowinfo().to_be_bytes());
                put(8, &v6.ip().octets());
                put(24, &v6.scope_id().to_ne_bytes());
            }
            Address::Ib(ib) => {
                put(0, &AF_IB.to_ne_bytes());
                put(2, &u16::MAX.to_be_bytes());
                put(8, &ib.gid);
                put(24, &ib.service_id.to_be_bytes());
                put(32, &ib.service_mask.to_be_bytes());
            }
        }
        let len = self.len().min(to.len());
        to[..len].copy_from_slice(&bytes[..len]);
    }

    /// The IP address and port; None for an InfiniBand address.
    pub fn ip(&self) -> Option<SocketAddr> {
        match self {
            Address::Ip(ip) => Some(*ip),
            Address::Ib(_) => None,
        }
    }

    /// The port, or the part of the service ID that stands for it.
    pub fn port(&self) -> u16 {
        match self {
            Address::Ip(ip) => ip.port(),
            Address::Ib(ib) => (ib.service_id & ib.service_mask) as u16,
        }
    }

    /// The wildcard address of the same family; on the same interface, if that is given.
    pub fn wildcard_like(&self) -> Address {
        match self {
            Address::Ip(SocketAddr::V4(_)) => Address::Ip((Ipv4Addr::UNSPECIFIED, 0).into()),
            Address::Ip(SocketAddr::V6(v6)) => {
                Address::Ip(SocketAddrV6::new(Ipv6Addr::UNSPECIFIED, 0, 0, v6.scope_id()).into())
            }
            Address::Ib(ib) => Address::Ib(IbAddress {
                gid: [0; 16],
                service_mask: 0,
                ..*ib
            }),
        }
    }

    /// The same address with another port.
    pub fn with_port(mut self, port: u16) -> Address {
        match &mut self {
            Address::Ip(ip) => ip.set_port(port),
            Address::Ib(ib) => {
                ib.service_id = ib.service_id & ib.service_mask & !0xffff | u64::from(port);
                ib.service_mask = u64::MAX;
            }
        }
        self
    }

    /// Whether two addresses are of the same family.
    pub fn same_family(&self, other: &Address) -> bool {
        self.len() == other.len()
    }

    /// Whether two addresses are equal except for the port. Link-local ones must be of the same interface.
    pub fn same_host(&self, other: &Address) -> bool {
        match (self, other) {
            (Address::Ip(a), Address::Ip(b)) => a.ip() == b.ip() && scope_of(a) == scope_of(b),
            (Address::Ib(a), Address::Ib(b)) => a.gid == b.gid,
            _ => false,
        }
    }

    /// The wildcard address.
    pub fn is_unspecified(&self) -> bool {
        match self {
            Address::Ip(ip) => ip.ip().is_unspecified(),
            Address::Ib(ib) => ib.gid == [0; 16],
        }
    }

    /// The wildcard address or a loopback address: what the kernel's rdma_cm does not look for at the
    /// devices.
    pub fn is_any(&self) -> bool {
        match self {
            Address::Ip(ip) => is_unspecified_or_loopback(ip.ip()),
            Address::Ib(_) => self.is_unspecified(),
        }
    }

    /// The GID.
    pub fn gid(&self) -> Gid {
        match self {
            Address::Ip(ip) => gid_of(ip.ip()),
            Address::Ib(ib) => ib.gid,
        }
    }
}

fn is_unspecified_or_loopback(ip: IpAddr) -> bool {
    ip.is_unspecified() || ip.is_loopback()
}

/// An address for packets to `to`, on the same interface if that is link-local.
pub fn with_scope(ip: IpAddr, to: &SocketAddr) -> SocketAddr {
    match ip {
        IpAddr::V6(v6) => SocketAddrV6::new(v6, 0, 0, scope_of(to)).into(),
        IpAddr::V4(_) => SocketAddr::new(ip, 0),
    }
}

/// The interface of a link-local address; 0 for other addresses.
pub fn scope_of(address: &SocketAddr) -> u32 {
    match address {
        SocketAddr::V6(v6) if v6.ip().is_unicast_link_local() => v6.scope_id(),
        _ => 0,
    }
}
