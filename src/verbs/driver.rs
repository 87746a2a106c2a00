//! The driver interface that was public before rdma-core.

use libc::{c_char, c_void};

/// Does nothing. Programs linked against an old libfabric call it, only to keep a library of their
/// time from warning about a usNIC device that has no driver here.
///
/// # Safety
///
/// Neither argument is looked at.
pub unsafe extern "C" fn ibv_register_driver(_name: *const c_char, _init: *mut c_void) {}
