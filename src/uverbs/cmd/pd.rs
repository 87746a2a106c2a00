//! Commands of protection domains.

use ibverbs_abi::*;
use libc::c_int;

use super::to_c;
use crate::uverbs::{uhw::Buffer, write};

/// Allocates a PD.
///
/// # Safety
/// As the module [`cmd`](super) says.
pub unsafe extern "C" fn ibv_cmd_alloc_pd(
    context: *mut ibv_context,
    pd: *mut ibv_pd,
    cmd: *mut ibv_alloc_pd,
    cmd_size: usize,
    resp: *mut ib_uverbs_alloc_pd_resp,
    resp_size: usize,
) -> c_int {
    to_c(|| {
        // SAFETY: `context` is open; `cmd` and `resp` have these sizes; `pd` is live.
        unsafe {
            write::execute(
                context,
                IB_USER_VERBS_CMD_ALLOC_PD,
                Buffer::of_provider(cmd, cmd_size),
                Buffer::of_provider(resp, resp_size),
            )?;
            (*pd).handle = (*resp).pd_handle;
            (*pd).context = context;
        }
        Ok(())
    })
}
