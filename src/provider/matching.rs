//! Matching drivers with devices, by the drivers' match tables.

use core::ffi::CStr;

use ibverbs_abi::{
    RDMA_DRIVER_UNKNOWN, VERBS_MATCH_DRIVER_ID, VERBS_MATCH_MODALIAS, VERBS_MATCH_PCI,
    VERBS_MATCH_SENTINEL, VSYSFS_READ_MODALIAS, verbs_match_ent,
};

use super::registry::{self, Driver, Refused};
use crate::{
    discover::{
        StackPath, SysfsDevice,
        sysfs::{field, read_file},
    },
    log,
};

/// A driver's match table, without the sentinel at its end.
fn table(driver: &Driver) -> &'static [verbs_match_ent] {
    let start = driver.ops.match_table;
    if start.is_null() {
        return &[];
    }
    let mut len = 0;
    // SAFETY: a provider's table ends with an entry of kind VERBS_MATCH_SENTINEL, and the `len` entries
    // before this one are of other kinds.
    while u32::from(unsafe { (*start.add(len)).kind }) != VERBS_MATCH_SENTINEL {
        len += 1;
    }
    // SAFETY: the loop above read these entries; the table is a constant of the provider, which is never
    // unloaded.
    unsafe { core::slice::from_raw_parts(start, len) }
}

/// Whether the driver's table lists the driver id that netlink reported for the device. Devices are
/// offered to such drivers first.
pub fn has_driver_id(driver: &Driver, device: &SysfsDevice) -> bool {
    by_driver_id(table(driver), device.driver_id).is_some()
}

/// Whether the driver accepts the device. Sets the device's `match` and, on first use, its `modalias`.
/// If the driver matches but does not support the version of the kernel driver's ABI, prints a warning
/// and returns false.
pub fn accepts(driver: &Driver, device: &mut SysfsDevice) -> bool {
    let table = table(driver);
    let mut entry = by_driver_id(table, device.driver_id);
    if entry.is_none() && !table.is_empty() {
        entry = by_name(table, field(&device.ibdev_name))
            .or_else(|| by_modalias(table, modalias(device)?));
    }
    device.match_ = entry.map_or(core::ptr::null(), core::ptr::from_ref);
    let matched = match driver.ops.match_device {
        // SAFETY: `match_device` expects a `verbs_sysfs_dev`; this one is owned by `device`, which
        // outlives the call.
        Some(matches) => unsafe { matches(device.as_ptr()) },
        None => !device.match_.is_null(),
    };
    let (min, max) = (
        driver.ops.match_min_abi_version,
        driver.ops.match_max_abi_version,
    );
    if matched && !(min..=max).contains(&device.abi_ver) {
        let abi = device.abi_ver;
        registry::refused(Refused {
            device: String::from_utf8_lossy(field(&device.ibdev_name)).into_owned(),
            driver: driver.name().to_string_lossy().into_owned(),
            reason: format!("supports kernel ABI {min} to {max}, and the device has {abi}"),
        });
        log::print(&[
            b"Warning: Driver ",
            driver.name().to_bytes(),
            format!(
                " does not support the kernel ABI of {abi} (supports {min} to {max}) for device "
            )
            .as_bytes(),
            field(&device.ibdev_path),
            b"\n",
        ]);
        return false;
    }
    matched
}

/// The device's modalias. It is read from sysfs once. If there is none, this returns `None` the first
/// time and an empty string later, as the C library does.
pub fn modalias(device: &mut SysfsDevice) -> Option<&CStr> {
    if device.flags & VSYSFS_READ_MODALIAS == 0 {
        device.flags |= VSYSFS_READ_MODALIAS;
        let mut value = [0; 512];
        let file = format_args!("device/modalias");
        let read = read_file(field(&device.ibdev_path), file, &mut value);
        if !matches!(read, Ok(1..)) {
            return None;
        }
        for (to, from) in device.modalias.iter_mut().zip(value) {
            *to = from as core::ffi::c_char;
        }
    }
    // SAFETY: the field is all zeros since the device was allocated, or holds a value that `read_file`
    // terminated with a NUL.
    Some(unsafe { CStr::from_ptr(device.modalias.as_ptr()) })
}

fn by_driver_id(table: &[verbs_match_ent], id: u32) -> Option<&verbs_match_ent> {
    if id == RDMA_DRIVER_UNKNOWN {
        return None;
    }
    table.iter().find(|entry| {
        u32::from(entry.kind) == VERBS_MATCH_DRIVER_ID
            // SAFETY: in an entry of this kind the union holds a number, and any bits are a number.
            && unsafe { entry.u.driver_id } == u64::from(id)
    })
}

fn by_name<'a>(table: &'a [verbs_match_ent], name: &[u8]) -> Option<&'a verbs_match_ent> {
    let mut alias = StackPath::new().push(b"rdma_device:N").push(name);
    by_modalias(table, alias.finish().ok()?)
}

fn by_modalias<'a>(table: &'a [verbs_match_ent], alias: &CStr) -> Option<&'a verbs_match_ent> {
    let pci = pci_id(alias.to_bytes());
    table.iter().find(|entry| match u32::from(entry.kind) {
        VERBS_MATCH_PCI => pci == Some((entry.vendor, entry.device)),
        VERBS_MATCH_MODALIAS => {
            // SAFETY: in an entry of this kind the union holds the pattern's address.
            let pattern = unsafe { entry.u.modalias };
            // SAFETY: the pattern is NULL or a string constant of the provider; both strings end with a
            // NUL.
            !pattern.is_null() && unsafe { libc::fnmatch(pattern, alias.as_ptr(), 0) == 0 }
        }
        _ => false,
    })
}

