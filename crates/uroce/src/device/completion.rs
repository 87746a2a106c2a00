//! Completion queues.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use ibverbs_abi::*;
use parking_lot::Mutex;

use super::clock;
use super::events::{AsyncEvents, CompletionEvents};
use crate::engine::{Completion, Overrun};

/// What a queue holds.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    pub completion: Completion,
    pub qpn: u32,
    /// Of the device's clock, and since 1970; 0 if the queue was not made for time stamps.
    pub stamp: u64,
    pub wall: u64,
}

/// Which completion raises the next event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Armed {
    No,
    Solicited,
    Any,
}

struct Ring {
    entries: VecDeque<Entry>,
    capacity: usize,
    armed: Armed,
    overrun: bool,
}

/// A completion queue.
pub struct CompletionQueue {
    ring: Mutex<Ring>,
    /// The ring's length, for those who only want to know whether it is empty.
    waiting: AtomicUsize,
    /// The address of the program's `ibv_cq`.
    pub handle: AtomicU64,
    channel: Option<Arc<CompletionEvents>>,
    events: Arc<AsyncEvents>,
    stamps: bool,
    ignore_overrun: bool,
    /// Events that the program has been or will be told of.
    reported: AtomicU32,
    reported_async: AtomicU32,
}

/// How to make a queue.
pub struct CompletionQueueConfig {
    pub capacity: usize,
    pub channel: Option<Arc<CompletionEvents>>,
    pub events: Arc<AsyncEvents>,
    pub stamps: bool,
    pub ignore_overrun: bool,
}

impl CompletionQueue {
    pub fn new(config: CompletionQueueConfig) -> CompletionQueue {
        CompletionQueue {
            ring: Mutex::new(Ring {
                entries: VecDeque::new(),
                capacity: config.capacity,
                armed: Armed::No,
                overrun: false,
            }),
            waiting: AtomicUsize::new(0),
            handle: AtomicU64::new(0),
            channel: config.channel,
            events: config.events,
            stamps: config.stamps,
            ignore_overrun: config.ignore_overrun,
            reported: AtomicU32::new(0),
            reported_async: AtomicU32::new(0),
        }
    }

    /// Adds a completion. An overrun is told once, by CQ_ERR; then the queue takes no more.
    pub fn push(&self, completion: Completion, qpn: u32) -> Result<(), Overrun> {
        let (stamp, wall) = if self.stamps {
            (clock::now().0, clock::wall())
        } else {
            (0, 0)
        };
        let mut ring = self.ring.lock();
        if ring.overrun {
            return Err(Overrun);
        }
        if ring.entries.len() >= ring.capacity {
            if !self.ignore_overrun {
                ring.overrun = true;
                drop(ring);
                self.raise_error();
                return Err(Overrun);
            }
            ring.entries.pop_front();
        }
        ring.entries.push_back(Entry {
            completion,
            qpn,
            stamp,
            wall,
        });
        self.waiting.store(ring.entries.len(), Ordering::Release);
        let fires = match ring.armed {
            Armed::No => false,
            Armed::Solicited => completion.solicited || completion.status != IBV_WC_SUCCESS,
            Armed::Any => true,
        };
        if fires {
            ring.armed = Armed::No;
            drop(ring);
            self.notify();
        }
        Ok(())
    }

    fn notify(&self) {
        if let Some(channel) = &self.channel {
            self.reported.fetch_add(1, Ordering::Relaxed);
            channel.push(ib_uverbs_comp_event_desc {
                cq_handle: self.handle.load(Ordering::Relaxed),
            });
        }
    }

    fn raise_error(&self) {
        self.reported_async.fetch_add(1, Ordering::Relaxed);
        self.events.push(ib_uverbs_async_event_desc {
            element: self.handle.load(Ordering::Relaxed),
            event_type: IBV_EVENT_CQ_ERR,
            reserved: 0,
        });
    }

    /// Takes up to `max` completions.
    pub fn take(&self, max: usize, mut each: impl FnMut(usize, &Entry)) -> usize {
        if self.waiting.load(Ordering::Acquire) == 0 {
            return 0;
        }
        let mut ring = self.ring.lock();
        let count = max.min(ring.entries.len());
        for (i, entry) in ring.entries.drain(..count).enumerate() {
            each(i, &entry);
        }
        self.waiting.store(ring.entries.len(), Ordering::Release);
        count
    }

    /// The next completion raises an event.
    pub fn arm(&self, solicited_only: bool) {
        let mut ring = self.ring.lock();
        if !solicited_only {
            ring.armed = Armed::Any;
        } else if ring.armed == Armed::No {
            ring.armed = Armed::Solicited;
        }
    }

    /// False if it holds more than that now.
    pub fn resize(&self, capacity: usize) -> bool {
        let mut ring = self.ring.lock();
        let fits = ring.entries.len() <= capacity;
        if fits {
            ring.capacity = capacity;
        }
        fits
    }

    /// Forgets the completions of a queue pair that is reset: they are of a connection that is no more.
    pub fn forget(&self, qpn: u32) {
        let mut ring = self.ring.lock();
        ring.entries.retain(|entry| entry.qpn != qpn);
        self.waiting.store(ring.entries.len(), Ordering::Release);
    }

