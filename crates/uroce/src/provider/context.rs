//! Devices of the list, and contexts.

use core::ffi::{c_char, c_int, c_void};
use core::mem::offset_of;
use core::ptr::null_mut;
use std::sync::Arc;

use ibverbs_abi::*;
use libc::{EACCES, EINVAL, ENODATA, ENOMEM};

use super::object::{Answer, Object, Plain, ToC};
use super::{channel, table};
use crate::config::Config;
use crate::device::Device;
use crate::device::events::AsyncEvents;
use crate::transport;

/// Behind a device of the list.
pub struct DevicePart {
    core: &'static verbs_software_core,
    config: Config,
}

type ListedDevice = Object<verbs_device, DevicePart>;

/// A context, as the library allocates it.
#[repr(C)]
struct Context {
    /// From a box.
    ours: *mut ContextPart,
    verbs: verbs_context,
}

/// Behind a context.
pub struct ContextPart {
    pub device: Arc<Device>,
    pub events: Arc<AsyncEvents>,
    core: &'static verbs_software_core,
    node_guid: u64,
}

/// How many completion vectors there are: as many as processors, as with Soft-RoCE.
pub fn completion_vectors() -> c_int {
    std::thread::available_parallelism().map_or(1, |n| n.get() as c_int)
}

static SOFTWARE_OPS: SharedOps = SharedOps(verbs_software_ops {
    ops: verbs_device_ops {
        name: c"uroce".as_ptr(),
        match_min_abi_version: 0,
        match_max_abi_version: 0,
        match_table: core::ptr::null(),
        static_providers: null_mut(),
        match_device: None,
        alloc_context: Some(alloc_context),
        import_context: None,
        alloc_device: None,
        uninit_device: Some(uninit_device),
    },
    node_guid,
    index,
    create_comp_channel: channel::create,
    destroy_comp_channel: channel::destroy,
    query_gid,
    query_gid_table,
    query_pkey,
});

struct SharedOps(verbs_software_ops);

// SAFETY: it is never written to, and its pointers are to static data.
unsafe impl Sync for SharedOps {}

fn put_name(field: &mut [c_char], name: &[u8]) {
    for (to, from) in field
        .iter_mut()
        .zip(name.iter().take(IBV_SYSFS_NAME_MAX - 1))
    {
        *to = *from as c_char;
    }
}

/// Makes a device for the library's list, without references yet. It is freed by its
/// `uninit_device`.
pub fn new_device(core: &'static verbs_software_core, config: Config) -> *mut verbs_device {
    let mut device = verbs_device::zeroed();
    device.device.node_type = IBV_NODE_CA;
    device.device.transport_type = IBV_TRANSPORT_IB;
    put_name(&mut device.device.name, config.name.as_bytes());
    put_name(&mut device.device.dev_name, config.name.as_bytes());
    device.ops = &raw const SOFTWARE_OPS.0.ops;
    ListedDevice::make(device, DevicePart { core, config })
}

unsafe extern "C" fn uninit_device(device: *mut verbs_device) {
    // SAFETY: by the op's contract a device of `new_device` that nobody uses any more.
    unsafe { ListedDevice::free(device) }
}

unsafe extern "C" fn node_guid(device: *mut ibv_device) -> u64 {
    // SAFETY: by the op's contract a device of `new_device`, which begins as an ibv_device.
    let device = unsafe { ListedDevice::of(device.cast()) };
    u64::from_ne_bytes(transport::node_guid(&device.config))
}

unsafe extern "C" fn index(device: *mut ibv_device) -> c_int {
    // SAFETY: as in `node_guid`.
    let device = unsafe { ListedDevice::of(device.cast()) };
    transport::ifindex(&device.config)
}

unsafe extern "C" fn alloc_context(
    device: *mut ibv_device,
    cmd_fd: c_int,
    _private: *mut c_void,
) -> *mut verbs_context {
    // SAFETY: by the op's contract a device of `new_device`, which begins as an ibv_device.
    let listed = unsafe { ListedDevice::of(device.cast()) };
    // SAFETY: `device` is live.
    unsafe { open(device, listed, cmd_fd) }.to_c()
}

