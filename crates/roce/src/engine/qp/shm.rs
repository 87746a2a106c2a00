//! A connected queue pair that is bound to shared memory: the requests and responses that it writes
//! there, and those that it receives.
//!
//! Not here: the state of the sender (`crate::engine::shm`), the memory itself, which the caller
//! has.

use super::{Addresses, Clock, Hca, Qp, QpState, Service, Time};
use crate::engine::completer::CompleterAction;
use crate::engine::request::SharedRequest;
use crate::engine::requester::NextRequest;
use crate::engine::responder::NextResponse;
use crate::engine::shm::Fragment;
use crate::wire::{AethKind, Operation, Packet};

impl Qp {
    /// Binds the requester to shared memory, if nothing of it is in flight; else no further request begins,
    /// and the caller tries again. Returns whether it is bound.
    #[inline]
    pub fn bind(&mut self, now: impl Clock) -> bool {
        self.sends.is_bound()
            || self.state == QpState::Rts
                && self.attributes.config.service != Service::Ud
                && self.sends.bind(&self.attributes, now)
    }

    /// Releases the shared memory, which does not exist any more: `SendSide::unbind`.
    pub fn unbind(&mut self, clock: impl Clock) {
        self.sends.unbind(self.attributes.config.service);
        if self.sends.is_bound() {
            self.on_no_room(clock.time());
        }
    }

    /// Whether requests, or responses, take packets.
    #[inline]
    pub fn uses_packets(&self) -> bool {
        let sends = matches!(self.state, QpState::Rts | QpState::Sqd);
        self.notification.is_due()
            || self.responder.responses().has_next() && !self.responder.is_shared()
            || sends && !self.sends.is_bound() && self.sends.has_unsent()
    }

    /// Other shared memory leads to the peer now: what is in flight is sent again.
    pub fn on_other_memory(&mut self) {
        if let Some((sender, _)) = self.sends.sender_mut() {
            sender.send_again();
        }
    }

    /// Writes the next fragment that may be sent now into `buffer`, which has room for
    /// [`crate::engine::HEAD_LEN`] bytes or more. Returns its length; None if there is none.
    #[inline(always)]
    pub fn transmit_fragment(
        &mut self,
        clock: impl Clock,
        hca: &mut impl Hca,
        buffer: &mut [u8],
    ) -> Option<usize> {
        if let Some(len) = self.transmit_answer(hca, buffer) {
            return Some(len);
        }
        let sent = self.next_shared_request(clock, hca, buffer)?;
        Some(self.count_sent(sent))
    }

    /// [`Qp::transmit_fragment`], but only responses.
    #[inline(always)]
    pub fn transmit_answer(&mut self, hca: &mut impl Hca, buffer: &mut [u8]) -> Option<usize> {
        if !self.responder.is_shared() {
            return None;
        }
        let next = self
            .responder
            .responses_mut()
            .next_fragment(&self.attributes, hca, buffer);
        let len = match next {
            NextResponse::None => return None,
            NextResponse::Sent(len) => len,
            NextResponse::AccessError(nak) => {
                self.on_read_refused(hca);
                nak?
            }
        };
        Some(self.count_sent(len))
    }

    #[inline(always)]
    fn count_sent(&mut self, len: usize) -> usize {
        self.counters.sent_pkts += 1;
        self.counters.sent_bytes += len as u64;
        len
    }

    #[inline(always)]
    fn next_shared_request(
        &mut self,
        clock: impl Clock,
        hca: &mut impl Hca,
        buffer: &mut [u8],
    ) -> Option<usize> {
        while matches!(self.state, QpState::Rts | QpState::Sqd) {
            let (sender, queue) = self.sends.sender_mut()?;
            match sender.next_fragment(queue, &self.attributes, clock, hca, buffer) {
                NextRequest::Sent(len) => {
                    if !self.attributes.config.service.is_reliable() {
                        self.complete_sends(hca);
                    }
                    return Some(len);
                }
                NextRequest::Blocked => return None,
                NextRequest::Complete => self.complete_sends(hca),
            }
        }
        None
    }

