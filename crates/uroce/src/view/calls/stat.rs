//! stat(2), access(2), and extended attributes.

use core::ffi::{c_char, c_int, c_void};

use ibverbs_abi::Errno;
use libc::{AT_EMPTY_PATH, AT_SYMLINK_NOFOLLOW, size_t, ssize_t, statx as Statx};

use super::answer::{Path, answer_query, is_mapped};
use crate::cancellation;
use crate::cm::ucma::user_memory;
use crate::view::state::Opened;
use crate::view::tree::Node;
use crate::view::{files, real, state};

type Stat = libc::stat;

/// Writes a structure to the program's memory: 0, or -1 with EFAULT in errno.
fn put<T: Copy>(value: impl FnOnce() -> T, buf: *mut T) -> c_int {
    let errno = Errno::last();
    let _no_cancellation = cancellation::disable();
    match user_memory::write_value(buf, &value()) {
        Ok(()) => {
            errno.set();
            0
        }
        Err(errno) => errno.minus_one(),
    }
}

fn put_stat(path: &str, node: &Node, buf: *mut Stat) -> c_int {
    put(|| files::stat(path, node), buf)
}

/// # Safety
/// As for stat(2).
pub unsafe extern "C" fn stat(path: *const c_char, buf: *mut Stat) -> c_int {
    // SAFETY: the caller passes what stat(2) accepts.
    unsafe {
        answer_query(
            Path::new(path, true),
            |_, path| real::stat(path, buf),
            |path, node| put_stat(path, node, buf),
        )
    }
}

/// # Safety
/// As for lstat(2).
pub unsafe extern "C" fn lstat(path: *const c_char, buf: *mut Stat) -> c_int {
    // SAFETY: the caller passes what lstat(2) accepts.
    unsafe {
        answer_query(
            Path::new(path, false),
            |_, path| real::lstat(path, buf),
            |path, node| put_stat(path, node, buf),
        )
    }
}

/// # Safety
/// As for fstat(2).
pub unsafe extern "C" fn fstat(fd: c_int, buf: *mut Stat) -> c_int {
    // SAFETY: the caller passes what fstat(2) accepts.
    unsafe {
        match state::opened(fd) {
            None => real::fstat(fd, buf),
            Some(opened) => put_stat(&opened.path, &opened.node, buf),
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
        if let Some(opened) = itself(dirfd, path, flags) {
            return put_stat(&opened.path, &opened.node, buf);
        }
        answer_query(
            path_at(dirfd, path, flags),
            |dirfd, path| real::fstatat(dirfd, path, buf, flags),
            |path, node| put_stat(path, node, buf),
        )
    }
}

fn path_at(dirfd: c_int, text: *const c_char, flags: c_int) -> Path {
    Path::at(dirfd, text, flags & AT_SYMLINK_NOFOLLOW == 0)
}

/// The file that `dirfd` itself leads to, if that is what the call is about (AT_EMPTY_PATH).
///
/// # Safety
/// The path is a C string, or the kernel answers it with EFAULT.
unsafe fn itself(dirfd: c_int, path: *const c_char, flags: c_int) -> Option<Opened> {
    if flags & AT_EMPTY_PATH == 0 || !state::is_marked(dirfd) {
        return None;
    }
    // SAFETY: a readable path is a C string, as the caller promises.
    let is_empty = unsafe {
        !real::is_readable(path)
            || is_mapped(path) && real::bytes(path).is_some_and(<[u8]>::is_empty)
    };
    is_empty.then(|| state::opened(dirfd)).flatten()
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
    // SAFETY: the caller passes what statx(2) accepts.
    unsafe {
        if let Some(opened) = itself(dirfd, path, flags) {
            return put(|| files::statx(&opened.path, &opened.node), buf);
        }
        answer_query(
            path_at(dirfd, path, flags),
            |dirfd, path| real::statx(dirfd, path, flags, mask, buf),
            |path, node| put(|| files::statx(path, node), buf),
        )
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
        answer_query(
            Path::new(path, true),
            |_, path| real::access(path, mode),
            |path, node| permitted(path, node, mode),
        )
    }
}

/// # Safety
/// As for euidaccess(3).
pub unsafe extern "C" fn euidaccess(path: *const c_char, mode: c_int) -> c_int {
    // SAFETY: the caller passes what euidaccess(3) accepts.
    unsafe {
        answer_query(
            Path::new(path, true),
            |_, path| real::euidaccess(path, mode),
            |path, node| permitted(path, node, mode),
        )
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
        if let Some(opened) = itself(dirfd, path, flags) {
            return permitted(&opened.path, &opened.node, mode);
        }
        answer_query(
            path_at(dirfd, path, flags),
            |dirfd, path| real::faccessat(dirfd, path, mode, flags),
            |path, node| permitted(path, node, mode),
        )
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
                    answer_query(
                        Path::new(path, $follow),
                        |_, path| real::$name(path, $($arg),*),
                        |_, _| $ours,
                    )
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
