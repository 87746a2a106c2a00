//! Enhanced connection establishment: options that the two sides' providers agree on.

use libc::{EOPNOTSUPP, c_int};

use super::dispatch::dispatch;
use crate::abi::*;
use crate::provider::ops::ops;

/// Gives a queue pair the options that the other side offered (ibv_set_ece(3)). Returns 0 or an
/// errno value; EOPNOTSUPP, with errno set, if no vendor is named.
///
/// # Safety
///
/// `qp` is a live queue pair; `ece` is readable, and writable for the provider.
pub unsafe extern "C" fn ibv_set_ece(qp: *mut ibv_qp, ece: *mut ibv_ece) -> c_int {
    // SAFETY: readable, by the caller's promise.
    if unsafe { (*ece).vendor_id } == 0 {
        Errno(EOPNOTSUPP).set();
        return EOPNOTSUPP;
    }
    // SAFETY: the queue pair lives, so its context does.
    unsafe { (ops((*qp).context).set_ece)(qp, ece) }
}

dispatch! {
    /// Reports the options of a queue pair (ibv_query_ece(3)). Returns 0 or an errno value.
    ibv_query_ece(qp: *mut ibv_qp, ece: *mut ibv_ece) -> c_int
        => [(*qp).context] query_ece(qp, ece);
}
