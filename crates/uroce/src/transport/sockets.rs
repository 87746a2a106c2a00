//! [`Sockets`]: the sockets of a device, and the epoll instance that watches them.
//!
//! Not here: which ports and groups there are, and which addresses the GID table has (`net.rs`).
//!
//! A process that had to take another port for its queue pairs still takes port 4791 for management
//! datagrams (MADs) at each address where it is free, for queue pair 1 alone: its queue pair numbers belong
//! to the other port.
//!
//! Invariant: the table is replaced as a whole, and its owner lets one thread at a time do that. A sender or
//! receiver keeps the table that it has read, and its sockets, until it is done.

use std::io;
use std::net::IpAddr;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::gid_table::GidAddress;
use super::socket::Socket;
use super::socket_table::{PortSockets, SocketTable, has_socket};
use crate::epoll::Epoll;
use crate::sync::RwLock;
use roce::wire::PORT;

/// The sockets of a device in this process.
pub struct Sockets {
    ifindex: u32,
    epoll: Epoll,
    table: RwLock<Arc<SocketTable>>,
    /// The program has closed the epoll descriptor.
    lost: AtomicBool,
}

impl Sockets {
    /// No sockets, of the device of that interface.
    pub fn new(ifindex: u32) -> io::Result<Sockets> {
        Ok(Sockets {
            ifindex,
            epoll: Epoll::new()?,
            table: RwLock::default(),
            lost: AtomicBool::new(false),
        })
    }

    /// The epoll descriptor, readable when a socket is. None if the program has closed it.
    pub fn fd(&self) -> Option<RawFd> {
        (!self.lost.load(Ordering::Relaxed)).then(|| self.epoll.fd())
    }

    /// The program has closed the descriptors.
    pub fn lose(&self) {
        self.lost.store(true, Ordering::Relaxed);
    }

    /// Makes [`Sockets::fd`] readable with this descriptor too, under a token that is no index.
    pub fn watch(&self, fd: RawFd, token: u64) -> io::Result<()> {
        self.epoll.add(fd, libc::EPOLLIN, token)
    }

    /// The sockets as they are now.
    pub fn table(&self) -> Arc<SocketTable> {
        Arc::clone(&self.table.read())
    }

    /// Opens a port at all addresses, or at none: EADDRINUSE if another socket has it at one of them.
    pub fn open_port(&self, port: u16, gids: &[Option<GidAddress>]) -> io::Result<()> {
        let mut table = SocketTable::clone(&self.table());
        let Err(at) = table.find_port(port) else {
            return Err(io::ErrorKind::AddrInUse.into());
        };
        table.gids = gids.to_vec();
        let mut new = PortSockets::new(port, Vec::new(), &[]);
        let mut failed = self.update_port(&mut table, &mut new);
        let in_use = |(_, error): &(_, io::Error)| error.kind() == io::ErrorKind::AddrInUse;
        let fatal = match failed.iter().position(in_use) {
            // The port remains usable at the other addresses.
            None if new.sockets.iter().any(Option::is_some) => None,
            None => failed.pop(),
            Some(at) => Some(failed.swap_remove(at)),
        };
        if let Some((_, error)) = fatal {
            return Err(error);
        }
        warn_of(port, failed);
        table.ports.insert(at, new);
        *self.table.write() = Arc::new(table);
        Ok(())
    }

    /// Closes a port.
    pub fn close_port(&self, port: u16) {
        self.replace(|table| {
            if let Ok(at) = table.find_port(port) {
                let closed = table.ports.remove(at);
                let sockets = closed.sockets.iter().flatten();
                sockets.for_each(|socket| self.remove_receiver(table, socket));
            }
        });
    }

    /// Makes each port have exactly one socket for each address of the GID table.
    pub fn update(&self, gids: &[Option<GidAddress>]) {
        self.replace(|table| {
            table.gids = gids.to_vec();
            let mut ports = std::mem::take(&mut table.ports);
            for port in &mut ports {
                warn_of(port.port, self.update_port(table, port));
            }
            table.ports = ports;
        });
    }

    /// Opens a socket for a multicast group. Returns its token.
    pub fn join(&self, group: GidAddress) -> io::Result<usize> {
        let socket = Arc::new(Socket::join(group, self.ifindex)?);
        self.replace(|table| self.add_receiver(table, &socket))
    }

    /// Closes the socket with that token.
    pub fn leave(&self, token: usize) {
        self.replace(|table| {
            if let Some(socket) = table.receiver(token).cloned() {
                self.remove_receiver(table, &socket);
            }
        });
    }

    /// Takes port 4791 at the device's addresses where no other process has it. Returns whether this
    /// process has it at all of them now.
    pub fn claim_mad_port(&self, gids: &[Option<GidAddress>]) -> bool {
        self.replace(|table| {
            table.gids = gids.to_vec();
            let found = table.find_port(PORT);
            let mut port = match found {
                Ok(at) => table.ports.remove(at),
                Err(_) => PortSockets::new(PORT, Vec::new(), &[]),
            };
            let failed = self.update_port(table, &mut port);
            // A port that was open stays, even without any address: queue pairs may have it.
            if found.is_ok() || port.sockets.iter().any(Option::is_some) {
                let (Ok(at) | Err(at)) = found;
                table.ports.insert(at, port);
            }
            failed.is_empty()
        })
    }

