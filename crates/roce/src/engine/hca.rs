//! The interface of a queue pair to the HCA around it ([`Hca`]): memory, shared receive queues, completion
//! queues, events.
//!
//! Not here: packets and the time, which the caller passes in and takes out ([`super::Qp`]).

use ibverbs_abi::*;

use super::{Bind, Completion, PolledSends, RecvWr, SendWr, Sge, Target};

/// Local memory cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalError {
    /// Key, protection domain, range or access right is wrong: IBV_WC_LOC_PROT_ERR.
    Protection,
    /// The SGEs end too early: IBV_WC_LOC_LEN_ERR.
    Length,
    /// The memory window cannot be bound or invalidated: IBV_WC_MW_BIND_ERR.
    Bind,
}

impl LocalError {
    /// The completion status of the WQE.
    pub fn status(self) -> ibv_wc_status {
        match self {
            LocalError::Protection => IBV_WC_LOC_PROT_ERR,
            LocalError::Length => IBV_WC_LOC_LEN_ERR,
            LocalError::Bind => IBV_WC_MW_BIND_ERR,
        }
    }
}

/// R_Key, protection domain, range or access right of a remote request is wrong: NAK "remote access
/// error".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteError;

/// The R_Key of a peer's request, and where its protection domain comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteKey {
    /// The R_Key, as in the RETH, AtomicETH or IETH.
    pub rkey: u32,
    /// The SRQ that the request's XRCETH names: the key must belong to its protection domain (annex A14).
    /// None for other services, where it must belong to the queue pair's.
    pub xrc_srqn: Option<u32>,
}

/// The completion queue is full: the completion is lost, the queue pair moves to ERR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overrun;

/// Why an XRC shared receive queue has no WR for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XrcError {
    /// No such queue in the queue pair's XRC domain.
    NoSuchQueue,
    /// The queue is empty.
    Empty,
}

/// The access of a remote request to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// RDMA READ.
    Read,
    /// RDMA WRITE, and ATOMIC WRITE.
    Write,
    /// Compare and swap, fetch and add.
    Atomic,
    /// FLUSH to global visibility.
    FlushGlobal,
    /// FLUSH to persistence.
    FlushPersistent,
}

/// An asynchronous event of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QpEvent {
    /// IBV_EVENT_QP_FATAL.
    Fatal,
    /// IBV_EVENT_QP_REQ_ERR.
    RequestError,
    /// IBV_EVENT_QP_ACCESS_ERR.
    AccessError,
    /// IBV_EVENT_COMM_EST.
    CommunicationEstablished,
    /// IBV_EVENT_SQ_DRAINED.
    SendQueueDrained,
    /// IBV_EVENT_QP_LAST_WQE_REACHED.
    LastWqeReached,
}

/// The work queue whose work request a completion belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkQueue {
    /// The queue pair's send queue.
    Send,
    /// The queue pair's own receive queue, or its shared receive queue.
    Recv,
    /// The XRC shared receive queue with this number; it has a completion queue of its own.
    XrcSrq {
        /// The shared receive queue's number.
        srqn: u32,
    },
}

/// The HCA (host channel adapter) as one of its queue pairs sees it: memory, receives, completions and
/// events. The thread that runs the queue pair makes all calls, and none may call back into the queue pair.
///
/// A memory region may be deregistered between two calls, so each call looks up the keys.
///
/// An HCA refuses the operations whose methods it does not implement: those of the peer on its memory, memory
/// windows, invalidation, shared receive queues.
pub trait Hca {
    /// Checks the SGEs: keys, protection domain, ranges, and the right to write locally if `writable`.
    /// Returns the sum of their lengths.
    fn check_local(&mut self, sges: &[Sge], writable: bool) -> Result<u64, LocalError>;

    /// Reads from the SGEs, taken as one sequence of bytes, from byte `offset` on; fills `into`.
    fn gather(&mut self, sges: &[Sge], offset: u64, into: &mut [u8]) -> Result<(), LocalError>;

    /// Writes to the SGEs of a send WR, taken as one sequence of bytes, from byte `offset` on. `Length` if
    /// they end before `from` does.
    fn scatter(&mut self, sges: &[Sge], offset: u64, from: &[u8]) -> Result<(), LocalError>;

    /// [`Hca::scatter`] for the SGEs of the receive WR that was taken last. Those of a shared receive
    /// queue belong to the queue's protection domain, not to the queue pair's (10.2.9.4).
    fn scatter_recv(&mut self, sges: &[Sge], offset: u64, from: &[u8]) -> Result<(), LocalError>;

    /// Whether a peer of this queue pair may access the bytes. `len` 0 is allowed whatever the key is
    /// (9.7.4.1.5).
    fn check_remote(
        &mut self,
        key: RemoteKey,
        va: u64,
        len: u64,
        access: Access,
    ) -> Result<(), RemoteError> {
        let _ = (key, va, len, access);
        Err(RemoteError)
    }

