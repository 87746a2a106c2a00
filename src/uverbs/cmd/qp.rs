//! Commands of queue pairs: creating, opening, destroying, each by ioctl or a legacy command.
//!
//! Not here: the legacy commands themselves (`qp_write`), attributes (`qp_attr`).

use core::{
    mem::{offset_of, zeroed},
    ptr::{null, null_mut},
};

use ibverbs_abi::*;
use libc::{EINVAL, EOPNOTSUPP, c_int};

use super::{destroy::WithEvents, mr::LINK_ROOM, only, qp_handles::Handles, qp_write, to_c};
use crate::uverbs::{
    Status, events,
    fallback::{self, Fallback, Needs},
    ioctl::Command,
    linked,
    state::{Op, event_file, state},
    uhw::{Buffer, Uhw},
    write,
};

/// The creation flags (IBV_QP_CREATE_*) that a kernel command can carry.
const CREATE_FLAGS: u32 = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB
    | IBV_QP_CREATE_SCATTER_FCS
    | IBV_QP_CREATE_CVLAN_STRIPPING
    | IBV_QP_CREATE_SOURCE_QPN
    | IBV_QP_CREATE_PCI_WRITE_END_PADDING;

/// The kernel writes the capabilities directly to the program's structure.
const _: () = assert!(
    size_of::<ibv_qp_cap>() == size_of::<ib_uverbs_qp_cap>()
        && offset_of!(ibv_qp_cap, max_send_wr) == offset_of!(ib_uverbs_qp_cap, max_send_wr)
        && offset_of!(ibv_qp_cap, max_recv_wr) == offset_of!(ib_uverbs_qp_cap, max_recv_wr)
        && offset_of!(ibv_qp_cap, max_send_sge) == offset_of!(ib_uverbs_qp_cap, max_send_sge)
        && offset_of!(ibv_qp_cap, max_recv_sge) == offset_of!(ib_uverbs_qp_cap, max_recv_sge)
        && offset_of!(ibv_qp_cap, max_inline_data) == offset_of!(ib_uverbs_qp_cap, max_inline_data)
);

/// The attributes of a QP's creation, with two for the provider's UHW data.
const ROOM: usize = 17;
/// The same, with the attributes of a provider's own.
const LINKED_ROOM: usize = ROOM + LINK_ROOM;

/// Creates a QP through ioctl, write or the extended write, whichever the kernel supports, and initialises
/// the public structure. `N` is [`LINKED_ROOM`] if there may be attributes in `driver`, else [`ROOM`].
///
/// # Safety
/// `context` is open; the objects that `attr` names and the provider's buffers in `uhw` are live; `driver` is
/// null or the provider's live chain of command buffers.
#[inline(always)]
unsafe fn create<const N: usize>(
    context: *mut ibv_context,
    qp: &mut ibv_qp,
    attr: &mut ibv_qp_init_attr_ex,
    uhw: &Uhw,
    driver: *mut ibv_command_buffer,
) -> Result<(), Errno> {
    qp.context = context;
    // SAFETY: `context` is open, what `attr` names, the provider's buffers and its chain are live.
    let status = unsafe {
        if state(context).may_ioctl(Op::CreateQp) {
            create_by_ioctl::<N>(context, qp, attr, uhw, driver)
        } else {
            create_by_write::<N>(context, qp, attr, uhw, driver)
        }
    };
    status.result()
}

/// Extracts what the commands need to know of `attr`. EINVAL if no command can carry it.
///
/// # Safety
/// As for [`create`].
#[inline(always)]
unsafe fn examine<const N: usize>(
    context: *mut ibv_context,
    attr: &mut ibv_qp_init_attr_ex,
    driver: *mut ibv_command_buffer,
) -> Result<(Handles, Needs), Errno> {
    // SAFETY: the objects that `attr` names are live.
    let handles = unsafe { Handles::of(attr)? };
    let with_flags = attr.comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS != 0;
    if with_flags && attr.create_flags & !CREATE_FLAGS != 0 {
        return Errno(EINVAL).fail();
    }
    let mut needs = Needs {
        ex: with_flags || handles.rwq_ind_tbl.is_some(),
        // SAFETY: `context` is open.
        ioctl: unsafe { state(context) }.is_imported(),
    };
    if N == LINKED_ROOM {
        // A legacy command cannot carry a provider's mandatory attributes.
        // SAFETY: the provider's chain is live.
        needs = unsafe { linked::needs(driver, needs) };
    }
    Ok((handles, needs))
}

