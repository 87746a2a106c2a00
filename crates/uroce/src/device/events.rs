//! Queues of records that a program reads from a file descriptor: asynchronous events of a context,
//! and completion events of a channel.
//!
//! The descriptor is one end of a pair of AF_UNIX SOCK_SEQPACKET sockets. Like the kernel's, each read
//! of it returns one record, whatever the size of the reader's buffer, and poll(2), epoll(7) and
//! O_NONBLOCK work on it. Unlike a pipe, it lets this side remove records without blocking
//! (MSG_DONTWAIT) while another thread of the program reads.
//!
//! The socket holds a few hundred records. Further ones wait in the backlog, which counts how often an
//! object has raised the same one, so that its space is reserved when the object is created. The backlog
//! is sent when the program reads an event through the library, and by the background thread.
//!
//! Invariants: records are read in the order in which they were pushed, except for equal ones, which count
//! where the first is. So once one is in the backlog, all later ones go there, until it is empty. And once
//! [`EventQueue::close_source`] has returned, nothing delivers a record about the object.
//!
//! The program may close its descriptor itself. What it had not read is gone then, as with the kernel.

use std::collections::VecDeque;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ibverbs_abi::{
    Errno, IBV_EVENT_CLIENT_REREGISTER, IBV_EVENT_DEVICE_FATAL, IBV_EVENT_DEVICE_SPEED_CHANGE,
    IBV_EVENT_GID_CHANGE, IBV_EVENT_LID_CHANGE, IBV_EVENT_PKEY_CHANGE, IBV_EVENT_PORT_ACTIVE,
    IBV_EVENT_PORT_ERR, IBV_EVENT_SM_CHANGE, ib_uverbs_async_event_desc, ib_uverbs_comp_event_desc,
    ibv_event_type,
};
use rustc_hash::FxHashMap;

use super::wait::Waker;
use crate::cancellation;
use crate::descriptors::{self, Owned, ProgramFd};
use crate::sync::Mutex;

/// A record as a program reads it: the bytes of the type.
///
/// # Safety
/// The type has no padding, and every bit pattern is a value of it.
pub unsafe trait Record: Copy + PartialEq {
    /// The object that raises the record: its handle, or [`PORT`].
    fn source(&self) -> u64;
}

/// The source of a context's records that are about no object. No object has this handle.
pub const PORT: u64 = 0;
/// The number of different ones that a device raises: GID_CHANGE, PORT_ACTIVE, PORT_ERR.
pub const PORT_RECORDS: usize = 3;

// SAFETY: a u64 and two u32, without padding between or behind them.
unsafe impl Record for ib_uverbs_async_event_desc {
    fn source(&self) -> u64 {
        match self.event_type {
            IBV_EVENT_DEVICE_FATAL
            | IBV_EVENT_PORT_ACTIVE
            | IBV_EVENT_PORT_ERR
            | IBV_EVENT_LID_CHANGE
            | IBV_EVENT_PKEY_CHANGE
            | IBV_EVENT_SM_CHANGE
            | IBV_EVENT_CLIENT_REREGISTER
            | IBV_EVENT_GID_CHANGE
            | IBV_EVENT_DEVICE_SPEED_CHANGE => PORT,
            _ => self.element,
        }
    }
}

// SAFETY: one u64.
unsafe impl Record for ib_uverbs_comp_event_desc {
    fn source(&self) -> u64 {
        self.cq_handle
    }
}

/// The records of a source.
struct EventSource<R> {
    /// Records pushed, modulo 2^32.
    raised: u32,
    /// Records that the program has read through the library, modulo 2^32.
    taken: u32,
    /// How many different records the source can raise: what [`EventState::backlog`] has space for.
    kinds: usize,
    /// The records in the backlog, each with how many times it is to be sent.
    waiting: Vec<(R, u32)>,
}

impl<R: Record> EventSource<R> {
    /// Counts a record that goes into the backlog. Returns whether no equal one is there yet.
    fn add_waiting(&mut self, record: R) -> bool {
        if let Some((_, count)) = self.waiting.iter_mut().find(|(other, _)| *other == record) {
            *count += 1;
            return false;
        }
        self.waiting.push((record, 1));
        true
    }
}

