//! The file descriptors that uroce holds, and what a child of fork(2) does with its copies of them.
//!
//! A child that kept them would keep the parent's UDP port taken after the parent has ended. It could also
//! write events to the parent's sockets, even if it has given up the parent's rights. So every descriptor
//! is opened through this module, which records it. In the child, the fork handler
//!
//! - closes uroce's own descriptors ([`Owned`]);
//! - replaces those whose numbers the program knows ([`ProgramFd`]) by a socket at end-of-file. The number
//!   stays open, because the program will close it or read from it.
//!
//! The program may have closed a number and used it again without uroce's knowledge (closefrom(3)). So the
//! child compares device and inode first. So does uroce itself before it closes a descriptor, and before it
//! writes a wakeup or an event ([`Owned::is_unchanged`]). All epoll descriptors have the same inode: for them
//! the comparison recognises the kind only.
//!
//! vfork(2), posix_spawn(3) and clone(2) run no fork handlers. All descriptors are close-on-exec.
//!
//! Invariant: a descriptor is in the table exactly as long as it is open. The table's lock is held while
//! one is opened or closed, and across fork.

use core::mem::ManuallyDrop;
use core::ops::{Deref, DerefMut};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};

use ibverbs_abi::Errno;
use ibverbs_netlink::{RtnlClient, RtnlMonitor};

use crate::sync::Mutex;
use crate::{cancellation, process, tick};

/// A descriptor that this process has opened.
#[derive(Clone, Copy)]
struct OpenDescriptor {
    fd: RawFd,
    identity: Identity,
    /// The program knows the number.
    of_program: bool,
}

impl OpenDescriptor {
    fn is_unchanged(&self) -> bool {
        identity(self.fd) == Some(self.identity)
    }
}

/// An element of the table.
enum DescriptorSlot {
    Used(OpenDescriptor),
    /// The index of the next free element; [`END`] if there is none.
    Free(usize),
}

const END: usize = usize::MAX;

/// The descriptors that are open.
pub(crate) struct DescriptorTable {
    slots: Vec<DescriptorSlot>,
    first_free: usize,
}

pub(crate) static TABLE: Mutex<DescriptorTable> = Mutex::new(DescriptorTable {
    slots: Vec::new(),
    first_free: END,
});

/// Locks the table, so that it is complete in the child. [`after_fork`] unlocks it.
pub fn before_fork() {
    core::mem::forget(TABLE.lock());
}

/// Unlocks the table in the parent and in the child. The child gives up the descriptors first. Calls
/// async-signal-safe functions only, and leaves errno as it is.
///
/// # Safety
/// This thread has called [`before_fork`], and has not called this since.
pub unsafe fn after_fork(is_child: bool) {
    // SAFETY: `before_fork` locked the table in this thread, as the caller says, so nobody else has a
    // reference to the content before it is unlocked here.
    unsafe {
        if is_child {
            (*TABLE.data_ptr()).give_up();
        }
        TABLE.force_unlock();
    }
}

/// An object that owns a descriptor.
pub trait HasDescriptor {
    /// The descriptor, open until the owner is dropped.
    fn descriptor(&self) -> RawFd;
}

macro_rules! has_descriptor {
    ($($owner:ty: $method:ident;)*) => { $(
        impl HasDescriptor for $owner {
            fn descriptor(&self) -> RawFd {
                self.$method()
            }
        }
    )* };
}
has_descriptor! {
    OwnedFd: as_raw_fd;
    socket2::Socket: as_raw_fd;
    RtnlClient: fd;
    RtnlMonitor: fd;
}

/// The owner of a descriptor of uroce. Dropping it closes the descriptor, unless the program has closed it.
/// In a child of the process that opened it, it does nothing, because the child has closed its copy already.
pub struct Owned<T> {
    owner: ManuallyDrop<T>,
    record: Record,
}

/// Opens a descriptor by `open`, which must not use this module. Fails as `open` does, and with ENOMEM if
/// there is no memory to record the descriptor.
pub fn open<T: HasDescriptor>(open: impl FnOnce() -> io::Result<T>) -> io::Result<Owned<T>> {
    let mut table = TABLE.lock();
    table.reserve(1)?;
    let owner = open()?;
    let record = table.add(owner.descriptor(), false);
    Ok(Owned {
        owner: ManuallyDrop::new(owner),
        record,
    })
}

/// Calls `call`, which opens descriptors and closes them again before it returns. No fork happens meanwhile.
/// It must not use this module.
pub fn transient<T>(call: impl FnOnce() -> T) -> T {
    let _table = TABLE.lock();
    call()
}

