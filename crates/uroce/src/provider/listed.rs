//! Devices of the library's list: the ops that the library calls on them, and opening, importing and closing
//! their contexts.
//!
//! Not here: what a context has (`context`), and what the contexts of a device share (`device`).

use core::ffi::{c_char, c_int, c_void};
use core::mem::offset_of;
use core::ptr::null_mut;
use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd};

use ibverbs_abi::*;
use libc::{EINVAL, ENOMEM};

use super::attributes::{self, query_gid_table};
use super::channel::{self, cq_of_event, destroy_comp_channel};
use super::context::{Context, ContextPrivate, container_of, object_of_event, raise_event};
use super::ffi::{Result, ReturnToC, c_functions};
use super::object::{Object, Zeroable};
use super::ops_table;
use super::{close, import};
use crate::cancellation;
use crate::cm::ucma;
use crate::config::Config;
use crate::device::Device;
use crate::device::command_file::CommandFile;
use crate::profile::Fabric;
use crate::transport;
use crate::umad;

/// The private part of a device of the library's list.
pub struct DevicePrivate {
    core: &'static verbs_software_core,
    config: Config,
}

type ListedDevice = Object<verbs_device, DevicePrivate>;

static SOFTWARE_OPS: SharedOps = SharedOps(verbs_software_ops {
    ops: verbs_device_ops {
        name: c"uroce".as_ptr(),
        match_min_abi_version: 0,
        match_max_abi_version: 0,
        match_table: core::ptr::null(),
        static_providers: null_mut(),
        match_device: None,
        alloc_context: Some(alloc_context),
        import_context: Some(import_context),
        alloc_device: None,
        uninit_device: Some(uninit_device),
    },
    node_guid,
    index,
    create_comp_channel,
    destroy_comp_channel,
    cq_of_event,
    object_of_event,
    raise_event,
    query_gid,
    query_gid_table,
    query_pkey,
});

struct SharedOps(verbs_software_ops);

// SAFETY: it is never written to, and its pointers point to static data and functions.
unsafe impl Sync for SharedOps {}

c_functions! {
    channel {
        create_comp_channel(context: *mut ibv_context) -> *mut ibv_comp_channel;
    }
    attributes {
        query_gid(
            context: *mut ibv_context,
            port_num: u32,
            gid_index: u32,
            entry: *mut ibv_gid_entry,
        ) -> c_int;
        query_pkey(
            context: *mut ibv_context,
            port_num: u8,
            index: c_int,
            pkey: *mut u16,
        ) -> c_int;
    }
}

/// Copies a text, cut where the field needs its NUL.
fn put_text(field: &mut [c_char], text: &str) {
    field.fill(0);
    let room = field.len() - 1;
    for (to, from) in field.iter_mut().zip(text.bytes().take(room)) {
        *to = from as c_char;
    }
}

/// Creates a device for the library's list, without references yet.
///
/// The library owns the device, and frees it through `uninit_device` of its ops. No socket is opened
/// before a context is. `core` holds the functions that the device needs of the library. `uverbs` is N of
/// `uverbsN`, if the process sees the device's files; else the device has no paths. Never NULL.
pub fn new_device(
    core: &'static verbs_software_core,
    config: Config,
    uverbs: Option<u32>,
) -> *mut verbs_device {
    ucma::configure(&config);
    let mut device = verbs_device::zeroed();
    (device.device.node_type, device.device.transport_type) = match config.profile.fabric {
        Fabric::Unspecified => (IBV_NODE_UNSPECIFIED, IBV_TRANSPORT_UNSPECIFIED),
        _ => (IBV_NODE_CA, IBV_TRANSPORT_IB),
    };
    put_text(&mut device.device.name, &config.name);
    put_text(&mut device.device.dev_name, &config.name);
    if let Some(number) = uverbs {
        let class = "/sys/class";
        put_text(&mut device.device.dev_name, &format!("uverbs{number}"));
        let path = format!("{class}/infiniband_verbs/uverbs{number}");
        put_text(&mut device.device.dev_path, &path);
        let path = format!("{class}/infiniband/{}", config.name);
        put_text(&mut device.device.ibdev_path, &path);
    }
    device.ops = &raw const SOFTWARE_OPS.0.ops;
    ListedDevice::alloc(device, DevicePrivate { core, config })
}

unsafe extern "C" fn uninit_device(device: *mut verbs_device) {
    // SAFETY: the library passes a device of `new_device` without references.
    unsafe { ListedDevice::free(device) }
}

unsafe extern "C" fn node_guid(device: *mut ibv_device) -> u64 {
    let _no_cancellation = cancellation::disable();
    // SAFETY: the library passes a live device of `new_device`, whose public structure begins with an
    // ibv_device.
    let device = unsafe { ListedDevice::of(device.cast()) };
    u64::from_ne_bytes(transport::node_guid(&device.config))
}

