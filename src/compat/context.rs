//! Contexts, and the verbs that query a device.

use core::mem::offset_of;
use core::ptr;

use libc::{c_int, c_void};

use super::post;
use super::twin::{destroy, forward, pair};
use super::types::*;
use crate::abi::*;
use crate::verbs;

/// The bytes between a twin's context and its tag.
const GAP: usize = offset_of!(ibv_context, abi_compat) - size_of::<ibv_context_1_0>();

/// The twin of a context, as it is allocated. `ibv_create_comp_channel` is one symbol for all programs and
/// must distinguish twins from contexts. It does so by `tag`, at the offset of a context's `abi_compat`.
#[repr(C)]
struct Tagged {
    context: ibv_context_1_0,
    _gap: [u8; GAP],
    tag: *mut c_void,
}

const _: () = assert!(offset_of!(Tagged, tag) == offset_of!(ibv_context, abi_compat));

/// The byte whose address is the tag of a twin. A context has all bits set there.
static TAG: u8 = 0;

fn tag() -> *mut c_void {
    (&raw const TAG).cast_mut().cast()
}

/// The real context of a twin; `context` itself if it is no twin.
///
/// # Safety
///
/// `context` is an open context or the twin of one.
pub(super) unsafe fn real(context: *mut ibv_context) -> *mut ibv_context {
    // SAFETY: contexts and twins both have a pointer at this offset.
    if unsafe { (*context).abi_compat } == tag() {
        // SAFETY: only twins have this tag.
        unsafe { (*context.cast::<ibv_context_1_0>()).real_context }
    } else {
        context
    }
}

/// Opens a device (ibv_open_device(3)). Returns NULL with errno set if it fails.
///
/// # Safety
///
/// `device` is in a list of [`ibv_get_device_list_1_0`](super::device::ibv_get_device_list_1_0) that is not
/// yet freed.
pub unsafe extern "C" fn ibv_open_device_1_0(device: *mut ibv_device_1_0) -> *mut ibv_context_1_0 {
    // SAFETY: the device is in a list that is not yet freed, so the real device is alive; opening it
    // returns NULL or a new context.
    let twin = unsafe {
        pair(
            || verbs::device::ibv_open_device((*device).real_device),
            |real, _| Tagged {
                context: ibv_context_1_0 {
                    device,
                    ops: post::OPS,
                    cmd_fd: real.cmd_fd,
                    async_fd: real.async_fd,
                    num_comp_vectors: real.num_comp_vectors,
                    real_context: ptr::from_mut(real),
                },
                _gap: [0; GAP],
                tag: tag(),
            },
        )
    };
    twin.cast()
}

destroy! {
    /// Closes a device (ibv_open_device(3)). Returns 0 or an errno value.
    ibv_close_device_1_0(context: ibv_context_1_0 => real_context)
        = verbs::device::ibv_close_device;
}

forward! {
    /// Reports the device's limits and capabilities (ibv_query_device(3)). Returns 0 or an errno
    /// value.
    ibv_query_device_1_0(
        context: ibv_context_1_0 => real_context,
        device_attr: *mut ibv_device_attr,
    ) -> c_int = verbs::device_attr::ibv_query_device;

    /// Reports a port's attributes (ibv_query_port(3)). Writes the 48 bytes that the struct of these programs
    /// has. (The C library writes 52 bytes, beyond the end of the struct.) Returns 0 or an errno value.
    ibv_query_port_1_0(
        context: ibv_context_1_0 => real_context,
        port_num: u8,
        port_attr: *mut _compat_ibv_port_attr,
    ) -> c_int = verbs::port::ibv_query_port;

    /// Reads an entry of a port's GID table (ibv_query_gid(3)). Returns 0, or -1 with errno set.
    ibv_query_gid_1_0(
        context: ibv_context_1_0 => real_context,
        port_num: u8,
        index: c_int,
        gid: *mut ibv_gid,
    ) -> c_int = verbs::gid::ibv_query_gid;

    /// Reads an entry of a port's P_Key table, in network byte order (ibv_query_pkey(3)). Returns 0, or -1
    /// with errno set.
    ibv_query_pkey_1_0(
        context: ibv_context_1_0 => real_context,
        port_num: u8,
        index: c_int,
        pkey: *mut u16,
    ) -> c_int = verbs::pkey::ibv_query_pkey;
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::mem::MaybeUninit;

    #[test]
    fn twins_are_distinguished_from_contexts() {
        let mut context = MaybeUninit::<ibv_context>::zeroed();
        let context = context.as_mut_ptr();
        // SAFETY: zeros are a valid context, and the twin has all its members.
        unsafe {
            (*context).abi_compat = ptr::without_provenance_mut(usize::MAX);
            assert_eq!(real(context), context);
            let mut twin = Tagged {
                context: ibv_context_1_0 {
                    device: ptr::null_mut(),
                    ops: post::OPS,
                    cmd_fd: -1,
                    async_fd: -1,
                    num_comp_vectors: 1,
                    real_context: context,
                },
                _gap: [0; GAP],
                tag: tag(),
            };
            assert_eq!(real((&raw mut twin).cast()), context);
        }
    }
}
