//! Queues of records that a program reads from a file descriptor: asynchronous events of a context,
//! and completion events of a channel.
//!
//! The file is one end of a pair of AF_UNIX SOCK_SEQPACKET sockets. Like the kernel's file it gives
//! one record to each read, whatever the reader's buffer; poll(2), epoll(7) and O_NONBLOCK work on it;
//! and unlike with a pipe, this side can take records out again without blocking (MSG_DONTWAIT) while
//! another thread of the program reads.

use std::collections::VecDeque;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use ibverbs_abi::{ib_uverbs_async_event_desc, ib_uverbs_comp_event_desc};
use parking_lot::Mutex;

/// What is read: plain bytes, as long as the type.
///
/// # Safety
/// The type has no padding, and any bytes are a value of it.
pub unsafe trait Record: Copy {
    /// The object that the record is about.
    fn of(&self) -> u64;
}

// SAFETY: 8, 4 and 4 bytes.
unsafe impl Record for ib_uverbs_async_event_desc {
    fn of(&self) -> u64 {
        self.element
    }
}

// SAFETY: 8 bytes.
unsafe impl Record for ib_uverbs_comp_event_desc {
    fn of(&self) -> u64 {
        self.cq_handle
    }
}

/// A queue of records.
pub struct EventQueue<R> {
    ours: OwnedFd,
    theirs: RawFd,
    /// What the sockets have no room for.
    backlog: Mutex<VecDeque<R>>,
}

/// Of a context.
pub type AsyncEvents = EventQueue<ib_uverbs_async_event_desc>;
/// Of a channel.
pub type CompletionEvents = EventQueue<ib_uverbs_comp_event_desc>;

impl<R: Record> EventQueue<R> {
    /// The queue, and the program's file, which is the caller's to close after the queue's last use.
    pub fn new() -> io::Result<(EventQueue<R>, RawFd)> {
        let mut fds = [-1; 2];
        let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
        // SAFETY: room for two descriptors.
        if unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, fds.as_mut_ptr()) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: just made, and nobody else's.
        let ours = unsafe { OwnedFd::from_raw_fd(fds[0]) };
        let queue = EventQueue {
            ours,
            theirs: fds[1],
            backlog: Mutex::default(),
        };
        Ok((queue, fds[1]))
    }

    /// Adds a record. Never blocks. False if it waits in the backlog.
    pub fn push(&self, record: R) -> bool {
        let mut backlog = self.backlog.lock();
        if backlog.is_empty() && self.send(&record) {
            return true;
        }
        backlog.push_back(record);
        false
    }

    /// Tries to get rid of the backlog; false if some of it is left.
    pub fn flush(&self) -> bool {
        self.drain_into_socket(&mut self.backlog.lock())
    }

    fn drain_into_socket(&self, backlog: &mut VecDeque<R>) -> bool {
        while let Some(record) = backlog.front() {
            if !self.send(record) {
                return false;
            }
            backlog.pop_front();
        }
        true
    }

    /// Takes back the records about an object that nobody has read; returns how many.
    pub fn remove(&self, object: u64) -> u32 {
        let mut backlog = self.backlog.lock();
        let mut kept = VecDeque::new();
        let mut removed = 0;
        let mut keep = |record: R| {
            if record.of() == object {
                removed += 1;
            } else {
                kept.push_back(record);
            }
        };
        while let Some(record) = self.take() {
            keep(record);
        }
        backlog.drain(..).for_each(keep);
        *backlog = kept;
        self.drain_into_socket(&mut backlog);
        removed
    }

    fn send(&self, record: &R) -> bool {
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        loop {
            // SAFETY: a record is plain bytes, as long as its type.
            let sent = unsafe {
                let bytes = core::ptr::from_ref(record).cast();
                libc::send(self.ours.as_raw_fd(), bytes, size_of::<R>(), flags)
            };
            if sent >= 0 || errno() != libc::EINTR {
                return sent == size_of::<R>() as isize;
            }
        }
    }

    /// Reads a record in the program's place.
    fn take(&self) -> Option<R> {
        let mut record = MaybeUninit::<R>::uninit();
        loop {
            // SAFETY: room for a record; the descriptor is open as long as the queue is used.
            let got = unsafe {
                let bytes = record.as_mut_ptr().cast();
                libc::recv(self.theirs, bytes, size_of::<R>(), libc::MSG_DONTWAIT)
            };
            if got == size_of::<R>() as isize {
                // SAFETY: any bytes are a record, and all have been written.
                return Some(unsafe { record.assume_init() });
            }
            if got >= 0 || errno() != libc::EINTR {
                return None;
            }
        }
    }
}

fn errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(of: u64) -> ib_uverbs_comp_event_desc {
        ib_uverbs_comp_event_desc { cq_handle: of }
    }

    fn read_all(fd: RawFd) -> Vec<u64> {
        let mut all = Vec::new();
        let mut value = 0u64;
        // SAFETY: eight writable bytes.
        while unsafe { libc::recv(fd, (&raw mut value).cast(), 8, libc::MSG_DONTWAIT) } == 8 {
            all.push(value);
        }
        all
    }

    #[test]
    fn records_come_in_order_and_are_taken_back() {
        let (queue, fd) = CompletionEvents::new().unwrap();
        for of in [1, 2, 1, 3] {
            assert!(queue.push(record(of)));
        }
        assert_eq!(queue.remove(1), 2);
        assert_eq!(queue.remove(1), 0);
        assert_eq!(read_all(fd), [2, 3]);
        // SAFETY: ours since `new`.
        unsafe { libc::close(fd) };
    }

    #[test]
    fn nothing_is_lost_when_nobody_reads() {
        let (queue, fd) = CompletionEvents::new().unwrap();
        let mut pushed = 0;
        while queue.push(record(pushed % 2)) {
            pushed += 1;
        }
        pushed += 1;
        for _ in 0..100 {
            queue.push(record(pushed % 2));
            pushed += 1;
        }
        assert!(!queue.flush());
        let ones = queue.remove(1);
        assert_eq!(u64::from(ones), pushed / 2);
        let mut got = 0;
        loop {
            let some = read_all(fd).len();
            got += some as u64;
            if queue.flush() && some == 0 {
                break;
            }
        }
        assert_eq!(got + u64::from(ones), pushed);
        // SAFETY: ours since `new`.
        unsafe { libc::close(fd) };
    }
}
