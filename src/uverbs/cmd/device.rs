//! Commands of a device: opening a context, querying its attributes.
//!
//! Not here: ports (`port`), GIDs (`gid`).

use core::{
    mem::{MaybeUninit, offset_of},
    sync::atomic::{AtomicU64, Ordering},
};

use ibverbs_abi::*;
use libc::{EINVAL, ENOSYS, EOPNOTSUPP, c_int};

use super::{mr::LINK_ROOM, to_c};
use crate::uverbs::{
    fallback::{self, Fallback, Needs},
    ioctl::Command,
    linked,
    state::Op,
    uhw::{Buffer, Uhw},
    write,
};

/// The device that a context was opened on, as providers extend it.
///
/// # Safety
/// `context` is open.
unsafe fn device_of(context: *mut ibv_context) -> *mut verbs_device {
    // SAFETY: an open context holds its device, and every device begins a verbs_device.
    unsafe { (*context).device.cast() }
}

/// The bits that say what the kernel supports for this context's device (IB_UVERBS_CORE_SUPPORT_*),
/// a plain integer in C. Each open stores it while other threads may read it, so it is atomic here.
///
/// # Safety
/// `context` is open, and lives as long as the reference.
pub unsafe fn core_support<'a>(context: *mut ibv_context) -> &'a AtomicU64 {
    // SAFETY: the context holds its device; while a context is open only this function reaches the member.
    unsafe { AtomicU64::from_ptr(&raw mut (*device_of(context)).core_support) }
}

/// Announces a new context to the kernel and stores what the kernel reports of the device: through ioctl or
/// write, whichever the kernel supports. `fds` are descriptors that the provider passes to its driver; write
/// cannot carry them, and leaves them out.
///
/// # Safety
/// As the module [`cmd`](super) says; `context` is initialised, `fds` is null or live, with its array.
pub unsafe fn get_context(
    context: *mut ibv_context,
    cmd: *mut ibv_get_context,
    cmd_size: usize,
    fds: *const ibv_fd_arr,
    resp: *mut ib_uverbs_get_context_resp,
    resp_size: usize,
) -> Result<(), Errno> {
    let uhw = Uhw::after(cmd, cmd_size, resp, resp_size);
    // SAFETY: `context` is initialised, `cmd`, `resp` and `fds` are live.
    unsafe {
        match get_context_by_ioctl(context, &uhw, fds)? {
            Fallback::Done => Ok(()),
            _ => get_context_by_write(context, &uhw),
        }
    }
}

/// # Safety
/// `context` is initialised, the provider's buffers in `uhw` are live, `fds` is null or live, with its array.
unsafe fn get_context_by_ioctl(
    context: *mut ibv_context,
    uhw: &Uhw,
    fds: *const ibv_fd_arr,
) -> Result<Fallback, Errno> {
    const NUM_COMP_VECTORS: u32 = UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS;
    let (mut num_comp_vectors, mut core_support) = (0u32, 0u64);
    let mut cmd = Command::<5>::new(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_GET_CONTEXT);
    cmd.output(NUM_COMP_VECTORS, &raw mut num_comp_vectors);
    cmd.output(UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT, &raw mut core_support);
    // SAFETY: `context` is initialised, the provider's buffers and descriptors are live, the outputs are
    // locals.
    unsafe {
        if let Some(fds) = fds.as_ref() {
            let len = size_of::<c_int>() * fds.count as usize;
            cmd.input(UVERBS_ATTR_GET_CONTEXT_FD_ARR, fds.arr.cast(), len);
        }
        cmd.uhw(uhw);
        let route = fallback::execute(context, Op::GetContext, Needs::default(), &mut cmd)?;
        if route == Fallback::Done {
            (*context).num_comp_vectors = num_comp_vectors as c_int;
            self::core_support(context).store(core_support, Ordering::Relaxed);
        }
        Ok(route)
    }
}

/// This command also creates the file for asynchronous events.
///
/// # Safety
/// As for [`get_context_by_ioctl`].
unsafe fn get_context_by_write(context: *mut ibv_context, uhw: &Uhw) -> Result<(), Errno> {
    let request = ib_uverbs_get_context {
        response: 0,
        driver_data: [],
    };
    // SAFETY: `context` is initialised, the provider's buffers are live, and this is the command's response.
    unsafe {
        let accept = |response: &ib_uverbs_get_context_resp| {
            (*context).async_fd = response.async_fd as c_int;
            (*context).num_comp_vectors = response.num_comp_vectors as c_int;
        };
        write::execute_uhw(context, IB_USER_VERBS_CMD_GET_CONTEXT, uhw, request, accept)
    }
}

