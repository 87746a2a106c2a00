//! Receiving: reads datagrams by recvmmsg, splits those that the kernel has coalesced (UDP_GRO),
//! verifies packets and passes them to a [`Consumer`].
//!
//! Not here: the queue pair that a packet is for (`device/receiving.rs`), the IPv4 identifications
//! that it may have (`ip_id.rs`).
//!
//! Invariant: each datagram is passed on, or counted in `Dropped` by the reason why not.

use std::mem::{MaybeUninit, zeroed};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use ibverbs_abi::Errno;

use super::cmsg::{self, ControlBuffer, RecvMeta};
use super::ip_id::{IpIds, LAST_LOW_ID, Millis, is_low, may_follow};
use super::net::{CHANNELS_TOKEN, MONITOR_TOKEN, Net};
use super::socket::Socket;
use super::socket_table::SocketTable;
use super::zeroed_pages;
use crate::cancellation;
use crate::capture::{Direction, Frame};
use roce::engine::Addresses;
use roce::wire::{Flow, Fragmentation, MULTICAST_QPN, Packet, Transport, grh::IpHeader, ip_of};

/// The longest datagram, also of those that UDP_GRO has coalesced.
const DATAGRAM_MAX: usize = 1 << 16;
/// Sockets that one call of [`Net::receive`] receives from.
const SOCKETS_PER_CALL: usize = 16;
/// Calls that receive only from the socket with the most recent packets, before one calls epoll_wait for all.
const LAST_SOCKET_CALLS: u32 = 8;
/// The bits of the traffic class that are the ECN field (RFC 3168); all set: "congestion experienced".
const CE: u8 = 3;
/// The bits of a P_Key that must match the default partition's, 0xffff. The bit above says whether the sender
/// is a full or a limited member.
const PKEY_MASK: u16 = 0x7fff;
/// The index of the loopback interface, in every network namespace.
const LOOPBACK: u32 = 1;
/// The comment of packets that are dropped for that reason.
const WRONG_INTERFACE: &str = "dropped: came in through another interface";

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

