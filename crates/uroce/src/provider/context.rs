//! Devices of the library's list and their contexts: opening, importing, closing; and the software
//! ops that are no verbs: GIDs, P_Keys.
//!
//! Not here: the objects of a context, which have a file each, and what the contexts of a device
//! share (`device`).

use core::ffi::{c_char, c_int, c_void};
use core::mem::offset_of;
use core::ptr::null_mut;
use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd};
use std::sync::Arc;

use ibverbs_abi::*;
use libc::{EACCES, EINVAL, ENODATA, ENOMEM};

use super::channel::{self, cq_of_event, destroy_comp_channel};
use super::ffi::{Result, ReturnToC, c_functions};
use super::object::{Object, Zeroable};
use super::ops_table;
use super::{close, import};
use crate::cancellation;
use crate::cm::ucma;
use crate::config::Config;
use crate::device::Device;
use crate::device::command_file::CommandFile;
use crate::device::events::{AsyncEvents, Record as _};
use crate::device::handles::{self, ObjectKind};
use crate::profile::Fabric;
use crate::transport::{self, GidType};
use crate::umad;

/// The private part of a device of the library's list.
pub struct DevicePrivate {
    core: &'static verbs_software_core,
    config: Config,
}

type ListedDevice = Object<verbs_device, DevicePrivate>;

/// A context. The library allocates it, with room in front of its own part.
#[repr(C)]
struct Context {
    /// The pointer of `Box::into_raw`.
    private: *mut ContextPrivate,
    verbs: verbs_context,
}

