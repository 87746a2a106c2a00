//! Device and port attributes, and the limits that other files check. Limits are those of Soft-RoCE, or
//! larger; only the GID table has 256 entries, as `sgid_index` has 8 bits, where Soft-RoCE reports 1024.

use core::ffi::c_char;

use ibverbs_abi::*;
use libc::{EINVAL, c_int};

use super::context::{ContextPrivate, private};
use super::ffi::Result;
use super::lid;
use super::object::Zeroable;
use crate::device::{MAX_MULTICAST_GROUPS, MAX_QPS_PER_MULTICAST_GROUP, clock};
use crate::memory::DEVICE_MEMORY_LEN;
use crate::transport::{GID_TABLE_LEN, PortState};

/// SGEs of a work request.
pub const MAX_SGE: u32 = 32;
/// Work requests of a queue.
pub const MAX_WR: u32 = 1 << 20;
/// Entries of a completion queue.
pub const MAX_CQE: u32 = 1 << 20;
/// Queue pairs of the process.
pub const MAX_QP: u32 = 1_048_560;
/// Completion queues.
pub const MAX_CQ: u32 = 1 << 20;
/// Memory regions.
pub const MAX_MR: u32 = 1 << 20;
/// Memory windows. Regions and windows share 2^24 key indices, of which these limits leave most free.
pub const MAX_MW: u32 = 1 << 20;
/// Protection domains.
pub const MAX_PD: u32 = 1 << 20;
/// Address handles.
pub const MAX_AH: u32 = 1 << 20;
/// Shared receive queues.
pub const MAX_SRQ: u32 = 1 << 20;
/// Bytes of inline data of a work request.
pub const MAX_INLINE: u32 = 4096;
/// Outstanding RDMA READs and atomics of a queue pair, as requester and as responder.
pub const MAX_RD_ATOMIC: u8 = 128;
/// Bytes of a message.
pub const MAX_MSG_SZ: u64 = 1 << 31;
/// Entries of the GID table: any higher index is an error.
pub const GID_TBL_LEN: u32 = GID_TABLE_LEN as u32;

/// Bits of `device_cap_flags_ex` that verbs.h has no names for; the kernel's
/// IB_UVERBS_DEVICE_FLUSH_GLOBAL.
const FLUSH_GLOBAL: u64 = 1 << 38;
/// IB_UVERBS_DEVICE_FLUSH_PERSISTENT.
const FLUSH_PERSISTENT: u64 = 1 << 39;
/// IB_UVERBS_DEVICE_ATOMIC_WRITE.
const ATOMIC_WRITE: u64 = 1 << 40;

/// `device_cap_flags`.
const CAP_FLAGS: u32 = IBV_DEVICE_UD_AV_PORT_ENFORCE
    | IBV_DEVICE_CURR_QP_STATE_MOD
    | IBV_DEVICE_PORT_ACTIVE_EVENT
    | IBV_DEVICE_SYS_IMAGE_GUID
    | IBV_DEVICE_RC_RNR_NAK_GEN
    | IBV_DEVICE_SRQ_RESIZE
    | IBV_DEVICE_MEM_WINDOW
    | IBV_DEVICE_XRC
    | IBV_DEVICE_MEM_MGT_EXTENSIONS
    | IBV_DEVICE_MEM_WINDOW_TYPE_2B;

/// All operations of reliable connections, and for XRC, can access memory with on-demand paging.
const ODP_RELIABLE: u32 = ODP_UC
    | ODP_UD
    | IBV_ODP_SUPPORT_READ
    | IBV_ODP_SUPPORT_ATOMIC
    | IBV_ODP_SUPPORT_FLUSH
    | IBV_ODP_SUPPORT_ATOMIC_WRITE;
const ODP_UC: u32 = ODP_UD | IBV_ODP_SUPPORT_WRITE;
const ODP_UD: u32 = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV;

