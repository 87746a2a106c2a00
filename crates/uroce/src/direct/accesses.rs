//! The accesses that one process has in progress to the memory of another.

#[cfg(not(loom))]
use std::sync::atomic::{AtomicU32, Ordering, fence};

#[cfg(loom)]
use loom::sync::atomic::{AtomicU32, Ordering, fence};

const SLOTS: usize = if cfg!(loom) { 1 } else { 16 };

/// The announcements of an initiator, in memory that its target maps too. Zeros: none. A slot is odd while
/// an access is in progress, and has another value after each.
#[repr(C, align(64))]
#[derive(Default)]
pub struct Accesses {
    slots: [AtomicU32; SLOTS],
}

impl Accesses {
    /// Accesses in progress at a time. Further ones take the ordinary path.
    pub const SLOTS: usize = SLOTS;

    /// The initiator: from now on the target waits for this access before it takes memory away. The caller
    /// has the slot for itself.
    pub fn begin(&self, slot: usize) {
        let word = &self.slots[slot];
        word.store(word.load(Ordering::Relaxed) | 1, Ordering::Relaxed);
        // Before the table is read: see `direct/mod.rs`.
        fence(Ordering::SeqCst);
    }

    /// The initiator: the access has ended. `begin` was called for the slot.
    pub fn end(&self, slot: usize) {
        let word = &self.slots[slot];
        let ended = (word.load(Ordering::Relaxed) | 1).wrapping_add(1);
        word.store(ended, Ordering::Release);
    }

    /// The target: the access in progress in a slot; None if there is none.
    pub fn in_progress(&self, slot: usize) -> Option<u32> {
        let value = self.slots[slot].load(Ordering::Acquire);
        (value & 1 != 0).then_some(value)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn each_access_has_another_value() {
        let accesses = Accesses::default();
        assert_eq!(accesses.in_progress(3), None);
        accesses.begin(3);
        let first = accesses.in_progress(3);
        assert!(first.is_some() && accesses.in_progress(2).is_none());
        accesses.end(3);
        assert_eq!(accesses.in_progress(3), None);
        accesses.begin(3);
        assert!(
            accesses
                .in_progress(3)
                .is_some_and(|value| Some(value) != first)
        );
    }
}
