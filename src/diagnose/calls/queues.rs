//! Wrappers of the verbs of CQs, SRQs and events, and of closing the device.
//!
//! Not here: posting and polling (`data.rs`), the rules (`check`, `shadow`).

use core::ffi::c_int;
use std::thread::sleep;
use std::time::Duration;

use ibverbs_abi::*;

use super::super::check::memory::{self, Size};
use super::super::finding::{Kind, Outcome};
use super::super::originals::original;
use super::super::shadow::{Cq, Shadow, Srq};
use super::super::{cm, facts};
use super::{check_process, observe, poll_ex, preserving_errno, with};
use crate::provider::event::{Subject, subject};
use crate::uverbs::state::state;

/// How long another thread may take to acknowledge events, before a destruction that blocks is reported.
const ACKNOWLEDGED_WITHIN: Duration = Duration::from_millis(500);
const STEP: Duration = Duration::from_millis(10);

pub unsafe extern "C" fn create_cq(
    context: *mut ibv_context,
    cqe: c_int,
    channel: *mut ibv_comp_channel,
    comp_vector: c_int,
) -> *mut ibv_cq {
    check_process(context, "ibv_create_cq");
    // SAFETY: the context is open and wrapped (see the module above).
    let cq = unsafe { (original(context).create_cq)(context, cqe, channel, comp_vector) };
    // SAFETY: the queue is NULL or new; the channel is NULL or alive.
    unsafe { cq_created(context, cq, cqe as u32, channel, false, "ibv_create_cq") };
    cq
}

pub unsafe extern "C" fn create_cq_ex(
    context: *mut ibv_context,
    attr: *mut ibv_cq_init_attr_ex,
) -> *mut ibv_cq_ex {
    check_process(context, "ibv_create_cq_ex");
    // SAFETY: the program's attributes are readable up to `comp_mask`, and further as that says. The context
    // is open and wrapped (see the module above).
    unsafe {
        let (cqe, channel, wc_flags) = ((*attr).cqe, (*attr).channel, (*attr).wc_flags);
        let flags = match (*attr).comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS {
            0 => 0,
            _ => (*attr).flags,
        };
        let cq = (original(context).create_cq_ex)(context, attr);
        let single_threaded = flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED != 0;
        let call = "ibv_create_cq_ex";
        cq_created(context, cq.cast(), cqe, channel, single_threaded, call);
        if !cq.is_null() {
            poll_ex::wrap(cq, wc_flags);
        }
        cq
    }
}

/// # Safety
/// `cq` is NULL or new, `channel` NULL or alive.
unsafe fn cq_created(
    context: *mut ibv_context,
    cq: *mut ibv_cq,
    asked: u32,
    channel: *mut ibv_comp_channel,
    single_threaded: bool,
    call: &'static str,
) {
    let outcome = Outcome::of_pointer(cq.is_null());
    if cq.is_null() {
        // SAFETY: the context is open and wrapped.
        unsafe {
            too_large(context, call, outcome, |device| {
                vec![cqe_size(asked, device)]
            })
        };
        return;
    }
    // SAFETY: the queue and the channel are alive, as the caller promises.
    let (entries, fd) = unsafe {
        let fd = channel.as_ref().map_or(-1, |channel| channel.fd);
        ((*cq).cqe as u32, fd)
    };
    let channel = (channel as usize, fd);
    let new = Cq::new(context as usize, entries, channel, single_threaded);
    with(|shadow| shadow.add_cq(cq as usize, new));
}

fn cqe_size(asked: u32, device: &ibv_device_attr) -> Size {
    Size {
        member: "cqe",
        asked: asked.into(),
        limit: device.max_cqe as u64,
    }
}

/// Says which of the sizes is over the device's limit, after a creation that failed.
///
/// # Safety
/// `context` is open and wrapped.
pub unsafe fn too_large(
    context: *mut ibv_context,
    call: &'static str,
    outcome: Outcome,
    sizes: impl FnOnce(&ibv_device_attr) -> Vec<Size>,
) {
    // SAFETY: the context is open and wrapped, as the caller promises.
    let device = preserving_errno(|| unsafe { facts::device(context) });
    if let Some(device) = device {
        observe(|shadow| {
            let object = shadow.devices.object(context as usize);
            memory::over_limit(&sizes(&device), &object, call, &outcome)
        });
    }
}

