//! Unreliable connections (9.8.2): nothing is acknowledged.
//!
//! A packet that is not the expected one shows that others were lost, and their messages are dropped.
//! But the others may not be lost: another thread of this process may have received them, and not
//! delivered them yet. So while several threads receive ([`Hca::may_reorder`]), packets that are ahead
//! wait for the expected one.

use super::nak::{NakCause, ResponderAction};
use super::{Attributes, Hca, Operation, Part, Request, Responder};
use crate::wire::Packet;

impl Responder {
    /// A packet of the peer.
    pub fn on_uc_packet(
        &mut self,
        packet: &Packet,
        attributes: &Attributes,
        hca: &mut impl Hca,
    ) -> ResponderAction {
        let ahead = packet.bth.psn.distance(self.epsn()) > 0;
        if ahead && hca.may_reorder() && self.early.keep(packet, usize::MAX) {
            return ResponderAction::None;
        }
        // Packets that still wait were received before this one.
        if ahead {
            let action = self.deliver_early(attributes, hca);
            if action != ResponderAction::None {
                return action;
            }
        }
        let mut action = self.execute_uc_packet(packet, attributes, hca);
        while action == ResponderAction::None {
            let Some(early) = self.early.take(self.epsn()) else {
                break;
            };
            action = self.execute_uc_packet(&early.packet(), attributes, hca);
        }
        action
    }

    /// A fragment of the peer.
    #[inline(always)]
    pub fn on_uc_fragment(
        &mut self,
        operation: Operation,
        part: Part,
        request: &impl Request,
        attributes: &Attributes,
        hca: &mut impl Hca,
    ) -> ResponderAction {
        // Packets that still wait were received before this one.
        if self.has_early() {
            let action = self.deliver_early(attributes, hca);
            if action != ResponderAction::None {
                return action;
            }
        }
        self.on_uc_request(operation, part, request, attributes, hca)
    }

    /// Executes the packets that wait for the expected one, until one causes an error.
    pub fn deliver_early(
        &mut self,
        attributes: &Attributes,
        hca: &mut impl Hca,
    ) -> ResponderAction {
        while let Some(early) = self.early.pop_first() {
            let action = self.execute_uc_packet(&early.packet(), attributes, hca);
            if action != ResponderAction::None {
                return action;
            }
        }
        ResponderAction::None
    }

    fn execute_uc_packet(
        &mut self,
        packet: &Packet,
        attributes: &Attributes,
        hca: &mut impl Hca,
    ) -> ResponderAction {
        match packet.bth.opcode.parts() {
            Some((_, operation, part)) => {
                self.on_uc_request(operation, part, packet, attributes, hca)
            }
            None => ResponderAction::None,
        }
    }

    /// A request of an unreliable connection, or a part of one. A message that lost a packet is dropped;
    /// the receive WR that it took goes to the next message.
    fn on_uc_request(
        &mut self,
        operation: Operation,
        part: Part,
        request: &impl Request,
        attributes: &Attributes,
        hca: &mut impl Hca,
    ) -> ResponderAction {
        let psn = request.psn();
        let starts = matches!(part, Part::First | Part::Only);
        if starts || psn != self.sequence.epsn() || !request.continues_at(self.inbound.progress()) {
            self.inbound.drop_message();
        }
        self.sequence.advance(request.next_psn());
        if !starts && self.inbound.message().is_none() {
            return ResponderAction::None;
        }
        let executed = match operation {
            Operation::Send | Operation::SendImm => {
                self.execute_send(part, request, attributes, hca)
            }
            Operation::Write | Operation::WriteImm => {
                self.execute_write(part, request, attributes, hca)
            }
            _ => Err(NakCause::InvalidRequest),
        };
        match executed {
            Err(NakCause::RecvMemory(_) | NakCause::CqOverrun) | Ok(()) => {
                self.on_executed(executed, attributes)
            }
            // 9.9.3, class D.
            Err(_) => {
                self.inbound.drop_message();
                ResponderAction::None
            }
        }
    }
}
