//! `IBV_UROCE`: which devices there are. Pure.

use std::fmt::Display;
use std::net::IpAddr;

/// A device that the environment asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Of the device: what `ibv_get_device_name` tells.
    pub name: String,
    pub place: Place,
}

/// Where a device is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// On the interface of the default route, or the loopback interface if there is no such route.
    DefaultRoute,
    /// On an interface, with all its addresses.
    Interface(String),
    /// At one address, on the interface that has it; `scope` names the interface (`fe80::1%eth0`).
    Address { ip: IpAddr, scope: Option<String> },
}

/// The longest name of a device, as the kernel has it.
const NAME_MAX: usize = 63;
/// The longest name of an interface.
const IFNAME_MAX: usize = libc::IFNAMSIZ - 1;

/// The devices that a value of the variable names, and what of it cannot be understood, an
/// explanation for each part.
///
/// `1` is one device `uroce0` at the default route's interface; an empty value and `0` are none; else
/// a list with commas between of `NAME=INTERFACE` and `NAME=ADDRESS`.
pub fn parse(value: &[u8]) -> (Vec<Config>, Vec<String>) {
    let (mut devices, mut bad) = (Vec::<Config>::new(), Vec::new());
    match value {
        b"" | b"0" => {}
        b"1" => devices.push(Config {
            name: "uroce0".into(),
            place: Place::DefaultRoute,
        }),
        list => {
            for entry in list.split(|byte| *byte == b',') {
                match device(entry) {
                    Ok(device) if devices.iter().any(|other| other.name == device.name) => {
                        bad.push(refused(entry, "there is a device of that name already"));
                    }
                    Ok(device) => devices.push(device),
                    Err(why) => bad.push(refused(entry, why)),
                }
            }
        }
    }
    (devices, bad)
}

fn refused(entry: &[u8], why: impl Display) -> String {
    format!("'{}': {why}", entry.escape_ascii())
}

fn device(entry: &[u8]) -> Result<Config, &'static str> {
    let entry = str::from_utf8(entry).map_err(|_| "it is not text")?;
    let (name, place) = entry
        .split_once('=')
        .ok_or("it is not NAME=INTERFACE or NAME=ADDRESS")?;
    if !is_device_name(name) {
        return Err(
            "a device's name has 1 to 63 letters, digits, '_', '-' and '.', a letter first",
        );
    }
    let (address, scope) = match place.split_once('%') {
        Some((address, scope)) => (address, Some(scope)),
        None => (place, None),
    };
    let place = match (address.parse(), scope) {
        (Ok(ip), None) if is_link_local(ip) => {
            return Err("a link-local address needs its interface: ADDRESS%INTERFACE");
        }
        (Ok(ip), None) => Place::Address { ip, scope: None },
        (Ok(ip), Some(scope)) if is_link_local(ip) && is_interface_name(scope) => Place::Address {
            ip,
            scope: Some(scope.into()),
        },
        (Ok(_), Some(_)) => return Err("only a link-local address has an interface"),
        (Err(_), _) if is_interface_name(place) => Place::Interface(place.into()),
        (Err(_), _) => return Err("that is no interface's name and no address"),
    };
    Ok(Config {
        name: name.into(),
        place,
    })
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

/// As the kernel checks it (dev_valid_name).
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

    fn good(value: &str) -> Vec<(String, Place)> {
        let (devices, bad) = parse(value.as_bytes());
        assert!(bad.is_empty(), "{bad:?}");
        let pairs = devices.into_iter();
        pairs.map(|device| (device.name, device.place)).collect()
    }

    fn address(ip: &str, scope: Option<&str>) -> Place {
        Place::Address {
            ip: ip.parse().unwrap(),
            scope: scope.map(Into::into),
        }
    }

    #[test]
    fn one_none_and_many() {
        assert_eq!(good("1"), [("uroce0".into(), Place::DefaultRoute)]);
        assert_eq!(good(""), []);
        assert_eq!(good("0"), []);
        assert_eq!(
            good("a=eth0,b-1=192.0.2.7,c.d=fd00::1,e_=fe80::1%eth0.100,f=1"),
            [
                ("a".into(), Place::Interface("eth0".into())),
                ("b-1".into(), address("192.0.2.7", None)),
                ("c.d".into(), address("fd00::1", None)),
                ("e_".into(), address("fe80::1", Some("eth0.100"))),
                ("f".into(), Place::Interface("1".into())),
            ]
        );
    }

    #[test]
    fn what_cannot_be_understood_is_skipped() {
        let (devices, bad) = parse(b"uroce0,=eth0,x=,y=eth0,y=eth1,z=fe80::1,1z=lo,w=a/b,\xff=lo,");
        assert_eq!(devices.len(), 1);
        assert_eq!(devices[0].name, "y");
        assert_eq!(bad.len(), 9);
        assert_eq!(bad[0], "'uroce0': it is not NAME=INTERFACE or NAME=ADDRESS");
        assert!(bad[3].starts_with("'y=eth1': there is"));
        assert!(bad[7].starts_with(r"'\xff=lo': "));
        for value in ["a=10.0.0.1%lo", "a=fe80::1%a/b", "a=interfacenametoolong"] {
            assert!(parse(value.as_bytes()).0.is_empty(), "{value}");
        }
        let long = format!("{}=lo", "n".repeat(64));
        assert!(parse(long.as_bytes()).0.is_empty());
        assert_eq!(good(&long[1..]).len(), 1);
    }

    proptest! {
        #[test]
        fn nothing_panics(value in prop::collection::vec(any::<u8>(), 0..200)) {
            let (devices, bad) = parse(&value);
            prop_assert!(devices.len() + bad.len() <= 1 + value.len());
            for line in bad {
                prop_assert!(line.is_ascii() && !line.contains('\n'));
            }
        }
    }
}
