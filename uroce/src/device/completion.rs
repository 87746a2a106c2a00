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
