//! Completion channels, which need no twins.

use super::context;
use crate::abi::*;
use crate::verbs;

/// `ibv_create_comp_channel` of all programs. The symbol has one version, IBVERBS_1.0, so it is called with
/// contexts of both layouts. (The C library treats a twin as a context and reads past its end.) Returns
/// NULL with errno set if it fails.
///
/// # Safety
///
/// `context` is an open context, or the twin of one.
pub unsafe extern "C" fn ibv_create_comp_channel(
    context: *mut ibv_context,
) -> *mut ibv_comp_channel {
    // SAFETY: `context` is an open context or the twin of one, as the caller promises; `real` returns the
    // open context.
    unsafe { verbs::comp_channel::ibv_create_comp_channel(context::real(context)) }
}
