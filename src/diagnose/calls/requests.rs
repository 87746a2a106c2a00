//! Posted requests: from lists of C's structures to plain values.

use core::ffi::c_int;
use core::slice;

use ibverbs_abi::*;

use super::super::facts;
use super::super::shadow::{Qp, Receive, Receives, Remote, Requests, SendRequest, Sge, Sges};
use super::preserving_errno;

/// The elements of a list. Of more than `max` only the first are read, because the provider refuses the
/// request without reading them; the others are empty.
///
/// # Safety
/// `list` is readable for `count` elements, if these are no more than `max`.
unsafe fn sges(list: *const ibv_sge, count: c_int, max: u32) -> Sges {
    let count = usize::try_from(count).unwrap_or(0);
    if count > max as usize || list.is_null() {
        return Sges::from_elem(Sge::default(), count.min(4096));
    }
    // SAFETY: the list is readable, as the caller promises.
    let list = unsafe { slice::from_raw_parts(list, count) };
    let copy = |sge: &ibv_sge| Sge {
        addr: sge.addr,
        length: sge.length,
        lkey: sge.lkey,
    };
    list.iter().map(copy).collect()
}

/// The memory that a request accesses at the peer; None for a SEND or a local operation.
///
/// # Safety
/// `wr` is a whole request: the member of its union that the opcode selects is set.
unsafe fn remote(wr: &ibv_send_wr) -> Option<Remote> {
    // SAFETY: each member is read for the opcodes that select it, as the caller promises.
    let (addr, rkey, length) = unsafe {
        match wr.opcode {
            IBV_WR_RDMA_WRITE
            | IBV_WR_RDMA_WRITE_WITH_IMM
            | IBV_WR_RDMA_READ
            | IBV_WR_ATOMIC_WRITE => (wr.wr.rdma.remote_addr, wr.wr.rdma.rkey, None),
            IBV_WR_ATOMIC_CMP_AND_SWP | IBV_WR_ATOMIC_FETCH_AND_ADD => {
                (wr.wr.atomic.remote_addr, wr.wr.atomic.rkey, Some(8))
            }
            _ => return None,
        }
    };
    Some(Remote { addr, rkey, length })
}

/// The first requests of a queue pair get a digest of their data, and later one in SAMPLED.
const ALL_SAMPLED: u64 = 64;
const SAMPLED: u64 = 64;

/// The properties of a queue pair that reading a request depends on.
#[derive(Clone, Copy)]
pub struct Posts {
    kind: ibv_qp_type,
    /// SGEs per request at most.
    max_sge: u32,
    sig_all: bool,
    /// The request gets a digest of its data.
    samples: bool,
}

impl Posts {
    pub fn of(qp: &Qp) -> Posts {
        Posts {
            kind: qp.kind,
            max_sge: qp.cap.max_send_sge,
            sig_all: qp.sig_all,
            samples: qp.sends.posted() < ALL_SAMPLED || qp.sends.posted() % SAMPLED == 0,
        }
    }
}

