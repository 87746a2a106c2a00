//! Wrappers of the data path: record requests and receives when they are posted, and completions
//! when they are polled.
//!
//! Not here: what is wrong with them, which `shadow` and `check` decide; the `ibv_wr_*` functions
//! (`build.rs`) and polling of extended CQs (`poll_ex.rs`).

use core::ffi::c_int;
use core::{ptr, slice};

use ibverbs_abi::*;
use smallvec::SmallVec;

use super::super::finding::{Finding, Kind, Object, Outcome};
use super::super::rules::Rule;
use super::super::shadow::{
    Completion, Qp, Receive, Receives, Remote, Requests, SendRequest, Sge, Sges,
};
use super::super::wrap::original;
use super::super::{facts, report};
use super::{empty_for_long, look_up, observe, preserving_errno, with};
use crate::provider::software;

/// Whether a queue pair of a software device has been destroyed, which is reported. Its memory is still
/// readable, and must not be used; of other devices it may be a new object's, which is not known here.
fn is_dead(context: *mut ibv_context, address: usize, call: &'static str) -> bool {
    let is_gone = with(|shadow| shadow.is_gone(Kind::Qp, address)).unwrap_or(false);
    // SAFETY: the context is open: the wrapper was called through it.
    let is_dead = is_gone && unsafe { software::of_context(context) }.is_some();
    if is_dead {
        observe(|_| {
            let object = Object::at(Kind::Qp, address);
            let found = Finding::new(Rule::DeadObject, object, call, Outcome::Called);
            let shown = format!("{address:#x}");
            vec![
                found
                    .with("member", "qp")
                    .with("kind", "QP")
                    .with("address", shown),
            ]
        });
    }
    is_dead
}

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

/// The remote access of a request; None for a SEND or a local operation.
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

/// The attributes of a queue pair on which reading its requests depends.
#[derive(Clone, Copy)]
struct Posts {
    kind: ibv_qp_type,
    /// SGEs per request at most.
    max_sge: u32,
    sig_all: bool,
    /// The request gets a digest of its data.
    samples: bool,
}

impl Posts {
    fn of(qp: &Qp) -> Posts {
        Posts {
            kind: qp.kind,
            max_sge: qp.cap.max_send_sge,
            sig_all: qp.sig_all,
            samples: qp.sends_posted < ALL_SAMPLED || qp.sends_posted % SAMPLED == 0,
        }
    }
}

