//! [`AnswerTimers`]: how long a queue pair that is bound to shared memory waits for its peer.
//!
//! Specification: 9.7.5.2, 9.7.6.1.3.

use std::time::Duration;

use ibverbs_abi::*;

use crate::engine::attributes::Attributes;
use crate::engine::retries::Retries;
use crate::engine::{Clock, PeerActivity, Time, encoding};

/// Without an answer, a request that the peer has taken is sent again after this time, or after the ack
/// timeout if that is shorter: the peer has dropped it because it had no memory, or was not ready to receive.
const REPEAT_AFTER: Duration = Duration::from_millis(500);

/// The RNR timer, the ack timeout, and the retries that are left.
#[derive(Debug, Default)]
pub(super) struct AnswerTimers {
    retries: Retries,
    /// The end of the wait after an RNR NAK.
    rnr_until: Option<Time>,
    /// When to check next whether requests have been answered.
    deadline: Option<Time>,
    /// An answer has come since the deadline was set.
    has_progress: bool,
    /// The next fragment had no room.
    is_starved: bool,
    /// The time from when the deadline was set to it.
    interval: Duration,
    /// How long the oldest request had not been answered when the deadline was set.
    unanswered: Duration,
}

impl AnswerTimers {
    /// No timer runs.
    pub fn new(attributes: &Attributes) -> AnswerTimers {
        AnswerTimers {
            retries: Retries::new(attributes),
            ..AnswerTimers::default()
        }
    }

    /// Stops all.
    pub fn stop(&mut self) {
        (self.rnr_until, self.deadline, self.is_starved) = (None, None, false);
    }

    /// Whether the sender waits after an RNR NAK.
    #[inline]
    pub fn is_rnr_waiting(&self) -> bool {
        self.rnr_until.is_some()
    }

    /// Whether nothing may be sent now. The clock is read only after an RNR NAK.
    #[inline(always)]
    pub fn must_wait(&mut self, clock: impl Clock) -> bool {
        let waits = self.rnr_until.is_some_and(|until| clock.time() < until);
        if !waits {
            self.rnr_until = None;
        }
        waits
    }

    /// When the first of the timers expires.
    #[inline]
    pub fn next(&self) -> Option<Time> {
        match (self.rnr_until, self.deadline) {
            (None, deadline) => deadline,
            (rnr, None) => rnr,
            (Some(rnr), Some(deadline)) => Some(rnr.min(deadline)),
        }
    }

    /// A fragment had room.
    #[inline]
    pub fn on_room(&mut self) {
        self.is_starved = false;
    }

    /// The next fragment has no room. The ack timeout runs from now on, as if it had been written.
    pub fn await_room(&mut self, attributes: &Attributes, now: Time) {
        if self.rnr_until.is_none() {
            self.is_starved = true;
            self.start(attributes, now);
        }
    }

    /// Starts the ack timeout, as something is in flight. The clock is read only if the timer does not run.
    #[inline(always)]
    pub fn start(&mut self, attributes: &Attributes, clock: impl Clock) {
        if self.deadline.is_none() {
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

    /// The oldest request was answered, or a part of it.
    #[inline(always)]
    pub fn on_progress(&mut self, attributes: &Attributes) {
        if !self.has_progress {
            self.has_progress = true;
            self.unanswered = Duration::ZERO;
            self.retries.restore(attributes);
        }
        self.rnr_until = None;
    }

    /// The peer has no receive for the oldest request, which is sent again later (9.7.5.2.8). False if the
    /// RNR timer runs already. An error is the status that the request fails with.
    pub fn on_rnr_nak(
        &mut self,
        timer: u8,
        attributes: &Attributes,
        now: Time,
    ) -> Result<bool, ibv_wc_status> {
        if self.is_rnr_waiting() {
            return Ok(false);
        }
        self.retries.consume_rnr(attributes)?;
        // The next progress restores the retries.
        self.has_progress = false;
        self.deadline = None;
        self.rnr_until = Some(now.after(encoding::rnr_timer(timer)));
        Ok(true)
    }

    /// Stops the timers that have expired. Returns how late the ack timeout is handled, if that is one of
    /// them and a request waits: one that `is_in_flight`, or that had no room.
    pub fn take_expired(&mut self, is_in_flight: bool, now: Time) -> Option<Duration> {
        self.rnr_until = self.rnr_until.filter(|until| now < *until);
        let deadline = self.deadline.take_if(|deadline| *deadline <= now)?;
        (is_in_flight || self.is_starved).then(|| now.since(deadline))
    }

    /// The ack timeout has expired `late` ago, and it is the peer that has not answered. Returns whether the
    /// request is sent again; an error is the status that it fails with.
    pub fn on_ack_timeout(
        &mut self,
        late: Duration,
        attributes: &Attributes,
        peer: PeerActivity,
        now: Time,
    ) -> Result<bool, ibv_wc_status> {
        if self.has_progress {
            return Ok(false);
        }
        self.unanswered += self.interval;
        let timeout = encoding::ack_timeout(attributes.timeout);
        if timeout.is_some_and(|timeout| self.unanswered >= timeout) {
            self.unanswered = Duration::ZERO;
            self.retries.consume(late, attributes, peer, now)?;
        }
        // Requests that the peer has not taken are not lost.
        Ok(peer == PeerActivity::Unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Service;
    use crate::engine::tests::network::config;

    #[test]
    fn a_request_is_repeated_and_fails_when_no_retry_is_left() {
        let mut attributes = Attributes::new(config(Service::Rc, 0));
        // 4.096 µs * 2^18: longer than REPEAT_AFTER.
        (attributes.timeout, attributes.retry_cnt) = (18, 1);
        let mut timers = AnswerTimers::new(&attributes);
        let mut outcomes = Vec::new();
        timers.start(&attributes, Time(0));
        while let Some(now) = timers.next() {
            let late = timers.take_expired(true, now).unwrap();
            outcomes.push(timers.on_ack_timeout(late, &attributes, PeerActivity::Unknown, now));
            if outcomes.last().is_some_and(Result::is_ok) {
                timers.start(&attributes, now);
            }
        }
        // Each timeout has three parts of at most REPEAT_AFTER.
        let failed = Err(IBV_WC_RETRY_EXC_ERR);
        assert_eq!(outcomes, [vec![Ok(true); 5], vec![failed]].concat());
        let refused = timers.on_rnr_nak(1, &attributes, Time(0));
        assert_eq!(refused, Err(IBV_WC_RNR_RETRY_EXC_ERR));
    }
}
