//! The generation of this process: fork(2) copies all of the library's state, but a child must not
//! use most of it.

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
/// Whether there is memory for some bytes that std or libc cannot allocate fallibly. Another thread may take
/// it meanwhile.
pub fn has_memory(bytes: usize) -> bool {
    let mut probe = Vec::<u8>::new();
    let has_memory = probe.try_reserve_exact(bytes).is_ok();
    // The compiler must not leave out an allocation that nobody uses.
    core::hint::black_box(&probe);
    has_memory
}

/// Whether there is memory for the first use of thread-local storage that is dropped when the thread ends:
/// without it, libc aborts.
pub fn can_register_destructor() -> bool {
    const MORE_THAN_LIBC_NEEDS: usize = 1 << 10;
    has_memory(MORE_THAN_LIBC_NEEDS)
}
