//! The P_Key table of a port, as sysfs shows it.

use libc::{ERANGE, c_int};

use crate::abi::*;
use crate::discover::{sysfs, value::hex16};
use crate::provider::software;

/// Reports a P_Key, in network order (ibv_query_pkey(3)). Returns 0 or -1; errno is what opening
/// or reading the sysfs file left, EINVAL for a device that is not in sysfs.
///
/// # Safety
///
/// `context` is an open context; `pkey` is writable.
pub unsafe extern "C" fn ibv_query_pkey(
    context: *mut ibv_context,
    port_num: u8,
    index: c_int,
    pkey: *mut u16,
) -> c_int {
    // SAFETY: an open context.
    if let Some(software) = unsafe { software::of_context(context) } {
        // SAFETY: the function is this context's device's, and asks for what this verb asks for.
        return match unsafe { (software.query_pkey)(context, port_num, index, pkey) } {
            0 => 0,
            errno => {
                Errno(errno).set();
                -1
            }
        };
    }
    let mut text = [0; 8];
    // SAFETY: every device of this library begins a `verbs_device`, and the context holds it and
    // with it the device's sysfs description.
    let len = unsafe {
        let device = (*context).device.cast::<verbs_device>();
        let file = format_args!("ports/{port_num}/pkeys/{index}");
        sysfs::read_ibdev((*device).sysfs, file, &mut text)
    };
    let Some(value) = len.ok().and_then(|len| hex16(text.get(..len)?)) else {
        return -1;
    };
    if value.overflow {
        Errno(ERANGE).set();
    }
    // SAFETY: the caller's P_Key is writable.
    unsafe { *pkey = value.value.to_be() };
    0
}

/// Finds the first place of a P_Key (network order) in the port's table (ibv_get_pkey_index(3)).
/// Returns the place, or -1 if the table ends before it is found.
///
/// # Safety
///
/// `context` is an open context.
pub unsafe extern "C" fn ibv_get_pkey_index(
    context: *mut ibv_context,
    port_num: u8,
    pkey: u16,
) -> c_int {
    let mut found = 0;
    for index in 0..=c_int::MAX {
        // SAFETY: an open context, and a P_Key of this function's own.
        if unsafe { ibv_query_pkey(context, port_num, index, &mut found) } < 0 {
            break;
        }
        if found == pkey {
            return index;
        }
    }
    -1
}
