//! Who runs the protocol. A thread that polls a completion queue does, while it finds nothing there.
//! When nobody polls, one thread in the background does, which sleeps while nothing happens.
//!
//! Both would be woken by each packet if the background thread always watched the sockets: of a
//! program that spins in `ibv_poll_cq` it would take half the processor for nothing. So it watches
//! until it has found several times in a row that a poller had taken, or would soon have taken, what it was
//! woken for. Then it only looks, at growing intervals, whether somebody still polls, and watches again if
//! not. A program that spins on its own memory, and polls only once a message, leaves what peers do to that
//! memory for the thread, so there it keeps watching. Where nobody polls at all, and a packet follows soon
//! on the other, it looks for a moment before it sleeps: a wake costs more than the rest of a message.
//! (`busy_poll.rs`)

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};

use parking_lot::{ArcMutexGuard, RawMutex};

use super::qp_host::QpHost;
use super::queue_pair::{Inner, QueuePair};
use super::{Device, clock};
use crate::engine::{Addresses, Qp, Time};
use crate::transport::{Inbox, MULTICAST_QPN, Outbox};
use crate::wire::Packet;

/// How many polls in vain a thread makes before it yields, and in which of those that follow.
const PATIENT: u32 = 64;
const YIELD_EACH: u32 = 8;
/// How often sockets are read before other things are looked at, and before a timer runs whatever comes.
const ROUNDS: usize = 4;
const ROUNDS_AT_MOST: usize = 1024;
/// How late timers may be, in nanoseconds, in a thread that has found something better.
const LATE: u64 = 1_000_000;

/// What pollers and the background thread tell each other.
pub struct Handshake {
    /// Grows with each poll that looked for packets.
    pub(super) polls: AtomicU64,
    /// How many polls in a row have found nothing.
    pub(super) empty: AtomicU32,
    /// How many packets have come; only whoever has the inbox changes it.
    pub(super) packets: AtomicU64,
    /// Something has been done to memory for a peer.
    pub(super) served: AtomicBool,
    /// The program is going to sleep until an event.
    pub(super) expected: AtomicBool,
    /// The background thread rests.
    pub(super) resting: AtomicBool,
    /// The device has deferred something.
    deferred: AtomicBool,
    /// Until when the background thread sleeps, at most; 0 while it is awake.
    pub(super) sleeps_until: AtomicU64,
    /// The time of the first timer; `u64::MAX` if there is none.
    pub(super) next_timer: AtomicU64,
    pub stop: AtomicBool,
}

