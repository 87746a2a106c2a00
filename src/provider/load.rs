//! Loading providers: which ones, when, and in what order.
//!
//! The C library loads every configured provider as soon as one device has no driver. This library
//! loads those of rdma-core's providers ([`super::known`]) that fit no device present lazily: when a
//! device appears that they may drive, or when no other driver accepts a device. Providers with other
//! names, and those of RDMAV_DRIVERS, are always loaded with the first device.
//!
//! A program observes the same as with the C library:
//! - Which driver gets a device. All drivers that may match are loaded before any is offered the
//!   device, and drivers are ordered by their place in the configuration, not by load time
//!   ([`registry`]). If none accepts the device, the remaining providers are loaded, so a provider
//!   newer than the table still gets its device.
//! - What is printed on stderr. A provider whose file dlopen might reject (missing, unreadable,
//!   truncated, of another machine or provider ABI: [`elf`]) is dlopened at once, for the message.
//!   Errors that only the dynamic linker detects, such as an undefined symbol, are printed when the
//!   provider is loaded. A driver that matches no device prints nothing.
//!
//! Only /proc/self/maps shows whether a provider is loaded. Its public functions (`mlx5dv_*`) do not
//! need this: a program that calls them is linked to the provider, which loads it at program start.

pub mod elf;

use core::{cell::Cell, ffi::CStr};
use std::{
    ffi::{CString, OsStr},
    fs::File,
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::{ffi::OsStrExt, fs::FileExt},
    },
};

use libloading::os::unix::{Library, RTLD_NOW};

use super::{
    config, known, matching,
    registry::{self, Driver},
};
use crate::{
    discover::{StackPath, SysfsDevice, sysfs::field},
    env, sys,
};

/// The directory of the configuration files. IBV_CONFIG_DIR at build time replaces it.
const CONFIG_DIR: &str = match option_env!("IBV_CONFIG_DIR") {
    Some(dir) => dir,
    None => "/etc/libibverbs.d",
};

/// The directory of the providers. IBVERBS_PROVIDER_DIR at build time replaces it. If it is empty, the
/// dynamic linker searches its own path only.
const PROVIDER_DIR: &str = match option_env!("IBVERBS_PROVIDER_DIR") {
    Some(dir) => dir,
    None if cfg!(target_arch = "x86_64") => "/usr/lib/x86_64-linux-gnu/libibverbs",
    None if cfg!(target_arch = "aarch64") => "/usr/lib/aarch64-linux-gnu/libibverbs",
    None if cfg!(target_arch = "riscv64") => "/usr/lib/riscv64-linux-gnu/libibverbs",
    None if cfg!(target_arch = "loongarch64") => "/usr/lib/loongarch64-linux-gnu/libibverbs",
    None => "/usr/lib/libibverbs",
};

const SUFFIX: &[u8] = b"-rdmav34.so";
const ABI: &[u8] = b"IBVERBS_PRIVATE_34";

/// The rank of drivers that register after the configuration was read without being loaded by this
/// file, for example because the program dlopened their provider.
const LATE: u32 = u32::MAX;

/// A configured provider that is not loaded yet.
struct Configured {
    name: CString,
    /// `None` if the provider is loaded whatever devices are present.
    known: Option<known::Provider>,
    rank: u32,
}

/// The configured providers.
#[derive(Default)]
pub struct Providers {
    configured: bool,
    /// Those that are not loaded yet.
    deferred: Vec<Configured>,
}

impl Providers {
    /// Reads and loads nothing yet.
    pub const fn new() -> Self {
        Providers {
            configured: false,
            deferred: Vec::new(),
        }
    }

    /// Whether [`Providers::load_for`] has read the configuration.
    pub fn configured(&self) -> bool {
        self.configured
    }

    /// Loads the providers that `devices` need. The first call reads the configuration.
    pub fn load_for(&mut self, devices: &mut [SysfsDevice]) {
        let first = !core::mem::replace(&mut self.configured, true);
        let candidates = if first {
            configuration()
        } else {
            core::mem::take(&mut self.deferred)
        };
        let needed = needed(&candidates, devices);
        let mut inspector = first.then(Inspector::new);
        for (provider, needed) in candidates.into_iter().zip(needed) {
            let mut suspect = || {
                inspector
                    .as_mut()
                    .is_some_and(|inspector| !inspector.would_load(&provider.name))
            };
            if needed || suspect() {
                registry::ranked(provider.rank, LATE, || load(&provider.name));
            } else {
                self.deferred.push(provider);
            }
        }
    }

