//! Completion counters as verbs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ibverbs_abi::*;
use libc::{EBUSY, EINVAL, EOPNOTSUPP};

use super::context::private;
use super::ffi::Result;
use super::object::Object;
use super::{handle, qp};
use crate::device::completion_counter::{AlreadyCounted, COUNTED_OPS, CompletionCounter, Unit};
use crate::device::handles::{self, ObjectKind};
use roce::engine::QpState;

/// A completion counter.
pub type CompCntr = Object<ibv_comp_cntr, Arc<CompletionCounter>>;

/// Reports the limits, as many of them as fit in `caps_size` bytes; the library has set all to 0. EOPNOTSUPP
/// if the device has no counters.
///
/// # Safety
/// `context` is open, and `caps_size` bytes at `caps` are writable.
pub unsafe fn query_comp_cntr_caps(
    context: *mut ibv_context,
    caps: *mut ibv_comp_cntr_caps,
    caps_size: usize,
) -> Result<()> {
    // SAFETY: the caller passes an open context.
    let device = unsafe { private(context) }.check()?;
    let max_counters = device.profile.limits.max_comp_cntr;
    if max_counters == 0 {
        return Err(Errno(EOPNOTSUPP));
    }
    let all = ibv_comp_cntr_caps {
        max_value: u64::MAX,
        max_counters,
        supported_qp_attach_ops: COUNTED_OPS,
    };
    let known = caps_size.min(size_of::<ibv_comp_cntr_caps>());
    // SAFETY: the caller passes `caps_size` writable bytes, and `all` has `known` bytes.
    unsafe { core::ptr::copy_nonoverlapping((&raw const all).cast::<u8>(), caps.cast(), known) };
    Ok(())
}

/// EOPNOTSUPP for attributes and types that do not exist, and if the device has no counters; ENOMEM beyond
/// its limit.
///
/// # Safety
/// `context` is open, `attr` readable.
pub unsafe fn create_comp_cntr(
    context: *mut ibv_context,
    attr: *mut ibv_comp_cntr_init_attr,
) -> Result<*mut ibv_comp_cntr> {
    // SAFETY: the caller passes an open context and readable attributes.
    let (device, attr) = unsafe { (private(context).check()?, &*attr) };
    let unit = match attr.type_ {
        IBV_COMP_CNTR_TYPE_WRS => Unit::WorkRequests,
        IBV_COMP_CNTR_TYPE_BYTES => Unit::Bytes,
        _ => return Err(Errno(EOPNOTSUPP)),
    };
    if attr.comp_mask != 0 || attr.flags != 0 || device.profile.limits.max_comp_cntr == 0 {
        return Err(Errno(EOPNOTSUPP));
    }
    let reserved = handle::reserve(device, ObjectKind::CompCntr)?;
    let public = ibv_comp_cntr {
        context,
        handle: reserved.handle(),
    };
    let counter = Arc::new(CompletionCounter::new(unit));
    let counter = CompCntr::room()?.fill(public, counter);
    handle::publish(reserved, ObjectKind::CompCntr, counter, context);
    Ok(counter)
}

/// Fails with EBUSY while the counter is attached to a queue pair.
///
/// # Safety
/// `counter` is readable; after success it is freed.
pub unsafe fn destroy_comp_cntr(counter: *mut ibv_comp_cntr) -> Result<()> {
    // SAFETY: the caller passes a readable counter, which is used further if it is live. The queue pairs of
    // a parent process are no longer known in a child.
    unsafe {
        handle::check(counter)?;
        let owned = private((*counter).context).check().is_ok();
        if owned && CompCntr::of(counter).is_attached() {
            return Err(Errno(EBUSY));
        }
        handles::remove(handle::claim(counter)?);
        CompCntr::free(counter);
    }
    Ok(())
}

/// Calls `call` with the counter. ENOENT if it does not exist; EACCES in a child of the process that created
/// it, which has a copy.
///
/// # Safety
/// `counter` is readable.
unsafe fn with<T>(
    counter: *mut ibv_comp_cntr,
    call: impl FnOnce(&CompletionCounter) -> T,
) -> Result<T> {
    // SAFETY: the caller passes a readable counter, which is used further if it is live; its context is open
    // then.
    unsafe {
        handle::check(counter)?;
        private((*counter).context).check()?;
        Ok(call(CompCntr::of(counter)))
    }
}

