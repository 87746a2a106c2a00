//! Devices and queue pairs of this process as the control socket reports them: of software devices
//! all; of others what IBV_EXPLAIN or IBV_FAULTS has seen, and the counters in sysfs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use super::super::faults::KernelQp;
use super::super::{check, faults, shadow};
use crate::provider::software;

/// The names of the devices that the program has open.
pub fn devices() -> BTreeSet<String> {
    let mut names: BTreeSet<String> = software::status().into_iter().map(|of| of.name).collect();
    names.extend(kernel_devices());
    names
}

/// Open devices that are no software devices.
pub fn kernel_devices() -> BTreeSet<String> {
    let mut names: BTreeSet<String> = faults::devices().into_iter().collect();
    let explained = shadow::with(|shadow| {
        let contexts = shadow.devices.iter();
        contexts
            .map(|(_, context)| context.device.clone())
            .collect()
    });
    names.extend(explained.unwrap_or_else(Vec::new));
    for of in software::status() {
        names.remove(&of.name);
    }
    names
}

/// The queue pairs of kernel devices: IBV_EXPLAIN knows the connections, IBV_FAULTS asks the driver
/// for them.
pub fn kernel_queue_pairs() -> Vec<KernelQp> {
    let devices = kernel_devices();
    let mut known = match super::super::is_enabled() {
        true => shadow::with(|shadow| explained(shadow)).unwrap_or_default(),
        false => faults::queue_pairs(),
    };
    known.retain(|qp| devices.contains(&qp.device));
    known.sort_by(|a, b| (&a.device, a.qpn).cmp(&(&b.device, b.qpn)));
    known
}

fn explained(shadow: &shadow::Shadow) -> Vec<KernelQp> {
    let each = shadow.qps.values().map(|qp| KernelQp {
        device: shadow.devices.name(qp.context).to_string(),
        qpn: qp.number,
        kind: check::state::type_name(qp.kind),
        state: check::state::state_name(qp.state),
        dest_qpn: qp.connection.receives.then_some(qp.connection.dest_qpn),
    });
    each.collect()
}

/// The names that the program has given its queue pairs, by device and number.
pub fn queue_pair_names() -> BTreeMap<(String, u32), String> {
    shadow::with(|shadow| shadow.names.of_queue_pairs()).unwrap_or_default()
}

/// All objects that have names.
pub fn named() -> Vec<shadow::Named> {
    shadow::with(|shadow| shadow.names.iter().cloned().collect()).unwrap_or_default()
}

/// A directory of counters.
pub struct PortCounters {
    pub port: u32,
    pub directory: &'static str,
    /// Names and values.
    pub values: Vec<(String, u64)>,
}

/// The counters of a kernel device, as sysfs has them.
pub fn kernel_counters(device: &str) -> Vec<PortCounters> {
    let ports = Path::new("/sys/class/infiniband")
        .join(device)
        .join("ports");
    let mut numbers: Vec<u32> = names(&ports)
        .iter()
        .filter_map(|name| name.parse().ok())
        .collect();
    numbers.sort_unstable();
    let mut found = Vec::new();
    for port in numbers {
        for directory in ["hw_counters", "counters"] {
            let path = ports.join(port.to_string()).join(directory);
            let mut values: Vec<(String, u64)> = names(&path)
                .into_iter()
                .filter_map(|name| {
                    let text = fs::read_to_string(path.join(&name)).ok()?;
                    Some((name, text.trim().parse().ok()?))
                })
                .collect();
            values.sort();
            found.push(PortCounters {
                port,
                directory,
                values,
            });
        }
    }
    found
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect()
}