/// The ioctl, and a legacy command if the kernel lacks it. The two are functions out of line: in one, the
/// compiler keeps what each needs on the stack.
///
/// # Safety
/// As for [`create`].
#[inline(never)]
unsafe fn create_by_ioctl<const N: usize>(
    context: *mut ibv_context,
    qp: &mut ibv_qp,
    attr: &mut ibv_qp_init_attr_ex,
    uhw: &Uhw,
    driver: *mut ibv_command_buffer,
) -> Status {
    // SAFETY: `context` is open, what `attr` names, the provider's buffers and its chain are live.
    unsafe {
        let route = match examine::<N>(context, attr, driver) {
            Ok((handles, needs)) => by_ioctl::<N>(context, qp, attr, &handles, uhw, needs, driver),
            Err(errno) => return Err(errno).into(),
        };
        match route {
            Ok(Fallback::Done) => initialise(qp, attr),
            Ok(_) => return create_by_write::<N>(context, qp, attr, uhw, driver),
            Err(errno) => return Err(errno).into(),
        }
    }
    Status::OK
}

/// The legacy command, plain or extended.
///
/// # Safety
/// As for [`create`].
#[inline(never)]
unsafe fn create_by_write<const N: usize>(
    context: *mut ibv_context,
    qp: &mut ibv_qp,
    attr: &mut ibv_qp_init_attr_ex,
    uhw: &Uhw,
    driver: *mut ibv_command_buffer,
) -> Status {
    let mut create = || {
        // SAFETY: `context` is open, what `attr` names, the provider's buffers and its chain are live.
        unsafe {
            let (handles, needs) = examine::<N>(context, attr, driver)?;
            match fallback::legacy(needs)? {
                Fallback::WriteEx => qp_write::create_ex(context, qp, attr, handles, uhw)?,
                _ => qp_write::create(context, qp, attr, &handles, uhw)?,
            }
        }
        initialise(qp, attr);
        Ok(())
    };
    create().into()
}

/// # Safety
/// As for [`create`].
#[inline(always)]
unsafe fn by_ioctl<const N: usize>(
    context: *mut ibv_context,
    qp: &mut ibv_qp,
    attr: &mut ibv_qp_init_attr_ex,
    handles: &Handles,
    uhw: &Uhw,
    needs: Needs,
    driver: *mut ibv_command_buffer,
) -> Result<Fallback, Errno> {
    let mut cmd = Command::<N>::new(UVERBS_OBJECT_QP, UVERBS_METHOD_QP_CREATE);
    let mut qp_num = 0u32;
    add_objects(&mut cmd, attr.qp_type, handles);
    let handle = cmd.new_object(UVERBS_ATTR_CREATE_QP_HANDLE);
    cmd.u64(UVERBS_ATTR_CREATE_QP_TYPE, attr.qp_type.into());
    cmd.u64(UVERBS_ATTR_CREATE_QP_USER_HANDLE, &raw mut *qp as u64);
    let (cap, cap_len) = (&raw mut attr.cap, size_of::<ibv_qp_cap>());
    // SAFETY: `attr` outlives the command, and `context` is open.
    unsafe {
        cmd.input(UVERBS_ATTR_CREATE_QP_CAP, cap.cast(), cap_len);
        cmd.fd(UVERBS_ATTR_CREATE_QP_EVENT_FD, event_file(context));
    }
    add_flags(&mut cmd, attr);
    if let Some(srq) = handles.srq {
        cmd.object(UVERBS_ATTR_CREATE_QP_SRQ_HANDLE, srq);
    }
    cmd.output(UVERBS_ATTR_CREATE_QP_RESP_CAP, cap);
    cmd.output(UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, &raw mut qp_num);
    // SAFETY: `context` is open, the provider's buffers and chain, `attr` and `qp_num` are live.
    let route = unsafe {
        cmd.uhw(uhw);
        if N == LINKED_ROOM {
            fallback::execute_linked(context, Op::CreateQp, needs, &mut cmd, driver)
        } else {
            fallback::send(context, Op::CreateQp, needs, &mut cmd)
        }
    }?;
    if route == Fallback::Done {
        qp.handle = cmd.created(handle);
        qp.qp_num = qp_num;
    }
    Ok(route)
}

