//! `crate::nofault` on arm64.

use core::arch::global_asm;
use core::ffi::{CStr, c_void};

/// The version of the first functions of glibc.
#[allow(dead_code, reason = "musl has no symbol versions")]
pub const LIBC_VERSION: &CStr = c"GLIBC_2.17";

/// All CPUs have what the functions use.
pub fn prepare() {}

// x0, x1 and x2 are the arguments; x0 and x1 return what `crate::nofault::Outcome` has. No function uses the
// stack, so each may end at any instruction as `uroce_nofault_fixup` does.
//
// More than 64 bytes are copied from the start, the last 64 of them by loads before the first store.
global_asm!(
    r#"
    .pushsection .text.uroce_nofault, "ax", @progbits
    .macro uroce_nofault_function name
        .p2align 5
        .globl \name
        .hidden \name
        .type \name, %function
        \name:
        .cfi_startproc
    .endm
    .macro uroce_nofault_done
        mov x0, #0
        ret
    .endm

    .globl uroce_nofault_start
    .hidden uroce_nofault_start
    uroce_nofault_start:

    .p2align 6
    uroce_nofault_function uroce_nofault_copy
        add x3, x1, x2
        add x4, x0, x2
        cmp x2, #16
        b.lo 10f
        cmp x2, #32
        b.hi 20f
        ldr q0, [x1]
        ldur q1, [x3, #-16]
        str q0, [x0]
        stur q1, [x4, #-16]
        uroce_nofault_done
    10:
        tbz x2, #3, 11f
        ldr x5, [x1]
        ldur x6, [x3, #-8]
        str x5, [x0]
        stur x6, [x4, #-8]
        uroce_nofault_done
    11:
        tbz x2, #2, 12f
        ldr w5, [x1]
        ldur w6, [x3, #-4]
        str w5, [x0]
        stur w6, [x4, #-4]
        uroce_nofault_done
    12:
        cbz x2, 13f
        lsr x7, x2, #1
        ldrb w5, [x1]
        ldrb w6, [x1, x7]
        ldurb w8, [x3, #-1]
        strb w5, [x0]
        strb w6, [x0, x7]
        sturb w8, [x4, #-1]
    13:
        uroce_nofault_done
    20:
        cmp x2, #64
        b.hi 30f
        ldp q0, q1, [x1]
        ldp q2, q3, [x3, #-32]
        stp q0, q1, [x0]
        stp q2, q3, [x4, #-32]
        uroce_nofault_done
    30:
        ldp q4, q5, [x3, #-64]
        ldp q6, q7, [x3, #-32]
        sub x5, x4, #64
        .p2align 4
    40:
        ldp q0, q1, [x1]
        ldp q2, q3, [x1, #32]
        add x1, x1, #64
        stp q0, q1, [x0]
        stp q2, q3, [x0, #32]
        add x0, x0, #64
        cmp x0, x5
        b.lo 40b
        stp q4, q5, [x5]
        stp q6, q7, [x5, #32]
        uroce_nofault_done
        .cfi_endproc

    uroce_nofault_function uroce_nofault_load
        ldr x1, [x0]
        uroce_nofault_done
        .cfi_endproc

    uroce_nofault_function uroce_nofault_store
        stlr x1, [x0]
        uroce_nofault_done
        .cfi_endproc

    uroce_nofault_function uroce_nofault_compare_exchange
    50:
        ldaxr x3, [x0]
        cmp x3, x1
        b.ne 51f
        stlxr w4, x2, [x0]
        cbnz w4, 50b
    51:
        mov x1, x3
        uroce_nofault_done
        .cfi_endproc

    .globl uroce_nofault_end
    .hidden uroce_nofault_end
    uroce_nofault_end:

    uroce_nofault_function uroce_nofault_fixup
        mov x0, #1
        ret
        .cfi_endproc

    .purgem uroce_nofault_function
    .purgem uroce_nofault_done
    .popsection
    "#
);

/// How many of `len` bytes [`stream`] is to copy: none. STNP has not been measured.
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
    unsafe { (&raw mut (*context).uc_mcontext.pc).cast() }
}
