//! Whether memory is mapped when it is registered; the kernel's devices find out by pinning it.

use core::sync::atomic::AtomicU8;

use ibverbs_abi::Errno;
use libc::c_int;

/// The size of a page, in bytes. libc has it from the start of the process, and makes no system call.
pub fn page_size() -> usize {
    // SAFETY: sysconf has no preconditions.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) }.max(4096) as usize
}

/// Makes the pages of `start .. start + len` present, for reading or writing. False if one is not mapped, or
/// not writable although `writable` is set.
///
/// The pages are not pinned: they may be swapped out, or unmapped, later (`crate::nofault`).
///
/// Where madvise(2) cannot be used (an old kernel, a seccomp filter), the pages are not made present, and
/// mincore(2) says whether they are mapped, but not whether they are writable. Where that cannot be used
/// either, the memory is taken as mapped.
pub fn prefault(start: usize, len: usize, writable: bool) -> bool {
    prefault_with(advise, start, len, writable)
}

fn prefault_with(
    advise: impl Fn(usize, usize, c_int) -> Result<(), Errno>,
    start: usize,
    len: usize,
    writable: bool,
) -> bool {
    let page = page_size();
    let first = start & !(page - 1);
    let Some(end) = start
        .checked_add(len.max(1))
        .and_then(|end| end.checked_next_multiple_of(page))
    else {
        return false;
    };
    let advice = if writable {
        libc::MADV_POPULATE_WRITE
    } else {
        libc::MADV_POPULATE_READ
    };
    if advise(first, end - first, advice).is_ok() {
        return true;
    }
    // Any errno may be a filter's, and EINVAL that of a kernel before 5.14, which lacks MADV_POPULATE_*.
    // Later ones give EINVAL for memory of a device. So the same advice is tried on memory that is mapped.
    let here = (&raw const PROBE).addr() & !(page - 1);
    advise(here, page, advice).is_err() && mapped(first, end - first)
}

/// Lies in a page that is readable and writable.
static PROBE: AtomicU8 = AtomicU8::new(0);

/// madvise(2) with MADV_POPULATE_READ or MADV_POPULATE_WRITE, repeated after EINTR and EAGAIN.
fn advise(start: usize, len: usize, advice: c_int) -> Result<(), Errno> {
    loop {
        // SAFETY: MADV_POPULATE_* only makes pages present, as an access to each page would.
        if unsafe { libc::madvise(start as *mut _, len, advice) } == 0 {
            return Ok(());
        }
        match Errno::last() {
            Errno(libc::EINTR | libc::EAGAIN) => {}
            errno => return Err(errno),
        }
    }
}

/// Whether all pages are mapped. Unlike [`advise`] it cannot check that they are writable.
fn mapped(start: usize, len: usize) -> bool {
    // Pages per call: mincore writes a byte for each.
    const STEP: usize = 1024;
    let page = page_size();
    let mut present = [0u8; STEP];
    (0..len).step_by(STEP * page).all(|done| {
        let part = (len - done).min(STEP * page);
        let at = (start + done) as *mut _;
        // SAFETY: `present` has a byte for each page of the part.
        let result = unsafe { libc::mincore(at, part, present.as_mut_ptr().cast()) };
        // A filter that refuses mincore says nothing of the memory.
        result == 0 || Errno::last() != Errno(libc::ENOMEM)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(protection: c_int) -> usize {
        // SAFETY: a new anonymous mapping at an address of the kernel's choice.
        let at = unsafe {
            libc::mmap(
                core::ptr::null_mut(),
                2 * page_size(),
                protection,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        assert_ne!(at, libc::MAP_FAILED);
        at as usize
    }

    #[test]
    fn unmapped_and_read_only_memory_is_noticed() {
        let page = page_size();
        let both = map(libc::PROT_READ | libc::PROT_WRITE);
        assert!(prefault(both + 1, 2 * page - 1, true));
        assert!(prefault(both, 0, true));
        // SAFETY: the second page of the mapping made above, which nothing else uses.
        unsafe { libc::munmap((both + page) as *mut _, page) };
        assert!(prefault(both, page, true));
        assert!(!prefault(both, page + 1, true));
        assert!(!prefault(both, page + 1, false));
        let read = map(libc::PROT_READ);
        assert!(prefault(read, page, false));
        assert!(!prefault(read, page, true));
        assert!(!prefault(usize::MAX - 10, 100, false));
        assert!(mapped(both, page));
        assert!(!mapped(both, 2 * page));
    }

    #[test]
    fn a_filter_that_refuses_madvise_refuses_no_memory() {
        let page = page_size();
        let both = map(libc::PROT_READ | libc::PROT_WRITE);
        // SAFETY: the second page of the mapping made above, which nothing else uses.
        unsafe { libc::munmap((both + page) as *mut _, page) };
        let refusals = [
            libc::EPERM,
            libc::ENOSYS,
            libc::EACCES,
            libc::EINVAL,
            libc::ENOMEM,
        ];
        for errno in refusals {
            let refuse = |_, _, _| Err(Errno(errno));
            assert!(prefault_with(refuse, both, page, true), "{errno}");
            assert!(!prefault_with(refuse, both, page + 1, true), "{errno}");
        }
    }
}
