//! The queue pairs that may have a region in their MR caches (`mr_cache.rs`).

use std::sync::atomic::{AtomicU32, Ordering};

/// The queue pairs that may have a region in their caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the region may be in use until they have been locked once"]
pub enum CachedBy {
    /// No queue pair.
    None,
    /// The queue pair with this number.
    One(u32),
    /// The region may be in the cache of any queue pair.
    Any,
}

/// [`CachedBy`] of a region in the table: added while others read the table.
#[derive(Debug, Default)]
pub(super) struct CachedBySet(AtomicU32);

impl CachedBySet {
    const NONE: u32 = 0;
    /// No queue pair has this number, or the one before.
    const ANY: u32 = u32::MAX;

    pub fn add(&self, qpn: u32) {
        let exchange =
            self.0
                .compare_exchange(Self::NONE, qpn, Ordering::Relaxed, Ordering::Relaxed);
        if exchange.is_err_and(|cached_by| cached_by != qpn) {
            self.0.store(Self::ANY, Ordering::Relaxed);
        }
    }

    pub fn take(&mut self) -> CachedBy {
        match core::mem::take(self.0.get_mut()) {
            Self::NONE => CachedBy::None,
            Self::ANY => CachedBy::Any,
            qpn => CachedBy::One(qpn),
        }
    }
}
