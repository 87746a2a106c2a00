//! Devices as verbs: the device list, names, GUIDs and indices; opening, importing and closing.
//!
//! Not here: the search for devices (`discover`), the providers (`provider`), the lock of the list
//! (`list_lock.rs`).

use core::{
    ffi::{c_char, c_int, c_void},
    ptr,
    sync::atomic::Ordering,
};
use ibverbs_abi::Errno;
use std::os::fd::IntoRawFd;

use ibverbs_abi::{
    _compat_ibv_port_attr, VSYSFS_READ_NODE_GUID, ibv_context, ibv_device, ibv_gid_entry,
    verbs_context, verbs_device, verbs_sysfs_dev,
};

use super::list_lock::ListLock;
use super::{addresses, cq, device_attr, gid, gid_table, port, srq};
use crate::{
    diagnose,
    discover::{self, sysfs},
    env, log, memory,
    provider::{
        context::{LibraryOps, adopt},
        device::{self, DeviceList},
        ops::ops,
        software::{self, SoftwareDevices},
    },
    sys,
    uverbs::{self, cmd::device::alloc_async_fd, state::state},
};

/// The state of the device list. Its lock is held while providers are loaded and match devices. As in the
/// C library, a provider must not request the device list during that.
struct Devices {
    /// Whether [`initialize`] has run.
    initialized: bool,
    /// Whether IBV_UROCE asked for software devices then.
    software_requested: bool,
    /// The check of RLIMIT_MEMLOCK waits for the first device of the kernel.
    limit_unchecked: bool,
    software: SoftwareDevices,
    list: DeviceList,
}

static DEVICES: ListLock<Devices> = ListLock::new(Devices::new(), Devices::new);

/// Called in the child by the thread that forked.
pub fn after_fork_in_child() {
    DEVICES.after_fork_in_child();
}

/// The ops that the library itself puts into each context.
static LIBRARY: LibraryOps = LibraryOps {
    create_cq_ex: cq::lib_create_cq_ex,
    create_srq_ex: srq::lib_create_srq_ex,
    query_port: port::lib_query_port,
    compat_query_port,
    compat_query_device: device_attr::ibv_query_device,
};

/// The verbs that explanations need (IBV_EXPLAIN).
static HOOKS: diagnose::Hooks = diagnose::Hooks { query_gid, verbs };

/// The names and addresses of verbs that programs have called with NULL.
fn verbs() -> Vec<(&'static str, usize)> {
    let mut all = addresses::all();
    all.push(("ibv_close_device", ibv_close_device as *const () as usize));
    all
}

/// An entry of a port's GID table; None if it is empty or cannot be read.
///
/// # Safety
/// `context` is open.
unsafe fn query_gid(context: *mut ibv_context, port: u8, index: u32) -> Option<ibv_gid_entry> {
    // SAFETY: the context is open, as the caller promises.
    unsafe { gid::entry(context, port, index, gid_table::ALL_FIELDS) }.ok()?
}

/// `ibv_query_port` with the type of its old slot in `ibv_context`. Programs built with old headers call
/// that one; only the first 48 bytes of the attributes are written.
unsafe extern "C" fn compat_query_port(
    context: *mut ibv_context,
    port_num: u8,
    port_attr: *mut _compat_ibv_port_attr,
) -> c_int {
    // SAFETY: the caller passes an open context and at least the 48 writable bytes that are needed.
    unsafe { port::ibv_query_port(context, port_num, port_attr.cast()) }
}

/// Reads the environment and opens the log. Runs once, when a program first requests the device list; again
/// in a child of fork whose parent was running it.
/// `check_limit`: warn if RLIMIT_MEMLOCK is low.
fn initialize(check_limit: bool) {
    if env::flag(c"RDMAV_FORK_SAFE") || env::flag(c"IBV_FORK_SAFE") {
        // SAFETY: ibv_fork_init() has no preconditions.
        let failed = unsafe { memory::ibv_fork_init() } != 0;
        if failed {
            log::print(&[b"Warning: fork()-safety requested but init failed\n"]);
        }
    }
    uverbs::set_allow_disassociate_destroy(
        env::flag(c"RDMAV_ALLOW_DISASSOC_DESTROY") || env::flag(c"MLX4_DEVICE_FATAL_CLEANUP"),
    );
    sysfs::path();
    if check_limit {
        memory::memlock::check_limit();
    }
    log::init();
    diagnose::initialize();
}

impl Devices {
    const fn new() -> Devices {
        Devices {
            initialized: false,
            software_requested: false,
            limit_unchecked: false,
            software: SoftwareDevices::new(),
            list: DeviceList::new(),
        }
    }

