//! Access to the memory of another process: process_vm_writev(2), process_vm_readv(2).
//!
//! Not here: where the bytes are, and whether they may be accessed (`imports.rs`).

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

use ibverbs_abi::Errno;
use libc::{iovec, pid_t};

use super::fd_info;
use crate::arch::COPIES_IN_ORDER;
use crate::cancellation;
use crate::descriptors::{self, Owned};
use crate::nofault::{self, Fault};
use crate::restart::{self, Condition, Outcome};

/// The last bytes of a WRITE, which become visible after all others: programs poll the last byte of a
/// message.
const TAIL_LEN: usize = 8;
/// The last page of all addresses: no program has memory there.
const NOWHERE: u64 = u64::MAX << 12;
/// PR_SET_PTRACER_ANY of prctl(2).
const ANY_PROCESS: libc::c_ulong = libc::c_ulong::MAX;

/// Lets processes of the same user access this process's memory where Yama, a security module of Linux,
/// allows that to a process's parents only.
pub fn allow_peers() {
    let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope");
    if scope.is_ok_and(|scope| scope.trim() == "1") {
        // SAFETY: prctl takes no pointer here.
        unsafe { libc::prctl(libc::PR_SET_PTRACER, ANY_PROCESS) };
    }
}

/// A process whose memory this one can access.
///
/// The number of a process that has ended may be given to another one. The descriptor says whether it has
/// ended, whatever the process does; to ask takes a system call. So an access is made only if that was asked
/// a short time before, in which numbers are not used again.
pub struct Process {
    pid: pid_t,
    pidfd: Owned<OwnedFd>,
    /// The time at which the process was there last, in [`restart::ticks`].
    verified_at: AtomicU64,
    /// The process has ended, or the kernel has refused an access: the process has changed its user, or its
    /// first thread has ended.
    is_refused: AtomicBool,
}

/// The bytes of a request in the process of the target.
pub struct Located<'a> {
    /// The address of the bytes.
    pub address: u64,
    /// While it holds, they may be accessed.
    pub condition: Condition<'a>,
}

/// The result of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copied {
    /// All bytes.
    All,
    /// The copy is incomplete: some bytes may have been copied. To try again is of no use.
    NotAll,
    /// The copy is incomplete, as the condition does not hold any more, or the thread was not run
    /// for a moment.
    Again,
}

impl Process {
    /// The process with this number. Fails as pidfd_open(2).
    pub fn open(pid: pid_t) -> io::Result<Process> {
        let pidfd = descriptors::open(|| {
            // SAFETY: pidfd_open takes no pointer.
            let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            // SAFETY: pidfd_open has just opened it, and nothing else knows it.
            Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
        })?;
        Ok(Process {
            pid,
            pidfd,
            verified_at: AtomicU64::new(0),
            is_refused: AtomicBool::new(false),
        })
    }

    /// The number of the process in /proc, if that is its number here: the /proc of another PID namespace has
    /// others. Opens a descriptor, and closes it again. Fails with EPERM, and as [`fd_info::process`].
    pub fn number_in_proc(&self) -> io::Result<pid_t> {
        match fd_info::process(self.pidfd.as_raw_fd())? {
            number if number == i64::from(self.pid) => Ok(self.pid),
            _ => Err(io::Error::from_raw_os_error(libc::EPERM)),
        }
    }

    /// Whether the kernel lets this process access the memory of that one. Nothing of it is accessed: whoever
    /// serves a page of it (userfaultfd(2), FUSE) could keep the calling thread waiting for good.
    pub fn is_accessible(&self) -> bool {
        let mut byte = 0_u8;
        let local = iovec {
            iov_base: (&raw mut byte).cast(),
            iov_len: 1,
        };
        // SAFETY: the kernel checks all addresses; `byte` is writable.
        let got = unsafe { libc::process_vm_readv(self.pid, &local, 1, &part(NOWHERE, 1), 1, 0) };
        got < 0 && Errno::last() == Errno(libc::EFAULT)
    }

