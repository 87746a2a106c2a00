//! The entries of each directory of the tree.

use super::{Character, Directory, File, Node, Tree, relative_link};
use crate::device::counters::DeviceCounters;
use crate::pci::{self, PciFile};

/// The number of entries of a directory whose files have numbers, and these files.
pub(super) type Indexed = (u32, Box<dyn Fn(u32) -> File>);

impl Tree {
    /// The entries of the directory at `path` that have names of their own; the others are [`Tree::indexed`].
    pub(super) fn own_entries(&self, path: &str, directory: Directory) -> Vec<(String, Node)> {
        let text = |text| Node::File(File::Text(text));
        let entries = match directory {
            Directory::Parent(d) => vec![
                ("numa_node", Node::File(File::NumaNode(d))),
                ("power", Node::Directory(Directory::Power)),
                ("uevent", text("")),
            ],
            Directory::Function(d) => pci_entries(path, |file| File::Function(d, file)),
            Directory::Bridge(d, depth) => pci_entries(path, |file| File::Bridge(d, depth, file)),
            Directory::Ibdev(d) => self.ibdev_entries(path, d),
            Directory::Uverbs(d) => self.uverbs_entries(path, d),
            Directory::Power => vec![
                ("async", text("disabled\n")),
                ("control", text("auto\n")),
                ("runtime_enabled", text("disabled\n")),
                ("runtime_status", text("unsupported\n")),
                ("runtime_usage", text("0\n")),
            ],
            Directory::Port(d, port) => self.port_entries(d, port),
            Directory::GidAttributes(d, port) => vec![
                ("ndevs", Node::Directory(Directory::GidNetdevs(d, port))),
                ("types", Node::Directory(Directory::GidTypes(d, port))),
            ],
            Directory::Counters(d, port) => {
                let counters = DeviceCounters::default().port_counters();
                let names = counters.into_iter().zip(0..);
                let file = |at| Node::File(File::Counter(d, port, at));
                names.map(|((name, _), at)| (name, file(at))).collect()
            }
            Directory::HwCounters(d, port) => {
                let names = DeviceCounters::default().hw_counters().into_iter().zip(0..);
                let file = |at| Node::File(File::HwCounter(d, port, at));
                let counters = names.map(|((name, _), at)| (name, file(at)));
                counters.chain([("lifespan", text("10\n"))]).collect()
            }
            Directory::Mad(d, port, character) => self.mad_entries(path, d, port, character),
            Directory::Misc(character) => vec![
                ("abi_version", text("4\n")),
                ("dev", Node::File(File::CharacterNumber(character))),
                ("power", Node::Directory(Directory::Power)),
                (
                    "subsystem",
                    Node::Link(relative_link(path, "/sys/class/misc")),
                ),
                ("uevent", Node::File(File::Uevent(character))),
            ],
            Directory::Above
            | Directory::Ports(_)
            | Directory::Pkeys(..)
            | Directory::Gids(..)
            | Directory::GidTypes(..)
            | Directory::GidNetdevs(..) => vec![],
        };
        let named = entries.into_iter();
        let mut all: Vec<_> = named.map(|(name, node)| (name.to_owned(), node)).collect();
        if let Directory::Ports(d) = directory {
            let ports = 1..=self.devices[d].profile.limits.ports as u8;
            all.extend(
                ports.map(|port| (port.to_string(), Node::Directory(Directory::Port(d, port)))),
            );
        }
        all
    }

    fn ibdev_entries(&self, path: &str, d: usize) -> Vec<(&'static str, Node)> {
        let link = |target: &str| Node::Link(relative_link(path, target));
        let device = &self.devices[d];
        let identity = &device.profile.identity;
        let mut entries = vec![
            ("device", link(&device.device_path())),
            ("fw_ver", Node::File(File::FirmwareVersion(d))),
            ("hw_rev", Node::File(File::HwRevision(d))),
            ("node_desc", Node::File(File::NodeDescription(d))),
            ("node_guid", Node::File(File::NodeGuid(d))),
            ("node_type", Node::File(File::NodeType(d))),
            ("parent", Node::File(File::NetdevName(d))),
            ("ports", Node::Directory(Directory::Ports(d))),
            ("power", Node::Directory(Directory::Power)),
            ("subsystem", link("/sys/class/infiniband")),
            ("sys_image_guid", Node::File(File::NodeGuid(d))),
            ("uevent", Node::File(File::IbdevUevent(d))),
        ];
        if !identity.board_id.is_empty() {
            entries.push(("board_id", Node::File(File::BoardId(d))));
        }
        if !identity.hca_type.is_empty() {
            entries.push(("hca_type", Node::File(File::HcaType(d))));
        }
        entries
    }