/// Queries what an imported context has: the number of completion vectors and the kernel's support.
///
/// # Safety
/// As the module [`cmd`](super) says.
pub unsafe extern "C" fn ibv_cmd_query_context(
    context: *mut ibv_context,
    driver: *mut ibv_command_buffer,
) -> c_int {
    const NUM_COMP_VECTORS: u32 = UVERBS_ATTR_QUERY_CONTEXT_NUM_COMP_VECTORS;
    let mut core_support = 0u64;
    let mut cmd =
        Command::<{ 2 + LINK_ROOM }>::new(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_CONTEXT);
    // SAFETY: `context` is open and its members writable, `driver` is live.
    to_c(|| unsafe {
        cmd.output(NUM_COMP_VECTORS, &raw mut (*context).num_comp_vectors);
        cmd.output(
            UVERBS_ATTR_QUERY_CONTEXT_CORE_SUPPORT,
            &raw mut core_support,
        );
        linked::execute(context, &mut cmd, driver)?;
        self::core_support(context).store(core_support, Ordering::Relaxed);
        Ok(())
    })
}

/// Creates the file that the context's asynchronous events are read from, and stores its descriptor.
///
/// # Safety
/// `context` is open.
pub unsafe fn alloc_async_fd(context: *mut ibv_context) -> Result<(), Errno> {
    let mut cmd = Command::<1>::new(UVERBS_OBJECT_ASYNC_EVENT, UVERBS_METHOD_ASYNC_EVENT_ALLOC);
    let fd = cmd.new_object(UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE);
    // SAFETY: `context` is open, and the command has no pointers.
    unsafe {
        cmd.execute(context)?;
        (*context).async_fd = cmd.created(fd) as c_int;
    }
    Ok(())
}

/// The size in bytes of the attributes that the plain legacy command reports.
const BASIC: usize = size_of::<ibv_device_attr>();

/// Queries a device's attributes, as many as `attr_size` bytes of the structure hold. `resp`, if not
/// null, also takes the provider's part of the response, and `resp_size` its length in and out.
///
/// # Safety
/// `context` is open; `attr` is writable for `attr_size` bytes; `input` and `resp` are null or live,
/// `resp` for `*resp_size` bytes.
pub unsafe extern "C" fn ibv_cmd_query_device_any(
    context: *mut ibv_context,
    input: *const ibv_query_device_ex_input,
    attr: *mut ibv_device_attr_ex,
    attr_size: usize,
    resp: *mut ib_uverbs_ex_query_device_resp,
    resp_size: *mut usize,
) -> c_int {
    to_c(|| {
        // SAFETY: `input` is null or live.
        let unknown_input = unsafe { !input.is_null() && (*input).comp_mask != 0 };
        if unknown_input || attr_size < BASIC {
            return Err(Errno(EINVAL));
        }
        // SAFETY: `context` is open; `attr` and, unless null, `resp` are writable for their sizes.
        unsafe {
            if resp.is_null() {
                return query_alone(context, attr, attr_size);
            }
            query(context, attr, attr_size, resp, &mut *resp_size)
        }
    })
}

/// As [`query`], for a provider that does not want the response. Out of line, because the response needs much
/// of the stack.
///
/// # Safety
/// As for [`query`].
#[inline(never)]
unsafe fn query_alone(
    context: *mut ibv_context,
    attr: *mut ibv_device_attr_ex,
    attr_size: usize,
) -> Result<(), Errno> {
    let mut resp = MaybeUninit::<ib_uverbs_ex_query_device_resp>::uninit();
    let mut resp_size = size_of::<ib_uverbs_ex_query_device_resp>();
    // SAFETY: `context` is open; `attr` is writable for `attr_size` bytes, and the response is a local.
    unsafe { query(context, attr, attr_size, resp.as_mut_ptr(), &mut resp_size) }
}

