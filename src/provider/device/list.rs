//! The library's list of devices, and how it follows what discovery finds.

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

/// Where drivers come from: [`Providers`], or a test.
pub trait Drivers {
    /// The drivers there are, in order.
    fn all(&self) -> Vec<Driver>;
    /// Whether `load_for` has been called before.
    fn configured(&self) -> bool;
    /// Loads the providers that these devices call for.
    fn load_for(&mut self, devices: &mut [SysfsDevice]);
    /// Loads all other providers, and returns the drivers that this brought.
    fn load_rest(&mut self) -> Vec<Driver>;
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

    fn load_rest(&mut self) -> Vec<Driver> {
        Providers::load_rest(self)
    }
}

/// The devices with a driver. The list has a reference to each.
#[derive(Default)]
pub struct DeviceList<D = Providers> {
    devices: Vec<Device>,
    drivers: D,
}

/// A device of the list, with a `sysfs` that is not NULL.
struct Device(NonNull<verbs_device>);

// SAFETY: a device may be used by any thread: its count is atomic, and the rest does not change or is
// guarded by the lock around the list.
unsafe impl Send for Device {}

impl Device {
    fn sysfs(&self) -> &verbs_sysfs_dev {
        // SAFETY: the list has a reference to the device, whose sysfs part lives as long.
        unsafe { &*self.0.as_ref().sysfs }
    }

    fn as_ptr(&self) -> *mut ibv_device {
        self.0.as_ptr().cast()
    }
}

impl DeviceList {
    /// An empty list, and no provider loaded.
    pub const fn new() -> Self {
        DeviceList {
            devices: Vec::new(),
            drivers: Providers::new(),
        }
    }

    /// Brings the list up to date with the kernel. ENOSYS if it has no uverbs or one of a foreign ABI.
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
    /// The devices, the youngest first. The list keeps its references.
    pub fn devices(&self) -> impl ExactSizeIterator<Item = *mut ibv_device> {
        self.devices.iter().map(Device::as_ptr)
    }

    /// Drops devices that are gone and finds drivers for those that are new.
    fn update(&mut self, mut found: Vec<SysfsDevice>) {
        self.devices.retain(|device| {
            let known = found.iter().position(|found| same(device.sysfs(), found));
            match known {
                Some(at) => {
                    found.remove(at);
                }
                // SAFETY: the list gives the reference back that it had.
                None => unsafe { put(device.as_ptr()) },
            }
            known.is_some()
        });

        if !self.drivers.configured() && !found.is_empty() {
            // Programs that are linked to a provider have its driver already, and may need no more.
            self.offer(&mut found, &self.drivers.all());
        }
        if !found.is_empty() {
            self.drivers.load_for(&mut found);
            self.offer(&mut found, &self.drivers.all());
        }
        if !found.is_empty() {
            let rest = self.drivers.load_rest();
            self.offer(&mut found, &rest);
        }
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

    /// Moves every device that a driver takes from `found` to the front of the list.
    fn offer(&mut self, found: &mut Vec<SysfsDevice>, drivers: &[Driver]) {
        for mut candidate in core::mem::take(found) {
            match try_drivers(drivers, &mut candidate) {
                Some(device) => {
                    // It is the device's `sysfs` now.
                    let _ = candidate.into_raw();
                    self.devices.insert(0, Device(device));
                }
                None => found.push(candidate),
            }
        }
    }
}

/// Whether both are the same device of the kernel, and not one that was made under the name of
/// another. Netlink numbers devices for that; in sysfs the time of the device's directory tells.
fn same(a: &verbs_sysfs_dev, b: &verbs_sysfs_dev) -> bool {
    let time = |device: &verbs_sysfs_dev| (device.time_created.tv_sec, device.time_created.tv_nsec);
    field(&a.sysfs_name) == field(&b.sysfs_name)
        && a.ibdev_idx == b.ibdev_idx
        && (a.ibdev_idx != -1 || time(a) == time(b))
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
