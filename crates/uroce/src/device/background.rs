//! The background thread of a device: what it does is said in `progress.rs`, when it sleeps in `busy_poll.rs`.

use std::os::fd::AsRawFd;
use std::sync::atomic::{Ordering, fence};

use super::busy_poll::{Eager, FEW, Found, Sleep, Watch};
use super::{Device, clock, wait};

/// How long the background thread goes on looking at most before it does its other duties.
const SPELL: u64 = 5_000_000;
/// How often it looks for changes of the interface while there is always something else to do.
const CHANGES: u64 = 100_000_000;
/// How soon it tries again to hand over events that nobody reads.
const BACKLOG: u64 = 10_000_000;

impl Device {
    /// The background thread.
    pub fn serve(&self) {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let mut watch = Watch::new(processors);
        let mut changes_at = clock::now().0 + CHANGES;
        let mut seen = self.handshake.polls.load(Ordering::Relaxed);
        while !self.handshake.stop.load(Ordering::Relaxed) {
            let backlog = !self.flush_events();
            let (watching, longest) = match watch.sleep() {
                Sleep::Watching => (true, u64::MAX),
                Sleep::Resting(nanoseconds) => (false, nanoseconds),
            };
            let woken = self.sleep(
                watching,
                longest.min(if backlog { BACKLOG } else { u64::MAX }),
            );
            self.send_deferred();
            let polls = self.handshake.polls.load(Ordering::Relaxed);
            let polled = polls.wrapping_sub(core::mem::replace(&mut seen, polls));
            // Somebody who waits for an event ends the rest.
            let resting = self.handshake.resting.load(Ordering::Relaxed);
            let rests = watch.rests_on(if resting { polled } else { 0 }, || {
                !self.handshake.served.load(Ordering::Relaxed)
            });
            if !rests {
                self.handshake.resting.store(false, Ordering::Relaxed);
                self.look(&mut watch, woken, polled);
            }
            let now = clock::now().0;
            if now >= changes_at {
                self.apply_changes();
                changes_at = now + CHANGES;
            }
        }
    }

    /// Makes progress in the background thread.
    fn look(&self, watch: &mut Watch, woken: bool, polls: u64) {
        // A poller may hold it and not be running: then this thread must not spin.
        let mut inbox = self.inbox.lock();
        // Only pollers that do not get the inbox change it now.
        let handshake = &self.handshake;
        let empty = handshake.empty.load(Ordering::Relaxed);
        let before = handshake.packets.load(Ordering::Relaxed);
        let datagrams = self.progress(&mut inbox);
        let packets = handshake.packets.load(Ordering::Relaxed) - before;
        let late = handshake.empty.load(Ordering::Relaxed) != empty;
        drop(inbox);
        if datagrams == 0 {
            self.apply_changes();
        }
        let found = Found {
            woken,
            packets,
            served: handshake.served.swap(false, Ordering::Relaxed),
            late,
            polls,
            expected: handshake.expected.swap(false, Ordering::Relaxed),
        };
        if watch.looked(found) {
            self.handshake.resting.store(true, Ordering::Relaxed);
        } else if let Some(patience) = watch.eager(found, clock::now().0) {
            let how = self.look_eagerly(patience);
            watch.was_eager(how, clock::now().0);
        }
    }

    /// Looks for more packets until there has been none for that many nanoseconds, or many at once.
    fn look_eagerly(&self, patience: u64) -> Eager {
        let handshake = &self.handshake;
        let preempted = wait::preempted();
        let polls = handshake.polls.load(Ordering::Relaxed);
        let begin = clock::now().0;
        let (mut until, mut how) = (begin + patience, Eager::Vain);
        loop {
            // Held by a poller, who then looks.
            let Some(mut inbox) = self.inbox.try_lock() else {
                break;
            };
            let before = handshake.packets.load(Ordering::Relaxed);
            self.receive(&mut inbox, false);
            let count = handshake.packets.load(Ordering::Relaxed) - before;
            self.run_timers(&mut inbox, 0);
            drop(inbox);
            let now = clock::now().0;
            if count > 0 {
                how = Eager::Paid;
                until = now + patience;
            }
            let stop = handshake.stop.load(Ordering::Relaxed)
                || handshake.polls.load(Ordering::Relaxed) != polls
                || count > FEW;
            if stop || now >= until || now >= begin + SPELL {
                break;
            }
        }
        if wait::preempted() != preempted {
            return Eager::InTheWay;
        }
        how
    }

    /// Sleeps until there is a packet (if `watching`), somebody wakes this thread, the first timer is
    /// due, or for `longest` nanoseconds. Whether there is a packet.
    fn sleep(&self, watching: bool, longest: u64) -> bool {
        let now = clock::now().0;
        let end = now.saturating_add(longest);
        let timer = self.handshake.next_timer.load(Ordering::Relaxed);
        let until = end.min(timer);
        let sleeps = &self.handshake.sleeps_until;
        sleeps.store(until, Ordering::Relaxed);
        // Whoever adds an earlier timer from here on sees until when this thread sleeps.
        fence(Ordering::SeqCst);
        let earlier = self.handshake.next_timer.load(Ordering::Relaxed) < until;
        let mut woken = false;
        if !earlier && !self.handshake.stop.load(Ordering::Relaxed) && until > now {
            let timeout = (until != u64::MAX).then(|| until - now);
            let wake = self.wake.as_raw_fd();
            if watching {
                woken = wait::readable(self.net.fd(), Some(wake), timeout);
            } else {
                wait::readable(wake, None, timeout);
            }
        }
        sleeps.store(0, Ordering::Relaxed);
        self.wake.clear();
        woken
    }
}
