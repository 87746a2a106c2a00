//! Memory windows.

use ibverbs_abi::*;
use libc::c_int;

use super::destroy::Destroy;
use crate::uverbs::{
    state::Op,
    write::{self, Placed},
};

/// Allocates a memory window of `mw_type` (IBV_MW_TYPE_*).
///
/// # Safety
/// All pointers are the provider's own live structures, of the given sizes.
pub unsafe extern "C" fn ibv_cmd_alloc_mw(
    pd: *mut ibv_pd,
    mw_type: ibv_mw_type,
    mw: *mut ibv_mw,
    cmd: *mut ibv_alloc_mw,
    cmd_size: usize,
    resp: *mut ib_uverbs_alloc_mw_resp,
    resp_size: usize,
) -> c_int {
    // SAFETY: by the contract.
    unsafe {
        let request = &mut (*cmd).core_payload;
        request.pd_handle = (*pd).handle;
        request.mw_type = mw_type as u8;
        request.reserved = [0; 3];
        let ret = write::execute(
            (*pd).context,
            IB_USER_VERBS_CMD_ALLOC_MW,
            Placed::whole(cmd, cmd_size),
            Placed::whole(resp, resp_size),
        );
        if ret != 0 {
            return ret;
        }
        (*mw).context = (*pd).context;
        (*mw).pd = pd;
        (*mw).rkey = (*resp).rkey;
        (*mw).handle = (*resp).mw_handle;
        (*mw).type_ = mw_type;
    }
    0
}

/// Deallocates a memory window.
///
/// # Safety
/// `mw` is live.
pub unsafe extern "C" fn ibv_cmd_dealloc_mw(mw: *mut ibv_mw) -> c_int {
    const DESTROY: Destroy = Destroy {
        op: Op::DeallocMw,
        object: UVERBS_OBJECT_MW,
        method: UVERBS_METHOD_MW_DESTROY,
        handle: UVERBS_ATTR_DESTROY_MW_HANDLE,
        write: IB_USER_VERBS_CMD_DEALLOC_MW,
    };
    // SAFETY: by the contract.
    unsafe { DESTROY.handle_only((*mw).context, (*mw).handle) }
}
