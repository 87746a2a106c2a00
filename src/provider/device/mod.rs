//! Devices: a driver allocates a `verbs_device` for each device that discovery found and it accepts.
//!
//! A `verbs_device` is freed when its last reference is released. The library's list, every list that a
//! program got and every open context have a reference each.

mod list;

use core::{
    ptr::{self, NonNull},
    sync::atomic::{AtomicI32, Ordering},
};

use ibverbs_abi::{
    IBV_NODE_CA, IBV_NODE_RNIC, IBV_NODE_ROUTER, IBV_NODE_SWITCH, IBV_NODE_UNSPECIFIED,
    IBV_NODE_USNIC, IBV_NODE_USNIC_UDP, IBV_TRANSPORT_IB, IBV_TRANSPORT_IWARP,
    IBV_TRANSPORT_UNKNOWN, IBV_TRANSPORT_UNSPECIFIED, IBV_TRANSPORT_USNIC, IBV_TRANSPORT_USNIC_UDP,
    ibv_device, ibv_node_type, ibv_transport_type, verbs_device, verbs_device_ops,
};

pub use self::list::{DeviceList, Drivers};
use super::{identify, matching, registry::Driver};
use crate::{
    discover::{
        SysfsDevice,
        sysfs::{self, field, set_field},
    },
    log,
};

/// Takes a reference to the device. Any thread may call it.
///
/// # Safety
/// `device` is alive.
pub unsafe fn hold(device: *mut ibv_device) {
    // SAFETY: the caller promises that the device is alive.
    unsafe { references(device) }.fetch_add(1, Ordering::Relaxed);
}

/// Releases a reference to the device. Releasing the last one frees the device. Any thread may call it.
///
/// # Safety
/// `device` is alive, and the caller has a reference to it, which ends here.
#[inline]
pub unsafe fn put(device: *mut ibv_device) {
    // SAFETY: the caller promises that the device is alive.
    if unsafe { references(device) }.fetch_sub(1, Ordering::AcqRel) == 1 {
        // SAFETY: the count was 1, so this was the last reference.
        unsafe { free(device.cast()) }
    }
}

/// Frees a device: its sysfs part, and the rest through its driver's `uninit_device`.
///
/// # Safety
/// No reference to the device is left.
#[cold]
unsafe fn free(device: *mut verbs_device) {
    // SAFETY: nobody else uses the device. The library allocated its sysfs part (NULL for mlx5 over
    // VFIO), which no provider's uninit_device reads.
    unsafe {
        libc::free((*device).sysfs.cast());
        (*device).sysfs = ptr::null_mut();
        if let Some(uninit) = (*device).ops.as_ref().and_then(|ops| ops.uninit_device) {
            uninit(device);
        }
    }
}

/// The device's reference count.
///
/// # Safety
/// `device` is alive as long as the returned reference is used.
unsafe fn references<'a>(device: *mut ibv_device) -> &'a AtomicI32 {
    let device = device.cast::<verbs_device>();
    // SAFETY: every ibv_device is the start of a verbs_device. Its count is aligned, and after the
    // device's creation all accesses to it are atomic.
    unsafe { AtomicI32::from_ptr(&raw mut (*device).refcount) }
}

