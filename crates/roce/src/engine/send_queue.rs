//! The send queue: WQEs that have not completed, and the request packets that each consists of.
//!
//! Request packets are numbered without wrapping around. Of those that are sent, the lower 24 bits of the
//! number give the PSN.

use ibverbs_abi::*;

use super::drain::Drain;
use super::slot_count::{PolledSends, SlotCount};
use super::slots::Slots;
use super::{Completion, Data, Hca, LocalError, MAX_MESSAGE_LEN, SendFlags, SendOp, SendWr};
use crate::wire::{Operation, Psn};

/// The most bytes that one READ request asks for. A longer READ is sent as several requests, so that
/// the congestion window can limit the responses in flight.
const MAX_READ_REQUEST_LEN: u32 = 64 << 10;
/// The first packet of a connection has this number plus its PSN, so that the packet numbers before it
/// are not negative.
const FIRST_PACKET: u64 = 1 << 32;

/// The packet number of a connection's first packet.
pub fn first_packet(psn: Psn) -> u64 {
    FIRST_PACKET | u64::from(psn.get())
}

/// The PSN of a packet that is in flight or not sent yet.
#[inline]
pub fn psn(packet: u64) -> Psn {
    Psn::new((packet & 0xff_ffff) as u32)
}

/// The packet with that PSN that is nearest to `near`, which is in flight or not sent yet.
#[inline]
pub fn nearest_packet(psn: Psn, near: u64) -> u64 {
    near.wrapping_add_signed(psn.distance(self::psn(near)).into())
}

/// How the peer responds to an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpClass {
    /// SEND, WRITE: an ACK, which may cover several packets.
    Acked,
    /// READ: each packet number stands for a READ response packet.
    Read,
    /// An ATOMIC ACK with the original value.
    Atomic,
    /// ATOMIC WRITE, FLUSH: a READ response without payload.
    EmptyResponse,
    /// A local operation: nothing is sent.
    Local,
}

/// The progress of a WQE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WqeState {
    Pending,
    /// Executed: a local operation, or what the HCA did in place of sending it.
    Executed,
    /// Completes with that status once all earlier WQEs have completed.
    Failed(ibv_wc_status),
}

/// A WQE of the send queue.
#[derive(Debug)]
pub struct Wqe {
    pub wr: SendWr,
    /// The number of its first packet.
    pub first: u64,
    /// The packet number after its last packet.
    pub end: u64,
    /// The length of the message in bytes.
    pub len: u32,
    /// The number of its last message, modulo 2^24: see [`Wqe::ssn`].
    message: u32,
    pub state: WqeState,
}

impl Default for Wqe {
    fn default() -> Wqe {
        Wqe {
            wr: SendWr::new(0, SendOp::Send, SendFlags::default()),
            first: 0,
            end: 0,
            len: 0,
            message: 0,
            state: WqeState::Pending,
        }
    }
}

impl Wqe {
    /// How the peer responds to the WQE.
    #[inline]
    pub fn class(&self) -> OpClass {
        match self.wr.op {
            SendOp::Send
            | SendOp::SendImm { .. }
            | SendOp::SendInv { .. }
            | SendOp::Write { .. }
            | SendOp::WriteImm { .. } => OpClass::Acked,
            SendOp::Read { .. } => OpClass::Read,
            SendOp::CmpSwap { .. } | SendOp::FetchAdd { .. } => OpClass::Atomic,
            SendOp::AtomicWrite { .. } | SendOp::Flush { .. } => OpClass::EmptyResponse,
            SendOp::LocalInv { .. } | SendOp::BindMw(_) => OpClass::Local,
        }
    }

    /// Whether the message consumes a receive WQE of the peer.
    pub fn consumes_recv_wqe(&self) -> bool {
        matches!(
            self.wr.op,
            SendOp::Send
                | SendOp::SendImm { .. }
                | SendOp::SendInv { .. }
                | SendOp::WriteImm { .. }
        )
    }

    /// Checks the memory of a message that is sent in several parts: none must be started that cannot be
    /// finished.
    pub fn check_payload(&self, hca: &mut impl Hca) -> Result<(), LocalError> {
        if self.wr.inline().is_some() {
            return Ok(());
        }
        let found = hca.check_local(self.wr.sges(), false)?;
        let is_enough = found >= u64::from(self.len);
        is_enough.then_some(()).ok_or(LocalError::Length)
    }

    /// Copies what it sends, from byte `offset` on, as much as `into` holds.
    #[inline(always)]
    pub fn read_payload(
        &self,
        offset: u64,
        into: &mut [u8],
        hca: &mut impl Hca,
    ) -> Result<(), LocalError> {
        match (&self.wr.op, &self.wr.data) {
            (SendOp::AtomicWrite { data, .. }, _) => into.copy_from_slice(data),
            (_, Data::Inline(inline)) => {
                let start = offset as usize;
                let bytes = inline.get(start..start + into.len());
                into.copy_from_slice(bytes.ok_or(LocalError::Length)?);
            }
            (_, Data::Sges(sges)) => hca.gather(sges, offset, into)?,
        }
        Ok(())
    }

