//! PCI: the location of a device, and what sysfs says of its function and of the bridges
//! above. Pure.
//!
//! The files are those of the kernel's drivers/pci/pci-sysfs.c that programs read to learn which devices are
//! near each other: hwloc, UCX, NCCL, Mooncake. Of the configuration space there are the standard header and
//! the PCI Express capability (PCI Express Base Specification, 7.5).

use core::fmt;

use crate::profile::{Fabric, Profile};

/// The address of a PCI function: `0000:81:00.0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PciAddress {
    pub domain: u16,
    pub bus: u8,
    pub device: u8,
    pub function: u8,
}

impl PciAddress {
    /// Parses `DDDD:BB:DD.F`, all hexadecimal.
    pub fn parse(text: &str) -> Option<PciAddress> {
        let hex = |digits: &str, len| {
            let valid = digits.len() == len && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
            u16::from_str_radix(digits, 16).ok().filter(|_| valid)
        };
        let (rest, function) = text.split_once('.')?;
        let mut parts = rest.split(':');
        let (domain, bus, device) = (parts.next()?, parts.next()?, parts.next()?);
        let address = PciAddress {
            domain: hex(domain, 4)?,
            bus: hex(bus, 2)? as u8,
            device: hex(device, 2).filter(|device| *device < 32)? as u8,
            function: hex(function, 1).filter(|function| *function < 8)? as u8,
        };
        parts.next().is_none().then_some(address)
    }
}

impl fmt::Display for PciAddress {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PciAddress {
            domain,
            bus,
            device,
            function,
        } = self;
        write!(to, "{domain:04x}:{bus:02x}:{device:02x}.{function}")
    }
}

/// The way to a function: the bridges above it from the root bus down, then the function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PciPath(Vec<PciAddress>);

impl PciPath {
    /// Parses an address, or bridges and an address with slashes between them, as in sysfs. An address alone
    /// gets a root port above, on the bus whose number ends in 0.
    pub fn parse(text: &str) -> Option<PciPath> {
        let parts: Option<Vec<_>> = text.split('/').map(PciAddress::parse).collect();
        let mut parts = parts?;
        let goes_down =
            |pair: &[PciAddress]| pair[0].domain == pair[1].domain && pair[0].bus < pair[1].bus;
        if !parts.windows(2).all(goes_down) {
            return None;
        }
        if let [only] = parts[..] {
            if only.bus % 16 != 0 {
                let root_port = PciAddress {
                    bus: only.bus & 0xf0,
                    device: only.bus & 0x0f,
                    function: 0,
                    ..only
                };
                parts.insert(0, root_port);
            }
        }
        Some(PciPath(parts))
    }

    /// The function itself.
    pub fn function(&self) -> PciAddress {
        self.0[self.0.len() - 1]
    }

    /// The bridges above, from the root bus down.
    pub fn bridges(&self) -> &[PciAddress] {
        &self.0[..self.0.len() - 1]
    }

    /// The directory in sysfs of the bridge at this depth; of the function, at the depth behind the last.
    pub fn directory(&self, depth: usize) -> String {
        let root = self.0[0];
        let mut path = format!("/sys/devices/pci{:04x}:{:02x}", root.domain, root.bus);
        for address in &self.0[..=depth] {
            path += &format!("/{address}");
        }
        path
    }

    /// The directory in sysfs of the function.
    pub fn function_directory(&self) -> String {
        self.directory(self.0.len() - 1)
    }
}

/// The location of a device in the machine: its NUMA node, its PCI function.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Location {
    /// The NUMA node.
    pub numa_node: Option<u16>,
    /// The PCI function; None: that of the network interface, if that has one.
    pub pci: Option<PciPath>,
}

/// A file of a PCI device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PciFile {
    Class,
    Config,
    Device,
    Enable,
    Irq,
    LinkSpeed,
    LinkWidth,
    LocalCpuList,
    LocalCpus,
    Modalias,
    NumaNode,
    Resource,
    Revision,
    SubsystemDevice,
    SubsystemVendor,
    Uevent,
    Vendor,
}

