//! stat(2), access(2), and extended attributes.

use core::ffi::{c_char, c_int, c_void};

use ibverbs_abi::Errno;
use libc::{AT_EMPTY_PATH, AT_FDCWD, AT_SYMLINK_NOFOLLOW, size_t, ssize_t, statx as Statx};

use super::{PathTarget, find};
use crate::cancellation;
use crate::view::tree::Node;
use crate::view::{files, real, state};

type Stat = libc::stat;

/// # Safety
/// `buf` is writable.
unsafe fn put(path: &str, node: &Node, buf: *mut Stat) -> c_int {
    let errno = Errno::last();
    let _no_cancellation = cancellation::disable();
    // SAFETY: the buffer is writable, as the caller promises.
    unsafe { buf.write(files::stat(path, node)) };
    errno.set();
    0
}

/// # Safety
/// As for stat(2).
pub unsafe extern "C" fn stat(path: *const c_char, buf: *mut Stat) -> c_int {
    // SAFETY: the caller passes what stat(2) accepts.
    unsafe {
        match find(AT_FDCWD, path, true) {
            PathTarget::Kernel => real::stat(path, buf),
            PathTarget::KernelAt(path) => real::stat(path.as_ptr(), buf),
            PathTarget::Ours(path, node) => put(&path, &node, buf),
            PathTarget::Error(errno) => errno.minus_one(),
        }
    }
}

/// # Safety
/// As for lstat(2).
pub unsafe extern "C" fn lstat(path: *const c_char, buf: *mut Stat) -> c_int {
    // SAFETY: the caller passes what lstat(2) accepts.
    unsafe {
        match find(AT_FDCWD, path, false) {
            PathTarget::Kernel => real::lstat(path, buf),
            PathTarget::KernelAt(path) => real::lstat(path.as_ptr(), buf),
            PathTarget::Ours(path, node) => put(&path, &node, buf),
            PathTarget::Error(errno) => errno.minus_one(),
        }
    }
}

/// # Safety
/// As for fstat(2).
pub unsafe extern "C" fn fstat(fd: c_int, buf: *mut Stat) -> c_int {
    // SAFETY: the caller passes what fstat(2) accepts.
    unsafe {
        match state::opened(fd) {
            None => real::fstat(fd, buf),
            Some(opened) => put(&opened.path, &opened.node, buf),
        }
    }
}

/// # Safety
/// As for fstatat(2).
pub unsafe extern "C" fn fstatat(
    dirfd: c_int,
    path: *const c_char,
    buf: *mut Stat,
    flags: c_int,
) -> c_int {
    // SAFETY: the caller passes what fstatat(2) accepts.
    unsafe {
        if let Some((path, node)) = itself(dirfd, path, flags) {
            return put(&path, &node, buf);
        }
        match find(dirfd, path, flags & AT_SYMLINK_NOFOLLOW == 0) {
            PathTarget::Kernel => real::fstatat(dirfd, path, buf, flags),
            PathTarget::KernelAt(path) => real::fstatat(AT_FDCWD, path.as_ptr(), buf, flags),
            PathTarget::Ours(path, node) => put(&path, &node, buf),
            PathTarget::Error(errno) => errno.minus_one(),
        }
    }
}

/// What `dirfd` itself leads to, if that is what the call is about (AT_EMPTY_PATH).
///
/// # Safety
/// As for [`find`].
unsafe fn itself(dirfd: c_int, path: *const c_char, flags: c_int) -> Option<(String, Node)> {
    if flags & AT_EMPTY_PATH == 0 || !state::is_marked(dirfd) {
        return None;
    }
    // SAFETY: a readable path is a C string, as the caller promises.
    let path = unsafe { real::bytes(path) };
    let opened = state::opened(dirfd).filter(|_| path.is_none_or(<[u8]>::is_empty))?;
    Some((opened.path, opened.node))
}

/// # Safety
/// As for statx(2).
pub unsafe extern "C" fn statx(
    dirfd: c_int,
    path: *const c_char,
    flags: c_int,
    mask: u32,
    buf: *mut Statx,
) -> c_int {
    let put = |path: &str, node: &Node| {
        let errno = Errno::last();
        let _no_cancellation = cancellation::disable();
        // SAFETY: the caller passes a writable buffer.
        unsafe { buf.write(files::statx(path, node)) };
        errno.set();
        0
    };
    // SAFETY: the caller passes what statx(2) accepts.
    unsafe {
        if let Some((path, node)) = itself(dirfd, path, flags) {
            return put(&path, &node);
        }
        match find(dirfd, path, flags & AT_SYMLINK_NOFOLLOW == 0) {
            PathTarget::Kernel => real::statx(dirfd, path, flags, mask, buf),
            PathTarget::KernelAt(path) => real::statx(AT_FDCWD, path.as_ptr(), flags, mask, buf),
            PathTarget::Ours(path, node) => put(&path, &node),
            PathTarget::Error(errno) => errno.minus_one(),
        }
    }
}

