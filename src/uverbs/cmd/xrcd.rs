//! XRC domains.

use core::mem::offset_of;

use ibverbs_abi::*;
use libc::{EINVAL, EOPNOTSUPP, c_int};

use super::destroy::Destroy;
use crate::uverbs::{
    state::Op,
    write::{self, Placed},
};

/// Opens an XRC domain. The handle is kept in `xrcd` if the provider's structure, of `vxrcd_size`
/// bytes, has a member for it.
///
/// # Safety
/// All pointers are the provider's own live structures, of the given sizes.
pub unsafe extern "C" fn ibv_cmd_open_xrcd(
    context: *mut ibv_context,
    xrcd: *mut verbs_xrcd,
    vxrcd_size: c_int,
    attr: *mut ibv_xrcd_init_attr,
    cmd: *mut ibv_open_xrcd,
    cmd_size: usize,
    resp: *mut ib_uverbs_open_xrcd_resp,
    resp_size: usize,
) -> c_int {
    const REQUIRED: u32 = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    // SAFETY: by the contract.
    unsafe {
        if (*attr).comp_mask >= IBV_XRCD_INIT_ATTR_RESERVED {
            return EOPNOTSUPP;
        }
        if (*attr).comp_mask & REQUIRED != REQUIRED {
            return EINVAL;
        }
        (*cmd).core_payload.fd = (*attr).fd as u32;
        (*cmd).core_payload.oflags = (*attr).oflags as u32;
        let ret = write::execute(
            context,
            IB_USER_VERBS_CMD_OPEN_XRCD,
            Placed::whole(cmd, cmd_size),
            Placed::whole(resp, resp_size),
        );
        if ret != 0 {
            return ret;
        }
        (*xrcd).xrcd.context = context;
        (*xrcd).comp_mask = 0;
        if vxrcd_size as usize >= offset_of!(verbs_xrcd, handle) + size_of::<u32>() {
            (*xrcd).comp_mask = VERBS_XRCD_HANDLE;
            (*xrcd).handle = (*resp).xrcd_handle;
        }
    }
    0
}

/// Closes an XRC domain.
///
/// # Safety
/// `xrcd` is live.
pub unsafe extern "C" fn ibv_cmd_close_xrcd(xrcd: *mut verbs_xrcd) -> c_int {
    const DESTROY: Destroy = Destroy {
        op: Op::CloseXrcd,
        object: UVERBS_OBJECT_XRCD,
        method: UVERBS_METHOD_XRCD_DESTROY,
        handle: UVERBS_ATTR_DESTROY_XRCD_HANDLE,
        write: IB_USER_VERBS_CMD_CLOSE_XRCD,
    };
    // SAFETY: by the contract.
    unsafe { DESTROY.handle_only((*xrcd).xrcd.context, (*xrcd).handle) }
}
