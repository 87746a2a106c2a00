//! What the engine's tests read of a requester.

use super::Requester;
use crate::engine::Host;
use crate::engine::attributes::Attributes;

impl Requester {
    pub fn cwnd(&self) -> u64 {
        self.congestion.cwnd()
    }

    pub fn is_in_flight(&self) -> bool {
        self.oldest_unacked < self.highest_sent
    }

    pub fn rd_atomic_in_flight(&self) -> u32 {
        self.rd_atomic_in_flight
    }

    /// Writes the next packet, of a SEND: as such, and as other requests are written. Returns the lengths.
    pub fn write_both<const LEN: usize>(
        &self,
        attributes: &Attributes,
        host: &mut impl Host,
        [one, other]: &mut [[u8; LEN]; 2],
    ) -> [Option<usize>; 2] {
        let wqe = self.queue.get(self.current).unwrap();
        [
            self.write_send(wqe, attributes, host, one),
            self.write_request(wqe, attributes, host, other),
        ]
        .map(|written| written.unwrap().map(|written| written.encoded.len))
    }

    /// What holds between any two calls.
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
