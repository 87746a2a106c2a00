//! Devices and drivers, as providers and library share them.

use crate::*;

/// A link of a circular list (ccan's).
#[repr(C)]
#[derive(Clone, Copy)]
pub struct list_node {
    pub next: *mut list_node,
    pub prev: *mut list_node,
}

/// Kinds of [`verbs_match_ent`]; the sentinel ends a table.
pub const VERBS_MATCH_SENTINEL: u32 = 0;
pub const VERBS_MATCH_PCI: u32 = 1;
pub const VERBS_MATCH_MODALIAS: u32 = 2;
pub const VERBS_MATCH_DRIVER_ID: u32 = 3;

/// One way in which a driver recognises its devices. Static data of the provider.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct verbs_match_ent {
    pub driver_data: *mut c_void,
    pub u: verbs_match_ent_u,
    pub vendor: u16,
    pub device: u16,
    pub kind: u8,
}

/// Part of [`verbs_match_ent`]: `u`.
#[repr(C)]
#[derive(Clone, Copy)]
pub union verbs_match_ent_u {
    pub modalias: *const c_char,
    pub driver_id: u64,
}

/// What has been read of a [`verbs_sysfs_dev`] so far: `flags`.
pub const VSYSFS_READ_MODALIAS: u32 = 1 << 0;
pub const VSYSFS_READ_NODE_GUID: u32 = 1 << 1;

/// A device that the kernel has, as discovery found it. The library owns it; providers read it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct verbs_sysfs_dev {
    pub entry: list_node,
    pub provider_data: *mut c_void,
    pub match_: *const verbs_match_ent,
    pub flags: c_uint,
    pub sysfs_name: [c_char; IBV_SYSFS_NAME_MAX],
    pub sysfs_cdev: dev_t,
    pub ibdev_name: [c_char; IBV_SYSFS_NAME_MAX],
    pub ibdev_path: [c_char; IBV_SYSFS_PATH_MAX],
    pub modalias: [c_char; 512],
    pub node_guid: u64,
    pub driver_id: u32,
    pub node_type: ibv_node_type,
    /// RDMA netlink's index of the device; -1 where netlink has not been asked.
    pub ibdev_idx: c_int,
    pub num_ports: u32,
    /// The kernel driver's ABI version.
    pub abi_ver: u32,
    /// When the kernel made the device, where there is no index to tell devices apart.
    pub time_created: timespec,
}

/// A driver, as it registers itself. Static data of the provider.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct verbs_device_ops {
    pub name: *const c_char,
    pub match_min_abi_version: u32,
    pub match_max_abi_version: u32,
    pub match_table: *const verbs_match_ent,
    pub static_providers: *mut *const verbs_device_ops,
    pub match_device: Option<unsafe extern "C" fn(sysfs_dev: *mut verbs_sysfs_dev) -> bool>,
    pub alloc_context: Option<
        unsafe extern "C" fn(
            device: *mut ibv_device,
            cmd_fd: c_int,
            private_data: *mut c_void,
        ) -> *mut verbs_context,
    >,
    pub import_context:
        Option<unsafe extern "C" fn(device: *mut ibv_device, cmd_fd: c_int) -> *mut verbs_context>,
    pub alloc_device:
        Option<unsafe extern "C" fn(sysfs_dev: *mut verbs_sysfs_dev) -> *mut verbs_device>,
    pub uninit_device: Option<unsafe extern "C" fn(device: *mut verbs_device)>,
}

/// A device, as the provider allocates it; it begins as an [`ibv_device`]. `uninit_device` frees
/// it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct verbs_device {
    pub device: ibv_device,
    pub ops: *const verbs_device_ops,
    /// An atomic integer: who holds the device.
    pub refcount: c_int,
    pub entry: list_node,
    /// Null for the devices that mlx5 makes of its own (VFIO).
    pub sysfs: *mut verbs_sysfs_dev,
    pub core_support: u64,
}

/// Levels of `__verbs_log`, and what VERBS_LOG_LEVEL sets.
pub const VERBS_LOG_LEVEL_NONE: u32 = 0;
pub const VERBS_LOG_ERR: u32 = 1;
pub const VERBS_LOG_WARN: u32 = 2;
pub const VERBS_LOG_INFO: u32 = 3;
pub const VERBS_LOG_DEBUG: u32 = 4;
