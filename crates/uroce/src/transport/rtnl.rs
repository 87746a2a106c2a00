//! What rtnetlink(7) tells of interfaces and addresses: messages (pure), and questions to the kernel.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, RawFd};

use netlink_packet_core::{
    NLA_HEADER_SIZE, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST, NLMSG_DONE, NLMSG_ERROR,
    NetlinkBuffer, NlasIterator,
};
use netlink_sys::{Socket, protocols::NETLINK_ROUTE};

const HEADER: usize = 16;
/// struct ifinfomsg, ifaddrmsg and rtmsg.
const IFINFOMSG: usize = 16;
const IFADDRMSG: usize = 8;
const RTMSG: usize = 12;
/// As long as the longest datagram that the kernel makes.
const BUFFER: usize = 32 << 10;
/// How often to ask again when a table changed while the kernel was listing it.
const TRIES: u32 = 10;

/// An interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    pub index: u32,
    pub name: String,
    /// Of Ethernet and its like; the loopback interface's is all zeros.
    pub mac: Option<[u8; 6]>,
    pub mtu: u32,
    pub up: bool,
    /// Up, and with a carrier.
    pub running: bool,
    pub loopback: bool,
}

/// An address of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    pub interface: u32,
    pub ip: IpAddr,
}

/// One message.
struct Message<'a> {
    kind: u16,
    flags: u16,
    sequence: u32,
    payload: &'a [u8],
}

/// The messages of a datagram, up to the first one that is cut off.
fn messages(mut datagram: &[u8]) -> impl Iterator<Item = Message<'_>> {
    std::iter::from_fn(move || {
        datagram.first_chunk::<HEADER>()?;
        let header = NetlinkBuffer::new_checked(datagram).ok()?;
        let len = header.length() as usize;
        let message = Message {
            kind: header.message_type(),
            flags: header.flags(),
            sequence: header.sequence_number(),
            payload: datagram.get(HEADER..len)?,
        };
        datagram = datagram.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some(message)
    })
}

/// The attributes of a message, up to the first one that is malformed.
fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    NlasIterator::new(bytes)
        .map_while(Result::ok)
        .filter_map(|nla| {
            let (kind, len) = (nla.kind(), nla.length().into());
            Some((kind, nla.into_inner().get(NLA_HEADER_SIZE..len)?))
        })
}

fn number(value: &[u8]) -> Option<u32> {
    Some(u32::from_ne_bytes(*value.first_chunk()?))
}

/// The interface in an RTM_NEWLINK message.
pub fn link(payload: &[u8]) -> Option<Link> {
    let fixed: &[u8; IFINFOMSG] = payload.first_chunk()?;
    let &[family, _, _, _, i0, i1, i2, i3, f0, f1, f2, f3, ..] = fixed;
    // Bridges tell of their ports in messages of the same type.
    if i32::from(family) != libc::AF_UNSPEC {
        return None;
    }
    let flags = i32::from_ne_bytes([f0, f1, f2, f3]);
    let mut link = Link {
        index: u32::from_ne_bytes([i0, i1, i2, i3]),
        name: String::new(),
        mac: None,
        mtu: 0,
        up: flags & libc::IFF_UP != 0,
        running: flags & libc::IFF_UP != 0 && flags & libc::IFF_RUNNING != 0,
        loopback: flags & libc::IFF_LOOPBACK != 0,
    };
    for (kind, value) in attributes(payload.get(IFINFOMSG..)?) {
        match kind {
            libc::IFLA_IFNAME => {
                let name = value.strip_suffix(b"\0").unwrap_or(value);
                link.name = String::from_utf8_lossy(name).into_owned();
            }
            libc::IFLA_ADDRESS => link.mac = value.try_into().ok(),
            libc::IFLA_MTU => link.mtu = number(value)?,
            _ => {}
        }
    }
    Some(link)
}

fn ip(family: u8, octets: &[u8]) -> Option<IpAddr> {
    match family.into() {
        libc::AF_INET => Some(Ipv4Addr::from(<[u8; 4]>::try_from(octets).ok()?).into()),
        libc::AF_INET6 => Some(Ipv6Addr::from(<[u8; 16]>::try_from(octets).ok()?).into()),
        _ => None,
    }
}

/// The address in an RTM_NEWADDR message, if it can be used: duplicate address detection is over.
pub fn address(payload: &[u8]) -> Option<Address> {
    let &[family, _, flags, _, i0, i1, i2, i3] = payload.first_chunk::<IFADDRMSG>()?;
    if u32::from(flags) & (libc::IFA_F_TENTATIVE | libc::IFA_F_DADFAILED) != 0 {
        return None;
    }
    let (mut own, mut peer) = (None, None);
    for (kind, value) in attributes(payload.get(IFADDRMSG..)?) {
        match kind {
            libc::IFA_LOCAL => own = ip(family, value),
            // On a point-to-point link the other end; elsewhere, and for most of IPv6, our own.
            libc::IFA_ADDRESS => peer = ip(family, value),
            _ => {}
        }
    }
    Some(Address {
        interface: u32::from_ne_bytes([i0, i1, i2, i3]),
        ip: own.or(peer)?,
    })
}

/// The metric and interface of an RTM_NEWROUTE message that is a default route.
pub fn default_route(payload: &[u8]) -> Option<(u32, u32)> {
    let &[_, dst_len, _, _, table, _, _, kind, ..] = payload.first_chunk::<RTMSG>()?;
    if dst_len != 0 || table != libc::RT_TABLE_MAIN || kind != libc::RTN_UNICAST {
        return None;
    }
    let (mut metric, mut interface) = (0, None);
    for (kind, value) in attributes(payload.get(RTMSG..)?) {
        match kind {
            libc::RTA_PRIORITY => metric = number(value)?,
            libc::RTA_OIF => interface = number(value),
            _ => {}
        }
    }
    Some((metric, interface?))
}

