//! Blocking until a descriptor is readable, and waking a thread up that blocks so.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

#[cfg(loom)]
use loom::sync::atomic::{AtomicBool, Ordering};

use crate::cancellation;
use crate::descriptors::{self, Owned};

/// How often a thread that blocks checks whether it can still be woken up.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// How long [`readable`] blocks at most once the program has closed the waker's descriptors.
const LOST_TIMEOUT: Duration = Duration::from_millis(10);

/// Wakes up a thread that blocks in [`readable`], through a pipe.
///
/// The program may close the pipe, and use its numbers for descriptors of its own (closefrom(3)). An eventfd
/// has no inode by which it differs from others. A thread that blocks notices it within [`CHECK_INTERVAL`].
/// From then on it blocks for [`LOST_TIMEOUT`] at most, as nobody can wake it up.
pub struct Waker {
    reader: Owned<OwnedFd>,
    writer: Owned<OwnedFd>,
    flag: WakeFlag,
    /// The program has closed the pipe.
    lost: AtomicBool,
}

/// Set while the pipe is readable, or about to be: a further wakeup needs no system call.
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

    /// Calls `read` and clears it, if it is set or the pipe is `readable`.
    fn clear(&self, readable: bool, read: impl FnOnce()) {
        if readable || self.0.load(Ordering::SeqCst) {
            read();
            self.0.swap(false, Ordering::SeqCst);
        }
    }
}

impl Waker {
    /// Opens the pipe. Fails as [`descriptors::open_pipe`] does.
    pub fn new() -> io::Result<Waker> {
        let [reader, writer] = descriptors::open_pipe()?;
        Ok(Waker {
            reader,
            writer,
            flag: WakeFlag::new(),
            lost: AtomicBool::new(false),
        })
    }

    /// Wakes the thread up, or lets its next [`readable`] return at once. Any thread may call this.
    pub fn wake(&self) {
        self.flag.set(|| self.write());
    }

    fn write(&self) {
        // There is room: it is written once per `clear`.
        if self.writer.is_unchanged() {
            cancellation::write(self.writer.as_raw_fd(), &[1]);
        }
    }

    /// The descriptor to block on; a negative number once the pipe is lost.
    fn fd(&self) -> RawFd {
        match self.lost.load(Ordering::Relaxed) {
            false => self.reader.as_raw_fd(),
            true => -1,
        }
    }

    /// Called by the thread itself, before it checks what it was woken up for. `readable`: [`readable`]
    /// has found the pipe readable.
    ///
    /// A waker that has set the flag may write much later, when the flag is cleared already. So a readable
    /// pipe is read whatever the flag says, or it would stay readable. The flag is cleared last: a waker
    /// that finds it set before that has a cause which the thread checks for afterwards.
    pub fn clear(&self, readable: bool) {
        self.flag.clear(readable, || {
            if !self.is_lost() && self.read() == 0 {
                self.lost.store(true, Ordering::Relaxed);
            }
        });
    }

    /// Whether the program has closed the end to read from.
    fn is_lost(&self) -> bool {
        if !self.reader.is_unchanged() {
            self.lost.store(true, Ordering::Relaxed);
        }
        self.lost.load(Ordering::Relaxed)
    }

    /// Reads all that is there. Returns 0 if the other end is closed.
    fn read(&self) -> isize {
        let mut bytes = [0_u8; 64];
        let at = bytes.as_mut_ptr().cast();
        // SAFETY: `bytes` is writable for its length. The pipe does not block.
        unsafe { libc::read(self.reader.as_raw_fd(), at, bytes.len()) }
    }
}

/// The result of [`readable`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readable {
    /// The waker's pipe is readable.
    pub waker: bool,
    /// The other descriptor is readable.
    pub other: bool,
}

/// Blocks until the waker or the other descriptor is readable, a signal arrives, or the timeout ends. Without
/// a timeout it blocks without limit. Returns which of the two is readable.
pub fn readable(waker: &Waker, other: Option<RawFd>, timeout: Option<Duration>) -> Readable {
    let limit = match waker.fd() {
        -1 => LOST_TIMEOUT,
        _ => Duration::MAX,
    };
    let mut left = timeout.unwrap_or(Duration::MAX).min(limit);
    loop {
        let slice = left.min(CHECK_INTERVAL);
        let found = readable_within(waker, other, slice);
        left = left.saturating_sub(slice);
        // The number may be of another descriptor by now, which never becomes readable.
        if let Some(found) = found.or((left.is_zero() || waker.is_lost()).then(Readable::default)) {
            return found;
        }
    }
}

/// Waits for the descriptors: returns what is readable within a time; none if nothing is.
fn readable_within(waker: &Waker, other: Option<RawFd>, timeout: Duration) -> Option<Readable> {
    let poll = |fd| libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    // ppoll ignores a negative descriptor.
    let mut fds = [poll(waker.fd()), poll(other.unwrap_or(-1))];
    let timeout = libc::timespec {
        tv_sec: timeout.as_secs() as _,
        tv_nsec: timeout.subsec_nanos().into(),
    };
    // SAFETY: `fds` has two elements; the timeout is this function's.
    let count = unsafe { libc::ppoll(fds.as_mut_ptr(), 2, &timeout, core::ptr::null()) };
    (count != 0).then(|| Readable {
        waker: count > 0 && fds[0].revents != 0,
        other: count > 0 && fds[1].revents != 0,
    })
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
    use std::time::Instant;

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

    /// A program that has closed all descriptors uses their numbers for sockets of its own. These are neither
    /// written nor read nor closed, and the thread does not spin.
    #[test]
    fn descriptors_of_the_program_are_left_alone() {
        let waker = Waker::new().unwrap();
        let numbers = [&waker.reader, &waker.writer].map(|end| end.as_raw_fd());
        let sockets = descriptors::replace_by_sockets(numbers);
        // SAFETY: the bytes are readable.
        let sent = unsafe { libc::send(sockets[1], c"abc".as_ptr().cast(), 3, 0) };
        assert_eq!(sent, 3);
        assert!(waker.is_readable());
        waker.clear(true);
        waker.wake();
        assert!(!waker.is_readable(), "it is not watched any more");
        let block = Instant::now();
        assert_eq!(readable(&waker, None, None), Readable::default());
        assert!(block.elapsed() >= LOST_TIMEOUT);
        drop(waker);
        let mut bytes = [0_u8; 8];
        // SAFETY: `bytes` is writable for its length, and all descriptors are this test's.
        unsafe {
            let at = bytes.as_mut_ptr().cast();
            assert_eq!(libc::recv(sockets[1], at, 8, 0), -1, "{bytes:?}");
            assert_eq!(libc::recv(numbers[0], at, 8, 0), 3);
            for fd in sockets.into_iter().chain(numbers) {
                assert_eq!(libc::close(fd), 0);
            }
        }
    }

    /// closefrom(3) while the thread blocks.
    #[test]
    fn a_thread_notices_that_the_pipe_is_closed() {
        let waker = Waker::new().unwrap();
        // SAFETY: the number is the waker's. dup3 replaces it at once, so no other test gets it.
        let closed = unsafe {
            let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
            let number = waker.writer.as_raw_fd();
            assert_eq!(libc::dup3(null, number, libc::O_CLOEXEC), number);
            [null, number]
        };
        assert!(readable(&waker, None, None).waker);
        waker.clear(true);
        assert_eq!(readable(&waker, None, None), Readable::default());
        drop(waker);
        for fd in closed {
            // SAFETY: both are this test's.
            assert_eq!(unsafe { libc::close(fd) }, 0);
        }
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
