//! Thin wrappers of the system calls that the library makes.
//!
//! They call libc's functions, not the kernel: programs and tests interpose `open`, `stat`, `write`,
//! `ioctl` and `mmap`, and must see the same calls as with rdma-core. A failing function leaves its error
//! in errno, too.

use core::{ffi::CStr, mem::MaybeUninit, ptr::NonNull};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ibverbs_abi::Errno;
use libc::c_int;

/// Locks a mutex. The standard library's mutex is a futex(2) word and nothing else, so that the children of
/// a fork can use it. parking_lot's needs a table of the process, whose own locks another thread may hold
/// during the fork.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic ends the process, so the mutex is never poisoned.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Opens `path` relative to `dirfd` (`AT_FDCWD` for the working directory). `flags` must not contain
/// O_CREAT.
pub fn openat(dirfd: c_int, path: &CStr, flags: c_int) -> Result<OwnedFd, Errno> {
    // SAFETY: `path` is NUL-terminated, and without O_CREAT there is no third argument.
    let fd = unsafe { libc::openat(dirfd, path.as_ptr(), flags) };
    owned(fd).ok_or_else(Errno::last)
}

/// Opens `path`. `flags` must not contain O_CREAT.
pub fn open(path: &CStr, flags: c_int) -> Result<OwnedFd, Errno> {
    // SAFETY: `path` is NUL-terminated, and without O_CREAT there is no third argument.
    let fd = unsafe { libc::open(path.as_ptr(), flags) };
    owned(fd).ok_or_else(Errno::last)
}

/// Takes ownership of a descriptor that a call has just returned. `None` if the call failed.
fn owned(fd: c_int) -> Option<OwnedFd> {
    // SAFETY: both callers pass what open has returned: a new descriptor without another owner.
    (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Reads up to `buf.len()` bytes, and returns their number.
pub fn read(fd: BorrowedFd, buf: &mut [u8]) -> Result<usize, Errno> {
    // SAFETY: `buf` is writable for its length.
    let len = unsafe { libc::read(fd.as_raw_fd(), buf.as_mut_ptr().cast(), buf.len()) };
    usize::try_from(len).map_err(|_| Errno::last())
}

/// stat(2), which follows symbolic links.
pub fn stat(path: &CStr) -> Result<libc::stat, Errno> {
    let mut st = MaybeUninit::uninit();
    // SAFETY: `path` is NUL-terminated, and `st` has room for the result.
    if unsafe { libc::stat(path.as_ptr(), st.as_mut_ptr()) } != 0 {
        return Err(Errno::last());
    }
    // SAFETY: the call has succeeded, so it has filled the struct.
    Ok(unsafe { st.assume_init() })
}

/// fstat(2). EBADF if `fd` is not open.
pub fn fstat(fd: c_int) -> Result<libc::stat, Errno> {
    let mut st = MaybeUninit::uninit();
    // SAFETY: `st` has room for the result.
    if unsafe { libc::fstat(fd, st.as_mut_ptr()) } != 0 {
        return Err(Errno::last());
    }
    // SAFETY: fstat succeeded, so it filled the struct.
    Ok(unsafe { st.assume_init() })
}

/// An open directory, which is closed on drop.
pub struct Dir(NonNull<libc::DIR>);

impl Dir {
    /// Opens the directory `path`.
    pub fn open(path: &CStr) -> Result<Dir, Errno> {
        // SAFETY: `path` is NUL-terminated.
        NonNull::new(unsafe { libc::opendir(path.as_ptr()) })
            .map(Dir)
            .ok_or_else(Errno::last)
    }

    /// The descriptor, for `openat`. The directory owns it.
    pub fn fd(&self) -> c_int {
        // SAFETY: the directory is open as long as `self` lives.
        unsafe { libc::dirfd(self.0.as_ptr()) }
    }

    /// The name of the next entry, in the file system's order. `None` at the end and on errors.
    pub fn next_name(&mut self) -> Option<&CStr> {
        self.next_entry().map(|(name, _)| name)
    }

    /// The name of the next entry, and whether readdir(3) reports it as a regular file.
    pub fn next_entry(&mut self) -> Option<(&CStr, bool)> {
        // SAFETY: the directory is open, and `&mut self` excludes other readers.
        let entry = unsafe { libc::readdir(self.0.as_ptr()) };
        if entry.is_null() {
            return None;
        }
        // SAFETY: an entry's name is NUL-terminated. The entry is valid until the next readdir, which needs
        // `&mut self`, so this borrow has ended by then.
        let (name, kind) = unsafe { (CStr::from_ptr((*entry).d_name.as_ptr()), (*entry).d_type) };
        Some((name, kind == libc::DT_REG))
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        // SAFETY: `open` has opened the directory, and only drop closes it.
        unsafe { libc::closedir(self.0.as_ptr()) };
    }
}
