//! Asynchronous events of a device, its ports, queue pairs, CQs, SRQs and work queues.

use core::mem::MaybeUninit;
use core::ptr;

use libc::c_int;

use super::cq::cold_path;
use super::sync::acknowledge_events;
use crate::abi::*;
use crate::diagnose;
use crate::provider::event::{Subject, subject};
use crate::provider::{ops::ops, software};

/// Waits for an asynchronous event of a context (ibv_get_async_event(3)). Blocks in read(), a
/// cancellation point; no lock is held there. Returns 0, or -1 with errno set.
///
/// # Safety
///
/// `context` is an open context; `event` is writable.
pub unsafe extern "C" fn ibv_get_async_event(
    context: *mut ibv_context,
    event: *mut ibv_async_event,
) -> c_int {
    let mut desc = MaybeUninit::uninit();
    // SAFETY: the context is open.
    if unsafe { !read_event(context, &mut desc) && !read_injected(context, &mut desc) } {
        cold_path();
        return -1;
    }
    // SAFETY: `read_event` filled it.
    let desc = unsafe { desc.assume_init_mut() };
    // SAFETY: the context is open.
    if software::exist() && unsafe { !resolve(context, desc) } {
        return -1;
    }
    // SAFETY: the context is open and `event` writable, as the caller promises. The element is a port
    // number, or an object's address, which the library passed to the kernel at the object's creation.
    unsafe {
        (*event).event_type = desc.event_type;
        let element = &raw mut (*event).element;
        match subject(desc.event_type) {
            Subject::Port => (*element).port_num = desc.element as c_int,
            _ => {
                // All pointers of the union are at the same place, so any member will do.
                (*element).cq = ptr::with_exposed_provenance_mut(desc.element as usize);
            }
        }
        (ops(context).async_event)(context, event);
    }
    0
}

/// Reads the next asynchronous event of a context to `desc`. Returns false with errno set if that fails.
///
/// # Safety
///
/// `context` is an open context.
#[inline]
unsafe fn read_event(
    context: *mut ibv_context,
    desc: &mut MaybeUninit<ib_uverbs_async_event_desc>,
) -> bool {
    let size = size_of::<ib_uverbs_async_event_desc>();
    // SAFETY: read() writes at most `size` bytes, which `desc` has.
    let len = unsafe { libc::read((*context).async_fd, desc.as_mut_ptr().cast(), size) };
    len == size as isize
}

/// Reads the next event to `desc` if IBV_FAULTS has replaced `async_fd`, which cannot be read then (EINVAL).
/// Returns false with errno set if it has not, or if that fails.
///
/// # Safety
///
/// `context` is an open context.
#[cold]
#[inline(never)]
unsafe fn read_injected(
    context: *mut ibv_context,
    desc: &mut MaybeUninit<ib_uverbs_async_event_desc>,
) -> bool {
    if Errno::last().0 != libc::EINVAL || !diagnose::faults::is_enabled() {
        return false;
    }
    // SAFETY: the context is open.
    match unsafe { diagnose::faults::next_event(context) } {
        Some(event) => {
            desc.write(event);
            true
        }
        None => false,
    }
}

/// Replaces the handle in an event of a software device by the object's address. Events of objects that do
/// not exist are skipped: the next one is read to `desc`. Returns false with errno set if there is none.
///
/// # Safety
///
/// `context` is an open context.
#[cold]
#[inline(never)]
unsafe fn resolve(context: *mut ibv_context, desc: &mut ib_uverbs_async_event_desc) -> bool {
    // SAFETY: the context is open.
    while !unsafe { translate(context, desc) } {
        let mut next = MaybeUninit::uninit();
        // SAFETY: the context is open.
        if unsafe { !read_event(context, &mut next) } {
            return false;
        }
        // SAFETY: `read_event` filled it.
        *desc = unsafe { next.assume_init() };
    }
    true
}

/// Replaces the handle in an event of a software device by the object's address. Returns false if the
/// event is about an object that does not exist.
///
/// # Safety
///
/// `context` is an open context.
unsafe fn translate(context: *mut ibv_context, desc: &mut ib_uverbs_async_event_desc) -> bool {
    // SAFETY: the context is open.
    let Some(software) = (unsafe { software::of_context(context) }) else {
        return true;
    };
    // SAFETY: the function is this device's, and the context is open.
    let object = unsafe { (software.object_of_event)(context, &raw const *desc) };
    if subject(desc.event_type) == Subject::Port {
        return true;
    }
    desc.element = object.expose_provenance() as u64;
    !object.is_null()
}

/// Acknowledges an asynchronous event (ibv_get_async_event(3)). Destroying the event's object blocks until
/// all its events are acknowledged.
///
/// # Safety
///
/// `event` came from `ibv_get_async_event` and is not yet acknowledged.
pub unsafe extern "C" fn ibv_ack_async_event(event: *mut ibv_async_event) {
    // SAFETY: destroying an object blocks until its events are acknowledged, so the object is alive.
    unsafe {
        let element = &raw const (*event).element;
        match subject((*event).event_type) {
            Subject::Cq => {
                acknowledge_events!((*element).cq, ibv_cq, async_events_completed, 1);
            }
            Subject::Qp => acknowledge_events!((*element).qp, ibv_qp, events_completed, 1),
            Subject::Srq => acknowledge_events!((*element).srq, ibv_srq, events_completed, 1),
            Subject::Wq => acknowledge_events!((*element).wq, ibv_wq, events_completed, 1),
            Subject::Port => {}
        }
    }
}
