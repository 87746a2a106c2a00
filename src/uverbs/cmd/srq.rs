//! Shared receive queues, extended and XRC ones too.

use core::mem::{MaybeUninit, zeroed};

use ibverbs_abi::*;
use libc::{EINVAL, EOPNOTSUPP, c_int};

use super::destroy::Destroy;
use crate::uverbs::{
    events,
    fallback::{self, Needs, Route},
    ioctl::Command,
    kernel_abi,
    state::{Op, state},
    write::{self, Placed, Uhw},
};

/// The handle of an XRC domain.
///
/// # Safety
/// `xrcd` is a live XRC domain of the provider.
unsafe fn xrcd_handle(xrcd: *mut ibv_xrcd) -> u32 {
    // SAFETY: by the contract, and a provider's XRC domain is a verbs_xrcd.
    unsafe { (*xrcd.cast::<verbs_xrcd>()).handle }
}

/// Creates an SRQ by the way that this kernel has. `vsrq` is null for a plain one.
///
/// # Safety
/// `pd`, `srq`, the objects that `attr` names and the provider's buffers in `uhw` are live; `vsrq` is
/// null or has `srq` as its first member.
unsafe fn create(
    pd: *mut ibv_pd,
    srq: *mut ibv_srq,
    vsrq: *mut verbs_srq,
    attr: &mut ibv_srq_init_attr_ex,
    uhw: &Uhw,
) -> c_int {
    // SAFETY: by the contract; what else the attributes point to is on this stack.
    unsafe {
        let context = (*pd).context;
        (*srq).pd = pd;
        (*srq).context = context;
        libc::pthread_mutex_init(&raw mut (*srq).mutex, core::ptr::null());
        libc::pthread_cond_init(&raw mut (*srq).cond, core::ptr::null());

        let has = |bit: u32| attr.comp_mask & bit != 0;
        let srq_type = if has(IBV_SRQ_INIT_ATTR_TYPE) {
            attr.srq_type
        } else {
            IBV_SRQT_BASIC
        };
        let complete = match srq_type {
            IBV_SRQT_XRC => has(IBV_SRQ_INIT_ATTR_XRCD) && has(IBV_SRQ_INIT_ATTR_CQ),
            IBV_SRQT_TM => {
                has(IBV_SRQ_INIT_ATTR_CQ)
                    && has(IBV_SRQ_INIT_ATTR_TM)
                    && attr.tm_cap.max_num_tags != 0
            }
            _ => true,
        };
        if !complete {
            return Errno(EINVAL).returned();
        }
        let state = state(context);
        let needs = Needs {
            ex: false,
            ioctl: state.is_imported(),
        };

        let mut srq_num = 0u32;
        let route = if state.may_ioctl(Op::CreateSrq) {
            let (mut max_wr, mut max_sge) = (0u32, 0u32);
            let mut cmd = Command::<15>::new(UVERBS_OBJECT_SRQ, UVERBS_METHOD_SRQ_CREATE);
            match srq_type {
                IBV_SRQT_XRC => {
                    cmd.object(UVERBS_ATTR_CREATE_SRQ_XRCD_HANDLE, xrcd_handle(attr.xrcd));
                    cmd.object(UVERBS_ATTR_CREATE_SRQ_CQ_HANDLE, (*attr.cq).handle);
                    cmd.output(UVERBS_ATTR_CREATE_SRQ_RESP_SRQ_NUM, &raw mut srq_num);
                }
                IBV_SRQT_TM => {
                    cmd.object(UVERBS_ATTR_CREATE_SRQ_CQ_HANDLE, (*attr.cq).handle);
                    cmd.u32(
                        UVERBS_ATTR_CREATE_SRQ_MAX_NUM_TAGS,
                        attr.tm_cap.max_num_tags,
                    );
                }
                _ => {}
            }
            let handle = cmd.new_object(UVERBS_ATTR_CREATE_SRQ_HANDLE);
            cmd.u64(UVERBS_ATTR_CREATE_SRQ_TYPE, srq_type.into());
            cmd.u64(UVERBS_ATTR_CREATE_SRQ_USER_HANDLE, srq as u64);
            cmd.object(UVERBS_ATTR_CREATE_SRQ_PD_HANDLE, (*pd).handle);
            cmd.u32(UVERBS_ATTR_CREATE_SRQ_MAX_WR, attr.attr.max_wr);
            cmd.u32(UVERBS_ATTR_CREATE_SRQ_MAX_SGE, attr.attr.max_sge);
            cmd.u32(UVERBS_ATTR_CREATE_SRQ_LIMIT, attr.attr.srq_limit);
            cmd.fd(UVERBS_ATTR_CREATE_SRQ_EVENT_FD, (*context).async_fd);
            cmd.output(UVERBS_ATTR_CREATE_SRQ_RESP_MAX_WR, &raw mut max_wr);
            cmd.output(UVERBS_ATTR_CREATE_SRQ_RESP_MAX_SGE, &raw mut max_sge);
            cmd.uhw(uhw);
            let route = fallback::execute(context, Op::CreateSrq, needs, &mut cmd);
            if route == Ok(Route::Done) {
                (*srq).handle = cmd.made(handle);
                attr.attr.max_wr = max_wr;
                attr.attr.max_sge = max_sge;
            }
            route
        } else {
            fallback::legacy(needs)
        };
        let ret = match route {
            Ok(Route::Done) => 0,
            // The legacy path goes by the member itself, whatever the comp_mask says of it.
            Ok(_) if attr.srq_type == IBV_SRQT_BASIC && kernel_abi() > 5 => {
                return create_basic::<ib_uverbs_create_srq_resp>(
                    pd,
                    srq,
                    attr,
                    uhw,
                    |attr, resp| {
                        attr.max_wr = resp.max_wr;
                        attr.max_sge = resp.max_sge;
                        resp.srq_handle
                    },
                );
            }
            Ok(_) if attr.srq_type == IBV_SRQT_BASIC => {
                return create_basic::<ibv_create_srq_resp_v5>(pd, srq, attr, uhw, |_, resp| {
                    resp.srq_handle
                });
            }
            Ok(_) => create_xsrq(pd, srq, attr, uhw, &mut srq_num),
            Err(error) => error.0,
        };
        if ret == 0 && !vsrq.is_null() {
            (*vsrq).srq_type = srq_type;
            if srq_type == IBV_SRQT_XRC {
                (*vsrq).srq_num = srq_num;
                (*vsrq).xrcd = attr.xrcd.cast();
            }
            if attr.comp_mask & IBV_SRQ_INIT_ATTR_CQ != 0 {
                (*vsrq).cq = attr.cq;
            }
        }
        ret
    }
}

