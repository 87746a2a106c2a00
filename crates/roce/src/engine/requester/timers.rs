//! When packets are retransmitted: the timers of a requester, and the RTT samples that the RTO follows from.
//!
//! Not here: which packets are retransmitted (`window`, `selective`), and counting retries (`completer`).

use std::time::Duration;

use crate::engine::rtt::RttEstimator;
use crate::engine::timer::{Timer, TimerTable};
use crate::engine::{Time, encoding};

/// The shortest time without an acknowledgment after which a probe is sent.
const PROBE_MIN: Duration = Duration::from_micros(500);

/// The retransmission timers.
#[derive(Debug)]
pub struct RetransmissionTimers {
    table: TimerTable,
    rtt: RttEstimator,
    sample: Option<Sample>,
}

/// A packet whose round trip is being measured.
#[derive(Clone, Copy, Debug)]
struct Sample {
    packet: u64,
    sent_at: Time,
}

/// A timer that expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expired {
    /// The ack timeout, which expired `late` ago.
    AckTimeout { late: Duration },
    /// The RTO.
    Rto,
    /// The RTO, or a shorter time, after which one packet at most is sent alone: the same once more, or a
    /// probe.
    Alone,
}

impl RetransmissionTimers {
    /// Without a sample. `salt`: see [`RttEstimator::new`].
    pub fn new(salt: u32) -> RetransmissionTimers {
        RetransmissionTimers {
            table: TimerTable::new(),
            rtt: RttEstimator::new(salt),
            sample: None,
        }
    }

    /// When each of them expires.
    #[inline]
    pub fn table(&self) -> &TimerTable {
        &self.table
    }

    /// The RTT estimate.
    #[inline]
    pub fn rtt(&self) -> &RttEstimator {
        &self.rtt
    }

    /// Whether the RNR timer runs.
    #[inline]
    pub fn is_rnr_waiting(&self) -> bool {
        self.table.is_set(Timer::Rnr)
    }

    /// Whether nothing may be sent before the RNR timer expires. Stops it if it has.
    #[inline]
    pub fn must_wait(&mut self, now: Time) -> bool {
        if self.is_rnr_waiting() && self.table.is_expired(Timer::Rnr, now) {
            self.table.stop(Timer::Rnr);
        }
        self.is_rnr_waiting()
    }

    /// Starts the ack timeout and the RTO unless they run. `timeout` is the encoded attribute. `may_probe`: a
    /// probe may be sent before the RTO.
    #[inline]
    pub fn start(&mut self, timeout: u8, may_probe: bool, now: Time) {
        if !self.table.is_set(Timer::AckTimeout) {
            if let Some(wait) = encoding::ack_timeout(timeout) {
                self.table.set(Timer::AckTimeout, now.after(wait));
            }
        }
        if !self.table.is_set(Timer::Rto) {
            self.restart_rto(self.first_timeout(may_probe), now);
        }
    }

    /// How long an acknowledgment may take before something is sent again.
    fn first_timeout(&self, may_probe: bool) -> Duration {
        match may_probe && self.rtt.is_settled() {
            true => PROBE_MIN.max(self.rtt.srtt() * 4).min(self.rtt.rto()),
            false => self.rtt.rto(),
        }
    }

    /// Starts the RTO with that time in place of its own.
    pub fn restart_rto(&mut self, wait: Duration, now: Time) {
        self.table.set(Timer::Rto, now.after(wait));
    }

    /// Lets the RTO expire at that time.
    pub fn expire_rto(&mut self, at: Time) {
        self.table.set(Timer::Rto, at);
    }

    /// Stops the RTO: what it waits for is retransmitted now.
    pub fn stop_rto(&mut self) {
        self.table.stop(Timer::Rto);
    }

    /// Stops all timers.
    pub fn stop(&mut self) {
        self.table = TimerTable::new();
    }

    /// The packets from `packet` to `end` were sent; `is_first`: for the first time.
    #[inline]
    pub fn on_sent(&mut self, packet: u64, end: u64, is_first: bool, ack_request: bool, now: Time) {
        match &self.sample {
            None if is_first && ack_request => {
                let sent_at = now;
                self.sample = Some(Sample { packet, sent_at });
            }
            Some(sample) if !is_first && sample.packet < end => self.sample = None,
            _ => {}
        }
    }

    /// The packets before `oldest_unacked` are acknowledged: takes the sample if there is one among them, and
    /// stops the timers. `was_spurious`: see [`RttEstimator::on_ack`].
    #[inline(always)]
    pub fn on_ack(&mut self, oldest_unacked: u64, was_spurious: bool, now: Time) {
        self.rtt.on_ack(was_spurious);
        if let Some(sample) = self.sample.filter(|sample| sample.packet < oldest_unacked) {
            self.rtt.on_rtt_sample(now.since(sample.sent_at));
            self.sample = None;
        }
        self.stop();
    }

