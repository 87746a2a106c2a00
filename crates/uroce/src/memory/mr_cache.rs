//! The MR cache of a queue pair: the regions that it has used last. It uses them again without the lock of
//! the table and without a search.
//!
//! Invariant: whoever reads or changes an [`MrCache`] holds its queue pair's lock for as long as it accesses
//! the memory. Whoever takes a region out of the table, or changes it there, increments
//! [`super::Memory::changes`], and then locks each queue pair of the region's [`super::CachedBy`] once. So an
//! access that began before has ended by then; one that begins afterwards finds the new count, and its entry
//! is stale.

use super::mr_table::{MemoryRegion, MrSlice, PdHandle};
use roce::engine::Sge;

/// The regions that a queue pair has used last.
#[derive(Debug, Default)]
pub struct MrCache {
    /// The cache is closed: nothing is added any more.
    is_closed: bool,
    /// The region that was read last.
    read: Option<CachedMr>,
    /// The region that was written last.
    written: Option<CachedMr>,
}

#[derive(Debug)]
struct CachedMr {
    lkey: u32,
    mr: MemoryRegion,
    /// [`super::Memory::changes`] when the table had it.
    changes: u64,
}

impl MrCache {
    /// The memory of a scatter/gather entry, which is not empty, as the table would give it after that many
    /// changes. None if the table has to say it.
    #[inline]
    pub(super) fn local(
        &self,
        sge: &Sge,
        writable: bool,
        pd: PdHandle,
        changes: u64,
    ) -> Option<MrSlice<'_>> {
        let cached = self.used(writable).as_ref()?;
        let is_current = cached.lkey == sge.lkey && cached.changes == changes;
        is_current.then(|| cached.mr.local(sge, writable, pd))?
    }

    /// Whether it has the region with this L_Key, after that many changes.
    #[inline]
    pub(super) fn has(&self, lkey: u32, writable: bool, changes: u64) -> bool {
        let cached = self.used(writable).as_ref();
        cached.is_some_and(|cached| cached.lkey == lkey && cached.changes == changes)
    }

    #[inline]
    fn used(&self, writable: bool) -> &Option<CachedMr> {
        match writable {
            true => &self.written,
            false => &self.read,
        }
    }

    /// Whether regions may be added.
    pub(super) fn is_open(&self) -> bool {
        !self.is_closed
    }

    /// Adds a region, which the table has after that many changes, with the queue pair in its
    /// [`super::cached_by::CachedBySet`].
    pub(super) fn add(&mut self, writable: bool, lkey: u32, mr: MemoryRegion, changes: u64) {
        let cached = match writable {
            true => &mut self.written,
            false => &mut self.read,
        };
        *cached = Some(CachedMr { lkey, mr, changes });
    }

    /// Removes all regions, for good.
    pub fn close(&mut self) {
        *self = MrCache {
            is_closed: true,
            ..MrCache::default()
        };
    }
}
