//! Shared receive queues (SRQ).

use core::ptr;

use libc::{PTHREAD_COND_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, c_int};

use super::twin::{destroy, forward, pair};
use super::types::*;
use crate::abi::*;
use crate::verbs;

/// Creates an SRQ (ibv_create_srq(3)). Writes the sizes that it really has to the attributes. Returns NULL
/// with errno set if it fails.
///
/// # Safety
///
/// `pd` is a live protection domain of this layer; `srq_init_attr` is writable.
pub unsafe extern "C" fn ibv_create_srq_1_0(
    pd: *mut ibv_pd_1_0,
    srq_init_attr: *mut ibv_srq_init_attr,
) -> *mut ibv_srq_1_0 {
    // SAFETY: the domain is alive and the attributes writable, as the caller promises; the verb returns
    // NULL or a new SRQ.
    unsafe {
        pair(
            || verbs::srq::ibv_create_srq((*pd).real_pd, srq_init_attr),
            |real: &mut ibv_srq, twin: *mut ibv_srq_1_0| {
                real.srq_context = twin.cast();
                ibv_srq_1_0 {
                    context: (*pd).context,
                    srq_context: (*srq_init_attr).srq_context,
                    pd,
                    handle: real.handle,
                    mutex: PTHREAD_MUTEX_INITIALIZER,
                    cond: PTHREAD_COND_INITIALIZER,
                    events_completed: 0,
                    real_srq: real,
                }
            },
        )
    }
}

/// The real SRQ of a twin, NULL for NULL.
///
/// # Safety
///
/// `srq` is NULL or a live SRQ of this layer.
pub(super) unsafe fn real(srq: *mut ibv_srq_1_0) -> *mut ibv_srq {
    // SAFETY: `srq` is NULL or alive, as the caller promises.
    unsafe { srq.as_ref() }.map_or(ptr::null_mut(), |srq| srq.real_srq)
}

/// The twin of a real SRQ, NULL for NULL.
///
/// # Safety
///
/// `srq` is NULL or a live SRQ that this layer created.
pub(super) unsafe fn twin(srq: *mut ibv_srq) -> *mut ibv_srq_1_0 {
    // SAFETY: `srq` is NULL or alive, as the caller promises.
    unsafe { srq.as_ref() }.map_or(ptr::null_mut(), |srq| srq.srq_context.cast())
}

forward! {
    /// Changes the size or the limit of an SRQ (ibv_modify_srq(3)). Returns 0 or an errno value.
    ibv_modify_srq_1_0(
        srq: ibv_srq_1_0 => real_srq,
        srq_attr: *mut ibv_srq_attr,
        srq_attr_mask: c_int,
    ) -> c_int = verbs::srq::ibv_modify_srq;

    /// Reports the size and the limit of an SRQ (ibv_query_srq(3)). Returns 0 or an errno value.
    ibv_query_srq_1_0(srq: ibv_srq_1_0 => real_srq, srq_attr: *mut ibv_srq_attr) -> c_int
        = verbs::srq::ibv_query_srq;
}

destroy! {
    /// Destroys an SRQ. Blocks until all its events are acknowledged (ibv_create_srq(3)). Returns 0 or an
    /// errno value; EBUSY while a queue pair uses it.
    ibv_destroy_srq_1_0(srq: ibv_srq_1_0 => real_srq) = verbs::srq::ibv_destroy_srq;
}
