//! How a call with a path is answered.
//!
//! The kernel answers EFAULT for a path that is not mapped; this library would crash if it read one. Finding
//! out takes a system call. An ordinary call makes that system call anyway: so libc's function is called
//! first, and the path read only if that has not failed with EFAULT ([`Order::KernelFirst`]). If the path
//! then leads to the tree, what the call has opened is closed again. A call that changes something, such as
//! an open(2) that creates a file, cannot be taken back: there, the path is tried first
//! ([`Order::PathFirst`]).

use core::ffi::{c_char, c_int};

use ibverbs_abi::Errno;
use libc::{AT_FDCWD, DIR, FILE, O_CLOEXEC, O_CREAT, O_PATH, O_TRUNC, ssize_t};

use super::{PathTarget, find};
use crate::cancellation;
use crate::view::real;
use crate::view::tree::Node;

/// The result of a call with a path.
pub trait Answer: Copy {
    /// Whether the call has failed. errno then says why.
    fn has_failed(self) -> bool;
    /// The answer of a call that fails; sets errno.
    fn failure(errno: Errno) -> Self;
}

macro_rules! negative_is_failure {
    ($($ty:ty)*) => {
        $(impl Answer for $ty {
            fn has_failed(self) -> bool {
                self < 0
            }

            fn failure(errno: Errno) -> Self {
                errno.minus_one() as Self
            }
        })*
    };
}

negative_is_failure! { c_int ssize_t }

macro_rules! null_is_failure {
    ($($ty:ty)*) => {
        $(impl Answer for *mut $ty {
            fn has_failed(self) -> bool {
                self.is_null()
            }

            fn failure(errno: Errno) -> Self {
                errno.null()
            }
        })*
    };
}

null_is_failure! { DIR FILE }

/// The order of a call of libc's function and of following the path.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Order {
    KernelFirst,
    PathFirst,
}

impl Order {
    /// The order for open(2) with these flags.
    pub fn of_open(flags: c_int) -> Order {
        if flags & (O_CREAT | O_TRUNC) == 0 {
            Order::KernelFirst
        } else {
            Order::PathFirst
        }
    }
}

/// A path as a call has it.
#[derive(Clone, Copy)]
pub struct Path {
    pub dirfd: c_int,
    pub text: *const c_char,
    /// Whether the call follows a link at the end of the path.
    pub follow: bool,
}

impl Path {
    /// A path that is relative to the working directory.
    pub fn new(text: *const c_char, follow: bool) -> Path {
        Path::at(AT_FDCWD, text, follow)
    }

    /// A path that is relative to a directory.
    pub fn at(dirfd: c_int, text: *const c_char, follow: bool) -> Path {
        Path {
            dirfd,
            text,
            follow,
        }
    }
}

/// Answers a call: by libc's function if the path does not lead to the tree, else by `ours`.
///
/// `libcs` is libc's function, for a directory's descriptor and a path. `undo` takes back its success.
///
/// # Safety
/// The path is a C string, or the kernel answers it with EFAULT. `libcs` may be called with it.
#[inline]
pub unsafe fn answer<R: Answer>(
    path: Path,
    order: Order,
    libcs: impl Fn(c_int, *const c_char) -> R,
    undo: impl FnOnce(R),
    ours: impl FnOnce(Result<(String, Node), Errno>) -> R,
) -> R {
    let errno = Errno::last();
    let early = match order {
        Order::KernelFirst => {
            let early = libcs(path.dirfd, path.text);
            if early.has_failed() && Errno::last() == Errno(libc::EFAULT) {
                return early;
            }
            Some(early)
        }
        // SAFETY: as for this function.
        Order::PathFirst if unsafe { is_mapped(path.text) } => None,
        Order::PathFirst => return libcs(path.dirfd, path.text),
    };
    // SAFETY: the kernel has read the path, so it is a C string, or longer than any path.
    let target = unsafe { find(path.dirfd, path.text, path.follow) };
    let found = match target {
        PathTarget::Kernel => {
            return early.unwrap_or_else(|| libcs(path.dirfd, path.text));
        }
        other => other,
    };
    if let Some(early) = early.filter(|early| !early.has_failed()) {
        undo(early);
    }
    errno.set();
    match found {
        PathTarget::Ours(path, node) => ours(Ok((path, node))),
        PathTarget::Error(errno) => ours(Err(errno)),
        PathTarget::KernelAt(path) => libcs(AT_FDCWD, path.as_ptr()),
        PathTarget::Kernel => libcs(path.dirfd, path.text),
    }
}

