//! arm64, little-endian.

#[cfg(all(feature = "exports", not(test)))]
macro_rules! jump {
    () => {
        "b {imp}\n"
    };
}

#[cfg(any(test, not(feature = "static")))]
macro_rules! multiarch {
    () => {
        "aarch64-linux-gnu"
    };
}

/// `EM_AARCH64`.
#[cfg(any(test, not(feature = "static")))]
pub const ELF_MACHINE: u16 = 183;

/// A CPU may read two words that a device has written in the opposite order.
pub const DEVICE_WRITES_ARE_ORDERED: bool = false;

/// The address of the instruction that a signal has interrupted.
///
/// # Safety
/// `context` is the third argument of a handler with SA_SIGINFO.
pub unsafe fn program_counter(context: *const core::ffi::c_void) -> usize {
    // SAFETY: the kernel passes a ucontext_t, as the caller promises.
    unsafe { (*context.cast::<libc::ucontext_t>()).uc_mcontext.pc as usize }
}

/// The alignment of functions in bytes, at least: all instructions are aligned so.
pub const FUNCTION_ALIGNMENT: usize = 4;

/// The number of poll(2), which newer architectures do not have.
pub const SYS_POLL: Option<core::ffi::c_long> = None;
/// The number of epoll_wait(2); None if there is only epoll_pwait(2).
pub const SYS_EPOLL_WAIT: Option<core::ffi::c_long> = None;

/// Builds the `va_list` of the procedure call standard (AAPCS64, appendix B), a structure of 32 bytes, which
/// is passed by its address. The frame has the frame record, the `va_list` at 16, x0 to x7 at 48, q0 to q7
/// at 112; it ends at 240. The offsets in `va_list` are negative, counted from the ends of the two areas.
///
/// `$fixed` integer or pointer arguments precede the `...`. `$label` is the function's name in assembly.
/// `#[unsafe(naked)]` needs Rust 1.88.
#[cfg(all(feature = "exports", not(test)))]
macro_rules! variadic {
    ($(#[$doc:meta])* pub fn $name:ident = $label:literal, fixed = $fixed:tt => $imp:path) => {
        unsafe extern "C" {
            $(#[$doc])*
            #[link_name = $label]
            pub fn $name();
        }
        core::arch::global_asm!(
            concat!(".pushsection .text.", $label, ",\"ax\",@progbits\n.p2align 4\n"),
            concat!(".globl ", $label, "\n.hidden ", $label, "\n.type ", $label, ",@function\n"),
            concat!($label, ":"),
            ".cfi_startproc",
            "stp x29, x30, [sp, #-240]!",
            ".cfi_def_cfa_offset 240",
            ".cfi_offset w29, -240",
            ".cfi_offset w30, -232",
            "mov x29, sp",
            "stp x0, x1, [sp, #48]",
            "stp x2, x3, [sp, #64]",
            "stp x4, x5, [sp, #80]",
            "stp x6, x7, [sp, #96]",
            "stp q0, q1, [sp, #112]",
            "stp q2, q3, [sp, #144]",
            "stp q4, q5, [sp, #176]",
            "stp q6, q7, [sp, #208]",
            "add x9, sp, #240",
            "add x10, sp, #112",
            "stp x9, x10, [sp, #16]", // __stack, __gr_top
            "str x9, [sp, #32]", // __vr_top
            "mov w9, #{gr_offs}",
            "mov w10, #-128", // __vr_offs
            "stp w9, w10, [sp, #40]",
            concat!("add x", stringify!($fixed), ", sp, #16"),
            "bl {imp}",
            "ldp x29, x30, [sp], #240",
            ".cfi_restore w30",
            ".cfi_restore w29",
            ".cfi_def_cfa_offset 0",
            "ret",
            ".cfi_endproc",
            concat!(".size ", $label, ",.-", $label, "\n.popsection"),
            gr_offs = const 8 * $fixed - 64,
            imp = sym $imp,
        );
    };
}

/// Passes a request and its five arguments to valgrind. Costs a few register moves outside valgrind.
#[inline(always)]
pub fn valgrind_request(request: [u64; 6]) {
    // SAFETY: the sequence rotates x12 by 128 bits in all and combines x10 with itself: it changes nothing
    // on a real CPU, and under valgrind it sets x3 and reads `request`.
    unsafe {
        core::arch::asm!(
            "ror x12, x12, #3",
            "ror x12, x12, #13",
            "ror x12, x12, #51",
            "ror x12, x12, #61",
            "orr x10, x10, x10",
            in("x4") &request,
            inout("x3") 0u64 => _,
            options(nostack, readonly),
        );
    }
}
