//! [`RtnlClient`]: requests to the kernel's networking tables.

use core::time::Duration;
use std::net::IpAddr;
use std::os::fd::RawFd;

use ibverbs_abi::Errno;

use super::reply::Reply;
use super::{
    DATAGRAM_MAX, InterfaceAddress, Link, LinkAddress, Route, address, link, neighbour, route,
};
use crate::message::{ReplyState, Request, messages};
use crate::socket::{Receive, Socket};

/// How many times a table is requested while it keeps changing during the dump.
const DUMP_TRIES: u32 = 10;

/// An rtnetlink socket for requests, in the network namespace of the thread that opened it. For one thread at
/// a time. Requests block until the kernel has replied, which it does without waiting for anything.
pub struct RtnlClient {
    socket: Socket,
    sequence: u32,
}

impl RtnlClient {
    /// Opens and binds the socket. Errors are those of socket(2) and bind(2).
    pub fn open() -> Result<RtnlClient, Errno> {
        let socket = Socket::open(libc::NETLINK_ROUTE, DATAGRAM_MAX)?;
        socket.bind()?;
        Ok(RtnlClient {
            socket,
            sequence: 0,
        })
    }

    /// The socket's descriptor, owned by the client.
    pub fn fd(&self) -> RawFd {
        self.socket.fd()
    }

    /// Ends the client without closing the descriptor, whose number somebody else has by now.
    pub fn abandon(self) {
        self.socket.abandon();
    }

    /// All interfaces.
    pub fn links(&mut self) -> Result<Vec<Link>, Errno> {
        self.dump(link::get_all(), libc::RTM_NEWLINK, link::parse)
    }

    /// The interface with this index; None if there is none.
    pub fn link(&mut self, index: u32) -> Option<Link> {
        let reply = self.request(&mut link::get(index), libc::RTM_NEWLINK, link::parse);
        reply.ok()?.parsed.into_iter().next()
    }

    /// All usable addresses of all interfaces: IPv4, then IPv6, in the kernel's order. Addresses that are
    /// tentative or duplicate are left out.
    pub fn addresses(&mut self) -> Result<Vec<InterfaceAddress>, Errno> {
        let mut all = Vec::new();
        for family in [libc::AF_INET, libc::AF_INET6] {
            let request = address::get_all(family as u8);
            all.extend(self.dump(request, libc::RTM_NEWADDR, address::parse_usable)?);
        }
        Ok(all)
    }

    /// The index of the first interface that has this address, usable or not.
    pub fn interface_of(&mut self, ip: IpAddr) -> Option<u32> {
        let parse = |payload: &[u8]| {
            let found = address::parse(payload).filter(|found| found.ip == ip);
            found.map(|found| found.interface)
        };
        self.find(address::get_all_like(ip), libc::RTM_NEWADDR, parse)
    }

    /// The interface of the default route with the smallest metric; of IPv4's routes, or, if there is none,
    /// of IPv6's.
    pub fn default_interface(&mut self) -> Result<Option<u32>, Errno> {
        for family in [libc::AF_INET, libc::AF_INET6] {
            let parse = |payload: &[u8]| route::parse(payload).filter(Route::is_default);
            let routes = self.dump(route::get_all(family as u8), libc::RTM_NEWROUTE, parse)?;
            let usable = routes.iter().filter(|route| route.interface.is_some());
            if let Some(route) = usable.min_by_key(|route| route.priority) {
                return Ok(route.interface);
            }
        }
        Ok(None)
    }

    /// The route of packets to `destination`; with an interface, of those that leave through it. ENOMSG if
    /// the reply has none, else the kernel's error.
    pub fn route(&mut self, destination: IpAddr, interface: Option<u32>) -> Result<Route, Errno> {
        let mut request = route::get(destination, interface);
        let reply = self.request(&mut request, libc::RTM_NEWROUTE, route::parse)?;
        reply.parsed.into_iter().next().ok_or(Errno(libc::ENOMSG))
    }

    /// The link-layer address of a neighbour; None if the kernel does not know it.
    pub fn neighbour(&mut self, ip: IpAddr, interface: u32) -> Option<LinkAddress> {
        let parse = |payload: &[u8]| neighbour::parse_address_of(payload, ip, interface);
        let mut request = neighbour::get(ip, interface);
        match self.request(&mut request, libc::RTM_NEWNEIGH, parse) {
            Ok(reply) => reply.parsed.into_iter().next(),
            Err(Errno(libc::ENOENT)) => None,
            // Kernels before 5.0 can only dump the table.
            Err(_) => self.neighbour_by_dump(ip, interface),
        }
    }

