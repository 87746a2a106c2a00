//! A refcount for every page of the address space, in a B+ tree.
//!
//! Neighbouring pages mostly have equal refcounts, so an entry is a page number and the count from there
//! up to the next entry. Leaves hold entries in ascending order; an inner node has the first page of each
//! child. The first entry of a node is never removed, and may repeat the count of the entry before it.
//! Every other entry differs from the one before, so a run of pages with equal counts costs one entry.
//!
//! A region apart from others costs two entries of 12 bytes; searching a node touches one or two cache
//! lines; a change is one descent from the root. A tree with a node per region would need an allocation
//! per region and more cache misses.

use std::ops::Range;

/// Entries of a node.
#[cfg(not(test))]
const CAPACITY: usize = 64;
/// Small, so that few pages suffice for a tall tree.
#[cfg(test)]
const CAPACITY: usize = 8;
/// Most levels above the leaves. Two neighbours that cannot be merged are together more than three
/// quarters of a node, so more levels would need more memory than any machine has.
const MAX_HEIGHT: usize = 10;

#[derive(Clone, Copy)]
struct Node {
    len: usize,
    /// Page numbers, ascending.
    pages: [usize; CAPACITY],
    /// The values: in a leaf the refcounts, in an inner node the indices of the children.
    values: [i32; CAPACITY],
}

impl Node {
    const EMPTY: Node = Node {
        len: 0,
        pages: [0; CAPACITY],
        values: [0; CAPACITY],
    };

    /// The number of entries that begin below `page`.
    #[inline]
    fn below(&self, page: usize) -> usize {
        self.pages[..self.len].partition_point(|&first| first < page)
    }

    /// The entry that contains `page`. The first entry begins at or below it.
    #[inline]
    fn entry_of(&self, page: usize) -> usize {
        self.pages[..self.len]
            .partition_point(|&first| first <= page)
            .saturating_sub(1)
    }

    fn insert(&mut self, index: usize, page: usize, value: i32) {
        self.pages.copy_within(index..self.len, index + 1);
        self.values.copy_within(index..self.len, index + 1);
        self.pages[index] = page;
        self.values[index] = value;
        self.len += 1;
    }

    fn remove(&mut self, index: usize) {
        self.pages.copy_within(index + 1..self.len, index);
        self.values.copy_within(index + 1..self.len, index);
        self.len -= 1;
    }

    fn extend(&mut self, other: &Node, from: usize) {
        let count = other.len - from;
        self.pages[self.len..self.len + count].copy_from_slice(&other.pages[from..other.len]);
        self.values[self.len..self.len + count].copy_from_slice(&other.values[from..other.len]);
        self.len += count;
    }

    /// The most entries that [`Node::add`] adds.
    fn wants(&self, first: usize, end: usize, upper: usize) -> usize {
        usize::from(first != self.pages[0]) + usize::from(end < upper)
    }

    /// Adds `delta` to the counts of `first..end`, which are all in this leaf: it begins at or below
    /// `first`, and the next leaf begins at `upper`, at or above `end`. There must be room for two
    /// entries.
    fn add(&mut self, first: usize, end: usize, upper: usize, delta: i32) {
        // The entries from..to begin within the range.
        let from = self.below(first);
        let begins = self.pages[from..self.len].iter();
        let to = from + begins.take_while(|&&page| page < end).count();
        let had_first = from < self.len && self.pages[from] == first;
        let had_end = to < self.len && self.pages[to] == end;
        let before = from.checked_sub(1).map(|index| self.values[index]);
        let old_first = match before {
            Some(count) if !had_first => count,
            _ => self.values[from],
        };
        let old_last = if to > from {
            self.values[to - 1]
        } else {
            old_first
        };
        let after = if had_end { self.values[to] } else { old_last };
        // 2^31 registrations of one page do not fit into memory.
        let (new_first, new_last) = (
            old_first.saturating_add(delta),
            old_last.saturating_add(delta),
        );
        let want_first = before != Some(new_first);
        let want_end = end < upper && after != new_last;

        // The entries inside the range move by one place at most, those behind it by two.
        let inside = from + usize::from(had_first)..to;
        let behind = to + usize::from(had_end)..self.len;
        let inside_to = from + usize::from(want_first);
        let inside_end = inside_to + inside.len();
        let behind_to = inside_end + usize::from(want_end);
        self.len = behind_to + behind.len();
        if behind_to >= behind.start {
            self.relocate(behind, behind_to);
            self.relocate(inside, inside_to);
        } else {
            self.relocate(inside, inside_to);
            self.relocate(behind, behind_to);
        }
        for count in &mut self.values[inside_to..inside_end] {
            *count = count.saturating_add(delta);
        }
        if want_first {
            (self.pages[from], self.values[from]) = (first, new_first);
        }
        if want_end {
            (self.pages[inside_end], self.values[inside_end]) = (end, after);
        }
    }

