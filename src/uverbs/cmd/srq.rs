//! Commands of shared receive queues, extended and XRC ones too: creating, changing, querying,
//! destroying, each by ioctl or a legacy command.
//!
//! Not here: receives, which providers post themselves; through the kernel: `post`.

use core::{mem::zeroed, ptr::null};

use ibverbs_abi::*;
use libc::{EINVAL, EOPNOTSUPP, c_int};

use super::{destroy::WithEvents, to_c};
use crate::uverbs::{
    events,
    fallback::{self, Fallback, Needs},
    ioctl::Command,
    kernel_abi,
    state::{Op, event_file, state},
    uhw::{Buffer, Uhw},
    write,
};

/// The handle of an XRC domain.
///
/// # Safety
/// `xrcd` is a live XRC domain of the provider.
unsafe fn xrcd_handle(xrcd: *mut ibv_xrcd) -> u32 {
    // SAFETY: `xrcd` is live, and providers allocate a verbs_xrcd.
    unsafe { (*xrcd.cast::<verbs_xrcd>()).handle }
}

/// The type of the SRQ. EINVAL if `attr` lacks what the type needs.
fn srq_type(attr: &ibv_srq_init_attr_ex) -> Result<ibv_srq_type, Errno> {
    let has = |bits: u32| attr.comp_mask & bits == bits;
    if !has(IBV_SRQ_INIT_ATTR_TYPE) {
        return Ok(IBV_SRQT_BASIC);
    }
    let complete = match attr.srq_type {
        IBV_SRQT_XRC => has(IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ),
        IBV_SRQT_TM => {
            has(IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_TM) && attr.tm_cap.max_num_tags != 0
        }
        _ => true,
    };
    if complete {
        Ok(attr.srq_type)
    } else {
        Errno(EINVAL).fail()
    }
}

/// Creates an SRQ through ioctl or write, whichever the kernel supports. Returns the type and, for an XRC
/// SRQ, the number.
///
/// # Safety
/// `pd`, the objects that `attr` names and the provider's buffers in `uhw` are live.
unsafe fn create(
    pd: *mut ibv_pd,
    srq: &mut ibv_srq,
    attr: &mut ibv_srq_init_attr_ex,
    uhw: &Uhw,
) -> Result<(ibv_srq_type, u32), Errno> {
    srq.pd = pd;
    // SAFETY: `pd` is live.
    srq.context = unsafe { (*pd).context };
    // SAFETY: the SRQ is new, so nobody uses the mutex and the condition yet, and they stay where they are.
    unsafe {
        libc::pthread_mutex_init(&raw mut srq.mutex, null());
        libc::pthread_cond_init(&raw mut srq.cond, null());
    }
    let srq_type = srq_type(attr)?;
    let mut srq_num = 0;
    // SAFETY: the PD and its context, what `attr` names and the provider's buffers are live.
    unsafe {
        let state = state(srq.context);
        let needs = Needs {
            ex: false,
            ioctl: state.is_imported(),
        };
        let route = if state.may_ioctl(Op::CreateSrq) {
            by_ioctl(srq, srq_type, attr, uhw, needs, &mut srq_num)
        } else {
            fallback::legacy(needs)
        };
        // As in rdma-core, the legacy path goes by the type itself, whatever comp_mask says of it.
        match route? {
            Fallback::Done => {}
            _ if attr.srq_type != IBV_SRQT_BASIC => by_write_x(srq, attr, uhw, &mut srq_num)?,
            _ => by_write(srq, &mut attr.attr, uhw)?,
        }
    }
    Ok((srq_type, srq_num))
}

