//! State that pollers and the background thread share, so that each knows what the other does.

#[cfg(not(loom))]
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};

#[cfg(loom)]
use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};

use super::clock::AtomicTime;
use roce::engine::Time;

/// A polling thread yields its CPU after this many empty polls in a row, and then at every
/// [`YIELD_INTERVAL`]th.
const EMPTY_POLLS_BEFORE_YIELD: u32 = 64;
/// The polls from one yield of the CPU to the next; see [`EMPTY_POLLS_BEFORE_YIELD`].
const YIELD_INTERVAL: u32 = 8;

/// State that pollers and the background thread share. The fields are relaxed: they order no other
/// memory access. Where a thread must not miss what another one does at that moment, both store,
/// fence, and read what the other stores, so that one of them sees it: the methods contain the
/// fences.
pub(super) struct Activity {
    /// Polls that looked for packets, since the device was opened, but for those that were lost: see
    /// [`Activity::count_packets`].
    polls: AtomicU64,
    /// Consecutive polls that found nothing.
    empty_polls: AtomicU32,
    /// Packets received, since the device was opened, but for those that were lost.
    packets: AtomicU64,
    /// See [`Activity::take_one_sided`].
    one_sided: AtomicBool,
    /// The program is about to block until a completion event.
    event_expected: AtomicBool,
    /// The background thread does not watch the sockets: pollers take the packets.
    wakeups_suspended: AtomicBool,
    /// Until when the background thread sleeps if nothing wakes it up; `Time(0)` while it is awake. See
    /// [`Activity::sleeps_past`].
    sleeps_until: AtomicTime,
    /// The background thread is to end.
    stop: AtomicBool,
}

impl Activity {
    /// The state before any poll or packet.
    pub fn new() -> Activity {
        Activity {
            polls: AtomicU64::new(0),
            empty_polls: AtomicU32::new(0),
            packets: AtomicU64::new(0),
            one_sided: AtomicBool::new(false),
            event_expected: AtomicBool::new(false),
            wakeups_suspended: AtomicBool::new(false),
            sleeps_until: AtomicTime::new(Time(0)),
            stop: AtomicBool::new(false),
        }
    }

    /// Counts a poll that looks for packets. Returns how many there were before. The caller has an inbox: see
    /// [`Activity::count_packets`].
    #[inline]
    pub fn count_poll(&self) -> u64 {
        let polls = self.polls.load(Ordering::Relaxed);
        self.polls.store(polls + 1, Ordering::Relaxed);
        polls
    }

    /// Polls that looked for packets, since the device was opened.
    pub fn polls(&self) -> u64 {
        self.polls.load(Ordering::Relaxed)
    }

    /// Counts a poll that found nothing. Returns whether its thread is to yield the CPU: with more threads
    /// than CPUs, the thread that it waits for may need it.
    #[inline]
    pub fn count_empty_poll(&self) -> bool {
        let count = self.empty_polls.load(Ordering::Relaxed).wrapping_add(1);
        self.empty_polls.store(count, Ordering::Relaxed);
        count > EMPTY_POLLS_BEFORE_YIELD && count % YIELD_INTERVAL == 0
    }

    /// A poll has found packets.
    #[inline]
    pub fn end_empty_polls(&self) {
        self.empty_polls.store(0, Ordering::Relaxed);
    }

    /// Consecutive polls that found nothing.
    pub fn empty_polls(&self) -> u32 {
        self.empty_polls.load(Ordering::Relaxed)
    }

    /// Counts received packets; `one_sided`: some of them access memory. The caller has an inbox, one of
    /// several: if it was preempted in between, what the others have counted meanwhile is lost, and the count
    /// decreases. An exact one would cost a locked instruction.
    #[inline]
    pub fn count_packets(&self, count: u64, one_sided: bool) {
        if one_sided {
            self.one_sided.store(true, Ordering::Relaxed);
        }
        let before = self.packets.load(Ordering::Relaxed);
        self.packets.store(before + count, Ordering::Relaxed);
    }

    /// Packets received, since the device was opened.
    pub fn packets(&self) -> u64 {
        self.packets.load(Ordering::Relaxed)
    }

    /// Packets received, since there were `before`.
    pub fn packets_since(&self, before: u64) -> u64 {
        self.packets().saturating_sub(before)
    }

    /// Whether a peer has accessed memory by a one-sided operation since the last call.
    pub fn take_one_sided(&self) -> bool {
        self.one_sided.swap(false, Ordering::Relaxed)
    }

    /// The value that [`Activity::take_one_sided`] would return.
    pub fn has_one_sided(&self) -> bool {
        self.one_sided.load(Ordering::Relaxed)
    }

    /// The program is about to block until a completion event. Returns whether wakeups are suspended. The
    /// program has read completions, and may not poll again: what waits for that is to be read after this
    /// call ([`super::unreachable::UnreachableQps::fail`]).
    pub fn expect_event(&self) -> bool {
        self.event_expected.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.are_wakeups_suspended()
    }

    /// Whether [`Activity::expect_event`] was called since the last call.
    pub fn take_event_expected(&self) -> bool {
        self.event_expected.swap(false, Ordering::Relaxed)
    }

    /// The background thread does not watch the sockets from its next sleep on.
    pub fn suspend_wakeups(&self) {
        self.wakeups_suspended.store(true, Ordering::Relaxed);
    }

    /// Whether the background thread does not watch the sockets.
    #[inline]
    pub fn are_wakeups_suspended(&self) -> bool {
        self.wakeups_suspended.load(Ordering::Relaxed)
    }

