//! The responder resources: what duplicate READs and atomics are answered from (9.7.5.1.5).

use std::collections::VecDeque;

use crate::wire::{Psn, Reth};

/// A READ or atomic request whose response may be requested again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Resource {
    pub first_psn: Psn,
    /// Response packets.
    pub packets: u32,
    pub result: SavedResult,
}

/// The data that responding again needs.
#[derive(Clone, Copy, Debug)]
pub(super) enum SavedResult {
    /// The memory is read again.
    Read(Reth),
    Atomic {
        original_value: u64,
    },
}

/// The last READ and atomic requests, oldest first.
#[derive(Debug, Default)]
pub(super) struct Resources(VecDeque<Resource>);

impl Resources {
    /// Allocates space for one more. False if there is no memory.
    pub fn try_reserve(&mut self) -> bool {
        self.0.try_reserve(1).is_ok()
    }

    /// Saves a resource, and discards the oldest ones beyond `limit`: passes their first PSNs to `discard`.
    pub fn save(&mut self, resource: Resource, limit: u8, mut discard: impl FnMut(Psn)) {
        while self.0.len() >= usize::from(limit).max(1) {
            if let Some(old) = self.0.pop_front() {
                discard(old.first_psn);
            }
        }
        self.0.push_back(resource);
    }

    /// The resource of the request that `psn` belongs to.
    pub fn find(&self, psn: Psn) -> Option<Resource> {
        let covers = |resource: &&Resource| {
            (0..resource.packets as i32).contains(&psn.distance(resource.first_psn))
        };
        self.0.iter().find(covers).copied()
    }

    /// The length of the READ that was first executed at `first_psn`.
    pub fn read_len(&self, first_psn: Psn) -> Option<u32> {
        let is_it = |resource: &&Resource| resource.first_psn == first_psn;
        match self.0.iter().find(is_it)?.result {
            SavedResult::Read(reth) => Some(reth.len),
            SavedResult::Atomic { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_are_discarded_beyond_the_limit() {
        let mut resources = Resources::default();
        let mut discarded = Vec::new();
        let (va, rkey) = (0, 0);
        for (psn, packets, limit) in [(0xff_fffe, 3, 2), (1, 1, 2), (2, 1, 2), (3, 1, 0)] {
            let len = psn;
            let resource = Resource {
                first_psn: Psn::new(psn),
                packets,
                result: SavedResult::Read(Reth { va, rkey, len }),
            };
            resources.save(resource, limit, |psn| discarded.push(psn.get()));
            let last = Psn::new(psn) + (packets - 1);
            assert_eq!(resources.find(last).unwrap().first_psn, Psn::new(psn));
            assert!(resources.find(last.next()).is_none());
            assert_eq!(resources.read_len(Psn::new(psn)), Some(len));
        }
        assert_eq!(discarded, [0xff_fffe, 1, 2]);
    }
}
