//! The export table of another process: finding it, and reading it.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;

#[cfg(not(loom))]
use std::sync::atomic::Ordering;

#[cfg(loom)]
use loom::sync::atomic::Ordering;

use super::accesses::Accesses;
use super::fd_info;
use super::grant::{self, ExportedQp, ExportedRegion, Request, WORDS};
use super::process::{Located, Process};
use super::table::{Entry, Mapping, Table};
use crate::descriptors;
use crate::restart::{self, Condition, Expected};

/// The descriptor behind which a peer finds what a process exports: the kernel shows it to those
/// only that may see the process's files (ptrace(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableFd {
    /// The number of the descriptor; -1 if the process exports nothing.
    pub fd: RawFd,
    /// A random number that is in the table, too.
    pub secret: u64,
}

impl TableFd {
    /// The descriptor of a process that exports nothing.
    pub const NONE: TableFd = TableFd { fd: -1, secret: 0 };
}

/// The exports of another process.
pub struct Imports {
    mapping: Mapping,
    process: Process,
}

impl Imports {
    /// Maps the table of another process, and finds out whether this one may access its memory. Waits for
    /// nothing that the other process may hold up. Fails with EINVAL if there is no such table, with EPERM if
    /// this process may not, and as pidfd_open(2), open(2) and mmap(2). `own` is any memfd of this process.
    pub fn open(pid: libc::pid_t, place: TableFd, own: RawFd) -> io::Result<Imports> {
        // A peer in another PID namespace has no PID here.
        if pid <= 0 || place.fd < 0 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // First: what is found by the number is found while this process has it.
        let process = Process::open(pid)?;
        let mapping = descriptors::transient(|| {
            let pid = process.number_in_proc()?;
            Imports::map(pid, place, own)
        })?;
        if !process.is_accessible() || !process.verify() {
            return Err(io::Error::from_raw_os_error(libc::EPERM));
        }
        Ok(Imports { mapping, process })
    }

    /// Maps the table. Opens descriptors, and closes them again.
    fn map(pid: libc::pid_t, place: TableFd, own: RawFd) -> io::Result<Mapping> {
        let invalid = || io::Error::from(io::ErrorKind::InvalidInput);
        // The number may be that of another file meanwhile, and to open it may have effects. O_PATH has none.
        let path = format!("/proc/{pid}/fd/{}", place.fd);
        let mut options = OpenOptions::new();
        let found = options.read(true).custom_flags(libc::O_PATH).open(path)?;
        // The file system of another file may not answer.
        if fd_info::mount(found.as_raw_fd())? != fd_info::mount(own)? {
            return Err(invalid());
        }
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
        if mapping.table().secret.load(Ordering::Relaxed) != place.secret {
            return Err(invalid());
        }
        Ok(mapping)
    }

    /// The process, for one access that was located; None if it has ended, or the kernel has refused an
    /// access. To be called again after the access, as the bytes of an ended process are nowhere.
    pub fn process(&self) -> Option<&Process> {
        let is_alive = self.mapping.table().liveness.is_alive();
        (is_alive && self.process.is_allowed()).then_some(&self.process)
    }

    /// Whether the process exports the bytes of a request to the initiator, and this thread could access
    /// them.
    pub fn grants(&self, request: &Request) -> bool {
        self.process().is_some() && restart::is_available() && self.find(request).is_some()
    }

    /// Finds the bytes of a request in the process. None if it does not export them to the
    /// initiator, or is changing that. The caller has announced the access there.
    pub fn locate<'a>(&'a self, request: &Request, accesses: &'a Accesses) -> Option<Located<'a>> {
        let owner = self.mapping.table().liveness.owner()?;
        let (address, qp, region) = self.find(request)?;
        let revoked = (accesses.revoked(), 0);
        let verified_at = self.process.verified_at();
        // SAFETY: the words are in the mapping, in the memory of `accesses` and in the process, which are
        // there as long as they are borrowed.
        let condition = unsafe { Condition::new([owner, qp, region, revoked], verified_at) };
        Some(Located { address, condition })
    }

    /// The address of the bytes of a request, and the versions of the entries that say so.
    pub(super) fn find(&self, request: &Request) -> Option<(u64, Expected, Expected)> {
        let table = self.mapping.table();
        let (words, qp_version) =
            entry_of(table.queue_pair(request.target_qpn), request.target_qpn)?;
        let qp = ExportedQp::parse(&words)?;
        let (words, region_version) = entry_of(table.region(request.rkey), request.rkey)?;
        let region = ExportedRegion::parse(&words)?;
        let address = grant::locate(&qp, &region, request)?;
        Some((address, qp_version, region_version))
    }
}

/// Finds the entry of an object: its words, and its version.
fn entry_of<'a>(
    mut places: impl Iterator<Item = &'a Entry>,
    number: u32,
) -> Option<([u64; WORDS], Expected)> {
    places.find_map(|entry| {
        let found = entry.read_version()?;
        grant::is_of(&found.0, number).then_some(found)
    })
}
