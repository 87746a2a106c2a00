//! Trees of sysfs for the fake kernel, and the same devices as RDMA netlink reports them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A provider of the distribution, and a device that it matches. The match tables of siw and mana have
/// neither names nor PCI IDs: they match only devices found by netlink.
struct KnownProvider {
    name: &'static str,
    abi: u32,
    /// Vendor and device.
    pci: Option<(u32, u32)>,
    /// The number of the driver in RDMA netlink.
    driver: u32,
}

const fn known(
    name: &'static str,
    abi: u32,
    pci: Option<(u32, u32)>,
    driver: u32,
) -> KnownProvider {
    KnownProvider {
        name,
        abi,
        pci,
        driver,
    }
}

const KNOWN: &[KnownProvider] = &[
    known("bnxt_re0", 1, Some((0x14e4, 0x1614)), 6),
    known("cxgb4_0", 3, Some((0x1425, 0x5401)), 4),
    known("efa_0", 1, Some((0x1d0f, 0xefa0)), 17),
    known("erdma_0", 1, Some((0x1ded, 0x107f)), 19),
    known("hfi1_0", 1, Some((0x8086, 0x24f0)), 15),
    known("hns_0", 1, Some((0x19e5, 0xa222)), 12),
    known("qib0", 1, Some((0x1fc1, 0x0010)), 16),
    known("irdma0", 5, Some((0x8086, 0x1592)), 9),
    known("mana_0", 1, None, 20),
    known("mlx4_0", 4, Some((0x15b3, 0x1003)), 2),
    known("mlx5_0", 1, Some((0x15b3, 0x1017)), 1),
    known("mthca0", 1, Some((0x15b3, 0x6274)), 5),
    known("ocrdma0", 2, Some((0x10df, 0xe220)), 7),
    known("qedr0", 8, Some((0x1077, 0x1644)), 11),
    known("rxe0", 2, None, 14),
    known("siw0", 1, None, 18),
    known("vmw_pvrdma0", 3, Some((0x15ad, 0x0820)), 10),
];

/// The device of a provider that rdma-core has since release 60.
const IONIC: KnownProvider = known("ionic_0", 1, Some((0x1dd8, 0x1002)), 21);

/// One device for each provider in Debian 12's ibverbs-providers.
pub fn known_devices() -> Vec<&'static str> {
    KNOWN.iter().map(|known| known.name).collect()
}

/// A device of a tree. The name of a known device is enough; for others, the uverbs ABI is 1.
#[derive(Debug, Clone)]
pub struct Device {
    name: String,
    abi: Option<u32>,
    /// MAJOR:MINOR of the character device.
    number: Option<&'static str>,
    node_type: String,
}

impl From<&str> for Device {
    fn from(name: &str) -> Self {
        Self {
            name: name.into(),
            abi: None,
            number: None,
            node_type: "1: CA".into(),
        }
    }
}

impl Device {
    /// Sets the version of the devices' uverbs ABI.
    pub fn abi(mut self, abi: u32) -> Self {
        self.abi = Some(abi);
        self
    }

    /// Sets the number of the character device, in place of that which the fake kernel reports.
    pub fn number(mut self, number: &'static str) -> Self {
        self.number = Some(number);
        self
    }

    pub fn node_type(mut self, text: &str) -> Self {
        self.node_type = text.into();
        self
    }

    fn known(&self) -> Option<&'static KnownProvider> {
        let mut known = KNOWN.iter().chain([&IONIC]);
        known.find(|known| known.name == self.name)
    }

    fn abi_version(&self) -> u32 {
        self.abi.or(self.known().map(|k| k.abi)).unwrap_or(1)
    }

    fn number_at(&self, n: usize) -> String {
        self.number
            .map_or_else(|| format!("231:{}", 192 + n), String::from)
    }
}

/// A tree of sysfs: its devices are uverbs0, uverbs1, ... in this order.
#[derive(Debug, Clone)]
pub struct Tree {
    devices: Vec<Device>,
    /// The version of the kernel's uverbs ABI.
    kernel_abi: u32,
}

impl Tree {
    pub fn new<D: Into<Device>>(devices: impl IntoIterator<Item = D>) -> Self {
        Self {
            devices: devices.into_iter().map(Into::into).collect(),
            kernel_abi: 6,
        }
    }

    pub fn all_known() -> Self {
        Self::new(known_devices())
    }

    pub fn kernel_abi(mut self, abi: u32) -> Self {
        self.kernel_abi = abi;
        self
    }

