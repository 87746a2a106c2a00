//! Changes of rules and objects, for which the thread that raises events waits.

use core::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// A futex word: it changes when rules or objects do.
static CHANGES: AtomicU32 = AtomicU32::new(0);

/// A number that changes with each call of [`notify`].
pub fn seen() -> u32 {
    CHANGES.load(Ordering::Acquire)
}

/// Rules or objects have changed: wakes the thread.
pub fn notify() {
    CHANGES.fetch_add(1, Ordering::Release);
    // SAFETY: the word is a static; FUTEX_WAKE takes no further pointer.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            CHANGES.as_ptr(),
            libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
            1,
        );
    }
}

/// Blocks until [`notify`] is called, or for `time`; at once if it was called after `seen` was read.
pub fn wait(seen: u32, time: Option<Duration>) {
    let timeout = time.map(|time| libc::timespec {
        tv_sec: time.as_secs().min(1 << 30) as i64,
        tv_nsec: time.subsec_nanos().into(),
    });
    let timeout = timeout
        .as_ref()
        .map_or(core::ptr::null(), core::ptr::from_ref);
    // SAFETY: the word is a static, and `timeout` is NULL or readable.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            CHANGES.as_ptr(),
            libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
            seen,
            timeout,
        );
    }
}
