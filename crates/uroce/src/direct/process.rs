//! The memory of another process: process_vm_writev(2), process_vm_readv(2).

use std::sync::atomic::{AtomicBool, Ordering, fence};

use libc::{iovec, pid_t};

use crate::arch::COPIES_IN_ORDER;
use crate::nofault::{self, Fault};

/// The last bytes of a WRITE, which become visible after all others: programs poll the last byte of a
/// message.
const TAIL_LEN: usize = 8;
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

/// Another process whose memory can be accessed.
#[derive(Debug)]
pub struct Process {
    pid: pid_t,
    /// The kernel has refused an access: the process has changed its user, or its first thread has ended.
    is_refused: AtomicBool,
}

impl Process {
    /// The process, if it has that value at an address, and the kernel allows access.
    pub fn find(pid: pid_t, address: u64, expected: u64) -> Option<Process> {
        let mut value = 0_u64;
        let local = iovec {
            iov_base: (&raw mut value).cast(),
            iov_len: size_of::<u64>(),
        };
        let process = Process {
            pid,
            is_refused: AtomicBool::new(false),
        };
        // SAFETY: `value` is writable for its length.
        let found = unsafe { process.read(&[local], address, size_of::<u64>()) };
        (pid > 0 && found && value == expected).then_some(process)
    }

    /// Whether the kernel has allowed all accesses so far.
    pub fn is_allowed(&self) -> bool {
        !self.is_refused.load(Ordering::Relaxed)
    }

    /// Evaluates the result of a system call: the number of bytes.
    #[inline]
    fn copied(&self, result: isize) -> usize {
        if result < 0 {
            let refusals = [libc::EPERM, libc::ESRCH, libc::ENOSYS].map(Some);
            if refusals.contains(&std::io::Error::last_os_error().raw_os_error()) {
                self.is_refused.store(true, Ordering::Relaxed);
            }
        }
        result.max(0) as usize
    }

    /// Copies `len` bytes at `address` into local memory, which is no shorter. False if they could not all be
    /// copied: then some may have been.
    ///
    /// # Safety
    /// `local` names memory that may be written to.
    pub unsafe fn read(&self, local: &[iovec], address: u64, len: usize) -> bool {
        // SAFETY: as the caller says.
        unsafe { self.read_parts(local, [(address, len)].into_iter()) == len }
    }

    /// Copies bytes at up to four addresses, each with its length, into local memory, in this order. Returns
    /// how many were copied: as many as the shorter side has, or fewer.
    ///
    /// # Safety
    /// As for [`Process::read`].
    pub unsafe fn read_parts(
        &self,
        local: &[iovec],
        from: impl Iterator<Item = (u64, usize)>,
    ) -> usize {
        let mut remote = [part(0, 0); 4];
        let mut count = 0;
        for (to, (address, len)) in remote.iter_mut().zip(from) {
            *to = part(address, len);
            count += 1;
        }
        // SAFETY: the kernel checks all addresses; what `local` names may be written to.
        let got = unsafe {
            libc::process_vm_readv(
                self.pid,
                local.as_ptr(),
                local.len() as libc::c_ulong,
                remote.as_ptr(),
                count,
                0,
            )
        };
        self.copied(got)
    }

    /// Copies local memory of `len` bytes to `address`. The last bytes become visible last. False if not all
    /// could be copied: then some may have been.
    ///
    /// # Safety
    /// `local` names memory that may be read.
    pub unsafe fn write(&self, local: &[iovec], address: u64, len: usize) -> bool {
        let head_len = len.saturating_sub(TAIL_LEN);
        let (head, tail) = (
            part(address, head_len),
            part(address + head_len as u64, len - head_len),
        );
        // What the program wrote before is visible to those that see these bytes.
        fence(Ordering::Release);
        // SAFETY: `local` names memory that may be read, as the caller says, and `last` is this function's.
        unsafe {
            if head_len == 0 {
                return self.write_parts(local, &[tail]) == len;
            }
            if COPIES_IN_ORDER {
                return self.write_parts(local, &[head, tail]) == len;
            }
            let mut last = [0_u8; TAIL_LEN];
            let has_last = last_bytes(local, len, &mut last).is_ok();
            if !has_last || self.write_parts(local, &[head]) != head_len {
                return false;
            }
            fence(Ordering::SeqCst);
            let own = iovec {
                iov_base: last.as_mut_ptr().cast(),
                iov_len: TAIL_LEN,
            };
            self.write_parts(&[own], &[tail]) == TAIL_LEN
        }
    }

