//! The P_Key table of a port, read from sysfs or from a software device.

use libc::{ERANGE, c_int};

use crate::abi::*;
use crate::diagnose;
use crate::discover::{sysfs, value::hex16};
use crate::provider::software;

/// Reports an entry of the P_Key table in network byte order (ibv_query_pkey(3)). Returns 0, or -1 with the
/// errno of opening or reading the sysfs file; EINVAL for a device that is not in sysfs.
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
    // SAFETY: the context is open, as the caller promises.
    if let Some(software) = unsafe { software::of_context(context) } {
        // SAFETY: the function is this device's; the context is open and `pkey` writable.
        return match unsafe { (software.query_pkey)(context, port_num, index, pkey) } {
            0 => 0,
            errno => {
                let result = Errno(errno).minus_one();
                // SAFETY: the context is open, as the caller promises.
                unsafe { diagnose::query_failed(context, "ibv_query_pkey", port_num, index) };
                result
            }
        };
    }
    let mut text = [0; 8];
    // SAFETY: the context is open, so its device and the device's sysfs part are alive; every device is
    // the start of a `verbs_device`.
    let len = unsafe {
        let device = (*context).device.cast::<verbs_device>();
        sysfs::read_ibdev(
            (*device).sysfs,
            format_args!("ports/{port_num}/pkeys/{index}"),
            &mut text,
        )
    };
    let Some(value) = len.ok().and_then(|len| hex16(text.get(..len)?)) else {
        // SAFETY: the context is open, as the caller promises.
        unsafe { diagnose::query_failed(context, "ibv_query_pkey", port_num, index) };
        return -1;
    };
    if value.overflow {
        Errno(ERANGE).set();
    }
    // SAFETY: `pkey` is writable, as the caller promises.
    unsafe { *pkey = value.value.to_be() };
    0
}

/// Returns the index of the first entry of the port's P_Key table that is `pkey`, in network byte order
/// (ibv_get_pkey_index(3)); -1 if there is none.
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
        // SAFETY: the context is open, as the caller promises, and `found` is writable.
        if unsafe { ibv_query_pkey(context, port_num, index, &mut found) } < 0 {
            break;
        }
        if found == pkey {
            return index;
        }
    }
    -1
}
