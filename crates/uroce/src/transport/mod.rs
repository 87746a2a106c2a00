//! What carries packets between a device and its peers: UDP sockets ([`Net`]). A path through memory
//! that peers on one host share will stand beside it.
//!
//! # Ports
//! A process that gets port 4791 at all addresses of the device has queue pair numbers below
//! 0x800000. One that does not takes free ports P >= 32768, each at all addresses of the device, and
//! has the numbers `P << 8 | i`. So the number alone says which port a packet for it goes to:
//! [`port_of`]. A packet is sent from the port of its own queue pair.
//!
//! | file | what is in it |
//! |---|---|
//! | `net.rs` | [`Net`]: which sockets there are, and how they follow the interface |
//! | `inbox.rs`, `outbox.rs` | receiving and sending in batches |
//! | `ports.rs`, `gid_table.rs` | numbers of queue pairs; which GID stands where (both pure) |
//! | `interface.rs` | the interface, as rtnetlink reports it |
//! | `socket.rs`, `cmsg.rs` | sockets and their options; control messages |

mod cmsg;
mod gid_table;
mod inbox;
mod interface;
mod net;
mod outbox;
mod ports;
mod socket;
#[cfg(test)]
mod tests;

use std::io;

pub use inbox::Inbox;
pub use net::Net;
pub use outbox::Outbox;

use crate::config::Config;
use crate::engine::Gid;
use interface::Interface;

/// The UDP port that packets for a queue pair go to.
pub fn port_of(qpn: u32) -> u16 {
    match qpn >> 8 {
        port @ 0x8000..=0xffff if qpn != MULTICAST_QPN => port as u16,
        _ => crate::wire::PORT,
    }
}

/// The queue pair number of multicast datagrams.
pub const MULTICAST_QPN: u32 = 0xff_ffff;

/// An entry of the GID table. A slot stays as long as its address does: others keep their index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GidEntry {
    pub gid: Gid,
    pub ifindex: u32,
}

/// What the interface is like now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortState {
    /// The interface is up, be there a carrier or not.
    pub up: bool,
    /// It is up and has a carrier.
    pub active: bool,
    /// The largest path MTU that fits: 256 to 4096.
    pub active_mtu: u32,
}

/// What has changed at the interface: for GID_CHANGE, PORT_ACTIVE and PORT_ERR.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct NetChange {
    pub gids: bool,
    pub became_active: bool,
    pub became_inactive: bool,
}

/// What a configuration means on this host now: whether there is such an interface. The error says
/// what is missing.
pub fn check(config: &Config) -> io::Result<()> {
    Interface::find(config).map(drop)
}

/// The node's GUID, in network byte order: from the interface's MAC address, or, where it has none,
/// from the host's identity. The same at each call. Zeros if there is no such interface any more.
pub fn node_guid(config: &Config) -> [u8; 8] {
    Interface::find(config).map_or([0; 8], |interface| interface.guid(&config.name))
}

/// The interface's number; 0 if there is no such interface any more.
pub fn ifindex(config: &Config) -> i32 {
    Interface::find(config).map_or(0, |interface| interface.link.index as i32)
}