impl<T> Deref for Owned<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.owner
    }
}

impl<T> DerefMut for Owned<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.owner
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        if !self.record.is_of_this_process() {
            return;
        }
        let mut table = TABLE.lock();
        table.remove(self.record.index);
        if self.record.descriptor.is_unchanged() {
            // SAFETY: `owner` is not used after this, as it is being dropped.
            unsafe { ManuallyDrop::drop(&mut self.owner) };
        }
    }
}

impl<T: HasDescriptor> Owned<T> {
    /// Whether this is still the descriptor that was opened: this process is the one that opened it, and the
    /// program has neither closed it nor used its number again. Takes a system call (fstat(2)), and no lock.
    pub fn is_unchanged(&self) -> bool {
        self.record.is_unchanged()
    }

    /// [`Owned::is_unchanged`] for the data path: as of the present tick of the kernel's clock (1 to 10 ms).
    /// False for good once it is. `last` is used for this descriptor only.
    pub fn was_unchanged(&self, last: &LastCheck) -> bool {
        let now = tick::now_ns();
        match last.0.load(Ordering::Relaxed) {
            LastCheck::CHANGED => false,
            at if at == now => true,
            _ => {
                let unchanged = self.is_unchanged();
                let result = if unchanged { now } else { LastCheck::CHANGED };
                last.0.store(result, Ordering::Relaxed);
                unchanged
            }
        }
    }
}

/// When a descriptor was compared with what it had been. Relaxed: threads that compare at the same time find
/// the same.
#[derive(Default)]
pub struct LastCheck(AtomicU64);

impl LastCheck {
    /// The value of a descriptor that was found to be another file's.
    const CHANGED: u64 = u64::MAX;
}

impl Owned<RtnlClient> {
    /// Gives the descriptor up without closing it: its number is the program's by now.
    pub fn abandon(self) {
        let mut abandoned = ManuallyDrop::new(self);
        if abandoned.record.is_of_this_process() {
            TABLE.lock().remove(abandoned.record.index);
        }
        // SAFETY: `owner` is not used after this, as `abandoned` is not dropped.
        unsafe { ManuallyDrop::take(&mut abandoned.owner) }.abandon();
    }
}

/// A descriptor whose number the program knows. It is not closed on drop: who handed it to the program
/// closes it, before or after that.
pub struct ProgramFd {
    fd: RawFd,
    record: Record,
}

impl ProgramFd {
    /// The number.
    pub fn number(&self) -> RawFd {
        self.fd
    }

    /// As [`Owned::is_unchanged`].
    pub fn is_unchanged(&self) -> bool {
        self.record.is_unchanged()
    }
}

impl Drop for ProgramFd {
    fn drop(&mut self) {
        if self.record.is_of_this_process() {
            TABLE.lock().remove(self.record.index);
        }
    }
}

