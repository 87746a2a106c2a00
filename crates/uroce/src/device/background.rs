//! The background thread of a device: it makes progress while no program thread polls (`progress.rs`),
//! follows the interface, and retries events that nobody has read. How it sleeps is decided in
//! `busy_poll.rs`.

use std::cell::Cell;
use std::time::Duration;

use super::busy_poll::{BUSY_POLL_MAX_PACKETS, BusyPoll, SleepMode, Wakeup, WakeupPolicy};
use super::clock::NEVER;
use super::peer_channels::PeerChannels;
use super::wait::{self, Readable};
use super::{Device, clock, exit};
use roce::engine::Time;

/// How long the thread busy-polls at most before it returns to its other duties.
const MAX_BUSY_POLL: Duration = Duration::from_millis(5);
/// How often it checks for changes of the interface while packets keep it busy.
const INTERFACE_CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// How soon it retries to send what had no room in a channel, if its peer does not wake it up before.
const DEFERRED_RETRY: Duration = Duration::from_millis(1);
/// How soon it retries to deliver events that the program has not read.
const BACKLOG_RETRY: Duration = Duration::from_millis(10);

thread_local! {
    static IS_BACKGROUND_THREAD: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is the background thread of a device. It serves all queue pairs, and waits for no
/// peer.
pub(super) fn is_this_thread() -> bool {
    IS_BACKGROUND_THREAD.get()
}

/// Makes this thread a background thread from now on.
pub(super) fn begin_on_this_thread() {
    IS_BACKGROUND_THREAD.set(true);
}

/// The background thread of a device: its policy, and what it has seen. [`super::activity`] has what others
/// know of it.
struct BackgroundThread<'a> {
    device: &'a Device,
    policy: WakeupPolicy,
    /// The time at which the thread next checks for changes of the interface.
    check_interface_at: Time,
    /// Polls of the program's threads at the last wakeup.
    polls_seen: u64,
    /// The thread has sent everything that was deferred.
    all_sent: bool,
}

/// The thread's main function. Returns after [`super::activity::Activity::stop`] is set.
pub(super) fn run(device: &Device) {
    begin_on_this_thread();
    let _exports = device.direct.begin();
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let mut thread = BackgroundThread {
        device,
        policy: WakeupPolicy::new(cpus),
        check_interface_at: clock::now().after(INTERFACE_CHECK_INTERVAL),
        polls_seen: device.activity.polls(),
        all_sent: true,
    };
    while !device.activity.is_stopped() {
        thread.sleep_and_serve();
    }
}

