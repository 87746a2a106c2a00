//! Calls that copy descriptors, change the working or the root directory, or write.

use core::ffi::{c_char, c_int, c_ulong, c_void};
use core::ptr::null_mut;
use std::ffi::CString;

use ibverbs_abi::Errno;
use libc::{iovec, size_t, ssize_t};

use super::answer::{Order, Path, answer};
use super::link::check_room;
use super::{or_minus_one, root_changed};
use crate::cancellation;
use crate::cm::ucma::{self, user_memory};
use crate::umad;
use crate::view::tree::{Character, Directory, Node};
use crate::view::{kernel, real, state};

/// Takes note that `new` is a copy of `old`. Returns `new`.
pub(super) fn copied(old: c_int, new: c_int) -> c_int {
    if new >= 0 && new != old {
        if let Some(opened) = state::opened(old) {
            let errno = Errno::last();
            state::add(new, &opened.path, opened.node);
            errno.set();
        }
    }
    new
}

/// # Safety
/// As for dup(2).
pub unsafe extern "C" fn dup(fd: c_int) -> c_int {
    // SAFETY: the caller passes what dup(2) accepts.
    copied(fd, unsafe { real::dup(fd) })
}

/// # Safety
/// As for dup2(2).
pub unsafe extern "C" fn dup2(old: c_int, new: c_int) -> c_int {
    // SAFETY: the caller passes what dup2(2) accepts.
    copied(old, unsafe { real::dup2(old, new) })
}

/// # Safety
/// As for dup3(2).
pub unsafe extern "C" fn dup3(old: c_int, new: c_int, flags: c_int) -> c_int {
    // SAFETY: the caller passes what dup3(2) accepts.
    copied(old, unsafe { real::dup3(old, new, flags) })
}

/// # Safety
/// As for fcntl(2).
pub unsafe extern "C" fn fcntl(fd: c_int, command: c_int, argument: usize) -> c_int {
    // SAFETY: the caller passes what fcntl(2) accepts.
    let result = unsafe { real::fcntl(fd, command, argument) };
    if matches!(command, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC) {
        return copied(fd, result);
    }
    result
}

/// Whether a descriptor leads to a character device of the tree.
pub(super) fn is_character_device(fd: c_int) -> bool {
    state::opened(fd).is_some_and(|opened| matches!(opened.node, Node::Character(_)))
}

/// Whether a descriptor leads to `umadN`.
pub(super) fn is_umad(fd: c_int) -> bool {
    let is_it = |node: &Node| matches!(node, Node::Character(Character::Umad(_)));
    state::opened(fd).is_some_and(|opened| is_it(&opened.node))
}

/// # Safety
/// As for ioctl(2).
pub unsafe extern "C" fn ioctl(fd: c_int, request: c_ulong, argument: usize) -> c_int {
    if state::is_marked(fd) && is_umad(fd) {
        return or_minus_one(umad::ioctl(fd, request as u32, argument));
    }
    // SAFETY: the caller passes what ioctl(2) accepts.
    unsafe { real::ioctl(fd, request, argument) }
}

/// The result of write(2) to a character device of the tree; None if the descriptor is another one.
///
/// # Safety
/// As for write(2).
unsafe fn write_to_ours(fd: c_int, bytes: *const c_void, len: size_t) -> Option<ssize_t> {
    if !state::is_marked(fd) {
        return None;
    }
    // SAFETY: the caller passes what write(2) accepts.
    if let Some(result) = unsafe { ucma::write(fd, bytes, len) } {
        return Some(result.unwrap_or_else(|error| error.minus_one() as ssize_t));
    }
    if is_umad(fd) {
        let result = umad::write(fd, bytes, len);
        return Some(result.unwrap_or_else(|error| error.minus_one() as ssize_t));
    }
    // The answer of uverbs to anything but a command.
    is_character_device(fd).then(|| Errno(libc::EINVAL).minus_one() as ssize_t)
}

/// # Safety
/// As for write(2).
pub unsafe extern "C" fn write(fd: c_int, bytes: *const c_void, len: size_t) -> ssize_t {
    // SAFETY: the caller passes what write(2) accepts.
    unsafe { write_to_ours(fd, bytes, len).unwrap_or_else(|| real::write(fd, bytes, len)) }
}

