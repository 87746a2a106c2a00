//! From a GID to a MAC address and a VLAN: routes and neighbours over rtnetlink.
//!
//! RoCE addresses a packet by GID, which is an IP address; a provider that builds address vectors in
//! user space needs the Ethernet address to send to. It comes from where the kernel's own packets
//! get it: the route to the GID, and the neighbour that route leads to.
//!
//! | file | what is in it |
//! |---|---|
//! | `address.rs` | GIDs as IP addresses, and the MACs that addresses carry in themselves: pure |
//! | `message.rs` | rtnetlink messages, as bytes: pure |
//! | `route.rs` | what a route says to do next: pure |
//! | `rtnl.rs` | questions to the kernel |
//! | `probe.rs` | making the kernel find a neighbour, and waiting for it |

pub mod address;
pub mod message;
#[cfg(test)]
mod netns_tests;
mod probe;
pub mod route;
mod rtnl;

pub use message::LinkAddress;

use libc::{EHOSTUNREACH, EINVAL, c_int};
use route::Next;
use rtnl::Rtnl;
use std::net::IpAddr;

/// How to reach a GID over Ethernet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// The next hop's link-layer address. On Ethernet 6 bytes; what other links have is given as is.
    pub address: LinkAddress,
    /// The index of the interface that has the source GID's address.
    pub interface: u32,
}

/// Why a GID was not resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What ibv_resolve_eth_l2_from_gid returns: negative.
    pub code: c_int,
    /// The errno value to leave: the kernel's own reason, or EDESTADDRREQ when a neighbour did not
    /// answer. None where no system call of the C library's failed either.
    pub errno: Option<c_int>,
}

/// A resolver: one rtnetlink socket, for one thread.
pub struct Resolver {
    rtnl: Rtnl,
}

impl Resolver {
    /// Connects to the kernel. The code is the number that libnl, which the C library uses, has for
    /// what went wrong.
    pub fn new() -> Result<Resolver, Failure> {
        match Rtnl::open() {
            Ok(rtnl) => Ok(Resolver { rtnl }),
            Err(errno) => Err(Failure {
                code: -libnl_number(errno),
                errno: Some(errno),
            }),
        }
    }

    /// Finds the next hop from the interface that owns the IP address of `sgid` towards that of
    /// `dgid`. Blocks for up to 3 seconds when the neighbour is not known yet. The code is -EINVAL
    /// when no interface has the source address, else -EHOSTUNREACH.
    pub fn resolve(&mut self, sgid: [u8; 16], dgid: [u8; 16]) -> Result<Resolved, Failure> {
        let source = address::ip_of_gid(sgid);
        let destination = address::ip_of_gid(dgid);
        let nobody = Failure {
            code: -EINVAL,
            errno: None,
        };
        let interface = self.rtnl.interface_of(source).ok_or(nobody)?;
        match self.next_hop(source, destination, interface) {
            Ok(address) => Ok(Resolved { address, interface }),
            Err(errno) => Err(Failure {
                code: -EHOSTUNREACH,
                errno: Some(errno),
            }),
        }
    }

    /// The VLAN id of an interface; None when it is no VLAN device.
    pub fn vlan(&mut self, interface: u32) -> Option<u16> {
        self.rtnl.link(interface)?.vlan
    }

    /// The error is an errno value.
    fn next_hop(
        &mut self,
        source: IpAddr,
        destination: IpAddr,
        interface: u32,
    ) -> Result<LinkAddress, c_int> {
        let route = self.rtnl.route(destination, interface)?;
        match route::next(&route, destination) {
            Next::Nowhere => Err(EINVAL),
            // The host's own address. The route leads over the loopback device, the packets of an
            // RDMA device do not: they go from its own port to its own port.
            Next::Own => self
                .rtnl
                .link(interface)
                .and_then(|link| link.address)
                .ok_or(EINVAL),
            Next::Known(mac) => Ok(mac.into()),
            Next::Neighbour(hop) => match self.rtnl.neighbour(hop, interface) {
                Some(address) => Ok(address),
                None => probe::provoke(&mut self.rtnl, source, hop, interface),
            },
        }
    }
}

/// libnl's number for an errno value that opening a netlink socket can give.
fn libnl_number(errno: c_int) -> c_int {
    const NLE_FAILURE: c_int = 1;
    const NLE_NOMEM: c_int = 5;
    const NLE_AF_NOSUPPORT: c_int = 11;
    const NLE_PROTO_MISMATCH: c_int = 26;
    const NLE_NOACCESS: c_int = 27;
    const NLE_PERM: c_int = 28;
    match errno {
        libc::ENOMEM | libc::ENOBUFS => NLE_NOMEM,
        libc::EAFNOSUPPORT => NLE_AF_NOSUPPORT,
        libc::EPROTONOSUPPORT => NLE_PROTO_MISMATCH,
        libc::EACCES => NLE_NOACCESS,
        libc::EPERM => NLE_PERM,
        _ => NLE_FAILURE,
    }
}
