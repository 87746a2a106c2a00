//! `crate::nofault` on riscv64.

use core::arch::global_asm;
use core::ffi::{CStr, c_void};

/// The version of the first functions of glibc.
#[allow(dead_code, reason = "musl has no symbol versions")]
pub const LIBC_VERSION: &CStr = c"GLIBC_2.27";

/// All CPUs have what the functions use.
pub fn prepare() {}

// a0, a1 and a2 are the arguments; a0 and a1 return what `crate::nofault::Outcome` has. No function uses the
// stack, so each may end at any instruction as `uroce_nofault_fixup` does.
//
// Accesses that are not aligned may trap into the kernel, so there are none. If source and destination are
// aligned differently, each word is shifted together from two. Both have bytes that are to be copied, so no
// page is read that need not be there.
global_asm!(
    r#"
    .pushsection .text.uroce_nofault, "ax", @progbits
    .macro uroce_nofault_function name
        .p2align 5
        .globl \name
        .hidden \name
        .type \name, @function
        \name:
        .cfi_startproc
    .endm
    .macro uroce_nofault_done
        li a0, 0
        ret
    .endm

    .globl uroce_nofault_start
    .hidden uroce_nofault_start
    uroce_nofault_start:

    uroce_nofault_function uroce_nofault_copy
        add a3, a0, a2
        li t0, 16
        bltu a2, t0, 60f
    10:
        andi t0, a0, 7
        beqz t0, 11f
        lbu a4, 0(a1)
        sb a4, 0(a0)
        addi a0, a0, 1
        addi a1, a1, 1
        j 10b
    11:
        andi t1, a3, -8
        andi t2, a1, 7
        bnez t2, 40f
        addi t3, t1, -56
    20:
        bgeu a0, t3, 30f
        ld a4, 0(a1)
        ld a5, 8(a1)
        ld a6, 16(a1)
        ld a7, 24(a1)
        ld t0, 32(a1)
        ld t4, 40(a1)
        ld t5, 48(a1)
        ld t6, 56(a1)
        sd a4, 0(a0)
        sd a5, 8(a0)
        sd a6, 16(a0)
        sd a7, 24(a0)
        sd t0, 32(a0)
        sd t4, 40(a0)
        sd t5, 48(a0)
        sd t6, 56(a0)
        addi a0, a0, 64
        addi a1, a1, 64
        j 20b
    30:
        bgeu a0, t1, 60f
        ld a4, 0(a1)
        sd a4, 0(a0)
        addi a0, a0, 8
        addi a1, a1, 8
        j 30b
    40:
        sub a1, a1, t2
        slli t3, t2, 3
        neg t4, t3
        ld a4, 0(a1)
    50:
        bgeu a0, t1, 51f
        ld a5, 8(a1)
        srl a6, a4, t3
        sll a7, a5, t4
        or a6, a6, a7
        sd a6, 0(a0)
        mv a4, a5
        addi a0, a0, 8
        addi a1, a1, 8
        j 50b
    51:
        add a1, a1, t2
    60:
        bgeu a0, a3, 61f
        lbu a4, 0(a1)
        sb a4, 0(a0)
        addi a0, a0, 1
        addi a1, a1, 1
        j 60b
    61:
        uroce_nofault_done
        .cfi_endproc

    uroce_nofault_function uroce_nofault_load
        ld a1, 0(a0)
        uroce_nofault_done
        .cfi_endproc

    uroce_nofault_function uroce_nofault_store
        fence rw, w
        sd a1, 0(a0)
        uroce_nofault_done
        .cfi_endproc

    uroce_nofault_function uroce_nofault_compare_exchange
    // With LTO, the assembler of this text does not know the target's extensions.
    .option push
    .option arch, +a
    70:
        lr.d.aqrl t0, (a0)
        bne t0, a1, 71f
        sc.d.rl t1, a2, (a0)
        bnez t1, 70b
    .option pop
    71:
        mv a1, t0
        uroce_nofault_done
        .cfi_endproc

    .globl uroce_nofault_end
    .hidden uroce_nofault_end
    uroce_nofault_end:

    uroce_nofault_function uroce_nofault_fixup
        li a0, 1
        ret
        .cfi_endproc

    .purgem uroce_nofault_function
    .purgem uroce_nofault_done
    .popsection
    "#
);

/// How many of `len` bytes [`stream`] is to copy: none. There are no stores that bypass the caches.
#[inline]
pub fn streamed_len(_to: *mut u8, _len: usize) -> usize {
    0
}

/// Copies by stores that bypass the caches; not called here.
///
/// # Safety
/// None: it copies nothing, and says that it has failed.
#[inline]
pub unsafe fn stream(_to: *mut u8, _from: *const u8, _len: usize) -> usize {
    1
}

/// The instruction pointer of the code that a signal has interrupted.
///
/// # Safety
/// `context` is what the kernel passes to a signal handler, which runs.
pub unsafe fn instruction_pointer(context: *mut c_void) -> *mut usize {
    let context = context.cast::<libc::ucontext_t>();
    // SAFETY: the structure is valid, as the caller says.
    unsafe { (&raw mut (*context).uc_mcontext.__gregs[libc::REG_PC]).cast() }
}
