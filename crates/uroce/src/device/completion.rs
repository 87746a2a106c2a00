//! Completion queues (CQs): entries, overruns, and events for armed queues.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use ibverbs_abi::*;

use super::clock;
use super::events::{AsyncEvents, CompletionEvents};
use crate::engine::{Completion, Overrun};
use crate::sync::Mutex;

/// A completion queue entry.
#[derive(Clone, Copy, Debug)]
pub struct Cqe {
    /// What the engine knows of the completed request.
    pub completion: Completion,
    /// The queue pair that the request was posted to.
    pub qpn: u32,
    /// When the entry was added, in nanoseconds of CLOCK_MONOTONIC; 0 if the queue was created without
    /// timestamps.
    pub timestamp_ns: u64,
    /// The same of CLOCK_REALTIME, since 1970.
    pub wallclock_ns: u64,
}

/// Which completion raises the next completion event (`ibv_req_notify_cq`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Armed {
    No,
    Solicited,
    Any,
}

struct CqRing {
    entries: VecDeque<Cqe>,
    capacity: usize,
    armed: Armed,
    overrun: bool,
}

/// A completion queue. Thread-safe.
pub struct CompletionQueue {
    ring: Mutex<CqRing>,
    /// The ring's length: an empty queue is polled without taking the lock.
    len: AtomicUsize,
    /// The queue is armed or overrun, or its entries get timestamps.
    needs_ring: AtomicBool,
    /// A polling thread has completions in hand that the program does not have yet.
    in_hand: AtomicBool,
    /// See [`CompletionQueueConfig::handle`].
    handle: u64,
    channel: Option<Arc<CompletionEvents>>,
    events: Arc<AsyncEvents>,
    timestamps: bool,
    ignore_overrun: bool,
}

/// What a queue is created with.
pub struct CompletionQueueConfig {
    /// The handle of the program's `ibv_cq`, which its events carry.
    pub handle: u64,
    /// Entries that it holds at most.
    pub capacity: usize,
    /// The queue of completion events.
    pub channel: Option<Arc<CompletionEvents>>,
    /// The context's queue of async events.
    pub events: Arc<AsyncEvents>,
    /// Entries get timestamps.
    pub timestamps: bool,
    /// A full queue drops its oldest entry, in place of failing.
    pub ignore_overrun: bool,
}

/// Numbers of events of a queue, modulo 2^32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventCounts {
    /// Completion events.
    pub completion: u32,
    /// Async events.
    pub asynchronous: u32,
}

impl CompletionQueue {
    /// An empty queue, not armed.
    pub fn new(config: CompletionQueueConfig) -> CompletionQueue {
        config.events.add_source(config.handle, 1);
        if let Some(channel) = &config.channel {
            channel.add_source(config.handle, 1);
        }
        CompletionQueue {
            ring: Mutex::new(CqRing {
                entries: VecDeque::new(),
                capacity: config.capacity,
                armed: Armed::No,
                overrun: false,
            }),
            len: AtomicUsize::new(0),
            needs_ring: AtomicBool::new(config.timestamps),
            in_hand: AtomicBool::new(false),
            handle: config.handle,
            channel: config.channel,
            events: config.events,
            timestamps: config.timestamps,
            ignore_overrun: config.ignore_overrun,
        }
    }

    /// Adds a completion, and raises a completion event if the queue is armed for it. If the queue is
    /// full, raises CQ_ERR and fails; from then on every call fails.
    pub fn push(&self, completion: Completion, qpn: u32) -> Result<(), Overrun> {
        let (timestamp_ns, wallclock_ns) = if self.timestamps {
            (clock::now().0, clock::wallclock_ns())
        } else {
            (0, 0)
        };
        let mut ring = self.ring.lock();
        if ring.overrun {
            return Err(Overrun);
        }
        // Without memory for an entry the queue is full as well.
        if ring.entries.len() >= ring.capacity || ring.entries.try_reserve(1).is_err() {
            if !self.ignore_overrun || ring.entries.is_empty() {
                ring.overrun = true;
                self.needs_ring.store(true, Ordering::Release);
                drop(ring);
                self.raise_error();
                return Err(Overrun);
            }
            ring.entries.pop_front();
        }
        ring.entries.push_back(Cqe {
            completion,
            qpn,
            timestamp_ns,
            wallclock_ns,
        });
        self.len.store(ring.entries.len(), Ordering::Release);
        let fires = match ring.armed {
            Armed::No => false,
            Armed::Solicited => completion.solicited || completion.status != IBV_WC_SUCCESS,
            Armed::Any => true,
        };
        if fires {
            ring.armed = Armed::No;
            self.needs_ring.store(self.timestamps, Ordering::Release);
            drop(ring);
            self.notify();
        }
        Ok(())
    }

