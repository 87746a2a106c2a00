//! Completion queues (CQ).

use core::ptr;

use libc::{PTHREAD_COND_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, c_int, c_void};

use super::twin::{destroy, forward, pair};
use super::types::*;
use crate::abi::*;
use crate::verbs;

/// Creates a CQ (ibv_create_cq(3)). The twin's `cqe` is the requested number, not the actual one. Returns
/// NULL with errno set if it fails.
///
/// # Safety
///
/// `context` is an open context of this layer, `channel` NULL or a live channel of it.
pub unsafe extern "C" fn ibv_create_cq_1_0(
    context: *mut ibv_context_1_0,
    cqe: c_int,
    cq_context: *mut c_void,
    channel: *mut ibv_comp_channel,
    comp_vector: c_int,
) -> *mut ibv_cq_1_0 {
    let new_twin = |real: &mut ibv_cq, twin: *mut ibv_cq_1_0| {
        real.cq_context = twin.cast();
        ibv_cq_1_0 {
            context,
            cq_context,
            handle: real.handle,
            cqe,
            mutex: PTHREAD_MUTEX_INITIALIZER,
            cond: PTHREAD_COND_INITIALIZER,
            comp_events_completed: 0,
            async_events_completed: 0,
            real_cq: real,
        }
    };
    // SAFETY: the context is open, and the channel NULL or alive; the verb returns NULL or a new CQ.
    unsafe {
        pair(
            || {
                let context = (*context).real_context;
                verbs::cq::ibv_create_cq(context, cqe, cq_context, channel, comp_vector)
            },
            new_twin,
        )
    }
}

/// The real CQ of a twin, NULL for NULL.
///
/// # Safety
///
/// `cq` is NULL or a live CQ of this layer.
pub(super) unsafe fn real(cq: *mut ibv_cq_1_0) -> *mut ibv_cq {
    // SAFETY: `cq` is NULL or alive, as the caller promises.
    unsafe { cq.as_ref() }.map_or(ptr::null_mut(), |cq| cq.real_cq)
}

/// The twin of a real CQ, NULL for NULL.
///
/// # Safety
///
/// `cq` is NULL or a live CQ that this layer created.
pub(super) unsafe fn twin(cq: *mut ibv_cq) -> *mut ibv_cq_1_0 {
    // SAFETY: `cq` is NULL or alive, as the caller promises.
    unsafe { cq.as_ref() }.map_or(ptr::null_mut(), |cq| cq.cq_context.cast())
}

forward! {
    /// Changes the number of completions that a CQ can hold (ibv_resize_cq(3)), but not its twin's `cqe`.
    /// Returns 0 or an errno value.
    ibv_resize_cq_1_0(cq: ibv_cq_1_0 => real_cq, cqe: c_int) -> c_int = verbs::cq::ibv_resize_cq;
}

destroy! {
    /// Destroys a CQ. Blocks until all its events are acknowledged (ibv_create_cq(3)). Returns 0 or an errno
    /// value; EBUSY while a queue pair uses it.
    ibv_destroy_cq_1_0(cq: ibv_cq_1_0 => real_cq) = verbs::cq::ibv_destroy_cq;
}
