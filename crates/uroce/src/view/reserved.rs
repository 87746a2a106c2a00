//! Lists for callbacks of dl_iterate_phdr(3), which run with the dynamic linker's lock held. They must not
//! allocate memory: a program's malloc may need that lock itself. tcmalloc's does, when it records where the
//! heap has grown, with a lock of its own held, for which the callback would wait.

/// A list that has the room that was made before, and counts what found none.
pub struct Reserved<T> {
    items: Vec<T>,
    refused: usize,
}

impl<T> Reserved<T> {
    /// A list with room for this many items.
    pub fn with_room(room: usize) -> Reserved<T> {
        Reserved {
            items: Vec::with_capacity(room),
            refused: 0,
        }
    }

    /// Adds an item, if there is room.
    pub fn push(&mut self, item: T) {
        if self.is_full() {
            self.refused += 1;
        } else {
            self.items.push(item);
        }
    }

    pub fn is_full(&self) -> bool {
        self.items.len() == self.items.capacity()
    }

    pub fn items(&self) -> &[T] {
        &self.items
    }

    pub fn clear(&mut self) {
        self.items.clear();
    }

    /// Empties the list and makes room, if items found none. Returns whether that is so: then they are to be
    /// added again, with all others. Not to be called in a callback.
    pub fn must_repeat(&mut self) -> bool {
        let refused = core::mem::take(&mut self.refused);
        if refused == 0 {
            return false;
        }
        let room = self.items.len() + refused;
        self.items.clear();
        self.items.reserve(room);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_room_the_second_time() {
        let mut list = Reserved::with_room(2);
        let room = list.items.capacity();
        (0..room + 3).for_each(|i| list.push(i));
        assert!(list.is_full() && list.items.capacity() == room);
        assert!(list.must_repeat());
        (0..room + 3).for_each(|i| list.push(i));
        assert!(!list.must_repeat());
        assert!(list.items().iter().copied().eq(0..room + 3));
        list.clear();
        assert!(list.items().is_empty() && !list.is_full());
    }
}
