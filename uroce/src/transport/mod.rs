//! What carries packets between a device and its peers: UDP sockets ([`Net`]). A path through memory
//! that peers on one host share will stand beside it.
//!
//! # Ports
//! A process that gets port 4791 at all addresses of the device has queue pair numbers below
//! 0x800000. One that does not takes free ports P >= 32768, each at all addresses of the device, and
//! has the numbers `P << 8 | i`. So the number alone says which port a packet for it goes to:
//! [`port_of`]. A packet is sent from the port of its own queue pair.

use std::io;

use crate::device::config::Config;
use crate::engine::{Addresses, Gid, Transmit};
use crate::wire::Packet;

/// The UDP port that packets for a queue pair go to.
pub fn port_of(qpn: u32) -> u16 {
    match qpn >> 8 {
        port @ 0x8000..=0xffff if qpn != MULTICAST_QPN => port as u16,
        _ => crate::wire::PORT,
    }
}

/// The queue pair number of multicast datagrams.
pub const MULTICAST_QPN: u32 = 0xff_ffff;

/// The network side of a device in this process: sockets, GID table, port state, numbers of queue
/// pairs. Thread-safe. (Skeleton: the contract that `device` is written against.)
pub struct Net {}

/// An entry of the GID table. A slot stays as long as its address does: others keep their index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GidEntry {
    pub gid: Gid,
    pub ifindex: u32,
}

/// What the interface is like now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortState {
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

/// A batch of packets of one queue pair, with room for the next one. One per thread, reused.
pub struct Outbox {}

/// Buffers to receive into. One per thread that makes progress, reused.
pub struct Inbox {}

/// What a configuration means on this host now: whether there is such an interface. The error says
/// what is missing.
pub fn check(_config: &Config) -> io::Result<()> {
    todo!()
}

/// The node's GUID, in network byte order: from the interface's MAC address, or, where it has none,
/// from the host's identity. The same at each call.
pub fn node_guid(_config: &Config) -> [u8; 8] {
    todo!()
}

/// The interface's number; 0 if there is no such interface any more.
pub fn ifindex(_config: &Config) -> i32 {
    todo!()
}

impl Net {
    /// Opens the device's sockets, in the network namespace of the calling thread.
    pub fn open(_config: &Config) -> io::Result<Net> {
        todo!()
    }

    /// The GID table, by index; None is an empty entry.
    pub fn gids(&self) -> Vec<Option<GidEntry>> {
        todo!()
    }

    pub fn port_state(&self) -> PortState {
        todo!()
    }

    /// A number for a new queue pair, random within its range. ENOMEM when there is none.
    pub fn alloc_qpn(&self) -> io::Result<u32> {
        todo!()
    }

    pub fn free_qpn(&self, _qpn: u32) {
        todo!()
    }

    /// An epoll descriptor, readable when [`Net::receive`] or [`Net::changes`] has something to do.
    pub fn fd(&self) -> i32 {
        todo!()
    }

    /// Reads what rtnetlink tells, updates table and sockets.
    pub fn changes(&self) -> NetChange {
        todo!()
    }

    /// Receives without blocking, a bounded number of packets; hands each that is whole (length,
    /// headers, ICRC, destination ours, P_Key 0xffff) to `each`. Returns how many datagrams came.
    pub fn receive(
        &self,
        _inbox: &mut Inbox,
        _each: &mut dyn FnMut(&Packet<'_>, &Addresses),
    ) -> usize {
        todo!()
    }

    /// Adds the packet that stands in [`Outbox::buffer`] to the batch of the queue pair `src_qpn`; the
    /// ICRC is put behind it here. Sends the batch first if it is full.
    pub fn push(&self, _outbox: &mut Outbox, _src_qpn: u32, _packet: &Transmit) {
        todo!()
    }

    /// Sends the batch. Packets that the network refuses are lost, as on any network; a full socket is
    /// waited for, for some milliseconds at most.
    pub fn flush(&self, _outbox: &mut Outbox, _src_qpn: u32) {
        todo!()
    }

    /// Makes datagrams to a multicast group reach this process (counted).
    pub fn join(&self, _group: &Gid) -> io::Result<()> {
        todo!()
    }

    pub fn leave(&self, _group: &Gid) {
        todo!()
    }
}

impl Inbox {
    pub fn new() -> Inbox {
        todo!()
    }
}

impl Outbox {
    pub fn new() -> Outbox {
        todo!()
    }

    /// Room for the next packet: headers, 4096 bytes, padding, ICRC.
    pub fn buffer(&mut self) -> &mut [u8] {
        todo!()
    }
}
