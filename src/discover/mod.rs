//! Kernel device discovery: RDMA netlink first, sysfs where that fails.
//!
//! Which of the two reports what, and in which order they are read, is as in the C library.

pub mod cdev;
mod stack_path;
pub mod sysfs;
mod sysfs_device;
pub mod value;

use core::{ffi::c_int, sync::atomic::Ordering};
use std::os::fd::{AsRawFd, OwnedFd};

use ibverbs_abi::{
    Errno, IB_USER_VERBS_MAX_ABI_VERSION, IB_USER_VERBS_MIN_ABI_VERSION, IBV_NODE_UNKNOWN,
    IBV_SYSFS_PATH_MAX, VSYSFS_READ_NODE_GUID,
};

use self::sysfs::{field, read_file_at, set_field};
use ibverbs_netlink::nldev::{self, NldevAttributes, NldevClient};

pub use self::{cdev::open as open_cdev, stack_path::StackPath, sysfs_device::SysfsDevice};
use crate::{log, sys, uverbs::KERNEL_ABI};

/// The longest value read from most sysfs files, in bytes, as in the C library.
const VALUE_LEN: usize = 32;

/// The devices of the kernel, in the order in which the C library matches them with providers: the last one
/// listed first. Devices whose char device has no file in /dev/infiniband are left out.
///
/// ENOSYS if the kernel has no uverbs, ENOMEM if memory is short or sysfs's path is too long.
pub fn devices() -> Result<Vec<SysfsDevice>, Errno> {
    by_netlink().or_else(|()| by_sysfs())
}

/// The devices that RDMA netlink lists. Any failure to list them means that sysfs is tried.
fn by_netlink() -> Result<Vec<SysfsDevice>, ()> {
    let mut client = NldevClient::open().map_err(drop)?;
    let mut devices = Vec::new();
    let take = |attributes: NldevAttributes| {
        let device = from_attributes(&attributes);
        let complete = device.is_some();
        devices.extend(device);
        complete
    };
    if let Err(why) = client.request(nldev::get_devices(), take) {
        ::log::debug!("RDMA netlink does not list the devices: {why:?}");
        return Err(());
    }
    devices.reverse();
    devices.retain_mut(|device| {
        (char_device(&mut client, device).is_some() || char_device_sysfs(device).is_some())
            && accessible(device)
    });
    Ok(devices)
}

/// A device of netlink's list; None if a required attribute is missing.
fn from_attributes(attributes: &NldevAttributes) -> Option<SysfsDevice> {
    let (name, node_type) = (attributes.dev_name?, attributes.node_type?);
    let (index, guid, ports) = (
        attributes.dev_index?,
        attributes.node_guid?,
        attributes.port_index?,
    );
    let mut device = SysfsDevice::new()?;
    device.ibdev_idx = index as c_int;
    device.num_ports = ports;
    device.node_guid = guid;
    device.flags |= VSYSFS_READ_NODE_GUID;
    device.node_type = sysfs_device::node_type(node_type.into());
    (set_field(&mut device.ibdev_name, &[name]) && set_ibdev_path(&mut device)).then_some(device)
}

/// Fills in the device's uverbs char device from RDMA netlink.
fn char_device(client: &mut NldevClient, device: &mut SysfsDevice) -> Option<()> {
    let request = nldev::get_chardev(device.ibdev_idx as u32, b"uverbs\0");
    let take = |attributes: NldevAttributes| -> bool {
        let (Some(number), Some(abi), Some(name)) = (
            attributes.chardev,
            attributes.chardev_abi,
            attributes.chardev_name,
        ) else {
            return false;
        };
        // The reply has the ABI version of the driver only. That of uverbs has been 6 in every kernel with
        // this request.
        KERNEL_ABI.store(IB_USER_VERBS_MAX_ABI_VERSION as i32, Ordering::Relaxed);
        device.abi_ver = abi as u32;
        device.driver_id = attributes.driver_id.unwrap_or_default();
        let number = nldev::decode_dev(number);
        device.sysfs_cdev = libc::makedev(number.major, number.minor);
        set_field(&mut device.sysfs_name, &[name])
    };
    client.request(request, take).ok()?;
    (!field(&device.sysfs_name).is_empty()).then_some(())
}

/// Fills in the device's uverbs char device from sysfs, for kernels without RDMA_NLDEV_CMD_GET_CHARDEV.
fn char_device_sysfs(device: &mut SysfsDevice) -> Option<()> {
    let dir = open_dir(&[field(&device.ibdev_path), b"/device/infiniband_verbs"])?;
    let mut dir = dir.ok()?;
    let dirfd = dir.fd();
    while let Some(name) = dir.next_name() {
        if name.to_bytes().starts_with(b".") {
            continue;
        }
        // The first one. On old kernels the directory also has those of the device's siblings.
        let uverbs = open_dir_at(dirfd, name)?;
        return uverbs_attributes(&uverbs, name.to_bytes(), device);
    }
    None
}

/// The devices in sysfs.
fn by_sysfs() -> Result<Vec<SysfsDevice>, Errno> {
    let class = open_dir(&[sysfs::path().to_bytes(), b"/class/infiniband_verbs"]);
    let mut dir = class
        .ok_or(Errno(libc::ENOMEM))?
        .map_err(|_| Errno(libc::ENOSYS))?;
    let dirfd = dir.fd();
    let mut devices = Vec::new();
    while let Some(name) = dir.next_name() {
        if !name.to_bytes().starts_with(b".") {
            let device = SysfsDevice::new().ok_or(Errno(libc::ENOMEM))?;
            devices.extend(in_class(dirfd, name, device));
        }
    }
    devices.reverse();
    Ok(devices)
}