    /// [`initialize`], once. With software devices RLIMIT_MEMLOCK is checked only when there is a device of
    /// the kernel too: software devices do not pin memory.
    fn ensure_initialized(&mut self) {
        if self.initialized {
            return;
        }
        self.software_requested = software::is_requested();
        self.limit_unchecked = self.software_requested;
        initialize(!self.limit_unchecked);
        self.software.initialize();
        self.initialized = true;
    }

    /// Updates both lists. Returns the number of software devices and that of devices of the kernel, which
    /// come in this order. ENOSYS if the kernel has no uverbs, unless IBV_UROCE asked for devices: then
    /// "function not implemented" would hide the message that says why one is missing.
    fn refresh(&mut self) -> Result<(usize, usize), Errno> {
        self.software.refresh();
        let _hidden = software::hide_files();
        let kernel = match self.list.refresh() {
            Ok(()) => self.list.devices().len(),
            Err(Errno(libc::ENOSYS)) if self.software_requested => 0,
            Err(errno) => return Err(errno),
        };
        if kernel > 0 && self.limit_unchecked {
            self.limit_unchecked = false;
            memory::memlock::check_limit();
        }
        Ok((self.software.devices().count(), kernel))
    }
}

/// Returns the present devices as a NULL-terminated array, which `ibv_free_device_list` frees
/// (ibv_get_device_list(3)). Returns NULL with errno set: ENOSYS if the kernel has no uverbs and IBV_UROCE
/// asks for no device, or ENOMEM.
///
/// # Safety
/// `num_devices` is NULL or writable.
pub unsafe extern "C" fn ibv_get_device_list(num_devices: *mut c_int) -> *mut *mut ibv_device {
    let mut unused = 0;
    // SAFETY: `num_devices` is NULL or writable, as the caller promises.
    let num_devices = unsafe { num_devices.as_mut() }.unwrap_or(&mut unused);
    *num_devices = 0;

    let mut known = DEVICES.lock();
    known.ensure_initialized();
    let (software, kernel) = match known.refresh() {
        Ok(counts) => counts,
        Err(errno) => {
            diagnose::environment::no_devices(Some(errno));
            return errno.null();
        }
    };
    if diagnose::is_enabled() {
        explain_list(software, kernel);
    }
    let devices = known
        .software
        .devices()
        .chain(known.list.devices().take(kernel));
    // SAFETY: calloc accepts any size.
    let array = unsafe { libc::calloc(software + kernel + 1, size_of::<*mut ibv_device>()) };
    let array = array.cast::<*mut ibv_device>();
    if array.is_null() {
        return Errno(libc::ENOMEM).null();
    }
    for (index, device) in devices.enumerate() {
        // SAFETY: the library's list has a reference to the device. The array has room for all devices
        // and for the NULL at its end, which calloc has written.
        unsafe {
            device::hold(device);
            array.add(index).write(device);
        }
        diagnose::device_list::listed(device);
        *num_devices += 1;
    }
    array
}

/// Explains what is missing when the list has these numbers of devices (IBV_EXPLAIN).
#[cold]
fn explain_list(software: usize, kernel: usize) {
    diagnose::environment::check_providers();
    if software + kernel == 0 {
        diagnose::environment::no_devices(None);
    } else if kernel > 0 {
        diagnose::environment::check_rdma_ucm();
    }
}

/// Frees a device list and releases its references to the devices (ibv_get_device_list(3)). Open contexts
/// keep their own references. NULL is ignored.
///
/// # Safety
/// `list` is NULL or from `ibv_get_device_list` or mlx5dv_get_vfio_device_list, and is not used again.
pub unsafe extern "C" fn ibv_free_device_list(list: *mut *mut ibv_device) {
    if list.is_null() {
        return;
    }
    let mut at = list;
    // SAFETY: the array ends with a NULL, and has a reference to each device before it.
    unsafe {
        while !(*at).is_null() {
            diagnose::device_list::unlisted(*at);
            device::put(*at);
            at = at.add(1);
        }
        libc::free(list.cast());
    }
}

/// Returns the device's name, such as `rxe0` (ibv_get_device_name(3)). The string is part of the device.
///
/// # Safety
/// `device` is alive.
pub unsafe extern "C" fn ibv_get_device_name(device: *mut ibv_device) -> *const c_char {
    // SAFETY: the device is alive, as the caller promises.
    unsafe { (&raw const (*device).name).cast() }
}

