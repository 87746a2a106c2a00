//! Injected asynchronous events on devices of the kernel.
//!
//! The kernel's file of events takes no events of others. So `async_fd` of a context becomes an epoll
//! instance with two members: the kernel's file, and an eventfd that is readable while there are injected
//! events. A program may wait for `async_fd` as before. `ibv_get_async_event` finds that it cannot be read
//! (EINVAL), and calls [`next`].
//!
//! Invariant: an injected event is of an object that is in the table of `objects.rs`. The events of an object
//! are discarded when it leaves the table.

use core::ffi::c_int;
use core::sync::atomic::Ordering;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use ibverbs_abi::*;

use crate::memory::lock::ForkLock;
use crate::provider::event::{Subject, subject};
use crate::provider::software;
use crate::uverbs::state::state;

/// The events of a context.
pub struct EventFiles {
    /// The kernel's file. Does not block.
    kernel: OwnedFd,
    /// An eventfd: readable while `injected` is not empty. Does not block.
    ready: OwnedFd,
    injected: VecDeque<ib_uverbs_async_event_desc>,
}

/// The files of events, by address of the context.
static FILES: ForkLock<BTreeMap<usize, EventFiles>> = ForkLock::new(BTreeMap::new());

fn check(result: c_int) -> io::Result<c_int> {
    match result {
        ..0 => Err(io::Error::last_os_error()),
        value => Ok(value),
    }
}

