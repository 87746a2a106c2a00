//! The epoll instance of rdma_cm's thread.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use ibverbs_abi::Errno;

use super::names;
use crate::descriptors::Owned;
use crate::device::clock;
use crate::epoll;
use roce::engine::Time;

/// The descriptor that an epoll event is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token {
    /// Messages of devices, or a state that has changed.
    Waker,
    /// A name: another process connects.
    Listener(u32),
    /// Another process sends a message.
    Connection(u32),
    /// The program's descriptor, by the number of its socket.
    File(u32),
    /// The kernel has an event for the program's descriptor of this number.
    Kernel(u32),
}

impl Token {
    fn bits(self) -> u64 {
        match self {
            Token::Waker => 0,
            Token::Listener(number) => 1 << 32 | u64::from(number),
            Token::Connection(number) => 2 << 32 | u64::from(number),
            Token::File(number) => 3 << 32 | u64::from(number),
            Token::Kernel(number) => 4 << 32 | u64::from(number),
        }
    }

    fn of(bits: u64) -> Token {
        let number = bits as u32;
        match bits >> 32 {
            1 => Token::Listener(number),
            2 => Token::Connection(number),
            3 => Token::File(number),
            4 => Token::Kernel(number),
            _ => Token::Waker,
        }
    }
}

/// The epoll instance, and the eventfd that wakes its thread up.
pub struct Epoll {
    set: epoll::Epoll,
    waker: Owned<OwnedFd>,
}

impl Epoll {
    /// Opens the descriptors. Fails as epoll_create1(2) and eventfd(2) do.
    pub fn new() -> Result<Epoll, Errno> {
        let set = epoll::Epoll::new()?;
        let flags = libc::EFD_CLOEXEC | libc::EFD_NONBLOCK;
        // SAFETY: eventfd takes no pointers.
        let waker = names::open(|| unsafe { libc::eventfd(0, flags) })?;
        let epoll = Epoll { set, waker };
        epoll.add(epoll.waker.as_raw_fd(), Token::Waker)?;
        Ok(epoll)
    }

    /// Watches a descriptor until it is closed: for input, and for the end of the other side.
    pub fn add(&self, fd: RawFd, token: Token) -> Result<(), Errno> {
        // A hang-up is always reported.
        let events = match token {
            Token::File(_) => 0,
            _ => libc::EPOLLIN,
        };
        Ok(self.set.add(fd, events, token.bits())?)
    }

    /// Changes the events of a descriptor that has been added.
    pub fn watch(&self, fd: RawFd, token: Token, events: i32) {
        self.set.change(fd, events, token.bits());
    }

    /// Wakes the thread up. Any thread may call this.
    pub fn wake(&self) {
        crate::cancellation::write(self.waker.as_raw_fd(), &1_u64.to_ne_bytes());
    }

    /// Wakes the thread up if the deadline that it sleeps until has become an earlier one.
    pub fn wake_if_earlier(&self, before: Option<Time>, after: Option<Time>) {
        if after.is_some_and(|after| before.is_none_or(|before| after < before)) {
            self.wake();
        }
    }

    /// Called by the thread after [`Token::Waker`].
    pub fn clear(&self) {
        let mut count = 0_u64;
        // SAFETY: eight writable bytes; the eventfd does not block.
        unsafe { libc::read(self.waker.as_raw_fd(), (&raw mut count).cast(), 8) };
    }

    /// Blocks until something has happened, or until the time.
    pub fn wait(&self, until: Option<Time>) -> Vec<Token> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 32];
        let timeout = until.map_or(-1, |until| {
            let wait = until.since(clock::now());
            wait.as_micros().div_ceil(1000).min(1 << 30) as i32
        });
        let len = events.len() as i32;
        // SAFETY: `events` has room for `len` events.
        let count = unsafe { libc::epoll_wait(self.set.fd(), events.as_mut_ptr(), len, timeout) };
        let count = usize::try_from(count).unwrap_or(0);
        events[..count]
            .iter()
            .map(|event| Token::of(event.u64))
            .collect()
    }
}
