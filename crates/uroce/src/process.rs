//! Which process this is: fork(2) copies all of the library's state, but a child must not use most of it.

use std::sync::atomic::{AtomicU32, Ordering};

/// How many forks, each as the child, lie between this process and the one that loaded the library.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// A number that parent and child do not share. An object of another generation was inherited.
#[inline]
pub fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

/// Called in a child of fork(2), before any other thread exists there.
pub fn become_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}
