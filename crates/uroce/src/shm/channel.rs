//! A channel: the shared memory between this process and one endpoint of another, and the connection that
//! wakes the peer up and shows that it is gone.
//!
//! Not here: the layout of a ring (`ring.rs`), the choice of the queue pairs that use the channel
//! (`device/peer_channels.rs`).

mod sender;

use std::net::IpAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

pub use sender::{Sender, Unlocked};

use super::Receiver;
use super::handshake;
use super::peer_memory::{Access, Connection, PeerMemory};
use super::ring::{Broken, Consumer, Producer, Record, Released};
use super::segment::Segment;
use crate::direct::Request;
use crate::sync::Mutex;
use roce::engine::{Addresses, Fragment, Gid};
use roce::wire::{
    Flow, Fragmentation, ICRC_LEN, MULTICAST_QPN, Opcode, Packet,
    grh::{GrhTemplate, IpHeader},
};

/// Packets that one call of [`Channel::receive`] takes at most.
const PACKETS_PER_CALL: usize = 64;
/// One call of [`Channel::receive`] takes no more packets after this number of bytes that the
/// receiver copies: the program is to see what is complete.
const COPIED_PER_CALL: usize = 1 << 20;
/// The hop limit in the GRH of a datagram: Linux's default, as over UDP.
pub(super) const HOP_LIMIT: u8 = 64;
/// The queue pair of management datagrams, which come by UDP only.
const GSI_QPN: u32 = 1;
const SMI_QPN: u32 = 0;
/// The tag of a record with a fragment. That of one with a datagram is the datagram's traffic class.
const FRAGMENT_TAG: u16 = 1 << 8;

/// The two ends of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// The flow from this process to the peer.
    pub flow: Flow,
    /// The GID of this process's end.
    pub gid: Gid,
    /// The GID of the peer's end, as the receiver of a packet sees it.
    pub peer_gid: Gid,
    /// The addresses of both ends as in a GRH: this process's, then the peer's.
    pub in_grh: [IpAddr; 2],
}

/// A channel. Thread-safe.
pub struct Channel {
    ends: Ends,
    /// The addresses of received packets, but without a GRH.
    addresses: Addresses,
    /// The GRH of received datagrams.
    grh: GrhTemplate,
    segment: Segment,
    connection: Connection,
    /// None: only its responder accesses it.
    peer_memory: Option<PeerMemory>,
    producer: Mutex<Producer>,
    consumer: Mutex<Consumer>,
    /// [`Consumer::position`], for those who do not have the lock.
    position: AtomicU64,
    /// The peer has hung up. What it sent before is still received.
    dead: AtomicBool,
    /// The peer is gone, and the device knows.
    retired: AtomicBool,
    /// The peer is gone, and all that it had sent is received.
    ended: AtomicBool,
    /// The peer has written invalid data: nothing more is received.
    broken: AtomicBool,
    /// The channel is fresh: nothing has been received yet.
    fresh: AtomicBool,
    /// Packets sent and received. Written with the locks of producer and consumer.
    sent: AtomicU64,
    received: AtomicU64,
}

impl Channel {
    /// A channel whose peer has agreed.
    pub fn new(
        ends: Ends,
        segment: Segment,
        connection: Connection,
        peer_memory: Option<PeerMemory>,
    ) -> Channel {
        Channel {
            ends,
            addresses: Addresses {
                src: ends.peer_gid,
                dst: ends.gid,
                src_port: ends.flow.dst_port,
                is_marked: false,
                grh: [0; 40],
                pkey_index: 0,
            },
            grh: GrhTemplate::new(&IpHeader {
                src: ends.in_grh[1],
                dst: ends.in_grh[0],
                traffic_class: 0,
                hop_limit: HOP_LIMIT,
                flow_label: 0,
                fragmentation: Fragmentation::SENT,
                datagram_len: 0,
            }),
            producer: Mutex::new(Producer::new(segment.key())),
            consumer: Mutex::new(Consumer::new(segment.key())),
            segment,
            connection,
            peer_memory,
            position: AtomicU64::new(0),
            dead: AtomicBool::new(false),
            retired: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            broken: AtomicBool::new(false),
            fresh: AtomicBool::new(true),
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
        }
    }

    /// The GID of this process, as its packets have it.
    pub fn gid(&self) -> Gid {
        self.ends.gid
    }

    /// The flow from this process to the peer.
    pub fn flow(&self) -> &Flow {
        &self.ends.flow
    }

    /// Begins to access the peer's memory. None if this process cannot, or has too many accesses in progress.
    #[inline]
    pub fn begin_access<'a>(&'a self, request: &'a Request) -> Option<Access<'a>> {
        let memory = self.peer_memory.as_ref()?;
        if self.is_dead() {
            return None;
        }
        memory.begin(request, &self.segment)
    }

    /// Whether this process could make an access to the peer's memory now. Nothing is announced: that may
    /// change at any time.
    #[inline]
    pub fn grants(&self, request: &Request) -> bool {
        let memory = self.peer_memory.as_ref();
        !self.is_dead() && memory.is_some_and(|memory| memory.grants(request))
    }

    /// The connection's descriptor.
    pub(super) fn fd(&self) -> RawFd {
        self.connection.as_raw_fd()
    }

    /// Packets sent and received.
    pub fn counts(&self) -> (u64, u64) {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (read(&self.sent), read(&self.received))
    }

    /// Whether nothing can be sent any more.
    #[inline]
    pub fn is_dead(&self) -> bool {
        self.dead.load(Ordering::Relaxed)
    }

    /// The peer is gone.
    pub(super) fn set_dead(&self) {
        self.dead.store(true, Ordering::Relaxed);
    }

