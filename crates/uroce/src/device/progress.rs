//! Progress: receiving packets, sending what queue pairs have to send, running their timers.
//!
//! A program thread that polls an empty completion queue makes progress for the whole device
//! ([`Device::poll`]). While no thread polls, the background thread does; it sleeps while nothing happens
//! (`background.rs`).
//!
//! Waking the background thread for every packet would steal CPU from a program that busy-polls. So it
//! stops watching the sockets once several wakeups in a row were redundant: a poller had taken the
//! packet, or was about to. From then on it only checks, at growing intervals, that a thread still
//! polls. It keeps watching for a program that spins on memory which a peer writes and polls once per
//! message. Where no thread polls and the next packet comes soon, it busy-polls before it sleeps: a
//! wakeup costs more than the rest of a message. (`busy_poll.rs`)
//!
//! How packets are sent is in `sending.rs`.

use std::sync::Arc;
use std::time::Duration;

use super::clock::NEVER;
use super::inboxes::InboxGuard;
use super::lock_holder::PREEMPTED_AFTER;
use super::peer_channels::PeerChannels;
use super::polled::PolledCompletions;
use super::qp_hca::QpHca;
use super::queue_pair::{Inner, LockedQp, QueuePair, Unavailable};
use super::receive_order::ReceiveOrder;
use super::receiving::{self, Batch};
use super::{Device, clock, faults};
use crate::transport::Inbox;
use roce::engine::{Addresses, Clock, Qp, QpState, Time};
use roce::wire::Packet;

/// How many batches the background thread receives before it returns to its other duties.
const RECEIVE_ROUNDS: usize = 4;
/// How many batches are received before a due timer runs although more packets are waiting.
const MAX_ROUNDS_BEFORE_TIMER: usize = 1024;
/// How late a poller that has received packets may run due timers.
const TIMER_SLACK: Duration = Duration::from_millis(1);

/// How a poller receives.
#[derive(Clone, Copy)]
pub(super) struct Polling {
    /// The poller looks for packets in shared memory only.
    pub skips_sockets: bool,
}

/// The result of [`Device::receive`].
pub(super) struct Received {
    /// Packets in shared memory, and datagrams.
    pub packets: usize,
    /// The time of the first, if it was read.
    pub at: Option<Time>,
}

