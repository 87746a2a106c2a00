//! The end of the process without exit(3), which no exit handler sees.

use core::ffi::c_int;

use crate::device::exit;
use crate::view::real;

/// Replaces `_exit`, and `_Exit`, which is the same function.
///
/// # Safety
/// As for _exit(2).
pub unsafe extern "C" fn _exit(status: c_int) -> ! {
    exit::before_exit();
    // SAFETY: it takes any status, and it is in libc, where this call came from.
    unsafe { real::_exit(status) };
    // Where a preloaded `_exit` returns.
    std::process::abort()
}
