//! A device that discovery found: the `verbs_sysfs_dev` that providers see.

use core::ptr::NonNull;

use ibverbs_abi::{
    IBV_NODE_CA, IBV_NODE_RNIC, IBV_NODE_ROUTER, IBV_NODE_SWITCH, IBV_NODE_UNKNOWN,
    IBV_NODE_UNSPECIFIED, IBV_NODE_USNIC, IBV_NODE_USNIC_UDP, ibv_node_type, verbs_sysfs_dev,
};

/// Owns a `verbs_sysfs_dev` until it becomes a `verbs_device`'s. In libc's memory, as the library
/// frees those of mlx5's VFIO devices with `free` too.
pub struct SysfsDevice(NonNull<verbs_sysfs_dev>);

// SAFETY: it is an owning pointer to plain memory, like a Box; the C pointers inside are not followed
// by this type.
unsafe impl Send for SysfsDevice {}

impl SysfsDevice {
    /// A zeroed device. `None` if there is no memory.
    pub fn new() -> Option<Self> {
        // SAFETY: calloc has no conditions.
        let dev = unsafe { libc::calloc(1, size_of::<verbs_sysfs_dev>()) };
        NonNull::new(dev.cast()).map(SysfsDevice)
    }

    /// The device as C sees it; still owned by `self`.
    pub fn as_ptr(&mut self) -> *mut verbs_sysfs_dev {
        self.0.as_ptr()
    }

    /// Gives the device away; `libc::free` releases it.
    pub fn into_raw(self) -> *mut verbs_sysfs_dev {
        let dev = self.0.as_ptr();
        core::mem::forget(self);
        dev
    }
}

impl core::ops::Deref for SysfsDevice {
    type Target = verbs_sysfs_dev;

    fn deref(&self) -> &verbs_sysfs_dev {
        // SAFETY: the memory is this object's own, zeroed at birth, and all-zero bytes are a valid
        // verbs_sysfs_dev.
        unsafe { self.0.as_ref() }
    }
}

impl core::ops::DerefMut for SysfsDevice {
    fn deref_mut(&mut self) -> &mut verbs_sysfs_dev {
        // SAFETY: as in `deref`, and `&mut self` makes it the only reference.
        unsafe { self.0.as_mut() }
    }
}

impl Drop for SysfsDevice {
    fn drop(&mut self) {
        // SAFETY: the memory came from calloc and was not given away.
        unsafe { libc::free(self.0.as_ptr().cast()) };
    }
}

/// The kernel's node type (RDMA_NODE_*) as verbs.h names it.
pub fn node_type(kernel: u32) -> ibv_node_type {
    // The numbers agree, so far; a new one stays unknown until verbs.h has a name for it.
    match kernel as ibv_node_type {
        known @ (IBV_NODE_CA | IBV_NODE_SWITCH | IBV_NODE_ROUTER | IBV_NODE_RNIC
        | IBV_NODE_USNIC | IBV_NODE_USNIC_UDP | IBV_NODE_UNSPECIFIED) => known,
        _ => IBV_NODE_UNKNOWN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_types() {
        assert_eq!(node_type(0), IBV_NODE_UNKNOWN);
        for known in 1..=7 {
            assert_eq!(node_type(known), known as ibv_node_type);
        }
        assert_eq!(node_type(8), IBV_NODE_UNKNOWN);
        assert_eq!(node_type(u32::MAX), IBV_NODE_UNKNOWN);
    }
}
