//! Files under a limit of their size (RLIMIT_FSIZE, LimitFSIZE= of systemd). Beyond it, the kernel refuses
//! to write or to set a size, memfd_create(2)'s files included, and sends SIGXFSZ, which ends a program that
//! does not handle it. A program must not end because its library had use for a file: the library gets EFBIG
//! only.

use core::mem::MaybeUninit;
use core::ptr::null_mut;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Calls `work`, whose system calls fail with EFBIG beyond the limit, and cause no signal. Leaves errno as
/// `work` has left it.
pub fn without_signal<T>(work: impl FnOnce() -> T) -> T {
    let only = sigxfsz();
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `only` is initialised, and `before` writable.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &only, before.as_mut_ptr()) };
    let was_pending = is_pending();
    let result = work();
    let errno = io::Error::last_os_error().raw_os_error().unwrap_or(0);
    if !was_pending {
        let at_once = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // The kernel sends the signal to this thread, before the system call returns.
        // SAFETY: the set and the time are initialised; a NULL place for the signal is allowed.
        unsafe { libc::sigtimedwait(&only, null_mut(), &at_once) };
    }
    // SAFETY: the first call has initialised `before`; libc returns the address of this thread's errno.
    unsafe {
        libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), null_mut());
        *libc::__errno_location() = errno;
    }
    result
}

/// Sets the size of a file, as ftruncate(2) does, without a signal: EFBIG beyond the limit.
pub fn set_len(file: impl AsFd, len: u64) -> io::Result<()> {
    let len = libc::off_t::try_from(len).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: ftruncate takes no pointers.
    let result = without_signal(|| unsafe { libc::ftruncate(file.as_fd().as_raw_fd(), len) });
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// The set that has SIGXFSZ only.
fn sigxfsz() -> libc::sigset_t {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the set is writable, and sigemptyset initialises it.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), libc::SIGXFSZ);
        set.assume_init()
    }
}

/// Whether SIGXFSZ waits for this thread: it was blocked before, and is not this module's.
fn is_pending() -> bool {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the set is writable, and sigpending initialises it.
    unsafe {
        libc::sigpending(set.as_mut_ptr());
        libc::sigismember(set.as_ptr(), libc::SIGXFSZ) == 1
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::FromRawFd;

    use super::*;

    /// The exit status of a child in which no file may grow, or the signal that ends it, negated.
    fn in_child(work: impl FnOnce() -> bool) -> i32 {
        // SAFETY: the child makes system calls only, and ends by _exit.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                let none = libc::rlimit {
                    rlim_cur: 0,
                    rlim_max: 0,
                };
                libc::setrlimit(libc::RLIMIT_FSIZE, &none);
                libc::signal(libc::SIGXFSZ, libc::SIG_DFL);
                libc::_exit(if work() { 0 } else { 1 });
            }
            let mut status = 0;
            assert_eq!(libc::waitpid(child, &mut status, 0), child);
            if libc::WIFSIGNALED(status) {
                -libc::WTERMSIG(status)
            } else {
                libc::WEXITSTATUS(status)
            }
        }
    }

    fn memfd() -> File {
        // SAFETY: the name is a C string, and nothing else has the new descriptor.
        unsafe { File::from_raw_fd(libc::memfd_create(c"test".as_ptr(), libc::MFD_CLOEXEC)) }
    }

    fn refused(result: io::Result<()>) -> bool {
        result.is_err_and(|error| error.raw_os_error() == Some(libc::EFBIG))
    }

    #[test]
    fn a_file_that_may_not_grow_causes_no_signal() {
        let file = memfd();
        set_len(&file, 4096).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 4096);
        let raw = file.as_raw_fd();
        // SAFETY: ftruncate takes no pointers.
        let plain = in_child(|| unsafe { libc::ftruncate(raw, 8192) } != 0);
        assert_eq!(plain, -libc::SIGXFSZ, "without this module");
        assert_eq!(in_child(|| refused(set_len(&file, 8192))), 0);
        let twice = || refused(set_len(&file, 8192)) && refused(set_len(&file, 8193));
        assert_eq!(in_child(twice), 0);
        assert_eq!(in_child(|| set_len(&file, 0).is_ok()), 0);
    }

    #[test]
    fn a_signal_of_the_program_stays_pending() {
        let file = memfd();
        let keeps = || {
            let only = sigxfsz();
            // SAFETY: the set is initialised; the signal goes to this thread, which blocks it.
            unsafe {
                libc::pthread_sigmask(libc::SIG_BLOCK, &only, null_mut());
                libc::raise(libc::SIGXFSZ);
            }
            refused(set_len(&file, 1)) && is_pending()
        };
        assert_eq!(in_child(keeps), 0);
        // SAFETY: the set is initialised.
        let blocked = || unsafe {
            libc::pthread_sigmask(libc::SIG_BLOCK, &sigxfsz(), null_mut());
            refused(set_len(&file, 1)) && !is_pending()
        };
        assert_eq!(in_child(blocked), 0);
    }
}
