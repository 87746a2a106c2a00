//! x86-64.

#[cfg(all(feature = "exports", not(test)))]
macro_rules! jump {
    () => {
        "jmp {imp}\n"
    };
}

#[cfg(any(test, not(feature = "static")))]
macro_rules! multiarch {
    () => {
        "x86_64-linux-gnu"
    };
}

/// `EM_X86_64`.
#[cfg(any(test, not(feature = "static")))]
pub const ELF_MACHINE: u16 = 62;

pub const DEVICE_WRITES_ARE_ORDERED: bool = true;

/// The address of the instruction that a signal has interrupted.
///
/// # Safety
/// `context` is the third argument of a handler with SA_SIGINFO.
pub unsafe fn program_counter(context: *const core::ffi::c_void) -> usize {
    // SAFETY: the kernel passes a ucontext_t, as the caller promises.
    unsafe {
        (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs[libc::REG_RIP as usize] as usize
    }
}

/// The alignment of functions in bytes, at least: rustc aligns functions so.
pub const FUNCTION_ALIGNMENT: usize = 16;

/// The number of poll(2), which newer architectures do not have.
pub const SYS_POLL: Option<core::ffi::c_long> = Some(libc::SYS_poll);
/// The number of epoll_wait(2); None if there is only epoll_pwait(2).
pub const SYS_EPOLL_WAIT: Option<core::ffi::c_long> = Some(libc::SYS_epoll_wait);

/// Builds the `va_list` of the System V ABI (section 3.5.7), an array of one structure of 24 bytes, behind
/// the area where the registers are saved.
///
/// `$fixed` integer or pointer arguments precede the `...`. `$label` is the function's name in assembly.
/// `#[unsafe(naked)]` needs Rust 1.88.
#[cfg(all(feature = "exports", not(test)))]
macro_rules! variadic {
    (@va_list 3) => { "rcx" };
    (@va_list 4) => { "r8" };
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
            "sub rsp, 216",
            ".cfi_def_cfa_offset 224",
            "mov [rsp], rdi",
            "mov [rsp+8], rsi",
            "mov [rsp+16], rdx",
            "mov [rsp+24], rcx",
            "mov [rsp+32], r8",
            "mov [rsp+40], r9",
            "test al, al",
            "je 2f",
            "movaps [rsp+48], xmm0",
            "movaps [rsp+64], xmm1",
            "movaps [rsp+80], xmm2",
            "movaps [rsp+96], xmm3",
            "movaps [rsp+112], xmm4",
            "movaps [rsp+128], xmm5",
            "movaps [rsp+144], xmm6",
            "movaps [rsp+160], xmm7",
            "2:",
            "mov dword ptr [rsp+176], {gp_offset}",
            "mov dword ptr [rsp+180], 48", // fp_offset
            "lea rax, [rsp+224]",
            "mov [rsp+184], rax", // overflow_arg_area
            "mov [rsp+192], rsp", // reg_save_area
            concat!("lea ", variadic!(@va_list $fixed), ", [rsp+176]"),
            "call {imp}",
            "add rsp, 216",
            ".cfi_def_cfa_offset 8",
            "ret",
            ".cfi_endproc",
            concat!(".size ", $label, ",.-", $label, "\n.popsection"),
            gp_offset = const 8 * $fixed,
            imp = sym $imp,
        );
    };
}

/// Passes a request and its five arguments to valgrind. Costs a few register moves outside valgrind.
#[inline(always)]
pub fn valgrind_request(request: [u64; 6]) {
    // SAFETY: the sequence rotates rdi by 128 bits in all and exchanges rbx with itself: it changes
    // nothing on a real CPU, and under valgrind it sets rdx and reads `request`.
    unsafe {
        core::arch::asm!(
            "rol rdi, 3",
            "rol rdi, 13",
            "rol rdi, 61",
            "rol rdi, 51",
            "xchg rbx, rbx",
            in("rax") &request,
            inout("rdx") 0u64 => _,
            options(nostack, readonly),
        );
    }
}
