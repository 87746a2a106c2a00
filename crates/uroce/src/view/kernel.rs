//! Questions of the view to the kernel: links and directories of sysfs, and what a descriptor leads
//! to. Only for paths that may concern the tree.

use core::ffi::{CStr, c_char, c_int};
use core::mem::MaybeUninit;
use std::ffi::CString;

use ibverbs_abi::Errno;

use super::paths::Links;
use super::real;
use crate::pci::{self, PciPath};

/// The longest path, with its NUL.
const PATH_MAX: usize = libc::PATH_MAX as usize;

/// The links of the kernel's file systems.
pub struct KernelLinks;

impl Links for KernelLinks {
    fn target(&self, path: &str) -> Option<String> {
        let path = CString::new(path).ok()?;
        let mut target = [0_u8; PATH_MAX];
        // SAFETY: the path is a C string, and the buffer writable for its length.
        let len = unsafe {
            real::readlink(
                path.as_ptr(),
                target.as_mut_ptr().cast::<c_char>(),
                target.len(),
            )
        };
        let target = target.get(..usize::try_from(len).ok()?)?;
        String::from_utf8(target.to_vec()).ok()
    }
}

/// realpath(3).
pub fn canonical(path: &str) -> Option<String> {
    let path = CString::new(path).ok()?;
    let mut resolved = [0 as c_char; PATH_MAX];
    // SAFETY: the path is a C string, and the buffer has the size that realpath needs.
    let found = unsafe { real::realpath(path.as_ptr(), resolved.as_mut_ptr()) };
    if found.is_null() {
        return None;
    }
    // SAFETY: realpath has succeeded, so it has written a C string.
    let resolved = unsafe { CStr::from_ptr(resolved.as_ptr()) };
    resolved.to_str().ok().map(str::to_owned)
}

/// The text of a short file of sysfs.
fn read_text(path: &str) -> Option<String> {
    let path = CString::new(path).ok()?;
    let mut text = [0_u8; 4096];
    // SAFETY: the path is a C string, and the buffer writable for its length.
    let len = unsafe {
        let fd = real::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC, 0);
        if fd < 0 {
            return None;
        }
        let len = libc::read(fd, text.as_mut_ptr().cast(), text.len());
        libc::close(fd);
        len
    };
    let text = text.get(..usize::try_from(len).ok()?)?;
    core::str::from_utf8(text).ok().map(str::to_owned)
}

