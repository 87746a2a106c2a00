//! A lock around a value. After fork(2) it is unlocked in the child, and the value is consistent.
//!
//! If a process forks while another thread holds an ordinary lock, nobody ever releases it in the child.
//! So fork acquires this lock, and both processes release it (pthread_atfork(3)). Not every mutex may be
//! released in the child: parking_lot keeps waiting threads in a table that may be locked itself, and a
//! POSIX mutex records the owner's thread id, which differs in the child. The standard library's mutex is
//! a futex(2) word and no more.
//!
//! A process with one thread skips the mutex, as glibc's own locks do for rdma-core.

use super::single_threaded::is_single_threaded;
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicUsize, Ordering, compiler_fence};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A value of `T` that one thread at a time may use.
pub struct ForkLock<T: 'static> {
    value: UnsafeCell<T>,
    mutex: Mutex<()>,
    /// The thread that holds the lock, or 0.
    owner: AtomicUsize,
    /// The guard between prepare_fork() and after_fork(). Only the forking thread uses it, holding the lock.
    forking: UnsafeCell<Option<Held>>,
}

/// Proof of ownership: the mutex, or None if there is no other thread.
type Held = Option<MutexGuard<'static, ()>>;

// SAFETY: one thread at a time owns the value: the one that holds the mutex, or the only one there is. The
// guard, which may not change threads, is stored and taken by the thread that forks.
unsafe impl<T: Send> Sync for ForkLock<T> {}

impl<T> ForkLock<T> {
    pub const fn new(value: T) -> ForkLock<T> {
        ForkLock {
            value: UnsafeCell::new(value),
            mutex: Mutex::new(()),
            owner: AtomicUsize::new(0),
            forking: UnsafeCell::new(None),
        }
    }

    /// Runs `work` with the value, one thread at a time. None if this thread holds the lock already (in a
    /// signal handler). `work` must not start a thread.
    #[inline]
    pub fn with<R>(&'static self, work: impl FnOnce(&mut T) -> R) -> Option<R> {
        let held = self.acquire()?;
        // SAFETY: acquire() has made this thread the owner, and it was not before: there is no other
        // reference.
        let result = work(unsafe { &mut *self.value.get() });
        self.release(held);
        Some(result)
    }

    /// Before a fork, in the parent: acquires the lock and runs `work`, which must not start a thread.
    pub fn prepare_fork(&'static self, work: impl FnOnce(&mut T)) {
        // None in a signal handler that forks while its own thread holds the lock.
        if let Some(held) = self.acquire() {
            // SAFETY: acquire() has made this thread the owner, and it was not before: nobody else uses the
            // value or the guard's place.
            unsafe {
                work(&mut *self.value.get());
                *self.forking.get() = Some(held);
            }
        }
    }

    /// After a fork, in the parent and in the child: releases the lock. Called by the thread that forked.
    pub fn after_fork(&'static self) {
        if self.owner.load(Ordering::Relaxed) == this_thread() {
            // SAFETY: this thread holds the lock, so no other uses the guard's place.
            if let Some(held) = unsafe { (*self.forking.get()).take() } {
                self.release(held);
            }
        }
    }

    #[inline]
    fn acquire(&'static self) -> Option<Held> {
        let me = this_thread();
        // A race with other threads is harmless: none of them stores this thread's id.
        if self.owner.load(Ordering::Relaxed) == me {
            return None;
        }
        let held = match is_single_threaded() {
            true => None,
            // A panic aborts the process, so the mutex is never poisoned.
            false => Some(self.mutex.lock().unwrap_or_else(PoisonError::into_inner)),
        };
        self.owner.store(me, Ordering::Relaxed);
        // A signal handler of this thread sees the owner before it sees a change of the value.
        compiler_fence(Ordering::SeqCst);
        Some(held)
    }

    #[inline]
    fn release(&'static self, held: Held) {
        compiler_fence(Ordering::SeqCst);
        self.owner.store(0, Ordering::Relaxed);
        drop(held);
    }
}

/// An id of this thread: not 0, and unchanged by fork in the child.
#[inline]
fn this_thread() -> usize {
    // SAFETY: pthread_self has no arguments and cannot fail.
    unsafe { libc::pthread_self() as usize }
}
