//! Queue pairs of a device: the engine's state machine under a lock, and the objects around it:
//! completion queues, receives, counters, listeners, channel.
//!
//! Not here: the protocol (`engine`), receiving and sending packets (`receiving.rs`, `sending.rs`),
//! the object that C sees (`provider/qp.rs`).
//!
//! Invariant: the engine is called with `inner` locked, and not any more once the program has
//! destroyed the queue pair.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use ibverbs_abi::*;
use lock_api::MutexGuard;

use super::clock::{AtomicTime, NEVER};
use super::completion::CompletionQueue;
use super::completion_counter::AttachedCounters;
use super::events::AsyncEvents;
use super::lock_holder::LockHolder;
use super::missed::Missed;
use super::qp_channel::QpChannel;
use super::receive_order::{InOrder, ReceiveOrder};
use super::shared_queue::SharedReceiveQueue;
use super::xrc::XrcDomain;
use crate::memory::{Memory, MrCache, PdHandle};
use crate::shm::{Channel, Unlocked};
use crate::sync::{Mutex, RawMutex};
use crate::transport::{ConnectedPeer, Net};
use roce::engine::{Counters, Qp, QpConfig, QpEvent, QpState, Service};

/// The attributes that a queue pair is created with.
pub struct QueuePairConfig {
    /// Service, number, limits.
    pub engine: QpConfig,
    /// The protection domain; none for an XRC target.
    pub pd: Option<PdHandle>,
    /// The queue that send requests complete in; none for an XRC target.
    pub send_cq: Option<Arc<CompletionQueue>>,
    /// The queue that receives complete in; none for XRC, whose SRQs have completion queues of
    /// their own.
    pub recv_cq: Option<Arc<CompletionQueue>>,
    /// The queue that receives come from, if the queue pair has no receive queue of its own.
    pub srq: Option<Arc<SharedReceiveQueue>>,
    /// The XRC domain, for an XRC target.
    pub xrcd: Option<Arc<XrcDomain>>,
    /// The device's memory regions and windows.
    pub memory: Arc<Memory>,
    /// The order in which the device delivers packets.
    pub receive_order: Arc<ReceiveOrder>,
    /// A slot of a queue is free when its work request has completed, as with Soft-RoCE. Else it is when
    /// the program has polled a completion that covers it, as with an RNIC.
    pub slots_by_completion: bool,
}

/// The number of async events that [`QueuePair::raise`] knows.
const QP_EVENTS: usize = 6;

/// An `ibv_qp` of the program, which gets the queue pair's async events. An XRC target can have several:
/// one per `ibv_open_qp`.
pub struct QpListener {
    /// The handle of the `ibv_qp`, which its events carry.
    handle: u64,
    /// The event queue of its context.
    events: Arc<AsyncEvents>,
}

impl QpListener {
    /// A listener that no event was raised for yet.
    pub fn new(handle: u64, events: Arc<AsyncEvents>) -> QpListener {
        events.add_source(handle, QP_EVENTS);
        QpListener { handle, events }
    }

    /// Removes the events that the program has not read, and raises none from now on. Returns how many it
    /// has read in all, modulo 2^32: these it has to acknowledge.
    pub fn close(&self) -> u32 {
        self.events.close_source(self.handle)
    }
}

/// The state that is locked while a thread runs the queue pair.
pub struct Inner {
    engine: Qp,
    /// The state that the engine's calls of its HCA change.
    pub hca: HcaState,
    /// The queue pair is among [`super::deferred::DeferredSends`].
    pub send_deferred: bool,
    /// The queue pair is among [`super::unreachable::UnreachableQps`].
    pub is_unreachable: bool,
    /// The channel that its packets take.
    pub channel: QpChannel,
    /// While it is connected: see [`Net::connect`].
    peer: Option<ConnectedPeer>,
    /// A peer to wake up once the queue pair is unlocked: a system call.
    wakes: Option<Arc<Channel>>,
    /// The program has destroyed the queue pair. A thread that looked it up before must not run it.
    destroyed: bool,
}

/// The state of a queue pair that the device changes when the engine calls it (`qp_hca.rs`).
#[derive(Default)]
pub struct HcaState {
    /// The SRQ of the XRC receive that is being filled.
    pub xrc_srq: Option<Arc<SharedReceiveQueue>>,
    /// Memory regions that the queue pair uses without the table.
    pub regions: MrCache,
    /// A receive has completed since [`Inner::take_recv_completed`].
    pub recv_completed: bool,
    /// Completions of the queue pair's receive queue, modulo 2^32.
    pub receives: u32,
    /// Whether the queue pair's peer may access memory directly (`direct.rs`).
    pub export: Export,
    /// While the queue pair needs the order of packets: see [`roce::engine::Hca::begin_in_order`].
    pub in_order: Option<InOrder>,
}