    /// Writes the tree in place of what is at `root`.
    pub fn write(&self, root: &Path) -> io::Result<()> {
        match fs::remove_dir_all(root) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let verbs = root.join("class/infiniband_verbs");
        put(&verbs, "abi_version", self.kernel_abi)?;
        fs::create_dir_all(root.join("class/infiniband"))?;
        for (n, device) in self.devices.iter().enumerate() {
            let uverbs = verbs.join(format!("uverbs{n}"));
            put(&uverbs, "ibdev", &device.name)?;
            put(&uverbs, "dev", device.number_at(n))?;
            put(&uverbs, "abi_version", device.abi_version())?;
            write_device(&root.join("class/infiniband").join(&device.name), device, n)?;
        }
        Ok(())
    }

    /// The devices in the format of FAKE_NL_DEVICES: INDEX:NAME:TYPE:UVERBS:ABI:DRIVER:MAJOR:MINOR,... in the
    /// order in which a directory lists the uverbs names.
    pub fn netlink(&self) -> String {
        let mut order: Vec<usize> = (0..self.devices.len()).collect();
        order.sort_by_key(|n| format!("uverbs{n}"));
        let one = |(index, n): (usize, usize)| {
            let device = &self.devices[n];
            let driver = device
                .known()
                .map_or_else(|| "-".into(), |known| known.driver.to_string());
            format!(
                "{}:{}:1:uverbs{n}:{}:{driver}:{}",
                index + 1,
                device.name,
                device.abi_version(),
                device.number_at(n)
            )
        };
        let all: Vec<String> = order.into_iter().enumerate().map(one).collect();
        all.join(",")
    }
}

/// The files of class/infiniband/NAME.
fn write_device(dir: &Path, device: &Device, n: usize) -> io::Result<()> {
    let number = 0x901 + n;
    put(dir, "node_type", &device.node_type)?;
    put(dir, "node_guid", format!("0200:00ff:fe00:{number:04x}"))?;
    put(dir, "ports/1/pkeys/0", "0xffff")?;
    for gid in 0..3 {
        let last = number + 256 * gid;
        let text = format!("fe80:0000:0000:0000:0000:00ff:fe00:{last:04x}");
        put(dir, &format!("ports/1/gids/{gid}"), text)?;
        put(dir, &format!("ports/1/gid_attrs/types/{gid}"), "RoCE v2")?;
    }
    if let Some((vendor, product)) = device.known().and_then(|known| known.pci) {
        let ids = format!("v{vendor:08X}d{product:08X}sv000015B3sd00000007bc02sc00i00");
        put(dir, "device/modalias", format!("pci:{ids}"))?;
    }
    Ok(())
}

fn put(dir: &Path, name: &str, text: impl ToString) -> io::Result<()> {
    let path: PathBuf = dir.join(name);
    fs::create_dir_all(path.parent().unwrap_or(dir))?;
    fs::write(path, format!("{}\n", text.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::read;

    #[test]
    fn netlink_has_the_order_of_names() {
        let text = Tree::all_known().netlink();
        let lines: Vec<&str> = text.split(',').collect();
        assert_eq!(lines.len(), 17);
        assert_eq!(lines[0], "1:bnxt_re0:1:uverbs0:1:6:231:192");
        assert_eq!(lines[2], "3:mlx5_0:1:uverbs10:1:1:231:202");
    }

    #[test]
    fn a_tree_has_what_providers_match() {
        let root = std::env::temp_dir().join(format!("compat-sysfs-{}", std::process::id()));
        let device = Device::from("mlx5_0").abi(77).number("1:3");
        Tree::new([device]).kernel_abi(5).write(&root).unwrap();
        let file = |name: &str| read(&root.join("class").join(name));
        assert_eq!(file("infiniband_verbs/abi_version"), "5\n");
        assert_eq!(file("infiniband_verbs/uverbs0/abi_version"), "77\n");
        assert_eq!(file("infiniband_verbs/uverbs0/dev"), "1:3\n");
        assert_eq!(
            file("infiniband/mlx5_0/device/modalias"),
            "pci:v000015B3d00001017sv000015B3sd00000007bc02sc00i00\n"
        );
        assert_eq!(
            file("infiniband/mlx5_0/ports/1/gids/2"),
            "fe80:0000:0000:0000:0000:00ff:fe00:0b01\n"
        );
        fs::remove_dir_all(root).unwrap();
    }
}
