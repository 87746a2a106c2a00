//! Address handles (AH).

use core::ptr;

use libc::c_int;

use super::ah_from_wc::{self, Sender};
use super::dispatch::dispatch;
use super::gid;
use crate::abi::*;
use crate::diagnose;
use crate::provider::ops::ops;

/// Creates an address handle, to be destroyed by `ibv_destroy_ah` (ibv_create_ah(3)). Returns NULL
/// with errno set if it fails.
///
/// # Safety
///
/// `pd` is a live protection domain; `attr` is readable.
pub unsafe extern "C" fn ibv_create_ah(pd: *mut ibv_pd, attr: *mut ibv_ah_attr) -> *mut ibv_ah {
    // SAFETY: the domain is alive, so its context is open; the provider returns NULL or a new handle.
    unsafe {
        let context = (*pd).context;
        let ah = (ops(context).create_ah)(pd, attr);
        if !ah.is_null() {
            (*ah).context = context;
            (*ah).pd = pd;
        }
        ah
    }
}

dispatch! {
    /// Destroys an address handle (ibv_create_ah(3)). Returns 0 or an errno value.
    ibv_destroy_ah(ah: *mut ibv_ah) -> c_int => [(*ah).context] destroy_ah(ah);
}

/// The index in the port's GID table of the GID that the message was sent to. Fails with the error of
/// reading an entry, which is also how the search ends behind the table's last entry.
///
/// # Safety
///
/// `context` is an open context.
unsafe fn gid_index(context: *mut ibv_context, port_num: u8, to: &Sender) -> Result<u32, Errno> {
    let fields = VERBS_QUERY_GID_ATTR_GID | VERBS_QUERY_GID_ATTR_TYPE;
    let mut index = 0;
    loop {
        // SAFETY: the context is open, as the caller promises.
        if let Some(found) = unsafe { gid::entry(context, port_num, index, fields) }? {
            // SAFETY: all members of the union have the same 16 bytes, of any value.
            let raw = unsafe { found.gid.raw };
            if raw == to.receiver && gid::sysfs_type(found.gid_type) == to.gid_type {
                return Ok(index);
            }
        }
        // Does not overflow: reading fails at the end of the table.
        index += 1;
    }
}

/// Fills in the address of the sender of a received message, for a reply to it
/// (ibv_create_ah_from_wc(3)). Returns 0, or -1 with errno set: EINVAL for a message to a multicast
/// group, EPROTONOSUPPORT if the header has no known protocol, else the error of reading the port's GID
/// table, which does not have the receiver's GID then.
///
/// # Safety
///
/// `context` is an open context; `wc` and the 40 bytes at `grh` are readable, `ah_attr` is writable.
pub unsafe extern "C" fn ibv_init_ah_from_wc(
    context: *mut ibv_context,
    port_num: u8,
    wc: *mut ibv_wc,
    grh: *mut ibv_grh,
    ah_attr: *mut ibv_ah_attr,
) -> c_int {
    // SAFETY: the caller passes readable `wc` and `grh` and a writable `ah_attr`, of which zeros are a
    // valid value.
    let (wc, grh, attr) = unsafe {
        ptr::write_bytes(ah_attr, 0, 1);
        (&*wc, grh.cast::<[u8; 40]>().read_unaligned(), &mut *ah_attr)
    };
    attr.grh.flow_label = ah_from_wc::flow_label(&grh);
    attr.dlid = wc.slid;
    attr.sl = wc.sl;
    attr.src_path_bits = wc.dlid_path_bits;
    attr.port_num = port_num;
    if wc.wc_flags & IBV_WC_GRH == 0 {
        return 0;
    }
    attr.is_global = 1;
    if let Some(gid) = ah_from_wc::source(&grh) {
        attr.grh.dgid = ibv_gid { raw: gid };
    }
    let sender = match Sender::of(&grh) {
        Ok(sender) => sender,
        Err(errno) => {
            errno.set();
            // SAFETY: the context is open, as the caller promises.
            unsafe { diagnose::no_sender(context, &grh) };
            return -1;
        }
    };
    // SAFETY: the context is open, as the caller promises.
    match unsafe { gid_index(context, port_num, &sender) } {
        Ok(index) => {
            attr.grh.dgid = ibv_gid { raw: sender.gid };
            attr.grh.hop_limit = sender.hop_limit;
            attr.grh.traffic_class = sender.traffic_class;
            // The attribute has eight bits, as in the C library, which truncates a larger index too.
            attr.grh.sgid_index = index as u8;
            0
        }
        // The search has set errno.
        Err(_) => {
            // SAFETY: the context is open, as the caller promises.
            unsafe { diagnose::no_sender(context, &grh) };
            -1
        }
    }
}

/// Creates an address handle for a reply to a received message (ibv_create_ah_from_wc(3)). Returns NULL
/// with errno set, for the reasons of [`ibv_init_ah_from_wc`] and [`ibv_create_ah`].
///
/// # Safety
///
/// `pd` is a live protection domain; `wc` and the 40 bytes at `grh` are readable.
pub unsafe extern "C" fn ibv_create_ah_from_wc(
    pd: *mut ibv_pd,
    wc: *mut ibv_wc,
    grh: *mut ibv_grh,
    port_num: u8,
) -> *mut ibv_ah {
    let mut attr = core::mem::MaybeUninit::<ibv_ah_attr>::uninit();
    // SAFETY: `pd`, `wc` and `grh` are as these functions require, by the caller's promise; the
    // attributes are initialised when the first one returns 0.
    unsafe {
        if ibv_init_ah_from_wc((*pd).context, port_num, wc, grh, attr.as_mut_ptr()) != 0 {
            return ptr::null_mut();
        }
        ibv_create_ah(pd, attr.as_mut_ptr())
    }
}
