//! The pthread mutexes and condition variables inside the public structs. Providers and programs
//! built against the C headers lock them too, so they are what `<pthread.h>` says, not Rust's.

use libc::{pthread_cond_t, pthread_mutex_t};

/// Readies a mutex and its condition variable in an object that a provider has just made.
///
/// # Safety
///
/// Both are writable and nobody uses them yet.
pub(crate) unsafe fn init(mutex: *mut pthread_mutex_t, cond: *mut pthread_cond_t) {
    // SAFETY: the caller has both to itself; NULL attributes ask for the defaults.
    unsafe {
        libc::pthread_mutex_init(mutex, core::ptr::null());
        libc::pthread_cond_init(cond, core::ptr::null());
    }
}

/// Runs `work` with the mutex held. `work` must not block: there is no guard that would release the
/// mutex if the thread were cancelled in it.
///
/// # Safety
///
/// The mutex is initialised and this thread does not hold it.
#[inline]
pub(crate) unsafe fn locked<T>(mutex: *mut pthread_mutex_t, work: impl FnOnce() -> T) -> T {
    // SAFETY: an initialised mutex, which this thread does not hold yet.
    unsafe { libc::pthread_mutex_lock(mutex) };
    let answer = work();
    // SAFETY: locked four lines up, by this thread.
    unsafe { libc::pthread_mutex_unlock(mutex) };
    answer
}

/// Counts `n` more acknowledged events and wakes the thread that waits for them in a destroy verb. The
/// condition variable and the counter are told by their distance from the mutex: with one pointer to
/// keep, this costs a few instructions less than the C library's, entry included.
///
/// # Safety
///
/// `mutex` is that of a live object, at these distances from its other two; the mutex guards the counter.
#[inline(never)]
pub(crate) unsafe fn acknowledge<const COND: usize, const COUNTER: usize>(
    mutex: *mut pthread_mutex_t,
    n: u32,
) {
    // SAFETY: the object lives, so its mutex and condition variable are initialised, and the mutex
    // makes this thread the counter's only user. The counter wraps, as the kernel's does.
    unsafe {
        locked(mutex, || {
            let counter = mutex.byte_add(COUNTER).cast::<u32>();
            *counter = (*counter).wrapping_add(n);
            libc::pthread_cond_signal(mutex.byte_add(COND).cast());
        });
    }
}

/// [`acknowledge`] for a counter of an object that has members `mutex` and `cond`.
macro_rules! acknowledge_events {
    ($object:expr, $type:ty, $counter:ident, $n:expr) => {
        $crate::verbs::sync::acknowledge::<
            { core::mem::offset_of!($type, cond) - core::mem::offset_of!($type, mutex) },
            { core::mem::offset_of!($type, $counter) - core::mem::offset_of!($type, mutex) },
        >(&raw mut (*$object).mutex, $n)
    };
}
pub(crate) use acknowledge_events;
