//! madvise(2), told which pages a child of fork(2) is to have.

use super::page_size;
use super::ranges::{Kernel, Owed, Pages};
use ibverbs_abi::Errno;
use ibverbs_netlink::nldev;
use libc::{EAGAIN, EINVAL, ENOMEM, c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

/// How this process's pages are advised.
pub struct Madvise {
    /// The base page size in bytes, a power of two.
    pub page: usize,
    /// Whether registered memory may lie in huge pages. The kernel takes advice on whole ones only,
    /// which are then advised if it refuses less.
    ///
    /// So nothing asks for the page size of memory that is made of base pages, nor is a size
    /// remembered that another mapping at the same place would belie.
    pub huge: bool,
    /// How many runs of pages may wait to be given back.
    pub put_off: usize,
}

impl Madvise {
    pub fn shift(&self) -> u32 {
        self.page.trailing_zeros()
    }

    /// The whole huge page around `page`, or the page itself.
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

    /// After the kernel refused to exclude a run with the errno value `error`.
    #[cold]
    fn exclude_refused(&mut self, run: Pages, error: Errno) -> Result<(), Errno> {
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
                    Err(Errno(EAGAIN)) => self.exclude_refused(run, Errno(EAGAIN)),
                    result => result,
                }
            }
            // The process has as many mappings as it may, and the kernel does not part one. But if it
            // copies for a child what a device has pinned, as it does since 5.12, the child may as
            // well have the pages.
            EAGAIN if kernel_copies() => Ok(()),
            _ => Err(error),
        }
    }

    /// After the kernel refused to give a run back with the errno value `error`.
    #[cold]
    fn give_back_refused(
        &mut self,
        run: Pages,
        error: Errno,
        held: &dyn Fn(Pages) -> bool,
        owed: &mut Owed,
    ) {
        if error == Errno(EINVAL) && self.huge {
            // A huge page at either end stays excluded as long as a part of it is held.
            let (first, last) = (self.around(run.first), self.around(run.end - 1));
            let free = Pages {
                first: if held(first) { first.end } else { first.first },
                end: if held(last) { last.first } else { last.end },
            };
            if free.first >= free.end || free != run && self.advise(free, libc::MADV_DOFORK).is_ok()
            {
                return;
            }
        }
        self.give_back_parts(run, error, owed);
    }

    /// Gives back what can be of a run that the kernel refused as a whole: it needs to part a mapping
    /// and the process may have no more of them (EAGAIN). The C library forgets what it still refuses.
    fn give_back_parts(&self, run: Pages, error: Errno, owed: &mut Owed) {
        // Where a part is not mapped, all else was done.
        if error == Errno(ENOMEM) {
            return;
        }
        if run.end - run.first == 1 {
            if error == Errno(EAGAIN) {
                // Without memory to remember it, it is forgotten.
                owed.add(run);
            }
            return;
        }
        let half = run.first + (run.end - run.first) / 2;
        for (first, end) in [(run.first, half), (half, run.end)] {
            let part = Pages { first, end };
            if let Err(error) = self.advise(part, libc::MADV_DOFORK) {
                self.give_back_parts(part, error, owed);
            }
        }
    }
}

impl Kernel for Madvise {
    type Error = Errno;

    fn exclude(&mut self, run: Pages) -> Result<(), Errno> {
        self.advise(run, libc::MADV_DONTFORK)
            .or_else(|error| self.exclude_refused(run, error))
    }

    fn give_back(&mut self, run: Pages, held: &dyn Fn(Pages) -> bool, owed: &mut Owed) {
        if let Err(error) = self.advise(run, libc::MADV_DOFORK) {
            self.give_back_refused(run, error, held, owed);
        }
    }

    fn put_off(&self) -> usize {
        self.put_off
    }

    fn out_of_memory(&mut self) -> Errno {
        Errno(ENOMEM)
    }
}

/// Whether the kernel says that it copies pinned pages at fork. What it has said once is kept.
fn kernel_copies() -> bool {
    static COPIES: AtomicBool = AtomicBool::new(false);
    let copies = COPIES.load(Ordering::Relaxed) || nldev::copy_on_fork();
    COPIES.store(copies, Ordering::Relaxed);
    copies
}

fn madvise(address: usize, len: usize, advice: c_int) -> Result<(), Errno> {
    // SAFETY: the advice is DONTFORK or DOFORK, which change what a child inherits and leave the
    // mapping's contents and access rights in this process as they are, whatever the address.
    match unsafe { libc::madvise(address as *mut c_void, len, advice) } {
        0 => Ok(()),
        _ => Err(Errno::last()),
    }
}