/// Whether the peer of a queue pair may access memory directly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Export {
    /// The peer may not access memory.
    #[default]
    None,
    /// The peer may not access memory yet, but its first packet has arrived.
    Due,
    /// The peer may access memory.
    Current,
    /// The peer may not access memory any more, but accesses that have begun may be in progress.
    Withdrawn,
}

/// The right to send the packets of a queue pair.
pub type SendTurn<'a> = MutexGuard<'a, RawMutex, ()>;

/// A thread that sends packets of a queue pair without the send turn.
pub struct OutOfOrder<'a>(&'a AtomicU32);

impl Drop for OutOfOrder<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}

/// Why a queue pair cannot be run now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unavailable {
    /// The lock is held by another thread, which is taken for preempted.
    Preempted,
    /// The program has destroyed it: neither its memory nor its completion queues may be touched.
    Destroyed,
}

/// A queue pair. Thread-safe: what changes is in [`QueuePair::inner`] and in atomics.
pub struct QueuePair {
    /// The queue pair number, 24 bits.
    pub qpn: u32,
    /// The transport service.
    pub service: Service,
    /// See [`QueuePairConfig::pd`].
    pub pd: Option<PdHandle>,
    /// See [`QueuePairConfig::send_cq`].
    pub send_cq: Option<Arc<CompletionQueue>>,
    /// See [`QueuePairConfig::recv_cq`].
    pub recv_cq: Option<Arc<CompletionQueue>>,
    /// See [`QueuePairConfig::srq`].
    pub srq: Option<Arc<SharedReceiveQueue>>,
    /// See [`QueuePairConfig::xrcd`].
    pub xrcd: Option<Arc<XrcDomain>>,
    /// See [`QueuePairConfig::memory`].
    pub memory: Arc<Memory>,
    /// See [`QueuePairConfig::receive_order`].
    pub receive_order: Arc<ReceiveOrder>,
    /// See [`QueuePairConfig::slots_by_completion`].
    pub slots_by_completion: bool,
    /// The `ibv_qp`s that get its async events.
    pub listeners: Mutex<Vec<Arc<QpListener>>>,
    /// The number of its `ibv_qp`s: one, or, of an XRC target that was opened, more. Once it is 0, it stays
    /// 0: the queue pair is being destroyed.
    open_count: AtomicU32,
    /// The queue pair has bound type 2 memory windows, which are unbound when it is destroyed.
    pub has_bound_mws: AtomicBool,
    /// The counters of the queue pair's completions.
    pub counters: AttachedCounters,
    /// When the device's timer for it is due; [`NEVER`] if none is armed. Written with `inner` locked.
    pub timer_at: AtomicTime,
    /// See [`Inner`].
    pub inner: Mutex<Inner>,
    /// Packets do not reach it any more.
    is_retired: AtomicBool,
    /// The holder of the lock of `inner`.
    pub holder: LockHolder,
    /// Packets that came while `inner` could not be locked.
    pub missed: Missed,
    /// See [`QueuePair::send_turn`].
    send_turn: Mutex<()>,
    send_turn_holder: LockHolder,
    /// Threads that send without the send turn. Incremented with `inner` locked.
    out_of_order: AtomicU32,
}

impl QueuePair {
    /// A queue pair in state RESET.
    pub fn new(config: QueuePairConfig) -> QueuePair {
        if let (Some(srq), Some(cq)) = (&config.srq, &config.recv_cq) {
            srq.completes_in(cq);
        }
        QueuePair {
            qpn: config.engine.qpn,
            service: config.engine.service,
            pd: config.pd,
            send_cq: config.send_cq,
            recv_cq: config.recv_cq,
            srq: config.srq,
            xrcd: config.xrcd,
            memory: config.memory,
            receive_order: config.receive_order,
            slots_by_completion: config.slots_by_completion,
            listeners: Mutex::default(),
            open_count: AtomicU32::new(1),
            has_bound_mws: AtomicBool::new(false),
            counters: AttachedCounters::default(),
            timer_at: AtomicTime::new(NEVER),
            is_retired: AtomicBool::new(false),
            inner: Mutex::new(Inner {
                engine: Qp::new(config.engine),
                hca: HcaState::default(),
                send_deferred: false,
                is_unreachable: false,
                channel: QpChannel::default(),
                peer: None,
                wakes: None,
                destroyed: false,
            }),
            holder: LockHolder::default(),
            missed: Missed::default(),
            send_turn: Mutex::default(),
            send_turn_holder: LockHolder::default(),
            out_of_order: AtomicU32::new(0),
        }
    }

