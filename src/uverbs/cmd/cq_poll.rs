//! Polling and arming a completion queue through the kernel.

use ibverbs_abi::*;
use libc::c_int;

use super::to_c;
use crate::uverbs::{uhw::Buffer, write};

/// Polls through the kernel, for devices that have no queue in user space. Returns the number of
/// completions, or -1.
///
/// # Safety
/// `ibcq` is live, `wc` has `ne` members.
pub unsafe extern "C" fn ibv_cmd_poll_cq(ibcq: *mut ibv_cq, ne: c_int, wc: *mut ibv_wc) -> c_int {
    const HEADER: usize = size_of::<ib_uverbs_poll_cq_resp>();
    let ne = ne.max(0) as usize;
    let len = HEADER + ne * size_of::<ib_uverbs_wc>();
    // SAFETY: malloc accepts every length; the result is checked.
    let response = unsafe { libc::malloc(len) }.cast::<ib_uverbs_poll_cq_resp>();
    if response.is_null() {
        return -1;
    }
    let buffer = Buffer {
        at: response.cast::<u8>(),
        len,
    };
    // SAFETY: `ibcq` is live; the response has `ne` completions of room, and after success the kernel has
    // filled as many as it counts, of which no more than `ne` are copied to `wc`; nobody else frees it.
    unsafe {
        let polled = match poll(&*ibcq, ne as u32, buffer) {
            Ok(()) => {
                let count = ((*response).count as usize).min(ne);
                let from = response.byte_add(HEADER).cast::<ib_uverbs_wc>();
                for i in 0..count {
                    completion(&mut *wc.add(i), &*from.add(i));
                }
                count as c_int
            }
            Err(_) => -1,
        };
        libc::free(response.cast());
        polled
    }
}

/// Has the kernel write up to `ne` completions to `response`.
///
/// # Safety
/// The CQ's context is open, `response` is writable for its length.
unsafe fn poll(cq: &ibv_cq, ne: u32, response: Buffer<u8>) -> Result<(), Errno> {
    let mut request = Cmd {
        hdr: ib_uverbs_cmd_hdr::default(),
        core_payload: ib_uverbs_poll_cq {
            response: response.at as u64,
            cq_handle: cq.handle,
            ne,
        },
    };
    let request = Buffer::core(&raw mut request);
    let parts = write::Parts {
        core_request_len: request.len,
        request: request.cast(),
        core_response_len: response.len,
        response,
    };
    // SAFETY: the context is open, the request is a local, the response has its length.
    unsafe { write::execute_sized(cq.context, IB_USER_VERBS_CMD_POLL_CQ, &parts) }
}

/// A completion as programs read it.
fn completion(to: &mut ibv_wc, from: &ib_uverbs_wc) {
    to.wr_id = from.wr_id;
    to.status = from.status;
    to.opcode = from.opcode;
    to.vendor_err = from.vendor_err;
    to.byte_len = from.byte_len;
    // SAFETY: both members of the union are 32-bit integers.
    to.imm.imm_data = unsafe { from.ex.imm_data };
    to.qp_num = from.qp_num;
    to.src_qp = from.src_qp;
    to.wc_flags = from.wc_flags;
    to.pkey_index = from.pkey_index;
    to.slid = from.slid;
    to.sl = from.sl;
    to.dlid_path_bits = from.dlid_path_bits;
}

/// Requests an event for the next completion, or for the next solicited one.
///
/// # Safety
/// `ibcq` is live.
pub unsafe extern "C" fn ibv_cmd_req_notify_cq(ibcq: *mut ibv_cq, solicited_only: c_int) -> c_int {
    // SAFETY: `ibcq` is live, and its context open.
    to_c(|| unsafe {
        let request = ib_uverbs_req_notify_cq {
            cq_handle: (*ibcq).handle,
            solicited_only: (solicited_only != 0).into(),
        };
        write::execute_payload((*ibcq).context, IB_USER_VERBS_CMD_REQ_NOTIFY_CQ, request)
    })
}
