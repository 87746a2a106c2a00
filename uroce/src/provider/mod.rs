//! The verbs over the device, an ops table as a provider of libibverbs has, a file per object.

use ibverbs_abi::{verbs_device, verbs_soft_core};

use crate::device::config::Config;

/// Makes the device, with no reference to it yet. Its `ops` points to the first field of the
/// [`ibverbs_abi::verbs_soft_ops`] that all devices of this crate have. NULL with errno if there is no
/// memory.
pub fn new_device(core: &'static verbs_soft_core, config: Config) -> *mut verbs_device {
    let _ = (core, config);
    todo!()
}
