//! The time after which a wait is reported.

use core::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Seconds without a completion; 0 stands for no limit.
static LIMIT: AtomicU64 = AtomicU64::new(5);

/// Sets the time after which a wait is reported, in seconds. 0: never.
pub fn set_limit(seconds: u64) {
    LIMIT.store(seconds, Ordering::Relaxed);
}

/// The time after which a wait is reported; None: never.
pub fn limit() -> Option<Duration> {
    let seconds = LIMIT.load(Ordering::Relaxed);
    (seconds > 0).then(|| Duration::from_secs(seconds))
}
