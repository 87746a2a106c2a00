//! Locks of the data path whose holder may be preempted.
//!
//! On a busy host a thread can be runnable and not run for hundreds of milliseconds. If it holds a lock
//! meanwhile, no other thread could acknowledge packets, and peers would give their queue pairs up. So a
//! thread that works for others waits for such a lock for a limited time, and then does without it.
//!
//! | held by a preempted thread | what the others do |
//! |---|---|
//! | an inbox | receive through another one (`inboxes.rs`); a queue pair puts its packets in order |
//! | a queue pair | keep its packets (`missed.rs`); serve the other queue pairs |
//! | the send turn of a queue pair | of a reliable service: send out of order (the peer repairs it) |

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A thread that holds a lock for this long is taken for preempted. Longer than a batch takes, also one
/// that waits for the socket's send buffer; much shorter than a peer's ack timeout times its retries.
pub const PREEMPTED_AFTER: Duration = Duration::from_millis(8);

/// The record of a lock's holder: whether it is taken for preempted.
#[derive(Default)]
pub struct LockHolder {
    /// A thread has waited for the full time since the lock was last taken. The next ones do not wait.
    preempted: AtomicBool,
}

impl LockHolder {
    /// Takes the lock. None if its holder is taken for preempted.
    pub fn lock<G>(
        &self,
        try_lock: impl Fn() -> Option<G>,
        try_lock_for: impl FnOnce(Duration) -> Option<G>,
    ) -> Option<G> {
        if let Some(guard) = try_lock() {
            self.locked();
            return Some(guard);
        }
        if self.preempted.load(Ordering::Relaxed) {
            return None;
        }
        let guard = try_lock_for(PREEMPTED_AFTER);
        self.preempted.store(guard.is_none(), Ordering::Relaxed);
        guard
    }

    /// The lock was taken by other means.
    pub fn locked(&self) {
        if self.preempted.load(Ordering::Relaxed) {
            self.preempted.store(false, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::Mutex;

    #[test]
    fn a_held_lock_is_waited_for_once() {
        let (lock, holder) = (Mutex::new(()), LockHolder::default());
        let waits = core::cell::Cell::new(0);
        let take = || {
            let wait = |_| {
                waits.set(waits.get() + 1);
                None
            };
            holder.lock(|| lock.try_lock(), wait).is_some()
        };
        assert!(take());
        let held = lock.lock();
        assert!(!take() && !take() && !take());
        assert_eq!(waits.get(), 1);
        drop(held);
        assert!(take());
        let held = lock.lock();
        assert!(!take());
        assert_eq!(waits.get(), 2);
        drop(held);
    }
}
