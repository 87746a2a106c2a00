//! What the engine needs of the world around a queue pair.

use super::{Bind, Completion, QpEvent, RecvWr, Sge};

/// A local key, range or right was wrong: IBV_WC_LOC_PROT_ERR or IBV_WC_LOC_LEN_ERR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalError {
    Protection,
    Length,
    /// The memory window cannot be bound or invalidated: IBV_WC_MW_BIND_ERR.
    Bind,
}

/// A remote key, range, domain or right was wrong: NAK "remote access error".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteError;

/// The completion queue is full: the queue pair goes to the error state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overrun;

/// An XRC request that cannot be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XrcError {
    /// The shared receive queue does not exist in the queue pair's domain.
    NoSuchQueue,
    /// It has no receive request now.
    Empty,
}

/// What a remote request wants to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Read,
    Write,
    Atomic,
    FlushGlobal,
    FlushPersistent,
}

/// The work queue whose work request a completion belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkQueue {
    Send,
    /// The queue pair's own receive queue, or its shared receive queue.
    Recv,
    /// The XRC shared receive queue with this number; it has a completion queue of its own.
    XrcSrq {
        srqn: u32,
    },
}

/// The world around one queue pair. All calls are made by the thread that runs the queue pair, and
/// none of them calls back into it.
///
/// A region may vanish between two calls: keys are looked up at each.
pub trait Host {
    /// Whether the pieces are good: keys, domain, ranges, and the right to write into them locally if
    /// `writable`. Returns the sum of their lengths.
    fn check_local(&mut self, sges: &[Sge], writable: bool) -> Result<u64, LocalError>;

    /// Copies out of the pieces, from byte `offset` of their sequence on, as much as `into` holds.
    fn gather(&mut self, sges: &[Sge], offset: u64, into: &mut [u8]) -> Result<(), LocalError>;

    /// Copies into the pieces, from byte `offset` of their sequence on. `Length` if they end before
    /// `from` does.
    fn scatter(&mut self, sges: &[Sge], offset: u64, from: &[u8]) -> Result<(), LocalError>;

    /// Whether a peer of this queue pair may do `access` to the bytes. Of length 0 nothing is asked.
    fn check_remote(
        &mut self,
        rkey: u32,
        va: u64,
        len: u64,
        access: Access,
    ) -> Result<(), RemoteError>;

    /// Writes a peer's bytes. The last bytes become visible to the program last.
    fn write_remote(&mut self, rkey: u32, va: u64, from: &[u8]) -> Result<(), RemoteError>;

    /// Reads bytes for a peer.
    fn read_remote(&mut self, rkey: u32, va: u64, into: &mut [u8]) -> Result<(), RemoteError>;

    /// Replaces the eight bytes at `va` (aligned; the engine has checked that) by `change` of them,
    /// atomically for all that use this device; returns what was there. Numbers are in host order.
    fn atomic(
        &mut self,
        rkey: u32,
        va: u64,
        change: &mut dyn FnMut(u64) -> u64,
    ) -> Result<u64, RemoteError>;

    /// Writes eight bytes at once (aligned).
    fn atomic_write(&mut self, rkey: u32, va: u64, data: [u8; 8]) -> Result<(), RemoteError>;

    /// Makes what was written before visible (or persistent), for a flush request of a range or,
    /// `whole`, of the region; includes the check of the rights.
    fn flush(
        &mut self,
        rkey: u32,
        va: u64,
        len: u64,
        whole: bool,
        access: Access,
    ) -> Result<(), RemoteError>;

    /// A peer's SEND with invalidate. Fails if this queue pair's domain has no such window (type 2) or
    /// region, or it must not be invalidated.
    fn invalidate_remote(&mut self, rkey: u32) -> Result<(), RemoteError>;

    /// A work request's local invalidate.
    fn invalidate_local(&mut self, rkey: u32) -> Result<(), LocalError>;

    /// A work request's bind.
    fn bind_mw(&mut self, bind: &Bind) -> Result<(), LocalError>;

    /// The next receive of the shared receive queue; only called if [`super::QpConfig::has_srq`].
    fn take_srq_wr(&mut self) -> Option<RecvWr>;

    /// The next receive of the XRC shared receive queue of that number.
    fn take_xrc_srq_wr(&mut self, srqn: u32) -> Result<RecvWr, XrcError>;

    /// A completion.
    fn complete(&mut self, queue: WorkQueue, completion: Completion) -> Result<(), Overrun>;

    /// An asynchronous event of the queue pair.
    fn event(&mut self, event: QpEvent);
}
