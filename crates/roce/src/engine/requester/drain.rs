//! The send queue drained state, SQD (10.3.1.5): WQEs that were started complete, the others wait.

use super::Requester;
use crate::engine::Time;
use crate::engine::timer::Timer;

impl Requester {
    /// Enters SQD. `reliable`: the queue pair's requests are acknowledged.
    pub fn drain(&mut self, reliable: bool, now: Time) {
        self.draining = true;
        let started = self
            .queue
            .iter()
            .rev()
            .find(|wqe| wqe.first < self.highest_sent);
        self.drain_end = Some(started.map_or(self.highest_sent, |wqe| wqe.end));
        self.request_last_ack(reliable, now);
    }

    /// The last packet may not have requested an acknowledgment: retransmits it at once.
    pub(super) fn request_last_ack(&mut self, reliable: bool, now: Time) {
        let in_flight = self.oldest_unacked < self.highest_sent;
        if reliable && in_flight && !self.timers.is_set(Timer::Rnr) {
            self.timers.set(Timer::Rto, now);
        }
    }

    /// Leaves SQD for RTS.
    pub fn resume(&mut self) {
        self.drain_end = None;
        self.draining = false;
    }

    /// Whether the send queue is draining (`sq_draining`).
    pub fn is_draining(&self) -> bool {
        self.draining
    }

    /// Whether draining has ended. Returns true once.
    pub fn take_drained(&mut self) -> bool {
        let end = self.drain_end.unwrap_or(0);
        let drained = self.draining && self.queue.front().is_none_or(|wqe| wqe.first >= end);
        self.draining &= !drained;
        drained
    }
}
