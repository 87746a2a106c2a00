//! Waiting, before an object goes, until the program has acknowledged all of its events.

use libc::{pthread_cond_t, pthread_mutex_t};

/// Blocks until `settled` holds. The mutex and condition are the object's own, which
/// `ibv_ack_cq_events` and `ibv_ack_async_event` lock and signal.
///
/// # Safety
/// `mutex` and `cond` are initialised and stay so; `settled` reads only what the mutex guards.
pub unsafe fn wait(
    mutex: *mut pthread_mutex_t,
    cond: *mut pthread_cond_t,
    mut settled: impl FnMut() -> bool,
) {
    // SAFETY: by the contract.
    unsafe {
        libc::pthread_mutex_lock(mutex);
        while !settled() {
            libc::pthread_cond_wait(cond, mutex);
        }
        libc::pthread_mutex_unlock(mutex);
    }
}
