//! Access of the engine's tests to a requester's state.

use super::{Requester, SendWindow};

impl Requester {
    pub fn cwnd(&self) -> u64 {
        self.congestion.cwnd()
    }

    /// The peer is known to drop what comes behind a missing packet.
    pub fn assume_nothing_kept(&mut self) {
        self.selective.pause();
    }

    /// The congestion window has shrunk to that.
    pub fn assume_cwnd(&mut self, cwnd: u32) {
        self.congestion.assume_cwnd(cwnd);
    }
}

impl SendWindow {
    /// Checks what holds between any two calls.
    pub fn check_invariants(&self) {
        assert!(self.oldest_unacked() <= self.next() && self.next() <= self.highest_sent());
        assert!(self.highest_sent() - self.oldest_unacked() < 1 << 23);
        let mut end = None;
        for wqe in self.queue().iter() {
            assert!(wqe.first <= wqe.end && end.is_none_or(|end| end == wqe.first));
            end = Some(wqe.end);
        }
        assert!(self.current().is_none_or(|wqe| wqe.first <= self.next()));
    }
}
