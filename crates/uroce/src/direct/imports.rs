//! What another process exports: finding it, and reading it.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;

#[cfg(not(loom))]
use std::sync::atomic::Ordering;

#[cfg(loom)]
use loom::sync::atomic::Ordering;

use super::grant::{self, ExportedQp, ExportedRegion, Request};
use super::process::Process;
use super::table::{Mapping, Table};

/// Where a peer finds what a process exports: behind a descriptor of that process. So the kernel shows it to
/// those only that may see the process's files (ptrace(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The number of the descriptor; -1 if the process exports nothing.
    pub fd: RawFd,
    /// A random number that is in the table, too.
    pub secret: u64,
}

impl Place {
    /// That of a process that exports nothing.
    pub const NONE: Place = Place { fd: -1, secret: 0 };
}

/// What another process exports.
pub struct Imports {
    mapping: Mapping,
    process: Process,
}

impl Imports {
    /// Maps the table of another process, and finds out whether this one may access its memory. Fails with
    /// EINVAL if there is no such table, with EPERM if this process may not, and as open(2) and mmap(2).
    /// Opens descriptors, and closes them again.
    pub fn open(pid: libc::pid_t, place: Place) -> io::Result<Imports> {
        let invalid = || io::Error::from(io::ErrorKind::InvalidInput);
        // A peer in another PID namespace has no PID here.
        if pid <= 0 || place.fd < 0 {
            return Err(invalid());
        }
        // The number may be that of another file meanwhile, and to open it may have effects. O_PATH has none.
        let path = format!("/proc/{pid}/fd/{}", place.fd);
        let mut options = OpenOptions::new();
        let found = options.read(true).custom_flags(libc::O_PATH).open(path)?;
        let metadata = found.metadata()?;
        if !metadata.is_file() || metadata.len() != size_of::<Table>() as u64 {
            return Err(invalid());
        }
        let path = format!("/proc/self/fd/{}", found.as_raw_fd());
        let file = OpenOptions::new().read(true).open(path)?;
        // SAFETY: F_GET_SEALS takes no pointer.
        let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
        if seals < 0 || seals & libc::F_SEAL_SHRINK == 0 {
            return Err(invalid());
        }
        let mapping = Mapping::new(file.as_raw_fd(), libc::PROT_READ)?;
        let table = mapping.table();
        if table.secret.load(Ordering::Relaxed) != place.secret {
            return Err(invalid());
        }
        let address = table.secret_address.load(Ordering::Relaxed);
        let process = Process::find(pid, address, place.secret)
            .ok_or_else(|| io::Error::from_raw_os_error(libc::EPERM))?;
        Ok(Imports { mapping, process })
    }

    /// The process, for one access that was located; None if it has ended, or the kernel has refused an
    /// access. To be called again after the access, as the bytes of an ended process are nowhere.
    pub fn process(&self) -> Option<&Process> {
        let is_alive = self.mapping.table().liveness.is_alive();
        (is_alive && self.process.is_allowed()).then_some(&self.process)
    }

    /// Where the bytes of a request are in the process. None if it does not export them to the initiator, or
    /// is changing that. The caller has announced the access.
    pub fn locate(&self, request: &Request) -> Option<u64> {
        let table = self.mapping.table();
        let qp = ExportedQp::parse(&table.queue_pair(request.target_qpn).read()?)?;
        let region = ExportedRegion::parse(&table.region(request.rkey).read()?)?;
        grant::locate(&qp, &region, request)
    }
}
