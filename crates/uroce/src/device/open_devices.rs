//! The table of the devices that this process has open: one per name, however many contexts use it.

use std::sync::Arc;
use std::thread::JoinHandle;

use super::Device;
use crate::sync::Mutex;

/// An entry of [`OPEN_DEVICES`].
pub(super) struct OpenDevice {
    /// The device.
    pub device: Arc<Device>,
    /// How many contexts are open.
    pub contexts: usize,
    pub background_thread: JoinHandle<()>,
}

/// The devices that are open. Locked across a fork: see `fork.rs`.
pub(super) static OPEN_DEVICES: Mutex<Vec<OpenDevice>> = Mutex::new(Vec::new());

impl Device {
    /// The device of this name, if this process has it open.
    pub fn find(name: &str) -> Option<Arc<Device>> {
        let open_devices = OPEN_DEVICES.lock();
        let mut devices = open_devices.iter().map(|open| &open.device);
        let found = devices.find(|device| device.name == name && device.owned_by_this_process());
        found.cloned()
    }
}