    /// Whether [`super::Channels::take_dead`] has returned the channel.
    pub(super) fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Relaxed)
    }

    pub(super) fn retire(&self) {
        self.retired.store(true, Ordering::Relaxed);
    }

    /// Whether the peer is gone for good: nothing that it has sent is left.
    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// All that the dead channel carried is received, and no other channel leads to the peer.
    pub(super) fn set_ended(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }

    /// Whether a packet waits to be received.
    #[inline]
    pub fn has_packet(&self) -> bool {
        let position = self.position.load(Ordering::Relaxed);
        self.segment
            .incoming()
            .has_record(self.segment.key(), position)
            && !self.broken.load(Ordering::Relaxed)
    }

    /// Whether nothing has been received yet. True once.
    pub(super) fn take_first_receive(&self) -> bool {
        self.fresh.load(Ordering::Relaxed) && self.fresh.swap(false, Ordering::AcqRel)
    }

    pub(super) fn is_fresh(&self) -> bool {
        self.fresh.load(Ordering::Relaxed)
    }

    /// Locks the channel for sending. None if another thread has it locked for `limit`.
    pub fn sender(&self, limit: Duration) -> Option<Sender<'_>> {
        let producer = match self.producer.try_lock() {
            Some(producer) => producer,
            None if limit.is_zero() => return None,
            None => self.producer.try_lock_for(limit)?,
        };
        Some(Sender::new(self, producer))
    }

    /// Whether the peer has received what was sent before this position of a [`Sender`]. It may lie.
    pub fn has_delivered(&self, position: u64) -> bool {
        self.segment.outgoing().has_released(position)
    }

    /// Wakes the peer up.
    pub fn wake_peer(&self) {
        // The program may have closed it, and have a socket of its own with the number.
        if self.connection.is_unchanged() {
            handshake::send_byte(self.fd());
        }
    }

    /// Passes packets to `receiver`. Returns their number: 0 if there are none, or another thread receives.
    pub fn receive(&self, receiver: &mut impl Receiver) -> usize {
        let Some(mut consumer) = self.consumer.try_lock() else {
            return 0;
        };
        let ring = self.segment.incoming();
        let (mut count, mut copied) = (0, 0);
        while count < PACKETS_PER_CALL && copied < COPIED_PER_CALL {
            let popped = consumer.pop(ring, |record| self.deliver(record, receiver));
            match popped {
                Ok(Some(bytes)) => copied += bytes,
                Ok(None) => break,
                Err(Broken) => {
                    self.set_broken();
                    break;
                }
            }
            count += 1;
            self.position.store(consumer.position(), Ordering::Relaxed);
        }
        let received = self.received.load(Ordering::Relaxed) + count as u64;
        self.received.store(received, Ordering::Relaxed);
        let released = consumer.publish(ring);
        drop(consumer);
        if released == Released::Much
            && ring.take_starved()
            && self.segment.outgoing().take_asleep()
        {
            self.wake_peer();
        }
        count
    }

    /// The peer has written what no correct one does: nothing more is received.
    #[cold]
    fn set_broken(&self) {
        self.broken.store(true, Ordering::Relaxed);
        self.hang_up();
    }

    /// Passes what a record has to `receiver`. The checks of a datagram are those of one that comes by UDP.
    /// Returns the number of bytes of it.
    #[inline(always)]
    fn deliver(&self, record: &Record<'_>, receiver: &mut impl Receiver) -> usize {
        if record.tag != FRAGMENT_TAG {
            return self.deliver_datagram(record, receiver);
        }
        let Some(fragment) = Fragment::parse(&record.line, record.body) else {
            return 0;
        };
        receiver.fragment(&fragment, &self.addresses);
        record.body.len()
    }

    #[inline(never)]
    fn deliver_datagram(&self, record: &Record<'_>, receiver: &mut impl Receiver) -> usize {
        // One implementation, compiled for the opcode that comes most, and for any.
        match Packet::opcode(record.head()) {
            Opcode::UD_SEND_ONLY => self.deliver_opcode(Opcode::UD_SEND_ONLY, record, receiver),
            other => self.deliver_opcode(other, record, receiver),
        }
    }

    /// [`Channel::deliver_datagram`] for one that has this opcode, which the compiler may know.
    #[inline(always)]
    fn deliver_opcode(
        &self,
        opcode: Opcode,
        record: &Record<'_>,
        receiver: &mut impl Receiver,
    ) -> usize {
        let Ok(packet) = Packet::parse_opcode(opcode, record.head(), record.body) else {
            return 0;
        };
        let is_datagram = packet.deth().is_some();
        if is_datagram && ![MULTICAST_QPN, GSI_QPN, SMI_QPN].contains(&packet.bth.dest_qpn) {
            receiver.packet(&packet, &self.datagram_addresses(record));
        }
        record.body.len()
    }

    /// The addresses of a datagram, with the GRH that it would have had.
    #[inline]
    fn datagram_addresses(&self, record: &Record<'_>) -> Addresses {
        let len = record.body.len() + ICRC_LEN;
        Addresses {
            grh: self.grh.grh(record.tag as u8, len),
            ..self.addresses
        }
    }

    /// Lets the peer send a wakeup with its next packet. Returns whether there is one already.
    pub(super) fn prepare_sleep(&self) -> bool {
        self.segment.incoming().set_asleep();
        self.has_packet()
    }

    /// Reverts [`Channel::prepare_sleep`].
    pub(super) fn end_sleep(&self) {
        self.segment.incoming().set_awake();
    }

    /// Ends the connection: both processes see a hang-up.
    pub(super) fn hang_up(&self) {
        if self.connection.is_unchanged() {
            // SAFETY: shutdown takes no pointers.
            unsafe { libc::shutdown(self.fd(), libc::SHUT_RDWR) };
        }
    }
}
