//! Queues of records that a program reads from a file descriptor: asynchronous events of a context,
//! and completion events of a channel.
//!
//! The descriptor is one end of a pair of AF_UNIX SOCK_SEQPACKET sockets. Like the kernel's, each read
//! of it returns one record, whatever the size of the reader's buffer, and poll(2), epoll(7) and
//! O_NONBLOCK work on it. Unlike a pipe, it lets this side remove records without blocking
//! (MSG_DONTWAIT) while another thread of the program reads.
//!
//! Invariant: records are read in the order in which they were pushed. So once one is in the backlog, all
//! later ones go there, until it is empty.

use crate::sync::Mutex;

use std::collections::VecDeque;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use ibverbs_abi::{Errno, ib_uverbs_async_event_desc, ib_uverbs_comp_event_desc};

use crate::cancellation;

/// A record as a program reads it: the bytes of the type.
///
/// # Safety
/// The type has no padding, and every bit pattern is a value of it.
pub unsafe trait Record: Copy {
    /// The handle of the object that the record is about.
    fn object(&self) -> u64;
}

// SAFETY: a u64 and two u32, without padding between or behind them.
unsafe impl Record for ib_uverbs_async_event_desc {
    fn object(&self) -> u64 {
        self.element
    }
}

// SAFETY: one u64.
unsafe impl Record for ib_uverbs_comp_event_desc {
    fn object(&self) -> u64 {
        self.cq_handle
    }
}

/// A queue of records. Thread-safe.
pub struct EventQueue<R> {
    /// The end that records are written to.
    writer: OwnedFd,
    /// The program's end. Not owned; open as long as the queue is used.
    reader: RawFd,
    /// Records that the sockets have no room for.
    backlog: Mutex<VecDeque<R>>,
}

/// Async events of a context.
pub type AsyncEvents = EventQueue<ib_uverbs_async_event_desc>;
/// Completion events of a channel.
pub type CompletionEvents = EventQueue<ib_uverbs_comp_event_desc>;

impl<R: Record> EventQueue<R> {
    /// A queue, and the program's descriptor. The caller owns the descriptor, and closes it after the
    /// queue's last use. Fails as socketpair(2) does.
    pub fn new() -> io::Result<(EventQueue<R>, RawFd)> {
        let mut fds = [-1; 2];
        let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
        // SAFETY: `fds` has room for two descriptors.
        if unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, fds.as_mut_ptr()) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: socketpair has just opened it, and nothing else knows it.
        let writer = unsafe { OwnedFd::from_raw_fd(fds[0]) };
        let queue = EventQueue {
            writer,
            reader: fds[1],
            backlog: Mutex::default(),
        };
        Ok((queue, fds[1]))
    }

    /// Adds a record. Never blocks. Returns false if the record is in the backlog.
    pub fn push(&self, record: R) -> bool {
        let mut backlog = self.backlog.lock();
        if backlog.is_empty() && self.send(&record) {
            return true;
        }
        backlog.push_back(record);
        false
    }

    /// Sends the backlog as far as there is room. Returns false if some of it is left.
    pub fn flush_backlog(&self) -> bool {
        self.send_backlog(&mut self.backlog.lock())
    }

    fn send_backlog(&self, backlog: &mut VecDeque<R>) -> bool {
        while let Some(record) = backlog.front() {
            if !self.send(record) {
                return false;
            }
            backlog.pop_front();
        }
        true
    }

    /// Removes the unread records about an object. Returns how many there were.
    pub fn remove(&self, object: u64) -> u32 {
        let mut backlog = self.backlog.lock();
        let mut kept = VecDeque::new();
        let mut removed = 0;
        let mut keep = |record: R| {
            if record.object() == object {
                removed += 1;
            } else {
                kept.push_back(record);
            }
        };
        while let Some(record) = self.read_back() {
            keep(record);
        }
        backlog.drain(..).for_each(keep);
        *backlog = kept;
        self.send_backlog(&mut backlog);
        removed
    }

    fn send(&self, record: &R) -> bool {
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        loop {
            // SAFETY: `record` is readable for its size, and `Record` says that it has no padding.
            let bytes = unsafe {
                core::slice::from_raw_parts(core::ptr::from_ref(record).cast(), size_of::<R>())
            };
            let sent = cancellation::send(self.writer.as_raw_fd(), bytes, flags);
            if sent >= 0 || Errno::last() != Errno(libc::EINTR) {
                return sent == size_of::<R>() as isize;
            }
        }
    }

    /// Reads a record from the program's end, without blocking.
    fn read_back(&self) -> Option<R> {
        let mut record = MaybeUninit::<R>::uninit();
        loop {
            // SAFETY: `record` has room for one; recv writes no more than that.
            let got = unsafe {
                let bytes = record.as_mut_ptr().cast();
                libc::recv(self.reader, bytes, size_of::<R>(), libc::MSG_DONTWAIT)
            };
            if got == size_of::<R>() as isize {
                // SAFETY: recv has written all bytes, and `Record` says that every bit pattern is a
                // value.
                return Some(unsafe { record.assume_init() });
            }
            if got >= 0 || Errno::last() != Errno(libc::EINTR) {
                return None;
            }
        }
    }
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
        // SAFETY: `value` has eight writable bytes.
        while unsafe { libc::recv(fd, (&raw mut value).cast(), 8, libc::MSG_DONTWAIT) } == 8 {
            all.push(value);
        }
        all
    }

    #[test]
    fn records_come_in_order_and_are_removed() {
        let (queue, fd) = CompletionEvents::new().unwrap();
        for of in [1, 2, 1, 3] {
            assert!(queue.push(record(of)));
        }
        assert_eq!(queue.remove(1), 2);
        assert_eq!(queue.remove(1), 0);
        assert_eq!(read_all(fd), [2, 3]);
        // SAFETY: `new` opened it for this test.
        unsafe { libc::close(fd) };
    }

    #[test]
    fn no_record_is_lost_when_nobody_reads() {
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
        assert!(!queue.flush_backlog());
        let ones = queue.remove(1);
        assert_eq!(u64::from(ones), pushed / 2);
        let mut got = 0;
        loop {
            let some = read_all(fd).len();
            got += some as u64;
            if queue.flush_backlog() && some == 0 {
                break;
            }
        }
        assert_eq!(got + u64::from(ones), pushed);
        // SAFETY: `new` opened it for this test.
        unsafe { libc::close(fd) };
    }
}
