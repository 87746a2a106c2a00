//! Packets that arrive for a queue pair while its lock is held by a thread that is taken for preempted. They
//! are kept, and the next thread that locks the queue pair delivers them in order.
//!
//! They are not dropped, because a peer may end after its last ACK: nobody would retransmit it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::queue_pair::{Inner, QueuePair};
use super::{Device, clock};
use crate::sync::Mutex;
use roce::engine::{Addresses, Message, MessageCopy, PacketCopy};
use roce::wire::Packet;

/// The most packets that a queue pair keeps, about as many as a socket buffer has room for. Further ones are
/// dropped, as there.
const MAX_MISSED: usize = 1024;

/// A packet or message that came for a queue pair.
pub enum KeptPacket {
    /// A packet by UDP, or a datagram.
    Packet(PacketCopy),
    /// Through shared memory.
    Message(MessageCopy),
}

impl KeptPacket {
    /// None if there is no memory.
    pub fn of_packet(packet: &Packet<'_>) -> Option<KeptPacket> {
        PacketCopy::try_new(packet).map(KeptPacket::Packet)
    }

    /// None if there is no memory.
    pub fn of_message(message: &Message<'_>) -> Option<KeptPacket> {
        MessageCopy::try_new(message).map(KeptPacket::Message)
    }
}

/// A packet or message, and its addresses.
struct Kept {
    packet: KeptPacket,
    from: Addresses,
}

/// The packets that a queue pair has missed, in the order of their arrival.
#[derive(Default)]
pub struct Missed {
    /// `packets` is not empty. Written with `packets` locked.
    any: AtomicBool,
    packets: Mutex<Vec<Kept>>,
}

impl Missed {
    /// Whether packets wait for a thread that locks the queue pair.
    #[inline]
    pub fn any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// Adds a packet, unless there are too many or there is no memory. Returns whether it is the first.
    fn keep(&self, copy: impl FnOnce() -> Option<KeptPacket>, from: &Addresses) -> bool {
        let mut packets = self.packets.lock();
        if packets.len() == MAX_MISSED || packets.try_reserve(1).is_err() {
            return false;
        }
        let Some(packet) = copy() else {
            return false;
        };
        packets.push(Kept {
            packet,
            from: *from,
        });
        self.any.store(true, Ordering::Release);
        packets.len() == 1
    }

    fn take(&self) -> Vec<Kept> {
        let mut packets = self.packets.lock();
        self.any.store(false, Ordering::Release);
        core::mem::take(&mut packets)
    }
}

impl Inner {
    /// Delivers what the queue pair has missed.
    #[inline]
    pub fn receive_missed(&mut self, qp: &QueuePair) {
        if qp.missed.any() {
            self.receive_kept(qp);
        }
    }

    #[cold]
    fn receive_kept(&mut self, qp: &QueuePair) {
        let now = clock::now();
        for kept in qp.missed.take() {
            let (engine, mut host) = self.split(qp);
            match &kept.packet {
                KeptPacket::Packet(copy) => {
                    engine.receive(&copy.packet(), &kept.from, now, &mut host);
                }
                KeptPacket::Message(copy) => {
                    engine.receive_message(&copy.message(), &kept.from, now, &mut host);
                }
            }
        }
    }

    /// Delivers the packets of a UC queue pair that are ahead of others, if no thread has still to deliver
    /// those. Returns whether none is left.
    pub fn deliver_early(&mut self, qp: &QueuePair) -> bool {
        let (engine, mut host) = self.split(qp);
        if engine.has_early_packets() {
            engine.deliver_early(&mut host);
        }
        !engine.has_early_packets()
    }
}

impl Device {
    /// Keeps a packet for a queue pair that cannot be locked now. Pollers and the background thread try to
    /// lock it until they can.
    #[cold]
    pub(super) fn keep_missed(
        &self,
        qp: &Arc<QueuePair>,
        copy: impl FnOnce() -> Option<KeptPacket>,
        from: &Addresses,
    ) {
        if !qp.missed.keep(copy, from) {
            return;
        }
        // Without memory, the next packet's thread delivers it.
        self.deferred_sends.add(qp.clone());
        self.waker.wake();
    }
}
