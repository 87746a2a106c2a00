//! Commands of XRC domains.

use core::mem::offset_of;

use ibverbs_abi::*;
use libc::{EINVAL, EOPNOTSUPP, c_int};

use super::to_c;
use crate::uverbs::{uhw::Buffer, write};

/// Opens an XRC domain. Stores the handle in `xrcd` if the provider's structure, of `vxrcd_size` bytes, has
/// the member.
///
/// # Safety
/// As the module [`cmd`](super) says.
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
    to_c(|| {
        // SAFETY: `attr` is live, `cmd` begins with the request.
        let (attr, request) = unsafe { (&*attr, &mut (*cmd).core_payload) };
        if attr.comp_mask >= IBV_XRCD_INIT_ATTR_RESERVED {
            return Err(Errno(EOPNOTSUPP));
        }
        if attr.comp_mask & REQUIRED != REQUIRED {
            return Err(Errno(EINVAL));
        }
        request.fd = attr.fd as u32;
        request.oflags = attr.oflags as u32;
        // SAFETY: `context` is open; `cmd` and `resp` have these sizes; `xrcd` is live for `vxrcd_size`
        // bytes.
        unsafe {
            write::execute(
                context,
                IB_USER_VERBS_CMD_OPEN_XRCD,
                Buffer::of_provider(cmd, cmd_size),
                Buffer::of_provider(resp, resp_size),
            )?;
            (*xrcd).xrcd.context = context;
            (*xrcd).comp_mask = 0;
            if vxrcd_size as usize >= offset_of!(verbs_xrcd, handle) + size_of::<u32>() {
                (*xrcd).comp_mask = VERBS_XRCD_HANDLE;
                (*xrcd).handle = (*resp).xrcd_handle;
            }
        }
        Ok(())
    })
}