/// [`answer`] for a call that only asks.
///
/// # Safety
/// As for [`answer`].
#[inline]
pub unsafe fn answer_query<R: Answer>(
    path: Path,
    libcs: impl Fn(c_int, *const c_char) -> R,
    ours: impl FnOnce(&str, &Node) -> R,
) -> R {
    let ours = |found: Result<(String, Node), Errno>| match found {
        Ok((path, node)) => ours(&path, &node),
        Err(errno) => R::failure(errno),
    };
    // SAFETY: as for this function.
    unsafe { answer(path, Order::KernelFirst, libcs, |_| (), ours) }
}

/// Closes what a call has opened that must not be answered by the kernel.
pub fn close(fd: c_int) {
    let _no_cancellation = cancellation::disable();
    // SAFETY: the descriptor has just been opened, and nothing else knows it.
    unsafe { libc::close(fd) };
}

/// Whether the kernel can read a path. errno stays as it is.
///
/// The system call is openat(2), which a sandbox permits to a program that opens files. It reads the path,
/// and then fails: it is relative to no directory. The first character is left out, because it makes a path
/// absolute; it is in the same page as the second.
///
/// # Safety
/// As for [`find`].
pub unsafe fn is_mapped(path: *const c_char) -> bool {
    /// The smallest page.
    const PAGE: usize = 4096;
    let second = path.wrapping_add(1);
    let errno = Errno::last();
    // The character behind an empty path does not belong to it.
    let can_read = second.addr() % PAGE != 0 && is_read(second) || is_read(path);
    errno.set();
    can_read
}

fn is_read(path: *const c_char) -> bool {
    const NO_DIRECTORY: usize = -1_isize as usize;
    let flags = (O_PATH | O_CLOEXEC) as usize;
    // SAFETY: the kernel checks the path. With O_PATH nothing happens to a file that it opens.
    let fd = unsafe {
        let path = path.expose_provenance();
        real::syscall(libc::SYS_openat, NO_DIRECTORY, path, flags, 0, 0, 0)
    };
    if fd >= 0 {
        close(fd as c_int);
    }
    fd >= 0 || Errno::last() != Errno(libc::EFAULT)
}

#[cfg(test)]
mod tests {
    use core::ptr::{null, without_provenance};

    use super::*;

    /// Two pages, of which the second is not mapped.
    fn half_mapped() -> *mut u8 {
        // SAFETY: a new mapping, of which the second page is given back.
        unsafe {
            let page = libc::sysconf(libc::_SC_PAGESIZE) as usize;
            let at = libc::mmap(
                core::ptr::null_mut(),
                2 * page,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            assert_ne!(at, libc::MAP_FAILED);
            assert_eq!(libc::munmap(at.wrapping_add(page), page), 0);
            at.cast::<u8>().wrapping_add(page)
        }
    }

    #[test]
    fn a_path_is_mapped_to_its_end() {
        crate::view::real::resolve(&mut crate::view::definition::Definitions::new());
        let end = half_mapped();
        // SAFETY: the bytes before `end` are this test's.
        let mapped = |text: &[u8]| unsafe {
            let start = end.wrapping_sub(text.len());
            start.copy_from_nonoverlapping(text.as_ptr(), text.len());
            is_mapped(start.cast())
        };
        assert!(mapped(b"/dev/null\0") && mapped(b"a\0") && mapped(b"//dev/null\0"));
        assert!(mapped(b"\0") && mapped(b"\0x"));
        assert!(!mapped(b"/tmp") && !mapped(b"/"));
        for bad in [end.cast_const().cast(), null(), without_provenance(1 << 63)] {
            // SAFETY: the kernel answers these addresses with EFAULT.
            assert!(unsafe { !is_mapped(bad) }, "{bad:?}");
        }
        Errno(77).set();
        assert!(mapped(b"none\0"));
        assert_eq!(Errno::last(), Errno(77));
    }
}
