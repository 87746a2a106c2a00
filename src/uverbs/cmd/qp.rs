//! Queue pairs: creating, opening, destroying. Attributes are in `qp_attr`.

use core::{
    mem::{offset_of, zeroed},
    ptr::null_mut,
};

use ibverbs_abi::*;
use libc::{EINVAL, EOPNOTSUPP, c_int};

use super::{destroy::Destroy, only, qp_write};
use crate::uverbs::{
    events,
    fallback::{self, Needs, Route},
    ioctl::{Command, Slot},
    kernel_abi,
    state::{Op, state},
    write::{self, Placed, Uhw},
};

/// The creation flags that a kernel command can carry.
const CREATE_FLAGS: u32 = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB
    | IBV_QP_CREATE_SCATTER_FCS
    | IBV_QP_CREATE_CVLAN_STRIPPING
    | IBV_QP_CREATE_SOURCE_QPN
    | IBV_QP_CREATE_PCI_WRITE_END_PADDING;

/// The kernel's limits go straight into the program's structure.
const _: () = assert!(
    size_of::<ibv_qp_cap>() == size_of::<ib_uverbs_qp_cap>()
        && offset_of!(ibv_qp_cap, max_send_wr) == offset_of!(ib_uverbs_qp_cap, max_send_wr)
        && offset_of!(ibv_qp_cap, max_recv_wr) == offset_of!(ib_uverbs_qp_cap, max_recv_wr)
        && offset_of!(ibv_qp_cap, max_send_sge) == offset_of!(ib_uverbs_qp_cap, max_send_sge)
        && offset_of!(ibv_qp_cap, max_recv_sge) == offset_of!(ib_uverbs_qp_cap, max_recv_sge)
        && offset_of!(ibv_qp_cap, max_inline_data) == offset_of!(ib_uverbs_qp_cap, max_inline_data)
);

/// The objects a QP hangs on, by their handles; what a QP type does not have is 0.
pub(super) struct Handles {
    /// The PD's, or the XRC domain's of a QPT_XRC_RECV.
    pub pd: u32,
    pub send_cq: Option<u32>,
    pub recv_cq: Option<u32>,
    pub srq: Option<u32>,
    pub rwq_ind_tbl: Option<u32>,
}

impl Handles {
    /// What `attr` asks for, or the errno for what cannot be.
    ///
    /// # Safety
    /// The objects that `attr` names are live.
    #[inline(always)]
    unsafe fn of(attr: &mut ibv_qp_init_attr_ex) -> Result<Self, Errno> {
        // SAFETY: by the contract.
        unsafe {
            let srq = (!attr.srq.is_null()).then(|| (*attr.srq).handle);
            let mut handles = Handles {
                pd: 0,
                send_cq: None,
                recv_cq: None,
                srq,
                rwq_ind_tbl: None,
            };
            match attr.qp_type {
                IBV_QPT_XRC_RECV => {
                    if attr.comp_mask & IBV_QP_INIT_ATTR_XRCD == 0 {
                        return Err(Errno(EINVAL));
                    }
                    handles.pd = (*attr.xrcd.cast::<verbs_xrcd>()).handle;
                }
                IBV_QPT_RC | IBV_QPT_UD | IBV_QPT_UC | IBV_QPT_RAW_PACKET | IBV_QPT_XRC_SEND
                | IBV_QPT_DRIVER => {
                    if attr.comp_mask & IBV_QP_INIT_ATTR_PD == 0 {
                        return Err(Errno(EINVAL));
                    }
                    handles.pd = (*attr.pd).handle;
                    if attr.comp_mask & IBV_QP_INIT_ATTR_IND_TABLE != 0 {
                        if attr.cap.max_recv_wr != 0
                            || attr.cap.max_recv_sge != 0
                            || !attr.recv_cq.is_null()
                            || !attr.srq.is_null()
                        {
                            return Err(Errno(EINVAL));
                        }
                        handles.rwq_ind_tbl = Some((*attr.rwq_ind_tbl).ind_tbl_handle as u32);
                        // A QP that only receives needs no send CQ.
                        if attr.cap.max_send_wr != 0 {
                            handles.send_cq = Some((*attr.send_cq).handle);
                        }
                    } else {
                        handles.send_cq = Some((*attr.send_cq).handle);
                        if attr.qp_type != IBV_QPT_XRC_SEND {
                            handles.recv_cq = Some((*attr.recv_cq).handle);
                        }
                    }
                    if attr.qp_type == IBV_QPT_XRC_SEND {
                        attr.cap.max_recv_wr = 0;
                        attr.cap.max_recv_sge = 0;
                    }
                }
                _ => return Err(Errno(EINVAL)),
            }
            Ok(handles)
        }
    }
}