/// Adds the handles of the PD or XRC domain, of the indirection table and of the CQs.
#[inline(always)]
fn add_objects<const N: usize>(cmd: &mut Command<N>, qp_type: ibv_qp_type, handles: &Handles) {
    let owner = if qp_type == IBV_QPT_XRC_RECV {
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
}

/// Adds the creation flags and the source QPN, which here is an attribute of its own without a flag.
#[inline(always)]
fn add_flags<const N: usize>(cmd: &mut Command<N>, attr: &ibv_qp_init_attr_ex) {
    let mut flags = 0;
    if attr.sq_sig_all != 0 {
        flags |= IB_UVERBS_QP_CREATE_SQ_SIG_ALL;
    }
    if attr.comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS != 0 {
        flags |= attr.create_flags & !IBV_QP_CREATE_SOURCE_QPN;
        if attr.create_flags & IBV_QP_CREATE_SOURCE_QPN != 0 {
            cmd.u32(UVERBS_ATTR_CREATE_QP_SOURCE_QPN, attr.source_qpn);
        }
    }
    if flags != 0 {
        cmd.u32(UVERBS_ATTR_CREATE_QP_FLAGS, flags);
    }
}

/// Fills in the public part of a QP that the kernel has created.
///
/// The members that rdma-core appends to `struct verbs_qp` (comp_mask, xrcd) are not written: their offset
/// depends on the provider's release, providers allocate them zeroed, and nobody reads the XRC domain there.
fn initialise(qp: &mut ibv_qp, attr: &ibv_qp_init_attr_ex) {
    qp.qp_context = attr.qp_context;
    qp.pd = attr.pd;
    qp.send_cq = attr.send_cq;
    qp.recv_cq = attr.recv_cq;
    qp.srq = attr.srq;
    qp.qp_type = attr.qp_type;
    qp.state = IBV_QPS_RESET;
    initialise_events(qp);
}

fn initialise_events(qp: &mut ibv_qp) {
    qp.events_completed = 0;
    // SAFETY: the QP is new, so nobody uses the mutex and the condition yet, and they stay where they are.
    unsafe {
        libc::pthread_mutex_init(&raw mut qp.mutex, null());
        libc::pthread_cond_init(&raw mut qp.cond, null());
    }
}

/// Creates a QP.
///
/// # Safety
/// As the module [`cmd`](super) says.
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
    to_c(|| {
        // SAFETY: `pd`, `qp` and `attr` are live, each a structure of its own.
        let (context, qp, attr) = unsafe { ((*pd).context, &mut *qp, &mut *attr) };
        // SAFETY: all members are integers or pointers, for which zeros are valid.
        let mut attr_ex: ibv_qp_init_attr_ex = unsafe { zeroed() };
        attr_ex.qp_context = attr.qp_context;
        attr_ex.send_cq = attr.send_cq;
        attr_ex.recv_cq = attr.recv_cq;
        attr_ex.srq = attr.srq;
        attr_ex.cap = attr.cap;
        attr_ex.qp_type = attr.qp_type;
        attr_ex.sq_sig_all = attr.sq_sig_all;
        attr_ex.comp_mask = IBV_QP_INIT_ATTR_PD;
        attr_ex.pd = pd;
        // SAFETY: the PD's context is open; what `attr` names, `cmd` and `resp` are live.
        unsafe { create::<ROOM>(context, qp, &mut attr_ex, &uhw, null_mut())? };
        attr.cap = attr_ex.cap;
        Ok(())
    })
}

/// Creates a QP from extended attributes. The provider's part follows the plain legacy command.
///
/// # Safety
/// As the module [`cmd`](super) says.
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
    // SAFETY: `context` is open; `qp`, `attr_ex` and what it names, `cmd` and `resp` are live.
    to_c(|| unsafe {
        create_extended::<ROOM>(context, qp, &mut *attr_ex, SUPPORTED, &uhw, null_mut())
    })
}

/// The attributes that the extended legacy command can carry.
const SUPPORTED_EX: u32 = IBV_QP_INIT_ATTR_PD
    | IBV_QP_INIT_ATTR_XRCD
    | IBV_QP_INIT_ATTR_CREATE_FLAGS
    | IBV_QP_INIT_ATTR_MAX_TSO_HEADER
    | IBV_QP_INIT_ATTR_IND_TABLE
    | IBV_QP_INIT_ATTR_RX_HASH
    | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;

/// Creates a QP from extended attributes. The provider's part follows the extended legacy command.
///
/// # Safety
/// As the module [`cmd`](super) says.
pub unsafe extern "C" fn ibv_cmd_create_qp_ex2(
    context: *mut ibv_context,
    qp: *mut verbs_qp,
    attr_ex: *mut ibv_qp_init_attr_ex,
    cmd: *mut ibv_create_qp_ex,
    cmd_size: usize,
    resp: *mut ib_uverbs_ex_create_qp_resp,
    resp_size: usize,
) -> c_int {
    let uhw = Uhw::after(cmd, cmd_size, resp, resp_size);
    // SAFETY: `context` is open; `qp`, `attr_ex` and what it names, `cmd` and `resp` are live.
    to_c(|| unsafe {
        create_extended::<ROOM>(context, qp, &mut *attr_ex, SUPPORTED_EX, &uhw, null_mut())
    })
}

