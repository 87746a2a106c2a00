//! Memory regions that are in use without the table's lock.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The regions that are pinned, by the indices of their keys; one entry for each pin.
#[derive(Default)]
pub struct Pins {
    regions: Mutex<Vec<u32>>,
    unpinned: Condvar,
}

/// Keeps a region registered until it is dropped.
pub struct Pin<'a> {
    pins: &'a Pins,
    mr_index: u32,
}

impl Pins {
    fn regions(&self) -> MutexGuard<'_, Vec<u32>> {
        // A panic ends the process, so the lock is never poisoned.
        self.regions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Pins a region. The caller has the table locked, and has found the region in it. None if there is
    /// no memory.
    pub fn pin(&self, mr_index: u32) -> Option<Pin<'_>> {
        let mut regions = self.regions();
        regions.try_reserve(1).ok()?;
        regions.push(mr_index);
        Some(Pin {
            pins: self,
            mr_index,
        })
    }

    /// Blocks while the region is pinned. The caller does not have the table locked.
    pub fn wait_for(&self, mr_index: u32) {
        let mut regions = self.regions();
        while regions.contains(&mr_index) {
            regions = self
                .unpinned
                .wait(regions)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for Pin<'_> {
    fn drop(&mut self) {
        let mut regions = self.pins.regions();
        if let Some(at) = regions.iter().position(|index| *index == self.mr_index) {
            regions.swap_remove(at);
        }
        self.pins.unpinned.notify_all();
    }
}
