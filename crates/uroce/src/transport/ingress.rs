//! [`Ingress`]: what is checked of received datagrams, and what becomes of them.
//!
//! Not here: reading datagrams from sockets (`inbox.rs`), the queue pair that a packet is for
//! (`device/receiving.rs`), the IPv4 identifications that it may have (`ip_id.rs`).
//!
//! Invariant: each datagram is passed on, or counted in `Dropped` by the reason why not.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use super::cmsg::RecvMeta;
use super::ip_id::{AddressPair, IpIds, LAST_LOW_ID, Millis, Senders, is_low, may_follow};
use super::socket::Socket;
use super::socket_table::SocketTable;
use crate::capture::{Direction, Frame, Tap};
use crate::sync::Mutex;
use roce::engine::Addresses;
use roce::wire::{Flow, Fragmentation, MULTICAST_QPN, Packet, Transport, grh::IpHeader, ip_of};

/// The bits of the traffic class that are the ECN field (RFC 3168); all set: "congestion experienced".
const CE: u8 = 3;
/// The bits of a P_Key that must match the default partition's, 0xffff. The bit above says whether the sender
/// is a full or a limited member.
const PKEY_MASK: u16 = 0x7fff;
/// The index of the loopback interface, in every network namespace.
const LOOPBACK: u32 = 1;
/// The comment of packets that are dropped for that reason.
const WRONG_INTERFACE: &str = "dropped: came in through another interface";

/// Takes received packets.
pub trait Consumer {
    /// The comment on a packet, if packets are recorded. [`Consumer::packet`] follows.
    fn note(&mut self, packet: &Packet<'_>, from: &Addresses) -> Option<&'static str>;

    /// Takes a packet.
    fn packet(&mut self, packet: &Packet<'_>, from: &Addresses);
}

/// Counters of dropped datagrams.
#[derive(Debug, Default)]
pub struct Dropped {
    /// Headers or lengths that no RoCEv2 packet has.
    pub malformed: AtomicU64,
    /// Wrong ICRC, or right only for an IPv4 header that the sender did not send.
    pub icrc: AtomicU64,
    /// A P_Key other than the default one.
    pub pkey: AtomicU64,
    /// The number of packets that came in through another interface.
    pub interface: AtomicU64,
    /// The device has no queue pair of that number.
    pub queue_pair: AtomicU64,
}

impl Dropped {
    /// Counts a packet for a queue pair that the device does not have.
    #[cold]
    pub fn count_without_queue_pair(&self) {
        self.queue_pair.fetch_add(1, Ordering::Relaxed);
    }
}

/// A peer of a connected queue pair, by its addresses. To be returned by [`Ingress::disconnect`].
#[derive(Debug, PartialEq, Eq)]
pub struct ConnectedPeer(AddressPair);

/// The checks of a device's received datagrams. Thread-safe.
pub struct Ingress {
    ifindex: u32,
    /// Where packets are recorded, if they are.
    tap: Option<Tap>,
    /// Times are counted from here.
    opened: Instant,
    /// Locked only for packets of senders that number them, which are not uroce's.
    senders: Mutex<Senders>,
    /// Packets that were dropped, by reason.
    pub dropped: Dropped,
}

impl Ingress {
    /// For the device of that interface.
    pub fn new(ifindex: u32, tap: Option<Tap>) -> Ingress {
        Ingress {
            ifindex,
            tap,
            opened: Instant::now(),
            senders: Mutex::new(Senders::new()),
            dropped: Dropped::default(),
        }
    }

    /// Where packets are recorded, if they are.
    pub fn tap(&self) -> Option<&Tap> {
        self.tap.as_ref()
    }

    /// A queue pair is connected: `flow` is that of the packets that it sends. None if nothing is to be known
    /// of its peer.
    pub fn connect(&self, flow: &Flow) -> Option<ConnectedPeer> {
        let (IpAddr::V4(own), IpAddr::V4(peer)) = (flow.src, flow.dst) else {
            return None;
        };
        let pair = (peer, own);
        self.senders
            .lock()
            .connect(pair)
            .then_some(ConnectedPeer(pair))
    }

    /// The queue pair is not connected any more.
    pub fn disconnect(&self, peer: Option<ConnectedPeer>) {
        if let Some(ConnectedPeer(pair)) = peer {
            self.senders.lock().disconnect(pair);
        }
    }

    /// How many peers there are.
    #[cfg(test)]
    pub fn connected_peers(&self) -> usize {
        self.senders.lock().connected()
    }

    /// Handles the packets of a datagram: several if UDP_GRO has coalesced it.
    pub fn split(
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
        if ![self.ifindex, LOOPBACK].contains(&arrival.meta.ifindex) {
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
            Err(Rejected(counter, note, fragmentation)) => {
                counter.fetch_add(1, Ordering::Relaxed);
                self.record(arrival, datagram, fragmentation, Some(note));
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
    ) -> Result<(Packet<'a>, Fragmentation), Rejected<'_>> {
        let malformed = |sent| Rejected(&self.dropped.malformed, "dropped: malformed", sent);
        let wrong_icrc = |sent| Rejected(&self.dropped.icrc, "dropped: wrong ICRC", sent);
        let packet = Packet::parse(datagram).map_err(|_| malformed(Fragmentation::SENT))?;
        let found = arrival.flow().check_expecting(datagram, expected_id);
        let fragmentation = found.ok_or_else(|| wrong_icrc(Fragmentation::SENT))?;
        if !self.may_have(arrival, &packet, fragmentation, datagram.len(), previous) {
            return Err(wrong_icrc(fragmentation));
        }
        // A queue pair's own number is valid at the device's addresses only, the multicast number in groups
        // only.
        let to_group = arrival.socket.local.ip.is_multicast();
        if to_group != (packet.bth.dest_qpn == MULTICAST_QPN) {
            return Err(malformed(fragmentation));
        }
        if packet.bth.pkey & PKEY_MASK != PKEY_MASK {
            let note = "dropped: unknown P_Key";
            return Err(Rejected(&self.dropped.pkey, note, fragmentation));
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

/// Where a dropped packet is counted, the comment on it, and the IPv4 identification that it seems to have.
struct Rejected<'a>(&'a AtomicU64, &'static str, Fragmentation);

/// The origin of a datagram, and the socket through which it came.
pub struct Arrival<'a> {
    pub table: &'a SocketTable,
    pub socket: &'a Socket,
    pub from: SocketAddr,
    pub meta: RecvMeta,
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
