//! State that pollers and the background thread share, so that each knows what the other does.

#[cfg(not(loom))]
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};

#[cfg(loom)]
use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};

use super::clock::{AtomicTime, NEVER};
use roce::engine::Time;

/// State that pollers and the background thread share. The fields are relaxed: they order no other
/// memory access. Where a thread must not miss what another one does at that moment, both store,
/// fence, and read what the other stores, so that one of them sees it: the methods contain the
/// fences.
pub struct Activity {
    /// Polls that looked for packets, since the device was opened. Written with the inbox locked.
    pub(super) polls: AtomicU64,
    /// Consecutive polls that found nothing.
    pub(super) empty_polls: AtomicU32,
    /// Packets received, since the device was opened. Written with the inbox locked.
    pub(super) packets: AtomicU64,
    /// A peer has accessed memory by a one-sided operation since the background thread last cleared this.
    pub(super) one_sided: AtomicBool,
    /// The program is about to block until a completion event.
    pub(super) event_expected: AtomicBool,
    /// The background thread does not watch the sockets: pollers take the packets.
    pub(super) wakeups_suspended: AtomicBool,
    /// Until when the background thread sleeps if nothing wakes it up; `Time(0)` while it is awake. See
    /// [`Activity::sleeps_past`].
    sleeps_until: AtomicTime,
    /// When the first timer is due; [`NEVER`] if there is none.
    pub(super) next_timer: AtomicTime,
    /// The background thread is to end.
    pub stop: AtomicBool,
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
            next_timer: AtomicTime::new(NEVER),
            stop: AtomicBool::new(false),
        }
    }

    /// The background thread is about to sleep until then. Returns false if a timer is due earlier.
    pub(super) fn begin_sleep(&self, until: Time) -> bool {
        self.sleeps_until.store(until);
        // See `sleeps_past`.
        fence(Ordering::SeqCst);
        self.next_timer.load() >= until
    }

    /// The background thread is awake.
    pub(super) fn end_sleep(&self) {
        self.sleeps_until.store(Time(0));
    }

    /// Whether the background thread is to be woken up for a timer that is due at `at`, which has been stored
    /// in [`Activity::next_timer`]. In [`Activity::begin_sleep`] that thread stores and reads the other way
    /// round, so no timer is missed.
    pub(super) fn sleeps_past(&self, at: Time) -> bool {
        fence(Ordering::SeqCst);
        // While wakeups are suspended, the thread wakes up often enough by itself, and pollers run
        // timers.
        at < self.sleeps_until.load() && !self.wakeups_suspended.load(Ordering::Relaxed)
    }

    /// The background thread watches the sockets again. It sends what is deferred afterwards.
    pub(super) fn resume_wakeups(&self) {
        self.wakeups_suspended.store(false, Ordering::Relaxed);
        // See `may_leave_deferred`.
        fence(Ordering::SeqCst);
    }

    /// Whether a poller that has deferred packets may leave them to the next poll. The background thread
    /// wakes up soon while wakeups are suspended. If it resumes them at this moment, either this returns
    /// false, or the thread sees what is deferred: the packets are not stranded if no thread polls again.
    pub(super) fn may_leave_deferred(&self) -> bool {
        fence(Ordering::SeqCst);
        self.wakeups_suspended.load(Ordering::Relaxed)
    }
}

#[cfg(all(test, loom))]
mod model {
    use std::sync::Arc;

    use loom::thread;

    use super::*;
    use crate::model::Wakeup;

    /// A timer that is added while the background thread falls asleep wakes it up.
    #[test]
    fn no_timer_is_missed() {
        loom::model(|| {
            let (activity, waker) = (Arc::new(Activity::new()), Arc::<Wakeup>::default());
            let background = {
                let (activity, waker) = (activity.clone(), waker.clone());
                thread::spawn(move || {
                    if activity.begin_sleep(Time(2)) {
                        waker.wait();
                    }
                })
            };
            activity.next_timer.store(Time(1));
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
            activity.wakeups_suspended.store(true, Ordering::Relaxed);
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
