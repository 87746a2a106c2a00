//! How many registrations hold each page. Pure: it says which pages change sides, the caller tells
//! the kernel.
//!
//! The counts of neighbouring pages are mostly equal, so what is kept is the boundaries between
//! them: page number to the count from there up to the next boundary. Two neighbours never hold the
//! same count, pages below the first boundary have count 0, and so has everything from the last
//! boundary on. A region of any size costs at most two boundaries, and a sea of adjacent regions
//! with equal counts costs two in all.
//!
//! Counts may go below zero: the C library lets a program take back what it never registered (an
//! on-demand-paging region is deregistered that way), and pages are then one registration short.

use std::collections::{BTreeMap, btree_map::Entry};

/// A run of pages, never empty. A page number is an address divided by the base page size, so the
/// end of the address space is still a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pages {
    first: usize,
    end: usize,
}

impl Pages {
    /// The pages of `1 << shift` bytes that hold the `size` bytes from `base`, widened at both ends
    /// to whole units of `granule` bytes (a huge page, or one page). None when there is no byte, or
    /// when the range wraps around the end of the address space.
    pub fn new(base: usize, size: usize, granule: usize, shift: u32) -> Option<Pages> {
        let mask = granule.checked_sub(1)?;
        let start = base & !mask;
        let last = base.checked_add(size.checked_sub(1)?)? | mask;
        Some(Pages {
            first: start >> shift,
            end: (last >> shift) + 1,
        })
    }

    /// The same in bytes: address and length.
    pub fn bytes(self, shift: u32) -> (usize, usize) {
        (self.first << shift, (self.end - self.first) << shift)
    }
}

/// What an operation does to the count of each of its pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// One more registration. The first one excludes a page from the child.
    Hold,
    /// One registration fewer. The end of the last one gives a page back.
    Release,
}

impl Change {
    fn delta(self) -> i32 {
        match self {
            Change::Hold => 1,
            Change::Release => -1,
        }
    }

    /// The count at which a page changes sides.
    fn flips_at(self) -> i32 {
        match self {
            Change::Hold => 0,
            Change::Release => 1,
        }
    }

    fn opposite(self) -> Change {
        match self {
            Change::Hold => Change::Release,
            Change::Release => Change::Hold,
        }
    }
}

/// The counts of all pages of the process.
pub struct Ranges {
    bounds: BTreeMap<usize, i32>,
}

impl Ranges {
    pub const fn new() -> Ranges {
        Ranges {
            bounds: BTreeMap::new(),
        }
    }

    /// Counts one registration more or fewer for each page, after `advise` was called for each run
    /// of pages that changes sides by it, in ascending order, the runs as long as they can be.
    ///
    /// When `advise` fails, it is called with the opposite for all runs so far, the failed one
    /// included (a call that fails may have done a part of its work), and no count changes. The
    /// failure is the first one.
    pub fn apply<E>(
        &mut self,
        pages: Pages,
        change: Change,
        mut advise: impl FnMut(Pages, Change) -> Result<(), E>,
    ) -> Result<(), E> {
        for run in self.edges(pages, change) {
            if let Err(error) = advise(run, change) {
                for done in self
                    .edges(pages, change)
                    .take_while(|done| done.first <= run.first)
                {
                    // Nobody could do anything about a second failure.
                    let _ = advise(done, change.opposite());
                }
                return Err(error);
            }
        }
        self.add(pages, change.delta());
        Ok(())
    }

    /// The runs of pages within `pages` that change sides by `change`.
    fn edges(&self, pages: Pages, change: Change) -> impl Iterator<Item = Pages> {
        // The count at the first page comes from the last boundary at or before it.
        let count = self
            .bounds
            .range(..=pages.first)
            .next_back()
            .map_or(0, |(_, &count)| count);
        let mut bounds = self.bounds.range(pages.first + 1..pages.end);
        let mut next = Some((pages.first, count));
        std::iter::from_fn(move || {
            loop {
                let (first, count) = next?;
                next = bounds.next().map(|(&page, &count)| (page, count));
                if count == change.flips_at() {
                    let end = next.map_or(pages.end, |(page, _)| page);
                    return Some(Pages { first, end });
                }
            }
        })
    }

    /// Adds `delta` to the count of each page.
    fn add(&mut self, pages: Pages, delta: i32) {
        let before = self
            .bounds
            .range(..pages.first)
            .next_back()
            .map_or(0, |(_, &count)| count);
        let mut last = before;
        for (_, count) in self.bounds.range_mut(pages.first..pages.end) {
            last = *count;
            // 2^31 registrations of one page do not fit into any machine.
            *count = count.saturating_add(delta);
        }
        // The counts on the far side of either end did not change: a boundary must be there now, or
        // the one that was there parts nothing any more.
        self.part(pages.first, before, before.saturating_add(delta));
        self.part(pages.end, last.saturating_add(delta), last);
    }

    /// Sees to it that there is a boundary at `page` if and only if the count below it, `below`, and
    /// that from it on, which is `above` unless a boundary there says otherwise, differ.
    fn part(&mut self, page: usize, below: i32, above: i32) {
        match self.bounds.entry(page) {
            Entry::Vacant(entry) => {
                entry.insert(above);
            }
            Entry::Occupied(entry) if *entry.get() == below => {
                entry.remove();
            }
            Entry::Occupied(_) => {}
        }
    }
}

#[cfg(test)]
#[path = "ranges_tests.rs"]
mod tests;
