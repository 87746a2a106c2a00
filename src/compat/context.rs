//! Open devices, and what can be asked of them.

use core::mem::offset_of;
use core::ptr;

use libc::{c_int, c_void};

use super::post;
use super::twin::{destroy, forward, pair};
use super::types::*;
use crate::abi::*;
use crate::verbs;

/// A context of this layer, as it is allocated. `ibv_create_comp_channel` is one symbol for all
/// programs and must tell the twin of a context from a context: by `tag`, which stands where a
/// context has its `abi_compat`.
#[repr(C)]
struct Tagged {
    context: ibv_context_1_0,
    _gap: [u8; offset_of!(ibv_context, abi_compat) - size_of::<ibv_context_1_0>()],
    tag: *mut c_void,
}

const _: () = assert!(offset_of!(Tagged, tag) == offset_of!(ibv_context, abi_compat));

/// What twins have for `abi_compat`, where contexts have all bits set.
static TAG: u8 = 0;

fn tag() -> *mut c_void {
    (&raw const TAG).cast_mut().cast()
}

/// The context itself, if it is one; its real one, if it is a twin.
///
/// # Safety
///
/// `context` is an open context or the twin of one.
pub(super) unsafe fn real(context: *mut ibv_context) -> *mut ibv_context {
    // SAFETY: both have a pointer at this place.
    if unsafe { (*context).abi_compat } == tag() {
        // SAFETY: nothing but a twin has this tag.
        unsafe { (*context.cast::<ibv_context_1_0>()).real_context }
    } else {
        context
    }
}

/// Opens a device (ibv_open_device(3)). Returns NULL with errno set if it fails.
///
/// # Safety
///
/// `device` is one of a list that is not yet freed.
pub unsafe extern "C" fn ibv_open_device_1_0(device: *mut ibv_device_1_0) -> *mut ibv_context_1_0 {
    // SAFETY: the device is in a list of this layer; what opening it returns is NULL or a context.
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
                _gap: [0; _],
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

    /// Reports a port's attributes (ibv_query_port(3)): the 48 bytes that the struct had.
    /// (rdma-core's library writes the 52 that it had later, over what the program has there.)
    /// Returns 0 or an errno value.
    ibv_query_port_1_0(
        context: ibv_context_1_0 => real_context,
        port_num: u8,
        port_attr: *mut _compat_ibv_port_attr,
    ) -> c_int = verbs::port::ibv_query_port;

    /// Reads an entry of a port's GID table (ibv_query_gid(3)). Returns 0 or -1.
    ibv_query_gid_1_0(
        context: ibv_context_1_0 => real_context,
        port_num: u8,
        index: c_int,
        gid: *mut ibv_gid,
    ) -> c_int = verbs::gid::ibv_query_gid;

    /// Reads an entry of a port's P_Key table, in network byte order (ibv_query_pkey(3)). Returns 0
    /// or -1.
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
    fn a_twin_is_told_from_a_context() {
        let mut context = MaybeUninit::<ibv_context>::zeroed();
        let context = context.as_mut_ptr();
        // SAFETY: any bytes are a context to look at, and the twin is a whole one.
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
                _gap: [0; _],
                tag: tag(),
            };
            assert_eq!(real((&raw mut twin).cast()), context);
        }
    }
}