struct EventState<R> {
    sources: FxHashMap<u64, EventSource<R>>,
    /// Records that the socket has no room for, each once.
    backlog: VecDeque<R>,
    /// The sum of [`EventSource::kinds`].
    kinds: usize,
}

/// A queue of records. Thread-safe.
pub struct EventQueue<R> {
    /// The end that records are written to.
    writer: Owned<OwnedFd>,
    /// The program's end. Open as long as the queue has sources.
    reader: ProgramFd,
    state: Mutex<EventState<R>>,
    /// The backlog has records. Written with `state` locked. [`EventQueue::flush_backlog`] may read
    /// an old value; the thread that `waker` wakes up reads this one.
    has_backlog: AtomicBool,
    /// Wakes up the thread that calls [`EventQueue::flush_backlog`].
    waker: Arc<Waker>,
}

/// Async events of a context.
pub type AsyncEvents = EventQueue<ib_uverbs_async_event_desc>;
/// Completion events of a channel.
pub type CompletionEvents = EventQueue<ib_uverbs_comp_event_desc>;

impl<R: Record> EventQueue<R> {
    /// A queue, and the program's descriptor. The caller owns the descriptor, and closes it after all
    /// sources are closed. `waker` is called when the first record goes into the backlog. Fails as
    /// [`descriptors::open_event_pair`].
    pub fn new(waker: Arc<Waker>) -> io::Result<(EventQueue<R>, RawFd)> {
        let (writer, reader) = descriptors::open_event_pair()?;
        let number = reader.number();
        let queue = EventQueue {
            writer,
            reader,
            state: Mutex::new(EventState {
                sources: FxHashMap::default(),
                backlog: VecDeque::new(),
                kinds: 0,
            }),
            has_backlog: AtomicBool::new(false),
            waker,
        };
        Ok((queue, number))
    }

    /// Adds a source that can raise `kinds` different records. Reserves the memory that they need.
    pub fn add_source(&self, source: u64, kinds: usize) {
        let mut state = self.state.lock();
        let state = &mut *state;
        state.kinds += kinds;
        let missing = state.kinds.saturating_sub(state.backlog.len());
        state.backlog.reserve(missing);
        state.sources.insert(
            source,
            EventSource {
                raised: 0,
                taken: 0,
                kinds,
                waiting: Vec::with_capacity(kinds),
            },
        );
    }

    /// Adds a record, unless its source is closed. Never blocks, and allocates nothing. Returns false if
    /// the record is in the backlog.
    pub fn push(&self, record: R) -> bool {
        let mut state = self.state.lock();
        let state = &mut *state;
        let Some(source) = state.sources.get_mut(&record.source()) else {
            return true;
        };
        source.raised = source.raised.wrapping_add(1);
        if state.backlog.is_empty() {
            if self.send(&record) {
                return true;
            }
            self.has_backlog.store(true, Ordering::Relaxed);
            self.waker.wake();
        }
        if source.add_waiting(record) {
            state.backlog.push_back(record);
        }
        false
    }

    /// Counts a record that the program has read through the library, and sends the backlog: there is room.
    pub fn take(&self, source: u64) {
        if let Some(source) = self.state.lock().sources.get_mut(&source) {
            source.taken = source.taken.wrapping_add(1);
        }
        self.flush_backlog();
    }

    /// Sends the backlog as far as there is room. Returns false if some of it is left.
    pub fn flush_backlog(&self) -> bool {
        !self.has_backlog.load(Ordering::Relaxed) || self.send_backlog(&mut self.state.lock())
    }

    fn send_backlog(&self, state: &mut EventState<R>) -> bool {
        while let Some(record) = state.backlog.front() {
            if !self.send(record) {
                return false;
            }
            state.sent_first();
        }
        self.has_backlog.store(false, Ordering::Relaxed);
        true
    }

