//! Received packets of a connection that wait for an earlier one, in the order of their PSNs.
//!
//! Not here: which packets may wait (`responder::early`, `responder::unreliable`, `completer`).

use std::collections::VecDeque;

use super::PacketCopy;
use crate::wire::{Packet, Psn};

/// The most packets that wait, the largest congestion window of a uroce peer, and about as many as a socket
/// buffer has room for.
const MAX_PACKETS: usize = 1024;
/// The most bytes of packets of a reliable connection that wait; the smaller of both limits applies.
pub const MAX_BYTES: usize = 2 << 20;

/// Packets that wait for an earlier one.
#[derive(Debug, Default)]
pub struct EarlyPackets {
    /// In the order of their PSNs.
    packets: VecDeque<PacketCopy>,
    bytes: usize,
}

impl EarlyPackets {
    /// Whether none waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Copies a packet, and replaces one with the same PSN. False if there are too many, or more than
    /// `max_bytes`, or there is no memory.
    pub fn keep(&mut self, packet: &Packet, max_bytes: usize) -> bool {
        let psn = packet.bth.psn;
        let len = packet.head().len() + packet.payload.len();
        let is_later = |early: &&PacketCopy| early.bth().psn.distance(psn) > 0;
        let place = self.packets.len() - self.packets.iter().rev().take_while(is_later).count();
        let has_room = self.packets.len() < MAX_PACKETS
            && self.bytes + len <= max_bytes
            && self.packets.try_reserve(1).is_ok();
        let Some(copy) = has_room.then(|| PacketCopy::try_new(packet)).flatten() else {
            return false;
        };
        self.bytes += len;
        match place.checked_sub(1).and_then(|i| self.packets.get_mut(i)) {
            Some(old) if old.bth().psn == psn => {
                self.bytes -= old.byte_len();
                *old = copy;
            }
            _ => self.packets.insert(place, copy),
        }
        true
    }

    /// Whether one with that PSN waits.
    pub fn has(&self, psn: Psn) -> bool {
        self.packets.iter().any(|early| early.bth().psn == psn)
    }

    /// The PSN of the first one.
    pub fn first_psn(&self) -> Option<Psn> {
        Some(self.packets.front()?.bth().psn)
    }

    /// Removes the packet with that PSN, and those before it.
    pub fn take(&mut self, epsn: Psn) -> Option<PacketCopy> {
        while self.packets.front()?.bth().psn.distance(epsn) <= 0 {
            let first = self.pop_first()?;
            if first.bth().psn == epsn {
                return Some(first);
            }
        }
        None
    }

    /// Removes the first one.
    pub fn pop_first(&mut self) -> Option<PacketCopy> {
        let first = self.packets.pop_front()?;
        self.bytes -= first.byte_len();
        Some(first)
    }

    /// Drops all.
    pub fn clear(&mut self) {
        *self = EarlyPackets::default();
    }
}
