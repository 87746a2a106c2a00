//! Device and port attributes: those of the device's profile (`crate::profile`). GID and P_Key tables.

use core::ffi::c_char;

use ibverbs_abi::*;
use libc::{EINVAL, ENODATA, c_int};

use super::context::{ContextPrivate, private};
use super::ffi::Result;
use super::object::Zeroable;
use crate::device::{Device, clock};
use crate::profile::{Fabric, Profile};
use crate::transport::lid::Lids;
use crate::transport::{self, GidType, PortState};

fn device_attributes(context: &ContextPrivate) -> ibv_device_attr_ex {
    let profile = &context.device.profile;
    let (identity, limits) = (&profile.identity, &profile.limits);
    let mut ex = ibv_device_attr_ex::zeroed();
    let attr = &mut ex.orig_attr;
    for (to, from) in attr.fw_ver.iter_mut().zip(identity.fw_ver.bytes()) {
        *to = from as c_char;
    }
    attr.node_guid = context.node_guid;
    attr.sys_image_guid = attr.node_guid;
    attr.max_mr_size = profile.max_mr_size;
    attr.page_size_cap = profile.page_size_cap;
    attr.vendor_id = identity.vendor_id;
    attr.vendor_part_id = identity.vendor_part_id;
    attr.hw_ver = identity.hw_ver;
    attr.max_qp = limits.max_qp as c_int;
    attr.max_qp_wr = limits.max_qp_wr as c_int;
    attr.device_cap_flags = profile.cap_flags;
    attr.max_sge = limits.max_sge as c_int;
    attr.max_sge_rd = limits.max_sge_rd as c_int;
    attr.max_cq = limits.max_cq as c_int;
    attr.max_cqe = limits.max_cqe as c_int;
    attr.max_mr = limits.max_mr as c_int;
    attr.max_pd = limits.max_pd as c_int;
    attr.max_qp_rd_atom = limits.max_qp_rd_atom as c_int;
    attr.max_res_rd_atom = limits.max_res_rd_atom as c_int;
    attr.max_qp_init_rd_atom = limits.max_qp_init_rd_atom as c_int;
    attr.atomic_cap = profile.atomic_cap;
    attr.max_mw = limits.max_mw as c_int;
    attr.max_mcast_grp = limits.max_mcast_grp as c_int;
    attr.max_mcast_qp_attach = limits.max_mcast_qp_attach as c_int;
    attr.max_total_mcast_qp_attach = (limits.max_mcast_grp * limits.max_mcast_qp_attach) as c_int;
    attr.max_ah = limits.max_ah as c_int;
    attr.max_srq = limits.max_srq as c_int;
    attr.max_srq_wr = limits.max_srq_wr as c_int;
    attr.max_srq_sge = limits.max_srq_sge as c_int;
    attr.max_pkeys = limits.pkey_tbl_len as u16;
    attr.local_ca_ack_delay = profile.local_ca_ack_delay;
    attr.phys_port_cnt = limits.ports as u8;
    ex.completion_timestamp_mask = profile.timestamp_mask;
    ex.hca_core_clock = profile.core_clock;
    ex.device_cap_flags_ex = u64::from(profile.cap_flags) | profile.cap_flags_ex;
    ex.phys_port_cnt_ex = limits.ports;
    ex.odp_caps.general_caps = profile.odp.general.into();
    ex.odp_caps.per_transport_caps = ibv_odp_caps_per_transport_caps {
        rc_odp_caps: profile.odp.rc,
        uc_odp_caps: profile.odp.uc,
        ud_odp_caps: profile.odp.ud,
    };
    ex.xrc_odp_caps = profile.odp.xrc;
    ex.cq_mod_caps = ibv_cq_moderation_caps {
        max_cq_count: limits.max_cq_count as u16,
        max_cq_period: limits.max_cq_period as u16,
    };
    ex.max_dm_size = limits.max_dm_size.into();
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

/// The state of a port without a cable: any but the first.
pub const NO_CABLE: PortState = PortState {
    up: false,
    active: false,
    active_mtu: 256,
};

fn port_attributes(profile: &Profile, state: PortState) -> ibv_port_attr {
    // `phys_state` (specification 14.2.5.6, PortInfo.PortPhysicalState).
    const POLLING: u8 = 2;
    const DISABLED: u8 = 3;
    const LINK_UP: u8 = 5;
    let limits = &profile.limits;
    let mut attr = ibv_port_attr::zeroed();
    (attr.state, attr.phys_state) = match state {
        PortState { active: true, .. } => (IBV_PORT_ACTIVE, LINK_UP),
        PortState { up: true, .. } => (IBV_PORT_DOWN, POLLING),
        _ => (IBV_PORT_DOWN, DISABLED),
    };
    attr.max_mtu = mtu_code(limits.max_mtu);
    attr.active_mtu = mtu_code(state.active_mtu);
    attr.gid_tbl_len = limits.gid_tbl_len as c_int;
    attr.port_cap_flags = profile.port.cap_flags;
    attr.max_msg_sz = limits.max_msg_sz;
    attr.pkey_tbl_len = limits.pkey_tbl_len as u16;
    attr.lmc = profile.port.lmc;
    attr.max_vl_num = profile.port.max_vl_num;
    attr.active_width = profile.port.speed.width;
    attr.active_speed = profile.port.speed.code8();
    attr.active_speed_ex = match profile.port.speed.code {
        code if code > u16::from(u8::MAX) => code.into(),
        _ => 0,
    };
    attr.link_layer = profile.fabric.link_layer() as u8;
    if profile.fabric.has_address_gids() {
        attr.flags = IBV_QPF_GRH_REQUIRED as u8;
    }
    attr
}

/// The attributes that a subnet manager sets.
fn set_subnet(attr: &mut ibv_port_attr, lid: u16) {
    /// The subnet manager is at the first LID.
    const SM_LID: u16 = 1;
    /// 4.096 us times two to this power, of OpenSM.
    const SUBNET_TIMEOUT: u8 = 18;
    (attr.lid, attr.sm_lid, attr.subnet_timeout) = (lid, SM_LID, SUBNET_TIMEOUT);
    if lid == 0 && attr.state == IBV_PORT_ACTIVE {
        // As a port that no subnet manager has found.
        attr.state = IBV_PORT_INIT;
    }
}

/// EINVAL for a port that the device does not have.
pub fn check_port(device: &Device, port: u32) -> Result<()> {
    match port {
        1.. if port <= device.profile.limits.ports => Ok(()),
        _ => Err(Errno(EINVAL)),
    }
}

/// Reports the port's attributes. EINVAL for a port that does not exist.
///
/// # Safety
/// `context` is open, `attr` writable.
pub unsafe fn query_port(
    context: *mut ibv_context,
    port_num: u8,
    attr: *mut ibv_port_attr,
) -> Result<()> {
    // SAFETY: the caller passes an open context.
    let device = unsafe { private(context) }.check()?;
    check_port(device, port_num.into())?;
    let profile = &device.profile;
    let mut port = port_attributes(profile, NO_CABLE);
    if port_num == 1 {
        port = port_attributes(profile, device.net.port_state());
        if let Some(lids) = Lids::of(profile) {
            let lid = lids.of_port(&device.net.gids());
            match profile.fabric {
                Fabric::InfiniBand => set_subnet(&mut port, lid),
                _ => (port.lid, port.flags) = (lid, 0),
            }
        }
    }
    // SAFETY: the caller passes writable attributes.
    unsafe { attr.write(port) };
    Ok(())
}

/// Reports the port's speed, in units of 100 Mb/s. EINVAL for a port that does not exist.
///
/// # Safety
/// `context` is open, `speed` writable.
pub unsafe fn query_port_speed(
    context: *mut ibv_context,
    port_num: u32,
    speed: *mut u64,
) -> Result<()> {
    // SAFETY: the caller passes an open context.
    let device = unsafe { private(context) }.check()?;
    check_port(device, port_num)?;
    // SAFETY: the caller passes a writable speed.
    unsafe { speed.write(device.profile.port.speed.rate.into()) };
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
    let has_clock = context.device.profile.timestamp_mask != 0;
    if has_clock && requested & IBV_VALUES_MASK_RAW_CLOCK != 0 {
        values.comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
        values.raw_clock.tv_sec = 0;
        values.raw_clock.tv_nsec = clock::now().0 as _;
    }
    Ok(())
}

/// Reports an entry of the GID table. EINVAL for a port or index that does not exist, ENODATA for an
/// empty entry, EACCES in a child of the process that opened the context.
///
/// # Safety
/// `context` is open, `entry` writable.
pub unsafe fn query_gid(
    context: *mut ibv_context,
    port_num: u32,
    gid_index: u32,
    entry: *mut ibv_gid_entry,
) -> Result<()> {
    // SAFETY: the caller passes an open context.
    let device = unsafe { private(context) }.check()?;
    check_port(device, port_num)?;
    if gid_index >= device.profile.limits.gid_tbl_len {
        return Err(Errno(EINVAL));
    }
    let gids = device.net.gids();
    let found = gids.get(gid_index as usize).filter(|_| port_num == 1);
    let Some(Some(found)) = found else {
        return Err(Errno(ENODATA));
    };
    // SAFETY: the caller passes a writable entry.
    unsafe { entry.write(gid_entry(gid_index, found)) };
    Ok(())
}

/// Reports an entry of the P_Key table. The first is the default P_Key; others, which devices of some
/// profiles have, are empty: 0. EINVAL for an index that does not exist, EACCES in a child of the process
/// that opened the context.
///
/// # Safety
/// `context` is open, `pkey` writable.
pub unsafe fn query_pkey(
    context: *mut ibv_context,
    port_num: u8,
    index: c_int,
    pkey: *mut u16,
) -> Result<()> {
    // SAFETY: the caller passes an open context.
    let device = unsafe { private(context) }.check()?;
    check_port(device, port_num.into())?;
    if !(0..device.profile.limits.pkey_tbl_len as c_int).contains(&index) {
        return Err(Errno(EINVAL));
    }
    let value = if index == 0 { u16::MAX } else { 0 };
    // SAFETY: the caller passes a writable P_Key.
    unsafe { pkey.write(value) };
    Ok(())
}

fn gid_entry(index: u32, found: &transport::GidEntry) -> ibv_gid_entry {
    ibv_gid_entry {
        gid: ibv_gid { raw: found.gid },
        gid_index: index,
        port_num: 1,
        gid_type: match found.gid_type {
            GidType::Ib => IBV_GID_TYPE_IB,
            GidType::RoceV1 => IBV_GID_TYPE_ROCE_V1,
            GidType::RoceV2 => IBV_GID_TYPE_ROCE_V2,
        },
        ndev_ifindex: found.ifindex,
    }
}

/// Reports the entries of the GID table that are not empty, up to `max_entries`. Returns their number, or
/// -EACCES in a child of the process that opened the context.
pub unsafe extern "C" fn query_gid_table(
    context: *mut ibv_context,
    entries: *mut ibv_gid_entry,
    max_entries: usize,
) -> isize {
    // SAFETY: the library passes an open context.
    let device = match unsafe { private(context) }.check() {
        Ok(device) => device,
        Err(Errno(errno)) => return -(errno as isize),
    };
    let gids = device.net.gids();
    let present = gids
        .iter()
        .zip(0..)
        .filter_map(|(entry, index)| Some((index, entry.as_ref()?)))
        .filter(|(index, _)| *index < device.profile.limits.gid_tbl_len);
    let mut count = 0;
    for (index, found) in present.take(max_entries) {
        // SAFETY: `entries` has room for `max_entries`, and `count` is less than that.
        unsafe { entries.add(count).write(gid_entry(index, found)) };
        count += 1;
    }
    count as isize
}
