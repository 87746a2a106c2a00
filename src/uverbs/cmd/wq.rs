//! Work queues.

use core::mem::MaybeUninit;

use ibverbs_abi::*;
use libc::{EINVAL, EOPNOTSUPP, c_int};

use crate::uverbs::{
    Destroyed, destroyed, events,
    fallback::{self, Needs, Route},
    ioctl::Command,
    state::{Op, state},
    write::{self, Placed, Uhw},
};

/// Creates a work queue; `wq_init_attr` gets the sizes as they came out.
///
/// # Safety
/// All pointers are the provider's own live structures, of the given sizes.
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
    // SAFETY: by the contract; what else the attributes point to is on this stack.
    unsafe {
        let attr = &mut *wq_init_attr;
        if attr.comp_mask >= IBV_WQ_INIT_ATTR_RESERVED {
            Errno(EINVAL).set();
            return EINVAL;
        }
        (*wq).context = context;
        (*wq).cq = attr.cq;
        (*wq).pd = attr.pd;
        (*wq).wq_type = attr.wq_type;
        let mut create_flags = 0;
        if attr.comp_mask & IBV_WQ_INIT_ATTR_FLAGS != 0 {
            if attr.create_flags & !(IBV_WQ_FLAGS_RESERVED - 1) != 0 {
                Errno(EOPNOTSUPP).set();
                return EOPNOTSUPP;
            }
            create_flags = attr.create_flags;
        }
        let (mut max_wr, mut max_sge, mut wq_num) = (0u32, 0u32, 0u32);
        let mut cmd = Command::<14>::new(UVERBS_OBJECT_WQ, UVERBS_METHOD_WQ_CREATE);
        let handle = cmd.new_object(UVERBS_ATTR_CREATE_WQ_HANDLE);
        cmd.u64(UVERBS_ATTR_CREATE_WQ_USER_HANDLE, wq as u64);
        cmd.object(UVERBS_ATTR_CREATE_WQ_PD_HANDLE, (*attr.pd).handle);
        cmd.object(UVERBS_ATTR_CREATE_WQ_CQ_HANDLE, (*attr.cq).handle);
        cmd.u64(UVERBS_ATTR_CREATE_WQ_TYPE, attr.wq_type.into());
        cmd.u32(UVERBS_ATTR_CREATE_WQ_MAX_WR, attr.max_wr);
        cmd.u32(UVERBS_ATTR_CREATE_WQ_MAX_SGE, attr.max_sge);
        cmd.fd(UVERBS_ATTR_CREATE_WQ_EVENT_FD, (*context).async_fd);
        cmd.u32(UVERBS_ATTR_CREATE_WQ_FLAGS, create_flags);
        cmd.output(UVERBS_ATTR_CREATE_WQ_RESP_MAX_WR, &raw mut max_wr);
        cmd.output(UVERBS_ATTR_CREATE_WQ_RESP_MAX_SGE, &raw mut max_sge);
        cmd.output(UVERBS_ATTR_CREATE_WQ_RESP_WQ_NUM, &raw mut wq_num);
        cmd.uhw(&uhw);
        let needs = Needs {
            ex: true,
            ioctl: state(context).is_imported(),
        };
        match fallback::execute(context, Op::CreateWq, needs, &mut cmd) {
            Ok(Route::Done) => {
                (*wq).handle = cmd.made(handle);
                (*wq).wq_num = wq_num;
                attr.max_wr = max_wr;
                attr.max_sge = max_sge;
                0
            }
            Ok(_) => create_by_write(context, attr, wq, &uhw),
            Err(error) => error.0,
        }
    }
}

