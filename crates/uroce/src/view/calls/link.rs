//! readlink(2), realpath(3).

use core::ffi::{c_char, c_int};
use core::ptr::null_mut;
use std::ffi::CString;

use ibverbs_abi::Errno;
use libc::{AT_FDCWD, size_t, ssize_t};

use super::answer::{Path, answer_query};
use super::{PathTarget, find};
use crate::cm::ucma::user_memory;
use crate::view::real;
use crate::view::tree::Node;

fn put_target(node: &Node, buf: *mut c_char, len: size_t) -> ssize_t {
    let Node::Link(target) = node else {
        return Errno(libc::EINVAL).minus_one() as ssize_t;
    };
    if len == 0 {
        return Errno(libc::EINVAL).minus_one() as ssize_t;
    }
    let cut = &target.as_bytes()[..target.len().min(len)];
    match user_memory::write_user(buf.addr(), cut) {
        Ok(()) => cut.len() as ssize_t,
        Err(errno) => errno.minus_one() as ssize_t,
    }
}

/// # Safety
/// As for readlink(2).
pub unsafe extern "C" fn readlink(path: *const c_char, buf: *mut c_char, len: size_t) -> ssize_t {
    // SAFETY: the caller passes what readlink(2) accepts.
    unsafe {
        answer_query(
            Path::new(path, false),
            |_, path| real::readlink(path, buf, len),
            |_, node| put_target(node, buf, len),
        )
    }
}

/// # Safety
/// As for readlinkat(2).
pub unsafe extern "C" fn readlinkat(
    dirfd: c_int,
    path: *const c_char,
    buf: *mut c_char,
    len: size_t,
) -> ssize_t {
    // SAFETY: the caller passes what readlinkat(2) accepts.
    unsafe {
        answer_query(
            Path::at(dirfd, path, false),
            |dirfd, path| real::readlinkat(dirfd, path, buf, len),
            |_, node| put_target(node, buf, len),
        )
    }
}

/// readlink(2) of a program built with _FORTIFY_SOURCE, whose buffer has `room` bytes.
///
/// # Safety
/// As for readlink(2).
pub unsafe extern "C" fn __readlink_chk(
    path: *const c_char,
    buf: *mut c_char,
    len: size_t,
    room: size_t,
) -> ssize_t {
    check_room(len, room);
    // SAFETY: the caller passes what readlink(2) accepts.
    unsafe { readlink(path, buf, len) }
}

/// readlinkat(2), as [`__readlink_chk`].
///
/// # Safety
/// As for readlinkat(2).
pub unsafe extern "C" fn __readlinkat_chk(
    dirfd: c_int,
    path: *const c_char,
    buf: *mut c_char,
    len: size_t,
    room: size_t,
) -> ssize_t {
    check_room(len, room);
    // SAFETY: the caller passes what readlinkat(2) accepts.
    unsafe { readlinkat(dirfd, path, buf, len) }
}

/// Ends the program, as libc does, if a call would write behind its buffer.
pub fn check_room(len: size_t, room: size_t) {
    if len > room {
        crate::c_library::end_overflow();
    }
}

/// Copies a path to `resolved`, or to new memory if that is NULL.
///
/// # Safety
/// `resolved` is NULL or has PATH_MAX writable bytes.
unsafe fn put_path(path: &str, resolved: *mut c_char) -> *mut c_char {
    let Ok(path) = CString::new(path) else {
        return null_mut();
    };
    let bytes = path.as_bytes_with_nul();
    if bytes.len() > libc::PATH_MAX as usize {
        return Errno(libc::ENAMETOOLONG).null();
    }
    // SAFETY: the path is a C string; a buffer that is not NULL has room for it, as it is not too long.
    unsafe {
        if resolved.is_null() {
            return libc::strdup(path.as_ptr());
        }
        core::ptr::copy_nonoverlapping(path.as_ptr(), resolved, bytes.len());
    }
    resolved
}

/// # Safety
/// As for realpath(3).
pub unsafe extern "C" fn realpath(path: *const c_char, resolved: *mut c_char) -> *mut c_char {
    // SAFETY: the caller passes what realpath(3) accepts.
    unsafe {
        match find(AT_FDCWD, path, true) {
            PathTarget::Kernel => real::realpath(path, resolved),
            PathTarget::KernelAt(path) => real::realpath(path.as_ptr(), resolved),
            PathTarget::Ours(path, _) => put_path(&path, resolved),
            PathTarget::Error(errno) => errno.null(),
        }
    }
}

/// realpath(3) of a program built with _FORTIFY_SOURCE.
///
/// # Safety
/// As for realpath(3).
pub unsafe extern "C" fn __realpath_chk(
    path: *const c_char,
    resolved: *mut c_char,
    room: size_t,
) -> *mut c_char {
    check_room(libc::PATH_MAX as size_t, room);
    // SAFETY: the caller passes what realpath(3) accepts.
    unsafe { realpath(path, resolved) }
}

/// # Safety
/// As for canonicalize_file_name(3).
pub unsafe extern "C" fn canonicalize_file_name(path: *const c_char) -> *mut c_char {
    // SAFETY: the caller passes what canonicalize_file_name(3) accepts; NULL asks for new memory.
    unsafe { realpath(path, null_mut()) }
}
