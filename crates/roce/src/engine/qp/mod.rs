//! A queue pair: its state, the calls that drive it, and the wiring of send side and responder. Only this
//! module changes the state.

mod direct;
mod dropped;
mod ecn;
mod errors;
mod receive;
mod shm;

use ibverbs_abi::{IBV_WC_RETRY_EXC_ERR, IBV_WC_WR_FLUSH_ERR};

use self::ecn::Notification;
use super::attributes::Attributes;
use super::counters::Counters;
use super::emit::Encoded;
use super::requester::Pace;
use super::responder::{self, NextResponse, Responder};
use super::send_side::{SendError, SendSide};
use super::{
    Addresses, Clock, Hca, PeerActivity, QpChange, QpConfig, QpEvent, QpState, RecvWr, SendWr,
    Service, Time, Transmit, UdAddress, WorkQueue,
};
use crate::wire::{ICRC_LEN, Packet};

/// A queue pair.
pub struct Qp {
    state: QpState,
    attributes: Attributes,
    sends: SendSide,
    responder: Responder,
    notification: Notification,
    /// The counts that no part keeps, and those of the parts before the last move to RESET.
    counters: Counters,
}

impl Qp {
    /// A queue pair in RESET.
    pub fn new(config: QpConfig) -> Qp {
        Qp {
            state: QpState::Reset,
            attributes: Attributes::new(config),
            sends: SendSide::new(&config),
            responder: Responder::new(&config),
            notification: Notification::default(),
            counters: Counters::default(),
        }
    }

    /// The attributes that never change.
    pub fn config(&self) -> &QpConfig {
        &self.attributes.config
    }

    /// The counts of the queue pair since it was created.
    pub fn counters(&self) -> Counters {
        let mut sum = self.counters;
        sum += *self.sends.counters();
        sum += self.responder.counters();
        sum
    }

    /// [`Qp::counters`], which begin at 0 again.
    pub fn take_counters(&mut self) -> Counters {
        let mut sum = std::mem::take(&mut self.counters);
        sum += self.sends.take_counters();
        sum += self.responder.take_counters();
        sum
    }

    /// The caller defers [`Qp::transmit`] although there may be an ACK to send.
    pub fn count_deferred_ack(&mut self) {
        self.counters.ack_deferred += 1;
    }

    /// The current state.
    pub fn state(&self) -> QpState {
        self.state
    }

    /// The attributes that `ibv_query_qp` reports: all Some, with `state` the current state.
    pub fn attributes(&self) -> QpChange {
        let attributes = &self.attributes;
        QpChange {
            state: Some(self.state),
            sqd_async_notify: Some(attributes.sqd_async_notify),
            qkey: Some(attributes.qkey),
            pkey_index: Some(attributes.pkey_index),
            access: Some(attributes.access),
            av: Some(attributes.av),
            path_mtu: Some(attributes.path_mtu),
            active_mtu: Some(attributes.active_mtu),
            dest_qpn: Some(attributes.dest_qpn),
            rq_psn: Some(self.responder.epsn()),
            sq_psn: Some(self.sends.next_psn()),
            max_rd_atomic: Some(attributes.max_rd_atomic),
            max_dest_rd_atomic: Some(attributes.max_dest_rd_atomic),
            min_rnr_timer: Some(attributes.min_rnr_timer),
            timeout: Some(attributes.timeout),
            retry_cnt: Some(attributes.retry_cnt),
            rnr_retry: Some(attributes.rnr_retry),
        }
    }

    /// Whether the send queue is draining (`sq_draining`).
    pub fn sq_draining(&self) -> bool {
        self.sends.is_draining()
    }

    /// Send WQEs that have not completed.
    pub fn send_depth(&self) -> u32 {
        self.sends.queue().len() as u32
    }

    /// WQEs in the queue pair's own receive queue.
    pub fn recv_depth(&self) -> u32 {
        self.responder.recv_queue().depth()
    }

    /// Changes attributes and state. A move to ERR flushes all WQEs with completions, the send queue's
    /// in order, then the receive queue's; a move to RESET discards them without.
    pub fn modify(&mut self, change: &QpChange, now: Time, hca: &mut impl Hca) {
        let target = change.state.unwrap_or(self.state);
        if target == QpState::Reset {
            let counters = self.counters();
            *self = Qp::new(self.attributes.config);
            self.counters = counters;
            hca.end_in_order();
            return;
        }
        if target == QpState::Sqd && self.state != QpState::Sqd {
            self.attributes.sqd_async_notify = false;
        }
        self.attributes.apply(change);
        if let Some(psn) = change.rq_psn {
            self.responder.start(psn);
        }
        if let Some(psn) = change.sq_psn {
            self.sends.start(psn, &self.attributes);
        }
        if target == self.state {
            return;
        }
        match target {
            QpState::Err => {
                self.responder.responses_mut().queue_mut().withhold_reads();
                self.enter_error(hca);
            }
            QpState::Sqd => {
                self.state = QpState::Sqd;
                self.sends.drain(&self.attributes, now, hca);
            }
            QpState::Rts => {
                self.sends.resume();
                self.state = QpState::Rts;
            }
            state => self.state = state,
        }
    }

