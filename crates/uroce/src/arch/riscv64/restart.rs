//! `crate::restart` on riscv64.

use core::arch::{asm, global_asm};
use core::mem::offset_of;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::arch::rseq::{Area, CHANGED, Call, RESTARTED, STALE};

/// The signature in front of each abort handler, as libc registers it.
pub const SIGNATURE: u32 = 0xf140_1073;

/// The address that thread-local storage of this thread is relative to.
pub fn thread_pointer() -> usize {
    let pointer;
    // SAFETY: the register may be read by all programs.
    unsafe {
        asm!("mv {}, tp", out(reg) pointer, options(nostack, nomem, preserves_flags));
    }
    pointer
}

/// The addresses of libc's `__rseq_offset` and `__rseq_size`; 0 if it has none.
#[cfg(feature = "archive")]
pub fn libc_symbols() -> [usize; 2] {
    let (offset, size);
    // SAFETY: reads two entries of the GOT, which the linker makes.
    unsafe {
        asm!(
            ".weak __rseq_offset",
            ".weak __rseq_size",
            "lga {0}, __rseq_offset",
            "lga {1}, __rseq_size",
            out(reg) offset,
            out(reg) size,
            options(nostack, readonly, preserves_flags),
        );
    }
    [offset, size]
}

/// A clock that each CPU reads by one instruction.
#[inline]
pub fn ticks() -> u64 {
    let ticks;
    // SAFETY: Linux lets all programs read the register.
    unsafe {
        asm!("rdtime {}", out(reg) ticks, options(nostack, nomem, preserves_flags));
    }
    ticks
}

/// Ticks in ten milliseconds. No instruction reads the frequency, so it is measured once: 0.6 ms. Two threads
/// may measure at once. A lock would block a child of fork(2) for good if another thread held it.
pub fn ticks_of_some_ms() -> u64 {
    /// 0 until it is measured.
    static MEASURED: AtomicU64 = AtomicU64::new(0);
    let mut ticks = MEASURED.load(Ordering::Relaxed);
    if ticks == 0 {
        // A thread that is preempted meanwhile counts too few ticks.
        ticks = (0..3).map(|_| measure()).max().unwrap_or(1);
        MEASURED.store(ticks, Ordering::Relaxed);
    }
    ticks
}

#[cold]
fn measure() -> u64 {
    const SOME: Duration = Duration::from_millis(10);
    let (begin, from) = (Instant::now(), ticks());
    loop {
        let counted = ticks().wrapping_sub(from);
        let elapsed = begin.elapsed();
        if elapsed >= Duration::from_micros(200) {
            let ticks = u128::from(counted) * SOME.as_nanos() / elapsed.as_nanos();
            return u64::try_from(ticks).unwrap_or(u64::MAX).max(1);
        }
        std::hint::spin_loop();
    }
}

// The sequence begins at 10 and ends behind the system call, which is its last instruction. So a thread that
// does not run on from it, or from one before it, begins at 40 when it runs again; one that has entered the
// kernel does not. The kernel changes no register but a0. Without compressed instructions, the signature is
// aligned.
global_asm!(
    r#"
    .pushsection .data.rel.ro.uroce_restart, "aw", @progbits
    .p2align 5
    uroce_restart_descriptor:
        .word 0, 0
        .dword 10f, 20f - 10f, 40f
    .popsection

    .pushsection .text.uroce_restart, "ax", @progbits
    .option push
    .option norvc
    .p2align 4
    .globl uroce_restartable_call
    .hidden uroce_restartable_call
    .type uroce_restartable_call, @function
    uroce_restartable_call:
        .cfi_startproc
        mv t0, a0
        mv t1, a1
        addi t4, t1, {checks}
        addi t5, t1, {checks} + 8
        lla t2, uroce_restart_descriptor
        sd t2, {rseq_cs}(t0)
    10:
    .irp check, 0, 16, 32, 48
        ld t2, \check(t4)
        lw t2, 0(t2)
        lw t3, \check(t5)
        bne t2, t3, 30f
    .endr
        rdtime t2
        ld t3, {verified_at}(t1)
        ld t3, 0(t3)
        sub t2, t2, t3
        ld t3, {fresh_ticks}(t1)
        bgtu t2, t3, 31f
        addi t2, t1, {arguments}
        ld a0, 0(t2)
        ld a1, 8(t2)
        ld a2, 16(t2)
        ld a3, 24(t2)
        ld a4, 32(t2)
        ld a5, 40(t2)
        ld a7, {number}(t1)
        ecall
    20:
    21:
        sd zero, {rseq_cs}(t0)
        ret
    30:
        li a0, {changed}
        j 21b
    31:
        li a0, {stale}
        j 21b
        .word {signature}
    40:
        li a0, {restarted}
        j 21b
        .cfi_endproc
    .size uroce_restartable_call, . - uroce_restartable_call
    .option pop
    .popsection
    "#,
    rseq_cs = const offset_of!(Area, rseq_cs),
    checks = const offset_of!(Call, checks),
    verified_at = const offset_of!(Call, verified_at),
    fresh_ticks = const offset_of!(Call, fresh_ticks),
    arguments = const offset_of!(Call, arguments),
    number = const offset_of!(Call, number),
    changed = const CHANGED,
    stale = const STALE,
    restarted = const RESTARTED,
    signature = const SIGNATURE,
);
