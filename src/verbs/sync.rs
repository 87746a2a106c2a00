//! The pthread mutexes and condition variables inside the public structs. Providers and programs built
//! with the C headers use them too, so they are objects of `<pthread.h>`, not Rust's.

use libc::{pthread_cond_t, pthread_mutex_t};

/// Initialises the mutex and the condition variable of an object that a provider has just created.
///
/// # Safety
///
/// Both are writable and no other thread uses them yet.
pub(crate) unsafe fn init(mutex: *mut pthread_mutex_t, cond: *mut pthread_cond_t) {
    // SAFETY: both are writable and unused, as the caller promises; NULL means default attributes.
    unsafe {
        libc::pthread_mutex_init(mutex, core::ptr::null());
        libc::pthread_cond_init(cond, core::ptr::null());
    }
}

/// Runs `work` with the mutex locked and returns its result. `work` must not block: no guard unlocks the
/// mutex if the thread is cancelled during it.
///
/// # Safety
///
/// The mutex is initialised and this thread does not hold it.
#[inline]
pub(crate) unsafe fn locked<T>(mutex: *mut pthread_mutex_t, work: impl FnOnce() -> T) -> T {
    // SAFETY: the mutex is initialised and this thread does not hold it, as the caller promises.
    unsafe { libc::pthread_mutex_lock(mutex) };
    let result = work();
    // SAFETY: this thread locked the mutex above.
    unsafe { libc::pthread_mutex_unlock(mutex) };
    result
}

/// Adds `n` to the counter of acknowledged events and wakes the thread that waits for them in a destroy verb.
///
/// `COND` and `COUNTER` are the offsets in bytes of the condition variable and the counter from the mutex.
/// With one pointer to preserve across the calls, this takes fewer instructions than the C library
/// (`benches/run`).
///
/// # Safety
///
/// `mutex` is that of a live object, which has its condition variable and its counter at these offsets; the
/// mutex protects the counter.
#[inline(never)]
pub(crate) unsafe fn acknowledge<const COND: usize, const COUNTER: usize>(
    mutex: *mut pthread_mutex_t,
    n: u32,
) {
    // SAFETY: the object is alive, so its mutex and condition variable are initialised, and the locked
    // mutex excludes other users of the counter. The counter wraps, as the kernel's does.
    unsafe {
        locked(mutex, || {
            let counter = mutex.byte_add(COUNTER).cast::<u32>();
            *counter = (*counter).wrapping_add(n);
            libc::pthread_cond_signal(mutex.byte_add(COND).cast());
        });
    }
}

/// Calls [`acknowledge`] for a counter of an object with the members `mutex` and `cond`.
macro_rules! acknowledge_events {
    ($object:expr, $type:ty, $counter:ident, $n:expr) => {
        $crate::verbs::sync::acknowledge::<
            { core::mem::offset_of!($type, cond) - core::mem::offset_of!($type, mutex) },
            { core::mem::offset_of!($type, $counter) - core::mem::offset_of!($type, mutex) },
        >(&raw mut (*$object).mutex, $n)
    };
}
pub(crate) use acknowledge_events;
