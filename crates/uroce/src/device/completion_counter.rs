//! Completion counters: how many operations of queue pairs have completed, or how many bytes these had
//! (ibv_create_comp_cntr(3)).
//!
//! A queue pair counts an operation whether or not the program gets a completion for it. The counts of a
//! counter are atomic, so that a program reads them without a lock while queue pairs run.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use ibverbs_abi::*;

use roce::engine::{Access, Completion, WorkQueue};

/// The operations that can be counted, `IBV_QP_ATTACH_COMP_CNTR_OP_*`.
pub const COUNTED_OPS: u32 = IBV_QP_ATTACH_COMP_CNTR_OP_SEND
    | IBV_QP_ATTACH_COMP_CNTR_OP_RECV
    | IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_READ
    | IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_READ
    | IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE
    | IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_WRITE;

/// The operations of a peer. Their requests need the queue pair's responder, which counts them.
const REMOTE_OPS: u32 =
    IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_READ | IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_WRITE;

/// The number that a counter adds for an operation that has succeeded. One that has failed adds one
/// in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// The counter adds one.
    WorkRequests,
    /// The bytes of its message.
    Bytes,
}

/// A completion counter. Counts wrap around at 2^64.
#[derive(Debug)]
pub struct CompletionCounter {
    unit: Unit,
    /// The count of operations that have succeeded.
    pub succeeded: AtomicU64,
    /// The count of operations that have failed.
    pub failed: AtomicU64,
    /// Operations of queue pairs that it is attached to.
    attachments: AtomicU32,
}

impl CompletionCounter {
    /// A counter whose counts are 0.
    pub fn new(unit: Unit) -> CompletionCounter {
        CompletionCounter {
            unit,
            succeeded: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            attachments: AtomicU32::new(0),
        }
    }

    /// Whether a queue pair counts with it.
    pub fn is_attached(&self) -> bool {
        self.attachments.load(Ordering::Acquire) > 0
    }

    /// Counts an operation with a message of that many bytes; None: one that has failed.
    fn add(&self, len: Option<u32>) {
        // Release: who reads the count sees the data of the operation.
        match (len, self.unit) {
            (None, _) => self.failed.fetch_add(1, Ordering::Release),
            (Some(_), Unit::WorkRequests) => self.succeeded.fetch_add(1, Ordering::Release),
            (Some(len), Unit::Bytes) => self.succeeded.fetch_add(len.into(), Ordering::Release),
        };
    }
}

/// An operation already has a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlreadyCounted;

/// The counters of a queue pair: at most one for each operation.
#[derive(Debug, Default)]
pub struct AttachedCounters {
    /// The operations that have one.
    ops: AtomicU32,
    /// The counters by the number of the operation's bit.
    counters: [OnceLock<Arc<CompletionCounter>>; COUNTED_OPS.count_ones() as usize],
}

impl AttachedCounters {
    /// Counts the operations with this counter from now on. Fails, and changes nothing, if one of them has a
    /// counter. The caller has the queue pair locked.
    pub fn attach(&self, ops: u32, counter: &Arc<CompletionCounter>) -> Result<(), AlreadyCounted> {
        let attached = self.ops.load(Ordering::Relaxed);
        if attached & ops != 0 {
            return Err(AlreadyCounted);
        }
        let count = ops.count_ones();
        counter.attachments.fetch_add(count, Ordering::Relaxed);
        for (number, place) in self.counters.iter().enumerate() {
            if ops & 1 << number != 0 {
                // None has a counter, as its bit of `attached` is not set.
                let _ = place.set(Arc::clone(counter));
            }
        }
        self.ops.store(attached | ops, Ordering::Release);
        Ok(())
    }

    /// The queue pair is destroyed: counts nothing from now on. No thread runs the queue pair, or attaches
    /// counters to it, any more.
    pub fn detach_all(&self) {
        self.ops.store(0, Ordering::Relaxed);
        for counter in self.counters.iter().filter_map(OnceLock::get) {
            counter.attachments.fetch_sub(1, Ordering::Release);
        }
    }

    /// Whether operations of the peer are counted.
    pub fn counts_peer(&self) -> bool {
        self.ops.load(Ordering::Acquire) & REMOTE_OPS != 0
    }

    /// A work request has completed, with or without a completion for the program.
    #[inline]
    pub fn on_completion(&self, queue: WorkQueue, completion: &Completion) {
        if self.ops.load(Ordering::Relaxed) != 0 {
            self.count_completion(queue, completion);
        }
    }

