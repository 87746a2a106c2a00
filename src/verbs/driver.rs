//! The driver interface of libibverbs before rdma-core, which was public.

use libc::{c_char, c_void};

/// Does nothing. Programs linked to an old libfabric call it to register a usNIC driver, so that the
/// libibverbs of their time did not warn about a usNIC device without a driver.
///
/// # Safety
///
/// None; the arguments are not used.
pub unsafe extern "C" fn ibv_register_driver(_name: *const c_char, _init: *mut c_void) {}
