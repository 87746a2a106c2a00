//! Protection domains.

use libc::c_int;

use super::dispatch::dispatch;
use crate::abi::*;
use crate::provider::ops::ops;

/// Allocates a protection domain, to be freed by `ibv_dealloc_pd` (ibv_alloc_pd(3)). Returns NULL
/// with errno set if it fails.
///
/// # Safety
///
/// `context` is an open context.
pub unsafe extern "C" fn ibv_alloc_pd(context: *mut ibv_context) -> *mut ibv_pd {
    // SAFETY: the context is open; what the provider returns is NULL or a domain of its own.
    unsafe {
        let pd = (ops(context).alloc_pd)(context);
        if let Some(pd) = pd.as_mut() {
            pd.context = context;
        }
        pd
    }
}

dispatch! {
    /// Frees a protection domain (ibv_alloc_pd(3)). Returns 0 or an errno value; EBUSY while
    /// something lives in it.
    ibv_dealloc_pd(pd: *mut ibv_pd) -> c_int => [(*pd).context] dealloc_pd(pd);

    /// Makes a protection domain of another process's on the same device usable here
    /// (ibv_import_pd(3)). Returns NULL with errno set if it fails.
    ibv_import_pd(context: *mut ibv_context, pd_handle: u32) -> *mut ibv_pd
        => [context] import_pd(context, pd_handle);

    /// Undoes `ibv_import_pd`; the domain itself stays (ibv_import_pd(3)).
    ibv_unimport_pd(pd: *mut ibv_pd) => [(*pd).context] unimport_pd(pd);
}
