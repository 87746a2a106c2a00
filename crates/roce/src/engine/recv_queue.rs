//! The receive queue of a queue pair: its own WQEs, or access to its shared receive queue.

use std::collections::VecDeque;

use super::{Hca, RecvWr};

/// A receive queue.
#[derive(Debug)]
pub struct RecvQueue {
    /// Posted to the queue pair, oldest first.
    wrs: VecDeque<RecvWr>,
    /// Taken for a message that was dropped before its end; the next message takes it first.
    returned: Option<RecvWr>,
    /// WRs come from a shared receive queue.
    has_srq: bool,
    /// WRs that were posted, modulo 2^32.
    posted: u32,
    /// The receives among `posted` whose slots are known to be free again.
    freed: u32,
}

impl RecvQueue {
    /// An empty queue.
    pub fn new(has_srq: bool) -> RecvQueue {
        RecvQueue {
            wrs: VecDeque::new(),
            returned: None,
            has_srq,
            posted: 0,
            freed: 0,
        }
    }

    /// Whether a WR can be posted to a queue of `max` slots. As on an RNIC, a slot is free again when the
    /// program has polled the completion of its WR.
    #[inline]
    pub fn has_slot(&mut self, max: u32, hca: &impl Hca) -> bool {
        if self.posted.wrapping_sub(self.freed) < max {
            return true;
        }
        let left = self.depth() + u32::from(self.returned.is_some());
        let taken = self.posted.wrapping_sub(left);
        // More were not taken: that is an entry of an older queue pair with the same number.
        let unpolled = hca.unpolled_receives();
        let unpolled = if unpolled <= taken { unpolled } else { 0 };
        self.freed = taken.wrapping_sub(unpolled);
        self.posted.wrapping_sub(self.freed) < max
    }

    /// A WR was posted that is flushed at once.
    pub fn skip(&mut self) {
        self.posted = self.posted.wrapping_add(1);
    }

    /// WRs posted to the queue pair's own receive queue and not taken.
    pub fn depth(&self) -> u32 {
        self.wrs.len() as u32
    }

    /// The WR that the next message takes; None if the queue is empty, or shared.
    pub fn front(&self) -> Option<&RecvWr> {
        self.returned.as_ref().or(self.wrs.front())
    }

    /// Whether WRs come from a shared receive queue.
    pub fn is_shared(&self) -> bool {
        self.has_srq
    }

    /// Appends a WR. The caller has checked that the queue is not full. False if there is no memory.
    #[inline]
    pub fn post(&mut self, wr: RecvWr) -> bool {
        let reserved = self.wrs.try_reserve(1).is_ok();
        if reserved {
            self.wrs.push_back(wr);
            self.posted = self.posted.wrapping_add(1);
        }
        reserved
    }

    /// The WR for the next message; None if the queue is empty.
    pub fn take(&mut self, hca: &mut impl Hca) -> Option<RecvWr> {
        match self.returned.take() {
            None if self.has_srq => hca.take_srq_wr(),
            None => self.wrs.pop_front(),
            returned => returned,
        }
    }

    /// Returns the WR of a dropped message to the queue.
    pub fn put_back(&mut self, wr: RecvWr) {
        self.returned = Some(wr);
    }

    /// Puts `queue` in the place of this empty one, which replaced it for one packet. A WR that the
    /// packet has returned is the next one of `queue`.
    pub fn restore(&mut self, queue: RecvQueue) {
        let meanwhile = core::mem::replace(self, queue);
        self.returned = meanwhile.returned.or(self.returned.take());
    }

    /// Empties the queue, oldest WR first. The WRs of a shared receive queue stay there.
    pub fn flush(&mut self) -> impl Iterator<Item = RecvWr> {
        self.returned.take().into_iter().chain(self.wrs.drain(..))
    }
}