/// # Safety
/// As for [`create`].
#[inline(always)]
unsafe fn by_ioctl(
    srq: &mut ibv_srq,
    srq_type: ibv_srq_type,
    attr: &mut ibv_srq_init_attr_ex,
    uhw: &Uhw,
    needs: Needs,
    srq_num: &mut u32,
) -> Result<Fallback, Errno> {
    let mut cmd = Command::<15>::new(UVERBS_OBJECT_SRQ, UVERBS_METHOD_SRQ_CREATE);
    let (mut max_wr, mut max_sge) = (0u32, 0u32);
    // SAFETY: the PD and its context are live; `srq_type` says that the type's objects are there.
    let (pd_handle, async_fd) = unsafe {
        add_type(&mut cmd, srq_type, attr, srq_num);
        ((*srq.pd).handle, event_file(srq.context))
    };
    let handle = cmd.new_object(UVERBS_ATTR_CREATE_SRQ_HANDLE);
    cmd.u64(UVERBS_ATTR_CREATE_SRQ_TYPE, srq_type.into());
    cmd.u64(UVERBS_ATTR_CREATE_SRQ_USER_HANDLE, &raw mut *srq as u64);
    cmd.object(UVERBS_ATTR_CREATE_SRQ_PD_HANDLE, pd_handle);
    cmd.u32(UVERBS_ATTR_CREATE_SRQ_MAX_WR, attr.attr.max_wr);
    cmd.u32(UVERBS_ATTR_CREATE_SRQ_MAX_SGE, attr.attr.max_sge);
    cmd.u32(UVERBS_ATTR_CREATE_SRQ_LIMIT, attr.attr.srq_limit);
    cmd.fd(UVERBS_ATTR_CREATE_SRQ_EVENT_FD, async_fd);
    cmd.output(UVERBS_ATTR_CREATE_SRQ_RESP_MAX_WR, &raw mut max_wr);
    cmd.output(UVERBS_ATTR_CREATE_SRQ_RESP_MAX_SGE, &raw mut max_sge);
    // SAFETY: the context is open, the provider's buffers are live, the outputs outlive the command.
    let route = unsafe {
        cmd.uhw(uhw);
        fallback::send(srq.context, Op::CreateSrq, needs, &mut cmd)
    }?;
    if route == Fallback::Done {
        srq.handle = cmd.created(handle);
        attr.attr.max_wr = max_wr;
        attr.attr.max_sge = max_sge;
    }
    Ok(route)
}

/// Adds the attributes that only XRC and tag-matching SRQs have.
///
/// # Safety
/// The objects that `attr` must name for `srq_type` are live; `srq_num` outlives the command.
#[inline(always)]
unsafe fn add_type<const N: usize>(
    cmd: &mut Command<N>,
    srq_type: ibv_srq_type,
    attr: &ibv_srq_init_attr_ex,
    srq_num: &mut u32,
) {
    // SAFETY: each type names these objects.
    unsafe {
        match srq_type {
            IBV_SRQT_XRC => {
                cmd.object(UVERBS_ATTR_CREATE_SRQ_XRCD_HANDLE, xrcd_handle(attr.xrcd));
                cmd.object(UVERBS_ATTR_CREATE_SRQ_CQ_HANDLE, (*attr.cq).handle);
                cmd.output(UVERBS_ATTR_CREATE_SRQ_RESP_SRQ_NUM, srq_num);
            }
            IBV_SRQT_TM => {
                let max_num_tags = attr.tm_cap.max_num_tags;
                cmd.object(UVERBS_ATTR_CREATE_SRQ_CQ_HANDLE, (*attr.cq).handle);
                cmd.u32(UVERBS_ATTR_CREATE_SRQ_MAX_NUM_TAGS, max_num_tags);
            }
            _ => {}
        }
    }
}

/// The plain legacy command. Kernels before ABI 6 do not report the new SRQ's sizes.
///
/// # Safety
/// As for [`create`].
unsafe fn by_write(srq: &mut ibv_srq, attr: &mut ibv_srq_attr, uhw: &Uhw) -> Result<(), Errno> {
    const METHOD: u32 = IB_USER_VERBS_CMD_CREATE_SRQ;
    let request = ib_uverbs_create_srq {
        response: 0,
        user_handle: &raw mut *srq as u64,
        // SAFETY: the PD is live.
        pd_handle: unsafe { (*srq.pd).handle },
        max_wr: attr.max_wr,
        max_sge: attr.max_sge,
        srq_limit: attr.srq_limit,
        driver_data: [],
    };
    if kernel_abi() <= 5 {
        let accept = |response: &ibv_create_srq_resp_v5| srq.handle = response.srq_handle;
        // SAFETY: the context is open, the provider's buffers are live, and this is the kernel's response.
        return unsafe { write::execute_uhw(srq.context, METHOD, uhw, request, accept) };
    }
    let accept = |response: &ib_uverbs_create_srq_resp| {
        srq.handle = response.srq_handle;
        attr.max_wr = response.max_wr;
        attr.max_sge = response.max_sge;
    };
    // SAFETY: the context is open, the provider's buffers are live, and this is the kernel's response.
    unsafe { write::execute_uhw(srq.context, METHOD, uhw, request, accept) }
}