/// # Safety
/// `device` is `listed`'s.
unsafe fn open(
    device: *mut ibv_device,
    listed: &DevicePart,
    cmd_fd: c_int,
) -> Answer<*mut verbs_context> {
    let errno = |error: std::io::Error| error.raw_os_error().unwrap_or(EINVAL);
    let opened = Device::open(&listed.config).map_err(errno)?;
    let (events, async_fd) = match AsyncEvents::new() {
        Ok(made) => made,
        Err(error) => {
            opened.close();
            return Err(errno(error));
        }
    };
    // SAFETY: the device is live, the size and offset are those of our structure.
    let context = unsafe {
        (listed.core.init_and_alloc_context)(
            device,
            cmd_fd,
            size_of::<Context>(),
            core::ptr::without_provenance_mut(offset_of!(Context, verbs)),
            RDMA_DRIVER_UNKNOWN,
        )
    }
    .cast::<Context>();
    if context.is_null() {
        // SAFETY: ours, and known to nobody else.
        unsafe { libc::close(async_fd) };
        opened.close();
        return Err(ENOMEM);
    }
    let events = Arc::new(events);
    opened.add_context(&events);
    let part = ContextPart {
        device: opened,
        events,
        core: listed.core,
        node_guid: u64::from_ne_bytes(transport::node_guid(&listed.config)),
    };
    // SAFETY: the library has allocated and initialised the context, which nobody else knows yet.
    unsafe {
        (*context).ours = Box::into_raw(Box::new(part));
        let public = &raw mut (*context).verbs.context;
        (*public).async_fd = async_fd;
        (*public).num_comp_vectors = completion_vectors();
        (listed.core.set_ops)(public, &table(listed.core));
        Ok(&raw mut (*context).verbs)
    }
}

/// Our structure around a context.
fn around(context: *mut ibv_context) -> *mut Context {
    const BEFORE: usize = offset_of!(Context, verbs) + offset_of!(verbs_context, context);
    context.wrapping_byte_sub(BEFORE).cast()
}

/// Our part of a context.
///
/// # Safety
/// `context` is an open context of a device of ours, and stays open while the reference is used.
pub unsafe fn part<'a>(context: *mut ibv_context) -> &'a ContextPart {
    // SAFETY: by the contract `open` has made it.
    unsafe { &*(*around(context)).ours }
}

impl ContextPart {
    /// EACCES in a child of the process that has opened the context, as for the kernel's.
    pub fn check(&self) -> Answer<&Arc<Device>> {
        if self.device.is_ours() {
            Ok(&self.device)
        } else {
            Err(EACCES)
        }
    }

    pub fn node_guid(&self) -> u64 {
        self.node_guid
    }
}

/// Closes a context.
pub unsafe extern "C" fn free_context(context: *mut ibv_context) {
    let whole = around(context);
    // SAFETY: by the op's contract nobody uses the context any more; the library allocated it by
    // calloc and leaves the freeing to us.
    unsafe {
        let part = Box::from_raw((*whole).ours);
        if part.device.is_ours() {
            part.device.remove_context(&part.events);
        }
        (part.core.uninit_context)(&raw mut (*whole).verbs);
        let ContextPart { device, events, .. } = *part;
        device.close();
        drop(events);
        libc::free(whole.cast());
    }
}

unsafe extern "C" fn query_gid(
    context: *mut ibv_context,
    port_num: u32,
    gid_index: u32,
    entry: *mut ibv_gid_entry,
) -> c_int {
    // SAFETY: by the op's contract the context is open.
    let device = &unsafe { part(context) }.device;
    if port_num != 1 {
        return EINVAL;
    }
    if gid_index >= super::attributes::GIDS {
        return EINVAL;
    }
    let gids = device.net.gids();
    match gids.get(gid_index as usize) {
        Some(Some(found)) => {
            // SAFETY: by the op's contract the entry is writable.
            unsafe { entry.write(gid_entry(gid_index, found)) };
            0
        }
        _ => ENODATA,
    }
}

fn gid_entry(index: u32, found: &transport::GidEntry) -> ibv_gid_entry {
    ibv_gid_entry {
        gid: ibv_gid { raw: found.gid },
        gid_index: index,
        port_num: 1,
        gid_type: IBV_GID_TYPE_ROCE_V2,
        ndev_ifindex: found.ifindex,
    }
}

unsafe extern "C" fn query_gid_table(
    context: *mut ibv_context,
    entries: *mut ibv_gid_entry,
    max_entries: usize,
) -> isize {
    // SAFETY: by the op's contract the context is open.
    let device = &unsafe { part(context) }.device;
    let gids = device.net.gids();
    let present = gids
        .iter()
        .zip(0..)
        .filter_map(|(found, index)| Some((index, found.as_ref()?)));
    let mut count = 0;
    for (index, found) in present.take(max_entries) {
        // SAFETY: by the op's contract there is room for that many entries.
        unsafe { entries.add(count).write(gid_entry(index, found)) };
        count += 1;
    }
    count as isize
}

unsafe extern "C" fn query_pkey(
    _context: *mut ibv_context,
    port_num: u8,
    index: c_int,
    pkey: *mut u16,
) -> c_int {
    if port_num != 1 || index != 0 {
        return EINVAL;
    }
    // SAFETY: by the op's contract it is writable.
    unsafe { pkey.write(u16::MAX) };
    0
}
