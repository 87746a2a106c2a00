//! Completion queues as verbs: creating, polling, arming, changing, destroying.
//!
//! Not here: entries and events (`device/completion.rs`), creating and polling an extended queue
//! (`cq_ex.rs`).

use core::cell::UnsafeCell;
use std::sync::Arc;
use std::time::Duration;

use ibverbs_abi::*;
use libc::{EACCES, EINVAL, EOPNOTSUPP, c_int};

use super::channel::CompChannel;
use super::context::private;
use super::ffi::{Result, ReturnToC};
use super::handle;
use super::object::{Object, RefCount, Zeroable, init_event_lock, wait_until};
use super::pd::Pd;
use crate::cancellation;
use crate::device::Device;
use crate::device::completion::{CompletionQueue, CompletionQueueConfig, Cqe, Moderation};
use crate::device::events::CompletionEvents;
use crate::device::handles::{self, ObjectKind};
use crate::device::polled::PolledCompletions;
use crate::sync::{RawMutex, RawMutexApi as _};

/// The private part of a completion queue.
pub struct CqPrivate {
    /// The queue.
    pub queue: Arc<CompletionQueue>,
    /// The device that polling makes progress for.
    pub device: Arc<Device>,
    /// Queue pairs and shared receive queues that complete here.
    pub refs: RefCount,
    /// Locked from `ibv_start_poll` to `ibv_end_poll`. None for IBV_CREATE_CQ_ATTR_SINGLE_THREADED.
    pub polling: Option<RawMutex>,
    /// The entry that `ibv_start_poll` or `ibv_next_poll` has found. Only the thread that polls uses it.
    pub current: UnsafeCell<Option<Cqe>>,
    /// NULL if the queue was created without one.
    parent_domain: *mut ibv_pd,
}

/// A completion queue, plain or extended.
pub type Cq = Object<verbs_cq, CqPrivate>;

/// The object of an `ibv_cq`.
///
/// # Safety
/// `cq` is live, and not freed while the reference is used.
pub unsafe fn object<'a>(cq: *mut ibv_cq) -> &'a Cq {
    // SAFETY: the caller passes a live queue, whose public structure begins with the ibv_cq.
    unsafe { Cq::of(cq.cast()) }
}

/// The attributes that a queue is created with; `channel` and `parent_domain` may be NULL.
pub struct CqAttr {
    pub cqe: u32,
    pub channel: *mut ibv_comp_channel,
    pub comp_vector: u32,
    pub timestamps: bool,
    /// `IBV_CREATE_CQ_ATTR_*`.
    pub flags: u32,
    pub parent_domain: *mut ibv_pd,
}

/// Creates a queue, plain or extended.
///
/// # Safety
/// `context` is open; channel and parent domain are NULL or readable.
pub unsafe fn create(context: *mut ibv_context, attr: CqAttr) -> Result<*mut verbs_cq> {
    // SAFETY: the caller passes an open context.
    let context_private = unsafe { private(context) };
    let device = context_private.check()?;
    let profile = &device.profile;
    let too_many = attr.cqe > profile.limits.max_cqe;
    if attr.cqe == 0 || too_many || attr.comp_vector >= device.completion_vectors {
        return Err(Errno(EINVAL));
    }
    if attr.timestamps && profile.timestamp_mask == 0 {
        return Err(Errno(EOPNOTSUPP));
    }
    let has = |flag| attr.flags & flag != 0;
    // SAFETY: what is not NULL is readable, and the parent domain is checked before it is used.
    let channel = unsafe {
        handle::check_optional(attr.parent_domain, context)?;
        channel_events(attr.channel, context)?
    };
    let reserved = handle::reserve(device, ObjectKind::Cq)?;
    let room = Cq::room()?;
    let queue = CompletionQueue::new(CompletionQueueConfig {
        handle: reserved.handle().into(),
        capacity: attr.cqe as usize,
        channel,
        events: context_private.events.clone(),
        timestamps: attr.timestamps,
        ignore_overrun: has(IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN),
    });
    if !attr.parent_domain.is_null() {
        // SAFETY: a parent domain that is not NULL is live.
        unsafe { Pd::of(attr.parent_domain) }.refs.acquire();
    }
    let cq = room.fill(
        verbs_cq::zeroed(),
        CqPrivate {
            queue: Arc::new(queue),
            device: device.clone(),
            refs: RefCount::default(),
            polling: (!has(IBV_CREATE_CQ_ATTR_SINGLE_THREADED)).then_some(RawMutex::INIT),
            current: UnsafeCell::new(None),
            parent_domain: attr.parent_domain,
        },
    );
    // SAFETY: allocated above, and known to nobody else.
    unsafe {
        let public = &raw mut (*cq).u.cq;
        (*public).context = context;
        (*public).channel = attr.channel;
        (*public).cqe = attr.cqe as c_int;
        (*public).handle = reserved.handle();
        init_event_lock(&raw mut (*public).mutex, &raw mut (*public).cond);
    }
    handle::publish(reserved, ObjectKind::Cq, cq, context);
    Ok(cq)
}

