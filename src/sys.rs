//! The system calls the library makes, as thin as they come.
//!
//! They go through libc's functions, not through raw system calls: programs and tests interpose
//! `open`, `stat`, `write`, `ioctl` and `mmap`, and must see what they saw of the C library.

use core::{ffi::CStr, mem::MaybeUninit, ptr::NonNull};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use ibverbs_abi::Errno;
use libc::c_int;

/// Opens `path` relative to `dirfd` (`AT_FDCWD` for the working directory). `flags` must not create.
pub fn openat(dirfd: c_int, path: &CStr, flags: c_int) -> Result<OwnedFd, Errno> {
    // SAFETY: `path` is NUL-terminated, and without O_CREAT there is no third argument.
    let fd = unsafe { libc::openat(dirfd, path.as_ptr(), flags) };
    owned(fd).ok_or_else(Errno::last)
}

/// Opens `path`, which must not be created by `flags`.
pub fn open(path: &CStr, flags: c_int) -> Result<OwnedFd, Errno> {
    // SAFETY: `path` is NUL-terminated, and without O_CREAT there is no third argument.
    let fd = unsafe { libc::open(path.as_ptr(), flags) };
    owned(fd).ok_or_else(Errno::last)
}

/// Takes ownership of a descriptor that a call has just returned; `None` if the call failed.
fn owned(fd: c_int) -> Option<OwnedFd> {
    // SAFETY: both callers hand what open returned: new, and nobody else's.
    (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Reads up to `buf.len()` bytes.
pub fn read(fd: BorrowedFd, buf: &mut [u8]) -> Result<usize, Errno> {
    // SAFETY: `buf` is ours to write, all of it.
    let len = unsafe { libc::read(fd.as_raw_fd(), buf.as_mut_ptr().cast(), buf.len()) };
    usize::try_from(len).map_err(|_| Errno::last())
}

/// `stat`, which follows links.
pub fn stat(path: &CStr) -> Result<libc::stat, Errno> {
    let mut st = MaybeUninit::uninit();
    // SAFETY: `path` is NUL-terminated and `st` has room for the answer.
    if unsafe { libc::stat(path.as_ptr(), st.as_mut_ptr()) } != 0 {
        return Err(Errno::last());
    }
    // SAFETY: stat succeeded, so it filled the struct.
    Ok(unsafe { st.assume_init() })
}

/// `fstat` of a descriptor, which need not be open: then the answer is EBADF.
pub fn fstat(fd: c_int) -> Result<libc::stat, Errno> {
    let mut st = MaybeUninit::uninit();
    // SAFETY: `st` has room for the answer.
    if unsafe { libc::fstat(fd, st.as_mut_ptr()) } != 0 {
        return Err(Errno::last());
    }
    // SAFETY: fstat succeeded, so it filled the struct.
    Ok(unsafe { st.assume_init() })
}

/// An open directory, closed when it is dropped.
pub struct Dir(NonNull<libc::DIR>);

impl Dir {
    /// Opens `path` for reading its entries.
    pub fn open(path: &CStr) -> Result<Dir, Errno> {
        // SAFETY: `path` is NUL-terminated.
        NonNull::new(unsafe { libc::opendir(path.as_ptr()) })
            .map(Dir)
            .ok_or_else(Errno::last)
    }

    /// The descriptor, for `openat`. It is the directory's: not to be closed.
    pub fn fd(&self) -> c_int {
        // SAFETY: the directory is open as long as `self` lives.
        unsafe { libc::dirfd(self.0.as_ptr()) }
    }

    /// The next entry's name, in the file system's order. `None` at the end and on errors.
    pub fn next_name(&mut self) -> Option<&CStr> {
        self.next_entry().map(|(name, _)| name)
    }

    /// The next entry's name, and whether it is known to be a regular file without asking `stat`.
    pub fn next_entry(&mut self) -> Option<(&CStr, bool)> {
        // SAFETY: the directory is open, and `&mut self` keeps other readers away.
        let entry = unsafe { libc::readdir(self.0.as_ptr()) };
        if entry.is_null() {
            return None;
        }
        // SAFETY: an entry's name is NUL-terminated, and the entry stays until the next readdir,
        // which needs `&mut self` and so the end of this borrow.
        let (name, kind) = unsafe { (CStr::from_ptr((*entry).d_name.as_ptr()), (*entry).d_type) };
        Some((name, kind == libc::DT_REG))
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        // SAFETY: the directory was opened by `open` and is closed only here.
        unsafe { libc::closedir(self.0.as_ptr()) };
    }
}
