//! A table that gives each value the lowest free number, as the kernel does: librdmacm indexes an array
//! with these numbers.

use std::collections::BTreeSet;

/// Values by number.
pub struct NumberTable<T> {
    values: Vec<Option<T>>,
    /// The numbers below `values.len()` that are free.
    free: BTreeSet<u32>,
}

impl<T> Default for NumberTable<T> {
    fn default() -> NumberTable<T> {
        NumberTable {
            values: Vec::new(),
            free: BTreeSet::new(),
        }
    }
}

impl<T> NumberTable<T> {
    /// Adds a value and returns its number.
    pub fn insert(&mut self, value: T) -> u32 {
        if let Some(number) = self.free.pop_first() {
            self.values[number as usize] = Some(value);
            return number;
        }
        self.values.push(Some(value));
        (self.values.len() - 1) as u32
    }

    /// The value with this number.
    pub fn get(&self, number: u32) -> Option<&T> {
        self.values.get(number as usize)?.as_ref()
    }

    /// The value with this number.
    pub fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        self.values.get_mut(number as usize)?.as_mut()
    }

    /// Removes a value; its number is free again.
    pub fn remove(&mut self, number: u32) -> Option<T> {
        let value = self.values.get_mut(number as usize)?.take()?;
        self.free.insert(number);
        Some(value)
    }

    /// All numbers in use and their values.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let all = (0..).zip(&self.values);
        all.filter_map(|(number, value)| Some((number, value.as_ref()?)))
    }
}
