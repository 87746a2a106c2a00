//! Whether the process has one thread. glibc 2.32 and later export it (`__libc_single_threaded`); with
//! another libc the answer is always no.

// The address of the variable, or null: a weak reference, which stable Rust cannot express.
core::arch::global_asm!(
    ".weak __libc_single_threaded",
    ".pushsection .data.rel.ro.ibverbs_single_threaded,\"aw\",@progbits",
    ".p2align 3",
    ".globl ibverbs_single_threaded",
    ".hidden ibverbs_single_threaded",
    ".type ibverbs_single_threaded,@object",
    ".size ibverbs_single_threaded,8",
    "ibverbs_single_threaded:",
    ".quad __libc_single_threaded",
    ".popsection",
);

unsafe extern "C" {
    #[link_name = "ibverbs_single_threaded"]
    static VARIABLE: *const u8;
}

/// Whether this is the only thread, and stays so until it creates another one. May return false although
/// it is the only one (after the others have ended).
#[inline]
pub fn is_single_threaded() -> bool {
    // SAFETY: the dynamic linker fills the word above before code of this library runs. The variable lives
    // as long as the process. Only this thread writes it (when it creates another), or none while others
    // run.
    unsafe { !VARIABLE.is_null() && VARIABLE.read_volatile() != 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_threads_is_not_single_threaded() {
        std::thread::spawn(|| assert!(!is_single_threaded()))
            .join()
            .unwrap();
    }
}