/// The event queue of a channel; None for NULL. EINVAL for a channel of another context.
///
/// # Safety
/// `channel` is NULL or live.
unsafe fn channel_events(
    channel: *mut ibv_comp_channel,
    context: *mut ibv_context,
) -> Result<Option<Arc<CompletionEvents>>> {
    if channel.is_null() {
        return Ok(None);
    }
    // SAFETY: not NULL, so live. It is used as one of uroce's only if its context is.
    unsafe {
        if (*channel).context != context {
            return Err(Errno(EINVAL));
        }
        Ok(Some(CompChannel::of(channel).events.clone()))
    }
}

/// # Safety
/// `context` is open, `channel` NULL or live.
pub unsafe fn create_cq(
    context: *mut ibv_context,
    cqe: c_int,
    channel: *mut ibv_comp_channel,
    comp_vector: c_int,
) -> Result<*mut ibv_cq> {
    let attr = CqAttr {
        cqe: u32::try_from(cqe).map_err(|_| Errno(EINVAL))?,
        channel,
        comp_vector: u32::try_from(comp_vector).map_err(|_| Errno(EINVAL))?,
        timestamps: false,
        flags: 0,
        parent_domain: core::ptr::null_mut(),
    };
    // SAFETY: the caller passes an open context and a channel that is NULL or live.
    unsafe { create(context, attr) }.map(|cq| cq.cast())
}

/// EINVAL for a size out of range, or smaller than the number of entries in the queue.
///
/// # Safety
/// `cq` is live.
pub unsafe fn resize_cq(cq: *mut ibv_cq, cqe: c_int) -> Result<()> {
    // SAFETY: the caller passes a readable queue, which is used further if it is live.
    let object = unsafe {
        handle::check(cq)?;
        object(cq)
    };
    object.check()?;
    let max_cqe = object.device.profile.limits.max_cqe as c_int;
    if cqe < 1 || cqe > max_cqe || !object.queue.resize(cqe as usize) {
        return Err(Errno(EINVAL));
    }
    // SAFETY: `cq` is live.
    unsafe { (*cq).cqe = cqe };
    Ok(())
}

/// Fails with EBUSY while an object uses the queue. Blocks until the program has acknowledged the queue's
/// events that it has read.
///
/// # Safety
/// `cq` is live; after success it is freed.
pub unsafe fn destroy_cq(cq: *mut ibv_cq) -> Result<()> {
    // SAFETY: the caller passes a live queue. It has no references, so only threads that acknowledge its
    // events use it until then; its own reference keeps its parent domain live.
    unsafe {
        handle::check(cq)?;
        let private = object(cq);
        private.refs.ensure_unused()?;
        let handle = handle::claim(cq)?;
        if private.device.owned_by_this_process() {
            let read = private.queue.close_events();
            wait_until(&raw mut (*cq).mutex, &raw mut (*cq).cond, || {
                (*cq).comp_events_completed == read.completion
                    && (*cq).async_events_completed == read.asynchronous
            });
        }
        if !private.parent_domain.is_null() {
            Pd::of(private.parent_domain).refs.release();
        }
        handles::remove(handle);
        Cq::free(cq.cast());
    }
    Ok(())
}

/// How many completions the program has not polled.
///
/// # Safety
/// `cq` is live.
pub unsafe fn unread(cq: *mut ibv_cq) -> usize {
    // SAFETY: the caller passes a live queue.
    unsafe { object(cq) }.queue.len()
}

/// The request and the status of the oldest completion of a queue pair that the program has not polled and
/// that reports an error, other than that it was flushed.
///
/// # Safety
/// `cq` is live.
pub unsafe fn unread_failure(cq: *mut ibv_cq, qpn: u32) -> Option<(u64, u32)> {
    // SAFETY: the caller passes a live queue.
    let failure = unsafe { object(cq) }.queue.first_failure(qpn)?;
    Some((failure.wr_id, failure.status))
}

