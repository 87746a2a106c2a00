//! Commands of completion event channels.

use core::mem::MaybeUninit;

use ibverbs_abi::*;
use libc::c_int;

use crate::uverbs::{uhw::Buffer, write};

/// Creates a completion event channel. Returns its file descriptor, which the caller closes.
///
/// # Safety
/// `context` is open.
pub unsafe fn create(context: *mut ibv_context) -> Result<c_int, Errno> {
    let mut request = MaybeUninit::<ibv_create_comp_channel>::uninit();
    let mut response = ib_uverbs_create_comp_channel_resp { fd: 0 };
    // SAFETY: `context` is open; both structures are locals, and execute() fills the request's only member.
    unsafe {
        write::execute(
            context,
            IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL,
            Buffer::core(request.as_mut_ptr()),
            Buffer::core(&raw mut response),
        )?;
    }
    Ok(response.fd as c_int)
}