    #[cold]
    fn count_completion(&self, queue: WorkQueue, completion: &Completion) {
        let op = match (queue, completion.opcode) {
            (WorkQueue::Recv | WorkQueue::XrcSrq { .. }, _) => IBV_QP_ATTACH_COMP_CNTR_OP_RECV,
            (WorkQueue::Send, IBV_WC_SEND) => IBV_QP_ATTACH_COMP_CNTR_OP_SEND,
            (WorkQueue::Send, IBV_WC_RDMA_READ) => IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_READ,
            (WorkQueue::Send, IBV_WC_RDMA_WRITE) => IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE,
            _ => return,
        };
        let succeeded = completion.status == IBV_WC_SUCCESS;
        self.count(op, succeeded.then_some(completion.byte_len));
    }

    /// A request of the peer with a message of that many bytes was executed; None: it was refused.
    #[inline]
    pub fn on_peer_request(&self, access: Access, len: Option<u32>) {
        if !self.counts_peer() {
            return;
        }
        match access {
            Access::Read => self.count(IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_READ, len),
            Access::Write => self.count(IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_WRITE, len),
            Access::Atomic | Access::FlushGlobal | Access::FlushPersistent => {}
        }
    }

    fn count(&self, op: u32, len: Option<u32>) {
        let place = &self.counters[op.trailing_zeros() as usize];
        if let Some(counter) = place.get() {
            counter.add(len);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEND: u32 = IBV_QP_ATTACH_COMP_CNTR_OP_SEND;
    const RECV: u32 = IBV_QP_ATTACH_COMP_CNTR_OP_RECV;
    const PEERS_WRITE: u32 = IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_WRITE;

    fn completion(status: ibv_wc_status, opcode: ibv_wc_opcode, byte_len: u32) -> Completion {
        Completion {
            byte_len,
            ..Completion::new(1, status, opcode)
        }
    }

    fn counts(counter: &CompletionCounter) -> (u64, u64) {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (load(&counter.succeeded), load(&counter.failed))
    }

    fn counter(unit: Unit) -> Arc<CompletionCounter> {
        Arc::new(CompletionCounter::new(unit))
    }

    #[test]
    fn each_operation_has_its_counter() {
        let (requests, bytes) = (counter(Unit::WorkRequests), counter(Unit::Bytes));
        let attached = AttachedCounters::default();
        attached.on_completion(WorkQueue::Send, &completion(IBV_WC_SUCCESS, IBV_WC_SEND, 9));
        assert_eq!(attached.attach(SEND, &requests), Ok(()));
        assert_eq!(attached.attach(SEND | RECV, &bytes), Err(AlreadyCounted));
        assert_eq!(attached.attach(RECV, &bytes), Ok(()));
        assert!(!attached.counts_peer());
        for (queue, status, opcode, byte_len) in [
            (WorkQueue::Send, IBV_WC_SUCCESS, IBV_WC_SEND, 10),
            (WorkQueue::Send, IBV_WC_SUCCESS, IBV_WC_RDMA_WRITE, 11),
            (WorkQueue::Send, IBV_WC_WR_FLUSH_ERR, IBV_WC_SEND, 12),
            (WorkQueue::Recv, IBV_WC_SUCCESS, IBV_WC_RECV, 13),
            (
                WorkQueue::XrcSrq { srqn: 1 },
                IBV_WC_SUCCESS,
                IBV_WC_RECV_RDMA_WITH_IMM,
                14,
            ),
            (WorkQueue::Recv, IBV_WC_WR_FLUSH_ERR, IBV_WC_RECV, 0),
        ] {
            attached.on_completion(queue, &completion(status, opcode, byte_len));
        }
        assert_eq!(counts(&requests), (1, 1));
        assert_eq!(counts(&bytes), (27, 1));
    }

    #[test]
    fn requests_of_the_peer_are_counted() {
        let written = counter(Unit::Bytes);
        let attached = AttachedCounters::default();
        attached.on_peer_request(Access::Write, Some(5));
        assert_eq!(attached.attach(PEERS_WRITE, &written), Ok(()));
        assert!(attached.counts_peer());
        for (access, len) in [
            (Access::Write, Some(100)),
            (Access::Write, None),
            (Access::Read, Some(7)),
            (Access::Atomic, Some(8)),
        ] {
            attached.on_peer_request(access, len);
        }
        assert_eq!(counts(&written), (100, 1));
    }

    #[test]
    fn a_counter_is_attached_until_its_last_queue_pair_ends() {
        let both = counter(Unit::WorkRequests);
        let queue_pairs = [AttachedCounters::default(), AttachedCounters::default()];
        for ops in [SEND | RECV, PEERS_WRITE] {
            assert_eq!(queue_pairs[0].attach(ops, &both), Ok(()));
        }
        assert_eq!(queue_pairs[1].attach(SEND, &both), Ok(()));
        queue_pairs[0].detach_all();
        assert!(both.is_attached());
        queue_pairs[1].detach_all();
        assert!(!both.is_attached());
        queue_pairs[0].on_peer_request(Access::Write, Some(1));
        assert_eq!(counts(&both), (0, 0));
    }
}
