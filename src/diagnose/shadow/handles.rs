//! Address handles: their domains, and the multicast groups that they are for.

use std::collections::{BTreeMap, BTreeSet};

use super::registry::Registry;

/// The address handles of the process.
pub struct Handles {
    /// The PD of each.
    domains: Registry<usize>,
    /// The destinations that are multicast groups; also of handles that are destroyed, until another one gets
    /// the address.
    groups: BTreeMap<usize, [u8; 16]>,
    /// The same of handles whose destination is a GID of this host.
    local: BTreeSet<usize>,
}

impl Handles {
    pub const fn new() -> Handles {
        Handles {
            domains: Registry::new(),
            groups: BTreeMap::new(),
            local: BTreeSet::new(),
        }
    }

    /// A handle is created; `group`: its destination, if that is a multicast group; `is_local`: that is a GID
    /// of this host.
    pub fn create(&mut self, ah: usize, pd: usize, group: Option<[u8; 16]>, is_local: bool) {
        self.domains.add(ah, pd);
        match is_local {
            true => self.local.insert(ah),
            false => self.local.remove(&ah),
        };
        self.groups.remove(&ah);
        self.groups.extend(group.map(|group| (ah, group)));
    }

    /// Takes a handle out, before it is destroyed. Returns its PD.
    pub fn take(&mut self, ah: usize) -> Option<usize> {
        self.domains.take(ah)
    }

    /// Puts a handle back, because it was not destroyed.
    pub fn put_back(&mut self, ah: usize, pd: usize) {
        self.domains.add(ah, pd);
    }

    /// Takes out the handles of these domains. Returns their addresses.
    pub fn close(&mut self, pds: &[usize]) -> Vec<usize> {
        self.domains.take_all(|pd| pds.contains(pd))
    }

    pub fn pd_of(&self, ah: usize) -> Option<usize> {
        self.domains.owner_of(ah)
    }

    pub fn group_of(&self, ah: usize) -> Option<[u8; 16]> {
        self.groups.get(&ah).copied()
    }

    /// Whether the destination is a GID of this host.
    pub fn is_local(&self, ah: usize) -> bool {
        self.local.contains(&ah)
    }

    /// The handles of a domain.
    pub fn of_domain(&self, pd: usize) -> impl Iterator<Item = usize> {
        self.domains.of_owner(pd)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_of_a_destroyed_handle_is_known() {
        let mut handles = Handles::new();
        handles.create(1, 10, Some([0xff; 16]), false);
        handles.create(2, 10, None, false);
        assert_eq!(handles.of_domain(10).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(handles.take(1), Some(10));
        assert_eq!(
            (handles.pd_of(1), handles.group_of(1)),
            (None, Some([0xff; 16]))
        );
        handles.create(1, 11, None, false);
        assert_eq!(handles.group_of(1), None);
        assert_eq!(handles.close(&[11, 12]), [1]);
        handles.put_back(1, 10);
        assert_eq!(handles.pd_of(1), Some(10));
    }
}
