//! What fork(2) does to the state of the library. Registered memory is not here: see `memory/fork.rs`.
//!
//! - The registry of drivers, and uroce's own locks, are taken before the fork and released after it.
//! - The device list ([`ListLock`]) is not, because its lock is held while providers are loaded: a provider
//!   may fork then. A child that has inherited the list in the middle of a change begins a new one.
//!
//! Invariant: in a child of fork no lock of this library is held, but by the thread that forked.

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};

use crate::provider::{registry, software};
use crate::sys::lock;

use super::device;

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

/// Registers the handlers when the library is loaded: a later registration could be interrupted by a fork.
extern "C" fn register_handlers() {
    extern "C" fn prepare() {
        registry::before_fork();
        software::before_fork();
    }
    extern "C" fn parent() {
        // SAFETY: `prepare` ran in this thread before the fork.
        unsafe { software::after_fork(false) };
        registry::after_fork();
    }
    extern "C" fn child() {
        // SAFETY: `prepare` ran in this thread before the fork.
        unsafe { software::after_fork(true) };
        registry::after_fork();
        device::after_fork_in_child();
    }
    // SAFETY: the handlers use statics only and do not unwind; libc removes them when this library is
    // unloaded. Without memory for them fork works as in rdma-core.
    unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) };
}

#[used]
// SAFETY: the dynamic linker calls the functions in this section, with arguments that this one ignores.
#[unsafe(link_section = ".init_array")]
static ON_LOAD: extern "C" fn() = register_handlers;

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    /// Runs `work` in a child, which a signal ends after 20 s. True if it returns true.
    fn in_child(work: impl FnOnce() -> bool) -> bool {
        // SAFETY: the child uses what the fork handlers have made usable, and exits without handlers;
        // `status` is writable.
        unsafe {
            let pid = libc::fork();
            if pid == 0 {
                libc::alarm(20);
                libc::_exit((!work()).into());
            }
            let mut status = -1;
            assert_eq!(libc::waitpid(pid, &mut status, 0), pid);
            status == 0
        }
    }

    /// Calls `work` while another thread holds a lock.
    fn while_held<G>(lock: impl FnOnce() -> G + Send, work: impl FnOnce()) {
        let (held, done) = (Barrier::new(2), Barrier::new(2));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _guard = lock();
                held.wait();
                done.wait();
            });
            held.wait();
            work();
            done.wait();
        });
    }

    #[test]
    fn a_child_replaces_a_value_that_another_thread_was_changing() {
        static LOCK: ListLock<u32> = ListLock::new(1, || 1);
        *LOCK.lock() = 2;
        let value = || {
            LOCK.after_fork_in_child();
            *LOCK.lock()
        };
        assert!(in_child(|| value() == 2));
        while_held(|| LOCK.lock(), || assert!(in_child(|| value() == 1)));
        let mut guard = LOCK.lock();
        *guard = 3;
        assert!(in_child(|| {
            LOCK.after_fork_in_child();
            let kept = *guard == 3;
            drop(guard);
            kept && value() == 3
        }));
    }

    #[test]
    fn a_child_can_list_devices_while_its_parent_does() {
        let list = || {
            let mut count = 0;
            // SAFETY: `count` is writable; a list is freed once.
            unsafe { device::ibv_free_device_list(device::ibv_get_device_list(&mut count)) };
            true
        };
        while_held(device::lock_list, || assert!(in_child(list)));
    }

    /// fork waits until another thread has registered its driver.
    #[test]
    fn fork_waits_for_the_registry() {
        let (held, forked) = (Barrier::new(2), core::sync::atomic::AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                registry::lock_during(|| {
                    held.wait();
                    std::thread::sleep(std::time::Duration::from_millis(100));
                    assert!(!forked.load(Ordering::SeqCst));
                });
            });
            held.wait();
            assert!(in_child(|| registry::count() < usize::MAX));
            forked.store(true, Ordering::SeqCst);
        });
    }
}