/// Returns the device's node GUID in network byte order; 0 if it cannot be read (ibv_get_device_guid(3)).
/// It is read from sysfs once per device.
///
/// # Safety
/// `device` is alive.
pub unsafe extern "C" fn ibv_get_device_guid(device: *mut ibv_device) -> u64 {
    // SAFETY: the device is alive, as the caller promises.
    let Some(sysfs) = (unsafe { sysfs_of(device) }) else {
        // SAFETY: the device is alive, as the caller promises.
        if let Some(software) = unsafe { software::of_device(device) } {
            // SAFETY: the function is this device's, and the device is alive.
            return unsafe { (software.node_guid)(device) };
        }
        Errno(libc::EINVAL).set();
        return 0;
    };
    {
        let _lock = DEVICES.lock();
        // SAFETY: the sysfs part lives as long as the device; the lock protects these two members.
        unsafe {
            if (*sysfs).flags & VSYSFS_READ_NODE_GUID != 0 {
                return (*sysfs).node_guid.to_be();
            }
        }
    }
    // SAFETY: the sysfs part lives as long as the device; this reads members that never change.
    let Some(guid) = (unsafe { discover::node_guid(sysfs) }) else {
        return 0;
    };
    let _lock = DEVICES.lock();
    // SAFETY: the sysfs part lives as long as the device; the lock protects these two members.
    unsafe {
        (*sysfs).node_guid = guid;
        (*sysfs).flags |= VSYSFS_READ_NODE_GUID;
    }
    guid.to_be()
}

/// Returns the device's index in the kernel, or -1 if netlink did not report one
/// (ibv_get_device_index(3)).
///
/// # Safety
/// `device` is alive.
pub unsafe extern "C" fn ibv_get_device_index(device: *mut ibv_device) -> c_int {
    // SAFETY: the device is alive, as the caller promises, and so is its sysfs part.
    unsafe {
        match sysfs_of(device) {
            Some(sysfs) => (*sysfs).ibdev_idx,
            None => software::of_device(device).map_or(-1, |software| (software.index)(device)),
        }
    }
}

/// The device's sysfs part; `None` for mlx5 over VFIO and software devices.
///
/// # Safety
/// `device` is alive.
unsafe fn sysfs_of(device: *mut ibv_device) -> Option<*mut verbs_sysfs_dev> {
    // SAFETY: the device is alive, and every ibv_device is the start of a verbs_device.
    let sysfs = unsafe { (*device.cast::<verbs_device>()).sysfs };
    (!sysfs.is_null()).then_some(sysfs)
}

/// Opens a device and returns its context, which `ibv_close_device` closes (ibv_open_device(3)). Returns
/// NULL with errno set if it fails.
///
/// # Safety
/// `device` is alive.
pub unsafe extern "C" fn ibv_open_device(device: *mut ibv_device) -> *mut ibv_context {
    // SAFETY: the device is alive, as the caller promises; providers accept NULL as private data.
    unsafe { verbs_open_device(device, ptr::null_mut()) }
}

/// Opens a device like [`ibv_open_device`], and passes `private_data` to its provider
/// (mlx5dv_open_device). Returns NULL with errno set: EOPNOTSUPP if the provider cannot open devices, else
/// the error of opening the uverbs file or of the provider.
///
/// # Safety
/// `device` is alive; `private_data` is of the type that its provider expects.
pub unsafe extern "C" fn verbs_open_device(
    device: *mut ibv_device,
    private_data: *mut c_void,
) -> *mut ibv_context {
    // SAFETY: the device is alive, as the caller promises.
    unsafe { diagnose::device_list::opening(device) };
    // SAFETY: the device is alive, as the caller promises, and so is its sysfs part.
    let sysfs = unsafe { sysfs_of(device).map(|sysfs| &*sysfs) };
    // SAFETY: the device is alive, as the caller promises.
    let Some(alloc_context) = (unsafe { device::ops(device) }).and_then(|ops| ops.alloc_context)
    else {
        return Errno(libc::EOPNOTSUPP).null();
    };
    let cmd_fd = match sysfs {
        Some(sysfs) => {
            match discover::open_cdev(sysfs::field(&sysfs.sysfs_name), sysfs.sysfs_cdev) {
                Some(fd) => fd.into_raw_fd(),
                None => {
                    diagnose::environment::not_opened(
                        &sysfs::field(&sysfs.ibdev_name).escape_ascii().to_string(),
                        &sysfs::field(&sysfs.sysfs_name).escape_ascii().to_string(),
                    );
                    return ptr::null_mut();
                }
            }
        }
        None => -1,
    };
    // SAFETY: the function is of the device's provider, which owns the descriptor from here on, even if
    // it fails.
    let context = unsafe { alloc_context(device, cmd_fd, private_data) };
    // SAFETY: `alloc_context` has just returned the context.
    unsafe { finish(context, sysfs.is_some(), false) }
}

