//! Single entries of a port's GID table.

use core::mem::MaybeUninit;
use core::ptr;

use libc::{ENODATA, c_int, c_uint};

use super::gid_table::query_gid_ex;
use crate::abi::*;
use crate::diagnose;

/// Reads the fields of a GID table entry that `fields` (`VERBS_QUERY_GID_ATTR_*`) selects. `Ok(None)` if the
/// entry is empty, which the verbs in this file do not report as an error.
///
/// # Safety
///
/// `context` is an open context.
pub(super) unsafe fn entry(
    context: *mut ibv_context,
    port_num: u8,
    index: u32,
    fields: u32,
) -> Result<Option<ibv_gid_entry>, Errno> {
    let mut entry = MaybeUninit::<ibv_gid_entry>::zeroed();
    // SAFETY: the context is open, as the caller promises, and `entry` has the size that is passed.
    let err = unsafe {
        query_gid_ex(
            context,
            u32::from(port_num),
            index,
            entry.as_mut_ptr(),
            0,
            size_of::<ibv_gid_entry>(),
            fields,
        )
    };
    match err {
        // SAFETY: the entry was zeroed, and its members are integers and bytes.
        0 => Ok(Some(unsafe { entry.assume_init() })),
        ENODATA => Ok(None),
        err => Err(Errno(err)),
    }
}

/// The GID type as sysfs has it, where InfiniBand and RoCE v1 are one type.
pub(super) const fn sysfs_type(gid_type: u32) -> ibv_gid_type_sysfs {
    match gid_type {
        IBV_GID_TYPE_IB | IBV_GID_TYPE_ROCE_V1 => IBV_GID_TYPE_SYSFS_IB_ROCE_V1,
        _ => IBV_GID_TYPE_SYSFS_ROCE_V2,
    }
}

/// Reports a GID of a port; all zeros for an empty entry (ibv_query_gid(3)). Returns 0, or -1 with the
/// errno of the kernel command or of reading the sysfs file.
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
    // A negative index becomes a large one, which no table has.
    // SAFETY: the context is open, as the caller promises.
    match unsafe { entry(context, port_num, index as u32, VERBS_QUERY_GID_ATTR_GID) } {
        // SAFETY: `gid` is writable, as the caller promises.
        Ok(Some(found)) => unsafe { *gid = found.gid },
        // SAFETY: `gid` is writable, as the caller promises.
        Ok(None) => unsafe { ptr::write_bytes(gid, 0, 1) },
        Err(_) => {
            // SAFETY: the context is open, as the caller promises.
            unsafe { diagnose::query_failed(context, "ibv_query_gid", port_num, index) };
            return -1;
        }
    }
    0
}

/// Reports whether a GID is for RoCE v2; an empty entry counts as InfiniBand/RoCE v1. It is not declared
/// in verbs.h, but `ibv_devinfo` and pyverbs call it. Returns 0, or -1 with errno set.
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
    // SAFETY: the context is open, as the caller promises.
    let found = match unsafe { entry(context, port_num, index, VERBS_QUERY_GID_ATTR_TYPE) } {
        Ok(Some(found)) => sysfs_type(found.gid_type),
        Ok(None) => IBV_GID_TYPE_SYSFS_IB_ROCE_V1,
        Err(_) => return -1,
    };
    // SAFETY: `gid_type` is writable, as the caller promises.
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