    /// As [`Node::add`], for a range within one entry.
    #[inline]
    fn add_at(&mut self, place: TreePos, first: usize, end: usize, delta: i32) {
        let TreePos {
            index, next, count, ..
        } = place;
        let new = count.saturating_add(delta);
        let begins = self.pages[index] == first;
        // The first entry is never merged with the one before, nor the last one with the next leaf.
        let joins_before = begins && index > 0 && self.values[index - 1] == new;
        let ends = next == end;
        let joins_after = ends && index + 1 < self.len && self.values[index + 1] == new;
        match (begins, ends) {
            (true, true) => {
                self.values[index] = new;
                let (from, to) = (
                    index + usize::from(!joins_before),
                    index + 1 + usize::from(joins_after),
                );
                self.relocate(to..self.len, from);
                self.len -= to - from;
            }
            (true, false) if joins_before => self.pages[index] = end,
            (true, false) => {
                self.values[index] = new;
                self.insert(index + 1, end, count);
            }
            (false, true) if joins_after => self.pages[index + 1] = first,
            (false, true) => self.insert(index + 1, first, new),
            (false, false) => {
                self.relocate(index + 1..self.len, index + 3);
                self.len += 2;
                (self.pages[index + 1], self.values[index + 1]) = (first, new);
                (self.pages[index + 2], self.values[index + 2]) = (end, count);
            }
        }
    }

    #[inline]
    fn relocate(&mut self, entries: Range<usize>, to: usize) {
        if entries.start != to && !entries.is_empty() {
            self.pages.copy_within(entries.clone(), to);
            self.values.copy_within(entries, to);
        }
    }
}

/// The position in the tree of a range that lies within one entry.
#[derive(Clone, Copy)]
pub struct TreePos {
    leaf: usize,
    index: usize,
    /// The end of the entry.
    next: usize,
    /// The count of all pages of the range.
    pub count: i32,
}

/// The nodes from the root to a leaf's parent, each with the index of the child that was taken.
struct Descent {
    steps: [(u32, u32); MAX_HEIGHT],
    height: usize,
}

impl Descent {
    /// Level, node and child, from the leaf's parent up to the root.
    fn upwards(&self) -> impl Iterator<Item = (usize, usize, usize)> {
        let steps = self.steps[..self.height].iter().enumerate().rev();
        steps.map(|(level, &(node, child))| (level, node as usize, child as usize))
    }
}

/// The refcounts of all pages.
pub struct Refcounts {
    /// Empty until the first change.
    nodes: Vec<Node>,
    /// Nodes that are not in use.
    free: Vec<usize>,
    root: usize,
    /// Levels above the leaves.
    height: usize,
}

impl Refcounts {
    /// Every page has refcount 0.
    pub const fn new() -> Refcounts {
        Refcounts {
            nodes: Vec::new(),
            free: Vec::new(),
            root: 0,
            height: 0,
        }
    }

    /// Allocates what one [`Refcounts::add`] may need. False if there is no memory.
    pub fn reserve(&mut self) -> bool {
        // Either end of the range may split one node per level and add a root.
        let nodes = self.nodes.len() + 2 * (self.height + 2);
        // All nodes may become free, which must not allocate.
        if nodes > self.nodes.capacity().min(self.free.capacity()) {
            return self.grow(nodes);
        }
        true
    }

