//! Commands of work queues.

use ibverbs_abi::*;
use libc::{EINVAL, EOPNOTSUPP, c_int};

use super::to_c;
use crate::uverbs::{
    Destroyed, destroyed, events,
    fallback::{self, Fallback, Needs},
    ioctl::Command,
    state::{Op, event_file, state},
    uhw::{Buffer, Uhw},
    write,
};

/// All flags of a WQ (IBV_WQ_FLAGS_*).
const FLAGS: u32 = IBV_WQ_FLAGS_RESERVED - 1;

/// Creates a work queue. `wq_init_attr` gets the sizes of the new queue.
///
/// # Safety
/// As the module [`cmd`](super) says.
pub unsafe extern "C" fn ibv_cmd_create_wq(
    context: *mut ibv_context,
    wq_init_attr: *mut ibv_wq_init_attr,
    wq: *mut ibv_wq,
    cmd: *mut ibv_create_wq,
    cmd_size: usize,
    resp: *mut ib_uverbs_ex_create_wq_resp,
    resp_size: usize,
) -> c_int {
    let uhw = Uhw::after(cmd, cmd_size, resp, resp_size);
    to_c(|| {
        // SAFETY: `wq_init_attr` and `wq` are live, each a structure of its own.
        let (attr, wq) = unsafe { (&mut *wq_init_attr, &mut *wq) };
        if attr.comp_mask >= IBV_WQ_INIT_ATTR_RESERVED {
            return Errno(EINVAL).fail();
        }
        wq.context = context;
        wq.cq = attr.cq;
        wq.pd = attr.pd;
        wq.wq_type = attr.wq_type;
        let with_flags = attr.comp_mask & IBV_WQ_INIT_ATTR_FLAGS != 0;
        if with_flags && attr.create_flags & !FLAGS != 0 {
            return Errno(EOPNOTSUPP).fail();
        }
        // SAFETY: `context` is open; the PD and CQ of `attr`, `cmd` and `resp` are live.
        unsafe {
            match create_by_ioctl(context, attr, wq, &uhw, with_flags)? {
                Fallback::Done => Ok(()),
                _ => create_by_write_ex(context, attr, wq, &uhw),
            }
        }
    })
}

/// # Safety
/// `context` is open; the PD and CQ of `attr` and the provider's buffers in `uhw` are live.
unsafe fn create_by_ioctl(
    context: *mut ibv_context,
    attr: &mut ibv_wq_init_attr,
    wq: &mut ibv_wq,
    uhw: &Uhw,
    with_flags: bool,
) -> Result<Fallback, Errno> {
    let mut cmd = Command::<14>::new(UVERBS_OBJECT_WQ, UVERBS_METHOD_WQ_CREATE);
    let (mut max_wr, mut max_sge, mut wq_num) = (0u32, 0u32, 0u32);
    let create_flags = if with_flags { attr.create_flags } else { 0 };
    // SAFETY: the PD, the CQ and `context` are live.
    let (pd_handle, cq_handle, async_fd) =
        unsafe { ((*attr.pd).handle, (*attr.cq).handle, event_file(context)) };
    let handle = cmd.new_object(UVERBS_ATTR_CREATE_WQ_HANDLE);
    cmd.u64(UVERBS_ATTR_CREATE_WQ_USER_HANDLE, &raw mut *wq as u64);
    cmd.object(UVERBS_ATTR_CREATE_WQ_PD_HANDLE, pd_handle);
    cmd.object(UVERBS_ATTR_CREATE_WQ_CQ_HANDLE, cq_handle);
    cmd.u64(UVERBS_ATTR_CREATE_WQ_TYPE, attr.wq_type.into());
    cmd.u32(UVERBS_ATTR_CREATE_WQ_MAX_WR, attr.max_wr);
    cmd.u32(UVERBS_ATTR_CREATE_WQ_MAX_SGE, attr.max_sge);
    cmd.fd(UVERBS_ATTR_CREATE_WQ_EVENT_FD, async_fd);
    cmd.u32(UVERBS_ATTR_CREATE_WQ_FLAGS, create_flags);
    cmd.output(UVERBS_ATTR_CREATE_WQ_RESP_MAX_WR, &raw mut max_wr);
    cmd.output(UVERBS_ATTR_CREATE_WQ_RESP_MAX_SGE, &raw mut max_sge);
    cmd.output(UVERBS_ATTR_CREATE_WQ_RESP_WQ_NUM, &raw mut wq_num);
    // SAFETY: `context` is open, the provider's buffers are live, the outputs are locals.
    let route = unsafe {
        let needs = Needs {
            ex: true,
            ioctl: state(context).is_imported(),
        };
        cmd.uhw(uhw);
        fallback::execute(context, Op::CreateWq, needs, &mut cmd)
    }?;
    if route == Fallback::Done {
        wq.handle = cmd.created(handle);
        wq.wq_num = wq_num;
        attr.max_wr = max_wr;
        attr.max_sge = max_sge;
    }
    Ok(route)
}

