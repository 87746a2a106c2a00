//! Completion and asynchronous events. The library reports real objects; the program gets their twins.

use core::ptr;

use libc::{c_int, c_uint, c_void};

use super::twin::forward;
use super::types::*;
use crate::abi::*;
use crate::provider::event::{Subject, subject};
use crate::verbs::{self};

/// Replaces the real object of an event by its twin.
///
/// # Safety
///
/// The event's object is alive, and this layer created it.
unsafe fn to_twin(event: &mut ibv_async_event) {
    let element = &mut event.element;
    // SAFETY: the event's type says which member of the union is valid; the object is alive, as the caller
    // promises.
    unsafe {
        match subject(event.event_type) {
            Subject::Cq => element.cq = (*element.cq).cq_context.cast(),
            Subject::Qp => element.qp = (*element.qp).qp_context.cast(),
            Subject::Srq => element.srq = (*element.srq).srq_context.cast(),
            // libibverbs 1.0 had no work queues, so they have no twins.
            Subject::Wq | Subject::Port => {}
        }
    }
}

/// Replaces the twin in an event by its real object.
///
/// # Safety
///
/// The event's object is a live twin.
unsafe fn to_real(event: &mut ibv_async_event) {
    let element = &mut event.element;
    // SAFETY: the event's type says which member of the union is valid; it is a live twin, as the caller
    // promises.
    unsafe {
        match subject(event.event_type) {
            Subject::Cq => element.cq = (*element.cq.cast::<ibv_cq_1_0>()).real_cq,
            Subject::Qp => element.qp = (*element.qp.cast::<ibv_qp_1_0>()).real_qp,
            Subject::Srq => element.srq = (*element.srq.cast::<ibv_srq_1_0>()).real_srq,
            // libibverbs 1.0 had no work queues, so they have no twins.
            Subject::Wq | Subject::Port => {}
        }
    }
}

/// Waits for an asynchronous event of a context (ibv_get_async_event(3)). Returns 0, or -1 with
/// errno set.
///
/// # Safety
///
/// `context` is an open context of this layer; `event` is writable.
pub unsafe extern "C" fn ibv_get_async_event_1_0(
    context: *mut ibv_context_1_0,
    event: *mut ibv_async_event,
) -> c_int {
    // SAFETY: the context is open and `event` writable, as the caller promises. This layer created the
    // event's object, and destroying that blocks until the event is acknowledged.
    unsafe {
        let err = verbs::event::ibv_get_async_event((*context).real_context, event);
        if err == 0 {
            to_twin(&mut *event);
        }
        err
    }
}

/// Acknowledges an asynchronous event (ibv_get_async_event(3)). Destroying the event's object blocks until
/// all its events are acknowledged.
///
/// # Safety
///
/// `event` is from [`ibv_get_async_event_1_0`] and is not yet acknowledged.
pub unsafe extern "C" fn ibv_ack_async_event_1_0(event: *mut ibv_async_event) {
    // SAFETY: the event's twin is alive until the event is acknowledged. This changes a copy of the event,
    // not the program's.
    unsafe {
        let mut real = *event;
        to_real(&mut real);
        verbs::event::ibv_ack_async_event(&raw mut real);
    }
}

/// Waits for an event of one of the channel's CQs (ibv_get_cq_event(3)). Returns 0, or -1 with errno set.
///
/// # Safety
///
/// `channel` is a live channel, all CQs of which this layer created; `cq` and `cq_context` are writable.
pub unsafe extern "C" fn ibv_get_cq_event_1_0(
    channel: *mut ibv_comp_channel,
    cq: *mut *mut ibv_cq_1_0,
    cq_context: *mut *mut c_void,
) -> c_int {
    let (mut real, mut twin) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: the channel is alive, as the caller promises. So is the event's CQ, since destroying it blocks
    // until the event is acknowledged; its `cq_context` is its twin.
    unsafe {
        let err = verbs::cq::ibv_get_cq_event(channel, &raw mut real, &raw mut twin);
        if err == 0 {
            *cq = twin.cast();
            *cq_context = (**cq).cq_context;
        }
        err
    }
}