fn device_attributes(context: &ContextPrivate) -> ibv_device_attr_ex {
    let mut ex = ibv_device_attr_ex::zeroed();
    let attr = &mut ex.orig_attr;
    let version = env!("CARGO_PKG_VERSION").bytes();
    for (to, from) in attr.fw_ver.iter_mut().zip(version) {
        *to = from as c_char;
    }
    attr.node_guid = context.node_guid();
    attr.sys_image_guid = attr.node_guid;
    attr.max_mr_size = u64::MAX;
    attr.page_size_cap = 0xffff_f000;
    // The value that Soft-RoCE reports too: there is no vendor.
    attr.vendor_id = 0xff_ffff;
    attr.max_qp = MAX_QP as c_int;
    attr.max_qp_wr = MAX_WR as c_int;
    attr.device_cap_flags = CAP_FLAGS;
    attr.max_sge = MAX_SGE as c_int;
    attr.max_sge_rd = MAX_SGE as c_int;
    attr.max_cq = MAX_CQ as c_int;
    attr.max_cqe = MAX_CQE as c_int;
    attr.max_mr = MAX_MR as c_int;
    attr.max_pd = MAX_PD as c_int;
    attr.max_qp_rd_atom = MAX_RD_ATOMIC.into();
    attr.max_res_rd_atom = 258_048;
    attr.max_qp_init_rd_atom = MAX_RD_ATOMIC.into();
    attr.atomic_cap = IBV_ATOMIC_HCA;
    attr.max_mw = MAX_MW as c_int;
    attr.max_mcast_grp = MAX_MULTICAST_GROUPS as c_int;
    attr.max_mcast_qp_attach = MAX_QPS_PER_MULTICAST_GROUP as c_int;
    attr.max_total_mcast_qp_attach = (MAX_MULTICAST_GROUPS * MAX_QPS_PER_MULTICAST_GROUP) as c_int;
    attr.max_ah = MAX_AH as c_int;
    attr.max_srq = MAX_SRQ as c_int;
    attr.max_srq_wr = MAX_WR as c_int;
    attr.max_srq_sge = MAX_SGE as c_int;
    attr.max_pkeys = 1;
    attr.local_ca_ack_delay = 15;
    attr.phys_port_cnt = 1;
    ex.completion_timestamp_mask = u64::MAX;
    ex.hca_core_clock = 1_000_000;
    ex.device_cap_flags_ex = u64::from(CAP_FLAGS) | FLUSH_GLOBAL | FLUSH_PERSISTENT | ATOMIC_WRITE;
    ex.phys_port_cnt_ex = 1;
    ex.odp_caps.general_caps = u64::from(IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT);
    ex.odp_caps.per_transport_caps = ibv_odp_caps_per_transport_caps {
        rc_odp_caps: ODP_RELIABLE,
        uc_odp_caps: ODP_UC,
        ud_odp_caps: ODP_UD,
    };
    ex.xrc_odp_caps = ODP_RELIABLE;
    ex.max_dm_size = DEVICE_MEMORY_LEN as u64;
    ex
}

/// Reports the device's attributes, as many as fit in `attr_size` bytes; bytes beyond the structure
/// known here are set to zero. EINVAL if that is less than an `ibv_device_attr`. This and the functions
/// below: EACCES in a child of the process that opened the context.
///
/// # Safety
/// `context` is open, `input` NULL or readable, and `attr_size` bytes at `attr` are writable.
pub unsafe fn query_device_ex(
    context: *mut ibv_context,
    input: *const ibv_query_device_ex_input,
    attr: *mut ibv_device_attr_ex,
    attr_size: usize,
) -> Result<()> {
    // SAFETY: the caller passes NULL or a readable input.
    let known_input = unsafe { input.as_ref() }.is_none_or(|input| input.comp_mask == 0);
    if !known_input || attr_size < size_of::<ibv_device_attr>() {
        return Err(Errno(EINVAL));
    }
    // SAFETY: the caller passes an open context.
    let context = unsafe { private(context) };
    context.check()?;
    // SAFETY: the caller passes `attr_size` writable bytes. `all` has `known` bytes.
    unsafe {
        let all = device_attributes(context);
        core::ptr::write_bytes(attr.cast::<u8>(), 0, attr_size);
        let known = attr_size.min(size_of::<ibv_device_attr_ex>());
        core::ptr::copy_nonoverlapping((&raw const all).cast::<u8>(), attr.cast(), known);
    }
    Ok(())
}

