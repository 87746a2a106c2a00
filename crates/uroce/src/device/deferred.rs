//! Queue pairs whose sending is left to the thread that looks for packets next.
//!
//! Not here: when sending is deferred, and how it is sent (`sending.rs`).

use std::sync::Arc;

use lock_api::MutexGuard;

use super::pending::Pending;
use super::queue_pair::{Inner, QueuePair, Unavailable};
use crate::sync::RawMutex;

/// The queue pairs that have something to send, which was deferred. Thread-safe.
#[derive(Default)]
pub(super) struct DeferredSends {
    /// The queue pairs with [`Inner::send_deferred`], and those that have missed packets.
    waiting: Pending<Arc<QueuePair>>,
}

impl DeferredSends {
    /// Adds a queue pair that is locked, unless it is there. False if there is no memory for that.
    pub fn add(&self, qp: &Arc<QueuePair>, inner: &mut Inner) -> bool {
        if !inner.send_deferred {
            inner.send_deferred = self.waiting.add(qp.clone());
        }
        inner.send_deferred
    }

    /// Adds a queue pair that cannot be locked, and has missed packets ([`QueuePair::missed`]).
    pub fn add_missed(&self, qp: &Arc<QueuePair>) {
        // Without memory, the next packet's thread delivers it.
        self.waiting.add(qp.clone());
    }

    /// Whether there may be some. Who must not miss what another thread adds at that moment, fences.
    #[inline]
    pub fn any(&self) -> bool {
        self.waiting.any()
    }

    /// Passes each to `send`, which sends what it has and unlocks it. Returns false if there still are some,
    /// because the thread that runs a queue pair is taken for preempted.
    #[inline]
    pub fn send(&self, send: impl FnMut(&QueuePair, MutexGuard<'_, RawMutex, Inner>)) -> bool {
        !self.any() || self.send_all(send)
    }

    fn send_all(&self, mut send: impl FnMut(&QueuePair, MutexGuard<'_, RawMutex, Inner>)) -> bool {
        let mut all_sent = true;
        self.waiting
            .take_each(|qp| match qp.lock_unless_preempted() {
                Ok(mut inner) => {
                    inner.send_deferred =
                        !inner.deliver_early(&qp) && self.waiting.add_again(qp.clone());
                    all_sent &= !inner.send_deferred;
                    send(&qp, inner);
                }
                Err(Unavailable::Preempted) => {
                    all_sent = false;
                    // Without memory, the thread that has it locked sends when it runs on.
                    self.waiting.add_again(qp.clone());
                }
                Err(Unavailable::Destroyed) => {}
            });
        all_sent
    }

    /// [`DeferredSends::send`] when the process exits: skips locks that are held, as their holder may never
    /// run again.
    pub fn send_at_exit(&self, mut send: impl FnMut(&QueuePair, MutexGuard<'_, RawMutex, Inner>)) {
        self.waiting.take_each_unlocked(|qp| {
            if let Some(mut inner) = qp.inner.try_lock() {
                inner.send_deferred = false;
                send(&qp, inner);
            }
        });
    }

    /// Drops all: the device is closed.
    pub fn clear(&self) {
        self.waiting.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::tests::queue_pair_alone;

    fn sent(deferred: &DeferredSends) -> (bool, Vec<u32>) {
        let mut sent = Vec::new();
        let all = deferred.send(|qp, inner| {
            assert!(!inner.send_deferred);
            sent.push(qp.qpn);
        });
        (all, sent)
    }

    #[test]
    fn a_queue_pair_is_sent_once_however_often_it_was_deferred() {
        let deferred = DeferredSends::default();
        let [one, other] = [2, 3].map(|qpn| queue_pair_alone(qpn, None));
        assert_eq!(sent(&deferred), (true, vec![]));
        for qp in [&one, &one, &other] {
            assert!(deferred.add(qp, &mut qp.inner.lock()));
        }
        assert!(deferred.any() && one.inner.lock().send_deferred);
        assert_eq!(sent(&deferred), (true, vec![3, 2]));
        assert!(!deferred.any());
        assert_eq!(sent(&deferred), (true, vec![]));
    }

    /// The thread that runs a queue pair is preempted: the others are sent, and that one later.
    #[test]
    fn a_locked_queue_pair_is_tried_again() {
        let deferred = DeferredSends::default();
        let [one, other] = [2, 3].map(|qpn| queue_pair_alone(qpn, None));
        deferred.add_missed(&one);
        deferred.add_missed(&other);
        let locked = other.inner.lock();
        assert_eq!(sent(&deferred), (false, vec![2]));
        assert!(deferred.any());
        let mut at_exit = Vec::new();
        deferred.send_at_exit(|qp, _| at_exit.push(qp.qpn));
        assert_eq!(at_exit, [0; 0]);
        deferred.add_missed(&other);
        drop(locked);
        assert_eq!(sent(&deferred), (true, vec![3]));
    }
}
