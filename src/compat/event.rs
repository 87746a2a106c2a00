//! Completion and asynchronous events: the library tells of real objects, the program hears of twins.

use core::ptr;

use libc::{c_int, c_uint, c_void};

use super::twin::forward;
use super::types::*;
use crate::abi::*;
use crate::verbs::{
    self,
    event::{Subject, subject},
};

/// Puts the twin for the real object of an event.
///
/// # Safety
///
/// The event's object lives, and this layer made it.
unsafe fn tell_twin(event: &mut ibv_async_event) {
    let element = &mut event.element;
    // SAFETY: the event's type says which member counts; the object lives, and its context is its
    // twin.
    unsafe {
        match subject(event.event_type) {
            Subject::Cq => element.cq = (*element.cq).cq_context.cast(),
            Subject::Qp => element.qp = (*element.qp).qp_context.cast(),
            Subject::Srq => element.srq = (*element.srq).srq_context.cast(),
            // A work queue has no twin: there were none.
            Subject::Wq | Subject::Port => {}
        }
    }
}

/// Puts the real object for the twin of an event.
///
/// # Safety
///
/// The event's object is a live twin.
unsafe fn tell_real(event: &mut ibv_async_event) {
    let element = &mut event.element;
    // SAFETY: the event's type says which member counts, and that is a live twin of that kind.
    unsafe {
        match subject(event.event_type) {
            Subject::Cq => element.cq = (*element.cq.cast::<ibv_cq_1_0>()).real_cq,
            Subject::Qp => element.qp = (*element.qp.cast::<ibv_qp_1_0>()).real_qp,
            Subject::Srq => element.srq = (*element.srq.cast::<ibv_srq_1_0>()).real_srq,
            // A work queue has no twin: there were none.
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
    // SAFETY: the context is open. The event is about one of its objects, which this layer made and
    // which cannot be destroyed before the event is acknowledged.
    unsafe {
        let err = verbs::event::ibv_get_async_event((*context).real_context, event);
        if err == 0 {
            tell_twin(&mut *event);
        }
        err
    }
}

/// Acknowledges an asynchronous event, which destroying its object waits for
/// (ibv_get_async_event(3)).
///
/// # Safety
///
/// `event` came from [`ibv_get_async_event_1_0`] and is not yet acknowledged.
pub unsafe extern "C" fn ibv_ack_async_event_1_0(event: *mut ibv_async_event) {
    // SAFETY: the event's twin lives until it is acknowledged. The program's event stays as it is.
    unsafe {
        let mut real = *event;
        tell_real(&mut real);
        verbs::event::ibv_ack_async_event(&raw mut real);
    }
}

/// Waits for an event of one of the channel's queues (ibv_get_cq_event(3)). Returns 0, or -1 with
/// errno set.
///
/// # Safety
///
/// `channel` is a live channel all of whose queues this layer made; `cq` and `cq_context` are
/// writable.
pub unsafe extern "C" fn ibv_get_cq_event_1_0(
    channel: *mut ibv_comp_channel,
    cq: *mut *mut ibv_cq_1_0,
    cq_context: *mut *mut c_void,
) -> c_int {
    let (mut real, mut twin) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: the channel lives; the event's queue does as well, since it cannot be destroyed before
    // the event is acknowledged, and its context is its twin.
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

    /// Every event there is, one that there is not yet, and the object that 1.0 knows it by.
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
        // Zeroed objects in which only the two pointers to each other count.
        let mut cq = MaybeUninit::<ibv_cq>::zeroed();
        let mut cq_twin = MaybeUninit::<ibv_cq_1_0>::zeroed();
        let mut qp = MaybeUninit::<ibv_qp>::zeroed();
        let mut qp_twin = MaybeUninit::<ibv_qp_1_0>::zeroed();
        let mut srq = MaybeUninit::<ibv_srq>::zeroed();
        let mut srq_twin = MaybeUninit::<ibv_srq_1_0>::zeroed();
        // SAFETY: objects of this test, of which only those pointers are used.
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
            // SAFETY: the objects live, and each pair knows each other; any member of the union is
            // as good as another for an address.
            unsafe {
                tell_twin(&mut event);
                assert_eq!(event.element.cq.cast(), twin, "event {event_type}");
                tell_real(&mut event);
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
        // SAFETY: a channel whose read fails, and two variables.
        let err = unsafe { ibv_get_cq_event_1_0(&raw mut channel, &raw mut cq, &raw mut context) };
        assert_eq!((err, Errno::last()), (-1, Errno(libc::EBADF)));
        assert_eq!((cq, context), (ptr::dangling_mut(), ptr::dangling_mut()));
    }
}
