//! Commands that query a port's attributes.

use core::{
    cell::Cell,
    mem::{MaybeUninit, offset_of},
    ptr::null_mut,
};

use ibverbs_abi::*;
use libc::c_int;

use super::to_c;
use crate::uverbs::{
    fallback::{self, Fallback, Needs},
    ioctl::Command,
    state::{Op, state},
    uhw::Buffer,
    write,
};

/// The size in bytes of `struct ibv_port_attr` before v49 of rdma-core, which appended active_speed_ex.
/// Providers of earlier releases pass structures of this size from their own stacks.
pub const PORT_ATTR_V34: usize = offset_of!(ibv_port_attr, active_speed_ex);

/// Queries a port. Writes the first [`PORT_ATTR_V34`] bytes of `port_attr` and no more. Returns the kernel's
/// active_speed_ex; `None` if the kernel lacks the ioctl and so does not report it.
///
/// # Safety
/// `context` is open; `port_attr` is writable for [`PORT_ATTR_V34`] bytes; `cmd` is the provider's
/// live structure of `cmd_size` bytes.
#[inline(always)] // every ibv_query_port() goes through one of the two callers
unsafe fn query(
    context: *mut ibv_context,
    port_num: u8,
    port_attr: *mut ibv_port_attr,
    cmd: *mut ibv_query_port,
    cmd_size: usize,
) -> Result<Option<u32>, Errno> {
    // SAFETY: `context` is open.
    if unsafe { state(context) }.may_ioctl(Op::QueryPort) {
        let mut response = ib_uverbs_query_port_resp_ex::default();
        let mut ioctl = Command::<2>::new(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_PORT);
        ioctl.u64(UVERBS_ATTR_QUERY_PORT_PORT_NUM, port_num.into());
        ioctl.output(UVERBS_ATTR_QUERY_PORT_RESP, &raw mut response);
        // SAFETY: `context` is open, the response is a local.
        let route =
            unsafe { fallback::execute(context, Op::QueryPort, Needs::default(), &mut ioctl)? };
        if route == Fallback::Done {
            // SAFETY: `port_attr` is writable that far.
            unsafe {
                copy(port_attr, &response.legacy_resp);
                (*port_attr).port_cap_flags2 = response.port_cap_flags2;
            }
            return Ok(Some(response.active_speed_ex));
        }
    }
    let mut response = MaybeUninit::<ib_uverbs_query_port_resp>::zeroed();
    // SAFETY: `context` is open; `cmd` is `cmd_size` bytes long; the response, all integers, is zeroed.
    unsafe {
        (*cmd).core_payload.port_num = port_num;
        (*cmd).core_payload.reserved = [0; 7];
        write::execute(
            context,
            IB_USER_VERBS_CMD_QUERY_PORT,
            Buffer::of_provider(cmd, cmd_size),
            Buffer::core(response.as_mut_ptr()),
        )?;
        copy(port_attr, response.assume_init_ref());
    }
    Ok(None)
}

/// Copies what the legacy command reports too.
///
/// # Safety
/// `to` is writable for [`PORT_ATTR_V34`] bytes.
unsafe fn copy(to: *mut ibv_port_attr, from: &ib_uverbs_query_port_resp) {
    macro_rules! copy {
        ($( $member:ident )+) => { $( (*to).$member = from.$member as _; )+ };
    }
    // SAFETY: all these members lie within the first PORT_ATTR_V34 bytes.
    unsafe {
        copy! {
            state max_mtu active_mtu gid_tbl_len port_cap_flags max_msg_sz bad_pkey_cntr
            qkey_viol_cntr pkey_tbl_len lid sm_lid lmc max_vl_num sm_sl subnet_timeout
            init_type_reply active_width active_speed phys_state link_layer flags
        }
    }
}

thread_local! {
    /// The full-size structure that this thread has passed to a provider, or null.
    static WHOLE: Cell<*mut ibv_port_attr> = const { Cell::new(null_mut()) };
}

/// Calls a provider's query_port with a structure that has all members, so that [`ibv_cmd_query_port`] may
/// fill in the last one.
///
/// Programs built for v49 or later have that member, but a provider's arguments do not say so. A second
/// query would be a system call that rdma-core does not make.
pub fn with_whole(port_attr: *mut ibv_port_attr, query: impl FnOnce() -> c_int) -> c_int {
    let outer = WHOLE.replace(port_attr);
    let ret = query();
    WHOLE.set(outer);
    ret
}

/// Queries a port, for providers of ABI 57 and later, whose structure has all members.
///
/// # Safety
/// As the module [`cmd`](super) says.
pub unsafe extern "C" fn ibv_cmd_query_port_whole(
    context: *mut ibv_context,
    port_num: u8,
    port_attr: *mut ibv_port_attr,
    cmd: *mut ibv_query_port,
    cmd_size: usize,
) -> c_int {
    // SAFETY: `context` is open, `port_attr` and `cmd` are live.
    to_c(|| unsafe {
        if let Some(speed) = query(context, port_num, port_attr, cmd, cmd_size)? {
            (*port_attr).active_speed_ex = speed;
        }
        Ok(())
    })
}

/// Queries a port's speed in units of 100 Mb/s.
///
/// # Safety
/// `context` is open, `speed` is writable.
pub unsafe extern "C" fn ibv_cmd_query_port_speed(
    context: *mut ibv_context,
    port_num: u32,
    speed: *mut u64,
) -> c_int {
    let mut cmd = Command::<2>::new(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_PORT_SPEED);
    cmd.u64(UVERBS_ATTR_QUERY_PORT_SPEED_PORT_NUM, port_num.into());
    cmd.output(UVERBS_ATTR_QUERY_PORT_SPEED_RESP, speed);
    // SAFETY: `context` is open, `speed` is writable.
    to_c(|| unsafe { cmd.execute(context) })
}

/// Queries a port, for providers of ABI 34. Their structure may end before active_speed_ex, so that member
/// is written only if the structure is the one given to [`with_whole`].
///
/// # Safety
/// As the module [`cmd`](super) says.
pub unsafe extern "C" fn ibv_cmd_query_port(
    context: *mut ibv_context,
    port_num: u8,
    port_attr: *mut ibv_port_attr,
    cmd: *mut ibv_query_port,
    cmd_size: usize,
) -> c_int {
    // SAFETY: `context` is open, `port_attr` and `cmd` are live; a structure given to with_whole() has all
    // members.
    to_c(|| unsafe {
        let speed = query(context, port_num, port_attr, cmd, cmd_size)?;
        if let Some(speed @ 1..) = speed {
            if WHOLE.get() == port_attr {
                (*port_attr).active_speed_ex = speed;
            }
        }
        Ok(())
    })
}
