//! Wrappers of the polling functions of an extended CQ. They replace the provider's pointers in the CQ, whose
//! layout is the same in all releases up to these.

use core::ffi::c_int;

use ibverbs_abi::*;

use super::super::facts;
use super::super::shadow::Completion;
use super::{check_process, look_up, observe, polled_empty, with};

/// The provider's functions. Those that are NULL stay NULL.
#[derive(Clone, Copy)]
pub struct PollOps {
    start: Option<unsafe extern "C" fn(*mut ibv_cq_ex, *mut ibv_poll_cq_attr) -> c_int>,
    next: Option<unsafe extern "C" fn(*mut ibv_cq_ex) -> c_int>,
    end: Option<unsafe extern "C" fn(*mut ibv_cq_ex)>,
}

/// Replaces the functions of a new CQ.
///
/// # Safety
/// `cq` is alive, and no other thread knows it yet.
pub unsafe fn wrap(cq: *mut ibv_cq_ex) {
    // SAFETY: the queue is alive and this thread's alone, as the caller promises.
    let cq_ref = unsafe { &mut *cq };
    let ops = PollOps {
        start: cq_ref.start_poll,
        next: cq_ref.next_poll,
        end: cq_ref.end_poll,
    };
    // Without a place for the functions, or without functions, nothing is replaced.
    if ops.start.is_some() && with(|shadow| shadow.poll_ops.insert(cq as usize, ops)).is_some() {
        cq_ref.start_poll = Some(start_poll);
        cq_ref.next_poll = ops.next.map(|_| next_poll as _);
        cq_ref.end_poll = ops.end.map(|_| end_poll as _);
    }
}

fn ops(cq: *mut ibv_cq_ex) -> Option<PollOps> {
    with(|shadow| shadow.poll_ops.get(&(cq as usize)).copied()).flatten()
}

unsafe extern "C" fn start_poll(cq: *mut ibv_cq_ex, attr: *mut ibv_poll_cq_attr) -> c_int {
    const CALL: &str = "ibv_start_poll";
    let Some(start) = ops(cq).and_then(|ops| ops.start) else {
        return libc::EINVAL;
    };
    // SAFETY: the queue is alive (see the module above).
    check_process(unsafe { (*cq).context }, CALL);
    let thread = facts::thread();
    observe(|shadow| shadow.polling(cq as usize, thread, CALL));
    // SAFETY: the function is the provider's for this queue, and gets the program's arguments.
    let ret = unsafe { start(cq, attr) };
    if ret != 0 {
        with(|shadow| shadow.poll_ended(cq as usize));
    }
    // SAFETY: the queue is alive, and this thread polls it.
    unsafe { polled(cq, ret, CALL) };
    ret
}

unsafe extern "C" fn next_poll(cq: *mut ibv_cq_ex) -> c_int {
    let Some(next) = ops(cq).and_then(|ops| ops.next) else {
        return libc::EINVAL;
    };
    // SAFETY: the function is the provider's for this queue, and gets the program's argument.
    let ret = unsafe { next(cq) };
    // SAFETY: the queue is alive, and this thread polls it.
    unsafe { polled(cq, ret, "ibv_next_poll") };
    ret
}

unsafe extern "C" fn end_poll(cq: *mut ibv_cq_ex) {
    with(|shadow| shadow.poll_ended(cq as usize));
    if let Some(end) = ops(cq).and_then(|ops| ops.end) {
        // SAFETY: the function is the provider's for this queue, and gets the program's argument.
        unsafe { end(cq) };
    }
}

/// # Safety
/// `cq` is alive, and this thread polls it; if `ret` is 0 it has a current completion.
unsafe fn polled(cq: *mut ibv_cq_ex, ret: c_int, call: &'static str) {
    if ret != 0 {
        if ret == libc::ENOENT {
            observe(|shadow| shadow.polled(cq as usize, 1, &[], call));
            if call == "ibv_start_poll" {
                polled_empty(cq as usize, call);
            }
        }
        return;
    }
    // SAFETY: there is a current completion, as the caller promises; a function that is there may be called
    // for it.
    let completion = unsafe {
        let status = (*cq).status;
        Completion {
            qpn: (*cq).read_qp_num.map_or(0, |read| read(cq)),
            wr_id: (*cq).wr_id,
            status,
            opcode: match ((*cq).read_opcode, status) {
                (Some(read), IBV_WC_SUCCESS) => read(cq),
                _ => 0,
            },
            vendor_err: match ((*cq).read_vendor_err, status) {
                (Some(read), 1..) => read(cq),
                _ => 0,
            },
        }
    };
    look_up(cq as usize, &[completion]);
    observe(|shadow| shadow.polled(cq as usize, 1, &[completion], call));
}
