//! Blocking until a descriptor is readable, and waking a thread up that blocks so.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

#[cfg(loom)]
use loom::sync::atomic::{AtomicBool, Ordering};

use crate::cancellation;
use crate::descriptors::{self, Owned};

/// Wakes up a thread that blocks in [`readable`], through an eventfd.
pub struct Waker {
    eventfd: Owned<OwnedFd>,
    flag: WakeFlag,
}

/// Set while the eventfd is readable, or about to be: a further wakeup needs no system call.
///
/// A waker stores its cause, then swaps the flag. The thread swaps it back, then reads the causes. Both
/// swap, so the thread sees the cause of each waker that has found the flag set. After a store in place of
/// its swap, a CPU with weak memory order may read the causes first.
struct WakeFlag(AtomicBool);

impl WakeFlag {
    fn new() -> WakeFlag {
        WakeFlag(AtomicBool::new(false))
    }

    /// Sets it; calls `write` if it was not set.
    fn set(&self, write: impl FnOnce()) {
        if !self.0.swap(true, Ordering::SeqCst) {
            write();
        }
    }

    /// Calls `read` and clears it, if it is set or the eventfd is `readable`.
    fn clear(&self, readable: bool, read: impl FnOnce()) {
        if readable || self.0.load(Ordering::SeqCst) {
            read();
            self.0.swap(false, Ordering::SeqCst);
        }
    }
}

impl Waker {
    /// Opens the eventfd. Fails as eventfd(2) does.
    pub fn new() -> io::Result<Waker> {
        let eventfd = descriptors::open(|| {
            // SAFETY: eventfd takes no pointers.
            let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
            if fd == -1 {
                return Err(io::Error::last_os_error());
            }
            // SAFETY: eventfd has just opened it, and nothing else knows it.
            Ok(unsafe { OwnedFd::from_raw_fd(fd) })
        })?;
        Ok(Waker {
            eventfd,
            flag: WakeFlag::new(),
        })
    }

    /// Wakes the thread up, or lets its next [`readable`] return at once. Any thread may call this.
    pub fn wake(&self) {
        self.flag.set(|| self.write());
    }

    fn write(&self) {
        // The counter cannot overflow: it is written once per `clear`.
        cancellation::write(self.eventfd.as_raw_fd(), &1u64.to_ne_bytes());
    }

    /// Called by the thread itself, before it checks what it was woken up for. `readable`: [`readable`]
    /// has found the eventfd readable.
    ///
    /// A waker that has set the flag may write much later, when the flag is cleared already. So a readable
    /// eventfd is read whatever the flag says, or it would stay readable. The flag is cleared last: a waker
    /// that finds it set before that has a cause which the thread checks for afterwards.
    pub fn clear(&self, readable: bool) {
        self.flag.clear(readable, || {
            let mut count = 0u64;
            // SAFETY: eight writable bytes. The eventfd does not block.
            unsafe { libc::read(self.eventfd.as_raw_fd(), (&raw mut count).cast(), 8) };
        });
    }
}

/// What [`readable`] found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readable {
    /// The waker's eventfd is readable.
    pub waker: bool,
    /// The other descriptor is readable.
    pub other: bool,
}

/// Blocks until the waker or the other descriptor is readable, a signal arrives, or the timeout ends. Without
/// a timeout it blocks without limit. Returns which of the two is readable.
pub fn readable(waker: &Waker, other: Option<RawFd>, timeout: Option<Duration>) -> Readable {
    let poll = |fd| libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    // ppoll ignores a negative descriptor.
    let mut fds = [poll(waker.eventfd.as_raw_fd()), poll(other.unwrap_or(-1))];
    let timeout = timeout.map(|timeout| libc::timespec {
        tv_sec: timeout.as_secs() as libc::time_t,
        tv_nsec: timeout.subsec_nanos().into(),
    });
    let timeout = timeout
        .as_ref()
        .map_or(core::ptr::null(), core::ptr::from_ref);
    // SAFETY: `fds` has two elements; the timeout is NULL or points to this function's `timeout`.
    let count = unsafe { libc::ppoll(fds.as_mut_ptr(), 2, timeout, core::ptr::null()) };
    Readable {
        waker: count > 0 && fds[0].revents != 0,
        other: count > 0 && fds[1].revents != 0,
    }
}

/// How often the kernel has preempted the calling thread: its involuntary context switches.
pub fn preemptions() -> i64 {
    // SAFETY: zeros are a valid rusage, a structure of integers, and `usage` is writable.
    unsafe {
        let mut usage: libc::rusage = core::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &mut usage);
        usage.ru_nivcsw
    }
}

#[cfg(test)]
impl Waker {
    /// Whether a [`readable`] would return at once.
    pub fn is_readable(&self) -> bool {
        readable(self, None, Some(Duration::ZERO)).waker
    }
}

#[cfg(all(test, loom))]
mod model {
    use std::sync::Arc;

    use loom::thread;

    use super::*;
    use crate::model::Wakeup;

    /// The thread sees the causes of all wakers, also of one that finds the flag set, and so writes nothing.
    #[test]
    fn no_wakeup_is_lost() {
        loom::model(|| {
            let flag = Arc::new(WakeFlag::new());
            let eventfd = Arc::<Wakeup>::default();
            let causes = Arc::new([AtomicBool::new(false), AtomicBool::new(false)]);
            let wakers = [0, 1].map(|number| {
                let (flag, eventfd, causes) = (flag.clone(), eventfd.clone(), causes.clone());
                thread::spawn(move || {
                    causes[number].store(true, Ordering::Relaxed);
                    flag.set(|| eventfd.send());
                })
            });
            while !causes.iter().all(|cause| cause.load(Ordering::Relaxed)) {
                eventfd.wait();
                flag.clear(true, || eventfd.read());
            }
            for waker in wakers {
                waker.join().unwrap();
            }
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_wakeup_is_read_once() {
        let waker = Waker::new().unwrap();
        assert!(!waker.is_readable());
        waker.wake();
        waker.wake();
        assert!(waker.is_readable());
        waker.clear(true);
        assert!(!waker.is_readable());
        waker.wake();
        assert!(waker.is_readable());
    }

    /// The schedule that made the thread spin: the flag is cleared between a waker's swap and its write.
    #[test]
    fn a_late_write_does_not_stay_readable() {
        let waker = Waker::new().unwrap();
        assert!(!waker.flag.0.swap(true, Ordering::SeqCst));
        waker.clear(false);
        waker.write();
        assert!(waker.is_readable());
        waker.clear(true);
        assert!(!waker.is_readable());
        waker.wake();
        assert!(waker.is_readable(), "the next wakeup is not lost");
    }
}
