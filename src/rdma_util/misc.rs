//! Helpers for descriptors and random numbers.

use core::{
    ffi::{CStr, c_char, c_int, c_uint},
    sync::atomic::{AtomicU64, Ordering},
};
use std::os::fd::IntoRawFd;

use libc::dev_t;

use crate::discover::cdev;

/// Opens the character device `/dev/infiniband/NAME` with the device number `number`, or of any number if
/// that is 0. If the file is missing or has another number, opens `/dev/char/MAJOR:MINOR`, and waits up to
/// 5 seconds for udev to create it. Returns a descriptor, which the caller closes, or -1.
///
/// # Safety
/// `name` is a C string.
pub unsafe extern "C" fn open_cdev(name: *const c_char, number: dev_t) -> c_int {
    // SAFETY: `name` is a C string, as the caller promises.
    let name = unsafe { CStr::from_ptr(name) };
    cdev::open(name.to_bytes(), number).map_or(-1, IntoRawFd::into_raw_fd)
}

/// Sets or clears O_NONBLOCK. Returns 0, or -1 with errno set.
pub extern "C" fn set_fd_nonblock(fd: c_int, nonblock: bool) -> c_int {
    // SAFETY: fcntl accepts any number as a descriptor.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    if flags == -1 {
        return -1;
    }
    let wanted = if nonblock {
        flags | libc::O_NONBLOCK
    } else {
        flags & !libc::O_NONBLOCK
    };
    // SAFETY: fcntl accepts any number as a descriptor.
    unsafe { libc::fcntl(fd, libc::F_SETFL, wanted).min(0) }
}

/// Returns a pseudo-random number of 31 bits, not fit for secrets. libhns selects UDP source ports with it.
/// Any thread may call it.
pub extern "C" fn get_random() -> c_uint {
    static STATE: AtomicU64 = AtomicU64::new(0);
    if STATE.load(Ordering::Relaxed) == 0 {
        let mut seed = 0u64;
        // If getrandom() has no bytes yet, the time and the address, which ASLR randomises, are the seed.
        // SAFETY: `seed` has eight writable bytes; time() accepts NULL.
        unsafe {
            libc::getrandom((&raw mut seed).cast(), 8, libc::GRND_NONBLOCK);
            seed ^= libc::time(core::ptr::null_mut()) as u64 ^ (&raw const seed) as u64;
        }
        STATE.store(seed | 1, Ordering::Relaxed);
    }
    // A mixed Weyl sequence. fetch_add gives each call a state of its own, in all threads.
    let state = STATE.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
    let mixed = (state ^ state >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    (mixed >> 33) as c_uint
}

/// Advances a provider's random number generator and returns its next number: Marsaglia's xorshift with the
/// shifts 13, 17 and 5.
///
/// # Safety
/// `state` is writable, and no other thread uses it during the call.
pub unsafe extern "C" fn xorshift32(state: *mut u32) -> u32 {
    // SAFETY: `state` is writable and unused by other threads, as the caller promises.
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
        // SAFETY: eventfd() has no preconditions.
        let fd = unsafe { libc::eventfd(0, 0) };
        assert!(fd >= 0);
        // SAFETY: the descriptor was just created, and nothing else owns it.
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
    fn a_missing_device() {
        // SAFETY: the name is a C string.
        assert_eq!(unsafe { open_cdev(c"no-such-device".as_ptr(), 0) }, -1);
    }

    #[test]
    fn numbers_vary() {
        let numbers: std::collections::HashSet<_> = (0..1000).map(|_| get_random()).collect();
        assert!(numbers.len() > 990);
        assert!(numbers.iter().all(|&n| n <= i32::MAX as u32));
        // The first three of the published generator for the seed 1.
        let mut state = 1;
        // SAFETY: `state` is writable.
        let numbers: [u32; 3] = core::array::from_fn(|_| unsafe { xorshift32(&mut state) });
        assert_eq!(numbers, [270369, 67634689, 2647435461]);
    }
}
