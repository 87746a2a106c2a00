//! [`SysfsDevice`]: a device that discovery has found.

use core::ptr::NonNull;

use ibverbs_abi::{
    IBV_NODE_CA, IBV_NODE_RNIC, IBV_NODE_ROUTER, IBV_NODE_SWITCH, IBV_NODE_UNKNOWN,
    IBV_NODE_UNSPECIFIED, IBV_NODE_USNIC, IBV_NODE_USNIC_UDP, ibv_node_type, verbs_sysfs_dev,
};

/// Owns a `verbs_sysfs_dev`, what providers see of a device, until a `verbs_device` takes it. Allocated by
/// libc, because the library frees it like those of mlx5's VFIO devices, with `free`.
pub struct SysfsDevice(NonNull<verbs_sysfs_dev>);

// SAFETY: the pointer owns its memory, like a Box. This type does not follow the C pointers in the struct.
unsafe impl Send for SysfsDevice {}

impl SysfsDevice {
    /// A zeroed device. `None` if memory is short.
    pub fn new() -> Option<Self> {
        // SAFETY: calloc has no preconditions.
        let dev = unsafe { libc::calloc(1, size_of::<verbs_sysfs_dev>()) };
        NonNull::new(dev.cast()).map(SysfsDevice)
    }

    /// The device as C sees it; owned by `self`.
    pub fn as_ptr(&mut self) -> *mut verbs_sysfs_dev {
        self.0.as_ptr()
    }

    /// Passes ownership to the caller, who releases the memory with `libc::free`.
    pub fn into_raw(self) -> *mut verbs_sysfs_dev {
        let dev = self.0.as_ptr();
        core::mem::forget(self);
        dev
    }
}

impl core::ops::Deref for SysfsDevice {
    type Target = verbs_sysfs_dev;

    fn deref(&self) -> &verbs_sysfs_dev {
        // SAFETY: `new` allocated and zeroed the memory, which `self` owns; zero bytes are a valid
        // verbs_sysfs_dev.
        unsafe { self.0.as_ref() }
    }
}

impl core::ops::DerefMut for SysfsDevice {
    fn deref_mut(&mut self) -> &mut verbs_sysfs_dev {
        // SAFETY: allocated and initialised by `new`; `&mut self` makes this the only reference.
        unsafe { self.0.as_mut() }
    }
}

impl Drop for SysfsDevice {
    fn drop(&mut self) {
        // SAFETY: `new` allocated the memory with calloc, and `into_raw`, which forgets `self`, was not
        // called.
        unsafe { libc::free(self.0.as_ptr().cast()) };
    }
}

/// The node type of verbs.h for the kernel's (RDMA_NODE_*).
pub fn node_type(kernel: u32) -> ibv_node_type {
    // The numbers are equal. A new one of the kernel is unknown until verbs.h has a name for it.
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
