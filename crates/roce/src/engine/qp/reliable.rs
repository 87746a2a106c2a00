//! Reliable connections, RC and XRC: requester, completer and responder wired together.

use super::{Host, Qp, QpEvent, QpState, Time};
use crate::engine::Clock;
use crate::engine::completer::CompleterAction;
use crate::engine::emit::Encoded;
use crate::engine::requester::NextPacket;
use crate::engine::responder::NextResponse;
use crate::wire::{Operation, Packet, Part};

impl Qp {
    /// A request packet from the peer.
    #[inline(always)]
    pub(super) fn receive_request(
        &mut self,
        operation: Operation,
        part: Part,
        packet: &Packet,
        host: &mut impl Host,
    ) {
        // The peer has bound its requester to shared memory: this is an old duplicate.
        if self.responder.is_shared() {
            return;
        }
        self.check_established(host);
        let action = self
            .responder
            .on_request(operation, part, packet, &self.attributes, host);
        self.on_responder_action(action, host);
    }

    /// An ACK, NAK, READ response or ATOMIC ACK from the peer.
    #[inline(always)]
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
        if self.sender.is_some() {
            return self.receive_ack_packet(packet, host);
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
    #[inline(always)]
    pub(super) fn next_reliable(
        &mut self,
        clock: impl Clock,
        host: &mut impl Host,
        buffer: &mut [u8],
    ) -> Option<Encoded> {
        if self.requester.has_unsent() && self.responder.yields_to_request() {
            if let Some(request) = self.next_request(clock, host, buffer) {
                return Some(request);
            }
        }
        self.next_response(clock, host, buffer)
            .or_else(|| self.next_request(clock, host, buffer))
    }

    #[inline(always)]
    fn next_request(
        &mut self,
        clock: impl Clock,
        host: &mut impl Host,
        buffer: &mut [u8],
    ) -> Option<Encoded> {
        if self.sender.is_some() || !self.requester.has_unsent() {
            return None;
        }
        let now = clock.time();
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

    #[inline(always)]
    pub(super) fn next_response(
        &mut self,
        clock: impl Clock,
        host: &mut impl Host,
        buffer: &mut [u8],
    ) -> Option<Encoded> {
        // No other takes a packet: see `Qp::receive_ack_packet`.
        if self.responder.is_shared() && !self.responder.acknowledges_next() {
            return None;
        }
        let next = self
            .responder
            .next_response(&self.attributes, clock, host, buffer);
        match next {
            NextResponse::None => None,
            NextResponse::Packet(encoded) => Some(encoded),
            NextResponse::AccessError(nak) => {
                self.on_read_refused(host);
                nak
            }
        }
    }

    /// The memory of a READ in progress is not accessible any more.
    #[cold]
    pub(super) fn on_read_refused(&mut self, host: &mut impl Host) {
        if self.state != QpState::Err {
            host.event(QpEvent::AccessError);
            self.enter_error(host);
        }
    }

    /// Handles the requester's timers that have expired.
    pub(super) fn requester_timeout(&mut self, now: Time, host: &mut impl Host) {
        let result = self
            .completer
            .on_timeout(&mut self.requester, &self.attributes, now);
        if let Err(status) = result {
            self.fail_oldest_send(status, host);
        }
    }
}
