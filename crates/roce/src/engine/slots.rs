//! A queue whose entries are written in their places, and read there: no entry is ever moved.

/// A queue. Places that are free keep what they had last, for those who write the next entry there.
#[derive(Debug, Default)]
pub struct Slots<T> {
    /// The places, whose number is a power of two, or 0.
    places: Vec<T>,
    /// The place of the oldest entry.
    first: usize,
    len: usize,
}

/// The places of the first allocation.
const PLACES_MIN: usize = 4;

impl<T: Default> Slots<T> {
    #[inline]
    fn place(&self, index: usize) -> usize {
        self.first.wrapping_add(index) & self.places.len().wrapping_sub(1)
    }

    /// Entries.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no entry.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The place of the next entry, which is not in the queue yet. None if there is no memory.
    #[inline]
    pub fn next_place(&mut self) -> Option<&mut T> {
        if self.len == self.places.len() && !self.grow() {
            return None;
        }
        let place = self.place(self.len);
        self.places.get_mut(place)
    }

    /// The place that [`Slots::next_place`] has returned last.
    #[inline]
    pub fn next(&self) -> Option<&T> {
        let is_free = self.len < self.places.len();
        is_free.then(|| self.places.get(self.place(self.len)))?
    }

    /// Adds the entry that was written to [`Slots::next_place`].
    #[inline]
    pub fn push_next(&mut self) {
        self.len = (self.len + 1).min(self.places.len());
    }

    #[cold]
    fn grow(&mut self) -> bool {
        let count = (self.len * 2).max(PLACES_MIN);
        if self.places.try_reserve_exact(count - self.len).is_err() {
            return false;
        }
        self.places.rotate_left(self.first);
        self.first = 0;
        self.places.resize_with(count, T::default);
        true
    }

    /// Entry number `index`, counted from the oldest.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&T> {
        (index < self.len).then(|| self.places.get(self.place(index)))?
    }

    /// [`Slots::get`], to be changed.
    #[inline]
    pub fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        let place = self.place(index);
        (index < self.len).then(|| self.places.get_mut(place))?
    }

    /// The entries, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &T> {
        (0..self.len).filter_map(|index| self.places.get(self.place(index)))
    }

    /// Removes the oldest entry, which stays in its place.
    #[inline]
    pub fn pop_front(&mut self) -> Option<&mut T> {
        let place = self.place(0);
        self.len = self.len.checked_sub(1)?;
        self.first = self.place(1);
        self.places.get_mut(place)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The queue does what a VecDeque does.
        #[test]
        fn a_queue_keeps_its_order(pushes in proptest::collection::vec(any::<bool>(), 0..200)) {
            let (mut slots, mut expected) = (Slots::<usize>::default(), VecDeque::new());
            for (i, push) in pushes.into_iter().enumerate() {
                if push {
                    *slots.next_place().unwrap() = i;
                    prop_assert_eq!(slots.next(), Some(&i));
                    prop_assert!(slots.get(expected.len()).is_none());
                    slots.push_next();
                    expected.push_back(i);
                } else {
                    prop_assert_eq!(slots.pop_front().copied(), expected.pop_front());
                }
                prop_assert_eq!(slots.len(), expected.len());
                prop_assert_eq!(slots.is_empty(), expected.is_empty());
                prop_assert!(slots.iter().eq(&expected));
                prop_assert!(slots.iter().rev().eq(expected.iter().rev()));
                let middle = expected.len() / 2;
                prop_assert_eq!(slots.get(middle), expected.get(middle));
                prop_assert_eq!(slots.get_mut(middle), expected.get_mut(middle));
                prop_assert!(slots.get(expected.len()).is_none());
                prop_assert!(slots.get_mut(expected.len()).is_none());
            }
        }
    }
}
