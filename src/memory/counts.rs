//! A count for every page of the address space, in a B+ tree.
//!
//! The counts of neighbouring pages are mostly equal, so what is kept is the boundaries: a page
//! number, and the count from there up to the next boundary. Entries stand in leaves in ascending
//! order; the nodes above them have, for each child, the child's first page. A node's first entry
//! stands for the node and stays; it may repeat the count before it. All others differ from the
//! entry before them, so a sea of pages with equal counts costs one entry.
//!
//! A region that touches no other costs two entries of 12 bytes, in nodes that are a cache line or
//! two to search, and a change of its pages is one walk from the root: what a tree with a node per
//! region spends on memory, allocations and cache misses is what this one is for.

use std::ops::Range;

/// Entries of a node.
#[cfg(not(test))]
const CAPACITY: usize = 64;
/// Small, so that few pages make a tall tree.
#[cfg(test)]
const CAPACITY: usize = 8;
/// Levels above the leaves, at most. A node that cannot be joined with its neighbour has, together
/// with it, more than three quarters of what one holds: no machine has the memory for more levels.
const MAX_HEIGHT: usize = 10;

#[derive(Clone, Copy)]
struct Node {
    len: usize,
    /// Ascending.
    pages: [usize; CAPACITY],
    /// In a leaf the counts, above the indices of the children.
    values: [i32; CAPACITY],
}

impl Node {
    const EMPTY: Node = Node {
        len: 0,
        pages: [0; CAPACITY],
        values: [0; CAPACITY],
    };

    /// How many entries begin below `page`.
    #[inline]
    fn below(&self, page: usize) -> usize {
        self.pages[..self.len].partition_point(|&first| first < page)
    }

