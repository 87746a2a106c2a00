//! Requests that arrived before an earlier one (9.7.4.1.4): they wait for it, and are executed after it, in
//! the order of their PSNs.
//!
//! The specification has a responder drop them. To the peer there is no difference but that a later
//! acknowledgment covers them, as if the network had held the earlier request back: a peer that retransmits
//! all of them gets acknowledgments of duplicates, one that retransmits only what is missing
//! (`requester::selective`) is done.

use super::{Attributes, Hca, Request, Responder, ResponderAction};
use crate::engine::early_packets::MAX_BYTES;

/// A request that is further ahead is dropped: no peer has as much in flight. Requests of an earlier
/// connection with the same numbers, which a network has held back, are most often that far ahead or
/// behind.
const MAX_AHEAD: i32 = 2048;

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
