//! The two C-variadic functions. Stable Rust cannot define variadic functions, so assembly builds
//! the `va_list` of the System V x86-64 ABI (section 3.5.7) and calls a Rust function with its address. A
//! `va_list` is an array of one element, which C passes as a pointer too.

use core::ffi::{c_char, c_int, c_void};
use ibverbs_abi::Errno;

use ibverbs_abi::{verbs_context, verbs_sysfs_dev};

use crate::{discover::sysfs, log};

#[cfg(not(target_arch = "x86_64"))]
compile_error!("the variadic functions are written for x86-64 only");

/// A `va_list` argument.
type VaList = *mut c_void;

unsafe extern "C" {
    fn vsnprintf(buf: *mut c_char, size: usize, format: *const c_char, ap: VaList) -> c_int;
    fn vasprintf(out: *mut *mut c_char, format: *const c_char, ap: VaList) -> c_int;
}

/// Defines a function with `fixed` integer or pointer arguments before the `...`; `$ap` is the register of
/// the argument after them, `$label` the name in assembly. `#[unsafe(naked)]` needs Rust 1.88.
macro_rules! variadic {
    ($(#[$doc:meta])* pub fn $name:ident = $label:literal,
     fixed = $fixed:literal, ap = $ap:literal => $imp:path) => {
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
            concat!("lea ", $ap, ", [rsp+176]"),
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

variadic!(
    /// `void __verbs_log(struct verbs_context *, uint32_t level, const char *format, ...)` writes a
    /// provider's message to the verbs log.
    pub fn __verbs_log = "ibverbs_rs_verbs_log", fixed = 3, ap = "rcx" => verbs_vlog
);
variadic!(
    /// `int ibv_read_ibdev_sysfs_file(char *, size_t, struct verbs_sysfs_dev *, const char *format,
    /// ...)` reads a file of the device's sysfs directory (ibv_read_ibdev_sysfs_file(3)).
    pub fn ibv_read_ibdev_sysfs_file = "ibverbs_rs_read_ibdev_sysfs_file",
    fixed = 4, ap = "r8" => read_ibdev_sysfs_file_v
);

/// Formats a message and writes it to the verbs log. Preserves errno.
///
/// # Safety
/// `format` and `ap` are as for vprintf().
unsafe extern "C" fn verbs_vlog(
    _context: *mut verbs_context,
    level: u32,
    format: *const c_char,
    ap: VaList,
) {
    if !log::enabled(level) {
        return;
    }
    let saved = Errno::last();
    let mut line = core::ptr::null_mut();
    // SAFETY: `format` and `ap` match, as the caller promises; vasprintf allocated the message, which is
    // freed once.
    unsafe {
        let len = vasprintf(&mut line, format, ap);
        if len >= 0 {
            log::write(
                level,
                core::slice::from_raw_parts(line.cast(), len as usize),
            );
            libc::free(line.cast());
        }
    }
    saved.set();
}

/// Formats the file's name and reads the file. Returns the length, or -1 with errno set.
///
/// # Safety
/// `format` and `ap` are as for vprintf(); `size` bytes at `buf` are writable; `sysfs_dev` is NULL or alive.
unsafe extern "C" fn read_ibdev_sysfs_file_v(
    buf: *mut c_char,
    size: usize,
    sysfs_dev: *mut verbs_sysfs_dev,
    format: *const c_char,
    ap: VaList,
) -> c_int {
    let mut path = [0u8; libc::PATH_MAX as usize];
    // SAFETY: `format` and `ap` match, `buf` is writable and the device alive, as the caller promises.
    unsafe {
        let len = vsnprintf(path.as_mut_ptr().cast(), path.len(), format, ap);
        if len < 0 || len as usize >= path.len() {
            return -1;
        }
        let Ok(path) = core::ffi::CStr::from_bytes_until_nul(&path) else {
            return -1;
        };
        sysfs::read_ibdev_path(buf, size, sysfs_dev, path)
    }
}
