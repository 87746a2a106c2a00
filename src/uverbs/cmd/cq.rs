//! Completion queues.

use core::{mem::MaybeUninit, ptr::null_mut};

use ibverbs_abi::*;
use libc::{EINVAL, EOPNOTSUPP, c_int, c_void};

use super::{destroy::Destroy, mr::LINK_ROOM, only};
use crate::uverbs::{
    events,
    fallback::{self, Needs, Route},
    ioctl::Command,
    linked,
    state::{Op, state},
    write::{self, Placed, Uhw},
};

/// The attributes of a CQ's creation: eight of the library's, two for the provider's legacy part.
const ROOM: usize = 10;

/// What a CQ is made from.
struct CqAttr {
    cqe: u32,
    channel: *mut ibv_comp_channel,
    comp_vector: u32,
    /// IB_UVERBS_CQ_FLAGS_*
    flags: u32,
}

/// Creates a CQ by the way that this kernel has.
///
/// # Safety
/// `context`, `cq`, the channel and the provider's buffers in `uhw` are live; `driver` is null or the
/// provider's live chain of command buffers.
#[inline(always)]
unsafe fn create<const N: usize>(
    context: *mut ibv_context,
    attr: &CqAttr,
    cq: *mut ibv_cq,
    uhw: &Uhw,
    cmd_flags: u32,
    driver: *mut ibv_command_buffer,
) -> c_int {
    // SAFETY: by the contract; what else the attributes point to is on this stack.
    unsafe {
        (*cq).context = context;
        let state = state(context);
        // A CQ that only asks for time stamps can do without, if its provider says so.
        let ignorable = attr.flags & !IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION == 0
            && cmd_flags & CREATE_CQ_CMD_FLAGS_TS_IGNORED_EX != 0;
        let needs = Needs {
            ex: attr.flags != 0 && !ignorable,
            ioctl: state.is_imported(),
        };

        let route = if state.may_ioctl(Op::CreateCq) {
            let mut cmd = Command::<N>::new(UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_CREATE);
            let mut cqe = 0u32;
            let handle = cmd.new_object(UVERBS_ATTR_CREATE_CQ_HANDLE);
            cmd.output(UVERBS_ATTR_CREATE_CQ_RESP_CQE, &raw mut cqe);
            cmd.u32(UVERBS_ATTR_CREATE_CQ_CQE, attr.cqe);
            cmd.u64(UVERBS_ATTR_CREATE_CQ_USER_HANDLE, cq as u64);
            if !attr.channel.is_null() {
                cmd.fd(UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL, (*attr.channel).fd);
            }
            cmd.u32(UVERBS_ATTR_CREATE_CQ_COMP_VECTOR, attr.comp_vector);
            let async_fd = cmd.fd(UVERBS_ATTR_CREATE_CQ_EVENT_FD, (*context).async_fd);
            if !state.is_imported() {
                cmd.optional(async_fd);
            }
            if attr.flags != 0 {
                cmd.u32(UVERBS_ATTR_CREATE_CQ_FLAGS, attr.flags);
            }
            cmd.uhw(uhw);
            let route = fallback::execute_linked(context, Op::CreateCq, needs, &mut cmd, driver);
            if route == Ok(Route::Done) {
                (*cq).handle = cmd.made(handle);
                (*cq).cqe = cqe as c_int;
            }
            route
        } else {
            fallback::legacy(linked::needs(driver, needs))
        };
        match route {
            Ok(Route::Done) => 0,
            Ok(Route::Write) => create_by_write(context, attr, cq, uhw),
            Ok(Route::WriteEx) => create_by_write_ex(context, attr, cq, uhw),
            Err(error) => error.0,
        }
    }
}

/// The channel's file descriptor as legacy commands have it: -1 for none.
///
/// # Safety
/// `channel` is null or live.
unsafe fn channel_fd(channel: *mut ibv_comp_channel) -> c_int {
    // SAFETY: by the contract.
    unsafe { channel.as_ref() }.map_or(-1, |channel| channel.fd)
}

