//! The two C-variadic functions. Stable Rust cannot define variadic functions, so assembly (`variadic!` of
//! `crate::arch`) builds a `va_list` and calls a Rust function with its address. C too passes the address:
//! a `va_list` is an array on x86-64, and a structure too large for registers on arm64.

use core::ffi::{c_char, c_int, c_void};
use ibverbs_abi::Errno;

use ibverbs_abi::{verbs_context, verbs_sysfs_dev};

use crate::{discover::sysfs, log};

/// A `va_list` argument.
type VaList = *mut c_void;

unsafe extern "C" {
    fn vsnprintf(buf: *mut c_char, size: usize, format: *const c_char, ap: VaList) -> c_int;
    fn vasprintf(out: *mut *mut c_char, format: *const c_char, ap: VaList) -> c_int;
}

variadic!(
    /// `void __verbs_log(struct verbs_context *, uint32_t level, const char *format, ...)` writes a
    /// provider's message to the verbs log.
    pub fn __verbs_log = "ibverbs_rs_verbs_log", fixed = 3 => verbs_vlog
);
variadic!(
    /// `int ibv_read_ibdev_sysfs_file(char *, size_t, struct verbs_sysfs_dev *, const char *format,
    /// ...)` reads a file of the device's sysfs directory (ibv_read_ibdev_sysfs_file(3)).
    pub fn ibv_read_ibdev_sysfs_file = "ibverbs_rs_read_ibdev_sysfs_file",
    fixed = 4 => read_ibdev_sysfs_file_v
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