    /// Removes a source and its unread records. Returns how many of its records the program has read,
    /// modulo 2^32: these it has to acknowledge. If the program has closed its descriptor, only those count
    /// that it has read through the library: nobody knows of others.
    pub fn close_source(&self, source: u64) -> u32 {
        let mut state = self.state.lock();
        let state = &mut *state;
        let Some(closed) = state.sources.remove(&source) else {
            return 0;
        };
        state.kinds -= closed.kinds;
        if closed.raised == 0 {
            return 0;
        }
        let mut unread: u32 = closed.waiting.iter().map(|(_, count)| count).sum();
        state.backlog.retain(|record| record.source() != source);
        // The records in the socket, and those that go back there.
        let mut kept = VecDeque::new();
        while let Some(record) = self.read_back() {
            if record.source() == source {
                unread += 1;
            } else {
                kept.push_back(record);
            }
        }
        // There is still room for them: meanwhile the program has only read.
        while kept.front().is_some_and(|record| self.send(record)) {
            kept.pop_front();
        }
        state.put_back(kept);
        if !state.backlog.is_empty() {
            self.has_backlog.store(true, Ordering::Relaxed);
        }
        self.send_backlog(state);
        match self.reader.is_unchanged() {
            true => closed.raised.wrapping_sub(unread),
            false => closed.taken,
        }
    }

    /// Sends a record, or drops it if the program has closed its end. Returns false if there is no room, or
    /// the program has closed both: it may have descriptors of its own with their numbers.
    fn send(&self, record: &R) -> bool {
        if !self.writer.is_unchanged() {
            return false;
        }
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        loop {
            // SAFETY: `record` is readable for its size, and `Record` says that it has no padding.
            let bytes = unsafe {
                core::slice::from_raw_parts(core::ptr::from_ref(record).cast(), size_of::<R>())
            };
            let sent = cancellation::send(self.writer.as_raw_fd(), bytes, flags);
            if sent >= 0 {
                return sent == size_of::<R>() as isize;
            }
            match Errno::last().0 {
                libc::EINTR => {}
                libc::EPIPE | libc::ECONNRESET | libc::ECONNREFUSED => return true,
                _ => return false,
            }
        }
    }

    /// Reads a record from the program's end, without blocking.
    fn read_back(&self) -> Option<R> {
        if !self.reader.is_unchanged() {
            return None;
        }
        let mut record = MaybeUninit::<R>::uninit();
        loop {
            // SAFETY: `record` has room for one; recv writes no more than that.
            let got = unsafe {
                let bytes = record.as_mut_ptr().cast();
                libc::recv(
                    self.reader.number(),
                    bytes,
                    size_of::<R>(),
                    libc::MSG_DONTWAIT,
                )
            };
            if got == size_of::<R>() as isize {
                // SAFETY: recv has written all bytes, and `Record` says that every bit pattern is a
                // value.
                return Some(unsafe { record.assume_init() });
            }
            // A record of another length is not one of this process's.
            if got == 0 || got < 0 && Errno::last() != Errno(libc::EINTR) {
                return None;
            }
        }
    }
}

impl<R: Record> EventState<R> {
    /// Accounts for the first record of the backlog, which was sent once.
    fn sent_first(&mut self) {
        let Some(first) = self.backlog.front().copied() else {
            return;
        };
        if let Some(source) = self.sources.get_mut(&first.source()) {
            if let Some(at) = source.waiting.iter().position(|(other, _)| *other == first) {
                source.waiting[at].1 -= 1;
                if source.waiting[at].1 > 0 {
                    return;
                }
                source.waiting.swap_remove(at);
            }
        }
        self.backlog.pop_front();
    }

    /// Puts records that were in the socket before the backlog. Those without a source, which this process
    /// has not sent, are dropped.
    fn put_back(&mut self, mut records: VecDeque<R>) {
        while let Some(record) = records.pop_back() {
            let Some(source) = self.sources.get_mut(&record.source()) else {
                continue;
            };
            if source.add_waiting(record) {
                self.backlog.push_front(record);
            }
        }
    }
}

/// The event queues of a device's open contexts and completion channels.
pub struct OpenQueues {
    /// Wakes up the background thread, which retries events.
    waker: Arc<Waker>,
    contexts: Mutex<Vec<Arc<AsyncEvents>>>,
    channels: Mutex<Vec<Arc<CompletionEvents>>>,
}

