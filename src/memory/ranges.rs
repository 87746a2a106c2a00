//! Fork ranges: calls for MADV_DONTFORK where a page's refcount goes from 0 to 1, and for MADV_DOFORK
//! where it goes from 1 to 0. Pure: [`MadviseCalls`] makes the calls.
//!
//! The refcount of a page is the number of registrations that contain it. It may go below zero: as with
//! rdma-core, ibv_dofork_range may be called for a range that was never registered (deregistering an
//! on-demand-paging region does so). Such a page needs one registration more before it is excluded.

use super::refcounts::Refcounts;

/// A run of pages, never empty. A page number is an address divided by the base page size, so that the end
/// of the address space does not overflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pages {
    pub first: usize,
    pub end: usize,
}

impl Pages {
    /// The pages of `1 << shift` bytes that contain the `size` bytes from `base`. None if `size` is 0 or the
    /// range wraps around the end of the address space.
    pub fn new(base: usize, size: usize, shift: u32) -> Option<Pages> {
        let last = base.checked_add(size.checked_sub(1)?)?;
        Some(Pages {
            first: base >> shift,
            end: (last >> shift) + 1,
        })
    }

    /// Address and length in bytes.
    pub fn bytes(self, shift: u32) -> (usize, usize) {
        (self.first << shift, (self.end - self.first) << shift)
    }
}

/// Runs of pages whose MADV_DOFORK is deferred. A page in them may be referenced again meanwhile.
pub struct Deferred(Vec<Pages>);

impl Deferred {
    /// No runs.
    pub const fn new() -> Deferred {
        Deferred(Vec::new())
    }

    /// Adds a run, and merges it with the last one if they touch. False if there is no memory.
    pub fn add(&mut self, run: Pages) -> bool {
        if let Some(last) = self.0.last_mut() {
            if last.first <= run.end && run.first <= last.end {
                last.first = last.first.min(run.first);
                last.end = last.end.max(run.end);
                return true;
            }
        }
        let room = self.0.try_reserve(1).is_ok();
        if room {
            self.0.push(run);
        }
        room
    }
}

/// The calls of madvise(2).
pub trait MadviseCalls {
    /// The error of a failed registration.
    type Error;

    /// Applies MADV_DONTFORK to a run. After a failure it may have been applied to a part.
    fn dontfork(&mut self, run: Pages) -> Result<(), Self::Error>;

    /// Applies MADV_DOFORK to a run. `referenced` returns whether a page of a run has a positive refcount.
    /// Pages for which the kernel has no mapping left go to `deferred`.
    fn dofork(&mut self, run: Pages, referenced: &dyn Fn(Pages) -> bool, deferred: &mut Deferred);

    /// How many unreferenced runs may wait for their MADV_DOFORK. [`ForkRanges::flush_deferred`] is called
    /// when there are more. 0: none waits unless its MADV_DOFORK has failed.
    fn max_deferred(&self) -> usize;

    /// The error if there is no memory for refcounts.
    fn out_of_memory(&mut self) -> Self::Error;
}

/// The fork ranges of the process.
pub struct ForkRanges {
    refcounts: Refcounts,
    /// Runs whose MADV_DOFORK failed or was deferred. Their pages were unreferenced when they were added.
    deferred: Deferred,
}

impl ForkRanges {
    /// All pages are unreferenced.
    pub const fn new() -> ForkRanges {
        ForkRanges {
            refcounts: Refcounts::new(),
            deferred: Deferred::new(),
        }
    }

    /// Increments the refcount of each page. Before that it applies MADV_DONTFORK to the runs that go from
    /// 0 to 1, in ascending order, each as long as possible. If that fails, it applies MADV_DOFORK to the
    /// runs so far, and no refcount changes.
    #[inline]
    pub fn dontfork<K: MadviseCalls>(
        &mut self,
        pages: Pages,
        kernel: &mut K,
    ) -> Result<(), K::Error> {
        match self.try_dontfork(pages, kernel) {
            // The deferred runs may use the mappings that this one needs.
            Err(_) if !self.deferred.0.is_empty() => {
                self.flush_deferred(kernel);
                self.try_dontfork(pages, kernel)
            }
            result => result,
        }
    }

