//! The processes that may access what this one exports, and waiting for their accesses.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

#[cfg(not(loom))]
use std::sync::atomic::{Ordering, fence};

#[cfg(loom)]
use loom::sync::atomic::{Ordering, fence};

use super::accesses::{Accesses, Object};
use crate::sync::Mutex;

/// Processes that this one stops trusting before it lets no further ones access memory.
const MAX_DISTRUSTED: usize = 16;

/// A process that may access what is exported.
pub trait Accessor: Send + Sync {
    /// The accesses that the process announces.
    fn accesses(&self) -> &Accesses;
    /// The process ID.
    fn pid(&self) -> libc::pid_t;
    /// Whether the process has ended, or has closed the device. May make a system call.
    fn is_gone(&self) -> bool;
    /// Whether a thread of it is stopped, outside of the kernel. May make system calls.
    fn is_stopped(&self, thread: u32) -> bool;
}

/// How long a target waits.
#[derive(Clone, Copy)]
pub struct Limits {
    /// After this time it looks whether the initiator has ended, or is stopped.
    pub look_after: Duration,
    /// After this time it waits no longer for an initiator, and lets it access nothing any more.
    pub give_up_after: Duration,
}

impl Limits {
    /// A copy takes less than a millisecond. What holds one up for longer is the initiator's or the target's
    /// own memory: swapped out, in a file, or a userfaultfd.
    const USUAL: Limits = Limits {
        look_after: Duration::from_millis(20),
        give_up_after: Duration::from_secs(5),
    };
}

/// All of them. Thread-safe.
pub struct Accessors {
    list: Mutex<List>,
    limits: Limits,
}

#[derive(Default)]
struct List {
    /// The accessors in the order of their numbers.
    all: Vec<(u64, Arc<dyn Accessor>)>,
    next_number: u64,
    /// The process IDs of those that were removed because an access did not end.
    distrusted: [libc::pid_t; MAX_DISTRUSTED],
    distrusted_count: usize,
}

impl Default for Accessors {
    fn default() -> Accessors {
        Accessors {
            list: Mutex::default(),
            limits: Limits::USUAL,
        }
    }
}

impl Accessors {
    /// Without any, for a test.
    #[cfg(all(test, not(loom)))]
    pub fn with_limits(limits: Limits) -> Accessors {
        Accessors {
            limits,
            ..Accessors::default()
        }
    }

    /// Adds a process, for whose accesses [`Accessors::wait`] waits from now on. False if there is
    /// no memory, or the process is not trusted: it must not get the table.
    pub fn add(&self, accessor: Arc<dyn Accessor>) -> bool {
        let mut list = self.list.lock();
        let may = list.trusts(accessor.pid()) && list.all.try_reserve(1).is_ok();
        if may {
            let number = list.next_number;
            list.next_number += 1;
            list.all.push((number, accessor));
        }
        may
    }

    /// Forgets the processes that are gone. Allocates nothing.
    pub fn remove_gone(&self) {
        let mut list = self.list.lock();
        list.all.retain(|(_, accessor)| !accessor.is_gone());
    }

    #[cfg(test)]
    pub fn count(&self) -> usize {
        self.list.lock().all.len()
    }

    /// The first one with this number or a higher one.
    fn from(&self, number: u64) -> Option<(u64, Arc<dyn Accessor>)> {
        let list = self.list.lock();
        let at = list.all.partition_point(|(other, _)| *other < number);
        list.all.get(at).cloned()
    }

    /// Blocks until the accesses to an object that were in progress have ended. An access takes as long as
    /// its copy. It has ended if its process has; and if its thread is stopped, as that looks at the table
    /// again when it continues (`crate::restart`). An initiator whose access ends in none of these ways in
    /// [`Limits::give_up_after`] is not trusted any more. The caller has withdrawn the object, and holds no
    /// lock.
    pub fn wait(&self, object: Object) {
        // After the table was written: see `direct/mod.rs`.
        fence(Ordering::SeqCst);
        let mut next = 0;
        while let Some((number, accessor)) = self.from(next) {
            let begun = Instant::now();
            let ends = |slot| self.wait_for(accessor.as_ref(), slot, object, begun);
            if !(0..Accesses::SLOTS).all(ends) {
                self.distrust(number, accessor.as_ref());
            }
            next = number + 1;
        }
    }

    /// Blocks until the access that is in progress in a slot has ended. False if it does not.
    fn wait_for(&self, of: &dyn Accessor, slot: usize, object: Object, begun: Instant) -> bool {
        const INTERVAL: Duration = Duration::from_micros(20);
        const MAX_INTERVAL: Duration = Duration::from_millis(5);
        let accesses = of.accesses();
        let Some(first) = accesses.in_progress(slot, object) else {
            return true;
        };
        while accesses.in_progress(slot, object) == Some(first) {
            let waited = begun.elapsed();
            let mut interval = INTERVAL;
            if waited >= self.limits.look_after {
                if of.is_gone() || of.is_stopped(accesses.thread(slot)) {
                    return true;
                }
                if waited >= self.limits.give_up_after {
                    return false;
                }
                interval = (waited / 16).min(MAX_INTERVAL);
            }
            thread::sleep(interval);
        }
        true
    }