fn add(count: &AtomicU64, amount: u64) {
    // Wraps around, as the largest value is the type's.
    count.fetch_add(amount, Ordering::Relaxed);
}

/// Sets the count of operations that have succeeded.
///
/// # Safety
/// `counter` is readable. The same holds for the functions below.
pub unsafe fn set_comp_cntr(counter: *mut ibv_comp_cntr, value: u64) -> Result<()> {
    // SAFETY: as the caller says.
    unsafe {
        with(counter, |counter| {
            counter.succeeded.store(value, Ordering::Relaxed)
        })
    }
}

/// Sets the count of operations that have failed.
///
/// # Safety
/// As for [`set_comp_cntr`].
pub unsafe fn set_err_comp_cntr(counter: *mut ibv_comp_cntr, value: u64) -> Result<()> {
    // SAFETY: as the caller says.
    unsafe {
        with(counter, |counter| {
            counter.failed.store(value, Ordering::Relaxed)
        })
    }
}

/// Adds to the count of operations that have succeeded.
///
/// # Safety
/// As for [`set_comp_cntr`].
pub unsafe fn inc_comp_cntr(counter: *mut ibv_comp_cntr, amount: u64) -> Result<()> {
    // SAFETY: as the caller says.
    unsafe { with(counter, |counter| add(&counter.succeeded, amount)) }
}

/// Adds to the count of operations that have failed.
///
/// # Safety
/// As for [`set_comp_cntr`].
pub unsafe fn inc_err_comp_cntr(counter: *mut ibv_comp_cntr, amount: u64) -> Result<()> {
    // SAFETY: as the caller says.
    unsafe { with(counter, |counter| add(&counter.failed, amount)) }
}

/// Reads the count of operations that have succeeded. The program may then read what they have written.
///
/// # Safety
/// As for [`set_comp_cntr`], and `value` is writable.
pub unsafe fn read_comp_cntr(counter: *mut ibv_comp_cntr, value: *mut u64) -> Result<()> {
    // SAFETY: as the caller says.
    unsafe {
        let count = with(counter, |counter| counter.succeeded.load(Ordering::Acquire))?;
        value.write(count);
    }
    Ok(())
}

/// Reads the count of operations that have failed.
///
/// # Safety
/// As for [`read_comp_cntr`].
pub unsafe fn read_err_comp_cntr(counter: *mut ibv_comp_cntr, value: *mut u64) -> Result<()> {
    // SAFETY: as the caller says.
    unsafe {
        let count = with(counter, |counter| counter.failed.load(Ordering::Acquire))?;
        value.write(count);
    }
    Ok(())
}

/// Lets a counter count operations of a queue pair. EINVAL unless the queue pair is in RESET or INIT, and for
/// no operation or a counter of another context; EOPNOTSUPP for attributes and operations that do not exist;
/// EBUSY if an operation has a counter.
///
/// # Safety
/// `qp` and `counter` are readable, and so is `attr`.
pub unsafe fn qp_attach_comp_cntr(
    qp: *mut ibv_qp,
    counter: *mut ibv_comp_cntr,
    attr: *mut ibv_qp_attach_comp_cntr_attr,
) -> Result<()> {
    // SAFETY: the caller passes readable structures; the objects are used further if they are live.
    let (qp, counter, attr) = unsafe {
        handle::check(qp)?;
        handle::check_in(counter, (*qp).context)?;
        (qp::object(qp), CompCntr::of(counter), &*attr)
    };
    qp.check()?;
    if attr.comp_mask != 0 || attr.op_mask & !COUNTED_OPS != 0 {
        return Err(Errno(EOPNOTSUPP));
    }
    let inner = qp.qp.inner.lock();
    let is_early = matches!(inner.engine().state(), QpState::Reset | QpState::Init);
    if !is_early || attr.op_mask == 0 {
        return Err(Errno(EINVAL));
    }
    let attached = qp.qp.counters.attach(attr.op_mask, counter);
    attached.map_err(|AlreadyCounted| Errno(EBUSY))
}
