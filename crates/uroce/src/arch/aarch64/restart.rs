//! `crate::restart` on arm64.

use core::arch::{asm, global_asm};
use core::mem::offset_of;

use crate::arch::rseq::{Area, CHANGED, Call, RESTARTED, STALE};

/// The signature in front of each abort handler, as libc registers it.
pub const SIGNATURE: u32 = 0xd428_bc00;

/// The address that thread-local storage of this thread is relative to.
pub fn thread_pointer() -> usize {
    let pointer;
    // SAFETY: the register may be read by all programs.
    unsafe {
        asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nostack, nomem, preserves_flags));
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
            "adrp {0}, :got:__rseq_offset",
            "ldr {0}, [{0}, :got_lo12:__rseq_offset]",
            "adrp {1}, :got:__rseq_size",
            "ldr {1}, [{1}, :got_lo12:__rseq_size]",
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
        asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nostack, nomem, preserves_flags));
    }
    ticks
}

/// Ticks in ten milliseconds.
pub fn ticks_of_some_ms() -> u64 {
    let frequency: u64;
    // SAFETY: as in `ticks`.
    unsafe {
        asm!("mrs {}, cntfrq_el0", out(reg) frequency, options(nostack, nomem, preserves_flags));
    }
    frequency / 100
}

// The sequence begins at 10 and ends behind the system call, which is its last instruction. So a thread that
// does not run on from it, or from one before it, begins at 40 when it runs again; one that has entered the
// kernel does not.
global_asm!(
    r#"
    .pushsection .data.rel.ro.uroce_restart, "aw", @progbits
    .p2align 5
    uroce_restart_descriptor:
        .word 0, 0
        .xword 10f, 20f - 10f, 40f
    .popsection

    .pushsection .text.uroce_restart, "ax", @progbits
    .p2align 4
    .globl uroce_restartable_call
    .hidden uroce_restartable_call
    .type uroce_restartable_call, %function
    uroce_restartable_call:
        .cfi_startproc
        mov x9, x0
        mov x10, x1
        adrp x11, uroce_restart_descriptor
        add x11, x11, :lo12:uroce_restart_descriptor
        str x11, [x9, #{rseq_cs}]
    10:
    .irp check, 0, 16, 32, 48
        ldr x11, [x10, #({checks} + \check)]
        ldr w11, [x11]
        ldr w12, [x10, #({checks} + \check + 8)]
        cmp w11, w12
        b.ne 30f
    .endr
        mrs x11, cntvct_el0
        ldr x12, [x10, #{verified_at}]
        ldr x12, [x12]
        sub x11, x11, x12
        ldr x12, [x10, #{fresh_ticks}]
        cmp x11, x12
        b.hi 31f
        ldp x0, x1, [x10, #{arguments}]
        ldp x2, x3, [x10, #({arguments} + 16)]
        ldp x4, x5, [x10, #({arguments} + 32)]
        ldr x8, [x10, #{number}]
        svc #0
    20:
    21:
        str xzr, [x9, #{rseq_cs}]
        ret
    30:
        mov x0, #{changed}
        b 21b
    31:
        mov x0, #{stale}
        b 21b
        .inst {signature}
    40:
        mov x0, #{restarted}
        b 21b
        .cfi_endproc
    .size uroce_restartable_call, . - uroce_restartable_call
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