/// The number of a device of the kernel, from its `dev` file in sysfs: major and minor.
pub fn device_number(path: &str) -> Option<(u32, u32)> {
    let text = read_text(path)?;
    let (major, minor) = text.trim().split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// The directory of the PCI function at the end of a path, if the host has it.
pub fn pci_function(path: &PciPath) -> Option<String> {
    canonical(&format!("/sys/bus/pci/devices/{}", path.function()))
}

/// The CPUs of a NUMA node, as a list or a mask, as the files of a PCI device have them; all CPUs if the host
/// has no such node.
pub fn local_cpus(node: Option<u16>, as_list: bool) -> Vec<u8> {
    let of_node = |node| read_text(&format!("/sys/devices/system/node/node{node}/cpulist"));
    let list = node.and_then(of_node);
    let list = list.or_else(|| read_text("/sys/devices/system/cpu/online"));
    let list = list.unwrap_or_else(|| "0\n".into());
    let text = match as_list {
        true => list,
        false => pci::cpu_mask(list.trim()) + "\n",
    };
    text.into_bytes()
}

/// The directory of a network interface in `/sys/devices`.
pub fn netdev_path(name: &str) -> String {
    let found = canonical(&format!("/sys/class/net/{name}"));
    found.unwrap_or_else(|| format!("/sys/devices/virtual/net/{name}"))
}

/// The directory of the hardware that a network interface belongs to: its PCI function, if there is one,
/// because programs look for that (a virtio device, for one, is only below its PCI function). None for an
/// interface without hardware.
pub fn netdev_parent(name: &str) -> Option<String> {
    let device = canonical(&format!("/sys/class/net/{name}/device"))?;
    let mut path = device.as_str();
    while let Some((above, last)) = path.rsplit_once('/') {
        if is_pci_address(last) {
            return Some(path.to_owned());
        }
        path = above;
    }
    Some(device)
}

/// Whether this is the name of a PCI function: `0000:00:03.0`.
fn is_pci_address(name: &str) -> bool {
    let is_hex = |text: &str, len| text.len() >= len && text.bytes().all(|c| c.is_ascii_hexdigit());
    let Some((slot, function)) = name.split_once('.') else {
        return false;
    };
    let parts: Vec<_> = slot.split(':').collect();
    matches!(parts[..], [domain, bus, device]
        if is_hex(domain, 4) && is_hex(bus, 2) && is_hex(device, 2) && is_hex(function, 1))
}

/// fstat(2).
fn fstat(fd: c_int) -> Option<libc::stat> {
    let mut found = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the structure is writable.
    if unsafe { real::fstat(fd, found.as_mut_ptr()) } != 0 {
        return None;
    }
    // SAFETY: fstat has succeeded, so it has filled the structure.
    Some(unsafe { found.assume_init() })
}

/// Device and inode of the file behind a descriptor.
pub fn identity(fd: c_int) -> Option<(u64, u64)> {
    fstat(fd).map(|found| (found.st_dev, found.st_ino))
}

/// Whether the kernel has a directory behind a descriptor.
pub fn is_directory(fd: c_int) -> bool {
    fstat(fd).is_some_and(|found| found.st_mode & libc::S_IFMT == libc::S_IFDIR)
}

/// stat(2) of a path, or lstat(2).
pub fn stat(path: &str, follow: bool) -> Option<libc::stat> {
    let path = CString::new(path).ok()?;
    let mut found = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the path is a C string, and the structure writable.
    let result = unsafe {
        if follow {
            real::stat(path.as_ptr(), found.as_mut_ptr())
        } else {
            real::lstat(path.as_ptr(), found.as_mut_ptr())
        }
    };
    // SAFETY: the call has succeeded, so it has filled the structure.
    (result == 0).then(|| unsafe { found.assume_init() })
}

/// Calls `work` with the path of the working directory; None if it has been removed or is outside the root
/// directory. Allocates nothing.
pub fn with_cwd<R>(work: impl FnOnce(&[u8]) -> R) -> Option<R> {
    let mut path = [0 as c_char; PATH_MAX];
    // SAFETY: the buffer is writable for its length.
    if unsafe { real::getcwd(path.as_mut_ptr(), path.len()) }.is_null() {
        return None;
    }
    // SAFETY: getcwd has succeeded, so it has written a C string.
    let path = unsafe { CStr::from_ptr(path.as_ptr()) }.to_bytes();
    path.starts_with(b"/").then(|| work(path))
}

/// The working directory; None if it has been removed, is outside the root directory, or is not UTF-8.
pub fn cwd() -> Option<String> {
    with_cwd(|path| core::str::from_utf8(path).ok().map(str::to_owned)).flatten()
}

/// The nearest directory at or above an absolute path that exists.
pub fn nearest_directory(path: &str) -> &str {
    let mut nearest = path;
    while nearest.len() > 1 && stat(nearest, true).is_none() {
        nearest = match nearest.rfind('/') {
            Some(0) | None => "/",
            Some(at) => &nearest[..at],
        };
    }
    nearest
}

/// An entry of a directory of the kernel: name, inode, type.
pub type KernelEntry = (CString, u64, u8);

/// The entries of a directory of the kernel; none if it does not exist. Fails as opendir(3) and readdir(3).
/// errno stays as it is.
pub fn entries(path: &str) -> Result<Vec<KernelEntry>, Errno> {
    let errno = Errno::last();
    let found = read_entries(path);
    errno.set();
    found
}

fn read_entries(path: &str) -> Result<Vec<KernelEntry>, Errno> {
    let mut found = Vec::new();
    let path = CString::new(path).map_err(|_| Errno(libc::EINVAL))?;
    // SAFETY: the path is a C string.
    let dir = unsafe { real::opendir(path.as_ptr()) };
    if dir.is_null() {
        return match Errno::last() {
            Errno(libc::ENOENT | libc::ENOTDIR) => Ok(found),
            errno => Err(errno),
        };
    }
    Errno(0).set();
    // SAFETY: the directory is open until closedir, and used by this thread only. Its entries are valid
    // until the next call.
    unsafe {
        while let Some(entry) = real::readdir(dir).as_ref() {
            let name = CStr::from_ptr(entry.d_name.as_ptr()).to_owned();
            found.push((name, entry.d_ino, entry.d_type));
            Errno(0).set();
        }
        let errno = Errno::last();
        real::closedir(dir);
        if errno == Errno(0) {
            Ok(found)
        } else {
            Err(errno)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pci_addresses() {
        assert!(is_pci_address("0000:00:03.0"));
        assert!(is_pci_address("10000:e1:00.1"));
        for other in [
            "virtio2",
            "0000:00",
            "0000.00.03.0",
            "0000:00:03.g",
            "pci0000:00",
        ] {
            assert!(!is_pci_address(other), "{other}");
        }
    }
}
