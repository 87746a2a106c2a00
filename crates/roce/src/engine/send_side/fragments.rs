//! Requests through shared memory, and the responses to them.
//!
//! Not here: the state of the sender (`crate::engine::shm`), the memory itself, which the caller has.

use super::{Attributes, Clock, Hca, SendError, SendSide, Sender, Service, Time};
use crate::engine::completer::CompleterAction;
use crate::engine::requester::NextRequest;
use crate::engine::shm::Fragment;
use crate::wire::{AethKind, NakCode, Operation, Packet};

impl SendSide {
    /// Binds the requester to shared memory, if nothing of it is in flight; else no further request begins.
    #[cold]
    pub fn bind(&mut self, attributes: &Attributes, now: impl Clock) -> bool {
        if !self.requester.window().is_idle() {
            let is_reliable = attributes.config.service.is_reliable();
            self.requester.hold(is_reliable, now.time());
            return false;
        }
        self.requester.release();
        let next = self.requester.window().next_psn();
        self.sender = Some(Sender::new(next, attributes));
        true
    }

    /// The shared memory does not exist any more. An unreliable connection goes on with packets, from the
    /// start of the message that it has written in part; a reliable one that is bound fails with its timers.
    pub fn unbind(&mut self, service: Service) {
        self.requester.release();
        if self.is_bound() && !service.is_reliable() {
            self.sender = None;
            self.requester.window_mut().restart();
        }
    }

    /// Other shared memory leads to the peer now: what is in flight is sent again.
    pub fn send_again(&mut self) {
        if let Some(sender) = &mut self.sender {
            sender.send_again();
        }
    }

    /// Writes the next fragment into `buffer` and returns its length. The caller completes what is finished,
    /// if the service is unreliable.
    #[inline(always)]
    pub fn next_fragment(
        &mut self,
        attributes: &Attributes,
        clock: impl Clock,
        hca: &mut impl Hca,
        buffer: &mut [u8],
    ) -> Result<Option<usize>, SendError> {
        while let Some((sender, queue)) = self.sender_mut() {
            match sender.next_fragment(queue, attributes, clock, hca, buffer) {
                NextRequest::Sent(len) => return Ok(Some(len)),
                NextRequest::Blocked => return Ok(None),
                NextRequest::Complete => self.complete(attributes, hca)?,
            }
        }
        Ok(None)
    }

    /// An ACK, NAK, READ response or ATOMIC ACK from the peer.
    #[inline(always)]
    pub fn on_fragment(
        &mut self,
        fragment: &Fragment<'_>,
        attributes: &Attributes,
        clock: impl Clock,
        hca: &mut impl Hca,
    ) -> Result<(), SendError> {
        let Some((sender, queue)) = self.sender_mut() else {
            return Ok(());
        };
        let response = (fragment.operation(), fragment.acknowledgment());
        let Some(action) = sender.on_response(queue, fragment.psn(), response, attributes) else {
            return Ok(());
        };
        // The acknowledged WQEs complete before a later one fails.
        self.complete(attributes, hca)?;
        match action {
            CompleterAction::None => Ok(()),
            _ => self.react_to_fragment(action, fragment, attributes, clock.time(), hca),
        }
    }

    #[inline(never)]
    fn react_to_fragment(
        &mut self,
        action: CompleterAction,
        fragment: &Fragment<'_>,
        attributes: &Attributes,
        now: Time,
        hca: &mut impl Hca,
    ) -> Result<(), SendError> {
        let Some(sender) = &mut self.sender else {
            return Ok(());
        };
        let counters = self.completer.counters_mut();
        match action {
            CompleterAction::None => {}
            CompleterAction::Retransmit | CompleterAction::Gap => {
                let is_nak = Some(AethKind::Nak(NakCode::PsnSequence)) == fragment.acknowledgment();
                counters.rcvd_seq_err += u64::from(is_nak);
                counters.completer_retry_err += 1;
                sender.send_again();
            }
            CompleterAction::RnrWait { timer } => {
                counters.rcvd_rnr_err += 1;
                sender.on_rnr_nak(timer, attributes, now)?;
            }
            CompleterAction::TakeResponse => {
                let queue = self.requester.window().queue();
                sender.on_data(queue, fragment, attributes, hca)?;
                self.complete(attributes, hca)?;
            }
            CompleterAction::Fail(status) => return Err(status.into()),
        }
        Ok(())
    }

    /// An ACK that has taken a packet: there was no room for it in shared memory when the peer's queue pair
    /// was destroyed.
    #[cold]
    pub(super) fn on_late_ack(
        &mut self,
        packet: &Packet,
        attributes: &Attributes,
        hca: &mut impl Hca,
    ) -> Result<(), SendError> {
        let kind = packet.aeth().map(|aeth| aeth.kind);
        let (Some((sender, queue)), Some(AethKind::Ack { .. })) = (self.sender_mut(), kind) else {
            return Ok(());
        };
        let psn = packet.bth.psn;
        sender.on_response(queue, psn, (Operation::Ack, kind), attributes);
        self.complete(attributes, hca)
    }

    /// Starts the ack timeout when the next fragment has no room, or no way to the peer: it runs from now on,
    /// as if the fragment had been sent.
    #[cold]
    pub fn on_no_room(&mut self, attributes: &Attributes, now: Time) {
        if let Some((sender, queue)) = self.sender_mut() {
            if sender.has_unsent(queue) {
                sender.await_room(attributes, now);
            }
        }
    }
}
