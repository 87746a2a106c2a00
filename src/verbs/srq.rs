//! Shared receive queues (SRQ).

use libc::c_int;

use super::dispatch::dispatch;
use super::sync;
use crate::abi::*;
use crate::provider::ops::ops;

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
        let srq = (ops(context).create_srq)(pd, srq_init_attr);
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

dispatch! {
    /// Changes the size or the limit of an SRQ (ibv_modify_srq(3)). Returns 0 or an errno value.
    ibv_modify_srq(srq: *mut ibv_srq, srq_attr: *mut ibv_srq_attr, srq_attr_mask: c_int) -> c_int
        => [(*srq).context] modify_srq(srq, srq_attr, srq_attr_mask);

    /// Reports the size and the limit of an SRQ (ibv_query_srq(3)). Returns 0 or an errno value.
    ibv_query_srq(srq: *mut ibv_srq, srq_attr: *mut ibv_srq_attr) -> c_int
        => [(*srq).context] query_srq(srq, srq_attr);

    /// Destroys an SRQ. Blocks until all its events are acknowledged (ibv_create_srq(3)). Returns 0 or an
    /// errno value; EBUSY while a queue pair uses it.
    ibv_destroy_srq(srq: *mut ibv_srq) -> c_int => [(*srq).context] destroy_srq(srq);
}
