//! Who runs the protocol. A thread that polls a completion queue does, while it finds nothing there.
//! When nobody polls, one thread in the background does, which sleeps while nothing happens.
//!
//! Both would be woken by each packet if the background thread always watched the sockets: of a
//! program that spins in `ibv_poll_cq` it would take half the processor for nothing. So it watches
//! ([`Mode::Watching`]) until it has found several times in a row that a poller had been looking for
//! packets, often, since it last did. Then it only looks, at growing intervals, whether somebody still
//! polls ([`Mode::Resting`]), and watches again if not. A program that spins on its own memory, and polls
//! only once a message, leaves packets for the thread between, so there it keeps watching.

use std::cell::RefCell;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};

use parking_lot::{ArcMutexGuard, RawMutex};

use super::queue_pair::{Inner, QueuePair};
use super::world::World;
use super::{Device, clock, wait};
use crate::engine::{Addresses, Qp, Time};
use crate::transport::{Inbox, MULTICAST_QPN, Outbox};
use crate::wire::Packet;

/// How many polls in vain between two wakes of the background thread are often, and after how many
/// such wakes in a row it rests.
const OFTEN: u64 = 4;
const SPARED: u32 = 8;
/// How many polls in vain a thread makes before it yields, and in which of those that follow.
const PATIENT: u32 = 64;
const YIELD_EACH: u32 = 8;
/// How often sockets are read before timers are looked at.
const ROUNDS: usize = 4;
/// How late timers may be, in nanoseconds, in a thread that has found something better.
const LATE: u64 = 1_000_000;
/// How long it rests at first, and at most, in nanoseconds.
const REST: (u64, u64) = (50_000, 1_000_000);
/// How often it looks for changes of the interface while there is always something else to do.
const CHANGES: u64 = 100_000_000;
/// How soon it tries again to hand over events that nobody reads.
const BACKLOG: u64 = 10_000_000;

/// What pollers and the background thread tell each other.
pub struct Handshake {
    /// Grows with each poll that looked for packets.
    polls: AtomicU64,
    /// How many polls in a row have found nothing.
    empty: AtomicU32,
    /// The background thread rests.
    resting: AtomicBool,
    /// The device has deferred something.
    deferred: AtomicBool,
    /// Until when the background thread sleeps, at most; 0 while it is awake.
    sleeps_until: AtomicU64,
    /// The time of the first timer; `u64::MAX` if there is none.
    next_timer: AtomicU64,
    pub stop: AtomicBool,
}

impl Handshake {
    pub fn new() -> Handshake {
        Handshake {
            polls: AtomicU64::new(0),
            empty: AtomicU32::new(0),
            resting: AtomicBool::new(false),
            deferred: AtomicBool::new(false),
            sleeps_until: AtomicU64::new(0),
            next_timer: AtomicU64::new(u64::MAX),
            stop: AtomicBool::new(false),
        }
    }
}

enum Mode {
    /// Sleeps until there is a packet. How often in a row it could have been spared.
    Watching(u32),
    /// Sleeps that long whatever comes.
    Resting(u64),
}

/// A queue pair that this thread runs: its lock is held until what it has to send is sent.
struct Running {
    qp: Arc<QueuePair>,
    inner: ArcMutexGuard<RawMutex, Inner>,
}

thread_local! {
    static OUTBOX: RefCell<Option<Box<Outbox>>> = const { RefCell::new(None) };
}

/// Calls with this thread's batch.
fn with_outbox<T>(call: impl FnOnce(&mut Outbox) -> T) -> T {
    // A thread that is ending may have lost it already.
    let mut own = OUTBOX
        .try_with(|outbox| outbox.try_borrow_mut().ok()?.take())
        .ok()
        .flatten()
        .unwrap_or_else(|| Box::new(Outbox::new()));
    let result = call(&mut own);
    let _ = OUTBOX.try_with(|outbox| {
        if let Ok(mut outbox) = outbox.try_borrow_mut() {
            *outbox = Some(own);
        }
    });
    result
}

