//! Work requests, as the engine takes them, and completions, as it gives them.

use ibverbs_abi::{IBV_WC_SUCCESS, ibv_wc_opcode, ibv_wc_status};
use smallvec::SmallVec;

use super::AddressVector;

/// A piece of local memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sge {
    pub addr: u64,
    pub len: u32,
    pub lkey: u32,
}

/// The pieces of a work request.
pub type Sges = SmallVec<[Sge; 4]>;

/// Inline data, copied when the request was posted.
pub type Inline = SmallVec<[u8; 64]>;

/// A request of the send queue.
#[derive(Clone, Debug)]
pub struct SendWr {
    pub wr_id: u64,
    pub op: SendOp,
    pub flags: SendFlags,
    pub sges: Sges,
    /// In place of `sges`.
    pub inline: Option<Inline>,
    /// For datagrams.
    pub ud: Option<UdAddress>,
    /// For XRC: the remote shared receive queue.
    pub xrc_srqn: u32,
}

/// What a request does. `imm` is in network byte order, as in `ibv_send_wr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendOp {
    Send,
    SendImm {
        imm: u32,
    },
    SendInv {
        rkey: u32,
    },
    Write {
        va: u64,
        rkey: u32,
    },
    WriteImm {
        va: u64,
        rkey: u32,
        imm: u32,
    },
    Read {
        va: u64,
        rkey: u32,
    },
    CmpSwap {
        va: u64,
        rkey: u32,
        compare: u64,
        swap: u64,
    },
    FetchAdd {
        va: u64,
        rkey: u32,
        add: u64,
    },
    AtomicWrite {
        va: u64,
        rkey: u32,
        data: [u8; 8],
    },
    Flush {
        va: u64,
        rkey: u32,
        len: u32,
        placement: u8,
        selectivity: u8,
    },
    LocalInv {
        rkey: u32,
    },
    BindMw(Bind),
}

/// Binding a memory window by work request (type 2; or type 1, which `ibv_bind_mw` posts).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bind {
    /// The window's number in the host.
    pub mw: u64,
    /// The R_Key that the window is to have.
    pub rkey: u32,
    /// The region's L_Key.
    pub mr_lkey: u32,
    pub addr: u64,
    pub len: u64,
    /// `IBV_ACCESS_*`.
    pub access: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct SendFlags {
    pub signaled: bool,
    pub solicited: bool,
    pub fence: bool,
}

/// Where a datagram goes.
#[derive(Clone, Copy, Debug)]
pub struct UdAddress {
    pub av: AddressVector,
    pub qpn: u32,
    /// With the highest bit set, the queue pair's own Q_Key is sent in its place (10.2.5).
    pub qkey: u32,
}

/// A request of a receive queue.
#[derive(Clone, Debug)]
pub struct RecvWr {
    pub wr_id: u64,
    pub sges: Sges,
}

/// What is known of a finished request; the host adds what the engine does not know (`qp_num`, time
/// stamp).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    pub wr_id: u64,
    pub status: ibv_wc_status,
    pub opcode: ibv_wc_opcode,
    pub byte_len: u32,
    /// `imm_data` (network byte order) or `invalidated_rkey`, as `wc_flags` says.
    pub imm_or_rkey: u32,
    pub src_qpn: u32,
    /// `IBV_WC_*`.
    pub wc_flags: u32,
    pub pkey_index: u16,
    pub vendor_err: u32,
    /// Raises an event on a queue that is armed for solicited completions (also every error does).
    pub solicited: bool,
}

impl Completion {
    /// One that tells no more than that. An error raises an event whatever the queue is armed for.
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
            vendor_err: 0,
            solicited: status != IBV_WC_SUCCESS,
        }
    }
}