    /// Asks whether the process exists. If not, no access is made any more.
    pub fn verify(&self) -> bool {
        let now = restart::ticks();
        let exists = self.pidfd.is_unchanged() && !is_readable(self.pidfd.as_raw_fd());
        match exists {
            true => self.verified_at.store(now, Ordering::Relaxed),
            false => self.is_refused.store(true, Ordering::Relaxed),
        }
        exists
    }

    /// The address of `verified_at`, for the condition of an access.
    pub fn verified_at(&self) -> *const u64 {
        self.verified_at.as_ptr()
    }

    /// Whether the kernel has allowed all accesses so far.
    pub fn is_allowed(&self) -> bool {
        !self.is_refused.load(Ordering::Relaxed)
    }

    /// Evaluates the result of a system call: the number of bytes, or a negative error number.
    #[inline]
    fn copied(&self, result: i64) -> usize {
        if result < 0 {
            let refusals = [libc::EPERM, libc::ESRCH, libc::ENOSYS].map(|errno| -i64::from(errno));
            if refusals.contains(&result) {
                self.is_refused.store(true, Ordering::Relaxed);
            }
        }
        result.max(0) as usize
    }

    /// Copies `len` bytes at `address` into local memory, which is no shorter, while the condition holds.
    ///
    /// # Safety
    /// `local` names memory that may be written to.
    pub unsafe fn read(&self, local: &[iovec], at: &Located, len: usize) -> Copied {
        let remote = [part(at.address, len)];
        // SAFETY: the kernel checks all addresses; what `local` names may be written to.
        unsafe { self.copy(libc::SYS_process_vm_readv, local, &remote, at, len) }
    }

    /// Copies local memory of `len` bytes to `address`, while the condition holds. The last bytes become
    /// visible last.
    ///
    /// # Safety
    /// `local` names memory that may be read.
    pub unsafe fn write(&self, local: &[iovec], at: &Located, len: usize) -> Copied {
        let address = at.address;
        let head_len = len.saturating_sub(TAIL_LEN);
        let (head, tail) = (
            part(address, head_len),
            part(address + head_len as u64, len - head_len),
        );
        // Earlier writes of the program are visible to those that see these bytes.
        fence(Ordering::Release);
        // SAFETY: `local` names memory that may be read, as the caller says, and `last` is this function's.
        unsafe {
            let write = |local: &[iovec], remote: &[iovec], len| {
                self.copy(libc::SYS_process_vm_writev, local, remote, at, len)
            };
            if head_len == 0 {
                return write(local, &[tail], len);
            }
            if COPIES_IN_ORDER {
                return write(local, &[head, tail], len);
            }
            let mut last = [0_u8; TAIL_LEN];
            if last_bytes(local, len, &mut last).is_err() {
                return Copied::NotAll;
            }
            let copied = write(local, &[head], head_len);
            if copied != Copied::All {
                return copied;
            }
            fence(Ordering::SeqCst);
            let own = iovec {
                iov_base: last.as_mut_ptr().cast(),
                iov_len: TAIL_LEN,
            };
            write(&[own], &[tail], TAIL_LEN)
        }
    }

    /// Makes one of the two system calls, for `len` bytes.
    ///
    /// # Safety
    /// As for [`Process::read`] or [`Process::write`].
    unsafe fn copy(
        &self,
        number: libc::c_long,
        local: &[iovec],
        remote: &[iovec],
        at: &Located,
        len: usize,
    ) -> Copied {
        let arguments = [
            self.pid as usize,
            local.as_ptr().expose_provenance(),
            local.len(),
            remote.as_ptr().expose_provenance(),
            remote.len(),
            0,
        ];
        // SAFETY: the kernel checks all addresses; the lists are valid, as the caller says.
        match unsafe { restart::call(number, arguments, &at.condition) } {
            Outcome::Called(result) if self.copied(result) == len => Copied::All,
            Outcome::Called(_) | Outcome::Unavailable => Copied::NotAll,
            Outcome::Stale if !self.verify() => Copied::NotAll,
            Outcome::Changed | Outcome::Stale | Outcome::Restarted => Copied::Again,
        }
    }
}

