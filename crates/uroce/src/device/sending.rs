//! Sending what queue pairs have to send, now or deferred.
//!
//! Invariant: a thread that has packets of a queue pair to send reserves its send turn before it unlocks
//! it, so that they leave in PSN order. No packet is sent with a queue pair locked: a system call is where
//! a thread is most likely to be preempted, and others could not serve the queue pair meanwhile
//! (`lock_holder.rs`).

use std::ops::DerefMut;
use std::time::Duration;

use lock_api::MutexGuard;

use super::queue_pair::{Inner, QueuePair, SendTurn};
use super::{Device, clock};
use crate::sync::RawMutex;
use crate::transport::Outbox;
use roce::engine::Time;

/// How long a thread of the program waits for another one that is sending. Such a thread may have been
/// preempted; on a busy host, for hundreds of milliseconds.
const SEND_WAIT: Duration = Duration::from_millis(500);

/// When the send turn for a batch is taken.
enum Turn<'a> {
    /// Once the batch is complete, if it has packets.
    Late,
    /// Before the first packet was written, as it depends on the turn which ones are. None: the thread that
    /// is sending is taken for preempted.
    Early(Option<SendTurn<'a>>),
}

impl<'a> Turn<'a> {
    /// The turn for this batch.
    fn take(self, qp: &'a QueuePair, outbox: &Outbox) -> Option<SendTurn<'a>> {
        match self {
            Turn::Early(turn) => turn,
            Turn::Late if outbox.is_empty() => None,
            Turn::Late => qp.send_turn(),
        }
    }
}

impl Device {
    /// Whether a queue pair has nothing to send, and need not fail because its peer is gone.
    #[inline]
    pub(super) fn has_nothing_to_send(&self, qp: &QueuePair, inner: &Inner) -> bool {
        let channels = self.channels.as_ref();
        !inner.engine().may_transmit()
            && channels.is_none_or(|channels| channels.is_current(qp, inner))
    }

    /// Unlocks the queue pair, and sends what it may send now.
    #[inline]
    pub(super) fn send(&self, qp: &QueuePair, mut inner: impl DerefMut<Target = Inner>) {
        if self.has_nothing_to_send(qp, &inner) || self.send_through_channels(qp, &mut inner) {
            return self.unlock(qp, inner);
        }
        self.send_batches(qp, inner);
    }

    /// [`Device::send`] by UDP.
    pub(super) fn send_batches(&self, qp: &QueuePair, inner: impl DerefMut<Target = Inner>) {
        let now = clock::now();
        self.outboxes
            .with(|outbox| self.flush_batches(qp, inner, now, outbox));
    }

    /// Ends a queue pair that the program destroys: waits for the thread that is running it, sends what
    /// was deferred, and lets no thread run it from now on. Then waits until other threads have sent what
    /// they had taken from the queue pair before, for at most [`SEND_WAIT`]: its peer may be waiting for an
    /// ACK, which is lost if the program ends now.
    pub(super) fn end_qp(&self, qp: &QueuePair) {
        let mut inner = qp.inner.lock();
        while inner.send_deferred {
            inner.send_deferred = false;
            self.send(qp, inner);
            inner = qp.inner.lock();
        }
        inner.destroy(&self.net);
        let was_exported = self.direct.end(qp, &mut inner);
        drop(inner);
        self.direct.await_ended(qp, was_exported);
        qp.wait_until_sent(SEND_WAIT);
    }

    /// Sends what the queue pair may send now, and unlocks it.
    fn flush_batches(
        &self,
        qp: &QueuePair,
        mut inner: impl DerefMut<Target = Inner>,
        now: Time,
        outbox: &mut Outbox,
    ) {
        let (mut more, turn) = self.fill_outbox(qp, &mut inner, now, outbox);
        self.unlock_and_flush(qp, inner, outbox, turn);
        while more {
            // If another thread has it locked, that one or the queue pair's timer sends the rest.
            let Ok(mut inner) = qp.lock_unless_preempted() else {
                break;
            };
            if self.send_through_channels(qp, &mut inner) {
                return self.unlock(qp, inner);
            }
            let turn;
            (more, turn) = self.fill_outbox(qp, &mut inner, now, outbox);
            self.unlock_and_flush(qp, inner, outbox, turn);
        }
    }

    /// Adds what the queue pair may send now to the batch. Returns whether the batch is full, so that
    /// there may be more, and its turn.
    fn fill_outbox<'a>(
        &self,
        qp: &'a QueuePair,
        inner: &mut Inner,
        now: Time,
        outbox: &mut Outbox,
    ) -> (bool, Turn<'a>) {
        let (engine, mut hca) = inner.split(qp);
        let turn = match engine.repeats_reads() {
            true => Turn::Early(qp.send_turn()),
            false => Turn::Late,
        };
        hca.overtakes = matches!(turn, Turn::Early(None)) || qp.sends_out_of_order();
        while !outbox.is_full() {
            let Some(packet) = engine.transmit(now, &mut hca, outbox.buffer()) else {
                return (false, turn);
            };
            self.push(outbox, qp.qpn, &packet);
        }
        (true, turn)
    }

    /// Arms the queue pair's timer, unlocks it and wakes up the peer that sleeps.
    pub(super) fn unlock(&self, qp: &QueuePair, mut inner: impl DerefMut<Target = Inner>) {
        self.arm_timer(qp, &inner);
        self.direct.update(qp, &mut inner);
        let wake = inner.take_wake();
        drop(inner);
        if let Some(channel) = wake {
            channel.wake_peer();
        }
    }

    /// Arms the queue pair's timer, unlocks it and sends the batch.
    fn unlock_and_flush(
        &self,
        qp: &QueuePair,
        inner: impl DerefMut<Target = Inner>,
        outbox: &mut Outbox,
        turn: Turn<'_>,
    ) {
        let turn = turn.take(qp, outbox);
        let without_turn = turn.is_none() && !outbox.is_empty();
        let sending = without_turn.then(|| qp.send_out_of_order());
        self.unlock(qp, inner);
        self.net.flush(outbox);
        drop((turn, sending));
    }

    /// Sends what was deferred. Returns false if some of it still is, because the thread that runs its queue
    /// pair is taken for preempted.
    #[inline]
    pub(super) fn send_deferred(&self) -> bool {
        self.deferred_sends.send(|qp, inner| self.send(qp, inner))
    }

    /// Sends what was deferred when the process exits: skips locks that are held, as their holder may
    /// never run again.
    pub fn send_deferred_at_exit(&self) {
        let send = |qp: &QueuePair, inner: MutexGuard<'_, RawMutex, Inner>| self.send(qp, inner);
        self.deferred_sends.send_at_exit(send);
    }

    /// Fails the queue pairs whose peer is gone, if the program has read their completions meanwhile.
    #[inline]
    pub(super) fn retry_unreachable(&self) {
        self.unreachable.retry(|qp, inner| self.send(qp, inner));
    }
}