/// As [`ibv_cmd_create_qp_ex2`] with attributes of the provider's own: that function in provider ABI 64 and
/// later.
///
/// # Safety
/// As the module [`cmd`](super) says.
#[allow(clippy::too_many_arguments)] // as in rdma-core's driver.h
pub unsafe extern "C" fn ibv_cmd_create_qp_ex2_driver(
    context: *mut ibv_context,
    qp: *mut verbs_qp,
    attr_ex: *mut ibv_qp_init_attr_ex,
    cmd: *mut ibv_create_qp_ex,
    cmd_size: usize,
    resp: *mut ib_uverbs_ex_create_qp_resp,
    resp_size: usize,
    driver: *mut ibv_command_buffer,
) -> c_int {
    let uhw = Uhw::after(cmd, cmd_size, resp, resp_size);
    // SAFETY: `context` is open; `qp`, `attr_ex` and what it names, `cmd`, `resp` and `driver` are live.
    to_c(|| unsafe {
        create_extended::<LINKED_ROOM>(context, qp, &mut *attr_ex, SUPPORTED_EX, &uhw, driver)
    })
}

/// Creates a QP if `attr` has no more than the `supported` attributes; else EINVAL.
///
/// # Safety
/// As for [`create`]; `qp` is live, and begins with an `ibv_qp`.
#[inline(always)]
unsafe fn create_extended<const N: usize>(
    context: *mut ibv_context,
    qp: *mut verbs_qp,
    attr: &mut ibv_qp_init_attr_ex,
    supported: u32,
    uhw: &Uhw,
    driver: *mut ibv_command_buffer,
) -> Result<(), Errno> {
    if !only(attr.comp_mask.into(), supported.into()) {
        return Errno(EINVAL).fail();
    }
    // SAFETY: `context` is open, `qp`, what `attr` names and the provider's buffers are live.
    unsafe { create::<N>(context, &mut *qp.cast(), attr, uhw, driver) }
}

/// Opens an XRC receive QP that another process has created. `vqp_sz` is the size of the provider's
/// `verbs_qp`, of which only the public part is written ([`initialise`] has the reason).
///
/// # Safety
/// As the module [`cmd`](super) says.
#[allow(clippy::too_many_arguments)] // as in rdma-core's driver.h
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
    to_c(|| {
        // SAFETY: `qp` and `attr` are live, `cmd` begins with the request; a verbs_qp begins with an ibv_qp.
        let (qp, attr, request) =
            unsafe { (&mut *qp.cast::<ibv_qp>(), &*attr, &mut (*cmd).core_payload) };
        if attr.comp_mask >= IBV_QP_OPEN_ATTR_RESERVED {
            return Err(Errno(EOPNOTSUPP));
        }
        if attr.comp_mask & REQUIRED != REQUIRED {
            return Err(Errno(EINVAL));
        }
        request.user_handle = &raw mut *qp as u64;
        // SAFETY: comp_mask says that `xrcd` is there; providers allocate a verbs_xrcd.
        request.pd_handle = unsafe { (*attr.xrcd.cast::<verbs_xrcd>()).handle };
        request.qpn = attr.qp_num;
        request.qp_type = attr.qp_type as u8;
        // mlx5 does not set them.
        request.reserved = [0; 7];
        // SAFETY: `context` is open, `cmd` and `resp` have these sizes.
        unsafe {
            write::execute(
                context,
                IB_USER_VERBS_CMD_OPEN_QP,
                Buffer::of_provider(cmd, cmd_size),
                Buffer::of_provider(resp, resp_size),
            )?;
            qp.handle = (*resp).qp_handle;
        }
        qp.context = context;
        qp.qp_context = attr.qp_context;
        qp.pd = null_mut();
        qp.send_cq = null_mut();
        qp.recv_cq = null_mut();
        qp.srq = null_mut();
        qp.qp_num = attr.qp_num;
        qp.qp_type = attr.qp_type;
        qp.state = IBV_QPS_UNKNOWN;
        initialise_events(qp);
        Ok(())
    })
}

/// Destroys a QP once the program has acknowledged all of its events.
///
/// # Safety
/// `qp` is live.
pub unsafe extern "C" fn ibv_cmd_destroy_qp(qp: *mut ibv_qp) -> c_int {
    const DESTROY: WithEvents = WithEvents {
        op: Op::DestroyQp,
        object: UVERBS_OBJECT_QP,
        method: UVERBS_METHOD_QP_DESTROY,
        handle: UVERBS_ATTR_DESTROY_QP_HANDLE,
        response: UVERBS_ATTR_DESTROY_QP_RESP,
        write: IB_USER_VERBS_CMD_DESTROY_QP,
    };
    // SAFETY: `qp` is live and its context open; the mutex and condition were initialised with the QP and
    // guard the count.
    to_c(|| unsafe {
        let reported = DESTROY.destroy::<ib_uverbs_destroy_qp_resp>((*qp).context, (*qp).handle)?;
        if let Some(reported) = reported {
            events::wait(&raw mut (*qp).mutex, &raw mut (*qp).cond, || {
                (*qp).events_completed == reported.events_reported
            });
        }
        Ok(())
    })
}
