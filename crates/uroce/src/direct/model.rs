//! Announcing and withdrawing under loom (`crate::model`). `make test-orderings` runs it.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{Ordering, fence};
use loom::thread;

use super::accesses::{Accesses, Object};
use super::table::Entry;

#[derive(Default)]
struct Shared {
    accesses: Accesses,
    entry: Entry,
    /// The exported memory: loom reports an access of both sides at the same time.
    memory: UnsafeCell<u32>,
}

/// A target that has withdrawn an entry, and has waited, has the memory for itself.
#[test]
fn nobody_accesses_what_was_withdrawn() {
    loom::model(|| {
        let shared = Arc::new(Shared::default());
        shared.entry.write([1; 6]);
        let initiator = thread::spawn({
            let shared = shared.clone();
            move || {
                shared.accesses.begin(0, 1, 2);
                if shared.entry.read().is_some_and(|words| words == [1; 6]) {
                    shared.memory.with_mut(|memory| {
                        // SAFETY: loom checks that nobody else accesses it.
                        unsafe { *memory += 1 }
                    });
                }
                shared.accesses.end(0);
            }
        });
        shared.entry.write([0; 6]);
        fence(Ordering::SeqCst);
        while shared.accesses.in_progress(0, Object::Region(2)).is_some() {
            thread::yield_now();
        }
        shared.memory.with_mut(|memory| {
            // SAFETY: loom checks that nobody else accesses it.
            unsafe { *memory += 1 }
        });
        initiator.join().unwrap();
    });
}

/// The words of an entry are read as they were written at one time.
#[test]
fn entries_are_read_as_a_whole() {
    loom::model(|| {
        let shared = Arc::new(Shared::default());
        let reader = thread::spawn({
            let shared = shared.clone();
            move || {
                if let Some(words) = shared.entry.read() {
                    assert!(words == [0; 6] || words == [1; 6], "{words:?}");
                }
            }
        });
        shared.entry.write([1; 6]);
        reader.join().unwrap();
    });
}
