//! Multicast groups of a UD QP.

use ibverbs_abi::*;
use libc::c_int;

use crate::uverbs::{
    Destroyed, destroyed,
    write::{self, Placed},
};

/// Attaching and detaching have one layout.
///
/// # Safety
/// `qp` and `gid` are live.
unsafe fn group(qp: *mut ibv_qp, gid: *const ibv_gid, lid: u16, method: u32) -> c_int {
    // SAFETY: by the contract; the request is on this stack.
    unsafe {
        let mut request = Cmd {
            hdr: ib_uverbs_cmd_hdr::default(),
            core_payload: ib_uverbs_attach_mcast {
                gid: (*gid).raw,
                qp_handle: (*qp).handle,
                mlid: lid,
                reserved: 0,
                driver_data: [],
            },
        };
        write::execute_request((*qp).context, method, Placed::alone(&raw mut request))
    }
}

/// Attaches `qp` to the multicast group `gid`, `lid`.
///
/// # Safety
/// `qp` and `gid` are live.
pub unsafe extern "C" fn ibv_cmd_attach_mcast(
    qp: *mut ibv_qp,
    gid: *const ibv_gid,
    lid: u16,
) -> c_int {
    // SAFETY: by the contract.
    unsafe { group(qp, gid, lid, IB_USER_VERBS_CMD_ATTACH_MCAST) }
}

/// Detaches `qp` from the multicast group `gid`, `lid`.
///
/// # Safety
/// `qp` and `gid` are live.
pub unsafe extern "C" fn ibv_cmd_detach_mcast(
    qp: *mut ibv_qp,
    gid: *const ibv_gid,
    lid: u16,
) -> c_int {
    // SAFETY: by the contract.
    match destroyed(unsafe { group(qp, gid, lid, IB_USER_VERBS_CMD_DETACH_MCAST) }) {
        Destroyed::Yes => 0,
        Destroyed::Return(ret) => ret,
    }
}

const _: () = assert!(size_of::<ib_uverbs_attach_mcast>() == size_of::<ib_uverbs_detach_mcast>());
