//! Completion queues (CQ) and their events.

use core::mem::MaybeUninit;
use core::ptr;

use libc::{EOPNOTSUPP, c_int, c_uint, c_void};

use super::dispatch::dispatch;
use super::sync::{self, acknowledge_events};
use crate::abi::*;
use crate::diagnose;
use crate::provider::{ops::ops, software};

/// Initialises the library's members of a new CQ, and adds a reference to its channel, for providers that
/// create CQs by verbs of their own.
///
/// # Safety
///
/// `cq` is writable and no other thread knows it yet, `context` is its open context, `channel` is NULL or
/// a live channel of that context.
pub unsafe extern "C" fn verbs_init_cq(
    cq: *mut ibv_cq,
    context: *mut ibv_context,
    channel: *mut ibv_comp_channel,
    cq_context: *mut c_void,
) {
    diagnose::provider_created_cq(cq as usize);
    // SAFETY: the function has the same requirements.
    unsafe { init_cq(cq, context, channel, cq_context) };
}

/// As [`verbs_init_cq`], for the library's own verbs.
///
/// # Safety
///
/// As for [`verbs_init_cq`].
unsafe fn init_cq(
    cq: *mut ibv_cq,
    context: *mut ibv_context,
    channel: *mut ibv_comp_channel,
    cq_context: *mut c_void,
) {
    // SAFETY: no other thread knows the CQ, as the caller promises; the context's mutex protects the
    // channel's reference count.
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

/// Creates a CQ with room for at least `cqe` completions; `ibv_destroy_cq` destroys it
/// (ibv_create_cq(3)). Returns NULL with errno set if it fails.
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
    // SAFETY: the context is open, as the caller promises; the provider returns NULL or a new CQ.
    unsafe {
        let cq = (ops(context).create_cq)(context, cqe, channel, comp_vector);
        if !cq.is_null() {
            init_cq(cq, context, channel, cq_context);
        }
        cq
    }
}

/// Creates an extended CQ; `wc_flags` selects the fields that its completions have. This is
/// `verbs_context.create_cq_ex`, which the inline `ibv_create_cq_ex` of verbs.h calls
/// (ibv_create_cq_ex(3)). Returns NULL with errno set if it fails: EOPNOTSUPP for an unknown field.
///
/// # Safety
///
/// `context` is an open context; the attributes are readable and their objects are alive.
pub unsafe extern "C" fn lib_create_cq_ex(
    context: *mut ibv_context,
    cq_attr: *mut ibv_cq_init_attr_ex,
) -> *mut ibv_cq_ex {
    // SAFETY: the attributes are readable, as the caller promises.
    if unsafe { (*cq_attr).wc_flags } & !u64::from(IBV_CREATE_CQ_SUP_WC_FLAGS) != 0 {
        return Errno(EOPNOTSUPP).null();
    }
    // SAFETY: the context is open, as the caller promises; the provider returns NULL or a new CQ, whose
    // first members are those of an `ibv_cq`.
    unsafe {
        let cq = (ops(context).create_cq_ex)(context, cq_attr);
        if !cq.is_null() {
            let (channel, cq_context) = ((*cq_attr).channel, (*cq_attr).cq_context);
            init_cq(cq.cast(), context, channel, cq_context);
        }
        cq
    }
}

dispatch! {
    /// Changes the number of completions that a CQ can hold (ibv_resize_cq(3)). Returns 0 or an errno value.
    ibv_resize_cq(cq: *mut ibv_cq, cqe: c_int) -> c_int => [(*cq).context] resize_cq(cq, cqe);
}

