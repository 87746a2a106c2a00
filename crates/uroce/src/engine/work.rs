//! Work requests and completions, in the engine's own form.

use ibverbs_abi::{IBV_WC_SUCCESS, ibv_wc_opcode, ibv_wc_status};
use smallvec::SmallVec;

use super::AddressVector;

/// A scatter/gather element: local memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sge {
    pub addr: u64,
    pub len: u32,
    pub lkey: u32,
}

/// The scatter/gather list of a work request.
pub type Sges = SmallVec<[Sge; 4]>;

/// Inline data, copied when the work request was posted.
pub type Inline = SmallVec<[u8; 64]>;

/// A send work request, `ibv_send_wr`. The caller of [`super::Qp::post_send`] has validated it.
#[derive(Clone, Debug)]
pub struct SendWr {
    pub wr_id: u64,
    pub op: SendOp,
    pub flags: SendFlags,
    pub sges: Sges,
    /// Takes the place of `sges`.
    pub inline: Option<Inline>,
    /// The destination of a datagram; required for UD.
    pub ud: Option<UdAddress>,
    /// For XRC: the number of the remote shared receive queue.
    pub xrc_srqn: u32,
}

/// The operation of a send work request and its operands. `imm` is in network byte order, as in
/// `ibv_send_wr`.
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

/// A memory window bind: of type 2 by a work request, or of type 1, which `ibv_bind_mw` posts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bind {
    /// The host's number of the memory window.
    pub mw: u64,
    /// The memory window's new R_Key.
    pub rkey: u32,
    /// The L_Key of the memory region.
    pub mr_lkey: u32,
    pub addr: u64,
    pub len: u64,
    /// `IBV_ACCESS_*`.
    pub access: u32,
}

/// `IBV_SEND_*`, except inline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct SendFlags {
    pub signaled: bool,
    pub solicited: bool,
    pub fence: bool,
}

/// The destination of a datagram.
#[derive(Clone, Copy, Debug)]
pub struct UdAddress {
    pub av: AddressVector,
    pub qpn: u32,
    /// With the highest bit set, the sending queue pair's Q_Key is sent instead (10.2.5).
    pub qkey: u32,
}

/// A receive work request, `ibv_recv_wr`.
#[derive(Clone, Debug)]
pub struct RecvWr {
    pub wr_id: u64,
    pub sges: Sges,
}

/// The completion of a work request, `ibv_wc`. The host adds `qp_num` and the time stamp.
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
    /// The service level; of a datagram, the type of its IP header (see `qp/ud.rs`).
    pub sl: u8,
    pub vendor_err: u32,
    /// The completion raises an event on a completion queue that is armed for solicited completions. Every
    /// error does.
    pub solicited: bool,
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
            vendor_err: 0,
            solicited: status != IBV_WC_SUCCESS,
        }
    }
}