impl OpenQueues {
    /// No queues. `waker` wakes up the thread that calls [`OpenQueues::retry`].
    pub fn new(waker: Arc<Waker>) -> OpenQueues {
        OpenQueues {
            waker,
            contexts: Mutex::default(),
            channels: Mutex::default(),
        }
    }

    /// Raises an event of the port, number 1, in every context.
    pub fn raise_port_event(&self, event_type: ibv_event_type) {
        for events in self.contexts.lock().iter() {
            events.push(ib_uverbs_async_event_desc {
                element: 1,
                event_type,
                reserved: 0,
            });
        }
    }

    /// Retries events that did not fit their sockets. Returns false if some still do not.
    pub fn retry(&self) -> bool {
        let contexts = self.contexts.lock();
        let channels = self.channels.lock();
        let mut all_sent = true;
        for events in contexts.iter() {
            all_sent &= events.flush_backlog();
        }
        for events in channels.iter() {
            all_sent &= events.flush_backlog();
        }
        all_sent
    }

    /// Opens the queue of async events of a new context, and the program's descriptor. From now on it gets
    /// the port's events.
    pub fn add_context(&self) -> io::Result<(Arc<AsyncEvents>, RawFd)> {
        let (events, fd) = AsyncEvents::new(self.waker.clone())?;
        let events = Arc::new(events);
        events.add_source(PORT, PORT_RECORDS);
        self.contexts.lock().push(events.clone());
        Ok((events, fd))
    }

    /// Undoes [`OpenQueues::add_context`].
    pub fn remove_context(&self, events: &Arc<AsyncEvents>) {
        let mut contexts = self.contexts.lock();
        contexts.retain(|e| !Arc::ptr_eq(e, events));
        drop(contexts);
        events.close_source(PORT);
    }

    /// Opens the queue of a completion channel, and the program's descriptor. From now on the background
    /// thread retries its events that did not fit the socket.
    pub fn add_channel(&self) -> io::Result<(Arc<CompletionEvents>, RawFd)> {
        let (events, fd) = CompletionEvents::new(self.waker.clone())?;
        let events = Arc::new(events);
        self.channels.lock().push(events.clone());
        Ok((events, fd))
    }

    /// Undoes [`OpenQueues::add_channel`].
    pub fn remove_channel(&self, events: &Arc<CompletionEvents>) {
        let mut channels = self.channels.lock();
        channels.retain(|e| !Arc::ptr_eq(e, events));
    }
}