/// # Safety
/// As for [`create`].
unsafe fn create_by_write(
    context: *mut ibv_context,
    attr: &CqAttr,
    cq: *mut ibv_cq,
    uhw: &Uhw,
) -> c_int {
    let (mut request, mut response) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    let (Ok(request), Ok(response)) = (
        uhw.request::<ibv_create_cq>(&mut request),
        uhw.response::<ib_uverbs_create_cq_resp>(&mut response),
    ) else {
        return EINVAL;
    };
    // SAFETY: by the contract; request and response are on this stack or in front of the provider's.
    unsafe {
        (&raw mut (*request.at).core_payload).write(ib_uverbs_create_cq {
            response: 0,
            user_handle: cq as u64,
            cqe: attr.cqe,
            comp_vector: attr.comp_vector,
            comp_channel: channel_fd(attr.channel),
            reserved: 0,
            driver_data: [],
        });
        let ret = write::execute(context, IB_USER_VERBS_CMD_CREATE_CQ, request, response);
        if ret == 0 {
            (*cq).handle = (*response.at).cq_handle;
            (*cq).cqe = (*response.at).cqe as c_int;
        }
        ret
    }
}

/// # Safety
/// As for [`create`].
unsafe fn create_by_write_ex(
    context: *mut ibv_context,
    attr: &CqAttr,
    cq: *mut ibv_cq,
    uhw: &Uhw,
) -> c_int {
    let (mut request, mut response) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    let (Ok(request), Ok(response)) = (
        uhw.request::<ibv_create_cq_ex>(&mut request),
        uhw.response::<ib_uverbs_ex_create_cq_resp>(&mut response),
    ) else {
        return EINVAL;
    };
    // SAFETY: by the contract; request and response are on this stack or in front of the provider's.
    unsafe {
        (&raw mut (*request.at).core_payload).write(ib_uverbs_ex_create_cq {
            user_handle: cq as u64,
            cqe: attr.cqe,
            comp_vector: attr.comp_vector,
            comp_channel: channel_fd(attr.channel),
            comp_mask: 0,
            flags: attr.flags,
            reserved: 0,
        });
        let ret = write::execute_ex(context, IB_USER_VERBS_EX_CMD_CREATE_CQ, request, response);
        if ret == 0 {
            (*cq).handle = (*response.at).base.cq_handle;
            (*cq).cqe = (*response.at).base.cqe as c_int;
        }
        ret
    }
}

/// Creates a CQ of at least `cqe` entries.
///
/// # Safety
/// All pointers are null where the C library allows it, or the provider's own live structures, of the
/// given sizes.
#[allow(clippy::too_many_arguments)]
pub unsafe extern "C" fn ibv_cmd_create_cq(
    context: *mut ibv_context,
    cqe: c_int,
    channel: *mut ibv_comp_channel,
    comp_vector: c_int,
    cq: *mut ibv_cq,
    cmd: *mut ibv_create_cq,
    cmd_size: usize,
    resp: *mut ib_uverbs_create_cq_resp,
    resp_size: usize,
) -> c_int {
    let uhw = Uhw::after(cmd, cmd_size, resp, resp_size);
    let attr = CqAttr {
        cqe: cqe as u32,
        channel,
        comp_vector: comp_vector as u32,
        flags: 0,
    };
    // SAFETY: by the contract.
    unsafe { create::<ROOM>(context, &attr, cq, &uhw, 0, null_mut()) }
}

/// What the kernel is asked for an extended CQ; EOPNOTSUPP for what it cannot be asked.
fn extended(wanted: &ibv_cq_init_attr_ex) -> Result<CqAttr, Errno> {
    const TIMESTAMPS: u64 = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP as u64
        | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK as u64;
    if !only(
        wanted.comp_mask.into(),
        (IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD).into(),
    ) {
        return Err(Errno(EOPNOTSUPP));
    }
    let mut flags = 0;
    if wanted.wc_flags & TIMESTAMPS != 0 {
        flags |= IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION;
    }
    if wanted.comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS != 0
        && wanted.flags & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN != 0
    {
        flags |= IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN;
    }
    Ok(CqAttr {
        cqe: wanted.cqe,
        channel: wanted.channel,
        comp_vector: wanted.comp_vector,
        flags,
    })
}