/// Destroys a CQ. Blocks until all its events are acknowledged (ibv_create_cq(3)). Returns 0 or an errno
/// value; EBUSY while a queue pair uses the CQ.
///
/// # Safety
///
/// `cq` is a live CQ, and is not used again after success.
pub unsafe extern "C" fn ibv_destroy_cq(cq: *mut ibv_cq) -> c_int {
    // SAFETY: the CQ is alive and is read before its provider frees it; its channel stays alive as long
    // as it counts the CQ's reference.
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
/// point; no lock is held there. Returns 0, or -1 with errno set. Skips events of a software device that
/// name no CQ of its channel.
///
/// # Safety
///
/// `channel` is a live channel; `cq` and `cq_context` are writable.
pub unsafe extern "C" fn ibv_get_cq_event(
    channel: *mut ibv_comp_channel,
    cq: *mut *mut ibv_cq,
    cq_context: *mut *mut c_void,
) -> c_int {
    // SAFETY: the channel is alive.
    let Some(handle) = (unsafe { read_event(channel) }) else {
        cold_path();
        // SAFETY: the channel is alive.
        diagnose::event_not_read(channel as usize, unsafe { (*channel).fd });
        return -1;
    };
    // SAFETY: the channel is alive, so its context is open; `cq` and `cq_context` are writable.
    unsafe {
        if software::exist() {
            return event_by_handle(channel, handle, cq, cq_context);
        }
        deliver(address(handle), cq, cq_context);
    }
    0
}

/// Reports an event of this CQ to the program and to its provider.
///
/// # Safety
///
/// An event of the CQ is not acknowledged, so the CQ is alive; `cq` and `cq_context` are writable.
#[inline(always)]
unsafe fn deliver(source: *mut ibv_cq, cq: *mut *mut ibv_cq, cq_context: *mut *mut c_void) {
    // SAFETY: the CQ's destruction blocks until the event is acknowledged.
    unsafe {
        *cq = source;
        *cq_context = (*source).cq_context;
        (ops((*source).context).cq_event)(source);
    }
}

/// The rest of [`ibv_get_cq_event`] if the context may be a software device's.
///
/// # Safety
///
/// As for [`ibv_get_cq_event`].
#[cold]
#[inline(never)]
unsafe fn event_by_handle(
    channel: *mut ibv_comp_channel,
    handle: u64,
    cq: *mut *mut ibv_cq,
    cq_context: *mut *mut c_void,
) -> c_int {
    // SAFETY: the channel is alive; `cq` and `cq_context` are writable.
    unsafe {
        match source_of(channel, handle) {
            Some(source) => deliver(source, cq, cq_context),
            None => return -1,
        }
    }
    0
}

/// Marks the branch that calls it as an unlikely one.
#[cold]
#[inline]
pub(super) fn cold_path() {}

/// Reads the next event of a channel: the handle of its CQ. `None` with errno set.
///
/// # Safety
///
/// `channel` is a live channel.
#[inline]
unsafe fn read_event(channel: *mut ibv_comp_channel) -> Option<u64> {
    let mut event = MaybeUninit::<ib_uverbs_comp_event_desc>::uninit();
    let size = size_of::<ib_uverbs_comp_event_desc>();
    // SAFETY: read() writes at most `size` bytes, which `event` has.
    let len = unsafe { libc::read((*channel).fd, event.as_mut_ptr().cast(), size) };
    // SAFETY: read() filled the event, and its member is an integer.
    (len == size as isize).then(|| unsafe { event.assume_init() }.cq_handle)
}

/// The CQ whose address the library passed to the kernel at creation, as the handle of its events.
fn address(handle: u64) -> *mut ibv_cq {
    ptr::with_exposed_provenance_mut(handle as usize)
}

/// The CQ that an event is about. Skips events that name no CQ of the channel, of a software device, and
/// reads the next one. `None` with errno set if there is none.
///
/// # Safety
///
/// `channel` is a live channel.
unsafe fn source_of(channel: *mut ibv_comp_channel, mut handle: u64) -> Option<*mut ibv_cq> {
    loop {
        // SAFETY: the channel is alive, so its context is open, and the function is its device's.
        let cq = unsafe {
            match software::of_context((*channel).context) {
                Some(software) => (software.cq_of_event)(channel, handle),
                None => return Some(address(handle)),
            }
        };
        if !cq.is_null() {
            return Some(cq);
        }
        // SAFETY: the channel is alive.
        handle = unsafe { read_event(channel) }?;
    }
}

/// Acknowledges `nevents` completion events (ibv_get_cq_event(3)). Destroying the CQ blocks until all are
/// acknowledged.
///
/// # Safety
///
/// `cq` is a live CQ.
pub unsafe extern "C" fn ibv_ack_cq_events(cq: *mut ibv_cq, nevents: c_uint) {
    // SAFETY: the CQ is alive, and its mutex protects this counter.
    unsafe {
        acknowledge_events!(cq, ibv_cq, comp_events_completed, nevents);
    }
}