/// writev(2). To a character device each part is a write(2) of its own, as in the kernel for a driver without
/// write_iter.
///
/// # Safety
/// As for writev(2).
pub unsafe extern "C" fn writev(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
    if !state::is_marked(fd) || !is_character_device(fd) {
        // SAFETY: the caller passes what writev(2) accepts.
        return unsafe { real::writev(fd, parts, count) };
    }
    let count = match usize::try_from(count) {
        Ok(count) if count <= libc::UIO_MAXIOV as usize => count,
        _ => return Errno(libc::EINVAL).minus_one() as ssize_t,
    };
    let mut written = 0;
    for at in 0..count {
        let part = match user_memory::read_iovec(parts.wrapping_add(at)) {
            Ok(part) if part.iov_len == 0 => continue,
            Ok(part) => part,
            Err(_) if written > 0 => break,
            Err(errno) => return errno.minus_one() as ssize_t,
        };
        // SAFETY: the caller passes parts that write(2) accepts.
        match unsafe { write(fd, part.iov_base, part.iov_len) } {
            failed if failed < 0 && written == 0 => return failed,
            ..0 => break,
            len => written += len,
        }
    }
    written
}

/// Changes to a directory of the tree. The kernel's working directory becomes the same one if the kernel has
/// it, else the nearest one above that exists. So calls that are not redirected act on no directory of the
/// program's.
fn enter(path: &str, node: &Node) -> c_int {
    let _no_cancellation = cancellation::disable();
    let Node::Directory(directory) = node else {
        return Errno(libc::ENOTDIR).minus_one();
    };
    let is_kernels = *directory == Directory::Above && kernel::stat(path, true).is_some();
    let nearest = CString::new(kernel::nearest_directory(path));
    // SAFETY: the path is a C string.
    let result = nearest.map_or(-1, |nearest| unsafe { real::chdir(nearest.as_ptr()) });
    if result == 0 {
        state::set_cwd((!is_kernels).then(|| path.to_owned()));
    }
    result
}

/// Takes note of where the kernel's working directory is now, and returns the result of the call that
/// changed it.
fn entered(result: c_int) -> c_int {
    let errno = Errno::last();
    if result == 0 {
        state::set_cwd(None);
    }
    errno.set();
    result
}

/// # Safety
/// As for chdir(2).
pub unsafe extern "C" fn chdir(path: *const c_char) -> c_int {
    // SAFETY: the caller passes what chdir(2) accepts.
    unsafe {
        let ours = |found: Result<(String, Node), Errno>| match found {
            Ok((path, node)) => enter(&path, &node),
            Err(errno) => errno.minus_one(),
        };
        let libcs = |_, path| entered(real::chdir(path));
        answer(Path::new(path, true), Order::PathFirst, libcs, |_| (), ours)
    }
}

/// # Safety
/// As for fchdir(2).
pub unsafe extern "C" fn fchdir(fd: c_int) -> c_int {
    match state::opened(fd) {
        // SAFETY: the caller passes what fchdir(2) accepts.
        None => entered(unsafe { real::fchdir(fd) }),
        Some(opened) => enter(&opened.path, &opened.node),
    }
}

/// # Safety
/// As for chroot(2).
pub unsafe extern "C" fn chroot(path: *const c_char) -> c_int {
    // SAFETY: the caller passes what chroot(2) accepts.
    let result = unsafe { real::chroot(path) };
    if result == 0 {
        let errno = Errno::last();
        root_changed();
        errno.set();
    }
    result
}

/// # Safety
/// As for getcwd(3).
pub unsafe extern "C" fn getcwd(buf: *mut c_char, len: size_t) -> *mut c_char {
    let Some(cwd) = state::virtual_cwd() else {
        // SAFETY: the caller passes what getcwd(3) accepts.
        return unsafe { real::getcwd(buf, len) };
    };
    let Ok(cwd) = CString::new(cwd) else {
        return null_mut();
    };
    let needed = cwd.as_bytes_with_nul().len();
    if len < needed && !(buf.is_null() && len == 0) {
        return Errno(libc::ERANGE).null();
    }
    if !buf.is_null() {
        let written = user_memory::write_user(buf.addr(), cwd.as_bytes_with_nul());
        return written.map_or_else(Errno::null, |()| buf);
    }
    // SAFETY: NULL asks for memory of the given length, or of the length needed, with room for the path.
    unsafe {
        let to: *mut c_char = libc::malloc(len.max(needed)).cast();
        if !to.is_null() {
            to.copy_from(cwd.as_ptr(), needed);
        }
        to
    }
}

/// getcwd(3) of a program built with _FORTIFY_SOURCE, whose buffer has `room` bytes.
///
/// # Safety
/// As for getcwd(3).
pub unsafe extern "C" fn __getcwd_chk(buf: *mut c_char, len: size_t, room: size_t) -> *mut c_char {
    check_room(len, room);
    // SAFETY: the caller passes what getcwd(3) accepts.
    unsafe { getcwd(buf, len) }
}

/// # Safety
/// As for get_current_dir_name(3).
pub unsafe extern "C" fn get_current_dir_name() -> *mut c_char {
    // SAFETY: NULL and 0 ask for memory of the length needed.
    unsafe { getcwd(null_mut(), 0) }
}
