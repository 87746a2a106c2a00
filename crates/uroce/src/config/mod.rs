//! `IBV_UROCE`: which devices are configured, and as what. Whether they can exist on this host is not checked
//! here, but by [`crate::check`]. The variable's syntax is documented in libibverbs-rs(7). Pure, but for
//! [`read`], which reads the file that `@FILE` names.

mod entry;
mod file;

use std::fmt::Display;
use std::net::IpAddr;

use crate::pci::Location;
use crate::profile::{DEFAULT, Profile};
use entry::Why;

/// A configured device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The device's name, as `ibv_get_device_name` returns it: 1 to 63 ASCII characters.
    pub name: String,
    /// The network device that carries its packets.
    pub netdev: Netdev,
    /// The profile: the device's identity, its limits and its services.
    pub(crate) profile: Profile,
    /// The PCI function and NUMA node that the device appears to have.
    pub(crate) location: Location,
}

impl Config {
    /// A device with uroce's own values.
    pub fn new(name: &str, netdev: Netdev) -> Config {
        Config {
            name: name.into(),
            netdev,
            profile: DEFAULT,
            location: Location::default(),
        }
    }
}

/// Selects the network device (netdev) that carries a device's packets, and which of its addresses
/// become GIDs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Netdev {
    /// The interface of the default route, or the loopback interface if there is no such route, with
    /// all its addresses.
    DefaultRoute,
    /// The interface of this name, with all its addresses.
    Interface(String),
    /// The interface that has an address, with that address only.
    Address {
        /// The address.
        ip: IpAddr,
        /// The interface's name, for a link-local address (`fe80::1%eth0`).
        scope: Option<String>,
    },
}

/// A parsed value of `IBV_UROCE`.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Parsed {
    /// The devices, in the order of the list; no two have the same name.
    pub devices: Vec<Config>,
    /// The entries that were rejected: one line of ASCII text for each, with the reason.
    pub rejected: Vec<String>,
}

/// Parses a value of `IBV_UROCE` that names no file.
///
/// `1` is one device `uroce0` at the default route's interface; an empty value and `0` are none. Any
/// other value is a comma-separated list of `NAME=INTERFACE` and `NAME=ADDRESS`, and behind each its values,
/// such as `profile=rxe`. A bad entry is rejected; the other entries are used.
pub fn parse(value: &[u8]) -> Parsed {
    let mut parsed = Parsed::default();
    if matches!(value, b"" | b"0") {
        return parsed;
    }
    let mut builder = Builder::default();
    for (index, bytes) in value.split(|byte| *byte == b',').enumerate() {
        let added = match core::str::from_utf8(bytes) {
            Ok("1") if index == 0 => {
                let device = Config::new("uroce0", Netdev::DefaultRoute);
                builder.begin(device, &mut parsed)
            }
            Ok(entry) => builder.add(entry, &mut parsed),
            Err(_) => Err("it is not text".into()),
        };
        if let Err(why) = added {
            parsed.rejected.push(rejection(bytes, why));
        }
    }
    builder.end(&mut parsed);
    parsed
}

/// Parses a value of `IBV_UROCE`, and reads the file if it names one. A file that cannot be read is one line
/// of [`Parsed::rejected`].
pub fn read(value: &[u8]) -> Parsed {
    use std::os::unix::ffi::OsStrExt;
    let Some(name) = value.strip_prefix(b"@") else {
        return parse(value);
    };
    match std::fs::read_to_string(std::ffi::OsStr::from_bytes(name)) {
        Ok(text) => {
            let mut parsed = file::parse(&text);
            for line in &mut parsed.rejected {
                *line = rejection(value, &*line);
            }
            parsed
        }
        Err(error) => Parsed {
            devices: Vec::new(),
            rejected: vec![rejection(value, error)],
        },
    }
}

