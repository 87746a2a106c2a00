//! The order of a READ that is sent again and the requests behind it (10.8.3.3).
//!
//! A READ has the bytes from before the requests that were sent after it. The peer executes a duplicate READ
//! anew (9.7.5.1.5), after those requests, so the response to the duplicate can have later bytes. It does
//! no harm behind the first response. But while several threads of the HCA receive, one may have the first
//! response and not deliver it yet, and another one would deliver the second one before it.
//!
//! So such a READ is sent again only while packets are delivered in the order of their arrival, and they are
//! until its response has come. Not here: a first response that the network loses.

use std::time::Duration;

use super::requester::SendWindow;
use super::{Hca, Time};

/// How long retransmissions wait for the threads that receive. Longer than a thread is preempted on a busy
/// host.
const MAX_WAIT: Duration = Duration::from_secs(1);

/// The READs of a send queue that are sent again while their first response may still come.
#[derive(Debug, Default)]
pub struct ReadOrder {
    /// The packet after the last of them. Until it is acknowledged, the HCA keeps the order of packets.
    until: Option<u64>,
    /// The oldest packet whose retransmission waits, and since when.
    waiting: Option<(u64, Time)>,
}

impl ReadOrder {
    /// Whether what is in flight may be sent again now. If not, the caller tries again later.
    pub fn may_retransmit(&mut self, window: &SendWindow, now: Time, hca: &mut impl Hca) -> bool {
        let Some(end) = window.followed_reads_end() else {
            return true;
        };
        if hca.begin_in_order() {
            (self.until, self.waiting) = (Some(end), None);
            return true;
        }
        let oldest = window.oldest_unacked();
        let waiting = self.waiting.filter(|(packet, _)| *packet == oldest);
        let (_, since) = *self.waiting.insert(waiting.unwrap_or((oldest, now)));
        now.since(since) >= MAX_WAIT
    }

    /// The packets before `oldest_unacked` are acknowledged.
    #[inline]
    pub fn on_ack(&mut self, oldest_unacked: u64, hca: &mut impl Hca) {
        if self.until.is_some_and(|until| until <= oldest_unacked) {
            self.end(hca);
        }
    }

    /// Nothing is in flight any more.
    #[cold]
    pub fn end(&mut self, hca: &mut impl Hca) {
        if self.until.is_some() {
            hca.end_in_order();
        }
        *self = ReadOrder::default();
    }
}
