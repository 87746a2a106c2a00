//! Commands of completion queues: creating, changing, destroying, each by ioctl, write or extended
//! write.
//!
//! Not here: polling through the kernel (`cq_poll`), the choice between the three forms
//! (`super::super::fallback`).

use core::ptr::null_mut;

use ibverbs_abi::*;
use libc::{EINVAL, EOPNOTSUPP, c_int};

use super::{destroy::WithEvents, mr::LINK_ROOM, only, to_c};
use crate::uverbs::{
    events,
    fallback::{self, Fallback, Needs},
    ioctl::Command,
    linked,
    state::{Op, event_file, state},
    uhw::{Buffer, Uhw},
    write,
};

/// The attributes of a CQ's creation: eight of the library's, two for the provider's UHW data.
const ROOM: usize = 10;
/// The same, with three that describe the provider's memory and with attributes of the provider's own.
const PROVIDER_ROOM: usize = ROOM + 3 + LINK_ROOM;

/// The attributes that a CQ is created from.
struct CqAttr {
    cqe: u32,
    channel: *mut ibv_comp_channel,
    comp_vector: u32,
    /// IB_UVERBS_CQ_FLAGS_*
    flags: u32,
    memory: CqMemory,
}

/// Memory that the provider has allocated for the queue.
#[derive(Clone, Copy)]
enum CqMemory {
    /// None: the kernel's driver has it, or knows it from the provider's own data.
    Driver,
    /// The memory at an address of the process.
    Address { at: u64, length: u64 },
    /// A part of a dma-buf.
    DmaBuf { fd: c_int, offset: u64, length: u64 },
}

impl CqMemory {
    /// Reads the memory of a CQ that `cmd_flags` (CREATE_CQ_CMD_FLAGS_*) say that `attr` describes.
    /// EINVAL if `attr` is null then.
    ///
    /// # Safety
    /// `attr` is null, or has the member that the flags name.
    unsafe fn of(attr: *const verbs_create_cq_prov_attr, cmd_flags: u32) -> Result<Self, Errno> {
        const BY_FLAGS: u32 = CREATE_CQ_CMD_FLAGS_WITH_MEM_VA | CREATE_CQ_CMD_FLAGS_WITH_MEM_DMABUF;
        if cmd_flags & BY_FLAGS == 0 {
            return Ok(CqMemory::Driver);
        }
        // SAFETY: `attr` is null or live.
        let Some(attr) = (unsafe { attr.as_ref() }) else {
            return Errno(EINVAL).fail();
        };
        let length = attr.buffer.length;
        // SAFETY: the flags say which member of the union is set.
        Ok(unsafe {
            if cmd_flags & CREATE_CQ_CMD_FLAGS_WITH_MEM_VA != 0 {
                let at = attr.buffer.u.ptr as u64;
                CqMemory::Address { at, length }
            } else {
                let (fd, offset) = (attr.buffer.u.dmabuf.fd, attr.buffer.u.dmabuf.offset);
                CqMemory::DmaBuf { fd, offset, length }
            }
        })
    }

    /// Adds the attributes of the memory. Only the ioctl has them.
    #[inline(always)]
    fn add<const N: usize>(self, cmd: &mut Command<N>) {
        match self {
            CqMemory::Driver => {}
            CqMemory::Address { at, length } => {
                cmd.u64(UVERBS_ATTR_CREATE_CQ_BUFFER_VA, at);
                cmd.u64(UVERBS_ATTR_CREATE_CQ_BUFFER_LENGTH, length);
            }
            CqMemory::DmaBuf { fd, offset, length } => {
                cmd.fd(UVERBS_ATTR_CREATE_CQ_BUFFER_FD, fd);
                cmd.u64(UVERBS_ATTR_CREATE_CQ_BUFFER_OFFSET, offset);
                cmd.u64(UVERBS_ATTR_CREATE_CQ_BUFFER_LENGTH, length);
            }
        }
    }
}

impl CqAttr {
    /// Converts the program's attributes; EOPNOTSUPP for those that the kernel has no flag for.
    fn extended(wanted: &ibv_cq_init_attr_ex) -> Result<CqAttr, Errno> {
        const SUPPORTED: u32 = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
        const TIMESTAMPS: u64 = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP as u64
            | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK as u64;
        if !only(wanted.comp_mask.into(), SUPPORTED.into()) {
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
            memory: CqMemory::Driver,
        })
    }

    /// The channel's file descriptor for a legacy command; -1 for none.
    fn channel_fd(&self) -> c_int {
        // SAFETY: the channel is null, or the program's live one.
        unsafe { self.channel.as_ref() }.map_or(-1, |channel| channel.fd)
    }
}