    fn notify(&self) {
        if let Some(channel) = &self.channel {
            channel.push(ib_uverbs_comp_event_desc {
                cq_handle: self.handle,
            });
        }
    }

    fn raise_error(&self) {
        self.events.push(ib_uverbs_async_event_desc {
            element: self.handle,
            event_type: IBV_EVENT_CQ_ERR,
            reserved: 0,
        });
    }

    /// Whether a completion may be passed to a polling program without [`CompletionQueue::push`]: that would
    /// only add it, to an empty ring.
    #[inline]
    pub fn may_bypass(&self) -> bool {
        self.is_empty() && !self.needs_ring.load(Ordering::Acquire)
    }

    /// A polling thread has taken completions past the ring, or has passed them to the program. With several
    /// such threads, the first that passes them counts.
    #[inline]
    pub fn set_in_hand(&self, in_hand: bool) {
        self.in_hand.store(in_hand, Ordering::Relaxed);
    }

    /// Whether there are completions that the program does not have.
    pub fn has_unread(&self) -> bool {
        !self.is_empty() || self.in_hand.load(Ordering::Relaxed)
    }

    /// Whether the program has polled all entries.
    pub fn is_empty(&self) -> bool {
        self.len.load(Ordering::Acquire) == 0
    }

    /// How many entries the program has not polled.
    pub fn len(&self) -> usize {
        self.len.load(Ordering::Acquire)
    }

    /// The oldest completion of a queue pair that the program has not polled and that reports an error, other
    /// than that it was flushed.
    pub fn first_failure(&self, qpn: u32) -> Option<Completion> {
        let ring = self.ring.lock();
        let is_failure = |entry: &&Cqe| {
            let status = entry.completion.status;
            entry.qpn == qpn && status != IBV_WC_SUCCESS && status != IBV_WC_WR_FLUSH_ERR
        };
        ring.entries
            .iter()
            .find(is_failure)
            .map(|entry| entry.completion)
    }

    /// Removes up to `max` completions, oldest first, and calls with the index and entry of each.
    /// Returns their number.
    pub fn poll(&self, max: usize, mut each: impl FnMut(usize, &Cqe)) -> usize {
        if self.len.load(Ordering::Acquire) == 0 {
            return 0;
        }
        let mut ring = self.ring.lock();
        let count = max.min(ring.entries.len());
        for i in 0..count {
            if let Some(entry) = ring.entries.front() {
                each(i, entry);
            }
            ring.entries.pop_front();
        }
        self.len.store(ring.entries.len(), Ordering::Release);
        count
    }

    /// Lets the next completion raise an event, or the next solicited one. A queue that is armed for any
    /// completion stays so.
    pub fn arm(&self, solicited_only: bool) {
        let mut ring = self.ring.lock();
        self.needs_ring.store(true, Ordering::Release);
        if !solicited_only {
            ring.armed = Armed::Any;
        } else if ring.armed == Armed::No {
            ring.armed = Armed::Solicited;
        }
    }

    /// Changes the capacity. Returns false, and changes nothing, if the queue holds more entries than
    /// that.
    pub fn resize(&self, capacity: usize) -> bool {
        let mut ring = self.ring.lock();
        let fits = ring.entries.len() <= capacity;
        if fits {
            ring.capacity = capacity;
        }
        fits
    }

    /// Removes the completions of a queue pair that is reset: they are of the old connection.
    pub fn remove_of(&self, qpn: u32) {
        let mut ring = self.ring.lock();
        ring.entries.retain(|entry| entry.qpn != qpn);
        self.len.store(ring.entries.len(), Ordering::Release);
    }

