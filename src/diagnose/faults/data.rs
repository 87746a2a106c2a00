//! Wrappers of posting and polling: they fail, take longer, or change the status of completions.
//!
//! Safety: as in `calls.rs`.

use core::ffi::c_int;
use core::slice;

use ibverbs_abi::*;
use ibverbs_faults::{Action, COMPLETION_OPCODES, Facts, Point};

use super::super::extended::ExtendedOps;
use super::super::originals::provider;
use super::failure;
use super::{decide, device_name, has, objects};

/// Defines wrappers that post work requests. A failing one names the first request as the bad one.
macro_rules! posting {
    ($($op:ident($queue:ident: $ty:ty, $wr:ty), qpn $qpn:expr;)+) => { $(
        pub unsafe extern "C" fn $op($queue: $ty, wr: $wr, bad_wr: *mut $wr) -> c_int {
            // SAFETY: the queue is alive, and its context is open and wrapped (see the module above);
            // `bad_wr` is NULL or writable.
            unsafe {
                let context = (*$queue).context;
                match failure(context, stringify!($op), $qpn, None) {
                    None => (provider(context).$op)($queue, wr, bad_wr),
                    Some(errno) => {
                        if !bad_wr.is_null() {
                            *bad_wr = wr;
                        }
                        errno.returned()
                    }
                }
            }
        }
    )+ };
}

posting! {
    post_send(qp: *mut ibv_qp, *mut ibv_send_wr), qpn Some((*qp).qp_num);
    post_recv(qp: *mut ibv_qp, *mut ibv_recv_wr), qpn Some((*qp).qp_num);
    post_srq_recv(srq: *mut ibv_srq, *mut ibv_recv_wr), qpn None;
}

/// Waits as long as a rule says before a poll.
///
/// # Safety
/// `context` is open.
unsafe fn slow_down(context: *mut ibv_context) {
    if !has(Point::Poll) {
        return;
    }
    let facts = Facts {
        // SAFETY: the context is open, as the caller promises.
        device: unsafe { device_name(context) },
        ..Facts::default()
    };
    if let Some(Action::SlowCq(time)) = decide(Point::Poll, &facts) {
        let errno = Errno::last();
        let _not_cancelled = disable_cancellation();
        std::thread::sleep(time);
        errno.set();
    }
}

/// The status that a completion without error gets, if a rule says so.
///
/// # Safety
/// `context` is open.
unsafe fn status_of(
    context: *mut ibv_context,
    qpn: u32,
    opcode: ibv_wc_opcode,
    length: Option<u32>,
) -> Option<ibv_wc_status> {
    let name = COMPLETION_OPCODES.iter().find(|(_, of)| *of == opcode);
    let facts = Facts {
        // SAFETY: the context is open, as the caller promises.
        device: unsafe { device_name(context) },
        qpn: Some(qpn),
        opcode: name.map(|(name, _)| *name),
        // For sends the byte count is not defined.
        size: length.filter(|_| opcode & IBV_WC_RECV != 0).map(u64::from),
        ..Facts::default()
    };
    match decide(Point::Completion, &facts) {
        Some(Action::Completion(status)) => Some(status),
        _ => None,
    }
}

pub unsafe extern "C" fn poll_cq(cq: *mut ibv_cq, num_entries: c_int, wc: *mut ibv_wc) -> c_int {
    // SAFETY: the program's array has room for `num_entries` completions, of which the provider has filled
    // in as many as it returns. The queue is alive, and its context is open and wrapped (see the module
    // above).
    unsafe {
        let context = (*cq).context;
        slow_down(context);
        let count = (provider(context).poll_cq)(cq, num_entries, wc);
        let got = match usize::try_from(count) {
            Ok(count) if count > 0 && has(Point::Completion) => {
                slice::from_raw_parts_mut(wc, count)
            }
            _ => return count,
        };
        for wc in got.iter_mut().filter(|wc| wc.status == IBV_WC_SUCCESS) {
            if let Some(status) = status_of(context, wc.qp_num, wc.opcode, Some(wc.byte_len)) {
                wc.status = status;
                wc.vendor_err = 0;
                fail_qp(context, wc.qp_num);
            }
        }
        count
    }
}

/// Moves a queue pair to ERR; errno stays.
fn fail_qp(context: *mut ibv_context, qpn: u32) {
    let errno = Errno::last();
    objects::fail_qp(context, qpn);
    errno.set();
}