/// Completes a provider's new context and returns the public one, or NULL with errno set. Allocates the
/// descriptor of asynchronous events, unless the kernel returned one together with the context.
///
/// # Safety
/// `context` is NULL or was just returned by a provider.
unsafe fn finish(
    context: *mut verbs_context,
    has_events: bool,
    imported: bool,
) -> *mut ibv_context {
    if context.is_null() {
        return ptr::null_mut();
    }
    // SAFETY: `_verbs_init_and_alloc_context` initialised the context, and no other thread knows it.
    unsafe {
        let context = adopt(context, &LIBRARY);
        if context.is_null() {
            return ptr::null_mut();
        }
        if imported {
            state(context).imported.store(true, Ordering::Relaxed);
        }
        let is_software = software::of_context(context).is_some();
        let imported = imported && !is_software;
        let wants_events = imported || has_events && (*context).async_fd == -1;
        if wants_events && alloc_async_fd(context).is_err() {
            let errno = Errno::last();
            ibv_close_device(context);
            return errno.null();
        }
        diagnose::attach_if_enabled(context, &HOOKS);
        context
    }
}

/// Closes a context (ibv_close_device(3)). Always returns 0.
///
/// # Safety
/// `context` is open. Neither it nor an object created with it is used again.
pub unsafe extern "C" fn ibv_close_device(context: *mut ibv_context) -> c_int {
    // SAFETY: the context is open and not used again, as the caller promises.
    unsafe { (ops(context).free_context)(context) };
    0
}

/// Creates a context from a duplicate of another process's command descriptor (ibv_import_device(3)). The
/// context owns the descriptor, unless this fails before the provider is called. Returns NULL with errno
/// set: EINVAL if it is not a character device, ENODEV if it is of no device of the list, EOPNOTSUPP if the
/// provider cannot import.
///
/// # Safety
/// If `cmd_fd` is a descriptor of a uverbs device, no other context uses it. Other values are allowed.
pub unsafe extern "C" fn ibv_import_device(cmd_fd: c_int) -> *mut ibv_context {
    let number = match sys::fstat(cmd_fd) {
        Ok(st) if st.st_mode & libc::S_IFMT == libc::S_IFCHR => Some(st.st_rdev),
        // The descriptor of a software device is a file of another kind.
        Ok(_) if software::is_requested() => None,
        _ => return Errno(libc::EINVAL).null(),
    };
    // SAFETY: NULL is allowed.
    let list = unsafe { ibv_get_device_list(ptr::null_mut()) };
    if list.is_null() {
        return Errno(libc::ENODEV).null();
    }
    // SAFETY: the list was just returned, and holds references to its devices until it is freed.
    let context = unsafe {
        match number {
            Some(number) => import(find_cdev(list, number), cmd_fd),
            None => import_software(list, cmd_fd),
        }
    };
    let errno = Errno::last();
    // SAFETY: the list was returned above and is freed once; a new context has its own reference.
    unsafe { ibv_free_device_list(list) };
    errno.set();
    context
}

/// The device of a list whose uverbs file has the device number `number`; NULL if there is none.
///
/// # Safety
/// `list` is a device list that is not yet freed.
unsafe fn find_cdev(list: *mut *mut ibv_device, number: libc::dev_t) -> *mut ibv_device {
    let mut at = list;
    // SAFETY: the list ends with a NULL, and the devices before it are alive.
    unsafe {
        while !(*at).is_null() && sysfs_of(*at).is_none_or(|sysfs| (*sysfs).sysfs_cdev != number) {
            at = at.add(1);
        }
        *at
    }
}

/// Imports `cmd_fd` through the software device that it belongs to. NULL with errno as for
/// [`ibv_import_device`], and EOPNOTSUPP if it is of another process.
///
/// # Safety
/// `list` is a device list that is not yet freed.
unsafe fn import_software(list: *mut *mut ibv_device, cmd_fd: c_int) -> *mut ibv_context {
    let mut at = list;
    let mut errno = Errno(libc::EINVAL);
    // SAFETY: the list ends with a NULL, and the devices before it are alive.
    unsafe {
        while !(*at).is_null() {
            if software::of_device(*at).is_some() {
                let context = import(*at, cmd_fd);
                if !context.is_null() {
                    return context;
                }
                errno = Errno::last();
            }
            at = at.add(1);
        }
    }
    errno.null()
}

/// Imports `cmd_fd` through the device's provider; see [`ibv_import_device`].
///
/// # Safety
/// `device` is NULL or alive.
unsafe fn import(device: *mut ibv_device, cmd_fd: c_int) -> *mut ibv_context {
    if device.is_null() {
        return Errno(libc::ENODEV).null();
    }
    // SAFETY: the device is alive, and the function is of its provider.
    unsafe {
        match device::ops(device).and_then(|ops| ops.import_context) {
            Some(import_context) => finish(import_context(device, cmd_fd), true, true),
            None => Errno(libc::EOPNOTSUPP).null(),
        }
    }
}

/// Locks the device list.
#[cfg(test)]
pub fn lock_list() -> impl Sized {
    DEVICES.lock()
}
