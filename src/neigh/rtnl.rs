//! Questions to the kernel's routing tables.

use super::message::{self, Link, LinkAddress, Message, Request, Route};
use libc::{EINTR, EMSGSIZE, ENOENT, ENOMSG, c_int};
use netlink_sys::{Socket, protocols::NETLINK_ROUTE};
use std::net::IpAddr;
use std::os::fd::AsRawFd;
use std::time::Duration;

/// As long as the longest datagram that the kernel makes.
const BUFFER: usize = 32 << 10;
/// How often to ask again when a table changed while the kernel was listing it.
const TRIES: u32 = 10;

/// An rtnetlink socket.
pub struct Rtnl {
    socket: Socket,
    buffer: Box<[u8]>,
    sequence: u32,
}

impl Rtnl {
    /// The error is an errno value.
    pub fn open() -> Result<Rtnl, c_int> {
        let mut socket = Socket::new(NETLINK_ROUTE).map_err(errno)?;
        socket.bind_auto().map_err(errno)?;
        Ok(Rtnl {
            socket,
            buffer: vec![0; BUFFER].into(),
            sequence: 0,
        })
    }

    /// The index of the first interface with an address.
    pub fn interface_of(&mut self, ip: IpAddr) -> Option<u32> {
        self.list(
            || Request::addresses(ip),
            |m| match m.kind {
                libc::RTM_NEWADDR => message::interface_with(m.payload, ip),
                _ => None,
            },
        )
    }

    /// The route from an interface to `destination`. The error is the kernel's, an errno value.
    pub fn route(&mut self, destination: IpAddr, interface: u32) -> Result<Route, c_int> {
        let route = |m: &Message| match m.kind {
            libc::RTM_NEWROUTE => message::route(m.payload),
            _ => None,
        };
        self.ask(Request::route(destination, interface), route)?
            .found
            .ok_or(ENOMSG)
    }

    /// The link-layer address of a neighbour; None when the kernel does not know it (any more).
    pub fn neighbour(&mut self, ip: IpAddr, interface: u32) -> Option<LinkAddress> {
        match self.ask(Request::neighbour(ip, interface), about(ip, interface)) {
            Ok(answer) => answer.found,
            Err(ENOENT) => None,
            // Kernels before 5.0 list all neighbours or none.
            Err(_) => self.neighbour_by_list(ip, interface),
        }
    }

    fn neighbour_by_list(&mut self, ip: IpAddr, interface: u32) -> Option<LinkAddress> {
        self.list(|| Request::neighbours(ip), about(ip, interface))
    }

    /// An interface; None when there is none of this index (any more).
    pub fn link(&mut self, interface: u32) -> Option<Link> {
        let link = |m: &Message| match m.kind {
            libc::RTM_NEWLINK => message::link(m.payload),
            _ => None,
        };
        self.ask(Request::link(interface), link).ok()?.found
    }

    /// Asks to be told of neighbours from now on. The error is an errno value.
    pub fn listen(&mut self) -> Result<(), c_int> {
        self.socket
            .add_membership(libc::RTNLGRP_NEIGH)
            .map_err(errno)
    }

    /// After [`Rtnl::listen`]: waits until there is something to hear, or the time is up. Returns the
    /// address of a neighbour if that is what there was to hear.
    pub fn hear(&mut self, ip: IpAddr, interface: u32, wait: Duration) -> Option<LinkAddress> {
        let mut poll = libc::pollfd {
            fd: self.socket.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // Up to the next millisecond, lest the last one is spent asking for nothing.
        let wait = wait
            .as_nanos()
            .div_ceil(1_000_000)
            .try_into()
            .unwrap_or(c_int::MAX);
        // SAFETY: one pollfd, ours for the call, with a descriptor that `self` keeps open.
        if unsafe { libc::poll(&mut poll, 1, wait) } != 1 {
            return None;
        }
        let len = self.receive(libc::MSG_DONTWAIT).ok()?;
        message::messages(self.buffer.get(..len)?).find_map(|m| about(ip, interface)(&m))
    }

    /// Asks for a whole table and returns what `pick` first found in it.
    fn list<T>(
        &mut self,
        request: impl Fn() -> Request,
        pick: impl Fn(&Message) -> Option<T>,
    ) -> Option<T> {
        for _ in 0..TRIES {
            let answer = self.ask(request(), &pick).ok()?;
            if answer.found.is_some() || !answer.interrupted {
                return answer.found;
            }
        }
        None
    }

    /// Sends a request and reads the answer to its end. The error is the kernel's, an errno value.
    fn ask<T>(
        &mut self,
        mut request: Request,
        pick: impl Fn(&Message) -> Option<T>,
    ) -> Result<Answer<T>, c_int> {
        self.sequence = self.sequence.wrapping_add(1).max(1);
        self.socket
            .send(request.numbered(self.sequence), 0)
            .map_err(errno)?;
        let mut answer = Answer {
            found: None,
            interrupted: false,
        };
        loop {
            let len = self.receive(0)?;
            for m in message::messages(self.buffer.get(..len).unwrap_or_default()) {
                // What is told unasked has number 0.
                if m.sequence != self.sequence {
                    continue;
                }
                answer.interrupted |= m.interrupted;
                if let Some(status) = m.status() {
                    return status.map(|()| answer);
                }
                if answer.found.is_none() {
                    answer.found = pick(&m);
                }
                if !m.multipart {
                    return Ok(answer);
                }
            }
        }
    }

    /// Reads one datagram into the buffer and returns its length.
    fn receive(&mut self, flags: c_int) -> Result<usize, c_int> {
        loop {
            match self
                .socket
                .recv(&mut &mut self.buffer[..], flags | libc::MSG_TRUNC)
            {
                Ok(len) if len <= self.buffer.len() => return Ok(len),
                Ok(_) => return Err(EMSGSIZE),
                Err(error) => match errno(error) {
                    EINTR => {}
                    error => return Err(error),
                },
            }
        }
    }
}

struct Answer<T> {
    found: Option<T>,
    /// The table changed under the kernel's hands: something may be missing.
    interrupted: bool,
}

fn about(ip: IpAddr, interface: u32) -> impl Fn(&Message) -> Option<LinkAddress> {
    move |m| match m.kind {
        libc::RTM_NEWNEIGH => message::address_of(m.payload, ip, interface),
        _ => None,
    }
}

pub(super) fn errno(error: std::io::Error) -> c_int {
    error.raw_os_error().unwrap_or(libc::EIO)
}

#[cfg(test)]
impl Rtnl {
    pub fn neighbour_as_on_old_kernels(
        &mut self,
        ip: IpAddr,
        interface: u32,
    ) -> Option<LinkAddress> {
        self.neighbour_by_list(ip, interface)
    }
}
