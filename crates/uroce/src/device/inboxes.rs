//! The receive side of a device: its inboxes, one of which a thread must hold to receive.
//!
//! Invariant: while no holder is taken for preempted, only the first inbox is in use, so that packets are
//! handled in the order of their arrival (`lock_holder.rs`).

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use lock_api::MutexGuard;

use super::clock::{self, AtomicTime};
use super::lock_holder::PREEMPTED_AFTER;
use super::qp_cache::QpCache;
use super::queue_pair::QueuePair;
use crate::shm::SeenChannels;
use crate::sync::{Mutex, RawMutex};
use crate::transport::Inbox;
use roce::engine::Time;

/// How many threads may be preempted while they receive before the others have to wait.
const INBOXES: usize = 4;

/// The inboxes of a device. A thread must hold one to receive: normally the first, so that packets
/// are handled in the order of their arrival. Each of the others is a standby for the time in which
/// the holders of all before it are preempted.
pub struct Inboxes {
    slots: [InboxSlot; INBOXES],
    /// See [`Inboxes::concurrent_receivers`].
    concurrent_receivers: Arc<AtomicBool>,
}

struct InboxSlot {
    receiver: Mutex<Receiver>,
    /// The inbox is not the first. Rarely used, so it keeps no channels.
    is_standby: bool,
    /// Counts the batches that were received through it. Written by the holder.
    batches: AtomicU64,
    /// The value of `batches` that a thread without the inbox has seen first at `seen_at`.
    seen: AtomicU64,
    seen_at: AtomicTime,
}

struct Receiver {
    inbox: Inbox,
    channels: SeenChannels,
    qp_cache: QpCache,
}

/// An inbox, locked.
pub struct InboxGuard<'a> {
    receiver: MutexGuard<'a, RawMutex, Receiver>,
    slot: &'a InboxSlot,
}

impl Inboxes {
    /// Allocates the buffers of all. None if there is no memory.
    pub fn try_new() -> Option<Inboxes> {
        let slot = |is_standby| {
            Some(InboxSlot {
                receiver: Mutex::new(Receiver {
                    inbox: Inbox::try_new()?,
                    channels: SeenChannels::default(),
                    // A standby keeps none.
                    qp_cache: match is_standby {
                        true => QpCache::default(),
                        false => QpCache::new(),
                    },
                }),
                is_standby,
                batches: AtomicU64::new(0),
                seen: AtomicU64::new(u64::MAX),
                seen_at: AtomicTime::new(Time(0)),
            })
        };
        Some(Inboxes {
            slots: [slot(false)?, slot(true)?, slot(true)?, slot(true)?],
            concurrent_receivers: Arc::default(),
        })
    }

    /// Set while several threads receive, so that one may deliver packets before another has delivered
    /// earlier ones.
    pub fn concurrent_receivers(&self) -> &Arc<AtomicBool> {
        &self.concurrent_receivers
    }

    /// An inbox; None if another thread receives.
    pub fn try_take(&self) -> Option<InboxGuard<'_>> {
        for slot in &self.slots {
            if let Some(receiver) = slot.receiver.try_lock() {
                if slot.is_standby {
                    // Before it receives: who receives later packets sees it.
                    self.concurrent_receivers.store(true, Ordering::SeqCst);
                } else {
                    self.first_is_taken();
                }
                return Some(slot.guard(receiver));
            }
            if !slot.is_stuck() {
                break;
            }
        }
        None
    }

    /// An inbox. Blocks while another thread receives, and makes progress with that.
    pub fn take(&self) -> InboxGuard<'_> {
        loop {
            if let Some(guard) = self.try_take() {
                return guard;
            }
            let slot = &self.slots[0];
            if let Some(receiver) = slot.receiver.try_lock_for(PREEMPTED_AFTER / 4) {
                self.first_is_taken();
                return slot.guard(receiver);
            }
        }
    }

    /// The caller has just taken the first inbox. If the others are free, no packet is in any hand.
    #[inline]
    fn first_is_taken(&self) {
        if self.concurrent_receivers.load(Ordering::Relaxed) {
            self.end_if_alone();
        }
    }

    #[cold]
    fn end_if_alone(&self) {
        let [_, others @ ..] = &self.slots;
        // Locked until the flag is cleared: a thread that takes one of them sets it afterwards.
        let locked = others.each_ref().map(|slot| slot.receiver.try_lock());
        if locked.iter().all(Option::is_some) {
            self.concurrent_receivers.store(false, Ordering::SeqCst);
        }
    }

    /// Forgets a queue pair that packets do not reach any more. A thread that receives meanwhile does not
    /// keep it.
    pub fn forget(&self, qp: &QueuePair) {
        for slot in &self.slots {
            if let Some(mut receiver) = slot.receiver.try_lock() {
                receiver.qp_cache.forget(qp);
            }
        }
    }

    /// Waits until every thread that receives has ended its batch, for `time` at most.
    pub fn await_batches(&self, time: Duration) {
        let end = clock::now().after(time);
        for slot in &self.slots {
            drop(slot.receiver.try_lock_for(end.since(clock::now())));
        }
    }
}