forward! {
    /// Acknowledges completion events (ibv_get_cq_event(3)).
    ibv_ack_cq_events_1_0(cq: ibv_cq_1_0 => real_cq, nevents: c_uint)
        = verbs::cq::ibv_ack_cq_events;
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::mem::MaybeUninit;

    /// All events and two unknown ones, each with the kind of twin that it has.
    fn events() -> impl Iterator<Item = (ibv_event_type, Option<Subject>)> {
        use Subject::*;
        (0..=20).chain([21, u32::MAX]).map(|event| {
            let subject = match event {
                0 => Some(Cq),
                1..=7 | 16 => Some(Qp),
                14 | 15 => Some(Srq),
                _ => None,
            };
            (event, subject)
        })
    }

    #[test]
    fn events_change_between_real_objects_and_twins() {
        // Zeroed objects, of which only the pointers to each other are used.
        let mut cq = MaybeUninit::<ibv_cq>::zeroed();
        let mut cq_twin = MaybeUninit::<ibv_cq_1_0>::zeroed();
        let mut qp = MaybeUninit::<ibv_qp>::zeroed();
        let mut qp_twin = MaybeUninit::<ibv_qp_1_0>::zeroed();
        let mut srq = MaybeUninit::<ibv_srq>::zeroed();
        let mut srq_twin = MaybeUninit::<ibv_srq_1_0>::zeroed();
        // SAFETY: zeros are valid for all these structs.
        unsafe {
            (*cq.as_mut_ptr()).cq_context = cq_twin.as_mut_ptr().cast();
            (*cq_twin.as_mut_ptr()).real_cq = cq.as_mut_ptr();
            (*qp.as_mut_ptr()).qp_context = qp_twin.as_mut_ptr().cast();
            (*qp_twin.as_mut_ptr()).real_qp = qp.as_mut_ptr();
            (*srq.as_mut_ptr()).srq_context = srq_twin.as_mut_ptr().cast();
            (*srq_twin.as_mut_ptr()).real_srq = srq.as_mut_ptr();
        }
        let address = |subject| -> (*mut c_void, *mut c_void) {
            match subject {
                Some(Subject::Cq) => (
                    cq.as_ptr().cast_mut().cast(),
                    cq_twin.as_ptr().cast_mut().cast(),
                ),
                Some(Subject::Qp) => (
                    qp.as_ptr().cast_mut().cast(),
                    qp_twin.as_ptr().cast_mut().cast(),
                ),
                Some(Subject::Srq) => (
                    srq.as_ptr().cast_mut().cast(),
                    srq_twin.as_ptr().cast_mut().cast(),
                ),
                _ => (
                    ptr::without_provenance_mut(3),
                    ptr::without_provenance_mut(3),
                ),
            }
        };
        for (event_type, subject) in events() {
            let (real, twin) = address(subject);
            let element = ibv_async_event_element { cq: real.cast() };
            let mut event = ibv_async_event {
                element,
                event_type,
            };
            // SAFETY: the objects are alive, and real object and twin point to each other. All pointers of
            // the union are at the same place.
            unsafe {
                to_twin(&mut event);
                assert_eq!(event.element.cq.cast(), twin, "event {event_type}");
                to_real(&mut event);
                assert_eq!(event.element.cq.cast(), real, "event {event_type}");
            }
        }
    }

    #[test]
    fn a_channel_that_fails_leaves_the_programs_variables() {
        let mut channel = ibv_comp_channel {
            context: ptr::null_mut(),
            fd: -1,
            refcnt: 0,
        };
        let (mut cq, mut context) = (ptr::dangling_mut(), ptr::dangling_mut());
        // SAFETY: read() fails on the channel, and both variables are writable.
        let err = unsafe { ibv_get_cq_event_1_0(&raw mut channel, &raw mut cq, &raw mut context) };
        assert_eq!((err, Errno::last()), (-1, Errno(libc::EBADF)));
        assert_eq!((cq, context), (ptr::dangling_mut(), ptr::dangling_mut()));
    }
}