/// Creates a QP by the way that this kernel has, and initialises the public structure.
///
/// # Safety
/// `context`, `qp`, the objects that `attr` names and the provider's buffers in `uhw` are live.
unsafe fn create(
    context: *mut ibv_context,
    qp: *mut ibv_qp,
    attr: &mut ibv_qp_init_attr_ex,
    uhw: &Uhw,
) -> c_int {
    // SAFETY: by the contract; what else the attributes point to is on this stack.
    unsafe {
        (*qp).context = context;
        let handles = match Handles::of(attr) {
            Ok(handles) => handles,
            Err(error) => return error.returned(),
        };
        let with_flags = attr.comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS != 0;
        if with_flags && attr.create_flags & !CREATE_FLAGS != 0 {
            return Errno(EINVAL).returned();
        }
        let state = state(context);
        let needs = Needs {
            ex: with_flags || handles.rwq_ind_tbl.is_some(),
            ioctl: state.is_imported(),
        };

        let route = if state.may_ioctl(Op::CreateQp) {
            let mut qp_num = 0u32;
            let mut cmd = Command::<17>::new(UVERBS_OBJECT_QP, UVERBS_METHOD_QP_CREATE);
            let handle = fill(&mut cmd, context, qp, attr, &handles, &raw mut qp_num);
            cmd.uhw(uhw);
            let route = fallback::execute(context, Op::CreateQp, needs, &mut cmd);
            if route == Ok(Route::Done) {
                (*qp).handle = cmd.made(handle);
                (*qp).qp_num = qp_num;
            }
            route
        } else {
            fallback::legacy(needs)
        };
        let ret = match route {
            Ok(Route::Done) => 0,
            Ok(Route::WriteEx) => qp_write::create_ex(context, qp, attr, &handles, uhw),
            Ok(Route::Write) => match kernel_abi() {
                3 => qp_write::create::<ibv_create_qp_resp_v3>(context, qp, attr, &handles, uhw),
                4 => qp_write::create::<ibv_create_qp_resp_v4>(context, qp, attr, &handles, uhw),
                _ => qp_write::create::<ib_uverbs_create_qp_resp>(context, qp, attr, &handles, uhw),
            },
            Err(error) => error.0,
        };
        if ret == 0 {
            initialise(qp, attr);
        }
        ret
    }
}

/// The attributes of the ioctl.
///
/// # Safety
/// As for [`create`]; `qp_num` and `attr.cap` are live until the command is executed.
#[inline(always)]
unsafe fn fill<const N: usize>(
    cmd: &mut Command<N>,
    context: *mut ibv_context,
    qp: *mut ibv_qp,
    attr: &mut ibv_qp_init_attr_ex,
    handles: &Handles,
    qp_num: *mut u32,
) -> Slot {
    let xrc_recv = attr.qp_type == IBV_QPT_XRC_RECV;
    let owner = if xrc_recv {
        UVERBS_ATTR_CREATE_QP_XRCD_HANDLE
    } else {
        UVERBS_ATTR_CREATE_QP_PD_HANDLE
    };
    cmd.object(owner, handles.pd);
    for (id, handle) in [
        (UVERBS_ATTR_CREATE_QP_IND_TABLE_HANDLE, handles.rwq_ind_tbl),
        (UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE, handles.send_cq),
        (UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE, handles.recv_cq),
    ] {
        if let Some(handle) = handle {
            cmd.object(id, handle);
        }
    }
    let made = cmd.new_object(UVERBS_ATTR_CREATE_QP_HANDLE);
    cmd.u64(UVERBS_ATTR_CREATE_QP_TYPE, attr.qp_type.into());
    cmd.u64(UVERBS_ATTR_CREATE_QP_USER_HANDLE, qp as u64);
    // SAFETY: the capabilities are the caller's and live until the command is executed; the context
    // is live by the contract.
    unsafe {
        let cap = &raw mut attr.cap;
        cmd.input(
            UVERBS_ATTR_CREATE_QP_CAP,
            cap.cast(),
            size_of::<ibv_qp_cap>(),
        );
        cmd.fd(UVERBS_ATTR_CREATE_QP_EVENT_FD, (*context).async_fd);
    }
    let mut flags = 0;
    if attr.sq_sig_all != 0 {
        flags |= IB_UVERBS_QP_CREATE_SQ_SIG_ALL;
    }
    if attr.comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS != 0 {
        // A source QPN is an attribute of its own here, without a flag.
        flags |= attr.create_flags & !IBV_QP_CREATE_SOURCE_QPN;
        if attr.create_flags & IBV_QP_CREATE_SOURCE_QPN != 0 {
            cmd.u32(UVERBS_ATTR_CREATE_QP_SOURCE_QPN, attr.source_qpn);
        }
    }
    if flags != 0 {
        cmd.u32(UVERBS_ATTR_CREATE_QP_FLAGS, flags);
    }
    if let Some(srq) = handles.srq {
        cmd.object(UVERBS_ATTR_CREATE_QP_SRQ_HANDLE, srq);
    }
    cmd.output(UVERBS_ATTR_CREATE_QP_RESP_CAP, &raw mut attr.cap);
    cmd.output(UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, qp_num);
    made
}

