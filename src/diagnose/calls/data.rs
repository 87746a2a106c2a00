//! Wrappers of the data path: posting and polling.

use core::ffi::c_int;
use core::{ptr, slice};

use ibverbs_abi::*;

use super::super::facts;
use super::super::finding::Outcome;
use super::super::shadow::{Completion, Receive, Remote, SendRequest, Sge};
use super::super::wrap::original;
use super::{observe, with};

/// The elements of a list. Of more than `max` only the first are read, because the provider refuses the
/// request without reading them; the others are empty.
///
/// # Safety
/// `list` is readable for `count` elements, if these are no more than `max`.
unsafe fn sges(list: *const ibv_sge, count: c_int, max: u32) -> Vec<Sge> {
    let count = usize::try_from(count).unwrap_or(0);
    if count > max as usize || list.is_null() {
        return vec![Sge::default(); count.min(4096)];
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

/// The requests of a list.
///
/// # Safety
/// The list ends with NULL, and its requests are readable.
unsafe fn requests(
    mut wr: *const ibv_send_wr,
    kind: ibv_qp_type,
    max_sge: u32,
) -> Vec<SendRequest> {
    let mut found = Vec::new();
    // SAFETY: the caller promises a readable list. The opcode and the type of the queue pair say which
    // members of the unions are valid.
    unsafe {
        while !wr.is_null() {
            let given = &*wr;
            let remote = match given.opcode {
                IBV_WR_RDMA_WRITE
                | IBV_WR_RDMA_WRITE_WITH_IMM
                | IBV_WR_RDMA_READ
                | IBV_WR_ATOMIC_WRITE => Some(Remote {
                    addr: given.wr.rdma.remote_addr,
                    rkey: given.wr.rdma.rkey,
                    length: None,
                }),
                IBV_WR_ATOMIC_CMP_AND_SWP | IBV_WR_ATOMIC_FETCH_AND_ADD => Some(Remote {
                    addr: given.wr.atomic.remote_addr,
                    rkey: given.wr.atomic.rkey,
                    length: Some(8),
                }),
                _ => None,
            };
            let ah = match kind {
                IBV_QPT_UD => given.wr.ud.ah as usize,
                _ => 0,
            };
            found.push(SendRequest {
                wr_id: given.wr_id,
                opcode: given.opcode,
                signaled: given.send_flags & IBV_SEND_SIGNALED != 0,
                inline: given.send_flags & IBV_SEND_INLINE != 0,
                sges: sges(given.sg_list, given.num_sge, max_sge),
                remote,
                ah,
                ..SendRequest::default()
            });
            wr = given.next;
        }
    }
    found
}

/// How many requests of a list are before `bad`; all if it is not in the list.
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
    // SAFETY: the program's list ends with NULL and is readable; after a failure `bad_wr` points to one of
    // its requests. The queue pair is alive, and its context is open and wrapped (see the module above).
    unsafe {
        let context = (*qp).context;
        let known = with(|shadow| {
            let qp = shadow.qps.get(&address);
            qp.map(|qp| (qp.kind, qp.cap.max_send_sge))
        });
        let Some((kind, max_sge)) = known.flatten() else {
            return (original(context).post_send)(qp, wr, bad_wr);
        };
        let list = requests(wr, kind, max_sge);
        let thread = facts::thread();
        let mut posted = Default::default();
        observe(|shadow| {
            let mut found = shadow.check_process(context as usize, CALL);
            let (these, overlaps) = shadow.posting(address, list, thread, CALL);
            posted = these;
            found.extend(overlaps);
            found
        });
        let ret = (original(context).post_send)(qp, wr, bad_wr);
        let outcome = Outcome::of(ret);
        let accepted = match ret {
            0 => posted.count,
            _ if bad_wr.is_null() => 0,
            _ => count_before!(wr.cast_const(), *bad_wr),
        };
        observe(|shadow| shadow.posted(address, posted, accepted, CALL, outcome));
        ret
    }
}

/// The receives of a list.
///
/// # Safety
/// The list ends with NULL, and its receives are readable.
unsafe fn receives(mut wr: *const ibv_recv_wr, max_sge: u32) -> Vec<Receive> {
    let mut found = Vec::new();
    // SAFETY: the caller promises a readable list.
    unsafe {
        while !wr.is_null() {
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
    // SAFETY: the program's list ends with NULL and is readable; after a failure `bad_wr` points to one of
    // its receives. The queue pair is alive, and its context is open and wrapped (see the module above).
    unsafe {
        let context = (*qp).context;
        let max_sge = with(|shadow| shadow.qps.get(&address).map(|qp| qp.cap.max_recv_sge));
        let list = match max_sge.flatten() {
            Some(max) => receives(wr, max),
            None => Vec::new(),
        };
        let count = list.len();
        observe(|shadow| {
            shadow.posting_receives(address, list);
            shadow.check_process(context as usize, "ibv_post_recv")
        });
        let ret = (original(context).post_recv)(qp, wr, bad_wr);
        if ret != 0 {
            let outcome = Outcome::of(ret);
            let bad = match bad_wr.is_null() {
                true => wr,
                false => *bad_wr,
            };
            let accepted = count_before!(wr.cast_const(), bad);
            let sges = bad.as_ref().map_or(0, |bad| bad.num_sge.max(0) as usize);
            let refused = count.saturating_sub(accepted);
            observe(|shadow| shadow.receives_refused(address, refused, sges, outcome));
        }
        ret
    }
}

pub unsafe extern "C" fn post_srq_recv(
    srq: *mut ibv_srq,
    wr: *mut ibv_recv_wr,
    bad_wr: *mut *mut ibv_recv_wr,
) -> c_int {
    // SAFETY: the program's list ends with NULL and is readable; after a failure `bad_wr` points to one of
    // its receives. The queue is alive, and its context is open and wrapped (see the module above).
    unsafe {
        let context = (*srq).context;
        let count = count_before!(wr.cast_const(), ptr::null::<ibv_recv_wr>());
        let ret = (original(context).post_srq_recv)(srq, wr, bad_wr);
        let outcome = Outcome::of(ret);
        let bad = match ret {
            0 => ptr::null_mut(),
            _ if bad_wr.is_null() => wr,
            _ => *bad_wr,
        };
        let accepted = match ret {
            0 => count,
            _ => count_before!(wr.cast_const(), bad),
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
    // SAFETY: the program's array has room for `num_entries` completions, of which the provider has filled in
    // as many as it returns. The queue is alive, and its context is open and wrapped (see the module above).
    unsafe {
        let context = (*cq).context;
        observe(|shadow| {
            let mut found = shadow.check_process(context as usize, CALL);
            found.extend(shadow.polling(address, thread, CALL));
            found
        });
        let count = (original(context).poll_cq)(cq, num_entries, wc);
        let got = match usize::try_from(count) {
            Ok(0) | Err(_) => &[],
            Ok(count) => slice::from_raw_parts(wc, count),
        };
        let completion = |wc: &ibv_wc| Completion {
            qpn: wc.qp_num,
            wr_id: wc.wr_id,
            status: wc.status,
            opcode: wc.opcode,
        };
        let completions: Vec<Completion> = got.iter().map(completion).collect();
        observe(|shadow| {
            shadow.poll_ended(address);
            shadow.polled(address, num_entries as u32, &completions, CALL)
        });
        count
    }
}
