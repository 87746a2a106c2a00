//! Wrappers of the data path: record requests and receives when they are posted, and completions
//! when they are polled.
//!
//! Not here: what is wrong with them, which `shadow` and `check` decide; the `ibv_wr_*` functions
//! (`build.rs`) and polling of extended CQs (`poll_ex.rs`).

use core::ffi::c_int;
use core::{ptr, slice};

use ibverbs_abi::*;
use smallvec::SmallVec;

use super::super::check::list::{Before, looping};
use super::super::finding::{self, Finding, Kind, Object, Outcome};
use super::super::originals::original;
use super::super::rules::Rule;
use super::super::shadow::{self, Completion, Posted, Qp, Receives, Requests, Shadow};
use super::super::{facts, report};
use super::requests::{Posts, receives, requests};
use super::{empty_for_long, look_up, observe, with};
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
            [found.with_object("qp", Kind::Qp, address)]
        });
    }
    is_dead
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

/// The requests of a list that are before `bad`; all if that is NULL.
macro_rules! before {
    ($first:expr, $bad:expr) => {{
        let (mut wr, mut before) = ($first, Before::default());
        while !wr.is_null() && !ptr::eq(wr, $bad) {
            before.count += 1;
            before.last = Some((*wr).wr_id);
            wr = (*wr).next;
        }
        before
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
        // SAFETY: `bad_wr` is NULL or writable; the function is the provider's for this queue pair, and gets
        // the program's arguments.
        return unsafe {
            match is_dead(context, address, CALL) {
                true => refuse(wr, bad_wr, libc::EINVAL),
                false => post(qp, wr, bad_wr),
            }
        };
    };
    // Not with the lock held: if the list is not readable after all, that is reported with it.
    // SAFETY: the program's list is readable.
    let (list, loops) = unsafe { requests(wr, known) };
    let changes_keys = list
        .iter()
        .any(|of| of.mw_type != 0 || of.opcode == IBV_WR_LOCAL_INV);
    let posted = posting(context, address, list, loops, CALL);
    // A software device would never end: it executes requests as it takes them.
    // SAFETY: the context is open (see the module above).
    let endless = loops && unsafe { software::of_context(context) }.is_some();
    // SAFETY: the function is the provider's for this queue pair, and gets the program's arguments;
    // `bad_wr` is writable.
    let ret = unsafe {
        match endless {
            true => refuse(wr, bad_wr, libc::ENOMEM),
            false => post(qp, wr, bad_wr),
        }
    };
    if ret == 0 && posted.is_plain && !changes_keys {
        return ret;
    }
    let outcome = Outcome::of(ret);
    let before = match ret {
        0 => Before::all(posted.count),
        // SAFETY: the list is still readable, and `bad_wr` is NULL or readable.
        _ => unsafe { before!(wr, refused!(wr, bad_wr)) },
    };
    observe(|shadow| {
        let found = shadow.posted(address, posted, before.count, CALL, outcome);
        found.map(|found| before.noted(found, false))
    });
    if changes_keys {
        // SAFETY: the list is still readable, and the provider has taken the first ones.
        unsafe { keys_changed(qp, wr, before.count) };
    }
    ret
}

/// Refuses a list as a provider does, which then is not called: `*bad_wr` is its first request.
///
/// # Safety
/// `bad_wr` is NULL or writable.
#[cold]
unsafe fn refuse<T>(wr: *mut T, bad_wr: *mut *mut T, errno: c_int) -> c_int {
    // SAFETY: it is NULL or writable, as the caller promises.
    if let Some(bad) = unsafe { bad_wr.as_mut() } {
        *bad = wr;
    }
    errno
}

/// Judges the process that posts, and a list that contains itself: `looped` is the number of its requests.
#[inline]
fn before_post(
    shadow: &Shadow,
    context: *mut ibv_context,
    call: &'static str,
    looped: Option<usize>,
    object: impl FnOnce(&Shadow) -> Object,
) -> Vec<Finding> {
    let mut found = Vec::new();
    let of_process = shadow.devices.check_process(context as usize, call);
    finding::add(&mut found, of_process);
    if let Some(count) = looped {
        found.push(looping(object(shadow), count, call));
    }
    found
}

/// Checks and records requests before the provider gets them.
fn posting(
    context: *mut ibv_context,
    address: usize,
    list: Requests,
    loops: bool,
    call: &'static str,
) -> Posted {
    let thread = facts::thread();
    let mut posted = Posted::default();
    observe(|shadow| {
        let looped = loops.then_some(list.len());
        let mut found = before_post(shadow, context, call, looped, |all| all.qps.object(address));
        let (these, of_requests) = shadow.posting(address, list, thread, call);
        posted = these;
        found.extend(of_requests);
        found
    });
    posted
}

/// Records what the first requests of a list do to memory windows.
///
/// # Safety
/// The list is readable for `count` requests, which have been posted.
#[cold]
unsafe fn keys_changed(qp: *mut ibv_qp, mut wr: *const ibv_send_wr, count: usize) {
    for _ in 0..count {
        // SAFETY: the list is readable this far, as the caller promises; the opcode selects the member of the
        // union, and a window that is bound is alive.
        unsafe {
            match (*wr).opcode {
                IBV_WR_BIND_MW => {
                    let bind = (*wr).op.bind_mw;
                    let rkey = (*bind.mw).rkey;
                    let (mw, to) = (bind.mw as usize, bind.bind_info.into());
                    with(|shadow| shadow.bound(mw, rkey, to, qp as usize));
                }
                IBV_WR_LOCAL_INV => {
                    let rkey = (*wr).imm.invalidate_rkey;
                    let context = (*qp).context as usize;
                    with(|shadow| shadow.mws.invalidate(context, rkey));
                }
                _ => {}
            }
            wr = (*wr).next;
        }
    }
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
    let (list, loops) = match max_sge.flatten() {
        // SAFETY: the program's list is readable.
        Some(max) => unsafe { receives(wr, max) },
        None => (Receives::new(), false),
    };
    let count = list.len();
    let thread = facts::thread();
    if max_sge.flatten().is_none() && is_dead(context, address, "ibv_post_recv") {
        // SAFETY: `bad_wr` is NULL or writable.
        return unsafe { refuse(wr, bad_wr, libc::EINVAL) };
    }
    observe(|shadow| {
        let looped = loops.then_some(count);
        let mut found = before_post(shadow, context, "ibv_post_recv", looped, |all| {
            all.qps.object(address)
        });
        let of_receives = shadow.posting_receives(address, list, thread);
        finding::add(&mut found, of_receives);
        found
    });
    // SAFETY: the function is the provider's for this queue pair, and gets the program's arguments.
    let ret = unsafe { post(qp, wr, bad_wr) };
    if ret != 0 {
        let outcome = Outcome::of(ret);
        // SAFETY: the list is still readable, and `bad_wr` is NULL or readable.
        let (before, sges) = unsafe { rejected(wr, bad_wr) };
        let refused = count.saturating_sub(before.count);
        observe(|shadow| {
            let refused = |qp: &mut Qp| qp.receives_refused(refused, sges, outcome);
            let mut found = shadow.qps.change(address, refused);
            // A list that contains itself fills any queue.
            found.retain(|_| !loops);
            found.into_iter().map(|found| before.noted(found, false))
        });
    }
    ret
}

/// The receives of a list before the one that was refused, and the number of its SGEs.
///
/// # Safety
/// The list ends with NULL and is readable; `bad_wr` is NULL or readable.
unsafe fn rejected(wr: *mut ibv_recv_wr, bad_wr: *mut *mut ibv_recv_wr) -> (Before, i32) {
    // SAFETY: both are readable, as the caller promises.
    unsafe {
        let bad = refused!(wr, bad_wr);
        let sges = bad.as_ref().map_or(0, |bad| bad.num_sge);
        (before!(wr, bad), sges)
    }
}

const SRQ_CALL: &str = "ibv_post_srq_recv";

pub unsafe extern "C" fn post_srq_recv(
    srq: *mut ibv_srq,
    wr: *mut ibv_recv_wr,
    bad_wr: *mut *mut ibv_recv_wr,
) -> c_int {
    // SAFETY: the program's list ends with NULL and is readable; `bad_wr` is NULL or readable. The queue is
    // alive, and its context is open and wrapped (see the module above).
    unsafe {
        let (context, address) = ((*srq).context, srq as usize);
        let max = with(|shadow| shadow.srqs.get(&address).map(|srq| srq.max_sge));
        let (list, loops) = receives(wr, max.flatten().unwrap_or(0));
        let count = list.len();
        observe(|shadow| {
            shadow.srqs.posting(address, list);
            let looped = loops.then_some(count);
            before_post(shadow, context, SRQ_CALL, looped, |_| {
                Object::at(Kind::Srq, address)
            })
        });
        let ret = (original(context).post_srq_recv)(srq, wr, bad_wr);
        if ret != 0 {
            let outcome = Outcome::of(ret);
            let (before, sges) = rejected(wr, bad_wr);
            let refused = count.saturating_sub(before.count);
            observe(|shadow| {
                let mut found = shadow.srqs.refused(address, refused, sges, outcome);
                found.retain(|_| !loops);
                found.into_iter().map(|found| before.noted(found, false))
            });
        }
        ret
    }
}

/// A poll for a negative number of completions. One for none is reported by the rule no-completion, if
/// completions wait.
#[cold]
fn negative(cq: usize, num_entries: c_int, call: &'static str) {
    let found = Finding::new(
        Rule::Argument,
        Object::at(Kind::Cq, cq),
        call,
        Outcome::Called,
    )
    .with_texts(
        format!("num_entries is {num_entries}"),
        "it is the number of elements of the array wc, which cannot be negative",
        "pass the number of elements of the array, 1 at least",
    );
    observe(|_| vec![found]);
}

/// A CQ is polled that was destroyed.
fn destroyed_cq(shadow: &Shadow, address: usize) -> Option<Finding> {
    if !shadow.is_gone(Kind::Cq, address) {
        return None;
    }
    let object = Object::at(Kind::Cq, address);
    let found = Finding::new(Rule::DeadObject, object, "ibv_poll_cq", Outcome::Called);
    Some(found.with_object("cq", Kind::Cq, address))
}

pub unsafe extern "C" fn poll_cq(cq: *mut ibv_cq, num_entries: c_int, wc: *mut ibv_wc) -> c_int {
    const CALL: &str = "ibv_poll_cq";
    let address = cq as usize;
    let thread = facts::thread();
    // SAFETY: the queue is alive, and its context is open and wrapped (see the module above).
    let (context, poll) = unsafe { ((*cq).context, original((*cq).context).poll_cq) };
    let is_watched = shadow::polls_are_watched();
    if is_watched {
        observe(|shadow| {
            let found = shadow.devices.check_process(context as usize, CALL);
            found.or_else(|| shadow.cqs.polling(address, thread, CALL))
        });
    }
    if num_entries < 0 {
        negative(address, num_entries, CALL);
    }
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
        if is_watched {
            shadow.cqs.left(address, thread);
        }
        let dead = shadow.receives_on_dead_stack(thread, CALL);
        let mut found = shadow.polled(address, num_entries as u32, &completions, CALL);
        found.extend(dead);
        found.retain(|finding| !injected || finding.rule != Rule::RequestFailed);
        if count == 0 {
            overdue = shadow.overdue(address);
            found.extend(destroyed_cq(shadow, address));
        }
        found
    });
    if let Some(addresses) = overdue {
        empty_for_long(address, &addresses, CALL);
    }
    count
}