    /// Asks the background thread to watch the sockets again. The caller wakes it up.
    pub fn end_suspension(&self) {
        self.wakeups_suspended.store(false, Ordering::Relaxed);
    }

    /// The background thread watches the sockets again. It sends what is deferred afterwards.
    pub fn resume_wakeups(&self) {
        self.wakeups_suspended.store(false, Ordering::Relaxed);
        // See `may_leave_deferred`.
        fence(Ordering::SeqCst);
    }

    /// Whether a poller that has deferred packets may leave them to the next poll. The background thread
    /// wakes up soon while wakeups are suspended. If it resumes them at this moment, either this returns
    /// false, or the thread sees what is deferred: the packets are not stranded if no thread polls again.
    pub fn may_leave_deferred(&self) -> bool {
        fence(Ordering::SeqCst);
        self.are_wakeups_suspended()
    }

    /// The background thread is about to sleep until then. Returns false if a timer is due earlier:
    /// `next_timer` returns when the first one is due.
    pub fn begin_sleep(&self, until: Time, next_timer: impl FnOnce() -> Time) -> bool {
        self.sleeps_until.store(until);
        // See `sleeps_past`.
        fence(Ordering::SeqCst);
        next_timer() >= until
    }

    /// The background thread is awake.
    pub fn end_sleep(&self) {
        self.sleeps_until.store(Time(0));
    }

    /// Whether the background thread is to be woken up for a timer that is due at `at`, and has been added.
    /// In [`Activity::begin_sleep`] that thread stores and reads the other way round, so no timer is missed.
    pub fn sleeps_past(&self, at: Time) -> bool {
        fence(Ordering::SeqCst);
        // While wakeups are suspended, the thread wakes up often enough by itself, and pollers run
        // timers.
        at < self.sleeps_until.load() && !self.are_wakeups_suspended()
    }

    /// The background thread is to end. The caller wakes it up.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
    }

    /// Whether the background thread is to end.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_poller_yields_once_it_has_found_nothing_for_a_while() {
        let activity = Activity::new();
        let yields = |polls: u32| (0..polls).filter(|_| activity.count_empty_poll()).count();
        assert_eq!(yields(EMPTY_POLLS_BEFORE_YIELD), 0);
        assert_eq!(yields(3 * YIELD_INTERVAL), 3);
        activity.end_empty_polls();
        assert_eq!(yields(EMPTY_POLLS_BEFORE_YIELD), 0);
        assert_eq!(activity.empty_polls(), EMPTY_POLLS_BEFORE_YIELD);
    }

    #[test]
    fn a_thread_that_sleeps_past_a_timer_is_woken_up() {
        let activity = Activity::new();
        let sleeps = |next| activity.begin_sleep(Time(10), || Time(next));
        assert!(sleeps(10) && !sleeps(9));
        assert!(activity.sleeps_past(Time(9)) && !activity.sleeps_past(Time(10)));
        // It wakes up soon by itself.
        activity.suspend_wakeups();
        assert!(!activity.sleeps_past(Time(9)));
        activity.resume_wakeups();
        activity.end_sleep();
        assert!(!activity.sleeps_past(Time(9)));
    }

    #[test]
    fn packets_and_accesses_are_counted() {
        let activity = Activity::new();
        assert_eq!((activity.count_poll(), activity.polls()), (0, 1));
        activity.count_packets(3, true);
        activity.count_packets(4, false);
        assert_eq!(activity.packets(), 7);
        assert!(activity.has_one_sided() && activity.take_one_sided());
        assert!(!activity.take_one_sided());
        assert!(!activity.expect_event() && activity.take_event_expected());
        assert!(!activity.take_event_expected());
    }

    #[test]
    fn a_count_that_decreases_is_no_packet() {
        let activity = Activity::new();
        activity.count_packets(7, false);
        assert_eq!(activity.packets_since(3), 4);
        // A receiver that was preempted stores what it had counted before these.
        activity.packets.store(2, Ordering::Relaxed);
        assert_eq!(activity.packets_since(7), 0);
    }
}

#[cfg(all(test, loom))]
mod model {
    use std::sync::Arc;

    use loom::thread;

    use super::*;
    use crate::device::clock::NEVER;
    use crate::model::Wakeup;

    /// A timer that is added while the background thread falls asleep wakes it up.
    #[test]
    fn no_timer_is_missed() {
        loom::model(|| {
            let (activity, waker) = (Arc::new(Activity::new()), Arc::<Wakeup>::default());
            let next_timer = Arc::new(AtomicTime::new(NEVER));
            let background = {
                let (activity, waker) = (activity.clone(), waker.clone());
                let next_timer = next_timer.clone();
                thread::spawn(move || {
                    if activity.begin_sleep(Time(2), || next_timer.load()) {
                        waker.wait();
                    }
                })
            };
            next_timer.store(Time(1));
            if activity.sleeps_past(Time(1)) {
                waker.send();
            }
            background.join().unwrap();
        });
    }

    /// A packet that a poller defers while the background thread resumes wakeups is sent by one of
    /// them.
    #[test]
    fn nothing_deferred_is_stranded() {
        loom::model(|| {
            let activity = Arc::new(Activity::new());
            // The flag of `Pending`.
            let has_deferred = Arc::new(AtomicBool::new(false));
            activity.suspend_wakeups();
            let background = {
                let (activity, has_deferred) = (activity.clone(), has_deferred.clone());
                thread::spawn(move || {
                    activity.resume_wakeups();
                    has_deferred.load(Ordering::Relaxed)
                })
            };
            has_deferred.store(true, Ordering::Relaxed);
            let sent_by_poller = !activity.may_leave_deferred();
            assert!(background.join().unwrap() || sent_by_poller);
        });
    }
}
