//! A lock around a value, which fork(2) leaves unlocked and the value whole in the child.
//!
//! A fork while another thread holds an ordinary lock leaves a child in which nobody will ever
//! release it. So fork waits for this lock, and both processes release it: pthread_atfork(3). Not
//! every lock may be released in the child: parking_lot's keeps the threads that wait in a table,
//! which may be locked too, and POSIX's know the number of the thread that has them, which is another
//! one in the child. The standard library's is a number for futex(2) and nothing else.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

pub struct ForkLock<T: 'static> {
    value: Mutex<T>,
    /// The thread that has the lock, or 0.
    owner: AtomicUsize,
    /// The lock that fork holds. Only the thread that forks touches it, and only with the lock.
    forking: UnsafeCell<Option<MutexGuard<'static, T>>>,
}

// SAFETY: the value is behind its mutex, and the guard of a fork, which is not for other threads, is
// put there and taken by one thread, that which forks.
unsafe impl<T: Send> Sync for ForkLock<T> {}

impl<T> ForkLock<T> {
    pub const fn new(value: T) -> ForkLock<T> {
        ForkLock {
            value: Mutex::new(value),
            owner: AtomicUsize::new(0),
            forking: UnsafeCell::new(None),
        }
    }

    /// Runs `work` with the value, one thread at a time. None when this very thread is inside
    /// already (a signal handler).
    #[inline]
    pub fn with<R>(&'static self, work: impl FnOnce(&mut T) -> R) -> Option<R> {
        let mut value = self.acquire()?;
        let result = work(&mut value);
        self.release(value);
        Some(result)
    }

    /// Before a fork, in the parent.
    pub fn prepare_fork(&'static self) {
        // A signal handler that forks while its own thread holds the lock does not wait for it.
        if let Some(value) = self.acquire() {
            // SAFETY: this thread has the lock, so no other touches the place.
            unsafe { *self.forking.get() = Some(value) };
        }
    }

    /// After a fork, in the parent and in the child, in the thread that forked.
    pub fn after_fork(&'static self) {
        if self.is_mine() {
            // SAFETY: this thread has the lock, so no other touches the place.
            if let Some(value) = unsafe { (*self.forking.get()).take() } {
                self.release(value);
            }
        }
    }

    #[inline]
    fn acquire(&'static self) -> Option<MutexGuard<'static, T>> {
        if self.is_mine() {
            return None;
        }
        // A panic ends the process, so nothing is ever poisoned.
        let value = self.value.lock().unwrap_or_else(PoisonError::into_inner);
        self.owner.store(this_thread(), Ordering::Relaxed);
        Some(value)
    }

    #[inline]
    fn release(&'static self, value: MutexGuard<'static, T>) {
        self.owner.store(0, Ordering::Relaxed);
        drop(value);
    }

    /// Whether this thread has the lock. Others come and go meanwhile, but it is none of them.
    #[inline]
    fn is_mine(&self) -> bool {
        self.owner.load(Ordering::Relaxed) == this_thread()
    }
}

/// Not 0, and the same in the child for the thread that forked.
#[inline]
fn this_thread() -> usize {
    // SAFETY: pthread_self has no arguments and cannot fail.
    unsafe { libc::pthread_self() as usize }
}
