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

/// Runs of pages that are to be given back later.
pub struct Owed(Vec<Pages>);

impl Owed {
    pub const fn new() -> Owed {
        Owed(Vec::new())
    }

    /// Adds a run, to the last one if they touch. False if there is no memory for it.
    pub fn add(&mut self, run: Pages) -> bool {
        if let Some(last) = self.0.last_mut()
            && last.first <= run.end
            && run.first <= last.end
        {
            last.first = last.first.min(run.first);
            last.end = last.end.max(run.end);
            return true;
        }
        let room = self.0.try_reserve(1).is_ok();
        if room {
            self.0.push(run);
        }
        room
    }
}

/// Tells the kernel which pages children are to have.
pub trait Kernel {
    type Error;

    /// Leaves a run of pages out of children. May have done a part of it when it fails.
    fn exclude(&mut self, run: Pages) -> Result<(), Self::Error>;

    /// Gives a run of pages to children again. `held` says whether registrations hold a page of a
    /// run. What the kernel has no room for now goes to `owed`.
    fn give_back(&mut self, run: Pages, held: &dyn Fn(Pages) -> bool, owed: &mut Owed);

    /// How many runs that nobody holds any more may wait to be given back: until there are more, or
    /// until [`Ranges::settle`].
    fn put_off(&self) -> usize;

    /// There is no memory to count with.
    fn out_of_memory(&mut self) -> Self::Error;
}

/// The counts of all pages of the process.
pub struct Ranges {
    counts: Counts,
    /// What nobody held when it came here, and could not be given back or was put off.
    owed: Owed,
}

impl Ranges {
    pub const fn new() -> Ranges {
        Ranges {
            counts: Counts::new(),
            owed: Owed::new(),
        }
    }

    /// Counts one registration more of each page, after the kernel was told of each run of pages that
    /// is held by none yet, in ascending order, the runs as long as they can be. If that fails, all
    /// runs so far are given back, and no count changes.
    #[inline]
    pub fn hold<K: Kernel>(&mut self, pages: Pages, kernel: &mut K) -> Result<(), K::Error> {
        match self.try_hold(pages, kernel) {
            // What is owed may be what there was no room for this one for.
            Err(_) if !self.owed.0.is_empty() => {
                self.settle(kernel);
                self.try_hold(pages, kernel)
            }
            result => result,
        }
    }

    #[inline]
    fn try_hold<K: Kernel>(&mut self, pages: Pages, kernel: &mut K) -> Result<(), K::Error> {
        let Some(spot) = self.counts.spot(pages.first, pages.end) else {
            return self.hold_parts(pages, kernel);
        };
        if spot.count == 0
            && let Err(error) = kernel.exclude(pages)
        {
            self.give_back(pages, kernel);
            return Err(error);
        }
        self.counts.add_at(spot, pages.first, pages.end, 1);
        Ok(())
    }

    /// As [`Ranges::hold`], for pages of which some may be held and others not.
    fn hold_parts<K: Kernel>(&mut self, pages: Pages, kernel: &mut K) -> Result<(), K::Error> {
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
    #[inline]
    pub fn release<K: Kernel>(&mut self, pages: Pages, kernel: &mut K) -> Result<(), K::Error> {
        match self.counts.spot(pages.first, pages.end) {
            Some(spot) => {
                self.counts.add_at(spot, pages.first, pages.end, -1);
                if spot.count == 1 && !self.put_off(pages, kernel) {
                    self.give_back_run(pages, kernel);
                }
            }
            None => {
                if !self.counts.reserve() {
                    return Err(kernel.out_of_memory());
                }
                self.counts.add(pages.first, pages.end, -1);
                if !self.put_off(pages, kernel) {
                    self.give_back(pages, kernel);
                }
            }
        }
        if self.owed.0.len() > kernel.put_off() {
            self.settle(kernel);
        }
        Ok(())
    }

    /// Whether these pages are owed now, and so need not be given back at once.
    #[inline]
    fn put_off<K: Kernel>(&mut self, pages: Pages, kernel: &K) -> bool {
        kernel.put_off() > 0 && self.owed.add(pages)
    }

    /// Gives back what is owed and still held by none: there may be room now for what was refused.
    #[cold]
    pub fn settle<K: Kernel>(&mut self, kernel: &mut K) {
        while let Some(run) = self.owed.0.pop() {
            let owed = self.owed.0.len();
            self.give_back(run, kernel);
            if self.owed.0.len() > owed {
                break;
            }
        }
    }

    /// Gives back all pages among these that nobody holds.
    fn give_back<K: Kernel>(&mut self, pages: Pages, kernel: &mut K) {
        let mut at = pages.first;
        while let Some(run) = self.free_run(at, pages.end) {
            self.give_back_run(run, kernel);
            at = run.end;
        }
    }

    fn give_back_run<K: Kernel>(&mut self, run: Pages, kernel: &mut K) {
        let counts = &self.counts;
        let held = |pages: Pages| {
            counts
                .find(pages.first, pages.end, |count| count > 0)
                .is_some()
        };
        kernel.give_back(run, &held, &mut self.owed);
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