impl Handshake {
    pub fn new() -> Handshake {
        Handshake {
            polls: AtomicU64::new(0),
            empty: AtomicU32::new(0),
            packets: AtomicU64::new(0),
            served: AtomicBool::new(false),
            expected: AtomicBool::new(false),
            resting: AtomicBool::new(false),
            deferred: AtomicBool::new(false),
            sleeps_until: AtomicU64::new(0),
            next_timer: AtomicU64::new(u64::MAX),
            stop: AtomicBool::new(false),
        }
    }
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
    /// Lets `work` drive a queue pair, and sends what comes of it, and before that what was put off.
    pub fn run<T>(
        &self,
        qp: &QueuePair,
        work: impl FnOnce(&mut Qp, &mut QpHost<'_>, Time) -> T,
    ) -> T {
        let mut inner = qp.inner.lock();
        let now = clock::now();
        if inner.deferred {
            self.send(qp, &mut inner, now);
        }
        let (engine, mut world) = inner.split(qp);
        let result = work(engine, &mut world, now);
        self.send(qp, &mut inner, now);
        result
    }

    /// Lets `work` post requests to a queue pair. They are sent now, or with those that follow.
    pub fn post<T>(
        &self,
        qp: &Arc<QueuePair>,
        work: impl FnOnce(&mut Qp, &mut QpHost<'_>) -> T,
    ) -> T {
        let mut inner = qp.inner.lock();
        let now = clock::now();
        let (engine, mut world) = inner.split(qp);
        let result = work(engine, &mut world);
        if engine.may_defer_transmit() {
            self.deferred(qp, &mut inner);
        } else {
            self.send(qp, &mut inner, now);
        }
        result
    }

    /// Sends what the queue pair may send now.
    fn send(&self, qp: &QueuePair, inner: &mut Inner, now: Time) {
        with_outbox(|outbox| {
            self.transmit(qp, inner, now, outbox);
            self.finish(qp, inner, outbox);
        });
    }

    /// Leaves what the queue pair has to send to whoever looks for packets next.
    fn deferred(&self, qp: &Arc<QueuePair>, inner: &mut Inner) {
        if !inner.deferred {
            inner.deferred = true;
            self.deferred.lock().push(qp.clone());
            self.handshake.deferred.store(true, Ordering::Relaxed);
        }
    }

    /// Sends what has been put off of one that goes: its peer may be waiting for an acknowledgement.
    pub fn send_last(&self, qp: &QueuePair) {
        let mut inner = qp.inner.lock();
        if inner.deferred {
            self.send(qp, &mut inner, clock::now());
        }
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
        if let Some(at) = inner.engine().next_timeout()
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
            self.run_timers(&mut inbox, 0);
            drop(inbox);
            self.yield_now();
        } else {
            // Whoever waits for a completion is not kept.
            self.run_timers(&mut inbox, LATE);
            handshake.empty.store(0, Ordering::Relaxed);
        }
    }

    /// Sends what [`Device::deferred`] has left.
    pub(super) fn send_deferred(&self) {
        if !self.handshake.deferred.load(Ordering::Relaxed) {
            return;
        }
        self.handshake.deferred.store(false, Ordering::Relaxed);
        let next = || self.deferred.lock().pop();
        while let Some(qp) = next() {
            let mut inner = qp.inner.lock();
            inner.deferred = false;
            self.send(&qp, &mut inner, clock::now());
        }
    }

    /// The same, when whoever holds a lock may never give it back.
    pub fn send_at_exit(&self) {
        let next = || self.deferred.try_lock()?.pop();
        while let Some(qp) = next() {
            if let Some(mut inner) = qp.inner.try_lock() {
                self.send(&qp, &mut inner, clock::now());
            }
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

    /// Receives what there is, within limits, and runs what is due. How many packets there were.
    pub(super) fn progress(&self, inbox: &mut Inbox) -> usize {
        let mut count = 0;
        for _ in 0..ROUNDS {
            let more = self.receive(inbox, false);
            count += more;
            // If there is more now, the sockets say so.
            if more < Inbox::BATCH {
                break;
            }
        }
        self.run_timers(inbox, 0);
        count
    }

    /// The program is about to sleep until there is an event: the background thread is to watch.
    pub fn expect_event(&self) {
        self.handshake.expected.store(true, Ordering::Relaxed);
        if self.handshake.resting.load(Ordering::Relaxed) {
            self.handshake.resting.store(false, Ordering::Relaxed);
            self.wake.wake();
        }
    }

    /// Runs the queue pairs that packets have come for. Returns how many there were.
    pub(super) fn receive(&self, inbox: &mut Inbox, polling: bool) -> usize {
        // Only if the background thread looks after what is put off, should the poller not come back.
        let may_defer = polling && self.handshake.resting.load(Ordering::Relaxed);
        let mut now = None;
        let (mut served, mut packets) = (false, 0);
        let mut running: Option<Running> = None;
        let count = with_outbox(|outbox| {
            let count = self.net.receive(inbox, &mut |packet, from| {
                packets += 1;
                let parts = packet.headers.bth.opcode.parts();
                served |= parts.is_some_and(|(_, operation, _)| operation.is_one_sided());
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
        });
        let handshake = &self.handshake;
        if served {
            handshake.served.store(true, Ordering::Relaxed);
        }
        let before = handshake.packets.load(Ordering::Relaxed);
        handshake.packets.store(before + packets, Ordering::Relaxed);
        count
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
        let Running { qp, inner } = &mut running;
        if inner.take_received() && may_defer {
            self.schedule(qp, inner);
            self.deferred(qp, inner);
        } else {
            self.transmit(qp, inner, now, outbox);
            self.finish(qp, inner, outbox);
        }
    }

    /// Runs the queue pairs whose time has come, if one has for that many nanoseconds; but not before
    /// all has been received: an acknowledgement that has come in time is not to be too late for it,
    /// even if this process was kept from looking.
    pub(super) fn run_timers(&self, inbox: &mut Inbox, late: u64) {
        let due = |now: Time| {
            let next = self.handshake.next_timer.load(Ordering::Relaxed);
            next.saturating_add(late) <= now.0
        };
        if self.handshake.next_timer.load(Ordering::Relaxed) == u64::MAX || !due(clock::now()) {
            return;
        }
        for _ in 0..ROUNDS_AT_MOST {
            inbox.look_everywhere();
            if self.receive(inbox, false) == 0 {
                break;
            }
        }
        let now = clock::now();
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
        if engine.next_timeout().is_some_and(|at| at <= now) {
            engine.handle_timeout(now, &mut world);
        }
        self.send(qp, &mut inner, now);
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