/// Opens a pair of AF_UNIX SOCK_SEQPACKET sockets: uroce's end, and the program's, which the caller closes.
/// Fails as socketpair(2), and with ENOMEM if there is no memory to record the descriptors.
pub fn open_event_pair() -> io::Result<(Owned<OwnedFd>, ProgramFd)> {
    let mut table = TABLE.lock();
    table.reserve(2)?;
    let mut fds = [-1; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: `fds` has room for two descriptors.
    if unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, fds.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let [ours, program] = fds;
    let owned = Owned {
        record: table.add(ours, false),
        // SAFETY: socketpair has just opened it, and nothing else knows it.
        owner: ManuallyDrop::new(unsafe { OwnedFd::from_raw_fd(ours) }),
    };
    let program = ProgramFd {
        record: table.add(program, true),
        fd: program,
    };
    Ok((owned, program))
}

/// Opens a pipe for wakeups, which does not block: the end to read from, and the other one. Fails as
/// pipe2(2), and with ENOMEM if there is no memory to record the descriptors.
pub fn open_pipe() -> io::Result<[Owned<OwnedFd>; 2]> {
    let mut table = TABLE.lock();
    table.reserve(2)?;
    let mut fds = [-1; 2];
    // SAFETY: `fds` has room for two descriptors.
    if unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(fds.map(|fd| Owned {
        record: table.add(fd, false),
        // SAFETY: pipe2 has just opened it, and nothing else knows it.
        owner: ManuallyDrop::new(unsafe { OwnedFd::from_raw_fd(fd) }),
    }))
}

/// Where the table has a descriptor.
struct Record {
    index: usize,
    /// A copy of what is there.
    descriptor: OpenDescriptor,
    /// The process that the table is of.
    generation: u32,
}

impl Record {
    fn is_of_this_process(&self) -> bool {
        self.generation == process::generation()
    }

    fn is_unchanged(&self) -> bool {
        self.is_of_this_process() && self.descriptor.is_unchanged()
    }
}

impl DescriptorTable {
    /// Reserves memory for `count` more descriptors. ENOMEM if there is none.
    fn reserve(&mut self, count: usize) -> io::Result<()> {
        let reserved = self.slots.try_reserve(count);
        reserved.map_err(|_| io::Error::from_raw_os_error(libc::ENOMEM))
    }

    /// Records a descriptor. Its memory is reserved.
    fn add(&mut self, fd: RawFd, of_program: bool) -> Record {
        let descriptor = OpenDescriptor {
            fd,
            identity: identity(fd).unwrap_or_default(),
            of_program,
        };
        let used = DescriptorSlot::Used(descriptor);
        let index = match self.slots.get_mut(self.first_free) {
            Some(slot) => {
                let index = self.first_free;
                if let DescriptorSlot::Free(next) = core::mem::replace(slot, used) {
                    self.first_free = next;
                }
                index
            }
            None => {
                self.slots.push(used);
                self.slots.len() - 1
            }
        };
        Record {
            index,
            descriptor,
            generation: process::generation(),
        }
    }

    fn remove(&mut self, index: usize) {
        self.slots[index] = DescriptorSlot::Free(self.first_free);
        self.first_free = index;
    }

    /// The descriptors that are the same as when they were recorded.
    fn unchanged(&self, of_program: bool) -> impl Iterator<Item = RawFd> {
        self.slots.iter().filter_map(move |slot| match slot {
            DescriptorSlot::Used(entry) if entry.of_program == of_program => {
                entry.is_unchanged().then_some(entry.fd)
            }
            _ => None,
        })
    }

    /// Closes or replaces this process's copies of all descriptors, and empties the table.
    fn give_up(&mut self) {
        let errno = Errno::last();
        self.unchanged(false).for_each(cancellation::close);
        // After the others: there are free numbers now. Nothing to do if the system has no free sockets.
        if self.unchanged(true).next().is_some() {
            if let Some(end_of_file) = open_end_of_file() {
                for fd in self.unchanged(true) {
                    // SAFETY: dup3 takes no pointers. `fd` is a copy of a descriptor of uroce.
                    unsafe { libc::dup3(end_of_file, fd, libc::O_CLOEXEC) };
                }
                cancellation::close(end_of_file);
            }
        }
        self.slots.clear();
        self.first_free = END;
        errno.set();
    }
}

/// Device and inode.
type Identity = (libc::dev_t, libc::ino_t);

/// The identity of an open descriptor. Leaves errno as it is, for callers that look at that of the
/// call before.
fn identity(fd: RawFd) -> Option<Identity> {
    let errno = Errno::last();
    let mut stat = core::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: `stat` is writable, and read only if fstat has filled it.
    unsafe {
        if libc::fstat(fd, stat.as_mut_ptr()) != 0 {
            errno.set();
            return None;
        }
        let stat = stat.assume_init();
        Some((stat.st_dev, stat.st_ino))
    }
}

/// A descriptor like a program's end of an event pair, at whose end the other is closed: reading reports
/// end-of-file, and writing EPIPE.
fn open_end_of_file() -> Option<RawFd> {
    let mut fds = [-1; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: `fds` has room for two descriptors.
    if unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, fds.as_mut_ptr()) } != 0 {
        return None;
    }
    cancellation::close(fds[1]);
    Some(fds[0])
}

/// Puts one end of a socket pair of the program in the place of uroce's descriptors, as after closefrom(3).
/// Returns both ends: what comes from the second is what was put there. The caller closes all of them.
#[cfg(test)]
pub fn replace_by_sockets(numbers: [RawFd; 2]) -> [RawFd; 2] {
    let mut sockets = [-1; 2];
    let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK;
    // SAFETY: `sockets` has room for two descriptors; the numbers are the test's. Each call to dup3 replaces
    // one of them at once, so no other test gets the number.
    unsafe {
        let result = libc::socketpair(libc::AF_UNIX, kind, 0, sockets.as_mut_ptr());
        assert_eq!(result, 0);
        for number in numbers {
            assert_eq!(libc::dup3(sockets[0], number, libc::O_CLOEXEC), number);
        }
    }
    sockets
}

/// The descriptors that the program does not know.
#[cfg(test)]
pub fn own() -> Vec<RawFd> {
    TABLE.lock().unchanged(false).collect()
}