/// Takes received packets.
pub trait Consumer {
    /// The comment on a packet, if packets are recorded. [`Consumer::packet`] follows.
    fn note(&mut self, packet: &Packet<'_>, from: &Addresses) -> Option<&'static str>;

    /// Takes a packet.
    fn packet(&mut self, packet: &Packet<'_>, from: &Addresses);
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
    /// [`Net::dropped`]. Returns the number of datagrams.
    ///
    /// Not every call checks every socket, so 0 does not mean that no packet is waiting: [`Net::fd`] is
    /// readable as long as one is.
    pub fn receive_by(&self, inbox: &mut Inbox, each: &mut dyn Consumer) -> usize {
        let Some(epoll) = self.fd() else { return 0 };
        let table = self.table();
        let last = table.receiver(inbox.last_socket);
        if last.is_some_and(|socket| !socket.is_ours()) {
            // With the socket, the program has closed the epoll descriptor.
            self.lost.store(true, Ordering::Relaxed);
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
            self.lost.store(true, Ordering::Relaxed);
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
            self.split(&arrival, datagram, &mut inbox.last_ip_id, each);
        }
        count
    }

    /// Handles the packets of a datagram: several if UDP_GRO has coalesced it.
    fn split(
        &self,
        arrival: &Arrival,
        datagram: &[u8],
        last_ip_id: &mut u16,
        each: &mut dyn Consumer,
    ) {
        let packet_len = match arrival.meta.gro_size {
            0 => datagram.len().max(1),
            gro_size => gro_size,
        };
        // A datagram to an address of this host comes in through the device's interface or the loopback
        // interface. What comes in through others may have any source address.
        if ![self.ifindex(), LOOPBACK].contains(&arrival.meta.ifindex) {
            self.dropped.interface.fetch_add(1, Ordering::Relaxed);
            for packet in datagram.chunks(packet_len) {
                self.record(arrival, packet, Fragmentation::SENT, Some(WRONG_INTERFACE));
            }
            return;
        }
        // uroce's datagrams have IP identification 0, and count up within a GSO buffer. Other senders count
        // up from datagram to datagram.
        let mut next_id = match *last_ip_id {
            0 => 0,
            last => last.wrapping_add(1),
        };
        let mut previous = None;
        for (i, packet) in datagram.chunks(packet_len).enumerate() {
            let Some(id) = self.deliver(arrival, packet, next_id, previous, each) else {
                continue;
            };
            if i == 0 || *last_ip_id != 0 {
                *last_ip_id = id;
            }
            previous = Some(id);
            next_id = id.wrapping_add(1);
        }
    }

    /// Checks a packet and passes it to `each`. Returns its IP identification, which the ICRC shows; the
    /// check is faster if that is `expected_id`. None if the packet is dropped. `previous`: the
    /// identification of the packet before it, if UDP_GRO has coalesced the two.
    fn deliver(
        &self,
        arrival: &Arrival,
        datagram: &[u8],
        expected_id: u16,
        previous: Option<u16>,
        each: &mut dyn Consumer,
    ) -> Option<u16> {
        let (packet, fragmentation) = match self.verify(arrival, datagram, expected_id, previous) {
            Ok(verified) => verified,
            Err(rejected) => {
                self.count_drop(arrival, datagram, &rejected);
                return None;
            }
        };
        let src = arrival.table.sender_gid(arrival.socket, arrival.from.ip());
        let local = &arrival.socket.local;
        let dst = local.peer_gid();
        let meta = &arrival.meta;
        let grh = match packet.deth() {
            Some(_) => IpHeader {
                src: local.in_grh(ip_of(&src)),
                dst: local.in_grh(ip_of(&dst)),
                traffic_class: meta.traffic_class,
                hop_limit: meta.hop_limit,
                flow_label: meta.flow_label,
                fragmentation,
                datagram_len: datagram.len(),
            }
            .grh(),
            None => [0; 40],
        };
        let addresses = Addresses {
            src,
            dst,
            src_port: arrival.from.port(),
            is_marked: meta.traffic_class & CE == CE,
            grh,
            pkey_index: 0,
        };
        if self.tap.is_some() {
            let note = each.note(&packet, &addresses);
            self.record(arrival, datagram, fragmentation, note);
        }
        each.packet(&packet, &addresses);
        Some(fragmentation.id)
    }

    /// Checks a packet: headers, ICRC, destination, P_Key. Returns it with the identification that its sender
    /// used.
    #[inline]
    fn verify<'a>(
        &self,
        arrival: &Arrival,
        datagram: &'a [u8],
        expected_id: u16,
        previous: Option<u16>,
    ) -> Result<(Packet<'a>, Fragmentation), Rejected> {
        let sent = Fragmentation::SENT;
        let packet = Packet::parse(datagram).map_err(|_| Rejected(DropReason::Malformed, sent))?;
        let found = arrival.flow().check_expecting(datagram, expected_id);
        let fragmentation = found.ok_or(Rejected(DropReason::Icrc, sent))?;
        if !self.may_have(arrival, &packet, fragmentation, datagram.len(), previous) {
            return Err(Rejected(DropReason::Icrc, fragmentation));
        }
        // A queue pair's own number is valid at the device's addresses only, the multicast number in groups
        // only.
        let to_group = arrival.socket.local.ip.is_multicast();
        if to_group != (packet.bth.dest_qpn == MULTICAST_QPN) {
            return Err(Rejected(DropReason::Malformed, fragmentation));
        }
        if packet.bth.pkey & PKEY_MASK != PKEY_MASK {
            return Err(Rejected(DropReason::Pkey, fragmentation));
        }
        Ok((packet, fragmentation))
    }

    /// The time at which a datagram arrived. A process that the host does not run for a while
    /// receives packets at once that were sent with pauses, in which the sender may have skipped
    /// identifications.
    fn arrival_time(&self, meta: &RecvMeta) -> Millis {
        let now = self.opened.elapsed();
        let ago = meta.arrived.map_or(Duration::ZERO, |arrived| {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            now.unwrap_or_default().saturating_sub(arrived)
        });
        Millis(now.saturating_sub(ago).as_millis() as u64)
    }

    #[cold]
    fn count_drop(&self, arrival: &Arrival, datagram: &[u8], rejected: &Rejected) {
        let Rejected(reason, fragmentation) = rejected;
        let (counter, note) = match reason {
            DropReason::Malformed => (&self.dropped.malformed, "dropped: malformed"),
            DropReason::Icrc => (&self.dropped.icrc, "dropped: wrong ICRC"),
            DropReason::Pkey => (&self.dropped.pkey, "dropped: unknown P_Key"),
        };
        counter.fetch_add(1, Ordering::Relaxed);
        self.record(arrival, datagram, *fragmentation, Some(note));
    }

    /// Records a received packet, if packets are recorded.
    #[cold]
    fn record(
        &self,
        arrival: &Arrival,
        datagram: &[u8],
        fragmentation: Fragmentation,
        note: Option<&str>,
    ) {
        let Some(tap) = &self.tap else { return };
        let meta = &arrival.meta;
        let frame = Frame {
            flow: arrival.flow(),
            traffic_class: meta.traffic_class,
            hop_limit: meta.hop_limit,
            flow_label: meta.flow_label,
            fragmentation,
            datagram,
        };
        tap.record(SystemTime::now(), Direction::Received, &frame, note);
    }

    /// Whether the sender may have sent the packet with these values in the IPv4 header. If not, the packet
    /// was damaged: see `ip_id.rs`.
    fn may_have(
        &self,
        arrival: &Arrival,
        packet: &Packet,
        found: Fragmentation,
        len: usize,
        previous: Option<u16>,
    ) -> bool {
        let (IpAddr::V4(src), IpAddr::V4(dst)) = (arrival.from.ip(), arrival.socket.local.ip)
        else {
            return true;
        };
        let low = found.dont_fragment && found.id <= LAST_LOW_ID;
        if low && is_low(found, len) && may_follow(found.id, previous) {
            return arrival.socket.ids != IpIds::Others;
        }
        let now = self.arrival_time(&arrival.meta);
        let mut senders = self.senders.lock();
        match arrival.socket.ids {
            // Senders that count reach these values too, when their numbers wrap around.
            IpIds::Low | IpIds::Any if low => senders.continues((src, dst), found, now),
            IpIds::Others | IpIds::Any if !low => {
                let transport = packet.bth.opcode.parts().map(|parts| parts.0);
                let unreliable = matches!(transport, Some(Transport::Uc | Transport::Ud));
                senders.accepts((src, dst), found, now, unreliable)
            }
            _ => false,
        }
    }
}

/// Why a packet is dropped, and the IPv4 identification that it seems to have.
struct Rejected(DropReason, Fragmentation);

enum DropReason {
    /// See [`super::net::Dropped`].
    Malformed,
    Icrc,
    Pkey,
}

/// The origin of a datagram, and the socket through which it came.
struct Arrival<'a> {
    table: &'a SocketTable,
    socket: &'a Socket,
    from: SocketAddr,
    meta: RecvMeta,
}

impl Arrival<'_> {
    fn flow(&self) -> Flow {
        Flow {
            src: self.from.ip(),
            dst: self.socket.local.ip,
            src_port: self.from.port(),
            dst_port: self.socket.port,
        }
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