    fn uverbs_entries(&self, path: &str, d: usize) -> Vec<(&'static str, Node)> {
        let link = |target: &str| Node::Link(relative_link(path, target));
        vec![
            ("abi_version", Node::File(File::Text("1\n"))),
            ("dev", Node::File(File::CharacterNumber(self.uverbs(d)))),
            ("device", link(&self.devices[d].device_path())),
            ("ibdev", Node::File(File::IbdevName(d))),
            ("power", Node::Directory(Directory::Power)),
            ("subsystem", link("/sys/class/infiniband_verbs")),
            ("uevent", Node::File(File::Uevent(self.uverbs(d)))),
        ]
    }

    fn mad_entries(
        &self,
        path: &str,
        d: usize,
        port: u8,
        character: Character,
    ) -> Vec<(&'static str, Node)> {
        let link = |target: &str| Node::Link(relative_link(path, target));
        vec![
            ("dev", Node::File(File::CharacterNumber(character))),
            ("device", link(&self.devices[d].device_path())),
            ("ibdev", Node::File(File::IbdevName(d))),
            ("port", Node::File(File::PortNumber(port))),
            ("power", Node::Directory(Directory::Power)),
            ("subsystem", link("/sys/class/infiniband_mad")),
            ("uevent", Node::File(File::Uevent(character))),
        ]
    }

    fn port_entries(&self, d: usize, port: u8) -> Vec<(&'static str, Node)> {
        let (dir, file) = (Node::Directory, Node::File);
        vec![
            ("cap_mask", file(File::CapabilityMask(d))),
            ("counters", dir(Directory::Counters(d, port))),
            ("gid_attrs", dir(Directory::GidAttributes(d, port))),
            ("gids", dir(Directory::Gids(d, port))),
            ("hw_counters", dir(Directory::HwCounters(d, port))),
            ("lid", file(File::Lid(d, port))),
            ("lid_mask_count", file(File::LidMaskCount(d))),
            ("link_layer", file(File::LinkLayer(d))),
            ("phys_state", file(File::PhysicalState(d, port))),
            ("pkeys", dir(Directory::Pkeys(d, port))),
            ("rate", file(File::Rate(d))),
            ("sm_lid", file(File::SubnetManagerLid(d, port))),
            ("sm_sl", file(File::Text("0\n"))),
            ("state", file(File::State(d, port))),
        ]
    }

    /// The number of files of a directory that has one for each entry of a table of a port, and these files.
    pub(super) fn indexed(&self, directory: Directory) -> Option<Indexed> {
        let limits = |d: usize| &self.devices[d].profile.limits;
        Some(match directory {
            Directory::Gids(d, port) => {
                let file = move |index| File::Gid(d, port, index);
                (limits(d).gid_tbl_len, Box::new(file))
            }
            Directory::GidTypes(d, port) => {
                let file = move |index| File::GidType(d, port, index);
                (limits(d).gid_tbl_len, Box::new(file))
            }
            Directory::GidNetdevs(d, port) => {
                let file = move |index| File::GidNetdev(d, port, index);
                (limits(d).gid_tbl_len, Box::new(file))
            }
            Directory::Pkeys(d, _) => {
                let file = move |index| File::Pkey(d, index);
                (limits(d).pkey_tbl_len, Box::new(file))
            }
            _ => return None,
        })
    }
}

/// The entries of the directory of a PCI device.
fn pci_entries(path: &str, file: impl Fn(PciFile) -> File) -> Vec<(&'static str, Node)> {
    let files = pci::FILES
        .iter()
        .map(|(name, of)| (*name, Node::File(file(*of))));
    let others = [
        ("power", Node::Directory(Directory::Power)),
        ("subsystem", Node::Link(relative_link(path, "/sys/bus/pci"))),
    ];
    files.chain(others).collect()
}