    /// Returns how many bytes were copied: as many as the shorter side has.
    ///
    /// # Safety
    /// As for [`Process::write`].
    unsafe fn write_parts(&self, local: &[iovec], remote: &[iovec]) -> usize {
        // SAFETY: the kernel checks all addresses, and only reads what `local` names.
        let put = unsafe {
            libc::process_vm_writev(
                self.pid,
                local.as_ptr(),
                local.len() as libc::c_ulong,
                remote.as_ptr(),
                remote.len() as libc::c_ulong,
                0,
            )
        };
        self.copied(put)
    }
}

fn part(address: u64, len: usize) -> iovec {
    iovec {
        iov_base: core::ptr::without_provenance_mut(address as usize),
        iov_len: len,
    }
}

/// The parts of local memory that a copy fills in this order, so that its last bytes become visible last:
/// where `COPIES_IN_ORDER`.
#[cfg(test)]
pub fn write_parts(to: iovec) -> [iovec; 2] {
    let head_len = to.iov_len.saturating_sub(TAIL_LEN);
    let head = iovec {
        iov_len: head_len,
        ..to
    };
    let tail = iovec {
        iov_base: to.iov_base.cast::<u8>().wrapping_add(head_len).cast(),
        iov_len: to.iov_len - head_len,
    };
    [head, tail]
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
    use super::*;
    use crate::nofault::handler;
    use crate::nofault::tests::{LOSSES, Loss, Pages};

    fn vectors(parts: &mut [&mut [u8]]) -> Vec<iovec> {
        let vector = |part: &mut &mut [u8]| iovec {
            iov_base: part.as_mut_ptr().cast(),
            iov_len: part.len(),
        };
        parts.iter_mut().map(vector).collect()
    }

    /// This process.
    fn own() -> Process {
        let value = 5_u64;
        let address = (&raw const value).expose_provenance() as u64;
        let pid = std::process::id() as pid_t;
        assert!(Process::find(pid, address, 6).is_none() && Process::find(0, address, 5).is_none());
        assert!(Process::find(pid, 8, 5).is_none());
        Process::find(pid, address, 5).unwrap()
    }

    #[test]
    fn bytes_are_copied_in_both_directions() {
        let process = own();
        for len in [1, 7, 8, 9, 100, 5000] {
            let mut from: Vec<u8> = (0..len).map(|i| (i as u8).wrapping_add(1)).collect();
            let expected = from.clone();
            let mut to = vec![0_u8; len];
            let address = to.as_mut_ptr().expose_provenance() as u64;
            let (first, second) = from.split_at_mut(len / 3);
            let local = vectors(&mut [first, second]);
            // SAFETY: the vectors name `from`.
            assert!(unsafe { process.write(&local, address, len) });
            assert_eq!(to, expected);
            from.fill(0);
            let (first, second) = from.split_at_mut(len / 2);
            let local = vectors(&mut [first, second]);
            // SAFETY: the vectors name `from`.
            assert!(unsafe { process.read(&local, address, len) });
            assert_eq!(from, expected);
        }
        let mut byte = [0];
        // SAFETY: the vector names `byte`.
        assert!(!unsafe { process.write(&vectors(&mut [&mut byte]), 8, 1) });
    }

    #[test]
    fn several_parts_are_read_in_order() {
        let process = own();
        let from: Vec<u8> = (0..100).collect();
        let address = from.as_ptr().expose_provenance() as u64;
        for len in [1, 8, 9, 60] {
            let mut to = vec![0_u8; len];
            let local = write_parts(vectors(&mut [&mut to])[0]);
            assert_eq!(local[1].iov_len, len.min(TAIL_LEN));
            let parts = [(address + 40, len / 3), (address + 2, len - len / 3)];
            // SAFETY: the vectors name `to`.
            let copied = unsafe { process.read_parts(&local, parts.into_iter()) };
            let expected = [&from[40..][..len / 3], &from[2..][..len - len / 3]].concat();
            assert_eq!((copied, to), (len, expected));
        }
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