/// The files of a PCI device, by name.
pub const FILES: [(&str, PciFile); 19] = [
    ("class", PciFile::Class),
    ("config", PciFile::Config),
    ("current_link_speed", PciFile::LinkSpeed),
    ("current_link_width", PciFile::LinkWidth),
    ("device", PciFile::Device),
    ("enable", PciFile::Enable),
    ("irq", PciFile::Irq),
    ("local_cpulist", PciFile::LocalCpuList),
    ("local_cpus", PciFile::LocalCpus),
    ("max_link_speed", PciFile::LinkSpeed),
    ("max_link_width", PciFile::LinkWidth),
    ("modalias", PciFile::Modalias),
    ("numa_node", PciFile::NumaNode),
    ("resource", PciFile::Resource),
    ("revision", PciFile::Revision),
    ("subsystem_device", PciFile::SubsystemDevice),
    ("subsystem_vendor", PciFile::SubsystemVendor),
    ("uevent", PciFile::Uevent),
    ("vendor", PciFile::Vendor),
];

/// Red Hat's numbers of QEMU's PCI Express root port, for all bridges.
const BRIDGE: (u16, u16) = (0x1b36, 0x000c);
const CLASS_ETHERNET: u32 = 0x02_0000;
const CLASS_INFINIBAND: u32 = 0x02_0700;
const CLASS_BRIDGE: u32 = 0x06_0400;
/// Lanes of each link.
const LANES: u16 = 16;
/// Where the PCI Express capability is in the configuration space.
const EXPRESS: usize = 0x40;

/// The facts about a PCI device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PciDevice {
    pub address: PciAddress,
    /// Vendor and device.
    pub id: (u16, u16),
    pub class: u32,
    pub revision: u8,
    pub numa_node: Option<u16>,
    /// The generation of PCI Express, which gives the speed of the link.
    pub generation: u8,
    /// The buses below a bridge, from the first to the last one.
    pub buses: Option<(u8, u8)>,
    /// The bridge is on the root bus.
    pub is_root: bool,
}

/// The generation that carries a port of this rate (in units of 100 Mb/s) over 16 lanes; 4 at least.
fn generation(rate: u32) -> u8 {
    match rate {
        0..=2000 => 4,
        2001..=4000 => 5,
        _ => 6,
    }
}

impl PciDevice {
    /// The function of a device at this location. None without a PCI path.
    pub fn function(location: &Location, profile: &Profile) -> Option<PciDevice> {
        let path = location.pci.as_ref()?;
        Some(PciDevice {
            address: path.function(),
            id: profile.identity.pci,
            class: match profile.fabric {
                Fabric::InfiniBand => CLASS_INFINIBAND,
                _ => CLASS_ETHERNET,
            },
            revision: profile.identity.hw_ver as u8,
            numa_node: location.numa_node,
            generation: generation(profile.port.speed.rate),
            buses: None,
            is_root: path.bridges().is_empty(),
        })
    }