/// Creates a CQ from extended attributes. `cmd_flags` are CREATE_CQ_CMD_FLAGS_*.
///
/// # Safety
/// As for [`ibv_cmd_create_cq`].
#[allow(clippy::too_many_arguments)]
pub unsafe extern "C" fn ibv_cmd_create_cq_ex(
    context: *mut ibv_context,
    cq_attr: *const ibv_cq_init_attr_ex,
    cq: *mut verbs_cq,
    cmd: *mut ibv_create_cq_ex,
    cmd_size: usize,
    resp: *mut ib_uverbs_ex_create_cq_resp,
    resp_size: usize,
    cmd_flags: u32,
) -> c_int {
    let uhw = Uhw::after(cmd, cmd_size, resp, resp_size);
    // SAFETY: by the contract.
    unsafe {
        match extended(&*cq_attr) {
            Ok(attr) => {
                let cq = &raw mut (*cq).u.cq;
                create::<ROOM>(context, &attr, cq, &uhw, cmd_flags, null_mut())
            }
            Err(error) => error.0,
        }
    }
}

/// As [`ibv_cmd_create_cq_ex`] with attributes of the provider's own: in provider ABI 34 since v53.
///
/// # Safety
/// As for [`ibv_cmd_create_cq`]; `driver` is null or the provider's live chain of command buffers.
#[allow(clippy::too_many_arguments)]
pub unsafe extern "C" fn ibv_cmd_create_cq_ex2(
    context: *mut ibv_context,
    cq_attr: *const ibv_cq_init_attr_ex,
    cq: *mut verbs_cq,
    cmd: *mut ibv_create_cq_ex,
    cmd_size: usize,
    resp: *mut ib_uverbs_ex_create_cq_resp,
    resp_size: usize,
    cmd_flags: u32,
    driver: *mut ibv_command_buffer,
) -> c_int {
    let uhw = Uhw::after(cmd, cmd_size, resp, resp_size);
    // SAFETY: by the contract.
    unsafe {
        match extended(&*cq_attr) {
            Ok(attr) => {
                let cq = &raw mut (*cq).u.cq;
                create::<{ ROOM + LINK_ROOM }>(context, &attr, cq, &uhw, cmd_flags, driver)
            }
            Err(error) => error.0,
        }
    }
}

/// Polls through the kernel, for devices that have no queue in user space. Returns the number of
/// completions, or -1.
///
/// # Safety
/// `ibcq` is live, `wc` has `ne` members.
pub unsafe extern "C" fn ibv_cmd_poll_cq(ibcq: *mut ibv_cq, ne: c_int, wc: *mut ibv_wc) -> c_int {
    let ne = ne.max(0) as usize;
    let header = size_of::<ib_uverbs_poll_cq_resp>();
    let len = header + ne * size_of::<ib_uverbs_wc>();
    // SAFETY: the response lies in memory of its length, freed at the end; of its completions the
    // kernel has filled `count`, which is checked against the room; `wc` by the contract.
    unsafe {
        let response = libc::malloc(len).cast::<ib_uverbs_poll_cq_resp>();
        if response.is_null() {
            return -1;
        }
        let mut request = Cmd {
            hdr: ib_uverbs_cmd_hdr::default(),
            core_payload: ib_uverbs_poll_cq {
                response: response as u64,
                cq_handle: (*ibcq).handle,
                ne: ne as u32,
            },
        };
        let request_len = size_of_val(&request);
        let ret = write::execute_sized(
            (*ibcq).context,
            IB_USER_VERBS_CMD_POLL_CQ,
            (&raw mut request).cast(),
            request_len,
            request_len,
            response.cast::<c_void>(),
            len,
            len,
        );
        let polled = if ret == 0 {
            let count = ((*response).count as usize).min(ne);
            let from = response.byte_add(header).cast::<ib_uverbs_wc>();
            for i in 0..count {
                let (from, to) = (&*from.add(i), &mut *wc.add(i));
                to.wr_id = from.wr_id;
                to.status = from.status;
                to.opcode = from.opcode;
                to.vendor_err = from.vendor_err;
                to.byte_len = from.byte_len;
                to.imm.imm_data = from.ex.imm_data;
                to.qp_num = from.qp_num;
                to.src_qp = from.src_qp;
                to.wc_flags = from.wc_flags;
                to.pkey_index = from.pkey_index;
                to.slid = from.slid;
                to.sl = from.sl;
                to.dlid_path_bits = from.dlid_path_bits;
            }
            count as c_int
        } else {
            -1
        };
        libc::free(response.cast());
        polled
    }
}

