//! Memory regions (MR).

use core::ptr;

use libc::{c_int, c_void};

use super::twin::{destroy, pair};
use super::types::*;
use crate::verbs;

/// Registers memory (ibv_reg_mr(3)). Returns NULL with errno set if it fails.
///
/// # Safety
///
/// `pd` is a live protection domain of this layer. The memory is not accessed here.
pub unsafe extern "C" fn ibv_reg_mr_1_0(
    pd: *mut ibv_pd_1_0,
    addr: *mut c_void,
    length: usize,
    access: c_int,
) -> *mut ibv_mr_1_0 {
    // SAFETY: the domain is alive, as the caller promises; the verb returns NULL or a new region.
    unsafe {
        pair(
            || verbs::mr::ibv_reg_mr((*pd).real_pd, addr, length, access),
            |real, _| ibv_mr_1_0 {
                context: (*pd).context,
                pd,
                handle: real.handle,
                lkey: real.lkey,
                rkey: real.rkey,
                real_mr: ptr::from_mut(real),
            },
        )
    }
}

destroy! {
    /// Deregisters a region (ibv_reg_mr(3)). Returns 0 or an errno value.
    ibv_dereg_mr_1_0(mr: ibv_mr_1_0 => real_mr) = verbs::mr::ibv_dereg_mr;
}
