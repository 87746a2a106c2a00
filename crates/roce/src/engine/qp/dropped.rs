//! Packets that a queue pair drops: why, for those who record packets. What is said here is what
//! [`Qp::receive`] is about to do.

use super::{Addresses, Qp, QpState, Service};
use crate::wire::Packet;

impl Qp {
    /// Why the queue pair is about to drop a packet; None if it has an effect, as far as the headers show.
    pub fn drop_reason(&self, packet: &Packet, from: &Addresses) -> Option<&'static str> {
        if !self.state.receives() {
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
            Service::Ud => {
                self.responder
                    .datagram_drop_reason(operation, packet, from, &self.attributes)
            }
            _ if !self.attributes.is_of_peer(from) => {
                Some("dropped: not from the peer of the queue pair")
            }
            _ => None,
        }
    }
}