    /// The bridge at this depth above it. `all` are the paths of all devices, some of which may be below the
    /// same bridge.
    pub fn bridge<'a>(
        location: &Location,
        profile: &Profile,
        depth: usize,
        all: impl Iterator<Item = &'a PciPath>,
    ) -> Option<PciDevice> {
        let path = location.pci.as_ref()?;
        let address = *path.bridges().get(depth)?;
        let below = all.filter(|path| path.bridges().contains(&address));
        let last = below.map(|path| path.function().bus).max()?;
        Some(PciDevice {
            address,
            id: BRIDGE,
            class: CLASS_BRIDGE,
            revision: 0,
            numa_node: location.numa_node,
            generation: generation(profile.port.speed.rate),
            buses: Some((path.0[depth + 1].bus, last)),
            is_root: depth == 0,
        })
    }

    /// The content of a file. None for the lists of CPUs, which depend on the host.
    pub fn read(&self, file: PciFile) -> Option<Vec<u8>> {
        let (vendor, device) = self.id;
        let text = match file {
            PciFile::Class => format!("{:#08x}\n", self.class),
            PciFile::Config => return Some(self.configuration().to_vec()),
            PciFile::Device | PciFile::SubsystemDevice => format!("{device:#06x}\n"),
            PciFile::Vendor | PciFile::SubsystemVendor => format!("{vendor:#06x}\n"),
            PciFile::Enable => "1\n".into(),
            PciFile::Irq => "0\n".into(),
            PciFile::LinkSpeed => self.link_speed().into(),
            PciFile::LinkWidth => format!("{LANES}\n"),
            PciFile::LocalCpuList | PciFile::LocalCpus => return None,
            PciFile::Modalias => self.modalias() + "\n",
            PciFile::NumaNode => match self.numa_node {
                Some(node) => format!("{node}\n"),
                None => "-1\n".into(),
            },
            // No BAR has memory: a line of zeros for each, and for the ROM.
            PciFile::Resource => format!("{0} {0} {0}\n", "0x0000000000000000").repeat(13),
            PciFile::Revision => format!("{:#04x}\n", self.revision),
            PciFile::Uevent => format!(
                "PCI_CLASS={:X}\nPCI_ID={vendor:04X}:{device:04X}\nPCI_SUBSYS_ID={vendor:04X}:{device:04X}\n\
                 PCI_SLOT_NAME={}\nMODALIAS={}\n",
                self.class,
                self.address,
                self.modalias()
            ),
        };
        Some(text.into_bytes())
    }

    fn link_speed(&self) -> &'static str {
        match self.generation {
            4 => "16.0 GT/s PCIe\n",
            5 => "32.0 GT/s PCIe\n",
            _ => "64.0 GT/s PCIe\n",
        }
    }

    fn modalias(&self) -> String {
        let (vendor, device) = (u32::from(self.id.0), u32::from(self.id.1));
        let [_, base, sub, interface] = self.class.to_be_bytes();
        format!(
            "pci:v{vendor:08X}d{device:08X}sv{vendor:08X}sd{device:08X}\
             bc{base:02X}sc{sub:02X}i{interface:02X}"
        )
    }

    /// The configuration space.
    fn configuration(&self) -> [u8; 256] {
        let mut space = [0; 256];
        let mut put = |at: usize, value: u16| {
            space[at..at + 2].copy_from_slice(&value.to_le_bytes());
        };
        put(0, self.id.0);
        put(2, self.id.1);
        // Memory and bus master enabled; there is a list of capabilities.
        put(4, 6);
        put(6, 0x10);
        let [_, base, sub, interface] = self.class.to_be_bytes();
        put(8, u16::from(interface) << 8 | u16::from(self.revision));
        put(10, u16::from(base) << 8 | u16::from(sub));
        put(0x34, EXPRESS as u16);
        // Ports of type root port, upstream port; endpoints are 0.
        let port_type: u16 = match (self.buses, self.is_root) {
            (None, _) => 0,
            (Some(_), true) => 4,
            (Some(_), false) => 5,
        };
        put(EXPRESS, 0x10);
        put(EXPRESS + 2, 2 | port_type << 4);
        let link = u16::from(self.generation) | LANES << 4;
        put(EXPRESS + 0x0c, link);
        put(EXPRESS + 0x12, link);
        match self.buses {
            Some((first, last)) => {
                put(0x0e, 1);
                put(0x18, u16::from(first) << 8 | u16::from(self.address.bus));
                put(0x1a, u16::from(last));
            }
            None => {
                put(0x2c, self.id.0);
                put(0x2e, self.id.1);
            }
        }
        space
    }
}