/// The name of the device's driver; empty if it has none.
///
/// # Safety
/// As [`ops`].
pub unsafe fn driver_name(device: *mut ibv_device) -> String {
    // SAFETY: the caller's device is one of [`ops`]; a name is a string constant of the provider.
    let name = unsafe {
        let named = ops(device).filter(|ops| !ops.name.is_null());
        named.map(|ops| core::ffi::CStr::from_ptr(ops.name))
    };
    name.map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

/// The `verbs_device_ops` of the device's driver; `None` if the device has none.
///
/// # Safety
/// `device` is alive.
pub unsafe fn ops<'a>(device: *mut ibv_device) -> Option<&'a verbs_device_ops> {
    // SAFETY: every ibv_device is the start of a verbs_device, whose table is a constant of its
    // provider, which is never unloaded.
    unsafe { (*device.cast::<verbs_device>()).ops.as_ref() }
}

/// Offers the device to the driver. If the driver accepts it, returns a `verbs_device` with one
/// reference, which owns `found` from then on. If not, returns `None` and the caller keeps `found`.
fn try_driver(driver: &Driver, found: &mut SysfsDevice) -> Option<NonNull<verbs_device>> {
    if !matching::accepts(driver, found) {
        return None;
    }
    let alloc = driver.ops.alloc_device;
    // SAFETY: `alloc_device` expects a `verbs_sysfs_dev` that its driver accepted, as it did above.
    let device =
        NonNull::new(alloc.map_or(ptr::null_mut(), |alloc| unsafe { alloc(found.as_ptr()) }));
    let Some(mut new) = device else {
        log::print(&[
            b"Fatal: couldn't allocate device for ",
            field(&found.ibdev_path),
            b"\n",
        ]);
        return None;
    };
    // SAFETY: the driver has just allocated the device, so nobody else uses it. Members that the driver
    // does not set are zero.
    let device = unsafe { new.as_mut() };
    device.ops = driver.ops;
    device.refcount = 1;
    device.device.node_type = found.node_type;
    device.device.transport_type = transport_type(found.node_type);
    device.device.dev_name = found.sysfs_name;
    device.device.name = found.ibdev_name;
    device.device.ibdev_path = found.ibdev_path;
    let path: [&[u8]; 3] = [
        sysfs::path().to_bytes(),
        b"/class/infiniband_verbs/",
        field(&found.sysfs_name),
    ];
    if !set_field(&mut device.device.dev_path, &path) {
        if let Some(uninit) = driver.ops.uninit_device {
            // SAFETY: the driver allocated the device above, and nobody else has its address.
            unsafe { uninit(new.as_ptr()) };
        }
        return None;
    }
    device.sysfs = found.as_ptr();
    Some(new)
}

fn transport_type(node_type: ibv_node_type) -> ibv_transport_type {
    match node_type {
        IBV_NODE_CA | IBV_NODE_SWITCH | IBV_NODE_ROUTER => IBV_TRANSPORT_IB,
        IBV_NODE_RNIC => IBV_TRANSPORT_IWARP,
        IBV_NODE_USNIC => IBV_TRANSPORT_USNIC,
        IBV_NODE_USNIC_UDP => IBV_TRANSPORT_USNIC_UDP,
        IBV_NODE_UNSPECIFIED => IBV_TRANSPORT_UNSPECIFIED,
        _ => IBV_TRANSPORT_UNKNOWN,
    }
}

/// Offers the device to the drivers in order, first to those that list its driver id. Returns the first
/// device that one of them allocates.
fn try_drivers(drivers: &[Driver], found: &mut SysfsDevice) -> Option<NonNull<verbs_device>> {
    let mut offer = |by_id: bool| {
        drivers.iter().find_map(|driver| {
            if by_id && !matching::has_driver_id(driver, found) {
                return None;
            }
            Some((driver, try_driver(driver, found)?))
        })
    };
    let (driver, device) = offer(true).or_else(|| offer(false))?;
    log_drivers_of_same_name(drivers, driver, found);
    Some(device)
}

/// Writes to the log which of several drivers of one name got the device: a vendor's and the distribution's,
/// for example, of two provider ABIs.
fn log_drivers_of_same_name(drivers: &[Driver], chosen: &Driver, device: &SysfsDevice) {
    if !::log::log_enabled!(::log::Level::Info) {
        return;
    }
    let describe = |driver: &Driver| {
        let path = identify::path_of(ptr::from_ref(driver.ops).cast());
        let (path, number) = (path.to_string_lossy(), driver.abi.number);
        format!("{path} (provider ABI {number})")
    };
    let rivals = drivers
        .iter()
        .filter(|driver| !ptr::eq(driver.ops, chosen.ops) && driver.name() == chosen.name());
    for rival in rivals {
        let device = String::from_utf8_lossy(field(&device.ibdev_name));
        let name = chosen.name().to_string_lossy();
        let (used, unused) = (describe(chosen), describe(rival));
        ::log::info!(
            "device {device}: driver {name} of {used}, which the configuration names first; not {unused}"
        );
    }
}