impl BackgroundThread<'_> {
    /// Sleeps, and does what is due then.
    fn sleep_and_serve(&mut self) {
        let (device, activity) = (self.device, &self.device.activity);
        let backlog = !device.events.retry() || !self.all_sent;
        let by_packet = self.sleep(backlog);
        exit::serve();
        self.all_sent = device.send_deferred();
        device.retry_unreachable();
        let total_polls = activity.polls();
        // The count may have decreased: see `Activity::count_packets`.
        let polls = total_polls.saturating_sub(self.polls_seen);
        self.polls_seen = total_polls;
        // `expect_event` clears the flag to end the suspension.
        let suspended = activity.are_wakeups_suspended();
        let seen = if suspended { polls } else { 0 };
        let stays_suspended = self
            .policy
            .stays_suspended(seen, || !activity.has_one_sided());
        if !stays_suspended {
            activity.resume_wakeups();
            self.all_sent &= device.send_deferred();
            self.on_wakeup(by_packet, polls);
        }
        let now = clock::now();
        if now >= self.check_interface_at {
            device.apply_interface_changes();
            self.check_interface_at = now.after(INTERFACE_CHECK_INTERVAL);
        }
    }

    /// Makes progress after a wakeup, and asks the policy what to do next.
    fn on_wakeup(&mut self, by_packet: bool, polls: u64) {
        let (device, activity) = (self.device, &self.device.activity);
        // Blocks: its holder may be a poller that is scheduled out, and spinning would keep it from
        // running.
        let mut inbox = device.inboxes.take();
        // With the inbox locked, only pollers that do not get it count empty polls.
        let empty_polls = activity.empty_polls();
        let packets_before = activity.packets();
        let datagrams = device.make_progress(&mut inbox);
        let packets = activity.packets_since(packets_before);
        let raced_poller = activity.empty_polls() != empty_polls;
        drop(inbox);
        if datagrams == 0 {
            device.apply_interface_changes();
        }
        let wakeup = Wakeup {
            by_packet,
            packets,
            one_sided: activity.take_one_sided(),
            raced_poller,
            polls,
            event_expected: activity.take_event_expected(),
        };
        if self.policy.on_wakeup(wakeup) {
            activity.suspend_wakeups();
        } else if let Some(time) = self.policy.busy_poll_time(wakeup, clock::now()) {
            let result = self.busy_poll(time);
            self.policy.on_busy_poll(result, clock::now());
        }
    }

    /// Receives packets until none has arrived for `time`, many have arrived at once, or a program thread
    /// polls.
    fn busy_poll(&self, time: Duration) -> BusyPoll {
        let (device, activity) = (self.device, &self.device.activity);
        let preemptions = wait::preemptions();
        let polls = activity.polls();
        let begin = clock::now();
        let end = begin.after(MAX_BUSY_POLL);
        let (mut until, mut result) = (begin.after(time), BusyPoll::Empty);
        loop {
            // If a poller has the inbox, that one takes the packets.
            let Some(mut inbox) = device.inboxes.try_take() else {
                break;
            };
            let packets_before = activity.packets();
            device.receive(&mut inbox, None, None);
            let packets = activity.packets_since(packets_before);
            device.run_timers(&mut inbox, Duration::ZERO, None);
            drop(inbox);
            let now = clock::now();
            if packets > 0 {
                result = BusyPoll::Received;
                until = now.after(time);
            }
            let stop = activity.is_stopped()
                || activity.polls() != polls
                || packets > BUSY_POLL_MAX_PACKETS;
            if stop || now >= until || now >= end {
                break;
            }
        }
        if wait::preemptions() != preemptions {
            return BusyPoll::Preempted;
        }
        result
    }

    /// Sleeps until [`Device::waker`] wakes the thread up, the first timer is due, or the policy says so;
    /// with a backlog of events for [`BACKLOG_RETRY`] at most. Returns whether a packet ended the sleep.
    fn sleep(&self, backlog: bool) -> bool {
        let (device, activity) = (self.device, &self.device.activity);
        let mode = self.policy.sleep_mode();
        let now = clock::now();
        let mut until = device.timers.next();
        if let SleepMode::Suspended(time) = mode {
            until = until.min(now.after(time));
        }
        if device.deferred_sends.any() {
            until = until.min(now.after(DEFERRED_RETRY));
        }
        if backlog {
            until = until.min(now.after(BACKLOG_RETRY));
        }
        let may_sleep = activity.begin_sleep(until, || device.timers.next());
        let mut readable = Readable::default();
        if may_sleep && !activity.is_stopped() && until > now {
            let timeout = (until != NEVER).then(|| until.since(now));
            let watches = mode == SleepMode::WatchSockets;
            let sockets = device.net.fd().filter(|_| watches);
            let channels = device.channels.as_ref().filter(|_| watches);
            readable.other = channels.is_some_and(PeerChannels::prepare_sleep);
            let must_not_sleep = readable.other;
            if !must_not_sleep {
                readable = wait::readable(&device.waker, sockets, timeout);
            }
            if let Some(channels) = channels {
                channels.end_sleep(readable.other && !must_not_sleep);
            }
        }
        activity.end_sleep();
        device.waker.clear(readable.waker);
        readable.other
    }
}
