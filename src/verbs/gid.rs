//! GIDs of a port, one at a time.

use core::mem::MaybeUninit;
use core::ptr;

use libc::{ENODATA, c_int, c_uint};

use super::gid_table::query_gid_ex;
use crate::abi::*;

/// Reads what `wanted` (`VERBS_QUERY_GID_ATTR_*`) names of a GID table entry. `Ok(None)`: the entry
/// is empty, which these verbs do not call an error. `Err`: an errno value.
///
/// # Safety
///
/// `context` is an open context.
pub(super) unsafe fn entry(
    context: *mut ibv_context,
    port_num: u8,
    index: u32,
    wanted: u32,
) -> Result<Option<ibv_gid_entry>, Errno> {
    let mut entry = MaybeUninit::<ibv_gid_entry>::zeroed();
    // SAFETY: an open context, and an entry of the size that is told.
    let err = unsafe {
        query_gid_ex(
            context,
            u32::from(port_num),
            index,
            entry.as_mut_ptr(),
            0,
            size_of::<ibv_gid_entry>(),
            wanted,
        )
    };
    match err {
        // SAFETY: an entry of zeros is one: it has numbers and bytes only.
        0 => Ok(Some(unsafe { entry.assume_init() })),
        ENODATA => Ok(None),
        err => Err(Errno(err)),
    }
}

/// The GID type as sysfs tells it: there, InfiniBand and RoCE v1 are one.
pub(super) const fn sysfs_type(gid_type: u32) -> ibv_gid_type_sysfs {
    match gid_type {
        IBV_GID_TYPE_IB | IBV_GID_TYPE_ROCE_V1 => IBV_GID_TYPE_SYSFS_IB_ROCE_V1,
        _ => IBV_GID_TYPE_SYSFS_ROCE_V2,
    }
}

/// Reports a GID of a port; an empty entry is all zeros (ibv_query_gid(3)). Returns 0, or -1;
/// errno is what the kernel's command or the sysfs file left.
///
/// # Safety
///
/// `context` is an open context; `gid` is writable.
pub unsafe extern "C" fn ibv_query_gid(
    context: *mut ibv_context,
    port_num: u8,
    index: c_int,
    gid: *mut ibv_gid,
) -> c_int {
    // SAFETY: an open context. A negative index is a huge one, which no table has.
    match unsafe { entry(context, port_num, index as u32, VERBS_QUERY_GID_ATTR_GID) } {
        // SAFETY: the caller's GID is writable.
        Ok(Some(found)) => unsafe { *gid = found.gid },
        // SAFETY: as above.
        Ok(None) => unsafe { ptr::write_bytes(gid, 0, 1) },
        Err(_) => return -1,
    }
    0
}

/// Reports whether a GID is for RoCE v2; an empty entry is of the older type. Not in verbs.h, but
/// `ibv_devinfo` and pyverbs call it. Returns 0, or -1 with errno set.
///
/// # Safety
///
/// `context` is an open context; `gid_type` is writable.
pub unsafe extern "C" fn ibv_query_gid_type(
    context: *mut ibv_context,
    port_num: u8,
    index: c_uint,
    gid_type: *mut ibv_gid_type_sysfs,
) -> c_int {
    // SAFETY: an open context.
    let found = match unsafe { entry(context, port_num, index, VERBS_QUERY_GID_ATTR_TYPE) } {
        Ok(Some(found)) => sysfs_type(found.gid_type),
        Ok(None) => IBV_GID_TYPE_SYSFS_IB_ROCE_V1,
        Err(_) => return -1,
    };
    // SAFETY: the caller's type is writable.
    unsafe { *gid_type = found };
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_older_types_are_one() {
        assert_eq!(sysfs_type(IBV_GID_TYPE_IB), IBV_GID_TYPE_SYSFS_IB_ROCE_V1);
        assert_eq!(
            sysfs_type(IBV_GID_TYPE_ROCE_V1),
            IBV_GID_TYPE_SYSFS_IB_ROCE_V1
        );
        assert_eq!(sysfs_type(IBV_GID_TYPE_ROCE_V2), IBV_GID_TYPE_SYSFS_ROCE_V2);
    }
}