    fn distrust(&self, number: u64, accessor: &dyn Accessor) {
        let pid = accessor.pid();
        log::warn!("uroce: process {pid} does not end an access to memory: it gets none any more");
        accessor.accesses().revoke();
        let mut list = self.list.lock();
        list.all.retain(|(other, _)| *other != number);
        let count = list.distrusted_count;
        if let Some(entry) = list.distrusted.get_mut(count) {
            *entry = pid;
            list.distrusted_count += 1;
        }
    }
}

impl List {
    fn trusts(&self, pid: libc::pid_t) -> bool {
        let distrusted = &self.distrusted[..self.distrusted_count];
        distrusted.len() < MAX_DISTRUSTED && !distrusted.contains(&pid)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU32};

    use super::*;

    const ENDLESS: Limits = Limits {
        look_after: Duration::ZERO,
        give_up_after: Duration::MAX,
    };
    const AT_ONCE: Limits = Limits {
        give_up_after: Duration::ZERO,
        ..ENDLESS
    };
    const REGION: Object = Object::Region(9);

    #[derive(Default)]
    struct TestAccessor {
        accesses: Accesses,
        pid: libc::pid_t,
        gone: AtomicBool,
        stopped: AtomicBool,
        /// How often it was looked at.
        looks: AtomicU32,
    }

    impl Accessor for TestAccessor {
        fn accesses(&self) -> &Accesses {
            &self.accesses
        }

        fn pid(&self) -> libc::pid_t {
            self.pid
        }

        fn is_gone(&self) -> bool {
            self.looks.fetch_add(1, Ordering::Relaxed);
            self.gone.load(Ordering::Relaxed)
        }

        fn is_stopped(&self, _thread: u32) -> bool {
            self.stopped.load(Ordering::Relaxed)
        }
    }

    fn with_one(limits: Limits) -> (Accessors, Arc<TestAccessor>) {
        let accessors = Accessors::with_limits(limits);
        let one = Arc::new(TestAccessor {
            pid: 5,
            ..TestAccessor::default()
        });
        assert!(accessors.add(one.clone()));
        (accessors, one)
    }

    #[test]
    fn only_accesses_that_name_the_object_are_waited_for() {
        let (accessors, one) = with_one(ENDLESS);
        one.accesses.begin(1, 7, 10);
        accessors.wait(REGION);
        accessors.wait(Object::QueuePair(10));
        assert_eq!(one.looks.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn an_access_in_progress_is_waited_for() {
        for object in [REGION, Object::QueuePair(7)] {
            let (accessors, one) = with_one(ENDLESS);
            one.accesses.begin(1, 7, 9);
            let waited = AtomicBool::new(false);
            thread::scope(|scope| {
                scope.spawn(|| {
                    accessors.wait(object);
                    waited.store(true, Ordering::SeqCst);
                });
                while one.looks.load(Ordering::Relaxed) < 3 {
                    thread::yield_now();
                }
                assert!(!waited.load(Ordering::SeqCst));
                one.accesses.end(1);
                // Another one, which began later.
                one.accesses.begin(1, 7, 9);
            });
            assert!(one.looks.load(Ordering::Relaxed) >= 3);
        }
    }

    #[test]
    fn neither_the_dead_nor_the_stopped_are_waited_for() {
        for is_gone in [true, false] {
            let (accessors, one) = with_one(ENDLESS);
            one.accesses.begin(2, 7, 9);
            one.gone.store(is_gone, Ordering::Relaxed);
            one.stopped.store(!is_gone, Ordering::Relaxed);
            accessors.wait(REGION);
            accessors.remove_gone();
            assert_eq!(accessors.count(), usize::from(!is_gone));
        }
    }

    /// The wait for an access that does not end is over after the limit, and no other connection
    /// waits again.
    #[test]
    fn an_access_that_does_not_end_costs_the_limit_once() {
        let (accessors, one) = with_one(AT_ONCE);
        let other = Arc::new(TestAccessor::default());
        assert!(accessors.add(other.clone()));
        one.accesses.begin(2, 7, 9);
        accessors.wait(REGION);
        // SAFETY: the word is the test's.
        assert_eq!(unsafe { *one.accesses.revoked() }, 1);
        let looks = one.looks.load(Ordering::Relaxed);
        accessors.wait(REGION);
        assert_eq!(one.looks.load(Ordering::Relaxed), looks);
        assert_eq!(accessors.count(), 1);
        assert!(!accessors.add(one) && accessors.add(other));
    }

    #[test]
    fn whoever_has_met_many_of_them_trusts_nobody_any_more() {
        let accessors = Accessors::with_limits(AT_ONCE);
        for pid in 1..=MAX_DISTRUSTED as libc::pid_t {
            let one = Arc::new(TestAccessor {
                pid,
                ..TestAccessor::default()
            });
            assert!(accessors.add(one.clone()));
            one.accesses.begin(0, 7, 9);
            accessors.wait(REGION);
        }
        assert!(!accessors.add(Arc::new(TestAccessor::default())));
    }
}
