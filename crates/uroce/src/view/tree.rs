//! The tree of files that a kernel would show for the devices: which paths exist, and what they are. Pure:
//! contents come from `content.rs`, and what the kernel itself has in a directory is not known here.
//!
//! A tree is a list of attachments: a path, and the node there. The directories above an attachment are part
//! of the tree too; the kernel usually has them, and then both lists of entries are merged.
//!
//! Names and links are those that the kernel gives to an rxe device (drivers/infiniband/core/sysfs.c,
//! uverbs_main.c, ucma.c).

mod entries;

use crate::pci::{Location, PciFile};
use crate::profile::Profile;

/// IB_UVERBS_MAJOR of the kernel.
const UVERBS_MAJOR: u32 = 231;
/// IB_UVERBS_BASE_MINOR.
const UVERBS_BASE_MINOR: u32 = 192;
/// IB_UMAD_MAX_PORTS, which the minor numbers of `issmN` begin with. Those of `umadN` begin with 0.
const ISSM_BASE_MINOR: u32 = 64;

/// A device, as far as paths depend on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The name of the device.
    pub name: String,
    /// N of `uverbsN`.
    pub uverbs: u32,
    /// N of `umadN` of its first port; None if it has no such files.
    pub umad: Option<u32>,
    /// The name of its interface.
    pub netdev: String,
    /// The directory in sysfs of the interface's own device; None for an interface without hardware.
    pub parent: Option<String>,
    /// The directory of the interface in `/sys/devices`.
    pub netdev_path: String,
    /// The profile of its configuration.
    pub profile: Profile,
    /// The PCI function and NUMA node that the device appears to have. Without a PCI path if the kernel has
    /// that PCI function.
    pub location: Location,
}

impl Shown {
    /// The directory that `device` links point to.
    pub fn device_path(&self) -> String {
        match (&self.location.pci, &self.parent) {
            (Some(pci), _) => pci.function_directory(),
            (None, Some(parent)) => parent.clone(),
            (None, None) => format!("/sys/devices/virtual/uroce/{}", self.name),
        }
    }
}

/// The node at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    Directory(Directory),
    /// A symbolic link and its target.
    Link(String),
    File(File),
    Character(Character),
}

/// A directory. The first number is an index of [`Tree::devices`], the second that of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Directory {
    /// The directory's entries are the attachments below it, and what the kernel has there.
    Above,
    /// The device that stands for an interface without hardware.
    Parent(usize),
    /// The PCI function of a device.
    Function(usize),
    /// The PCI bridge above it, at this depth.
    Bridge(usize, u8),
    Ibdev(usize),
    Uverbs(usize),
    Power,
    Ports(usize),
    Port(usize, u8),
    Gids(usize, u8),
    GidAttributes(usize, u8),
    GidTypes(usize, u8),
    GidNetdevs(usize, u8),
    Pkeys(usize, u8),
    Counters(usize, u8),
    HwCounters(usize, u8),
    /// `umadN` or `issmN` of a port.
    Mad(usize, u8, Character),
    /// `rdma_cm` among the miscellaneous devices.
    Misc(Character),
}

/// A regular file. The first number is an index of [`Tree::devices`], the second that of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum File {
    /// The same text for all devices.
    Text(&'static str),
    BoardId(usize),
    CapabilityMask(usize),
    CharacterNumber(Character),
    /// A counter of the port, by its place in `DeviceCounters::port_counters`.
    Counter(usize, u8, usize),
    FirmwareVersion(usize),
    Gid(usize, u8, u32),
    GidNetdev(usize, u8, u32),
    GidType(usize, u8, u32),
    /// A counter of the port, by its place in `DeviceCounters::hw_counters`.
    HwCounter(usize, u8, usize),
    IbdevName(usize),
    Lid(usize, u8),
    NetdevName(usize),
    NodeDescription(usize),
    NodeGuid(usize),
    PhysicalState(usize, u8),
    PortNumber(u8),
    Rate(usize),
    /// A file of the PCI function.
    Function(usize, PciFile),
    /// A file of the PCI bridge at this depth above it.
    Bridge(usize, u8, PciFile),
    HcaType(usize),
    HwRevision(usize),
    LidMaskCount(usize),
    LinkLayer(usize),
    NodeType(usize),
    NumaNode(usize),
    Pkey(usize, u32),
    SubnetManagerLid(usize, u8),
    State(usize, u8),
    Uevent(Character),
    IbdevUevent(usize),
}

/// A character device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Character {
    /// `uverbsN`.
    Uverbs(u32),
    /// `umadN`.
    Umad(u32),
    /// `issmN`.
    Issm(u32),
    /// `rdma_cm`, with its major and minor number.
    RdmaCm(u32, u32),
}