/// The provider's polling functions of an extended CQ.
#[derive(Clone)]
pub struct PollFunctions {
    start: Option<unsafe extern "C" fn(*mut ibv_cq_ex, *mut ibv_poll_cq_attr) -> c_int>,
    next: Option<unsafe extern "C" fn(*mut ibv_cq_ex) -> c_int>,
    end: Option<unsafe extern "C" fn(*mut ibv_cq_ex)>,
    /// The pointer to `read_qp_num`, which IBV_EXPLAIN may replace in the CQ, as it may
    /// `read_byte_len`.
    read_qp_num: Option<unsafe extern "C" fn(*mut ibv_cq_ex) -> u32>,
    read_byte_len: Option<unsafe extern "C" fn(*mut ibv_cq_ex) -> u32>,
    /// Queue pairs that are moved to ERR when the poll ends: the provider may have the CQ locked until then.
    failed: Vec<u32>,
}

/// The polling functions of the CQs that are wrapped.
pub static POLLING: ExtendedOps<PollFunctions> = ExtendedOps::new();

/// Replaces the polling functions of a new CQ. Those that are NULL stay NULL.
///
/// # Safety
/// `cq` is alive, and no other thread knows it yet.
pub unsafe fn wrap_polling(cq: *mut ibv_cq_ex) {
    // SAFETY: the queue is alive and this thread's alone, as the caller promises.
    let functions = unsafe { &mut *cq };
    let polling = PollFunctions {
        start: functions.start_poll,
        next: functions.next_poll,
        end: functions.end_poll,
        read_qp_num: functions.read_qp_num,
        read_byte_len: functions.read_byte_len,
        failed: Vec::new(),
    };
    let stored = POLLING.add(cq as usize, polling);
    if stored && functions.start_poll.is_some() {
        functions.start_poll = Some(start_poll);
        functions.next_poll = functions.next_poll.map(|_| next_poll as _);
        functions.end_poll = functions.end_poll.map(|_| end_poll as _);
    }
}

unsafe extern "C" fn start_poll(cq: *mut ibv_cq_ex, attr: *mut ibv_poll_cq_attr) -> c_int {
    let Some(start) = POLLING.with(cq as usize, |polling| polling.start).flatten() else {
        return libc::EINVAL;
    };
    // SAFETY: the queue is alive and its context open (see the module above); the function is the provider's
    // for this queue, and gets the program's arguments.
    unsafe {
        slow_down((*cq).context);
        let ret = start(cq, attr);
        if ret == 0 {
            polled(cq);
        }
        ret
    }
}

unsafe extern "C" fn next_poll(cq: *mut ibv_cq_ex) -> c_int {
    let Some(next) = POLLING.with(cq as usize, |polling| polling.next).flatten() else {
        return libc::EINVAL;
    };
    // SAFETY: the function is the provider's for this queue, and gets the program's argument.
    unsafe {
        let ret = next(cq);
        if ret == 0 {
            polled(cq);
        }
        ret
    }
}

unsafe extern "C" fn end_poll(cq: *mut ibv_cq_ex) {
    let taken = POLLING.with(cq as usize, |polling| {
        (polling.end, core::mem::take(&mut polling.failed))
    });
    let (end, failed) = taken.unwrap_or_default();
    // SAFETY: the queue is alive (see the module above); the function is the provider's for this queue, and
    // gets the program's argument.
    let context = unsafe {
        if let Some(end) = end {
            end(cq);
        }
        (*cq).context
    };
    for qpn in failed {
        fail_qp(context, qpn);
    }
}

/// A completion is current: changes its status, if a rule says so.
///
/// # Safety
/// `cq` is alive, and this thread polls it and has a current completion.
unsafe fn polled(cq: *mut ibv_cq_ex) {
    if !has(Point::Completion) {
        return;
    }
    let functions = POLLING.with(cq as usize, |polling| {
        (polling.read_qp_num, polling.read_byte_len)
    });
    let (read_qp_num, read_byte_len) = functions.unwrap_or_default();
    // SAFETY: there is a current completion, as the caller promises; a function that is there may be called
    // for it.
    unsafe {
        if (*cq).status != IBV_WC_SUCCESS {
            return;
        }
        let qpn = read_qp_num.map_or(0, |read| read(cq));
        let opcode = (*cq).read_opcode.map_or(IBV_WC_SEND, |read| read(cq));
        let length = read_byte_len.map(|read| read(cq));
        if let Some(status) = status_of((*cq).context, qpn, opcode, length) {
            (*cq).status = status;
            POLLING.with(cq as usize, |polling| polling.failed.push(qpn));
        }
    }
}
