//! The tree of files that a kernel would show for the devices: which paths exist, and what they are. Pure:
//! contents come from `content.rs`, and what the kernel itself has in a directory is not known here.
//!
//! A tree is a list of attachments: a path, and the node there. The directories above an attachment are part
//! of the tree too; the kernel usually has them, and then both lists of entries are merged.
//!
//! Names and links are those that the kernel gives to an rxe device (drivers/infiniband/core/sysfs.c,
//! uverbs_main.c, ucma.c).

use crate::device::counters::DeviceCounters;

/// IB_UVERBS_MAJOR of the kernel.
const UVERBS_MAJOR: u32 = 231;
/// IB_UVERBS_BASE_MINOR.
const UVERBS_BASE_MINOR: u32 = 192;

/// A device, as far as paths depend on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The name of the device.
    pub name: String,
    /// N of `uverbsN`.
    pub uverbs: u32,
    /// The name of its interface.
    pub netdev: String,
    /// The directory in sysfs of the interface's own device; None for an interface without hardware.
    pub parent: Option<String>,
    /// The directory of the interface in `/sys/devices`.
    pub netdev_path: String,
}

impl Shown {
    /// The directory that `device` links point to.
    pub fn device_path(&self) -> String {
        match &self.parent {
            Some(parent) => parent.clone(),
            None => format!("/sys/devices/virtual/uroce/{}", self.name),
        }
    }
}

/// What is at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    Directory(Directory),
    /// A symbolic link and its target.
    Link(String),
    File(File),
    Character(Character),
}

/// A directory. The numbers are indices of [`Tree::devices`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Directory {
    /// Its entries are the attachments below it, and what the kernel has there.
    Above,
    /// The device that stands for an interface without hardware.
    Parent(usize),
    Ibdev(usize),
    Uverbs(usize),
    Power,
    Ports(usize),
    Port(usize),
    Gids(usize),
    GidAttributes(usize),
    GidTypes(usize),
    GidNetdevs(usize),
    Pkeys(usize),
    Counters(usize),
    HwCounters(usize),
    /// `rdma_cm` among the miscellaneous devices.
    Misc(Character),
}

/// A regular file. The first number is an index of [`Tree::devices`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum File {
    /// The same text for all devices.
    Text(&'static str),
    BoardId(usize),
    CapabilityMask(usize),
    CharacterNumber(Character),
    /// A counter of the port, by its place in `DeviceCounters::port_counters`.
    Counter(usize, usize),
    FirmwareVersion(usize),
    Gid(usize, u32),
    GidNetdev(usize, u32),
    GidType(usize, u32),
    /// A counter of the port, by its place in `DeviceCounters::hw_counters`.
    HwCounter(usize, usize),
    IbdevName(usize),
    Lid(usize),
    NetdevName(usize),
    NodeDescription(usize),
    NodeGuid(usize),
    PhysicalState(usize),
    Rate(usize),
    State(usize),
    Uevent(Character),
    IbdevUevent(usize),
}

/// A character device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Character {
    /// `uverbsN`.
    Uverbs(u32),
    /// `rdma_cm`, with its major and minor number.
    RdmaCm(u32, u32),
}

impl Character {
    /// Major and minor number.
    pub fn number(self) -> (u32, u32) {
        match self {
            Character::Uverbs(n) => (UVERBS_MAJOR, UVERBS_BASE_MINOR + n),
            Character::RdmaCm(major, minor) => (major, minor),
        }
    }

    /// The name in `/dev/infiniband`.
    pub fn name(self) -> String {
        match self {
            Character::Uverbs(n) => format!("uverbs{n}"),
            Character::RdmaCm(..) => "rdma_cm".into(),
        }
    }
}

