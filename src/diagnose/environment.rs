//! The environment: explains why a program finds no device, or cannot open one, from what the
//! kernel has and which files are there.
//!
//! Not here: what is wrong with a call on a device (`calls`).

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use ibverbs_abi::Errno;

use super::finding::{Finding, Kind, Object, Outcome, describe};
use super::rules::Rule;
use super::shadow;
use crate::discover::sysfs;
use crate::provider::registry::{self, Refused};
use crate::provider::software;

/// The RDMA devices and device files that a machine has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Machine {
    /// Names in /sys/class/infiniband.
    devices: Vec<String>,
    /// /sys/class/infiniband_verbs exists, which the module ib_uverbs makes.
    has_uverbs: bool,
    /// Some devices have no provider that supports them, which [`check_providers`] reports.
    has_unserved: bool,
    /// Names in /dev/infiniband.
    files: Vec<String>,
    /// The process is in a container, as far as that can be seen.
    in_container: bool,
    /// IBV_UROCE asks for a device.
    asks_for_uroce: bool,
}

/// Continues advice: the software device of this library, if it was built with one.
const OR_SOFTWARE: &str = if cfg!(feature = "uroce") {
    "; for a software device set IBV_UROCE=1"
} else {
    ""
};

/// The explanation if IBV_UROCE asks for devices and there is none: why, and what to do.
const NO_SOFTWARE_DEVICE: (&str, &str) = if cfg!(feature = "uroce") {
    (
        "the kernel has none, and no device of IBV_UROCE could be created",
        "correct IBV_UROCE: it names an interface or an address that exists (libibverbs-rs(7))",
    )
} else {
    ("", "")
};

/// A path in sysfs, where the library finds the devices.
fn in_sysfs(path: &str) -> PathBuf {
    Path::new(OsStr::from_bytes(sysfs::path().to_bytes())).join(path)
}

