//! Enhanced connection establishment (ECE): options that the providers of both sides negotiate.

use libc::{EOPNOTSUPP, c_int};

use super::dispatch::dispatch;
use crate::abi::*;
use crate::provider::ops::ops;

/// Sets the options of a queue pair to those that the other side offered (ibv_set_ece(3)). Returns 0 or
/// an errno value; EOPNOTSUPP, with errno set, if `vendor_id` is 0.
///
/// # Safety
///
/// `qp` is a live queue pair; `ece` is readable and writable.
pub unsafe extern "C" fn ibv_set_ece(qp: *mut ibv_qp, ece: *mut ibv_ece) -> c_int {
    // SAFETY: `ece` is readable, as the caller promises.
    if unsafe { (*ece).vendor_id } == 0 {
        return Errno(EOPNOTSUPP).returned();
    }
    // SAFETY: the queue pair is alive, so its context is open.
    unsafe { (ops((*qp).context).set_ece)(qp, ece) }
}

dispatch! {
    /// Reports the options of a queue pair (ibv_query_ece(3)). Returns 0 or an errno value.
    ibv_query_ece(qp: *mut ibv_qp, ece: *mut ibv_ece) -> c_int
        => [(*qp).context] query_ece(qp, ece);
}
