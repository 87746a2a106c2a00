//! Receiving: reads datagrams by recvmmsg, and passes their packets to a [`Consumer`].
//!
//! Not here: those that the kernel has coalesced (UDP_GRO), and which packets are valid (`ingress.rs`).

use std::mem::{MaybeUninit, zeroed};
use std::net::SocketAddr;
use std::sync::atomic::Ordering;

use ibverbs_abi::Errno;

use super::cmsg::{self, ControlBuffer};
use super::ingress::{Arrival, Consumer};
use super::net::{CHANNELS_TOKEN, MONITOR_TOKEN, Net};
use super::socket::Socket;
use super::socket_table::SocketTable;
use super::zeroed_pages;
use crate::cancellation;
use roce::engine::Addresses;
use roce::wire::Packet;

/// The longest datagram, also of those that UDP_GRO has coalesced.
const DATAGRAM_MAX: usize = 1 << 16;
/// Sockets that one call of [`Net::receive`] receives from.
const SOCKETS_PER_CALL: usize = 16;
/// Calls that receive only from the socket with the most recent packets, before one calls epoll_wait for all.
const LAST_SOCKET_CALLS: u32 = 8;

/// Buffers to receive into, and which socket to try first. One per thread that makes progress, reused.
pub struct Inbox {
    buffers: Box<[u8]>,
    /// The epoll token of the socket with the most recent packets.
    last_socket: usize,
    /// Calls since then that received from that socket only.
    last_socket_calls: u32,
    /// The IP identification of the last packet, if its sender numbers its datagrams; else 0.
    last_ip_id: u16,
}

impl Inbox {
    /// Datagrams that one system call receives at most.
    pub const BATCH: usize = 8;

    /// An inbox, for tests, which have memory.
    #[cfg(test)]
    pub fn new() -> Inbox {
        Inbox::try_new().unwrap()
    }

    /// An inbox; None if there is no memory for its buffers.
    pub fn try_new() -> Option<Inbox> {
        Some(Inbox {
            buffers: zeroed_pages(Inbox::BATCH * DATAGRAM_MAX)?,
            last_socket: 0,
            last_socket_calls: 0,
            last_ip_id: 0,
        })
    }

    /// Makes the next call of [`Net::receive`] check every socket.
    pub fn poll_all_sockets(&mut self) {
        self.last_socket_calls = LAST_SOCKET_CALLS;
    }
}

