//! The queue pairs of a device that packets reach, and what the destroyed ones have counted.
//!
//! Not here: what a queue pair is (`queue_pair.rs`); what else happens when one is destroyed (`mod.rs`).
//!
//! Invariant: no counter of the sum ever decreases: the sum of those that were removed is locked while a
//! queue pair leaves the table, and while all are added up. It is locked before a queue pair.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::queue_pair::QueuePair;
use crate::memory::CachedBy;
use crate::sync::{Mutex, RwLock};
use roce::engine::{Counters, Time};

/// Queue pairs by number.
#[derive(Default)]
pub(super) struct QpTable {
    queue_pairs: RwLock<FxHashMap<u32, Arc<QueuePair>>>,
    /// The sum of what removed queue pairs have counted.
    removed: Mutex<Counters>,
    /// Held for reading from before a queue pair leaves the table until its MR cache is closed.
    destroy_gate: RwLock<()>,
}

impl QpTable {
    /// Adds a queue pair. Returns how many there are now.
    pub fn insert(&self, qp: Arc<QueuePair>) -> usize {
        let mut queue_pairs = self.queue_pairs.write();
        queue_pairs.insert(qp.qpn, qp);
        queue_pairs.len()
    }

    /// The queue pair of this number.
    pub fn get(&self, qpn: u32) -> Option<Arc<QueuePair>> {
        self.queue_pairs.read().get(&qpn).cloned()
    }

    /// Whether the timer of this queue pair is due at this time.
    pub fn has_timer(&self, qpn: u32, at: Time) -> bool {
        let queue_pairs = self.queue_pairs.read();
        let qp = queue_pairs.get(&qpn);
        qp.is_some_and(|qp| qp.timer_at.load() == at)
    }

    /// Removes a queue pair and closes its MR cache. `forget` removes it from the lists of recently used
    /// ones, before its counters are added to the sum.
    pub fn remove(&self, qp: &QueuePair, forget: impl FnOnce()) {
        let gate = self.destroy_gate.read();
        let mut removed = self.removed.lock();
        self.queue_pairs.write().remove(&qp.qpn);
        qp.retire();
        forget();
        *removed += qp.inner.lock().take_counters();
        drop(removed);
        qp.inner.lock().hca.regions.close();
        drop(gate);
    }

    /// Adds what a queue pair has counted since it was removed.
    pub fn add_counters_of(&self, qp: &QueuePair) {
        *self.removed.lock() += qp.inner.lock().take_counters();
    }

    /// The sum of all counters, those of removed queue pairs too. Locks each queue pair for a moment.
    pub fn counters(&self) -> Counters {
        let removed = self.removed.lock();
        let mut sum = *removed;
        self.for_each(|qp| sum += qp.inner.lock().engine().counters());
        sum
    }

    /// Waits until no queue pair of these uses its cached region any more. The caller has none locked.
    pub fn wait_for(&self, cached_by: CachedBy) {
        let wait = |qp: &Arc<QueuePair>| drop(qp.inner.lock());
        match cached_by {
            CachedBy::None => return,
            CachedBy::One(qpn) => self.get(qpn).iter().for_each(wait),
            CachedBy::Any => self.for_each(wait),
        }
        drop(self.destroy_gate.write());
    }

    /// Calls `each` with every queue pair. They are not locked meanwhile, neither is the table. Without
    /// memory for a copy of the table, some of them are looked up at a time.
    pub fn for_each(&self, mut each: impl FnMut(&Arc<QueuePair>)) {
        let mut batch = SmallVec::<[Arc<QueuePair>; 32]>::new();
        let mut next = Some(0);
        while let Some(first) = next {
            let queue_pairs = self.queue_pairs.read();
            let _ = batch.try_reserve(queue_pairs.len() + 1);
            let later = queue_pairs.values().filter(|qp| qp.qpn >= first);
            later.for_each(|qp| keep_lowest(&mut batch, qp));
            drop(queue_pairs);
            // There may be more behind a full batch.
            let is_full = batch.len() == batch.capacity();
            next = batch.iter().map(|qp| qp.qpn + 1).max().filter(|_| is_full);
            batch.drain(..).for_each(|qp| each(&qp));
        }
    }

    /// Removes all queue pairs: the device is closed.
    pub fn clear(&self) {
        self.queue_pairs.write().clear();
    }
}

/// Adds a queue pair to a batch. If that is full, those with the lowest numbers stay.
fn keep_lowest(batch: &mut SmallVec<[Arc<QueuePair>; 32]>, qp: &Arc<QueuePair>) {
    if batch.len() == batch.capacity() {
        let highest = batch.iter_mut().max_by_key(|other| other.qpn);
        if let Some(highest) = highest.filter(|highest| highest.qpn > qp.qpn) {
            *highest = Arc::clone(qp);
        }
        return;
    }
    batch.push(Arc::clone(qp));
}