impl Character {
    /// Major and minor number.
    pub fn number(self) -> (u32, u32) {
        match self {
            Character::Uverbs(n) => (UVERBS_MAJOR, UVERBS_BASE_MINOR + n),
            Character::Umad(n) => (UVERBS_MAJOR, n),
            Character::Issm(n) => (UVERBS_MAJOR, ISSM_BASE_MINOR + n),
            Character::RdmaCm(major, minor) => (major, minor),
        }
    }

    /// The name in `/dev/infiniband`.
    pub fn name(self) -> String {
        match self {
            Character::Uverbs(n) => format!("uverbs{n}"),
            Character::Umad(n) => format!("umad{n}"),
            Character::Issm(n) => format!("issm{n}"),
            Character::RdmaCm(..) => "rdma_cm".into(),
        }
    }
}

/// All devices, and where their files are.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    devices: Vec<Shown>,
    attachments: Vec<(String, Node)>,
}

/// The rest of `path` below the directory `above`, without the slash; None if it is not below.
fn below<'a>(path: &'a str, above: &str) -> Option<&'a str> {
    if above == "/" {
        return path.strip_prefix('/').filter(|rest| !rest.is_empty());
    }
    path.strip_prefix(above)?.strip_prefix('/')
}

/// The link that leads from the directory `from` to the path `to`, relative as in sysfs.
fn relative_link(from: &str, to: &str) -> String {
    let parts = |path: &str| -> Vec<String> {
        let parts = path.split('/').filter(|part| !part.is_empty());
        parts.map(Into::into).collect()
    };
    let (from, to) = (parts(from), parts(to));
    let common = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
    let mut link = vec![".."; from.len() - common];
    link.extend(to[common..].iter().map(String::as_str));
    link.join("/")
}

impl Tree {
    /// The tree of these devices. With `rdma_cm` there are the files of that device too.
    pub fn new(devices: Vec<Shown>, rdma_cm: Option<Character>) -> Tree {
        let mut tree = Tree {
            devices,
            attachments: Vec::new(),
        };
        let version = |text| Node::File(File::Text(text));
        tree.attach("/sys/class/infiniband_verbs/abi_version", version("6\n"));
        tree.attach("/sys/class/infiniband_mad/abi_version", version("5\n"));
        for index in 0..tree.devices.len() {
            tree.attach_device(index);
        }
        if let Some(rdma_cm) = rdma_cm {
            tree.attach_misc(rdma_cm);
        }
        tree
    }

    /// The devices.
    pub fn devices(&self) -> &[Shown] {
        &self.devices
    }

    fn attach(&mut self, path: &str, node: Node) {
        self.attachments.push((path.into(), node));
    }

    fn attach_link(&mut self, path: &str, target: &str) {
        let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
        self.attach(path, Node::Link(relative_link(directory, target)));
    }

    fn attach_character(&mut self, character: Character, directory: &str) {
        let (major, minor) = character.number();
        let name = character.name();
        self.attach(
            &format!("/dev/infiniband/{name}"),
            Node::Character(character),
        );
        self.attach_link(&format!("/sys/dev/char/{major}:{minor}"), directory);
    }

    fn attach_device(&mut self, index: usize) {
        let device = self.devices[index].clone();
        let parent = device.device_path();
        let ibdev = format!("{parent}/infiniband/{}", device.name);
        let uverbs = Character::Uverbs(device.uverbs);
        let uverbs_path = format!("{parent}/infiniband_verbs/{}", uverbs.name());
        match (&device.location.pci, &device.parent) {
            (Some(_), _) => self.attach_function(index),
            (None, None) => self.attach(&parent, Node::Directory(Directory::Parent(index))),
            (None, Some(_)) if device.location.numa_node.is_some() => {
                self.attach(
                    &format!("{parent}/numa_node"),
                    Node::File(File::NumaNode(index)),
                );
            }
            (None, Some(_)) => {}
        }
        self.attach(&ibdev, Node::Directory(Directory::Ibdev(index)));
        self.attach(&uverbs_path, Node::Directory(Directory::Uverbs(index)));
        self.attach_link(&format!("/sys/class/infiniband/{}", device.name), &ibdev);
        let class = format!("/sys/class/infiniband_verbs/{}", uverbs.name());
        self.attach_link(&class, &uverbs_path);
        self.attach_character(uverbs, &uverbs_path);
        self.attach_mad(index, &device, &parent);
        let net = format!("{parent}/net/{}", device.netdev);
        if net != device.netdev_path && !self.attachments.iter().any(|(path, _)| *path == net) {
            self.attach_link(&net, &device.netdev_path);
        }
    }

    /// Adds the files for management datagrams of each port.
    fn attach_mad(&mut self, index: usize, device: &Shown, parent: &str) {
        let Some(first) = device.umad else {
            return;
        };
        for port in 1..=device.profile.limits.ports {
            let number = first + port - 1;
            for character in [Character::Umad(number), Character::Issm(number)] {
                let name = character.name();
                let path = format!("{parent}/infiniband_mad/{name}");
                let directory = Directory::Mad(index, port as u8, character);
                self.attach(&path, Node::Directory(directory));
                self.attach_link(&format!("/sys/class/infiniband_mad/{name}"), &path);
                self.attach_character(character, &path);
            }
        }
    }

