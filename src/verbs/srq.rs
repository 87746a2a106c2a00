//! Shared receive queues.

use libc::c_int;

use super::dispatch::dispatch;
use super::sync;
use crate::abi::*;
use crate::provider::ops::ops;

/// Creates a shared receive queue, to be destroyed by `ibv_destroy_srq` (ibv_create_srq(3)). The
/// attributes come back as what the device gave. Returns NULL with errno set if it fails.
///
/// # Safety
///
/// `pd` is a live protection domain; `srq_init_attr` is readable and writable.
pub unsafe extern "C" fn ibv_create_srq(
    pd: *mut ibv_pd,
    srq_init_attr: *mut ibv_srq_init_attr,
) -> *mut ibv_srq {
    // SAFETY: the domain lives, so its context does; the provider returns NULL or a queue that
    // nobody else knows yet.
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
    /// Changes the size or the limit of a shared receive queue (ibv_modify_srq(3)). Returns 0 or an
    /// errno value.
    ibv_modify_srq(srq: *mut ibv_srq, srq_attr: *mut ibv_srq_attr, srq_attr_mask: c_int) -> c_int
        => [(*srq).context] modify_srq(srq, srq_attr, srq_attr_mask);

    /// Reports the size and the limit of a shared receive queue (ibv_query_srq(3)). Returns 0 or an
    /// errno value.
    ibv_query_srq(srq: *mut ibv_srq, srq_attr: *mut ibv_srq_attr) -> c_int
        => [(*srq).context] query_srq(srq, srq_attr);

    /// Destroys a shared receive queue once its events are acknowledged (ibv_create_srq(3)). Returns
    /// 0 or an errno value; EBUSY while a queue pair uses it.
    ibv_destroy_srq(srq: *mut ibv_srq) -> c_int => [(*srq).context] destroy_srq(srq);
}
