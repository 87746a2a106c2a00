//! How many registrations hold each page. Pure: it says which pages change sides, the caller tells
//! the kernel.
//!
//! Counts may go below zero: the C library lets a program take back what it never registered (an
//! on-demand-paging region is deregistered that way), and pages are then one registration short.

use super::counts::Counts;

/// A run of pages, never empty. A page number is an address divided by the base page size, so the
/// end of the address space is still a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pages {
    pub first: usize,
    pub end: usize,
}

impl Pages {
    /// The pages of `1 << shift` bytes that hold the `size` bytes from `base`. None when there is no
    /// byte, or when the range wraps around the end of the address space.
    pub fn new(base: usize, size: usize, shift: u32) -> Option<Pages> {
        let last = base.checked_add(size.checked_sub(1)?)?;
        Some(Pages {
            first: base >> shift,
            end: (last >> shift) + 1,
        })
    }

    /// The same in bytes: address and length.
    pub fn bytes(self, shift: u32) -> (usize, usize) {
        (self.first << shift, (self.end - self.first) << shift)
    }
}

/// Tells the kernel which pages children are to have.
pub trait Kernel {
    type Error;

    /// Leaves a run of pages out of children. May have done a part of it when it fails.
    fn exclude(&mut self, run: Pages) -> Result<(), Self::Error>;

    /// Gives a run of pages to children again. `held` says whether registrations hold a page of a
    /// run. What the kernel has no room for now goes to `owed`.
    fn give_back(&mut self, run: Pages, held: &dyn Fn(Pages) -> bool, owed: &mut Vec<Pages>);

    /// There is no memory to count with.
    fn out_of_memory(&mut self) -> Self::Error;
}

/// The counts of all pages of the process.
pub struct Ranges {
    counts: Counts,
    /// What nobody holds and could not be given back. Mostly empty.
    owed: Vec<Pages>,
}

impl Ranges {
    pub const fn new() -> Ranges {
        Ranges {
            counts: Counts::new(),
            owed: Vec::new(),
        }
    }

    /// Counts one registration more of each page, after the kernel was told of each run of pages that
    /// is held by none yet, in ascending order, the runs as long as they can be. If that fails, all
    /// runs so far are given back, and no count changes.
    pub fn hold<K: Kernel>(&mut self, pages: Pages, kernel: &mut K) -> Result<(), K::Error> {
        if !self.counts.reserve() {
            return Err(kernel.out_of_memory());
        }
        let mut at = pages.first;
        while let Some(run) = self.free_run(at, pages.end) {
            if let Err(error) = kernel.exclude(run) {
                let done = Pages {
                    first: pages.first,
                    end: run.end,
                };
                self.give_back(done, kernel);
                return Err(error);
            }
            at = run.end;
        }
        self.counts.add(pages.first, pages.end, 1);
        Ok(())
    }

    /// Counts one registration fewer of each page, and tells the kernel of each run of pages that is
    /// held by none any more.
    pub fn release<K: Kernel>(&mut self, pages: Pages, kernel: &mut K) -> Result<(), K::Error> {
        if !self.counts.reserve() {
            return Err(kernel.out_of_memory());
        }
        self.counts.add(pages.first, pages.end, -1);
        self.give_back(pages, kernel);
        // There may be room now for what was refused before.
        while let Some(run) = self.owed.pop() {
            let owed = self.owed.len();
            self.give_back(run, kernel);
            if self.owed.len() > owed {
                break;
            }
        }
        Ok(())
    }

    /// Gives back all pages among these that nobody holds.
    fn give_back<K: Kernel>(&mut self, pages: Pages, kernel: &mut K) {
        let counts = &self.counts;
        let held = |pages: Pages| {
            counts
                .find(pages.first, pages.end, |count| count > 0)
                .is_some()
        };
        let mut at = pages.first;
        while let Some(run) = counts.find(at, pages.end, |count| count == 0) {
            let run = Pages {
                first: run.start,
                end: run.end,
            };
            kernel.give_back(run, &held, &mut self.owed);
            at = run.end;
        }
    }

    /// The first run of pages within `first..end` with the count 0.
    fn free_run(&self, first: usize, end: usize) -> Option<Pages> {
        let run = self.counts.find(first, end, |count| count == 0)?;
        Some(Pages {
            first: run.start,
            end: run.end,
        })
    }
}

#[cfg(test)]
#[path = "ranges_tests.rs"]
mod tests;
