//! Completions for a program that is polling. It gets them at once: they do not pass through the ring of the
//! completion queue, whose lock costs as much as the rest.
//!
//! Invariant: the completions of one queue pair keep their order. A completion is put here only while the
//! ring is empty, by a thread that has the queue pair locked. So no earlier one is in the ring, and later
//! ones that find no room here are polled after these.

use smallvec::SmallVec;

use super::completion::{CompletionQueue, Cqe};
use roce::engine::Completion;

/// The most entries. Further ones take the ring.
const MAX: usize = 4;

/// The completions of one completion queue that a poll has found.
#[derive(Default)]
pub struct PolledCompletions {
    /// The address of the queue: 0 for none.
    cq: usize,
    room: usize,
    entries: SmallVec<[Cqe; MAX]>,
}

impl PolledCompletions {
    /// An empty list for a program that polls a queue for at most `max` entries.
    #[inline]
    pub fn new(cq: &CompletionQueue, max: usize) -> PolledCompletions {
        PolledCompletions {
            cq: core::ptr::from_ref(cq).addr(),
            room: max.min(MAX),
            entries: SmallVec::new(),
        }
    }

    /// Takes a completion of the queue pair `qpn`, which the caller has locked. False if it is to take the
    /// queue's ring.
    #[inline]
    pub fn put(&mut self, cq: &CompletionQueue, completion: Completion, qpn: u32) -> bool {
        let is_for_queue = self.cq == core::ptr::from_ref(cq).addr();
        let takes = is_for_queue && self.entries.len() < self.room && cq.can_skip_ring();
        if takes {
            cq.set_unreported(true);
            self.entries.push(Cqe {
                completion,
                qpn,
                srqn: 0,
                timestamp_ns: 0,
                wallclock_ns: 0,
            });
        }
        takes
    }

    /// Passes what it has taken to the program, oldest first: calls with the index and entry of each. Returns
    /// their number. `cq` is the queue that it was made for.
    #[inline]
    pub fn pass_on(&self, cq: &CompletionQueue, mut each: impl FnMut(usize, &Cqe)) -> usize {
        for (i, cqe) in self.entries.iter().enumerate() {
            each(i, cqe);
        }
        if !self.entries.is_empty() {
            cq.set_unreported(false);
        }
        self.entries.len()
    }
}
