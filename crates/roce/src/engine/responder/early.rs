//! Requests that arrived before an earlier one (9.7.4.1.4): they wait for it, and are executed after it, in
//! the order of their PSNs.
//!
//! The specification has a responder drop them. To the peer there is no difference but that a later
//! acknowledgment covers them, as if the network had held the earlier request back: a peer that retransmits
//! all of them gets acknowledgments of duplicates, one that retransmits only what is missing
//! (`requester::selective`) is done.

use std::collections::VecDeque;

use super::{Attributes, Hca, Psn, Request, Responder, ResponderAction};
use crate::engine::PacketCopy;
use crate::wire::Packet;

/// The most requests that wait, the largest congestion window of a uroce peer, and about as many as a socket
/// buffer has room for.
const MAX_PACKETS: usize = 1024;
/// The most bytes of a reliable connection that wait; the smaller of both limits applies.
const MAX_BYTES: usize = 2 << 20;
/// A request that is further ahead is dropped: no peer has as much in flight. Requests of an earlier
/// connection with the same numbers, which a network has held back, are most often that far ahead or
/// behind.
const MAX_AHEAD: i32 = 2048;

/// Requests that arrived before an earlier one.
#[derive(Debug, Default)]
pub(super) struct EarlyRequests {
    /// In the order of their PSNs.
    packets: VecDeque<PacketCopy>,
    bytes: usize,
}

impl EarlyRequests {
    /// Whether none waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Copies a request, and replaces one with the same PSN. False if there are too many, or more than
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

    /// Removes the request with that PSN, and those before it.
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
        *self = EarlyRequests::default();
    }
}

impl Responder {
    /// Drops the requests that wait.
    pub fn drop_early(&mut self) {
        self.early.clear();
    }

    /// A request arrived, and one before it is missing.
    #[cold]
    pub(super) fn on_early(&mut self, request: &impl Request, ahead: i32) {
        self.counters.out_of_seq_request += 1;
        // After an RNR NAK the peer retransmits all.
        let may_keep = !self.sequence.is_refused() && ahead <= MAX_AHEAD;
        if let Some(packet) = request.as_packet().filter(|_| may_keep) {
            self.early.keep(packet, MAX_BYTES);
        }
        self.on_gap(request.psn());
    }

    /// The request with the ePSN was executed, with that outcome: executes those that have waited for it. If
    /// another one is missing then, the peer gets no NAK before a later one arrives: it may be about to send
    /// all of them again. After an error the peer retransmits from there.
    #[cold]
    pub(super) fn execute_early(
        &mut self,
        outcome: ResponderAction,
        is_executed: bool,
        attributes: &Attributes,
        hca: &mut impl Hca,
    ) -> ResponderAction {
        let mut executed = (outcome, is_executed);
        while executed == (ResponderAction::None, true) {
            let Some(early) = self.early.take(self.sequence.epsn()) else {
                return ResponderAction::None;
            };
            let packet = early.packet();
            let parts = packet
                .bth
                .opcode
                .parts()
                .filter(|_| self.responses.try_reserve());
            let Some((_, operation, part)) = parts else {
                break;
            };
            executed = self.on_expected(operation, part, &packet, attributes, hca);
        }
        self.early.clear();
        executed.0
    }
}
