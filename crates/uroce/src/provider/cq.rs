//! Completion queues.

use core::cell::UnsafeCell;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ibverbs_abi::*;
use libc::{EACCES, EINVAL, EOPNOTSUPP, c_int};
use parking_lot::RawMutex;
use parking_lot::lock_api::RawMutex as _;

use super::attributes::MAX_CQE;
use super::channel::Channel;
use super::context::{completion_vectors, part};
use super::cq_ex;
use super::object::{Answer, Object, Plain, Users, initialise, wait};
use super::pd::Pd;
use crate::device::Device;
use crate::device::completion::{CompletionQueue, CompletionQueueConfig, Entry};

/// Behind a completion queue.
pub struct CqPart {
    pub queue: Arc<CompletionQueue>,
    pub device: Arc<Device>,
    pub users: Users,
    /// Held from `ibv_start_poll` to `ibv_end_poll`, unless the program promises to be alone.
    pub polling: Option<RawMutex>,
    /// What `ibv_start_poll` or `ibv_next_poll` has found. Of the thread that polls.
    pub current: UnsafeCell<Option<Entry>>,
    parent_domain: *mut ibv_pd,
}

/// A completion queue, plain or extended.
pub type Cq = Object<verbs_cq, CqPart>;

/// The object behind a queue.
///
/// # Safety
/// `cq` is live, and not freed while the reference is used.
pub unsafe fn object<'a>(cq: *mut ibv_cq) -> &'a Cq {
    // SAFETY: by the contract; every queue of ours begins as an ibv_cq.
    unsafe { Cq::of(cq.cast()) }
}

struct Wanted {
    cqe: u32,
    channel: *mut ibv_comp_channel,
    comp_vector: u32,
    stamps: bool,
    flags: u32,
    parent_domain: *mut ibv_pd,
}

/// # Safety
/// The context is open, the channel NULL or live.
unsafe fn create(context: *mut ibv_context, wanted: Wanted) -> Answer<*mut verbs_cq> {
    // SAFETY: by the contract.
    let context_part = unsafe { part(context) };
    let device = context_part.check()?;
    if wanted.cqe == 0 || wanted.cqe > MAX_CQE || wanted.comp_vector >= completion_vectors() as u32
    {
        return Err(EINVAL);
    }
    let has = |flag| wanted.flags & flag != 0;
    // SAFETY: by the contract.
    let channel =
        unsafe { (!wanted.channel.is_null()).then(|| Channel::of(wanted.channel).events()) };
    let queue = CompletionQueue::new(CompletionQueueConfig {
        capacity: wanted.cqe as usize,
        channel,
        events: context_part.events.clone(),
        stamps: wanted.stamps,
        ignore_overrun: has(IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN),
    });
    if !wanted.parent_domain.is_null() {
        // SAFETY: a live domain, by the contract.
        unsafe { Pd::of(wanted.parent_domain) }.users.add();
    }
    let cq = Cq::make(
        verbs_cq::zeroed(),
        CqPart {
            queue: Arc::new(queue),
            device: device.clone(),
            users: Users::default(),
            polling: (!has(IBV_CREATE_CQ_ATTR_SINGLE_THREADED)).then_some(RawMutex::INIT),
            current: UnsafeCell::new(None),
            parent_domain: wanted.parent_domain,
        },
    );
    // SAFETY: just made, known to nobody else.
    unsafe {
        let public = &raw mut (*cq).u.cq;
        (*public).context = context;
        (*public).channel = wanted.channel;
        (*public).cqe = wanted.cqe as c_int;
        (*public).handle = device.next_number();
        initialise(&raw mut (*public).mutex, &raw mut (*public).cond);
        let handle = &Cq::of(cq).queue.handle;
        handle.store(cq.expose_provenance() as u64, Ordering::Relaxed);
    }
    Ok(cq)
}

/// # Safety
/// The op's contract: the context is open, the channel NULL or live.
pub unsafe fn create_cq(
    context: *mut ibv_context,
    cqe: c_int,
    channel: *mut ibv_comp_channel,
    comp_vector: c_int,
) -> Answer<*mut ibv_cq> {
    let wanted = Wanted {
        cqe: u32::try_from(cqe).map_err(|_| EINVAL)?,
        channel,
        comp_vector: u32::try_from(comp_vector).map_err(|_| EINVAL)?,
        stamps: false,
        flags: 0,
        parent_domain: core::ptr::null_mut(),
    };
    // SAFETY: by the contract.
    unsafe { create(context, wanted) }.map(|cq| cq.cast())
}