    /// Locks the queue pair for a thread that has looked it up or waited for it, and delivers what it has
    /// missed.
    pub fn lock_unless_preempted(&self) -> Result<MutexGuard<'_, RawMutex, Inner>, Unavailable> {
        let inner = self.holder.lock(
            || self.inner.try_lock(),
            |time| self.inner.try_lock_for(time),
        );
        match inner {
            None => Err(Unavailable::Preempted),
            Some(inner) if inner.destroyed => Err(Unavailable::Destroyed),
            Some(mut inner) => {
                inner.receive_missed(self);
                Ok(inner)
            }
        }
    }

    /// Counts another `ibv_qp`. False if the last one is being destroyed, and the queue pair with it.
    pub fn open(&self) -> bool {
        let another = |count| (count > 0).then_some(count + 1);
        // Relaxed: who opens it has found it in a table with a lock.
        self.open_count
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, another)
            .is_ok()
    }

    /// Counts an `ibv_qp` fewer. Returns whether it was the last one: then the caller destroys the queue
    /// pair.
    pub fn close(&self) -> bool {
        // What was done with the other ones comes before the queue pair is destroyed.
        self.open_count.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Packets do not reach the queue pair any more: a new one may get its number.
    pub fn retire(&self) {
        self.is_retired.store(true, Ordering::Relaxed);
    }

    /// Whether packets to this number are for the queue pair. It may be destroyed at any moment.
    #[inline]
    pub fn takes(&self, qpn: u32) -> bool {
        self.qpn == qpn && !self.is_retired.load(Ordering::Relaxed)
    }

    /// Whether a completion queue of it has entries that the program has not polled yet.
    pub fn has_unread_completions(&self) -> bool {
        let queues = [&self.send_cq, &self.recv_cq];
        queues.into_iter().flatten().any(|cq| cq.has_unread())
    }

    /// Reserves the right to send, so that packets leave in PSN order. The caller has `inner` locked, and
    /// unlocks it before it sends: a system call is where a thread is most likely to be preempted. None if
    /// the thread that is sending is taken for preempted: then packets leave out of order, which only
    /// peers of a reliable service repair. No READ response that may have been sent before is among them.
    pub fn send_turn(&self) -> Option<SendTurn<'_>> {
        if !self.service.is_reliable() {
            return Some(self.send_turn.lock());
        }
        self.send_turn_holder.lock(
            || self.send_turn.try_lock(),
            |time| self.send_turn.try_lock_for(time),
        )
    }

    /// A thread sends without the send turn until the value is dropped. The caller has `inner` locked.
    pub fn send_out_of_order(&self) -> OutOfOrder<'_> {
        self.out_of_order.fetch_add(1, Ordering::Relaxed);
        OutOfOrder(&self.out_of_order)
    }

    /// Whether a thread sends without the send turn.
    pub fn sends_out_of_order(&self) -> bool {
        self.out_of_order.load(Ordering::Acquire) != 0
    }

    /// Waits until what other threads have taken from the queue pair is sent, for at most `limit`. The caller
    /// does not have `inner` locked.
    pub fn wait_until_sent(&self, limit: Duration) {
        drop(self.send_turn.try_lock_for(limit));
    }

    /// Whether a thread waits, or has waited, for the send turn that another one has.
    #[cfg(test)]
    pub fn is_sender_awaited(&self) -> bool {
        // SAFETY: the lock is only examined.
        unsafe { self.send_turn.raw() }.is_contended()
    }

    /// Raises an async event for every listener.
    pub fn raise(&self, event: QpEvent) {
        let event_type = match event {
            QpEvent::Fatal => IBV_EVENT_QP_FATAL,
            QpEvent::RequestError => IBV_EVENT_QP_REQ_ERR,
            QpEvent::AccessError => IBV_EVENT_QP_ACCESS_ERR,
            QpEvent::CommunicationEstablished => IBV_EVENT_COMM_EST,
            QpEvent::SendQueueDrained => IBV_EVENT_SQ_DRAINED,
            QpEvent::LastWqeReached => IBV_EVENT_QP_LAST_WQE_REACHED,
        };
        for listener in self.listeners.lock().iter() {
            listener.events.push(ib_uverbs_async_event_desc {
                element: listener.handle,
                event_type,
                reserved: 0,
            });
        }
    }
}

