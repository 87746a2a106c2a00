//! Direct access between the two processes of a channel (`crate::direct`).

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};

use ibverbs_host::unix::Peer;

use super::segment::Segment;
use super::{Ends, rendezvous};
use crate::descriptors::Owned;
use crate::direct::{Accesses, Accessor, Imports, Place, Process, Request};
use crate::engine::Gid;

/// The connection of a channel, or of an offer.
pub type Connection = Arc<Owned<OwnedFd>>;

/// The peer's accesses to the memory of this process.
pub struct PeerAccesses {
    /// A mapping of its own: what a channel sends and receives is not behind a reference count.
    segment: Segment,
    connection: Weak<Owned<OwnedFd>>,
}

impl PeerAccesses {
    /// `segment` is another mapping of the channel's memory.
    pub fn new(segment: Segment, connection: &Connection) -> PeerAccesses {
        PeerAccesses {
            segment,
            connection: Arc::downgrade(connection),
        }
    }
}

impl Accessor for PeerAccesses {
    fn accesses(&self) -> &Accesses {
        self.segment.peer_accesses()
    }

    /// This process closes a connection only when the peer has closed it, or when no memory is exported.
    fn is_gone(&self) -> bool {
        let connection = self.connection.upgrade();
        connection.is_none_or(|connection| rendezvous::has_hung_up(connection.as_raw_fd()))
    }
}

/// The memory of the peer.
pub struct PeerMemory {
    imports: Imports,
    /// A bit for each slot that a thread of this process uses.
    used_slots: AtomicU32,
}

impl PeerMemory {
    /// None if this process may not access the peer's memory, or if the peer is not where it says. Opens
    /// descriptors, and closes them again.
    pub fn find(connection: &OwnedFd, place: Place) -> Option<PeerMemory> {
        let pid = Peer::of(connection).ok()?.pid;
        match Imports::open(pid, place) {
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

    /// Announces an access. None if too many are in progress.
    pub(super) fn begin<'a>(&'a self, ends: &'a Ends, segment: &'a Segment) -> Option<Access<'a>> {
        let accesses = segment.own_accesses();
        let used = self.used_slots.load(Ordering::Relaxed);
        let slot = (!used).trailing_zeros();
        let bit = 1_u32
            .checked_shl(slot)
            .filter(|bit| *bit < 1 << Accesses::SLOTS)?;
        let others = self.used_slots.fetch_or(bit, Ordering::Acquire);
        // Another thread may have taken it meanwhile.
        (others & bit == 0).then(|| {
            accesses.begin(slot as usize);
            Access {
                memory: self,
                ends,
                accesses,
                slot: slot as usize,
            }
        })
    }
}

/// An access to the peer's memory. The peer waits for its end before it takes memory away.
pub struct Access<'a> {
    memory: &'a PeerMemory,
    ends: &'a Ends,
    accesses: &'a Accesses,
    slot: usize,
}

impl Access<'_> {
    /// Where the bytes of a request are in the peer's process; None if the peer's responder is to decide.
    pub fn locate(&self, request: &Request) -> Option<u64> {
        self.memory.imports.locate(request)
    }

    /// The GID of this process, as its packets have it.
    pub fn gid(&self) -> Gid {
        self.ends.gid
    }

    /// The peer's process: see [`Imports::process`].
    pub fn process(&self) -> Option<&Process> {
        self.memory.imports.process()
    }
}

impl Drop for Access<'_> {
    fn drop(&mut self) {
        self.accesses.end(self.slot);
        let bit = 1 << self.slot;
        self.memory.used_slots.fetch_and(!bit, Ordering::Release);
    }
}