#[cfg(test)]
impl<R: Record> EventQueue<R> {
    /// How many records an open source has raised.
    pub fn raised(&self, source: u64) -> u32 {
        self.state.lock().sources[&source].raised
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue() -> (CompletionEvents, RawFd) {
        let (queue, fd) = CompletionEvents::new(Arc::new(Waker::new().unwrap())).unwrap();
        (1..=3).for_each(|source| queue.add_source(source, 1));
        (queue, fd)
    }

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

    /// Each open context gets the events of the port; one that is closed has none left.
    #[test]
    fn contexts_get_the_ports_events() {
        let queues = OpenQueues::new(Arc::new(Waker::new().unwrap()));
        let [first, second] = [(); 2].map(|()| queues.add_context().unwrap());
        queues.raise_port_event(IBV_EVENT_PORT_ERR);
        queues.remove_context(&first.0);
        queues.raise_port_event(IBV_EVENT_PORT_ACTIVE);
        assert!(queues.retry());
        assert_eq!([first.1, second.1].map(|fd| read_all(fd).len()), [0, 2]);
        for (events, fd) in [first, second] {
            queues.remove_context(&events);
            // SAFETY: `add_context` opened it for this test.
            unsafe { libc::close(fd) };
        }
    }

    #[test]
    fn records_come_in_order_and_are_removed() {
        let (queue, fd) = queue();
        for of in [1, 2, 1, 3] {
            assert!(queue.push(record(of)));
        }
        assert_eq!(queue.close_source(1), 0);
        assert_eq!(queue.close_source(1), 0);
        assert!(queue.push(record(1)), "dropped");
        assert_eq!(read_all(fd), [2, 3]);
        assert_eq!(queue.close_source(2), 1);
        // SAFETY: `new` opened it for this test.
        unsafe { libc::close(fd) };
    }

    #[test]
    fn no_record_is_lost_when_nobody_reads() {
        let (queue, fd) = queue();
        let mut pushed = 0;
        while queue.push(record(1 + pushed % 2)) {
            pushed += 1;
        }
        assert!(queue.waker.is_readable(), "the background thread sleeps");
        pushed += 1;
        let space = queue.state.lock().backlog.capacity();
        for _ in 0..100 {
            queue.push(record(1 + pushed % 2));
            pushed += 1;
        }
        assert!(!queue.flush_backlog());
        assert_eq!(queue.state.lock().backlog.capacity(), space);
        assert_eq!(queue.close_source(1), 0);
        let mut got = 0;
        loop {
            let some = read_all(fd);
            assert!(some.iter().all(|of| *of == 2));
            got += some.len() as u32;
            if queue.flush_backlog() && some.is_empty() {
                break;
            }
        }
        assert_eq!(got, pushed as u32 / 2);
        assert_eq!(queue.close_source(2), got);
        // SAFETY: `new` opened it for this test.
        unsafe { libc::close(fd) };
    }

    /// A program that has closed all descriptors uses their numbers for sockets of its own.
    #[test]
    fn sockets_of_the_program_get_no_records() {
        let (queue, fd) = queue();
        assert!(queue.push(record(1)));
        let numbers = [queue.writer.as_raw_fd(), fd];
        let sockets = descriptors::replace_by_sockets(numbers);
        // SAFETY: the bytes are readable.
        let sent = unsafe { libc::send(sockets[1], [7_u64].as_ptr().cast(), 8, 0) };
        assert_eq!(sent, 8);
        assert!(!queue.push(record(2)) && !queue.flush_backlog());
        queue.close_source(1);
        assert_eq!(read_all(sockets[1]), []);
        assert_eq!(read_all(sockets[0]), [7], "it is not read either");
        drop(queue);
        for fd in sockets.into_iter().chain(numbers) {
            // SAFETY: all four are this test's.
            assert_eq!(unsafe { libc::close(fd) }, 0);
        }
    }

    /// A program that has closed its descriptor has to acknowledge what it had read, and no more. Nothing is
    /// left for the background thread.
    #[test]
    fn a_closed_descriptor_keeps_nothing() {
        let (queue, fd) = queue();
        for of in [1, 1, 2, 3] {
            assert!(queue.push(record(of)));
        }
        let mut value = 0u64;
        // SAFETY: `value` has eight writable bytes, and `new` opened the descriptor for this test.
        unsafe {
            assert_eq!(libc::recv(fd, (&raw mut value).cast(), 8, 0), 8);
            queue.take(value);
            libc::close(fd);
        }
        assert!(queue.push(record(1)) && queue.push(record(1)) && queue.flush_backlog());
        assert_eq!(queue.close_source(1), 1);
        assert_eq!(queue.close_source(2), 0);
    }

    /// Bytes that another process has written to the socket neither block nor count.
    #[test]
    fn records_of_others_do_not_count() {
        let (queue, fd) = queue();
        queue.push(record(1));
        for bytes in [&[0x41; 8][..], &[0x41; 3]] {
            // SAFETY: `bytes` is readable for its length.
            let sent = unsafe {
                libc::send(
                    queue.writer.as_raw_fd(),
                    bytes.as_ptr().cast(),
                    bytes.len(),
                    0,
                )
            };
            assert_eq!(sent, bytes.len() as isize);
        }
        queue.push(record(1));
        queue.push(record(2));
        assert_eq!(queue.close_source(1), 0);
        let left = read_all(fd);
        assert_eq!(left.iter().filter(|of| **of == 2).count(), 1);
        assert!(!left.contains(&1));
        // SAFETY: `new` opened it for this test.
        unsafe { libc::close(fd) };
    }
}
