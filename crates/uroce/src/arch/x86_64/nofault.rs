//! `crate::nofault` on x86-64.

use core::arch::global_asm;
use core::ffi::{CStr, c_void};
use core::sync::atomic::{AtomicBool, Ordering};

/// The version of the first functions of glibc.
#[allow(dead_code, reason = "musl has no symbol versions")]
pub const LIBC_VERSION: &CStr = c"GLIBC_2.2.5";

/// Whether the CPU and the kernel have AVX: 32 bytes at once.
static HAS_AVX: AtomicBool = AtomicBool::new(false);

/// Finds out what the CPU can do.
pub fn prepare() {
    HAS_AVX.store(is_x86_feature_detected!("avx"), Ordering::Relaxed);
}

// rdi, rsi and rdx are the arguments; rax and rdx return what `crate::nofault::Outcome` has. No function uses
// the stack, so each may end at any instruction as `uroce_nofault_fixup` does.
//
// More than 128 bytes are copied from the start, the last 128 (64) of them by loads before the first store.
// `rep movsb` would save the loop. On AMD EPYC with FSRM it takes 30 times as long if the destination lies 8
// to 48 bytes behind the source modulo 4096, and saves nothing else.
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
        xor eax, eax
        ret
    .endm

    .globl uroce_nofault_start
    .hidden uroce_nofault_start
    uroce_nofault_start:

    .p2align 6
    uroce_nofault_function uroce_nofault_copy
        cmp rdx, 16
        jb 10f
        cmp rdx, 32
        ja 20f
        movups xmm0, [rsi]
        movups xmm1, [rsi + rdx - 16]
        movups [rdi], xmm0
        movups [rdi + rdx - 16], xmm1
        uroce_nofault_done
    10:
        cmp edx, 8
        jb 11f
        mov rax, [rsi]
        mov rcx, [rsi + rdx - 8]
        mov [rdi], rax
        mov [rdi + rdx - 8], rcx
        uroce_nofault_done
    11:
        cmp edx, 4
        jb 12f
        mov eax, [rsi]
        mov ecx, [rsi + rdx - 4]
        mov [rdi], eax
        mov [rdi + rdx - 4], ecx
        uroce_nofault_done
    12:
        test edx, edx
        je 13f
        mov r8d, edx
        shr r8d, 1
        movzx eax, byte ptr [rsi]
        movzx r9d, byte ptr [rsi + r8]
        movzx ecx, byte ptr [rsi + rdx - 1]
        mov [rdi], al
        mov [rdi + r8], r9b
        mov [rdi + rdx - 1], cl
    13:
        uroce_nofault_done
    20:
        cmp rdx, 64
        ja 30f
        movups xmm0, [rsi]
        movups xmm1, [rsi + 16]
        movups xmm2, [rsi + rdx - 32]
        movups xmm3, [rsi + rdx - 16]
        movups [rdi], xmm0
        movups [rdi + 16], xmm1
        movups [rdi + rdx - 32], xmm2
        movups [rdi + rdx - 16], xmm3
        uroce_nofault_done
    30:
        cmp rdx, 128
        jbe 50f
        cmp byte ptr [rip + {has_avx}], 0
        je 50f
        vmovups ymm4, [rsi + rdx - 128]
        vmovups ymm5, [rsi + rdx - 96]
        vmovups ymm6, [rsi + rdx - 64]
        vmovups ymm7, [rsi + rdx - 32]
        lea rcx, [rdi + rdx - 128]
        .p2align 4
    40:
        vmovups ymm0, [rsi]
        vmovups ymm1, [rsi + 32]
        vmovups ymm2, [rsi + 64]
        vmovups ymm3, [rsi + 96]
        vmovups [rdi], ymm0
        vmovups [rdi + 32], ymm1
        vmovups [rdi + 64], ymm2
        vmovups [rdi + 96], ymm3
        sub rsi, -128
        sub rdi, -128
        cmp rdi, rcx
        jb 40b
        vmovups [rcx], ymm4
        vmovups [rcx + 32], ymm5
        vmovups [rcx + 64], ymm6
        vmovups [rcx + 96], ymm7
        vzeroupper
        uroce_nofault_done
    50:
        movups xmm4, [rsi + rdx - 64]
        movups xmm5, [rsi + rdx - 48]
        movups xmm6, [rsi + rdx - 32]
        movups xmm7, [rsi + rdx - 16]
        lea rcx, [rdi + rdx - 64]
        .p2align 4
    60:
        movups xmm0, [rsi]
        movups xmm1, [rsi + 16]
        movups xmm2, [rsi + 32]
        movups xmm3, [rsi + 48]
        movups [rdi], xmm0
        movups [rdi + 16], xmm1
        movups [rdi + 32], xmm2
        movups [rdi + 48], xmm3
        add rsi, 64
        add rdi, 64
        cmp rdi, rcx
        jb 60b
        movups [rcx], xmm4
        movups [rcx + 16], xmm5
        movups [rcx + 32], xmm6
        movups [rcx + 48], xmm7
        uroce_nofault_done
        .cfi_endproc

    // rdi is a multiple of 16, rdx one of 64 and not 0. The stores do not load the lines that they write.
    uroce_nofault_function uroce_nofault_stream
        add rdx, rdi
        .p2align 4
    80:
        movups xmm0, [rsi]
        movups xmm1, [rsi + 16]
        movups xmm2, [rsi + 32]
        movups xmm3, [rsi + 48]
        movntps [rdi], xmm0
        movntps [rdi + 16], xmm1
        movntps [rdi + 32], xmm2
        movntps [rdi + 48], xmm3
        add rsi, 64
        add rdi, 64
        cmp rdi, rdx
        jb 80b
        sfence
        uroce_nofault_done
        .cfi_endproc

    uroce_nofault_function uroce_nofault_load
        mov rdx, [rdi]
        uroce_nofault_done
        .cfi_endproc

    uroce_nofault_function uroce_nofault_store
        mov [rdi], rsi
        uroce_nofault_done
        .cfi_endproc

    uroce_nofault_function uroce_nofault_compare_exchange
        mov rax, rsi
        lock cmpxchg [rdi], rdx
        mov rdx, rax
        uroce_nofault_done
        .cfi_endproc

    .globl uroce_nofault_end
    .hidden uroce_nofault_end
    uroce_nofault_end:

    uroce_nofault_function uroce_nofault_fixup
        cmp byte ptr [rip + {has_avx}], 0
        je 70f
        vzeroupper
    70:
        mov eax, 1
        ret
        .cfi_endproc

    .purgem uroce_nofault_function
    .purgem uroce_nofault_done
    .popsection
    "#,
    has_avx = sym HAS_AVX,
);

