//! Replaces the ops of a context by wrappers, in layers, and keeps those of each layer (`originals.rs`).

use core::{mem, ptr};

use ibverbs_abi::{OPS, ibv_context, verbs_context_ops};

use super::originals::{Tables, keep};
use super::{calls, faults};
use crate::provider::ops;
use crate::provider::private::Private;
use crate::uverbs::state::extended;

/// The wrappers that the environment asks for.
#[derive(Clone, Copy)]
pub struct Asked {
    pub explain: bool,
    pub faults: bool,
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

/// Wraps a context. Returns false if there is no memory for it; the context is then unchanged.
///
/// # Safety
/// `context` is open and complete, and no other thread knows it yet.
pub unsafe fn wrap(context: *mut ibv_context, asked: Asked) -> bool {
    // SAFETY: the context is open, so its `priv_` points to the library's `Private`, which is readable.
    let provider = unsafe { (*(*extended(context)).priv_.cast::<Private>()).ops };
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
    let tables = Tables {
        reporting,
        explaining,
        original,
        provider,
    };
    // SAFETY: the context is open, and no other thread knows it, as the caller promises.
    if !unsafe { keep(context, tables) } {
        return false;
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
