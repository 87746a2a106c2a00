//! [`ListLock`]: the lock of the device list. It is held while providers are loaded, and a provider may fork
//! then: so it is not taken before a fork.

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};

use crate::sys::lock;

/// A lock whose value a child of fork replaces by a new one if another thread was changing it.
pub struct ListLock<T: 'static> {
    /// Replaced only in a child that has no other thread yet.
    mutex: UnsafeCell<Mutex<T>>,
    /// The thread that holds the lock; 0 if none does.
    owner: AtomicUsize,
    /// The value to start with.
    new: fn() -> T,
}

// SAFETY: the mutex lets one thread at a time use the value, and is replaced while there is one thread only.
unsafe impl<T: Send> Sync for ListLock<T> {}

/// Unlocks when it is dropped.
pub struct ListGuard<T: 'static> {
    value: MutexGuard<'static, T>,
    owner: &'static AtomicUsize,
}

impl<T> ListLock<T> {
    /// An unlocked lock around `value`; `new` returns the same.
    pub const fn new(value: T, new: fn() -> T) -> ListLock<T> {
        ListLock {
            mutex: UnsafeCell::new(Mutex::new(value)),
            owner: AtomicUsize::new(0),
            new,
        }
    }

    /// Blocks until no other thread holds the lock.
    pub fn lock(&'static self) -> ListGuard<T> {
        // SAFETY: `after_fork_in_child` replaces the mutex while no other thread exists.
        let value = lock(unsafe { &*self.mutex.get() });
        self.owner.store(this_thread(), Ordering::Relaxed);
        ListGuard {
            value,
            owner: &self.owner,
        }
    }

    /// Called in the child by the thread that forked. If another thread of the parent held the lock, leaks
    /// the value, which may be inconsistent, and begins with a new one. If this thread holds it, nothing
    /// changes: it continues.
    pub fn after_fork_in_child(&'static self) {
        if self.owner.load(Ordering::Relaxed) == this_thread() {
            return;
        }
        // SAFETY: nobody else refers to the mutex, as this is the child's only thread and does not hold
        // the lock.
        unsafe {
            let held = matches!(
                (*self.mutex.get()).try_lock(),
                Err(TryLockError::WouldBlock)
            );
            if held {
                self.mutex.get().write(Mutex::new((self.new)()));
            }
        }
    }
}

impl<T> Deref for ListGuard<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for ListGuard<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<T> Drop for ListGuard<T> {
    fn drop(&mut self) {
        self.owner.store(0, Ordering::Relaxed);
    }
}

/// An id of this thread: not 0, and unchanged by fork in the child.
fn this_thread() -> usize {
    // SAFETY: pthread_self has no arguments and cannot fail.
    unsafe { libc::pthread_self() as usize }
}
