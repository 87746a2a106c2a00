//! Responses, RNR waits and ack timeouts of a queue pair that is bound to shared memory.
//!
//! Not here: writing requests (`sender`, `write`). For packets the same is in `engine::completer`.
//!
//! Specification: 9.7.5.2, 9.7.6.1.3.

use std::time::Duration;

use ibverbs_abi::*;

use super::{Fragment, Sender};
use crate::engine::attributes::Attributes;
use crate::engine::completer::nak_status;
use crate::engine::counters::Counters;
use crate::engine::retries::Exhausted;
use crate::engine::send_queue::{OpClass, SendQueue, WqeState};
use crate::engine::{Clock, Hca, PeerActivity, Time, encoding};
use crate::wire::{AethKind, Operation, Psn};

/// Without an answer, a request that the peer has taken is sent again after this time, or after the ack
/// timeout if that is shorter: the peer has dropped it because it had no memory, or was not ready to receive.
const REPEAT_AFTER: Duration = Duration::from_millis(500);

/// The reaction that a response requires after the WQEs that it acknowledges have completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Nothing.
    Done,
    /// Send again from the oldest request: call [`Sender::send_again`].
    Again,
    /// Take the data of the response: call [`Sender::on_data`].
    Data,
    /// Wait for the peer's RNR timer, whose code this is: call [`Sender::on_rnr_nak`].
    RnrWait {
        /// The code.
        timer: u8,
    },
    /// The oldest WQE fails.
    Fail(ibv_wc_status),
}

impl Sender {
    /// A response to the request with that PSN. Acknowledges what it covers and returns what else it
    /// requires; None if it is old, or answers what was never sent.
    #[inline(always)]
    pub fn on_response(
        &mut self,
        queue: &SendQueue,
        psn: Psn,
        (operation, kind): (Operation, Option<AethKind>),
        attributes: &Attributes,
    ) -> Option<Answer> {
        let end = match kind {
            Some(AethKind::Ack { .. }) => psn.next(),
            _ => psn,
        };
        // One that was never sent, or that is acknowledged already.
        let is_sent = psn.distance(self.highest) < 0
            || psn == self.next && self.sent > 0 && !matches!(kind, Some(AethKind::Ack { .. }));
        if !is_sent || psn.distance(self.acked) < 0 {
            return None;
        }
        if !self.acknowledge(end, queue, attributes) {
            // The response of a READ or an atomic is missing.
            return Some(Answer::Again);
        }
        Some(match (operation, kind) {
            (_, Some(AethKind::Ack { .. })) => Answer::Done,
            (_, Some(AethKind::RnrNak { timer })) => Answer::RnrWait { timer },
            (_, Some(AethKind::Nak(code))) => match nak_status(code) {
                Some(status) => Answer::Fail(status),
                None if self.rnr_until.is_some() => Answer::Done,
                None => Answer::Again,
            },
            (Operation::Ack, None) => Answer::Fail(IBV_WC_BAD_RESP_ERR),
            (_, None) => Answer::Data,
        })
    }

    /// The peer has executed every request before `end`. False if one of them is a READ or atomic whose
    /// response has not come: then only those before it are acknowledged.
    #[inline(always)]
    fn acknowledge(&mut self, end: Psn, queue: &SendQueue, attributes: &Attributes) -> bool {
        let count = end.distance(self.acked);
        if count <= 0 {
            return true;
        }
        // Requests that are to be sent again are not counted.
        if self.rd_atomic_in_flight > 0 || end.distance(self.next) > 0 {
            return self.acknowledge_each(end, queue, attributes);
        }
        self.advance(count as u32, attributes);
        true
    }

    #[cold]
    fn acknowledge_each(&mut self, end: Psn, queue: &SendQueue, attributes: &Attributes) -> bool {
        let count = end.distance(self.acked) as usize;
        let first = self.finished as usize;
        let requests = queue.iter().filter(|wqe| wqe.state == WqeState::Pending);
        let mut acked = 0;
        for wqe in requests.skip(first).take(count) {
            match wqe.class() {
                OpClass::Read | OpClass::Atomic => break,
                OpClass::EmptyResponse => {
                    self.rd_atomic_in_flight = self.rd_atomic_in_flight.saturating_sub(1);
                }
                OpClass::Acked | OpClass::Local => {}
            }
            acked += 1;
        }
        if acked > 0 {
            self.advance(acked as u32, attributes);
        }
        acked == count
    }

    /// This number of requests is finished.
    #[inline(always)]
    fn advance(&mut self, count: u32, attributes: &Attributes) {
        self.acked = self.acked + count;
        self.finished += count;
        self.received = 0;
        if self.next.distance(self.acked) < 0 {
            // The requests were about to be sent again. The WQEs before `current` are removed next.
            self.next = self.acked;
            (self.current, self.sent) = (0, 0);
            self.rd_atomic_in_flight = 0;
        }
        self.on_progress(attributes);
    }

    #[inline(always)]
    fn on_progress(&mut self, attributes: &Attributes) {
        if !self.has_progress {
            self.has_progress = true;
            self.unanswered = Duration::ZERO;
            self.retries.restore(attributes);
        }
        self.rnr_until = None;
    }

