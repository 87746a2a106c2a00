//! Receiving.

use std::mem::{MaybeUninit, zeroed};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::cmsg::{self, Control, RecvMeta};
use super::net::{Net, Table, WATCH};
use super::socket::Socket;
use crate::engine::Addresses;
use crate::wire::{Flow, Packet, gid_of, grh::IpHeader};

/// The longest datagram, also of those that the kernel puts together.
const DATAGRAM: usize = 1 << 16;
/// Sockets that one call receives from at most.
const SOCKETS: usize = 16;
/// How often the socket that had the last packets is asked, alone, before all others are looked at.
const TURNS: u32 = 8;
/// The two P_Keys that match ours, 0xffff: the bit above is the membership.
const PKEY: u16 = 0x7fff;

/// Buffers to receive into. One per thread that makes progress, reused.
pub struct Inbox {
    buffers: Box<[u8]>,
    /// The socket that had the last packets, and how often it has been asked since.
    last: usize,
    turns: u32,
    /// The IP identification of the last packet, if its sender numbers datagrams (others have 0).
    numbered: u16,
}

impl Inbox {
    /// Datagrams that one system call receives at most.
    pub const BATCH: usize = 8;

    pub fn new() -> Inbox {
        Inbox {
            // Zeroed pages: those that are never received into take no memory.
            buffers: vec![0; Inbox::BATCH * DATAGRAM].into(),
            last: 0,
            turns: 0,
            numbered: 0,
        }
    }

    /// The next call looks at every socket.
    pub fn look_everywhere(&mut self) {
        self.turns = TURNS;
    }
}

impl Default for Inbox {
    fn default() -> Inbox {
        Inbox::new()
    }
}

impl Net {
    /// Receives without blocking, a bounded number of packets; hands each that is whole (length,
    /// headers, ICRC, destination ours, P_Key 0xffff) to `each`. Returns how many datagrams came. Not
    /// every call looks at every socket: as long as [`Net::fd`] is readable, there is something.
    pub fn receive(
        &self,
        inbox: &mut Inbox,
        each: &mut dyn FnMut(&Packet<'_>, &Addresses),
    ) -> usize {
        let table = self.table();
        if inbox.turns < TURNS
            && let Some(socket) = receiver(&table, inbox.last)
        {
            inbox.turns += 1;
            return self.receive_from(&table, socket, inbox, each);
        }
        inbox.turns = 0;
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; SOCKETS];
        // SAFETY: the events are ours, as many as told.
        let ready = unsafe { libc::epoll_wait(self.fd(), events.as_mut_ptr(), SOCKETS as i32, 0) };
        let mut count = 0;
        for event in events.iter().take(ready.max(0) as usize) {
            if event.u64 == WATCH {
                self.told.store(true, Ordering::Release);
                continue;
            }
            inbox.last = event.u64 as usize;
            if let Some(socket) = receiver(&table, inbox.last) {
                count += self.receive_from(&table, socket, inbox, each);
            }
        }
        count
    }

