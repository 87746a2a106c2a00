//! Work requests and completions, in the engine's own form.
//!
//! Not here: the checks of a work request against the limits of its queue pair; the caller of
//! `post_send` makes them.
//!
//! Specification: 10.8; ATOMIC WRITE and FLUSH: annex A19.

use ibverbs_abi::*;
use smallvec::SmallVec;

use super::AddressVector;
use crate::wire::AtomicEth;

/// A scatter/gather element: local memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sge {
    /// The I/O virtual address of the first byte.
    pub addr: u64,
    /// Bytes.
    pub len: u32,
    /// L_Key of the region.
    pub lkey: u32,
}

/// The scatter/gather list of a work request.
pub type Sges = SmallVec<[Sge; 4]>;

/// Inline data, copied when the work request was posted.
pub type Inline = SmallVec<[u8; 64]>;

/// A send work request, `ibv_send_wr`. The caller of [`super::Qp::post_send`] has validated it.
#[derive(Clone, Debug)]
pub struct SendWr {
    /// The program's value, which the completion returns.
    pub wr_id: u64,
    /// The operation.
    pub op: SendOp,
    /// `send_flags`.
    pub flags: SendFlags,
    /// The data that the WR sends, or the memory that it reads into.
    pub data: Data,
    /// The destination of a datagram; required for UD.
    pub ud: Option<UdAddress>,
    /// For XRC: the number of the remote shared receive queue.
    pub xrc_srqn: u32,
}

/// The memory of a send work request.
#[derive(Clone, Debug)]
pub enum Data {
    /// The program's, in this order.
    Sges(Sges),
    /// A copy.
    Inline(Inline),
}

impl Data {
    /// An empty scatter/gather list from now on.
    #[inline]
    pub fn clear(&mut self) {
        match self {
            Data::Sges(sges) if !sges.spilled() => sges.clear(),
            other => *other = Data::Sges(Sges::new()),
        }
    }

    /// Frees memory; then there is no data.
    #[inline]
    pub fn free(&mut self) {
        let is_long = match self {
            Data::Sges(sges) => sges.spilled(),
            Data::Inline(bytes) => bytes.spilled(),
        };
        if is_long {
            self.clear();
        }
    }

    /// Appends to a scatter/gather list that has room for that without memory.
    #[inline]
    pub fn push(&mut self, sge: Sge) {
        if let Data::Sges(sges) = self {
            sges.push(sge);
        }
    }

    /// The length of the data in bytes.
    #[inline]
    pub fn byte_len(&self) -> u64 {
        match self {
            Data::Sges(sges) => sges.iter().map(|sge| u64::from(sge.len)).sum(),
            Data::Inline(bytes) => bytes.len() as u64,
        }
    }
}

impl SendWr {
    /// A work request without data, that is not for UD or XRC.
    #[inline]
    pub fn new(wr_id: u64, op: SendOp, flags: SendFlags) -> SendWr {
        SendWr {
            wr_id,
            op,
            flags,
            data: Data::Sges(Sges::new()),
            ud: None,
            xrc_srqn: 0,
        }
    }

    /// Makes it what [`SendWr::new`] returns, in its place.
    #[inline]
    pub fn begin(&mut self, wr_id: u64, op: SendOp, flags: SendFlags) {
        (self.wr_id, self.op, self.flags) = (wr_id, op, flags);
        (self.ud, self.xrc_srqn) = (None, 0);
        self.data.clear();
    }

    /// The completion of the WR if it succeeds.
    pub fn success(&self) -> Completion {
        self.completion(self.message_len() as u32, IBV_WC_SUCCESS)
    }

    /// The scatter/gather list; empty if the data is inline.
    #[inline]
    pub fn sges(&self) -> &[Sge] {
        match &self.data {
            Data::Sges(sges) => sges,
            Data::Inline(_) => &[],
        }
    }

    /// The inline data.
    #[inline]
    pub fn inline(&self) -> Option<&[u8]> {
        match &self.data {
            Data::Sges(_) => None,
            Data::Inline(bytes) => Some(bytes),
        }
    }

    /// Whether only reliable services have the operation.
    pub(crate) fn is_only_reliable(&self) -> bool {
        use SendOp::*;
        !matches!(
            self.op,
            Send | SendImm { .. } | Write { .. } | WriteImm { .. } | LocalInv { .. } | BindMw(_)
        )
    }

    /// The length of the message in bytes.
    #[inline]
    pub fn message_len(&self) -> u64 {
        match self.op {
            SendOp::CmpSwap { .. } | SendOp::FetchAdd { .. } | SendOp::AtomicWrite { .. } => 8,
            SendOp::Flush { .. } | SendOp::LocalInv { .. } | SendOp::BindMw(_) => 0,
            _ => self.data.byte_len(),
        }
    }