/// The public part of a QP that the kernel has made.
///
/// The members that rdma-core appends to `struct verbs_qp` (comp_mask, xrcd) stay as they are: their
/// place depends on the provider's release, providers allocate them zeroed, and nobody reads the
/// XRC domain there.
///
/// # Safety
/// `qp` is live and nobody else uses it yet.
unsafe fn initialise(qp: *mut ibv_qp, attr: &ibv_qp_init_attr_ex) {
    // SAFETY: by the contract.
    unsafe {
        (*qp).qp_context = attr.qp_context;
        (*qp).pd = attr.pd;
        (*qp).send_cq = attr.send_cq;
        (*qp).recv_cq = attr.recv_cq;
        (*qp).srq = attr.srq;
        (*qp).qp_type = attr.qp_type;
        (*qp).state = IBV_QPS_RESET;
        reset_events(qp);
    }
}

/// # Safety
/// As for [`initialise`].
unsafe fn reset_events(qp: *mut ibv_qp) {
    // SAFETY: by the contract; the mutex and condition are initialised in place, where they stay.
    unsafe {
        (*qp).events_completed = 0;
        libc::pthread_mutex_init(&raw mut (*qp).mutex, core::ptr::null());
        libc::pthread_cond_init(&raw mut (*qp).cond, core::ptr::null());
    }
}

/// Creates a QP.
///
/// # Safety
/// All pointers are the provider's own live structures, of the given sizes.
pub unsafe extern "C" fn ibv_cmd_create_qp(
    pd: *mut ibv_pd,
    qp: *mut ibv_qp,
    attr: *mut ibv_qp_init_attr,
    cmd: *mut ibv_create_qp,
    cmd_size: usize,
    resp: *mut ib_uverbs_create_qp_resp,
    resp_size: usize,
) -> c_int {
    let uhw = Uhw::after(cmd, cmd_size, resp, resp_size);
    // SAFETY: by the contract; an extended structure of zeros asks for nothing.
    unsafe {
        let mut attr_ex: ibv_qp_init_attr_ex = zeroed();
        attr_ex.qp_context = (*attr).qp_context;
        attr_ex.send_cq = (*attr).send_cq;
        attr_ex.recv_cq = (*attr).recv_cq;
        attr_ex.srq = (*attr).srq;
        attr_ex.cap = (*attr).cap;
        attr_ex.qp_type = (*attr).qp_type;
        attr_ex.sq_sig_all = (*attr).sq_sig_all;
        attr_ex.comp_mask = IBV_QP_INIT_ATTR_PD;
        attr_ex.pd = pd;
        let ret = create((*pd).context, qp, &mut attr_ex, &uhw);
        if ret == 0 {
            (*attr).cap = attr_ex.cap;
        }
        ret
    }
}

/// Creates a QP from extended attributes, with the plain legacy command as its provider part's frame.
///
/// # Safety
/// All pointers are the provider's own live structures, of the given sizes.
pub unsafe extern "C" fn ibv_cmd_create_qp_ex(
    context: *mut ibv_context,
    qp: *mut verbs_qp,
    attr_ex: *mut ibv_qp_init_attr_ex,
    cmd: *mut ibv_create_qp,
    cmd_size: usize,
    resp: *mut ib_uverbs_create_qp_resp,
    resp_size: usize,
) -> c_int {
    const SUPPORTED: u32 =
        IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    let uhw = Uhw::after(cmd, cmd_size, resp, resp_size);
    // SAFETY: by the contract.
    unsafe {
        if !only((*attr_ex).comp_mask.into(), SUPPORTED.into()) {
            return Errno(EINVAL).returned();
        }
        create(context, qp.cast(), &mut *attr_ex, &uhw)
    }
}

