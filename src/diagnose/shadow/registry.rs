//! Objects of one kind by their addresses. It knows nothing of what they are.

use std::collections::{BTreeMap, VecDeque};

/// Adds an item to a list that has `max` at most: the oldest goes.
pub(super) fn push_bounded<T>(list: &mut VecDeque<T>, max: usize, item: T) {
    if list.len() == max {
        list.pop_front();
    }
    list.push_back(item);
}

/// The objects of one kind.
pub struct Registry<T> {
    all: BTreeMap<usize, T>,
}

impl<T> Registry<T> {
    pub const fn new() -> Registry<T> {
        Registry {
            all: BTreeMap::new(),
        }
    }

    /// Adds an object, in place of one that had its address.
    pub fn add(&mut self, address: usize, object: T) {
        self.all.insert(address, object);
    }

    /// Takes an object out, before the provider frees it.
    pub fn take(&mut self, address: usize) -> Option<T> {
        self.all.remove(&address)
    }

    /// Takes out the objects to which `is_it` applies. Returns their addresses.
    pub fn take_all(&mut self, is_it: impl Fn(&T) -> bool) -> Vec<usize> {
        let taken = self.all.iter().filter(|(_, object)| is_it(object));
        let taken: Vec<usize> = taken.map(|(at, _)| *at).collect();
        self.all.retain(|_, object| !is_it(object));
        taken
    }

    pub fn get(&self, address: &usize) -> Option<&T> {
        self.all.get(address)
    }

    pub fn get_mut(&mut self, address: &usize) -> Option<&mut T> {
        self.all.get_mut(address)
    }

    /// Changes an object, if it is known; else nothing is found.
    pub fn change<R: Default>(&mut self, address: usize, change: impl FnOnce(&mut T) -> R) -> R {
        self.all.get_mut(&address).map(change).unwrap_or_default()
    }

    pub fn contains_key(&self, address: &usize) -> bool {
        self.all.contains_key(address)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&usize, &T)> + Clone {
        self.all.iter()
    }

    pub fn values(&self) -> impl Iterator<Item = &T> + Clone {
        self.all.values()
    }
}

/// Objects of which nothing is known but the object that each belongs to.
impl Registry<usize> {
    pub fn owner_of(&self, address: usize) -> Option<usize> {
        self.get(&address).copied()
    }

    /// The addresses of the objects of an owner.
    pub fn of_owner(&self, owner: usize) -> impl Iterator<Item = usize> {
        let of = self.iter().filter(move |(_, of)| **of == owner);
        of.map(|(at, _)| *at)
    }
}

#[cfg(test)]
impl<T> core::ops::Index<&usize> for Registry<T> {
    type Output = T;

    fn index(&self, address: &usize) -> &T {
        &self.all[address]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_come_and_go() {
        let mut all = Registry::new();
        for at in 1..=4 {
            all.add(at, at % 2);
        }
        assert_eq!(all.take(4), Some(0));
        assert_eq!((all.take(4), all.contains_key(&4)), (None, false));
        assert_eq!(all.take_all(|odd| *odd == 1), [1, 3]);
        assert_eq!(all.iter().collect::<Vec<_>>(), [(&2, &0)]);
        all.add(2, 7);
        assert_eq!(all.get(&2), Some(&7), "in place of the old one");
    }
}