    fn receive_from(
        &self,
        table: &Table,
        socket: &Socket,
        inbox: &mut Inbox,
        each: &mut dyn FnMut(&Packet<'_>, &Addresses),
    ) -> usize {
        let mut controls = [const { Control::new() }; Inbox::BATCH];
        let mut names = [const { MaybeUninit::<libc::sockaddr_in6>::zeroed() }; Inbox::BATCH];
        let mut vectors = [const { MaybeUninit::<libc::iovec>::uninit() }; Inbox::BATCH];
        // SAFETY: zeros are valid for these structures of numbers and pointers.
        let mut headers: [libc::mmsghdr; Inbox::BATCH] = unsafe { zeroed() };
        let buffers = inbox.buffers.chunks_exact_mut(DATAGRAM);
        for ((((header, name), control), vector), buffer) in headers
            .iter_mut()
            .zip(&mut names)
            .zip(&mut controls)
            .zip(&mut vectors)
            .zip(buffers)
        {
            let vector = vector.write(libc::iovec {
                iov_base: buffer.as_mut_ptr().cast(),
                iov_len: buffer.len(),
            });
            header.msg_hdr.msg_name = name.as_mut_ptr().cast();
            header.msg_hdr.msg_namelen = size_of::<libc::sockaddr_in6>() as u32;
            header.msg_hdr.msg_iov = vector;
            header.msg_hdr.msg_iovlen = 1;
            header.msg_hdr.msg_control = control.as_mut_ptr();
            header.msg_hdr.msg_controllen = Control::LEN;
        }
        // SAFETY: each header leads to a name, a buffer and control bytes of this call's own, of the
        // lengths told; nobody else uses them meanwhile.
        let count = unsafe {
            libc::recvmmsg(
                socket.fd().as_raw_fd(),
                headers.as_mut_ptr(),
                Inbox::BATCH as u32,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
            )
        };
        let count = usize::try_from(count).unwrap_or(0);
        let buffers = inbox.buffers.chunks_exact(DATAGRAM);
        for ((header, name), buffer) in headers.iter().zip(&names).zip(buffers).take(count) {
            // SAFETY: any bytes are such an address; those that the kernel did not write are zeros.
            let name = unsafe { name.assume_init_ref() };
            // SAFETY: recvmmsg has just filled the header, and the control buffer is still there.
            let told = unsafe { cmsg::read(&header.msg_hdr) };
            let Some(from) = sender(name) else { continue };
            let datagram = buffer.get(..header.msg_len as usize).unwrap_or_default();
            let segment = match told.segment {
                0 => datagram.len().max(1),
                segment => segment,
            };
            // Ours have 0 and count on within a buffer; others count on from datagram to datagram.
            let mut next = match inbox.numbered {
                0 => 0,
                last => last.wrapping_add(1),
            };
            for (i, packet) in datagram.chunks(segment).enumerate() {
                let found = self.packet(table, socket, from, &told, packet, next, each);
                let Some(id) = found else { continue };
                if i == 0 || inbox.numbered != 0 {
                    inbox.numbered = id;
                }
                next = id.wrapping_add(1);
            }
        }
        count
    }

    /// Checks a packet and hands it on. Returns its IP identification, of which `expected` is a guess;
    /// None if it is bad.
    #[expect(clippy::too_many_arguments)]
    fn packet(
        &self,
        table: &Table,
        socket: &Socket,
        from: SocketAddr,
        told: &RecvMeta,
        datagram: &[u8],
        expected: u16,
        each: &mut dyn FnMut(&Packet<'_>, &Addresses),
    ) -> Option<u16> {
        let flow = Flow {
            src: from.ip(),
            dst: socket.slot.ip,
            src_port: from.port(),
            dst_port: socket.port,
        };
        let Ok(packet) = Packet::parse(datagram) else {
            self.dropped.malformed.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        let Some(fragmentation) = flow.check_expecting(datagram, expected) else {
            self.dropped.icrc.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        if packet.headers.bth.pkey & PKEY != PKEY {
            self.dropped.pkey.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        let (src, dst) = (source(table, socket, from.ip()), socket.slot.gid);
        let grh = match packet.headers.deth {
            Some(_) => IpHeader {
                src: crate::wire::ip_of(&src),
                dst: crate::wire::ip_of(&dst),
                traffic_class: told.traffic_class,
                hop_limit: told.hop_limit,
                flow_label: told.flow_label,
                fragmentation,
                datagram_len: datagram.len(),
            }
            .grh(),
            None => [0; 40],
        };
        let addresses = Addresses {
            src,
            dst,
            grh,
            pkey_index: 0,
        };
        each(&packet, &addresses);
        Some(fragmentation.id)
    }
}

fn receiver(table: &Table, place: usize) -> Option<&Arc<Socket>> {
    table.receivers.get(place)?.as_ref()
}

/// The GID of a sender: its address, or what the address stands for on this host.
fn source(table: &Table, socket: &Socket, ip: IpAddr) -> [u8; 16] {
    if socket.slot.ip == ip {
        return socket.slot.gid;
    }
    match table.slots.first() {
        Some(Some(first)) if first.ip == ip => first.gid,
        _ => gid_of(ip),
    }
}

/// Who sent a datagram.
fn sender(name: &libc::sockaddr_in6) -> Option<SocketAddr> {
    match i32::from(name.sin6_family) {
        libc::AF_INET6 => {
            let ip = std::net::Ipv6Addr::from(name.sin6_addr.s6_addr);
            Some((ip, u16::from_be(name.sin6_port)).into())
        }
        libc::AF_INET => {
            // In a sockaddr_in, the address stands where the other has the flow label.
            let ip = std::net::Ipv4Addr::from(name.sin6_flowinfo.to_ne_bytes());
            Some((ip, u16::from_be(name.sin6_port)).into())
        }
        _ => None,
    }
}
