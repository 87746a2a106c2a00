//! `crate::restart` on x86-64.

use core::arch::{asm, global_asm};
use core::mem::offset_of;

use crate::arch::rseq::{Area, CHANGED, Call, RESTARTED, STALE};

/// The signature in front of each abort handler, as libc registers it.
pub const SIGNATURE: u32 = 0x5305_3053;

/// The address that thread-local storage of this thread is relative to.
pub fn thread_pointer() -> usize {
    let pointer;
    // SAFETY: the ABI of x86-64 has the thread pointer there.
    unsafe {
        asm!("mov {}, fs:[0]", out(reg) pointer, options(nostack, readonly, preserves_flags));
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
            "mov {0}, [rip + __rseq_offset@GOTPCREL]",
            "mov {1}, [rip + __rseq_size@GOTPCREL]",
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
    // SAFETY: the instruction has no preconditions.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Ticks in some milliseconds: 4 at 5 GHz, 20 at 1 GHz.
pub fn ticks_of_some_ms() -> u64 {
    20_000_000
}

// The sequence begins at 10 and ends behind the system call, which is its last instruction. So a thread that
// does not run on from it, or from one before it, begins at 40 when it runs again; one that has entered the
// kernel does not.
global_asm!(
    r#"
    .pushsection .data.rel.ro.uroce_restart, "aw", @progbits
    .p2align 5
    1000:
        .long 0, 0
        .quad 10f, 20f - 10f, 40f
    .popsection

    .pushsection .text.uroce_restart, "ax", @progbits
    .p2align 4
    .globl uroce_restartable_call
    .hidden uroce_restartable_call
    .type uroce_restartable_call, @function
    uroce_restartable_call:
        .cfi_startproc
        push rbx
        .cfi_adjust_cfa_offset 8
        .cfi_rel_offset rbx, 0
        mov rbx, rdi
        mov r11, rsi
        lea rax, [rip + 1000b]
        mov [rbx + {rseq_cs}], rax
    10:
    .irp check, 0, 16, 32, 48
        mov rax, [r11 + {checks} + \check]
        mov eax, [rax]
        cmp eax, [r11 + {checks} + \check + 8]
        jne 30f
    .endr
        rdtsc
        shl rdx, 32
        or rax, rdx
        mov rdx, [r11 + {verified_at}]
        sub rax, [rdx]
        cmp rax, [r11 + {fresh_ticks}]
        ja 31f
        mov rdi, [r11 + {arguments}]
        mov rsi, [r11 + {arguments} + 8]
        mov rdx, [r11 + {arguments} + 16]
        mov r10, [r11 + {arguments} + 24]
        mov r8, [r11 + {arguments} + 32]
        mov r9, [r11 + {arguments} + 40]
        mov rax, [r11 + {number}]
        syscall
    20:
    21:
        mov qword ptr [rbx + {rseq_cs}], 0
        pop rbx
        .cfi_remember_state
        .cfi_adjust_cfa_offset -8
        .cfi_restore rbx
        ret
        .cfi_restore_state
    30:
        mov rax, {changed}
        jmp 21b
    31:
        mov rax, {stale}
        jmp 21b
        .byte 0x0f, 0xb9, 0x3d
        .long {signature}
    40:
        mov rax, {restarted}
        jmp 21b
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
