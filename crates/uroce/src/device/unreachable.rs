//! Queue pairs whose peer has ended, so that their outstanding requests fail.
//!
//! Not here: noticing the end of a peer (`crate::shm`); the engine fails the requests.
//!
//! What is outstanding fails not before the program has read the completions that it has. Many programs end
//! once they have those that they count, with others outstanding; their peers may be gone then. Until then
//! the packets take UDP, and fail by timers.

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use lock_api::MutexGuard;

use super::pending::Pending;
use super::qp_table::QpTable;
use super::queue_pair::{Inner, QueuePair, Unavailable};
use crate::sync::RawMutex;

/// The queue pairs that fail once the program has read their completions. Thread-safe.
#[derive(Default)]
pub(super) struct UnreachableQps {
    /// The queue pairs with [`Inner::is_unreachable`].
    waiting: Pending<Arc<QueuePair>>,
}

impl UnreachableQps {
    /// The peer of a queue pair is gone, and all that it had sent is received: what is outstanding fails, now
    /// or when the program has read the completions that it has.
    pub fn fail(&self, table: &QpTable, qp: &QueuePair, inner: &mut Inner) {
        // Otherwise the thread that delivers what was missed sends, too.
        if !inner.engine().can_fail_unreachable() || qp.missed.any() {
            return;
        }
        if qp.has_unread_completions() {
            self.await_reading(table, qp, inner);
            // The program may have read the last one before it could see that it is waited for.
            fence(Ordering::SeqCst);
        }
        if !qp.has_unread_completions() {
            let (engine, mut hca) = inner.split(qp);
            engine.fail_unreachable(&mut hca);
        }
    }

    /// Tries again when the program polls for the next completion, or is about to block until it comes.
    fn await_reading(&self, table: &QpTable, qp: &QueuePair, inner: &mut Inner) {
        if inner.is_unreachable {
            return;
        }
        if let Some(qp) = table.get(qp.qpn) {
            inner.is_unreachable = true;
            // Without memory, the queue pair's timers decide.
            self.waiting.add(qp);
        }
    }

    /// Whether there may be some. Who must not miss what another thread adds at that moment, fences.
    #[inline]
    pub fn any(&self) -> bool {
        self.waiting.any()
    }

    /// Passes each to `send`, which calls [`UnreachableQps::fail`] again, and unlocks it.
    #[inline]
    pub fn retry(&self, send: impl FnMut(&QueuePair, MutexGuard<'_, RawMutex, Inner>)) {
        if self.any() {
            self.retry_all(send);
        }
    }

    #[cold]
    fn retry_all(&self, mut send: impl FnMut(&QueuePair, MutexGuard<'_, RawMutex, Inner>)) {
        self.waiting.take_each(|qp| {
            let locked = qp.lock_unless_preempted().map(|mut inner| {
                inner.is_unreachable = false;
                send(&qp, inner);
            });
            if locked == Err(Unavailable::Preempted) {
                self.waiting.add_again(qp);
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
    use ibverbs_abi::{IBV_WC_RETRY_EXC_ERR, IBV_WC_SEND, IBV_WC_SUCCESS, ibv_wc_status};

    use super::*;
    use crate::device::completion::CompletionQueue;
    use crate::device::tests::{completion_queue, queue_pair_alone};
    use crate::device::wait::Waker;
    use roce::engine::{Completion, SendFlags, SendOp, SendWr};

    fn read(cq: &CompletionQueue) -> Vec<ibv_wc_status> {
        let mut statuses = Vec::new();
        cq.poll(1, |_, entry| statuses.push(entry.completion.status));
        statuses
    }

    fn fail(unreachable: &UnreachableQps, table: &QpTable, qp: &QueuePair) {
        unreachable.fail(table, qp, &mut qp.inner.lock());
    }

    #[test]
    fn a_request_fails_once_earlier_completions_are_read() {
        let (unreachable, table, cq) = (
            UnreachableQps::default(),
            QpTable::default(),
            completion_queue(Arc::new(Waker::new().unwrap()), 16),
        );
        let qp = queue_pair_alone(2, Some(cq.clone()));
        table.insert(qp.clone());
        // Nothing is outstanding.
        fail(&unreachable, &table, &qp);
        assert!(!unreachable.any() && read(&cq).is_empty());
        let wr = || SendWr::new(1, SendOp::Send, SendFlags::default());
        {
            let mut inner = qp.inner.lock();
            let (engine, mut hca) = inner.split(&qp);
            assert!(engine.post_send(wr(), &mut hca));
        }
        let earlier = Completion::new(0, IBV_WC_SUCCESS, IBV_WC_SEND);
        cq.push(earlier, qp.qpn, 0).unwrap();
        for _ in 0..2 {
            fail(&unreachable, &table, &qp);
        }
        let mut calls = 0;
        unreachable.retry(|qp, mut inner| {
            calls += 1;
            unreachable.fail(&table, qp, &mut inner);
        });
        assert_eq!(calls, 1, "it was added once");
        assert!(unreachable.any());
        assert_eq!(read(&cq), [IBV_WC_SUCCESS]);
        unreachable.retry(|qp, mut inner| unreachable.fail(&table, qp, &mut inner));
        assert_eq!(read(&cq), [IBV_WC_RETRY_EXC_ERR]);
        assert!(!unreachable.any());
    }
}
