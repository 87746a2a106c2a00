//! Timers of queue pairs: when each is due.
//!
//! Not here: running them (`progress.rs`); the timers of one queue pair (`roce::engine`).
//!
//! A timer that moves to a later time keeps its entry; when that is due, the queue pair is asked for its
//! time again. So an ACK, which moves the ack timeout back, costs nothing here.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use super::clock::{AtomicTime, NEVER};
use crate::sync::Mutex;
use roce::engine::Time;

/// A queue pair's entry. Ordered by time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline {
    /// The time at which the timer is due.
    pub at: Time,
    /// The queue pair.
    pub qpn: u32,
}

/// The deadlines of a device's queue pairs. Thread-safe. A queue pair can have several; only the one that
/// equals [`super::queue_pair::QueuePair::timer_at`] counts.
pub(super) struct Timers {
    heap: Mutex<BinaryHeap<Reverse<Deadline>>>,
    /// The time of the earliest, to be read without a lock; [`NEVER`] if there is none.
    next: AtomicTime,
}

impl Timers {
    /// No deadline.
    pub fn new() -> Timers {
        Timers {
            heap: Mutex::default(),
            next: AtomicTime::new(NEVER),
        }
    }

    /// Adds a deadline. Without memory, those that do not count any more (`counts`) make room. False if there
    /// are none.
    pub fn add(&self, at: Time, qpn: u32, counts: impl Fn(Deadline) -> bool) -> bool {
        let mut heap = self.heap.lock();
        if heap.try_reserve(1).is_err() {
            heap.retain(|Reverse(deadline)| counts(*deadline));
        }
        let has_space = heap.try_reserve(1).is_ok();
        if has_space {
            heap.push(Reverse(Deadline { at, qpn }));
        }
        self.next.store(first(&heap));
        has_space
    }

    /// Allocates space for `count` deadlines.
    pub fn reserve(&self, count: usize) {
        let mut heap = self.heap.lock();
        let missing = count.saturating_sub(heap.len());
        heap.reserve(missing);
    }

    /// The time of the earliest deadline; [`NEVER`] if there is none. Orders no other memory access: see
    /// [`super::activity::Activity::begin_sleep`].
    #[inline]
    pub fn next(&self) -> Time {
        self.next.load()
    }

    /// Whether the earliest deadline has been due for `slack`. `now` is called only if there is one.
    #[inline]
    pub fn any_due(&self, slack: Duration, now: impl FnOnce() -> Time) -> bool {
        let next = self.next();
        next != NEVER && now() >= next.after(slack)
    }

    /// Removes and returns the earliest deadline, if it is not after `now`.
    pub fn take_due(&self, now: Time) -> Option<Deadline> {
        let mut heap = self.heap.lock();
        let due = heap
            .peek()
            .is_some_and(|Reverse(first)| first.at <= now)
            .then(|| heap.pop())
            .flatten();
        self.next.store(first(&heap));
        due.map(|Reverse(due)| due)
    }
}

fn first(heap: &BinaryHeap<Reverse<Deadline>>) -> Time {
    heap.peek().map_or(NEVER, |Reverse(first)| first.at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::tests::out_of_memory::without_memory;

    fn due(timers: &Timers, now: u64) -> Vec<u32> {
        std::iter::from_fn(|| timers.take_due(Time(now)))
            .map(|deadline| deadline.qpn)
            .collect()
    }

    #[test]
    fn deadlines_are_taken_in_order() {
        let timers = Timers::new();
        assert_eq!(timers.next(), NEVER);
        for (at, qpn) in [(30, 1), (10, 2), (20, 3), (10, 4)] {
            assert!(timers.add(Time(at), qpn, |_| true));
        }
        assert_eq!(timers.next(), Time(10));
        assert_eq!(timers.take_due(Time(9)), None);
        assert_eq!(due(&timers, 20), [2, 4, 3]);
        assert_eq!(timers.next(), Time(30));
        assert_eq!(due(&timers, 30), [1]);
        assert_eq!(timers.next(), NEVER);
    }

    /// The clock is not read for a device without timers.
    #[test]
    fn a_deadline_is_due_after_its_slack() {
        let timers = Timers::new();
        let any_due = |slack, now| timers.any_due(Duration::from_nanos(slack), || Time(now));
        assert!(!timers.any_due(Duration::ZERO, || unreachable!()));
        assert!(timers.add(Time(10), 1, |_| true));
        assert!(any_due(0, 10) && !any_due(0, 9));
        assert!(any_due(5, 15) && !any_due(5, 14));
    }

    /// Entries that were replaced by earlier ones make room, and only those.
    #[test]
    fn without_memory_deadlines_that_do_not_count_make_room() {
        let timers = Timers::new();
        timers.reserve(4);
        while without_memory(|| timers.add(Time(1), 1, |_| true)) {}
        assert!(timers.heap.lock().len() >= 4);
        assert!(!without_memory(|| timers.add(Time(0), 2, |_| true)));
        assert_eq!(timers.next(), Time(1));
        let counts = |deadline: Deadline| deadline.at != Time(1);
        assert!(without_memory(|| timers.add(Time(3), 3, counts)));
        assert_eq!(timers.next(), Time(3));
        assert_eq!(due(&timers, 3), [3]);
    }
}
