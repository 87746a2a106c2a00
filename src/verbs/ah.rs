//! Address handles.

use core::ptr;

use libc::c_int;

use super::ah_from_wc::{self, Sender};
use super::dispatch::dispatch;
use super::gid;
use crate::abi::*;
use crate::provider::ops::ops;

/// Creates an address handle, to be destroyed by `ibv_destroy_ah` (ibv_create_ah(3)). Returns NULL
/// with errno set if it fails.
///
/// # Safety
///
/// `pd` is a live protection domain; the attributes are readable.
pub unsafe extern "C" fn ibv_create_ah(pd: *mut ibv_pd, attr: *mut ibv_ah_attr) -> *mut ibv_ah {
    // SAFETY: the domain lives, so its context does; the provider returns NULL or a new handle.
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

/// Finds the entry of the port's GID table that the packet was sent to. `Err`: what ended the
/// search, an errno value.
///
/// # Safety
///
/// `context` is an open context.
unsafe fn gid_index(context: *mut ibv_context, port_num: u8, to: &Sender) -> Result<u32, Errno> {
    let wanted = VERBS_QUERY_GID_ATTR_GID | VERBS_QUERY_GID_ATTR_TYPE;
    let mut index = 0;
    loop {
        // SAFETY: an open context.
        if let Some(found) = unsafe { gid::entry(context, port_num, index, wanted) }? {
            // SAFETY: a GID is 16 bytes by whichever name.
            let raw = unsafe { found.gid.raw };
            if raw == to.receiver && gid::sysfs_type(found.gid_type) == to.gid_type {
                return Ok(index);
            }
        }
        // The table ends long before the numbers do.
        index += 1;
    }
}

/// Fills in the address of the sender of a received message, for an answer to it
/// (ibv_create_ah_from_wc(3)). Returns 0, or -1 with errno set: EINVAL for a message to a multicast
/// group, EPROTONOSUPPORT if the header is of no known protocol, else why the receiver's GID was not
/// found in the port's table.
///
/// # Safety
///
/// `context` is an open context; the completion and the 40 bytes at `grh` are readable, `ah_attr`
/// is writable.
pub unsafe extern "C" fn ibv_init_ah_from_wc(
    context: *mut ibv_context,
    port_num: u8,
    wc: *mut ibv_wc,
    grh: *mut ibv_grh,
    ah_attr: *mut ibv_ah_attr,
) -> c_int {
    // SAFETY: the caller's promises; zeros are attributes.
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
            return -1;
        }
    };
    // SAFETY: an open context.
    match unsafe { gid_index(context, port_num, &sender) } {
        Ok(index) => {
            attr.grh.dgid = ibv_gid { raw: sender.gid };
            attr.grh.hop_limit = sender.hop_limit;
            attr.grh.traffic_class = sender.traffic_class;
            // The attribute has eight bits, more than any table has entries.
            attr.grh.sgid_index = index as u8;
            0
        }
        // errno is what the search left.
        Err(_) => -1,
    }
}

/// Creates an address handle for an answer to a received message (ibv_create_ah_from_wc(3)). Returns
/// NULL with errno set, as [`ibv_init_ah_from_wc`] and [`ibv_create_ah`] do.
///
/// # Safety
///
/// `pd` is a live protection domain; the completion and the 40 bytes at `grh` are readable.
pub unsafe extern "C" fn ibv_create_ah_from_wc(
    pd: *mut ibv_pd,
    wc: *mut ibv_wc,
    grh: *mut ibv_grh,
    port_num: u8,
) -> *mut ibv_ah {
    let mut attr = core::mem::MaybeUninit::<ibv_ah_attr>::uninit();
    // SAFETY: the caller's promises; the attributes are initialised when that succeeds.
    unsafe {
        if ibv_init_ah_from_wc((*pd).context, port_num, wc, grh, attr.as_mut_ptr()) != 0 {
            return ptr::null_mut();
        }
        ibv_create_ah(pd, attr.as_mut_ptr())
    }
}
