//! Shared receive queues (SRQ).

use libc::c_int;

use super::dispatch::dispatch;
use super::sync;
use crate::abi::*;
use crate::memory::single_threaded::is_single_threaded;
use crate::provider::{ops::ops, software};
use crate::uverbs::state::state;

/// Creates a shared receive queue; `ibv_destroy_srq` destroys it (ibv_create_srq(3)). Writes the sizes that
/// it really has to the attributes. Returns NULL with errno set if it fails.
///
/// # Safety
///
/// `pd` is a live protection domain; `srq_init_attr` is readable and writable.
pub unsafe extern "C" fn ibv_create_srq(
    pd: *mut ibv_pd,
    srq_init_attr: *mut ibv_srq_init_attr,
) -> *mut ibv_srq {
    // SAFETY: the domain is alive, so its context is open; the provider returns NULL or an SRQ that no
    // other thread knows yet.
    unsafe {
        let context = (*pd).context;
        let srq = if is_single_threaded() {
            (ops(context).create_srq)(pd, srq_init_attr)
        } else {
            create_locked(context, pd, srq_init_attr)
        };
        if !srq.is_null() {
            (*srq).context = context;
            (*srq).srq_context = (*srq_init_attr).srq_context;
            (*srq).pd = pd;
            (*srq).events_completed = 0;
            sync::init(&raw mut (*srq).mutex, &raw mut (*srq).cond);
        }
        srq
    }
}

/// The provider's op, while no other thread's creates or destroys an SRQ of the context.
///
/// # Safety
///
/// As for [`ibv_create_srq`]; `context` is that of `pd`.
#[inline(never)]
unsafe fn create_locked(
    context: *mut ibv_context,
    pd: *mut ibv_pd,
    attr: *mut ibv_srq_init_attr,
) -> *mut ibv_srq {
    // SAFETY: the context is open and has every op; the op has the same requirements on its arguments.
    unsafe {
        let _locked = state(context).lock_srqs();
        (ops(context).create_srq)(pd, attr)
    }
}

dispatch! {
    /// Changes the size or the limit of an SRQ (ibv_modify_srq(3)). Returns 0 or an errno value.
    ibv_modify_srq(srq: *mut ibv_srq, srq_attr: *mut ibv_srq_attr, srq_attr_mask: c_int) -> c_int
        => [(*srq).context] modify_srq(srq, srq_attr, srq_attr_mask);

    /// Reports the size and the limit of an SRQ (ibv_query_srq(3)). Returns 0 or an errno value.
    ibv_query_srq(srq: *mut ibv_srq, srq_attr: *mut ibv_srq_attr) -> c_int
        => [(*srq).context] query_srq(srq, srq_attr);
}

/// Destroys an SRQ. Blocks until all its events are acknowledged (ibv_create_srq(3)). Returns 0 or an errno
/// value; EBUSY while a queue pair uses it.
///
/// # Safety
///
/// `srq` was created by this library and is alive. It is gone if 0 is returned.
pub unsafe extern "C" fn ibv_destroy_srq(srq: *mut ibv_srq) -> c_int {
    // SAFETY: the SRQ is alive, so its context is open, and stays open after the SRQ is gone.
    unsafe {
        let context = (*srq).context;
        if is_single_threaded() {
            return (ops(context).destroy_srq)(srq);
        }
        destroy_locked(context, srq)
    }
}

/// As [`create_locked`], but without the lock for a software device. That has locks of its own, and waits
/// until the program has acknowledged the events; the thread that does so may create an SRQ first.
///
/// # Safety
///
/// As for [`ibv_destroy_srq`]; `context` is that of `srq`.
#[inline(never)]
unsafe fn destroy_locked(context: *mut ibv_context, srq: *mut ibv_srq) -> c_int {
    // SAFETY: the context is open and has every op, and it stays open after the SRQ is gone.
    unsafe {
        let is_software = software::of_context(context).is_some();
        let _locked = (!is_software).then(|| state(context).lock_srqs());
        (ops(context).destroy_srq)(srq)
    }
}

/// `ibv_create_srq_ex`, which programs call through its slot in the context: as [`ibv_create_srq`], with more
/// attributes.
///
/// # Safety
///
/// `context` is open; `attr` is readable and writable, and the objects that it names are alive.
pub unsafe extern "C" fn lib_create_srq_ex(
    context: *mut ibv_context,
    attr: *mut ibv_srq_init_attr_ex,
) -> *mut ibv_srq {
    // SAFETY: the context is open and has every op; the op has the same requirements on its arguments.
    unsafe {
        let _locked = state(context).lock_srqs();
        (ops(context).create_srq_ex)(context, attr)
    }
}