    /// The device and the port of `umadN`.
    pub fn port_of_umad(&self, number: u32) -> Option<(usize, u8)> {
        self.devices.iter().enumerate().find_map(|(index, device)| {
            let port = number.checked_sub(device.umad?)?;
            (port < device.profile.limits.ports).then_some((index, port as u8 + 1))
        })
    }

    /// Adds the PCI function of a device, and the bridges above it.
    fn attach_function(&mut self, index: usize) {
        let location = self.devices[index].location.clone();
        let Some(path) = &location.pci else {
            return;
        };
        let bridges = path.bridges().iter().zip(0..);
        let nodes = bridges.map(|(address, depth)| (*address, Directory::Bridge(index, depth)));
        let function = (path.function(), Directory::Function(index));
        for (depth, (address, directory)) in nodes.chain([function]).enumerate() {
            let at = path.directory(depth);
            // Devices may have bridges in common.
            if !self.attachments.iter().any(|(other, _)| *other == at) {
                self.attach(&at, Node::Directory(directory));
                self.attach_link(&format!("/sys/bus/pci/devices/{address}"), &at);
            }
        }
    }

    fn attach_misc(&mut self, character: Character) {
        let name = character.name();
        let directory = format!("/sys/devices/virtual/misc/{name}");
        self.attach(&directory, Node::Directory(Directory::Misc(character)));
        self.attach_link(&format!("/sys/class/misc/{name}"), &directory);
        self.attach_character(character, &directory);
    }

    /// Finds the node at `path`, which is absolute and has no `.`, `..`, links or doubled slashes.
    pub fn node(&self, path: &str) -> Option<Node> {
        let inside = |(at, node): &(String, Node)| {
            if at == path {
                return Some(node.clone());
            }
            self.descend(at, node, below(path, at)?)
        };
        if let Some(node) = self.attachments.iter().find_map(inside) {
            return Some(node);
        }
        let is_above = self
            .attachments
            .iter()
            .any(|(at, _)| below(at, path).is_some());
        is_above.then_some(Node::Directory(Directory::Above))
    }

    fn descend(&self, at: &str, node: &Node, rest: &str) -> Option<Node> {
        let mut path = at.to_owned();
        let mut node = node.clone();
        for name in rest.split('/') {
            let Node::Directory(directory) = node else {
                return None;
            };
            node = self.child(&path, directory, name)?;
            path = format!("{path}/{name}");
        }
        Some(node)
    }

    fn child(&self, path: &str, directory: Directory, name: &str) -> Option<Node> {
        if let Some((count, file)) = self.indexed(directory) {
            let index: u32 = name.parse().ok()?;
            let exists = index < count && index.to_string() == name;
            return exists.then(|| Node::File(file(index)));
        }
        let own = self.own_entries(path, directory).into_iter();
        let mut found = own.filter(|(entry, _)| entry == name);
        found.next().map(|(_, node)| node)
    }

    /// The entries that the tree has in the directory at `path`.
    pub fn entries(&self, path: &str, directory: Directory) -> Vec<(String, Node)> {
        let mut entries = match self.indexed(directory) {
            Some((count, file)) => (0..count)
                .map(|index| (index.to_string(), Node::File(file(index))))
                .collect(),
            None => self.own_entries(path, directory),
        };
        for (at, node) in &self.attachments {
            let Some(rest) = below(at, path) else {
                continue;
            };
            let (name, node) = match rest.split_once('/') {
                Some((name, _)) => (name, Node::Directory(Directory::Above)),
                None => (rest, node.clone()),
            };
            if !entries.iter().any(|(entry, _)| entry == name) {
                entries.push((name.into(), node));
            }
        }
        entries
    }

    fn uverbs(&self, device: usize) -> Character {
        Character::Uverbs(self.devices[device].uverbs)
    }

    /// Whether a path that begins so can lead to a node of the tree: the path of an attachment, what is
    /// below or above it, or a directory of sysfs that has links to devices. `path` has no `.`, `..` and
    /// doubled slashes, but may have links.
    pub fn concerns(&self, path: &str) -> bool {
        const WITH_LINKS: [&str; 4] = [
            "/sys/class/net",
            "/sys/bus",
            "/sys/dev",
            "/sys/devices/virtual/net",
        ];
        let related =
            |at: &str| at == path || below(at, path).is_some() || below(path, at).is_some();
        WITH_LINKS.iter().any(|at| related(at))
            || self.attachments.iter().any(|(at, _)| related(at))
            || self
                .devices
                .iter()
                .any(|device| related(&device.device_path()))
    }
}
