//! Attributes of a device: its limits and capabilities.

use core::ptr;

use libc::c_int;

use crate::abi::*;
use crate::provider::ops::ops;

/// Reports the device's limits and capabilities (ibv_query_device(3)). Returns 0 or an errno value.
///
/// # Safety
///
/// `context` is an open context; `device_attr` is writable.
pub unsafe extern "C" fn ibv_query_device(
    context: *mut ibv_context,
    device_attr: *mut ibv_device_attr,
) -> c_int {
    // The plain attributes are the first member of the extended ones. The size that the provider gets
    // says that the other members are missing.
    const { assert!(core::mem::offset_of!(ibv_device_attr_ex, orig_attr) == 0) };
    // SAFETY: the context is open, so it has all ops; the provider writes no more than the size that it
    // gets, which is that of the caller's struct.
    unsafe {
        (ops(context).query_device_ex)(
            context,
            ptr::null(),
            device_attr.cast(),
            size_of::<ibv_device_attr>(),
        )
    }
}