/// The legacy command for XRC and tag-matching SRQs.
///
/// # Safety
/// As for [`create`].
unsafe fn by_write_x(
    srq: &mut ibv_srq,
    attr: &mut ibv_srq_init_attr_ex,
    uhw: &Uhw,
    srq_num: &mut u32,
) -> Result<(), Errno> {
    let matching = attr.srq_type == IBV_SRQT_TM;
    // SAFETY: the PD is live; CQ and XRC domain are null or live.
    let (pd_handle, cq_handle, xrcd_handle) = unsafe {
        let no_xrcd = matching || attr.xrcd.is_null();
        (
            (*srq.pd).handle,
            attr.cq.as_ref().map_or(0, |cq| cq.handle),
            if no_xrcd { 0 } else { xrcd_handle(attr.xrcd) },
        )
    };
    let max_num_tags = attr.tm_cap.max_num_tags;
    let request = ib_uverbs_create_xsrq {
        response: 0,
        user_handle: &raw mut *srq as u64,
        srq_type: attr.srq_type,
        pd_handle,
        max_wr: attr.attr.max_wr,
        max_sge: attr.attr.max_sge,
        srq_limit: attr.attr.srq_limit,
        max_num_tags: if matching { max_num_tags } else { 0 },
        xrcd_handle,
        cq_handle,
        driver_data: [],
    };
    let (context, method) = (srq.context, IB_USER_VERBS_CMD_CREATE_XSRQ);
    let accept = |response: &ib_uverbs_create_srq_resp| {
        srq.handle = response.srq_handle;
        attr.attr.max_wr = response.max_wr;
        attr.attr.max_sge = response.max_sge;
        *srq_num = response.srqn;
    };
    // SAFETY: the context is open, the provider's buffers are live, and this is the command's response.
    unsafe { write::execute_uhw(context, method, uhw, request, accept) }
}

/// Creates an SRQ.
///
/// # Safety
/// As the module [`cmd`](super) says.
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
    to_c(|| {
        // SAFETY: `srq` and `attr` are live, each a structure of its own.
        let (srq, attr) = unsafe { (&mut *srq, &mut *attr) };
        // SAFETY: all members are integers or pointers, for which zeros are valid.
        let mut attr_ex: ibv_srq_init_attr_ex = unsafe { zeroed() };
        attr_ex.srq_context = attr.srq_context;
        attr_ex.attr = attr.attr;
        // SAFETY: `pd` is live, its context open, `cmd` and `resp` live; `attr_ex` names no objects.
        unsafe { create(pd, srq, &mut attr_ex, &uhw)? };
        attr.attr.max_wr = attr_ex.attr.max_wr;
        attr.attr.max_sge = attr_ex.attr.max_sge;
        Ok(())
    })
}

/// Creates an SRQ from extended attributes.
///
/// # Safety
/// As the module [`cmd`](super) says.
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
    to_c(|| {
        // SAFETY: `srq` and `attr_ex` are live, each a structure of its own.
        let (srq, attr) = unsafe { (&mut *srq, &mut *attr_ex) };
        if attr.comp_mask >= IBV_SRQ_INIT_ATTR_RESERVED {
            return Errno(EOPNOTSUPP).fail();
        }
        if attr.comp_mask & IBV_SRQ_INIT_ATTR_PD == 0 {
            return Errno(EINVAL).fail();
        }
        // SAFETY: what `attr_ex` names, `cmd` and `resp` are live.
        let (srq_type, srq_num) = unsafe { create(attr.pd, &mut srq.srq, attr, &uhw)? };
        srq.srq_type = srq_type;
        if srq_type == IBV_SRQT_XRC {
            srq.srq_num = srq_num;
            srq.xrcd = attr.xrcd.cast();
        }
        if attr.comp_mask & IBV_SRQ_INIT_ATTR_CQ != 0 {
            srq.cq = attr.cq;
        }
        Ok(())
    })
}

/// Modifies an SRQ's size or limit.
///
/// # Safety
/// As the module [`cmd`](super) says.
pub unsafe extern "C" fn ibv_cmd_modify_srq(
    srq: *mut ibv_srq,
    srq_attr: *mut ibv_srq_attr,
    srq_attr_mask: c_int,
    cmd: *mut ibv_modify_srq,
    cmd_size: usize,
) -> c_int {
    to_c(|| {
        // SAFETY: `srq` and `srq_attr` are live.
        let (srq, attr) = unsafe { (&*srq, &*srq_attr) };
        if kernel_abi() == 3 {
            // SAFETY: `cmd` is `cmd_size` bytes long, the SRQ's context is open.
            return unsafe { modify_v3(srq, attr, srq_attr_mask as u32, cmd, cmd_size) };
        }
        // SAFETY: `cmd` begins with the request.
        let request = unsafe { &mut (*cmd).core_payload };
        request.srq_handle = srq.handle;
        request.attr_mask = srq_attr_mask as u32;
        request.max_wr = attr.max_wr;
        request.srq_limit = attr.srq_limit;
        let buffer = Buffer::of_provider(cmd, cmd_size);
        // SAFETY: the SRQ's context is open, `cmd` is `cmd_size` bytes long.
        unsafe { write::execute_request(srq.context, IB_USER_VERBS_CMD_MODIFY_SRQ, buffer) }
    })
}

