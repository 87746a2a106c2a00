//! Locks that a child of fork(2) can use.
//!
//! A lock here is one futex(2) word and nothing else. parking_lot's locks keep the threads that wait in a
//! table of the process, which has locks of its own: a child inherits those that other threads held, and
//! then blocks for good on a new lock that is contended. A POSIX mutex names the thread that holds it,
//! which is another one in the child.
//!
//! Locks that are held during the fork are not released by this: see `device/fork.rs`.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{PoisonError, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

pub use lock_api::RawMutex as RawMutexApi;
use lock_api::{GuardNoSend, RawMutexTimed};

const UNLOCKED: u32 = 0;
const LOCKED: u32 = 1;
/// Locked, and a thread may be waiting.
const CONTENDED: u32 = 2;
/// How many times a thread checks whether the lock is free before it blocks.
const SPINS: u32 = 100;

/// A mutex without a value.
pub struct RawMutex(AtomicU32);

/// A mutual exclusion lock around a value.
pub type Mutex<T> = lock_api::Mutex<RawMutex, T>;

// SAFETY: only the thread whose exchange finds UNLOCKED gets the lock, and nobody stores UNLOCKED but
// `unlock`, which the holder calls.
unsafe impl RawMutexApi for RawMutex {
    const INIT: RawMutex = RawMutex(AtomicU32::new(UNLOCKED));
    type GuardMarker = GuardNoSend;

    #[inline]
    fn lock(&self) {
        if !self.try_lock() {
            self.lock_contended();
        }
    }

    #[inline]
    fn try_lock(&self) -> bool {
        self.0
            .compare_exchange(UNLOCKED, LOCKED, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    #[inline]
    unsafe fn unlock(&self) {
        if self.0.swap(UNLOCKED, Ordering::Release) == CONTENDED {
            futex(&self.0, libc::FUTEX_WAKE, 1, None);
        }
    }

    fn is_locked(&self) -> bool {
        self.0.load(Ordering::Relaxed) != UNLOCKED
    }
}

// SAFETY: a lock is taken as `RawMutexApi` says, or not at all.
unsafe impl RawMutexTimed for RawMutex {
    type Duration = Duration;
    type Instant = Instant;

    fn try_lock_for(&self, timeout: Duration) -> bool {
        self.try_lock_until(Instant::now() + timeout)
    }

    fn try_lock_until(&self, end: Instant) -> bool {
        if self.try_lock() {
            return true;
        }
        while self.0.swap(CONTENDED, Ordering::Acquire) != UNLOCKED {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            futex(&self.0, libc::FUTEX_WAIT, CONTENDED, Some(left));
        }
        true
    }
}

#[cfg(test)]
impl RawMutex {
    /// Whether a thread has found the lock taken, and blocks or is about to.
    pub fn is_contended(&self) -> bool {
        self.0.load(Ordering::Relaxed) == CONTENDED
    }
}

impl RawMutex {
    #[cold]
    fn lock_contended(&self) {
        for _ in 0..SPINS {
            match self.0.load(Ordering::Relaxed) {
                UNLOCKED if self.try_lock() => return,
                CONTENDED => break,
                _ => core::hint::spin_loop(),
            }
        }
        while self.0.swap(CONTENDED, Ordering::Acquire) != UNLOCKED {
            futex(&self.0, libc::FUTEX_WAIT, CONTENDED, None);
        }
    }
}

/// Blocks while the word is `value`, for `timeout` at most, or wakes up to `value` threads. Not a
/// cancellation point.
fn futex(word: &AtomicU32, operation: i32, value: u32, timeout: Option<Duration>) {
    let timeout = timeout.map(|timeout| libc::timespec {
        tv_sec: timeout.as_secs() as _,
        tv_nsec: timeout.subsec_nanos().into(),
    });
    // SAFETY: the word is valid for reads; the timeout is NULL or this function's own. Every error
    // means that the caller is to look at the word again, which it does.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            operation | libc::FUTEX_PRIVATE_FLAG,
            value,
            timeout
                .as_ref()
                .map_or(core::ptr::null(), core::ptr::from_ref),
        );
    }
}

/// Counts the changes of something, for threads that wait until it changes.
#[derive(Default)]
pub struct Changes(AtomicU32);

impl Changes {
    /// How many there were. A thread asks this before it looks at what changes.
    pub fn count(&self) -> u32 {
        self.0.load(Ordering::Acquire)
    }

    /// Counts a change, which was made before, and wakes up all threads that wait.
    pub fn notify(&self) {
        self.0.fetch_add(1, Ordering::Release);
        futex(&self.0, libc::FUTEX_WAKE, i32::MAX as u32, None);
    }

    /// Blocks until there were more than `seen` changes, for `timeout` at most. May return earlier.
    pub fn wait(&self, seen: u32, timeout: Duration) {
        futex(&self.0, libc::FUTEX_WAIT, seen, Some(timeout));
    }
}

/// A lock that several threads can hold for reading, or one for writing. The standard library's, which is
/// futex(2) words too on Linux.
#[derive(Default)]
pub struct RwLock<T>(std::sync::RwLock<T>);

impl<T> RwLock<T> {
    /// Blocks until no thread writes. A thread that reads already must not call this: it would block if
    /// another thread waits to write.
    #[inline]
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        // A panic ends the process, so the lock is never poisoned.
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Blocks until no other thread reads or writes.
    #[inline]
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn one_thread_at_a_time() {
        const THREADS: usize = 4;
        let (counter, start) = (Mutex::new(0u64), Barrier::new(THREADS));
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    start.wait();
                    for _ in 0..10_000 {
                        *counter.lock() += 1;
                    }
                });
            }
        });
        assert_eq!(counter.into_inner(), 10_000 * THREADS as u64);
    }

    #[test]
    fn a_wait_with_a_timeout_ends() {
        let lock = Mutex::new(());
        let guard = lock.lock();
        assert!(lock.try_lock_for(Duration::from_millis(1)).is_none());
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| lock.try_lock_for(Duration::from_secs(60)).is_some());
            drop(guard);
            assert!(waiter.join().unwrap());
        });
    }

    #[test]
    fn a_blocked_thread_is_woken_up() {
        let lock = Mutex::new(());
        let guard = lock.lock();
        assert!(lock.try_lock().is_none());
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| drop(lock.lock()));
            // SAFETY: reads the word of a lock that outlives this scope.
            while !unsafe { lock.raw() }.is_contended() {
                std::thread::yield_now();
            }
            drop(guard);
            waiter.join().unwrap();
        });
        assert!(lock.try_lock().is_some());
    }
}