    /// Loads all providers that are not loaded yet, and returns the drivers that they registered.
    pub fn load_deferred(&mut self) -> Vec<Driver> {
        let before = registry::count();
        for provider in core::mem::take(&mut self.deferred) {
            registry::ranked(provider.rank, LATE, || load(&provider.name));
        }
        registry::drivers_since(before)
    }
}

/// All configured providers in the order in which the C library loads them: first those of
/// RDMAV_DRIVERS (or IBV_DRIVERS), then those of the configuration files, the last line first.
fn configuration() -> Vec<Configured> {
    let mut files = config::read(&cstring(&[CONFIG_DIR.as_bytes()]), &mut crate::log::print);
    files.reverse();
    let by_environment = if env::trusted() {
        env::get(c"RDMAV_DRIVERS").or_else(|| env::get(c"IBV_DRIVERS"))
    } else {
        None
    };
    let by_environment = by_environment
        .map(CStr::to_bytes)
        .into_iter()
        .flat_map(names);
    let forced = by_environment.map(|name| (cstring(&[name]), None));
    let usual = files.into_iter().map(|name| {
        let known = known::Provider::named(name.to_bytes());
        (name, known)
    });
    let ranks = 1..LATE;
    let ranked = forced.chain(usual).zip(ranks);
    ranked
        .map(|((name, known), rank)| Configured { name, known, rank })
        .collect()
}

/// The names in RDMAV_DRIVERS, including empty ones.
fn names(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.split(|c| matches!(c, b':' | b';'))
}

/// For each of `providers`, whether it must be loaded for `devices`.
fn needed(providers: &[Configured], devices: &mut [SysfsDevice]) -> Vec<bool> {
    let mut needed: Vec<bool> = providers
        .iter()
        .map(|provider| provider.known.is_none())
        .collect();
    for device in devices {
        let id = device.driver_id;
        let by_id = |known: known::Provider| known.has_driver_id(id);
        if providers
            .iter()
            .filter_map(|provider| provider.known)
            .any(by_id)
        {
            // Drivers with the device's driver id are offered the device before all others.
            mark(&mut needed, providers, by_id);
            continue;
        }
        let modalias = matching::modalias(device)
            .map(CStr::to_bytes)
            .unwrap_or_default()
            .to_vec();
        let (name, modalias) = (field(&device.ibdev_name), modalias.as_slice());
        let device = known::Traits {
            driver_id: id,
            name,
            modalias,
        };
        mark(&mut needed, providers, |known| known.may_drive(&device));
    }
    needed
}

/// Sets the entries of the known providers that pass `test`.
fn mark(needed: &mut [bool], providers: &[Configured], test: impl Fn(known::Provider) -> bool) {
    for (needed, provider) in needed.iter_mut().zip(providers) {
        *needed |= provider.known.is_some_and(&test);
    }
}

/// How many bytes of a file are read at first. Most providers' version references lie within them.
const START: usize = 6144;

/// Examines the files of providers that are not loaded now.
struct Inspector {
    dir: Option<OwnedFd>,
    /// The start of the current file, which contains most of what [`elf`] reads.
    start: Box<[u8; START]>,
}

impl Inspector {
    fn new() -> Self {
        let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC;
        let dir = sys::open(&cstring(&[PROVIDER_DIR.as_bytes()]), flags).ok();
        Inspector {
            dir,
            start: Box::new([0; START]),
        }
    }

    /// Whether dlopen would accept the provider's file, as far as [`elf`] can tell.
    fn would_load(&mut self, name: &CStr) -> bool {
        let Some(dir) = &self.dir else { return false };
        let mut file = StackPath::new()
            .push(b"lib")
            .push(name.to_bytes())
            .push(SUFFIX);
        let flags = libc::O_RDONLY | libc::O_CLOEXEC;
        let fd = file
            .finish()
            .and_then(|file| sys::openat(dir.as_raw_fd(), file, flags));
        fd.is_ok_and(|fd| {
            let file = File::from(fd);
            let read = file.read_at(&mut self.start[..], 0).unwrap_or(0);
            let start = self.start.get(..read).unwrap_or_default();
            elf::is_provider(
                &ProviderFile {
                    file: &file,
                    start,
                    chunk: Cell::default(),
                },
                ABI,
            )
        })
    }
}

/// A provider's file, with two parts of it in memory.
struct ProviderFile<'a> {
    file: &'a File,
    start: &'a [u8],
    /// The bytes read last beyond `start`.
    chunk: Cell<Chunk>,
}

/// Some bytes of a file.
#[derive(Default)]
struct Chunk {
    offset: u64,
    bytes: Vec<u8>,
}