    /// Replaces the table by a changed copy. No other thread does so meanwhile.
    fn replace<T>(&self, change: impl FnOnce(&mut SocketTable) -> T) -> T {
        let mut table = SocketTable::clone(&self.table());
        let result = change(&mut table);
        *self.table.write() = Arc::new(table);
        result
    }

    /// Adds a socket to receive from, and its [`Socket::others`], or neither. Returns its epoll token.
    fn add_receiver(&self, table: &mut SocketTable, socket: &Arc<Socket>) -> io::Result<usize> {
        if let Some(others) = &socket.others {
            self.add_receiver(table, others)?;
        }
        let free = table.receivers.iter().position(Option::is_none);
        let token = free.unwrap_or(table.receivers.len());
        self.epoll
            .add(socket.fd(), libc::EPOLLIN, token as u64)
            .inspect_err(|_| {
                if let Some(others) = &socket.others {
                    self.remove_receiver(table, others);
                }
            })?;
        if token == table.receivers.len() {
            table.receivers.push(None);
        }
        table.receivers[token] = Some(Arc::clone(socket));
        Ok(token)
    }

    fn remove_receiver(&self, table: &mut SocketTable, socket: &Arc<Socket>) {
        if let Some(others) = &socket.others {
            self.remove_receiver(table, others);
        }
        for receiver in &mut table.receivers {
            if receiver
                .as_ref()
                .is_some_and(|other| Arc::ptr_eq(other, socket))
            {
                *receiver = None;
            }
        }
        // Closing the socket would remove it too, but a thread that is sending may keep it open for a while.
        self.epoll.remove(socket.fd());
    }

    /// Makes a port have exactly one socket for each address of the GID table. Returns the addresses where
    /// that fails: queue pairs cannot use these GIDs. Another process may have the port there.
    fn update_port(
        &self,
        table: &mut SocketTable,
        port: &mut PortSockets,
    ) -> Vec<(IpAddr, io::Error)> {
        let gids = table.gids.clone();
        let mut failed = Vec::new();
        port.sockets.resize(gids.len(), None);
        for (socket, local) in port.sockets.iter_mut().zip(&gids) {
            let local = local.filter(has_socket);
            if socket.as_ref().map(|socket| socket.local) == local {
                continue;
            }
            if let Some(old) = socket.take() {
                self.remove_receiver(table, &old);
            }
            let Some(local) = local else { continue };
            let opened = Socket::open(local, port.port, self.ifindex).map(Arc::new);
            match opened.and_then(|new| self.add_receiver(table, &new).map(|_| new)) {
                Ok(new) => *socket = Some(new),
                Err(error) => failed.push((local.ip, error)),
            }
        }
        port.update_senders(&gids);
        failed
    }
}

fn warn_of(port: u16, failed: Vec<(IpAddr, io::Error)>) {
    for (ip, error) in failed {
        log::warn!("uroce: no port {port} at {ip}: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::GidType;
    use roce::wire::gid_of;

    const LOOPBACK: u32 = 1;

    fn gid(ip: [u8; 4]) -> GidAddress {
        GidAddress {
            gid: gid_of(ip.into()),
            ip: ip.into(),
            gid_type: GidType::RoceV2,
        }
    }

    #[test]
    fn a_port_is_open_at_all_addresses_or_at_none() {
        let gids = [1, 2].map(|host| Some(gid([127, 1, 78, host])));
        let sockets = || Sockets::new(LOOPBACK).unwrap();
        let (one, other) = (sockets(), sockets());
        one.open_port(61_501, &gids[1..]).unwrap();
        let result = other.open_port(61_501, &gids);
        assert_eq!(result.unwrap_err().kind(), io::ErrorKind::AddrInUse);
        assert!(other.table().ports.is_empty() && other.table().receivers.is_empty());
        one.close_port(61_501);
        other.open_port(61_501, &gids).unwrap();
        // The second address is gone: its socket is closed, and another process can have the port there.
        other.update(&[gids[0], None]);
        assert!(other.table().sender(61_501, 1).is_none());
        one.open_port(61_501, &gids[1..]).unwrap();
        let token = one.join(gid([239, 1, 78, 1])).unwrap();
        assert!(one.table().receiver(token).is_some());
        one.leave(token);
        assert!(one.table().receiver(token).is_none());
    }

    #[test]
    fn of_two_sockets_none_stays_if_one_cannot_be_watched() {
        let sockets = Sockets::new(LOOPBACK).unwrap();
        let socket = Socket::join(gid([239, 1, 78, 2]), LOOPBACK).map(Arc::new);
        let socket = socket.unwrap();
        assert!(socket.others.is_some());
        // As with too many watches.
        sockets.watch(socket.fd(), 0).unwrap();
        let added = sockets.replace(|table| sockets.add_receiver(table, &socket));
        assert_eq!(added.unwrap_err().raw_os_error(), Some(libc::EEXIST));
        assert!(sockets.table().receivers.iter().all(Option::is_none));
    }

    #[test]
    fn the_port_of_queue_pairs_comes_back_with_its_address() {
        let gids = [Some(gid([127, 1, 78, 3]))];
        let sockets = Sockets::new(LOOPBACK).unwrap();
        sockets.open_port(PORT, &gids).unwrap();
        sockets.update(&[None]);
        assert!(sockets.claim_mad_port(&[None]));
        assert!(sockets.table().sender(PORT, 0).is_none());
        sockets.update(&gids);
        assert!(sockets.table().sender(PORT, 0).is_some());
    }
}