    /// Packets are retransmitted, so the sample that runs would be ambiguous (Karn's algorithm).
    ///
    /// After a timeout (`is_timeout`) the first sample is taken nevertheless, if its packet is acknowledged
    /// before it is retransmitted. On a path longer than the first RTO there would be none otherwise: each
    /// RTO, being too short, would prevent the sample that makes the next one long enough.
    pub fn drop_sample(&mut self, is_timeout: bool) {
        if !is_timeout || self.rtt.has_sample() {
            self.sample = None;
        }
    }

    /// Waits until `until`, after an RNR NAK.
    pub fn on_rnr_nak(&mut self, until: Time) {
        self.stop();
        self.table.set(Timer::Rnr, until);
    }

    /// Stops the timers that have expired and returns the one that requires a retransmission. An expired ack
    /// timeout stops the RTO too.
    pub fn take_expired(&mut self, now: Time) -> Option<Expired> {
        self.must_wait(now);
        if let Some(at) = self.table.get(Timer::AckTimeout).filter(|at| *at <= now) {
            self.table.stop(Timer::AckTimeout);
            self.table.stop(Timer::Rto);
            let late = now.since(at);
            return Some(Expired::AckTimeout { late });
        }
        let is_expired = self.table.is_expired(Timer::Rto, now);
        is_expired.then(|| {
            self.table.stop(Timer::Rto);
            Expired::Rto
        })
    }

    /// No acknowledgment has come before the RTO.
    pub fn on_rto(&mut self) {
        self.rtt.on_rto();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    /// The code of an ack timeout of 134 ms.
    const TIMEOUT: u8 = 15;

    /// Timers with an RTT sample of 1 ms.
    fn timers() -> RetransmissionTimers {
        let mut timers = RetransmissionTimers::new(1);
        timers.on_sent(5, 6, true, true, Time(0));
        timers.on_ack(6, false, Time(0).after(MS));
        assert_eq!(timers.rtt().srtt(), MS);
        timers
    }

    #[test]
    fn a_probe_comes_before_the_rto_and_that_before_the_ack_timeout() {
        for (may_probe, wait) in [(true, 4 * MS), (false, timers().rtt().rto())] {
            let mut timers = timers();
            timers.start(TIMEOUT, may_probe, Time(0));
            assert_eq!(timers.take_expired(Time(wait.as_nanos() as u64 - 1)), None);
            assert_eq!(timers.take_expired(Time(0).after(wait)), Some(Expired::Rto));
            assert_eq!(timers.take_expired(Time(0).after(100 * MS)), None);
            let late = Some(Expired::AckTimeout {
                late: Duration::ZERO,
            });
            let at = timers.table().get(Timer::AckTimeout).unwrap();
            assert_eq!(timers.take_expired(at), late);
            assert_eq!(timers.table().next(), None);
        }
    }

    #[test]
    fn a_retransmitted_packet_gives_no_sample() {
        let mut timers = timers();
        timers.on_sent(8, 9, true, true, Time(0));
        timers.on_sent(7, 9, false, true, Time(0));
        timers.on_ack(9, false, Time(0).after(100 * MS));
        assert_eq!(timers.rtt().srtt(), MS);
    }

    #[test]
    fn a_timeout_keeps_the_first_sample_only() {
        for (is_timeout, srtt) in [(true, 30 * MS), (false, Duration::ZERO)] {
            let mut timers = RetransmissionTimers::new(1);
            timers.on_sent(5, 6, true, true, Time(0));
            timers.drop_sample(is_timeout);
            timers.on_ack(6, false, Time(0).after(30 * MS));
            assert_eq!(timers.rtt().srtt(), srtt);
        }
        let mut timers = timers();
        timers.on_sent(8, 9, true, true, Time(0));
        timers.drop_sample(true);
        timers.on_ack(9, false, Time(0).after(30 * MS));
        assert_eq!(timers.rtt().srtt(), MS);
    }

    #[test]
    fn nothing_is_sent_while_the_rnr_timer_runs() {
        let mut timers = timers();
        timers.start(TIMEOUT, true, Time(0));
        timers.on_rnr_nak(Time(9));
        assert!(timers.is_rnr_waiting() && timers.must_wait(Time(8)));
        assert_eq!(timers.table().next(), Some(Time(9)));
        assert!(!timers.must_wait(Time(9)) && !timers.is_rnr_waiting());
    }
}
