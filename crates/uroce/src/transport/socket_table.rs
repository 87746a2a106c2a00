//! [`SocketTable`]: the sockets of a device.

use std::net::IpAddr;
use std::sync::Arc;

use super::gid_table::{GidAddress, GidKind};
use super::socket::Socket;
use roce::engine::{AddressVector, Gid};
use roce::wire::{Flow, PORT, first_qpn, ip_of, port_of};

/// The number of the queue pair of subnet management.
pub const SMI_QPN: u32 = 0;
/// The number of the queue pair of general services.
pub const GSI_QPN: u32 = 1;

/// The sockets of a device, and the GID table that they are bound to. Senders and receivers read it without a
/// lock; [`super::Net`] replaces it as a whole.
#[derive(Clone, Default)]
pub struct SocketTable {
    pub(super) gids: Vec<Option<GidAddress>>,
    /// Sorted by port.
    pub(super) ports: Vec<PortSockets>,
    /// All sockets, also those of multicast groups, at the index that is their epoll token.
    pub(super) receivers: Vec<Option<Arc<Socket>>>,
}

/// The sockets of a port, by GID index.
#[derive(Clone)]
pub(super) struct PortSockets {
    pub port: u16,
    pub sockets: Vec<Option<Arc<Socket>>>,
    /// The sockets to send from, like `sockets`; a second name has the socket of its address.
    senders: Vec<Option<Arc<Socket>>>,
}

impl PortSockets {
    /// A port with a socket for each entry of the GID table that has one.
    pub fn new(
        port: u16,
        sockets: Vec<Option<Arc<Socket>>>,
        gids: &[Option<GidAddress>],
    ) -> PortSockets {
        let mut new = PortSockets {
            port,
            sockets,
            senders: Vec::new(),
        };
        new.update_senders(gids);
        new
    }

    /// Called when `sockets` or the GID table has changed.
    pub fn update_senders(&mut self, gids: &[Option<GidAddress>]) {
        self.senders.clone_from(&self.sockets);
        for (sender, entry) in self.senders.iter_mut().zip(gids) {
            if let Some(entry) = entry.filter(|entry| entry.kind() == GidKind::SecondName) {
                let mut sockets = self.sockets.iter().flatten();
                *sender = sockets.find(|socket| socket.local.ip == entry.ip).cloned();
            }
        }
    }
}

impl SocketTable {
    /// The socket that a queue pair sends from; None if the GID table has no such entry, or another process
    /// has the port at its address.
    pub fn sender(&self, port: u16, gid_index: u8) -> Option<&Arc<Socket>> {
        let port = self.ports.get(self.find_port(port).ok()?)?;
        port.senders.get(usize::from(gid_index))?.as_ref()
    }

    /// The socket that is bound to an address and port.
    pub fn socket_at(&self, ip: IpAddr, port: u16) -> Option<&Arc<Socket>> {
        let port = self.ports.get(self.find_port(port).ok()?)?;
        let mut sockets = port.sockets.iter().flatten();
        sockets.find(|socket| socket.local.ip == ip)
    }

    /// The socket with this epoll token.
    pub fn receiver(&self, token: usize) -> Option<&Arc<Socket>> {
        self.receivers.get(token)?.as_ref()
    }

    /// The index of the port in `ports`, or, as the error, the index to insert it at.
    pub(super) fn find_port(&self, port: u16) -> Result<usize, usize> {
        self.ports.binary_search_by_key(&port, |ports| ports.port)
    }

    /// The GID of the sender of a datagram that `socket` has received from `ip`. For an alias address of this
    /// host (see [`super::gid_table::alias`]) that is the default GID.
    pub fn sender_gid(&self, socket: &Socket, ip: IpAddr) -> Gid {
        if socket.local.ip == ip {
            return socket.local.peer_gid();
        }
        // It is the first entry, or the second, behind that of RoCE v1.
        let mut first = self.gids.iter().take(2).flatten();
        let is_alias = |entry: &&GidAddress| entry.ip == ip && entry.kind() == GidKind::Alias;
        match first.find(is_alias) {
            Some(default) => default.gid,
            None => roce::wire::gid_of(ip),
        }
    }

    /// The addresses at which this process has a port.
    pub fn addresses_of(&self, port: u16) -> Vec<IpAddr> {
        let gids = self.gids.iter().flatten().filter(|gid| has_socket(gid));
        gids.map(|gid| gid.ip)
            .filter(|ip| self.socket_at(*ip, port).is_some())
            .collect()
    }

    /// The flow that a unicast packet of queue pair `qpn` would be of. None for multicast, and where the
    /// packet could not be sent.
    pub fn flow(&self, qpn: u32, av: &AddressVector, dest_qpn: u32) -> Option<Flow> {
        let socket = self.sender(port_of(qpn), av.sgid_index)?;
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
        let socket = self.socket_at(flow.src, flow.src_port)?;
        let gids = [socket.local.peer_gid(), self.sender_gid(socket, flow.dst)];
        let in_grh = gids.map(|gid| socket.local.in_grh(ip_of(&gid)));
        Some((gids, in_grh))
    }

    /// A queue pair number of a port that this process has at an entry of the GID table: port 4791 if
    /// possible. None if it has none.
    pub fn mad_source(&self, gid_index: u8) -> Option<u32> {
        if self.sender(PORT, gid_index).is_some() {
            return Some(GSI_QPN);
        }
        let mut others = self.ports.iter().filter(|port| port.port != PORT);
        let other = others.find(|port| self.sender(port.port, gid_index).is_some())?;
        Some(first_qpn(other.port))
    }
}

/// Whether an entry of the GID table has sockets of its own.
pub fn has_socket(entry: &GidAddress) -> bool {
    entry.kind() != GidKind::SecondName
}
