//! `verbs_device`: what a driver makes of a device that discovery found.

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
use super::{matching, registry::Driver};
use crate::{
    discover::{
        SysfsDevice,
        sysfs::{self, field, set_field},
    },
    log,
};

/// Takes a reference to the device.
///
/// # Safety
/// `device` is a device that lives.
pub unsafe fn hold(device: *mut ibv_device) {
    // SAFETY: the device lives, and its reference count is only used as an atomic.
    unsafe { references(device) }.fetch_add(1, Ordering::Relaxed);
}

/// Gives a reference back; the last one frees the device through its driver.
///
/// # Safety
/// `device` is a device that lives, and the caller has a reference to it.
#[inline]
pub unsafe fn put(device: *mut ibv_device) {
    // SAFETY: the device lives, and its reference count is only used as an atomic.
    if unsafe { references(device) }.fetch_sub(1, Ordering::AcqRel) == 1 {
        // SAFETY: that was the last reference.
        unsafe { finish(device.cast()) }
    }
}

/// Ends a device that nobody refers to any more.
///
/// # Safety
/// The device is the caller's alone.
#[cold]
unsafe fn finish(device: *mut verbs_device) {
    // SAFETY: the device is ours alone. Its sysfs part is ours to free (NULL for mlx5 over VFIO) and
    // goes first: no uninit_device looks at it.
    unsafe {
        libc::free((*device).sysfs.cast());
        (*device).sysfs = ptr::null_mut();
        if let Some(uninit) = (*device).ops.as_ref().and_then(|ops| ops.uninit_device) {
            uninit(device);
        }
    }
}

/// # Safety
/// `device` is a device that lives as long as the reference is used.
unsafe fn references<'a>(device: *mut ibv_device) -> &'a AtomicI32 {
    let device = device.cast::<verbs_device>();
    // SAFETY: every ibv_device is the start of a verbs_device, whose count is aligned and only used
    // as an atomic.
    unsafe { AtomicI32::from_ptr(&raw mut (*device).refcount) }
}

/// The driver's table of a device.
///
/// # Safety
/// `device` is a device that lives.
pub unsafe fn ops<'a>(device: *mut ibv_device) -> Option<&'a verbs_device_ops> {
    // SAFETY: every ibv_device is the start of a verbs_device, whose table is a constant of its
    // provider, which is never unloaded.
    unsafe { (*device.cast::<verbs_device>()).ops.as_ref() }
}

/// Offers the device to the driver. If it takes it, the new `verbs_device` has one reference and owns
/// `found`; else `found` stays the caller's.
fn try_driver(driver: &Driver, found: &mut SysfsDevice) -> Option<NonNull<verbs_device>> {
    if !matching::accepts(driver, found) {
        return None;
    }
    let alloc = driver.ops.alloc_device;
    // SAFETY: the provider's own function, called as it expects: with a device that it accepted.
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
    // SAFETY: the driver allocated it for us, zeroed but for fields of its own, and nobody else
    // knows it yet.
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
            // SAFETY: the driver allocated the device, and nobody has it.
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

/// Offers the device to the drivers in turn: first to those whose table has its driver id.
fn try_drivers(drivers: &[Driver], found: &mut SysfsDevice) -> Option<NonNull<verbs_device>> {
    for driver in drivers {
        if matching::has_driver_id(driver, found)
            && let Some(device) = try_driver(driver, found)
        {
            return Some(device);
        }
    }
    drivers.iter().find_map(|driver| try_driver(driver, found))
}