    /// Posts a WR to the send queue; false if the queue is full, or there is no memory. The caller has
    /// validated state and WR (the service allows the operation, number of SGEs, length of inline data).
    /// In ERR and SQE the WR is flushed.
    pub fn post_send(&mut self, wr: SendWr, hca: &mut impl Hca) -> bool {
        let Some(next) = self.next_send() else {
            return false;
        };
        *next = wr;
        self.post_next_send(hca)
    }

    /// Space for the WR of [`Qp::post_next_send`]. It has any values: see [`SendWr::begin`]. None if there is
    /// no memory.
    #[inline]
    pub fn next_send(&mut self) -> Option<&mut SendWr> {
        self.sends.next_wr()
    }

    /// Whether the send queue has free slots for that number of WRs ([`crate::engine::PolledSends`]).
    #[inline]
    pub fn has_send_slots(&mut self, count: u32, hca: &impl Hca) -> bool {
        self.sends.has_slots(count, &self.attributes, hca)
    }

    /// [`Qp::post_send`] for the WR that was written to [`Qp::next_send`] just before.
    #[inline]
    pub fn post_next_send(&mut self, hca: &mut impl Hca) -> bool {
        let posted = self.sends.post_next(self.state, &self.attributes, hca);
        let is_posted = posted.unwrap_or_else(|error| {
            self.on_send_error(error, hca);
            true
        });
        if matches!(self.state, QpState::Err | QpState::Sqe) {
            self.sends.flush(hca);
        }
        is_posted
    }

    /// Posts a WR to the receive queue; false if the queue is full, or there is no memory. In ERR the WR
    /// is flushed.
    #[inline]
    pub fn post_recv(&mut self, wr: RecvWr, hca: &mut impl Hca) -> bool {
        let max = self.attributes.config.limits.max_recv_wr;
        if !self.responder.recv_queue_mut().has_slot(max, hca) {
            return false;
        }
        if self.state == QpState::Err {
            let completion = responder::failed(&wr, IBV_WC_WR_FLUSH_ERR);
            self.responder.recv_queue_mut().skip();
            let _ = hca.complete(WorkQueue::Recv, completion);
            return true;
        }
        self.responder.recv_queue_mut().post(wr)
    }

    /// Writes the next packet that may be sent now into `buffer`; None if there is none. The buffer has
    /// room for [`crate::wire::MAX_HEADERS`], the path MTU, 3 bytes of padding, and the ICRC.
    #[inline(always)]
    pub fn transmit(
        &mut self,
        clock: impl Clock,
        hca: &mut impl Hca,
        buffer: &mut [u8],
    ) -> Option<Transmit> {
        let encoded = match self.attributes.config.service {
            Service::Ud => {
                return self.transmit_datagram(Pace::Paced(clock.time()), hca, buffer);
            }
            _ if self.notification.is_due() => {
                let to = self.attributes.dest_qpn;
                self.notification.next(to, buffer, &mut self.counters)
            }
            Service::Uc => self.next_uc_packet(clock.time(), hca, buffer),
            _ => self.next_reliable(clock, hca, buffer),
        };
        let len = encoded?.len;
        self.counters.on_sent(len + ICRC_LEN);
        Some(Transmit {
            av: self.attributes.av,
            dest_qpn: self.attributes.dest_qpn,
            len,
        })
    }

    /// [`Qp::transmit`] for a UD queue pair.
    #[inline(always)]
    pub fn transmit_datagram(
        &mut self,
        pace: Pace,
        hca: &mut impl Hca,
        buffer: &mut [u8],
    ) -> Option<Transmit> {
        if !self.state.sends() {
            return None;
        }
        let sent = self
            .sends
            .next_datagram(&self.attributes, pace, hca, buffer);
        let packet = self.unwrap_or_fail(sent, hca)?;
        self.complete_sends(hca);
        self.counters.on_sent(packet.len + ICRC_LEN);
        Some(packet)
    }

    /// Writes the next packet of an unreliable connection into `buffer`.
    fn next_uc_packet(
        &mut self,
        now: Time,
        hca: &mut impl Hca,
        buffer: &mut [u8],
    ) -> Option<Encoded> {
        if !self.state.sends() {
            return None;
        }
        let sent = self
            .sends
            .next_uc_packet(&self.attributes, now, hca, buffer);
        let sent = self.unwrap_or_fail(sent, hca)?;
        self.complete_sends(hca);
        Some(sent)
    }

