//! Loading providers: which ones, when, and in what order.
//!
//! The C library loads every configured provider as soon as one device has no driver. This library
//! loads those of rdma-core's providers ([`super::rdma_core`]) that fit no device present lazily: when a
//! device appears that they may drive, or when no other driver accepts a device. Providers with other
//! names, and those of RDMAV_DRIVERS, are always loaded with the first device.
//!
//! A program observes the same as with the C library:
//! - Which driver gets a device. All drivers that may match are loaded before any is offered the
//!   device, and drivers are ordered by their place in the configuration, not by load time
//!   ([`registry`]). If none accepts the device, the remaining providers are loaded, so a provider
//!   newer than the table still gets its device.
//! - What is printed on stderr. A provider whose file dlopen might reject (missing, unreadable,
//!   truncated, of another machine or provider ABI: [`super::elf`]) is loaded at once, for the message.
//!   Errors that only the dynamic linker detects, such as an undefined symbol, are printed when the
//!   provider is loaded. A driver that matches no device prints nothing.
//!
//! Only /proc/self/maps shows whether a provider is loaded. Its public functions (`mlx5dv_*`) do not
//! need this: a program that calls them is linked to the provider, which loads it at program start.

pub mod search;

use core::ffi::CStr;
use std::{
    ffi::{CString, OsStr},
    os::unix::ffi::OsStrExt,
};

use libloading::os::unix::{Library, RTLD_NOW};

use self::search::Directories;
use super::{
    abi::V34,
    config,
    identify::{self, Refusal, Verdict},
    matching, rdma_core,
    registry::{self, Driver},
};
use crate::{
    discover::{SysfsDevice, sysfs::field},
    env,
};

/// The directory of the configuration files. IBV_CONFIG_DIR at build time replaces it.
const CONFIG_DIR: &str = match option_env!("IBV_CONFIG_DIR") {
    Some(dir) => dir,
    None => "/etc/libibverbs.d",
};

/// The rank of drivers that register after the configuration was read without being loaded by this
/// file, for example because the program dlopened their provider.
const LATE: u32 = u32::MAX;

/// A configured provider that is not loaded yet.
struct ConfiguredProvider {
    name: CString,
    /// `None` if the provider is loaded whatever devices are present.
    entry: Option<rdma_core::Provider>,
    rank: u32,
}

/// The configured providers.
#[derive(Default)]
pub struct Providers {
    configured: bool,
    /// The providers that are not loaded yet.
    deferred: Vec<ConfiguredProvider>,
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
    ///
    /// Not inlined: its buffers use the stack that the search for devices has used before.
    #[inline(never)]
    pub fn load_for(&mut self, devices: &mut [SysfsDevice]) {
        let first = !core::mem::replace(&mut self.configured, true);
        let candidates = if first {
            configuration()
        } else {
            core::mem::take(&mut self.deferred)
        };
        let needed = needed(&candidates, devices);
        let mut dirs = None;
        for (provider, needed) in candidates.into_iter().zip(needed) {
            if !needed && !first {
                self.deferred.push(provider);
                continue;
            }
            let dirs = dirs.get_or_insert_with(Directories::default);
            if needed || !would_load(dirs, &provider.name) {
                registry::ranked(provider.rank, LATE, || load(dirs, &provider.name));
            } else {
                self.deferred.push(provider);
            }
        }
    }

    /// Loads all providers that are not loaded yet, and returns the drivers that they registered.
    pub fn load_deferred(&mut self) -> Vec<Driver> {
        let before = registry::count();
        let mut dirs = None;
        for provider in core::mem::take(&mut self.deferred) {
            let dirs = dirs.get_or_insert_with(Directories::default);
            registry::ranked(provider.rank, LATE, || load(dirs, &provider.name));
        }
        registry::drivers_since(before)
    }
}

/// All configured providers in the order in which the C library loads them: first those of
/// RDMAV_DRIVERS (or IBV_DRIVERS), then those of the configuration files, the last line first.
fn configuration() -> Vec<ConfiguredProvider> {
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
        let entry = rdma_core::Provider::named(name.to_bytes());
        (name, entry)
    });
    let ranks = 1..LATE;
    let ranked = forced.chain(usual).zip(ranks);
    ranked
        .map(|((name, entry), rank)| ConfiguredProvider { name, entry, rank })
        .collect()
}

/// The names in RDMAV_DRIVERS, including empty ones.
fn names(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.split(|c| matches!(c, b':' | b';'))
}

