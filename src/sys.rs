//! The system calls the library makes, as thin as they come.
//!
//! They go through libc's functions, not through raw system calls: programs and tests interpose
//! `open`, `stat`, `write`, `ioctl` and `mmap`, and must see what they saw of the C library.

use libc::c_int;

/// The calling thread's errno.
#[inline]
pub fn errno() -> c_int {
    // SAFETY: libc returns the address of this thread's errno, valid as long as the thread runs.
    unsafe { *libc::__errno_location() }
}

/// Sets the calling thread's errno.
#[inline]
pub fn set_errno(value: c_int) {
    // SAFETY: libc returns the address of this thread's errno, and only this thread writes to it.
    unsafe { *libc::__errno_location() = value }
}

/// Sets errno and returns NULL: how the verbs that return a pointer fail.
#[inline]
pub fn null<T>(errno: c_int) -> *mut T {
    set_errno(errno);
    core::ptr::null_mut()
}
