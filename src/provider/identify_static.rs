//! Replacement of `identify.rs` in a static library. A provider archive refers to the functions of
//! its own release by name, so its layout is known from the call.

use core::ffi::c_void;
use std::ffi::OsString;

use ibverbs_abi::verbs_device_ops;

use super::abi::{Numbered, ProviderAbi};

/// The layout of a provider that registers as one of ABI `PABI`; `None` if the ABI stands for several.
pub fn of_caller<const PABI: u32>(_ops: *const verbs_device_ops) -> Option<&'static ProviderAbi> {
    match ProviderAbi::numbered(PABI) {
        Numbered::One(abi) => Some(abi),
        _ => None,
    }
}

/// The path of a loaded file: none, since the program contains its providers.
pub(super) fn path_of(_address: *const c_void) -> OsString {
    OsString::new()
}
