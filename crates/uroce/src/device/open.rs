//! Opening and closing a device, for each context that uses it.

use std::io;
use std::sync::{Arc, Barrier};

use ibverbs_os::thread;

use super::open_devices::{OPEN_DEVICES, OpenDevice};
use super::{Device, background, exit};
use crate::config::Config;
use crate::process;

impl Device {
    /// Opens the device for one more context of this process: its sockets and background thread, if it is
    /// the first. Each call needs a [`Device::close`]. Fails with the error of the first system call that
    /// does, or as [`crate::check`].
    pub fn open(config: &Config) -> io::Result<Arc<Device>> {
        let mut open_devices = OPEN_DEVICES.lock();
        exit::register();
        let generation = process::generation();
        // Devices that a parent process opened: leaked, as their threads and sockets are the parent's.
        let inherited = |open: &OpenDevice| open.device.generation != generation;
        while let Some(at) = open_devices.iter().position(inherited) {
            core::mem::forget(open_devices.swap_remove(at));
        }
        let same_name = |open: &&mut OpenDevice| open.device.name == config.name;
        if let Some(open) = open_devices.iter_mut().find(same_name) {
            open.contexts += 1;
            return Ok(open.device.clone());
        }
        let device = Arc::new(Device::new(config)?);
        let running = device.clone();
        // libfabric, once it has opened a device, overwrites the instructions of munmap(3), where a thread
        // that is starting may be.
        let is_running = Arc::new(Barrier::new(2));
        let starting = is_running.clone();
        let background_thread = thread::spawn("uroce", move || {
            starting.wait();
            drop(starting);
            background::run(&running);
        })?;
        is_running.wait();
        open_devices.push(OpenDevice {
            device: device.clone(),
            contexts: 1,
            background_thread,
        });
        Ok(device)
    }

    /// Closes a context's use of the device. The last close ends the background thread and closes the
    /// sockets. In a child of the process that opened the device, does nothing.
    pub fn close(self: Arc<Device>) {
        if !self.owned_by_this_process() {
            core::mem::forget(self);
            return;
        }
        let mut open_devices = OPEN_DEVICES.lock();
        let is_this = |open: &OpenDevice| Arc::ptr_eq(&open.device, &self);
        let Some(at) = open_devices.iter().position(is_this) else {
            return;
        };
        open_devices[at].contexts -= 1;
        if open_devices[at].contexts > 0 {
            return;
        }
        let open = open_devices.swap_remove(at);
        drop(open_devices);
        self.end(open.background_thread);
    }

    /// Whether this process opened the device, as opposed to having inherited it through fork.
    pub fn owned_by_this_process(&self) -> bool {
        self.generation == process::generation()
    }
}
