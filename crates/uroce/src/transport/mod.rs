//! UDP sockets between a device and its peers ([`Net`]), the GID table, and queue pair numbers.
//!
//! # Ports
//! A process that gets port 4791 at all addresses of the device uses queue pair numbers below 0x800000. Any
//! other process takes free ports from 61440 to 63486, each at all addresses of the device, and uses the 4096
//! numbers of each. So the destination queue pair number alone determines the destination port
//! ([`roce::wire::port_of`]). A packet is sent from the port of its own queue pair.
//!
//! | file | content |
//! |---|---|
//! | `net.rs` | [`Net`]: follows the interface, and decides which ports are open |
//! | `sockets.rs`, `socket_table.rs` | the sockets, also of port 4791 for MADs; their table |
//! | `ingress.rs` | which received packets are valid; what was dropped |
//! | `inbox.rs`, `outbox.rs` | receiving and sending in batches (UDP_GRO, UDP_SEGMENT) |
//! | `ports.rs`, `gid_table.rs` | queue pair numbers; GIDs and their indices (both pure) |
//! | `udp_owners.rs` | which user has which UDP port, as the kernel says |
//! | `lid.rs` | which IPv4 addresses the LIDs of InfiniBand stand for (pure) |
//! | `ip_id.rs` | which IPv4 identifications received packets may have (pure) |
//! | `interface.rs` | the network interface, as rtnetlink reports it |
//! | `socket.rs`, `cmsg.rs` | socket options; control messages |

mod cmsg;
mod gid_table;
mod inbox;
mod ingress;
mod interface;
mod ip_id;
pub mod lid;
mod net;
mod outbox;
mod ports;
mod socket;
mod socket_table;
mod sockets;
#[cfg(test)]
mod tests;
pub mod udp_owners;

use std::alloc::{Layout, alloc_zeroed};
use std::io;
use std::net::IpAddr;
use std::ptr::{NonNull, slice_from_raw_parts_mut};

pub use gid_table::GidType;
pub use inbox::Inbox;
pub use ingress::{ConnectedPeer, Consumer};
pub use interface::open_rtnl;
pub use net::Net;
pub use outbox::Outbox;
pub use socket_table::{GSI_QPN, SMI_QPN};

use crate::config::Config;
use interface::Interface;
use roce::engine::Gid;
use roce::wire::gid_of;

/// The most packets of a GSO buffer that every kernel with UDP_SEGMENT accepts (UDP_MAX_SEGMENTS).
const GSO_PACKETS_MAX: usize = 64;
/// The kernel's limit of a GSO buffer in bytes: an IP packet, less the longer of the IP headers and the UDP
/// header.
const GSO_LEN_MAX: usize = 65535 - 40 - 8;

/// A buffer of `len` bytes. None if there is no memory, or for 0 bytes. Unwritten pages take none.
fn zeroed_pages(len: usize) -> Option<Box<[u8]>> {
    let layout = Layout::array::<u8>(len).ok().filter(|_| len > 0)?;
    // SAFETY: the layout has a size. The memory is initialised, and of the layout of the slice.
    unsafe {
        let start = NonNull::new(alloc_zeroed(layout))?;
        Some(Box::from_raw(slice_from_raw_parts_mut(start.as_ptr(), len)))
    }
}

/// An entry of the GID table. It keeps its index as long as the interface has the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GidEntry {
    pub gid: Gid,
    pub gid_type: GidType,
    /// The address that packets have for it.
    pub ip: IpAddr,
    /// The index of the interface.
    pub ifindex: u32,
}

impl GidEntry {
    /// The GID as rdma_cm knows it: that of the IP address. None for the entries that rdma_cm does not use,
    /// those of RoCE v1.
    pub fn cm_gid(&self) -> Option<Gid> {
        match self.gid_type {
            GidType::Ib => Some(gid_of(self.ip)),
            GidType::RoceV1 => None,
            GidType::RoceV2 => Some(self.gid),
        }
    }
}

/// The state of the port, from that of the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortState {
    /// The interface is administratively up, with or without a carrier.
    pub up: bool,
    /// The interface is up and has a carrier.
    pub active: bool,
    /// The largest path MTU that fits the interface's MTU, in bytes: 256 to 4096.
    pub active_mtu: u32,
}

/// The changes at the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct NetChange {
    /// The GID table (IBV_EVENT_GID_CHANGE).
    pub gids: bool,
    /// The port state (IBV_EVENT_PORT_ACTIVE).
    pub became_active: bool,
    /// The port state (IBV_EVENT_PORT_ERR).
    pub became_inactive: bool,
}

/// Checks that this host has the interface that a configuration names. The error text says what is missing.
pub fn check(config: &Config) -> io::Result<()> {
    Interface::find(config).map(drop)
}

/// A device as it would be if it were opened now.
pub struct Description {
    /// The name of its interface.
    pub netdev: String,
    /// As [`node_guid`].
    pub node_guid: [u8; 8],
    pub port: PortState,
    pub gids: Vec<Option<GidEntry>>,
}

/// Describes the device of a configuration. Fails as [`check`].
pub fn describe(config: &Config) -> io::Result<Description> {
    let found = Interface::find(config)?;
    let gids: Vec<_> = found.gids.iter().copied().map(Some).collect();
    Ok(Description {
        node_guid: node_guid(config),
        port: found.port_state(config),
        gids: interface::gid_entries(&gids, found.link.index),
        netdev: found.link.name,
    })
}

/// The node GUID, in network byte order, which no other device of the host has. The same in every call. Zeros
/// if the interface is gone.
pub fn node_guid(config: &Config) -> [u8; 8] {
    if config.profile.identity.no_guid {
        return [0; 8];
    }
    Interface::find(config).map_or([0; 8], |interface| interface.guid(config))
}

/// The index of a device that the kernel has given none. UCX asks the kernel by RDMA netlink about a device
/// with any other index, and prints an error if there is no RDMA netlink or no such device.
pub const NO_KERNEL_INDEX: i32 = -1;