/// Creates a CQ through ioctl, write or the extended write, whichever the kernel supports.
///
/// # Safety
/// `context` is open; the channel and the provider's buffers in `uhw` are live; `driver` is null or the
/// provider's live chain of command buffers.
#[inline(always)]
unsafe fn create<const N: usize>(
    context: *mut ibv_context,
    attr: &CqAttr,
    cq: &mut ibv_cq,
    uhw: &Uhw,
    cmd_flags: u32,
    driver: *mut ibv_command_buffer,
) -> Result<(), Errno> {
    // A provider may say that timestamps are no reason to need the extended command.
    let ignorable = attr.flags & !IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION == 0
        && cmd_flags & CREATE_CQ_CMD_FLAGS_TS_IGNORED_EX != 0;
    cq.context = context;
    // SAFETY: `context` is open, what `attr`, `uhw` and `driver` point to is live.
    unsafe {
        let needs = Needs {
            ex: attr.flags != 0 && !ignorable,
            ioctl: state(context).is_imported() || !matches!(attr.memory, CqMemory::Driver),
        };
        let route = if state(context).may_ioctl(Op::CreateCq) {
            by_ioctl::<N>(context, attr, cq, uhw, needs, driver)
        } else {
            fallback::legacy(linked::needs(driver, needs))
        };
        match route {
            Ok(Fallback::Done) => Ok(()),
            Ok(Fallback::Write) => by_write(context, attr, cq, uhw),
            Ok(Fallback::WriteEx) => by_write_ex(context, attr, cq, uhw),
            Err(errno) => Err(errno),
        }
    }
}

/// # Safety
/// As for [`create`].
#[inline(always)]
unsafe fn by_ioctl<const N: usize>(
    context: *mut ibv_context,
    attr: &CqAttr,
    cq: &mut ibv_cq,
    uhw: &Uhw,
    needs: Needs,
    driver: *mut ibv_command_buffer,
) -> Result<Fallback, Errno> {
    let mut cmd = Command::<N>::new(UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_CREATE);
    let mut cqe = 0u32;
    let handle = cmd.new_object(UVERBS_ATTR_CREATE_CQ_HANDLE);
    cmd.output(UVERBS_ATTR_CREATE_CQ_RESP_CQE, &raw mut cqe);
    cmd.u32(UVERBS_ATTR_CREATE_CQ_CQE, attr.cqe);
    cmd.u64(UVERBS_ATTR_CREATE_CQ_USER_HANDLE, &raw mut *cq as u64);
    if !attr.channel.is_null() {
        cmd.fd(UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL, attr.channel_fd());
    }
    cmd.u32(UVERBS_ATTR_CREATE_CQ_COMP_VECTOR, attr.comp_vector);
    // SAFETY: `context` is open.
    let async_fd = cmd.fd(UVERBS_ATTR_CREATE_CQ_EVENT_FD, unsafe {
        event_file(context)
    });
    let imported = match attr.memory {
        CqMemory::Driver => needs.ioctl,
        // SAFETY: `context` is open.
        _ => unsafe { state(context) }.is_imported(),
    };
    if !imported {
        cmd.optional(async_fd);
    }
    attr.memory.add(&mut cmd);
    if attr.flags != 0 {
        cmd.u32(UVERBS_ATTR_CREATE_CQ_FLAGS, attr.flags);
    }
    // SAFETY: `context` is open, the provider's buffers and chain are live, `cqe` is a local.
    let route = unsafe {
        cmd.uhw(uhw);
        fallback::execute_linked(context, Op::CreateCq, needs, &mut cmd, driver)
    }?;
    if route == Fallback::Done {
        cq.handle = cmd.created(handle);
        cq.cqe = cqe as c_int;
    }
    Ok(route)
}

/// # Safety
/// As for [`create`].
unsafe fn by_write(
    context: *mut ibv_context,
    attr: &CqAttr,
    cq: &mut ibv_cq,
    uhw: &Uhw,
) -> Result<(), Errno> {
    let request = ib_uverbs_create_cq {
        response: 0,
        user_handle: &raw mut *cq as u64,
        cqe: attr.cqe,
        comp_vector: attr.comp_vector,
        comp_channel: attr.channel_fd(),
        reserved: 0,
        driver_data: [],
    };
    let accept = |response: &ib_uverbs_create_cq_resp| {
        cq.handle = response.cq_handle;
        cq.cqe = response.cqe as c_int;
    };
    // SAFETY: `context` is open, the provider's buffers are live, and this is the command's response.
    unsafe { write::execute_uhw(context, IB_USER_VERBS_CMD_CREATE_CQ, uhw, request, accept) }
}

