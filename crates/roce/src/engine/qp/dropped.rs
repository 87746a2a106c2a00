//! Packets that a queue pair drops: why, for those who record packets. What is said here is what
//! [`Qp::receive`] is about to do.

use super::{Addresses, Qp, QpState, Service};
use crate::engine::responder::capacity;
use crate::wire::{Operation, Packet};

impl Qp {
    /// Why the queue pair is about to drop a packet; None if it has an effect, as far as the headers show.
    pub fn drop_reason(&self, packet: &Packet, from: &Addresses) -> Option<&'static str> {
        let is_receiving = self.may_receive();
        if !is_receiving {
            return Some(match self.state {
                QpState::Reset => "dropped: the queue pair is in RESET",
                QpState::Init => "dropped: the queue pair is in INIT",
                _ => "dropped: the queue pair is in ERR",
            });
        }
        let Some((transport, operation, _)) = packet.bth.opcode.parts() else {
            return Some("dropped: unknown opcode");
        };
        let service = self.attributes.config.service;
        if transport != service.transport() {
            return Some("dropped: the queue pair has another transport service");
        }
        match service {
            Service::Ud => self.datagram_drop_reason(operation, packet, from),
            _ if !self.is_of_peer(from) => Some("dropped: not from the peer of the queue pair"),
            _ => None,
        }
    }

    fn datagram_drop_reason(
        &self,
        operation: Operation,
        packet: &Packet,
        from: &Addresses,
    ) -> Option<&'static str> {
        let is_send = matches!(operation, Operation::Send | Operation::SendImm);
        let qkey = packet.deth().map(|deth| deth.qkey);
        if !is_send || qkey.is_none() {
            return Some("dropped: not a SEND");
        }
        if qkey != Some(self.attributes.qkey) {
            return Some("dropped: wrong Q_Key");
        }
        let receives = self.responder.recv_queue();
        if receives.is_shared() {
            return None;
        }
        let Some(receive) = receives.front() else {
            return Some("dropped: no receive posted");
        };
        let is_long = capacity(receive) < (from.grh.len() + packet.payload.len()) as u64;
        is_long.then_some("dropped: longer than the receive")
    }
}