    #[inline]
    fn try_dontfork<K: MadviseCalls>(
        &mut self,
        pages: Pages,
        kernel: &mut K,
    ) -> Result<(), K::Error> {
        let Some(place) = self.refcounts.locate(pages.first, pages.end) else {
            return self.dontfork_parts(pages, kernel);
        };
        if place.count == 0 {
            if let Err(error) = kernel.dontfork(pages) {
                self.dofork_unreferenced(pages, kernel);
                return Err(error);
            }
        }
        self.refcounts.add_at(place, pages.first, pages.end, 1);
        Ok(())
    }

    /// As [`ForkRanges::dontfork`] for pages with different refcounts.
    fn dontfork_parts<K: MadviseCalls>(
        &mut self,
        pages: Pages,
        kernel: &mut K,
    ) -> Result<(), K::Error> {
        if !self.refcounts.reserve() {
            return Err(kernel.out_of_memory());
        }
        let mut at = pages.first;
        while let Some(run) = self.unreferenced_run(at, pages.end) {
            if let Err(error) = kernel.dontfork(run) {
                let done = Pages {
                    first: pages.first,
                    end: run.end,
                };
                self.dofork_unreferenced(done, kernel);
                return Err(error);
            }
            at = run.end;
        }
        self.refcounts.add(pages.first, pages.end, 1);
        Ok(())
    }

    /// Decrements the refcount of each page, and applies MADV_DOFORK to the runs that go from 1 to 0, or
    /// defers it.
    #[inline]
    pub fn dofork<K: MadviseCalls>(
        &mut self,
        pages: Pages,
        kernel: &mut K,
    ) -> Result<(), K::Error> {
        match self.refcounts.locate(pages.first, pages.end) {
            Some(place) => {
                self.refcounts.add_at(place, pages.first, pages.end, -1);
                if place.count == 1 && !self.defer(pages, kernel) {
                    self.dofork_run(pages, kernel);
                }
            }
            None => {
                if !self.refcounts.reserve() {
                    return Err(kernel.out_of_memory());
                }
                self.refcounts.add(pages.first, pages.end, -1);
                if !self.defer(pages, kernel) {
                    self.dofork_unreferenced(pages, kernel);
                }
            }
        }
        if self.deferred.0.len() > kernel.max_deferred() {
            self.flush_deferred(kernel);
        }
        Ok(())
    }

    /// Defers the MADV_DOFORK of these pages if that is enabled. False if the caller must make the call.
    #[inline]
    fn defer<K: MadviseCalls>(&mut self, pages: Pages, kernel: &K) -> bool {
        kernel.max_deferred() > 0 && self.deferred.add(pages)
    }

    /// Applies MADV_DOFORK to the deferred pages that are still unreferenced. Stops at the first failure.
    #[cold]
    pub fn flush_deferred<K: MadviseCalls>(&mut self, kernel: &mut K) {
        while let Some(run) = self.deferred.0.pop() {
            let deferred = self.deferred.0.len();
            self.dofork_unreferenced(run, kernel);
            if self.deferred.0.len() > deferred {
                break;
            }
        }
    }

    /// Applies MADV_DOFORK to the unreferenced runs among these pages.
    fn dofork_unreferenced<K: MadviseCalls>(&mut self, pages: Pages, kernel: &mut K) {
        let mut at = pages.first;
        while let Some(run) = self.unreferenced_run(at, pages.end) {
            self.dofork_run(run, kernel);
            at = run.end;
        }
    }

    /// Applies MADV_DOFORK to a run whose pages are unreferenced.
    fn dofork_run<K: MadviseCalls>(&mut self, run: Pages, kernel: &mut K) {
        let refcounts = &self.refcounts;
        let referenced = |pages: Pages| {
            refcounts
                .find(pages.first, pages.end, |count| count > 0)
                .is_some()
        };
        kernel.dofork(run, &referenced, &mut self.deferred);
    }

    /// The first run of pages within `first..end` with refcount 0.
    fn unreferenced_run(&self, first: usize, end: usize) -> Option<Pages> {
        let run = self.refcounts.find(first, end, |count| count == 0)?;
        Some(Pages {
            first: run.start,
            end: run.end,
        })
    }
}

#[cfg(test)]
mod tests;
