//! Posted requests and receives, and completions, as copies of what the program has passed or got.

use ibverbs_abi::*;
use smallvec::SmallVec;

use super::windows::Binding;
use crate::diagnose::check::list::Before;
use crate::diagnose::check::reasons::operation;
use crate::diagnose::sge::Sge;

/// More outstanding requests of a queue than this are not recorded: their completions are not seen, because
/// the program polls by a provider's own functions.
pub const MAX_RECORDED: usize = 1 << 16;

/// A scatter/gather list. Most have one element, and are posted without an allocation.
pub type Sges = SmallVec<[Sge; 2]>;
/// The requests that one call posts: mostly one.
pub type Requests = SmallVec<[SendRequest; 1]>;
pub type Receives = SmallVec<[Receive; 1]>;

/// The remote access of a one-sided request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Remote {
    pub addr: u64,
    pub rkey: u32,
    /// In bytes; None if it is the length of the request.
    pub length: Option<u64>,
}

/// A posted send request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SendRequest {
    pub wr_id: u64,
    pub opcode: u32,
    pub signaled: bool,
    pub inline: bool,
    /// The bytes of inline data that builder functions have set.
    pub inline_length: u64,
    pub sges: Sges,
    /// `num_sge`, which may be more than the list that was read has.
    pub num_sge: i32,
    pub remote: Option<Remote>,
    /// `wr.rdma.rkey` of an atomic operation, which has its key in `wr.atomic`; else 0.
    pub misplaced_rkey: u32,
    /// The address handle of a UD request, or 0.
    pub ah: usize,
    /// The destination of a UD request.
    pub remote_qpn: u32,
    pub remote_qkey: u32,
    /// The SRQ that a request of XRC names.
    pub remote_srqn: u32,
    /// The key that a SEND with invalidate, or a local invalidate, names; else 0.
    pub invalidates: u32,
    /// IBV_FLUSH_* of a FLUSH: what it waits for; else 0.
    pub placement: u32,
    /// The type of the window that is bound; else 0.
    pub mw_type: u32,
    /// The memory that a window is bound to.
    pub binding: Option<Binding>,
    /// IBV_SEND_*.
    pub flags: u32,
    /// `num_sge` is not 0, and `sg_list` is NULL.
    pub list_is_null: bool,
    /// `num_sge` is 0, and `sg_list` is not NULL.
    pub list_is_unused: bool,
    /// The request was built by ibv_wr_* functions.
    pub is_built: bool,
    /// The request's fault was reported when it was posted.
    pub is_explained: bool,
    /// A digest of the data when it was posted; 0 if there is none.
    pub digest: u64,
    /// How many receives of its queue pair had completed when it was posted.
    pub received: u64,
    /// Tells requests of the process apart.
    pub serial: u64,
    /// The thread that has posted it, or 0.
    pub poster: i32,
}

impl SendRequest {
    /// Whether its response has data for its memory: a READ, or an atomic operation.
    pub fn returns_data(&self) -> bool {
        matches!(
            self.opcode,
            IBV_WR_RDMA_READ | IBV_WR_ATOMIC_CMP_AND_SWP | IBV_WR_ATOMIC_FETCH_AND_ADD
        )
    }

    /// The requests before one in a list. Those that were built are in none.
    pub fn before(requests: &[SendRequest], at: usize) -> Before {
        let last = at.checked_sub(1).and_then(|last| requests.get(last));
        let last = last.filter(|_| !requests[at].is_built);
        last.map_or(Before::default(), |last| Before {
            count: at,
            last: Some(last.wr_id),
        })
    }

    /// The bytes of its scatter/gather list or inline data.
    pub fn length(&self) -> u64 {
        let sges: u64 = self.sges.iter().map(|sge| u64::from(sge.length)).sum();
        sges.saturating_add(self.inline_length)
    }

    /// The operation as messages name it.
    pub fn operation(&self) -> &'static str {
        operation(self.opcode)
    }
}

/// A posted receive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Receive {
    pub wr_id: u64,
    pub sges: Sges,
    /// The thread that has posted it to a queue pair, or 0.
    pub poster: i32,
}

impl Receive {
    /// The length of the longest message that fits.
    pub fn room(&self) -> u64 {
        self.sges.iter().map(|sge| u64::from(sge.length)).sum()
    }
}

/// The members of a work completion that the rules use.
#[derive(Clone, Copy, Debug, Default)]
pub struct Completion {
    /// 0 if the program's CQ does not report it.
    pub qpn: u32,
    pub wr_id: u64,
    pub status: u32,
    /// Valid without error only.
    pub opcode: u32,
    pub vendor_err: u32,
}