/// Decides for each of `providers` whether it must be loaded for `devices`.
fn needed(providers: &[ConfiguredProvider], devices: &mut [SysfsDevice]) -> Vec<bool> {
    let mut needed: Vec<bool> = providers
        .iter()
        .map(|provider| provider.entry.is_none())
        .collect();
    for device in devices {
        let id = device.driver_id;
        let by_id = |entry: rdma_core::Provider| entry.has_driver_id(id);
        if providers
            .iter()
            .filter_map(|provider| provider.entry)
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
        let device = rdma_core::Traits {
            driver_id: id,
            name,
            modalias,
        };
        mark(&mut needed, providers, |entry| entry.may_drive(&device));
    }
    needed
}

/// Sets the entries of rdma-core's providers that pass `test`.
fn mark(
    needed: &mut [bool],
    providers: &[ConfiguredProvider],
    test: impl Fn(rdma_core::Provider) -> bool,
) {
    for (needed, provider) in needed.iter_mut().zip(providers) {
        *needed |= provider.entry.is_some_and(&test);
    }
}

/// Whether dlopen would accept the file that [`load`] tries first, as far as [`super::elf`] can tell.
fn would_load(dirs: &mut Directories, name: &CStr) -> bool {
    matches!(
        dirs.examine_first(name),
        Some(Verdict::Supported(_) | Verdict::NoProvider)
    )
}

/// Loads a provider, which is never unloaded; its constructor registers its driver. Its files are tried in
/// order. Prints a warning on stderr if none can be loaded, with the reason of the last one.
fn load(dirs: &mut Directories, name: &CStr) {
    let by_path = name.to_bytes().starts_with(b"/");
    let mut suffixes = Vec::new();
    let mut failure = None;
    for file in dirs.files(name) {
        match load_file(dirs, &file.path) {
            Ok(()) => return,
            Err(why) => {
                if let NotLoaded::Linker(_) = why {
                    suffixes.extend(file.suffix);
                }
                failure = Some((file.path, why));
            }
        }
    }
    if by_path || failure.is_some() && suffixes.is_empty() {
        return failed(failure);
    }
    if suffixes.is_empty() {
        suffixes = search::suffixes().collect();
    }
    for suffix in suffixes {
        let file = cstring(&[b"lib", name.to_bytes(), suffix.as_bytes()]);
        match dlopen(&file) {
            Ok(()) => return,
            Err(why) => failure = Some((file, NotLoaded::Linker(why))),
        }
    }
    failed(failure);
}

/// Why a provider's file was not loaded.
enum NotLoaded {
    Refused(Refusal),
    Linker(libloading::Error),
}

/// Loads a file, unless it is known not to fit.
fn load_file(dirs: &mut Directories, path: &CStr) -> Result<(), NotLoaded> {
    let verdict = dirs.examine(path);
    if let Verdict::Refused(refusal) = verdict {
        return Err(NotLoaded::Refused(refusal));
    }
    dlopen(path).map_err(NotLoaded::Linker)?;
    // With providers of ABI 34 alone the log is the C library's.
    if let Verdict::Supported(abi) = verdict {
        if abi.number != V34.number {
            let (path, number, releases) = (path.to_string_lossy(), abi.number, abi.releases);
            log::debug!("loaded {path} (provider ABI {number}, rdma-core {releases})");
        }
    }
    Ok(())
}

/// Prints the warning that a provider was not loaded.
fn failed(failure: Option<(CString, NotLoaded)>) {
    let Some((file, why)) = failure else { return };
    let file = OsStr::from_bytes(file.to_bytes());
    let reason = match &why {
        NotLoaded::Refused(refusal) => refusal.reason(),
        NotLoaded::Linker(why) => why.to_string(),
    };
    registry::loading_failed(file.to_string_lossy().into_owned(), reason);
    match why {
        NotLoaded::Refused(refusal) => identify::warn(file, refusal),
        NotLoaded::Linker(why) => crate::log::print(&[
            b"Warning: couldn't load driver '",
            file.as_bytes(),
            b"': ",
            why.to_string().as_bytes(),
            b"\n",
        ]),
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

    fn configured(names: &[&str]) -> Vec<ConfiguredProvider> {
        let configured = |name: &&str| ConfiguredProvider {
            name: CString::new(*name).unwrap(),
            entry: rdma_core::Provider::named(name.as_bytes()),
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
        let mut dirs = Directories::default();
        assert!(!would_load(&mut dirs, c"no-such-provider"));
        assert!(!would_load(&mut dirs, c""));
        assert!(!would_load(&mut dirs, c"/../"));
    }
}