    #[cold]
    fn grow(&mut self, nodes: usize) -> bool {
        if self.height + 2 > MAX_HEIGHT
            || self.nodes.try_reserve(nodes - self.nodes.len()).is_err()
            || self
                .free
                .try_reserve(nodes.max(self.nodes.capacity()) - self.free.len())
                .is_err()
        {
            return false;
        }
        if self.nodes.is_empty() {
            let mut leaf = Node::EMPTY;
            leaf.insert(0, 0, 0);
            self.nodes.push(leaf);
        }
        true
    }

    /// The first run of pages within `first..end`, as long as possible, whose counts are `wanted`.
    pub fn find(
        &self,
        first: usize,
        end: usize,
        wanted: impl Fn(i32) -> bool,
    ) -> Option<Range<usize>> {
        if self.nodes.is_empty() {
            return (first < end && wanted(0)).then_some(first..end);
        }
        let mut begin = None;
        let mut at = first;
        while at < end {
            let (leaf, upper) = self.descend(at, |_, _, _| {});
            let leaf = &self.nodes[leaf];
            let mut index = leaf.entry_of(at);
            while at < end && at < upper {
                match begin {
                    None if wanted(leaf.values[index]) => begin = Some(at),
                    Some(begin) if !wanted(leaf.values[index]) => return Some(begin..at),
                    _ => {}
                }
                index += 1;
                at = if index < leaf.len {
                    leaf.pages[index]
                } else {
                    upper
                };
            }
        }
        begin.map(|begin| begin..end)
    }

    /// The place of `first..end` if it lies within one entry, in a leaf that no change of the range can
    /// split or make too small. This is the fast path: most ranges are of this kind.
    #[inline]
    pub fn locate(&self, first: usize, end: usize) -> Option<TreePos> {
        if self.nodes.is_empty() {
            return None;
        }
        let (leaf, upper) = self.descend(first, |_, _, _| {});
        let node = &self.nodes[leaf];
        let index = node.entry_of(first);
        let next = node.pages[..node.len].get(index + 1);
        let place = TreePos {
            leaf,
            index,
            next: *next.unwrap_or(&upper),
            count: node.values[index],
        };
        let small = if self.height > 0 { CAPACITY / 4 + 2 } else { 0 };
        (end <= place.next && (small..=CAPACITY - 2).contains(&node.len)).then_some(place)
    }

    /// Adds `delta`, which is not 0, to the counts of `first..end`. `place` is from [`Refcounts::locate`],
    /// with no change since. Does not allocate.
    #[inline]
    pub fn add_at(&mut self, place: TreePos, first: usize, end: usize, delta: i32) {
        self.nodes[place.leaf].add_at(place, first, end, delta);
    }

    /// Adds `delta` to the counts of `first..end`. The caller has called [`Refcounts::reserve`].
    pub fn add(&mut self, first: usize, end: usize, delta: i32) {
        let mut at = first;
        while at < end {
            let mut descent = Descent {
                steps: [(0, 0); MAX_HEIGHT],
                height: self.height,
            };
            let (leaf, upper) = self.descend(at, |level, node, child| {
                descent.steps[level] = (node as u32, child as u32)
            });
            let node = &mut self.nodes[leaf];
            let stop = end.min(upper);
            if node.len + node.wants(at, stop, upper) > CAPACITY {
                // At either end of the leaf more entries are likely to follow in order, so the others stay
                // together.
                let cut = match node.entry_of(at) {
                    0 => 1,
                    index if index == node.len - 1 => index,
                    _ => CAPACITY / 2,
                };
                self.split(&descent, leaf, cut);
                continue;
            }
            node.add(at, stop, upper, delta);
            if node.len < CAPACITY / 4 && self.height > 0 {
                self.merge(&descent, leaf);
            }
            at = stop;
        }
    }

    /// The leaf that contains `page`, and the first page of the next leaf.
    #[inline]
    fn descend(&self, page: usize, mut visit: impl FnMut(usize, usize, usize)) -> (usize, usize) {
        let (mut at, mut upper) = (self.root, usize::MAX);
        for level in 0..self.height {
            let node = &self.nodes[at];
            let child = node.entry_of(page);
            if child + 1 < node.len {
                upper = node.pages[child + 1];
            }
            visit(level, at, child);
            at = node.values[child] as usize;
        }
        (at, upper)
    }

