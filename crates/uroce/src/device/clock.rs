//! The clock of a device: CLOCK_MONOTONIC, in nanoseconds.

use crate::engine::Time;

fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is writable; both clocks always exist.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// What time stamps count, and the engine's time.
pub fn now() -> Time {
    Time(read(libc::CLOCK_MONOTONIC))
}

/// Since 1970.
pub fn wall() -> u64 {
    read(libc::CLOCK_REALTIME)
}
