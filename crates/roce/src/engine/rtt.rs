//! The round-trip time of a connection, and the retransmission timeout (RTO) computed from it.
//!
//! Not here: the attribute `timeout` of a queue pair (`completer`); which packets an RTO retransmits, and the
//! probe. While the RTO is not backed off, the probe comes first: the timer of a packet is
//! `RetransmissionTimers::start` (`requester/timers.rs`).
//!
//! Specification: RFC 6298, with other limits. docs/uroce/protocol.md has the values; `tests/values.rs`,
//! `tests/selective.rs` (the shortest) and `tests/retransmission.rs` (the first) check them. docs/network.md
//! shows their effect (`make bench-network`).

use std::time::Duration;

/// The shortest RTO. It is below the shortest ack timeout (`encoding.rs`), so that an RTO that is not backed
/// off comes first: its retransmissions do not consume `retry_cnt`.
const RTO_MIN: Duration = Duration::from_millis(4);
/// The RTO before the first RTT sample.
const RTO_INITIAL: Duration = Duration::from_millis(20);
/// The longest RTO, and the longest RTT sample.
const RTO_MAX: Duration = Duration::from_secs(2);
/// The most RTOs that make the next one longer; [`RTO_MAX`] limits it earlier.
const MAX_BACKOFF: u32 = 32;
/// RTOs between two samples on a path that has not become longer.
const MAX_RTOS: u32 = 3;

/// The RTT estimate of a connection. In nanoseconds: arithmetic with `Duration` takes several times the
/// instructions, and this runs for each message.
#[derive(Clone, Debug, Default)]
pub struct RttEstimator {
    /// None before the first sample.
    srtt: Option<u64>,
    rttvar: u64,
    /// Consecutive RTOs without an acknowledgment in between.
    backoff: u32,
    /// The RTO is too short, as far as is known since the last sample.
    is_too_short: bool,
    /// RTOs since the last sample.
    rtos_since_sample: u32,
    /// By which queue pairs differ.
    salt: u32,
}

impl RttEstimator {
    /// Without a sample. `salt`: the number of the queue pair.
    pub fn new(salt: u32) -> RttEstimator {
        RttEstimator {
            salt,
            ..RttEstimator::default()
        }
    }

    /// Takes in the time from a packet's transmission to its acknowledgment. The packet must not have
    /// been retransmitted (Karn's algorithm, RFC 6298 section 3).
    pub fn on_rtt_sample(&mut self, rtt: Duration) {
        self.backoff = 0;
        self.is_too_short = false;
        self.rtos_since_sample = 0;
        let rtt = nanoseconds(rtt.min(RTO_MAX)).max(1);
        let Some(srtt) = self.srtt else {
            self.srtt = Some(rtt);
            self.rttvar = rtt / 2;
            return;
        };
        self.rttvar = (self.rttvar * 3 + srtt.abs_diff(rtt)) / 4;
        self.srtt = Some((srtt * 7 + rtt) / 8);
    }

    /// New packets were acknowledged: the RTO returns to its value before backoff. But if the last one
    /// `was_spurious`, and there was no sample before it or for [`MAX_RTOS`], that value is too short: each
    /// RTO would prevent the sample that the next one needs, as retransmitted packets give none. So it stays
    /// backed off until there is one.
    pub fn on_ack(&mut self, was_spurious: bool) {
        let has_recent = self.srtt.is_some() && self.rtos_since_sample <= MAX_RTOS;
        self.is_too_short |= was_spurious && !has_recent;
        if !self.is_too_short {
            self.backoff = 0;
        }
    }

    /// Whether there was a sample.
    pub fn has_sample(&self) -> bool {
        self.srtt.is_some()
    }

    /// Whether there was a sample, and the RTO is not backed off.
    pub fn is_settled(&self) -> bool {
        self.srtt.is_some() && self.backoff == 0
    }

    /// The RTO expired: it doubles, at every second one that follows without an acknowledgment. RFC 6298
    /// (5.5) doubles it each time; then a queue pair that loses its first packets to the full queue of
    /// others makes too few tries to get a share of it (docs/network.md).
    pub fn on_rto(&mut self) {
        self.backoff = (self.backoff + 1).min(MAX_BACKOFF);
        self.rtos_since_sample = self.rtos_since_sample.saturating_add(1);
    }

    /// The smoothed round-trip time; zero before the first sample.
    pub fn srtt(&self) -> Duration {
        Duration::from_nanos(self.srtt.unwrap_or_default())
    }

    /// The retransmission timeout: at least [`RTO_MIN`], and half more than [`RTO_MAX`] at most.
    pub fn rto(&self) -> Duration {
        let base = match self.srtt {
            None => nanoseconds(RTO_INITIAL),
            Some(srtt) => (srtt + self.rttvar * 4).max(nanoseconds(RTO_MIN)),
        };
        // At most 10 s times 2^16.
        let rto = (base << self.backoff.div_ceil(2)).min(nanoseconds(RTO_MAX));
        Duration::from_nanos(rto + self.spread(rto))
    }

    /// The time that is added to an RTO that follows another one: up to half of it, different for
    /// each queue pair. Queue pairs that have lost their packets to the same full queue would
    /// retransmit at the same time otherwise, and lose them again.
    fn spread(&self, rto: u64) -> u64 {
        if self.backoff == 0 {
            return 0;
        }
        let mixed = (self.salt ^ (self.backoff << 24)).wrapping_mul(0x9e37_79b1) >> 16;
        (rto / 2 * u64::from(mixed)) >> 16
    }
}

/// The nanoseconds of a time that is at most [`RTO_MAX`].
const fn nanoseconds(time: Duration) -> u64 {
    time.as_secs() * 1_000_000_000 + time.subsec_nanos() as u64
}