/// Reports events of an object that are not acknowledged, so that its destruction blocks. Other threads get
/// some time to acknowledge them. `acknowledged` reads the object's two counters.
pub fn report_unacknowledged(
    kind: Kind,
    address: usize,
    call: &'static str,
    acknowledged: impl Fn() -> (u32, u32),
) {
    let missing = || {
        let received = with(|shadow| shadow.events_of(kind, address)).unwrap_or_default();
        let done = acknowledged();
        let rest = |received: u64, done: u32| match (received as u32).wrapping_sub(done) {
            // More acknowledged than were seen here.
            rest if rest > u32::MAX / 2 => 0,
            rest => u64::from(rest),
        };
        (rest(received.0, done.0), rest(received.1, done.1))
    };
    let received = with(|shadow| shadow.events_of(kind, address)).unwrap_or_default();
    let done = acknowledged();
    let excess = |received: u64, done: u32| match done.wrapping_sub(received as u32) {
        excess if excess > u32::MAX / 2 => 0,
        excess => excess,
    };
    let excess = excess(received.0, done.0).max(excess(received.1, done.1));
    if excess > 0 {
        observe(|shadow| {
            let mut found = shadow.acknowledged_too_often(kind, address, call, excess);
            found
                .notes
                .extend(unacknowledged_elsewhere(shadow, address));
            Some(found)
        });
    }
    let mut waited = Duration::ZERO;
    while missing() != (0, 0) && waited < ACKNOWLEDGED_WITHIN {
        preserving_errno(|| {
            let _not_cancelled = disable_cancellation();
            sleep(STEP);
        });
        waited += STEP;
    }
    let missing = missing();
    observe(|shadow| {
        let mut found = shadow.unacknowledged(kind, address, call, missing);
        if let Some(first) = found.first_mut().filter(|_| missing.0 > 0) {
            first.notes.extend(acknowledged_elsewhere(shadow, address));
        }
        found
    });
}

/// Finds another CQ of the same channel for which `by` returns more than 0, given the numbers of its events
/// that were received and that were acknowledged. Returns it with that number.
fn miscounted(shadow: &Shadow, address: usize, by: fn(u32, u32) -> u32) -> Option<(usize, u32)> {
    let channel = shadow.cqs.get(&address)?.channel;
    let of_channel = shadow.cqs.of_channel(channel);
    let mut others = of_channel.filter(|(at, _)| **at != address && channel != 0);
    others.find_map(|(at, cq)| {
        let other = core::ptr::with_exposed_provenance::<ibv_cq>(*at);
        // SAFETY: a CQ that the shadow knows is not destroyed while its lock is held, as here.
        let done = unsafe { (&raw const (*other).comp_events_completed).read_volatile() };
        let count = by(cq.events().0 as u32, done);
        (1..u32::MAX / 2).contains(&count).then_some((*at, count))
    })
}

/// Names another CQ of the same channel of which more events are acknowledged than were received.
fn acknowledged_elsewhere(shadow: &Shadow, address: usize) -> Option<String> {
    let (at, excess) = miscounted(shadow, address, |came, done| done.wrapping_sub(came))?;
    Some(format!(
        "of the CQ {at:#x}, which has the same channel, {excess} events more were acknowledged than came: \
         pass the CQ that ibv_get_cq_event returned with each event"
    ))
}

/// Names another CQ of the same channel of which an event is not acknowledged.
fn unacknowledged_elsewhere(shadow: &Shadow, address: usize) -> Option<String> {
    let (at, _) = miscounted(shadow, address, |came, done| came.wrapping_sub(done))?;
    Some(format!(
        "an event of the CQ {at:#x}, which has the same channel, was not acknowledged: pass the CQ that \
         ibv_get_cq_event returned with each event"
    ))
}

