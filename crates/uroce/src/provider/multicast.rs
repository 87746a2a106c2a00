//! Multicast groups as verbs: attaching queue pairs to them.

use ibverbs_abi::*;
use libc::{EINVAL, EOPNOTSUPP};

use super::ah::group_address;
use super::ffi::Result;
use super::{handle, qp};
use roce::engine::Service;

/// Attaches a UD queue pair to a multicast group, given as a multicast GID or an IPv4-mapped group
/// address. EOPNOTSUPP if the device has no multicast groups.
///
/// # Safety
/// `qp` is live, `gid` readable.
pub unsafe fn attach_mcast(qp: *mut ibv_qp, gid: *const ibv_gid, _lid: u16) -> Result<()> {
    // SAFETY: the caller passes a live queue pair and a readable GID, of which any bytes are valid.
    let (object, group) = unsafe {
        handle::check(qp)?;
        let object = qp::object(qp);
        (object, group_address(&object.device, (*gid).raw))
    };
    if object.device.profile.limits.max_mcast_grp == 0 {
        return Err(Errno(EOPNOTSUPP));
    }
    if object.qp.service != Service::Ud || group[0] != 0xff && !is_ipv4_group(&group) {
        return Err(Errno(EINVAL));
    }
    // The only error without errno says that this is no group address.
    let errno = |error: std::io::Error| Errno(error.raw_os_error().unwrap_or(EINVAL));
    let attached = object.check()?.attach_multicast(&object.qp, &group);
    attached.map_err(errno)
}

/// EINVAL if the queue pair is not attached to the group.
///
/// # Safety
/// `qp` is live, `gid` readable.
pub unsafe fn detach_mcast(qp: *mut ibv_qp, gid: *const ibv_gid, _lid: u16) -> Result<()> {
    // SAFETY: the caller passes a live queue pair and a readable GID, of which any bytes are valid.
    let (object, group) = unsafe {
        handle::check(qp)?;
        let object = qp::object(qp);
        (object, group_address(&object.device, (*gid).raw))
    };
    if object.check()?.detach_multicast(&object.qp, &group) {
        Ok(())
    } else {
        Err(Errno(EINVAL))
    }
}

/// Whether the GID is in `::ffff:224.0.0.0/100`, an IPv4 group address.
fn is_ipv4_group(gid: &[u8; 16]) -> bool {
    gid[..10] == [0; 10] && gid[10..12] == [0xff, 0xff] && gid[12] & 0xf0 == 0xe0
}
