//! A device's context and attributes.

use core::{
    mem::{MaybeUninit, offset_of},
    sync::atomic::{AtomicU64, Ordering},
};

use ibverbs_abi::*;
use libc::{EINVAL, ENOSYS, EOPNOTSUPP, c_int};

use super::mr::LINK_ROOM;
use crate::uverbs::{
    fallback::{self, Needs, Route},
    ioctl::Command,
    linked,
    state::Op,
    write::{self, Placed, Uhw},
};

/// The device that a context was opened on, as providers extend it.
///
/// # Safety
/// `context` is open.
unsafe fn device_of(context: *mut ibv_context) -> *mut verbs_device {
    // SAFETY: by the contract; a verbs_device begins with its ibv_device.
    unsafe { (*context).device.cast() }
}

/// What the kernel can do with this context's device (`IB_UVERBS_CORE_SUPPORT_*`). Each open sets it,
/// while other threads may be reading it, so it is atomic here; C has it as a plain number.
///
/// # Safety
/// `context` is one of this library's, and lives as long as the reference.
pub unsafe fn core_support<'a>(context: *mut ibv_context) -> &'a AtomicU64 {
    // SAFETY: by the contract the context holds its device, and nothing but this function leads to
    // the member while a context is open.
    unsafe { AtomicU64::from_ptr(&raw mut (*device_of(context)).core_support) }
}

/// Tells the kernel about a new context and learns what it has.
///
/// # Safety
/// All pointers are the provider's own live structures, of the given sizes; `context` is initialised.
pub unsafe fn get_context(
    context: *mut ibv_context,
    cmd: *mut ibv_get_context,
    cmd_size: usize,
    resp: *mut ib_uverbs_get_context_resp,
    resp_size: usize,
) -> c_int {
    let uhw = Uhw::after(cmd, cmd_size, resp, resp_size);
    // SAFETY: by the contract; what else the attributes point to is on this stack.
    unsafe {
        let (mut num_comp_vectors, mut core_support) = (0u32, 0u64);
        let mut cmd = Command::<4>::new(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_GET_CONTEXT);
        cmd.output(
            UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS,
            &raw mut num_comp_vectors,
        );
        cmd.output(UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT, &raw mut core_support);
        cmd.uhw(&uhw);
        match fallback::execute(context, Op::GetContext, Needs::default(), &mut cmd) {
            Ok(Route::Done) => {
                (*context).num_comp_vectors = num_comp_vectors as c_int;
                self::core_support(context).store(core_support, Ordering::Relaxed);
                0
            }
            Ok(_) => get_context_by_write(context, &uhw),
            Err(error) => error.0,
        }
    }
}

/// The legacy command also makes the file for asynchronous events.
///
/// # Safety
/// As for [`get_context`].
unsafe fn get_context_by_write(context: *mut ibv_context, uhw: &Uhw) -> c_int {
    let (mut request, mut response) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    let (Ok(request), Ok(response)) = (
        uhw.request::<ibv_get_context>(&mut request),
        uhw.response::<ib_uverbs_get_context_resp>(&mut response),
    ) else {
        return EINVAL;
    };
    // SAFETY: by the contract; request and response are on this stack or in front of the provider's.
    unsafe {
        let ret = write::execute(context, IB_USER_VERBS_CMD_GET_CONTEXT, request, response);
        if ret == 0 {
            (*context).async_fd = (*response.at).async_fd as c_int;
            (*context).num_comp_vectors = (*response.at).num_comp_vectors as c_int;
        }
        ret
    }
}

/// Learns what an imported context has.
///
/// # Safety
/// `context` is initialised; `driver` is null or the provider's live chain of command buffers.
pub unsafe extern "C" fn ibv_cmd_query_context(
    context: *mut ibv_context,
    driver: *mut ibv_command_buffer,
) -> c_int {
    let mut core_support = 0u64;
    let mut cmd =
        Command::<{ 2 + LINK_ROOM }>::new(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_CONTEXT);
    // SAFETY: by the contract.
    unsafe {
        cmd.output(
            UVERBS_ATTR_QUERY_CONTEXT_NUM_COMP_VECTORS,
            &raw mut (*context).num_comp_vectors,
        );
        cmd.output(
            UVERBS_ATTR_QUERY_CONTEXT_CORE_SUPPORT,
            &raw mut core_support,
        );
        if let Err(error) = linked::execute(context, &mut cmd, driver) {
            return error.0;
        }
        self::core_support(context).store(core_support, Ordering::Relaxed);
    }
    0
}

/// Makes the file that the context's asynchronous events are read from.
///
/// # Safety
/// `context` is open.
pub unsafe fn ibv_cmd_alloc_async_fd(context: *mut ibv_context) -> c_int {
    let mut cmd = Command::<1>::new(UVERBS_OBJECT_ASYNC_EVENT, UVERBS_METHOD_ASYNC_EVENT_ALLOC);
    let fd = cmd.new_object(UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE);
    // SAFETY: by the contract.
    unsafe {
        if let Err(error) = cmd.execute(context) {
            return error.0;
        }
        (*context).async_fd = cmd.made(fd) as c_int;
    }
    0
}

