//! The providers of rdma-core, and the devices that each of them may drive.
//!
//! With this table the library loads only the providers that a present device may need; [`super::load`]
//! says when the others are loaded. The table need not follow each new device: a device listed for too
//! many providers only loads one that is not needed, and one listed for none loads all of them.

use ibverbs_abi::{
    RDMA_DRIVER_BNXT_RE, RDMA_DRIVER_CXGB4, RDMA_DRIVER_EFA, RDMA_DRIVER_ERDMA, RDMA_DRIVER_HFI1,
    RDMA_DRIVER_HNS, RDMA_DRIVER_IONIC, RDMA_DRIVER_IRDMA, RDMA_DRIVER_MANA, RDMA_DRIVER_MLX4,
    RDMA_DRIVER_MLX5, RDMA_DRIVER_MTHCA, RDMA_DRIVER_OCRDMA, RDMA_DRIVER_QEDR, RDMA_DRIVER_QIB,
    RDMA_DRIVER_RXE, RDMA_DRIVER_SIW, RDMA_DRIVER_UNKNOWN, RDMA_DRIVER_VMW_PVRDMA,
};

use super::matching::pci_id;

/// A provider of rdma-core.
struct ProviderEntry {
    /// The provider's name in the configuration.
    name: &'static str,
    /// RDMA_DRIVER_*
    driver_id: u32,
    /// The prefix of its devices' names, if it matches devices by name.
    prefix: Option<&'static [u8]>,
    /// The PCI devices that it drives.
    pci: &'static [Pci],
    /// The prefix of a modalias, other than PCI's, of devices that it drives.
    modalias: Option<&'static [u8]>,
}

/// PCI devices of one vendor.
struct Pci {
    vendor: u16,
    /// The devices; if empty, all of the vendor that no other entry lists. Where two providers
    /// share a vendor, only the one for the older devices lists them.
    devices: &'static [u16],
}

const fn vendor(vendor: u16) -> Pci {
    listed(vendor, &[])
}

const fn listed(vendor: u16, devices: &'static [u16]) -> Pci {
    Pci { vendor, devices }
}

/// A provider of PCI devices.
const fn by_pci(name: &'static str, driver_id: u32, pci: &'static [Pci]) -> ProviderEntry {
    ProviderEntry {
        name,
        driver_id,
        prefix: None,
        pci,
        modalias: None,
    }
}

/// A provider that matches devices by the prefix of their names.
const fn by_name(name: &'static str, driver_id: u32, prefix: &'static [u8]) -> ProviderEntry {
    ProviderEntry {
        prefix: Some(prefix),
        ..by_pci(name, driver_id, &[])
    }
}

const MELLANOX: u16 = 0x15b3;
const QLOGIC: u16 = 0x1077;
const INTEL: u16 = 0x8086;
const MLX4_DEVICES: &[u16] = &[
    0x6340, 0x634a, 0x6354, 0x6732, 0x673c, 0x6368, 0x6750, 0x6372, 0x675a, 0x6764, 0x6746, 0x676e,
    0x1002, 0x1003, 0x1004, 0x1005, 0x1006, 0x1007, 0x1008, 0x1009, 0x100a, 0x100b, 0x100c, 0x100d,
    0x100e, 0x100f, 0x1010,
];
const MTHCA_DEVICES: &[u16] = &[0x5a44, 0x6278, 0x6282, 0x5e8c, 0x6274];

static PROVIDERS: [ProviderEntry; 18] = [
    by_pci("bnxt_re", RDMA_DRIVER_BNXT_RE, &[vendor(0x14e4)]),
    by_pci("cxgb4", RDMA_DRIVER_CXGB4, &[vendor(0x1425)]),
    by_pci("efa", RDMA_DRIVER_EFA, &[vendor(0x1d0f)]),
    by_pci("erdma", RDMA_DRIVER_ERDMA, &[vendor(0x1ded)]),
    by_pci(
        "hfi1verbs",
        RDMA_DRIVER_HFI1,
        &[listed(INTEL, &[0x24f0, 0x24f1])],
    ),
    by_pci("hns", RDMA_DRIVER_HNS, &[vendor(0x19e5)]),
    by_pci("ionic", RDMA_DRIVER_IONIC, &[vendor(0x1dd8)]),
    by_pci(
        "ipathverbs",
        RDMA_DRIVER_QIB,
        &[vendor(0x1fc1), listed(QLOGIC, &[0x6220, 0x7220, 0x7322])],
    ),
    by_pci("irdma", RDMA_DRIVER_IRDMA, &[vendor(INTEL)]),
    by_pci("mana", RDMA_DRIVER_MANA, &[vendor(0x1414)]),
    ProviderEntry {
        modalias: Some(b"vmbus:"),
        ..by_pci("mlx4", RDMA_DRIVER_MLX4, &[listed(MELLANOX, MLX4_DEVICES)])
    },
    by_pci("mlx5", RDMA_DRIVER_MLX5, &[vendor(MELLANOX)]),
    by_pci(
        "mthca",
        RDMA_DRIVER_MTHCA,
        &[listed(MELLANOX, MTHCA_DEVICES), vendor(0x1867)],
    ),
    by_pci("ocrdma", RDMA_DRIVER_OCRDMA, &[vendor(0x10df)]),
    by_pci("qedr", RDMA_DRIVER_QEDR, &[vendor(QLOGIC)]),
    by_name("rxe", RDMA_DRIVER_RXE, b"rxe"),
    by_name("siw", RDMA_DRIVER_SIW, b"siw"),
    by_pci("vmw_pvrdma", RDMA_DRIVER_VMW_PVRDMA, &[vendor(0x15ad)]),
];

