//! Devices that the kernel does not know: what the library and such a device ask of each other, where
//! for other devices sysfs and uverbs answer. Not in the C library; both sides are Rust's.

use crate::*;

/// A software device's table. `verbs_device.ops` points to its first field.
#[repr(C)]
pub struct verbs_software_ops {
    /// `alloc_context` gets -1 for `cmd_fd`, and sets `async_fd` itself: a file that
    /// [`ib_uverbs_async_event_desc`]s can be read from.
    pub ops: verbs_device_ops,
    /// In network byte order.
    pub node_guid: unsafe extern "C" fn(device: *mut ibv_device) -> u64,
    /// For `ibv_get_device_index`.
    pub index: unsafe extern "C" fn(device: *mut ibv_device) -> c_int,
    /// Allocates (`malloc`) and fills a channel; its `fd` gives [`ib_uverbs_comp_event_desc`]s whose
    /// handle is the address of the `ibv_cq`. NULL with errno.
    pub create_comp_channel:
        unsafe extern "C" fn(context: *mut ibv_context) -> *mut ibv_comp_channel,
    /// Closes and frees. Nobody uses the channel any more.
    pub destroy_comp_channel: unsafe extern "C" fn(channel: *mut ibv_comp_channel),
    /// Writes an entry of the GID table. 0 or an errno value: ENODATA for an empty entry, EINVAL for a
    /// port or index that does not exist.
    pub query_gid: unsafe extern "C" fn(
        context: *mut ibv_context,
        port_num: u32,
        gid_index: u32,
        entry: *mut ibv_gid_entry,
    ) -> c_int,
    /// Writes up to `max_entries` entries that are not empty. Their number, or a negative errno value.
    pub query_gid_table: unsafe extern "C" fn(
        context: *mut ibv_context,
        entries: *mut ibv_gid_entry,
        max_entries: usize,
    ) -> isize,
    /// In network byte order. 0 or an errno value.
    pub query_pkey: unsafe extern "C" fn(
        context: *mut ibv_context,
        port_num: u8,
        index: c_int,
        pkey: *mut u16,
    ) -> c_int,
}

/// What a software device needs of the library.
#[derive(Clone, Copy)]
pub struct verbs_software_core {
    /// `_verbs_init_and_alloc_context`.
    pub init_and_alloc_context: unsafe extern "C" fn(
        device: *mut ibv_device,
        cmd_fd: c_int,
        alloc_size: usize,
        context_offset: *mut verbs_context,
        driver_id: u32,
    ) -> *mut c_void,
    /// All ops, each as it is where a provider has none: for `..*default_ops` in the device's table.
    pub default_ops: &'static verbs_context_ops,
    /// Gives a context its ops, all of them.
    pub set_ops: unsafe fn(context: *mut ibv_context, ops: &verbs_context_ops),
    /// `verbs_uninit_context`.
    pub uninit_context: unsafe extern "C" fn(context: *mut verbs_context),
}
