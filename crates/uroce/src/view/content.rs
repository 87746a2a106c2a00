//! The contents of the tree's files, from the state of the device at the moment of reading. The formats are
//! those of the kernel's drivers/infiniband/core/sysfs.c.

use std::fmt::Write;

use ibverbs_abi::{Errno, IBV_PORT_CM_SUP};

use super::tree::{Character, File};
use crate::config::Config;
use crate::device::Device;
use crate::device::counters::DeviceCounters;
use crate::provider::port_lid;
use crate::transport::{self, GidEntry, PortState};

/// The state of a device.
struct DeviceState {
    netdev: String,
    node_guid: [u8; 8],
    port: PortState,
    gids: Vec<Option<GidEntry>>,
}

/// Reads the state of a device: that of the process's open device, or, if it is not open, what it would
/// have. Indices of GIDs are those that the verbs report.
fn state(config: &Config) -> Result<DeviceState, Errno> {
    let errno = |error: std::io::Error| Errno(error.raw_os_error().unwrap_or(libc::ENODEV));
    let found = transport::describe(config).map_err(errno)?;
    let (port, gids) = match Device::find(&config.name) {
        Some(device) => (device.net.port_state(), device.net.gids()),
        None => (found.port, found.gids),
    };
    Ok(DeviceState {
        netdev: found.netdev,
        node_guid: found.node_guid,
        port,
        gids,
    })
}

/// The content of a file, of a device with this configuration. Fails with EINVAL where the kernel's read(2)
/// does: for the attributes of an empty entry of the GID table.
pub fn read(file: File, configs: &[Config]) -> Result<Vec<u8>, Errno> {
    let config = |device: usize| configs.get(device).ok_or(Errno(libc::ENODEV));
    let text = match file {
        File::Text(text) => text.to_owned(),
        File::CharacterNumber(character) => {
            let (major, minor) = character.number();
            format!("{major}:{minor}\n")
        }
        File::Uevent(character) => character_uevent(character),
        File::Counter(device, at) => {
            format!("{}\n", counters(config(device)?).port_counters()[at].1)
        }
        File::HwCounter(device, at) => {
            format!("{}\n", counters(config(device)?).hw_counters()[at].1)
        }
        File::BoardId(_) => "uroce\n".into(),
        File::CapabilityMask(_) => format!("{IBV_PORT_CM_SUP:#010x}\n"),
        File::FirmwareVersion(_) => concat!(env!("CARGO_PKG_VERSION"), "\n").into(),
        // 1X, 2.5 Gb/s, as `ibv_query_port` reports.
        File::Rate(_) => "2.5 Gb/sec (1X SDR)\n".into(),
        File::IbdevName(device) | File::NodeDescription(device) => {
            format!("{}\n", config(device)?.name)
        }
        File::IbdevUevent(device) => format!("NAME={}\n", config(device)?.name),
        File::NetdevName(device) => state(config(device)?)?.netdev + "\n",
        File::NodeGuid(device) => groups(&state(config(device)?)?.node_guid),
        File::PhysicalState(device) => physical_state(state(config(device)?)?.port).into(),
        File::State(device) => port_state(state(config(device)?)?.port).into(),
        File::Lid(device) => format!("{:#x}\n", port_lid(&state(config(device)?)?.gids)),
        File::Gid(device, index) => {
            let found = state(config(device)?)?.gid(index);
            groups(&found.map_or([0; 16], |entry| entry.gid))
        }
        File::GidType(device, index) => {
            let found = state(config(device)?)?.gid(index);
            found
                .map(|_| "RoCE v2\n".into())
                .ok_or(Errno(libc::EINVAL))?
        }
        File::GidNetdev(device, index) => {
            let state = state(config(device)?)?;
            let found = state.gid(index);
            found
                .map(|_| state.netdev + "\n")
                .ok_or(Errno(libc::EINVAL))?
        }
    };
    Ok(text.into_bytes())
}

impl DeviceState {
    fn gid(&self, index: u32) -> Option<GidEntry> {
        self.gids.get(index as usize).copied().flatten()
    }
}

/// The counters of the process's open device; zeros if it is not open.
fn counters(config: &Config) -> DeviceCounters {
    let open = Device::find(&config.name);
    open.map_or_else(DeviceCounters::default, |device| device.counters())
}

/// Groups of four hexadecimal digits.
fn groups(bytes: &[u8]) -> String {
    let mut text = String::new();
    for (index, pair) in bytes.chunks(2).enumerate() {
        text.push_str(if index == 0 { "" } else { ":" });
        for byte in pair {
            // Writing to a String cannot fail.
            let _ = write!(text, "{byte:02x}");
        }
    }
    text + "\n"
}

fn port_state(port: PortState) -> &'static str {
    if port.active {
        "4: ACTIVE\n"
    } else {
        "1: DOWN\n"
    }
}

fn physical_state(port: PortState) -> &'static str {
    match port {
        PortState { active: true, .. } => "5: LinkUp\n",
        PortState { up: true, .. } => "2: Polling\n",
        _ => "3: Disabled\n",
    }
}

fn character_uevent(character: Character) -> String {
    let (major, minor) = character.number();
    let name = character.name();
    format!("MAJOR={major}\nMINOR={minor}\nDEVNAME=infiniband/{name}\nDEVMODE=0666\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guids_and_gids_have_groups_of_four_digits() {
        assert_eq!(
            groups(&[0x50, 0x54, 0, 0xff, 0xfe, 0x12, 0x34, 0x56]),
            "5054:00ff:fe12:3456\n"
        );
        assert_eq!(groups(&[0; 16]).len(), 40);
    }

    #[test]
    fn files_of_the_loopback_interface() {
        let configs = crate::config::parse(b"l=lo").devices;
        let text = |file| read(file, &configs).map(|bytes| String::from_utf8(bytes).unwrap());
        assert_eq!(text(File::NetdevName(0)).unwrap(), "lo\n");
        assert_eq!(text(File::State(0)).unwrap(), "4: ACTIVE\n");
        let loopback = "0000:0000:0000:0000:0000:ffff:7f00:0001\n";
        assert_eq!(text(File::Gid(0, 1)).unwrap(), loopback);
        assert_eq!(text(File::GidType(0, 1)).unwrap(), "RoCE v2\n");
        assert_eq!(text(File::GidNetdev(0, 1)).unwrap(), "lo\n");
        assert_eq!(text(File::GidType(0, 200)), Err(Errno(libc::EINVAL)));
        assert_eq!(text(File::Gid(0, 200)).unwrap(), groups(&[0; 16]));
        assert_eq!(text(File::NodeGuid(1)), Err(Errno(libc::ENODEV)));
        assert_eq!(text(File::HwCounter(0, 15)).unwrap(), "0\n");
        let device = Character::Uverbs(1024);
        assert_eq!(text(File::CharacterNumber(device)).unwrap(), "231:1216\n");
    }
}