/// Asks for an event at the next completion, or at the next solicited one.
///
/// # Safety
/// `ibcq` is live.
pub unsafe extern "C" fn ibv_cmd_req_notify_cq(ibcq: *mut ibv_cq, solicited_only: c_int) -> c_int {
    // SAFETY: by the contract; the request is on this stack.
    unsafe {
        let mut request = Cmd {
            hdr: ib_uverbs_cmd_hdr::default(),
            core_payload: ib_uverbs_req_notify_cq {
                cq_handle: (*ibcq).handle,
                solicited_only: (solicited_only != 0).into(),
            },
        };
        write::execute_request(
            (*ibcq).context,
            IB_USER_VERBS_CMD_REQ_NOTIFY_CQ,
            Placed::alone(&raw mut request),
        )
    }
}

/// Resizes a CQ to at least `cqe` entries.
///
/// # Safety
/// All pointers are the provider's own live structures, of the given sizes.
pub unsafe extern "C" fn ibv_cmd_resize_cq(
    cq: *mut ibv_cq,
    cqe: c_int,
    cmd: *mut ibv_resize_cq,
    cmd_size: usize,
    resp: *mut ib_uverbs_resize_cq_resp,
    resp_size: usize,
) -> c_int {
    // SAFETY: by the contract.
    unsafe {
        (*cmd).core_payload.cq_handle = (*cq).handle;
        (*cmd).core_payload.cqe = cqe as u32;
        let ret = write::execute(
            (*cq).context,
            IB_USER_VERBS_CMD_RESIZE_CQ,
            Placed::whole(cmd, cmd_size),
            Placed::whole(resp, resp_size),
        );
        if ret == 0 {
            (*cq).cqe = (*resp).cqe as c_int;
        }
        ret
    }
}

/// Changes a CQ's moderation.
///
/// # Safety
/// All pointers are the provider's own live structures, of the given sizes.
pub unsafe extern "C" fn ibv_cmd_modify_cq(
    cq: *mut ibv_cq,
    attr: *mut ibv_modify_cq_attr,
    cmd: *mut ibv_modify_cq,
    cmd_size: usize,
) -> c_int {
    // SAFETY: by the contract.
    unsafe {
        if (*attr).attr_mask >= IBV_CQ_ATTR_RESERVED {
            return EINVAL;
        }
        let request = &mut (*cmd).core_payload;
        request.cq_handle = (*cq).handle;
        request.attr_mask = (*attr).attr_mask;
        request.attr.cq_count = (*attr).moderate.cq_count;
        request.attr.cq_period = (*attr).moderate.cq_period;
        request.reserved = 0;
        write::execute_ex::<_, ()>(
            (*cq).context,
            IB_USER_VERBS_EX_CMD_MODIFY_CQ,
            Placed::whole(cmd, cmd_size),
            Placed::nothing(),
        )
    }
}

/// Destroys a CQ once the program has acknowledged all of its events.
///
/// # Safety
/// `cq` is live.
pub unsafe extern "C" fn ibv_cmd_destroy_cq(cq: *mut ibv_cq) -> c_int {
    const DESTROY: Destroy = Destroy {
        op: Op::DestroyCq,
        object: UVERBS_OBJECT_CQ,
        method: UVERBS_METHOD_CQ_DESTROY,
        handle: UVERBS_ATTR_DESTROY_CQ_HANDLE,
        write: IB_USER_VERBS_CMD_DESTROY_CQ,
    };
    // SAFETY: by the contract; the CQ's mutex and condition were initialised when it was made.
    unsafe {
        let reported = match DESTROY.with_events::<ib_uverbs_destroy_cq_resp>(
            (*cq).context,
            (*cq).handle,
            UVERBS_ATTR_DESTROY_CQ_RESP,
        ) {
            Ok(reported) => reported,
            Err(error) => return error.0,
        };
        events::wait(&raw mut (*cq).mutex, &raw mut (*cq).cond, || {
            (*cq).comp_events_completed == reported.comp_events_reported
                && (*cq).async_events_completed == reported.async_events_reported
        });
    }
    0
}