    /// Writes a peer's bytes. The last bytes become visible to the program last.
    fn write_remote(&mut self, key: RemoteKey, va: u64, from: &[u8]) -> Result<(), RemoteError> {
        let _ = (key, va, from);
        Err(RemoteError)
    }

    /// Reads bytes for a peer.
    fn read_remote(&mut self, key: RemoteKey, va: u64, into: &mut [u8]) -> Result<(), RemoteError> {
        let _ = (key, va, into);
        Err(RemoteError)
    }

    /// Replaces the eight bytes at `va` by `change` of them, atomically with respect to all accesses
    /// through this device. The engine has checked that `va` is aligned. Returns the original value.
    /// Values are in host byte order.
    fn atomic(
        &mut self,
        key: RemoteKey,
        va: u64,
        change: &mut dyn FnMut(u64) -> u64,
    ) -> Result<u64, RemoteError> {
        let _ = (key, va, change);
        Err(RemoteError)
    }

    /// Writes eight bytes with one store. The engine has checked that `va` is aligned.
    fn atomic_write(&mut self, key: RemoteKey, va: u64, data: [u8; 8]) -> Result<(), RemoteError> {
        let _ = (key, va, data);
        Err(RemoteError)
    }

    /// Makes earlier writes to the range, or with `whole` to the memory region, globally visible or
    /// persistent. Checks the access rights too.
    fn flush(
        &mut self,
        key: RemoteKey,
        va: u64,
        len: u64,
        whole: bool,
        access: Access,
    ) -> Result<(), RemoteError> {
        let _ = (key, va, len, whole, access);
        Err(RemoteError)
    }

    /// Invalidates the R_Key of a peer's SEND with invalidate. Fails unless it belongs to a memory
    /// region or type 2 window that this queue pair may invalidate.
    fn invalidate_remote(&mut self, key: RemoteKey) -> Result<(), RemoteError> {
        let _ = key;
        Err(RemoteError)
    }

    /// Executes a local invalidate.
    fn invalidate_local(&mut self, rkey: u32) -> Result<(), LocalError> {
        let _ = rkey;
        Err(LocalError::Bind)
    }

    /// Executes a memory window bind.
    fn bind_mw(&mut self, bind: &Bind) -> Result<(), LocalError> {
        let _ = bind;
        Err(LocalError::Bind)
    }

    /// Executes an RDMA WRITE or READ on the peer's memory without the peer's responder. False if the HCA
    /// cannot, or the responder would refuse it: then the request is sent, and some of its bytes may have
    /// been copied.
    fn execute_directly(&mut self, wr: &SendWr, target: Target) -> bool {
        let _ = (wr, target);
        false
    }

    /// Whether [`Hca::execute_directly`] would probably execute the request. It need not be exact: if true,
    /// the request waits for earlier ones.
    fn can_execute_directly(&self, wr: &SendWr, target: Target) -> bool {
        let _ = (wr, target);
        false
    }

    /// Takes the next WR of the shared receive queue. Only called if [`super::QpConfig::has_srq`].
    fn take_srq_wr(&mut self) -> Option<RecvWr> {
        None
    }

    /// Takes the next WR of the XRC shared receive queue with that number.
    fn take_xrc_srq_wr(&mut self, srqn: u32) -> Result<RecvWr, XrcError> {
        let _ = srqn;
        Err(XrcError::NoSuchQueue)
    }

    /// Adds a completion to the work queue's completion queue.
    fn complete(&mut self, queue: WorkQueue, completion: Completion) -> Result<(), Overrun>;

    /// A send WR has completed whose completion the program does not want.
    fn on_unsignaled(&mut self, completion: &Completion) {
        let _ = completion;
    }

    /// An RDMA WRITE or READ of the peer was executed, whose message has `len` bytes; None: it was refused.
    fn on_peer_request(&mut self, access: Access, len: Option<u32>) {
        let _ = (access, len);
    }

    /// The completions of the send queue that the program has polled.
    fn polled_sends(&self) -> PolledSends {
        PolledSends::Ignored
    }

    /// Completions of the queue pair's own receive queue that the program has not polled, and that occupy
    /// their slots until then.
    fn unpolled_receives(&self) -> u32 {
        0
    }

    /// Raises an asynchronous event of the queue pair.
    fn event(&mut self, event: QpEvent);

    /// Whether the HCA may pass packets to the queue pair in another order than they arrived in: several of
    /// its threads receive at the same time.
    fn may_reorder(&self) -> bool {
        false
    }

    /// From now until [`Hca::end_in_order`], the HCA passes packets to the queue pair in the order in which
    /// they arrived. False, and without effect, if it cannot because several of its threads receive now.
    fn begin_in_order(&mut self) -> bool {
        true
    }

    /// Ends what [`Hca::begin_in_order`] has begun, if anything.
    fn end_in_order(&mut self) {}

    /// Whether the packet that is written next leaves behind all that the queue pair has written before. If
    /// not, another thread may still have some of them.
    fn sends_in_order(&self) -> bool {
        true
    }
}
