//! When each queue pair wants to be run next. A queue pair whose time moves back keeps its place here
//! and is asked again when that comes, so that a time that each acknowledgement moves costs nothing.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::engine::Time;

/// Times of queue pairs, by number.
#[derive(Default)]
pub struct Timers {
    heap: BinaryHeap<Reverse<(Time, u32)>>,
}

impl Timers {
    pub fn add(&mut self, at: Time, qpn: u32) {
        self.heap.push(Reverse((at, qpn)));
    }

    /// The earliest.
    pub fn next(&self) -> Option<Time> {
        self.heap.peek().map(|Reverse((at, _))| *at)
    }

    /// Takes one whose time has come, with that time.
    pub fn take_due(&mut self, now: Time) -> Option<(Time, u32)> {
        let Reverse(first) = *self.heap.peek()?;
        if first.0 > now {
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
    fn times_come_in_order() {
        let mut timers = Timers::default();
        for (at, qpn) in [(30, 1), (10, 2), (20, 3), (10, 4)] {
            timers.add(Time(at), qpn);
        }
        assert_eq!(timers.next(), Some(Time(10)));
        assert_eq!(timers.take_due(Time(9)), None);
        let mut due = Vec::new();
        while let Some((_, qpn)) = timers.take_due(Time(20)) {
            due.push(qpn);
        }
        assert_eq!(due, [2, 4, 3]);
        assert_eq!(timers.next(), Some(Time(30)));
    }
}