/// Queries the device into `resp`, of `resp_size` bytes, and copies what `attr` has room for.
///
/// # Safety
/// `context` is open; `attr` is writable for `attr_size` bytes, `resp` for `resp_size`.
#[inline(always)]
unsafe fn query(
    context: *mut ibv_context,
    attr: *mut ibv_device_attr_ex,
    mut attr_size: usize,
    resp: *mut ib_uverbs_ex_query_device_resp,
    resp_size: &mut usize,
) -> Result<(), Errno> {
    // SAFETY: `context` is open; both structures are writable for their sizes, and `resp` is afterwards
    // valid as far as its response_length says.
    unsafe {
        attr.cast::<u8>().write_bytes(0, attr_size);
        if attr_size > BASIC && !query_extended(context, resp, *resp_size)? {
            attr_size = BASIC;
        }
        if attr_size == BASIC {
            query_basic(context, resp)?;
        }
        *resp_size = (*resp).response_length as usize;
        copy_basic(&mut (*attr).orig_attr, &(*resp).base);
        copy_extended(context, attr, attr_size, resp);
    }
    Ok(())
}

/// Sends the extended command. Returns false if the kernel lacks it.
///
/// # Safety
/// `context` is open; `resp` is writable for `resp_size` bytes.
unsafe fn query_extended(
    context: *mut ibv_context,
    resp: *mut ib_uverbs_ex_query_device_resp,
    resp_size: usize,
) -> Result<bool, Errno> {
    let mut request = ibv_query_device_ex {
        hdr: ex_hdr::default(),
        core_payload: ib_uverbs_ex_query_device {
            comp_mask: 0,
            reserved: 0,
        },
    };
    // SAFETY: `context` is open, the request is a local, `resp` is writable for `resp_size` bytes.
    let result = unsafe {
        write::execute_ex(
            context,
            IB_USER_VERBS_EX_CMD_QUERY_DEVICE,
            Buffer::core(&raw mut request),
            Buffer::of_provider(resp, resp_size),
        )
    };
    match result {
        Ok(()) => Ok(true),
        Err(Errno(EOPNOTSUPP | ENOSYS)) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// Sends the plain command, whose response is the first part of the extended one's.
///
/// # Safety
/// `context` is open; `resp` is writable for that part and the response's length.
unsafe fn query_basic(
    context: *mut ibv_context,
    resp: *mut ib_uverbs_ex_query_device_resp,
) -> Result<(), Errno> {
    let mut request = MaybeUninit::<ibv_query_device>::uninit();
    // SAFETY: `context` is open; the request is a local, whose only member execute() fills; `resp` is
    // writable.
    unsafe {
        write::execute(
            context,
            IB_USER_VERBS_CMD_QUERY_DEVICE,
            Buffer::core(request.as_mut_ptr()),
            Buffer::core(&raw mut (*resp).base),
        )?;
        (*resp).response_length = size_of::<ib_uverbs_query_device_resp>() as u32;
    }
    Ok(())
}

/// Copies the attributes that every kernel reports.
fn copy_basic(to: &mut ibv_device_attr, from: &ib_uverbs_query_device_resp) {
    macro_rules! copy {
        ($( $member:ident )+) => { $( to.$member = from.$member as _; )+ };
    }
    copy! {
        node_guid sys_image_guid max_mr_size page_size_cap vendor_id vendor_part_id hw_ver max_qp
        max_qp_wr device_cap_flags max_sge max_sge_rd max_cq max_cqe max_mr max_pd max_qp_rd_atom
        max_ee_rd_atom max_res_rd_atom max_qp_init_rd_atom max_ee_init_rd_atom atomic_cap max_ee
        max_rdd max_mw max_raw_ipv6_qp max_raw_ethy_qp max_mcast_grp max_mcast_qp_attach
        max_total_mcast_qp_attach max_ah max_fmr max_map_per_fmr max_srq max_srq_wr max_srq_sge
        max_pkeys local_ca_ack_delay phys_port_cnt
    }
}

/// Copies the attributes that both the caller's structure and the kernel's response have.
///
/// # Safety
/// `context` is open; `attr` is writable for `attr_size` bytes; `resp` is valid as far as its
/// response_length says.
unsafe fn copy_extended(
    context: *mut ibv_context,
    attr: *mut ibv_device_attr_ex,
    attr_size: usize,
    resp: *const ib_uverbs_ex_query_device_resp,
) {
    /// Whether a structure of `len` bytes has the whole member.
    macro_rules! within {
        ($len:expr, $type:ty, $member:ident) => {{
            let at = core::ptr::null::<$type>();
            // SAFETY: never executed; only the closure's type is used.
            let size = size_of_pointee(|| unsafe { &raw const (*at).$member });
            $len >= offset_of!($type, $member) + size
        }};
    }
    /// The size of what a pointer would point to.
    fn size_of_pointee<T>(_: impl FnOnce() -> *const T) -> usize {
        size_of::<T>()
    }
    // SAFETY: every response has this member.
    let resp_len = unsafe { (*resp).response_length } as usize;
    macro_rules! copy {
        ($( $to:ident <- $from:ident: $value:expr; )+) => { $(
            if within!(attr_size, ibv_device_attr_ex, $to)
                && within!(resp_len, ib_uverbs_ex_query_device_resp, $from)
            {
                // SAFETY: `attr_size` and response_length say that both members are there.
                unsafe { (*attr).$to = $value((*resp).$from) };
            }
        )+ };
    }
    copy! {
        odp_caps <- odp_caps: |from: ib_uverbs_odp_caps| ibv_odp_caps {
            general_caps: from.general_caps,
            per_transport_caps: ibv_odp_caps_per_transport_caps {
                rc_odp_caps: from.per_transport_caps.rc_odp_caps,
                uc_odp_caps: from.per_transport_caps.uc_odp_caps,
                ud_odp_caps: from.per_transport_caps.ud_odp_caps,
            },
        };
        completion_timestamp_mask <- timestamp_mask: |from| from;
        hca_core_clock <- hca_core_clock: |from| from;
        device_cap_flags_ex <- device_cap_flags_ex: |from| from;
        rss_caps <- rss_caps: |from: ib_uverbs_rss_caps| ibv_rss_caps {
            supported_qpts: from.supported_qpts,
            max_rwq_indirection_tables: from.max_rwq_indirection_tables,
            max_rwq_indirection_table_size: from.max_rwq_indirection_table_size,
            // The provider fills in the hash's fields and functions, which query() has zeroed.
            rx_hash_fields_mask: (*attr).rss_caps.rx_hash_fields_mask,
            rx_hash_function: (*attr).rss_caps.rx_hash_function,
        };
        max_wq_type_rq <- max_wq_type_rq: |from| from;
        raw_packet_caps <- raw_packet_caps: |from| from;
        tm_caps <- tm_caps: |from: ib_uverbs_tm_caps| ibv_tm_caps {
            max_rndv_hdr_size: from.max_rndv_hdr_size,
            max_num_tags: from.max_num_tags,
            flags: from.flags,
            max_ops: from.max_ops,
            max_sge: from.max_sge,
        };
        cq_mod_caps <- cq_moderation_caps: |from: ib_uverbs_cq_moderation_caps| {
            ibv_cq_moderation_caps {
                max_cq_count: from.max_cq_moderation_count,
                max_cq_period: from.max_cq_moderation_period,
            }
        };
        max_dm_size <- max_dm_size: |from| from;
        xrc_odp_caps <- xrc_odp_caps: |from| from;
    }
    if within!(attr_size, ibv_device_attr_ex, phys_port_cnt_ex) {
        // SAFETY: `attr_size` says that the member is there; `context` is open.
        unsafe {
            (*attr).phys_port_cnt_ex = match num_ports(context) {
                0 => (*attr).orig_attr.phys_port_cnt.into(),
                ports => ports,
            };
        }
    }
}

/// The number of ports in sysfs; 0 if it is not known.
///
/// # Safety
/// `context` is open.
unsafe fn num_ports(context: *mut ibv_context) -> u32 {
    // SAFETY: an open context holds its device. One without a kernel driver (mlx5 over VFIO) has no sysfs
    // part.
    unsafe { (*device_of(context)).sysfs.as_ref() }.map_or(0, |sysfs| sysfs.num_ports)
}

/// Whether the kernel has the ioctl INVOKE_WRITE. It rejects this command as too short if it does.
///
/// # Safety
/// `context` has its command fd, driver id and state.
pub unsafe fn has_ioctl_write(context: *mut ibv_context) -> bool {
    let mut cmd = Command::<1>::new(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE);
    cmd.u64(UVERBS_ATTR_WRITE_CMD, IB_USER_VERBS_CMD_QUERY_DEVICE.into());
    // SAFETY: `context` has its fd and state, and the command has no pointers.
    let ret = unsafe { cmd.execute(context) };
    !matches!(ret, Err(Errno(libc::EPROTONOSUPPORT | libc::ENOTTY)))
}
