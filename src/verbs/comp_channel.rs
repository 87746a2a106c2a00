//! Completion channels: file descriptors that tell of completion events.

use core::mem::MaybeUninit;
use core::ptr;

use libc::{EBUSY, ENOMEM, c_int, c_uint, c_void};

use super::sync;
use crate::abi::*;
use crate::provider::ops::ops;
use crate::{sys, uverbs};

/// Creates a completion channel, to be destroyed by `ibv_destroy_comp_channel`
/// (ibv_create_comp_channel(3)). Returns NULL with errno set if it fails.
///
/// # Safety
///
/// `context` is an open context.
pub unsafe extern "C" fn ibv_create_comp_channel(
    context: *mut ibv_context,
) -> *mut ibv_comp_channel {
    // SAFETY: malloc takes any size.
    let channel = unsafe { libc::malloc(size_of::<ibv_comp_channel>()) }.cast::<ibv_comp_channel>();
    if channel.is_null() {
        return sys::null(ENOMEM);
    }
    // SAFETY: an open context.
    match unsafe { uverbs::cmd::comp_channel::create(context) } {
        Ok(fd) => {
            // SAFETY: just allocated, of this size and aligned for any type.
            unsafe {
                channel.write(ibv_comp_channel {
                    context,
                    fd,
                    refcnt: 0,
                })
            };
            channel
        }
        Err(errno) => {
            // SAFETY: allocated by malloc just now and known to nobody.
            unsafe { libc::free(channel.cast()) };
            sys::null(errno)
        }
    }
}

/// Destroys a completion channel (ibv_create_comp_channel(3)). Returns 0, or EBUSY while a
/// completion queue uses it.
///
/// # Safety
///
/// `channel` is a live channel, dead after success.
pub unsafe extern "C" fn ibv_destroy_comp_channel(channel: *mut ibv_comp_channel) -> c_int {
    // SAFETY: the channel lives and its context too, whose mutex guards the count of users; with no
    // user left it is this function's to free.
    unsafe {
        let context = (*channel).context;
        sync::locked(&raw mut (*context).mutex, || {
            if (*channel).refcnt != 0 {
                return EBUSY;
            }
            libc::close((*channel).fd);
            libc::free(channel.cast());
            0
        })
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
        sync::acknowledge(
            &raw mut (*cq).mutex,
            &raw mut (*cq).cond,
            &raw mut (*cq).comp_events_completed,
            nevents,
        );
    }
}