    /// Splits a leaf: its entries from `cut` on move to a new one.
    #[cold]
    fn split(&mut self, descent: &Descent, leaf: usize, cut: usize) {
        let (mut page, mut new) = self.cut(leaf, cut);
        for (_, parent, child) in descent.upwards() {
            let node = &mut self.nodes[parent];
            if node.len < CAPACITY {
                return node.insert(child + 1, page, new as i32);
            }
            let cut = match child {
                0 => 1,
                child if child == CAPACITY - 1 => child,
                _ => CAPACITY / 2,
            };
            let (right_page, right) = self.cut(parent, cut);
            match child.checked_sub(cut) {
                Some(child) => self.nodes[right].insert(child + 1, page, new as i32),
                None => self.nodes[parent].insert(child + 1, page, new as i32),
            }
            (page, new) = (right_page, right);
        }
        let mut root = Node::EMPTY;
        root.insert(0, self.nodes[self.root].pages[0], self.root as i32);
        root.insert(1, page, new as i32);
        self.root = self.store(root);
        self.height += 1;
    }

    /// Moves a node's entries from `cut` on to a new node. Returns the new node's first page and index.
    fn cut(&mut self, index: usize, cut: usize) -> (usize, usize) {
        let mut right = Node::EMPTY;
        let left = &mut self.nodes[index];
        right.extend(left, cut);
        left.len = cut;
        (right.pages[0], self.store(right))
    }

    fn store(&mut self, node: Node) -> usize {
        match self.free.pop() {
            Some(index) => {
                self.nodes[index] = node;
                index
            }
            None => {
                self.nodes.push(node);
                self.nodes.len() - 1
            }
        }
    }

    /// Merges a small node with a neighbour under the same parent, and so on upwards.
    #[cold]
    fn merge(&mut self, descent: &Descent, leaf: usize) {
        let mut small = leaf;
        for (level, parent, child) in descent.upwards() {
            if self.nodes[small].len >= CAPACITY / 4 {
                return;
            }
            let height = descent.height - level - 1;
            let before = child > 0 && self.join(parent, child - 1, height);
            let child = child - usize::from(before);
            let after = child + 1 < self.nodes[parent].len && self.join(parent, child, height);
            let joined = before || after;
            if !joined && self.nodes[parent].len > 1 {
                return;
            }
            small = parent;
        }
        while self.height > 0 && self.nodes[self.root].len == 1 {
            self.free.push(self.root);
            self.root = self.nodes[self.root].values[0] as usize;
            self.height -= 1;
        }
        if self.height == 0 && self.nodes.len() > CAPACITY {
            // One leaf of many nodes is left: free their memory.
            self.nodes.swap(0, self.root);
            self.root = 0;
            self.nodes.truncate(1);
            self.nodes.shrink_to(CAPACITY);
            self.free = Vec::new();
        }
    }

    /// Merges a parent's child with the next one if both fill no more than three quarters of a node.
    /// `height` is the number of levels below them. Returns whether it did.
    fn join(&mut self, parent: usize, child: usize, height: usize) -> bool {
        let [left, right] = [child, child + 1].map(|i| self.nodes[parent].values[i] as usize);
        let Some((node, taken)) = two_of(&mut self.nodes, left, right) else {
            return false;
        };
        let seam = node.len;
        if seam + taken.len > CAPACITY / 4 * 3 {
            return false;
        }
        // A leaf's first entry may repeat the count before it; in the merged leaf it must not.
        let repeats = height == 0 && node.values[seam - 1] == taken.values[0];
        node.extend(taken, usize::from(repeats));
        self.nodes[parent].remove(child + 1);
        self.free.push(right);
        if height > 0 {
            // Two small nodes that had different parents are now neighbours.
            self.join(left, seam - 1, height - 1);
        }
        true
    }
}

/// Two different nodes. `None` if one is missing, or both are the same.
fn two_of(nodes: &mut [Node], a: usize, b: usize) -> Option<(&mut Node, &mut Node)> {
    let (before, from) = nodes.split_at_mut_checked(a.max(b))?;
    let (low, high) = (before.get_mut(a.min(b))?, from.first_mut()?);
    Some(if a < b { (low, high) } else { (high, low) })
}

#[cfg(test)]
mod tests;
