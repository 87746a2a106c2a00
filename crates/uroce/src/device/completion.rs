//! Completion queues (CQs): entries, overruns, and events for armed queues.
//!
//! Not here: completions that a polling thread takes without the queue (`polled.rs`), the events'
//! descriptor (`events.rs`).

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use ibverbs_abi::*;

use super::events::{AsyncEvents, CompletionEvents};
use super::{Device, clock};
use crate::sync::Mutex;
use roce::engine::{Completion, Overrun, Time};

/// A completion queue entry.
#[derive(Clone, Copy, Debug)]
pub struct Cqe {
    /// The engine's completion of the request.
    pub completion: Completion,
    /// The queue pair that the request was posted to.
    pub qpn: u32,
    /// The number of the SRQ that the receive is of; 0 for none.
    pub srqn: u32,
    /// When the entry was added, in nanoseconds of CLOCK_MONOTONIC; 0 if the queue was created without
    /// timestamps.
    pub timestamp_ns: u64,
    /// The same of CLOCK_REALTIME, since 1970.
    pub wallclock_ns: u64,
}

/// The completion that raises the next completion event (`ibv_req_notify_cq`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Armed {
    No,
    Solicited,
    Any,
}

/// How many completions an event waits for, and for how long at most (`ibv_modify_cq`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Moderation {
    /// Completions; with 0 and 1 an event does not wait.
    pub count: u16,
    /// Without a period, an event waits for the completions however long they take.
    pub period: Duration,
}

/// The decision about an event that a completion raises: now, or later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moderated {
    /// The event is raised now.
    Raise,
    /// The event waits, until this time if nothing else raises it.
    WaitUntil(Time),
    /// The event waits, as it has done.
    Wait,
}

struct CqRing {
    entries: VecDeque<Cqe>,
    capacity: usize,
    armed: Armed,
    overrun: bool,
    moderation: Moderation,
    /// Completions that an event waits with.
    moderated: u16,
    /// The time until which the event waits.
    due: Option<Time>,
}

impl CqRing {
    fn moderate(&mut self, now: impl FnOnce() -> Time) -> Moderated {
        let Moderation { count, period } = self.moderation;
        if count <= 1 {
            return Moderated::Raise;
        }
        self.moderated += 1;
        if self.moderated >= count {
            return Moderated::Raise;
        }
        if self.due.is_some() || period.is_zero() {
            return Moderated::Wait;
        }
        let at = now().after(period);
        self.due = Some(at);
        Moderated::WaitUntil(at)
    }
}

/// A completion queue. Thread-safe.
pub struct CompletionQueue {
    ring: Mutex<CqRing>,
    /// The ring's length: an empty queue is polled without taking the lock.
    len: AtomicUsize,
    /// The queue is armed or overrun, or its entries get timestamps.
    needs_ring: AtomicBool,
    /// A polling thread has completions that it has not reported to the program yet.
    unreported: AtomicBool,
    /// See [`CompletionQueueConfig::handle`].
    handle: u64,
    channel: Option<Arc<CompletionEvents>>,
    events: Arc<AsyncEvents>,
    timestamps: bool,
    ignore_overrun: bool,
    /// The device whose timers end the wait of an event; set with the first moderation.
    device: OnceLock<Weak<Device>>,
}

/// The attributes that a queue is created with.
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
                moderation: Moderation::default(),
                moderated: 0,
                due: None,
            }),
            len: AtomicUsize::new(0),
            needs_ring: AtomicBool::new(config.timestamps),
            unreported: AtomicBool::new(false),
            handle: config.handle,
            channel: config.channel,
            events: config.events,
            timestamps: config.timestamps,
            ignore_overrun: config.ignore_overrun,
            device: OnceLock::new(),
        }
    }

    /// Adds a completion of a queue pair, with the number of the SRQ that its receive is of, or 0. Raises a
    /// completion event if the queue is armed for it. If the queue is full, raises CQ_ERR and fails; from
    /// then on every call fails.
    pub fn push(&self, completion: Completion, qpn: u32, srqn: u32) -> Result<(), Overrun> {
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
            srqn,
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
            match ring.moderate(clock::now) {
                Moderated::Raise => {
                    self.disarm(&mut ring);
                    drop(ring);
                    self.notify();
                }
                Moderated::WaitUntil(at) => {
                    drop(ring);
                    let device = self.device.get().and_then(Weak::upgrade);
                    device.inspect(|device| device.add_moderation_timer(at));
                }
                Moderated::Wait => {}
            }
        }
        Ok(())
    }

    /// The event is about to be raised: the next one needs the queue to be armed.
    fn disarm(&self, ring: &mut CqRing) {
        (ring.armed, ring.moderated, ring.due) = (Armed::No, 0, None);
        self.needs_ring.store(self.timestamps, Ordering::Release);
    }

    /// Lets events wait for completions from now on. `device` is the queue's.
    pub fn moderate(&self, moderation: Moderation, device: &Arc<Device>) {
        let _ = self.device.set(Arc::downgrade(device));
        self.ring.lock().moderation = moderation;
    }

    /// Raises the event that waits, if its time has come.
    pub fn end_wait(&self, now: Time) {
        let mut ring = self.ring.lock();
        if ring.due.is_some_and(|at| at <= now) {
            self.disarm(&mut ring);
            drop(ring);
            self.notify();
        }
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
    pub fn can_skip_ring(&self) -> bool {
        self.is_empty() && !self.needs_ring.load(Ordering::Acquire)
    }

    /// A polling thread has taken completions past the ring, or has passed them to the program. With several
    /// such threads, the first that passes them counts.
    #[inline]
    pub fn set_unreported(&self, unreported: bool) {
        self.unreported.store(unreported, Ordering::Relaxed);
    }

    /// Whether there are completions that the program does not have.
    pub fn has_unread(&self) -> bool {
        !self.is_empty() || self.unreported.load(Ordering::Relaxed)
    }

    /// Whether the program has polled all entries.
    pub fn is_empty(&self) -> bool {
        self.len.load(Ordering::Acquire) == 0
    }

    /// How many entries the program has not polled.
    pub fn len(&self) -> usize {
        self.len.load(Ordering::Acquire)
    }

    /// [`Completion::covered_before`] of the oldest completion of a queue pair's send queue, or of its
    /// receive queue, that the program has not polled.
    pub fn oldest_unpolled(&self, qpn: u32, is_receive: bool) -> Option<u32> {
        if self.len.load(Ordering::Acquire) == 0 {
            return None;
        }
        let is_of_queue = |entry: &&Cqe| {
            let receives = entry.completion.opcode & IBV_WC_RECV != 0;
            entry.qpn == qpn && receives == is_receive
        };
        let ring = self.ring.lock();
        let oldest = ring.entries.iter().find(is_of_queue);
        oldest.map(|entry| entry.completion.covered_before)
    }

    /// How many completions of an SRQ's receives the program has not polled.
    pub fn unpolled_of_srq(&self, srqn: u32) -> usize {
        if self.len.load(Ordering::Acquire) == 0 {
            return 0;
        }
        let ring = self.ring.lock();
        let is_of_queue = |entry: &&Cqe| entry.srqn == srqn;
        ring.entries.iter().filter(is_of_queue).count()
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
mod tests;