/// # Safety
/// As for [`create_by_ioctl`].
unsafe fn create_by_write_ex(
    context: *mut ibv_context,
    attr: &mut ibv_wq_init_attr,
    wq: &mut ibv_wq,
    uhw: &Uhw,
) -> Result<(), Errno> {
    // SAFETY: the PD and the CQ are live.
    let (pd_handle, cq_handle) = unsafe { ((*attr.pd).handle, (*attr.cq).handle) };
    let request = ib_uverbs_ex_create_wq {
        comp_mask: 0,
        wq_type: attr.wq_type,
        user_handle: &raw mut *wq as u64,
        pd_handle,
        cq_handle,
        max_wr: attr.max_wr,
        max_sge: attr.max_sge,
        create_flags: attr.create_flags,
        reserved: 0,
    };
    let accept = |response: &ib_uverbs_ex_create_wq_resp| {
        wq.handle = response.wq_handle;
        wq.wq_num = response.wqn;
        attr.max_wr = response.max_wr;
        attr.max_sge = response.max_sge;
    };
    // SAFETY: `context` is open, the provider's buffers are live, and this is the command's response.
    unsafe {
        write::execute_ex_uhw(
            context,
            IB_USER_VERBS_EX_CMD_CREATE_WQ,
            uhw,
            request,
            accept,
        )
    }
}

/// Modifies a work queue.
///
/// # Safety
/// As the module [`cmd`](super) says.
pub unsafe extern "C" fn ibv_cmd_modify_wq(
    wq: *mut ibv_wq,
    attr: *mut ibv_wq_attr,
    cmd: *mut ibv_modify_wq,
    cmd_size: usize,
) -> c_int {
    to_c(|| {
        // SAFETY: `wq` and `attr` are live.
        let (wq, attr) = unsafe { (&mut *wq, &*attr) };
        if attr.attr_mask >= IBV_WQ_ATTR_RESERVED {
            return Err(Errno(EINVAL));
        }
        // SAFETY: `cmd` begins with the request, which is all integers: zeros are valid.
        let request = unsafe {
            cmd.write_bytes(0, 1);
            &mut (*cmd).core_payload
        };
        request.curr_wq_state = attr.curr_wq_state;
        request.wq_state = attr.wq_state;
        if attr.attr_mask & IBV_WQ_ATTR_FLAGS != 0 {
            if attr.flags_mask & !FLAGS != 0 {
                return Err(Errno(EOPNOTSUPP));
            }
            request.flags = attr.flags;
            request.flags_mask = attr.flags_mask;
        }
        request.wq_handle = wq.handle;
        request.attr_mask = attr.attr_mask;
        let buffer = Buffer::of_provider(cmd, cmd_size);
        // SAFETY: the WQ's context is open, `cmd` is `cmd_size` bytes long.
        unsafe { write::execute_ex_request(wq.context, IB_USER_VERBS_EX_CMD_MODIFY_WQ, buffer)? };
        if attr.attr_mask & IBV_WQ_ATTR_STATE != 0 {
            wq.state = attr.wq_state;
        }
        Ok(())
    })
}

/// Destroys a work queue once the program has acknowledged all of its events.
///
/// # Safety
/// `wq` is live.
pub unsafe extern "C" fn ibv_cmd_destroy_wq(wq: *mut ibv_wq) -> c_int {
    to_c(|| {
        let mut response = ib_uverbs_ex_destroy_wq_resp::default();
        // SAFETY: `wq` is live.
        let (context, handle) = unsafe { ((*wq).context, (*wq).handle) };
        // SAFETY: the WQ's context is open.
        let result = unsafe { destroy(context, handle, &mut response) };
        if destroyed(result)? == Destroyed::Object {
            // SAFETY: `wq` is live; mutex and condition were initialised with it and guard the count.
            unsafe {
                events::wait(&raw mut (*wq).mutex, &raw mut (*wq).cond, || {
                    (*wq).events_completed == response.events_reported
                });
            }
        }
        Ok(())
    })
}

/// Sends the command that destroys a work queue.
///
/// # Safety
/// `context` is open.
unsafe fn destroy(
    context: *mut ibv_context,
    wq_handle: u32,
    response: &mut ib_uverbs_ex_destroy_wq_resp,
) -> Result<(), Errno> {
    let mut cmd = Command::<2>::new(UVERBS_OBJECT_WQ, UVERBS_METHOD_WQ_DESTROY);
    cmd.output(
        UVERBS_ATTR_DESTROY_WQ_RESP,
        &raw mut response.events_reported,
    );
    cmd.object(UVERBS_ATTR_DESTROY_WQ_HANDLE, wq_handle);
    // SAFETY: `context` is open, the output is the caller's.
    let route = unsafe { fallback::execute(context, Op::DestroyWq, Needs::default(), &mut cmd)? };
    if route == Fallback::Done {
        return Ok(());
    }
    let mut request = CmdEx {
        hdr: ex_hdr::default(),
        core_payload: ib_uverbs_ex_destroy_wq {
            comp_mask: 0,
            wq_handle,
        },
    };
    // SAFETY: `context` is open, the request is a local, the response the caller's.
    unsafe {
        write::execute_ex(
            context,
            IB_USER_VERBS_EX_CMD_DESTROY_WQ,
            Buffer::core(&raw mut request),
            Buffer::core(response),
        )
    }
}
