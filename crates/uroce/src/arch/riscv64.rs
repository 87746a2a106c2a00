//! riscv64 (RV64GC), little-endian.

pub mod nofault;
pub mod restart;

/// `R_RISCV_JUMP_SLOT`.
pub const JUMP_SLOT: u32 = 5;
/// `R_RISCV_64`, of which entries of the GOT are too.
pub const GLOB_DAT: u32 = ABSOLUTE;
/// `R_RISCV_64`.
pub const ABSOLUTE: u32 = 2;
/// The order in which other CPUs see copies that follow each other may be another one.
pub const COPIES_IN_ORDER: bool = false;

/// `fence(SeqCst)`.
#[cfg(not(loom))]
#[inline(always)]
pub fn full_fence() {
    core::sync::atomic::fence(core::sync::atomic::Ordering::SeqCst);
}

/// Does nothing: a prefetch is an extension (Zicbop).
#[cfg(not(loom))]
#[inline(always)]
pub fn prefetch_for_write(_line: *const u8) {}

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
            "addi sp, sp, -32\n",
            "sd ra, 24(sp)\n",
            "sd a0, 8(sp)\n",
            "sd a1, 0(sp)\n",
            "mv a2, ra\n",
            "call {may_call}\n",
            "andi t0, a0, 0xff\n",
            "ld a1, 0(sp)\n",
            "ld a0, 8(sp)\n",
            "ld ra, 24(sp)\n",
            "addi sp, sp, 32\n",
            "beqz t0, 2f\n",
            "tail {load}\n",
            "2:\n",
            "lla t1, {real}\n",
            "ld t1, 0(t1)\n",
            "jr t1\n",
        )
    };
}

/// The instructions of dlsym: calls `{look}` with the arguments. Returns its result if that is not NULL, else
/// jumps to where `{real}` points, with the arguments.
macro_rules! dlsym_entry {
    () => {
        concat!(
            "addi sp, sp, -32\n",
            "sd ra, 24(sp)\n",
            "sd a0, 8(sp)\n",
            "sd a1, 0(sp)\n",
            "call {look}\n",
            "mv t0, a0\n",
            "ld a1, 0(sp)\n",
            "ld a0, 8(sp)\n",
            "ld ra, 24(sp)\n",
            "addi sp, sp, 32\n",
            "beqz t0, 2f\n",
            "mv a0, t0\n",
            "ret\n",
            "2:\n",
            "lla t1, {real}\n",
            "ld t1, 0(t1)\n",
            "jr t1\n",
        )
    };
}
