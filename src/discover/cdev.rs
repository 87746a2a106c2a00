//! Opening a device's char device, which udev may still be creating.

use core::{
    ffi::{CStr, c_int},
    mem, ptr,
    time::Duration,
};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use libc::dev_t;

use super::stack_path::StackPath;
use crate::sys;

/// The directory of the char devices' files.
pub const DIR: &[u8] = b"/dev/infiniband/";

/// How long to wait for udev to create the device file.
const UDEV_TIMEOUT: Duration = Duration::from_secs(5);

/// Opens `/dev/infiniband/NAME` for reading and writing, if it is the char device with this number (any char
/// device if `number` is 0). Otherwise waits up to five seconds for `/dev/char/MAJOR:MINOR`.
///
/// After `None`, errno is that of the last system call that failed.
#[inline(never)]
pub fn open(name: &[u8], number: dev_t) -> Option<OwnedFd> {
    let mut path = StackPath::new().push(DIR).push(name);
    match try_open(path.finish().ok()?, number) {
        None if number != 0 => open_by_number(number),
        opened => opened,
    }
}

fn try_open(path: &CStr, number: dev_t) -> Option<OwnedFd> {
    let fd = sys::open(path, libc::O_RDWR | libc::O_CLOEXEC).ok()?;
    let st = sys::fstat(fd.as_raw_fd()).ok()?;
    let right = st.st_mode & libc::S_IFMT == libc::S_IFCHR && (number == 0 || st.st_rdev == number);
    right.then_some(fd)
}

/// Opens `/dev/char/MAJOR:MINOR`, which udev creates when the device is ready. Only old kernels need this:
/// with devtmpfs the kernel creates the device file before netlink reports the device.
fn open_by_number(number: dev_t) -> Option<OwnedFd> {
    let (major, minor) = (libc::major(number), libc::minor(number));
    let mut path = StackPath::new().push_fmt(format_args!("/dev/char/{major}:{minor}"));
    let path = path.finish().ok()?;

    // SAFETY: inotify_init1 has no preconditions.
    let inotify = owned(unsafe { libc::inotify_init1(libc::IN_CLOEXEC | libc::IN_NONBLOCK) })?;
    // SAFETY: `inotify` owns the open descriptor, and the name is NUL-terminated.
    let added = unsafe {
        libc::inotify_add_watch(inotify.as_raw_fd(), c"/dev/char/".as_ptr(), libc::IN_CREATE)
    };
    if added == -1 {
        return None;
    }
    // SAFETY: timerfd_create has no preconditions.
    let timer = owned(unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_CLOEXEC) })?;
    let zero = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let timeout = libc::itimerspec {
        it_interval: zero,
        it_value: libc::timespec {
            tv_sec: UDEV_TIMEOUT.as_secs() as _,
            ..zero
        },
    };
    // SAFETY: `timer` owns the open timer, `timeout` is readable, and NULL means that no old value is wanted.
    if unsafe { libc::timerfd_settime(timer.as_raw_fd(), 0, &timeout, ptr::null_mut()) } == -1 {
        return None;
    }

    // udev may have created the link before the watch was added.
    if let Some(fd) = try_open(path, number) {
        return Some(fd);
    }
    let poll = |fd: &OwnedFd| libc::pollfd {
        fd: fd.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    let mut fds = [poll(&inotify), poll(&timer)];
    // SAFETY: `fds` has two elements.
    while unsafe { libc::poll(fds.as_mut_ptr(), 2, -1) } > 0 {
        if let Some(fd) = try_open(path, number) {
            return Some(fd);
        }
        let mut events = [0; 16 * mem::size_of::<libc::inotify_event>()];
        let [created, expired] = &fds;
        if created.revents != 0 && sys::read(inotify.as_fd(), &mut events).is_err() {
            return None;
        }
        if expired.revents != 0 {
            return None;
        }
    }
    None
}

fn owned(fd: c_int) -> Option<OwnedFd> {
    // SAFETY: both callers pass what inotify_init1 or timerfd_create has just returned, which nothing else
    // owns.
    (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use ibverbs_abi::Errno;

    use super::*;

    #[test]
    fn opens_only_the_right_char_device() {
        let null = libc::makedev(1, 3);
        assert!(try_open(c"/dev/null", null).is_some());
        assert!(try_open(c"/dev/null", 0).is_some());
        assert!(try_open(c"/dev/null", libc::makedev(1, 5)).is_none());
        assert!(try_open(c"/etc/passwd", 0).is_none());
        assert!(try_open(c"/nonexistent", 0).is_none());
        assert_eq!(Errno::last(), Errno(libc::ENOENT));
        assert!(open(b"no-such-device", 0).is_none());
    }
}