/// # Safety
/// The op's contract: the context is open, the attributes are readable and their objects live.
pub unsafe fn create_cq_ex(
    context: *mut ibv_context,
    attr: *mut ibv_cq_init_attr_ex,
) -> Answer<*mut ibv_cq_ex> {
    const MASK: u32 = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
    const FLAGS: u32 = IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
    const STAMPS: u32 =
        IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
    // SAFETY: by the contract.
    let attr = unsafe { &*attr };
    let has = |bit| attr.comp_mask & bit != 0;
    let flags = if has(IBV_CQ_INIT_ATTR_MASK_FLAGS) {
        attr.flags
    } else {
        0
    };
    if attr.comp_mask & !MASK != 0
        || flags & !FLAGS != 0
        || attr.wc_flags & !u64::from(cq_ex::FIELDS) != 0
    {
        return Err(EOPNOTSUPP);
    }
    let wanted = Wanted {
        cqe: attr.cqe,
        channel: attr.channel,
        comp_vector: attr.comp_vector,
        stamps: attr.wc_flags & u64::from(STAMPS) != 0,
        flags,
        parent_domain: if has(IBV_CQ_INIT_ATTR_MASK_PD) {
            attr.parent_domain
        } else {
            core::ptr::null_mut()
        },
    };
    // SAFETY: by the contract; the queue is new, and has room for all of an ibv_cq_ex.
    unsafe {
        let cq = create(context, wanted)?;
        let extended = &raw mut (*cq).u.cq_ex;
        cq_ex::fill(extended, attr.wc_flags as u32);
        Ok(extended)
    }
}

/// # Safety
/// The op's contract: the queue is live.
pub unsafe fn resize_cq(cq: *mut ibv_cq, cqe: c_int) -> Answer<()> {
    // SAFETY: by the contract.
    let object = unsafe { object(cq) };
    if cqe < 1 || cqe > MAX_CQE as c_int || !object.queue.resize(cqe as usize) {
        return Err(EINVAL);
    }
    // SAFETY: by the contract.
    unsafe { (*cq).cqe = cqe };
    Ok(())
}

/// # Safety
/// The op's contract: the queue is live, dead after success.
pub unsafe fn destroy_cq(cq: *mut ibv_cq) -> Answer<()> {
    // SAFETY: by the contract; nobody but the program's threads that acknowledge uses the queue when
    // it has no users.
    unsafe {
        let part = object(cq);
        part.users.check_none()?;
        if part.device.is_ours() {
            let (events, async_events) = part.queue.withdraw_events();
            wait(&raw mut (*cq).mutex, &raw mut (*cq).cond, || {
                (*cq).comp_events_completed == events
                    && (*cq).async_events_completed == async_events
            });
        }
        if !part.parent_domain.is_null() {
            Pd::of(part.parent_domain).users.remove();
        }
        Cq::free(cq.cast());
    }
    Ok(())
}

/// Arms the queue for one event.
pub unsafe extern "C" fn req_notify_cq(cq: *mut ibv_cq, solicited_only: c_int) -> c_int {
    // SAFETY: by the op's contract the queue is live.
    let part = unsafe { object(cq) };
    if !part.device.is_ours() {
        return EACCES;
    }
    part.queue.arm(solicited_only != 0);
    part.device.expect_event();
    0
}

/// What `ibv_wc` tells of a completion.
fn work_completion(entry: &Entry) -> ibv_wc {
    let done = &entry.completion;
    ibv_wc {
        wr_id: done.wr_id,
        status: done.status,
        opcode: done.opcode,
        vendor_err: done.vendor_err,
        byte_len: done.byte_len,
        imm: ibv_wc_imm {
            imm_data: done.imm_or_rkey,
        },
        qp_num: entry.qpn,
        src_qp: done.src_qpn,
        wc_flags: done.wc_flags,
        pkey_index: done.pkey_index,
        slid: 0,
        sl: 0,
        dlid_path_bits: 0,
    }
}

/// Takes completions; while there is none, makes progress.
pub unsafe extern "C" fn poll_cq(cq: *mut ibv_cq, num_entries: c_int, wc: *mut ibv_wc) -> c_int {
    // SAFETY: by the op's contract the queue is live.
    let part = unsafe { object(cq) };
    let Ok(max @ 1..) = usize::try_from(num_entries) else {
        return 0;
    };
    if !part.device.is_ours() {
        return -1;
    }
    let take = || {
        part.queue.take(max, |i, entry| {
            // SAFETY: by the op's contract there is room for `num_entries`.
            unsafe { wc.add(i).write(work_completion(entry)) };
        })
    };
    match take() {
        0 => {
            part.device.poll();
            take() as c_int
        }
        taken => taken as c_int,
    }
}

impl CqPart {
    /// The next completion; makes progress if there is none.
    pub fn next(&self) -> Option<Entry> {
        if !self.device.is_ours() {
            return None;
        }
        let take = || {
            let mut found = None;
            self.queue.take(1, |_, entry| found = Some(*entry));
            found
        };
        take().or_else(|| {
            self.device.poll();
            take()
        })
    }
}
