//! The memory of another process: process_vm_writev(2), process_vm_readv(2).

use std::sync::atomic::{AtomicU64, Ordering, fence};

use libc::{iovec, pid_t};

use crate::arch::COPIES_IN_ORDER;

/// The last bytes of a WRITE, which become visible after all others: programs poll the last byte of a
/// message.
const TAIL_LEN: usize = 8;
/// PR_SET_PTRACER_ANY of prctl(2).
const ANY_PROCESS: libc::c_ulong = libc::c_ulong::MAX;

/// A value at a known address, by which a peer recognises the process, and finds out whether it may access
/// its memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Probe {
    /// Where the value is.
    pub address: u64,
    /// The value.
    pub value: u64,
}

static PROBED: AtomicU64 = AtomicU64::new(0);

impl Probe {
    /// The value of this process.
    pub fn own() -> Probe {
        if PROBED.load(Ordering::Relaxed) == 0 {
            let value = u64::from(crate::random::random()) << 32 | 1;
            // Another thread may be as far.
            let _ = PROBED.compare_exchange(0, value, Ordering::Relaxed, Ordering::Relaxed);
        }
        Probe {
            address: (&raw const PROBED).expose_provenance() as u64,
            value: PROBED.load(Ordering::Relaxed),
        }
    }
}

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
#[derive(Clone, Copy, Debug)]
pub struct Process(pid_t);

impl Process {
    /// The process, if it has that value, and the kernel allows access.
    pub fn find(pid: pid_t, probe: &Probe) -> Option<Process> {
        let mut value = 0_u64;
        let local = iovec {
            iov_base: (&raw mut value).cast(),
            iov_len: size_of::<u64>(),
        };
        let process = Process(pid);
        // SAFETY: `value` is writable for its length.
        let found = unsafe { process.read(&[local], probe.address, size_of::<u64>()) };
        (pid > 0 && found && value == probe.value).then_some(process)
    }

    /// Copies `len` bytes at `address` into local memory, which is no shorter. False if they could not all be
    /// copied: then some may have been.
    ///
    /// # Safety
    /// `local` names memory that may be written to.
    pub unsafe fn read(&self, local: &[iovec], address: u64, len: usize) -> bool {
        let remote = [part(address, len)];
        // SAFETY: the kernel checks all addresses; what `local` names may be written to.
        let got = unsafe {
            libc::process_vm_readv(
                self.0,
                local.as_ptr(),
                local.len() as libc::c_ulong,
                remote.as_ptr(),
                1,
                0,
            )
        };
        got == len as isize
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
            last_bytes(local, len, &mut last);
            if self.write_parts(local, &[head]) != head_len {
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
                self.0,
                local.as_ptr(),
                local.len() as libc::c_ulong,
                remote.as_ptr(),
                remote.len() as libc::c_ulong,
                0,
            )
        };
        put.max(0) as usize
    }
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
unsafe fn last_bytes(local: &[iovec], len: usize, into: &mut [u8; TAIL_LEN]) {
    let first = len - TAIL_LEN;
    let mut at = 0;
    for vector in local {
        let bytes = vector.iov_base.cast::<u8>();
        for i in first.saturating_sub(at)..vector.iov_len.min(len.saturating_sub(at)) {
            // SAFETY: `i` is less than the vector's length.
            into[at + i - first] = unsafe { bytes.add(i).read() };
        }
        at += vector.iov_len;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vectors(parts: &mut [&mut [u8]]) -> Vec<iovec> {
        let vector = |part: &mut &mut [u8]| iovec {
            iov_base: part.as_mut_ptr().cast(),
            iov_len: part.len(),
        };
        parts.iter_mut().map(vector).collect()
    }

    #[test]
    fn this_process_is_found_by_its_value() {
        let own = std::process::id() as pid_t;
        let probe = Probe::own();
        assert_eq!(probe, Probe::own());
        assert!(Process::find(own, &probe).is_some());
        let wrong = Probe {
            value: probe.value + 1,
            ..probe
        };
        assert!(Process::find(own, &wrong).is_none());
        assert!(
            Process::find(
                own,
                &Probe {
                    address: 8,
                    ..probe
                }
            )
            .is_none()
        );
        assert!(Process::find(0, &probe).is_none());
    }

    #[test]
    fn bytes_are_copied_in_both_directions() {
        let process = Process::find(std::process::id() as pid_t, &Probe::own()).unwrap();
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
    fn the_last_bytes_of_several_parts() {
        let mut bytes: Vec<u8> = (0..20).collect();
        for cuts in [(0, 0), (3, 12), (13, 15), (14, 20), (20, 20)] {
            let (first, rest) = bytes.split_at_mut(cuts.0);
            let (second, third) = rest.split_at_mut(cuts.1 - cuts.0);
            let local = vectors(&mut [first, second, third]);
            let mut last = [0; TAIL_LEN];
            // SAFETY: the vectors name `bytes`.
            unsafe { last_bytes(&local, 19, &mut last) };
            assert_eq!(last, [11, 12, 13, 14, 15, 16, 17, 18], "{cuts:?}");
        }
    }
}
