//! The library's list of kernel devices, and its update from what discovery finds.

use core::ptr::NonNull;
use ibverbs_abi::Errno;

use ibverbs_abi::{ibv_device, verbs_device, verbs_sysfs_dev};

use super::{put, try_drivers};
use crate::{
    discover::{self, SysfsDevice, sysfs::field},
    env, log,
    provider::{
        load::Providers,
        registry::{self, Driver},
    },
};

/// A source of drivers: [`Providers`], or a test.
pub trait Drivers {
    /// The registered drivers, in the order in which devices are offered to them.
    fn all(&self) -> Vec<Driver>;
    /// Whether `load_for` has been called before.
    fn configured(&self) -> bool;
    /// Loads the providers that these devices need.
    fn load_for(&mut self, devices: &mut [SysfsDevice]);
    /// Loads all other providers, and returns the drivers that they registered.
    fn load_deferred(&mut self) -> Vec<Driver>;
}

impl Drivers for Providers {
    fn all(&self) -> Vec<Driver> {
        registry::drivers()
    }

    fn configured(&self) -> bool {
        Providers::configured(self)
    }

    fn load_for(&mut self, devices: &mut [SysfsDevice]) {
        Providers::load_for(self, devices);
    }

    fn load_deferred(&mut self) -> Vec<Driver> {
        Providers::load_deferred(self)
    }
}

/// The devices that have a driver. The list has a reference to each of them.
#[derive(Default)]
pub struct DeviceList<D = Providers> {
    devices: Vec<Device>,
    drivers: D,
}

/// A device of the list. Its `sysfs` is not NULL.
struct Device(NonNull<verbs_device>);

// SAFETY: any thread may use a device: its reference count is atomic, and the rest does not change, or
// changes only under the lock around the list.
unsafe impl Send for Device {}

impl Device {
    fn sysfs(&self) -> &verbs_sysfs_dev {
        // SAFETY: the list has a reference to the device, so the device and its sysfs part are alive.
        unsafe { &*self.0.as_ref().sysfs }
    }

    fn as_ptr(&self) -> *mut ibv_device {
        self.0.as_ptr().cast()
    }
}

impl DeviceList {
    /// An empty list; no provider is loaded.
    pub const fn new() -> Self {
        DeviceList {
            devices: Vec::new(),
            drivers: Providers::new(),
        }
    }

    /// Updates the list to the devices that the kernel has now. ENOSYS if the kernel has no uverbs, or
    /// one of an ABI version that the library does not support.
    pub fn refresh(&mut self) -> Result<(), Errno> {
        let found = discover::devices()?;
        if !found.is_empty() {
            discover::check_kernel_abi()?;
        }
        self.update(found);
        Ok(())
    }
}

impl<D: Drivers> DeviceList<D> {
    /// The devices, the newest first. The list keeps its references.
    pub fn devices(&self) -> impl ExactSizeIterator<Item = *mut ibv_device> {
        self.devices.iter().map(Device::as_ptr)
    }

    /// Removes devices that `found` does not have, and finds drivers for its new ones.
    fn update(&mut self, mut found: Vec<SysfsDevice>) {
        self.devices.retain(|device| {
            let present = found.iter().position(|found| same(device.sysfs(), found));
            match present {
                Some(at) => {
                    found.remove(at);
                }
                // SAFETY: this releases the list's reference, and the device leaves the list.
                None => unsafe { put(device.as_ptr()) },
            }
            present.is_some()
        });

        if !self.drivers.configured() && !found.is_empty() {
            // A program that is linked to a provider has its driver already, and may need no other.
            self.offer(&mut found, &self.drivers.all());
        }
        if !found.is_empty() {
            self.drivers.load_for(&mut found);
            self.offer(&mut found, &self.drivers.all());
        }
        if !found.is_empty() {
            let new = self.drivers.load_deferred();
            self.offer(&mut found, &new);
        }
        let names = found.iter().map(|device| field(&device.ibdev_name));
        registry::set_unserved(
            names
                .map(|name| String::from_utf8_lossy(name).into_owned())
                .collect(),
        );
        if env::get(c"IBV_SHOW_WARNINGS").is_some() {
            for device in &found {
                log::print(&[
                    b"Warning: no userspace device-specific driver found for ",
                    field(&device.ibdev_name),
                    b"\n",
                ]);
            }
        }
    }

    /// Moves every device that a driver accepts from `found` to the front of the list.
    fn offer(&mut self, found: &mut Vec<SysfsDevice>, drivers: &[Driver]) {
        for mut candidate in core::mem::take(found) {
            match try_drivers(drivers, &mut candidate) {
                Some(device) => {
                    // The new device owns it as its `sysfs`.
                    let _ = candidate.into_raw();
                    self.devices.insert(0, Device(device));
                }
                None => found.push(candidate),
            }
        }
    }
}

/// Whether both are the same kernel device, and not two that had the same name one after the other.
/// Devices found by netlink differ in their index then, others in the creation time of their sysfs
/// directory.
fn same(a: &verbs_sysfs_dev, b: &verbs_sysfs_dev) -> bool {
    let time = |device: &verbs_sysfs_dev| (device.time_created.tv_sec, device.time_created.tv_nsec);
    field(&a.sysfs_name) == field(&b.sysfs_name)
        && a.ibdev_idx == b.ibdev_idx
        && (a.ibdev_idx != -1 || time(a) == time(b))
}

#[cfg(test)]
mod tests;
