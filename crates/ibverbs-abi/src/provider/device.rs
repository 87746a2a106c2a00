//! Devices and drivers (driver.h).

use crate::*;

/// A node of a circular list (ccan/list.h).
#[repr(C)]
#[derive(Clone, Copy)]
pub struct list_node {
    pub next: *mut list_node,
    pub prev: *mut list_node,
}

/// Kinds of [`verbs_match_ent`]. The sentinel ends a table.
pub const VERBS_MATCH_SENTINEL: u32 = 0;
pub const VERBS_MATCH_PCI: u32 = 1;
pub const VERBS_MATCH_MODALIAS: u32 = 2;
pub const VERBS_MATCH_DRIVER_ID: u32 = 3;

/// A rule by which a driver matches devices. Static data of the provider.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct verbs_match_ent {
    pub driver_data: *mut c_void,
    pub u: verbs_match_ent_u,
    pub vendor: u16,
    pub device: u16,
    pub kind: u8,
}

/// The type of `u` in [`verbs_match_ent`].
#[repr(C)]
#[derive(Clone, Copy)]
pub union verbs_match_ent_u {
    pub modalias: *const c_char,
    pub driver_id: u64,
}

/// `flags` of [`verbs_sysfs_dev`]: the attributes that have been read.
pub const VSYSFS_READ_MODALIAS: u32 = 1 << 0;
pub const VSYSFS_READ_NODE_GUID: u32 = 1 << 1;

/// A device of the kernel, as discovery found it. The library owns it; providers read it.
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
    /// The device's index in RDMA netlink; -1 if it was not found through netlink.
    pub ibdev_idx: c_int,
    pub num_ports: u32,
    /// The kernel driver's ABI version.
    pub abi_ver: u32,
    /// When the kernel created the device; identifies it if there is no index.
    pub time_created: timespec,
}

/// A driver as it registers. Static data of the provider.
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

/// A device. Allocated by the provider, freed by `uninit_device`. It begins like an [`ibv_device`].
#[repr(C)]
#[derive(Clone, Copy)]
pub struct verbs_device {
    pub device: ibv_device,
    pub ops: *const verbs_device_ops,
    /// Atomic reference count.
    pub refcount: c_int,
    pub entry: list_node,
    /// Null for devices without a kernel driver (mlx5 over VFIO).
    pub sysfs: *mut verbs_sysfs_dev,
    pub core_support: u64,
}

/// Log levels of `__verbs_log` and VERBS_LOG_LEVEL.
pub const VERBS_LOG_LEVEL_NONE: u32 = 0;
pub const VERBS_LOG_ERR: u32 = 1;
pub const VERBS_LOG_WARN: u32 = 2;
pub const VERBS_LOG_INFO: u32 = 3;
pub const VERBS_LOG_DEBUG: u32 = 4;
