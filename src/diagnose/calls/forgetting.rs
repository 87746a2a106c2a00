//! The outermost wrappers, which a context has with IBV_FAULTS and the control socket, too: they forget the
//! name of an object that was destroyed. Each name has a serial number: another thread may give a new object
//! at the same address a name before the wrapper has seen that the old object is gone.

use core::ffi::c_int;

use ibverbs_abi::*;

use super::super::originals::reporting;
use super::with;

/// Defines the wrappers of functions that destroy an object, and the table that has them.
macro_rules! forgetting {
    ($($op:ident($object:ident: $ty:ty), of $context:expr;)+) => {
        /// The ops with wrappers in place of those that destroy objects.
        pub fn forgetting(reporting: &verbs_context_ops) -> verbs_context_ops {
            verbs_context_ops {
                $($op,)+
                free_context,
                ..*reporting
            }
        }

        $(unsafe extern "C" fn $op($object: *mut $ty) -> c_int {
            let address = $object as usize;
            let named = with(|shadow| shadow.names.serial_of(address)).flatten();
            // SAFETY: the object is alive, and its context is open and has this wrapper.
            let ret = unsafe { (reporting($context).$op)($object) };
            if let Some(serial) = named.filter(|_| ret == 0) {
                with(|shadow| shadow.names.forget(address, serial));
            }
            ret
        })+
    };
}

forgetting! {
    dealloc_mw(mw: ibv_mw), of (*mw).context;
    dealloc_pd(pd: ibv_pd), of (*pd).context;
    dereg_mr(mr: verbs_mr), of (*mr).ibv_mr.context;
    destroy_ah(ah: ibv_ah), of (*ah).context;
    destroy_cq(cq: ibv_cq), of (*cq).context;
    destroy_qp(qp: ibv_qp), of (*qp).context;
    destroy_srq(srq: ibv_srq), of (*srq).context;
}

/// Forgets the names of a context and of all its objects, and closes it.
unsafe extern "C" fn free_context(context: *mut ibv_context) {
    let of = context as usize;
    // Another thread may open a device at the same address, and name it, before this one is back.
    let before = with(|shadow| shadow.names.last_serial()).unwrap_or_default();
    // SAFETY: the context is open and has this wrapper.
    unsafe { (reporting(context).free_context)(context) };
    with(|shadow| shadow.names.forget_context(of, before));
}

/// Whether these ops are those of a wrapped context.
pub fn is_wrapper(ops: &verbs_context_ops) -> bool {
    core::ptr::fn_addr_eq(
        ops.free_context,
        free_context as unsafe extern "C" fn(*mut ibv_context),
    )
}
