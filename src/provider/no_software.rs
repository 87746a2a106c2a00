//! Replacement of `software.rs` in a library that is built without `uroce`: no software device
//! exists, and IBV_UROCE is not read.

use ibverbs_abi::{
    CmListener, CmNotice, ib_uverbs_async_event_desc, ibv_context, ibv_cq, ibv_device,
    verbs_software_ops,
};
use ibverbs_faults::{Action, Facts};

/// Always `None`: no device is a software device.
///
/// # Safety
/// None; `unsafe` because `software.rs` needs it.
#[inline]
pub unsafe fn of_device<'a>(_device: *mut ibv_device) -> Option<&'a verbs_software_ops> {
    None
}

/// Always `None`: no context is a software device's.
///
/// # Safety
/// None; `unsafe` because `software.rs` needs it.
#[inline]
pub unsafe fn of_context<'a>(_context: *mut ibv_context) -> Option<&'a verbs_software_ops> {
    None
}

/// Always false.
#[inline]
pub fn exist() -> bool {
    false
}

/// Does nothing: without software devices there are no packets.
pub fn set_packet_faults(_decide: fn(&Facts) -> Option<Action>) {}

/// Does nothing.
///
/// # Safety
/// None; `unsafe` because `software.rs` needs it.
pub unsafe fn raise_event(_context: *mut ibv_context, _event: &ib_uverbs_async_event_desc) {}

/// Does nothing.
pub fn set_gids(_device: &str, _present: bool) {}

/// Always `None`: no CQ is a software device's.
///
/// # Safety
/// None; `unsafe` because `software.rs` needs it.
pub unsafe fn unread_completions(_cq: *mut ibv_cq) -> Option<usize> {
    None
}

/// Always `None`: no CQ is a software device's.
///
/// # Safety
/// None; `unsafe` because `software.rs` needs it.
pub unsafe fn unread_failure(_cq: *mut ibv_cq, _qpn: u32) -> Option<(u64, u32)> {
    None
}

/// Does nothing: without software devices librdmacm talks to the kernel.
pub fn set_cm_hook(_hook: fn(&CmNotice)) {}

/// Always `None`.
pub fn cm_ids(_fd: i32) -> Option<Vec<(u32, &'static str)>> {
    None
}

/// Always `None`.
pub fn unread_cm_event() -> Option<(u32, u32)> {
    None
}

/// Always `None`.
pub fn listener_alike(_id: u32) -> Option<CmListener> {
    None
}

/// No device.
pub fn status() -> Vec<super::status::DeviceStatus> {
    Vec::new()
}

/// Does nothing.
pub fn before_fork() {}

/// Does nothing.
///
/// # Safety
/// None; `unsafe` because `software.rs` needs it.
pub unsafe fn after_fork(_is_child: bool) {}

/// Always false: nothing asks for software devices.
pub fn is_requested() -> bool {
    false
}

/// Hides nothing: there are no files to hide.
pub fn hide_files() -> Option<core::convert::Infallible> {
    None
}

/// The software devices of the library's list: none.
#[derive(Default)]
pub struct SoftwareDevices;

impl SoftwareDevices {
    /// No device.
    pub const fn new() -> Self {
        SoftwareDevices
    }

    /// Does nothing.
    pub fn initialize(&mut self) {}

    /// Does nothing.
    pub fn refresh(&mut self) {}

    /// No device.
    pub fn devices(&self) -> impl Iterator<Item = *mut ibv_device> {
        core::iter::empty()
    }
}
