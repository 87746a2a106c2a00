//! Completion counters.

use core::ptr;

use libc::c_int;

use super::dispatch::dispatch;
use crate::abi::*;
use crate::provider::ops::ops;

/// Reports the device's capabilities for completion counters, in a struct of `caps_size` bytes. The inline
/// `ibv_query_comp_cntr_caps` calls it (ibv_query_comp_cntr_caps(3)). Returns 0 or an errno value.
///
/// # Safety
///
/// `context` is an open context; `caps_size` bytes at `caps` are writable.
pub unsafe extern "C" fn _ibv_query_comp_cntr_caps(
    context: *mut ibv_context,
    caps: *mut ibv_comp_cntr_caps,
    caps_size: usize,
) -> c_int {
    // SAFETY: `caps_size` bytes are writable, as the caller promises, and the provider gets that size.
    unsafe {
        ptr::write_bytes(caps.cast::<u8>(), 0, caps_size);
        (ops(context).query_comp_cntr_caps)(context, caps, caps_size)
    }
}

dispatch! {
    /// Creates a completion counter; `ibv_destroy_comp_cntr` destroys it (ibv_create_comp_cntr(3)).
    /// Returns NULL with errno set if it fails.
    ibv_create_comp_cntr(context: *mut ibv_context, attr: *mut ibv_comp_cntr_init_attr)
        -> *mut ibv_comp_cntr => [context] create_comp_cntr(context, attr);

    /// Destroys a completion counter (ibv_create_comp_cntr(3)). Returns 0 or an errno value.
    ibv_destroy_comp_cntr(cntr: *mut ibv_comp_cntr) -> c_int
        => [(*cntr).context] destroy_comp_cntr(cntr);

    /// Sets the count of successful completions. Returns 0 or an errno value.
    ibv_set_comp_cntr(cntr: *mut ibv_comp_cntr, value: u64) -> c_int
        => [(*cntr).context] set_comp_cntr(cntr, value);

    /// Sets the count of failed completions. Returns 0 or an errno value.
    ibv_set_err_comp_cntr(cntr: *mut ibv_comp_cntr, value: u64) -> c_int
        => [(*cntr).context] set_err_comp_cntr(cntr, value);

    /// Adds to the count of successful completions. Returns 0 or an errno value.
    ibv_inc_comp_cntr(cntr: *mut ibv_comp_cntr, amount: u64) -> c_int
        => [(*cntr).context] inc_comp_cntr(cntr, amount);

    /// Adds to the count of failed completions. Returns 0 or an errno value.
    ibv_inc_err_comp_cntr(cntr: *mut ibv_comp_cntr, amount: u64) -> c_int
        => [(*cntr).context] inc_err_comp_cntr(cntr, amount);

    /// Reads the count of successful completions. Returns 0 or an errno value.
    ibv_read_comp_cntr(cntr: *mut ibv_comp_cntr, value: *mut u64) -> c_int
        => [(*cntr).context] read_comp_cntr(cntr, value);

    /// Reads the count of failed completions. Returns 0 or an errno value.
    ibv_read_err_comp_cntr(cntr: *mut ibv_comp_cntr, value: *mut u64) -> c_int
        => [(*cntr).context] read_err_comp_cntr(cntr, value);

    /// Attaches a counter to a queue pair, whose completions it counts from then on
    /// (ibv_qp_attach_comp_cntr(3)). Returns 0 or an errno value.
    ibv_qp_attach_comp_cntr(
        qp: *mut ibv_qp,
        cntr: *mut ibv_comp_cntr,
        attr: *mut ibv_qp_attach_comp_cntr_attr,
    ) -> c_int => [(*qp).context] qp_attach_comp_cntr(qp, cntr, attr);
}