/// The device of an entry of sysfs's class `infiniband_verbs`; None if it cannot be used.
fn in_class(dirfd: c_int, name: &core::ffi::CStr, mut device: SysfsDevice) -> Option<SysfsDevice> {
    device.ibdev_idx = -1;
    let uverbs = open_dir_at(dirfd, name)?;
    let mut value = [0; ibverbs_abi::IBV_SYSFS_NAME_MAX];
    let len = read_file_at(uverbs.as_raw_fd(), c"ibdev", &mut value).ok()?;
    let ibdev = value.get(..len).unwrap_or_default();
    if !set_field(&mut device.ibdev_name, &[ibdev]) || !set_ibdev_path(&mut device) {
        return None;
    }
    uverbs_attributes(&uverbs, name.to_bytes(), &mut device)?;

    let mut value = [0; VALUE_LEN];
    let file = format_args!("node_type");
    device.node_type = match sysfs::read_file(field(&device.ibdev_path), file, &mut value) {
        Ok(len @ 1..) => {
            // The C library keeps 32 bits of the number.
            sysfs_device::node_type(value::unsigned(value.get(..len).unwrap_or_default()) as u32)
        }
        _ => IBV_NODE_UNKNOWN,
    };
    accessible(&device).then_some(device)
}

/// Fills in what the sysfs directory of a uverbs device has.
fn uverbs_attributes(dir: &OwnedFd, name: &[u8], device: &mut SysfsDevice) -> Option<()> {
    if !set_field(&mut device.sysfs_name, &[name]) {
        return None;
    }
    let st = stat(&[field(&device.ibdev_path)]).ok()?;
    device.time_created = libc::timespec {
        tv_sec: st.st_mtime,
        tv_nsec: st.st_mtime_nsec,
    };

    let mut value = [0; VALUE_LEN];
    let len = read_file_at(dir.as_raw_fd(), c"dev", &mut value).ok()?;
    let (major, minor) = value::pair(value.get(..len).unwrap_or_default())?;
    device.sysfs_cdev = libc::makedev(major, minor);

    if let Ok(len @ 1..) = read_file_at(dir.as_raw_fd(), c"abi_version", &mut value) {
        device.abi_ver = value::unsigned(value.get(..len).unwrap_or_default()) as u32;
    }
    Some(())
}

fn open_dir_at(dirfd: c_int, name: &core::ffi::CStr) -> Option<OwnedFd> {
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
    sys::openat(dirfd, name, flags).ok()
}

fn set_ibdev_path(device: &mut SysfsDevice) -> bool {
    let name = device.ibdev_name;
    let parts = [
        sysfs::path().to_bytes(),
        b"/class/infiniband/",
        field(&name),
    ];
    set_field(&mut device.ibdev_path, &parts)
}

/// Whether the char device's file exists: in a container it may not.
fn accessible(device: &SysfsDevice) -> bool {
    stat(&[cdev::DIR, field(&device.sysfs_name)]).is_ok()
}

/// stat(2) of the file whose path has these parts.
#[inline(never)]
fn stat(parts: &[&[u8]]) -> Result<libc::stat, Errno> {
    StackPath::joined(parts).finish().and_then(sys::stat)
}

/// Opens the directory whose path has these parts; None if sysfs's path is too long, as in the C library.
#[inline(never)]
fn open_dir(parts: &[&[u8]]) -> Option<Result<sys::Dir, Errno>> {
    let mut path = StackPath::joined(parts);
    let path = path.finish().ok()?;
    (path.count_bytes() < IBV_SYSFS_PATH_MAX).then(|| sys::Dir::open(path))
}

/// The device's node GUID in host byte order, from sysfs; None if it is missing or malformed.
///
/// # Safety
/// `device` is NULL, or points to a device that is valid and unchanged during the call.
pub unsafe fn node_guid(device: *const ibverbs_abi::verbs_sysfs_dev) -> Option<u64> {
    let mut value = [0; 24];
    // SAFETY: `device` is NULL or valid, as the caller promises, which is also read_ibdev's.
    let len = unsafe { sysfs::read_ibdev(device, format_args!("node_guid"), &mut value) }.ok()?;
    value::guid(value.get(..len).unwrap_or_default())
}

/// Checks the version of the kernel's uverbs ABI; called if there are devices. ENOSYS if the kernel does not
/// report it, or the library does not support it.
pub fn check_kernel_abi() -> Result<(), Errno> {
    if KERNEL_ABI.load(Ordering::Relaxed) != 0 {
        return Ok(());
    }
    let mut value = [0; 8];
    let file = format_args!("class/infiniband_verbs/abi_version");
    let len = sysfs::read_file(sysfs::path().to_bytes(), file, &mut value)
        .map_err(|_| Errno(libc::ENOSYS))?;
    let version = value::unsigned(value.get(..len).unwrap_or_default()) as i32;
    // Stored even if it is refused: a second call then returns the devices, as in the C library.
    KERNEL_ABI.store(version, Ordering::Relaxed);
    let (min, max) = (
        IB_USER_VERBS_MIN_ABI_VERSION as i32,
        IB_USER_VERBS_MAX_ABI_VERSION as i32,
    );
    if !(min..=max).contains(&version) {
        let text =
            format!("Fatal: kernel ABI version {version} doesn't match library version {max}.\n");
        log::print(&[text.as_bytes()]);
        return Err(Errno(libc::ENOSYS));
    }
    Ok(())
}
