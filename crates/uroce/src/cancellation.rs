//! Thread cancellation (pthread_cancel(3)). A thread that is cancelled in the middle of a verb would leave
//! locks of the device held for good. So no verb of uroce is a cancellation point, except `ibv_poll_cq`
//! where it has found nothing and holds nothing ([`point`]): a thread that only polls could not be
//! cancelled otherwise.
//!
//! Control verbs disable cancellation while they run ([`disable`]). The data path makes its system calls
//! through this module instead: like libc's functions of the same name, but no cancellation points, and
//! without the cost of [`disable`]. Locks block by futex(2), which is no cancellation point either.

use core::ffi::{c_int, c_void};
use core::ptr::null_mut;
use std::os::fd::RawFd;

pub use ibverbs_abi::disable_cancellation as disable;

unsafe extern "C" {
    // Not in the libc crate.
    fn pthread_testcancel();
}

/// Ends the thread if a request to cancel it is pending. The caller holds no lock and owns nothing that
/// must be dropped.
pub fn point() {
    // SAFETY: the call has no arguments. Unwinding past callers is defined, since none has a destructor to
    // run.
    unsafe { pthread_testcancel() };
}

/// recvmmsg(2) without a timeout.
///
/// # Safety
/// `messages` has `count` elements, which point to memory of the lengths that they give.
pub unsafe fn recvmmsg(fd: RawFd, messages: *mut libc::mmsghdr, count: u32, flags: c_int) -> c_int {
    let no_timeout = null_mut::<libc::timespec>();
    // SAFETY: the caller passes `count` valid elements; a NULL timeout means none.
    unsafe { libc::syscall(libc::SYS_recvmmsg, fd, messages, count, flags, no_timeout) as c_int }
}

/// sendmmsg(2).
///
/// # Safety
/// `messages` has `count` elements, which point to memory of the lengths that they give.
pub unsafe fn sendmmsg(fd: RawFd, messages: *mut libc::mmsghdr, count: u32, flags: c_int) -> c_int {
    // SAFETY: the caller passes `count` valid elements.
    unsafe { libc::syscall(libc::SYS_sendmmsg, fd, messages, count, flags) as c_int }
}

/// Events of an epoll descriptor that are pending now, as epoll_wait(2) with a timeout of 0 reports them.
pub fn epoll_poll(fd: RawFd, events: &mut [libc::epoll_event]) -> c_int {
    let no_mask = null_mut::<libc::sigset_t>();
    // SAFETY: `events` has as many writable elements as are passed. The size of a mask that is NULL is
    // not used.
    unsafe {
        let (at, count) = (events.as_mut_ptr(), events.len());
        libc::syscall(libc::SYS_epoll_pwait, fd, at, count, 0, no_mask, 8_usize) as c_int
    }
}

/// ppoll(2) without a signal mask; the kernel may change `timeout`.
pub fn ppoll(fds: &mut [libc::pollfd], mut timeout: Option<libc::timespec>) -> c_int {
    let no_mask = null_mut::<libc::sigset_t>();
    let timeout = timeout.as_mut().map_or(null_mut(), core::ptr::from_mut);
    // SAFETY: `fds` has as many elements as are passed; the timeout is NULL or points to this function's
    // own copy. The size of a mask that is NULL is not used.
    unsafe {
        let (at, count) = (fds.as_mut_ptr(), fds.len());
        libc::syscall(libc::SYS_ppoll, at, count, timeout, no_mask, 8) as c_int
    }
}

/// send(2).
pub fn send(fd: RawFd, bytes: &[u8], flags: c_int) -> isize {
    let no_address = null_mut::<c_void>();
    // SAFETY: the bytes are readable; there is no address.
    unsafe {
        let (at, len) = (bytes.as_ptr(), bytes.len());
        libc::syscall(libc::SYS_sendto, fd, at, len, flags, no_address, 0) as isize
    }
}

/// write(2).
pub fn write(fd: RawFd, bytes: &[u8]) -> isize {
    // SAFETY: the bytes are readable.
    unsafe { libc::syscall(libc::SYS_write, fd, bytes.as_ptr(), bytes.len()) as isize }
}

/// close(2).
pub fn close(fd: RawFd) {
    // SAFETY: close takes no pointers; the caller owns the descriptor.
    unsafe { libc::syscall(libc::SYS_close, fd) };
}

/// msync(2) with MS_SYNC.
pub fn msync(start: usize, len: usize) -> c_int {
    // SAFETY: msync writes pages to their file and changes nothing in memory, whatever the range is.
    unsafe { libc::syscall(libc::SYS_msync, start, len, libc::MS_SYNC) as c_int }
}