/// All devices, and where their files are.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    devices: Vec<Shown>,
    gid_files: u32,
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
    /// The tree of these devices, each with this number of GID table entries. With `rdma_cm` there are the
    /// files of that device too.
    pub fn new(devices: Vec<Shown>, gid_files: u32, rdma_cm: Option<Character>) -> Tree {
        let mut tree = Tree {
            devices,
            gid_files,
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
        if device.parent.is_none() {
            self.attach(&parent, Node::Directory(Directory::Parent(index)));
        }
        self.attach(&ibdev, Node::Directory(Directory::Ibdev(index)));
        self.attach(&uverbs_path, Node::Directory(Directory::Uverbs(index)));
        self.attach_link(&format!("/sys/class/infiniband/{}", device.name), &ibdev);
        let class = format!("/sys/class/infiniband_verbs/{}", uverbs.name());
        self.attach_link(&class, &uverbs_path);
        self.attach_character(uverbs, &uverbs_path);
        let net = format!("{parent}/net/{}", device.netdev);
        if net != device.netdev_path && !self.attachments.iter().any(|(path, _)| *path == net) {
            self.attach_link(&net, &device.netdev_path);
        }
    }

    fn attach_misc(&mut self, character: Character) {
        let name = character.name();
        let directory = format!("/sys/devices/virtual/misc/{name}");
        self.attach(&directory, Node::Directory(Directory::Misc(character)));
        self.attach_link(&format!("/sys/class/misc/{name}"), &directory);
        self.attach_character(character, &directory);
    }

    /// What is at `path`, which is absolute and has no `.`, `..`, links or doubled slashes.
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
        if let Some(file) = indexed(directory) {
            let index: u32 = name.parse().ok()?;
            let exists = index < self.gid_files && index.to_string() == name;
            return exists.then(|| Node::File(file(index)));
        }
        let own = self.own_entries(path, directory).into_iter();
        let mut found = own.filter(|(entry, _)| entry == name);
        found.next().map(|(_, node)| node)
    }

    /// The entries that the tree has in the directory at `path`.
    pub fn entries(&self, path: &str, directory: Directory) -> Vec<(String, Node)> {
        let mut entries = match indexed(directory) {
            Some(file) => (0..self.gid_files)
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

    fn own_entries(&self, path: &str, directory: Directory) -> Vec<(String, Node)> {
        let file = |file| Node::File(file);
        let text = |text| Node::File(File::Text(text));
        let dir = Node::Directory;
        let link = |target: &str| Node::Link(relative_link(path, target));
        let entries = match directory {
            Directory::Above => vec![],
            Directory::Parent(_) => vec![
                ("numa_node", text("-1\n")),
                ("power", dir(Directory::Power)),
                ("uevent", text("")),
            ],
            Directory::Ibdev(d) => vec![
                ("board_id", file(File::BoardId(d))),
                ("device", link(&self.devices[d].device_path())),
                ("fw_ver", file(File::FirmwareVersion(d))),
                ("hca_type", text("uroce\n")),
                ("hw_rev", text("0\n")),
                ("node_desc", file(File::NodeDescription(d))),
                ("node_guid", file(File::NodeGuid(d))),
                ("node_type", text("1: CA\n")),
                ("parent", file(File::NetdevName(d))),
                ("ports", dir(Directory::Ports(d))),
                ("power", dir(Directory::Power)),
                ("subsystem", link("/sys/class/infiniband")),
                ("sys_image_guid", file(File::NodeGuid(d))),
                ("uevent", file(File::IbdevUevent(d))),
            ],
            Directory::Uverbs(d) => vec![
                ("abi_version", text("1\n")),
                ("dev", file(File::CharacterNumber(self.uverbs(d)))),
                ("device", link(&self.devices[d].device_path())),
                ("ibdev", file(File::IbdevName(d))),
                ("power", dir(Directory::Power)),
                ("subsystem", link("/sys/class/infiniband_verbs")),
                ("uevent", file(File::Uevent(self.uverbs(d)))),
            ],
            Directory::Power => vec![
                ("async", text("disabled\n")),
                ("control", text("auto\n")),
                ("runtime_enabled", text("disabled\n")),
                ("runtime_status", text("unsupported\n")),
                ("runtime_usage", text("0\n")),
            ],
            Directory::Ports(d) => vec![("1", dir(Directory::Port(d)))],
            Directory::Port(d) => vec![
                ("cap_mask", file(File::CapabilityMask(d))),
                ("counters", dir(Directory::Counters(d))),
                ("gid_attrs", dir(Directory::GidAttributes(d))),
                ("gids", dir(Directory::Gids(d))),
                ("hw_counters", dir(Directory::HwCounters(d))),
                ("lid", file(File::Lid(d))),
                ("lid_mask_count", text("0\n")),
                ("link_layer", text("Ethernet\n")),
                ("phys_state", file(File::PhysicalState(d))),
                ("pkeys", dir(Directory::Pkeys(d))),
                ("rate", file(File::Rate(d))),
                ("sm_lid", text("0x0\n")),
                ("sm_sl", text("0\n")),
                ("state", file(File::State(d))),
            ],
            Directory::GidAttributes(d) => vec![
                ("ndevs", dir(Directory::GidNetdevs(d))),
                ("types", dir(Directory::GidTypes(d))),
            ],
            Directory::Pkeys(_) => vec![("0", text("0xffff\n"))],
            Directory::Counters(d) => {
                let names = DeviceCounters::default()
                    .port_counters()
                    .into_iter()
                    .zip(0..);
                names
                    .map(|((name, _), at)| (name, file(File::Counter(d, at))))
                    .collect()
            }
            Directory::HwCounters(d) => {
                let names = DeviceCounters::default().hw_counters().into_iter().zip(0..);
                let counters = names.map(|((name, _), at)| (name, file(File::HwCounter(d, at))));
                counters.chain([("lifespan", text("10\n"))]).collect()
            }
            Directory::Misc(character) => vec![
                ("abi_version", text("4\n")),
                ("dev", file(File::CharacterNumber(character))),
                ("power", dir(Directory::Power)),
                ("subsystem", link("/sys/class/misc")),
                ("uevent", file(File::Uevent(character))),
            ],
            Directory::Gids(_) | Directory::GidTypes(_) | Directory::GidNetdevs(_) => vec![],
        };
        let named = entries.into_iter();
        named.map(|(name, node)| (name.to_owned(), node)).collect()
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

/// The files of a directory that has one for each entry of the GID table.
fn indexed(directory: Directory) -> Option<Box<dyn Fn(u32) -> File>> {
    match directory {
        Directory::Gids(d) => Some(Box::new(move |index| File::Gid(d, index))),
        Directory::GidTypes(d) => Some(Box::new(move |index| File::GidType(d, index))),
        Directory::GidNetdevs(d) => Some(Box::new(move |index| File::GidNetdev(d, index))),
        _ => None,
    }
}