unsafe extern "C" fn index(_device: *mut ibv_device) -> c_int {
    transport::NO_KERNEL_INDEX
}

unsafe extern "C" fn alloc_context(
    device: *mut ibv_device,
    _cmd_fd: c_int,
    _private: *mut c_void,
) -> *mut verbs_context {
    let _no_cancellation = cancellation::disable();
    // SAFETY: the library passes a live device of `new_device`, whose public structure begins with an
    // ibv_device.
    let listed = unsafe { ListedDevice::of(device.cast()) };
    let command_file = CommandFile::create().map_err(errno);
    // SAFETY: `device` is live and `listed` its private part.
    command_file
        .and_then(|(fd, file)| unsafe { open(device, listed, (fd, file)) })
        .return_to_c()
}

/// Opens a context with the command descriptor of another one, which it owns then: also if it fails. NULL
/// with the errno values of [`import::find`].
unsafe extern "C" fn import_context(device: *mut ibv_device, cmd_fd: c_int) -> *mut verbs_context {
    let _no_cancellation = cancellation::disable();
    // SAFETY: the library passes a live device of `new_device`, whose public structure begins with an
    // ibv_device.
    let listed = unsafe { ListedDevice::of(device.cast()) };
    let found = match Device::find(&listed.config.name) {
        Some(open) => import::find(&open, cmd_fd),
        None => Err(Errno(import::of_no_context(cmd_fd))),
    };
    // SAFETY: the caller gives up the descriptor, which is open, as a file was found.
    let owned = found.map(|file| (unsafe { OwnedFd::from_raw_fd(cmd_fd) }, file));
    // SAFETY: `device` is live and `listed` its private part.
    owned
        .and_then(|command_file| unsafe { open(device, listed, command_file) })
        .return_to_c()
}

/// An error without errno says that the interface or address does not exist.
fn errno(error: std::io::Error) -> Errno {
    Errno(error.raw_os_error().unwrap_or(EINVAL))
}

/// Opens a context: the device, if it is the first, and the async event queue.
///
/// # Safety
/// `device` is live and `listed` its private part.
unsafe fn open(
    device: *mut ibv_device,
    listed: &DevicePrivate,
    (cmd_fd, command_file): (OwnedFd, CommandFile),
) -> Result<*mut verbs_context> {
    ucma::serve();
    umad::serve();
    let opened = Device::open(&listed.config).map_err(errno)?;
    let (events, async_fd) = match opened.events.add_context() {
        Ok(created) => created,
        Err(error) => {
            opened.close();
            return Err(errno(error));
        }
    };
    // SAFETY: `device` is live; size and offset are those of `Context`.
    let context = unsafe {
        (listed.core.init_and_alloc_context)(
            device,
            cmd_fd.into_raw_fd(),
            size_of::<Context>(),
            core::ptr::without_provenance_mut(offset_of!(Context, verbs)),
            RDMA_DRIVER_UNKNOWN,
        )
    }
    .cast::<Context>();
    if context.is_null() {
        // SAFETY: opened above, and known to nobody else.
        unsafe { libc::close(async_fd) };
        opened.events.remove_context(&events);
        opened.close();
        return Err(Errno(ENOMEM));
    }
    let num_comp_vectors = opened.completion_vectors as c_int;
    opened.command_files.add(command_file);
    let private = ContextPrivate {
        node_guid: u64::from_ne_bytes(opened.node_guid),
        device: opened,
        events,
        core: listed.core,
        command_file,
    };
    // SAFETY: the library has allocated and initialised the context; nobody else knows it yet.
    unsafe {
        (*context).private = Box::into_raw(Box::new(private));
        let public = &raw mut (*context).verbs.context;
        (*public).async_fd = async_fd;
        (*public).num_comp_vectors = num_comp_vectors;
        (listed.core.set_ops)(public, &ops_table(listed.core));
        Ok(&raw mut (*context).verbs)
    }
}

/// Closes a context, and ends the objects that the program has left in it. With the last context of the
/// device, its sockets and background thread go.
pub unsafe extern "C" fn free_context(context: *mut ibv_context) {
    let _no_cancellation = cancellation::disable();
    let whole = container_of(context);
    // SAFETY: the library passes a context of `open` that nobody uses any more. It allocated the context
    // by calloc and leaves freeing it to the provider.
    unsafe {
        let private = Box::from_raw((*whole).private);
        close::close_objects(context, &private.device);
        if private.device.owned_by_this_process() {
            let device = &private.device;
            device.events.remove_context(&private.events);
            device.command_files.remove(private.command_file);
        }
        (private.core.uninit_context)(&raw mut (*whole).verbs);
        let ContextPrivate { device, events, .. } = *private;
        device.close();
        drop(events);
        libc::free(whole.cast());
        ucma::after_close();
    }
}
