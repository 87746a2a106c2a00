//! Protection domains (PD).

use libc::c_int;

use super::dispatch::dispatch;
use crate::abi::*;
use crate::provider::ops::ops;

/// Allocates a protection domain; `ibv_dealloc_pd` frees it (ibv_alloc_pd(3)). Returns NULL with errno set
/// if it fails.
///
/// # Safety
///
/// `context` is an open context.
pub unsafe extern "C" fn ibv_alloc_pd(context: *mut ibv_context) -> *mut ibv_pd {
    // SAFETY: the context is open, as the caller promises; the provider returns NULL or a new domain.
    unsafe {
        let pd = (ops(context).alloc_pd)(context);
        if let Some(pd) = pd.as_mut() {
            pd.context = context;
        }
        pd
    }
}

dispatch! {
    /// Frees a protection domain (ibv_alloc_pd(3)). Returns 0 or an errno value; EBUSY while it has
    /// objects.
    ibv_dealloc_pd(pd: *mut ibv_pd) -> c_int => [(*pd).context] dealloc_pd(pd);

    /// Imports a protection domain that another process allocated on the same device; `ibv_unimport_pd`
    /// ends that (ibv_import_pd(3)). Returns NULL with errno set if it fails.
    ibv_import_pd(context: *mut ibv_context, pd_handle: u32) -> *mut ibv_pd
        => [context] import_pd(context, pd_handle);

    /// Frees an imported handle, but not the protection domain itself (ibv_import_pd(3)).
    ibv_unimport_pd(pd: *mut ibv_pd) => [(*pd).context] unimport_pd(pd);
}