    /// A fragment to this queue pair's number.
    #[inline(always)]
    pub fn receive_fragment(
        &mut self,
        fragment: &Fragment<'_>,
        from: &Addresses,
        clock: impl Clock,
        hca: &mut impl Hca,
    ) {
        self.counters.rcvd_pkts += 1;
        self.counters.rcvd_bytes += fragment.payload.len() as u64;
        if !self.may_receive() {
            self.counters.dropped_in_state += 1;
            return;
        }
        if !self.is_of_peer(from) {
            self.counters.dropped_not_of_peer += 1;
            return;
        }
        let service = self.attributes.config.service;
        match (fragment.is_response(), service) {
            (true, Service::Rc | Service::XrcSend) => self.receive_answer(fragment, clock, hca),
            (false, Service::Rc | Service::XrcRecv | Service::Uc)
                if fragment.transport() == service.transport() =>
            {
                self.receive_shared_request(fragment, service, hca);
            }
            _ => self.counters.dropped_not_of_peer += 1,
        }
    }

    #[inline(always)]
    fn receive_shared_request(
        &mut self,
        fragment: &Fragment<'_>,
        service: Service,
        hca: &mut impl Hca,
    ) {
        self.check_established(hca);
        let is_xrc = service == Service::XrcRecv;
        let request = SharedRequest { fragment, is_xrc };
        let (operation, part) = (fragment.operation(), fragment.part());
        if service == Service::Uc {
            // Packets that still wait were received before this one.
            self.deliver_all_early(hca);
            let action =
                self.responder
                    .on_uc_request(operation, part, &request, &self.attributes, hca);
            return self.on_responder_action(action, hca);
        }
        // Without memory it is dropped, and the peer sends it again.
        if !self.responder.responses_mut().try_reserve() {
            return;
        }
        if !self.responder.is_shared() {
            self.responder.bind();
        }
        let attributes = &self.attributes;
        // One implementation, compiled for what is sent most, and for anything.
        let action = match operation {
            Operation::Send => {
                self.responder
                    .on_request(Operation::Send, part, &request, attributes, hca)
            }
            _ => self
                .responder
                .on_any_request(operation, part, &request, attributes, hca),
        };
        self.on_responder_action(action, hca);
    }

    /// An ACK, NAK, READ response or ATOMIC ACK from the peer.
    #[inline(always)]
    fn receive_answer(&mut self, fragment: &Fragment<'_>, clock: impl Clock, hca: &mut impl Hca) {
        if !matches!(self.state, QpState::Rts | QpState::Sqd) {
            return;
        }
        let Some((sender, queue)) = self.sends.sender_mut() else {
            return;
        };
        let response = (fragment.operation(), fragment.acknowledgment());
        let Some(action) = sender.on_response(queue, fragment.psn(), response, &self.attributes)
        else {
            return;
        };
        // The acknowledged WQEs complete before a later one fails.
        self.complete_sends(hca);
        if action != CompleterAction::None && self.state != QpState::Err {
            self.react_to_fragment(action, fragment, clock.time(), hca);
        }
    }

    /// An ACK that has taken a packet: there was no room for it in shared memory when the peer's queue pair
    /// was destroyed.
    #[cold]
    pub(super) fn receive_ack_packet(&mut self, packet: &Packet, hca: &mut impl Hca) {
        let kind = packet.aeth().map(|aeth| aeth.kind);
        let (Some((sender, queue)), Some(AethKind::Ack { .. })) = (self.sends.sender_mut(), kind)
        else {
            return;
        };
        let psn = packet.bth.psn;
        sender.on_response(queue, psn, (Operation::Ack, kind), &self.attributes);
        self.complete_sends(hca);
    }

    #[inline(never)]
    fn react_to_fragment(
        &mut self,
        action: CompleterAction,
        fragment: &Fragment<'_>,
        now: Time,
        hca: &mut impl Hca,
    ) {
        let attributes = &self.attributes;
        let result = self
            .sends
            .react_to_fragment(action, fragment, attributes, now, hca);
        if let Err(status) = result {
            self.fail_oldest_send(status, hca);
        }
        if action == CompleterAction::TakeResponse {
            self.complete_sends(hca);
        }
    }

    /// Starts the ack timeout when the next fragment has no room, or no way to the peer: it runs
    /// from now on, as if the fragment had been sent.
    #[cold]
    pub fn on_no_room(&mut self, now: Time) {
        let sends = matches!(self.state, QpState::Rts | QpState::Sqd);
        if let Some((sender, queue)) = self.sends.sender_mut().filter(|_| sends) {
            if sender.has_unsent(queue) {
                sender.await_room(&self.attributes, now);
            }
        }
    }
}