/// # Safety
/// As for [`ibv_cmd_create_wq`].
unsafe fn create_by_write(
    context: *mut ibv_context,
    attr: &mut ibv_wq_init_attr,
    wq: *mut ibv_wq,
    uhw: &Uhw,
) -> c_int {
    let (mut request, mut response) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    let (Ok(request), Ok(response)) = (
        uhw.request::<ibv_create_wq>(&mut request),
        uhw.response::<ib_uverbs_ex_create_wq_resp>(&mut response),
    ) else {
        return EINVAL;
    };
    // SAFETY: by the contract; request and response are on this stack or in front of the provider's.
    unsafe {
        (&raw mut (*request.at).core_payload).write(ib_uverbs_ex_create_wq {
            comp_mask: 0,
            wq_type: attr.wq_type,
            user_handle: wq as u64,
            pd_handle: (*attr.pd).handle,
            cq_handle: (*attr.cq).handle,
            max_wr: attr.max_wr,
            max_sge: attr.max_sge,
            create_flags: attr.create_flags,
            reserved: 0,
        });
        let ret = write::execute_ex(context, IB_USER_VERBS_EX_CMD_CREATE_WQ, request, response);
        if ret == 0 {
            (*wq).handle = (*response.at).wq_handle;
            (*wq).wq_num = (*response.at).wqn;
            attr.max_wr = (*response.at).max_wr;
            attr.max_sge = (*response.at).max_sge;
        }
        ret
    }
}

/// Modifies a work queue.
///
/// # Safety
/// All pointers are the provider's own live structures, of the given sizes.
pub unsafe extern "C" fn ibv_cmd_modify_wq(
    wq: *mut ibv_wq,
    attr: *mut ibv_wq_attr,
    cmd: *mut ibv_modify_wq,
    cmd_size: usize,
) -> c_int {
    // SAFETY: by the contract.
    unsafe {
        let attr = &*attr;
        if attr.attr_mask >= IBV_WQ_ATTR_RESERVED {
            return EINVAL;
        }
        cmd.write_bytes(0, 1);
        let request = &mut (*cmd).core_payload;
        request.curr_wq_state = attr.curr_wq_state;
        request.wq_state = attr.wq_state;
        if attr.attr_mask & IBV_WQ_ATTR_FLAGS != 0 {
            if attr.flags_mask & !(IBV_WQ_FLAGS_RESERVED - 1) != 0 {
                return EOPNOTSUPP;
            }
            request.flags = attr.flags;
            request.flags_mask = attr.flags_mask;
        }
        request.wq_handle = (*wq).handle;
        request.attr_mask = attr.attr_mask;
        let ret = write::execute_ex::<_, ()>(
            (*wq).context,
            IB_USER_VERBS_EX_CMD_MODIFY_WQ,
            Placed::whole(cmd, cmd_size),
            Placed::nothing(),
        );
        if ret == 0 && attr.attr_mask & IBV_WQ_ATTR_STATE != 0 {
            (*wq).state = attr.wq_state;
        }
        ret
    }
}

/// Destroys a work queue once the program has acknowledged all of its events.
///
/// # Safety
/// `wq` is live.
pub unsafe extern "C" fn ibv_cmd_destroy_wq(wq: *mut ibv_wq) -> c_int {
    let mut response = ib_uverbs_ex_destroy_wq_resp::default();
    // SAFETY: by the contract; the response is on this stack, and the queue's mutex and condition
    // were initialised when it was made.
    unsafe {
        let context = (*wq).context;
        let mut cmd = Command::<2>::new(UVERBS_OBJECT_WQ, UVERBS_METHOD_WQ_DESTROY);
        cmd.output(
            UVERBS_ATTR_DESTROY_WQ_RESP,
            &raw mut response.events_reported,
        );
        cmd.object(UVERBS_ATTR_DESTROY_WQ_HANDLE, (*wq).handle);
        let ret = match fallback::execute(context, Op::DestroyWq, Needs::default(), &mut cmd) {
            Ok(Route::Done) => 0,
            Ok(_) => {
                let mut request = CmdEx {
                    hdr: ex_hdr::default(),
                    core_payload: ib_uverbs_ex_destroy_wq {
                        comp_mask: 0,
                        wq_handle: (*wq).handle,
                    },
                };
                write::execute_ex(
                    context,
                    IB_USER_VERBS_EX_CMD_DESTROY_WQ,
                    Placed::alone(&raw mut request),
                    Placed::alone(&raw mut response),
                )
            }
            Err(error) => error.0,
        };
        if let Destroyed::Return(ret) = destroyed(ret) {
            return ret;
        }
        events::wait(&raw mut (*wq).mutex, &raw mut (*wq).cond, || {
            (*wq).events_completed == response.events_reported
        });
    }
    0
}
