//! Sending what queue pairs have to send, now or deferred.
//!
//! Invariant: a thread that has packets of a queue pair to send reserves its send turn before it unlocks
//! it, so that they leave in PSN order. No packet is sent with a queue pair locked: a system call is where
//! a thread is most likely to be preempted, and others could not serve the queue pair meanwhile
//! (`patience.rs`).

use std::cell::RefCell;
use std::ops::DerefMut;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::queue_pair::{Inner, QueuePair, Unavailable};
use super::{Device, clock};
use crate::engine::Time;
use crate::transport::Outbox;

thread_local! {
    static OUTBOX: RefCell<Option<Box<Outbox>>> = const { RefCell::new(None) };
}

/// Calls `call` with this thread's outbox.
pub(super) fn with_outbox<T>(call: impl FnOnce(&mut Outbox) -> T) -> T {
    // A thread that is ending may have dropped its outbox already.
    let mut outbox = OUTBOX
        .try_with(|cell| cell.try_borrow_mut().ok()?.take())
        .ok()
        .flatten()
        .unwrap_or_else(|| Box::new(Outbox::new()));
    let result = call(&mut outbox);
    let _ = OUTBOX.try_with(|cell| {
        if let Ok(mut cell) = cell.try_borrow_mut() {
            *cell = Some(outbox);
        }
    });
    result
}

impl Device {
    /// Unlocks the queue pair, and sends what it may send now.
    pub(super) fn send(&self, qp: &QueuePair, inner: impl DerefMut<Target = Inner>, now: Time) {
        with_outbox(|outbox| self.send_batches(qp, inner, now, outbox));
    }

    /// Leaves what the queue pair has to send to the thread that looks for packets next.
    pub(super) fn defer_send(&self, qp: &Arc<QueuePair>, inner: &mut Inner) {
        if !inner.send_deferred {
            inner.send_deferred = true;
            self.deferred_sends.lock().push(qp.clone());
            self.activity.has_deferred.store(true, Ordering::Relaxed);
        }
    }

    /// Ends a queue pair that the program destroys: waits for the thread that is running it, sends what
    /// was deferred, as its peer may be waiting for an ACK, and lets no thread run it from now on. Another
    /// thread may still send packets that it has taken from the queue pair before.
    pub(super) fn end_qp(&self, qp: &QueuePair) {
        let mut inner = qp.inner.lock();
        while inner.send_deferred {
            inner.send_deferred = false;
            self.send(qp, inner, clock::now());
            inner = qp.inner.lock();
        }
        inner.destroy();
    }

    /// [`Device::send`], through this thread's outbox.
    pub(super) fn send_batches(
        &self,
        qp: &QueuePair,
        mut inner: impl DerefMut<Target = Inner>,
        now: Time,
        outbox: &mut Outbox,
    ) {
        let mut more = self.fill_outbox(qp, &mut inner, now, outbox);
        self.unlock_and_flush(qp, inner, outbox);
        while more {
            // If another thread has it locked, that one sends the rest.
            let Ok(mut inner) = qp.lock_unless_preempted() else {
                break;
            };
            more = self.fill_outbox(qp, &mut inner, now, outbox);
            self.unlock_and_flush(qp, inner, outbox);
        }
    }

    /// Adds what the queue pair may send now to the batch. Returns whether the batch is full, so that
    /// there may be more.
    fn fill_outbox(
        &self,
        qp: &QueuePair,
        inner: &mut Inner,
        now: Time,
        outbox: &mut Outbox,
    ) -> bool {
        let (engine, mut host) = inner.split(qp);
        while !outbox.is_full() {
            let Some(packet) = engine.transmit(now, &mut host, outbox.buffer()) else {
                return false;
            };
            self.net.push(outbox, qp.qpn, &packet);
        }
        true
    }

    /// Arms the queue pair's timer, unlocks it and sends the batch.
    fn unlock_and_flush(
        &self,
        qp: &QueuePair,
        inner: impl DerefMut<Target = Inner>,
        outbox: &mut Outbox,
    ) {
        self.arm_timer(qp, &inner);
        let turn = (!outbox.is_empty()).then(|| qp.send_turn());
        drop(inner);
        self.net.flush(outbox);
        drop(turn);
    }

    /// Sends what [`Device::defer_send`] has deferred. Returns false if some of it still is, because the
    /// thread that runs its queue pair is taken for preempted.
    pub(super) fn send_deferred(&self) -> bool {
        if !self.activity.has_deferred.load(Ordering::Relaxed) {
            return true;
        }
        self.activity.has_deferred.store(false, Ordering::Relaxed);
        let next = || self.deferred_sends.lock().pop();
        let mut skipped = Vec::new();
        while let Some(qp) = next() {
            match qp.lock_unless_preempted() {
                Ok(mut inner) => {
                    inner.send_deferred = false;
                    self.send(&qp, inner, clock::now());
                }
                Err(Unavailable::Preempted) => skipped.push(qp),
                Err(Unavailable::Destroyed) => {}
            }
        }
        if skipped.is_empty() {
            return true;
        }
        self.deferred_sends.lock().append(&mut skipped);
        self.activity.has_deferred.store(true, Ordering::Relaxed);
        false
    }

    /// Sends what was deferred when the process exits: skips locks that are held, as their holder may
    /// never run again.
    pub fn send_deferred_at_exit(&self) {
        let next = || self.deferred_sends.try_lock()?.pop();
        while let Some(qp) = next() {
            if let Some(inner) = qp.inner.try_lock() {
                self.send(&qp, inner, clock::now());
            }
        }
    }
}
