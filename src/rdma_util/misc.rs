//! Small helpers: descriptors and random numbers.

use core::{
    ffi::{CStr, c_char, c_int, c_uint},
    sync::atomic::{AtomicU64, Ordering},
};
use std::os::fd::IntoRawFd;

use libc::dev_t;

use crate::discover::cdev;

/// Opens the char device `/dev/infiniband/NAME` with the number `number`, wherever udev put it. A descriptor,
/// or -1.
///
/// # Safety
/// `name` is a C string.
pub unsafe extern "C" fn open_cdev(name: *const c_char, number: dev_t) -> c_int {
    // SAFETY: by the contract.
    let name = unsafe { CStr::from_ptr(name) };
    cdev::open(name.to_bytes(), number).map_or(-1, IntoRawFd::into_raw_fd)
}

/// Sets or clears O_NONBLOCK. 0, or -1 with errno set.
pub extern "C" fn set_fd_nonblock(fd: c_int, nonblock: bool) -> c_int {
    // SAFETY: fcntl refuses what is no descriptor.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    if flags == -1 {
        return -1;
    }
    let wanted = if nonblock {
        flags | libc::O_NONBLOCK
    } else {
        flags & !libc::O_NONBLOCK
    };
    // SAFETY: as above.
    unsafe { libc::fcntl(fd, libc::F_SETFL, wanted).min(0) }
}

/// A number that others do not guess by chance: hns picks UDP source ports with it. Not for secrets.
pub extern "C" fn get_random() -> c_uint {
    static STATE: AtomicU64 = AtomicU64::new(0);
    if STATE.load(Ordering::Relaxed) == 0 {
        let mut seed = 0u64;
        // SAFETY: the eight bytes of `seed`. The address, if the kernel has none to give, is random too.
        unsafe {
            libc::getrandom((&raw mut seed).cast(), 8, libc::GRND_NONBLOCK);
            seed ^= libc::time(core::ptr::null_mut()) as u64 ^ (&raw const seed) as u64;
        }
        STATE.store(seed | 1, Ordering::Relaxed);
    }
    // A Weyl sequence, mixed: no two threads see the same state.
    let state = STATE.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
    let mixed = (state ^ state >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    (mixed >> 33) as c_uint
}

/// The next number of a provider's own generator: Marsaglia's xorshift with the shifts 13, 17 and 5.
///
/// # Safety
/// `state` is the generator's, and nobody else uses it now.
pub unsafe extern "C" fn xorshift32(state: *mut u32) -> u32 {
    // SAFETY: by the contract.
    let state = unsafe { &mut *state };
    for shift in [13, -17, 5] {
        *state ^= if shift > 0 {
            *state << shift
        } else {
            *state >> -shift
        };
    }
    *state
}

#[cfg(test)]
mod tests {
    use ibverbs_abi::Errno;
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

    use super::*;

    #[test]
    fn nonblocking_on_and_off() {
        // SAFETY: a new descriptor, or -1, which is checked.
        let fd = unsafe { libc::eventfd(0, 0) };
        assert!(fd >= 0);
        // SAFETY: as above.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        for on in [true, true, false, false] {
            assert_eq!(set_fd_nonblock(fd.as_raw_fd(), on), 0);
            // SAFETY: the descriptor is open.
            let flags = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) };
            assert_eq!(flags & libc::O_NONBLOCK != 0, on);
        }
        assert_eq!(set_fd_nonblock(-1, true), -1);
        assert_eq!(Errno::last(), Errno(libc::EBADF));
    }

    #[test]
    fn a_device_that_is_not_there() {
        // SAFETY: a C string.
        assert_eq!(unsafe { open_cdev(c"no-such-device".as_ptr(), 0) }, -1);
    }

    #[test]
    fn numbers_vary() {
        let numbers: std::collections::HashSet<_> = (0..1000).map(|_| get_random()).collect();
        assert!(numbers.len() > 990);
        assert!(numbers.iter().all(|&n| n <= i32::MAX as u32));
        // The first three of the published generator for the seed 1.
        let mut state = 1;
        // SAFETY: our own state.
        let numbers: [u32; 3] = core::array::from_fn(|_| unsafe { xorshift32(&mut state) });
        assert_eq!(numbers, [270369, 67634689, 2647435461]);
    }
}