/// # Safety
/// As for [`create`].
unsafe fn by_write_ex(
    context: *mut ibv_context,
    attr: &CqAttr,
    cq: &mut ibv_cq,
    uhw: &Uhw,
) -> Result<(), Errno> {
    let request = ib_uverbs_ex_create_cq {
        user_handle: &raw mut *cq as u64,
        cqe: attr.cqe,
        comp_vector: attr.comp_vector,
        comp_channel: attr.channel_fd(),
        comp_mask: 0,
        flags: attr.flags,
        reserved: 0,
    };
    let accept = |response: &ib_uverbs_ex_create_cq_resp| {
        cq.handle = response.base.cq_handle;
        cq.cqe = response.base.cqe as c_int;
    };
    // SAFETY: `context` is open, the provider's buffers are live, and this is the command's response.
    unsafe {
        write::execute_ex_uhw(
            context,
            IB_USER_VERBS_EX_CMD_CREATE_CQ,
            uhw,
            request,
            accept,
        )
    }
}

/// Creates a CQ of at least `cqe` entries.
///
/// # Safety
/// As the module [`cmd`](super) says; `channel` is null or live.
#[allow(clippy::too_many_arguments)] // as in rdma-core's driver.h
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
        memory: CqMemory::Driver,
    };
    // SAFETY: `context` is open; `cq`, `channel`, `cmd` and `resp` are live.
    to_c(|| unsafe { create::<ROOM>(context, &attr, &mut *cq, &uhw, 0, null_mut()) })
}

/// Creates a CQ from extended attributes. `cmd_flags` are CREATE_CQ_CMD_FLAGS_*.
///
/// # Safety
/// As the module [`cmd`](super) says.
#[allow(clippy::too_many_arguments)] // as in rdma-core's driver.h
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
    // SAFETY: `context` is open; `cq_attr` and its channel, `cq`, `cmd` and `resp` are live.
    to_c(|| unsafe {
        let attr = CqAttr::extended(&*cq_attr)?;
        create::<ROOM>(context, &attr, &mut (*cq).u.cq, &uhw, cmd_flags, null_mut())
    })
}

/// As [`ibv_cmd_create_cq_ex`] with attributes of the provider's own: in provider ABI 34 since v53.
///
/// # Safety
/// As the module [`cmd`](super) says.
#[allow(clippy::too_many_arguments)] // as in rdma-core's driver.h
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
    const LINKED_ROOM: usize = ROOM + LINK_ROOM;
    let uhw = Uhw::after(cmd, cmd_size, resp, resp_size);
    // SAFETY: `context` is open; `cq_attr` and its channel, `cq`, `cmd`, `resp` and `driver` are live.
    to_c(|| unsafe {
        let attr = CqAttr::extended(&*cq_attr)?;
        create::<LINKED_ROOM>(context, &attr, &mut (*cq).u.cq, &uhw, cmd_flags, driver)
    })
}

/// As [`ibv_cmd_create_cq_ex`] with memory that the provider has allocated: that function in provider ABI 59
/// and later. EINVAL if `cmd_flags` name memory and `prov_attr` is null.
///
/// # Safety
/// As the module [`cmd`](super) says; `prov_attr` is null or live.
#[allow(clippy::too_many_arguments)] // as in rdma-core's driver.h
pub unsafe extern "C" fn ibv_cmd_create_cq_ex_memory(
    context: *mut ibv_context,
    cq_attr: *const ibv_cq_init_attr_ex,
    prov_attr: *const verbs_create_cq_prov_attr,
    cq: *mut verbs_cq,
    cmd: *mut ibv_create_cq_ex,
    cmd_size: usize,
    resp: *mut ib_uverbs_ex_create_cq_resp,
    resp_size: usize,
    cmd_flags: u32,
) -> c_int {
    // SAFETY: the caller passes what the other function requires; there is no chain.
    unsafe {
        ibv_cmd_create_cq_ex2_memory(
            context,
            cq_attr,
            prov_attr,
            cq,
            cmd,
            cmd_size,
            resp,
            resp_size,
            cmd_flags,
            null_mut(),
        )
    }
}