/// The plain legacy command; `accept` reads the response, whose members depend on the kernel's ABI,
/// and tells the handle.
///
/// # Safety
/// As for [`create`].
unsafe fn create_basic<R>(
    pd: *mut ibv_pd,
    srq: *mut ibv_srq,
    attr: &mut ibv_srq_init_attr_ex,
    uhw: &Uhw,
    accept: impl FnOnce(&mut ibv_srq_attr, &R) -> u32,
) -> c_int {
    let (mut request, mut response) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    let (Ok(request), Ok(response)) = (
        uhw.request::<ibv_create_srq>(&mut request),
        uhw.response::<R>(&mut response),
    ) else {
        return EINVAL;
    };
    // SAFETY: by the contract; request and response are on this stack or in front of the provider's.
    unsafe {
        (&raw mut (*request.at).core_payload).write(ib_uverbs_create_srq {
            response: 0,
            user_handle: srq as u64,
            pd_handle: (*pd).handle,
            max_wr: attr.attr.max_wr,
            max_sge: attr.attr.max_sge,
            srq_limit: attr.attr.srq_limit,
            driver_data: [],
        });
        let context = (*pd).context;
        let ret = write::execute(context, IB_USER_VERBS_CMD_CREATE_SRQ, request, response);
        if ret == 0 {
            (*srq).handle = accept(&mut attr.attr, &*response.at);
        }
        ret
    }
}

