//! Tests of the tree and of paths, over a simulated sysfs, and of descriptors and streams.

use std::collections::HashMap;

use proptest::prelude::*;

use super::paths::{Found, Links, may_concern, walk};
use super::tree::{Character, Directory, File, Node, Shown, Tree};
use crate::pci::{Location, PciFile, PciPath};
use crate::profile::{DEFAULT, Profile};

const PARENT: &str = "/sys/devices/pci0000:00/0000:00:03.0";

/// The links of the kernel, as they are on a host with a virtio interface.
struct Simulated(HashMap<&'static str, &'static str>);

impl Links for Simulated {
    fn target(&self, path: &str) -> Option<String> {
        self.0.get(path).map(|target| (*target).to_owned())
    }
}

fn kernel() -> Simulated {
    Simulated(HashMap::from([
        (
            "/sys/class/net/eth0",
            "../../devices/pci0000:00/0000:00:03.0/virtio2/net/eth0",
        ),
        (
            "/sys/devices/pci0000:00/0000:00:03.0/virtio2/net/eth0/device",
            "../../../virtio2",
        ),
        (
            "/sys/bus/pci/devices/0000:00:03.0",
            "../../../devices/pci0000:00/0000:00:03.0",
        ),
        ("/sys/class/net/loop", "loop"),
    ]))
}

fn profile(limit: &str, value: u32) -> Profile {
    let mut profile = DEFAULT;
    profile.set(limit, value).unwrap();
    profile
}

fn tree() -> Tree {
    let device = |name: &str, uverbs, netdev: &str, parent: Option<&str>, path: &str| Shown {
        name: name.into(),
        uverbs,
        // One device without.
        umad: (uverbs == 1024).then_some(32),
        netdev: netdev.into(),
        parent: parent.map(Into::into),
        netdev_path: path.into(),
        profile: profile("gid_tbl_len", 16),
        location: Location::default(),
    };
    let eth0 = "/sys/devices/pci0000:00/0000:00:03.0/virtio2/net/eth0";
    let devices = vec![
        device("u0", 1024, "eth0", Some(PARENT), eth0),
        device("l0", 1025, "lo", None, "/sys/devices/virtual/net/lo"),
    ];
    Tree::new(devices, Some(Character::RdmaCm(10, 4791)))
}

fn find(path: &str) -> Found {
    walk(&tree(), &kernel(), "/", path, true)
}

fn path_of(found: Found) -> String {
    match found {
        Found::Ours(path, _) => path,
        other => panic!("{other:?}"),
    }
}

fn names(path: &str) -> Vec<String> {
    let Some(Node::Directory(directory)) = tree().node(path) else {
        panic!("{path} is no directory");
    };
    let mut names: Vec<_> = tree()
        .entries(path, directory)
        .into_iter()
        .map(|entry| entry.0)
        .collect();
    names.sort();
    names
}

#[test]
fn directories_list_devices() {
    assert_eq!(
        names("/dev/infiniband"),
        ["issm32", "rdma_cm", "umad32", "uverbs1024", "uverbs1025"]
    );
    let class = ["abi_version", "issm32", "umad32"];
    assert_eq!(names("/sys/class/infiniband_mad"), class);
    assert_eq!(names("/sys/class/infiniband"), ["l0", "u0"]);
    let class = ["abi_version", "uverbs1024", "uverbs1025"];
    assert_eq!(names("/sys/class/infiniband_verbs"), class);
    let own = ["infiniband", "infiniband_mad", "infiniband_verbs", "net"];
    assert_eq!(names(PARENT), own);
    let virtual_parent = "/sys/devices/virtual/uroce/l0";
    let own = [
        "infiniband",
        "infiniband_verbs",
        "net",
        "numa_node",
        "power",
        "uevent",
    ];
    assert_eq!(names(virtual_parent), own);
    assert_eq!(names("/sys/class/misc"), ["rdma_cm"]);
    let gids = format!("{PARENT}/infiniband/u0/ports/1/gids");
    assert_eq!(names(&gids).len(), 16);
}

/// Every entry that a directory lists can be reached, and every link leads to something.
#[test]
fn what_is_listed_exists() {
    fn visit(path: &str, directory: Directory, seen: &mut usize) {
        for (name, node) in tree().entries(path, directory) {
            let below = format!("{}/{name}", path.trim_end_matches('/'));
            *seen += 1;
            assert_eq!(tree().node(&below).as_ref(), Some(&node), "{below}");
            match node {
                Node::Directory(directory) => visit(&below, directory, seen),
                Node::Link(_) => {
                    let found = find(&below);
                    let is_kernels =
                        matches!(&found, Found::KernelAt(path) if path.contains("/net/"));
                    assert!(
                        is_kernels || matches!(found, Found::Ours(..)),
                        "{below}: {found:?}"
                    );
                }
                Node::File(_) | Node::Character(_) => {}
            }
        }
    }
    let mut seen = 0;
    visit("/", Directory::Above, &mut seen);
    assert!(seen > 200, "{seen}");
}