    /// The operation of its packets; None for local operations.
    pub fn operation(&self) -> Option<Operation> {
        Some(match self.wr.op {
            SendOp::Send => Operation::Send,
            SendOp::SendImm { .. } => Operation::SendImm,
            SendOp::SendInv { .. } => Operation::SendInv,
            SendOp::Write { .. } => Operation::Write,
            SendOp::WriteImm { .. } => Operation::WriteImm,
            SendOp::Read { .. } => Operation::ReadRequest,
            SendOp::CmpSwap { .. } => Operation::CmpSwap,
            SendOp::FetchAdd { .. } => Operation::FetchAdd,
            SendOp::AtomicWrite { .. } => Operation::AtomicWrite,
            SendOp::Flush { .. } => Operation::Flush,
            SendOp::LocalInv { .. } | SendOp::BindMw(_) => return None,
        })
    }

    /// The send sequence number of its last message (9.7.7.2; 24 bits): the MSN that the responder reports
    /// once that message is complete.
    #[inline]
    pub fn ssn(&self) -> Psn {
        Psn::new(self.message)
    }

    /// The completion of the WQE with that status. (Only receive completions can be solicited.)
    pub fn completion(&self, status: ibv_wc_status) -> Completion {
        self.wr.completion(self.len, status)
    }

    /// Packets and messages on the wire.
    #[inline]
    fn size(&self, mtu: u32) -> (u64, u32) {
        // Most fit a packet: that saves a division.
        let payloads = match self.len <= mtu {
            true => 1,
            false => u64::from(self.len.div_ceil(mtu)),
        };
        match self.class() {
            OpClass::Local => (0, 0),
            OpClass::Acked => (payloads, 1),
            OpClass::Read => (payloads, payloads.div_ceil(packets_per_read(mtu)) as u32),
            OpClass::Atomic | OpClass::EmptyResponse => (1, 1),
        }
    }

    /// Whether a READ request was first sent as packet `at`.
    pub fn starts_read(&self, at: u64, mtu: u32) -> bool {
        (at - self.first) % packets_per_read(mtu) == 0
    }

    /// The packet number after a request that is sent as packet `at`: that of a READ after the last response
    /// that it asks for.
    #[inline]
    pub fn request_end(&self, at: u64, mtu: u32) -> u64 {
        if !matches!(self.wr.op, SendOp::Read { .. }) {
            return at + 1;
        }
        let per_request = packets_per_read(mtu);
        let earlier_requests = (at - self.first) / per_request;
        (self.first + (earlier_requests + 1) * per_request).min(self.end)
    }
}

fn packets_per_read(mtu: u32) -> u64 {
    u64::from(MAX_READ_REQUEST_LEN / mtu).max(1)
}

/// Executes a local operation. Returns the new state of its WQE.
pub fn execute_local(wr: &SendWr, hca: &mut impl Hca) -> WqeState {
    let result = match &wr.op {
        SendOp::LocalInv { rkey } => hca.invalidate_local(*rkey),
        SendOp::BindMw(bind) => hca.bind_mw(bind),
        _ => Ok(()),
    };
    match result {
        Ok(()) => WqeState::Executed,
        Err(_) => WqeState::Failed(IBV_WC_MW_BIND_ERR),
    }
}

/// The finding of [`SendQueue::next_finished`] at the head of the send queue.
pub enum Finished {
    /// A WQE completed successfully and was removed.
    Success {
        completion: Completion,
        signaled: bool,
    },
    /// The oldest WQE is still there and has to fail with that status.
    Failed(ibv_wc_status),
}

/// The WQEs that have not completed, oldest first. Their packet numbers are contiguous.
#[derive(Debug, Default)]
pub struct SendQueue {
    wqes: Slots<Wqe>,
    /// The number of the next WQE's first packet.
    end: u64,
    /// The number of the newest message, modulo 2^24.
    message: u32,
    slots: SlotCount,
    drain: Drain,
}

impl SendQueue {
    /// The empty send queue of a new connection; `packet` is its first packet.
    pub fn starting_at(packet: u64) -> SendQueue {
        SendQueue {
            end: packet,
            ..SendQueue::default()
        }
    }

    /// The packet number after the last WQE's last packet.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// WQEs that have not completed.
    pub fn len(&self) -> usize {
        self.wqes.len()
    }

    /// Whether all WQEs have completed.
    pub fn is_empty(&self) -> bool {
        self.wqes.is_empty()
    }

