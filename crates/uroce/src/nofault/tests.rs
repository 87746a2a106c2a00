//! The accesses themselves: what they copy, and that they end at memory that cannot be accessed.

use core::ffi::c_void;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::*;

pub(crate) fn page_size() -> usize {
    // SAFETY: sysconf has no preconditions.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
}

/// Where the next pages go: far from what the kernel chooses, so that nothing else is mapped to a page that a
/// test has unmapped.
static NEXT: AtomicUsize = AtomicUsize::new(0x1000_0000_0000);

/// Two pages that a test makes inaccessible in some way.
pub(crate) struct Pages {
    at: *mut u8,
    file: Option<OwnedFd>,
}

/// The change that a test makes to the second page.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Loss {
    Unmapped,
    NoAccess,
    ReadOnly,
    Truncated,
}

impl Pages {
    pub fn new(loss: Loss) -> Pages {
        let len = 2 * page_size();
        // SAFETY: new mappings at addresses of the kernel's choice, of a new file.
        unsafe {
            let file = (loss == Loss::Truncated).then(|| {
                let fd = libc::memfd_create(c"test".as_ptr(), libc::MFD_CLOEXEC);
                assert!(fd >= 0 && libc::ftruncate(fd, len as i64) == 0);
                OwnedFd::from_raw_fd(fd)
            });
            let fd = file.as_ref().map_or(-1, OwnedFd::as_raw_fd);
            let flags = match file {
                Some(_) => libc::MAP_SHARED,
                None => libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            };
            let rights = libc::PROT_READ | libc::PROT_WRITE;
            let hint = NEXT.fetch_add(8 * len, Ordering::Relaxed) as *mut c_void;
            let at = libc::mmap(hint, len, rights, flags, fd, 0);
            assert_ne!(at, libc::MAP_FAILED);
            Pages {
                at: at.cast(),
                file,
            }
        }
    }

    /// The first byte of the second page.
    pub fn border(&self) -> *mut u8 {
        self.at.wrapping_add(page_size())
    }

    /// Makes the second page inaccessible in the way that [`Pages::new`] was called for.
    pub fn lose(&self, loss: Loss) {
        let (at, page) = (self.border().cast(), page_size());
        // SAFETY: the page is the test's, and nobody accesses it from here on but by the functions under
        // test.
        let result = unsafe {
            match (loss, &self.file) {
                (_, Some(file)) => libc::ftruncate(file.as_raw_fd(), page as i64),
                (Loss::NoAccess, _) => libc::mprotect(at, page, libc::PROT_NONE),
                (Loss::ReadOnly, _) => libc::mprotect(at, page, libc::PROT_READ),
                (Loss::Unmapped | Loss::Truncated, _) => libc::munmap(at, page),
            }
        };
        assert_eq!(result, 0);
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's; where a page is not mapped, nothing happens.
        unsafe { libc::munmap(self.at.cast(), 2 * page_size()) };
    }
}

pub(crate) const LOSSES: [Loss; 4] = [
    Loss::Unmapped,
    Loss::NoAccess,
    Loss::ReadOnly,
    Loss::Truncated,
];

/// Every length up to a few rounds of the loops, at all offsets of source and destination: exactly these
/// bytes.
#[test]
fn copies_are_exact() {
    crate::arch::nofault::prepare();
    let from: Vec<u8> = (0..1024_u32).map(|i| (i * 31 + (i >> 8)) as u8).collect();
    for len in (0..300).chain([383, 384, 385, 511, 512, 900]) {
        for offset in 0..64 {
            let (source, destination) = (offset * 7 % 64, offset);
            let mut to = [0xee_u8; 1024];
            // SAFETY: both have 1024 bytes.
            let copied = unsafe {
                copy(
                    from.as_ptr().add(source),
                    to.as_mut_ptr().add(destination),
                    len,
                )
            };
            assert_eq!(copied, Ok(()));
            let (before, rest) = to.split_at(destination);
            let (bytes, after) = rest.split_at(len);
            assert_eq!(bytes, &from[source..source + len], "{len} at {offset}");
            let is_untouched = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0xee);
            assert!(is_untouched(before) && is_untouched(after));
        }
    }
}

/// Copies that end one byte, or more, behind the border fail, and those that end there do not.
#[test]
fn copies_end_at_memory_that_is_lost() {
    handler::install();
    for loss in LOSSES {
        let pages = Pages::new(loss);
        pages.lose(loss);
        for len in [
            1, 2, 3, 4, 7, 8, 15, 16, 17, 32, 33, 64, 65, 128, 129, 200, 1000,
        ] {
            let mut own = vec![0_u8; len];
            let at = pages.border().wrapping_sub(len);
            for beyond in [0, 1, len / 2, len] {
                let at = at.wrapping_add(beyond);
                let expected = if beyond == 0 { Ok(()) } else { Err(Fault) };
                // SAFETY: `own` has the length; the pages are the test's.
                let (read, written) =
                    unsafe { (copy(at, own.as_mut_ptr(), len), copy(own.as_ptr(), at, len)) };
                assert_eq!(written, expected, "{loss:?} {len} {beyond}");
                let may_read = loss == Loss::ReadOnly;
                assert_eq!(read, if may_read { Ok(()) } else { expected });
            }
        }
    }
}

#[test]
fn words_are_accessed_as_one_or_not_at_all() {
    handler::install();
    for loss in LOSSES {
        let pages = Pages::new(loss);
        pages.lose(loss);
        let lost = pages.border().cast::<u64>();
        let mapped = lost.wrapping_sub(1);
        // SAFETY: the pages are the test's.
        unsafe {
            assert_eq!(store(mapped, 5), Ok(()));
            assert_eq!(load(mapped), Ok(5));
            assert_eq!(compare_exchange(mapped, 4, 6), Ok(5));
            assert_eq!(compare_exchange(mapped, 5, 7), Ok(5));
            assert_eq!(load(mapped), Ok(7));
            assert_eq!(store(lost, 5), Err(Fault), "{loss:?}");
            assert_eq!(compare_exchange(lost, 0, 1), Err(Fault));
            let read = if loss == Loss::ReadOnly {
                Ok(0)
            } else {
                Err(Fault)
            };
            assert_eq!(load(lost), read);
        }
    }
}
