//! Commands of memory windows.

use ibverbs_abi::*;
use libc::c_int;

use super::to_c;
use crate::uverbs::{uhw::Buffer, write};

/// Allocates a memory window of `mw_type` (IBV_MW_TYPE_*).
///
/// # Safety
/// As the module [`cmd`](super) says.
pub unsafe extern "C" fn ibv_cmd_alloc_mw(
    pd: *mut ibv_pd,
    mw_type: ibv_mw_type,
    mw: *mut ibv_mw,
    cmd: *mut ibv_alloc_mw,
    cmd_size: usize,
    resp: *mut ib_uverbs_alloc_mw_resp,
    resp_size: usize,
) -> c_int {
    to_c(|| {
        // SAFETY: `cmd` begins with the request.
        let request = unsafe { &mut (*cmd).core_payload };
        // SAFETY: `pd` is live.
        request.pd_handle = unsafe { (*pd).handle };
        request.mw_type = mw_type as u8;
        request.reserved = [0; 3];
        // SAFETY: `pd` is live, so its context is open; `cmd` and `resp` have these sizes; `mw` is live.
        let (mw, response) = unsafe {
            write::execute(
                (*pd).context,
                IB_USER_VERBS_CMD_ALLOC_MW,
                Buffer::of_provider(cmd, cmd_size),
                Buffer::of_provider(resp, resp_size),
            )?;
            (&mut *mw, &*resp)
        };
        // SAFETY: `pd` is live.
        mw.context = unsafe { (*pd).context };
        mw.pd = pd;
        mw.rkey = response.rkey;
        mw.handle = response.mw_handle;
        mw.type_ = mw_type;
        Ok(())
    })
}
