//! The library's part of a context.

use core::mem::offset_of;

use ibverbs_abi::*;

use crate::uverbs::state::{State, extended};

/// The library's private part of a context: `verbs_context.priv` points to it.
#[repr(C)]
pub struct Private {
    /// State of the kernel interface. The first member, because `uverbs` takes `priv` for it.
    pub state: State,
    /// The context's ops. None of them is NULL.
    pub ops: verbs_context_ops,
}

const _: () = assert!(offset_of!(Private, state) == 0);

/// The library's part of a context.
///
/// # Safety
/// `context` is open, and is not closed while the reference is used.
#[inline]
pub(super) unsafe fn private<'a>(context: *mut ibv_context) -> &'a Private {
    // SAFETY: `init_and_alloc` made `priv_` of an open context point to a `Private`, which lives until
    // the context is closed.
    unsafe { &*(*extended(context)).priv_.cast::<Private>() }
}
