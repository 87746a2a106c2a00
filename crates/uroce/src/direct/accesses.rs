//! The accesses that one process has in progress to the memory of another.

use std::cell::Cell;

#[cfg(not(loom))]
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

#[cfg(loom)]
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use super::liveness::own_tid;
use crate::process;

const SLOTS: usize = if cfg!(loom) { 1 } else { 16 };
/// The position in a slot's word of the number of its accesses.
const COUNT_SHIFT: u32 = 56;
const QPN_MASK: u32 = 0xff_ffff;

/// The announcements of an initiator, in memory that its target maps too. Zeros: none.
#[repr(C, align(64))]
#[derive(Default)]
pub struct Accesses {
    slots: [Slot; SLOTS],
    /// The target does not wait for this initiator any more. Written by the target.
    revoked: AtomicU32,
}

/// One access at a time.
#[repr(C)]
#[derive(Default)]
struct Slot {
    /// The R_Key of the region, the number of the target's queue pair, and how often accesses have begun and
    /// ended: odd while one is in progress.
    word: AtomicU64,
    /// The kernel's number of the initiator's thread.
    thread: AtomicU32,
}

/// An object that a target takes away from its peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Object {
    /// The region with this R_Key.
    Region(u32),
    /// The queue pair with this number.
    QueuePair(u32),
}

/// An access in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InProgress(u64);

impl InProgress {
    fn concerns(self, object: Object) -> bool {
        match object {
            Object::Region(rkey) => self.0 as u32 == rkey,
            Object::QueuePair(qpn) => (self.0 >> 32) as u32 & QPN_MASK == qpn,
        }
    }
}

impl Accesses {
    /// Accesses in progress at a time. Further ones take the ordinary path.
    pub const SLOTS: usize = SLOTS;

    /// The initiator: from now on the target waits for this access before it takes queue pair or region away.
    /// The caller has the slot for itself.
    pub fn begin(&self, slot: usize, qpn: u32, rkey: u32) {
        let Slot { word, thread } = &self.slots[slot];
        thread.store(own_thread(), Ordering::Relaxed);
        let names = u64::from(qpn & QPN_MASK) << 32 | u64::from(rkey);
        let count = (word.load(Ordering::Relaxed) >> COUNT_SHIFT) | 1;
        word.store(count << COUNT_SHIFT | names, Ordering::Release);
        // Before the table is read: see `direct/mod.rs`.
        fence(Ordering::SeqCst);
    }

    /// The initiator: the access has ended. `begin` was called for the slot.
    pub fn end(&self, slot: usize) {
        let word = &self.slots[slot].word;
        let count = (word.load(Ordering::Relaxed) >> COUNT_SHIFT) | 1;
        word.store((count + 1) << COUNT_SHIFT, Ordering::Release);
    }

    /// The target: the access to an object that is in progress in a slot; None if there is none.
    pub fn in_progress(&self, slot: usize, object: Object) -> Option<InProgress> {
        let word = self.slots[slot].word.load(Ordering::Acquire);
        let found = InProgress(word);
        (word >> COUNT_SHIFT & 1 != 0 && found.concerns(object)).then_some(found)
    }

    /// The target: the thread that has announced the access that is in progress in a slot.
    pub fn thread(&self, slot: usize) -> u32 {
        self.slots[slot].thread.load(Ordering::Relaxed)
    }

    /// The target: from now on the initiator begins no access.
    pub fn revoke(&self) {
        self.revoked.store(1, Ordering::SeqCst);
    }

    /// A word that is 0 until the target has revoked the initiator's access.
    pub fn revoked(&self) -> *const u32 {
        (&raw const self.revoked).cast()
    }
}

/// The kernel's number of the calling thread. A child of fork(2) has another one.
fn own_thread() -> u32 {
    thread_local! {
        static OWN: Cell<(u32, u32)> = const { Cell::new((0, 0)) };
    }
    let generation = process::generation();
    let (of, known) = OWN.get();
    if known != 0 && of == generation {
        return known;
    }
    let found = own_tid();
    OWN.set((generation, found));
    found
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn each_access_has_another_value() {
        let accesses = Accesses::default();
        let region = Object::Region(0x1234_5678);
        assert_eq!(accesses.in_progress(3, region), None);
        accesses.begin(3, 7, 0x1234_5678);
        let first = accesses.in_progress(3, region);
        assert!(first.is_some() && accesses.in_progress(2, region).is_none());
        assert_eq!(accesses.thread(3), own_tid());
        accesses.end(3);
        assert_eq!(accesses.in_progress(3, region), None);
        accesses.begin(3, 7, 0x1234_5678);
        let second = accesses.in_progress(3, region);
        assert!(second.is_some() && second != first);
    }

    #[test]
    fn an_access_concerns_its_region_and_its_queue_pair() {
        let accesses = Accesses::default();
        for _ in 0..300 {
            accesses.begin(0, QPN_MASK, u32::MAX);
            let concerned = [
                (Object::Region(u32::MAX), true),
                (Object::QueuePair(QPN_MASK), true),
                (Object::Region(QPN_MASK), false),
                (Object::QueuePair(QPN_MASK - 1), false),
                (Object::Region(0), false),
            ];
            for (object, is_concerned) in concerned {
                let found = accesses.in_progress(0, object);
                assert_eq!(found.is_some(), is_concerned, "{object:?}");
            }
            accesses.end(0);
            for (object, _) in concerned {
                assert_eq!(accesses.in_progress(0, object), None);
            }
        }
    }

    #[test]
    fn threads_are_told_apart() {
        let other = std::thread::spawn(own_thread).join().unwrap();
        assert_ne!(other, own_thread());
        assert_eq!(own_thread(), own_tid());
    }
}
