//! Waits, before an object is freed, until the program has acknowledged all of its events.

use libc::{pthread_cond_t, pthread_mutex_t};

/// Whether all events are acknowledged, as `acknowledged` says.
///
/// # Safety
/// `mutex` is initialised; `acknowledged` reads only what the mutex guards.
pub unsafe fn are_acknowledged(
    mutex: *mut pthread_mutex_t,
    acknowledged: impl Fn() -> bool,
) -> bool {
    // SAFETY: the caller knows the mutex to be initialised.
    unsafe {
        libc::pthread_mutex_lock(mutex);
        let result = acknowledged();
        libc::pthread_mutex_unlock(mutex);
        result
    }
}

/// Blocks until `acknowledged` returns true. The mutex and condition variable are the object's own, which
/// `ibv_ack_cq_events` and `ibv_ack_async_event` lock and signal.
///
/// # Safety
/// `mutex` and `cond` are initialised and stay so; `acknowledged` reads only what the mutex guards.
pub unsafe fn wait(
    mutex: *mut pthread_mutex_t,
    cond: *mut pthread_cond_t,
    mut acknowledged: impl FnMut() -> bool,
) {
    // SAFETY: the caller knows mutex and condition to be initialised; waiting holds the mutex.
    unsafe {
        libc::pthread_mutex_lock(mutex);
        while !acknowledged() {
            libc::pthread_cond_wait(cond, mutex);
        }
        libc::pthread_mutex_unlock(mutex);
    }
}
