//! In place of `identify.rs` in a static library. A provider archive refers to the functions of its own
//! release by name, so its layout is known from the call.

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
///
/// # Safety
/// None of the arguments is used.
pub unsafe fn of_caller<const PABI: u32>(
    _ops: *const verbs_device_ops,
) -> Option<&'static ProviderAbi> {
    numbered(PABI)
}

/// The layout of a device's provider, which calls as one of ABI `PABI`.
///
/// # Safety
/// None of the arguments is used.
pub unsafe fn of_device<const PABI: u32>(_device: *mut ibv_device) -> Option<&'static ProviderAbi> {
    numbered(PABI)
}