/// Whether a descriptor can be read: for one of a process, whether the process has ended.
fn is_readable(fd: RawFd) -> bool {
    let mut poll = [libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    }];
    let at_once = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    cancellation::ppoll(&mut poll, Some(at_once)) != 0
}

fn part(address: u64, len: usize) -> iovec {
    iovec {
        iov_base: core::ptr::without_provenance_mut(address as usize),
        iov_len: len,
    }
}

/// Copies the last bytes of local memory of `len` bytes.
///
/// # Safety
/// `local` names memory that may be read, of `len` bytes at least.
unsafe fn last_bytes(local: &[iovec], len: usize, into: &mut [u8; TAIL_LEN]) -> Result<(), Fault> {
    let first = len - TAIL_LEN;
    let mut at = 0;
    for vector in local {
        let bytes = vector.iov_base.cast::<u8>();
        let skip = first.saturating_sub(at).min(vector.iov_len);
        let end = vector.iov_len.min(len.saturating_sub(at)).max(skip);
        if let Some(part) = into.get_mut((at + skip).saturating_sub(first)..) {
            // SAFETY: `end` is no more than the vector's length; `part` has what is left of the last bytes.
            unsafe { nofault::copy(bytes.add(skip), part.as_mut_ptr(), end - skip) }?;
        }
        at += vector.iov_len;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;
    use crate::nofault::handler;
    use crate::nofault::tests::{LOSSES, Loss, Pages};
    use crate::restart::Condition;

    fn vectors(parts: &mut [&mut [u8]]) -> Vec<iovec> {
        let vector = |part: &mut &mut [u8]| iovec {
            iov_base: part.as_mut_ptr().cast(),
            iov_len: part.len(),
        };
        parts.iter_mut().map(vector).collect()
    }

    /// This process.
    fn own() -> Process {
        let process = Process::open(std::process::id() as pid_t).unwrap();
        assert!(process.is_accessible() && process.verify());
        process
    }

    /// A place whose owner changes it when the word does.
    fn located<'a>(process: &'a Process, address: u64, word: &'a AtomicU32) -> Located<'a> {
        let checks = [(word.as_ptr().cast_const(), 0); 4];
        // SAFETY: word and process outlive the condition.
        let condition = unsafe { Condition::new(checks, process.verified_at()) };
        Located { address, condition }
    }

    /// Repeats a copy as initiators do, until its result is not `Again`.
    fn settled(copy: impl FnMut() -> Copied) -> Copied {
        let mut tries = std::iter::repeat_with(copy).take(100);
        let copied = tries.find(|copied| *copied != Copied::Again);
        copied.unwrap_or(Copied::Again)
    }

    #[test]
    fn bytes_are_copied_in_both_directions() {
        let process = own();
        let word = AtomicU32::new(0);
        for len in [1, 7, 8, 9, 100, 5000] {
            let mut from: Vec<u8> = (0..len).map(|i| (i as u8).wrapping_add(1)).collect();
            let expected = from.clone();
            let mut to = vec![0_u8; len];
            let at = located(&process, to.as_mut_ptr().expose_provenance() as u64, &word);
            let (first, second) = from.split_at_mut(len / 3);
            let local = vectors(&mut [first, second]);
            // SAFETY: the vectors name `from`.
            let copied = settled(|| unsafe { process.write(&local, &at, len) });
            assert_eq!(copied, Copied::All);
            assert_eq!(to, expected);
            from.fill(0);
            let (first, second) = from.split_at_mut(len / 2);
            let local = vectors(&mut [first, second]);
            // SAFETY: the vectors name `from`.
            let copied = settled(|| unsafe { process.read(&local, &at, len) });
            assert_eq!(copied, Copied::All);
            assert_eq!(from, expected);
        }
        let mut byte = [0];
        let local = vectors(&mut [&mut byte]);
        // SAFETY: the vector names `byte`.
        let copied = settled(|| unsafe { process.write(&local, &located(&process, 8, &word), 1) });
        assert_eq!(copied, Copied::NotAll);
    }

    #[test]
    fn nothing_is_copied_once_the_condition_does_not_hold() {
        let process = own();
        let (mut from, mut to) = ([1_u8; 16], [0_u8; 16]);
        let word = AtomicU32::new(1);
        let at = located(&process, to.as_mut_ptr().expose_provenance() as u64, &word);
        let local = vectors(&mut [&mut from]);
        // SAFETY: the vector names `from`.
        let copied = settled(|| unsafe { process.write(&local, &at, 16) });
        assert_eq!((copied, to), (Copied::Again, [0; 16]));
    }

    /// The number of a process that has ended may be that of another one, which is not accessed.
    #[test]
    fn a_process_that_has_ended_is_not_accessed() {
        let mut child = std::process::Command::new("sleep");
        let mut child = child.arg("1000").spawn().unwrap();
        let mut process = Process::open(child.id() as pid_t).unwrap();
        assert!(process.verify() && process.is_allowed());
        child.kill().unwrap();
        child.wait().unwrap();
        // The number of a process that is there.
        process.pid = std::process::id() as pid_t;
        process.verified_at.store(0, Ordering::Relaxed);
        assert!(!process.verify());
        let (mut from, mut to) = ([1_u8; 8], [0_u8; 8]);
        let word = AtomicU32::new(0);
        let at = located(&process, to.as_mut_ptr().expose_provenance() as u64, &word);
        let local = vectors(&mut [&mut from]);
        // SAFETY: the vector names `from`.
        let copied = settled(|| unsafe { process.write(&local, &at, 8) });
        assert_eq!((copied, to), (Copied::NotAll, [0; 8]));
        assert!(!process.is_allowed());
    }

    #[test]
    fn who_may_access_a_process() {
        let mut process = own();
        let pid = process.pid;
        assert_eq!(process.number_in_proc().unwrap(), pid);
        // It has ended: no process has this number.
        process.pid = pid_t::MAX;
        assert!(!process.is_accessible());
        let refused = process.number_in_proc().unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::EPERM));
    }

    #[test]
    fn the_last_bytes_of_several_parts() {
        let mut bytes: Vec<u8> = (0..20).collect();
        for cuts in [(0, 0), (3, 12), (13, 15), (14, 20), (20, 20)] {
            let (first, rest) = bytes.split_at_mut(cuts.0);
            let (second, third) = rest.split_at_mut(cuts.1 - cuts.0);
            let local = vectors(&mut [first, second, third]);
            let mut last = [0; TAIL_LEN];
            // SAFETY: the vectors name `bytes`.
            assert_eq!(unsafe { last_bytes(&local, 19, &mut last) }, Ok(()));
            assert_eq!(last, [11, 12, 13, 14, 15, 16, 17, 18], "{cuts:?}");
        }
    }

    #[test]
    fn last_bytes_that_are_lost() {
        handler::install();
        for loss in LOSSES {
            let pages = Pages::new(loss);
            pages.lose(loss);
            let local = iovec {
                iov_base: pages.border().wrapping_sub(20).cast(),
                iov_len: 25,
            };
            // SAFETY: the pages are the test's.
            let copied = unsafe { last_bytes(&[local], 25, &mut [0; TAIL_LEN]) };
            let is_readable = loss == Loss::ReadOnly;
            assert_eq!(copied, if is_readable { Ok(()) } else { Err(Fault) });
        }
    }
}
