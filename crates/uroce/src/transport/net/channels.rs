//! The network side of channels through shared memory ([`crate::shm`]): the addresses and ports that are this
//! process's, and the flow that a packet would be of.

use std::io;
use std::net::IpAddr;
use std::os::fd::RawFd;
use std::sync::atomic::Ordering;

use super::{CHANNELS_TOKEN, Net, epoll_add, has_socket};
use crate::capture::Tap;
use roce::engine::{AddressVector, Gid};
use roce::wire::{Flow, ip_of, port_of};

impl Net {
    /// Where packets are recorded, if they are. UDP's are recorded here.
    pub fn tap(&self) -> Option<&Tap> {
        self.tap.as_ref()
    }

    /// Makes [`Net::fd`] readable with this descriptor too; [`Net::receive`] notes that for
    /// [`Net::take_channels_readable`].
    pub fn watch_channels(&self, fd: RawFd) -> io::Result<()> {
        epoll_add(&self.epoll, fd, CHANNELS_TOKEN)
    }

    /// Whether the descriptor of [`Net::watch_channels`] was readable since the last call.
    pub fn take_channels_readable(&self) -> bool {
        let readable = &self.channels_readable;
        readable.load(Ordering::Relaxed) && readable.swap(false, Ordering::AcqRel)
    }

    /// The addresses at which this process has a port.
    pub fn addresses_of(&self, port: u16) -> Vec<IpAddr> {
        let table = self.table();
        let gids = table.gids.iter().flatten().filter(|gid| has_socket(gid));
        gids.map(|gid| gid.ip)
            .filter(|ip| table.socket_at(*ip, port).is_some())
            .collect()
    }

    /// The flow that a unicast packet of queue pair `qpn` would be of. None for multicast, and where the
    /// packet could not be sent.
    pub fn flow(&self, qpn: u32, av: &AddressVector, dest_qpn: u32) -> Option<Flow> {
        let table = self.table();
        let socket = table.sender(port_of(qpn), av.sgid_index)?;
        let dst = socket.destination(av);
        (dst.is_ipv4() == socket.local.ip.is_ipv4() && !dst.is_multicast()).then(|| Flow {
            src: socket.local.ip,
            dst,
            src_port: socket.port,
            dst_port: port_of(dest_qpn),
        })
    }

    /// The GIDs of both ends of a flow from this process: its own, and the peer's as
    /// [`roce::engine::Addresses`] has it; and both as addresses in a GRH. None if the source is not an
    /// address and port of this process.
    pub fn gids_of(&self, flow: &Flow) -> Option<([Gid; 2], [IpAddr; 2])> {
        let table = self.table();
        let socket = table.socket_at(flow.src, flow.src_port)?;
        let gids = [socket.local.peer_gid(), table.sender_gid(socket, flow.dst)];
        let in_grh = gids.map(|gid| socket.local.in_grh(ip_of(&gid)));
        Some((gids, in_grh))
    }
}
