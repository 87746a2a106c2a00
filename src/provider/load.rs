//! Loading providers: which, when, and in what order.
//!
//! The C library loads every configured provider as soon as one device has no driver. Here a provider
//! of rdma-core's ([`super::known`]) that no such device can be for is put off: it keeps its place in
//! the order, and is loaded when a device appears that it could be for, or when a device has found no
//! driver among all others. Providers of other names, and those of RDMAV_DRIVERS, are never put off.
//!
//! What a program can observe stays the same:
//! - Which driver gets a device. All drivers that could match are loaded before devices are offered to
//!   any; a driver stands where the configuration puts it, no matter when it came ([`registry`]). If
//!   none takes the device, the rest is loaded, so a provider newer than our table still gets it.
//! - What is on stderr. A provider's file that dlopen might refuse (missing, unreadable, cut, of
//!   another machine or provider ABI: [`elf`]) is dlopened at once, for the message. What only the
//!   dynamic linker can find out, such as an undefined symbol, is said when the provider is needed. A
//!   driver that matches no device prints nothing.
//! - That a provider is loaded at all shows only in /proc/self/maps. Providers' own public functions
//!   (`mlx5dv_*`) come from the program's link to the provider, which loads it without us.

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

/// Where configuration files are; IBV_CONFIG_DIR at build time moves it.
const CONFIG_DIR: &str = match option_env!("IBV_CONFIG_DIR") {
    Some(dir) => dir,
    None => "/etc/libibverbs.d",
};

/// Where providers are; IBVERBS_PROVIDER_DIR at build time moves it. If it is empty, only the dynamic
/// linker's own search finds them.
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

/// The rank of drivers that register after the configuration was read, by no doing of ours.
const LATE: u32 = u32::MAX;

/// A configured provider that is not loaded.
struct Configured {
    name: CString,
    /// `None` if it must be loaded, whatever the devices.
    known: Option<known::Provider>,
    rank: u32,
}

/// The configured providers, loaded or not.
#[derive(Default)]
pub struct Providers {
    configured: bool,
    pending: Vec<Configured>,
}

impl Providers {
    /// Nothing loaded, nothing read.
    pub const fn new() -> Self {
        Providers {
            configured: false,
            pending: Vec::new(),
        }
    }

    /// Whether the configuration has been read, and its providers loaded or put off.
    pub fn configured(&self) -> bool {
        self.configured
    }

    /// Loads the providers that `devices` call for; the first time, reads the configuration for it.
    pub fn load_for(&mut self, devices: &mut [SysfsDevice]) {
        let first = !core::mem::replace(&mut self.configured, true);
        let candidates = if first {
            configuration()
        } else {
            core::mem::take(&mut self.pending)
        };
        let wanted = wanted(&candidates, devices);
        let mut inspector = first.then(Inspector::new);
        for (provider, wanted) in candidates.into_iter().zip(wanted) {
            let mut refused = || {
                inspector
                    .as_mut()
                    .is_some_and(|inspector| !inspector.is_fine(&provider.name))
            };
            if wanted || refused() {
                registry::ranked(provider.rank, LATE, || load(&provider.name));
            } else {
                self.pending.push(provider);
            }
        }
    }

    /// Loads what was put off, and returns the drivers that this brought.
    pub fn load_rest(&mut self) -> Vec<Driver> {
        let before = registry::count();
        for provider in core::mem::take(&mut self.pending) {
            registry::ranked(provider.rank, LATE, || load(&provider.name));
        }
        registry::drivers_since(before)
    }
}

/// All configured providers in the order in which the C library loads them: those of the environment,
/// then those of the configuration files, the last line first.
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

/// The names in RDMAV_DRIVERS, the empty ones too.
fn names(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.split(|c| matches!(c, b':' | b';'))
}

