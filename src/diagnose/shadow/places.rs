//! Places in the program where objects were created, if that is asked for.

use std::collections::BTreeMap;

/// Places by the addresses of their objects.
pub struct Places {
    of: BTreeMap<usize, String>,
    /// The object that was destroyed last, whose place is still known.
    destroyed_last: Option<usize>,
}

impl Places {
    pub const fn new() -> Places {
        Places {
            of: BTreeMap::new(),
            destroyed_last: None,
        }
    }

    /// An object was created, from this place.
    pub fn created(&mut self, address: usize, from: String) {
        self.destroyed_last = self.destroyed_last.filter(|last| *last != address);
        self.of.insert(address, from);
    }

    /// An object was destroyed. Findings of the call that destroys it are shown after this, with the place,
    /// so that of the one before is forgotten.
    pub fn destroyed(&mut self, address: usize) {
        if let Some(before) = self.destroyed_last.replace(address) {
            self.of.remove(&before);
        }
    }

    /// The place where an object was created.
    pub fn get(&self, address: usize) -> Option<&String> {
        self.of.get(&address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_destroyed_objects_are_given_back() {
        let mut places = Places::new();
        for round in 0..100 {
            for at in [40, 41] {
                places.created(at, round.to_string());
            }
            places.destroyed(40);
            assert!(places.get(40).is_some());
            places.destroyed(41);
            assert_eq!(places.of.len(), 1);
        }
        // Another object has got the address.
        places.created(41, "new".into());
        places.destroyed(40);
        assert_eq!(places.get(41).unwrap(), "new");
    }
}
