//! The threads that poll one CQ: how long each has found nothing, and which completion of its own requests
//! another thread has polled.
//!
//! Not here: whether something of a thread is still outstanding (`completion.rs`).
//!
//! Threads may share a CQ, and tell each other what has completed. Such a program continues after another
//! thread has polled a completion: so a thread that has posted again after that, and a poll in between, is
//! never mentioned.

use std::time::{Duration, Instant};

/// Threads beyond this number are not distinguished.
const MAX_THREADS: usize = 16;
/// A thread that has polled fewer times polls now and then, and does not wait.
const MIN_POLLS: u32 = 100;

/// A completion that another thread has polled than the one that had posted its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The address of the queue pair.
    pub qp: usize,
    pub wr_id: u64,
    pub is_receive: bool,
    /// The thread that has polled it.
    pub by: i32,
    pub at: Instant,
}

#[derive(Clone, Debug)]
struct Poller {
    thread: i32,
    /// The thread's last poll.
    last: Option<Instant>,
    /// Since when the thread's polls have found nothing, and how many they are since that and since `taken`.
    empty_since: Option<Instant>,
    empty_polls: u32,
    taken: Option<Taken>,
    /// It has posted again after another thread had polled its completion: or it was reported.
    is_quiet: bool,
}

/// The threads that poll a CQ, or have posted what completes on it and was polled by another one.
#[derive(Clone, Debug, Default)]
pub struct Pollers {
    all: Vec<Poller>,
    last: i32,
}

impl Pollers {
    /// The thread that has polled last; 0 before the first poll.
    pub fn last(&self) -> i32 {
        self.last
    }

    fn of(&mut self, thread: i32) -> Option<&mut Poller> {
        let at = self.all.iter().position(|of| of.thread == thread);
        if let Some(at) = at {
            return self.all.get_mut(at);
        }
        if self.all.len() == MAX_THREADS {
            return None;
        }
        self.all.push(Poller {
            thread,
            last: None,
            empty_since: None,
            empty_polls: 0,
            taken: None,
            is_quiet: false,
        });
        self.all.last_mut()
    }

    /// A poll of `thread` has returned `count` completions.
    pub fn polled(&mut self, thread: i32, now: Instant, count: usize) {
        self.last = thread;
        let Some(poller) = self.of(thread) else {
            return;
        };
        poller.last = Some(now);
        match count {
            0 => {
                poller.empty_since.get_or_insert(now);
                poller.empty_polls = poller.empty_polls.saturating_add(1);
            }
            _ => (poller.empty_since, poller.empty_polls) = (None, 0),
        }
    }

    /// A completion of a request of `poster` was polled by another thread.
    pub fn took(&mut self, poster: i32, taken: Taken) {
        if let Some(poller) = self.of(poster).filter(|poller| !poller.is_quiet) {
            poller.taken = Some(taken);
            poller.empty_polls = 0;
        }
    }

    /// `thread` posts what completes on the CQ.
    pub fn posts(&mut self, thread: i32) {
        let mut all = self.all.iter_mut();
        if let Some(poller) = all.find(|of| of.thread == thread && of.taken.is_some()) {
            let after = |taken: Taken| poller.last.is_some_and(|last| last > taken.at);
            poller.is_quiet |= poller.taken.is_some_and(after);
        }
    }

    /// The completion that another thread has polled, if `thread` has found nothing for so long since.
    pub fn misses(&self, thread: i32, limit: Duration) -> Option<Taken> {
        let mut all = self.all.iter();
        let waits = |of: &Poller| !of.is_quiet && of.empty_polls >= MIN_POLLS;
        let poller = all.find(|of| of.thread == thread && waits(of))?;
        let taken = poller.taken?;
        let since = taken.at.max(poller.empty_since?);
        (poller.last?.saturating_duration_since(since) >= limit).then_some(taken)
    }

    /// It was reported what `thread` misses.
    pub fn reported(&mut self, thread: i32) {
        if let Some(poller) = self.of(thread) {
            poller.is_quiet = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(4);

    /// Polls of one thread that find nothing, many in a second.
    fn polls(pollers: &mut Pollers, thread: i32, from: Instant, seconds: core::ops::Range<u64>) {
        for second in seconds {
            for _ in 0..MIN_POLLS {
                pollers.polled(thread, from + Duration::from_secs(second), 0);
            }
        }
    }

    fn taken(at: Instant) -> Taken {
        Taken {
            qp: 30,
            wr_id: 7,
            is_receive: false,
            by: 5,
            at,
        }
    }

    #[test]
    fn a_thread_waits_for_what_another_one_has_polled() {
        let (mut pollers, now) = (Pollers::default(), Instant::now());
        pollers.took(6, taken(now));
        assert_eq!(pollers.misses(6, LIMIT), None, "it does not poll");
        polls(&mut pollers, 6, now, 1..5);
        assert_eq!(pollers.misses(6, LIMIT), None, "not for so long");
        polls(&mut pollers, 6, now, 5..6);
        assert_eq!(pollers.misses(6, LIMIT), Some(taken(now)));
        assert_eq!((pollers.misses(5, LIMIT), pollers.last()), (None, 6));
        pollers.reported(6);
        assert_eq!(pollers.misses(6, LIMIT), None, "once");
    }

    #[test]
    fn a_wait_begins_when_the_completion_was_polled() {
        let (mut pollers, now) = (Pollers::default(), Instant::now());
        polls(&mut pollers, 6, now, 0..5);
        pollers.took(6, taken(now + LIMIT));
        assert_eq!(pollers.misses(6, LIMIT), None);
        polls(&mut pollers, 6, now, 5..9);
        assert!(pollers.misses(6, LIMIT).is_some());
    }

    #[test]
    fn polls_now_and_then_are_no_wait() {
        let (mut pollers, now) = (Pollers::default(), Instant::now());
        pollers.took(6, taken(now));
        for second in 1..20 {
            pollers.polled(6, now + Duration::from_secs(second), 0);
        }
        assert_eq!(pollers.misses(6, LIMIT), None);
        polls(&mut pollers, 6, now, 20..21);
        assert!(pollers.misses(6, LIMIT).is_some());
        pollers.polled(6, now + Duration::from_secs(21), 1);
        polls(&mut pollers, 6, now, 22..25);
        assert_eq!(pollers.misses(6, LIMIT), None, "something came");
    }

    #[test]
    fn a_thread_that_continues_is_told_by_the_other_one() {
        let (mut pollers, now) = (Pollers::default(), Instant::now());
        pollers.took(6, taken(now));
        pollers.posts(6);
        polls(&mut pollers, 6, now, 1..6);
        assert!(
            pollers.misses(6, LIMIT).is_some(),
            "two posts, and then a poll"
        );
        pollers.posts(6);
        pollers.took(6, taken(now + LIMIT));
        polls(&mut pollers, 6, now, 6..20);
        assert_eq!(pollers.misses(6, LIMIT), None);
    }

    #[test]
    fn too_many_threads() {
        let (mut pollers, now) = (Pollers::default(), Instant::now());
        for thread in 1..=MAX_THREADS as i32 + 1 {
            pollers.took(thread, taken(now));
            polls(&mut pollers, thread, now, 1..6);
        }
        assert!(pollers.misses(1, LIMIT).is_some());
        assert_eq!(pollers.misses(MAX_THREADS as i32 + 1, LIMIT), None);
    }
}