/// Vendor and device id of a PCI modalias, `pci:v000015B3d00001017sv…`, if both fit in 16 bits. `None`
/// for lower-case digits: the kernel writes capitals, and the C library's patterns match nothing else.
pub fn pci_id(alias: &[u8]) -> Option<(u16, u16)> {
    let (vendor, rest) = alias.strip_prefix(b"pci:v")?.split_at_checked(8)?;
    let (device, rest) = rest.strip_prefix(b"d")?.split_at_checked(8)?;
    let number = |digits: &[u8]| {
        let upper_case = digits
            .iter()
            .all(|c| matches!(c, b'0'..=b'9' | b'A'..=b'F'));
        let digits = core::str::from_utf8(digits).ok().filter(|_| upper_case)?;
        u32::from_str_radix(digits, 16).ok()?.try_into().ok()
    };
    let id = (number(vendor)?, number(device)?);
    rest.starts_with(b"sv").then_some(id)
}

#[cfg(test)]
mod tests {
    use core::ptr;

    use ibverbs_abi::{RDMA_DRIVER_MLX5, RDMA_DRIVER_RXE, verbs_match_ent_u};

    use super::*;

    fn entry(kind: u32) -> verbs_match_ent {
        verbs_match_ent {
            driver_data: ptr::null_mut(),
            u: verbs_match_ent_u { driver_id: 0 },
            vendor: 0,
            device: 0,
            kind: kind as u8,
        }
    }

    fn id(id: u32) -> verbs_match_ent {
        let u = verbs_match_ent_u {
            driver_id: id.into(),
        };
        verbs_match_ent {
            u,
            ..entry(VERBS_MATCH_DRIVER_ID)
        }
    }

    fn pci(vendor: u16, device: u16) -> verbs_match_ent {
        verbs_match_ent {
            vendor,
            device,
            ..entry(VERBS_MATCH_PCI)
        }
    }

    fn pattern(pattern: &'static CStr) -> verbs_match_ent {
        let u = verbs_match_ent_u {
            modalias: pattern.as_ptr(),
        };
        verbs_match_ent {
            u,
            ..entry(VERBS_MATCH_MODALIAS)
        }
    }

    #[test]
    fn driver_ids() {
        let table = [pci(14, 14), id(RDMA_DRIVER_RXE), id(RDMA_DRIVER_MLX5)];
        let found = by_driver_id(&table, RDMA_DRIVER_MLX5).unwrap();
        assert!(ptr::eq(found, &table[2]));
        assert!(by_driver_id(&table, 99).is_none());
        assert!(by_driver_id(&[id(0)], RDMA_DRIVER_UNKNOWN).is_none());
    }

    #[test]
    fn names() {
        let table = [id(RDMA_DRIVER_RXE), pattern(c"rdma_device:*Nrxe*")];
        assert!(by_name(&table, b"rxe0").is_some());
        assert!(by_name(&table, b"rxe").is_some());
        assert!(by_name(&table, b"mlx5_0").is_none());
        assert!(by_name(&table, b"").is_none());
    }

    #[test]
    fn modaliases() {
        let table = [
            pci(0x15b3, 0x1017),
            pattern(c"vmbus:3daf2e8ca732094bab99bd1f1c86b501"),
        ];
        let find = |alias: &CStr| by_modalias(&table, alias).map(|found| found.kind);
        let pci = c"pci:v000015B3d00001017sv000015B3sd00000007bc02sc00i00";
        assert_eq!(find(pci), Some(VERBS_MATCH_PCI as u8));
        assert_eq!(
            find(c"pci:v000015B3d00001017sv"),
            Some(VERBS_MATCH_PCI as u8)
        );
        assert_eq!(find(c"pci:v000015b3d00001017sv"), None);
        assert_eq!(find(c"pci:v000015B3d00001018sv"), None);
        assert_eq!(find(c"pci:v000115B3d00001017sv"), None);
        assert_eq!(find(c"pci:v000015B3d00001017"), None);
        let vmbus = c"vmbus:3daf2e8ca732094bab99bd1f1c86b501";
        assert_eq!(find(vmbus), Some(VERBS_MATCH_MODALIAS as u8));
        assert_eq!(find(c""), None);
    }

    proptest::proptest! {
        /// The C library makes a pattern from an entry and calls fnmatch with it.
        #[test]
        fn pci_agrees_with_fnmatch(
            vendor: u16, device: u16, alias in "pci:v0000[0-9A-F]{4}d0000[0-9A-F]{4}sv[a-z0-9]{0,4}"
        ) {
            let alias = std::ffi::CString::new(alias).unwrap();
            let (v, d) = pci_id(alias.as_bytes()).unwrap();
            for (v, d) in [(v, d), (vendor, device)] {
                let pattern = std::ffi::CString::new(format!("pci:v{v:08X}d{d:08X}sv*")).unwrap();
                // SAFETY: both strings are NUL-terminated.
                let expected = unsafe { libc::fnmatch(pattern.as_ptr(), alias.as_ptr(), 0) == 0 };
                proptest::prop_assert_eq!(by_modalias(&[pci(v, d)], &alias).is_some(), expected);
            }
        }

        #[test]
        fn takes_any_bytes(alias: Vec<u8>) {
            pci_id(&alias);
        }
    }
}
