//! Matches a device with providers by driver ID, name and modalias, and compares the result with
//! fnmatch and the patterns that the C library derives from a match table.
//!
//! Input: one byte for the driver ID, the device's name up to a zero byte, its modalias.
#![no_main]

use std::{
    ffi::{CStr, CString},
    sync::OnceLock,
};

use ibverbs::{
    discover::{SysfsDevice, sysfs::set_field},
    provider::{
        matching::{accepts, has_driver_id, pci_id},
        registry,
    },
};
use ibverbs_abi::*;
use libfuzzer_sys::fuzz_target;

/// Match tables like those of real providers.
enum Entry {
    Id(u32),
    Pci(u16, u16),
    Modalias(&'static CStr),
}
use Entry::*;
const TABLES: [&[Entry]; 6] = [
    &[
        Id(RDMA_DRIVER_MLX5),
        Pci(0x15b3, 0x1011),
        Pci(0x15b3, 0x1017),
        Pci(0x15b3, 0x101e),
    ],
    &[Id(RDMA_DRIVER_RXE), Modalias(c"rdma_device:*Nrxe*")],
    &[Id(RDMA_DRIVER_SIW), Modalias(c"rdma_device:*Nsiw*")],
    &[
        Id(RDMA_DRIVER_HNS),
        Modalias(c"acpi*:HISI00D1:*"),
        Modalias(c"of:N*T*Chisilicon,hns-roce-v1C*"),
    ],
    &[
        Modalias(c"vmbus:3daf2e8ca732094bab99bd1f1c86b501"),
        Id(RDMA_DRIVER_MANA),
    ],
    &[Pci(0xffff, 0), Modalias(c"[!p]*"), Pci(0, 0xffff)],
];

fn raw(entry: &Entry) -> verbs_match_ent {
    let (kind, vendor, device, u) = match *entry {
        Id(id) => (
            VERBS_MATCH_DRIVER_ID,
            0,
            0,
            verbs_match_ent_u {
                driver_id: id.into(),
            },
        ),
        Pci(vendor, device) => (
            VERBS_MATCH_PCI,
            vendor,
            device,
            verbs_match_ent_u { driver_id: 0 },
        ),
        Modalias(pattern) => (
            VERBS_MATCH_MODALIAS,
            0,
            0,
            verbs_match_ent_u {
                modalias: pattern.as_ptr(),
            },
        ),
    };
    verbs_match_ent {
        driver_data: core::ptr::null_mut(),
        u,
        vendor,
        device,
        kind: kind as u8,
    }
}

fn drivers() -> &'static [registry::Driver] {
    static DRIVERS: OnceLock<Vec<registry::Driver>> = OnceLock::new();
    DRIVERS.get_or_init(|| {
        for table in TABLES {
            let mut entries: Vec<_> = table.iter().map(raw).collect();
            entries.push(verbs_match_ent {
                driver_data: core::ptr::null_mut(),
                u: verbs_match_ent_u { driver_id: 0 },
                vendor: 0,
                device: 0,
                kind: VERBS_MATCH_SENTINEL as u8,
            });
            let ops = Box::leak(Box::new(verbs_device_ops {
                name: c"fuzz".as_ptr(),
                match_min_abi_version: 0,
                match_max_abi_version: u32::MAX,
                match_table: entries.leak().as_ptr(),
                static_providers: core::ptr::null_mut(),
                match_device: None,
                alloc_context: None,
                import_context: None,
                alloc_device: None,
                uninit_device: None,
            }));
            // SAFETY: the table and all that it points to are leaked.
            unsafe { registry::verbs_register_driver::<34>(ops) };
        }
        registry::drivers()
    })
}

fn fnmatch(pattern: &CStr, text: &CStr) -> bool {
    // SAFETY: both are C strings.
    unsafe { libc::fnmatch(pattern.as_ptr(), text.as_ptr(), 0) == 0 }
}

/// Whether the C library matches an alias with an entry.
fn matches(entry: &Entry, alias: &CStr) -> bool {
    match entry {
        Id(_) => false,
        Pci(vendor, device) => {
            let pattern = format!("pci:v{vendor:08X}d{device:08X}sv*");
            fnmatch(&CString::new(pattern).unwrap(), alias)
        }
        Modalias(pattern) => fnmatch(pattern, alias),
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&id, rest)) = bytes.split_first() else {
        return;
    };
    let mut parts = rest.splitn(2, |&c| c == 0);
    let name = parts.next().unwrap_or_default();
    let name = &name[..name.len().min(63)];
    let alias = parts.next().unwrap_or_default();
    let alias = alias.split(|&c| c == 0).next().unwrap_or_default();
    let alias = &alias[..alias.len().min(511)];
    pci_id(alias);

    let mut device = SysfsDevice::new().unwrap();
    let _ = set_field(&mut device.ibdev_name, &[name]);
    let _ = set_field(&mut device.modalias, &[alias]);
    // Keeps the library from reading the modalias from a file.
    device.flags |= VSYSFS_READ_MODALIAS;
    device.driver_id = id.into();

    let by_name = CString::new([b"rdma_device:N", name].concat()).unwrap();
    let alias = CString::new(alias).unwrap();
    for (driver, table) in drivers().iter().zip(TABLES) {
        let has_id = id != 0
            && table
                .iter()
                .any(|entry| matches!(entry, Id(other) if *other == u32::from(id)));
        assert_eq!(has_driver_id(driver, &device), has_id);
        let expected = has_id
            || [&by_name, &alias]
                .iter()
                .any(|alias| table.iter().any(|e| matches(e, alias)));
        assert_eq!(
            accepts(driver, &mut device),
            expected,
            "{by_name:?} {alias:?}"
        );
    }
});