#[test]
fn links_lead_to_devices() {
    let ibdev = format!("{PARENT}/infiniband/u0");
    assert_eq!(path_of(find("/sys/class/infiniband/u0")), ibdev);
    assert_eq!(path_of(find("//sys/./class/infiniband//u0/")), ibdev);
    assert_eq!(
        path_of(find("/sys/class/infiniband/u0/device/infiniband/u0")),
        ibdev
    );
    assert_eq!(path_of(find("/sys/class/infiniband/u0/../..")), PARENT);
    assert_eq!(
        path_of(find("/sys/class/infiniband/l0/device")),
        "/sys/devices/virtual/uroce/l0"
    );
    assert_eq!(path_of(find("/etc/../sys/class/infiniband/u0")), ibdev);
    // Through links of the kernel.
    assert_eq!(
        path_of(find("/sys/class/net/eth0/device/../infiniband/u0")),
        ibdev
    );
    assert_eq!(
        path_of(find("/sys/bus/pci/devices/0000:00:03.0/infiniband/u0")),
        ibdev
    );
    assert_eq!(
        path_of(find("/sys/dev/char/231:1216")),
        format!("{PARENT}/infiniband_verbs/uverbs1024")
    );
    // A link at the end is not followed on request.
    let link = walk(&tree(), &kernel(), "/", "/sys/class/infiniband/u0", false);
    assert_eq!(path_of(link), "/sys/class/infiniband/u0");
    let followed = walk(&tree(), &kernel(), "/", "/sys/class/infiniband/u0/", false);
    assert_eq!(path_of(followed), ibdev);
}

#[test]
fn other_paths_stay_the_kernels() {
    for path in [
        "/sys/class/net/eth0/mtu",
        "/sys/class/net/eth0",
        "/sys/class/infiniband/mlx5_0/node_guid",
        "/sys/kernel/mm",
        "/dev/null",
        "/sys/devices/system/cpu/online",
        "",
    ] {
        assert_eq!(find(path), Found::Kernel, "{path}");
    }
    let numa = Found::KernelAt(format!("{PARENT}/numa_node"));
    assert_eq!(find("/sys/class/infiniband/u0/device/numa_node"), numa);
    let passwd = "/sys/class/infiniband/u0/../../../../../../etc/passwd";
    assert_eq!(find(passwd), Found::KernelAt("/etc/passwd".into()));
    let mtu = Found::KernelAt("/sys/devices/virtual/net/lo/mtu".into());
    assert_eq!(find("/sys/class/infiniband/l0/device/net/lo/mtu"), mtu);
}

#[test]
fn errors_of_paths() {
    for (path, errno) in [
        ("/sys/class/infiniband/u0/none", libc::ENOENT),
        ("/sys/class/infiniband/u0/none/more", libc::ENOENT),
        ("/sys/class/infiniband/u0/node_guid/more", libc::ENOTDIR),
        ("/sys/class/infiniband/u0/node_guid/..", libc::ENOTDIR),
        ("/sys/class/infiniband/u0/node_guid/", libc::ENOTDIR),
        ("/sys/class/infiniband/u0/ports/1/gids/16", libc::ENOENT),
        ("/sys/class/infiniband/u0/ports/1/gids/01", libc::ENOENT),
        ("/sys/class/net/loop/device", libc::ELOOP),
        ("/dev/infiniband/uverbs1024/x", libc::ENOTDIR),
    ] {
        assert_eq!(find(path), Found::Error(errno), "{path}");
    }
}

#[test]
fn relative_paths_begin_at_a_directory() {
    let ibdev = format!("{PARENT}/infiniband/u0");
    let from = |from: &str, path: &str| walk(&tree(), &kernel(), from, path, true);
    let guid = Found::Ours(format!("{ibdev}/node_guid"), Node::File(File::NodeGuid(0)));
    assert_eq!(from(&ibdev, "node_guid"), guid);
    assert_eq!(from("/sys/class", "infiniband/u0/node_guid"), guid);
    assert_eq!(from("/", "sys/class/infiniband/u0/node_guid"), guid);
    assert_eq!(path_of(from(&ibdev, ".")), ibdev);
    assert_eq!(path_of(from(&ibdev, "../..")), PARENT);
    assert_eq!(from("/sys/class/net", "eth0/mtu"), Found::Kernel);
    assert_eq!(from(&ibdev, "none"), Found::Error(libc::ENOENT));
}

#[test]
fn few_paths_need_a_walk() {
    for path in [
        "/sys",
        "/sys/",
        "/sys//class",
        "/./sys/./devices/pci0000:00",
        "//dev",
        "/dev/infiniband/uverbs1024",
        "/a/../sys",
        "/sys/kernel/../class",
        "/",
        "/.",
    ] {
        assert!(may_concern(path.as_bytes()), "{path}");
    }
    for path in [
        "/etc/passwd",
        "/system/x",
        "/devices",
        "/proc/self/maps",
        "/a/..b/c",
        "/.sys",
        "/sys/kernel/mm",
        "/sys/devices/system/cpu",
        "//dev/null",
        "/dev/shm/class",
    ] {
        assert!(!may_concern(path.as_bytes()), "{path}");
    }
}

