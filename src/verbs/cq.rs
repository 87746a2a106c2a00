//! Completion queues and their events.

use core::mem::MaybeUninit;
use core::ptr;

use libc::{EOPNOTSUPP, c_int, c_uint, c_void};

use super::dispatch::dispatch;
use super::sync::{self, acknowledge_events};
use crate::abi::*;
use crate::provider::ops::ops;

/// Fills in what the library keeps in a queue that a provider has just made, and counts it as a user
/// of its channel. Providers with ways of their own to make queues call it too.
///
/// # Safety
///
/// `cq` is a queue that nobody else knows yet, `context` its open context, `channel` NULL or a live
/// channel of that context.
pub unsafe extern "C" fn verbs_init_cq(
    cq: *mut ibv_cq,
    context: *mut ibv_context,
    channel: *mut ibv_comp_channel,
    cq_context: *mut c_void,
) {
    // SAFETY: the queue is the caller's alone; the context's mutex guards the channel's count.
    unsafe {
        (*cq).context = context;
        (*cq).channel = channel;
        if !channel.is_null() {
            sync::locked(&raw mut (*context).mutex, || {
                (*channel).refcnt = (*channel).refcnt.wrapping_add(1);
            });
        }
        (*cq).cq_context = cq_context;
        (*cq).comp_events_completed = 0;
        (*cq).async_events_completed = 0;
        sync::init(&raw mut (*cq).mutex, &raw mut (*cq).cond);
    }
}

/// Creates a completion queue, to be destroyed by `ibv_destroy_cq` (ibv_create_cq(3)). Returns NULL
/// with errno set if it fails.
///
/// # Safety
///
/// `context` is an open context, `channel` NULL or a live channel of it.
pub unsafe extern "C" fn ibv_create_cq(
    context: *mut ibv_context,
    cqe: c_int,
    cq_context: *mut c_void,
    channel: *mut ibv_comp_channel,
    comp_vector: c_int,
) -> *mut ibv_cq {
    // SAFETY: the context is open; the provider returns NULL or a new queue.
    unsafe {
        let cq = (ops(context).create_cq)(context, cqe, channel, comp_vector);
        if !cq.is_null() {
            verbs_init_cq(cq, context, channel, cq_context);
        }
        cq
    }
}

/// Creates a completion queue with chosen fields in its completions. This is
/// `verbs_context.create_cq_ex`, which the inline `ibv_create_cq_ex` of verbs.h calls
/// (ibv_create_cq_ex(3)). Returns NULL with errno set: EOPNOTSUPP for an unknown field.
///
/// # Safety
///
/// `context` is an open context; the attributes are readable and their objects live.
pub unsafe extern "C" fn lib_create_cq_ex(
    context: *mut ibv_context,
    cq_attr: *mut ibv_cq_init_attr_ex,
) -> *mut ibv_cq_ex {
    // SAFETY: the attributes are readable.
    if unsafe { (*cq_attr).wc_flags } & !u64::from(IBV_CREATE_CQ_SUP_WC_FLAGS) != 0 {
        return Errno(EOPNOTSUPP).null();
    }
    // SAFETY: the context is open; the provider returns NULL or a new queue, which begins with an
    // `ibv_cq`'s members.
    unsafe {
        let cq = (ops(context).create_cq_ex)(context, cq_attr);
        if !cq.is_null() {
            let (channel, cq_context) = ((*cq_attr).channel, (*cq_attr).cq_context);
            verbs_init_cq(cq.cast(), context, channel, cq_context);
        }
        cq
    }
}

dispatch! {
    /// Changes how many completions a queue holds (ibv_resize_cq(3)). Returns 0 or an errno value.
    ibv_resize_cq(cq: *mut ibv_cq, cqe: c_int) -> c_int => [(*cq).context] resize_cq(cq, cqe);
}

/// Destroys a completion queue once its events are acknowledged (ibv_create_cq(3)). Returns 0 or an
/// errno value; EBUSY while a queue pair uses it.
///
/// # Safety
///
/// `cq` is a live queue, dead after success.
pub unsafe extern "C" fn ibv_destroy_cq(cq: *mut ibv_cq) -> c_int {
    // SAFETY: the queue is read before its provider frees it; its channel, if any, lives at least
    // until it is no longer counted as the channel's user.
    unsafe {
        let channel = (*cq).channel;
        let err = (ops((*cq).context).destroy_cq)(cq);
        if err == 0 && !channel.is_null() {
            sync::locked(&raw mut (*(*channel).context).mutex, || {
                (*channel).refcnt = (*channel).refcnt.wrapping_sub(1);
            });
        }
        err
    }
}

/// Waits for a completion event on a channel (ibv_get_cq_event(3)). Blocks in read(), a cancellation
/// point where it holds nothing. Returns 0, or -1 with errno set.
///
/// # Safety
///
/// `channel` is a live channel; the two results are writable.
pub unsafe extern "C" fn ibv_get_cq_event(
    channel: *mut ibv_comp_channel,
    cq: *mut *mut ibv_cq,
    cq_context: *mut *mut c_void,
) -> c_int {
    let mut event = MaybeUninit::<ib_uverbs_comp_event_desc>::uninit();
    let size = size_of::<ib_uverbs_comp_event_desc>();
    // SAFETY: the kernel writes at most the size of the event into it.
    let len = unsafe { libc::read((*channel).fd, event.as_mut_ptr().cast(), size) };
    if len != size as isize {
        return -1;
    }
    // SAFETY: read filled it. The handle is the address of the queue, which this library gave to the
    // kernel when it was created; it cannot be destroyed before this event is acknowledged.
    unsafe {
        let of: *mut ibv_cq =
            ptr::with_exposed_provenance_mut(event.assume_init().cq_handle as usize);
        *cq = of;
        *cq_context = (*of).cq_context;
        (ops((*of).context).cq_event)(of);
    }
    0
}

/// Acknowledges completion events, which destroying the queue waits for (ibv_get_cq_event(3)).
///
/// # Safety
///
/// `cq` is a live queue.
pub unsafe extern "C" fn ibv_ack_cq_events(cq: *mut ibv_cq, nevents: c_uint) {
    // SAFETY: the queue lives, and its mutex guards this counter.
    unsafe {
        acknowledge_events!(cq, ibv_cq, comp_events_completed, nevents);
    }
}
