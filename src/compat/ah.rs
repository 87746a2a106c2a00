//! Address handles.

use core::ptr;

use super::twin::{destroy, pair};
use super::types::*;
use crate::abi::*;
use crate::verbs;

/// Creates an address handle (ibv_create_ah(3)). Returns NULL with errno set if it fails.
///
/// # Safety
///
/// `pd` is a live protection domain of this layer, `attr` readable.
pub unsafe extern "C" fn ibv_create_ah_1_0(
    pd: *mut ibv_pd_1_0,
    attr: *mut ibv_ah_attr,
) -> *mut ibv_ah_1_0 {
    // SAFETY: the domain is alive, and `attr` readable; the verb returns NULL or a new handle.
    unsafe {
        pair(
            || verbs::ah::ibv_create_ah((*pd).real_pd, attr),
            |real, _| ibv_ah_1_0 {
                context: (*pd).context,
                pd,
                handle: real.handle,
                real_ah: ptr::from_mut(real),
            },
        )
    }
}

destroy! {
    /// Destroys an address handle (ibv_create_ah(3)). Returns 0 or an errno value.
    ibv_destroy_ah_1_0(ah: ibv_ah_1_0 => real_ah) = verbs::ah::ibv_destroy_ah;
}