    /// Takes back unread events. What the program has read of both kinds, and must acknowledge.
    pub fn withdraw_events(&self) -> (u32, u32) {
        let handle = self.handle.load(Ordering::Relaxed);
        let unread = self.channel.as_ref().map_or(0, |c| c.remove(handle));
        let unread_async = self.events.remove(handle);
        (
            self.reported.load(Ordering::Relaxed).wrapping_sub(unread),
            self.reported_async
                .load(Ordering::Relaxed)
                .wrapping_sub(unread_async),
        )
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::RawFd;

    use super::*;

    struct Files {
        channel: RawFd,
        events: RawFd,
    }

    fn queue(capacity: usize, ignore_overrun: bool) -> (CompletionQueue, Files) {
        let (channel, channel_fd) = CompletionEvents::new().unwrap();
        let (events, events_fd) = AsyncEvents::new().unwrap();
        let queue = CompletionQueue::new(CompletionQueueConfig {
            capacity,
            channel: Some(Arc::new(channel)),
            events: Arc::new(events),
            stamps: true,
            ignore_overrun,
        });
        queue.handle.store(77, Ordering::Relaxed);
        let files = Files {
            channel: channel_fd,
            events: events_fd,
        };
        (queue, files)
    }

    impl Drop for Files {
        fn drop(&mut self) {
            // SAFETY: these tests' own.
            unsafe {
                libc::close(self.channel);
                libc::close(self.events);
            }
        }
    }

    /// How many records of `len` bytes can be read.
    fn count(fd: RawFd, len: usize) -> usize {
        let mut record = [0u8; 16];
        // SAFETY: `record` has room.
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

    fn ids(queue: &CompletionQueue, max: usize) -> Vec<u64> {
        let mut ids = Vec::new();
        queue.take(max, |_, entry| ids.push(entry.completion.wr_id));
        ids
    }

    #[test]
    fn completions_come_in_order_with_time_stamps() {
        let (queue, _files) = queue(8, false);
        let before = clock::now().0;
        for id in 0..5 {
            queue.push(done(id, IBV_WC_SUCCESS, false), 9).unwrap();
        }
        let mut stamps = Vec::new();
        queue.take(2, |_, entry| {
            stamps.push((entry.stamp, entry.wall, entry.qpn))
        });
        assert!(stamps[0].0 >= before && stamps[1].0 >= stamps[0].0);
        assert!(stamps[0].1 > 1_600_000_000_000_000_000 && stamps[0].2 == 9);
        assert_eq!(ids(&queue, 100), [2, 3, 4]);
        assert_eq!(ids(&queue, 100), []);
    }

    #[test]
    fn an_armed_queue_tells_once() {
        let (queue, files) = queue(64, false);
        let push = |status, solicited| queue.push(done(0, status, solicited), 1).unwrap();
        push(IBV_WC_SUCCESS, true);
        assert_eq!(count(files.channel, 8), 0);
        queue.arm(false);
        push(IBV_WC_SUCCESS, false);
        push(IBV_WC_SUCCESS, false);
        assert_eq!(count(files.channel, 8), 1);
        // Only for what is solicited, or an error.
        queue.arm(true);
        push(IBV_WC_SUCCESS, false);
        assert_eq!(count(files.channel, 8), 0);
        push(IBV_WC_SUCCESS, true);
        queue.arm(true);
        push(IBV_WC_WR_FLUSH_ERR, false);
        assert_eq!(count(files.channel, 8), 2);
        // Armed for all stays so.
        queue.arm(false);
        queue.arm(true);
        push(IBV_WC_SUCCESS, false);
        assert_eq!(queue.withdraw_events(), (3, 0));
        assert_eq!(count(files.channel, 8), 0);
    }

    #[test]
    fn an_overrun_is_told_once_and_ends_the_queue() {
        let (queue, files) = queue(2, false);
        let push = |id| queue.push(done(id, IBV_WC_SUCCESS, false), 1);
        assert_eq!((push(1), push(2)), (Ok(()), Ok(())));
        assert_eq!((push(3), push(4)), (Err(Overrun), Err(Overrun)));
        assert_eq!(count(files.events, 16), 1);
        assert_eq!(ids(&queue, 10), [1, 2]);
        assert_eq!(push(5), Err(Overrun));
        assert_eq!(queue.withdraw_events(), (0, 1));
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
    fn completions_of_one_queue_pair_are_forgotten() {
        let (queue, _files) = queue(8, false);
        for id in 0..6 {
            queue
                .push(done(id, IBV_WC_SUCCESS, false), id as u32 % 2)
                .unwrap();
        }
        queue.forget(1);
        assert_eq!(ids(&queue, 10), [0, 2, 4]);
    }

    #[test]
    fn a_queue_is_not_made_smaller_than_what_it_holds() {
        let (queue, _files) = queue(4, false);
        for id in 0..3 {
            queue.push(done(id, IBV_WC_SUCCESS, false), 1).unwrap();
        }
        assert!(!queue.resize(2));
        assert!(queue.resize(3));
        assert_eq!(queue.push(done(3, IBV_WC_SUCCESS, false), 1), Err(Overrun));
        assert_eq!(ids(&queue, 10), [0, 1, 2]);
    }
}
