//! Whether the process has one thread, as glibc 2.32 and later tell (`__libc_single_threaded`); no other
//! libc does, and there the answer is no.

// A weak reference, which Rust has no words for: the address of the variable, or null.
core::arch::global_asm!(
    ".weak __libc_single_threaded",
    ".pushsection .data.rel.ro.ibverbs_alone,\"aw\",@progbits",
    ".p2align 3",
    ".globl ibverbs_alone",
    ".hidden ibverbs_alone",
    ".type ibverbs_alone,@object",
    ".size ibverbs_alone,8",
    "ibverbs_alone:",
    ".quad __libc_single_threaded",
    ".popsection",
);

unsafe extern "C" {
    #[link_name = "ibverbs_alone"]
    static VARIABLE: *const u8;
}

/// Whether no other thread runs now, nor will before this one makes one. It may say no when there is
/// none (after others have ended).
#[inline]
pub fn is_single_threaded() -> bool {
    // SAFETY: the word above, which the dynamic linker has written before any code of this library
    // runs. What it points to is libc's for as long as the process lives, and written by this thread
    // itself (when it makes another one) or after all others have gone: never while it is read.
    unsafe { !VARIABLE.is_null() && VARIABLE.read_volatile() != 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_threads_is_not_alone() {
        std::thread::spawn(|| assert!(!is_single_threaded()))
            .join()
            .unwrap();
    }
}
