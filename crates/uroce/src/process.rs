//! Which process this is: fork(2) copies all of the library's state, but a child must not use most of it.

use std::sync::atomic::{AtomicU32, Ordering};

/// 0 in the process that loaded the library, 1 in its children, 2 in theirs, and so on.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// A number that differs in parent and child. An object of another generation was inherited.
#[inline]
pub fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

/// Called in a child of fork(2), before any other thread exists there.
pub fn become_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}
