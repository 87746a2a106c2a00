//! Protection domains.

use ibverbs_abi::*;
use libc::c_int;

use super::destroy::Destroy;
use crate::uverbs::{
    state::Op,
    write::{self, Placed},
};

/// Allocates a PD. `cmd` and `resp` begin with the common parts; the provider's may follow.
///
/// # Safety
/// All pointers are the provider's own live structures, of the given sizes.
pub unsafe extern "C" fn ibv_cmd_alloc_pd(
    context: *mut ibv_context,
    pd: *mut ibv_pd,
    cmd: *mut ibv_alloc_pd,
    cmd_size: usize,
    resp: *mut ib_uverbs_alloc_pd_resp,
    resp_size: usize,
) -> c_int {
    // SAFETY: by the contract.
    unsafe {
        let ret = write::execute(
            context,
            IB_USER_VERBS_CMD_ALLOC_PD,
            Placed::whole(cmd, cmd_size),
            Placed::whole(resp, resp_size),
        );
        if ret != 0 {
            return ret;
        }
        (*pd).handle = (*resp).pd_handle;
        (*pd).context = context;
    }
    0
}

/// Deallocates a PD.
///
/// # Safety
/// `pd` is live.
pub unsafe extern "C" fn ibv_cmd_dealloc_pd(pd: *mut ibv_pd) -> c_int {
    const DESTROY: Destroy = Destroy {
        op: Op::DeallocPd,
        object: UVERBS_OBJECT_PD,
        method: UVERBS_METHOD_PD_DESTROY,
        handle: UVERBS_ATTR_DESTROY_PD_HANDLE,
        write: IB_USER_VERBS_CMD_DEALLOC_PD,
    };
    // SAFETY: by the contract.
    unsafe { DESTROY.handle_only((*pd).context, (*pd).handle) }
}