/// The mask of a list of CPUs such as `0-3,8`, as the kernel prints it: 32 bits in hexadecimal, and commas
/// between them. CPUs from 4096 on are left out.
pub fn cpu_mask(list: &str) -> String {
    const WORDS: usize = 128;
    let mut words = [0_u32; WORDS];
    for range in list.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (Ok(first), Ok(last)) = (first.parse::<usize>(), last.parse::<usize>()) else {
            continue;
        };
        for cpu in first..=last.min(32 * WORDS - 1) {
            words[cpu / 32] |= 1 << (cpu % 32);
        }
    }
    let last = words.iter().rposition(|word| *word != 0).unwrap_or(0);
    let words: Vec<_> = words[..=last]
        .iter()
        .rev()
        .map(|word| format!("{word:08x}"))
        .collect();
    words.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let text = "0001:c1:1f.7";
        let address = PciAddress::parse(text).unwrap();
        assert_eq!(
            (address.bus, address.device, address.function),
            (0xc1, 0x1f, 7)
        );
        assert_eq!(address.to_string(), text);
        for wrong in [
            "",
            "81:00.0",
            "0000:81:00",
            "0000:81:20.0",
            "0000:81:00.8",
            "0000:81:00.0.0",
            "0000:81:00:00.0",
            "+000:81:00.0",
            "0000:8_:00.0",
        ] {
            assert_eq!(PciAddress::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn paths() {
        let path = PciPath::parse("0000:81:00.0").unwrap();
        let root = "/sys/devices/pci0000:80/0000:80:01.0";
        assert_eq!(path.directory(0), root);
        assert_eq!(path.function_directory(), format!("{root}/0000:81:00.0"));
        let on_root = PciPath::parse("0000:80:05.0").unwrap();
        assert_eq!(
            on_root.function_directory(),
            "/sys/devices/pci0000:80/0000:80:05.0"
        );
        let switch = "0000:80:01.0/0000:81:00.0/0000:82:04.0/0000:83:00.1";
        let path = PciPath::parse(switch).unwrap();
        assert_eq!(
            path.function_directory(),
            format!("/sys/devices/pci0000:80/{switch}")
        );
        assert_eq!(path.bridges().len(), 3);
        for wrong in [
            "",
            "0000:81:00.0/",
            "0000:81:00.0/0000:81:01.0",
            "0000:81:00.0/0001:82:00.0",
        ] {
            assert_eq!(PciPath::parse(wrong), None, "{wrong}");
        }
    }

    fn location(text: &str) -> Location {
        Location {
            numa_node: Some(1),
            pci: PciPath::parse(text),
        }
    }

    #[test]
    fn files_of_a_function() {
        let profile = Profile::named("connectx-ib").unwrap();
        let function = PciDevice::function(&location("0000:81:00.0"), &profile).unwrap();
        let text = |file| String::from_utf8(function.read(file).unwrap()).unwrap();
        assert_eq!(text(PciFile::Class), "0x020700\n");
        assert_eq!(text(PciFile::Vendor), "0x15b3\n");
        assert_eq!(text(PciFile::Device), "0x101b\n");
        assert_eq!(text(PciFile::NumaNode), "1\n");
        assert_eq!(text(PciFile::Resource).lines().count(), 13);
        assert!(text(PciFile::Uevent).contains("PCI_CLASS=20700\nPCI_ID=15B3:101B\n"));
        assert_eq!(
            text(PciFile::Modalias),
            "pci:v000015B3d0000101Bsv000015B3sd0000101Bbc02sc07i00\n"
        );
        let space = function.read(PciFile::Config).unwrap();
        assert_eq!(space[..4], [0xb3, 0x15, 0x1b, 0x10]);
        assert_eq!(space[8..12], [0, 0, 7, 2]);
        // 16 lanes of the fourth generation.
        assert_eq!(space[EXPRESS + 0x12..EXPRESS + 0x14], [0x04, 0x01]);
        assert_eq!(function.read(PciFile::LocalCpus), None);
    }

    #[test]
    fn masks_of_cpus() {
        assert_eq!(cpu_mask("0-1"), "00000003");
        assert_eq!(cpu_mask("0,2-3,33"), "00000002,0000000d");
        assert_eq!(cpu_mask(""), "00000000");
        assert_eq!(cpu_mask("4095-9999").len(), 128 * 9 - 1);
    }

    #[test]
    fn a_bridge_has_the_buses_of_all_that_is_below() {
        let profile = Profile::named("uroce").unwrap();
        let near = location("0000:80:01.0/0000:81:00.0/0000:82:00.0/0000:83:00.0");
        let far = location("0000:80:01.0/0000:81:00.0/0000:82:01.0/0000:84:00.0");
        let all = || {
            [&near, &far]
                .into_iter()
                .filter_map(|location| location.pci.as_ref())
        };
        let bridge = |depth| PciDevice::bridge(&near, &profile, depth, all());
        assert_eq!(bridge(0).unwrap().buses, Some((0x81, 0x84)));
        assert_eq!(bridge(1).unwrap().buses, Some((0x82, 0x84)));
        assert_eq!(bridge(2).unwrap().buses, Some((0x83, 0x83)));
        assert_eq!(bridge(3), None);
        let space = bridge(1).unwrap().read(PciFile::Config).unwrap();
        assert_eq!(
            (space[0x0e], &space[0x18..0x1b]),
            (1, &[0x81, 0x82, 0x84][..])
        );
        assert_eq!(space[EXPRESS + 2] >> 4, 5);
    }
}
