//! Devices: the list, their names and numbers, opening and closing them.

use core::{
    ffi::{c_char, c_int, c_void},
    ptr,
    sync::atomic::Ordering,
};
use ibverbs_abi::Errno;
use std::os::fd::IntoRawFd;

use ibverbs_abi::{
    _compat_ibv_port_attr, VSYSFS_READ_NODE_GUID, ibv_context, ibv_device, verbs_context,
    verbs_device, verbs_sysfs_dev,
};
use parking_lot::Mutex;

use super::{cq, device_attr, port};
use crate::{
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

/// What the library knows of devices. The lock is held while providers are loaded and take devices;
/// like in the C library, none of them may ask for the list meanwhile.
struct Devices {
    initialized: bool,
    software: SoftwareDevices,
    list: DeviceList,
}

static DEVICES: Mutex<Devices> = Mutex::new(Devices {
    initialized: false,
    software: SoftwareDevices::new(),
    list: DeviceList::new(),
});

/// The library's own functions in each context.
static LIBRARY: LibraryOps = LibraryOps {
    create_cq_ex: cq::lib_create_cq_ex,
    query_port: port::lib_query_port,
    compat_query_port,
    compat_query_device: device_attr::ibv_query_device,
};

/// `ibv_query_port` as `verbs.h` declares its slot: with the attributes of programs linked long ago,
/// of which no more than the start is written.
unsafe extern "C" fn compat_query_port(
    context: *mut ibv_context,
    port_num: u8,
    port_attr: *mut _compat_ibv_port_attr,
) -> c_int {
    // SAFETY: the caller's promise is the same; only the type's name differs.
    unsafe { port::ibv_query_port(context, port_num, port_attr.cast()) }
}

/// What happens once, when a program first asks for devices.
fn initialize() {
    if env::flag(c"RDMAV_FORK_SAFE") || env::flag(c"IBV_FORK_SAFE") {
        // SAFETY: it may be called at any time.
        let failed = unsafe { memory::ibv_fork_init() } != 0;
        if failed {
            log::print(&[b"Warning: fork()-safety requested but init failed\n"]);
        }
    }
    uverbs::set_allow_disassociate_destroy(
        env::flag(c"RDMAV_ALLOW_DISASSOC_DESTROY") || env::flag(c"MLX4_DEVICE_FATAL_CLEANUP"),
    );
    sysfs::path();
    memory::memlock::check_limit();
    log::init();
}

/// The devices there are, as a NULL-terminated array that `ibv_free_device_list` frees; NULL with
/// errno ENOSYS where the kernel has no uverbs (and IBV_UROCE names no device), or ENOMEM. See
/// ibv_get_device_list(3).
///
/// # Safety
/// `num_devices` is NULL or can be written to.
pub unsafe extern "C" fn ibv_get_device_list(num_devices: *mut c_int) -> *mut *mut ibv_device {
    let mut unused = 0;
    // SAFETY: the caller says that it is NULL or ours to write.
    let num_devices = unsafe { num_devices.as_mut() }.unwrap_or(&mut unused);
    *num_devices = 0;

    let mut known = DEVICES.lock();
    if !known.initialized {
        initialize();
        known.software.initialize();
        known.initialized = true;
    }
    known.software.refresh();
    let kernel = known.list.refresh();
    let software = known.software.devices().count();
    let kernel = match kernel {
        Ok(()) => known.list.devices().len(),
        // Software devices need no kernel's.
        Err(Errno(libc::ENOSYS)) if software > 0 => 0,
        Err(errno) => return errno.null(),
    };
    let devices = known
        .software
        .devices()
        .chain(known.list.devices().take(kernel));
    // SAFETY: calloc has no conditions.
    let array = unsafe { libc::calloc(software + kernel + 1, size_of::<*mut ibv_device>()) };
    let array = array.cast::<*mut ibv_device>();
    if array.is_null() {
        return Errno(libc::ENOMEM).null();
    }
    for (index, device) in devices.enumerate() {
        // SAFETY: the list has a reference to the device, and the array has room for all of them
        // and, zeroed already, the NULL at its end.
        unsafe {
            device::hold(device);
            array.add(index).write(device);
        }
        *num_devices += 1;
    }
    array
}

/// Frees a list and its references to devices; an open context keeps its own.
///
/// # Safety
/// `list` is from `ibv_get_device_list` (or mlx5dv_get_vfio_device_list), and not used again.
pub unsafe extern "C" fn ibv_free_device_list(list: *mut *mut ibv_device) {
    if list.is_null() {
        return;
    }
    let mut at = list;
    // SAFETY: the array has a NULL at its end, and a reference to each device before it.
    unsafe {
        while !(*at).is_null() {
            device::put(*at);
            at = at.add(1);
        }
        libc::free(list.cast());
    }
}

/// The device's name, `rxe0`. It lives as long as the device.
///
/// # Safety
/// `device` is a device that lives.
pub unsafe extern "C" fn ibv_get_device_name(device: *mut ibv_device) -> *const c_char {
    // SAFETY: the caller says that the device lives.
    unsafe { (&raw const (*device).name).cast() }
}

/// The device's node GUID in network byte order; 0 if it cannot be read.
///
/// # Safety
/// `device` is a device that lives.
pub unsafe extern "C" fn ibv_get_device_guid(device: *mut ibv_device) -> u64 {
    // SAFETY: the caller says that the device lives.
    let Some(sysfs) = (unsafe { sysfs_of(device) }) else {
        // SAFETY: as above.
        if let Some(software) = unsafe { software::of_device(device) } {
            // SAFETY: the function is this device's.
            return unsafe { (software.node_guid)(device) };
        }
        Errno(libc::EINVAL).set();
        return 0;
    };
    {
        let _lock = DEVICES.lock();
        // SAFETY: the device's sysfs part lives as long; the lock guards these two fields.
        unsafe {
            if (*sysfs).flags & VSYSFS_READ_NODE_GUID != 0 {
                return (*sysfs).node_guid.to_be();
            }
        }
    }
    // SAFETY: as above; what is read here does not change.
    let Some(guid) = (unsafe { discover::node_guid(sysfs) }) else {
        return 0;
    };
    let _lock = DEVICES.lock();
    // SAFETY: as above.
    unsafe {
        (*sysfs).node_guid = guid;
        (*sysfs).flags |= VSYSFS_READ_NODE_GUID;
    }
    guid.to_be()
}

/// The device's number in the kernel; -1 if netlink did not tell it.
///
/// # Safety
/// `device` is a device that lives.
pub unsafe extern "C" fn ibv_get_device_index(device: *mut ibv_device) -> c_int {
    // SAFETY: the caller says that the device lives, and so does its sysfs part.
    unsafe {
        match sysfs_of(device) {
            Some(sysfs) => (*sysfs).ibdev_idx,
            None => software::of_device(device).map_or(-1, |software| (software.index)(device)),
        }
    }
}

/// The device's sysfs part; mlx5 over VFIO and software devices have none.
///
/// # Safety
/// `device` is a device that lives.
unsafe fn sysfs_of(device: *mut ibv_device) -> Option<*mut verbs_sysfs_dev> {
    // SAFETY: every ibv_device is the start of a verbs_device.
    let sysfs = unsafe { (*device.cast::<verbs_device>()).sysfs };
    (!sysfs.is_null()).then_some(sysfs)
}

/// Opens a device: a context for `ibv_close_device`, or NULL with errno. See ibv_open_device(3).
///
/// # Safety
/// `device` is a device that lives.
pub unsafe extern "C" fn ibv_open_device(device: *mut ibv_device) -> *mut ibv_context {
    // SAFETY: the caller says that the device lives.
    unsafe { verbs_open_device(device, ptr::null_mut()) }
}

/// Opens a device with `private_data` for its provider (mlx5dv_open_device).
///
/// # Safety
/// `device` is a device that lives; `private_data` is what its provider expects.
pub unsafe extern "C" fn verbs_open_device(
    device: *mut ibv_device,
    private_data: *mut c_void,
) -> *mut ibv_context {
    // SAFETY: the caller says that the device lives, and so does its sysfs part.
    let sysfs = unsafe { sysfs_of(device).map(|sysfs| &*sysfs) };
    // SAFETY: as above.
    let Some(alloc_context) = (unsafe { device::ops(device) }).and_then(|ops| ops.alloc_context)
    else {
        return Errno(libc::EOPNOTSUPP).null();
    };
    let cmd_fd = match sysfs {
        Some(sysfs) => {
            match discover::open_cdev(sysfs::field(&sysfs.sysfs_name), sysfs.sysfs_cdev) {
                Some(fd) => fd.into_raw_fd(),
                None => return ptr::null_mut(),
            }
        }
        None => -1,
    };
    // SAFETY: the device's own provider, called as it expects. The descriptor is its from here on,
    // also if it fails.
    let context = unsafe { alloc_context(device, cmd_fd, private_data) };
    // SAFETY: that is what the provider returned.
    unsafe { finish(context, sysfs.is_some(), false) }
}

/// Makes the provider's new context the program's. Its asynchronous events come through a file of
/// their own, which the kernel may have given already with the context.
///
/// # Safety
/// `context` is NULL or what a provider just returned.
unsafe fn finish(
    context: *mut verbs_context,
    has_events: bool,
    imported: bool,
) -> *mut ibv_context {
    if context.is_null() {
        return ptr::null_mut();
    }
    // SAFETY: the context is new, initialised by `_verbs_init_and_alloc_context`, and ours alone.
    unsafe {
        let context = adopt(context, &LIBRARY);
        if imported {
            state(context).imported.store(true, Ordering::Relaxed);
        }
        let wants_events = imported || has_events && (*context).async_fd == -1;
        if wants_events && alloc_async_fd(context).is_err() {
            let errno = Errno::last();
            ibv_close_device(context);
            return errno.null();
        }
        context
    }
}

/// Closes a context; always 0. See ibv_close_device(3).
///
/// # Safety
/// `context` is open, and not used again; nor is anything that was made with it.
pub unsafe extern "C" fn ibv_close_device(context: *mut ibv_context) -> c_int {
    // SAFETY: the caller hands an open context.
    unsafe { (ops(context).free_context)(context) };
    0
}

/// Makes a context of a duplicate of another process's command descriptor, which is the context's from
/// then on; the caller's still when it fails before its provider is asked. NULL with errno
/// EINVAL (not a char device), ENODEV (no device of ours), EOPNOTSUPP (its provider cannot).
/// See ibv_import_device(3).
///
/// # Safety
/// `cmd_fd` is any number; an open descriptor of a uverbs device to succeed.
pub unsafe extern "C" fn ibv_import_device(cmd_fd: c_int) -> *mut ibv_context {
    let number = match sys::fstat(cmd_fd) {
        Ok(st) if st.st_mode & libc::S_IFMT == libc::S_IFCHR => st.st_rdev,
        _ => return Errno(libc::EINVAL).null(),
    };
    // SAFETY: NULL is allowed.
    let list = unsafe { ibv_get_device_list(ptr::null_mut()) };
    if list.is_null() {
        return Errno(libc::ENODEV).null();
    }
    let mut at = list;
    // SAFETY: the array has a NULL at its end and living devices before it, as long as it is not
    // freed, which ends this block; a context that was made keeps its device.
    unsafe {
        while !(*at).is_null() && sysfs_of(*at).is_none_or(|sysfs| (*sysfs).sysfs_cdev != number) {
            at = at.add(1);
        }
        let device = *at;
        let context = if device.is_null() {
            Errno(libc::ENODEV).null()
        } else {
            match device::ops(device).and_then(|ops| ops.import_context) {
                Some(import_context) => finish(import_context(device, cmd_fd), true, true),
                None => Errno(libc::EOPNOTSUPP).null(),
            }
        };
        let errno = Errno::last();
        ibv_free_device_list(list);
        errno.set();
        context
    }
}
