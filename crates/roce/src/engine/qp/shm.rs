//! A connected queue pair that is bound to shared memory: the requests and responses that it writes
//! there, and those that it receives.
//!
//! Not here: the memory itself, which the caller has.

use super::{Addresses, Clock, Hca, Qp, QpState, Service, Time};
use crate::engine::request::SharedRequest;
use crate::engine::responder::NextResponse;
use crate::engine::shm::Fragment;
use crate::wire::Operation;

/// Shared memory in place of packets, between processes of one host. Only uroce uses this.
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

    /// Releases the shared memory, which does not exist any more: an unreliable connection goes on with
    /// packets, a reliable one that is bound fails with its timers.
    pub fn unbind(&mut self, clock: impl Clock) {
        self.sends.unbind(self.attributes.config.service);
        if self.sends.is_bound() {
            self.on_no_room(clock.time());
        }
    }

    /// Whether requests, or responses, take packets.
    #[inline]
    pub fn uses_packets(&self) -> bool {
        self.notification.is_due()
            || self.responder.responses().has_next() && !self.responder.is_shared()
            || self.state.sends() && !self.sends.is_bound() && self.sends.has_unsent()
    }

    /// Other shared memory leads to the peer now: what is in flight is sent again.
    pub fn on_other_memory(&mut self) {
        self.sends.send_again();
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
        if !self.state.sends() {
            return None;
        }
        let sent = self
            .sends
            .next_fragment(&self.attributes, clock, hca, buffer);
        let len = self.unwrap_or_fail(sent, hca)?;
        if !self.attributes.config.service.is_reliable() {
            self.complete_sends(hca);
        }
        self.counters.on_sent(len);
        Some(len)
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
        self.counters.on_sent(len);
        Some(len)
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
        self.counters.on_received(fragment.payload.len());
        if !self.state.receives() {
            self.counters.dropped_in_state += 1;
            return;
        }
        if !self.attributes.is_of_peer(from) {
            self.counters.dropped_not_of_peer += 1;
            return;
        }
        let service = self.attributes.config.service;
        match (fragment.is_response(), service) {
            (true, Service::Rc | Service::XrcSend) => {
                if self.state.sends() {
                    let result = self
                        .sends
                        .on_fragment(fragment, &self.attributes, clock, hca);
                    self.unwrap_or_fail(result, hca);
                }
            }
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
        let (responder, attributes) = (&mut self.responder, &self.attributes);
        if service == Service::Uc {
            let action = responder.on_uc_fragment(operation, part, &request, attributes, hca);
            return self.on_responder_action(action, hca);
        }
        // Without memory it is dropped, and the peer sends it again.
        if !responder.responses_mut().try_reserve() {
            return;
        }
        if !responder.is_shared() {
            responder.bind();
        }
        // One implementation, compiled for what is sent most, and for anything.
        let action = match operation {
            Operation::Send => {
                responder.on_request(Operation::Send, part, &request, attributes, hca)
            }
            _ => responder.on_any_request(operation, part, &request, attributes, hca),
        };
        self.on_responder_action(action, hca);
    }

    /// Starts the ack timeout when the next fragment has no room, or no way to the peer: it runs
    /// from now on, as if the fragment had been sent.
    #[cold]
    pub fn on_no_room(&mut self, now: Time) {
        if self.state.sends() {
            self.sends.on_no_room(&self.attributes, now);
        }
    }
}
