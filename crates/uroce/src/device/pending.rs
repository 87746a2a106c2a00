//! A list of what is left to a thread that runs later, and a flag that tells without a lock whether it is
//! worth a look. Pure.
//!
//! Invariant: while nobody adds or takes, the flag is set if the list is not empty.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::sync::Mutex;

/// A list of what is left to a later thread. The flag orders no other memory access: who must not miss what
/// another thread adds at that moment, fences ([`super::activity::Activity::may_leave_deferred`]).
pub(super) struct Pending<T> {
    any: AtomicBool,
    items: Mutex<Vec<T>>,
}

impl<T> Default for Pending<T> {
    fn default() -> Pending<T> {
        Pending {
            any: AtomicBool::new(false),
            items: Mutex::default(),
        }
    }
}

impl<T> Pending<T> {
    /// Whether there may be some.
    #[inline]
    pub fn any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    /// Adds one. False if there is no memory for that.
    pub fn add(&self, item: T) -> bool {
        let mut items = self.items.lock();
        if items.try_reserve(1).is_err() {
            return false;
        }
        items.push(item);
        drop(items);
        self.any.store(true, Ordering::Relaxed);
        true
    }

    /// Adds one behind the others, within the `each` of [`Pending::take_each`]. False if there is no memory.
    pub fn add_again(&self, item: T) -> bool {
        let mut items = self.items.lock();
        let has_room = items.try_reserve(1).is_ok();
        if has_room {
            items.insert(0, item);
        }
        has_room
    }

    /// Calls `each` with those that are there now, the latest first. The list is not locked meanwhile.
    pub fn take_each(&self, mut each: impl FnMut(T)) {
        self.any.store(false, Ordering::Relaxed);
        let count = self.items.lock().len();
        for _ in 0..count {
            let Some(item) = self.items.lock().pop() else {
                break;
            };
            each(item);
        }
        // Items that were added meanwhile are left too.
        let is_empty = self.items.lock().is_empty();
        if !is_empty {
            self.any.store(true, Ordering::Relaxed);
        }
    }

    /// [`Pending::take_each`] when the process exits: ends where the list is locked, as its holder may never
    /// run again.
    pub fn take_each_unlocked(&self, each: impl FnMut(T)) {
        let next = || self.items.try_lock()?.pop();
        // No more than there are now: `each` may add some again.
        let count = self.items.try_lock().map_or(0, |items| items.len());
        (0..count).map_while(|_| next()).for_each(each);
    }

    /// Drops all.
    pub fn clear(&self) {
        self.items.lock().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(pending: &Pending<u8>) -> Vec<u8> {
        let mut taken = Vec::new();
        pending.take_each(|item| taken.push(item));
        taken
    }

    #[test]
    fn each_is_taken_once() {
        let pending = Pending::default();
        assert!(!pending.any());
        assert!([1, 2, 3].into_iter().all(|item| pending.add(item)));
        assert!(pending.any());
        assert_eq!(taken(&pending), [3, 2, 1]);
        assert!(!pending.any());
        assert_eq!(taken(&pending), []);
    }

    /// An item that cannot be served now delays neither the others nor the thread.
    #[test]
    fn what_is_added_again_is_left_to_the_next_call() {
        let pending = Pending::default();
        assert!(pending.add(1) && pending.add(2));
        let mut calls = 0;
        pending.take_each(|item| {
            calls += 1;
            assert!(item != 2 || pending.add_again(2));
        });
        assert_eq!(calls, 2);
        assert!(pending.any());
        assert_eq!(taken(&pending), [2]);
    }

    #[test]
    fn a_locked_list_does_not_hold_up_an_exit() {
        let pending = Pending::default();
        assert!(pending.add(1) && pending.add(2));
        let mut left = Vec::new();
        let locked = pending.items.lock();
        pending.take_each_unlocked(|item| left.push(item));
        drop(locked);
        assert_eq!(left, []);
        pending.take_each_unlocked(|item| left.push(item));
        assert_eq!(left, [2, 1]);
    }
}