/// The properties of a device that decide which providers may drive it.
pub struct Traits<'a> {
    /// RDMA_DRIVER_*; RDMA_DRIVER_UNKNOWN if netlink did not report it.
    pub driver_id: u32,
    /// The device's name.
    pub name: &'a [u8],
    /// The device's modalias; empty if it has none.
    pub modalias: &'a [u8],
}

/// A provider of the table.
#[derive(Clone, Copy)]
pub struct Provider(&'static ProviderEntry);

impl Provider {
    /// The provider named `name` in the configuration, or `None` if it is not one of rdma-core's.
    pub fn named(name: &[u8]) -> Option<Self> {
        PROVIDERS
            .iter()
            .find(|entry| entry.name.as_bytes() == name)
            .map(Provider)
    }

    /// Whether the kernel marks this provider's devices with `driver_id`. False for
    /// RDMA_DRIVER_UNKNOWN.
    pub fn has_driver_id(self, driver_id: u32) -> bool {
        driver_id != RDMA_DRIVER_UNKNOWN && self.0.driver_id == driver_id
    }

    /// Whether the provider may drive the device.
    pub fn may_drive(self, device: &Traits) -> bool {
        self.has_driver_id(device.driver_id)
            || self
                .0
                .prefix
                .is_some_and(|prefix| device.name.starts_with(prefix))
            || self
                .0
                .modalias
                .is_some_and(|start| device.modalias.starts_with(start))
            || pci_id(device.modalias).is_some_and(|id| self.may_drive_pci(id))
    }

    fn may_drive_pci(self, (vendor, device): (u16, u16)) -> bool {
        let lists = |entry: &ProviderEntry| {
            entry
                .pci
                .iter()
                .any(|pci| pci.vendor == vendor && pci.devices.contains(&device))
        };
        let whole_vendor = self
            .0
            .pci
            .iter()
            .any(|pci| pci.vendor == vendor && pci.devices.is_empty());
        lists(self.0) || whole_vendor && !PROVIDERS.iter().any(lists)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names of all providers that may drive the device.
    fn candidates(driver_id: u32, name: &str, modalias: &str) -> Vec<&'static str> {
        let device = Traits {
            driver_id,
            name: name.as_bytes(),
            modalias: modalias.as_bytes(),
        };
        let mut names: Vec<_> = PROVIDERS.iter().collect();
        names.retain(|entry| Provider(entry).may_drive(&device));
        names.into_iter().map(|entry| entry.name).collect()
    }

    #[test]
    fn names_match_to_the_letter() {
        assert!(Provider::named(b"rxe").is_some());
        assert!(Provider::named(b"rxe ").is_none());
        assert!(Provider::named(b"").is_none());
        assert!(Provider::named(b"/usr/lib/librxe").is_none());
    }

    #[test]
    fn by_driver_id_and_name() {
        assert_eq!(candidates(RDMA_DRIVER_RXE, "mydev", ""), ["rxe"]);
        assert_eq!(candidates(RDMA_DRIVER_UNKNOWN, "rxe0", ""), ["rxe"]);
        assert_eq!(
            candidates(RDMA_DRIVER_UNKNOWN, "mydev", ""),
            [] as [&str; 0]
        );
        let renamed = "pci:v000015B3d00001017sv000015B3sd00000007bc02sc00i00";
        assert_eq!(
            candidates(RDMA_DRIVER_UNKNOWN, "rxe0", renamed),
            ["mlx5", "rxe"]
        );
    }

    #[test]
    fn by_pci_id() {
        let pci = |vendor: u16, device: u16| {
            candidates(
                RDMA_DRIVER_UNKNOWN,
                "x",
                &format!("pci:v{vendor:08X}d{device:08X}sv"),
            )
        };
        assert_eq!(pci(MELLANOX, 0x1017), ["mlx5"]);
        assert_eq!(pci(MELLANOX, 0xffff), ["mlx5"]);
        assert_eq!(pci(MELLANOX, 0x1003), ["mlx4"]);
        assert_eq!(pci(MELLANOX, 0x6282), ["mthca"]);
        assert_eq!(pci(0x1867, 0x6282), ["mthca"]);
        assert_eq!(pci(INTEL, 0x24f0), ["hfi1verbs"]);
        assert_eq!(pci(INTEL, 0x1592), ["irdma"]);
        assert_eq!(pci(QLOGIC, 0x7322), ["ipathverbs"]);
        assert_eq!(pci(QLOGIC, 0x1656), ["qedr"]);
        assert_eq!(pci(0x1dd8, 0x1002), ["ionic"]);
        assert_eq!(pci(0x1234, 1), [] as [&str; 0]);
        let vmbus = "vmbus:3daf2e8ca732094bab99bd1f1c86b501";
        assert_eq!(candidates(RDMA_DRIVER_UNKNOWN, "x", vmbus), ["mlx4"]);
    }
}
