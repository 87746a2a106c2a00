//! Free slots of a send queue, as an RNIC counts them: a WQE's slot is free again when the program
//! has polled the completion of that WQE or of a later one. So a queue whose WQEs are not signaled
//! fills up, although all of them have completed.
//!
//! Polling a completion costs nothing here: each completion has the count of the WQEs that earlier
//! completions cover, and the oldest one that is not polled is searched for when the queue seems to be full.
//! Counts are modulo 2^32; they differ by less than the length of a queue.

/// The completions of a queue pair's send queue that the program has polled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolledSends {
    /// Whether they were polled does not matter: a slot is free when its WQE has completed.
    Ignored,
    /// All that were reported.
    All,
    /// The completions before the one that has this [`super::Completion::covered_before`].
    Before(u32),
}

/// The WQEs that have left a send queue since its queue pair was in RESET.
#[derive(Clone, Copy, Debug, Default)]
pub struct SlotCount {
    /// All of them.
    completed: u32,
    /// The WQEs that reported completions cover.
    covered: u32,
    /// The WQEs whose slots are known to be free again.
    freed: u32,
}

impl SlotCount {
    /// A WQE has left the queue.
    #[inline]
    pub fn on_completed(&mut self) {
        self.completed = self.completed.wrapping_add(1);
    }

    /// The completion of the WQE that has left the queue last is about to be reported. Returns its
    /// `covered_before`.
    #[inline]
    pub fn on_reported(&mut self) -> u32 {
        core::mem::replace(&mut self.covered, self.completed)
    }

    /// Slots that are not known to be free, of a queue with that number of WQEs.
    #[inline]
    pub fn occupied(&self, wqes: u32) -> u32 {
        wqes.wrapping_add(self.completed.wrapping_sub(self.freed))
    }

    /// The slots of the WQEs are free that polled completions cover.
    pub fn free(&mut self, polled: PolledSends) {
        self.freed = match polled {
            PolledSends::Ignored => self.completed,
            // An entry of an older queue pair with the same number is none of these.
            PolledSends::Before(count)
                if count.wrapping_sub(self.freed) <= self.covered.wrapping_sub(self.freed) =>
            {
                count
            }
            PolledSends::All | PolledSends::Before(_) => self.covered,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_polled_completion_frees_the_slots_of_the_wqes_before_it() {
        let mut slots = SlotCount::default();
        let complete = |slots: &mut SlotCount, count| (0..count).for_each(|_| slots.on_completed());
        complete(&mut slots, 3);
        assert_eq!(slots.on_reported(), 0);
        complete(&mut slots, 2);
        assert_eq!(slots.on_reported(), 3);
        complete(&mut slots, 4);
        assert_eq!(slots.occupied(1), 10);
        slots.free(PolledSends::Before(0));
        assert_eq!(slots.occupied(1), 10);
        slots.free(PolledSends::Before(3));
        assert_eq!(slots.occupied(1), 7);
        slots.free(PolledSends::All);
        assert_eq!(slots.occupied(1), 5);
        slots.free(PolledSends::Ignored);
        assert_eq!(slots.occupied(1), 1);
    }

    #[test]
    fn an_entry_of_another_queue_pair_is_ignored() {
        let mut slots = SlotCount {
            completed: 2,
            covered: 2,
            freed: u32::MAX,
        };
        for foreign in [7, u32::MAX - 1] {
            slots.free(PolledSends::Before(foreign));
            assert_eq!(slots.occupied(0), 0);
        }
    }
}