    /// The entry that `page` is in. The first entry begins at or below it.
    #[inline]
    fn holding(&self, page: usize) -> usize {
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

    /// How many entries [`Node::add`] may need in addition.
    fn wants(&self, first: usize, end: usize, upper: usize) -> usize {
        usize::from(first != self.pages[0]) + usize::from(end < upper)
    }

    /// Adds `delta` to the counts from `first` to `end`, which are this leaf's: it begins at or below
    /// `first`, and the next one begins at `upper`, at or above `end`. There is room for two entries.
    fn add(&mut self, first: usize, end: usize, upper: usize, delta: i32) {
        // Entries from..to begin within the range.
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
        // 2^31 registrations of one page do not fit into any machine.
        let (new_first, new_last) = (
            old_first.saturating_add(delta),
            old_last.saturating_add(delta),
        );
        let want_first = before != Some(new_first);
        let want_end = end < upper && after != new_last;

        // The entries inside the range, and those behind it, move by at most one and two places.
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
    fn add_at(&mut self, spot: Spot, first: usize, end: usize, delta: i32) {
        let Spot {
            index, next, count, ..
        } = spot;
        let new = count.saturating_add(delta);
        let begins = self.pages[index] == first;
        // The first entry stays whatever is before it, and the next leaf is not looked at.
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

/// A range's place within one entry.
#[derive(Clone, Copy)]
pub struct Spot {
    leaf: usize,
    index: usize,
    /// Where the entry ends.
    next: usize,
    /// The count of all pages of the range.
    pub count: i32,
}

/// The way from the root to a leaf: at each level above it the node, and which child was taken.
struct Path {
    steps: [(u32, u32); MAX_HEIGHT],
    height: usize,
}

impl Path {
    /// Level, node and child, from the leaf's parent to the root.
    fn upwards(&self) -> impl Iterator<Item = (usize, usize, usize)> {
        let steps = self.steps[..self.height].iter().enumerate().rev();
        steps.map(|(level, &(node, child))| (level, node as usize, child as usize))
    }
}

/// The counts of all pages.
pub struct Counts {
    /// Empty until the first change.
    nodes: Vec<Node>,
    /// Nodes that are not in use.
    free: Vec<usize>,
    root: usize,
    /// Levels above the leaves.
    height: usize,
}

impl Counts {
    /// Every page has the count 0.
    pub const fn new() -> Counts {
        Counts {
            nodes: Vec::new(),
            free: Vec::new(),
            root: 0,
            height: 0,
        }
    }

    /// Makes room for one [`Counts::add`]. False if there is no memory.
    pub fn reserve(&mut self) -> bool {
        // Either end of the range can split one node per level and give the tree a new root.
        let nodes = self.nodes.len() + 2 * (self.height + 2);
        // All of them may become free, which must not need memory then.
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

    /// The first longest run of pages within `first..end` whose counts are `wanted`.
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
            let mut index = leaf.holding(at);
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

    /// Where `first..end` lies, if it is within one entry of a leaf that neither splits nor shrinks too
    /// far whatever becomes of the range: most changes are of this kind.
    #[inline]
    pub fn spot(&self, first: usize, end: usize) -> Option<Spot> {
        if self.nodes.is_empty() {
            return None;
        }
        let (leaf, upper) = self.descend(first, |_, _, _| {});
        let node = &self.nodes[leaf];
        let index = node.holding(first);
        let next = node.pages[..node.len].get(index + 1);
        let spot = Spot {
            leaf,
            index,
            next: *next.unwrap_or(&upper),
            count: node.values[index],
        };
        let small = if self.height > 0 { CAPACITY / 4 + 2 } else { 0 };
        (end <= spot.next && (small..=CAPACITY - 2).contains(&node.len)).then_some(spot)
    }

    /// Adds `delta` to the counts of `first..end`, which is where [`Counts::spot`] said, with no change
    /// since. `delta` is not 0. Needs no memory.
    #[inline]
    pub fn add_at(&mut self, spot: Spot, first: usize, end: usize, delta: i32) {
        self.nodes[spot.leaf].add_at(spot, first, end, delta);
    }

    /// Adds `delta` to the counts of `first..end`. [`Counts::reserve`] goes before it.
    pub fn add(&mut self, first: usize, end: usize, delta: i32) {
        let mut at = first;
        while at < end {
            let mut path = Path {
                steps: [(0, 0); MAX_HEIGHT],
                height: self.height,
            };
            let (leaf, upper) = self.descend(at, |level, node, child| {
                path.steps[level] = (node as u32, child as u32)
            });
            let node = &mut self.nodes[leaf];
            let stop = end.min(upper);
            if node.len + node.wants(at, stop, upper) > CAPACITY {
                // At an end of the leaf, where entries are likely to go on coming in order, the
                // other entries stay together.
                let cut = match node.holding(at) {
                    0 => 1,
                    index if index == node.len - 1 => index,
                    _ => CAPACITY / 2,
                };
                self.split(&path, leaf, cut);
                continue;
            }
            node.add(at, stop, upper, delta);
            if node.len < CAPACITY / 4 && self.height > 0 {
                self.merge(&path, leaf);
            }
            at = stop;
        }
    }

    /// The leaf that `page` is in, and where the next leaf begins.
    #[inline]
    fn descend(&self, page: usize, mut visit: impl FnMut(usize, usize, usize)) -> (usize, usize) {
        let (mut at, mut upper) = (self.root, usize::MAX);
        for level in 0..self.height {
            let node = &self.nodes[at];
            let child = node.holding(page);
            if child + 1 < node.len {
                upper = node.pages[child + 1];
            }
            visit(level, at, child);
            at = node.values[child] as usize;
        }
        (at, upper)
    }

    /// Splits a leaf: its entries from `cut` on go to a new one.
    #[cold]
    fn split(&mut self, path: &Path, leaf: usize, cut: usize) {
        let (mut page, mut new) = self.cut(leaf, cut);
        for (_, parent, child) in path.upwards() {
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

    /// Moves a node's entries from `cut` on to a new node; its first page and index.
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

    /// Joins a small node with a neighbour under the same parent, and so on upwards.
    #[cold]
    fn merge(&mut self, path: &Path, leaf: usize) {
        let mut small = leaf;
        for (level, parent, child) in path.upwards() {
            if self.nodes[small].len >= CAPACITY / 4 {
                return;
            }
            let height = path.height - level - 1;
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
            // Nearly nothing is left of many: their memory goes back.
            self.nodes.swap(0, self.root);
            self.root = 0;
            self.nodes.truncate(1);
            self.nodes.shrink_to(CAPACITY);
            self.free = Vec::new();
        }
    }

    /// Joins a parent's child with the next one, if there is enough room to spare. Below them are as
    /// many levels as `height` says.
    fn join(&mut self, parent: usize, child: usize, height: usize) -> bool {
        let [left, right] = [child, child + 1].map(|i| self.nodes[parent].values[i] as usize);
        let Ok([node, taken]) = self.nodes.get_disjoint_mut([left, right]) else {
            return false;
        };
        let seam = node.len;
        if seam + taken.len > CAPACITY / 4 * 3 {
            return false;
        }
        // A leaf's first entry was kept for the leaf's sake.
        let repeats = height == 0 && node.values[seam - 1] == taken.values[0];
        node.extend(taken, usize::from(repeats));
        self.nodes[parent].remove(child + 1);
        self.free.push(right);
        if height > 0 {
            // Small nodes that had different parents meet.
            self.join(left, seam - 1, height - 1);
        }
        true
    }
}

#[cfg(test)]
#[path = "counts_tests.rs"]
mod tests;
