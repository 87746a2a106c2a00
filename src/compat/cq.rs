//! Completion queues.

use core::ptr;

use libc::{PTHREAD_COND_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, c_int, c_void};

use super::twin::{destroy, forward, pair};
use super::types::*;
use crate::abi::*;
use crate::verbs;

/// Creates a completion queue (ibv_create_cq(3)). Its `cqe` is what was asked for, not what there is.
/// Returns NULL with errno set if it fails.
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
    // SAFETY: the context is open; what the verb returns is NULL or a queue.
    unsafe {
        pair(
            || {
                let context = (*context).real_context;
                verbs::cq::ibv_create_cq(context, cqe, cq_context, channel, comp_vector)
            },
            |real: &mut ibv_cq, twin: *mut ibv_cq_1_0| {
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
            },
        )
    }
}

/// The real queue of a twin, NULL for NULL.
///
/// # Safety
///
/// `cq` is NULL or a live queue of this layer.
pub(super) unsafe fn real(cq: *mut ibv_cq_1_0) -> *mut ibv_cq {
    // SAFETY: NULL or live, as the caller promises.
    unsafe { cq.as_ref() }.map_or(ptr::null_mut(), |cq| cq.real_cq)
}

/// The twin of a real queue, NULL for NULL.
///
/// # Safety
///
/// `cq` is NULL or a live queue that this layer made.
pub(super) unsafe fn twin(cq: *mut ibv_cq) -> *mut ibv_cq_1_0 {
    // SAFETY: NULL or live, and then its context is its twin.
    unsafe { cq.as_ref() }.map_or(ptr::null_mut(), |cq| cq.cq_context.cast())
}

forward! {
    /// Changes how many completions a queue holds (ibv_resize_cq(3)), but not its twin's `cqe`.
    /// Returns 0 or an errno value.
    ibv_resize_cq_1_0(cq: ibv_cq_1_0 => real_cq, cqe: c_int) -> c_int = verbs::cq::ibv_resize_cq;
}

destroy! {
    /// Destroys a completion queue once its events are acknowledged (ibv_create_cq(3)). Returns 0 or
    /// an errno value; EBUSY while a queue pair uses it.
    ibv_destroy_cq_1_0(cq: ibv_cq_1_0 => real_cq) = verbs::cq::ibv_destroy_cq;
}
