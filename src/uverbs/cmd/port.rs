//! A port's attributes.

use core::{
    cell::Cell,
    mem::{MaybeUninit, offset_of},
    ptr::null_mut,
};

use ibverbs_abi::*;
use libc::c_int;

use crate::uverbs::{
    fallback::{self, Needs, Route},
    ioctl::Command,
    state::{Op, state},
    write::{self, Placed},
};

/// The bytes of `struct ibv_port_attr` that every release has: those before active_speed_ex, which
/// came with v49. Providers of earlier releases pass structures of this size from their own stacks.
pub const PORT_ATTR_V34: usize = offset_of!(ibv_port_attr, active_speed_ex);

/// Queries a port. Writes the first [`PORT_ATTR_V34`] bytes of `port_attr` and no more; returns the
/// kernel's active_speed_ex, 0 if it does not tell.
///
/// # Safety
/// `context` is open; `port_attr` is writable for [`PORT_ATTR_V34`] bytes; `cmd` is the provider's
/// live structure of `cmd_size` bytes.
unsafe fn query(
    context: *mut ibv_context,
    port_num: u8,
    port_attr: *mut ibv_port_attr,
    cmd: *mut ibv_query_port,
    cmd_size: usize,
) -> Result<u32, Errno> {
    // SAFETY: by the contract; the response is on this stack.
    unsafe {
        if state(context).may_ioctl(Op::QueryPort) {
            let mut response = ib_uverbs_query_port_resp_ex::default();
            let mut ioctl = Command::<2>::new(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_PORT);
            ioctl.u64(UVERBS_ATTR_QUERY_PORT_PORT_NUM, port_num.into());
            ioctl.output(UVERBS_ATTR_QUERY_PORT_RESP, &raw mut response);
            if fallback::execute(context, Op::QueryPort, Needs::default(), &mut ioctl)?
                == Route::Done
            {
                copy(port_attr, &response.legacy_resp);
                (*port_attr).port_cap_flags2 = response.port_cap_flags2;
                return Ok(response.active_speed_ex);
            }
        }
        let mut response = MaybeUninit::<ib_uverbs_query_port_resp>::zeroed();
        (*cmd).core_payload.port_num = port_num;
        (*cmd).core_payload.reserved = [0; 7];
        let ret = write::execute(
            context,
            IB_USER_VERBS_CMD_QUERY_PORT,
            Placed::whole(cmd, cmd_size),
            Placed::alone(response.as_mut_ptr()),
        );
        if ret != 0 {
            return Err(Errno(ret));
        }
        copy(port_attr, response.assume_init_ref());
    }
    Ok(0)
}

/// What plain legacy kernels tell of a port.
///
/// # Safety
/// `to` is writable for [`PORT_ATTR_V34`] bytes.
unsafe fn copy(to: *mut ibv_port_attr, from: &ib_uverbs_query_port_resp) {
    macro_rules! copy {
        ($( $member:ident )+) => { $( (*to).$member = from.$member as _; )+ };
    }
    // SAFETY: by the contract; all these members lie within those bytes.
    unsafe {
        copy! {
            state max_mtu active_mtu gid_tbl_len port_cap_flags max_msg_sz bad_pkey_cntr
            qkey_viol_cntr pkey_tbl_len lid sm_lid lmc max_vl_num sm_sl subnet_timeout
            init_type_reply active_width active_speed phys_state link_layer flags
        }
    }
}

thread_local! {
    /// The structure of all members that this thread has given to a provider to fill, if any.
    static WHOLE: Cell<*mut ibv_port_attr> = const { Cell::new(null_mut()) };
}

/// Calls a provider's query_port with a structure that has all members; [`ibv_cmd_query_port`] then
/// knows that it may fill in the last one.
///
/// (Programs since v49 have that member. Asking the kernel a second time would cost a system call that
/// the C library does not make, and what the provider passes does not tell its size.)
pub fn with_whole(port_attr: *mut ibv_port_attr, query: impl FnOnce() -> c_int) -> c_int {
    let outer = WHOLE.replace(port_attr);
    let ret = query();
    WHOLE.set(outer);
    ret
}

/// Queries a port, for providers of ABI 34. Their structure may end before active_speed_ex, so that
/// member is left alone unless the structure is known to be the library's caller's.
///
/// # Safety
/// All pointers are the provider's own live structures, `cmd` of `cmd_size` bytes.
pub unsafe extern "C" fn ibv_cmd_query_port(
    context: *mut ibv_context,
    port_num: u8,
    port_attr: *mut ibv_port_attr,
    cmd: *mut ibv_query_port,
    cmd_size: usize,
) -> c_int {
    // SAFETY: by the contract; a structure given to with_whole() has all members.
    unsafe {
        match query(context, port_num, port_attr, cmd, cmd_size) {
            Ok(active_speed_ex) => {
                if active_speed_ex != 0 && WHOLE.get() == port_attr {
                    (*port_attr).active_speed_ex = active_speed_ex;
                }
                0
            }
            Err(error) => error.0,
        }
    }
}
