//! Sleeping until a descriptor is readable, and being woken.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// Wakes a thread that sleeps in [`readable`].
pub struct Wake {
    fd: OwnedFd,
    /// The descriptor is readable, or about to be.
    set: AtomicBool,
}

impl Wake {
    pub fn new() -> io::Result<Wake> {
        // SAFETY: no conditions.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd == -1 {
            return Err(io::Error::last_os_error());
        }
        Ok(Wake {
            // SAFETY: just made, and nobody else's.
            fd: unsafe { OwnedFd::from_raw_fd(fd) },
            set: AtomicBool::new(false),
        })
    }

    pub fn wake(&self) {
        if !self.set.swap(true, Ordering::SeqCst) {
            let one = 1u64;
            // SAFETY: eight readable bytes. Never full: it is written once until it is read.
            unsafe { libc::write(self.fd.as_raw_fd(), (&raw const one).cast(), 8) };
        }
    }

    /// By the thread itself, before it looks at what it was woken for.
    pub fn clear(&self) {
        if self.set.load(Ordering::SeqCst) {
            let mut count = 0u64;
            // SAFETY: eight writable bytes. Does not block; if the write is yet to come, it wakes the
            // thread once more than needed.
            unsafe { libc::read(self.fd.as_raw_fd(), (&raw mut count).cast(), 8) };
            self.set.store(false, Ordering::SeqCst);
        }
    }
}

impl AsRawFd for Wake {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

/// Sleeps until one of the descriptors is readable, or for that many nanoseconds. Whether the first is.
pub fn readable(first: RawFd, second: Option<RawFd>, timeout: Option<u64>) -> bool {
    let poll = |fd| libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    // A negative descriptor is ignored.
    let mut fds = [poll(first), poll(second.unwrap_or(-1))];
    let timeout = timeout.map(|nanoseconds| libc::timespec {
        tv_sec: (nanoseconds / 1_000_000_000) as libc::time_t,
        tv_nsec: (nanoseconds % 1_000_000_000) as libc::c_long,
    });
    let timeout = timeout
        .as_ref()
        .map_or(core::ptr::null(), core::ptr::from_ref);
    // SAFETY: two elements; the timeout is NULL or on this stack.
    let count = unsafe { libc::ppoll(fds.as_mut_ptr(), 2, timeout, core::ptr::null()) };
    count > 0 && fds[0].revents != 0
}

/// How often this thread has had to leave the processor to others.
pub fn preempted() -> i64 {
    // SAFETY: zeros are a value of this structure of numbers, which is writable.
    unsafe {
        let mut usage: libc::rusage = core::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &mut usage);
        usage.ru_nivcsw
    }
}