/// A request of a queue pair.
///
/// # Safety
/// `wr` is a whole request of such a queue pair, and its scatter/gather list is readable.
unsafe fn request(wr: &ibv_send_wr, of: Posts) -> SendRequest {
    let (ah, remote_qpn) = match of.kind {
        // SAFETY: a request of a UD queue pair has this member of the union.
        IBV_QPT_UD => unsafe { (wr.wr.ud.ah as usize, wr.wr.ud.remote_qpn) },
        _ => (0, 0),
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
        digest: match of.samples
            && of.kind != IBV_QPT_UD
            && signaled
            && !inline
            && reads_buffer(wr.opcode)
        {
            true => digest(&sges),
            false => 0,
        },
        sges,
        num_sge: wr.num_sge,
        remote,
        ah,
        remote_qpn,
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
        flags: wr.send_flags,
        list_is_null: wr.sg_list.is_null() && wr.num_sge > 0,
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
unsafe fn requests(mut wr: *const ibv_send_wr, of: Posts) -> (Requests, bool) {
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

/// The request of a list that a call has refused: `*bad_wr`. Without one in the list, it is the first: where
/// the kernel refuses what is in the queue already, as rxe does in RESET, the provider names none.
macro_rules! refused {
    ($first:expr, $bad_wr:expr) => {{
        let bad = match $bad_wr.is_null() {
            true => $first,
            false => *$bad_wr,
        };
        let mut wr = $first;
        while !wr.is_null() && !ptr::eq(wr, bad) {
            wr = (*wr).next;
        }
        if wr.is_null() { $first } else { wr }
    }};
}

/// How many requests of a list are before `bad`; all if that is NULL.
macro_rules! count_before {
    ($first:expr, $bad:expr) => {{
        let (mut wr, mut count) = ($first, 0);
        while !wr.is_null() && !ptr::eq(wr, $bad) {
            count += 1;
            wr = (*wr).next;
        }
        count
    }};
}

pub unsafe extern "C" fn post_send(
    qp: *mut ibv_qp,
    wr: *mut ibv_send_wr,
    bad_wr: *mut *mut ibv_send_wr,
) -> c_int {
    const CALL: &str = "ibv_post_send";
    let address = qp as usize;
    // SAFETY: the queue pair is alive, and its context is open and wrapped (see the module above).
    let (context, post) = unsafe { ((*qp).context, original((*qp).context).post_send) };
    let known = with(|shadow| shadow.qps.get(&address).map(Posts::of));
    let Some(known) = known.flatten() else {
        if is_dead(context, address, CALL) {
            // SAFETY: `bad_wr` is NULL or writable.
            if let Some(bad) = unsafe { bad_wr.as_mut() } {
                *bad = wr;
            }
            return libc::EINVAL;
        }
        // SAFETY: the function is the provider's for this queue pair, and gets the program's arguments.
        return unsafe { post(qp, wr, bad_wr) };
    };
    // Not with the lock held: if the list is not readable after all, that is reported with it.
    // SAFETY: the program's list is readable.
    let (list, loops) = unsafe { requests(wr, known) };
    let thread = facts::thread();
    let mut posted = Default::default();
    let changes_keys = list
        .iter()
        .any(|of| of.mw_type != 0 || of.opcode == IBV_WR_LOCAL_INV);
    observe(|shadow| {
        let mut found = shadow.check_process(context as usize, CALL);
        found.extend(loops.then(|| shadow.looping(address, list.len(), CALL)));
        let (these, overlaps) = shadow.posting(address, list, thread, CALL);
        posted = these;
        found.extend(overlaps);
        found
    });
    // A software device would never end: it executes requests as it takes them.
    // SAFETY: the context is open (see the module above).
    let endless = loops && unsafe { software::of_context(context) }.is_some();
    // SAFETY: the function is the provider's for this queue pair, and gets the program's arguments;
    // `bad_wr` is writable.
    let ret = unsafe {
        match endless {
            true => {
                *bad_wr = wr;
                libc::ENOMEM
            }
            false => post(qp, wr, bad_wr),
        }
    };
    let outcome = Outcome::of(ret);
    let accepted = match ret {
        0 => posted.count,
        // SAFETY: the list is still readable, and `bad_wr` is NULL or readable.
        _ => unsafe { count_before!(wr, refused!(wr, bad_wr)) },
    };
    observe(|shadow| shadow.posted(address, posted, accepted, CALL, outcome));
    if changes_keys {
        // SAFETY: the list is still readable, and the provider has taken the first `accepted`.
        unsafe { keys_changed(context, wr, accepted) };
    }
    ret
}

/// Records what the first requests of a list do to memory windows.
///
/// # Safety
/// The list is readable for `count` requests, which have been posted.
#[cold]
unsafe fn keys_changed(context: *mut ibv_context, mut wr: *const ibv_send_wr, count: usize) {
    for _ in 0..count {
        // SAFETY: the list is readable this far, as the caller promises; the opcode selects the member of the
        // union, and a window that is bound is alive.
        unsafe {
            match (*wr).opcode {
                IBV_WR_BIND_MW => {
                    let bind = (*wr).op.bind_mw;
                    let rkey = (*bind.mw).rkey;
                    with(|shadow| shadow.bound(bind.mw as usize, rkey, bind.bind_info.into()));
                }
                IBV_WR_LOCAL_INV => {
                    let rkey = (*wr).imm.invalidate_rkey;
                    with(|shadow| shadow.invalidated(context as usize, rkey));
                }
                _ => {}
            }
            wr = (*wr).next;
        }
    }
}

/// The receives of a list.
///
/// # Safety
/// The list ends with NULL, and its receives are readable.
unsafe fn receives(mut wr: *const ibv_recv_wr, max_sge: u32) -> Receives {
    let mut found = Receives::new();
    let mut seen = Seen::default();
    // SAFETY: the caller promises a readable list.
    unsafe {
        while !wr.is_null() && !seen.is_again(wr as usize) {
            found.push(Receive {
                wr_id: (*wr).wr_id,
                sges: sges((*wr).sg_list, (*wr).num_sge, max_sge),
            });
            wr = (*wr).next;
        }
    }
    found
}

pub unsafe extern "C" fn post_recv(
    qp: *mut ibv_qp,
    wr: *mut ibv_recv_wr,
    bad_wr: *mut *mut ibv_recv_wr,
) -> c_int {
    let address = qp as usize;
    // SAFETY: the queue pair is alive, and its context is open and wrapped (see the module above).
    let (context, post) = unsafe { ((*qp).context, original((*qp).context).post_recv) };
    let max_sge = with(|shadow| shadow.qps.get(&address).map(|qp| qp.cap.max_recv_sge));
    let list = match max_sge.flatten() {
        // SAFETY: the program's list ends with NULL and is readable.
        Some(max) => unsafe { receives(wr, max) },
        None => Receives::new(),
    };
    let count = list.len();
    let thread = facts::thread();
    if max_sge.flatten().is_none() && is_dead(context, address, "ibv_post_recv") {
        // SAFETY: `bad_wr` is NULL or writable.
        if let Some(bad) = unsafe { bad_wr.as_mut() } {
            *bad = wr;
        }
        return libc::EINVAL;
    }
    observe(|shadow| {
        let mut found = shadow.check_process(context as usize, "ibv_post_recv");
        found.extend(shadow.posting_receives(address, list, thread));
        found
    });
    // SAFETY: the function is the provider's for this queue pair, and gets the program's arguments.
    let ret = unsafe { post(qp, wr, bad_wr) };
    if ret != 0 {
        let outcome = Outcome::of(ret);
        // SAFETY: the list is still readable, and `bad_wr` is NULL or readable.
        let (accepted, sges) = unsafe { rejected(wr, bad_wr) };
        let refused = count.saturating_sub(accepted);
        observe(|shadow| shadow.receives_refused(address, refused, sges, outcome));
    }
    ret
}

/// How many receives of a list are before the one that was refused, and the number of its SGEs.
///
/// # Safety
/// The list ends with NULL and is readable; `bad_wr` is NULL or readable.
unsafe fn rejected(wr: *mut ibv_recv_wr, bad_wr: *mut *mut ibv_recv_wr) -> (usize, usize) {
    // SAFETY: both are readable, as the caller promises.
    unsafe {
        let bad = refused!(wr, bad_wr);
        let sges = bad.as_ref().map_or(0, |bad| bad.num_sge.max(0) as usize);
        (count_before!(wr, bad), sges)
    }
}

pub unsafe extern "C" fn post_srq_recv(
    srq: *mut ibv_srq,
    wr: *mut ibv_recv_wr,
    bad_wr: *mut *mut ibv_recv_wr,
) -> c_int {
    // SAFETY: the program's list ends with NULL and is readable; `bad_wr` is NULL or readable. The queue is
    // alive, and its context is open and wrapped (see the module above).
    unsafe {
        let context = (*srq).context;
        let count = count_before!(wr, ptr::null_mut());
        let ret = (original(context).post_srq_recv)(srq, wr, bad_wr);
        let outcome = Outcome::of(ret);
        let bad = match ret {
            0 => ptr::null_mut(),
            _ => refused!(wr, bad_wr),
        };
        let accepted = match ret {
            0 => count,
            _ => count_before!(wr, bad),
        };
        let sges = bad.as_ref().map(|bad| bad.num_sge.max(0) as usize);
        observe(|shadow| {
            let mut found = shadow.check_process(context as usize, "ibv_post_srq_recv");
            found.extend(shadow.srq_posted(srq as usize, accepted, sges, outcome));
            found
        });
        ret
    }
}

pub unsafe extern "C" fn poll_cq(cq: *mut ibv_cq, num_entries: c_int, wc: *mut ibv_wc) -> c_int {
    const CALL: &str = "ibv_poll_cq";
    let address = cq as usize;
    let thread = facts::thread();
    // SAFETY: the queue is alive, and its context is open and wrapped (see the module above).
    let (context, poll) = unsafe { ((*cq).context, original((*cq).context).poll_cq) };
    observe(|shadow| {
        let mut found = shadow.check_process(context as usize, CALL);
        found.extend(shadow.polling(address, thread, CALL));
        found
    });
    let count_before = report::count();
    // SAFETY: the function is the provider's for this queue, and gets the program's arguments.
    let count = unsafe { poll(cq, num_entries, wc) };
    let injected = report::count() != count_before;
    let got = match usize::try_from(count) {
        Ok(0) | Err(_) => &[],
        // SAFETY: the provider has filled in as many completions of the program's array as it returns.
        Ok(count) => unsafe { slice::from_raw_parts(wc, count) },
    };
    let completion = |wc: &ibv_wc| Completion {
        qpn: wc.qp_num,
        wr_id: wc.wr_id,
        status: wc.status,
        opcode: wc.opcode,
        vendor_err: wc.vendor_err,
    };
    let completions: SmallVec<[Completion; 4]> = got.iter().map(completion).collect();
    look_up(address, &completions);
    let mut overdue = None;
    observe(|shadow| {
        shadow.left(address, thread);
        let mut found = shadow.polled(address, num_entries as u32, &completions, CALL);
        found.retain(|finding| !injected || finding.rule != Rule::RequestFailed);
        if count == 0 {
            overdue = shadow.overdue(address);
        }
        found
    });
    if let Some(addresses) = overdue {
        empty_for_long(address, &addresses, CALL);
    }
    count
}