    /// Removes the events that the program has not read, and raises none from now on. Returns how many it
    /// has read in all: these it has to acknowledge.
    pub fn close_events(&self) -> EventCounts {
        let channel = self.channel.as_ref();
        EventCounts {
            completion: channel.map_or(0, |channel| channel.close_source(self.handle)),
            asynchronous: self.events.close_source(self.handle),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::RawFd;

    use super::super::sink::Sink;
    use super::super::wait::Waker;
    use super::*;

    struct Files {
        channel: RawFd,
        events: RawFd,
    }

    fn queue(capacity: usize, ignore_overrun: bool) -> (CompletionQueue, Files) {
        let waker = Arc::new(Waker::new().unwrap());
        let (channel, channel_fd) = CompletionEvents::new(waker.clone()).unwrap();
        let (events, events_fd) = AsyncEvents::new(waker).unwrap();
        let queue = CompletionQueue::new(CompletionQueueConfig {
            handle: 77,
            capacity,
            channel: Some(Arc::new(channel)),
            events: Arc::new(events),
            timestamps: true,
            ignore_overrun,
        });
        let files = Files {
            channel: channel_fd,
            events: events_fd,
        };
        (queue, files)
    }

    impl Drop for Files {
        fn drop(&mut self) {
            // SAFETY: `queue` has opened both for this test.
            unsafe {
                libc::close(self.channel);
                libc::close(self.events);
            }
        }
    }

    /// How many records of `len` bytes can be read.
    fn count(fd: RawFd, len: usize) -> usize {
        let mut record = [0u8; 16];
        // SAFETY: `record` has 16 bytes; the tests pass 8 or 16 for `len`.
        let read = || unsafe {
            libc::recv(fd, record.as_mut_ptr().cast(), len, libc::MSG_DONTWAIT) == len as isize
        };
        core::iter::repeat_with(read)
            .take_while(|more| *more)
            .count()
    }

    fn done(wr_id: u64, status: ibv_wc_status, solicited: bool) -> Completion {
        Completion {
            solicited,
            ..Completion::new(wr_id, status, IBV_WC_RECV)
        }
    }

    fn counts(completion: u32, asynchronous: u32) -> EventCounts {
        EventCounts {
            completion,
            asynchronous,
        }
    }

    fn ids(queue: &CompletionQueue, max: usize) -> Vec<u64> {
        let mut ids = Vec::new();
        queue.poll(max, |_, entry| ids.push(entry.completion.wr_id));
        ids
    }

    #[test]
    fn completions_come_in_order_with_timestamps() {
        let (queue, _files) = queue(8, false);
        let before = clock::now().0;
        for id in 0..5 {
            queue.push(done(id, IBV_WC_SUCCESS, false), 9).unwrap();
        }
        let mut stamps = Vec::new();
        queue.poll(2, |_, entry| {
            stamps.push((entry.timestamp_ns, entry.wallclock_ns, entry.qpn))
        });
        assert!(stamps[0].0 >= before && stamps[1].0 >= stamps[0].0);
        assert!(stamps[0].1 > 1_600_000_000_000_000_000 && stamps[0].2 == 9);
        assert_eq!(ids(&queue, 100), [2, 3, 4]);
        assert_eq!(ids(&queue, 100), []);
    }

    #[test]
    fn an_armed_queue_raises_one_event() {
        let (queue, files) = queue(64, false);
        let push = |status, solicited| queue.push(done(0, status, solicited), 1).unwrap();
        push(IBV_WC_SUCCESS, true);
        assert_eq!(count(files.channel, 8), 0);
        queue.arm(false);
        push(IBV_WC_SUCCESS, false);
        push(IBV_WC_SUCCESS, false);
        assert_eq!(count(files.channel, 8), 1);
        // Only for a solicited completion, or an error.
        queue.arm(true);
        push(IBV_WC_SUCCESS, false);
        assert_eq!(count(files.channel, 8), 0);
        push(IBV_WC_SUCCESS, true);
        queue.arm(true);
        push(IBV_WC_WR_FLUSH_ERR, false);
        assert_eq!(count(files.channel, 8), 2);
        // Arming for solicited completions does not narrow arming for all.
        queue.arm(false);
        queue.arm(true);
        push(IBV_WC_SUCCESS, false);
        assert_eq!(queue.close_events(), counts(3, 0));
        assert_eq!(count(files.channel, 8), 0);
    }

    #[test]
    fn an_overrun_raises_one_event_and_ends_the_queue() {
        let (queue, files) = queue(2, false);
        let push = |id| queue.push(done(id, IBV_WC_SUCCESS, false), 1);
        assert_eq!((push(1), push(2)), (Ok(()), Ok(())));
        assert_eq!((push(3), push(4)), (Err(Overrun), Err(Overrun)));
        assert_eq!(count(files.events, 16), 1);
        assert_eq!(ids(&queue, 10), [1, 2]);
        assert_eq!(push(5), Err(Overrun));
        assert_eq!(queue.close_events(), counts(0, 1));
    }

    #[test]
    fn an_overrun_can_be_ignored() {
        let (queue, files) = queue(2, true);
        for id in 0..10 {
            assert_eq!(queue.push(done(id, IBV_WC_SUCCESS, false), 1), Ok(()));
        }
        assert_eq!(count(files.events, 16), 0);
        assert_eq!(ids(&queue, 10), [8, 9]);
    }

    #[test]
    fn completions_of_one_queue_pair_are_removed() {
        let (queue, _files) = queue(8, false);
        for id in 0..6 {
            queue
                .push(done(id, IBV_WC_SUCCESS, false), id as u32 % 2)
                .unwrap();
        }
        queue.remove_of(1);
        assert_eq!(ids(&queue, 10), [0, 2, 4]);
    }

    #[test]
    fn a_queue_is_not_resized_below_what_it_holds() {
        let (queue, _files) = queue(4, false);
        for id in 0..3 {
            queue.push(done(id, IBV_WC_SUCCESS, false), 1).unwrap();
        }
        assert!(!queue.resize(2));
        assert!(queue.resize(3));
        assert_eq!(queue.push(done(3, IBV_WC_SUCCESS, false), 1), Err(Overrun));
        assert_eq!(ids(&queue, 10), [0, 1, 2]);
    }

    /// Completions take the fast path only where that changes nothing that a program can see.
    #[test]
    fn completions_bypass_an_empty_queue_that_is_not_armed() {
        let (other, _files) = queue(2, false);
        let success = |id| done(id, IBV_WC_SUCCESS, false);
        for (case, expected) in [("empty", 2), ("armed", 0), ("filled", 0), ("overrun", 0)] {
            let (mut queue, files) = queue(2, false);
            // The tests' queues have timestamps.
            queue.timestamps = false;
            queue.needs_ring = AtomicBool::new(false);
            match case {
                "armed" => queue.arm(false),
                "filled" => queue.push(success(8), 1).unwrap(),
                "overrun" => {
                    let pushed: Vec<_> = (0..3).map(|id| queue.push(success(id), 1)).collect();
                    assert_eq!(pushed, [Ok(()), Ok(()), Err(Overrun)]);
                    assert_eq!(ids(&queue, 10).len(), 2);
                }
                _ => {}
            }
            let before = queue.has_unread();
            let mut sink = Sink::new(&queue, 2);
            assert!(!sink.put(&other, success(0), 1), "{case}: another queue");
            let taken = (0..3)
                .filter(|id| sink.put(&queue, success(*id), 1))
                .count();
            assert_eq!(taken, expected, "{case}");
            assert_eq!(queue.has_unread(), before || taken > 0, "{case}");
            let mut passed = Vec::new();
            let total = sink.pass_on(&queue, |i, cqe| passed.push((i, cqe.completion.wr_id)));
            assert_eq!((total, passed.len()), (expected, expected));
            assert!(
                passed
                    .iter()
                    .enumerate()
                    .all(|(i, of)| *of == (i, i as u64))
            );
            assert_eq!(queue.has_unread(), before, "{case}");
            if case == "armed" {
                queue.push(success(9), 1).unwrap();
                assert_eq!(count(files.channel, 8), 1);
                assert_eq!(ids(&queue, 1), [9]);
                assert!(queue.may_bypass(), "it is not armed any more");
            }
        }
    }
}
