//! Device lists that the program has: a device is opened while its list is there (ibv_open_device(3)).

use std::ffi::CStr;

use ibverbs_abi::{ibv_context, ibv_device};

use super::finding::{Finding, Object, Outcome};
use super::is_enabled;
use super::rules::Rule;
use super::shadow::{self, Shadow};

/// A list with the device is about to be returned.
pub fn listed(device: *mut ibv_device) {
    if is_enabled() {
        let address = device.expose_provenance();
        shadow::with(|shadow| shadow.devices.listed(address));
    }
}

/// A list with the device is freed.
pub fn unlisted(device: *mut ibv_device) {
    if is_enabled() {
        shadow::with(|shadow| shadow.devices.unlisted(device.addr()));
    }
}

/// The device is about to be opened: reports that there is none, or that all lists that had it are freed, and
/// no context is open that keeps it.
///
/// # Safety
/// `device` is alive, or NULL.
pub unsafe fn opening(device: *mut ibv_device) {
    if !is_enabled() {
        return;
    }
    if device.is_null() {
        return no_device();
    }
    // SAFETY: the device is alive, as the caller promises.
    let name = unsafe { name_of(device) };
    shadow::observe(|shadow| {
        let is_freed = shadow.devices.is_of_freed_list(device.addr()) && !is_open(shadow, device);
        is_freed.then(|| of_freed_list(device.addr(), &name))
    });
}

/// The program opens NULL, and is about to end.
#[cold]
fn no_device() {
    shadow::observe(|shadow| {
        let listed = shadow.devices.in_lists();
        // SAFETY: a device that is in a list is alive; the shadow's lock is held, which `unlisted` takes
        // before a list is freed.
        let name = |device| unsafe { name_of(core::ptr::with_exposed_provenance(device)) };
        let names: Vec<String> = listed.map(name).collect();
        let seen = match names.is_empty() {
            true => String::new(),
            false => format!("; the list has {}", names.join(", ")),
        };
        let found = Finding::new(
            Rule::Argument,
            Object::process(),
            "ibv_open_device",
            Outcome::Called,
        );
        Some(found.with_texts(
            format!("device is NULL{seen}"),
            "the program has found no device of the name that it looks for, or the list is empty; the call \
             reads the device, and the program ends",
            "compare the name with what `ibv_devices` shows, and check that a device was found before it is \
             opened",
        ))
    });
}

/// # Safety
/// `device` is alive.
unsafe fn name_of(device: *const ibv_device) -> String {
    // SAFETY: the device is alive, as the caller promises, and its name ends with a NUL.
    let name = unsafe { CStr::from_ptr((&raw const (*device).name).cast()) };
    name.to_string_lossy().into_owned()
}

fn of_freed_list(device: usize, name: &str) -> Finding {
    let object = Object::device(device, name);
    Finding::new(Rule::Argument, object, "ibv_open_device", Outcome::Called).with_texts(
        "device is of a list that ibv_free_device_list has freed before",
        "the list keeps its devices: after it is freed, the pointer may be that of freed memory",
        "open all devices that are needed, and call ibv_free_device_list after that",
    )
}

/// Whether the program has a context of the device.
fn is_open(shadow: &Shadow, device: *mut ibv_device) -> bool {
    let is_its = |address: &usize| {
        let context: *const ibv_context = core::ptr::with_exposed_provenance(*address);
        // SAFETY: the shadow forgets a context before it is closed, and its lock is held.
        unsafe { (*context).device == device }
    };
    shadow.devices.iter().any(|(at, _)| is_its(at))
}