impl elf::ReadAt for ProviderFile<'_> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Option<()> {
        copy(self.start, offset, buf).or_else(|| {
            let mut chunk = self.chunk.take();
            let mut copied = offset
                .checked_sub(chunk.offset)
                .and_then(|at| copy(&chunk.bytes, at, buf));
            if copied.is_none() {
                chunk.offset = offset;
                chunk.bytes.resize(4096, 0);
                let len = self.file.read_at(&mut chunk.bytes, offset).unwrap_or(0);
                chunk.bytes.truncate(len);
                copied = copy(&chunk.bytes, 0, buf);
            }
            self.chunk.set(chunk);
            copied
        })
    }
}

/// Fills `buf` from `bytes` at `offset`; `None` if they end before.
fn copy(bytes: &[u8], offset: u64, buf: &mut [u8]) -> Option<()> {
    let from = bytes
        .get(usize::try_from(offset).ok()?..)?
        .get(..buf.len())?;
    buf.copy_from_slice(from);
    Some(())
}

/// Loads a provider, which is never unloaded; its constructor registers its driver. Prints a warning
/// on stderr if it cannot be loaded.
fn load(name: &CStr) {
    let name = name.to_bytes();
    let file = if name.starts_with(b"/") {
        cstring(&[name, SUFFIX])
    } else {
        let dir = PROVIDER_DIR.as_bytes();
        if !dir.is_empty() && dlopen(&cstring(&[dir, b"/lib", name, SUFFIX])).is_ok() {
            return;
        }
        cstring(&[b"lib", name, SUFFIX])
    };
    if let Err(why) = dlopen(&file) {
        let why = why.to_string();
        let file = file.to_bytes();
        crate::log::print(&[
            b"Warning: couldn't load driver '",
            file,
            b"': ",
            why.as_bytes(),
            b"\n",
        ]);
    }
}

fn dlopen(file: &CStr) -> Result<(), libloading::Error> {
    let file = OsStr::from_bytes(file.to_bytes());
    // SAFETY: the configuration names the file as a provider, whose constructors may run in any thread.
    // They take the registry's lock, which is not held here.
    let library = unsafe { Library::open(Some(file), RTLD_NOW) }?;
    // Never closed: from now on devices and contexts have pointers to its code.
    core::mem::forget(library);
    Ok(())
}

/// The concatenated parts, none of which contains a NUL.
fn cstring(parts: &[&[u8]]) -> CString {
    CString::new(parts.concat()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use ibverbs_abi::{RDMA_DRIVER_MLX5, RDMA_DRIVER_UNKNOWN};

    use super::*;
    use crate::discover::sysfs::set_field;

    #[test]
    fn names_of_the_environment() {
        let all = |list: &'static str| -> Vec<_> {
            names(list.as_bytes())
                .map(|name| core::str::from_utf8(name).unwrap())
                .collect()
        };
        assert_eq!(all("rxe"), ["rxe"]);
        assert_eq!(all("rxe:/opt/siw;mlx5"), ["rxe", "/opt/siw", "mlx5"]);
        assert_eq!(all(""), [""]);
        assert_eq!(all(":rxe;"), ["", "rxe", ""]);
    }

    fn configured(names: &[&str]) -> Vec<Configured> {
        let configured = |name: &&str| Configured {
            name: CString::new(*name).unwrap(),
            known: known::Provider::named(name.as_bytes()),
            rank: 1,
        };
        names.iter().map(configured).collect()
    }

    fn device(name: &str, driver_id: u32) -> SysfsDevice {
        let mut device = SysfsDevice::new().unwrap();
        assert!(set_field(&mut device.ibdev_name, &[name.as_bytes()]));
        device.driver_id = driver_id;
        device
    }

    #[test]
    fn only_what_devices_need() {
        let providers = configured(&["mlx5", "vendors_own", "rxe", "siw"]);
        let needed = |devices: &mut [SysfsDevice]| needed(&providers, devices);
        assert_eq!(needed(&mut []), [false, true, false, false]);
        let rxe = || device("rxe0", RDMA_DRIVER_UNKNOWN);
        assert_eq!(needed(&mut [rxe()]), [false, true, true, false]);
        // The name is not considered if a configured provider has the device's driver id.
        let renamed = device("rxe0", RDMA_DRIVER_MLX5);
        assert_eq!(needed(&mut [renamed]), [true, true, false, false]);
        assert_eq!(
            needed(&mut [device("rxe0", 99)]),
            [false, true, true, false]
        );
        let both = &mut [rxe(), device("x", RDMA_DRIVER_MLX5)];
        assert_eq!(needed(both), [true, true, true, false]);
    }

    #[test]
    fn a_missing_provider_would_not_load() {
        let mut inspector = Inspector::new();
        assert!(!inspector.would_load(c"no-such-provider"));
        assert!(!inspector.would_load(c""));
        assert!(!inspector.would_load(c"/../"));
    }
}