/// As [`ibv_cmd_create_cq_ex_memory`] with attributes of the provider's own: `ibv_cmd_create_cq_ex2` in
/// provider ABI 59 and later.
///
/// # Safety
/// As the module [`cmd`](super) says; `prov_attr` is null or live.
#[allow(clippy::too_many_arguments)] // as in rdma-core's driver.h
pub unsafe extern "C" fn ibv_cmd_create_cq_ex2_memory(
    context: *mut ibv_context,
    cq_attr: *const ibv_cq_init_attr_ex,
    prov_attr: *const verbs_create_cq_prov_attr,
    cq: *mut verbs_cq,
    cmd: *mut ibv_create_cq_ex,
    cmd_size: usize,
    resp: *mut ib_uverbs_ex_create_cq_resp,
    resp_size: usize,
    cmd_flags: u32,
    driver: *mut ibv_command_buffer,
) -> c_int {
    let uhw = Uhw::after(cmd, cmd_size, resp, resp_size);
    // SAFETY: `context` is open; `cq_attr` and its channel, `prov_attr`, `cq`, `cmd`, `resp` and `driver`
    // are live.
    to_c(|| unsafe {
        let mut attr = CqAttr::extended(&*cq_attr)?;
        attr.memory = CqMemory::of(prov_attr, cmd_flags)?;
        create::<PROVIDER_ROOM>(context, &attr, &mut (*cq).u.cq, &uhw, cmd_flags, driver)
    })
}

/// Resizes a CQ to at least `cqe` entries.
///
/// # Safety
/// As the module [`cmd`](super) says.
pub unsafe extern "C" fn ibv_cmd_resize_cq(
    cq: *mut ibv_cq,
    cqe: c_int,
    cmd: *mut ibv_resize_cq,
    cmd_size: usize,
    resp: *mut ib_uverbs_resize_cq_resp,
    resp_size: usize,
) -> c_int {
    to_c(|| {
        // SAFETY: `cq` is live, and its context open; `cmd` and `resp` have these sizes.
        unsafe {
            (*cmd).core_payload.cq_handle = (*cq).handle;
            (*cmd).core_payload.cqe = cqe as u32;
            write::execute(
                (*cq).context,
                IB_USER_VERBS_CMD_RESIZE_CQ,
                Buffer::of_provider(cmd, cmd_size),
                Buffer::of_provider(resp, resp_size),
            )?;
            (*cq).cqe = (*resp).cqe as c_int;
        }
        Ok(())
    })
}

/// Changes a CQ's moderation.
///
/// # Safety
/// As the module [`cmd`](super) says.
pub unsafe extern "C" fn ibv_cmd_modify_cq(
    cq: *mut ibv_cq,
    attr: *mut ibv_modify_cq_attr,
    cmd: *mut ibv_modify_cq,
    cmd_size: usize,
) -> c_int {
    to_c(|| {
        // SAFETY: `cq` and `attr` are live, `cmd` begins with the request.
        let (cq, attr, request) = unsafe { (&*cq, &*attr, &mut (*cmd).core_payload) };
        if attr.attr_mask >= IBV_CQ_ATTR_RESERVED {
            return Err(Errno(EINVAL));
        }
        request.cq_handle = cq.handle;
        request.attr_mask = attr.attr_mask;
        request.attr.cq_count = attr.moderate.cq_count;
        request.attr.cq_period = attr.moderate.cq_period;
        request.reserved = 0;
        let buffer = Buffer::of_provider(cmd, cmd_size);
        // SAFETY: the CQ's context is open, `cmd` is `cmd_size` bytes long.
        unsafe { write::execute_ex_request(cq.context, IB_USER_VERBS_EX_CMD_MODIFY_CQ, buffer) }
    })
}

/// Destroys a CQ once the program has acknowledged all of its events.
///
/// # Safety
/// `cq` is live.
pub unsafe extern "C" fn ibv_cmd_destroy_cq(cq: *mut ibv_cq) -> c_int {
    const DESTROY: WithEvents = WithEvents {
        op: Op::DestroyCq,
        object: UVERBS_OBJECT_CQ,
        method: UVERBS_METHOD_CQ_DESTROY,
        handle: UVERBS_ATTR_DESTROY_CQ_HANDLE,
        response: UVERBS_ATTR_DESTROY_CQ_RESP,
        write: IB_USER_VERBS_CMD_DESTROY_CQ,
    };
    // SAFETY: `cq` is live and its context open; the mutex and condition were initialised with the CQ and
    // guard the counts.
    to_c(|| unsafe {
        let reported = DESTROY.destroy::<ib_uverbs_destroy_cq_resp>((*cq).context, (*cq).handle)?;
        if let Some(reported) = reported {
            events::wait(&raw mut (*cq).mutex, &raw mut (*cq).cond, || {
                (*cq).comp_events_completed == reported.comp_events_reported
                    && (*cq).async_events_completed == reported.async_events_reported
            });
        }
        Ok(())
    })
}
