//! The regions that a queue pair has used last. It uses them again without the table: without its lock, and
//! without a search.
//!
//! Invariant: who reads or changes a [`KnownRegions`] has its queue pair locked, as long as it accesses the
//! memory. Whoever takes a region out of the table, or changes it there, counts that
//! ([`super::Memory::changes`]), and then has each of the region's [`Users`] locked once. So an access that
//! began before has ended by then; one that begins afterwards finds the new count, and what it knows is out
//! of date.

use std::sync::atomic::{AtomicU32, Ordering};

use super::mr_table::{MemoryRegion, MrSlice, PdHandle};
use crate::engine::Sge;

/// What a queue pair knows of the table.
#[derive(Debug, Default)]
pub struct KnownRegions {
    /// It is to learn nothing more.
    is_ended: bool,
    /// The one that it has read last.
    read: Option<Known>,
    /// The one that it has written last.
    written: Option<Known>,
}

#[derive(Debug)]
struct Known {
    lkey: u32,
    mr: MemoryRegion,
    /// [`super::Memory::changes`] when the table had it.
    changes: u64,
}

impl KnownRegions {
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
        let known = self.used(writable).as_ref()?;
        let is_current = known.lkey == sge.lkey && known.changes == changes;
        is_current.then(|| known.mr.local(sge, writable, pd))?
    }

    /// Whether it knows the region with this L_Key, after that many changes.
    #[inline]
    pub(super) fn has(&self, lkey: u32, writable: bool, changes: u64) -> bool {
        let known = self.used(writable).as_ref();
        known.is_some_and(|known| known.lkey == lkey && known.changes == changes)
    }

    #[inline]
    fn used(&self, writable: bool) -> &Option<Known> {
        match writable {
            true => &self.written,
            false => &self.read,
        }
    }

    /// Whether it learns.
    pub(super) fn learns(&self) -> bool {
        !self.is_ended
    }

    /// The table has this region after that many changes, and its queue pair among the region's users.
    pub(super) fn learn(&mut self, writable: bool, lkey: u32, mr: MemoryRegion, changes: u64) {
        let known = match writable {
            true => &mut self.written,
            false => &mut self.read,
        };
        *known = Some(Known { lkey, mr, changes });
    }

    /// From now on it knows nothing.
    pub fn end(&mut self) {
        *self = KnownRegions {
            is_ended: true,
            ..KnownRegions::default()
        };
    }
}

/// The queue pairs that may know a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the region may be in use until they have been locked once"]
pub enum Users {
    /// None does.
    None,
    /// The one with this number.
    One(u32),
    /// Any may.
    Any,
}

/// [`Users`] of a region in the table: added while others read the table.
#[derive(Debug, Default)]
pub(super) struct UserSet(AtomicU32);

impl UserSet {
    const NONE: u32 = 0;
    /// No queue pair has this number, or the one before.
    const ANY: u32 = u32::MAX;

    pub fn add(&self, qpn: u32) {
        let exchange =
            self.0
                .compare_exchange(Self::NONE, qpn, Ordering::Relaxed, Ordering::Relaxed);
        if exchange.is_err_and(|users| users != qpn) {
            self.0.store(Self::ANY, Ordering::Relaxed);
        }
    }

    pub fn take(&mut self) -> Users {
        match core::mem::take(self.0.get_mut()) {
            Self::NONE => Users::None,
            Self::ANY => Users::Any,
            qpn => Users::One(qpn),
        }
    }
}