/// A request of a queue pair.
///
/// # Safety
/// `wr` is a whole request of such a queue pair, and its scatter/gather list is readable.
unsafe fn request(wr: &ibv_send_wr, of: Posts) -> SendRequest {
    let (ah, remote_qpn, remote_qkey) = match of.kind {
        // SAFETY: a request of a UD queue pair has this member of the union.
        IBV_QPT_UD => unsafe {
            let to = wr.wr.ud;
            (to.ah as usize, to.remote_qpn, to.remote_qkey)
        },
        _ => (0, 0, 0),
    };
    // SAFETY: the scatter/gather list is readable, as the caller promises.
    let sges = unsafe { sges(wr.sg_list, wr.num_sge, of.max_sge) };
    // SAFETY: the request is whole, as the caller promises.
    let remote = unsafe { remote(wr) };
    let signaled = of.sig_all || wr.send_flags & IBV_SEND_SIGNALED != 0;
    let inline = wr.send_flags & IBV_SEND_INLINE != 0;
    SendRequest {
        wr_id: wr.wr_id,
        opcode: wr.opcode,
        signaled,
        inline,
        digest: match of.samples && signaled && !inline && reads_buffer(wr.opcode) {
            true => digest(&sges),
            false => 0,
        },
        sges,
        num_sge: wr.num_sge,
        remote,
        misplaced_rkey: match wr.opcode {
            // SAFETY: the members of the union are plain numbers, and `rdma` is shorter than `atomic`.
            IBV_WR_ATOMIC_CMP_AND_SWP | IBV_WR_ATOMIC_FETCH_AND_ADD => unsafe { wr.wr.rdma.rkey },
            _ => 0,
        },
        ah,
        remote_qpn,
        remote_qkey,
        remote_srqn: match of.kind {
            // SAFETY: a request of an XRC queue pair has this member of the union.
            IBV_QPT_XRC_SEND => unsafe { wr.qp_type.xrc.remote_srqn },
            _ => 0,
        },
        invalidates: match wr.opcode {
            // SAFETY: these opcodes select this member of the union.
            IBV_WR_SEND_WITH_INV | IBV_WR_LOCAL_INV => unsafe { wr.imm.invalidate_rkey },
            _ => 0,
        },
        mw_type: match wr.opcode {
            // SAFETY: the opcode selects this member of the union; the window is NULL or alive.
            IBV_WR_BIND_MW => unsafe { wr.op.bind_mw.mw.as_ref() }.map_or(0, |mw| mw.type_),
            _ => 0,
        },
        binding: match wr.opcode {
            // SAFETY: the opcode selects this member of the union.
            IBV_WR_BIND_MW => Some(unsafe { wr.op.bind_mw.bind_info }.into()),
            _ => None,
        },
        flags: wr.send_flags,
        list_is_null: wr.sg_list.is_null() && wr.num_sge > 0,
        list_is_unused: !wr.sg_list.is_null() && wr.num_sge == 0,
        ..SendRequest::default()
    }
}

/// Whether the device reads the buffers of a request, and does not write to them.
fn reads_buffer(opcode: u32) -> bool {
    matches!(
        opcode,
        IBV_WR_SEND
            | IBV_WR_SEND_WITH_IMM
            | IBV_WR_SEND_WITH_INV
            | IBV_WR_RDMA_WRITE
            | IBV_WR_RDMA_WRITE_WITH_IMM
    )
}

/// A digest of the buffers' data; 0 if it cannot be read.
fn digest(sges: &[Sge]) -> u64 {
    preserving_errno(|| facts::digest(sges).unwrap_or(0))
}

/// The requests of a list, and whether it contains itself: then each is there once.
///
/// # Safety
/// The list's requests are readable.
pub unsafe fn requests(mut wr: *const ibv_send_wr, of: Posts) -> (Requests, bool) {
    let mut found = Requests::new();
    let mut seen = Seen::default();
    // SAFETY: the list ends with NULL, and its requests are readable, as the caller promises.
    while let Some(given) = unsafe { wr.as_ref() } {
        if seen.is_again(wr as usize) {
            return (found, true);
        }
        // SAFETY: the request is the program's for a queue pair of this type, with a readable list.
        found.push(unsafe { request(given, of) });
        wr = given.next;
    }
    (found, false)
}

/// Finds out whether a list contains itself. Short lists, which are the rule, cost no allocation.
#[derive(Default)]
struct Seen {
    first: usize,
    all: std::collections::BTreeSet<usize>,
}

impl Seen {
    fn is_again(&mut self, address: usize) -> bool {
        match self.first {
            0 => {
                self.first = address;
                false
            }
            first => first == address || !self.all.insert(address),
        }
    }
}

/// The receives of a list, and whether it contains itself: then each is there once.
///
/// # Safety
/// The list's receives are readable.
pub unsafe fn receives(mut wr: *const ibv_recv_wr, max_sge: u32) -> (Receives, bool) {
    let mut found = Receives::new();
    let mut seen = Seen::default();
    // SAFETY: the caller promises a readable list.
    unsafe {
        while !wr.is_null() {
            if seen.is_again(wr as usize) {
                return (found, true);
            }
            found.push(Receive {
                wr_id: (*wr).wr_id,
                sges: sges((*wr).sg_list, (*wr).num_sge, max_sge),
                ..Receive::default()
            });
            wr = (*wr).next;
        }
    }
    (found, false)
}
