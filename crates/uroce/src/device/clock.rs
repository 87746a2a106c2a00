//! The device's clock: CLOCK_MONOTONIC, in nanoseconds.

use std::cell::Cell;
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering};

use crate::tick;
use roce::engine::{Clock, Time};

fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is writable. CLOCK_MONOTONIC and CLOCK_REALTIME exist on every Linux.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The time now. Completion timestamps are of this clock too.
pub fn now() -> Time {
    Time(read(libc::CLOCK_MONOTONIC))
}

/// How far CLOCK_MONOTONIC_COARSE is behind CLOCK_MONOTONIC at most, in nanoseconds; 0 before the first use.
static TICK: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

/// The time now, or up to two ticks of the kernel's (1 to 20 ms) later, for deadlines that may be late: it is
/// read in a quarter of the time.
#[inline]
pub fn coarse() -> Time {
    let tick = match TICK.load(Ordering::Relaxed) {
        0 => read_tick(),
        tick => tick,
    };
    Time(tick::now_ns() + tick)
}

#[cold]
fn read_tick() -> u64 {
    let mut resolution = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `resolution` is writable. CLOCK_MONOTONIC_COARSE exists on every Linux.
    unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &mut resolution) };
    // A tick may be handled late.
    let tick = 2 * (resolution.tv_sec as u64 * 1_000_000_000 + resolution.tv_nsec as u64).max(1);
    TICK.store(tick, Ordering::Relaxed);
    tick
}

/// A clock that is read at most once, when the time matters first, and stands still then.
pub struct ReadOnce {
    read: fn() -> Time,
    time: Cell<Option<Time>>,
}

impl ReadOnce {
    /// Reads [`now`] or [`coarse`].
    pub fn new(read: fn() -> Time) -> ReadOnce {
        let time = Cell::new(None);
        ReadOnce { read, time }
    }

    /// The time, if it was read.
    pub fn get(&self) -> Option<Time> {
        self.time.get()
    }
}

impl Clock for &ReadOnce {
    #[inline]
    fn time(self) -> Time {
        if let Some(time) = self.time.get() {
            return time;
        }
        let time = (self.read)();
        self.time.set(Some(time));
        time
    }
}

/// Nanoseconds since 1970 (CLOCK_REALTIME), for wallclock timestamps of completions.
pub fn wallclock_ns() -> u64 {
    read(libc::CLOCK_REALTIME)
}

/// A time that never comes.
pub const NEVER: Time = Time(u64::MAX);

/// A [`Time`] that several threads read and write; [`NEVER`] stands for "none".
pub struct AtomicTime(AtomicU64);

impl AtomicTime {
    /// Holds `time` at first.
    pub fn new(time: Time) -> AtomicTime {
        AtomicTime(AtomicU64::new(time.0))
    }

    /// The time. Relaxed: it orders no other memory access.
    pub fn load(&self) -> Time {
        Time(self.0.load(Ordering::Relaxed))
    }

    /// Changes the time to `new` if it is `old`. Returns whether it was.
    pub fn replace(&self, old: Time, new: Time) -> bool {
        let result = self
            .0
            .compare_exchange(old.0, new.0, Ordering::Relaxed, Ordering::Relaxed);
        result.is_ok()
    }

    /// Changes the time. Relaxed: it orders no other memory access.
    pub fn store(&self, time: Time) {
        self.0.store(time.0, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_coarse_time_is_not_far_from_now() {
        for _ in 0..100_000 {
            let (before, coarse, after) = (now(), coarse(), now());
            // A busy host handles ticks late.
            assert!(coarse.since(after).as_millis() < 50 && before.since(coarse).as_millis() < 500);
        }
    }
}
