//! One SRQ command at a time per context: `ibv_create_srq`, `ibv_create_srq_ex` and `ibv_destroy_srq` hold
//! this lock around the provider's op.
//!
//! libmlx5 (up to rdma-core 65 at least) removes a destroyed SRQ from its table without the lock that its
//! creation takes, so two threads corrupt the table. The lock is taken before any lock of a provider. It is
//! not held while a destroy waits for the program to acknowledge events: the thread that acknowledges them
//! may create an SRQ first.
//!
//! A child of fork(2) takes no lock of a context that it has inherited: a thread that exists in the parent
//! only may hold it. Nor can it use the context's SRQs (ibv_fork_init(3)).

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicI32, AtomicU32, AtomicUsize, Ordering};

use ibverbs_abi::{disable_cancel_state, restore_cancel_state};
use libc::{c_int, pthread_mutex_t};

use crate::memory::single_threaded::is_single_threaded;

/// No cancellation state: the lock has not changed it.
const UNCHANGED: c_int = -1;

/// How often this process was made by fork.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// Contexts that exist are inherited from now on. For the handler of fork(2).
pub fn after_fork_in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// The lock of one context.
pub struct SrqLock {
    /// A pthread mutex rather than one of Rust's: glibc takes it without an atomic operation in a process
    /// with one thread.
    mutex: UnsafeCell<pthread_mutex_t>,
    /// `pthread_self()` of the thread that holds the mutex, or 0.
    owner: AtomicUsize,
    /// The cancellation state that the owner had before, or `UNCHANGED`. Only the owner accesses it.
    cancel_state: AtomicI32,
    /// [`FORKS`] when the context was made.
    forks: u32,
}

// SAFETY: any thread may lock and unlock the mutex through a shared reference; the other members are atomic.
unsafe impl Sync for SrqLock {}

/// Unlocks when dropped, in the thread that locked.
pub struct SrqGuard<'a>(Option<&'a SrqLock>);

impl SrqLock {
    /// An unlocked lock. It must not move once it has been locked.
    #[expect(clippy::new_without_default, reason = "no value is the usual one")]
    pub fn new() -> SrqLock {
        SrqLock {
            mutex: UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER),
            owner: AtomicUsize::new(0),
            cancel_state: AtomicI32::new(UNCHANGED),
            forks: FORKS.load(Ordering::Relaxed),
        }
    }

    /// Blocks until the lock is free. Not recursive. With `may_write`, the thread cannot be cancelled until
    /// the guard is dropped: commands go through `write()`, which is a cancellation point; `ioctl()` is
    /// none.
    ///
    /// A process with one thread takes no lock: no other thread can start before the guard is dropped.
    #[inline]
    pub fn lock(&self, may_write: bool) -> SrqGuard<'_> {
        if is_single_threaded() || self.is_inherited() {
            return SrqGuard(None);
        }
        self.acquire(may_write);
        SrqGuard(Some(self))
    }

    /// Calls `wait`, without the lock if this thread holds it. The thread can be cancelled in `wait` if it
    /// could be before it locked.
    pub fn unlocked(&self, wait: impl FnOnce()) {
        let held = self.owner.load(Ordering::Relaxed) == this_thread() && !self.is_inherited();
        if !held {
            return wait();
        }
        let may_write = self.release();
        wait();
        self.acquire(may_write);
    }

    /// Whether this process is a child of the one that has made the context.
    fn is_inherited(&self) -> bool {
        self.forks != FORKS.load(Ordering::Relaxed)
    }

    fn acquire(&self, may_write: bool) {
        let before = if may_write {
            disable_cancel_state()
        } else {
            UNCHANGED
        };
        // SAFETY: the mutex is initialised, and does not move while it is in use.
        unsafe { libc::pthread_mutex_lock(self.mutex.get()) };
        self.owner.store(this_thread(), Ordering::Relaxed);
        self.cancel_state.store(before, Ordering::Relaxed);
    }

    /// Returns the `may_write` that it was acquired with.
    fn release(&self) -> bool {
        let before = self.cancel_state.load(Ordering::Relaxed);
        self.owner.store(0, Ordering::Relaxed);
        // SAFETY: this thread locked the mutex.
        unsafe { libc::pthread_mutex_unlock(self.mutex.get()) };
        if before != UNCHANGED {
            restore_cancel_state(before);
        }
        before != UNCHANGED
    }
}

impl Drop for SrqGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(lock) = self.0 {
            lock.release();
        }
    }
}

fn this_thread() -> usize {
    // SAFETY: the call has no arguments and cannot fail.
    unsafe { libc::pthread_self() as usize }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::thread;

    use super::*;

    #[test]
    fn a_thread_that_waits_lets_others_in() {
        let lock = SrqLock::new();
        let (waits, acknowledged) = (Barrier::new(2), Barrier::new(2));
        thread::scope(|scope| {
            scope.spawn(|| {
                let _guard = lock.lock(true);
                lock.unlocked(|| {
                    waits.wait();
                    acknowledged.wait();
                });
                assert_eq!(lock.owner.load(Ordering::Relaxed), this_thread());
            });
            waits.wait();
            let guard = lock.lock(true);
            acknowledged.wait();
            drop(guard);
        });
        assert_eq!(lock.owner.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_thread_that_does_not_hold_the_lock_leaves_it_alone() {
        let lock = SrqLock::new();
        let guard = lock.lock(true);
        thread::scope(|scope| {
            let other =
                scope.spawn(|| lock.unlocked(|| assert_ne!(lock.owner.load(Ordering::Relaxed), 0)));
            other.join().unwrap();
        });
        assert_eq!(lock.owner.load(Ordering::Relaxed), this_thread());
        drop(guard);
    }

    #[test]
    fn cancellation_is_disabled_while_the_lock_is_held() {
        const ENABLED: c_int = 0;
        const DISABLED: c_int = 1;
        let state = || {
            let state = disable_cancel_state();
            restore_cancel_state(state);
            state
        };
        let lock = SrqLock::new();
        thread::spawn(|| {}).join().unwrap();
        let guard = lock.lock(false);
        assert_eq!(state(), ENABLED);
        drop(guard);
        let guard = lock.lock(true);
        assert_eq!(state(), DISABLED);
        lock.unlocked(|| assert_eq!(state(), ENABLED));
        assert_eq!(state(), DISABLED);
        drop(guard);
        assert_eq!(state(), ENABLED);
    }
}
