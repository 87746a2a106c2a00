//! Reliable connections, RC and XRC: requester, completer and responder wired together.

use super::{Hca, Qp, QpEvent, QpState, Time};
use crate::engine::Clock;
use crate::engine::completer::CompleterAction;
use crate::engine::emit::Encoded;
use crate::engine::requester::NextRequest;
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
        hca: &mut impl Hca,
    ) {
        // The peer has bound its requester to shared memory: this is an old duplicate.
        if self.responder.is_shared() {
            return;
        }
        self.check_established(hca);
        let action = self
            .responder
            .on_request(operation, part, packet, &self.attributes, hca);
        self.on_responder_action(action, hca);
    }

    /// An ACK, NAK, READ response or ATOMIC ACK from the peer.
    #[inline(always)]
    pub(super) fn receive_response(
        &mut self,
        operation: Operation,
        packet: &Packet,
        now: Time,
        hca: &mut impl Hca,
    ) {
        if !matches!(self.state, QpState::Rts | QpState::Sqd) {
            return;
        }
        if self.sends.is_bound() {
            return self.receive_ack_packet(packet, hca);
        }
        let action = self
            .sends
            .on_packet(operation, packet, &self.attributes, now);
        let Some(action) = action else {
            return;
        };
        // The acknowledged WQEs complete before a later one fails.
        self.complete_sends(hca);
        if self.state == QpState::Err {
            return;
        }
        let response = (operation, packet);
        let result = self
            .sends
            .react(action, response, &self.attributes, now, hca);
        if let Err(status) = result {
            self.fail_oldest_send(status, hca);
        }
        if action == CompleterAction::TakeResponse {
            self.complete_sends(hca);
        }
    }

    /// Writes the next packet into `buffer`. Responses go before requests, except
    /// that one request may go before an ACK (see `ResponseQueue::yields_to_request`).
    #[inline(always)]
    pub(super) fn next_reliable(
        &mut self,
        clock: impl Clock,
        hca: &mut impl Hca,
        buffer: &mut [u8],
    ) -> Option<Encoded> {
        if self.sends.requester().has_unsent()
            && self
                .responder
                .responses_mut()
                .queue_mut()
                .yields_to_request()
        {
            if let Some(request) = self.next_request(clock, hca, buffer) {
                return Some(request);
            }
        }
        self.next_response(clock, hca, buffer)
            .or_else(|| self.next_request(clock, hca, buffer))
    }

    #[inline(always)]
    fn next_request(
        &mut self,
        clock: impl Clock,
        hca: &mut impl Hca,
        buffer: &mut [u8],
    ) -> Option<Encoded> {
        if self.sends.is_bound() || !self.sends.requester().has_unsent() {
            return None;
        }
        let now = clock.time();
        while matches!(self.state, QpState::Rts | QpState::Sqd) {
            let next = self
                .sends
                .requester_mut()
                .next_packet(&self.attributes, now, hca, buffer);
            match next {
                NextRequest::Sent(encoded) => return Some(encoded),
                NextRequest::Blocked => return None,
                NextRequest::Complete => self.complete_sends(hca),
            }
        }
        None
    }

    #[inline(always)]
    pub(super) fn next_response(
        &mut self,
        clock: impl Clock,
        hca: &mut impl Hca,
        buffer: &mut [u8],
    ) -> Option<Encoded> {
        // No other takes a packet: see `Qp::receive_ack_packet`.
        if self.responder.is_shared() && !self.responder.responses().queue().ack_is_next() {
            return None;
        }
        let next =
            self.responder
                .responses_mut()
                .next_response(&self.attributes, clock, hca, buffer);
        match next {
            NextResponse::None => None,
            NextResponse::Sent(encoded) => Some(encoded),
            NextResponse::AccessError(nak) => {
                self.on_read_refused(hca);
                nak
            }
        }
    }

    /// The memory of a READ in progress is not accessible any more.
    #[cold]
    pub(super) fn on_read_refused(&mut self, hca: &mut impl Hca) {
        if self.state != QpState::Err {
            hca.event(QpEvent::AccessError);
            self.enter_error(hca);
        }
    }
}
