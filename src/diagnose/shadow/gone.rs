//! Objects that were destroyed, until another one gets their address.

use std::collections::BTreeMap;

use crate::diagnose::finding::Kind;

/// More destroyed objects than this are forgotten.
const MAX_GONE: usize = 4096;

/// The destroyed objects. Whether another one has their address is not known here.
pub struct Gone {
    /// Each, and whether it went when its device was closed.
    all: BTreeMap<(Kind, usize), bool>,
}

impl Gone {
    pub const fn new() -> Gone {
        Gone {
            all: BTreeMap::new(),
        }
    }

    /// An object was destroyed.
    pub fn remember(&mut self, kind: Kind, address: usize) {
        if self.all.len() == MAX_GONE {
            self.all.clear();
        }
        self.all.insert((kind, address), false);
    }

    /// Another object, which is not recorded, has this address.
    pub fn forget(&mut self, kind: Kind, address: usize) {
        self.all.remove(&(kind, address));
    }

    /// The object, which is remembered, went when its device was closed.
    pub fn went_with_device(&mut self, kind: Kind, address: usize) {
        self.all.insert((kind, address), true);
    }

    pub fn contains(&self, kind: Kind, address: usize) -> bool {
        self.all.contains_key(&(kind, address))
    }

    /// How a destroyed object went, if that was not by a call of its own.
    pub fn how(&self, kind: Kind, address: usize) -> Option<String> {
        let with_device = self.all.get(&(kind, address)) == Some(&true);
        with_device
            .then(|| "ibv_close_device has closed its device, and all that was left with it".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_way_to_go_counts() {
        let mut gone = Gone::new();
        gone.remember(Kind::Mr, 1);
        assert!(gone.contains(Kind::Mr, 1) && !gone.contains(Kind::Cq, 1));
        assert_eq!(gone.how(Kind::Mr, 1), None);
        gone.went_with_device(Kind::Mr, 1);
        assert!(gone.how(Kind::Mr, 1).is_some());
        gone.remember(Kind::Mr, 1);
        assert_eq!(gone.how(Kind::Mr, 1), None, "a later one, by its own call");
        gone.remember(Kind::Pd, 1);
        gone.forget(Kind::Mr, 1);
        assert!(gone.contains(Kind::Pd, 1) && !gone.contains(Kind::Mr, 1));
    }

    #[test]
    fn destroyed_objects_are_bounded() {
        let mut gone = Gone::new();
        for address in 0..=MAX_GONE {
            gone.remember(Kind::Mr, address);
        }
        assert!(gone.contains(Kind::Mr, MAX_GONE) && !gone.contains(Kind::Mr, 0));
    }
}
