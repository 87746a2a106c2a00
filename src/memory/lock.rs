//! A lock around a value, which fork(2) leaves unlocked and the value whole in the child.
//!
//! A fork while another thread holds an ordinary lock leaves a child in which nobody will ever
//! release it. So fork waits for this lock, and the child gets a new one: pthread_atfork(3). A POSIX
//! mutex is the one kind whose state the handlers may treat so.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, Ordering};

pub struct ForkLock<T> {
    mutex: UnsafeCell<libc::pthread_mutex_t>,
    /// Set while fork holds the lock. Only the thread that forks touches it then.
    forking: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: the mutex is made for use by several threads, and the value is only reached by the thread
// that holds it; that thread may be any, hence Send.
unsafe impl<T: Send> Sync for ForkLock<T> {}

impl<T> ForkLock<T> {
    pub const fn new(value: T) -> ForkLock<T> {
        ForkLock {
            // Error checking: a signal handler that forks while its own thread holds the lock must
            // not wait for it.
            mutex: UnsafeCell::new(libc::PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP),
            forking: AtomicBool::new(false),
            value: UnsafeCell::new(value),
        }
    }

    /// Runs `work` with the value, one thread at a time. None when this very thread is inside
    /// already (a signal handler).
    pub fn with<R>(&'static self, work: impl FnOnce(&mut T) -> R) -> Option<R> {
        if !self.acquire() {
            return None;
        }
        // SAFETY: this thread has just taken the lock, which it did not hold before, so this is the
        // only reference; it ends with `work`, before the lock is released.
        let result = work(unsafe { &mut *self.value.get() });
        self.release();
        Some(result)
    }

    /// Before a fork, in the parent.
    pub fn prepare_fork(&'static self) {
        let held = self.acquire();
        self.forking.store(held, Ordering::Relaxed);
    }

    /// After a fork, in the parent.
    pub fn after_fork_in_parent(&'static self) {
        if self.forking.swap(false, Ordering::Relaxed) {
            self.release();
        }
    }

    /// After a fork, in the child, whose only thread is the one that forked.
    pub fn after_fork_in_child(&'static self) {
        if self.forking.swap(false, Ordering::Relaxed) {
            // Not an unlock: an error-checking mutex knows its owner's thread id, which is another
            // one in the child.
            // SAFETY: the child has one thread, which is here; nobody holds, waits for or looks at
            // the mutex.
            unsafe { *self.mutex.get() = libc::PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP };
        }
    }

    fn acquire(&'static self) -> bool {
        // SAFETY: the mutex was initialised statically and, being 'static, never moves or goes.
        unsafe { libc::pthread_mutex_lock(self.mutex.get()) == 0 }
    }

    fn release(&'static self) {
        // SAFETY: as in `acquire`; the callers hold the lock.
        unsafe { libc::pthread_mutex_unlock(self.mutex.get()) };
    }
}
