//! The status of open software devices, in types that do not depend on `uroce`: a library built without it
//! has them, too.

use std::net::IpAddr;

/// Counters by name.
pub type Counters = Vec<(&'static str, u64)>;

/// An open software device.
pub struct DeviceStatus {
    pub name: String,
    /// Directories of counters, as sysfs names them, and their files.
    pub counters: Vec<(&'static str, Counters)>,
    pub queue_pairs: Vec<QpStatus>,
}

/// A queue pair.
pub struct QpStatus {
    pub qpn: u32,
    /// `RC`, `UD` and so on.
    pub kind: &'static str,
    /// As in `IBV_QPS_*`.
    pub state: &'static str,
    /// Address and queue pair number of its peer, if it is connected.
    pub peer: Option<(IpAddr, u32)>,
    /// Numbers by name: `path_mtu`, WQEs that have not completed, PSNs.
    pub attributes: Counters,
    pub counters: Counters,
}