/// stat(2) of programs built with a glibc before 2.33. The version of the structure is the only one that
/// these machines have.
///
/// # Safety
/// As for stat(2).
pub unsafe extern "C" fn __xstat(_version: c_int, path: *const c_char, buf: *mut Stat) -> c_int {
    // SAFETY: the caller passes what stat(2) accepts.
    unsafe { stat(path, buf) }
}

/// lstat(2), as [`__xstat`].
///
/// # Safety
/// As for lstat(2).
pub unsafe extern "C" fn __lxstat(_version: c_int, path: *const c_char, buf: *mut Stat) -> c_int {
    // SAFETY: the caller passes what lstat(2) accepts.
    unsafe { lstat(path, buf) }
}

/// fstat(2), as [`__xstat`].
///
/// # Safety
/// As for fstat(2).
pub unsafe extern "C" fn __fxstat(_version: c_int, fd: c_int, buf: *mut Stat) -> c_int {
    // SAFETY: the caller passes what fstat(2) accepts.
    unsafe { fstat(fd, buf) }
}

/// fstatat(2), as [`__xstat`].
///
/// # Safety
/// As for fstatat(2).
pub unsafe extern "C" fn __fxstatat(
    _version: c_int,
    dirfd: c_int,
    path: *const c_char,
    buf: *mut Stat,
    flags: c_int,
) -> c_int {
    // SAFETY: the caller passes what fstatat(2) accepts.
    unsafe { fstatat(dirfd, path, buf, flags) }
}

fn permitted(path: &str, node: &Node, mode: c_int) -> c_int {
    let errno = Errno::last();
    let _no_cancellation = cancellation::disable();
    match files::access(path, node, mode) {
        Ok(()) => {
            errno.set();
            0
        }
        Err(errno) => errno.minus_one(),
    }
}

/// # Safety
/// As for access(2).
pub unsafe extern "C" fn access(path: *const c_char, mode: c_int) -> c_int {
    // SAFETY: the caller passes what access(2) accepts.
    unsafe {
        match find(AT_FDCWD, path, true) {
            PathTarget::Kernel => real::access(path, mode),
            PathTarget::KernelAt(path) => real::access(path.as_ptr(), mode),
            PathTarget::Ours(path, node) => permitted(&path, &node, mode),
            PathTarget::Error(errno) => errno.minus_one(),
        }
    }
}

/// # Safety
/// As for euidaccess(3).
pub unsafe extern "C" fn euidaccess(path: *const c_char, mode: c_int) -> c_int {
    // SAFETY: the caller passes what euidaccess(3) accepts.
    unsafe {
        match find(AT_FDCWD, path, true) {
            PathTarget::Kernel => real::euidaccess(path, mode),
            PathTarget::KernelAt(path) => real::euidaccess(path.as_ptr(), mode),
            PathTarget::Ours(path, node) => permitted(&path, &node, mode),
            PathTarget::Error(errno) => errno.minus_one(),
        }
    }
}

/// # Safety
/// As for faccessat(2).
pub unsafe extern "C" fn faccessat(
    dirfd: c_int,
    path: *const c_char,
    mode: c_int,
    flags: c_int,
) -> c_int {
    // SAFETY: the caller passes what faccessat(2) accepts.
    unsafe {
        if let Some((path, node)) = itself(dirfd, path, flags) {
            return permitted(&path, &node, mode);
        }
        match find(dirfd, path, flags & AT_SYMLINK_NOFOLLOW == 0) {
            PathTarget::Kernel => real::faccessat(dirfd, path, mode, flags),
            PathTarget::KernelAt(path) => real::faccessat(AT_FDCWD, path.as_ptr(), mode, flags),
            PathTarget::Ours(path, node) => permitted(&path, &node, mode),
            PathTarget::Error(errno) => errno.minus_one(),
        }
    }
}

macro_rules! attribute_functions {
    ($($name:ident($($arg:ident: $ty:ty),*), $follow:literal, $ours:expr;)*) => {
        $(
            /// A file of the tree has no extended attributes.
            ///
            /// # Safety
            /// As for the function of libc.
            pub unsafe extern "C" fn $name(path: *const c_char, $($arg: $ty),*) -> ssize_t {
                // SAFETY: the caller passes what the function of libc accepts.
                unsafe {
                    match find(AT_FDCWD, path, $follow) {
                        PathTarget::Kernel => real::$name(path, $($arg),*),
                        PathTarget::KernelAt(path) => real::$name(path.as_ptr(), $($arg),*),
                        PathTarget::Ours(..) => $ours,
                        PathTarget::Error(errno) => errno.minus_one() as ssize_t,
                    }
                }
            }
        )*
    };
}

attribute_functions! {
    getxattr(name: *const c_char, value: *mut c_void, len: size_t), true,
        Errno(libc::ENODATA).minus_one() as ssize_t;
    lgetxattr(name: *const c_char, value: *mut c_void, len: size_t), false,
        Errno(libc::ENODATA).minus_one() as ssize_t;
    listxattr(list: *mut c_char, len: size_t), true, 0;
    llistxattr(list: *mut c_char, len: size_t), false, 0;
}
