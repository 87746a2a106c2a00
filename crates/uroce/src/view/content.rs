//! The contents of the tree's files, from the state of the device at the moment of reading. The formats are
//! those of the kernel's drivers/infiniband/core/sysfs.c.

use std::fmt::Write;

use ibverbs_abi::Errno;

use super::kernel;
use super::tree::{Character, File};
use crate::config::Config;
use crate::device::Device;
use crate::device::counters::DeviceCounters;
use crate::pci::{PciDevice, PciFile};
use crate::profile::Fabric;
use crate::provider::NO_CABLE;
use crate::transport::lid::port_lid;
use crate::transport::{self, GidEntry, GidType, PortState};

/// The state of a device.
struct DeviceState {
    netdev: String,
    node_guid: [u8; 8],
    lid: u16,
    port: PortState,
    gids: Vec<Option<GidEntry>>,
}

/// Reads the state of a port: that of the process's open device, or, if it is not open, what it would have.
/// Indices of GIDs are those that the verbs report. Only the first port has a cable.
fn state(config: &Config, port: u8) -> Result<DeviceState, Errno> {
    let errno = |error: std::io::Error| Errno(error.raw_os_error().unwrap_or(libc::ENODEV));
    let found = transport::describe(config).map_err(errno)?;
    let (state, gids) = match Device::find(&config.name) {
        _ if port != 1 => (NO_CABLE, Vec::new()),
        Some(device) => (device.net.port_state(), device.net.gids()),
        None => (found.port, found.gids),
    };
    Ok(DeviceState {
        netdev: found.netdev,
        node_guid: found.node_guid,
        lid: port_lid(&config.profile, &gids),
        port: state,
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
        File::Function(device, pci) => return pci_function(config(device)?, pci),
        File::Bridge(device, depth, pci) => return bridge(config(device)?, depth, pci, configs),
        File::Counter(device, port, at) => {
            format!(
                "{}\n",
                counters(config(device)?, port).port_counters()[at].1
            )
        }
        File::HwCounter(device, port, at) => {
            format!("{}\n", counters(config(device)?, port).hw_counters()[at].1)
        }
        File::BoardId(device)
        | File::CapabilityMask(device)
        | File::FirmwareVersion(device)
        | File::HcaType(device)
        | File::HwRevision(device)
        | File::LidMaskCount(device)
        | File::LinkLayer(device)
        | File::NodeType(device)
        | File::NumaNode(device)
        | File::Pkey(device, _)
        | File::Rate(device) => fixed(file, config(device)?),
        File::IbdevName(device) | File::NodeDescription(device) => {
            format!("{}\n", config(device)?.name)
        }
        File::IbdevUevent(device) => format!("NAME={}\n", config(device)?.name),
        File::PortNumber(port) => format!("{port}\n"),
        File::NetdevName(device) => state(config(device)?, 1)?.netdev + "\n",
        File::NodeGuid(device) => groups(&state(config(device)?, 1)?.node_guid),
        File::PhysicalState(device, port)
        | File::State(device, port)
        | File::Lid(device, port)
        | File::SubnetManagerLid(device, port)
        | File::Gid(device, port, _)
        | File::GidType(device, port, _)
        | File::GidNetdev(device, port, _) => of_port(file, config(device)?, port)?,
    };
    Ok(text.into_bytes())
}

/// The files of a port whose content follows from its state.
fn of_port(file: File, config: &Config, port: u8) -> Result<String, Errno> {
    let (state, fabric) = (state(config, port)?, config.profile.fabric);
    let gid = |index| state.gid(index).ok_or(Errno(libc::EINVAL));
    Ok(match file {
        File::PhysicalState(..) => physical_state(state.port).into(),
        File::State(..) => state.logical_state(fabric).into(),
        File::Lid(..) => format!("{:#x}\n", state.lid),
        File::SubnetManagerLid(..) if fabric == Fabric::InfiniBand && port == 1 => "0x1\n".into(),
        File::SubnetManagerLid(..) => "0x0\n".into(),
        File::Gid(_, _, index) => groups(&state.gid(index).map_or([0; 16], |entry| entry.gid)),
        File::GidType(_, _, index) => match gid(index)?.gid_type {
            GidType::RoceV2 => "RoCE v2\n".into(),
            GidType::Ib | GidType::RoceV1 => "IB/RoCE v1\n".into(),
        },
        File::GidNetdev(_, _, index) if gid(index)?.gid_type != GidType::Ib => state.netdev + "\n",
        _ => return Err(Errno(libc::EINVAL)),
    })
}

/// The files whose content follows from the configuration.
fn fixed(file: File, config: &Config) -> String {
    let (profile, identity) = (&config.profile, &config.profile.identity);
    let text = match file {
        File::BoardId(_) => identity.board_id.into(),
        File::CapabilityMask(_) => format!("{:#010x}", profile.port.cap_flags),
        File::FirmwareVersion(_) => identity.fw_ver.into(),
        File::HcaType(_) => identity.hca_type.into(),
        File::HwRevision(_) => format!("{:x}", identity.hw_ver),
        File::LidMaskCount(_) => profile.port.lmc.to_string(),
        File::LinkLayer(_) => profile.fabric.name().into(),
        File::NodeType(_) => match profile.fabric {
            Fabric::Unspecified => "7: unspecified".into(),
            _ => "1: CA".into(),
        },
        File::NumaNode(_) => config
            .location
            .numa_node
            .map_or("-1".into(), |node| node.to_string()),
        File::Pkey(_, 0) => "0xffff".into(),
        File::Pkey(..) => "0x0000".into(),
        File::Rate(_) => profile.port.speed.name.into(),
        _ => String::new(),
    };
    text + "\n"
}

/// A file of the PCI function of a device.
fn pci_function(config: &Config, file: PciFile) -> Result<Vec<u8>, Errno> {
    let function = PciDevice::function(&config.location, &config.profile);
    pci_file(&function.ok_or(Errno(libc::ENODEV))?, file)
}

/// A file of the PCI bridge at this depth above a device, which other devices may have in common.
fn bridge(config: &Config, depth: u8, file: PciFile, all: &[Config]) -> Result<Vec<u8>, Errno> {
    let paths = all.iter().filter_map(|config| config.location.pci.as_ref());
    let bridge = PciDevice::bridge(&config.location, &config.profile, depth.into(), paths);
    pci_file(&bridge.ok_or(Errno(libc::ENODEV))?, file)
}

fn pci_file(device: &PciDevice, file: PciFile) -> Result<Vec<u8>, Errno> {
    let text = device.read(file);
    Ok(text.unwrap_or_else(|| kernel::local_cpus(device.numa_node, file == PciFile::LocalCpuList)))
}

impl DeviceState {
    /// The state of the port. One of InfiniBand without a LID waits for a subnet manager.
    fn logical_state(&self, fabric: Fabric) -> &'static str {
        match self.port.active {
            true if fabric == Fabric::InfiniBand && self.lid == 0 => "2: INIT\n",
            true => "4: ACTIVE\n",
            false => "1: DOWN\n",
        }
    }

    fn gid(&self, index: u32) -> Option<GidEntry> {
        self.gids.get(index as usize).copied().flatten()
    }
}

