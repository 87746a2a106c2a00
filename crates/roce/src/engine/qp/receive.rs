//! Receiving packets: which part of the queue pair each is for.

use super::{Addresses, Clock, Hca, Packet, Qp, QpEvent, QpState, Service};
use crate::engine::recv_queue::RecvQueue;
use crate::wire::{Opcode, Operation};

impl Qp {
    /// [`Qp::receive`] as if no receive was posted: a SEND or a WRITE with immediate gets an RNR NAK. Injects
    /// faults. Receives of XRC are not affected.
    pub fn receive_without_receives(
        &mut self,
        packet: &Packet,
        from: &Addresses,
        clock: impl Clock,
        hca: &mut impl Hca,
    ) {
        let queue = core::mem::replace(self.responder.recv_queue_mut(), RecvQueue::new(false));
        self.receive(packet, from, clock, hca);
        self.responder.recv_queue_mut().restore(queue);
        if self.state == QpState::Err {
            self.responder.flush(hca);
        }
    }

    /// A packet to this queue pair's number, or to a multicast group that the queue pair is attached
    /// to. A caller that knows the opcode gets code for that alone ([`Packet::parse_opcode`]).
    #[inline(always)]
    pub fn receive(
        &mut self,
        packet: &Packet,
        from: &Addresses,
        clock: impl Clock,
        hca: &mut impl Hca,
    ) {
        self.counters.on_received(packet.datagram_len());
        if !self.state.receives() {
            self.counters.dropped_in_state += 1;
            return;
        }
        let attributes = &self.attributes;
        let service = attributes.config.service;
        let Some((transport, operation, part)) = packet.bth.opcode.parts() else {
            if packet.bth.opcode == Opcode::CNP {
                self.on_cnp(from);
            }
            return;
        };
        if transport != service.transport() {
            self.counters.dropped_not_of_peer += 1;
            return;
        }
        if service == Service::Ud {
            let action = self
                .responder
                .on_datagram(operation, packet, from, attributes, hca);
            return self.on_responder_action(action, hca);
        }
        if !attributes.is_of_peer(from) {
            self.counters.dropped_not_of_peer += 1;
            return;
        }
        if from.is_marked {
            self.notification.on_marked(clock, &mut self.counters);
        }
        let is_response = matches!(
            operation,
            Operation::Ack | Operation::AtomicAck | Operation::ReadResponse
        );
        match service {
            Service::Rc | Service::XrcSend if is_response && self.state.sends() => {
                let now = clock.time();
                let result = self
                    .sends
                    .on_response(operation, packet, attributes, now, hca);
                self.unwrap_or_fail(result, hca);
            }
            // Without memory the packet is dropped, as a network may do. If the peer has bound its requester
            // to shared memory, this is an old duplicate.
            Service::Rc | Service::XrcRecv
                if !is_response
                    && self.responder.responses_mut().try_reserve()
                    && !self.responder.is_shared() =>
            {
                self.check_established(hca);
                let (responder, attributes) = (&mut self.responder, &self.attributes);
                let action = responder.on_request(operation, part, packet, attributes, hca);
                self.on_responder_action(action, hca);
            }
            Service::Uc => {
                self.check_established(hca);
                let action = self.responder.on_uc_packet(packet, &self.attributes, hca);
                self.on_responder_action(action, hca);
            }
            _ => {}
        }
    }

    /// A CNP of the peer: this queue pair's packets were marked.
    #[cold]
    fn on_cnp(&mut self, from: &Addresses) {
        if self.attributes.config.service != Service::Ud && self.attributes.is_of_peer(from) {
            self.counters.rp_cnp_handled += 1;
            self.sends.requester_mut().on_congestion();
        }
    }

    /// Raises the communication-established event for the first packet in RTR (11.6.3.1).
    pub(super) fn check_established(&mut self, hca: &mut impl Hca) {
        if self.state == QpState::Rtr && self.responder.take_established() {
            hca.event(QpEvent::CommunicationEstablished);
        }
    }

    /// Whether packets wait for the expected one of an unreliable connection.
    pub fn has_early_packets(&self) -> bool {
        self.attributes.config.service == Service::Uc && self.responder.has_early()
    }

    /// Delivers the packets that wait for the expected one, unless it may still come.
    pub fn deliver_early(&mut self, hca: &mut impl Hca) {
        if self.has_early_packets() && !hca.may_reorder() {
            let action = self.responder.deliver_early(&self.attributes, hca);
            self.on_responder_action(action, hca);
        }
    }
}