/// Queries a device's attributes, as many as `attr_size` bytes of the structure hold. `resp`, if not
/// null, also takes the provider's part of the response, and `resp_size` its length in and out.
///
/// # Safety
/// All pointers are null where the C library allows it, or live and of the given sizes.
pub unsafe extern "C" fn ibv_cmd_query_device_any(
    context: *mut ibv_context,
    input: *const ibv_query_device_ex_input,
    attr: *mut ibv_device_attr_ex,
    attr_size: usize,
    resp: *mut ib_uverbs_ex_query_device_resp,
    resp_size: *mut usize,
) -> c_int {
    const BASIC: usize = size_of::<ibv_device_attr>();
    let mut own = MaybeUninit::<ib_uverbs_ex_query_device_resp>::uninit();
    let mut own_size = size_of::<ib_uverbs_ex_query_device_resp>();
    // SAFETY: by the contract; `attr` is written within `attr_size` only.
    unsafe {
        if !input.is_null() && (*input).comp_mask != 0 || attr_size < BASIC {
            return EINVAL;
        }
        let (resp, resp_size) = if resp.is_null() {
            (own.as_mut_ptr(), &raw mut own_size)
        } else {
            (resp, resp_size)
        };
        attr.cast::<u8>().write_bytes(0, attr_size);

        let mut attr_size = attr_size;
        if attr_size > BASIC {
            let mut request = ibv_query_device_ex {
                hdr: ex_hdr::default(),
                core_payload: ib_uverbs_ex_query_device {
                    comp_mask: 0,
                    reserved: 0,
                },
            };
            let ret = write::execute_ex(
                context,
                IB_USER_VERBS_EX_CMD_QUERY_DEVICE,
                Placed::alone(&raw mut request),
                Placed::whole(resp, *resp_size),
            );
            match ret {
                0 => {}
                EOPNOTSUPP | ENOSYS => attr_size = BASIC,
                error => return error,
            }
        }
        if attr_size == BASIC {
            let mut request = MaybeUninit::<ibv_query_device>::uninit();
            let ret = write::execute(
                context,
                IB_USER_VERBS_CMD_QUERY_DEVICE,
                Placed::alone(request.as_mut_ptr()),
                Placed::alone(&raw mut (*resp).base),
            );
            if ret != 0 {
                return ret;
            }
            (*resp).response_length = size_of::<ib_uverbs_query_device_resp>() as u32;
        }
        *resp_size = (*resp).response_length as usize;
        copy_basic(&mut (*attr).orig_attr, &(*resp).base);
        copy_extended(context, attr, attr_size, resp);
    }
    0
}

/// The attributes that every kernel tells.
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

/// The attributes of which the caller's structure may have fewer, and the kernel may tell fewer.
///
/// # Safety
/// `attr` is writable for `attr_size` bytes; of `resp` as much is valid as it says.
unsafe fn copy_extended(
    context: *mut ibv_context,
    attr: *mut ibv_device_attr_ex,
    attr_size: usize,
    resp: *const ib_uverbs_ex_query_device_resp,
) {
    /// Whether the member of a structure of `len` bytes is there as a whole.
    macro_rules! within {
        ($len:expr, $type:ty, $member:ident) => {{
            let at = core::ptr::null::<$type>();
            // Only the type of the member is used, nothing is read.
            let size = size_of_pointee(|| &raw const (*at).$member);
            $len >= offset_of!($type, $member) + size
        }};
    }
    /// The size of what a pointer would point to.
    fn size_of_pointee<T>(_: impl FnOnce() -> *const T) -> usize {
        size_of::<T>()
    }
    // SAFETY: by the contract; each member is touched only if both sides have it.
    unsafe {
        let told = (*resp).response_length as usize;
        macro_rules! copy {
            ($( $to:ident <- $from:ident: $value:expr; )+) => { $(
                if within!(attr_size, ibv_device_attr_ex, $to)
                    && within!(told, ib_uverbs_ex_query_device_resp, $from)
                {
                    let from = (*resp).$from;
                    (*attr).$to = $value(from);
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
                // The hash's fields and function are for the provider to tell.
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
            // A device that no kernel told of (mlx5 over VFIO) has no sysfs part.
            let sysfs = (*device_of(context)).sysfs;
            let ports = if sysfs.is_null() {
                0
            } else {
                (*sysfs).num_ports
            };
            (*attr).phys_port_cnt_ex = if ports != 0 {
                ports
            } else {
                (*attr).orig_attr.phys_port_cnt.into()
            };
        }
    }
}

/// Whether legacy commands can go by ioctl: the kernel finds this one too short, if it knows it.
///
/// # Safety
/// `context` has its fd, driver id and state.
pub unsafe fn has_ioctl_write(context: *mut ibv_context) -> bool {
    let mut cmd = Command::<1>::new(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE);
    cmd.u64(UVERBS_ATTR_WRITE_CMD, IB_USER_VERBS_CMD_QUERY_DEVICE.into());
    // SAFETY: by the contract; the command has no pointers.
    let ret = unsafe { cmd.execute(context) };
    !matches!(ret, Err(Errno(libc::EPROTONOSUPPORT | libc::ENOTTY)))
}
