//! `IBV_UROCE`: which devices are configured. Pure: whether they can exist on this host is not checked
//! here, but by [`crate::check`]. The variable's syntax is documented in libibverbs-rs(7).

use std::borrow::Cow;
use std::fmt::Display;
use std::net::IpAddr;

/// A configured device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The device's name, as `ibv_get_device_name` returns it: 1 to 63 ASCII characters.
    pub name: String,
    /// The network device that carries its packets.
    pub netdev: Netdev,
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
    /// One line of ASCII text for each entry that was rejected: the entry, and why.
    pub rejected: Vec<String>,
}

/// The longest device name, in bytes: IB_DEVICE_NAME_MAX of the kernel, without its NUL.
const NAME_MAX: usize = 63;
/// The longest interface name, in bytes, without its NUL.
const IFNAME_MAX: usize = libc::IFNAMSIZ - 1;

/// Parses a value of `IBV_UROCE`.
///
/// `1` is one device `uroce0` at the default route's interface; an empty value and `0` are none. Any
/// other value is a comma-separated list of `NAME=INTERFACE` and `NAME=ADDRESS`. A bad entry is
/// rejected; the other entries are used.
pub fn parse(value: &[u8]) -> Parsed {
    let mut parsed = Parsed::default();
    match value {
        b"" | b"0" => {}
        b"1" => parsed.devices.push(Config {
            name: "uroce0".into(),
            netdev: Netdev::DefaultRoute,
        }),
        list => list
            .split(|byte| *byte == b',')
            .for_each(|entry| parsed.add(entry)),
    }
    parsed
}

impl Parsed {
    fn add(&mut self, entry: &[u8]) {
        match parse_entry(entry) {
            Ok(device) if self.devices.iter().any(|other| other.name == device.name) => {
                let why = "there is a device of that name already";
                self.rejected.push(rejection(entry, why));
            }
            Ok(device) => self.devices.push(device),
            Err(why) => self.rejected.push(rejection(entry, why)),
        }
    }
}

fn rejection(entry: &[u8], why: impl Display) -> String {
    format!("'{}': {why}", entry.escape_ascii())
}

fn parse_entry(entry: &[u8]) -> Result<Config, Cow<'static, str>> {
    let entry = core::str::from_utf8(entry).map_err(|_| "it is not text")?;
    let (name, netdev) = entry.split_once('=').ok_or_else(|| without_name(entry))?;
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
    Ok(Config {
        name: name.into(),
        netdev,
    })
}

/// What to write in place of an entry without '='. The example has the entry itself if that may be an
/// interface or an address, and is not a word for "yes" or "no".
fn without_name(entry: &str) -> Cow<'static, str> {
    const SWITCHES: [&str; 10] = [
        "yes", "no", "true", "false", "on", "off", "y", "n", "enable", "disable",
    ];
    let is_switch = SWITCHES.iter().any(|word| word.eq_ignore_ascii_case(entry));
    let is_number = entry.bytes().all(|byte| byte.is_ascii_digit());
    let names_netdev = entry.parse::<IpAddr>().is_ok() || is_interface_name(entry);
    let example = if names_netdev && !is_switch && !is_number {
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
    fn bad_entries_are_rejected_alone() {
        let Parsed { devices, rejected } =
            parse(b"uroce0,=eth0,x=,y=eth0,y=eth1,z=fe80::1,1z=lo,w=a/b,\xff=lo,");
        assert_eq!(devices.len(), 1);
        assert_eq!(devices[0].name, "y");
        assert_eq!(rejected.len(), 9);
        assert_eq!(
            rejected[0],
            "'uroce0': set IBV_UROCE to 1 for one device, or to NAME=INTERFACE or NAME=ADDRESS, \
             such as uroce0=uroce0"
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