/// As [`ibv_cmd_modify_srq`] on a kernel of ABI 3. Its request is longer, so the provider's part is copied
/// behind it; EINVAL if that is longer than 256 bytes.
///
/// # Safety
/// As for [`ibv_cmd_modify_srq`].
#[cold]
#[inline(never)]
unsafe fn modify_v3(
    srq: &ibv_srq,
    attr: &ibv_srq_attr,
    mask: u32,
    cmd: *mut ibv_modify_srq,
    cmd_size: usize,
) -> Result<(), Errno> {
    #[repr(C)]
    struct Longer {
        request: ibv_modify_srq_v3,
        uhw: [u64; 32],
    }
    let uhw_len = cmd_size.saturating_sub(size_of::<ibv_modify_srq>());
    // SAFETY: all members are integers, for which zeros are valid.
    let mut longer: Longer = unsafe { zeroed() };
    if uhw_len > size_of_val(&longer.uhw) {
        return Errno(EINVAL).fail();
    }
    let request = &mut longer.request.core_payload;
    request.srq_handle = srq.handle;
    request.attr_mask = mask;
    request.max_wr = attr.max_wr;
    request.srq_limit = attr.srq_limit;
    let buffer = Buffer::of_provider(
        (&raw mut longer).cast(),
        size_of::<ibv_modify_srq_v3>() + uhw_len,
    );
    // SAFETY: `cmd` has `uhw_len` bytes behind the request, and so has `longer`; the context is open.
    unsafe {
        let uhw = cmd.add(1).cast::<u8>();
        uhw.copy_to_nonoverlapping((&raw mut longer.uhw).cast(), uhw_len);
        write::execute_request::<ib_uverbs_modify_srq_v3>(
            srq.context,
            IB_USER_VERBS_CMD_MODIFY_SRQ,
            buffer,
        )
    }
}

/// Queries an SRQ.
///
/// # Safety
/// As the module [`cmd`](super) says.
pub unsafe extern "C" fn ibv_cmd_query_srq(
    srq: *mut ibv_srq,
    srq_attr: *mut ibv_srq_attr,
    cmd: *mut ibv_query_srq,
    cmd_size: usize,
) -> c_int {
    to_c(|| {
        let mut response = ib_uverbs_query_srq_resp::default();
        // SAFETY: `srq` and `srq_attr` are live, the context is open, `cmd` is `cmd_size` bytes long.
        unsafe {
            (*cmd).core_payload.srq_handle = (*srq).handle;
            (*cmd).core_payload.reserved = 0;
            write::execute(
                (*srq).context,
                IB_USER_VERBS_CMD_QUERY_SRQ,
                Buffer::of_provider(cmd, cmd_size),
                Buffer::core(&raw mut response),
            )?;
            (*srq_attr).max_wr = response.max_wr;
            (*srq_attr).max_sge = response.max_sge;
            (*srq_attr).srq_limit = response.srq_limit;
        }
        Ok(())
    })
}

/// Destroys an SRQ once the program has acknowledged all of its events.
///
/// # Safety
/// `srq` is live.
pub unsafe extern "C" fn ibv_cmd_destroy_srq(srq: *mut ibv_srq) -> c_int {
    const DESTROY: WithEvents = WithEvents {
        op: Op::DestroySrq,
        object: UVERBS_OBJECT_SRQ,
        method: UVERBS_METHOD_SRQ_DESTROY,
        handle: UVERBS_ATTR_DESTROY_SRQ_HANDLE,
        response: UVERBS_ATTR_DESTROY_SRQ_RESP,
        write: IB_USER_VERBS_CMD_DESTROY_SRQ,
    };
    // SAFETY: `srq` is live and its context open; the mutex and condition were initialised with the SRQ and
    // guard the count.
    to_c(|| unsafe {
        let reported =
            DESTROY.destroy::<ib_uverbs_destroy_srq_resp>((*srq).context, (*srq).handle)?;
        if let Some(reported) = reported {
            let acknowledged = || (*srq).events_completed == reported.events_reported;
            if !events::are_acknowledged(&raw mut (*srq).mutex, acknowledged) {
                wait_unlocked(srq, reported.events_reported);
            }
        }
        Ok(())
    })
}

/// Blocks until the program has acknowledged `reported` events of the SRQ. The thread that acknowledges them
/// may create an SRQ first, so other threads' SRQ commands run meanwhile.
///
/// # Safety
/// `srq` is live, and its context open.
#[cold]
#[inline(never)]
unsafe fn wait_unlocked(srq: *mut ibv_srq, reported: u32) {
    // SAFETY: `srq` is live and its context open; the mutex and condition were initialised with the SRQ and
    // guard the count.
    unsafe {
        state((*srq).context).srq_lock.unlocked(|| {
            let acknowledged = || (*srq).events_completed == reported;
            events::wait(&raw mut (*srq).mutex, &raw mut (*srq).cond, acknowledged);
        });
    }
}
