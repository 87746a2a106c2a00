//! [`Epoll`]: an epoll instance (epoll(7)).

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::ptr::null_mut;

use ibverbs_os::unix;

use crate::descriptors::{self, Owned};

/// An epoll instance. Thread-safe.
pub struct Epoll(Owned<OwnedFd>);

impl Epoll {
    /// An instance that watches nothing. Fails as epoll_create1(2).
    pub fn new() -> io::Result<Epoll> {
        // SAFETY: epoll_create1 takes no pointers, and nothing else owns what it returns.
        let open = || unsafe { unix::owned(libc::epoll_create1(libc::EPOLL_CLOEXEC)) };
        descriptors::open(open).map(Epoll)
    }

    /// The descriptor, which `self` owns.
    pub fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Reports these events of a descriptor, under that token. Fails as epoll_ctl(2).
    pub fn add(&self, fd: RawFd, events: i32, token: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, events, token)
    }

    /// Changes the events of a descriptor that has been added. It cannot fail: the descriptor is in the set,
    /// and its event takes no more memory.
    pub fn change(&self, fd: RawFd, events: i32, token: u64) {
        let _ = self.control(libc::EPOLL_CTL_MOD, fd, events, token);
    }

    /// Reports nothing of a descriptor any more.
    pub fn remove(&self, fd: RawFd) {
        // SAFETY: EPOLL_CTL_DEL does not read the event.
        unsafe { libc::epoll_ctl(self.fd(), libc::EPOLL_CTL_DEL, fd, null_mut()) };
    }

    fn control(&self, operation: i32, fd: RawFd, events: i32, token: u64) -> io::Result<()> {
        let mut event = libc::epoll_event {
            events: events as u32,
            u64: token,
        };
        // SAFETY: the event is readable during the call.
        unix::check(unsafe { libc::epoll_ctl(self.fd(), operation, fd, &mut event) })
    }
}
