//! A lock around a value, which fork(2) leaves unlocked and the value whole in the child.
//!
//! A fork while another thread holds an ordinary lock leaves a child in which nobody will ever
//! release it. So fork waits for this lock, and both processes release it: pthread_atfork(3). Not
//! every lock may be released in the child: parking_lot's keeps the threads that wait in a table,
//! which may be locked too, and POSIX's know the number of the thread that has them, which is another
//! one in the child. The standard library's is a number for futex(2) and nothing else.
//!
//! A process of one thread does without the mutex, as the C library does there by way of glibc's own.

use super::single_threaded::is_single_threaded;
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicUsize, Ordering, compiler_fence};
use std::sync::{Mutex, MutexGuard, PoisonError};

pub struct ForkLock<T: 'static> {
    value: UnsafeCell<T>,
    mutex: Mutex<()>,
    /// The thread that has the lock, or 0.
    owner: AtomicUsize,
    /// The lock that fork holds. Only the thread that forks touches it, and only with the lock.
    forking: UnsafeCell<Option<Held>>,
}

/// What makes this thread the owner: the mutex, or that there is no other thread.
type Held = Option<MutexGuard<'static, ()>>;

// SAFETY: the value is its owner's, of which there is one at a time: who has the mutex, or the only
// thread there is. The guard of a fork, which is not for other threads, is put there and taken by one
// thread, that which forks.
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

    /// Runs `work` with the value, one thread at a time. None when this very thread is inside
    /// already (a signal handler). `work` starts no thread.
    #[inline]
    pub fn with<R>(&'static self, work: impl FnOnce(&mut T) -> R) -> Option<R> {
        let held = self.acquire()?;
        // SAFETY: this thread is the owner since a moment ago, and was not before: nobody else has
        // a reference.
        let result = work(unsafe { &mut *self.value.get() });
        self.release(held);
        Some(result)
    }

    /// Before a fork, in the parent: does some last `work` with the value. It starts no thread.
    pub fn prepare_fork(&'static self, work: impl FnOnce(&mut T)) {
        // A signal handler that forks while its own thread holds the lock does not wait for it.
        if let Some(held) = self.acquire() {
            // SAFETY: this thread is the owner since a moment ago, so no other touches either, and
            // nobody has a reference to the value.
            unsafe {
                work(&mut *self.value.get());
                *self.forking.get() = Some(held);
            }
        }
    }

    /// After a fork, in the parent and in the child, in the thread that forked.
    pub fn after_fork(&'static self) {
        if self.owner.load(Ordering::Relaxed) == this_thread() {
            // SAFETY: this thread has the lock, so no other touches the place.
            if let Some(held) = unsafe { (*self.forking.get()).take() } {
                self.release(held);
            }
        }
    }

    #[inline]
    fn acquire(&'static self) -> Option<Held> {
        let me = this_thread();
        // Others come and go meanwhile, but none of them is this thread.
        if self.owner.load(Ordering::Relaxed) == me {
            return None;
        }
        let held = match is_single_threaded() {
            true => None,
            // A panic ends the process, so nothing is ever poisoned.
            false => Some(self.mutex.lock().unwrap_or_else(PoisonError::into_inner)),
        };
        self.owner.store(me, Ordering::Relaxed);
        // A signal handler of this thread sees the owner before any change of the value.
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

/// Not 0, and the same in the child for the thread that forked.
#[inline]
fn this_thread() -> usize {
    // SAFETY: pthread_self has no arguments and cannot fail.
    unsafe { libc::pthread_self() as usize }
}