    /// Writes the next packet of a reliable connection into `buffer`. Responses go before requests, except
    /// that one request may go before an ACK (see `ResponseQueue::yields_to_request`).
    #[inline(always)]
    fn next_reliable(
        &mut self,
        clock: impl Clock,
        hca: &mut impl Hca,
        buffer: &mut [u8],
    ) -> Option<Encoded> {
        if self.sends.requester().has_unsent() {
            let responses = self.responder.responses_mut();
            if responses.queue_mut().yields_to_request() {
                if let Some(request) = self.next_request(clock, hca, buffer) {
                    return Some(request);
                }
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
        if !self.state.sends() {
            return None;
        }
        let sent = self.sends.next_packet(&self.attributes, clock, hca, buffer);
        self.unwrap_or_fail(sent, hca)
    }

    #[inline(always)]
    fn next_response(
        &mut self,
        clock: impl Clock,
        hca: &mut impl Hca,
        buffer: &mut [u8],
    ) -> Option<Encoded> {
        // No other takes a packet: see `SendSide::on_late_ack`.
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

    /// Whether [`Qp::transmit`] may have something to do. If not, it returns None and changes nothing.
    #[inline]
    pub fn may_transmit(&self) -> bool {
        self.has_response() || self.state.sends() && self.sends.has_unsent()
    }

    /// Whether the requester waits after an RNR NAK.
    #[inline]
    pub fn is_rnr_waiting(&self) -> bool {
        self.sends.is_rnr_waiting()
    }

    /// Whether a response waits to be sent.
    #[inline]
    pub fn has_response(&self) -> bool {
        self.responder.responses().has_next() || self.notification.is_due()
    }

    /// Where the next packet of a UD queue pair goes, if [`Qp::transmit`] does not fail its WQE.
    pub fn next_destination(&self) -> Option<&UdAddress> {
        self.sends.queue().front()?.wr.ud.as_ref()
    }

    /// Whether [`Qp::fail_unreachable`] does anything.
    pub fn can_fail_unreachable(&self) -> bool {
        let waits = self.send_depth() > 0 && (self.state == QpState::Rts || self.sq_draining());
        let attributes = &self.attributes;
        waits && attributes.config.service.is_reliable() && attributes.timeout != 0
    }

    /// The peer of a reliable connection is known to be gone: what is outstanding fails as if all retries had
    /// been used. Without an ack timeout it stays outstanding.
    pub fn fail_unreachable(&mut self, hca: &mut impl Hca) {
        if self.can_fail_unreachable() {
            self.on_send_error(SendError::Failed(IBV_WC_RETRY_EXC_ERR), hca);
        }
    }

    /// Whether the caller may defer [`Qp::transmit`] until more WQEs are posted: enough packets are in
    /// flight that their acknowledgments soon cause a transmission, and only few packets wait.
    pub fn may_defer_transmit(&self) -> bool {
        self.state == QpState::Rts && !self.sends.is_bound() && self.sends.requester().may_defer()
    }

    /// The latest time at which [`Qp::handle_timeout`] and then [`Qp::transmit`] must be called if
    /// nothing happens before; None if no timer runs.
    pub fn next_timeout(&self) -> Option<Time> {
        let timer = self
            .state
            .sends()
            .then(|| self.sends.next_timeout())
            .flatten();
        if self.sends.is_bound() {
            return timer;
        }
        match (timer, self.pacing_until()) {
            (Some(timer), Some(pacing)) => Some(timer.min(pacing)),
            (timer, pacing) => timer.or(pacing),
        }
    }

    /// Whether the response to a READ waits that may have been sent before ([`Hca::sends_in_order`]).
    #[inline]
    pub fn repeats_reads(&self) -> bool {
        self.responder.responses().queue().repeats_reads()
    }

    /// When the pacer allows the next packet, if there is one that waits for it.
    fn pacing_until(&self) -> Option<Time> {
        if self.attributes.config.service.is_reliable() {
            self.responder.responses().pacing_until()
        } else if self.state == QpState::Rts || self.sq_draining() {
            self.sends.requester().pacing_until()
        } else {
            None
        }
    }

    /// Handles the timers that have expired. `peer`: the one of a connected queue pair.
    pub fn handle_timeout(&mut self, now: Time, peer: PeerActivity, hca: &mut impl Hca) {
        if self.state.sends() {
            let result = self.sends.on_timeout(&self.attributes, peer, now, hca);
            self.unwrap_or_fail(result, hca);
        }
    }

    /// Drops the requests that wait for an earlier one, as a responder of another make does. For simulations.
    pub fn drop_early(&mut self) {
        self.responder.drop_early();
    }

    /// The send side, for tests to inspect.
    #[cfg(test)]
    pub fn sends(&self) -> &SendSide {
        &self.sends
    }

    /// The send side, for tests to change.
    #[cfg(test)]
    pub fn sends_mut(&mut self) -> &mut SendSide {
        &mut self.sends
    }

    /// The responder, for tests to inspect.
    #[cfg(test)]
    pub fn responder(&self) -> &Responder {
        &self.responder
    }
}