/// Creates a QP from extended attributes, with the extended legacy command as its provider part's
/// frame.
///
/// # Safety
/// All pointers are the provider's own live structures, of the given sizes.
pub unsafe extern "C" fn ibv_cmd_create_qp_ex2(
    context: *mut ibv_context,
    qp: *mut verbs_qp,
    attr_ex: *mut ibv_qp_init_attr_ex,
    cmd: *mut ibv_create_qp_ex,
    cmd_size: usize,
    resp: *mut ib_uverbs_ex_create_qp_resp,
    resp_size: usize,
) -> c_int {
    const SUPPORTED: u32 = IBV_QP_INIT_ATTR_PD
        | IBV_QP_INIT_ATTR_XRCD
        | IBV_QP_INIT_ATTR_CREATE_FLAGS
        | IBV_QP_INIT_ATTR_MAX_TSO_HEADER
        | IBV_QP_INIT_ATTR_IND_TABLE
        | IBV_QP_INIT_ATTR_RX_HASH
        | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    let uhw = Uhw::after(cmd, cmd_size, resp, resp_size);
    // SAFETY: by the contract.
    unsafe {
        if !only((*attr_ex).comp_mask.into(), SUPPORTED.into()) {
            return Errno(EINVAL).returned();
        }
        create(context, qp.cast(), &mut *attr_ex, &uhw)
    }
}

/// Opens an XRC receive QP that another process has made. `vqp_sz` is the size of the provider's
/// `verbs_qp`; see [`initialise`] for why nothing is written behind the public part.
///
/// # Safety
/// All pointers are the provider's own live structures, of the given sizes.
#[allow(clippy::too_many_arguments)]
pub unsafe extern "C" fn ibv_cmd_open_qp(
    context: *mut ibv_context,
    qp: *mut verbs_qp,
    _vqp_sz: c_int,
    attr: *mut ibv_qp_open_attr,
    cmd: *mut ibv_open_qp,
    cmd_size: usize,
    resp: *mut ib_uverbs_create_qp_resp,
    resp_size: usize,
) -> c_int {
    const REQUIRED: u32 = IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_TYPE;
    let qp = qp.cast::<ibv_qp>();
    // SAFETY: by the contract.
    unsafe {
        let attr = &*attr;
        if attr.comp_mask >= IBV_QP_OPEN_ATTR_RESERVED {
            return EOPNOTSUPP;
        }
        if attr.comp_mask & REQUIRED != REQUIRED {
            return EINVAL;
        }
        let request = &mut (*cmd).core_payload;
        request.user_handle = qp as u64;
        request.pd_handle = (*attr.xrcd.cast::<verbs_xrcd>()).handle;
        request.qpn = attr.qp_num;
        request.qp_type = attr.qp_type as u8;
        let ret = write::execute(
            context,
            IB_USER_VERBS_CMD_OPEN_QP,
            Placed::whole(cmd, cmd_size),
            Placed::whole(resp, resp_size),
        );
        if ret != 0 {
            return ret;
        }
        (*qp).handle = (*resp).qp_handle;
        (*qp).context = context;
        (*qp).qp_context = attr.qp_context;
        (*qp).pd = null_mut();
        (*qp).send_cq = null_mut();
        (*qp).recv_cq = null_mut();
        (*qp).srq = null_mut();
        (*qp).qp_num = attr.qp_num;
        (*qp).qp_type = attr.qp_type;
        (*qp).state = IBV_QPS_UNKNOWN;
        reset_events(qp);
    }
    0
}

/// Destroys a QP once the program has acknowledged all of its events.
///
/// # Safety
/// `qp` is live.
pub unsafe extern "C" fn ibv_cmd_destroy_qp(qp: *mut ibv_qp) -> c_int {
    const DESTROY: Destroy = Destroy {
        op: Op::DestroyQp,
        object: UVERBS_OBJECT_QP,
        method: UVERBS_METHOD_QP_DESTROY,
        handle: UVERBS_ATTR_DESTROY_QP_HANDLE,
        write: IB_USER_VERBS_CMD_DESTROY_QP,
    };
    // SAFETY: by the contract; the QP's mutex and condition were initialised when it was made.
    unsafe {
        let reported = match DESTROY.with_events::<ib_uverbs_destroy_qp_resp>(
            (*qp).context,
            (*qp).handle,
            UVERBS_ATTR_DESTROY_QP_RESP,
        ) {
            Ok(reported) => reported,
            Err(error) => return error.0,
        };
        events::wait(&raw mut (*qp).mutex, &raw mut (*qp).cond, || {
            (*qp).events_completed == reported.events_reported
        });
    }
    0
}