/// The legacy command for XRC and tag-matching SRQs.
///
/// # Safety
/// As for [`create`].
unsafe fn create_xsrq(
    pd: *mut ibv_pd,
    srq: *mut ibv_srq,
    attr: &mut ibv_srq_init_attr_ex,
    uhw: &Uhw,
    srq_num: &mut u32,
) -> c_int {
    let (mut request, mut response) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    let (Ok(request), Ok(response)) = (
        uhw.request::<ibv_create_xsrq>(&mut request),
        uhw.response::<ib_uverbs_create_srq_resp>(&mut response),
    ) else {
        return EINVAL;
    };
    // SAFETY: by the contract; request and response are on this stack or in front of the provider's.
    unsafe {
        let matching = attr.srq_type == IBV_SRQT_TM;
        (&raw mut (*request.at).core_payload).write(ib_uverbs_create_xsrq {
            response: 0,
            user_handle: srq as u64,
            srq_type: attr.srq_type,
            pd_handle: (*pd).handle,
            max_wr: attr.attr.max_wr,
            max_sge: attr.attr.max_sge,
            srq_limit: attr.attr.srq_limit,
            max_num_tags: if matching {
                attr.tm_cap.max_num_tags
            } else {
                0
            },
            xrcd_handle: if matching || attr.xrcd.is_null() {
                0
            } else {
                xrcd_handle(attr.xrcd)
            },
            cq_handle: if attr.cq.is_null() {
                0
            } else {
                (*attr.cq).handle
            },
            driver_data: [],
        });
        let context = (*pd).context;
        let ret = write::execute(context, IB_USER_VERBS_CMD_CREATE_XSRQ, request, response);
        if ret == 0 {
            (*srq).handle = (*response.at).srq_handle;
            attr.attr.max_wr = (*response.at).max_wr;
            attr.attr.max_sge = (*response.at).max_sge;
            *srq_num = (*response.at).srqn;
        }
        ret
    }
}

/// Creates an SRQ.
///
/// # Safety
/// All pointers are the provider's own live structures, of the given sizes.
pub unsafe extern "C" fn ibv_cmd_create_srq(
    pd: *mut ibv_pd,
    srq: *mut ibv_srq,
    attr: *mut ibv_srq_init_attr,
    cmd: *mut ibv_create_srq,
    cmd_size: usize,
    resp: *mut ib_uverbs_create_srq_resp,
    resp_size: usize,
) -> c_int {
    let uhw = Uhw::after(cmd, cmd_size, resp, resp_size);
    // SAFETY: by the contract; an extended structure of zeros asks for nothing.
    unsafe {
        let mut attr_ex: ibv_srq_init_attr_ex = zeroed();
        attr_ex.srq_context = (*attr).srq_context;
        attr_ex.attr = (*attr).attr;
        let ret = create(pd, srq, core::ptr::null_mut(), &mut attr_ex, &uhw);
        if ret == 0 {
            (*attr).attr.max_wr = attr_ex.attr.max_wr;
            (*attr).attr.max_sge = attr_ex.attr.max_sge;
        }
        ret
    }
}

/// Creates an SRQ from extended attributes.
///
/// # Safety
/// All pointers are the provider's own live structures, of the given sizes.
pub unsafe extern "C" fn ibv_cmd_create_srq_ex(
    _context: *mut ibv_context,
    srq: *mut verbs_srq,
    attr_ex: *mut ibv_srq_init_attr_ex,
    cmd: *mut ibv_create_xsrq,
    cmd_size: usize,
    resp: *mut ib_uverbs_create_srq_resp,
    resp_size: usize,
) -> c_int {
    let uhw = Uhw::after(cmd, cmd_size, resp, resp_size);
    // SAFETY: by the contract.
    unsafe {
        if (*attr_ex).comp_mask >= IBV_SRQ_INIT_ATTR_RESERVED {
            return Errno(EOPNOTSUPP).returned();
        }
        if (*attr_ex).comp_mask & IBV_SRQ_INIT_ATTR_PD == 0 {
            return Errno(EINVAL).returned();
        }
        create((*attr_ex).pd, &raw mut (*srq).srq, srq, &mut *attr_ex, &uhw)
    }
}

/// Modifies an SRQ's size or limit.
///
/// # Safety
/// All pointers are the provider's own live structures, of the given sizes.
pub unsafe extern "C" fn ibv_cmd_modify_srq(
    srq: *mut ibv_srq,
    srq_attr: *mut ibv_srq_attr,
    srq_attr_mask: c_int,
    cmd: *mut ibv_modify_srq,
    cmd_size: usize,
) -> c_int {
    // SAFETY: by the contract.
    unsafe {
        if kernel_abi() == 3 {
            return modify_v3(srq, srq_attr, srq_attr_mask, cmd, cmd_size);
        }
        let request = &mut (*cmd).core_payload;
        request.srq_handle = (*srq).handle;
        request.attr_mask = srq_attr_mask as u32;
        request.max_wr = (*srq_attr).max_wr;
        request.srq_limit = (*srq_attr).srq_limit;
        write::execute_request(
            (*srq).context,
            IB_USER_VERBS_CMD_MODIFY_SRQ,
            Placed::whole(cmd, cmd_size),
        )
    }
}