/// A queue pair that this guard has locked, and keeps alive.
pub struct LockedQp(Arc<QueuePair>);

impl LockedQp {
    /// [`QueuePair::lock_unless_preempted`].
    #[inline]
    pub fn lock(qp: Arc<QueuePair>) -> Result<LockedQp, (Arc<QueuePair>, Unavailable)> {
        match qp.lock_unless_preempted().map(core::mem::forget) {
            Ok(()) => Ok(LockedQp(qp)),
            Err(unavailable) => Err((qp, unavailable)),
        }
    }

    /// The queue pair, and what is locked.
    #[inline]
    pub fn split(&mut self) -> (&QueuePair, &mut Inner) {
        // SAFETY: `lock` has locked it, only `release` unlocks it, and `self` is borrowed exclusively.
        (&self.0, unsafe { &mut *self.0.inner.data_ptr() })
    }

    /// Passes the queue pair and its lock to `call`. Returns the queue pair.
    #[inline]
    pub fn release(
        self,
        call: impl FnOnce(&Arc<QueuePair>, MutexGuard<'_, RawMutex, Inner>),
    ) -> Arc<QueuePair> {
        let this = core::mem::ManuallyDrop::new(self);
        // SAFETY: `this` is not used again, and not dropped: the reference moves.
        let qp = unsafe { core::ptr::read(&this.0) };
        // SAFETY: `lock` has locked it and has forgotten the guard, as this does not unlock it otherwise.
        call(&qp, unsafe { qp.inner.make_guard_unchecked() });
        qp
    }
}

impl Drop for LockedQp {
    fn drop(&mut self) {
        // SAFETY: `lock` has locked it and has forgotten the guard; `release` has not been called.
        drop(unsafe { self.0.inner.make_guard_unchecked() });
    }
}

impl Inner {
    /// The engine, the state that its HCA changes, and the channel of the last lookup.
    #[inline]
    pub(super) fn parts(&mut self) -> (&mut Qp, &mut HcaState, Option<&Arc<Channel>>) {
        (&mut self.engine, &mut self.hca, self.channel.get())
    }

    /// The queue pair has sent through its channel. The thread that has it locked wakes up a peer
    /// that sleeps when it unlocks it.
    #[inline]
    pub fn on_sent(&mut self, unlocked: &Unlocked) {
        self.channel.sent_until = unlocked.position;
        if unlocked.peer_sleeps {
            self.wake_after_unlock();
        }
    }

    fn wake_after_unlock(&mut self) {
        let Some(channel) = self.channel.get().cloned() else {
            return;
        };
        let other = self.wakes.take();
        if let Some(other) = other.filter(|other| !Arc::ptr_eq(other, &channel)) {
            other.wake_peer();
        }
        self.wakes = Some(channel);
    }

    /// The peer to wake up now.
    pub fn take_wake(&mut self) -> Option<Arc<Channel>> {
        self.wakes.take()
    }

    /// The program has changed the queue pair's attributes: lets the device know of its peer while it is
    /// connected.
    pub fn follow_peer(&mut self, qp: &QueuePair, net: &Net) {
        use QpState::{Rtr, Rts, Sqd, Sqe};
        let connected = matches!(self.engine.state(), Rtr | Rts | Sqd | Sqe);
        let peer = (connected && qp.service != Service::Ud).then(|| {
            let attributes = self.engine.attributes();
            let (av, dest_qpn) = (attributes.av?, attributes.dest_qpn?);
            let flow = net.table().flow(qp.qpn, &av, dest_qpn)?;
            net.ingress.connect(&flow)
        });
        let before = core::mem::replace(&mut self.peer, peer.flatten());
        net.ingress.disconnect(before);
    }

    /// Destroys the queue pair: from now on [`QueuePair::lock_unless_preempted`] fails.
    pub fn destroy(&mut self, net: &Net) {
        self.destroyed = true;
        net.ingress.disconnect(self.peer.take());
        self.hca.in_order = None;
    }

    /// Whether a receive has completed since the last call.
    pub fn take_recv_completed(&mut self) -> bool {
        core::mem::take(&mut self.hca.recv_completed)
    }

    /// Takes the counts since the last call.
    pub fn take_counters(&mut self) -> Counters {
        self.engine.take_counters()
    }

    /// Counts that the queue pair's ACK is deferred.
    pub fn count_deferred_ack(&mut self) {
        self.engine.count_deferred_ack();
    }

    /// The engine, to read its attributes and state.
    pub fn engine(&self) -> &Qp {
        &self.engine
    }
}