/// The private part of a context.
pub struct ContextPrivate {
    /// The device, which the context keeps open.
    pub device: Arc<Device>,
    /// The context's queue of async events.
    pub events: Arc<AsyncEvents>,
    core: &'static verbs_software_core,
    /// In network byte order.
    node_guid: u64,
    /// The file that the command descriptor refers to. Contexts that are imported share it.
    command_file: CommandFile,
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
    software {
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

/// The structure around a context.
fn container_of(context: *mut ibv_context) -> *mut Context {
    const BEFORE: usize = offset_of!(Context, verbs) + offset_of!(verbs_context, context);
    context.wrapping_byte_sub(BEFORE).cast()
}

/// The private part of a context.
///
/// # Safety
/// `context` is an open context of a uroce device, and stays open while the reference is used.
pub unsafe fn private<'a>(context: *mut ibv_context) -> &'a ContextPrivate {
    // SAFETY: the caller passes an open context, for which `open` has set the pointer.
    unsafe { &*(*container_of(context)).private }
}

impl ContextPrivate {
    /// The device; EACCES in a child of the process that opened the context, as with a kernel device.
    pub fn check(&self) -> Result<&Arc<Device>> {
        if self.device.owned_by_this_process() {
            Ok(&self.device)
        } else {
            Err(Errno(EACCES))
        }
    }

    /// The file that the context's command descriptor refers to.
    pub fn command_file(&self) -> CommandFile {
        self.command_file
    }

    /// In network byte order.
    pub fn node_guid(&self) -> u64 {
        self.node_guid
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

/// The object that an async event names by its handle; NULL if there is none, or the events of its type are
/// not about an object. Also counts the event, and sends those that did not fit the context's socket: the
/// program has just read one.
unsafe extern "C" fn object_of_event(
    context: *mut ibv_context,
    event: *const ib_uverbs_async_event_desc,
) -> *mut c_void {
    // SAFETY: the library passes an open context and a readable event.
    let (context, event) = unsafe { (private(context), &*event) };
    if context.device.owned_by_this_process() {
        context.events.take(event.source());
    }
    let kind = match event.event_type {
        IBV_EVENT_CQ_ERR => ObjectKind::Cq,
        IBV_EVENT_QP_FATAL
        | IBV_EVENT_QP_REQ_ERR
        | IBV_EVENT_QP_ACCESS_ERR
        | IBV_EVENT_COMM_EST
        | IBV_EVENT_SQ_DRAINED
        | IBV_EVENT_PATH_MIG
        | IBV_EVENT_PATH_MIG_ERR
        | IBV_EVENT_QP_LAST_WQE_REACHED => ObjectKind::Qp,
        IBV_EVENT_SRQ_ERR | IBV_EVENT_SRQ_LIMIT_REACHED => ObjectKind::Srq,
        _ => return null_mut(),
    };
    let found = handles::object_of_event(kind, event.element);
    found.map_or(null_mut(), core::ptr::with_exposed_provenance_mut)
}

/// Raises an event that the library injects.
unsafe extern "C" fn raise_event(
    context: *mut ibv_context,
    event: *const ib_uverbs_async_event_desc,
) {
    // SAFETY: the library passes an open context and a readable event.
    let (context, event) = unsafe { (private(context), *event) };
    if context.device.owned_by_this_process() {
        context.events.push(event);
    }
}

/// The software ops that return a [`Result`].
mod software {
    use super::*;
    use crate::provider::attributes::check_port;

    /// Reports an entry of the GID table. EINVAL for a port or index that does not exist, ENODATA for an
    /// empty entry, EACCES in a child of the process that opened the context.
    ///
    /// # Safety
    /// `context` is open, `entry` writable.
    pub unsafe fn query_gid(
        context: *mut ibv_context,
        port_num: u32,
        gid_index: u32,
        entry: *mut ibv_gid_entry,
    ) -> Result<()> {
        // SAFETY: the caller passes an open context.
        let device = unsafe { private(context) }.check()?;
        check_port(device, port_num)?;
        if gid_index >= device.profile.limits.gid_tbl_len {
            return Err(Errno(EINVAL));
        }
        let gids = device.net.gids();
        let found = gids.get(gid_index as usize).filter(|_| port_num == 1);
        let Some(Some(found)) = found else {
            return Err(Errno(ENODATA));
        };
        // SAFETY: the caller passes a writable entry.
        unsafe { entry.write(gid_entry(gid_index, found)) };
        Ok(())
    }

    /// Reports an entry of the P_Key table. The first is the default P_Key; others, which devices of some
    /// profiles have, are empty: 0. EINVAL for an index that does not exist, EACCES in a child of the process
    /// that opened the context.
    ///
    /// # Safety
    /// `context` is open, `pkey` writable.
    pub unsafe fn query_pkey(
        context: *mut ibv_context,
        port_num: u8,
        index: c_int,
        pkey: *mut u16,
    ) -> Result<()> {
        // SAFETY: the caller passes an open context.
        let device = unsafe { private(context) }.check()?;
        check_port(device, port_num.into())?;
        if !(0..device.profile.limits.pkey_tbl_len as c_int).contains(&index) {
            return Err(Errno(EINVAL));
        }
        let value = if index == 0 { u16::MAX } else { 0 };
        // SAFETY: the caller passes a writable P_Key.
        unsafe { pkey.write(value) };
        Ok(())
    }
}

fn gid_entry(index: u32, found: &transport::GidEntry) -> ibv_gid_entry {
    ibv_gid_entry {
        gid: ibv_gid { raw: found.gid },
        gid_index: index,
        port_num: 1,
        gid_type: match found.gid_type {
            GidType::Ib => IBV_GID_TYPE_IB,
            GidType::RoceV1 => IBV_GID_TYPE_ROCE_V1,
            GidType::RoceV2 => IBV_GID_TYPE_ROCE_V2,
        },
        ndev_ifindex: found.ifindex,
    }
}

/// Reports the entries of the GID table that are not empty, up to `max_entries`. Returns their number, or
/// -EACCES in a child of the process that opened the context.
unsafe extern "C" fn query_gid_table(
    context: *mut ibv_context,
    entries: *mut ibv_gid_entry,
    max_entries: usize,
) -> isize {
    // SAFETY: the library passes an open context.
    let device = match unsafe { private(context) }.check() {
        Ok(device) => device,
        Err(Errno(errno)) => return -(errno as isize),
    };
    let gids = device.net.gids();
    let present = gids
        .iter()
        .zip(0..)
        .filter_map(|(entry, index)| Some((index, entry.as_ref()?)))
        .filter(|(index, _)| *index < device.profile.limits.gid_tbl_len);
    let mut count = 0;
    for (index, found) in present.take(max_entries) {
        // SAFETY: `entries` has room for `max_entries`, and `count` is less than that.
        unsafe { entries.add(count).write(gid_entry(index, found)) };
        count += 1;
    }
    count as isize
}