/// The counters of a port of the process's open device; zeros if it is not open.
fn counters(config: &Config, port: u8) -> DeviceCounters {
    let open = Device::find(&config.name).filter(|_| port == 1);
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
    let mode = match character {
        // The kernel's are root's.
        Character::Umad(_) | Character::Issm(_) => "",
        Character::Uverbs(_) | Character::RdmaCm(..) => "DEVMODE=0666\n",
    };
    format!("MAJOR={major}\nMINOR={minor}\nDEVNAME=infiniband/{name}\n{mode}")
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
        assert_eq!(text(File::State(0, 1)).unwrap(), "4: ACTIVE\n");
        let loopback = "0000:0000:0000:0000:0000:ffff:7f00:0001\n";
        assert_eq!(text(File::Gid(0, 1, 1)).unwrap(), loopback);
        assert_eq!(text(File::GidType(0, 1, 1)).unwrap(), "RoCE v2\n");
        assert_eq!(text(File::GidNetdev(0, 1, 1)).unwrap(), "lo\n");
        assert_eq!(text(File::GidType(0, 1, 200)), Err(Errno(libc::EINVAL)));
        assert_eq!(text(File::Gid(0, 1, 200)).unwrap(), groups(&[0; 16]));
        assert_eq!(text(File::NodeGuid(1)), Err(Errno(libc::ENODEV)));
        assert_eq!(text(File::HwCounter(0, 1, 15)).unwrap(), "0\n");
        let device = Character::Uverbs(1024);
        assert_eq!(text(File::CharacterNumber(device)).unwrap(), "231:1216\n");
    }
}
