//! Tests of CQs, completion channels and events with a mock provider.

use core::mem::MaybeUninit;
use core::ptr::{self, null_mut};

use libc::{EBUSY, EOPNOTSUPP, c_int};

use super::{RESULT, calls, free, note, object};
use crate::abi::*;
use crate::verbs::mock::Mock;
use crate::verbs::*;

/// A pipe in place of an event file: the end that the library reads, and the end that the test writes.
fn pipe() -> (c_int, c_int) {
    let mut fds = [-1; 2];
    // SAFETY: `fds` has room for two descriptors.
    assert_eq!(unsafe { libc::pipe(fds.as_mut_ptr()) }, 0);
    (fds[0], fds[1])
}

fn send<T>(fd: c_int, value: &T, len: usize) {
    // SAFETY: the tests pass no more than the value's size.
    let sent = unsafe { libc::write(fd, ptr::from_ref(value).cast(), len) };
    assert_eq!(sent, len as isize);
}

#[test]
fn queues_count_as_users_of_their_channel() {
    unsafe extern "C" fn create(
        _: *mut ibv_context,
        cqe: c_int,
        _: *mut ibv_comp_channel,
        vector: c_int,
    ) -> *mut ibv_cq {
        note(format!("create {cqe} {vector}"));
        object()
    }
    unsafe extern "C" fn create_ex(
        _: *mut ibv_context,
        _: *mut ibv_cq_init_attr_ex,
    ) -> *mut ibv_cq_ex {
        object()
    }
    unsafe extern "C" fn destroy(_: *mut ibv_cq) -> c_int {
        note("destroy".into())
    }
    unsafe extern "C" fn event(_: *mut ibv_cq) {
        note("event".into());
    }
    let mut mock = Mock::new();
    mock.ops().create_cq = create;
    mock.ops().create_cq_ex = create_ex;
    mock.ops().destroy_cq = destroy;
    mock.ops().cq_event = event;
    let (events, kernel) = pipe();
    let context = mock.context();
    let mine = ptr::without_provenance_mut(0x77);
    // SAFETY: the context is open; malloc allocates the channel, as the library does.
    let (channel, queue, extended) = unsafe {
        let channel = libc::malloc(size_of::<ibv_comp_channel>()).cast::<ibv_comp_channel>();
        channel.write(ibv_comp_channel {
            context,
            fd: events,
            refcnt: 0,
        });
        let queue = cq::ibv_create_cq(context, 3, mine, channel, 1);
        assert_eq!(((*queue).context, (*queue).channel), (context, channel));
        assert_eq!((*queue).cq_context, mine);
        let mut attr = MaybeUninit::<ibv_cq_init_attr_ex>::zeroed().assume_init();
        attr.channel = channel;
        attr.wc_flags = IBV_CREATE_CQ_SUP_WC_FLAGS.into();
        let extended = cq::lib_create_cq_ex(context, &mut attr);
        assert_eq!((*channel).refcnt, 2);
        attr.wc_flags += 1;
        assert!(cq::lib_create_cq_ex(context, &mut attr).is_null());
        assert_eq!(Errno::last(), Errno(EOPNOTSUPP));
        (channel, queue, extended)
    };
    // SAFETY: the channel and the CQ are alive.
    unsafe {
        let (mut of, mut of_context) = (null_mut(), null_mut());
        send(kernel, &(queue as u64), 8);
        assert_eq!(cq::ibv_get_cq_event(channel, &mut of, &mut of_context), 0);
        assert_eq!((of, of_context), (queue, mine));
        cq::ibv_ack_cq_events(queue, 2);
        assert_eq!((*queue).comp_events_completed, 2);
        send(kernel, &(queue as u64), 7);
        assert_eq!(cq::ibv_get_cq_event(channel, &mut of, &mut of_context), -1);
    }
    // SAFETY: the objects are alive, and none is used again after its destruction has succeeded.
    unsafe {
        RESULT.set(EBUSY);
        assert_eq!(cq::ibv_destroy_cq(queue), EBUSY);
        assert_eq!((*channel).refcnt, 2);
        RESULT.set(0);
        assert_eq!(cq::ibv_destroy_cq(queue), 0);
        free(queue);
        assert_eq!(comp_channel::ibv_destroy_comp_channel(channel), EBUSY);
        assert_eq!(cq::ibv_destroy_cq(extended.cast()), 0);
        free(extended);
        assert_eq!(comp_channel::ibv_destroy_comp_channel(channel), 0);
        // The channel's descriptor is closed.
        assert_eq!(libc::fcntl(events, libc::F_GETFD), -1);
        libc::close(kernel);
    }
    let all = ["create 3 1", "event", "destroy", "destroy", "destroy"];
    assert_eq!(calls(), all);
}

#[test]
fn asynchronous_events_find_their_objects() {
    unsafe extern "C" fn event(_: *mut ibv_context, event: *mut ibv_async_event) {
        // SAFETY: the library has filled in the event.
        note(format!("event {}", unsafe { (*event).event_type }));
    }
    let mut mock = Mock::new();
    mock.ops().async_event = event;
    let (events, kernel) = pipe();
    let context = mock.context();
    let mut desc = ib_uverbs_async_event_desc::default();
    let mut got = MaybeUninit::<ibv_async_event>::zeroed();
    macro_rules! check {
        ($event:ident $ty:ident $member:ident $counter:ident) => {{
            let about = object::<$ty>();
            super::sync::init(&raw mut (*about).mutex, &raw mut (*about).cond);
            desc.element = about as u64;
            desc.event_type = $event;
            send(kernel, &desc, 16);
            assert_eq!(event::ibv_get_async_event(context, got.as_mut_ptr()), 0);
            let got = got.assume_init_mut();
            assert_eq!((got.event_type, got.element.$member), ($event, about));
            event::ibv_ack_async_event(got);
            assert_eq!((*about).$counter, 1);
            free(about);
        }};
    }
    // SAFETY: the context is open and its event file is the test's pipe; the objects are alive, and the
    // library fills in the events before they are read.
    unsafe {
        (*context).async_fd = events;
        check!(IBV_EVENT_CQ_ERR ibv_cq cq async_events_completed);
        check!(IBV_EVENT_QP_FATAL ibv_qp qp events_completed);
        check!(IBV_EVENT_SRQ_LIMIT_REACHED ibv_srq srq events_completed);
        check!(IBV_EVENT_WQ_FATAL ibv_wq wq events_completed);
        desc.element = 2;
        desc.event_type = IBV_EVENT_PORT_ERR;
        send(kernel, &desc, 16);
        assert_eq!(event::ibv_get_async_event(context, got.as_mut_ptr()), 0);
        assert_eq!(got.assume_init_ref().element.port_num, 2);
        event::ibv_ack_async_event(got.as_mut_ptr());
        send(kernel, &desc, 15);
        assert_eq!(event::ibv_get_async_event(context, got.as_mut_ptr()), -1);
        libc::close(kernel);
        libc::close(events);
        assert_eq!(event::ibv_get_async_event(context, got.as_mut_ptr()), -1);
        assert_eq!(Errno::last(), Errno(libc::EBADF));
    }
    let all = ["event 0", "event 1", "event 15", "event 19", "event 10"];
    assert_eq!(calls(), all);
}
