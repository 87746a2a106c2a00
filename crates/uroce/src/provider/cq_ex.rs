//! Extended completion queues: creating them; polling one completion at a time and reading its fields by
//! functions (ibv_create_cq_ex(3)).
//!
//! Invariant: between `start_poll` and `end_poll` one thread polls the queue, which either the polling
//! lock or the program (IBV_CREATE_CQ_ATTR_SINGLE_THREADED) ensures. Only that thread uses
//! `CqPrivate::current`.

use ibverbs_abi::*;
use libc::{EACCES, EINVAL, ENOENT, EOPNOTSUPP, c_int};

use super::cq::{Cq, CqAttr, create, object};
use super::ffi::Result;
use crate::device::completion::Cqe;
use crate::sync::RawMutexApi;

/// The fields that a completion has here: all but VLAN, flow tag and tag matching.
const FIELDS: u32 = IBV_WC_STANDARD_FLAGS
    | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP
    | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;

/// EOPNOTSUPP for attributes, flags and completion fields that uroce does not know.
///
/// # Safety
/// `context` is open, `init` readable, and the objects that it names are live.
pub unsafe fn create_cq_ex(
    context: *mut ibv_context,
    init: *mut ibv_cq_init_attr_ex,
) -> Result<*mut ibv_cq_ex> {
    const MASK: u32 = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
    const FLAGS: u32 = IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
    const TIMESTAMPS: u32 =
        IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
    // SAFETY: the caller passes readable attributes.
    let init = unsafe { &*init };
    let has = |bit| init.comp_mask & bit != 0;
    let flags = if has(IBV_CQ_INIT_ATTR_MASK_FLAGS) {
        init.flags
    } else {
        0
    };
    if init.comp_mask & !MASK != 0 || flags & !FLAGS != 0 || init.wc_flags & !u64::from(FIELDS) != 0
    {
        return Err(Errno(EOPNOTSUPP));
    }
    let attr = CqAttr {
        cqe: init.cqe,
        channel: init.channel,
        comp_vector: init.comp_vector,
        timestamps: init.wc_flags & u64::from(TIMESTAMPS) != 0,
        flags,
        parent_domain: if has(IBV_CQ_INIT_ATTR_MASK_PD) {
            init.parent_domain
        } else {
            core::ptr::null_mut()
        },
    };
    // SAFETY: the caller passes an open context, and the objects that `init` names are live. The new
    // queue is a verbs_cq, which has room for an ibv_cq_ex.
    unsafe {
        let cq = create(context, attr)?;
        let extended = &raw mut (*cq).u.cq_ex;
        fill(extended, init.wc_flags as u32);
        Ok(extended)
    }
}

/// Makes the next completion the current one. Returns 0, or ENOENT, which is no error and so does not
/// set errno.
///
/// # Safety
/// `cq` is `object`'s, and this thread is the one that polls it.
unsafe fn advance(cq: *mut ibv_cq_ex, object: &Cq) -> c_int {
    let Some(cqe) = object.next() else {
        return ENOENT;
    };
    // SAFETY: only the polling thread, which is this one, uses these fields and the cell.
    unsafe {
        (*cq).status = cqe.completion.status;
        (*cq).wr_id = cqe.completion.wr_id;
        *object.current.get() = Some(cqe);
    }
    0
}

unsafe extern "C" fn start_poll(cq: *mut ibv_cq_ex, attr: *mut ibv_poll_cq_attr) -> c_int {
    // SAFETY: the caller passes a live queue and readable attributes.
    let (object, known) = unsafe { (object(cq.cast()), (*attr).comp_mask == 0) };
    if !known {
        return EINVAL;
    }
    // Before the lock, which another thread of the parent may have held during the fork.
    if object.check().is_err() {
        return EACCES;
    }
    if let Some(polling) = &object.polling {
        polling.lock();
    }
    // SAFETY: the lock, or the program's promise, makes this thread the one that polls.
    let result = unsafe { advance(cq, object) };
    if result != 0 {
        if let Some(polling) = &object.polling {
            // SAFETY: locked above, by this thread.
            unsafe { polling.unlock() };
        }
    }
    result
}

unsafe extern "C" fn next_poll(cq: *mut ibv_cq_ex) -> c_int {
    // SAFETY: the caller passes a live queue, and is the thread that has called start_poll.
    unsafe { advance(cq, object(cq.cast())) }
}

unsafe extern "C" fn end_poll(cq: *mut ibv_cq_ex) {
    // SAFETY: the caller passes a live queue.
    let object = unsafe { object(cq.cast()) };
    if let Some(polling) = &object.polling {
        if object.check().is_ok() {
            // SAFETY: this thread has called start_poll, which locked it.
            unsafe { polling.unlock() };
        }
    }
}

/// The functions that read a field of the current completion.
macro_rules! fields {
    ($($read:ident -> $ty:ty = |$cqe:ident| $value:expr;)*) => { $(
        unsafe extern "C" fn $read(cq: *mut ibv_cq_ex) -> $ty {
            // SAFETY: the caller passes a live queue, and is the thread that polls it.
            let current: &Option<Cqe> = unsafe { &*object(cq.cast()).current.get() };
            current.as_ref().map_or(0, |$cqe| $value)
        }
    )* };
}

fields! {
    read_opcode -> ibv_wc_opcode = |cqe| cqe.completion.opcode;
    read_vendor_err -> u32 = |_cqe| 0;
    read_byte_len -> u32 = |cqe| cqe.completion.byte_len;
    read_imm_data -> u32 = |cqe| cqe.completion.imm_or_rkey;
    read_qp_num -> u32 = |cqe| cqe.qpn;
    read_src_qp -> u32 = |cqe| cqe.completion.src_qpn;
    read_wc_flags -> u32 = |cqe| cqe.completion.wc_flags;
    read_slid -> u32 = |_cqe| 0;
    read_sl -> u8 = |cqe| cqe.completion.sl;
    read_dlid_path_bits -> u8 = |_cqe| 0;
    read_completion_ts -> u64 = |cqe| cqe.timestamp_ns;
    read_completion_wallclock_ns -> u64 = |cqe| cqe.wallclock_ns;
}

/// Sets the functions of a new queue; those for fields that `wc_flags` does not ask for stay NULL.
///
/// # Safety
/// `cq` is live, and nobody else knows it yet.
unsafe fn fill(cq: *mut ibv_cq_ex, wc_flags: u32) {
    // SAFETY: the caller passes a queue that nobody else uses.
    let cq = unsafe { &mut *cq };
    cq.start_poll = Some(start_poll);
    cq.next_poll = Some(next_poll);
    cq.end_poll = Some(end_poll);
    cq.read_opcode = Some(read_opcode);
    cq.read_vendor_err = Some(read_vendor_err);
    cq.read_wc_flags = Some(read_wc_flags);
    macro_rules! set_if {
        ($($flag:ident $read:ident)*) => { $(
            if wc_flags & $flag != 0 {
                cq.$read = Some($read);
            }
        )* };
    }
    set_if! {
        IBV_WC_EX_WITH_BYTE_LEN read_byte_len
        IBV_WC_EX_WITH_IMM read_imm_data
        IBV_WC_EX_WITH_QP_NUM read_qp_num
        IBV_WC_EX_WITH_SRC_QP read_src_qp
        IBV_WC_EX_WITH_SLID read_slid
        IBV_WC_EX_WITH_SL read_sl
        IBV_WC_EX_WITH_DLID_PATH_BITS read_dlid_path_bits
        IBV_WC_EX_WITH_COMPLETION_TIMESTAMP read_completion_ts
        IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK read_completion_wallclock_ns
    }
}
