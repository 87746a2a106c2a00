//! Replaces the ops of a context by wrappers, and keeps the provider's.
//!
//! The library's part of a context ([`Private`]) moves to a larger allocation, behind whose start the
//! original ops are. So a wrapper finds them without a lock, and a context that is not wrapped has no place
//! for them.

use core::{mem, ptr};

use ibverbs_abi::{OPS, ibv_context, verbs_context_ops};

use super::{calls, faults};
use crate::provider::ops;
use crate::provider::private::Private;
use crate::uverbs::state::extended;

/// The structure to which `verbs_context.priv` of a wrapped context points: the private part, and
/// the tables of ops. Allocated by malloc, as the library frees it.
#[repr(C)]
struct Wrapped {
    private: Private,
    reporting: verbs_context_ops,
    explaining: verbs_context_ops,
    original: verbs_context_ops,
    provider: verbs_context_ops,
}

/// The wrappers that the environment asks for.
#[derive(Clone, Copy)]
pub struct Asked {
    pub explain: bool,
    pub faults: bool,
}

/// The ops of a wrapped context that the wrappers of IBV_EXPLAIN observe: the provider's, or those that
/// inject faults.
///
/// # Safety
/// `context` is open and wrapped, and is not closed while the reference is used.
pub unsafe fn original<'a>(context: *mut ibv_context) -> &'a verbs_context_ops {
    // SAFETY: `wrap` made `priv_` of a wrapped context point to a `Wrapped`, which lives until the context
    // is closed.
    unsafe { &(*(*extended(context)).priv_.cast::<Wrapped>()).original }
}

/// The wrappers that report failures, or what is there without IBV_EXPLAIN. Around these are those that
/// forget names.
///
/// # Safety
/// `context` is open and wrapped, and is not closed while the reference is used.
pub unsafe fn reporting<'a>(context: *mut ibv_context) -> &'a verbs_context_ops {
    // SAFETY: `wrap` made `priv_` of a wrapped context point to a `Wrapped`, which lives until the context
    // is closed.
    unsafe { &(*(*extended(context)).priv_.cast::<Wrapped>()).reporting }
}

/// The wrappers of IBV_EXPLAIN that observe objects. Around these are those that report failures.
///
/// # Safety
/// `context` is open and wrapped, and is not closed while the reference is used.
pub unsafe fn explaining<'a>(context: *mut ibv_context) -> &'a verbs_context_ops {
    // SAFETY: `wrap` made `priv_` of a wrapped context point to a `Wrapped`, which lives until the context
    // is closed.
    unsafe { &(*(*extended(context)).priv_.cast::<Wrapped>()).explaining }
}

/// Whether a context is wrapped.
///
/// # Safety
/// `context` is open.
pub unsafe fn is_wrapped(context: *mut ibv_context) -> bool {
    // SAFETY: an open context has the library's table; those of wrapped contexts have the outermost wrapper.
    unsafe {
        let private = (*extended(context)).priv_.cast::<Private>();
        calls::is_wrapper(&(*private).ops)
    }
}

/// The provider's ops of a wrapped context.
///
/// # Safety
/// `context` is open and wrapped, and is not closed while the reference is used.
pub unsafe fn provider<'a>(context: *mut ibv_context) -> &'a verbs_context_ops {
    // SAFETY: `wrap` made `priv_` of a wrapped context point to a `Wrapped`, which lives until the context
    // is closed.
    unsafe { &(*(*extended(context)).priv_.cast::<Wrapped>()).provider }
}

/// Wraps a context. Returns false if there is no memory for it; the context is then unchanged.
///
/// # Safety
/// `context` is open and complete, and no other thread knows it yet.
pub unsafe fn wrap(context: *mut ibv_context, asked: Asked) -> bool {
    // SAFETY: the context is open, so its `priv_` points to the library's `Private`, which is readable.
    let (private, provider) = unsafe {
        let private = &raw mut (*extended(context)).priv_;
        (private, (*(*private).cast::<Private>()).ops)
    };
    let original = match asked.faults {
        true => faults::wrapped(&provider),
        false => provider,
    };
    let explaining = match asked.explain {
        true => calls::wrapped(&original),
        false => original,
    };
    let reporting = match asked.explain {
        true => calls::reporting(&explaining),
        false => original,
    };
    // SAFETY: malloc accepts any size. Nobody else refers to the `Private`, which malloc allocated, because
    // no other thread knows the context yet. So it can be moved; the new allocation has room for it.
    unsafe {
        let wrapped = libc::malloc(size_of::<Wrapped>()).cast::<Wrapped>();
        if wrapped.is_null() {
            return false;
        }
        let old = (*private).cast::<Private>();
        ptr::copy_nonoverlapping(old, &raw mut (*wrapped).private, 1);
        (&raw mut (*wrapped).provider).write(provider);
        (&raw mut (*wrapped).reporting).write(reporting);
        (&raw mut (*wrapped).explaining).write(explaining);
        (&raw mut (*wrapped).original).write(original);
        *private = wrapped.cast();
        libc::free(old.cast());
    }
    let changed = only_changed(&provider, &calls::forgetting(&reporting));
    // SAFETY: the context is open, and the caller promises that no other thread uses its ops; `changed` has
    // OPS slots, each NULL or a function of its op's type.
    unsafe { ops::set_ops(context, changed.as_ptr(), 0..OPS) };
    true
}

/// The ops of `new` that differ from those of `old`; NULL for the others, so that these stay as they are.
fn only_changed(
    old: &verbs_context_ops,
    new: &verbs_context_ops,
) -> [*const core::ffi::c_void; OPS] {
    const { assert!(size_of::<verbs_context_ops>() == OPS * size_of::<usize>()) }
    // SAFETY: a `verbs_context_ops` consists of OPS function pointers, as asserted above for its size.
    let [old, mut new]: [[*const core::ffi::c_void; OPS]; 2] =
        unsafe { [mem::transmute_copy(old), mem::transmute_copy(new)] };
    for (new, old) in new.iter_mut().zip(old) {
        if *new == old {
            *new = ptr::null();
        }
    }
    new
}
