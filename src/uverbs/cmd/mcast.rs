//! Commands that attach a UD QP to multicast groups, and detach it.

use ibverbs_abi::*;
use libc::c_int;

use super::to_c;
use crate::uverbs::{destroyed, write};

/// Sends the command `method`: attaching and detaching have one layout.
///
/// # Safety
/// `qp` and `gid` are live.
unsafe fn change(
    qp: *mut ibv_qp,
    gid: *const ibv_gid,
    mlid: u16,
    method: u32,
) -> Result<(), Errno> {
    // SAFETY: `qp` and `gid` are live, and the QP's context is open.
    unsafe {
        let request = ib_uverbs_attach_mcast {
            gid: (*gid).raw,
            qp_handle: (*qp).handle,
            mlid,
            reserved: 0,
            driver_data: [],
        };
        write::execute_payload((*qp).context, method, request)
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
    // SAFETY: `qp` and `gid` are live.
    to_c(|| unsafe { change(qp, gid, lid, IB_USER_VERBS_CMD_ATTACH_MCAST) })
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
    to_c(|| {
        // SAFETY: `qp` and `gid` are live.
        let result = unsafe { change(qp, gid, lid, IB_USER_VERBS_CMD_DETACH_MCAST) };
        destroyed(result).map(|_| ())
    })
}

const _: () = assert!(size_of::<ib_uverbs_attach_mcast>() == size_of::<ib_uverbs_detach_mcast>());
