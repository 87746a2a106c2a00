//! The file that `IBV_UROCE=@FILE` names: the devices of a node. Pure.
//!
//! The format is the part of TOML that a list of devices needs: tables `[[device]]`, in which each line is a
//! key and a string or a number, and comments.

use super::entry::{self, Why};
use super::{Builder, Parsed, rejection};

/// A `[[device]]` that is being read.
#[derive(Default)]
struct Table<'a> {
    /// The number of its line.
    line: usize,
    values: Vec<(usize, &'a str, String)>,
}

impl Table<'_> {
    fn take(&mut self, key: &str) -> Option<String> {
        let at = self.values.iter().position(|(_, other, _)| *other == key)?;
        Some(self.values.remove(at).2)
    }

    /// Adds the device, and rejects what is wrong.
    fn add_to(mut self, builder: &mut Builder, parsed: &mut Parsed) {
        let (name, interface, address) = (
            self.take("name"),
            self.take("interface"),
            self.take("address"),
        );
        let device = match (&name, interface.as_ref().xor(address.as_ref())) {
            (Some(name), Some(netdev)) => entry::named_device(name, netdev),
            (None, _) => Err("a device has a name".into()),
            (_, None) => Err("a device has an interface or an address".into()),
        };
        let added = device.and_then(|device| builder.begin(device, parsed));
        if let Err(why) = added {
            parsed.rejected.push(at_line(self.line, why));
            return;
        }
        for (line, key, value) in self.values {
            let set = match entry::is_value(key) {
                true => builder.set(key, &value),
                false => Err("there is no such key".into()),
            };
            if let Err(why) = set {
                parsed
                    .rejected
                    .push(at_line(line, format!("{key}: {why}").into()));
            }
        }
    }
}

fn at_line(line: usize, why: Why) -> String {
    format!("line {line}: {why}").escape_default().to_string()
}

/// Parses the text of a file. A line that is wrong is rejected; the others are used.
pub fn parse(text: &str) -> Parsed {
    let mut parsed = Parsed::default();
    let mut builder = Builder::default();
    let mut table: Option<Table<'_>> = None;
    for (index, full) in text.lines().enumerate() {
        let line = full.trim();
        let number = index + 1;
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if without_comment(line) == Some("[[device]]") {
            let next = Table {
                line: number,
                values: Vec::new(),
            };
            if let Some(table) = table.replace(next) {
                table.add_to(&mut builder, &mut parsed);
            }
            continue;
        }
        match (key_and_value(line), &mut table) {
            (Some((key, value)), Some(table)) => table.values.push((number, key, value)),
            _ => {
                let expected = "expected [[device]], and below it KEY = \"TEXT\" or KEY = NUMBER";
                let why = rejection(line.as_bytes(), expected);
                parsed.rejected.push(format!("line {number}: {why}"));
            }
        }
    }
    if let Some(table) = table {
        table.add_to(&mut builder, &mut parsed);
    }
    builder.end(&mut parsed);
    parsed
}

/// A text without the comment behind it. None if something else is behind it.
fn without_comment(text: &str) -> Option<&str> {
    Some(text.split('#').next()?.trim_end())
}

/// A key and its value.
fn key_and_value(line: &str) -> Option<(&str, String)> {
    let (key, value) = line.split_once('=')?;
    let (key, value) = (key.trim(), value.trim());
    let is_key = !key.is_empty()
        && key
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let text = match value.strip_prefix('"') {
        Some(rest) => {
            let (text, behind) = rest.split_once('"')?;
            let is_plain = !text.contains('\\');
            let nothing_behind = without_comment(behind)?.is_empty();
            (is_plain && nothing_behind).then_some(text)?
        }
        None => {
            let number = without_comment(value)?;
            let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
            is_number.then_some(number)?
        }
    };
    is_key.then(|| (key, text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::super::Netdev;
    use super::*;

    #[test]
    fn a_node_with_two_devices() {
        let text = "# A node\n\n[[device]] # the first\nname = \"mlx0\"\ninterface = \"eth0\"\n\
            max_qp = 7 # few\nprofile = \"connectx-roce\"\n  numa = 1\n\
            pci=\"0000:81:00.0\"\n[[device]]\naddress = \"192.0.2.7\"\nname = \"b\" # the second\n";
        let Parsed { devices, rejected } = parse(text);
        assert!(rejected.is_empty(), "{rejected:?}");
        let [first, second] = &devices[..] else {
            panic!("{devices:?}")
        };
        assert_eq!(first.name, "mlx0");
        assert_eq!(first.netdev, Netdev::Interface("eth0".into()));
        assert_eq!(first.profile.name, "connectx-roce");
        assert_eq!(first.profile.limits.max_qp, 7);
        assert_eq!(first.location.numa_node, Some(1));
        assert_eq!(
            second.netdev,
            super::super::entry::device("b=192.0.2.7").unwrap().netdev
        );
    }

    #[test]
    fn wrong_lines_are_rejected_alone() {
        let text = "name = \"x\"\n[[device]]\nname = \"a\"\ninterface = \"lo\"\ncolour = 1\nspeed = \"3G\"\n\
            [device]\nmax_qp = -1\nmax_sge = 2\n[[device]]\nname = \"b\"\n[[device]]\ninterface = \"lo\"\n\
            [[device]]\nname = \"a\"\ninterface = \"lo\"\n[[device]]\nname = \"c\"\ninterface = \"lo\" x\n";
        let Parsed { devices, rejected } = parse(text);
        assert_eq!(devices.len(), 1);
        assert_eq!(devices[0].profile.limits.max_sge, 2);
        let lines: Vec<_> = rejected
            .iter()
            .map(|line| line.split(':').next().unwrap())
            .collect();
        assert_eq!(
            lines,
            [
                "line 1", "line 7", "line 8", "line 5", "line 6", "line 10", "line 12", "line 14",
                "line 19", "line 17"
            ]
        );
        assert!(
            rejected[4].contains("speed: there are these speeds: 2.5G"),
            "{rejected:?}"
        );
    }
}
