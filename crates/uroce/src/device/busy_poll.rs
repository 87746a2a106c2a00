//! Whether the background thread sleeps until a packet arrives, sleeps for a fixed time, or busy-polls.
//! Pure: the caller passes the time and what it has observed.
//!
//! The problem is NAPI's. A thread that a packet wakes up costs a context switch, and is of no use if a
//! program thread that busy-polls a completion queue takes the packet first. So, as the kernel suspends
//! a device's interrupts while an application busy-polls it, [`WakeupPolicy`] suspends wakeups by packets
//! after [`REDUNDANT_WAKEUPS`] in a row that pollers made redundant. It resumes them when a wakeup finds
//! that pollers no longer keep up. Where no program thread polls, the background thread itself
//! busy-polls for [`BUSY_POLL`] before it sleeps, as long as that finds packets and no other thread needs
//! the CPU.

use std::time::Duration;

use roce::engine::Time;

/// Consecutive redundant wakeups before the thread stops watching the sockets.
const REDUNDANT_WAKEUPS: u32 = 8;
/// The program counts as busy-polling if its threads poll at least this often between two wakeups. If
/// they poll less often, wakeups by packets are resumed.
const ACTIVE_POLLS: u64 = 4;
/// How long wakeups by packets are suspended at first. Doubles up to [`SUSPEND_MAX`] while pollers keep
/// up.
const SUSPEND_MIN: Duration = Duration::from_micros(50);
/// The longest suspension. A packet waits at most for this time if all pollers stop.
const SUSPEND_MAX: Duration = Duration::from_millis(1);
/// How long the thread busy-polls for the next packet before it sleeps: the round trip of a peer that
/// sends one request after the other.
const BUSY_POLL: Duration = Duration::from_micros(50);
/// The most packets of one wakeup after which the thread busy-polls. More are a stream: there a wakeup
/// serves many packets, and sleeping costs little.
pub const BUSY_POLL_MAX_PACKETS: u64 = 4;
/// The thread busy-polls only if no program thread has polled for this long.
const POLLER_ABSENT: Duration = Duration::from_millis(10);
/// After busy-polling that found nothing, the thread skips it for one wakeup, then for twice as many
/// each time; for this many at most.
const MAX_SKIPPED_WAKEUPS: u32 = 256;
/// How long the thread does not busy-poll after it was preempted while doing so: another thread needed
/// the CPU. Doubles up to [`PREEMPTED_MAX`].
const PREEMPTED_MIN: Duration = Duration::from_millis(10);
/// See [`PREEMPTED_MIN`].
const PREEMPTED_MAX: Duration = Duration::from_secs(1);

/// The end of the thread's next sleep, besides timers and explicit wakeups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SleepMode {
    /// A packet.
    WatchSockets,
    /// The end of this time. Wakeups by packets are suspended: pollers take the packets.
    Suspended(Duration),
}

/// The thread's observations when it woke up.
#[derive(Clone, Copy, Debug)]
pub struct Wakeup {
    /// A packet woke it up.
    pub by_packet: bool,
    /// Packets that it received itself.
    pub packets: u64,
    /// Since its last wakeup a peer has accessed memory by a one-sided operation. A program that waits
    /// for that spins on the memory and polls no completion queue.
    pub one_sided: bool,
    /// A poller wanted the inbox while the thread was receiving.
    pub raced_poller: bool,
    /// Polls by program threads since its last wakeup.
    pub polls: u64,
    /// The program is about to block until a completion event.
    pub event_expected: bool,
}

impl Wakeup {
    /// Whether pollers would have taken the packets without this thread.
    fn is_redundant(&self) -> bool {
        let poller_present = if self.packets > 0 {
            self.raced_poller || self.polls >= ACTIVE_POLLS
        } else {
            self.polls > 0
        };
        self.by_packet && poller_present && !self.one_sided && !self.event_expected
    }
}

/// How busy-polling for the next packet ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BusyPoll {
    /// The thread received packets.
    Received,
    /// The thread received none.
    Empty,
    /// The kernel preempted the thread: another one needed the CPU.
    Preempted,
}

/// Decides how the background thread sleeps.
pub struct WakeupPolicy {
    mode: SleepMode,
    redundant_wakeups: u32,
    /// The host has more than one CPU. On the only one, busy-polling keeps the sender from running.
    may_busy_poll: bool,
    /// The time from which, [`POLLER_ABSENT`] after the last poll, no program thread counts as
    /// polling.
    poller_absent_from: Time,
    /// How many wakeups to skip busy-polling for, and how many were skipped.
    skip: u32,
    skipped: u32,
    /// No busy-polling before this time, because the thread was preempted while busy-polling.
    not_before: Time,
    /// How long not to busy-poll after the next preemption.
    preempted_for: Duration,
}

