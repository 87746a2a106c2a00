//! open(2), fopen(3).

use core::ffi::{CStr, c_char, c_int};
use core::ptr::null_mut;

use ibverbs_abi::Errno;
use libc::{AT_FDCWD, FILE, O_CREAT, O_NOFOLLOW, O_TRUNC, O_WRONLY, mode_t};

use super::answer::{Order, Path, answer, close, is_mapped};
use super::{PathTarget, find, or_minus_one};
use crate::cancellation;
use crate::view::files;
use crate::view::real;
use crate::view::state;
use crate::view::tree::Node;

/// Opens a node of the tree; -1 with errno on failure.
fn open_node(path: &str, node: &Node, flags: c_int) -> c_int {
    let _no_cancellation = cancellation::disable();
    or_minus_one(files::open(path, node, flags))
}

/// Answers open(2) or one of its variants.
///
/// # Safety
/// As for [`answer`].
#[inline]
unsafe fn answer_open(
    dirfd: c_int,
    text: *const c_char,
    flags: c_int,
    libcs: impl Fn(c_int, *const c_char) -> c_int,
) -> c_int {
    let path = Path::at(dirfd, text, follows(flags));
    let ours = |found: Result<(String, Node), Errno>| match found {
        Ok((path, node)) => open_node(&path, &node, flags),
        Err(errno) => missing(errno, flags),
    };
    // SAFETY: as for this function.
    let fd = unsafe { answer(path, Order::of_open(flags), libcs, close, ours) };
    // SAFETY: a path that was opened is a C string.
    if fd >= 0 && unsafe { names_descriptor(text) } {
        state::adopt(fd);
    }
    fd
}

/// Whether a path may be the name of an open descriptor. systemd 257 opens what it has opened anew by it.
///
/// # Safety
/// The path is a C string.
unsafe fn names_descriptor(path: *const c_char) -> bool {
    let begins = |prefix: &[u8]| {
        // SAFETY: a C string can be read up to its NUL, which differs from all bytes of the prefix.
        let read = |at| unsafe { *path.add(at) } as u8;
        prefix
            .iter()
            .enumerate()
            .all(|(at, byte)| read(at) == *byte)
    };
    begins(b"/proc/") || begins(b"/dev/fd/")
}

/// The result of a path that leads to nothing in the tree: sysfs lets nobody create a file.
fn missing(errno: Errno, flags: c_int) -> c_int {
    match errno {
        Errno(libc::ENOENT) if flags & O_CREAT != 0 => Errno(libc::EACCES).minus_one(),
        errno => errno.minus_one(),
    }
}

/// Whether open(2) with these flags follows a link at the end of the path.
pub fn follows(flags: c_int) -> bool {
    flags & O_NOFOLLOW == 0 && flags & (O_CREAT | libc::O_EXCL) != O_CREAT | libc::O_EXCL
}

/// # Safety
/// As for open(2).
pub unsafe extern "C" fn open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    // SAFETY: the caller passes what open(2) accepts.
    unsafe {
        answer_open(AT_FDCWD, path, flags, |_, path| {
            real::open(path, flags, mode)
        })
    }
}

/// # Safety
/// As for openat(2).
pub unsafe extern "C" fn openat(
    dirfd: c_int,
    path: *const c_char,
    flags: c_int,
    mode: mode_t,
) -> c_int {
    // SAFETY: the caller passes what openat(2) accepts.
    unsafe {
        answer_open(dirfd, path, flags, |dirfd, path| {
            real::openat(dirfd, path, flags, mode)
        })
    }
}

/// open(2) without a mode, of a program built with _FORTIFY_SOURCE.
///
/// # Safety
/// As for open(2).
pub unsafe extern "C" fn __open_2(path: *const c_char, flags: c_int) -> c_int {
    // SAFETY: the caller passes what open(2) accepts.
    unsafe { answer_open(AT_FDCWD, path, flags, |_, path| real::__open_2(path, flags)) }
}

