//! madvise(2), told which pages a child of fork(2) is to have.

use super::ranges::Change;
use crate::sys::errno;
use libc::{c_int, c_void};

/// Excludes `len` bytes at `address` from children, or gives them back. The error is an errno value.
///
/// Giving back cannot fail: what the kernel refuses as a whole (it may need to split a mapping and
/// have no room for it, or a part may be unmapped by now) is tried in steps of `page` bytes, and
/// what it then still refuses stays excluded.
pub fn advise(address: usize, len: usize, change: Change, page: usize) -> Result<(), c_int> {
    let advice = match change {
        Change::Hold => libc::MADV_DONTFORK,
        Change::Release => libc::MADV_DOFORK,
    };
    if madvise(address, len, advice) {
        return Ok(());
    }
    match change {
        Change::Hold => return Err(errno()),
        Change::Release if len > page => {
            for offset in (0..len).step_by(page) {
                madvise(address.wrapping_add(offset), page, advice);
            }
        }
        Change::Release => {}
    }
    Ok(())
}

/// Whether madvise(2) knows the two advices, tried on `len` bytes at `address`.
pub fn works(address: usize, len: usize) -> bool {
    madvise(address, len, libc::MADV_DONTFORK) && madvise(address, len, libc::MADV_DOFORK)
}

fn madvise(address: usize, len: usize, advice: c_int) -> bool {
    // SAFETY: the advice is DONTFORK or DOFORK, which change what a child inherits and leave the
    // mapping's contents and access rights in this process as they are, whatever the address.
    unsafe { libc::madvise(address as *mut c_void, len, advice) == 0 }
}
