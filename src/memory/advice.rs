//! Applies MADV_DONTFORK and MADV_DOFORK to runs of pages, and handles the errors of madvise(2).

use super::page_size;
use super::ranges::{Deferred, MadviseCalls, Pages};
use ibverbs_abi::Errno;
use ibverbs_netlink::nldev;
use libc::{EAGAIN, EINVAL, ENOMEM, c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

/// madvise(2) on this process's pages.
pub struct Madvise {
    /// The base page size in bytes, a power of two.
    pub page: usize,
    /// Whether registered memory may lie in huge pages (RDMAV_HUGEPAGES_SAFE). madvise fails with EINVAL
    /// on a part of a huge page; the call is then repeated for whole huge pages.
    ///
    /// So the page size of memory in base pages is never queried, and no size is cached that a later mapping
    /// at the same address would invalidate.
    pub huge: bool,
    /// How many runs of pages may wait for their MADV_DOFORK.
    pub max_deferred: usize,
}

impl Madvise {
    /// The binary logarithm of the page size.
    pub fn shift(&self) -> u32 {
        self.page.trailing_zeros()
    }

    /// The huge page around `page`, or the page itself.
    fn around(&self, page: usize) -> Pages {
        let address = page << self.shift();
        let pages = page_size::at(address, self.page) >> self.shift();
        let first = page & !(pages - 1);
        Pages {
            first,
            end: first + pages,
        }
    }

    fn advise(&self, run: Pages, advice: c_int) -> Result<(), Errno> {
        let (address, len) = run.bytes(self.shift());
        madvise(address, len, advice)
    }

    /// Handles a MADV_DONTFORK that failed with `error`.
    #[cold]
    fn dontfork_failed(&mut self, run: Pages, error: Errno) -> Result<(), Errno> {
        match error.0 {
            EINVAL if self.huge => {
                let whole = Pages {
                    first: self.around(run.first).first,
                    end: self.around(run.end - 1).end,
                };
                if whole == run {
                    return Err(error);
                }
                match self.advise(whole, libc::MADV_DONTFORK) {
                    Err(Errno(EAGAIN)) => self.dontfork_failed(run, Errno(EAGAIN)),
                    result => result,
                }
            }
            // The process has reached vm.max_map_count, and the kernel would have to split a mapping.
            // Kernels since 5.12 copy pinned pages for the child, so fork is safe without DONTFORK.
            EAGAIN if kernel_copies_on_fork() => Ok(()),
            _ => Err(error),
        }
    }

    /// Handles a MADV_DOFORK that failed with `error`.
    #[cold]
    fn dofork_failed(
        &mut self,
        run: Pages,
        error: Errno,
        referenced: &dyn Fn(Pages) -> bool,
        deferred: &mut Deferred,
    ) {
        if error == Errno(EINVAL) && self.huge {
            // A huge page at either end stays DONTFORK as long as a part of it is referenced.
            let (first, last) = (self.around(run.first), self.around(run.end - 1));
            let free = Pages {
                first: if referenced(first) {
                    first.end
                } else {
                    first.first
                },
                end: if referenced(last) {
                    last.first
                } else {
                    last.end
                },
            };
            if free.first >= free.end || free != run && self.advise(free, libc::MADV_DOFORK).is_ok()
            {
                return;
            }
        }
        self.dofork_parts(run, error, deferred);
    }

    /// Applies MADV_DOFORK to as much of a run as possible. As a whole it failed, with EAGAIN because the
    /// kernel would have to split a mapping and vm.max_map_count is reached. Single pages that fail with
    /// EAGAIN are deferred; rdma-core forgets them.
    fn dofork_parts(&self, run: Pages, error: Errno, deferred: &mut Deferred) {
        // ENOMEM: a part is not mapped. madvise has applied the advice to the rest.
        if error == Errno(ENOMEM) {
            return;
        }
        if run.end - run.first == 1 {
            if error == Errno(EAGAIN) {
                // Without memory for the entry the page stays DONTFORK.
                deferred.add(run);
            }
            return;
        }
        let half = run.first + (run.end - run.first) / 2;
        for (first, end) in [(run.first, half), (half, run.end)] {
            let part = Pages { first, end };
            if let Err(error) = self.advise(part, libc::MADV_DOFORK) {
                self.dofork_parts(part, error, deferred);
            }
        }
    }
}

impl MadviseCalls for Madvise {
    type Error = Errno;

    fn dontfork(&mut self, run: Pages) -> Result<(), Errno> {
        self.advise(run, libc::MADV_DONTFORK)
            .or_else(|error| self.dontfork_failed(run, error))
    }

    fn dofork(&mut self, run: Pages, referenced: &dyn Fn(Pages) -> bool, deferred: &mut Deferred) {
        if let Err(error) = self.advise(run, libc::MADV_DOFORK) {
            self.dofork_failed(run, error, referenced, deferred);
        }
    }

    fn max_deferred(&self) -> usize {
        self.max_deferred
    }

    fn out_of_memory(&mut self) -> Errno {
        Errno(ENOMEM)
    }
}

/// Whether the kernel copies pinned pages at fork. A positive answer is cached.
fn kernel_copies_on_fork() -> bool {
    static COPIES: AtomicBool = AtomicBool::new(false);
    let copies = COPIES.load(Ordering::Relaxed) || nldev::copy_on_fork();
    COPIES.store(copies, Ordering::Relaxed);
    copies
}

fn madvise(address: usize, len: usize, advice: c_int) -> Result<(), Errno> {
    // SAFETY: DONTFORK and DOFORK change what a child inherits. They do not affect contents or access rights
    // of a mapping in this process, whatever the address.
    match unsafe { libc::madvise(address as *mut c_void, len, advice) } {
        0 => Ok(()),
        _ => Err(Errno::last()),
    }
}