/// Sets the moderation of a queue: its events wait for completions. EOPNOTSUPP for other attributes, and if
/// the device has no moderation; EINVAL for values beyond the device's.
///
/// # Safety
/// `cq` is live, `attr` readable.
pub unsafe fn modify_cq(cq: *mut ibv_cq, attr: *mut ibv_modify_cq_attr) -> Result<()> {
    // SAFETY: the caller passes readable attributes and a readable queue, which is used further if it is
    // live.
    let (object, attr) = unsafe {
        handle::check(cq)?;
        (object(cq), &*attr)
    };
    if !object.device.owned_by_this_process() {
        return Err(Errno(EACCES));
    }
    let limits = &object.device.profile.limits;
    if attr.attr_mask != IBV_CQ_ATTR_MODERATE || limits.max_cq_count == 0 {
        return Err(Errno(EOPNOTSUPP));
    }
    let ibv_moderate_cq {
        cq_count,
        cq_period,
    } = attr.moderate;
    if u32::from(cq_count) > limits.max_cq_count || u32::from(cq_period) > limits.max_cq_period {
        return Err(Errno(EINVAL));
    }
    let moderation = Moderation {
        count: cq_count,
        period: Duration::from_micros(cq_period.into()),
    };
    object.device.moderate(&object.queue, moderation);
    Ok(())
}

/// Arms the queue for one completion event. EACCES in a child of the process that created it.
pub unsafe extern "C" fn req_notify_cq(cq: *mut ibv_cq, solicited_only: c_int) -> c_int {
    // SAFETY: the caller passes a live queue.
    let private = unsafe { object(cq) };
    if !private.device.owned_by_this_process() {
        return Result::<()>::Err(Errno(EACCES)).return_to_c();
    }
    private.queue.arm(solicited_only != 0);
    private.device.expect_event();
    0
}

/// The `ibv_wc` of an entry.
fn work_completion(cqe: &Cqe) -> ibv_wc {
    let completion = &cqe.completion;
    ibv_wc {
        wr_id: completion.wr_id,
        status: completion.status,
        opcode: completion.opcode,
        vendor_err: 0,
        byte_len: completion.byte_len,
        imm: ibv_wc_imm {
            imm_data: completion.imm_or_rkey,
        },
        qp_num: cqe.qpn,
        src_qp: completion.src_qpn,
        wc_flags: completion.wc_flags,
        pkey_index: completion.pkey_index,
        slid: 0,
        sl: completion.sl,
        dlid_path_bits: 0,
    }
}

/// Reports up to `num_entries` completions and returns their number. If there is none, makes progress
/// once before. Returns -1 in a child of the process that created the queue.
pub unsafe extern "C" fn poll_cq(cq: *mut ibv_cq, num_entries: c_int, wc: *mut ibv_wc) -> c_int {
    // SAFETY: the caller passes a live queue.
    let private = unsafe { object(cq) };
    let Ok(max @ 1..) = usize::try_from(num_entries) else {
        return 0;
    };
    if !private.device.owned_by_this_process() {
        return -1;
    }
    let write = |i: usize, cqe: &Cqe| {
        // SAFETY: the caller's array has `num_entries` elements, and `i` is less than that.
        unsafe { wc.add(i).write(work_completion(cqe)) };
    };
    let polled = private.queue.poll(max, write);
    if polled > 0 {
        return polled as c_int;
    }
    let mut polled = PolledCompletions::new(&private.queue, max);
    private.device.poll(&mut polled);
    let taken = polled.pass_on(&private.queue, write);
    let polled = taken
        + private
            .queue
            .poll(max - taken, |i, cqe| write(taken + i, cqe));
    if polled == 0 {
        cancellation::point();
    }
    polled as c_int
}

impl CqPrivate {
    /// EACCES in a child of the process that created the queue.
    pub fn check(&self) -> Result<()> {
        if self.device.owned_by_this_process() {
            Ok(())
        } else {
            Err(Errno(EACCES))
        }
    }

    /// Removes the next entry. If there is none, makes progress once before. None in a child of the
    /// process that created the queue.
    pub fn next(&self) -> Option<Cqe> {
        if !self.device.owned_by_this_process() {
            return None;
        }
        let poll_queue = || {
            let mut next = None;
            self.queue.poll(1, |_, cqe| next = Some(*cqe));
            next
        };
        poll_queue().or_else(|| {
            let mut polled = PolledCompletions::new(&self.queue, 1);
            self.device.poll(&mut polled);
            let mut next = None;
            polled.pass_on(&self.queue, |_, cqe| next = Some(*cqe));
            next.or_else(poll_queue)
        })
    }
}