    /// WQE number `index`, counted from the oldest.
    pub fn get(&self, index: usize) -> Option<&Wqe> {
        self.wqes.get(index)
    }

    /// The oldest WQE.
    pub fn front(&self) -> Option<&Wqe> {
        self.wqes.get(0)
    }

    /// The WQEs, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Wqe> {
        self.wqes.iter()
    }

    /// Space for the WR of the next WQE. It has any values. None if there is no memory.
    #[inline]
    pub fn next_wr(&mut self) -> Option<&mut SendWr> {
        self.wqes.next_place().map(|wqe| &mut wqe.wr)
    }

    /// The WR that was written to [`SendQueue::next_wr`].
    #[inline]
    pub fn written_wr(&self) -> Option<&SendWr> {
        self.wqes.next().map(|wqe| &wqe.wr)
    }

    /// Appends a WQE with the WR that was written to [`SendQueue::next_wr`]. A message longer than 2^31
    /// bytes fails when it becomes the oldest WQE.
    #[inline]
    pub fn push_next(&mut self, mtu: u32) {
        let Some(wqe) = self.wqes.next_place() else {
            return;
        };
        let sum = wqe.wr.message_len();
        wqe.len = sum.min(MAX_MESSAGE_LEN.into()) as u32;
        let (packets, messages) = wqe.size(mtu);
        wqe.first = self.end;
        self.end += packets;
        wqe.end = self.end;
        self.message = self.message.wrapping_add(messages) & 0xff_ffff;
        wqe.message = self.message;
        wqe.state = if sum > MAX_MESSAGE_LEN.into() {
            WqeState::Failed(IBV_WC_LOC_LEN_ERR)
        } else {
            WqeState::Pending
        };
        self.wqes.push_next();
    }

    /// Changes the state of WQE number `index`, counted from the oldest.
    pub fn set_state(&mut self, index: usize, state: WqeState) {
        if let Some(wqe) = self.wqes.get_mut(index) {
            wqe.state = state;
        }
    }

    /// Removes the oldest WQE if it is complete: executed, or acknowledged. None: it is neither complete nor
    /// failed.
    #[inline]
    pub fn next_finished(&mut self, is_acked: impl FnOnce(&Wqe) -> bool) -> Option<Finished> {
        let wqe = self.front()?;
        match wqe.state {
            WqeState::Pending if !is_acked(wqe) => return None,
            WqeState::Executed | WqeState::Pending => {}
            WqeState::Failed(status) => {
                let begins = !self.drain.stops(wqe.first);
                return begins.then_some(Finished::Failed(status));
            }
        }
        let signaled = wqe.wr.flags.signaled;
        let completion = self.pop_front(IBV_WC_SUCCESS)?;
        Some(Finished::Success {
            completion,
            signaled,
        })
    }

    /// The WQEs that may not begin.
    #[inline]
    pub fn drain(&self) -> &Drain {
        &self.drain
    }

    /// The WQEs that may not begin, to change which.
    #[inline]
    pub fn drain_mut(&mut self) -> &mut Drain {
        &mut self.drain
    }

    /// Whether draining has ended. Returns true once.
    pub fn take_drained(&mut self) -> bool {
        let first = self.front().map(|wqe| wqe.first);
        self.drain.take_drained(first)
    }

    /// Removes the oldest WQE and returns its completion with that status, which is reported if that is an
    /// error: for others see [`SendQueue::report`].
    pub fn pop_front(&mut self, status: ibv_wc_status) -> Option<Completion> {
        let wqe = self.wqes.pop_front()?;
        wqe.wr.data.free();
        let mut completion = wqe.completion(status);
        self.slots.on_completed();
        if status != IBV_WC_SUCCESS {
            self.report(&mut completion);
        }
        Some(completion)
    }

    /// A WR was executed without an entry of the queue, which is empty.
    #[inline]
    pub fn skip(&mut self) {
        self.slots.on_completed();
    }

    /// The completion of the WQE that was removed last is about to be reported.
    #[inline]
    pub fn report(&mut self, completion: &mut Completion) {
        completion.covered_before = self.slots.on_reported();
    }

    /// Slots that are not known to be free.
    #[inline]
    pub fn occupied(&self) -> u32 {
        self.slots.occupied(self.wqes.len() as u32)
    }

    /// The program has polled these completions.
    pub fn free_slots(&mut self, polled: PolledSends) {
        self.slots.free(polled);
    }

    /// Ends draining, removes all WQEs and returns their completions, oldest first. The next WQE's first
    /// packet is `next`.
    pub fn flush(&mut self, next: u64) -> impl Iterator<Item = Completion> {
        self.end = next;
        self.drain.resume();
        core::iter::from_fn(|| self.pop_front(IBV_WC_WR_FLUSH_ERR))
    }
}