    /// The completion of a message of `len` bytes with that status. (Only receive completions can be
    /// solicited.)
    pub fn completion(&self, len: u32, status: ibv_wc_status) -> Completion {
        let opcode = match self.op {
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
        Completion {
            byte_len: len,
            ..Completion::new(self.wr_id, status, opcode)
        }
    }
}

/// The operation of a send work request and its operands. `imm` is in network byte order, as in
/// `ibv_send_wr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendOp {
    /// SEND.
    Send,
    /// SEND with immediate.
    SendImm {
        /// Immediate data.
        imm: u32,
    },
    /// SEND with invalidate.
    SendInv {
        /// The R_Key that the responder invalidates.
        rkey: u32,
    },
    /// RDMA WRITE.
    Write {
        /// Remote address.
        va: u64,
        /// R_Key of the remote memory.
        rkey: u32,
    },
    /// RDMA WRITE with immediate.
    WriteImm {
        /// Remote address.
        va: u64,
        /// R_Key of the remote memory.
        rkey: u32,
        /// Immediate data.
        imm: u32,
    },
    /// RDMA READ.
    Read {
        /// Remote address.
        va: u64,
        /// R_Key of the remote memory.
        rkey: u32,
    },
    /// Compare and swap of eight bytes.
    CmpSwap {
        /// Remote address.
        va: u64,
        /// R_Key of the remote memory.
        rkey: u32,
        /// The value to compare with.
        compare: u64,
        /// The new value if they are equal.
        swap: u64,
    },
    /// Fetch and add of eight bytes.
    FetchAdd {
        /// Remote address.
        va: u64,
        /// R_Key of the remote memory.
        rkey: u32,
        /// The summand.
        add: u64,
    },
    /// ATOMIC WRITE of eight bytes (annex A19).
    AtomicWrite {
        /// Remote address.
        va: u64,
        /// R_Key of the remote memory.
        rkey: u32,
        /// The bytes.
        data: [u8; 8],
    },
    /// FLUSH (annex A19).
    Flush {
        /// Remote address.
        va: u64,
        /// R_Key of the remote memory.
        rkey: u32,
        /// Bytes from `va` on.
        len: u32,
        /// PLT: visibility, persistence, or both.
        placement: u8,
        /// SEL: the range, or the whole memory region.
        selectivity: u8,
    },
    /// Local invalidate.
    LocalInv {
        /// The key of the region or window.
        rkey: u32,
    },
    /// Bind of a memory window.
    BindMw(Bind),
}

impl SendOp {
    /// The AtomicETH of an atomic operation.
    pub(crate) fn atomic_eth(&self) -> Option<AtomicEth> {
        let (va, rkey, swap_add, compare) = match *self {
            SendOp::CmpSwap {
                va,
                rkey,
                compare,
                swap,
            } => (va, rkey, swap, compare),
            SendOp::FetchAdd { va, rkey, add } => (va, rkey, add, 0),
            _ => return None,
        };
        Some(AtomicEth {
            va,
            rkey,
            swap_add,
            compare,
        })
    }
}

/// A memory window bind: of type 2 by a work request, or of type 1, which `ibv_bind_mw` posts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bind {
    /// The memory window's new R_Key.
    pub rkey: u32,
    /// The L_Key of the memory region.
    pub mr_lkey: u32,
    /// Where the window begins.
    pub addr: u64,
    /// Bytes.
    pub len: u64,
    /// `IBV_ACCESS_*`.
    pub access: u32,
}

/// `IBV_SEND_*`, except inline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct SendFlags {
    /// A successful WR has a completion.
    pub signaled: bool,
    /// The receiver's completion raises a solicited event.
    pub solicited: bool,
    /// Begins only when earlier READs and atomics have completed.
    pub fence: bool,
}

/// The destination of a datagram.
#[derive(Clone, Copy, Debug)]
pub struct UdAddress {
    /// The route.
    pub av: AddressVector,
    /// The queue pair number, 24 bits.
    pub qpn: u32,
    /// With the highest bit set, the sending queue pair's Q_Key is sent instead (10.2.5).
    pub qkey: u32,
}

/// A receive work request, `ibv_recv_wr`.
#[derive(Clone, Debug)]
pub struct RecvWr {
    /// The program's value, which the completion returns.
    pub wr_id: u64,
    /// The memory to receive into, in this order.
    pub sges: Sges,
}

/// The completion of a work request, `ibv_wc`. The HCA adds `qp_num` and the time stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The program's value of the work request.
    pub wr_id: u64,
    /// `IBV_WC_SUCCESS`, or an error.
    pub status: ibv_wc_status,
    /// Valid for success only, as in `ibv_wc`.
    pub opcode: ibv_wc_opcode,
    /// Bytes transferred; valid for success only.
    pub byte_len: u32,
    /// `imm_data` (network byte order) or `invalidated_rkey`, as `wc_flags` says.
    pub imm_or_rkey: u32,
    /// UD: the sender's queue pair number.
    pub src_qpn: u32,
    /// `IBV_WC_*`.
    pub wc_flags: u32,
    /// UD: the index of the packet's P_Key.
    pub pkey_index: u16,
    /// The service level; of a datagram, the type of its IP header (see `responder/datagram.rs`).
    pub sl: u8,
    /// The completion raises an event on a completion queue that is armed for solicited completions. Every
    /// error does.
    pub solicited: bool,
    /// How many requests of the same queue the completions before it cover, modulo 2^32: set when it is
    /// reported.
    pub covered_before: u32,
}

impl Completion {
    /// A completion with all other fields 0. One with an error is solicited.
    pub fn new(wr_id: u64, status: ibv_wc_status, opcode: ibv_wc_opcode) -> Completion {
        Completion {
            wr_id,
            status,
            opcode,
            byte_len: 0,
            imm_or_rkey: 0,
            src_qpn: 0,
            wc_flags: 0,
            pkey_index: 0,
            sl: 0,
            solicited: status != IBV_WC_SUCCESS,
            covered_before: 0,
        }
    }
}