/// Which of `providers` are to be loaded for `devices`.
fn wanted(providers: &[Configured], devices: &mut [SysfsDevice]) -> Vec<bool> {
    let mut wanted: Vec<bool> = providers
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
            // It will be offered the device before all others.
            mark(&mut wanted, providers, by_id);
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
        mark(&mut wanted, providers, |known| known.may_take(&device));
    }
    wanted
}

fn mark(wanted: &mut [bool], providers: &[Configured], test: impl Fn(known::Provider) -> bool) {
    for (wanted, provider) in wanted.iter_mut().zip(providers) {
        *wanted |= provider.known.is_some_and(&test);
    }
}

/// How much of a file is read at first: more than most providers need for their version references.
const START: usize = 6144;

/// Looks at the files of providers that are not loaded now.
struct Inspector {
    dir: Option<OwnedFd>,
    /// The start of a file, which has most of what [`elf`] asks for.
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

    /// Whether dlopen will take the provider's file.
    fn is_fine(&mut self, name: &CStr) -> bool {
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
                &Object {
                    file: &file,
                    start,
                    rest: Cell::default(),
                },
                ABI,
            )
        })
    }
}

/// A provider's file.
struct Object<'a> {
    file: &'a File,
    start: &'a [u8],
    rest: Cell<Piece>,
}

/// Some bytes of a file from behind its start.
#[derive(Default)]
struct Piece {
    offset: u64,
    bytes: Vec<u8>,
}

impl elf::ReadAt for Object<'_> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Option<()> {
        copy(self.start, offset, buf).or_else(|| {
            let mut piece = self.rest.take();
            let mut copied = offset
                .checked_sub(piece.offset)
                .and_then(|at| copy(&piece.bytes, at, buf));
            if copied.is_none() {
                piece.offset = offset;
                piece.bytes.resize(4096, 0);
                let len = self.file.read_at(&mut piece.bytes, offset).unwrap_or(0);
                piece.bytes.truncate(len);
                copied = copy(&piece.bytes, 0, buf);
            }
            self.rest.set(piece);
            copied
        })
    }
}

fn copy(bytes: &[u8], offset: u64, buf: &mut [u8]) -> Option<()> {
    let from = bytes
        .get(usize::try_from(offset).ok()?..)?
        .get(..buf.len())?;
    buf.copy_from_slice(from);
    Some(())
}

/// Loads a provider for good; it registers its driver meanwhile. Says on stderr why it cannot.
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
    // SAFETY: the file's constructors run, as they have always done in the C library. No lock that
    // they could need is held: the registry's is not.
    let library = unsafe { Library::open(Some(file), RTLD_NOW) }?;
    // Devices and contexts lead into its code from now on.
    core::mem::forget(library);
    Ok(())
}

/// The parts in a row; they come from C strings and have no NUL.
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
    fn only_what_devices_call_for() {
        let providers = configured(&["mlx5", "vendors_own", "rxe", "siw"]);
        let wanted = |devices: &mut [SysfsDevice]| wanted(&providers, devices);
        assert_eq!(wanted(&mut []), [false, true, false, false]);
        let rxe = || device("rxe0", RDMA_DRIVER_UNKNOWN);
        assert_eq!(wanted(&mut [rxe()]), [false, true, true, false]);
        // With a driver id that is configured the name does not count, else it does.
        let renamed = device("rxe0", RDMA_DRIVER_MLX5);
        assert_eq!(wanted(&mut [renamed]), [true, true, false, false]);
        assert_eq!(
            wanted(&mut [device("rxe0", 99)]),
            [false, true, true, false]
        );
        let both = &mut [rxe(), device("x", RDMA_DRIVER_MLX5)];
        assert_eq!(wanted(both), [true, true, true, false]);
    }

    #[test]
    fn a_missing_provider_is_not_fine() {
        let mut inspector = Inspector::new();
        assert!(!inspector.is_fine(c"no-such-provider"));
        assert!(!inspector.is_fine(c""));
        assert!(!inspector.is_fine(c"/../"));
    }
}
