//! Unreliable connections (9.8.2): nothing is acknowledged.
//!
//! A packet that is not the expected one shows that others were lost, and their messages are dropped.
//! But the others may not be lost: another thread of this process may have received them, and not
//! delivered them yet. So while several threads receive ([`Hca::may_reorder`]), packets that are ahead
//! wait for the expected one.

use super::{Hca, Pace, Qp, Time};
use crate::engine::PacketCopy;
use crate::engine::emit::Encoded;
use crate::wire::{Operation, Packet, Part, Psn};

/// The most packets that wait, about as many as a socket buffer has room for. Further ones are delivered at
/// once, as after a loss.
const EARLY_MAX: usize = 1024;

/// Packets that came before the expected one.
#[derive(Default)]
pub(super) struct EarlyPackets(Vec<PacketCopy>);

impl EarlyPackets {
    /// Adds a packet. False if there are too many, or there is no memory.
    fn keep(&mut self, packet: &Packet) -> bool {
        if self.0.len() == EARLY_MAX || self.0.try_reserve(1).is_err() {
            return false;
        }
        match PacketCopy::try_new(packet) {
            Some(copy) => self.0.push(copy),
            None => return false,
        }
        true
    }

    /// Removes the packet with that PSN.
    fn take(&mut self, psn: Psn) -> Option<PacketCopy> {
        let at = self.0.iter().position(|early| early.bth().psn == psn)?;
        Some(self.0.swap_remove(at))
    }

    /// Removes the packet that comes first after that PSN.
    fn take_first(&mut self, epsn: Psn) -> Option<PacketCopy> {
        let numbered = self.0.iter().enumerate();
        let (at, _) = numbered.min_by_key(|(_, early)| early.bth().psn.distance(epsn))?;
        Some(self.0.swap_remove(at))
    }
}

impl Qp {
    /// Writes the next packet into `buffer`.
    pub(super) fn next_uc_packet(
        &mut self,
        now: Time,
        hca: &mut impl Hca,
        buffer: &mut [u8],
    ) -> Option<Encoded> {
        while self.prepare_unreliable(Pace::Paced(now), hca) {
            match self
                .sends
                .requester_mut()
                .send_uc(&self.attributes, hca, buffer)
            {
                Ok(Some(sent)) => {
                    self.complete_sends(hca);
                    return Some(sent);
                }
                Ok(None) => return None,
                Err(status) => self.fail_oldest_send(status, hca),
            }
        }
        None
    }

    /// A packet from the peer.
    pub(super) fn receive_uc_packet(&mut self, packet: &Packet, hca: &mut impl Hca) {
        self.check_established(hca);
        let ahead = packet.bth.psn.distance(self.responder.epsn()) > 0;
        if ahead && hca.may_reorder() && self.early.keep(packet) {
            return;
        }
        // Packets that still wait were received before this one.
        if ahead {
            self.deliver_all_early(hca);
        }
        self.execute_uc_packet(packet, hca);
        self.deliver_expected(hca);
    }

    /// Whether packets wait for the expected one.
    pub fn has_early_packets(&self) -> bool {
        !self.early.0.is_empty()
    }

    /// Delivers the packets that wait for the expected one, unless it may still come.
    pub fn deliver_early(&mut self, hca: &mut impl Hca) {
        if !hca.may_reorder() {
            self.deliver_all_early(hca);
        }
    }

    pub(super) fn deliver_all_early(&mut self, hca: &mut impl Hca) {
        while let Some(early) = self.early.take_first(self.responder.epsn()) {
            self.execute_uc_packet(&early.packet(), hca);
        }
    }

    /// Delivers the packets that have waited for the last one.
    fn deliver_expected(&mut self, hca: &mut impl Hca) {
        while self.has_early_packets() {
            let Some(early) = self.early.take(self.responder.epsn()) else {
                return;
            };
            self.execute_uc_packet(&early.packet(), hca);
        }
    }

    fn execute_uc_packet(&mut self, packet: &Packet, hca: &mut impl Hca) {
        let parts = packet.bth.opcode.parts();
        let Some((_, operation, part)) = parts.filter(|_| self.may_receive()) else {
            return;
        };
        self.execute_uc_request(operation, part, packet, hca);
    }

    fn execute_uc_request(
        &mut self,
        operation: Operation,
        part: Part,
        packet: &Packet,
        hca: &mut impl Hca,
    ) {
        let action = self
            .responder
            .on_uc_request(operation, part, packet, &self.attributes, hca);
        self.on_responder_action(action, hca);
    }
}