/// A consumer without comments.
struct Plain<'a>(&'a mut dyn FnMut(&Packet<'_>, &Addresses));

impl Consumer for Plain<'_> {
    fn note(&mut self, _: &Packet<'_>, _: &Addresses) -> Option<&'static str> {
        None
    }

    fn packet(&mut self, packet: &Packet<'_>, from: &Addresses) {
        (self.0)(packet, from);
    }
}

impl Net {
    /// [`Net::receive_by`] with a function.
    pub fn receive(
        &self,
        inbox: &mut Inbox,
        each: &mut dyn FnMut(&Packet<'_>, &Addresses),
    ) -> usize {
        self.receive_by(inbox, &mut Plain(each))
    }

    /// Receives a bounded number of datagrams without blocking. Passes each packet with valid length,
    /// headers, ICRC, destination address and P_Key (0xffff) to `each`, and counts the others in
    /// `Dropped`. Returns the number of datagrams.
    ///
    /// Not every call checks every socket, so 0 does not mean that no packet is waiting: [`Net::fd`] is
    /// readable as long as one is.
    pub fn receive_by(&self, inbox: &mut Inbox, each: &mut dyn Consumer) -> usize {
        let Some(epoll) = self.fd() else { return 0 };
        let table = self.table();
        let last = table.receiver(inbox.last_socket);
        if last.is_some_and(|socket| !socket.is_ours()) {
            // With the socket, the program has closed the epoll descriptor.
            self.sockets.lose();
            return 0;
        }
        if inbox.last_socket_calls < LAST_SOCKET_CALLS {
            if let Some(socket) = last {
                inbox.last_socket_calls += 1;
                return self.receive_from(&table, socket, inbox, each);
            }
        }
        inbox.last_socket_calls = 0;
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; SOCKETS_PER_CALL];
        let ready = cancellation::epoll_poll(epoll, &mut events);
        if ready < 0 && Errno::last() != Errno(libc::EINTR) {
            self.sockets.lose();
        }
        let mut count = 0;
        for event in events.iter().take(ready.max(0) as usize) {
            if event.u64 == MONITOR_TOKEN {
                self.monitor_readable.store(true, Ordering::Release);
                continue;
            }
            if event.u64 == CHANNELS_TOKEN {
                self.channels_readable.store(true, Ordering::Release);
                continue;
            }
            inbox.last_socket = event.u64 as usize;
            if let Some(socket) = table.receiver(inbox.last_socket) {
                count += self.receive_from(&table, socket, inbox, each);
            }
        }
        count
    }

    /// Receives up to [`Inbox::BATCH`] datagrams from a socket.
    fn receive_from(
        &self,
        table: &SocketTable,
        socket: &Socket,
        inbox: &mut Inbox,
        each: &mut dyn Consumer,
    ) -> usize {
        let mut controls = [const { ControlBuffer::new() }; Inbox::BATCH];
        let mut names = [const { MaybeUninit::<libc::sockaddr_in6>::zeroed() }; Inbox::BATCH];
        let mut vectors = [const { MaybeUninit::<libc::iovec>::uninit() }; Inbox::BATCH];
        // SAFETY: mmsghdr consists of integers and pointers, for which zero bytes are valid.
        let mut headers: [libc::mmsghdr; Inbox::BATCH] = unsafe { zeroed() };
        let buffers = inbox.buffers.chunks_exact_mut(DATAGRAM_MAX);
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
            header.msg_hdr.msg_controllen = ControlBuffer::LEN as _;
        }
        // SAFETY: each header points to a name, a buffer and control bytes of the lengths that it gives. They
        // are locals, or borrowed exclusively with `inbox`, and outlive the call.
        let count = unsafe {
            cancellation::recvmmsg(
                socket.fd(),
                headers.as_mut_ptr(),
                Inbox::BATCH as u32,
                libc::MSG_DONTWAIT,
            )
        };
        let count = usize::try_from(count).unwrap_or(0);
        let buffers = inbox.buffers.chunks_exact(DATAGRAM_MAX);
        for ((header, name), buffer) in headers.iter().zip(&names).zip(buffers).take(count) {
            // SAFETY: sockaddr_in6 consists of integers; the bytes that the kernel did not write are zeros.
            let name = unsafe { name.assume_init_ref() };
            // SAFETY: recvmmsg has just filled the header, and its control buffer is a local that still
            // lives.
            let meta = unsafe { cmsg::read(&header.msg_hdr) };
            let Some(from) = sender(name) else { continue };
            let datagram = buffer.get(..header.msg_len as usize).unwrap_or_default();
            let arrival = Arrival {
                table,
                socket,
                from,
                meta,
            };
            self.ingress
                .split(&arrival, datagram, &mut inbox.last_ip_id, each);
        }
        count
    }
}

/// The sender of a datagram; None for an address family other than IPv4 and IPv6.
fn sender(name: &libc::sockaddr_in6) -> Option<SocketAddr> {
    match i32::from(name.sin6_family) {
        libc::AF_INET6 => {
            let ip = std::net::Ipv6Addr::from(name.sin6_addr.s6_addr);
            Some((ip, u16::from_be(name.sin6_port)).into())
        }
        libc::AF_INET => {
            // A sockaddr_in has the address where a sockaddr_in6 has the flow label.
            let ip = std::net::Ipv4Addr::from(name.sin6_flowinfo.to_ne_bytes());
            Some((ip, u16::from_be(name.sin6_port)).into())
        }
        _ => None,
    }
}
