//! arm64, little-endian.

pub mod nofault;
pub mod restart;

/// `R_AARCH64_JUMP_SLOT`.
pub const JUMP_SLOT: u32 = 1026;
/// `R_AARCH64_GLOB_DAT`.
pub const GLOB_DAT: u32 = 1025;
/// `R_AARCH64_ABS64`.
pub const ABSOLUTE: u32 = 257;
/// The order in which other CPUs see copies that follow each other may be another one.
pub const COPIES_IN_ORDER: bool = false;

/// `fence(SeqCst)`.
#[cfg(not(loom))]
#[inline(always)]
pub fn full_fence() {
    core::sync::atomic::fence(core::sync::atomic::Ordering::SeqCst);
}

/// Moves a cache line to this CPU, for stores. It has no other effect, whatever the address is.
#[cfg(not(loom))]
#[inline(always)]
pub fn prefetch_for_write(line: *const u8) {
    // SAFETY: a prefetch accesses nothing as far as programs can tell, and does not fault.
    unsafe {
        core::arch::asm!("prfm pstl1keep, [{}]", in(reg) line, options(nostack, readonly, preserves_flags))
    };
}

/// System calls of x86-64: numbers that no call has.
pub const SYS_OPEN: i64 = -1;
pub const SYS_STAT: i64 = -2;
pub const SYS_LSTAT: i64 = -3;
pub const SYS_ACCESS: i64 = -4;
pub const SYS_READLINK: i64 = -5;
pub const SYS_DUP2: i64 = -6;

/// The instructions of dlopen: calls `{may_call}` with the arguments and the return address, then jumps to
/// `{load}` if that returned true, else to where `{real}` points.
macro_rules! dlopen_entry {
    () => {
        concat!(
            "hint #34\n",
            "stp x29, x30, [sp, #-32]!\n",
            "mov x29, sp\n",
            "stp x0, x1, [sp, #16]\n",
            "mov x2, x30\n",
            "bl {may_call}\n",
            "and w9, w0, #0xff\n",
            "ldp x0, x1, [sp, #16]\n",
            "ldp x29, x30, [sp], #32\n",
            "cbz w9, 2f\n",
            "b {load}\n",
            "2:\n",
            "adrp x16, {real}\n",
            "ldr x16, [x16, :lo12:{real}]\n",
            "br x16\n",
        )
    };
}

/// The instructions of dlsym: calls `{look}` with the arguments. Returns its result if that is not NULL, else
/// jumps to where `{real}` points, with the arguments.
macro_rules! dlsym_entry {
    () => {
        concat!(
            "hint #34\n",
            "stp x29, x30, [sp, #-32]!\n",
            "mov x29, sp\n",
            "stp x0, x1, [sp, #16]\n",
            "bl {look}\n",
            "mov x9, x0\n",
            "ldp x0, x1, [sp, #16]\n",
            "ldp x29, x30, [sp], #32\n",
            "cbz x9, 2f\n",
            "mov x0, x9\n",
            "ret\n",
            "2:\n",
            "adrp x16, {real}\n",
            "ldr x16, [x16, :lo12:{real}]\n",
            "br x16\n",
        )
    };
}
