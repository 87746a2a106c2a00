//! Protection domains (PD).

use core::ptr;

use super::twin::{destroy, pair};
use super::types::*;
use crate::verbs;

/// Allocates a protection domain (ibv_alloc_pd(3)). Returns NULL with errno set if it fails.
///
/// # Safety
///
/// `context` is an open context of this layer.
pub unsafe extern "C" fn ibv_alloc_pd_1_0(context: *mut ibv_context_1_0) -> *mut ibv_pd_1_0 {
    // SAFETY: the context is open, as the caller promises; the verb returns NULL or a new domain.
    unsafe {
        pair(
            || verbs::pd::ibv_alloc_pd((*context).real_context),
            |real, _| ibv_pd_1_0 {
                context,
                handle: real.handle,
                real_pd: ptr::from_mut(real),
            },
        )
    }
}

destroy! {
    /// Frees a protection domain (ibv_alloc_pd(3)). Returns 0 or an errno value; EBUSY while it has
    /// objects.
    ibv_dealloc_pd_1_0(pd: ibv_pd_1_0 => real_pd) = verbs::pd::ibv_dealloc_pd;
}