impl InboxSlot {
    fn guard<'a>(&'a self, receiver: MutexGuard<'a, RawMutex, Receiver>) -> InboxGuard<'a> {
        let slot = self;
        let mut guard = InboxGuard { receiver, slot };
        guard.on_batch();
        guard
    }

    /// Whether the holder has not begun a batch for [`PREEMPTED_AFTER`].
    fn is_stuck(&self) -> bool {
        let batches = self.batches.load(Ordering::Relaxed);
        let now = clock::now();
        if self.seen.load(Ordering::Acquire) != batches {
            // In this order: who sees the new count sees the new time.
            self.seen_at.store(now);
            self.seen.store(batches, Ordering::Release);
            return false;
        }
        now.since(self.seen_at.load()) >= PREEMPTED_AFTER
    }
}

impl InboxGuard<'_> {
    /// The holder begins a batch, so it is not preempted.
    pub fn on_batch(&mut self) {
        let batches = &self.slot.batches;
        let next = batches.load(Ordering::Relaxed).wrapping_add(1);
        batches.store(next, Ordering::Relaxed);
    }

    /// The queue pairs that packets have come for. Until [`InboxGuard::keep_qp_cache`] it has none.
    #[inline]
    pub fn take_qp_cache(&mut self) -> QpCache {
        core::mem::take(&mut self.receiver.qp_cache)
    }

    /// Puts back what [`InboxGuard::take_qp_cache`] has returned.
    #[inline]
    pub fn keep_qp_cache(&mut self, qp_cache: QpCache) {
        self.receiver.qp_cache = qp_cache;
    }

    /// The device's channels, as this inbox has seen them.
    pub fn channels(&mut self) -> &mut SeenChannels {
        &mut self.receiver.channels
    }
}

impl Drop for InboxGuard<'_> {
    fn drop(&mut self) {
        if self.slot.is_standby {
            self.receiver.channels = SeenChannels::default();
        }
    }
}

impl Deref for InboxGuard<'_> {
    type Target = Inbox;

    fn deref(&self) -> &Inbox {
        &self.receiver.inbox
    }
}

impl DerefMut for InboxGuard<'_> {
    fn deref_mut(&mut self) -> &mut Inbox {
        &mut self.receiver.inbox
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The holder ends its batch while another thread waits for that.
    #[test]
    fn a_batch_is_waited_for() {
        let inboxes = Inboxes::try_new().unwrap();
        inboxes.await_batches(Duration::ZERO);
        let done = AtomicBool::new(false);
        let held = inboxes.try_take().unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                inboxes.await_batches(Duration::from_secs(60));
                done.load(Ordering::SeqCst)
            });
            inboxes.await_batches(Duration::from_millis(1));
            done.store(true, Ordering::SeqCst);
            drop(held);
            assert!(waiting.join().unwrap());
        });
    }

    #[test]
    fn another_inbox_is_used_while_a_holder_is_preempted() {
        let inboxes = Inboxes::try_new().unwrap();
        let mut first = inboxes.try_take().unwrap();
        assert!(inboxes.try_take().is_none());
        std::thread::sleep(PREEMPTED_AFTER * 2);
        // The holder runs, so it is not replaced.
        first.on_batch();
        assert!(inboxes.try_take().is_none());
        let several = || inboxes.concurrent_receivers().load(Ordering::SeqCst);
        assert!(!several());
        let mut held: Vec<_> = (1..INBOXES).map(|_| inboxes.take()).collect();
        assert!(inboxes.try_take().is_none());
        assert!(several());
        drop(held.drain(1..));
        drop(first);
        // One may still have earlier packets to deliver.
        drop(inboxes.take());
        assert!(several());
        drop(held);
        drop(inboxes.take());
        assert!(!several());
        assert!(inboxes.slots[0].batches.load(Ordering::Relaxed) > 2);
    }
}
