//! Timers of queue pairs: when each is due. Pure.
//!
//! A timer that moves to a later time keeps its entry; when that is due, the queue pair is asked for its
//! time again. So an ACK, which moves the ack timeout back, costs nothing here.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use roce::engine::Time;

/// A queue pair's entry. Ordered by time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline {
    /// The time at which the timer is due.
    pub at: Time,
    /// The queue pair.
    pub qpn: u32,
}

/// The deadlines of a device's queue pairs. A queue pair can have several; only the one that equals
/// [`super::queue_pair::QueuePair::timer_at`] counts.
#[derive(Default)]
pub struct Timers {
    heap: BinaryHeap<Reverse<Deadline>>,
}

impl Timers {
    /// Adds a deadline. False if there is no memory for it.
    #[must_use]
    pub fn add(&mut self, at: Time, qpn: u32) -> bool {
        let has_space = self.heap.try_reserve(1).is_ok();
        if has_space {
            self.heap.push(Reverse(Deadline { at, qpn }));
        }
        has_space
    }

    /// Allocates space for `count` deadlines.
    pub fn reserve(&mut self, count: usize) {
        self.heap.reserve(count.saturating_sub(self.heap.len()));
    }

    /// Discards the deadlines that do not count any more.
    pub fn retain(&mut self, mut counts: impl FnMut(Deadline) -> bool) {
        self.heap.retain(|Reverse(deadline)| counts(*deadline));
    }

    /// The time of the earliest deadline.
    pub fn next(&self) -> Option<Time> {
        self.heap.peek().map(|Reverse(first)| first.at)
    }

    /// Removes and returns the earliest deadline, if it is not after `now`.
    pub fn take_due(&mut self, now: Time) -> Option<Deadline> {
        let Reverse(first) = *self.heap.peek()?;
        if first.at > now {
            return None;
        }
        self.heap.pop();
        Some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_are_taken_in_order() {
        let mut timers = Timers::default();
        for (at, qpn) in [(30, 1), (10, 2), (20, 3), (10, 4)] {
            assert!(timers.add(Time(at), qpn));
        }
        assert_eq!(timers.next(), Some(Time(10)));
        assert_eq!(timers.take_due(Time(9)), None);
        let mut due = Vec::new();
        while let Some(deadline) = timers.take_due(Time(20)) {
            due.push(deadline.qpn);
        }
        assert_eq!(due, [2, 4, 3]);
        assert_eq!(timers.next(), Some(Time(30)));
    }
}
