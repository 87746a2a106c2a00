//! riscv64 (RV64GC), little-endian.

#[cfg(all(feature = "exports", not(test)))]
macro_rules! jump {
    () => {
        "tail {imp}\n"
    };
}

#[cfg(any(test, not(feature = "static")))]
macro_rules! multiarch {
    () => {
        "riscv64-linux-gnu"
    };
}

/// `EM_RISCV`.
#[cfg(any(test, not(feature = "static")))]
pub const ELF_MACHINE: u16 = 243;

/// A CPU may read two words that a device has written in the opposite order.
pub const DEVICE_WRITES_ARE_ORDERED: bool = false;

/// The address of the instruction that a signal has interrupted.
///
/// # Safety
/// `context` is the third argument of a handler with SA_SIGINFO.
pub unsafe fn program_counter(context: *const core::ffi::c_void) -> usize {
    // SAFETY: the kernel passes a ucontext_t, as the caller promises.
    unsafe { (*context.cast::<libc::ucontext_t>()).uc_mcontext.__gregs[libc::REG_PC] as usize }
}

/// The alignment of functions in bytes, at least: compressed instructions are aligned so.
pub const FUNCTION_ALIGNMENT: usize = 2;

/// The number of poll(2), which newer architectures do not have.
pub const SYS_POLL: Option<core::ffi::c_long> = None;
/// The number of epoll_wait(2); None if there is only epoll_pwait(2).
pub const SYS_EPOLL_WAIT: Option<core::ffi::c_long> = None;

/// Builds the `va_list` of the procedure call standard (RISC-V psABI, "Variadic arguments"): a pointer to the
/// arguments, which lie in a row. The frame has the return address at 8, and a0 to a7 at 16; it ends at 80,
/// where the caller has put the arguments that follow. Floating-point arguments travel in integer registers.
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
            "addi sp, sp, -80",
            ".cfi_def_cfa_offset 80",
            "sd ra, 8(sp)",
            ".cfi_offset ra, -72",
            "sd a0, 16(sp)",
            "sd a1, 24(sp)",
            "sd a2, 32(sp)",
            "sd a3, 40(sp)",
            "sd a4, 48(sp)",
            "sd a5, 56(sp)",
            "sd a6, 64(sp)",
            "sd a7, 72(sp)",
            concat!("addi a", stringify!($fixed), ", sp, {variable}"),
            "call {imp}",
            "ld ra, 8(sp)",
            ".cfi_restore ra",
            "addi sp, sp, 80",
            ".cfi_def_cfa_offset 0",
            "ret",
            ".cfi_endproc",
            concat!(".size ", $label, ",.-", $label, "\n.popsection"),
            variable = const 16 + 8 * $fixed,
            imp = sym $imp,
        );
    };
}

/// Passes a request and its five arguments to valgrind. Costs a few register moves outside valgrind.
#[inline(always)]
pub fn valgrind_request(request: [u64; 6]) {
    // SAFETY: the shifts write to the register that is always zero, and a0 is combined with itself: nothing
    // changes on a real CPU, and under valgrind it sets a3 and reads `request`.
    unsafe {
        core::arch::asm!(
            ".option push",
            ".option norvc",
            "srli zero, zero, 3",
            "srli zero, zero, 13",
            "srli zero, zero, 51",
            "srli zero, zero, 61",
            "or a0, a0, a0",
            ".option pop",
            in("a4") &request,
            inout("a3") 0u64 => _,
            options(nostack, readonly),
        );
    }
}