impl WakeupPolicy {
    /// A policy for a host with this many CPUs, which begins with [`SleepMode::WatchSockets`].
    pub fn new(cpus: usize) -> WakeupPolicy {
        WakeupPolicy {
            mode: SleepMode::WatchSockets,
            redundant_wakeups: 0,
            may_busy_poll: cpus > 1,
            poller_absent_from: Time(0),
            skip: 0,
            skipped: 0,
            not_before: Time(0),
            preempted_for: PREEMPTED_MIN,
        }
    }

    /// How the thread sleeps next.
    pub fn sleep_mode(&self) -> SleepMode {
        self.mode
    }

    /// Ends a sleep, during which program threads made `polls` polls. Returns whether wakeups by packets
    /// stay suspended, for a longer time: if the polls were enough, and `keeps_up` returns true.
    pub fn stays_suspended(&mut self, polls: u64, keeps_up: impl FnOnce() -> bool) -> bool {
        let SleepMode::Suspended(time) = self.mode else {
            return false;
        };
        if polls >= ACTIVE_POLLS && keeps_up() {
            self.mode = SleepMode::Suspended((time * 2).min(SUSPEND_MAX));
            true
        } else {
            self.mode = SleepMode::WatchSockets;
            self.redundant_wakeups = 0;
            false
        }
    }

    /// Accounts for a wakeup after which the thread tried to receive. Returns whether wakeups by packets
    /// are suspended from now on.
    pub fn on_wakeup(&mut self, wakeup: Wakeup) -> bool {
        if wakeup.is_redundant() {
            self.redundant_wakeups += 1;
        } else if wakeup.packets > 0 || wakeup.event_expected {
            self.redundant_wakeups = 0;
        }
        let suspends = self.redundant_wakeups >= REDUNDANT_WAKEUPS;
        if suspends {
            self.redundant_wakeups = 0;
            self.mode = SleepMode::Suspended(SUSPEND_MIN);
        }
        suspends
    }

    /// How long the thread is to busy-poll for the next packet before it sleeps. None: not at all.
    pub fn busy_poll_time(&mut self, wakeup: Wakeup, now: Time) -> Option<Duration> {
        if wakeup.polls > 0 || wakeup.raced_poller || wakeup.event_expected {
            self.poller_absent_from = now.after(POLLER_ABSENT);
        }
        let few = (1..=BUSY_POLL_MAX_PACKETS).contains(&wakeup.packets);
        if !self.may_busy_poll || !few || now < self.not_before.max(self.poller_absent_from) {
            return None;
        }
        if self.skipped < self.skip {
            self.skipped += 1;
            return None;
        }
        self.skipped = 0;
        Some(BUSY_POLL)
    }