fn names(dir: impl AsRef<Path>) -> Vec<String> {
    let Ok(entries) = fs::read_dir(dir) else {
        return Vec::new();
    };
    let names = entries.flatten().map(|entry| entry.file_name());
    let mut names: Vec<String> = names
        .map(|name| name.to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

impl Machine {
    fn look() -> Machine {
        let exists = |path: &str| Path::new(path).exists();
        Machine {
            devices: names(in_sysfs("class/infiniband")),
            has_uverbs: in_sysfs("class/infiniband_verbs").exists(),
            has_unserved: !registry::unserved().is_empty(),
            files: names("/dev/infiniband"),
            in_container: exists("/.dockerenv") || exists("/run/.containerenv"),
            asks_for_uroce: software::is_requested(),
        }
    }

    fn has_uverbs_file(&self) -> bool {
        self.files.iter().any(|name| name.starts_with("uverbs"))
    }
}

/// Explains an empty device list, other than that providers are missing. Pure.
fn empty_list(machine: &Machine, outcome: &Outcome) -> Vec<Finding> {
    const CALL: &str = "ibv_get_device_list";
    let finding = |rule| Finding::new(rule, Object::process(), CALL, outcome.clone());
    let none =
        |why: &str, todo: &str| vec![finding(Rule::NoDevice).with("why", why).with("todo", todo)];
    if machine.has_unserved {
        return Vec::new();
    }
    let Some(device) = machine.devices.first() else {
        return match (machine.asks_for_uroce, machine.in_container) {
            (true, _) => none(NO_SOFTWARE_DEVICE.0, NO_SOFTWARE_DEVICE.1),
            (_, true) => none(
                "this container sees none in /sys/class/infiniband",
                &format!(
                    "start the container with the host's RDMA devices \
                     (--device=/dev/infiniband){OR_SOFTWARE}"
                ),
            ),
            _ => none(
                "/sys/class/infiniband has none: no adapter, or its driver is not loaded",
                &format!(
                    "check `lspci` and `lsmod`, or make a Soft-RoCE device with `rdma link add rxe0 \
                     type rxe netdev INTERFACE`{OR_SOFTWARE}"
                ),
            ),
        };
    };
    if !machine.has_uverbs {
        return none(
            "the kernel has devices, and the module ib_uverbs is not loaded",
            "load it: `modprobe ib_uverbs`",
        );
    }
    if !machine.has_uverbs_file() {
        let (container, todo) = match machine.in_container {
            true => (
                " in this container",
                "start the container with --device=/dev/infiniband",
            ),
            false => ("", "check that udev runs and that ib_uverbs is loaded"),
        };
        return vec![
            finding(Rule::NoDeviceFile)
                .with("device", device)
                .with("path", "/dev/infiniband/uverbs*")
                .with("container", container)
                .with("todo", todo),
        ];
    }
    none(
        "the kernel has devices, and none of them for programs in user space",
        "check that the kernel's driver of the device supports ib_uverbs (`rdma dev`, `dmesg`)",
    )
}

/// The kernel driver of a device, by the link in sysfs; virtual devices have none.
fn driver_of(device: &str) -> String {
    let link = fs::read_link(in_sysfs(&format!(
        "class/infiniband/{device}/device/driver"
    )));
    let name = link.ok().and_then(|path| {
        let name = path.file_name()?;
        Some(name.to_string_lossy().into_owned())
    });
    name.unwrap_or_else(|| "unknown".into())
}

/// The providers of this process: loaded, not loaded, and those that refused devices.
#[derive(Clone, Debug, Default)]
struct Installed {
    /// The names of those that were loaded, in the order of configuration.
    names: Vec<String>,
    /// The files of those that were not loaded, and why.
    not_loaded: Vec<(String, String)>,
    refused: Vec<Refused>,
    /// Devices that none accepts, with their kernel drivers.
    unserved: Vec<(String, String)>,
}

impl Installed {
    fn look() -> Installed {
        let drivers = registry::drivers();
        let name = |driver: &registry::Driver| driver.name().to_string_lossy().into_owned();
        let unserved = registry::unserved().into_iter().map(|device| {
            let driver = driver_of(&device);
            (device, driver)
        });
        Installed {
            names: drivers.iter().map(name).collect(),
            not_loaded: registry::not_loaded(),
            refused: registry::refusals(),
            unserved: unserved.collect(),
        }
    }

    /// The providers that a device was offered to, in this order, and why those refused it that match it.
    fn tried(&self, device: &str) -> String {
        if self.names.is_empty() {
            return "no provider is installed".into();
        }
        let described = |name: &String| {
            let why = self
                .refused
                .iter()
                .find(|refused| refused.driver == *name && refused.device == device);
            match why {
                Some(refused) => format!("{name} ({})", refused.reason),
                None => name.clone(),
            }
        };
        let all: Vec<String> = self.names.iter().map(described).collect();
        format!("tried, in this order: {}", all.join(", "))
    }
}

/// ibv_get_device_list has found no device. `errno` is what it failed with, if it failed.
pub fn no_devices(errno: Option<Errno>) {
    if !super::is_enabled() {
        return;
    }
    let kept = Errno::last();
    let outcome = errno.map_or(Outcome::Succeeded, Outcome::Failed);
    let found = empty_list(&Machine::look(), &outcome);
    shadow::observe(|_| found);
    kept.set();
}

/// Judges the providers: those that were not loaded, with the reasons, names that several have, and
/// devices that none supports. Pure.
fn providers(installed: &Installed) -> Vec<Finding> {
    let call = "ibv_get_device_list";
    let about = |rule, kind, label: &str, address| {
        let object = Object {
            kind,
            address,
            label: label.to_string().into(),
        };
        Finding::new(rule, object, call, Outcome::Succeeded)
    };
    let not_loaded = installed.not_loaded.iter().enumerate();
    let refused = not_loaded.map(|(i, (file, reason))| {
        about(Rule::DriverRefused, Kind::Provider, file, i)
            .with("file", file)
            .with("reason", reason)
    });
    let names = &installed.names;
    let twice = names.iter().enumerate().filter_map(|(i, name)| {
        let count = names.iter().filter(|other| *other == name).count();
        let first = names.iter().position(|other| other == name) == Some(i);
        (first && count > 1).then(|| {
            about(Rule::DriverTwice, Kind::Provider, name, i)
                .with("provider", name)
                .with("count", count)
        })
    });
    let missing = installed.unserved.iter().map(|(device, driver)| {
        about(
            Rule::DriverMissing,
            Kind::Context,
            device,
            number_of(device),
        )
        .with("device", device)
        .with("driver", driver)
        .with("tried", installed.tried(device))
        .with(
            "package",
            "ibverbs-providers on Debian, libibverbs on Fedora",
        )
    });
    refused.chain(twice).chain(missing).collect()
}

/// A number for a name, in place of an address: a device that is not opened has none.
fn number_of(name: &str) -> usize {
    let add = |hash: usize, byte: u8| (hash ^ usize::from(byte)).wrapping_mul(0x0100_0000_01b3);
    name.bytes().fold(0xcbf2_9ce4_8422_2325, add)
}

/// The device list has been made: reports what is wrong with the providers.
pub fn check_providers() {
    if !super::is_enabled() {
        return;
    }
    let kept = Errno::last();
    let found = providers(&Installed::look());
    shadow::observe(|_| found);
    kept.set();
}

/// ibv_open_device could not open the device's file; errno says why.
pub fn not_opened(device: &str, file: &str) {
    if !super::is_enabled() {
        return;
    }
    let errno = Errno::last();
    let path = format!("/dev/infiniband/{file}");
    let outcome = Outcome::Failed(errno);
    let object = Object {
        kind: Kind::Context,
        address: 0,
        label: device.to_string().into(),
    };
    let finding = |rule| Finding::new(rule, object, "ibv_open_device", outcome);
    // The library has also tried to find the device elsewhere: errno may be that of the other place.
    let reason = open_error(&path).unwrap_or(errno);
    let found = match reason.0 {
        libc::EACCES | libc::EPERM => {
            let owner = fs::metadata(&path).ok();
            finding(Rule::NoPermission)
                .with("path", &path)
                .with("error", describe(reason))
                .with(
                    "owner",
                    owner.as_ref().map_or("unknown".into(), |file| {
                        format!("user {}, group {}", file.uid(), file.gid())
                    }),
                )
                .with(
                    "mode",
                    owner.map_or("unknown".into(), |file| {
                        format!("{:o}", file.mode() & 0o7777)
                    }),
                )
        }
        libc::ENOENT | libc::ENXIO | libc::ENODEV => finding(Rule::NoDeviceFile)
            .with("device", device)
            .with("path", &path)
            .with("container", "")
            .with(
                "todo",
                "check that udev runs; in a container, allow the file (--device)",
            ),
        _ => return,
    };
    shadow::observe(|_| vec![found]);
    errno.set();
}

/// Why a file cannot be opened for reading and writing; None if it can.
fn open_error(path: &str) -> Option<Errno> {
    let opened = fs::OpenOptions::new().read(true).write(true).open(path);
    opened.err()?.raw_os_error().map(Errno)
}

/// Checks the file of librdmacm, which must be there if the program uses librdmacm on devices of
/// the kernel.
pub fn check_rdma_ucm() {
    if !super::is_enabled() {
        return;
    }
    let kept = Errno::last();
    // SAFETY: the name is NUL-terminated.
    let used = unsafe { !libc::dlsym(libc::RTLD_DEFAULT, c"rdma_create_id".as_ptr()).is_null() };
    if !used || Path::new("/dev/infiniband/rdma_cm").exists() {
        return kept.set();
    }
    let object = Object::process();
    let call = "ibv_get_device_list";
    let found = Finding::new(Rule::NoRdmaUcm, object, call, Outcome::Succeeded);
    shadow::observe(|_| vec![found]);
    kept.set();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnose::finding::is_complete;

    fn judge(machine: &Machine) -> (Rule, String) {
        let found = empty_list(machine, &Outcome::Failed(Errno(libc::ENOSYS)));
        assert!(found.iter().all(is_complete));
        assert_eq!(found.len(), 1);
        (found[0].rule, found[0].line())
    }

    #[test]
    fn providers_that_were_refused_or_are_there_twice() {
        let mut installed = Installed {
            names: ["rxe", "mlx5", "rxe"].map(String::from).into(),
            not_loaded: vec![("librxe.so".into(), "no such file".into())],
            ..Installed::default()
        };
        let found = providers(&installed);
        assert!(found.iter().all(is_complete));
        let rules: Vec<Rule> = found.iter().map(|finding| finding.rule).collect();
        assert_eq!(rules, [Rule::DriverRefused, Rule::DriverTwice]);
        installed.not_loaded.clear();
        installed.names.truncate(2);
        assert!(providers(&installed).is_empty());
    }

    #[test]
    fn devices_without_a_provider() {
        let mut installed = Installed {
            unserved: vec![("new0".into(), "newdrv".into())],
            ..Installed::default()
        };
        let line = |installed: &Installed| {
            let found = providers(installed);
            assert!(found.len() == 1 && found.iter().all(is_complete));
            assert_eq!(found[0].rule, Rule::DriverMissing);
            found[0].line()
        };
        assert!(line(&installed).contains("new0 (driver newdrv)"));
        assert!(line(&installed).contains("no provider is installed"));
        installed.names = ["rxe", "mlx5"].map(String::from).into();
        installed.refused = vec![Refused {
            device: "new0".into(),
            driver: "mlx5".into(),
            reason: "supports kernel ABI 1 to 1, and the device has 77".into(),
        }];
        let tried = "in this order: rxe, mlx5 (supports kernel ABI 1 to 1, and the device has 77)";
        assert!(line(&installed).contains(tried));
    }

    #[test]
    fn each_reason_for_an_empty_list() {
        let mut machine = Machine::default();
        let (rule, line) = judge(&machine);
        assert!(rule == Rule::NoDevice && line.contains("its driver is not loaded"));
        machine.in_container = true;
        assert!(judge(&machine).1.contains("--device=/dev/infiniband"));
        assert_eq!(
            judge(&machine).1.contains("IBV_UROCE=1"),
            cfg!(feature = "uroce")
        );
        if cfg!(feature = "uroce") {
            machine.asks_for_uroce = true;
            assert!(judge(&machine).1.contains("correct IBV_UROCE"));
            machine.asks_for_uroce = false;
        }
        machine.devices = vec!["mlx5_0".into()];
        assert!(judge(&machine).1.contains("modprobe ib_uverbs"));
        machine.has_uverbs = true;
        assert_eq!(judge(&machine).0, Rule::NoDeviceFile);
        machine.files = vec!["rdma_cm".into()];
        assert_eq!(judge(&machine).0, Rule::NoDeviceFile);
        machine.files.push("uverbs0".into());
        assert!(judge(&machine).1.contains("none of them for programs"));
        machine.has_unserved = true;
        assert_eq!(empty_list(&machine, &Outcome::Succeeded), []);
    }
}