/// openat(2) without a mode, of a program built with _FORTIFY_SOURCE.
///
/// # Safety
/// As for openat(2).
pub unsafe extern "C" fn __openat_2(dirfd: c_int, path: *const c_char, flags: c_int) -> c_int {
    // SAFETY: the caller passes what openat(2) accepts.
    unsafe {
        answer_open(dirfd, path, flags, |dirfd, path| {
            real::__openat_2(dirfd, path, flags)
        })
    }
}

/// # Safety
/// As for creat(2).
pub unsafe extern "C" fn creat(path: *const c_char, mode: mode_t) -> c_int {
    const FLAGS: c_int = O_CREAT | O_WRONLY | O_TRUNC;
    // SAFETY: the caller passes what creat(2) accepts.
    unsafe { answer_open(AT_FDCWD, path, FLAGS, |_, path| real::creat(path, mode)) }
}

/// The descriptor for fopen(3) of a node, or of nothing.
fn open_for_stream(found: Result<(String, Node), Errno>, mode: &CStr) -> Result<c_int, Errno> {
    let flags = files::flags_of_mode(mode).ok_or(Errno(libc::EINVAL))?;
    let _no_cancellation = cancellation::disable();
    match found {
        Ok((path, node)) => files::open(&path, &node, flags),
        Err(Errno(libc::ENOENT)) if flags & O_CREAT != 0 => Err(Errno(libc::EACCES)),
        Err(errno) => Err(errno),
    }
}

/// # Safety
/// `mode` is a C string.
unsafe fn stream(found: Result<(String, Node), Errno>, mode: *const c_char) -> *mut FILE {
    // SAFETY: the mode is a C string, as the caller promises.
    let fd = match open_for_stream(found, unsafe { CStr::from_ptr(mode) }) {
        Ok(fd) => fd,
        Err(errno) => return errno.null(),
    };
    // SAFETY: the descriptor is this function's own, and the mode a C string.
    let stream = unsafe { libc::fdopen(fd, mode) };
    if stream.is_null() {
        // SAFETY: as fdopen has failed, the descriptor is still this function's own.
        unsafe { libc::close(fd) };
    }
    stream
}

/// # Safety
/// As for fopen(3).
pub unsafe extern "C" fn fopen(path: *const c_char, mode: *const c_char) -> *mut FILE {
    let undo = |stream| {
        let _no_cancellation = cancellation::disable();
        // SAFETY: the stream has just been opened, and nothing else knows it.
        unsafe { libc::fclose(stream) };
    };
    // SAFETY: the caller passes what fopen(3) accepts.
    unsafe {
        let flags = files::flags_of_mode(CStr::from_ptr(mode)).unwrap_or(0);
        answer(
            Path::new(path, true),
            Order::of_open(flags),
            |_, path| real::fopen(path, mode),
            undo,
            |found| stream(found, mode),
        )
    }
}

/// freopen(3). libc itself opens the file behind the stream's new descriptor: by the name that /proc has for
/// one that leads to the tree.
///
/// # Safety
/// As for freopen(3).
pub unsafe extern "C" fn freopen(
    path: *const c_char,
    mode: *const c_char,
    file: *mut FILE,
) -> *mut FILE {
    // SAFETY: the caller passes what freopen(3) accepts.
    unsafe {
        let target = if is_mapped(path) {
            find(AT_FDCWD, path, true)
        } else {
            PathTarget::Kernel
        };
        let found = match target {
            PathTarget::Kernel => return real::freopen(path, mode, file),
            PathTarget::KernelAt(path) => return real::freopen(path.as_ptr(), mode, file),
            PathTarget::Ours(path, node) => Ok((path, node)),
            PathTarget::Error(errno) => Err(errno),
        };
        match open_for_stream(found, CStr::from_ptr(mode)) {
            Ok(fd) => {
                let name = format!("/proc/self/fd/{fd}\0");
                let stream = real::freopen(name.as_ptr().cast(), mode, file);
                libc::close(fd);
                stream
            }
            Err(errno) => {
                libc::fclose(file);
                errno.set();
                null_mut()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_at_the_end() {
        assert!(follows(libc::O_RDONLY) && follows(O_CREAT));
        assert!(!follows(O_NOFOLLOW) && !follows(libc::O_PATH | O_NOFOLLOW));
        assert!(!follows(O_CREAT | libc::O_EXCL));
    }
}