impl Device {
    /// Lets `work` drive a queue pair, and sends what comes of it.
    pub fn run<T>(
        &self,
        qp: &QueuePair,
        work: impl FnOnce(&mut Qp, &mut World<'_>, Time) -> T,
    ) -> T {
        let mut inner = qp.inner.lock();
        let now = clock::now();
        let (engine, mut world) = inner.split(qp);
        let result = work(engine, &mut world, now);
        with_outbox(|outbox| {
            self.transmit(qp, &mut inner, now, outbox);
            self.finish(qp, &inner, outbox);
        });
        result
    }

    /// Adds what the queue pair may send now to the batch.
    fn transmit(&self, qp: &QueuePair, inner: &mut Inner, now: Time, outbox: &mut Outbox) {
        let (engine, mut world) = inner.split(qp);
        while let Some(packet) = engine.transmit(now, &mut world, outbox.buffer()) {
            self.net.push(outbox, qp.qpn, &packet);
        }
    }

    /// Sends the batch, and remembers when the queue pair wants to be run next.
    fn finish(&self, qp: &QueuePair, inner: &Inner, outbox: &mut Outbox) {
        self.net.flush(outbox, qp.qpn);
        self.schedule(qp, inner);
    }

    /// Remembers when the queue pair wants to be run next.
    fn schedule(&self, qp: &QueuePair, inner: &Inner) {
        if let Some(at) = inner.engine().timeout()
            && at.0 < qp.due.load(Ordering::Relaxed)
        {
            qp.due.store(at.0, Ordering::Relaxed);
            let mut timers = self.timers.lock();
            timers.add(at, qp.qpn);
            self.publish(timers.next());
            drop(timers);
            // The thread publishes until when it sleeps before it looks at the timers a last time.
            fence(Ordering::SeqCst);
            // While it rests it looks at them often enough, and a poller does anyway.
            if at.0 < self.handshake.sleeps_until.load(Ordering::Relaxed)
                && !self.handshake.resting.load(Ordering::Relaxed)
            {
                self.wake.wake();
            }
        }
    }

    fn publish(&self, next: Option<Time>) {
        let next = next.map_or(u64::MAX, |at| at.0);
        self.handshake.next_timer.store(next, Ordering::Relaxed);
    }

    /// Looks for packets and due timers, in a thread that waits for completions.
    pub fn poll(&self) {
        // Whoever holds it makes progress for all.
        let Some(mut inbox) = self.inbox.try_lock() else {
            return self.yield_now();
        };
        let handshake = &self.handshake;
        let polls = handshake.polls.load(Ordering::Relaxed);
        handshake.polls.store(polls + 1, Ordering::Relaxed);
        self.send_deferred();
        if self.receive(&mut inbox, true) == 0 {
            self.run_timers(0);
            drop(inbox);
            self.yield_now();
        } else {
            // Whoever waits for a completion is not kept.
            self.run_timers(LATE);
            handshake.empty.store(0, Ordering::Relaxed);
        }
    }

    /// Sends what [`Device::stop_running`] has put off.
    fn send_deferred(&self) {
        if !self.handshake.deferred.load(Ordering::Relaxed) {
            return;
        }
        self.handshake.deferred.store(false, Ordering::Relaxed);
        let next = || self.deferred.lock().pop();
        while let Some(qp) = next() {
            self.run(&qp, |_, _, _| ());
        }
    }

    /// Lets others run now and then in a thread that polls in vain: where there are more threads than
    /// processors, they may be what it waits for.
    fn yield_now(&self) {
        let empty = self.handshake.empty.load(Ordering::Relaxed).wrapping_add(1);
        self.handshake.empty.store(empty, Ordering::Relaxed);
        if empty > PATIENT && empty.is_multiple_of(YIELD_EACH) {
            std::thread::yield_now();
        }
    }

    /// Receives what there is, within limits, and then, only then, runs what is due: an
    /// acknowledgement that has come in time is not to be too late for it. How many packets there were.
    fn progress(&self, inbox: &mut Inbox) -> usize {
        let mut count = 0;
        for _ in 0..ROUNDS {
            let more = self.receive(inbox, false);
            count += more;
            if more == 0 {
                break;
            }
        }
        self.run_timers(0);
        count
    }

    /// The program is about to sleep until there is an event: the background thread is to watch.
    pub fn expect_event(&self) {
        if self.handshake.resting.load(Ordering::Relaxed) {
            self.handshake.resting.store(false, Ordering::Relaxed);
            self.wake.wake();
        }
    }

    /// Runs the queue pairs that packets have come for. Returns how many there were.
    fn receive(&self, inbox: &mut Inbox, polling: bool) -> usize {
        // Only if the background thread looks after what is put off, should the poller not come back.
        let may_defer = polling && self.handshake.resting.load(Ordering::Relaxed);
        let mut now = None;
        let mut running: Option<Running> = None;
        with_outbox(|outbox| {
            let count = self.net.receive(inbox, &mut |packet, from| {
                let now = *now.get_or_insert_with(clock::now);
                let qpn = packet.headers.bth.dest_qpn;
                if qpn == MULTICAST_QPN {
                    self.stop_running(&mut running, may_defer, now, outbox);
                    self.deliver_to_group(packet, from, now, outbox);
                    return;
                }
                if running.as_ref().is_none_or(|running| running.qp.qpn != qpn) {
                    self.stop_running(&mut running, may_defer, now, outbox);
                    running = self.queue_pair(qpn).map(Running::new);
                }
                if let Some(running) = &mut running {
                    running.receive(packet, from, now);
                }
            });
            if let Some(now) = now {
                self.stop_running(&mut running, may_defer, now, outbox);
            }
            count
        })
    }

    fn deliver_to_group(
        &self,
        packet: &Packet<'_>,
        from: &Addresses,
        now: Time,
        outbox: &mut Outbox,
    ) {
        for qp in self.group(&from.dst) {
            let mut running = Running::new(qp);
            running.receive(packet, from, now);
            self.stop_running(&mut Some(running), false, now, outbox);
        }
    }

    /// Sends what comes of a run of packets: one acknowledgement for all of them.
    ///
    /// If the run has completed a receive, that can wait until the program polls next or posts its
    /// answer, which then goes with the acknowledgement: the program has its message sooner by a
    /// system call.
    fn stop_running(
        &self,
        running: &mut Option<Running>,
        may_defer: bool,
        now: Time,
        outbox: &mut Outbox,
    ) {
        let Some(mut running) = running.take() else {
            return;
        };
        if running.inner.take_received() && may_defer {
            self.schedule(&running.qp, &running.inner);
            drop(running.inner);
            self.deferred.lock().push(running.qp);
            self.handshake.deferred.store(true, Ordering::Relaxed);
        } else {
            self.transmit(&running.qp, &mut running.inner, now, outbox);
            self.finish(&running.qp, &running.inner, outbox);
        }
    }

    /// Runs the queue pairs whose time has come, if one has for that many nanoseconds.
    fn run_timers(&self, late: u64) {
        let next = self.handshake.next_timer.load(Ordering::Relaxed);
        if next == u64::MAX {
            return;
        }
        let now = clock::now();
        if next.saturating_add(late) > now.0 {
            return;
        }
        loop {
            let mut timers = self.timers.lock();
            let due = timers.take_due(now);
            self.publish(timers.next());
            drop(timers);
            let Some((at, qpn)) = due else { return };
            if let Some(qp) = self.queue_pair(qpn) {
                self.run_due(&qp, at);
            }
        }
    }

    fn run_due(&self, qp: &QueuePair, at: Time) {
        let mut inner = qp.inner.lock();
        // An entry that an earlier one has replaced, or of an earlier queue pair of this number.
        if qp.due.load(Ordering::Relaxed) != at.0 {
            return;
        }
        qp.due.store(u64::MAX, Ordering::Relaxed);
        let now = clock::now();
        let (engine, mut world) = inner.split(qp);
        if engine.timeout().is_some_and(|at| at <= now) {
            engine.handle_timeout(now, &mut world);
        }
        with_outbox(|outbox| {
            self.transmit(qp, &mut inner, now, outbox);
            self.finish(qp, &inner, outbox);
        });
    }

    /// The background thread.
    pub fn serve(&self) {
        let mut mode = Mode::Watching(0);
        let mut changes_at = clock::now().0 + CHANGES;
        let mut seen = self.handshake.polls.load(Ordering::Relaxed);
        while !self.handshake.stop.load(Ordering::Relaxed) {
            let backlog = !self.flush_events();
            let longest = match mode {
                Mode::Watching(_) => u64::MAX,
                Mode::Resting(nanoseconds) => nanoseconds,
            };
            let watching = matches!(mode, Mode::Watching(_));
            self.sleep(
                watching,
                longest.min(if backlog { BACKLOG } else { u64::MAX }),
            );
            self.send_deferred();
            let polls = self.handshake.polls.load(Ordering::Relaxed);
            let polled = polls.wrapping_sub(core::mem::replace(&mut seen, polls)) >= OFTEN;
            mode = match mode {
                Mode::Resting(rest) if polled && self.handshake.resting.load(Ordering::Relaxed) => {
                    Mode::Resting((rest * 2).min(REST.1))
                }
                mode => {
                    self.handshake.resting.store(false, Ordering::Relaxed);
                    self.look(mode, polled)
                }
            };
            let now = clock::now().0;
            if now >= changes_at {
                self.apply_changes();
                changes_at = now + CHANGES;
            }
        }
    }

    /// Makes progress in the background thread. What it does next.
    fn look(&self, mode: Mode, polled: bool) -> Mode {
        // A poller may hold it and not be running: then this thread must not spin.
        if self.progress(&mut self.inbox.lock()) == 0 {
            self.apply_changes();
        }
        match mode {
            Mode::Watching(spared) if polled && spared + 1 < SPARED => Mode::Watching(spared + 1),
            Mode::Watching(_) if polled => {
                self.handshake.resting.store(true, Ordering::Relaxed);
                Mode::Resting(REST.0)
            }
            _ => Mode::Watching(0),
        }
    }

    /// Sleeps until there is a packet (if `watching`), somebody wakes this thread, the first timer is
    /// due, or for `longest` nanoseconds.
    fn sleep(&self, watching: bool, longest: u64) {
        let now = clock::now().0;
        let end = now.saturating_add(longest);
        let timer = self.handshake.next_timer.load(Ordering::Relaxed);
        let until = end.min(timer);
        let sleeps = &self.handshake.sleeps_until;
        sleeps.store(until, Ordering::Relaxed);
        // Whoever adds an earlier timer from here on sees until when this thread sleeps.
        fence(Ordering::SeqCst);
        let earlier = self.handshake.next_timer.load(Ordering::Relaxed) < until;
        if !earlier && !self.handshake.stop.load(Ordering::Relaxed) && until > now {
            let net = watching.then_some(self.net.fd());
            let timeout = (until != u64::MAX).then(|| until - now);
            wait::readable(net, self.wake.as_raw_fd(), timeout);
        }
        sleeps.store(0, Ordering::Relaxed);
        self.wake.clear();
    }
}

impl Running {
    fn new(qp: Arc<QueuePair>) -> Running {
        let inner = qp.inner.lock_arc();
        Running { qp, inner }
    }

    fn receive(&mut self, packet: &Packet<'_>, from: &Addresses, now: Time) {
        let (engine, mut world) = self.inner.split(&self.qp);
        engine.receive(packet, from, now, &mut world);
    }
}
