//! Wrappers of verbs that create objects which are not recorded. One at the address of a destroyed object
//! must not pass for that.

use ibverbs_abi::*;

use super::super::finding::Kind;
use super::super::originals::original;
use super::with;

/// Defines the wrappers.
macro_rules! unrecorded {
    ($($op:ident($($arg:ident: $ty:ty),*) -> $object:ty, $kind:expr, of $context:expr;)+) => {
        $(pub unsafe extern "C" fn $op($($arg: $ty),*) -> *mut $object {
            // SAFETY: the objects are alive, and their context is open and wrapped (see the module above).
            let object = unsafe { (original($context).$op)($($arg),*) };
            if !object.is_null() {
                with(|shadow| shadow.gone.forget($kind, object as usize));
            }
            object
        })+
    };
}

unrecorded! {
    import_dm(context: *mut ibv_context, dm_handle: u32) -> ibv_dm, Kind::Dm, of context;
    import_mr(pd: *mut ibv_pd, mr_handle: u32) -> ibv_mr, Kind::Mr, of (*pd).context;
    import_pd(context: *mut ibv_context, pd_handle: u32) -> ibv_pd, Kind::Pd, of context;
    open_qp(context: *mut ibv_context, attr: *mut ibv_qp_open_attr) -> ibv_qp, Kind::Qp, of context;
}
