//! Address handles and multicast groups.

use ibverbs_abi::*;
use libc::{EINVAL, c_int};

use super::context::part;
use super::lid;
use super::object::{Answer, Object, Plain};
use super::pd::Pd;
use super::qp;
use crate::device::Device;
use crate::engine::{AddressVector, Service};

/// An address handle.
pub type Ah = Object<ibv_ah, AddressVector>;

/// The way that an address names; EINVAL if it is none of this device's.
pub fn path(attr: &ibv_ah_attr, device: &Device) -> Answer<AddressVector> {
    let gids = device.net.gids();
    if attr.port_num == 1 && attr.is_global == 0 && lid::enabled() {
        let (sgid_index, dgid) = lid::resolve(&gids, attr.dlid).ok_or(EINVAL)?;
        return Ok(AddressVector {
            dgid,
            sgid_index,
            traffic_class: 0,
            hop_limit: 64,
            flow_label: 0,
        });
    }
    let known = gids.get(usize::from(attr.grh.sgid_index));
    if attr.port_num != 1 || attr.is_global == 0 || !matches!(known, Some(Some(_))) {
        return Err(EINVAL);
    }
    Ok(AddressVector {
        // SAFETY: a GID is 16 bytes by whichever name.
        dgid: unsafe { attr.grh.dgid.raw },
        sgid_index: attr.grh.sgid_index,
        traffic_class: attr.grh.traffic_class,
        hop_limit: attr.grh.hop_limit,
        flow_label: attr.grh.flow_label,
    })
}

/// # Safety
/// The op's contract: the domain is live, the attributes are readable.
pub unsafe fn create_ah(pd: *mut ibv_pd, attr: *mut ibv_ah_attr) -> Answer<*mut ibv_ah> {
    // SAFETY: by the contract; a live domain's context is open.
    unsafe {
        let context = (*pd).context;
        let path = path(&*attr, part(context).check()?)?;
        Pd::of(pd).users.add();
        let mut ah = ibv_ah::zeroed();
        (ah.context, ah.pd) = (context, pd);
        Ok(Ah::make(ah, path))
    }
}

/// # Safety
/// The op's contract: the handle is live, dead after success.
pub unsafe fn destroy_ah(ah: *mut ibv_ah) -> Answer<()> {
    // SAFETY: by the contract; the handle's domain lives as long as it is used.
    unsafe {
        Pd::of((*ah).pd).users.remove();
        Ah::free(ah);
    }
    Ok(())
}

/// # Safety
/// The op's contract: the queue pair is live, the GID readable.
pub unsafe fn attach_mcast(qp: *mut ibv_qp, gid: *const ibv_gid, _lid: u16) -> Answer<()> {
    // SAFETY: by the contract.
    let (object, group) = unsafe { (qp::object(qp), (*gid).raw) };
    if object.qp.service != Service::Ud || group[0] != 0xff && !is_ipv4_group(&group) {
        return Err(EINVAL);
    }
    let errno = |error: std::io::Error| -> c_int { error.raw_os_error().unwrap_or(EINVAL) };
    object.check()?.attach(&object.qp, &group).map_err(errno)
}

/// # Safety
/// The op's contract: the queue pair is live, the GID readable.
pub unsafe fn detach_mcast(qp: *mut ibv_qp, gid: *const ibv_gid, _lid: u16) -> Answer<()> {
    // SAFETY: by the contract.
    let (object, group) = unsafe { (qp::object(qp), (*gid).raw) };
    if object.check()?.detach(&object.qp, &group) {
        Ok(())
    } else {
        Err(EINVAL)
    }
}

/// `::ffff:224.0.0.0/4`.
fn is_ipv4_group(gid: &[u8; 16]) -> bool {
    gid[..10] == [0; 10] && gid[10..12] == [0xff, 0xff] && gid[12] & 0xf0 == 0xe0
}
