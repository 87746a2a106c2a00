//! The receive side of a device: its inboxes, one of which a thread must hold to receive.
//!
//! Invariant: while no holder is taken for preempted, only the first inbox is in use, so that packets are
//! handled in the order of their arrival (`lock_holder.rs`). Where a queue pair needs that order, the others
//! wait for the holder (`receive_order.rs`).

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lock_api::MutexGuard;

use super::clock::{self, AtomicTime};
use super::lock_holder::PREEMPTED_AFTER;
use super::qp_cache::QpCache;
use super::queue_pair::QueuePair;
use super::receive_order::ReceiveOrder;
use crate::shm::SeenChannels;
use crate::sync::{Mutex, RawMutex};
use crate::transport::Inbox;
use roce::engine::Time;

/// How many threads may be preempted while they receive before the others have to wait.
const INBOXES: usize = 4;

/// How long the other threads wait for one that is taken for preempted while a queue pair needs the order of
/// packets.
const MAX_ORDERED: Duration = Duration::from_secs(1);

/// The inboxes of a device. A thread must hold one to receive: normally the first, so that packets
/// are handled in the order of their arrival. Each of the others is a standby for the time in which
/// the holders of all before it are preempted.
pub struct Inboxes {
    slots: [InboxSlot; INBOXES],
    order: Arc<ReceiveOrder>,
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
            order: Arc::default(),
        })
    }

    /// The order in which packets are delivered.
    pub fn order(&self) -> &Arc<ReceiveOrder> {
        &self.order
    }

    /// An inbox; None if another thread receives.
    pub fn try_take(&self) -> Option<InboxGuard<'_>> {
        // That of the holder which has held its inbox for the shortest time.
        let mut stuck_for = Duration::MAX;
        for slot in &self.slots {
            if let Some(receiver) = slot.receiver.try_lock() {
                if !slot.is_standby {
                    self.first_is_taken();
                } else if !self.order.begin_several(stuck_for >= MAX_ORDERED) {
                    // Set before it receives: who receives later packets sees it.
                    break;
                }
                return Some(slot.guard(receiver));
            }
            stuck_for = stuck_for.min(slot.stuck_for());
            if stuck_for < PREEMPTED_AFTER {
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
        if self.order.may_reorder() {
            self.end_if_alone();
        }
    }

    #[cold]
    fn end_if_alone(&self) {
        let [_, others @ ..] = &self.slots;
        // Locked until the flag is cleared: a thread that takes one of them sets it afterwards.
        let locked = others.each_ref().map(|slot| slot.receiver.try_lock());
        if locked.iter().all(Option::is_some) {
            self.order.end_several();
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

    /// For how long the holder is known not to have begun a batch.
    fn stuck_for(&self) -> Duration {
        let batches = self.batches.load(Ordering::Relaxed);
        let now = clock::now();
        if self.seen.load(Ordering::Acquire) != batches {
            // In this order: who sees the new count sees the new time.
            self.seen_at.store(now);
            self.seen.store(batches, Ordering::Release);
            return Duration::ZERO;
        }
        now.since(self.seen_at.load())
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
    use std::sync::atomic::AtomicBool;

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
        let several = || inboxes.order().may_reorder();
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

    /// A queue pair needs the order of packets: only the holder of the first inbox receives, and the others
    /// when it has been preempted for long.
    #[test]
    fn no_other_inbox_is_used_while_the_order_matters() {
        let inboxes = Inboxes::try_new().unwrap();
        let in_order = inboxes.order().require();
        assert!(in_order.is_some());
        let first = inboxes.try_take().unwrap();
        assert!(inboxes.try_take().is_none());
        let slot = &inboxes.slots[0];
        let stuck_for = |time: Duration| {
            slot.seen_at
                .store(Time(clock::now().0 - time.as_nanos() as u64))
        };
        let nearly = MAX_ORDERED - Duration::from_millis(500);
        for (time, is_taken) in [
            (PREEMPTED_AFTER, false),
            (nearly, false),
            (MAX_ORDERED, true),
        ] {
            stuck_for(time);
            assert_eq!(inboxes.try_take().is_some(), is_taken, "{time:?}");
            // Another thread examines the second one, which was used long ago.
            let examined = inboxes.slots[1].receiver.try_lock();
            inboxes.slots[1].seen.store(
                inboxes.slots[1].batches.load(Ordering::Relaxed),
                Ordering::Relaxed,
            );
            inboxes.slots[1].seen_at.store(Time(0));
            if !is_taken {
                assert!(inboxes.try_take().is_none(), "{time:?}");
            }
            drop(examined);
        }
        assert!(inboxes.order().may_reorder() && inboxes.order().require().is_none());
        drop(first);
        drop(inboxes.take());
        drop(in_order);
        let _first = inboxes.try_take().unwrap();
        assert!(inboxes.try_take().is_none());
        stuck_for(PREEMPTED_AFTER);
        assert!(inboxes.try_take().is_some());
    }
}