    /// Accounts for the result of busy-polling.
    pub fn on_busy_poll(&mut self, result: BusyPoll, now: Time) {
        match result {
            BusyPoll::Received => {
                self.skip = 0;
                self.preempted_for = PREEMPTED_MIN;
            }
            BusyPoll::Empty => self.skip = (self.skip * 2).clamp(1, MAX_SKIPPED_WAKEUPS),
            BusyPoll::Preempted => {
                self.not_before = now.after(self.preempted_for);
                self.preempted_for = (self.preempted_for * 2).min(PREEMPTED_MAX);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: Wakeup = Wakeup {
        by_packet: false,
        packets: 0,
        one_sided: false,
        raced_poller: false,
        polls: 0,
        event_expected: false,
    };
    /// The thread received the packet that woke it up.
    const RECEIVED: Wakeup = Wakeup {
        by_packet: true,
        packets: 1,
        ..NOTHING
    };
    /// A poller took the packet that woke the thread up.
    const TAKEN: Wakeup = Wakeup {
        by_packet: true,
        polls: 100,
        ..NOTHING
    };

    fn with(mut wakeup: Wakeup, change: impl FnOnce(&mut Wakeup)) -> Wakeup {
        change(&mut wakeup);
        wakeup
    }

    fn suspend(policy: &mut WakeupPolicy) {
        for _ in 0..REDUNDANT_WAKEUPS {
            policy.on_wakeup(TAKEN);
        }
    }

    #[test]
    fn suspends_after_consecutive_redundant_wakeups() {
        let polled = with(RECEIVED, |wakeup| wakeup.polls = ACTIVE_POLLS);
        let raced = with(RECEIVED, |wakeup| wakeup.raced_poller = true);
        let needed = [
            RECEIVED,
            with(RECEIVED, |wakeup| wakeup.polls = 1),
            with(polled, |wakeup| wakeup.one_sided = true),
            with(polled, |wakeup| wakeup.event_expected = true),
            with(TAKEN, |wakeup| wakeup.event_expected = true),
        ];
        for redundant in [TAKEN, polled, raced] {
            let mut policy = WakeupPolicy::new(2);
            for needed in needed {
                for _ in 1..REDUNDANT_WAKEUPS {
                    assert!(!policy.on_wakeup(redundant));
                    // A timer, or a packet without any poller, says nothing about pollers.
                    assert!(!policy.on_wakeup(NOTHING));
                    assert!(!policy.on_wakeup(with(TAKEN, |wakeup| wakeup.polls = 0)));
                }
                assert!(!policy.on_wakeup(needed));
            }
            for _ in 1..REDUNDANT_WAKEUPS {
                assert!(!policy.on_wakeup(redundant));
            }
            assert!(policy.on_wakeup(redundant));
            assert_eq!(policy.sleep_mode(), SleepMode::Suspended(SUSPEND_MIN));
        }
    }

    #[test]
    fn suspension_doubles_while_pollers_keep_up() {
        let mut policy = WakeupPolicy::new(2);
        suspend(&mut policy);
        for micros in [100, 200, 400, 800, 1000, 1000] {
            assert!(policy.stays_suspended(ACTIVE_POLLS, || true));
            let expected = SleepMode::Suspended(Duration::from_micros(micros));
            assert_eq!(policy.sleep_mode(), expected);
        }
        assert!(!policy.stays_suspended(ACTIVE_POLLS, || false));
        assert_eq!(policy.sleep_mode(), SleepMode::WatchSockets);
        suspend(&mut policy);
        assert!(!policy.stays_suspended(ACTIVE_POLLS - 1, || unreachable!()));
    }

    #[test]
    fn busy_polls_where_that_finds_packets() {
        let mut policy = WakeupPolicy::new(2);
        let mut now = Time(0);
        assert_eq!(policy.busy_poll_time(RECEIVED, now), Some(BUSY_POLL));
        assert_eq!(policy.busy_poll_time(NOTHING, now), None);
        let stream = with(RECEIVED, |wakeup| {
            wakeup.packets = BUSY_POLL_MAX_PACKETS + 1
        });
        assert_eq!(policy.busy_poll_time(stream, now), None);
        let polled = with(RECEIVED, |wakeup| wakeup.polls = 1);
        let raced = with(RECEIVED, |wakeup| wakeup.raced_poller = true);
        let expected = with(RECEIVED, |wakeup| wakeup.event_expected = true);
        for poller in [TAKEN, polled, raced, expected] {
            assert_eq!(policy.busy_poll_time(poller, now), None);
            let absent = now.after(POLLER_ABSENT);
            assert_eq!(policy.busy_poll_time(RECEIVED, Time(absent.0 - 1)), None);
            assert_eq!(policy.busy_poll_time(RECEIVED, absent), Some(BUSY_POLL));
            now = absent;
        }
        for skipped in [1, 2, 4, 8, 16, 32, 64, 128, 256, 256] {
            policy.on_busy_poll(BusyPoll::Empty, now);
            for _ in 0..skipped {
                assert_eq!(policy.busy_poll_time(RECEIVED, now), None);
            }
            assert_eq!(policy.busy_poll_time(RECEIVED, now), Some(BUSY_POLL));
        }
        policy.on_busy_poll(BusyPoll::Received, now);
        assert_eq!(policy.busy_poll_time(RECEIVED, now), Some(BUSY_POLL));
        assert_eq!(WakeupPolicy::new(1).busy_poll_time(RECEIVED, Time(0)), None);
    }

    #[test]
    fn stops_busy_polling_where_it_is_preempted() {
        let mut policy = WakeupPolicy::new(2);
        let mut now = Time(5);
        for factor in [1, 2, 4] {
            policy.on_busy_poll(BusyPoll::Preempted, now);
            let until = now.after(PREEMPTED_MIN * factor);
            assert_eq!(policy.busy_poll_time(RECEIVED, Time(until.0 - 1)), None);
            assert_eq!(policy.busy_poll_time(RECEIVED, until), Some(BUSY_POLL));
            now = until;
        }
    }
}