unsafe extern "C" {
    fn uroce_nofault_stream(to: *mut u8, from: *const u8, len: usize) -> usize;
}

/// Fewer bytes are copied by ordinary stores.
const STREAMED_MIN: usize = 8 << 10;

/// How many of `len` bytes [`stream`] is to copy to `to`.
#[inline]
pub fn streamed_len(to: *mut u8, len: usize) -> usize {
    let is_streamed = len >= STREAMED_MIN && to.addr() % 16 == 0;
    if is_streamed { len & !63 } else { 0 }
}

/// Copies by stores that bypass the caches. Returns 1 if it faults, or 0.
///
/// # Safety
/// As for `crate::nofault::copy`; `len` is what [`streamed_len`] has returned, and not 0.
#[inline]
pub unsafe fn stream(to: *mut u8, from: *const u8, len: usize) -> usize {
    // SAFETY: as the caller says.
    unsafe { uroce_nofault_stream(to, from, len) }
}

/// The instruction pointer of the code that a signal has interrupted.
///
/// # Safety
/// `context` is what the kernel passes to a signal handler, which runs.
pub unsafe fn instruction_pointer(context: *mut c_void) -> *mut usize {
    let context = context.cast::<libc::ucontext_t>();
    // SAFETY: the structure is valid, as the caller says.
    unsafe { (&raw mut (*context).uc_mcontext.gregs[libc::REG_RIP as usize]).cast() }
}
