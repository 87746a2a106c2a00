//! Receiving packets: which part of the queue pair each is for.

use super::{Addresses, Clock, Hca, Operation, Packet, Qp, QpEvent, QpState, Service};
use crate::engine::recv_queue::RecvQueue;
use crate::wire::{Opcode, PORT, port_of};

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
            self.flush_receives(hca);
        }
    }

    /// Whether packets have an effect in the current state.
    #[inline]
    pub(super) fn may_receive(&self) -> bool {
        !matches!(self.state, QpState::Reset | QpState::Init | QpState::Err)
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
        self.counters.rcvd_pkts += 1;
        self.counters.rcvd_bytes += packet.datagram_len() as u64;
        if !self.may_receive() {
            self.counters.dropped_in_state += 1;
            return;
        }
        let Some((transport, operation, part)) = packet.bth.opcode.parts() else {
            if packet.bth.opcode == Opcode::CNP {
                self.on_cnp(from);
            }
            return;
        };
        let service = self.attributes.config.service;
        if transport != service.transport() {
            self.counters.dropped_not_of_peer += 1;
            return;
        }
        if service == Service::Ud {
            self.receive_datagram(operation, packet, from, hca);
            return;
        }
        if !self.is_of_peer(from) {
            self.counters.dropped_not_of_peer += 1;
            return;
        }
        if from.is_marked {
            self.on_marked(clock);
        }
        let is_response = matches!(
            operation,
            Operation::Ack | Operation::AtomicAck | Operation::ReadResponse
        );
        match service {
            Service::Rc | Service::XrcSend if is_response => {
                self.receive_response(operation, packet, clock.time(), hca);
            }
            // Without memory the packet is dropped, as a network may do.
            Service::Rc | Service::XrcRecv
                if !is_response && self.responder.responses_mut().try_reserve() =>
            {
                self.receive_request(operation, part, packet, hca);
            }
            Service::Uc => self.receive_uc_packet(packet, hca),
            _ => {}
        }
    }

    /// 9.6.1.5: a connected queue pair accepts packets of its peer only. The headers do not name the sending
    /// queue pair, but the source port of a uroce peer that does not have port 4791 follows from its number.
    #[inline]
    pub(super) fn is_of_peer(&self, from: &Addresses) -> bool {
        let peer_port = port_of(self.attributes.dest_qpn);
        from.src == self.attributes.peer && (peer_port == PORT || from.src_port == peer_port)
    }

    /// Raises the communication-established event for the first packet in RTR (11.6.3.1).
    pub(super) fn check_established(&mut self, hca: &mut impl Hca) {
        if self.state == QpState::Rtr && self.responder.take_established() {
            hca.event(QpEvent::CommunicationEstablished);
        }
    }
}