/// Kernels of ABI 3 have a longer common part, so the provider's must be moved behind it.
///
/// # Safety
/// As for [`ibv_cmd_modify_srq`].
unsafe fn modify_v3(
    srq: *mut ibv_srq,
    srq_attr: *mut ibv_srq_attr,
    srq_attr_mask: c_int,
    cmd: *mut ibv_modify_srq,
    cmd_size: usize,
) -> c_int {
    #[repr(C)]
    struct Moved {
        request: ibv_modify_srq_v3,
        uhw: [u64; 32],
    }
    let uhw_len = cmd_size.saturating_sub(size_of::<ibv_modify_srq>());
    // SAFETY: by the contract; the provider's part is copied only if there is room for it.
    unsafe {
        let mut moved: Moved = zeroed();
        if uhw_len > size_of_val(&moved.uhw) {
            return Errno(EINVAL).returned();
        }
        let from = cmd.add(1).cast::<u8>();
        from.copy_to_nonoverlapping((&raw mut moved.uhw).cast(), uhw_len);
        moved.request.core_payload.srq_handle = (*srq).handle;
        moved.request.core_payload.attr_mask = srq_attr_mask as u32;
        moved.request.core_payload.max_wr = (*srq_attr).max_wr;
        moved.request.core_payload.srq_limit = (*srq_attr).srq_limit;
        let len = size_of::<ibv_modify_srq_v3>() + uhw_len;
        let request = (&raw mut moved).cast::<ibv_modify_srq_v3>();
        write::execute_request(
            (*srq).context,
            IB_USER_VERBS_CMD_MODIFY_SRQ,
            Placed::whole(request, len),
        )
    }
}

/// Queries an SRQ.
///
/// # Safety
/// All pointers are the provider's own live structures, of the given sizes.
pub unsafe extern "C" fn ibv_cmd_query_srq(
    srq: *mut ibv_srq,
    srq_attr: *mut ibv_srq_attr,
    cmd: *mut ibv_query_srq,
    cmd_size: usize,
) -> c_int {
    let mut response = ib_uverbs_query_srq_resp::default();
    // SAFETY: by the contract; the response is on this stack.
    unsafe {
        (*cmd).core_payload.srq_handle = (*srq).handle;
        (*cmd).core_payload.reserved = 0;
        let ret = write::execute(
            (*srq).context,
            IB_USER_VERBS_CMD_QUERY_SRQ,
            Placed::whole(cmd, cmd_size),
            Placed::alone(&raw mut response),
        );
        if ret == 0 {
            (*srq_attr).max_wr = response.max_wr;
            (*srq_attr).max_sge = response.max_sge;
            (*srq_attr).srq_limit = response.srq_limit;
        }
        ret
    }
}

/// Destroys an SRQ once the program has acknowledged all of its events.
///
/// # Safety
/// `srq` is live.
pub unsafe extern "C" fn ibv_cmd_destroy_srq(srq: *mut ibv_srq) -> c_int {
    const DESTROY: Destroy = Destroy {
        op: Op::DestroySrq,
        object: UVERBS_OBJECT_SRQ,
        method: UVERBS_METHOD_SRQ_DESTROY,
        handle: UVERBS_ATTR_DESTROY_SRQ_HANDLE,
        write: IB_USER_VERBS_CMD_DESTROY_SRQ,
    };
    // SAFETY: by the contract; the SRQ's mutex and condition were initialised when it was made.
    unsafe {
        let reported = match DESTROY.with_events::<ib_uverbs_destroy_srq_resp>(
            (*srq).context,
            (*srq).handle,
            UVERBS_ATTR_DESTROY_SRQ_RESP,
        ) {
            Ok(reported) => reported,
            Err(error) => return error.0,
        };
        events::wait(&raw mut (*srq).mutex, &raw mut (*srq).cond, || {
            (*srq).events_completed == reported.events_reported
        });
    }
    0
}