/// Whether a datagram tells of anything new about an interface or its addresses.
pub fn concerns(datagram: &[u8], interface: u32) -> bool {
    messages(datagram).any(|message| match message.kind {
        libc::RTM_NEWLINK | libc::RTM_DELLINK | libc::RTM_NEWADDR | libc::RTM_DELADDR => {
            // Both have the interface's index at the same place.
            message.payload.get(4..).and_then(number) == Some(interface)
        }
        _ => false,
    })
}

/// A socket for questions.
pub struct RtnlClient {
    socket: Socket,
    buffer: Box<[u8]>,
    sequence: u32,
}

impl RtnlClient {
    pub fn open() -> io::Result<RtnlClient> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        Ok(RtnlClient {
            socket,
            buffer: vec![0; BUFFER].into(),
            sequence: 0,
        })
    }

    /// All interfaces.
    pub fn links(&mut self) -> io::Result<Vec<Link>> {
        self.list(libc::RTM_GETLINK, &[0; IFINFOMSG], libc::RTM_NEWLINK, link)
    }

    /// All addresses of all interfaces: IPv4, then IPv6, in the kernel's order.
    pub fn addresses(&mut self) -> io::Result<Vec<Address>> {
        let mut all = Vec::new();
        for family in [libc::AF_INET, libc::AF_INET6] {
            let mut fixed = [0; IFADDRMSG];
            fixed[0] = family as u8;
            all.extend(self.list(libc::RTM_GETADDR, &fixed, libc::RTM_NEWADDR, address)?);
        }
        Ok(all)
    }

    /// The interface of the default route: IPv4's, else IPv6's, of the smallest metric.
    pub fn default_interface(&mut self) -> io::Result<Option<u32>> {
        for family in [libc::AF_INET, libc::AF_INET6] {
            let mut fixed = [0; RTMSG];
            fixed[0] = family as u8;
            let routes = self.list(
                libc::RTM_GETROUTE,
                &fixed,
                libc::RTM_NEWROUTE,
                default_route,
            )?;
            if let Some((_, interface)) = routes.into_iter().min_by_key(|(metric, _)| *metric) {
                return Ok(Some(interface));
            }
        }
        Ok(None)
    }

    /// A whole table: what `pick` makes of its messages.
    fn list<T>(
        &mut self,
        request: u16,
        fixed: &[u8],
        kind: u16,
        pick: impl Fn(&[u8]) -> Option<T>,
    ) -> io::Result<Vec<T>> {
        for _ in 1..TRIES {
            if let (found, false) = self.list_once(request, fixed, kind, &pick)? {
                return Ok(found);
            }
        }
        // It never rests: better what there was than nothing.
        Ok(self.list_once(request, fixed, kind, &pick)?.0)
    }

    /// The second is whether the table changed meanwhile.
    fn list_once<T>(
        &mut self,
        request: u16,
        fixed: &[u8],
        kind: u16,
        pick: impl Fn(&[u8]) -> Option<T>,
    ) -> io::Result<(Vec<T>, bool)> {
        self.sequence = self.sequence.wrapping_add(1).max(1);
        let mut bytes = [vec![0; HEADER], fixed.to_vec()].concat();
        let len = bytes.len() as u32;
        let mut header = NetlinkBuffer::new(&mut bytes);
        header.set_length(len);
        header.set_message_type(request);
        header.set_flags(NLM_F_REQUEST | NLM_F_DUMP);
        header.set_sequence_number(self.sequence);
        self.socket.send(&bytes, 0)?;
        let (mut found, mut interrupted) = (Vec::new(), false);
        loop {
            let len = match self.socket.recv(&mut &mut self.buffer[..], 0) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                received => received?,
            };
            for message in messages(self.buffer.get(..len).unwrap_or_default()) {
                if message.sequence != self.sequence {
                    continue;
                }
                interrupted |= message.flags & NLM_F_DUMP_INTR != 0;
                match message.kind {
                    NLMSG_DONE => return Ok((found, interrupted)),
                    NLMSG_ERROR => {
                        let code = number(message.payload).unwrap_or_default() as i32;
                        return Err(io::Error::from_raw_os_error(code.saturating_neg()));
                    }
                    told if told == kind => found.extend(pick(message.payload)),
                    _ => {}
                }
            }
        }
    }
}

/// A socket on which the kernel tells of changes.
pub struct RtnlMonitor {
    socket: Socket,
    buffer: Box<[u8]>,
}

impl RtnlMonitor {
    pub fn open() -> io::Result<RtnlMonitor> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        for group in [
            libc::RTNLGRP_LINK,
            libc::RTNLGRP_IPV4_IFADDR,
            libc::RTNLGRP_IPV6_IFADDR,
        ] {
            socket.add_membership(group)?;
        }
        socket.set_non_blocking(true)?;
        Ok(RtnlMonitor {
            socket,
            buffer: vec![0; BUFFER].into(),
        })
    }

    pub fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// Hears all that there is to hear. Whether the interface or its addresses may have changed.
    pub fn hear(&mut self, interface: u32) -> bool {
        let mut changed = false;
        loop {
            match self.socket.recv(&mut &mut self.buffer[..], 0) {
                Ok(len) => {
                    let heard = self.buffer.get(..len).unwrap_or_default();
                    changed = changed || concerns(heard, interface);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // So much that something was lost.
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => changed = true,
                Err(_) => return changed,
            }
        }
    }
}

#[cfg(test)]
#[path = "rtnl_tests.rs"]
mod tests;