/// Collects devices and their values. Values do not depend on their order: the profile is what they change.
#[derive(Default)]
struct Builder {
    device: Option<Config>,
    values: Vec<(String, String)>,
    /// The last entry that was a device is rejected.
    skips: bool,
}

impl Builder {
    fn add(&mut self, entry: &str, parsed: &mut Parsed) -> Result<(), Why> {
        let has_device = self.device.is_some() || self.skips;
        match entry.split_once('=') {
            Some((key, value)) if has_device && entry::is_value(key) => self.set(key, value),
            _ => {
                self.end(parsed);
                self.skips = true;
                self.begin(entry::device(entry)?, parsed)
            }
        }
    }

    fn begin(&mut self, device: Config, parsed: &mut Parsed) -> Result<(), Why> {
        self.end(parsed);
        self.skips = true;
        if parsed.devices.iter().any(|other| other.name == device.name) {
            return Err("there is a device of that name already".into());
        }
        self.skips = false;
        self.device = Some(device);
        Ok(())
    }

    /// Sets a value of the last device. Fails if it is wrong.
    fn set(&mut self, key: &str, value: &str) -> Result<(), Why> {
        let Some(device) = &mut self.device else {
            return Err("its device is rejected".into());
        };
        if key == "profile" {
            entry::set_profile(device, value)?;
            // The values were right before, and replace values of the new profile.
            for (key, value) in &self.values {
                entry::set(device, key, value)?;
            }
            return Ok(());
        }
        entry::set(device, key, value)?;
        self.values.push((key.into(), value.into()));
        Ok(())
    }

    /// Adds the last device.
    fn end(&mut self, parsed: &mut Parsed) {
        parsed.devices.extend(self.device.take());
        self.values.clear();
    }
}