pub unsafe extern "C" fn destroy_cq(cq: *mut ibv_cq) -> c_int {
    let address = cq as usize;
    // SAFETY: the object is alive (see the module above).
    check_process(unsafe { (*cq).context }, "ibv_destroy_cq");
    report_unacknowledged(Kind::Cq, address, "ibv_destroy_cq", || {
        // SAFETY: the queue is alive (see the module above); its counters are aligned and readable.
        unsafe {
            (
                (&raw const (*cq).comp_events_completed).read_volatile(),
                (&raw const (*cq).async_events_completed).read_volatile(),
            )
        }
    });
    let fd = with(|shadow| shadow.cqs.get(&address).map_or(-1, |cq| cq.channel_fd));
    let readable = preserving_errno(|| facts::is_readable(fd.unwrap_or(-1)));
    observe(|shadow| shadow.cqs.destroying(address, readable));
    observe(|shadow| cm::order::destroying(shadow, Kind::Cq, address, "ibv_destroy_cq"));
    let taken = with(|shadow| shadow.cqs.take(address)).flatten();
    let polls = poll_ex::POLL_OPS.take(address);
    // SAFETY: the queue is alive, and its context is open and wrapped (see the module above).
    let ret = unsafe { (original((*cq).context).destroy_cq)(cq) };
    let outcome = Outcome::of(ret);
    poll_ex::POLL_OPS.put_back(address, polls.filter(|_| outcome.failed()));
    observe(|shadow| {
        if !outcome.failed() {
            shadow.destroyed(Kind::Cq, address);
            return None;
        }
        if let Some(cq) = taken {
            shadow.add_cq(address, cq);
        }
        shadow.busy(Kind::Cq, address, "ibv_destroy_cq", outcome)
    });
    ret
}

pub unsafe extern "C" fn resize_cq(cq: *mut ibv_cq, cqe: c_int) -> c_int {
    // SAFETY: the queue is alive, and its context is open and wrapped (see the module above).
    let (ret, entries) = unsafe {
        let ret = (original((*cq).context).resize_cq)(cq, cqe);
        (ret, (*cq).cqe as u32)
    };
    with(|shadow| {
        shadow.cqs.change(cq as usize, |cq| cq.entries = entries);
    });
    ret
}

pub unsafe extern "C" fn modify_cq(cq: *mut ibv_cq, attr: *mut ibv_modify_cq_attr) -> c_int {
    // SAFETY: the queue is alive, and its context is open and wrapped (see the module above).
    let ret = unsafe { (original((*cq).context).modify_cq)(cq, attr) };
    // SAFETY: the program's attributes are readable: the call has read them.
    let asked = (ret == 0).then(|| unsafe { *attr });
    if let Some(attr) = asked.filter(|attr| attr.attr_mask & IBV_CQ_ATTR_MODERATE != 0) {
        let moderation = (attr.moderate.cq_count, attr.moderate.cq_period);
        with(|shadow| {
            shadow
                .cqs
                .change(cq as usize, |cq| cq.moderation = moderation)
        });
    }
    ret
}

pub unsafe extern "C" fn req_notify_cq(cq: *mut ibv_cq, solicited_only: c_int) -> c_int {
    // SAFETY: the queue is alive, and its context is open and wrapped (see the module above).
    let ret = unsafe { (original((*cq).context).req_notify_cq)(cq, solicited_only) };
    if ret == 0 {
        observe(|shadow| shadow.armed(cq as usize, solicited_only != 0));
    }
    ret
}

pub unsafe extern "C" fn cq_event(cq: *mut ibv_cq) {
    // SAFETY: the queue is alive, and its context is open and wrapped (see the module above).
    unsafe { (original((*cq).context).cq_event)(cq) };
    observe(|shadow| shadow.cqs.completion_event(cq as usize));
}

pub unsafe extern "C" fn async_event(context: *mut ibv_context, event: *mut ibv_async_event) {
    // SAFETY: the library passes an event that it has filled in. The context is open and wrapped (see the
    // module above). All pointers of the union are at the same place.
    let (kind, element) = unsafe {
        (original(context).async_event)(context, event);
        ((*event).event_type, (*event).element.cq as usize)
    };
    let of = match subject(kind) {
        Subject::Cq => Kind::Cq,
        Subject::Qp => Kind::Qp,
        Subject::Srq => Kind::Srq,
        Subject::Wq => return,
        Subject::Port => {
            return observe(|shadow| shadow.async_event(Kind::Context, context as usize, kind));
        }
    };
    observe(|shadow| shadow.async_event(of, element, kind));
}

pub unsafe extern "C" fn create_srq(pd: *mut ibv_pd, attr: *mut ibv_srq_init_attr) -> *mut ibv_srq {
    // SAFETY: the program's attributes are readable. The domain is alive, and its context is open and
    // wrapped (see the module above).
    unsafe {
        let (context, asked) = ((*pd).context, (*attr).attr);
        check_process(context, "ibv_create_srq");
        let srq = (original(context).create_srq)(pd, attr);
        srq_created(context, pd, srq, asked, (*attr).attr, "ibv_create_srq");
        srq
    }
}

