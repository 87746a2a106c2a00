//! Completion event channels.

use core::mem::MaybeUninit;

use ibverbs_abi::*;
use libc::c_int;

use crate::uverbs::write::{self, Placed};

/// Creates a completion event channel; returns its file descriptor, which is the caller's to close.
///
/// # Safety
/// `context` is open.
pub unsafe fn create(context: *mut ibv_context) -> Result<c_int, Errno> {
    let mut request = MaybeUninit::<ibv_create_comp_channel>::uninit();
    let mut response = ib_uverbs_create_comp_channel_resp { fd: 0 };
    // SAFETY: both structures are on this stack; execute() fills the request's only member.
    let ret = unsafe {
        write::execute(
            context,
            IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL,
            Placed::alone(request.as_mut_ptr()),
            Placed::alone(&raw mut response),
        )
    };
    if ret != 0 {
        Err(Errno(ret))
    } else {
        Ok(response.fd as c_int)
    }
}
