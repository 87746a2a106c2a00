//! Access of the engine's tests to a requester's state.

use super::Requester;

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

    pub fn is_in_flight(&self) -> bool {
        self.oldest_unacked < self.highest_sent
    }

    pub fn rd_atomic_in_flight(&self) -> u32 {
        self.rd_atomic_in_flight
    }

    /// Checks what holds between any two calls.
    pub fn check_invariants(&self) {
        assert!(self.oldest_unacked <= self.next && self.next <= self.highest_sent);
        assert!(self.highest_sent - self.oldest_unacked < 1 << 23);
        let mut end = None;
        for wqe in self.queue.iter() {
            assert!(wqe.first <= wqe.end && end.is_none_or(|end| end == wqe.first));
            end = Some(wqe.end);
        }
        let current = self.queue.get(self.current);
        assert!(current.is_none_or(|wqe| wqe.first <= self.next));
    }
}
