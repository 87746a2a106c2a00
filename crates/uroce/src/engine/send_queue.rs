//! The send queue: requests, and which packets they are.
//!
//! Packets are numbered without wrapping around; the PSN is the lower 24 bits.

use std::collections::VecDeque;

use ibverbs_abi::*;

use super::{Completion, SendOp, SendWr};
use crate::wire::{Operation, Psn};

/// The longest message (9.7.1.1).
const LONGEST: u64 = 1 << 31;
/// Bytes that one READ request asks for at most: a longer one is several, so that the window can hold
/// back the responses.
const READ_BYTES: u32 = 64 << 10;
/// Number 0 has PSN 0, and numbers before the first can be named.
const FIRST: u64 = 1 << 32;

/// The packet number of the first packet with that PSN.
pub fn first_number(psn: Psn) -> u64 {
    FIRST | u64::from(psn.get())
}

/// The PSN of a packet.
pub fn psn_of(number: u64) -> Psn {
    Psn::new((number & 0xff_ffff) as u32)
}

/// The packet with that PSN that is nearest to packet `near`.
pub fn nearest(psn: Psn, near: u64) -> u64 {
    near.wrapping_add_signed(psn.distance(psn_of(near)).into())
}

/// How packets of a request are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// SEND, WRITE: acknowledged, maybe together with others.
    Message,
    /// Each packet number stands for a response with data.
    Read,
    Atomic,
    /// ATOMIC WRITE, FLUSH: a response without data, of its own.
    Prompt,
    /// Not sent at all.
    Local,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    Waiting,
    /// A local operation that has been executed.
    Executed,
    /// To be completed with that status when its turn comes.
    Failed(ibv_wc_status),
}

/// A request in the send queue.
#[derive(Debug)]
pub struct Wqe {
    pub wr: SendWr,
    /// The first packet.
    pub first: u64,
    /// The packet behind the last one.
    pub end: u64,
    /// The message's bytes.
    pub len: u32,
    /// Number of its last message, of those that the peer counts (24 bits).
    pub message: u32,
    pub progress: Progress,
}

impl Wqe {
    pub fn class(&self) -> Class {
        match self.wr.op {
            SendOp::Send
            | SendOp::SendImm { .. }
            | SendOp::SendInv { .. }
            | SendOp::Write { .. }
            | SendOp::WriteImm { .. } => Class::Message,
            SendOp::Read { .. } => Class::Read,
            SendOp::CmpSwap { .. } | SendOp::FetchAdd { .. } => Class::Atomic,
            SendOp::AtomicWrite { .. } | SendOp::Flush { .. } => Class::Prompt,
            SendOp::LocalInv { .. } | SendOp::BindMw(_) => Class::Local,
        }
    }

    /// It takes one of the peer's receives.
    pub fn takes_receive(&self) -> bool {
        matches!(
            self.wr.op,
            SendOp::Send
                | SendOp::SendImm { .. }
                | SendOp::SendInv { .. }
                | SendOp::WriteImm { .. }
        )
    }

    /// What its packets say; None for local ones.
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

    pub fn completion(&self, status: ibv_wc_status) -> Completion {
        let opcode = match self.wr.op {
            SendOp::Send | SendOp::SendImm { .. } | SendOp::SendInv { .. } => IBV_WC_SEND,
            SendOp::Write { .. } | SendOp::WriteImm { .. } => IBV_WC_RDMA_WRITE,
            SendOp::Read { .. } => IBV_WC_RDMA_READ,
            SendOp::CmpSwap { .. } => IBV_WC_COMP_SWAP,
            SendOp::FetchAdd { .. } => IBV_WC_FETCH_ADD,
            SendOp::AtomicWrite { .. } => IBV_WC_ATOMIC_WRITE,
            SendOp::Flush { .. } => IBV_WC_FLUSH,
            SendOp::LocalInv { .. } => IBV_WC_LOCAL_INV,
            SendOp::BindMw(_) => IBV_WC_BIND_MW,
        };
        // (Only receives are solicited.)
        Completion {
            byte_len: self.len,
            ..Completion::new(self.wr.wr_id, status, opcode)
        }
    }

    /// The packet behind the last one that a READ request sent as packet `at` asks for.
    pub fn read_end(&self, at: u64, mtu: u32) -> u64 {
        let per_request = packets_per_read(mtu);
        let begun = (at - self.first) / per_request;
        (self.first + (begun + 1) * per_request).min(self.end)
    }
}

fn packets_per_read(mtu: u32) -> u64 {
    u64::from(READ_BYTES / mtu).max(1)
}

/// The requests that have not completed, oldest first.
#[derive(Debug, Default)]
pub struct SendQueue {
    pub wqes: VecDeque<Wqe>,
    /// The packet that the next request begins with.
    next: u64,
    /// Messages so far.
    messages: u32,
}

impl SendQueue {
    /// The next request begins with that packet.
    pub fn start(&mut self, number: u64) {
        self.next = number;
        self.messages = 0;
    }

    /// The same, within a connection.
    pub fn resume(&mut self, number: u64) {
        self.next = number;
    }

    /// The packet behind all requests.
    pub fn next(&self) -> u64 {
        self.next
    }

    pub fn push(&mut self, wr: SendWr, mtu: u32) {
        let sum: u64 = match (&wr.op, &wr.inline) {
            (SendOp::CmpSwap { .. } | SendOp::FetchAdd { .. }, _) => 8,
            (SendOp::AtomicWrite { .. }, _) => 8,
            (SendOp::Flush { .. } | SendOp::LocalInv { .. }, _) => 0,
            (SendOp::BindMw(_), _) => 0,
            (_, Some(inline)) => inline.len() as u64,
            (_, None) => wr.sges.iter().map(|sge| u64::from(sge.len)).sum(),
        };
        let progress = if sum > LONGEST {
            Progress::Failed(IBV_WC_LOC_LEN_ERR)
        } else {
            Progress::Waiting
        };
        let len = sum.min(LONGEST) as u32;
        let mut wqe = Wqe {
            wr,
            first: self.next,
            end: self.next,
            len,
            message: 0,
            progress,
        };
        let packets = u64::from(len.div_ceil(mtu)).max(1);
        let (packets, messages) = match wqe.class() {
            Class::Local => (0, 0),
            Class::Message => (packets, 1),
            Class::Read => (packets, packets.div_ceil(packets_per_read(mtu)) as u32),
            Class::Atomic | Class::Prompt => (1, 1),
        };
        self.messages = self.messages.wrapping_add(messages) & 0xff_ffff;
        wqe.message = self.messages;
        wqe.end += packets;
        self.next = wqe.end;
        self.wqes.push_back(wqe);
    }

    pub fn clear(&mut self) {
        self.wqes.clear();
    }
}
