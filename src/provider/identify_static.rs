//! Replacement of `identify.rs` in a static library. A provider archive refers to the functions of
//! its own release by name, so its layout is known from the call.

use core::ffi::c_void;
use std::ffi::OsString;

use ibverbs_abi::{ibv_device, verbs_device_ops};

use super::abi::{Numbered, ProviderAbi};

/// The layout of the provider that calls as one of ABI `PABI`; `None` if the ABI stands for several.
fn numbered(number: u32) -> Option<&'static ProviderAbi> {
    match ProviderAbi::numbered(number) {
        Numbered::One(abi) => Some(abi),
        _ => None,
    }
}

/// The layout of a provider that registers as one of ABI `PABI`.
pub fn of_caller<const PABI: u32>(_ops: *const verbs_device_ops) -> Option<&'static ProviderAbi> {
    numbered(PABI)
}

/// The path of a loaded file: none, since the program contains its providers.
pub(super) fn path_of(_address: *const c_void) -> OsString {
    OsString::new()
}

/// The layout of a device's provider, which calls as one of ABI `PABI`.
///
/// # Safety
/// None: the argument is not used.
pub unsafe fn of_device<const PABI: u32>(_device: *mut ibv_device) -> Option<&'static ProviderAbi> {
    numbered(PABI)
}