    /// Whether the kernel is asking for the link-layer address of a neighbour, or has asked without a reply.
    /// False if it has no entry for the neighbour, and on kernels before 5.0.
    pub fn is_unresolved(&mut self, ip: IpAddr, interface: u32) -> bool {
        let parse = |payload: &[u8]| Some(neighbour::is_unresolved(payload, ip, interface));
        let reply = self.request(
            &mut neighbour::get(ip, interface),
            libc::RTM_NEWNEIGH,
            parse,
        );
        reply.is_ok_and(|reply| reply.parsed.contains(&true))
    }

    /// [`RtnlClient::neighbour`], by a dump of the neighbour table.
    pub fn neighbour_by_dump(&mut self, ip: IpAddr, interface: u32) -> Option<LinkAddress> {
        let parse = |payload: &[u8]| neighbour::parse_address_of(payload, ip, interface);
        self.find(neighbour::get_all_like(ip), libc::RTM_NEWNEIGH, parse)
    }

    /// Subscribes to changes of the neighbour table, for [`RtnlClient::await_neighbour`].
    pub fn monitor_neighbours(&mut self) -> Result<(), Errno> {
        self.socket.join(libc::RTNLGRP_NEIGH)
    }

    /// After [`RtnlClient::monitor_neighbours`]: waits for a notification, up to `timeout` (rounded up to
    /// whole milliseconds). Returns the neighbour's link-layer address if the notification has it; None if
    /// it has not, after the timeout, and after a signal.
    pub fn await_neighbour(
        &mut self,
        ip: IpAddr,
        interface: u32,
        timeout: Duration,
    ) -> Option<LinkAddress> {
        if !self.socket.wait_readable(timeout) {
            return None;
        }
        let datagram = self.socket.receive(Receive::NonBlocking).ok()?;
        messages(datagram)
            .filter(|message| message.kind == libc::RTM_NEWNEIGH)
            .find_map(|message| neighbour::parse_address_of(message.payload, ip, interface))
    }

    /// Requests a table until it does not change during the dump. After [`DUMP_TRIES`] requests returns the
    /// last result, which may be incomplete.
    fn dump<T>(
        &mut self,
        mut request: Request,
        kind: u16,
        parse: impl Fn(&[u8]) -> Option<T>,
    ) -> Result<Vec<T>, Errno> {
        let mut reply = self.request(&mut request, kind, &parse)?;
        for _ in 1..DUMP_TRIES {
            if !reply.interrupted {
                break;
            }
            reply = self.request(&mut request, kind, &parse)?;
        }
        Ok(reply.parsed)
    }

    /// Requests a table and returns the first entry that `parse` accepts.
    fn find<T>(
        &mut self,
        mut request: Request,
        kind: u16,
        parse: impl Fn(&[u8]) -> Option<T>,
    ) -> Option<T> {
        for _ in 0..DUMP_TRIES {
            let reply = self.request(&mut request, kind, &parse).ok()?;
            if !(reply.interrupted && reply.parsed.is_empty()) {
                return reply.parsed.into_iter().next();
            }
        }
        None
    }

    /// Sends a request and reads the reply to its end. Keeps what `parse` makes of the messages of this type.
    fn request<T>(
        &mut self,
        request: &mut Request,
        kind: u16,
        parse: impl Fn(&[u8]) -> Option<T>,
    ) -> Result<Reply<T>, Errno> {
        self.sequence = self.sequence.wrapping_add(1).max(1);
        self.socket.send(request.encode(self.sequence))?;
        let mut reply = Reply::new();
        loop {
            let bytes = self.socket.receive(Receive::Blocking)?;
            if reply.datagram(bytes, self.sequence, kind, &parse)? == ReplyState::Complete {
                return Ok(reply);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_host_has_a_loopback_interface() {
        let mut client = RtnlClient::open().unwrap();
        let links = client.links().unwrap();
        let lo = links.iter().find(|link| link.loopback).unwrap();
        assert_eq!((lo.name.as_str(), lo.mac()), ("lo", Some([0; 6])));
        assert_eq!(client.link(lo.index).unwrap().name, "lo");
        assert_eq!(client.link(u32::MAX >> 1), None);
        let addresses = client.addresses().unwrap();
        let own = addresses.iter().find(|own| own.interface == lo.index);
        assert_eq!(client.interface_of(own.unwrap().ip), Some(lo.index));
        client.default_interface().unwrap();
    }
}