    /// Takes the data of a READ, the value of an atomic, or the answer to an ATOMIC WRITE or FLUSH: the
    /// oldest request. All WQEs before it have completed. An error is the status that the WQE fails with.
    pub fn on_data(
        &mut self,
        queue: &SendQueue,
        fragment: &Fragment<'_>,
        attributes: &Attributes,
        hca: &mut impl Hca,
    ) -> Result<(), ibv_wc_status> {
        let mut requests = queue.iter().filter(|wqe| wqe.state == WqeState::Pending);
        let Some(wqe) = requests.next().filter(|_| fragment.psn() == self.acked) else {
            return Ok(());
        };
        let (offset, payload) = (fragment.offset(), fragment.payload);
        match (wqe.class(), fragment.operation()) {
            (OpClass::Read, Operation::ReadResponse) => {
                // After a request that was sent again, bytes come a second time.
                if offset > self.received {
                    return Ok(());
                }
                let end = u64::from(offset) + payload.len() as u64;
                let is_complete = end == u64::from(wqe.len);
                if end > u64::from(wqe.len) || fragment.ends() != is_complete {
                    return Err(IBV_WC_BAD_RESP_ERR);
                }
                if !payload.is_empty() {
                    hca.scatter(wqe.wr.sges(), offset.into(), payload)
                        .map_err(|error| error.status())?;
                }
                self.received = end as u32;
                self.on_progress(attributes);
                if !is_complete {
                    return Ok(());
                }
            }
            (OpClass::Atomic, Operation::AtomicAck) => {
                let value = fragment.original_value().to_ne_bytes();
                hca.scatter(wqe.wr.sges(), 0, &value)
                    .map_err(|error| error.status())?;
            }
            (OpClass::EmptyResponse, Operation::ReadResponse) if payload.is_empty() => {}
            _ => return Err(IBV_WC_BAD_RESP_ERR),
        }
        self.rd_atomic_in_flight = self.rd_atomic_in_flight.saturating_sub(1);
        self.advance(1, attributes);
        Ok(())
    }

    /// The peer has no receive for the oldest request (9.7.5.2.8).
    pub fn on_rnr_nak(
        &mut self,
        timer: u8,
        attributes: &Attributes,
        now: Time,
        counters: &mut Counters,
    ) -> Result<(), ibv_wc_status> {
        counters.rcvd_rnr_err += 1;
        if self.rnr_until.is_some() {
            return Ok(());
        }
        if let Err(Exhausted) = self.retries.consume_rnr(attributes) {
            counters.retry_rnr_exceeded_err += 1;
            return Err(IBV_WC_RNR_RETRY_EXC_ERR);
        }
        self.send_again();
        // The next progress restores the retries.
        self.has_progress = false;
        self.deadline = None;
        self.rnr_until = Some(now.after(encoding::rnr_timer(timer)));
        Ok(())
    }

    /// Sends again from the oldest request. The WQEs that are finished have been removed.
    pub fn send_again(&mut self) {
        self.begun = self.begun_wqes();
        self.next = self.acked;
        self.current = 0;
        self.sent = 0;
        self.rd_atomic_in_flight = 0;
        self.send_waiting();
    }

    /// Whether the sender waits after an RNR NAK.
    #[inline]
    pub fn is_rnr_waiting(&self) -> bool {
        self.rnr_until.is_some()
    }

    /// When [`Sender::on_timeout`] is to be called.
    #[inline]
    pub fn next_timeout(&self) -> Option<Time> {
        match (self.rnr_until, self.deadline) {
            (None, deadline) => deadline,
            (rnr, None) => rnr,
            (Some(rnr), Some(deadline)) => Some(rnr.min(deadline)),
        }
    }

    /// Starts the timer, as something is in flight. The clock is read only if the timer does not
    /// run.
    #[inline(always)]
    pub(super) fn start_timer(&mut self, attributes: &Attributes, clock: impl Clock) {
        if self.is_reliable && self.deadline.is_none() {
            self.set_deadline(attributes, clock.time());
        }
    }

    fn set_deadline(&mut self, attributes: &Attributes, now: Time) {
        let timeout = encoding::ack_timeout(attributes.timeout);
        let left = timeout.map(|timeout| timeout.saturating_sub(self.unanswered));
        self.interval = left.map_or(REPEAT_AFTER, |left| left.min(REPEAT_AFTER));
        self.deadline = Some(now.after(self.interval));
        self.has_progress = false;
    }

    /// Notes that the next fragment has no room. The ack timeout runs from now on, as if it had been
    /// written.
    #[cold]
    pub fn await_room(&mut self, attributes: &Attributes, now: Time) {
        if self.rnr_until.is_none() {
            self.is_starved = true;
            self.start_timer(attributes, now);
        }
    }

    /// A timer may have expired. An error is the status that the oldest WQE fails with.
    pub fn on_timeout(
        &mut self,
        attributes: &Attributes,
        peer: PeerActivity,
        now: Time,
        counters: &mut Counters,
    ) -> Result<(), ibv_wc_status> {
        if self.rnr_until.is_some_and(|until| until <= now) {
            self.rnr_until = None;
        }
        let Some(deadline) = self.deadline.filter(|deadline| *deadline <= now) else {
            return Ok(());
        };
        self.deadline = None;
        if !self.is_in_flight() && !self.is_starved {
            return Ok(());
        }
        // Or it is this side that has not written the rest of a message.
        let is_ours = self.sent > 0 && peer == PeerActivity::Unknown;
        if self.has_progress || is_ours {
            self.start_timer(attributes, now);
            return Ok(());
        }
        self.unanswered += self.interval;
        let timeout = encoding::ack_timeout(attributes.timeout);
        if timeout.is_some_and(|timeout| self.unanswered >= timeout) {
            self.unanswered = Duration::ZERO;
            let late = now.since(deadline);
            if let Err(Exhausted) = self.retries.consume(late, attributes, peer, now) {
                counters.retry_exceeded_err += 1;
                return Err(IBV_WC_RETRY_EXC_ERR);
            }
        }
        // Requests that the peer has not taken are not lost.
        if peer == PeerActivity::Unknown {
            counters.completer_retry_err += 1;
            self.send_again();
        }
        self.start_timer(attributes, now);
        Ok(())
    }
}