/// The largest `ibv_mtu` of at most that many bytes; the smallest one if there is none.
pub fn mtu_code(bytes: u32) -> ibv_mtu {
    match bytes {
        4096.. => IBV_MTU_4096,
        2048.. => IBV_MTU_2048,
        1024.. => IBV_MTU_1024,
        512.. => IBV_MTU_512,
        _ => IBV_MTU_256,
    }
}

/// The bytes of an `ibv_mtu`; None for a code that does not exist.
pub fn mtu_bytes(code: ibv_mtu) -> Option<u32> {
    matches!(code, IBV_MTU_256..=IBV_MTU_4096).then(|| 128 << code)
}

fn port_attributes(state: PortState) -> ibv_port_attr {
    // `phys_state` (specification 14.2.5.6, PortInfo.PortPhysicalState).
    const POLLING: u8 = 2;
    const DISABLED: u8 = 3;
    const LINK_UP: u8 = 5;
    let mut attr = ibv_port_attr::zeroed();
    (attr.state, attr.phys_state) = match state {
        PortState { active: true, .. } => (IBV_PORT_ACTIVE, LINK_UP),
        PortState { up: true, .. } => (IBV_PORT_DOWN, POLLING),
        _ => (IBV_PORT_DOWN, DISABLED),
    };
    attr.max_mtu = IBV_MTU_4096;
    attr.active_mtu = mtu_code(state.active_mtu);
    attr.gid_tbl_len = GID_TBL_LEN as c_int;
    attr.port_cap_flags = IBV_PORT_CM_SUP;
    attr.max_msg_sz = MAX_MSG_SZ as u32;
    attr.pkey_tbl_len = 1;
    attr.max_vl_num = 1;
    // 1X, 2.5 Gb/s: what Soft-RoCE reports for an interface of unknown speed.
    attr.active_width = 1;
    attr.active_speed = 1;
    attr.link_layer = IBV_LINK_LAYER_ETHERNET as u8;
    attr.flags = IBV_QPF_GRH_REQUIRED as u8;
    attr
}

/// Reports the port's attributes. EINVAL for another port than 1.
///
/// # Safety
/// `context` is open, `attr` writable.
pub unsafe fn query_port(
    context: *mut ibv_context,
    port_num: u8,
    attr: *mut ibv_port_attr,
) -> Result<()> {
    // SAFETY: the caller passes an open context.
    let net = &unsafe { private(context) }.check()?.net;
    if port_num != 1 {
        return Err(Errno(EINVAL));
    }
    let mut port = port_attributes(net.port_state());
    if lid::enabled() {
        port.lid = lid::of_port(&net.gids());
        port.flags = 0;
    }
    // SAFETY: the caller passes writable attributes.
    unsafe { attr.write(port) };
    Ok(())
}

/// Reports the port's speed, in units of 100 Mb/s. EINVAL for another port than 1.
///
/// # Safety
/// `context` is open, `speed` writable.
pub unsafe fn query_port_speed(
    context: *mut ibv_context,
    port_num: u32,
    speed: *mut u64,
) -> Result<()> {
    // SAFETY: the caller passes an open context.
    unsafe { private(context) }.check()?;
    if port_num != 1 {
        return Err(Errno(EINVAL));
    }
    // SAFETY: the caller passes a writable speed.
    unsafe { speed.write(25) };
    Ok(())
}

/// Reports the values that `comp_mask` asks for and that exist here: the raw clock.
///
/// # Safety
/// `context` is open, `values` readable and writable.
pub unsafe fn query_rt_values(context: *mut ibv_context, values: *mut ibv_values_ex) -> Result<()> {
    // SAFETY: the caller passes an open context, and readable and writable values.
    let (context, values) = unsafe { (private(context), &mut *values) };
    context.check()?;
    let requested = values.comp_mask;
    values.comp_mask = 0;
    if requested & IBV_VALUES_MASK_RAW_CLOCK != 0 {
        values.comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
        values.raw_clock.tv_sec = 0;
        values.raw_clock.tv_nsec = clock::now().0 as _;
    }
    Ok(())
}