fn rejection(entry: &[u8], why: impl Display) -> String {
    format!("'{}': {why}", entry.escape_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn good(value: &str) -> Vec<(String, Netdev)> {
        let Parsed { devices, rejected } = parse(value.as_bytes());
        assert!(rejected.is_empty(), "{rejected:?}");
        let pairs = devices.into_iter();
        pairs.map(|device| (device.name, device.netdev)).collect()
    }

    fn address(ip: &str, scope: Option<&str>) -> Netdev {
        Netdev::Address {
            ip: ip.parse().unwrap(),
            scope: scope.map(Into::into),
        }
    }

    #[test]
    fn one_none_and_many() {
        assert_eq!(good("1"), [("uroce0".into(), Netdev::DefaultRoute)]);
        assert_eq!(good(""), []);
        assert_eq!(good("0"), []);
        assert_eq!(
            good("a=eth0,b-1=192.0.2.7,c.d=fd00::1,e_=fe80::1%eth0.100,f=1"),
            [
                ("a".into(), Netdev::Interface("eth0".into())),
                ("b-1".into(), address("192.0.2.7", None)),
                ("c.d".into(), address("fd00::1", None)),
                ("e_".into(), address("fe80::1", Some("eth0.100"))),
                ("f".into(), Netdev::Interface("1".into())),
            ]
        );
    }

    #[test]
    fn values_belong_to_the_device_in_front_of_them() {
        let value = b"a=eth0,max_qp=9,profile=small,numa=1,speed=400G,b=lo,mtu=2048,profile=nosuch,max_qp=x,\
            1x=lo,ports=2,profile=eth1";
        let Parsed { devices, rejected } = parse(value);
        let [a, b] = &devices[..] else {
            panic!("{devices:?}")
        };
        assert_eq!((a.profile.name, a.profile.limits.max_qp), ("small", 9));
        assert_eq!(
            (a.location.numa_node, a.profile.port.speed.rate),
            (Some(1), 4000)
        );
        assert_eq!((b.profile.name, b.profile.limits.max_mtu), ("uroce", 2048));
        assert_eq!(b.profile.limits.ports, 1);
        // In the first entry, the keys are names.
        let first = parse(b"profile=lo").devices;
        assert_eq!(first[0].name, "profile");
        let why: Vec<_> = rejected.iter().map(String::as_str).collect();
        assert_eq!(why.len(), 5, "{why:?}");
        assert!(why[0].starts_with("'profile=nosuch': there are these profiles: uroce, rxe, "));
        assert_eq!(why[1], "'max_qp=x': that is no number");
        assert_eq!(
            why[3..],
            [
                "'ports=2': its device is rejected",
                "'profile=eth1': its device is rejected"
            ]
        );
        let one = parse(b"1,profile=rxe").devices;
        assert_eq!(
            (one[0].name.as_str(), one[0].profile.name),
            ("uroce0", "rxe")
        );
    }

    #[test]
    fn a_misspelt_limit_is_no_device() {
        let Parsed { devices, rejected } = parse(b"a=lo,max_foo=3,max_qp=4");
        assert_eq!(devices.len(), 1);
        assert_eq!(devices[0].profile.limits.max_qp, 4);
        assert_eq!(rejected.len(), 1, "{rejected:?}");
        let names = "'max_foo=3': there are these limits: max_qp, max_qp_wr, ";
        assert!(rejected[0].starts_with(names), "{rejected:?}");
        // In the first entry, it is a name.
        assert_eq!(good("max_foo=lo").len(), 1);
    }

    #[test]
    fn a_file_that_is_missing_is_reported() {
        let Parsed { devices, rejected } = read(b"@/nonexistent/node.toml");
        assert!(devices.is_empty());
        assert!(rejected[0].starts_with("'@/nonexistent/node.toml': No such file"));
    }

    #[test]
    fn bad_entries_are_rejected_alone() {
        let Parsed { devices, rejected } =
            parse(b"uroce0,=eth0,x=,y=eth0,y=eth1,z=fe80::1,1z=lo,w=a/b,\xff=lo,");
        assert_eq!(devices.len(), 1);
        assert_eq!(devices[0].name, "y");
        assert_eq!(rejected.len(), 9);
        assert_eq!(
            rejected[0],
            "'uroce0': set IBV_UROCE to 1 for one device, or to NAME=INTERFACE or NAME=ADDRESS, \
             such as uroce0=eth0"
        );
        assert!(rejected[3].starts_with("'y=eth1': there is"));
        assert!(rejected[7].starts_with(r"'\xff=lo': "));
        for value in ["a=10.0.0.1%lo", "a=fe80::1%a/b", "a=interfacenametoolong"] {
            assert!(parse(value.as_bytes()).devices.is_empty(), "{value}");
        }
        let long = format!("{}=lo", "n".repeat(64));
        assert!(parse(long.as_bytes()).devices.is_empty());
        assert_eq!(good(&long[1..]).len(), 1);
    }

    #[test]
    fn a_value_without_a_name_gets_a_message_that_says_what_to_write() {
        for (value, example) in [
            ("yes", "eth0"),
            ("TRUE", "eth0"),
            ("on", "eth0"),
            ("2", "eth0"),
            ("eth1", "eth1"),
            ("192.0.2.7", "192.0.2.7"),
            ("fd00::1", "fd00::1"),
            ("a b", "eth0"),
        ] {
            let Parsed { devices, rejected } = parse(value.as_bytes());
            assert!(devices.is_empty());
            let hint = format!(
                "'{value}': set IBV_UROCE to 1 for one device, or to NAME=INTERFACE or \
                 NAME=ADDRESS, such as uroce0={example}"
            );
            assert_eq!(rejected, [hint]);
        }
    }

    proptest! {
        #[test]
        fn nothing_panics(value in prop::collection::vec(any::<u8>(), 0..200)) {
            let Parsed { devices, rejected } = parse(&value);
            prop_assert!(devices.len() + rejected.len() <= 1 + value.len());
            for line in rejected {
                prop_assert!(line.is_ascii() && !line.contains('\n'));
            }
        }
    }
}
