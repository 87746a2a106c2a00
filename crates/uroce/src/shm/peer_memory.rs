//! Direct access between the two processes of a channel (`crate::direct`).

use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};

use ibverbs_abi::IBV_ACCESS_REMOTE_READ;
use ibverbs_os::unix::Peer;
use libc::iovec;

use super::handshake;
use super::segment::Segment;
use crate::descriptors::{self, Owned};
use crate::direct::{Accesses, Accessor, Copied, Imports, Request, TableFd};

/// How often an access is tried that the target's changes, or the kernel's scheduling, have interrupted.
const TRIES: usize = 16;

/// The connection of a channel, or of an offer.
pub type Connection = Arc<Owned<OwnedFd>>;

/// The peer's accesses to the memory of this process.
pub struct PeerAccesses {
    /// A mapping of its own: what a channel sends and receives is not behind a reference count.
    segment: Segment,
    connection: Weak<Owned<OwnedFd>>,
    pid: libc::pid_t,
}

impl PeerAccesses {
    /// `segment` is another mapping of the channel's memory; `pid` is 0 for a peer in another PID namespace.
    pub fn new(segment: Segment, connection: &Connection, pid: libc::pid_t) -> PeerAccesses {
        PeerAccesses {
            segment,
            connection: Arc::downgrade(connection),
            pid,
        }
    }
}

impl Accessor for PeerAccesses {
    fn accesses(&self) -> &Accesses {
        self.segment.peer_accesses()
    }

    fn pid(&self) -> libc::pid_t {
        self.pid
    }

    fn is_stopped(&self, thread: u32) -> bool {
        descriptors::transient(|| is_stopped(self.pid, thread))
    }

    /// This process closes a connection only when the peer has closed it, or when no memory is exported.
    fn is_gone(&self) -> bool {
        let connection = self.connection.upgrade();
        connection.is_none_or(|connection| handshake::has_hung_up(connection.as_raw_fd()))
    }
}

/// The memory of the peer.
pub struct PeerMemory {
    imports: Imports,
    /// A bit for each slot that a thread of this process uses.
    used_slots: AtomicU32,
}

impl PeerMemory {
    /// None if this process may not access the peer's memory, or if the peer is not where it says. `own` is
    /// where this process is.
    pub fn find(connection: &OwnedFd, place: TableFd, own: TableFd) -> Option<PeerMemory> {
        let pid = Peer::of(connection).ok()?.pid;
        match Imports::open(pid, place, own.fd) {
            Ok(imports) => {
                log::debug!("uroce: direct access to the memory of process {pid}");
                Some(PeerMemory {
                    imports,
                    used_slots: AtomicU32::new(0),
                })
            }
            Err(error) => {
                log::debug!("uroce: no direct access to the memory of process {pid}: {error}");
                None
            }
        }
    }

    /// Whether an access would probably succeed.
    pub(super) fn grants(&self, request: &Request) -> bool {
        self.imports.grants(request)
    }

    /// Announces an access. None if too many are in progress.
    pub(super) fn begin<'a>(
        &'a self,
        request: &'a Request,
        segment: &'a Segment,
    ) -> Option<Access<'a>> {
        let accesses = segment.own_accesses();
        let used = self.used_slots.load(Ordering::Relaxed);
        let slot = (!used).trailing_zeros();
        let bit = 1_u32
            .checked_shl(slot)
            .filter(|bit| *bit < 1 << Accesses::SLOTS)?;
        let others = self.used_slots.fetch_or(bit, Ordering::Acquire);
        // Another thread may have taken it meanwhile.
        (others & bit == 0).then(|| {
            accesses.begin(slot as usize, request.target_qpn, request.rkey);
            Access {
                memory: self,
                request,
                accesses,
                slot: slot as usize,
            }
        })
    }
}

/// An access to the peer's memory. The peer waits for its end before it takes memory away.
pub struct Access<'a> {
    memory: &'a PeerMemory,
    request: &'a Request,
    accesses: &'a Accesses,
    slot: usize,
}

impl Access<'_> {
    /// Copies some bytes of the request, `len` from `offset` on, between `local`, which has as many, and the
    /// peer's memory. False if not all were copied, or they may be nobody's: then the peer's responder is to
    /// decide.
    ///
    /// # Safety
    /// `local` names memory that may be read; for a READ, memory that may be written to.
    pub unsafe fn copy(&self, local: &[iovec], (offset, len): (u64, usize)) -> bool {
        let imports = &self.memory.imports;
        for _ in 0..TRIES {
            let (Some(process), Some(mut at)) = (
                imports.process(),
                imports.locate(self.request, self.accesses),
            ) else {
                return false;
            };
            // The peer may have moved its region since.
            let Some(address) = at.address.checked_add(offset) else {
                return false;
            };
            at.address = address;
            // SAFETY: as the caller says.
            let copied = unsafe {
                match self.request.flag {
                    IBV_ACCESS_REMOTE_READ => process.read(local, &at, len),
                    _ => process.write(local, &at, len),
                }
            };
            match copied {
                // The bytes of a process that has ended meanwhile are nowhere.
                Copied::All => return imports.process().is_some(),
                Copied::NotAll => return false,
                Copied::Again => {}
            }
        }
        false
    }
}

/// Whether a thread of a process is stopped by a signal: then it is about to leave the kernel, and does
/// nothing for its process. One that a tracer has stopped may be about to begin a system call. Allocates
/// nothing. Opens a descriptor, and closes it again.
fn is_stopped(pid: libc::pid_t, thread: u32) -> bool {
    let mut path = [0_u8; 64];
    let mut at = &mut path[..63];
    if write!(at, "/proc/{pid}/task/{thread}/stat").is_err() {
        return false;
    }
    let mut stat = [0_u8; 256];
    // SAFETY: zeros follow the path; `stat` is writable for its length; the descriptor is this function's.
    let len = unsafe {
        let fd = libc::open(path.as_ptr().cast(), libc::O_RDONLY | libc::O_CLOEXEC);
        if fd < 0 {
            return false;
        }
        let len = libc::read(fd, stat.as_mut_ptr().cast(), stat.len());
        libc::close(fd);
        len
    };
    state_in(&stat[..len.max(0) as usize]) == Some(b'T')
}

/// The state in a file `stat` of /proc: behind the program's name, which may have parentheses and spaces.
fn state_in(stat: &[u8]) -> Option<u8> {
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    stat.get(end + 2).copied()
}

impl Drop for Access<'_> {
    fn drop(&mut self) {
        self.accesses.end(self.slot);
        let bit = 1 << self.slot;
        self.memory.used_slots.fetch_and(!bit, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_behind_the_name() {
        assert_eq!(state_in(b"1 (a) T 0 1"), Some(b'T'));
        assert_eq!(state_in(b"1 (a) S (b) R) t 0 1"), Some(b't'));
        assert_eq!(state_in(b"1 (a)"), None);
        assert_eq!(state_in(b""), None);
    }

    #[test]
    fn a_thread_that_a_signal_has_stopped_is_stopped() {
        let mut child = std::process::Command::new("sleep");
        let mut child = child.arg("1000").spawn().unwrap();
        let pid = child.id() as libc::pid_t;
        assert!(!is_stopped(pid, child.id()) && !is_stopped(0, child.id()));
        let mut status = 0;
        // SAFETY: the child is the test's, and `status` is writable.
        unsafe {
            libc::kill(pid, libc::SIGSTOP);
            libc::waitpid(pid, &raw mut status, libc::WUNTRACED);
        }
        assert!(libc::WIFSTOPPED(status) && is_stopped(pid, child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!is_stopped(pid, child.id()));
    }
}