/// The descriptor that a system call has just opened.
fn opened(result: c_int) -> io::Result<OwnedFd> {
    // SAFETY: nothing else owns a descriptor that was just opened.
    check(result).map(|fd| unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Replaces `async_fd` of a new context of the kernel. It keeps its number. Without descriptors or memory for
/// that, no events can be injected.
///
/// # Safety
/// `context` is open, and no other thread knows it yet.
pub unsafe fn attach(context: *mut ibv_context) {
    // SAFETY: the context is open, as the caller promises.
    let (commands, async_fd) = unsafe { ((*context).cmd_fd, (*context).async_fd) };
    // SAFETY: the context is open, as the caller promises.
    let is_software = unsafe { software::of_context(context) }.is_some();
    if is_software || commands < 0 || async_fd < 0 {
        return;
    }
    match replace(async_fd) {
        Ok(files) => {
            let kernel = files.kernel.as_raw_fd();
            FILES.with(|all| all.insert(context as usize, files));
            // SAFETY: the context is open, as the caller promises.
            unsafe { state(context) }
                .kernel_events
                .store(kernel, Ordering::Relaxed);
        }
        Err(error) => log::warn!("IBV_FAULTS: no events can be injected: {error}"),
    }
}

fn replace(async_fd: RawFd) -> io::Result<EventFiles> {
    // SAFETY: these calls take no pointers but `event`, which outlives the calls that read it.
    unsafe {
        let kernel = opened(libc::fcntl(async_fd, libc::F_DUPFD_CLOEXEC, 0))?;
        let ready = opened(libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK))?;
        let both = opened(libc::epoll_create1(libc::EPOLL_CLOEXEC))?;
        for member in [&kernel, &ready] {
            let mut event = libc::epoll_event {
                events: libc::EPOLLIN as u32,
                u64: 0,
            };
            let (both, member) = (both.as_raw_fd(), member.as_raw_fd());
            check(libc::epoll_ctl(
                both,
                libc::EPOLL_CTL_ADD,
                member,
                &mut event,
            ))?;
        }
        let flags = check(libc::fcntl(kernel.as_raw_fd(), libc::F_GETFL))?;
        check(libc::fcntl(
            kernel.as_raw_fd(),
            libc::F_SETFL,
            flags | libc::O_NONBLOCK,
        ))?;
        check(libc::dup3(both.as_raw_fd(), async_fd, libc::O_CLOEXEC))?;
        Ok(EventFiles {
            kernel,
            ready,
            injected: VecDeque::new(),
        })
    }
}

/// The context is about to be closed. The kernel's file is closed with what is returned.
pub fn take(context: usize) -> Option<EventFiles> {
    FILES.with(|all| all.remove(&context)).flatten()
}

/// Adds an event. False if the context is of a software device.
pub fn inject(context: usize, event: ib_uverbs_async_event_desc) -> bool {
    let added = FILES.with(|all| {
        let files = all.get_mut(&context)?;
        files.injected.push_back(event);
        files.signal();
        Some(())
    });
    added.flatten().is_some()
}

/// An object has left the table: its events that were not read are discarded.
pub fn discard(context: usize, object: usize) {
    FILES.with(|all| {
        if let Some(files) = all.get_mut(&context) {
            files.injected.retain(|event| {
                subject(event.event_type) == Subject::Port || event.element != object as u64
            });
            files.settle();
        }
    });
}

impl EventFiles {
    fn signal(&self) {
        let one = 1_u64;
        // SAFETY: `one` has eight readable bytes. A full counter is readable, too.
        unsafe { libc::write(self.ready.as_raw_fd(), (&raw const one).cast(), 8) };
    }

    /// Without injected events the eventfd is not readable.
    fn settle(&self) {
        if self.injected.is_empty() {
            let mut count = 0_u64;
            // SAFETY: `count` has eight writable bytes.
            unsafe { libc::read(self.ready.as_raw_fd(), (&raw mut count).cast(), 8) };
        }
    }

    fn take_event(&mut self) -> Option<ib_uverbs_async_event_desc> {
        let event = self.injected.pop_front();
        self.settle();
        event
    }
}

/// Reads the next event of a context whose `async_fd` was replaced: an injected one, or one of the kernel.
/// Injected ones are dropped for which `is_wanted` returns false.
/// Blocks in poll(), a cancellation point, unless `async_fd` has O_NONBLOCK. None with errno set if that
/// fails; then also if `async_fd` was not replaced.
///
/// # Safety
/// `context` is open.
pub unsafe fn next(
    context: *mut ibv_context,
    is_wanted: fn(&ib_uverbs_async_event_desc) -> bool,
) -> Option<ib_uverbs_async_event_desc> {
    let errno = Errno::last();
    loop {
        let found = FILES.with(|all| {
            let files = all.get_mut(&(context as usize))?;
            let numbers = [files.kernel.as_raw_fd(), files.ready.as_raw_fd()];
            Some((files.take_event(), numbers))
        });
        let Some((injected, [kernel, ready])) = found.flatten() else {
            errno.set();
            return None;
        };
        match injected {
            Some(event) if is_wanted(&event) => return Some(event),
            Some(_) => continue,
            None => {}
        }
        // SAFETY: the context is open, as the caller promises, so its files are, too.
        unsafe {
            match read_kernel(kernel) {
                Ok(event) => return Some(event),
                Err(Errno(libc::EAGAIN)) => {}
                Err(errno) => {
                    errno.set();
                    return None;
                }
            }
            if libc::fcntl((*context).async_fd, libc::F_GETFL) & libc::O_NONBLOCK != 0 {
                Errno(libc::EAGAIN).set();
                return None;
            }
            let file = |fd| libc::pollfd {
                fd,
                events: libc::POLLIN,
                revents: 0,
            };
            if libc::poll([file(kernel), file(ready)].as_mut_ptr(), 2, -1) < 0 {
                return None;
            }
        }
    }
}

/// # Safety
/// `file` is the kernel's file of events.
unsafe fn read_kernel(file: RawFd) -> Result<ib_uverbs_async_event_desc, Errno> {
    let mut event = core::mem::MaybeUninit::<ib_uverbs_async_event_desc>::uninit();
    let size = size_of::<ib_uverbs_async_event_desc>();
    // SAFETY: `event` has `size` writable bytes; it is initialised if all of them were read.
    unsafe {
        if libc::read(file, event.as_mut_ptr().cast(), size) != size as isize {
            return Err(Errno::last());
        }
        Ok(event.assume_init())
    }
}

pub fn prepare_fork() {
    FILES.prepare_fork(|_| ());
}

pub fn after_fork() {
    FILES.after_fork();
}