proptest! {
    /// The walk of any path ends, without a panic, and a path that may not concern the tree does
    /// not lead there.
    #[test]
    fn any_path_ends(
        parts in prop::collection::vec(
            prop::sample::select(vec![
                "sys", "class", "infiniband", "u0", "l0", "device", "..", ".", "", "net", "eth0",
                "ports", "1", "gids", "dev", "uverbs1024", "loop", "devices", "bus", "x",
            ]),
            0..12,
        ),
        follow: bool,
    ) {
        let path = format!("/{}", parts.join("/"));
        let found = walk(&tree(), &kernel(), "/", &path, follow);
        if let Found::Ours(at, node) = &found {
            prop_assert!(may_concern(path.as_bytes()), "{path}");
            prop_assert_eq!(tree().node(at), Some(node.clone()));
            prop_assert!(!at.contains("//") && !at.contains("/."));
        }
    }
}

#[test]
fn going_up_is_seen_anywhere() {
    for before in 0..20 {
        for after in 0..20 {
            let path = format!("/{}/../{}", "x".repeat(before), "y".repeat(after));
            assert!(may_concern(path.as_bytes()), "{path}");
            let path = format!("/{}/.._{}", "x".repeat(before + 1), "y".repeat(after));
            assert!(!may_concern(path.as_bytes()), "{path}");
        }
    }
}

#[test]
fn redirections_are_sorted() {
    let names: Vec<_> = super::REDIRECTIONS
        .iter()
        .map(|redirection| redirection.name)
        .collect();
    assert!(names.is_sorted(), "{names:?}");
}

/// Two devices below one switch.
#[test]
fn devices_below_pci_bridges() {
    let device = |name: &str, pci: &str| Shown {
        name: name.into(),
        uverbs: 1024,
        umad: Some(if name == "a" { 40 } else { 42 }),
        netdev: "lo".into(),
        parent: None,
        netdev_path: "/sys/devices/virtual/net/lo".into(),
        profile: profile("ports", 2),
        location: Location {
            numa_node: Some(1),
            pci: PciPath::parse(pci),
        },
    };
    let root = "0000:80:01.0/0000:81:00.0";
    let devices = vec![
        device("a", &format!("{root}/0000:82:00.0/0000:83:00.0")),
        device("b", &format!("{root}/0000:82:01.0/0000:84:00.0")),
    ];
    let tree = Tree::new(devices, None);
    let find = |path: &str| walk(&tree, &kernel(), "/", path, true);
    let root = format!("/sys/devices/pci0000:80/{root}");
    let function = format!("{root}/0000:82:01.0/0000:84:00.0");
    assert_eq!(path_of(find("/sys/class/infiniband/b/device")), function);
    assert_eq!(path_of(find("/sys/bus/pci/devices/0000:84:00.0")), function);
    assert_eq!(path_of(find("/sys/bus/pci/devices/0000:81:00.0")), root);
    let class = find("/sys/bus/pci/devices/0000:84:00.0/class");
    let expected = Node::File(File::Function(1, PciFile::Class));
    assert!(matches!(class, Found::Ours(_, node) if node == expected));
    let class = find(&format!("{root}/class"));
    let expected = Node::File(File::Bridge(0, 1, PciFile::Class));
    assert!(matches!(class, Found::Ours(_, node) if node == expected));
    let names = |path: &str| match find(path) {
        Found::Ours(path, Node::Directory(directory)) => {
            let entries = tree.entries(&path, directory).into_iter();
            entries.map(|(name, _)| name).collect::<Vec<_>>()
        }
        other => panic!("{path}: {other:?}"),
    };
    let below = names(&root);
    assert!(below.contains(&"0000:82:00.0".into()) && below.contains(&"0000:82:01.0".into()));
    assert_eq!(names("/sys/class/infiniband/a/ports"), ["1", "2"]);
    assert!(names(&function).contains(&"infiniband".into()));
    assert_eq!(names("/sys/bus/pci/devices").len(), 6);
    assert_eq!(names("/sys/class/infiniband_mad").len(), 9);
    let port = find("/sys/class/infiniband_mad/umad43/port");
    let expected = Node::File(File::PortNumber(2));
    assert!(matches!(port, Found::Ours(_, node) if node == expected));
    let ports = [39, 40, 41, 42, 43, 44].map(|number| tree.port_of_umad(number));
    let [before, a1, a2, b1, b2, behind] = ports;
    assert_eq!((before, behind), (None, None));
    assert_eq!([a1, a2, b1, b2], [(0, 1), (0, 2), (1, 1), (1, 2)].map(Some));
}
