//! Extended completion queues: the fields of a completion, one by one.

use ibverbs_abi::*;
use libc::{EINVAL, ENOENT, c_int};
use parking_lot::lock_api::RawMutex;

use super::cq::{Cq, object};
use crate::device::completion::Entry;

/// What a completion can tell. There are no VLANs, flows or tags here.
pub const FIELDS: u32 = IBV_WC_STANDARD_FLAGS
    | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP
    | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;

/// Takes the next completion as the current one.
///
/// # Safety
/// `cq` is `part`'s, and this thread is the one that polls it.
unsafe fn advance(cq: *mut ibv_cq_ex, part: &Cq) -> c_int {
    let Some(entry) = part.next() else {
        return ENOENT;
    };
    // SAFETY: by the contract nobody else uses these now.
    unsafe {
        (*cq).status = entry.completion.status;
        (*cq).wr_id = entry.completion.wr_id;
        *part.current.get() = Some(entry);
    }
    0
}

unsafe extern "C" fn start_poll(cq: *mut ibv_cq_ex, attr: *mut ibv_poll_cq_attr) -> c_int {
    // SAFETY: by the op's contract the queue is live, and the attributes are readable; the lock, or
    // the program's promise, makes this thread the one that polls.
    unsafe {
        if (*attr).comp_mask != 0 {
            return EINVAL;
        }
        let part = object(cq.cast());
        if let Some(polling) = &part.polling {
            polling.lock();
        }
        let found = advance(cq, part);
        if found != 0
            && let Some(polling) = &part.polling
        {
            polling.unlock();
        }
        found
    }
}

unsafe extern "C" fn next_poll(cq: *mut ibv_cq_ex) -> c_int {
    // SAFETY: by the op's contract the queue is live, and this thread has called start_poll.
    unsafe { advance(cq, object(cq.cast())) }
}

unsafe extern "C" fn end_poll(cq: *mut ibv_cq_ex) {
    // SAFETY: as in `next_poll`.
    unsafe {
        if let Some(polling) = &object(cq.cast()).polling {
            polling.unlock();
        }
    }
}

/// The functions that read a field of the current completion.
macro_rules! fields {
    ($($read:ident -> $ty:ty = |$entry:ident| $value:expr;)*) => { $(
        unsafe extern "C" fn $read(cq: *mut ibv_cq_ex) -> $ty {
            // SAFETY: by the op's contract the queue is live, and this thread polls it.
            let current: &Option<Entry> = unsafe { &*object(cq.cast()).current.get() };
            current.as_ref().map_or(0, |$entry| $value)
        }
    )* };
}

fields! {
    read_opcode -> ibv_wc_opcode = |entry| entry.completion.opcode;
    read_vendor_err -> u32 = |entry| entry.completion.vendor_err;
    read_byte_len -> u32 = |entry| entry.completion.byte_len;
    read_imm_data -> u32 = |entry| entry.completion.imm_or_rkey;
    read_qp_num -> u32 = |entry| entry.qpn;
    read_src_qp -> u32 = |entry| entry.completion.src_qpn;
    read_wc_flags -> u32 = |entry| entry.completion.wc_flags;
    read_slid -> u32 = |_entry| 0;
    read_sl -> u8 = |_entry| 0;
    read_dlid_path_bits -> u8 = |_entry| 0;
    read_completion_ts -> u64 = |entry| entry.stamp;
    read_completion_wallclock_ns -> u64 = |entry| entry.wall;
}

/// Fills in the functions; those for fields that were not asked for stay NULL.
///
/// # Safety
/// `cq` is new and known to nobody else.
pub unsafe fn fill(cq: *mut ibv_cq_ex, wc_flags: u32) {
    // SAFETY: by the contract.
    let cq = unsafe { &mut *cq };
    cq.start_poll = Some(start_poll);
    cq.next_poll = Some(next_poll);
    cq.end_poll = Some(end_poll);
    cq.read_opcode = Some(read_opcode);
    cq.read_vendor_err = Some(read_vendor_err);
    cq.read_wc_flags = Some(read_wc_flags);
    macro_rules! asked {
        ($($flag:ident $read:ident)*) => { $(
            if wc_flags & $flag != 0 {
                cq.$read = Some($read);
            }
        )* };
    }
    asked! {
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
