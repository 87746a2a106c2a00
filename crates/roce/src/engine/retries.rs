//! How often a request may be sent again (`retry_cnt`, `rnr_retry`).

use std::time::Duration;

use ibverbs_abi::*;

use super::attributes::Attributes;
use super::{Time, encoding};

/// An ack timeout that is handled late by this part of its length or more retransmits without consuming one
/// of `retry_cnt`: this process was descheduled, and a peer on the same host perhaps was too.
const LATE_FRACTION: u32 = 4;
/// The most late timeouts in a row that consume no retry: a timeout must not take longer than four
/// times the configured value (9.7.6.1.3).
const MAX_LATE_TIMEOUTS: u8 = 3;

/// A request to a peer that is idle ([`PeerActivity::Idle`]) does not fail before this time has passed
/// without an answer. Time in which this process did not run is not part of it: the peer may have been
/// stopped with it.
const IDLE_PEER_TIMEOUT: Duration = Duration::from_secs(4);

/// The value of `rnr_retry` that means "no limit".
const RNR_RETRY_INFINITE: u8 = 7;

/// The knowledge about a peer when a timer expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerActivity {
    /// Nothing, or that it has taken all that is in flight.
    Unknown,
    /// The peer's process is there, and has not taken all that is in flight, none of which is lost.
    /// An RNIC would answer for it.
    Idle,
}

/// The retries that a reliable connection has left.
#[derive(Debug, Default)]
pub struct Retries {
    /// Ack timeouts that may still be followed by a retransmission.
    left: u8,
    /// RNR NAKs that may still be followed by a retransmission.
    rnr_left: u8,
    /// Late timeouts in a row that consumed no retry.
    late_timeouts: u8,
    /// When the first ack timeout without progress since then began, or later by the time in which this
    /// process did not run.
    unanswered_since: Option<Time>,
}

impl Retries {
    /// All that the attributes grant.
    pub fn new(attributes: &Attributes) -> Retries {
        Retries {
            left: attributes.retry_cnt,
            rnr_left: attributes.rnr_retry,
            ..Retries::default()
        }
    }

    /// Any progress restores all retries.
    #[inline]
    pub fn restore(&mut self, attributes: &Attributes) {
        *self = Retries::new(attributes);
    }

    /// Consumes one of `rnr_retry`, and restores `retry_cnt`. An error is the status of the oldest WQE if no
    /// retry is left; the same holds for [`Retries::consume`].
    pub fn consume_rnr(&mut self, attributes: &Attributes) -> Result<(), ibv_wc_status> {
        if attributes.rnr_retry != RNR_RETRY_INFINITE {
            let left = self.rnr_left.checked_sub(1);
            self.rnr_left = left.ok_or(IBV_WC_RNR_RETRY_EXC_ERR)?;
        }
        self.left = attributes.retry_cnt;
        Ok(())
    }

    /// Consumes one of `retry_cnt` for an ack timeout that is handled `late` after its expiry, and returns
    /// true. Consumes none and returns false if that is too late (see [`LATE_FRACTION`]), at most
    /// [`MAX_LATE_TIMEOUTS`] times in a row. If the peer is idle, it does not fail before
    /// [`IDLE_PEER_TIMEOUT`].
    pub fn consume(
        &mut self,
        late: Duration,
        attributes: &Attributes,
        peer: PeerActivity,
        now: Time,
    ) -> Result<bool, ibv_wc_status> {
        let timeout = encoding::ack_timeout(attributes.timeout).unwrap_or_default();
        let began = Time(now.0.saturating_sub(timeout.as_nanos() as u64));
        let since = self
            .unanswered_since
            .map_or(began, |since| since.after(late));
        self.unanswered_since = Some(since);
        if late >= timeout / LATE_FRACTION && self.late_timeouts < MAX_LATE_TIMEOUTS {
            self.late_timeouts += 1;
            return Ok(false);
        }
        let may_run_again = peer == PeerActivity::Idle && now.since(since) < IDLE_PEER_TIMEOUT;
        if may_run_again && self.left == 0 {
            return Ok(true);
        }
        self.left = self.left.checked_sub(1).ok_or(IBV_WC_RETRY_EXC_ERR)?;
        self.late_timeouts = 0;
        Ok(true)
    }

    #[cfg(test)]
    pub fn left(&self) -> u8 {
        self.left
    }

    #[cfg(test)]
    pub fn late_timeouts(&self) -> u8 {
        self.late_timeouts
    }
}
