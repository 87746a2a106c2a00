//! Completion channels, which have no twins.

use super::context;
use crate::abi::*;
use crate::verbs;

/// `ibv_create_comp_channel` for all programs: it has one version, IBVERBS_1.0, and so gets contexts
/// of both layouts. (rdma-core's library takes the old ones for new ones and reads past their end.)
///
/// # Safety
///
/// As [`verbs::comp_channel::ibv_create_comp_channel`], or `context` is the twin of such a context.
pub unsafe extern "C" fn ibv_create_comp_channel(
    context: *mut ibv_context,
) -> *mut ibv_comp_channel {
    // SAFETY: an open context or the twin of one, so that its real one is open.
    unsafe { verbs::comp_channel::ibv_create_comp_channel(context::real(context)) }
}
