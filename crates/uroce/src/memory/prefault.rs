//! Whether memory is there when it is registered, as the kernel finds out by pinning it.

use std::io;
use std::sync::OnceLock;

use libc::c_int;

/// Of a page, in bytes.
pub fn page_size() -> usize {
    static SIZE: OnceLock<usize> = OnceLock::new();
    // SAFETY: sysconf may be called at any time.
    *SIZE.get_or_init(|| unsafe { libc::sysconf(libc::_SC_PAGESIZE) }.max(4096) as usize)
}

/// Makes the pages of `start .. start + len` present, for reading or writing. False if one is not
/// there or must not be written to.
///
/// What is populated here may be swapped out again or unmapped later, unlike with a kernel that pins
/// pages; the copies then fault like any access of the program's own.
pub fn prefault(start: usize, len: usize, writable: bool) -> bool {
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
    match advise(first, end - first, advice) {
        Ok(()) => true,
        // A kernel before 5.14 knows no such advice, nor does it for memory of a device.
        Err(libc::EINVAL) if !populates() => mapped(first, end - first),
        Err(_) => false,
    }
}

fn advise(start: usize, len: usize, advice: c_int) -> Result<(), c_int> {
    loop {
        // SAFETY: this advice only makes pages present, as an access to each would.
        if unsafe { libc::madvise(start as *mut _, len, advice) } == 0 {
            return Ok(());
        }
        match io::Error::last_os_error().raw_os_error() {
            Some(libc::EINTR | libc::EAGAIN) => {}
            errno => return Err(errno.unwrap_or(libc::EFAULT)),
        }
    }
}

/// Whether this kernel has the advice at all.
fn populates() -> bool {
    static KNOWN: OnceLock<bool> = OnceLock::new();
    *KNOWN.get_or_init(|| {
        let here = &raw const KNOWN as usize & !(page_size() - 1);
        advise(here, page_size(), libc::MADV_POPULATE_READ) != Err(libc::EINVAL)
    })
}

/// Whether all pages are mapped, as far as an old kernel tells.
fn mapped(start: usize, len: usize) -> bool {
    // In steps: mincore writes a byte per page.
    const STEP: usize = 1024;
    let page = page_size();
    let mut present = [0u8; STEP];
    (0..len).step_by(STEP * page).all(|done| {
        let part = (len - done).min(STEP * page);
        // SAFETY: `present` has a byte for each page of the part.
        unsafe { libc::mincore((start + done) as *mut _, part, present.as_mut_ptr().cast()) == 0 }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(protection: c_int) -> usize {
        // SAFETY: a new anonymous mapping.
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
    fn memory_that_is_not_there_or_read_only_is_noticed() {
        let page = page_size();
        let both = map(libc::PROT_READ | libc::PROT_WRITE);
        assert!(prefault(both + 1, 2 * page - 1, true));
        assert!(prefault(both, 0, true));
        // SAFETY: our own mapping's second page.
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
}
