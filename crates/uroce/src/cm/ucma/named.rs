//! Sockets with a name, which ids own, and tables of them that do not keep them open.

use std::hash::Hash;
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Weak};

use rustc_hash::FxHashMap;

use crate::descriptors::Owned;

/// The fewest entries of a table that is walked.
const WALKED_MIN: usize = 64;

/// A socket that has a name.
pub struct NamedSocket {
    pub socket: Owned<OwnedFd>,
    /// The socket listens: other processes can connect to it.
    pub listens: AtomicBool,
}

impl NamedSocket {
    /// A socket that nobody can connect to yet.
    pub fn new(socket: Owned<OwnedFd>) -> Arc<NamedSocket> {
        Arc::new(NamedSocket {
            socket,
            listens: AtomicBool::new(false),
        })
    }
}

/// Values that others own, by key. An entry whose value is gone stays until the table has twice as many as
/// when it was last walked: so adding one takes constant time on average.
pub struct WeakTable<K, T> {
    entries: FxHashMap<K, Weak<T>>,
    /// The table is walked when it has this many entries.
    walk_at: usize,
}

impl<K, T> Default for WeakTable<K, T> {
    fn default() -> WeakTable<K, T> {
        WeakTable {
            entries: FxHashMap::default(),
            walk_at: WALKED_MIN,
        }
    }
}

impl<K: Eq + Hash, T> WeakTable<K, T> {
    /// The value with this key, if somebody still owns it.
    pub fn get(&self, key: &K) -> Option<Arc<T>> {
        self.entries.get(key)?.upgrade()
    }

    /// Adds a value.
    pub fn insert(&mut self, key: K, value: &Arc<T>) {
        if self.entries.len() >= self.walk_at {
            self.entries.retain(|_, value| value.strong_count() > 0);
            self.walk_at = WALKED_MIN.max(2 * self.entries.len());
        }
        self.entries.insert(key, Arc::downgrade(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many entries are walked while these values are added.
    fn walked(table: &mut WeakTable<u32, u32>, values: &[Arc<u32>]) -> usize {
        let mut walked = 0;
        for value in values {
            let (len, walk_at) = (table.entries.len(), table.walk_at);
            table.insert(**value, value);
            if len >= walk_at {
                walked += len;
            }
        }
        walked
    }

    #[test]
    fn adding_a_value_takes_constant_time() {
        let values: Vec<Arc<u32>> = (0..10_000).map(Arc::new).collect();
        let mut table = WeakTable::default();
        assert!(walked(&mut table, &values) <= 2 * values.len());
        assert!(values.iter().all(|value| table.get(value).is_some()));
    }

    #[test]
    fn values_that_are_gone_do_not_stay_for_good() {
        let mut table = WeakTable::default();
        for round in 0..1000 {
            let value = Arc::new(round);
            table.insert(round, &value);
        }
        assert!(table.entries.len() <= WALKED_MIN);
        assert_eq!(table.get(&999), None);
    }
}
