//! The timers of a queue pair.

use super::Time;

/// The purpose of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timer {
    /// The ack timeout (9.7.6.1.3): retransmit, and consume one of `retry_cnt`.
    AckTimeout,
    /// The retransmission timeout (RFC 6298), shorter than the ack timeout: retransmit without
    /// consuming one of `retry_cnt`. Also the timer of a probe, and of a packet that is sent alone.
    Rto,
    /// The wait after an RNR NAK (9.7.5.2.8): retransmit.
    Rnr,
}

/// When each [`Timer`] expires.
#[derive(Clone, Copy, Debug)]
pub struct TimerTable {
    /// Indexed by [`Timer`]; [`STOPPED`] if the timer does not run.
    expiry: [Time; 3],
}

const STOPPED: Time = Time(u64::MAX);

impl TimerTable {
    /// All timers stopped.
    pub const fn new() -> TimerTable {
        TimerTable {
            expiry: [STOPPED; 3],
        }
    }

    /// Starts the timer, or moves its expiry to `at`.
    pub fn set(&mut self, timer: Timer, at: Time) {
        self.expiry[timer as usize] = at;
    }

    /// Stops the timer, if it runs.
    pub fn stop(&mut self, timer: Timer) {
        self.expiry[timer as usize] = STOPPED;
    }

    /// When the timer expires; None if it does not run.
    pub fn get(&self, timer: Timer) -> Option<Time> {
        let at = self.expiry[timer as usize];
        (at != STOPPED).then_some(at)
    }

    /// Whether the timer runs.
    pub fn is_set(&self, timer: Timer) -> bool {
        self.expiry[timer as usize] != STOPPED
    }

    /// Whether the timer runs and has expired.
    pub fn is_expired(&self, timer: Timer, now: Time) -> bool {
        self.get(timer).is_some_and(|at| at <= now)
    }

    /// When the first timer expires; None if none runs.
    pub fn next(&self) -> Option<Time> {
        let [ack_timeout, rto, rnr] = self.expiry;
        let first = ack_timeout.min(rto).min(rnr);
        (first != STOPPED).then_some(first)
    }
}