pub unsafe extern "C" fn create_srq_ex(
    context: *mut ibv_context,
    attr: *mut ibv_srq_init_attr_ex,
) -> *mut ibv_srq {
    check_process(context, "ibv_create_srq_ex");
    // SAFETY: the program's attributes are readable, as far as their mask says. The context is open and
    // wrapped (see the module above).
    unsafe {
        let asked = (*attr).attr;
        let srq = (original(context).create_srq_ex)(context, attr);
        let pd = match (*attr).comp_mask & IBV_SRQ_INIT_ATTR_PD {
            0 => core::ptr::null_mut(),
            _ => (*attr).pd,
        };
        srq_created(context, pd, srq, asked, (*attr).attr, "ibv_create_srq_ex");
        srq
    }
}

/// # Safety
/// `context` is open and wrapped.
unsafe fn srq_created(
    context: *mut ibv_context,
    pd: *mut ibv_pd,
    srq: *mut ibv_srq,
    asked: ibv_srq_attr,
    has: ibv_srq_attr,
    call: &'static str,
) {
    let outcome = Outcome::of_pointer(srq.is_null());
    if srq.is_null() {
        let size = |member, asked: u32, limit: c_int| Size {
            member,
            asked: asked.into(),
            limit: limit as u64,
        };
        let sizes = |device: &ibv_device_attr| {
            vec![
                size("attr.max_wr", asked.max_wr, device.max_srq_wr),
                size("attr.max_sge", asked.max_sge, device.max_srq_sge),
            ]
        };
        // SAFETY: the context is open and wrapped, as the caller promises.
        unsafe { too_large(context, call, outcome, sizes) };
        return;
    }
    let new = Srq {
        context: context as usize,
        pd: pd as usize,
        max: has.max_wr,
        max_sge: has.max_sge,
        ..Srq::default()
    };
    with(|shadow| shadow.srqs.add(srq as usize, new));
}

pub unsafe extern "C" fn modify_srq(
    srq: *mut ibv_srq,
    attr: *mut ibv_srq_attr,
    mask: c_int,
) -> c_int {
    // SAFETY: the queue is alive, and its context is open and wrapped (see the module above). The program's
    // attributes are readable.
    let (ret, limit) = unsafe {
        let ret = (original((*srq).context).modify_srq)(srq, attr, mask);
        (ret, (*attr).srq_limit)
    };
    with(|shadow| {
        let known = shadow.srqs.get_mut(&(srq as usize));
        if let Some(known) = known.filter(|_| ret == 0 && mask as u32 & IBV_SRQ_LIMIT != 0) {
            known.limit = limit;
        }
    });
    ret
}

pub unsafe extern "C" fn destroy_srq(srq: *mut ibv_srq) -> c_int {
    let address = srq as usize;
    // SAFETY: the object is alive (see the module above).
    let context = unsafe { (*srq).context };
    check_process(context, "ibv_destroy_srq");
    // The thread that acknowledges the events may create an SRQ first.
    // SAFETY: the context is open (see the module above).
    unsafe { state(context) }.srq_lock.unlocked(|| {
        report_unacknowledged(Kind::Srq, address, "ibv_destroy_srq", || {
            // SAFETY: the queue is alive (see the module above); its counter is aligned and readable.
            unsafe { (0, (&raw const (*srq).events_completed).read_volatile()) }
        });
    });
    let taken = with(|shadow| shadow.srqs.take(address)).flatten();
    // SAFETY: the queue is alive, and its context is open and wrapped (see the module above).
    let ret = unsafe { (original(context).destroy_srq)(srq) };
    let outcome = Outcome::of(ret);
    observe(|shadow| {
        if !outcome.failed() {
            shadow.destroyed(Kind::Srq, address);
            return None;
        }
        if let Some(srq) = taken {
            shadow.srqs.add(address, srq);
        }
        shadow.busy(Kind::Srq, address, "ibv_destroy_srq", outcome)
    });
    ret
}

pub unsafe extern "C" fn free_context(context: *mut ibv_context) {
    observe(|shadow| shadow.closed(context as usize));
    // SAFETY: the context is open and wrapped (see the module above).
    unsafe { (original(context).free_context)(context) };
}
