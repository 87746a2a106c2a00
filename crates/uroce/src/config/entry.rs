//! Entries of `IBV_UROCE`: a device, or a value of the device in front of it.

use std::borrow::Cow;
use std::net::IpAddr;

use super::{Config, Netdev};
use crate::pci::PciPath;
use crate::profile::{Limits, PROFILES, Profile, Speed};

/// The longest device name, in bytes: IB_DEVICE_NAME_MAX of the kernel, without its NUL.
const NAME_MAX: usize = 63;
/// The longest interface name, in bytes, without its NUL.
const IFNAME_MAX: usize = libc::IFNAMSIZ - 1;
/// The keys of values, beside the names of limits. No device behind the first can have such a name.
const KEYS: [&str; 7] = ["profile", "mtu", "speed", "numa", "pci", "vectors", "slots"];

/// Why an entry is rejected.
pub type Why = Cow<'static, str>;

/// Whether an entry with this in front of its '=' is a value of a device. What begins as most limits do is a
/// limit, perhaps a misspelt one, and no device's name.
pub fn is_value(key: &str) -> bool {
    KEYS.contains(&key) || Limits::NAMES.contains(&key) || key.starts_with("max_")
}

/// Parses `NAME=INTERFACE` and `NAME=ADDRESS`.
pub fn device(entry: &str) -> Result<Config, Why> {
    let (name, netdev) = entry.split_once('=').ok_or_else(|| without_name(entry))?;
    named_device(name, netdev)
}

/// A device of this name, on the interface or at the address that `netdev` names.
pub fn named_device(name: &str, netdev: &str) -> Result<Config, Why> {
    if !is_device_name(name) {
        let rule = "a device's name has 1 to 63 letters, digits, '_', '-' and '.', a letter first";
        return Err(rule.into());
    }
    let (address, scope) = match netdev.split_once('%') {
        Some((address, scope)) => (address, Some(scope)),
        None => (netdev, None),
    };
    let netdev = match (address.parse(), scope) {
        (Ok(ip), None) if is_link_local(ip) => {
            return Err("a link-local address needs its interface: ADDRESS%INTERFACE".into());
        }
        (Ok(ip), None) => Netdev::Address { ip, scope: None },
        (Ok(ip), Some(scope)) if is_link_local(ip) && is_interface_name(scope) => Netdev::Address {
            ip,
            scope: Some(scope.into()),
        },
        (Ok(_), Some(_)) => return Err("only a link-local address has an interface".into()),
        (Err(_), _) if is_interface_name(netdev) => Netdev::Interface(netdev.into()),
        (Err(_), _) => return Err("that is no interface's name and no address".into()),
    };
    Ok(Config::new(name, netdev))
}

/// Replaces the profile of a device. The values that were set before are lost.
pub fn set_profile(device: &mut Config, name: &str) -> Result<(), Why> {
    device.profile = Profile::named(name).ok_or_else(|| {
        let names: Vec<_> = PROFILES.iter().map(|profile| profile.name).collect();
        format!("there are these profiles: {}", names.join(", "))
    })?;
    Ok(())
}

/// Sets a value of a device, other than its profile.
pub fn set(device: &mut Config, key: &str, value: &str) -> Result<(), Why> {
    let number = || {
        let digits = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
        let number = value.parse::<u32>().ok().filter(|_| digits);
        number.ok_or(Why::from("that is no number"))
    };
    match key {
        "speed" => {
            let speed = Speed::parse(value);
            let names = || format!("there are these speeds: {}", Speed::NAMES);
            device.profile.port.speed = speed.ok_or_else(names)?;
        }
        "numa" => {
            let node = number()?.try_into();
            device.location.numa_node = Some(node.map_err(|_| "that is no NUMA node")?);
        }
        "slots" => {
            device.profile.slots_by_completion = match value {
                "polled" => false,
                "completed" => true,
                _ => return Err("slots are free when they are polled, or when completed".into()),
            };
        }
        "pci" => {
            let path = PciPath::parse(value);
            let why =
                "that is no PCI address such as 0000:81:00.0, with the bridges above in front";
            device.location.pci = Some(path.ok_or(why)?);
        }
        _ => {
            let limit = match key {
                "mtu" => "max_mtu",
                "vectors" => "num_comp_vectors",
                _ => key,
            };
            if !Limits::NAMES.contains(&limit) {
                return Err(format!("there are these limits: {}", Limits::NAMES.join(", ")).into());
            }
            device.profile.set(limit, number()?)?;
        }
    }
    Ok(())
}

/// Suggests what to write in place of an entry without '='. The example has the entry itself if
/// that may be an interface or an address, and is not a word for "yes" or "no", or a device's name
/// such as `uroce0`.
fn without_name(entry: &str) -> Why {
    const SWITCHES: [&str; 10] = [
        "yes", "no", "true", "false", "on", "off", "y", "n", "enable", "disable",
    ];
    let is_switch = SWITCHES.iter().any(|word| word.eq_ignore_ascii_case(entry));
    let is_number = entry.bytes().all(|byte| byte.is_ascii_digit());
    let is_device = entry.starts_with("uroce");
    let names_netdev = entry.parse::<IpAddr>().is_ok() || is_interface_name(entry);
    let example = if names_netdev && !is_switch && !is_number && !is_device {
        entry
    } else {
        "eth0"
    };
    format!(
        "set IBV_UROCE to 1 for one device, or to NAME=INTERFACE or NAME=ADDRESS, such as \
         uroce0={}",
        example.escape_default()
    )
    .into()
}

fn is_link_local(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(v6) if v6.is_unicast_link_local())
}

fn is_device_name(name: &str) -> bool {
    name.len() <= NAME_MAX
        && name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte))
}

/// The same rule as the kernel's `dev_valid_name`.
fn is_interface_name(name: &str) -> bool {
    (1..=IFNAME_MAX).contains(&name.len())
        && name != "."
        && name != ".."
        && !name
            .bytes()
            .any(|byte| byte == b'/' || byte == b':' || byte.is_ascii_whitespace() || byte == 0)
}
