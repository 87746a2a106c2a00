//! Resolution of a GID to a MAC address and a VLAN: routes and neighbours over rtnetlink.
//!
//! RoCE addresses a packet by GID, which is an IP address. A provider that builds address vectors in user
//! space needs the Ethernet address to send to. It comes from where the kernel takes it for its own packets:
//! the route to the GID, and the neighbour table's entry of the route's next hop.
//!
//! | file | content |
//! |---|---|
//! | `address.rs` | MAC addresses that follow from an IP address: pure |
//! | `next_hop.rs` | where a route sends packets: pure |
//! | `probe.rs` | making the kernel resolve a neighbour, and waiting for it |

pub mod address;
pub mod next_hop;
mod probe;
#[cfg(test)]
mod tests;

use std::net::IpAddr;

use ibverbs_abi::{Errno, ip_of_gid};
use ibverbs_netlink::{RtnlClient, rtnl::LinkAddress};
use libc::{EHOSTUNREACH, EINVAL, c_int};
use next_hop::NextHop;

/// How to reach a GID over Ethernet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// The next hop's link-layer address: 6 bytes on Ethernet, other lengths on other links.
    pub address: LinkAddress,
    /// The index of the interface that has the source GID's address.
    pub interface: u32,
}

/// Why a GID was not resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The negative code that `ibv_resolve_eth_l2_from_gid` returns.
    pub code: c_int,
    /// The errno to leave: the kernel's own, or EDESTADDRREQ when a neighbour did not reply. None where no
    /// system call of the C library fails either.
    pub errno: Option<Errno>,
}

/// Resolves GIDs, over one rtnetlink socket. For one thread at a time.
pub struct Resolver {
    rtnl: RtnlClient,
}

impl Resolver {
    /// Opens the socket. The code of a failure is libnl's number for its errno, as the C library returns it.
    pub fn new() -> Result<Resolver, Failure> {
        match RtnlClient::open() {
            Ok(rtnl) => Ok(Resolver { rtnl }),
            Err(errno) => Err(Failure {
                code: -libnl_number(errno),
                errno: Some(errno),
            }),
        }
    }

    /// Finds the next hop from the interface that has the IP address of `sgid` towards that of `dgid`. Blocks
    /// for up to 3 seconds while the kernel resolves a neighbour. The code of a failure is -EINVAL if no
    /// interface has the source address, else -EHOSTUNREACH.
    pub fn resolve(&mut self, sgid: [u8; 16], dgid: [u8; 16]) -> Result<Resolved, Failure> {
        let source = ip_of_gid(&sgid);
        let destination = ip_of_gid(&dgid);
        let no_interface = Failure {
            code: -EINVAL,
            errno: None,
        };
        let interface = self.rtnl.interface_of(source).ok_or(no_interface)?;
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

    fn next_hop(
        &mut self,
        source: IpAddr,
        destination: IpAddr,
        interface: u32,
    ) -> Result<LinkAddress, Errno> {
        let route = self.rtnl.route(destination, Some(interface))?;
        match NextHop::of(&route, destination) {
            NextHop::Unreachable => Err(Errno(EINVAL)),
            // The route to an own address leads over the loopback interface. Packets of an RDMA device do
            // not: they go from its own port to its own port.
            NextHop::OwnInterface => self
                .rtnl
                .link(interface)
                .and_then(|link| link.address)
                .ok_or(Errno(EINVAL)),
            NextHop::Known(mac) => Ok(mac.into()),
            NextHop::Neighbour(hop) => match self.rtnl.neighbour(hop, interface) {
                Some(address) => Ok(address),
                None => probe::probe(&mut self.rtnl, source, hop, interface),
            },
        }
    }
}

/// libnl's number for an errno value that opening a netlink socket can give.
fn libnl_number(errno: Errno) -> c_int {
    const NLE_FAILURE: c_int = 1;
    const NLE_NOMEM: c_int = 5;
    const NLE_AF_NOSUPPORT: c_int = 11;
    const NLE_PROTO_MISMATCH: c_int = 26;
    const NLE_NOACCESS: c_int = 27;
    const NLE_PERM: c_int = 28;
    match errno.0 {
        libc::ENOMEM | libc::ENOBUFS => NLE_NOMEM,
        libc::EAFNOSUPPORT => NLE_AF_NOSUPPORT,
        libc::EPROTONOSUPPORT => NLE_PROTO_MISMATCH,
        libc::EACCES => NLE_NOACCESS,
        libc::EPERM => NLE_PERM,
        _ => NLE_FAILURE,
    }
}
