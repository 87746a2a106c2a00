//! The ops of a wrapped context that its wrappers call: the provider's, and those of each layer of wrappers.
//!
//! The library's part of a context ([`Private`]) moves to a larger allocation, behind whose start these ops
//! are. So a wrapper finds them without a lock, and a context that is not wrapped has no place for them.

use core::ptr;

use ibverbs_abi::{ibv_context, verbs_context_ops};

use crate::provider::private::Private;
use crate::uverbs::state::extended;

/// The ops of a wrapped context, by the layers of its wrappers.
pub struct Tables {
    pub reporting: verbs_context_ops,
    pub explaining: verbs_context_ops,
    pub original: verbs_context_ops,
    pub provider: verbs_context_ops,
}

/// The structure to which `verbs_context.priv` of a wrapped context points. Allocated by malloc, as the
/// library frees it.
#[repr(C)]
struct Wrapped {
    private: Private,
    tables: Tables,
}

/// # Safety
/// `context` is open and wrapped, and is not closed while the reference is used.
unsafe fn tables<'a>(context: *mut ibv_context) -> &'a Tables {
    // SAFETY: [`keep`] made `priv_` of a wrapped context point to a `Wrapped`, which lives until the context
    // is closed.
    unsafe { &(*(*extended(context)).priv_.cast::<Wrapped>()).tables }
}

/// The ops of a wrapped context that the wrappers of IBV_EXPLAIN observe: the provider's, or those that
/// inject faults.
///
/// # Safety
/// `context` is open and wrapped, and is not closed while the reference is used.
pub unsafe fn original<'a>(context: *mut ibv_context) -> &'a verbs_context_ops {
    // SAFETY: the context is open and wrapped, as the caller promises.
    unsafe { &tables(context).original }
}

/// The wrappers that report failures, or what is there without IBV_EXPLAIN. Around these are those that
/// forget names.
///
/// # Safety
/// `context` is open and wrapped, and is not closed while the reference is used.
pub unsafe fn reporting<'a>(context: *mut ibv_context) -> &'a verbs_context_ops {
    // SAFETY: the context is open and wrapped, as the caller promises.
    unsafe { &tables(context).reporting }
}

/// The wrappers of IBV_EXPLAIN that observe objects. Around these are those that report failures.
///
/// # Safety
/// `context` is open and wrapped, and is not closed while the reference is used.
pub unsafe fn explaining<'a>(context: *mut ibv_context) -> &'a verbs_context_ops {
    // SAFETY: the context is open and wrapped, as the caller promises.
    unsafe { &tables(context).explaining }
}

/// The provider's ops of a wrapped context.
///
/// # Safety
/// `context` is open and wrapped, and is not closed while the reference is used.
pub unsafe fn provider<'a>(context: *mut ibv_context) -> &'a verbs_context_ops {
    // SAFETY: the context is open and wrapped, as the caller promises.
    unsafe { &tables(context).provider }
}

/// Keeps the ops of a context that is about to be wrapped. Returns false if there is no memory for them; the
/// context is then unchanged.
///
/// # Safety
/// `context` is open and complete, and no other thread knows it yet.
pub unsafe fn keep(context: *mut ibv_context, tables: Tables) -> bool {
    // SAFETY: malloc accepts any size. The context is open, so its `priv_` points to the library's `Private`,
    // which malloc allocated, and to which nobody else refers, because no other thread knows the context yet.
    // So it can be moved; the new allocation has room for it.
    unsafe {
        let private = &raw mut (*extended(context)).priv_;
        let wrapped = libc::malloc(size_of::<Wrapped>()).cast::<Wrapped>();
        if wrapped.is_null() {
            return false;
        }
        let old = (*private).cast::<Private>();
        ptr::copy_nonoverlapping(old, &raw mut (*wrapped).private, 1);
        (&raw mut (*wrapped).tables).write(tables);
        *private = wrapped.cast();
        libc::free(old.cast());
    }
    true
}