impl Device {
    /// Lets `work` change a queue pair, and sends what it has to send then. What was deferred is sent
    /// before `work` is called.
    pub fn run_qp<T>(
        &self,
        qp: &QueuePair,
        work: impl FnOnce(&mut Qp, &mut QpHca<'_>, Time) -> T,
    ) -> T {
        let mut inner = qp.inner.lock();
        qp.holder.locked();
        let now = clock::now();
        if inner.send_deferred {
            self.send(qp, inner);
            inner = qp.inner.lock();
        }
        // Packets that came before the change must not be handled after it.
        inner.receive_missed(qp);
        let (engine, mut hca) = inner.split(qp);
        let result = work(engine, &mut hca, now);
        let is_reset = engine.state() == QpState::Reset;
        inner.channel.forget(is_reset);
        inner.follow_peer(qp, &self.net);
        if let Some(channels) = &self.channels {
            channels.meet_peer(&self.net, qp, inner.engine());
        }
        let was_exported = self.direct.allow(qp, &mut inner);
        self.send(qp, inner);
        self.direct.await_ended(qp, was_exported);
        result
    }

    /// Lets `work` post requests to a queue pair. They are sent now, or, in a stream of requests,
    /// deferred and sent together with those that follow.
    pub fn post<T>(
        &self,
        qp: &Arc<QueuePair>,
        work: impl FnOnce(&mut Qp, &mut QpHca<'_>) -> T,
    ) -> T {
        let mut inner = qp.inner.lock();
        qp.holder.locked();
        if let Some(channels) = &self.channels {
            channels.refresh(&self.net, qp, &mut inner);
        }
        let (engine, mut hca) = inner.split(qp);
        let result = work(engine, &mut hca);
        if !(engine.may_defer_transmit() && self.deferred_sends.add(qp, &mut inner)) {
            self.send(qp, inner);
        }
        result
    }

    /// The program has moved a queue pair to RTS, and may post next: waits a moment for the answer to the
    /// offer of a channel. A stream of requests that begins by UDP keeps later ones from direct access, as
    /// there is always one outstanding.
    pub fn await_channel(&self, qp: &QueuePair) {
        let Some(channels) = &self.channels else {
            return;
        };
        let is_awaited = channels.await_answer(&self.net, qp);
        let mut inner = qp.inner.lock();
        qp.holder.locked();
        if qp.service.is_reliable() {
            // One that never sends has to know the channel, too, to see its end.
            channels.find(&self.net, qp, &mut inner);
        }
        if is_awaited {
            self.send(qp, inner);
        }
    }

    /// Arms the device's timer for the queue pair, unless it is armed for an earlier time already. Wakes
    /// the background thread up if that would sleep past it.
    pub(super) fn arm_timer(&self, qp: &QueuePair, inner: &Inner) {
        let Some(at) = inner.engine().next_timeout() else {
            return;
        };
        if at >= qp.timer_at.load() {
            return;
        }
        qp.timer_at.store(at);
        self.add_timer(at, qp.qpn);
        self.wake_before(at);
    }

    /// A timer was added that is due at this time: wakes the background thread up if that would sleep past
    /// it.
    pub(super) fn wake_before(&self, at: Time) {
        if self.activity.sleeps_past(at) {
            self.waker.wake();
        }
    }

    /// Receives packets and runs due timers, in a thread that has found a completion queue empty. Completions
    /// of that queue may be put into `polled`: then they are nowhere else.
    pub fn poll(&self, polled: &mut PolledCompletions) {
        // The thread that has the inbox makes progress for all.
        let Some(mut inbox) = self.inboxes.try_take() else {
            return self.on_empty_poll();
        };
        let polls = self.activity.count_poll();
        self.send_deferred();
        self.retry_unreachable();
        let skips_sockets = self
            .channels
            .as_ref()
            .is_some_and(|channels| channels.lets_skip_sockets(polls));
        if skips_sockets && !self.has_local_packets(&mut inbox) {
            drop(inbox);
            return self.on_empty_poll();
        }
        let received = self.receive(&mut inbox, Some(Polling { skips_sockets }), Some(polled));
        if received.packets == 0 {
            self.run_timers(&mut inbox, Duration::ZERO, None);
            drop(inbox);
            self.on_empty_poll();
        } else {
            // The packets may have completed what the thread waits for: do not delay it.
            if !skips_sockets {
                self.run_timers(&mut inbox, TIMER_SLACK, received.at);
            }
            self.activity.end_empty_polls();
        }
    }

    /// Counts an empty poll, and yields the CPU at intervals.
    fn on_empty_poll(&self) {
        if self.activity.count_empty_poll() {
            std::thread::yield_now();
        }
    }

    /// Receives up to [`RECEIVE_ROUNDS`] batches and runs due timers. Returns the number of datagrams.
    pub(super) fn make_progress(&self, inbox: &mut InboxGuard<'_>) -> usize {
        let mut datagrams = 0;
        for _ in 0..RECEIVE_ROUNDS {
            let batch = self.receive(inbox, None, None).packets;
            datagrams += batch;
            // If more has arrived meanwhile, the sockets are readable.
            if batch < Inbox::BATCH {
                break;
            }
        }
        self.run_timers(inbox, Duration::ZERO, None);
        datagrams
    }

    /// The order in which packets are delivered, for the queue pairs.
    pub fn receive_order(&self) -> Arc<ReceiveOrder> {
        self.inboxes.order().clone()
    }

    /// The program is about to block until a completion event: the background thread is to watch the
    /// sockets.
    pub fn expect_event(&self) {
        let suspended = self.activity.expect_event();
        if suspended || self.unreachable.any() {
            self.activity.end_suspension();
            self.waker.wake();
        }
    }

    /// Receives a batch of packets and runs their queue pairs. `polling`: the caller is a poller, and
    /// `polled` is its list.
    pub(super) fn receive(
        &self,
        inbox: &mut InboxGuard<'_>,
        polling: Option<Polling>,
        polled: Option<&mut PolledCompletions>,
    ) -> Received {
        inbox.on_batch();
        // A poller that does not come back must not strand what it defers: the background thread sends it
        // at its next wakeup, which is soon while wakeups are suspended.
        let may_defer = polling.is_some() && self.activity.are_wakeups_suspended();
        let skips_sockets = polling.is_some_and(|polling| polling.skips_sockets);
        self.receive_batch(inbox, may_defer, skips_sockets, polled)
    }

    /// [`Device::receive`]; `may_defer`: what the queue pairs have to send may be deferred.
    pub(super) fn receive_batch(
        &self,
        inbox: &mut InboxGuard<'_>,
        may_defer: bool,
        skips_sockets: bool,
        polled: Option<&mut PolledCompletions>,
    ) -> Received {
        let channels = self.channels.as_ref().filter(|_| !skips_sockets);
        let has_dead_peers = channels.is_some_and(PeerChannels::has_dead);
        if has_dead_peers {
            inbox.poll_all_sockets();
        }
        let mut batch = Batch::new(self, may_defer, inbox.take_qp_cache());
        batch.polled = polled;
        let (by_channels, by_udp) = match &self.hooks {
            None => self.receive_all(inbox, skips_sockets, &mut batch),
            Some(hooks) => {
                let mut each = hooks.consumer(&mut batch);
                (0, self.net.receive_by(inbox, &mut each))
            }
        };
        let (at, qp_cache) = batch.finish();
        inbox.keep_qp_cache(qp_cache);
        let drained = has_dead_peers && by_udp < Inbox::BATCH;
        if !skips_sockets {
            self.serve_channels(inbox, drained);
        }
        let packets = by_channels + by_udp;
        Received { packets, at }
    }

    /// Receives a batch of packets from shared memory and one from the sockets. Returns the number of each.
    /// Datagrams that were received before the first packets of a new channel count with those from shared
    /// memory.
    fn receive_all(
        &self,
        inbox: &mut InboxGuard<'_>,
        skips_sockets: bool,
        batch: &mut Batch<'_>,
    ) -> (usize, usize) {
        if skips_sockets {
            // The poller has found packets.
            return (self.receive_locally(inbox, batch), 0);
        }
        let local = match self.has_local_packets(inbox) {
            true => self.receive_locally(inbox, batch),
            false => 0,
        };
        let each = &mut |packet: &Packet<'_>, from: &Addresses| batch.deliver(packet, from);
        (local, self.net.receive(inbox, each))
    }

    /// Delivers a multicast datagram to each queue pair that is attached to its group.
    pub(super) fn deliver_multicast(
        &self,
        packet: &Packet<'_>,
        from: &Addresses,
        clock: impl Clock,
    ) {
        for qp in self.multicast_groups.of(&from.dst) {
            if let Some(mut locked) = receiving::lock_for(self, qp, packet, from) {
                receiving::receive(&mut locked, packet, from, clock, None);
                self.finish_receiving(locked, false);
            }
        }
    }

    /// Sends what a queue pair has to send after a run of packets: one ACK covers them all. Returns the queue
    /// pair.
    ///
    /// If the run has completed a receive, sending by UDP is deferred where it may be, until the program
    /// polls again or posts its reply, which then goes out with the ACK. So the program gets its message one
    /// system call earlier.
    pub(super) fn finish_receiving(&self, locked: LockedQp, may_defer: bool) -> Arc<QueuePair> {
        locked.release(|qp, mut inner| {
            if inner.engine().has_early_packets() {
                // Delivered when the threads that have received earlier packets have ended their batches.
                self.deferred_sends.add(qp, &mut inner);
                self.waker.wake();
            }
            let may_defer = inner.take_recv_completed() && may_defer;
            if self.has_nothing_to_send(qp, &inner) || self.send_through_channels(qp, &mut inner) {
                return self.unlock(qp, inner);
            }
            if may_defer {
                self.arm_timer(qp, &inner);
                let deferred = self.deferred_sends.add(qp, &mut inner);
                if deferred && self.activity.may_leave_deferred() {
                    inner.count_deferred_ack();
                    return;
                }
            }
            self.send_batches(qp, inner);
        })
    }

    /// Runs the timers that are due, if the first has been due for `slack`. `now`: the time, if the caller
    /// has it. All packets that have arrived are received first: an ACK that arrived in time must not count
    /// as late because this process was descheduled.
    pub(super) fn run_timers(
        &self,
        inbox: &mut InboxGuard<'_>,
        slack: Duration,
        now: Option<Time>,
    ) {
        let now = || now.unwrap_or_else(clock::now);
        if !self.timers.any_due(slack, now) {
            return;
        }
        for _ in 0..MAX_ROUNDS_BEFORE_TIMER {
            inbox.poll_all_sockets();
            if self.receive(inbox, None, None).packets == 0 {
                break;
            }
        }
        let now = clock::now();
        while let Some(due) = self.timers.take_due(now) {
            match self.queue_pair(due.qpn) {
                Some(qp) => self.run_timer(&qp, due.at),
                None => {
                    self.deliver_delayed(now);
                    self.moderated.end_waits(now);
                }
            }
        }
    }

    fn run_timer(&self, qp: &QueuePair, at: Time) {
        let mut inner = match qp.lock_unless_preempted() {
            Ok(inner) => inner,
            Err(Unavailable::Preempted) => return self.postpone_timer(qp, at),
            Err(Unavailable::Destroyed) => return,
        };
        // Otherwise the entry was replaced by an earlier one, or is of a destroyed queue pair that had
        // this number.
        if qp.timer_at.load() != at {
            return;
        }
        qp.timer_at.store(NEVER);
        let now = clock::now();
        let peer = inner.channel.peer_activity();
        let (engine, mut hca) = inner.split(qp);
        if engine.next_timeout().is_some_and(|at| at <= now) {
            engine.handle_timeout(now, peer, &mut hca);
        }
        self.send(qp, inner);
    }

    /// Moves the timer of a queue pair that cannot be locked now.
    fn postpone_timer(&self, qp: &QueuePair, at: Time) {
        let later = clock::now().after(PREEMPTED_AFTER);
        // If it fails, the thread that has the queue pair locked has armed the timer again.
        if qp.timer_at.replace(at, later) {
            self.add_timer(later, qp.qpn);
        }
    }

    /// Adds a deadline, which [`QueuePair::timer_at`] says already. Without memory, the entries that do not
    /// count any more make room.
    pub(super) fn add_timer(&self, at: Time, qpn: u32) {
        // There is room: `add_queue_pair` has reserved it.
        let _ = self.timers.add(at, qpn, |deadline| {
            deadline.qpn == faults::TIMER_QPN
                || self.queue_pairs.has_timer(deadline.qpn, deadline.at)
        });
    }
}
