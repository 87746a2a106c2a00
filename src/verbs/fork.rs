//! Fork handlers: the state of the library in parent and child of fork(2). Registered memory is not
//! here: see `memory/fork.rs`.
//!
//! - The registry of drivers, and uroce's own locks, are taken before the fork and released after it.
//! - The device list ([`super::list_lock`]) is not, because its lock is held while providers are loaded: a
//!   provider may fork then. A child that has inherited the list in the middle of a change begins a new one.
//! - Those of SRQs are not: a child takes none of a context that it has inherited (`uverbs/srq_lock.rs`).
//!
//! Invariant: in a child of fork no lock of this library that it takes is held, but by the thread that
//! forked.

use crate::provider::{registry, software};
use crate::uverbs::srq_lock;

use super::device;

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
        srq_lock::after_fork_in_child();
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
    use core::sync::atomic::Ordering;

    use super::super::list_lock::ListLock;
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
    fn a_child_can_destroy_an_srq_while_its_parent_does() {
        let lock = srq_lock::SrqLock::new();
        let destroy = || {
            drop(lock.lock(true));
            // One of its own.
            drop(srq_lock::SrqLock::new().lock(true));
            true
        };
        let mut destroyed = false;
        while_held(|| lock.lock(true), || destroyed = in_child(destroy));
        assert!(destroyed);
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
