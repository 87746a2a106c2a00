//! Reliable connections, RC and XRC: requester, completer and responder wired together.

use super::{Host, Link, Qp, QpEvent, QpState, Service, Time};
use crate::engine::PeerActivity;
use crate::engine::completer::CompleterAction;
use crate::engine::emit::Encoded;
use crate::engine::requester::NextPacket;
use crate::engine::responder::NextResponse;
use crate::wire::{Operation, Packet, Part};

impl Qp {
    /// A request packet from the peer.
    pub(super) fn receive_request(
        &mut self,
        operation: Operation,
        part: Part,
        packet: &Packet,
        host: &mut impl Host,
    ) {
        self.check_established(host);
        let action = self
            .responder
            .on_request(operation, part, packet, &self.attributes, host);
        self.on_responder_action(action, host);
    }

    /// An ACK, NAK, READ response or ATOMIC ACK from the peer.
    pub(super) fn receive_response(
        &mut self,
        operation: Operation,
        packet: &Packet,
        now: Time,
        host: &mut impl Host,
    ) {
        if !matches!(self.state, QpState::Rts | QpState::Sqd) {
            return;
        }
        let Qp {
            completer,
            requester,
            attributes,
            ..
        } = self;
        let Some(action) = completer.on_packet(requester, operation, packet, attributes, now)
        else {
            return;
        };
        // The acknowledged WQEs complete before a later one fails.
        self.complete_sends(host);
        if self.state == QpState::Err {
            return;
        }
        let Qp {
            completer,
            requester,
            attributes,
            ..
        } = self;
        let result = match action {
            CompleterAction::None => Ok(()),
            CompleterAction::Retransmit => {
                completer.retransmit(requester, now);
                Ok(())
            }
            CompleterAction::RnrWait { timer } => {
                completer.on_rnr_nak(requester, timer, attributes, now)
            }
            CompleterAction::TakeResponse => {
                completer.on_response(requester, operation, packet, attributes, now, host)
            }
            CompleterAction::Fail(status) => Err(status),
        };
        if let Err(status) = result {
            self.fail_oldest_send(status, host);
        }
        if action == CompleterAction::TakeResponse {
            self.complete_sends(host);
        }
    }

    /// Writes the next packet into `buffer`. Responses go before requests, except
    /// that one request may go before an ACK (see `Responder::yields_to_request`).
    pub(super) fn next_reliable(
        &mut self,
        now: Time,
        host: &mut impl Host,
        buffer: &mut [u8],
    ) -> Option<Encoded> {
        if self.requester.has_unsent() && self.responder.yields_to_request() {
            if let Some(mut request) = self.next_request(now, host, buffer) {
                if self.link == Link::SharedMemory {
                    self.append_ack(&mut request, buffer);
                }
                return Some(request);
            }
        }
        self.next_response(now, host, buffer)
            .or_else(|| self.next_request(now, host, buffer))
    }

    /// Lets a request carry the ACK that is the next response.
    fn append_ack(&mut self, request: &mut Encoded, buffer: &mut [u8]) {
        let is_rc = self.attributes.config.service == Service::Rc;
        if is_rc && request.gso_size == 0 {
            self.responder.append_ack(request, buffer);
        }
    }

    fn next_request(
        &mut self,
        now: Time,
        host: &mut impl Host,
        buffer: &mut [u8],
    ) -> Option<Encoded> {
        while matches!(self.state, QpState::Rts | QpState::Sqd) {
            let next = self
                .requester
                .next_packet(&self.attributes, now, host, buffer);
            match next {
                NextPacket::Packet(encoded) => return Some(encoded),
                NextPacket::Blocked => return None,
                NextPacket::Complete => self.complete_sends(host),
            }
        }
        None
    }

    pub(super) fn next_response(
        &mut self,
        now: Time,
        host: &mut impl Host,
        buffer: &mut [u8],
    ) -> Option<Encoded> {
        let next = self
            .responder
            .next_response(&self.attributes, now, host, buffer);
        match next {
            NextResponse::None => None,
            NextResponse::Packet(encoded) => Some(encoded),
            NextResponse::AccessError(nak) => {
                if self.state != QpState::Err {
                    host.event(QpEvent::AccessError);
                    self.enter_error(host);
                }
                nak
            }
        }
    }

    /// Handles the requester's timers that have expired.
    pub(super) fn requester_timeout(
        &mut self,
        now: Time,
        peer: PeerActivity,
        host: &mut impl Host,
    ) {
        let result = self
            .completer
            .on_timeout(&mut self.requester, &self.attributes, peer, now);
        if let Err(status) = result {
            self.fail_oldest_send(status, host);
        }
    }
}
