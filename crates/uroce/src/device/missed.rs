//! Packets that arrive for a queue pair while its lock is held by a thread that is taken for preempted. They
//! are kept, and the next thread that locks the queue pair delivers them in order.
//!
//! They are not dropped, because a peer may end after its last ACK: nobody would retransmit it.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::sync::Mutex;
use roce::engine::{Addresses, Fragment, FragmentCopy, PacketCopy};
use roce::wire::Packet;

/// The most packets that a queue pair keeps, about as many as a socket buffer has room for. Further ones are
/// dropped, as there.
const MAX_MISSED: usize = 1024;

/// A packet or fragment that came for a queue pair.
pub enum KeptPacket {
    /// A packet by UDP, or a datagram.
    Packet(PacketCopy),
    /// Through shared memory.
    Fragment(FragmentCopy),
}

impl KeptPacket {
    /// None if there is no memory.
    pub fn of_packet(packet: &Packet<'_>) -> Option<KeptPacket> {
        PacketCopy::try_new(packet).map(KeptPacket::Packet)
    }

    /// None if there is no memory.
    pub fn of_fragment(fragment: &Fragment<'_>) -> Option<KeptPacket> {
        FragmentCopy::try_new(fragment).map(KeptPacket::Fragment)
    }
}

/// A packet or fragment, and its addresses.
pub(super) struct Kept {
    pub packet: KeptPacket,
    pub from: Addresses,
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
    pub(super) fn keep(&self, copy: impl FnOnce() -> Option<KeptPacket>, from: &Addresses) -> bool {
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

    /// Takes all.
    pub(super) fn take(&self) -> Vec<Kept> {
        let mut packets = self.packets.lock();
        self.any.store(false, Ordering::Release);
        core::mem::take(&mut packets)
    }
}
