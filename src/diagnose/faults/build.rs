//! The wrapper of ibv_wr_complete(3), by which a program posts the requests that it has built. It replaces
//! the provider's pointer in an extended queue pair. If it fails, the requests are aborted: none is posted.

use core::ffi::c_int;

use ibverbs_abi::*;

use super::super::extended::ExtendedOps;
use super::failure;

/// The provider's functions of a queue pair.
#[derive(Clone, Copy)]
pub struct PostFunctions {
    complete: unsafe extern "C" fn(*mut ibv_qp_ex) -> c_int,
    abort: Option<unsafe extern "C" fn(*mut ibv_qp_ex)>,
}

/// The posting functions of the queue pairs that are wrapped.
pub static POSTING: ExtendedOps<PostFunctions> = ExtendedOps::new();

/// Replaces the function of a new queue pair.
///
/// # Safety
/// `qp` is alive and extended, and no other thread knows it yet.
pub unsafe fn wrap(qp: *mut ibv_qp_ex) {
    // SAFETY: the queue pair is extended, as the caller promises, and these members are at the same places in
    // the structures of all releases.
    let (complete, abort) = unsafe { ((*qp).wr_complete, (*qp).wr_abort) };
    let Some(complete) = complete else { return };
    let functions = PostFunctions { complete, abort };
    if POSTING.add(qp as usize, functions) {
        // SAFETY: no other thread knows the queue pair, as the caller promises.
        unsafe { (*qp).wr_complete = Some(wr_complete) };
    }
}

unsafe extern "C" fn wr_complete(qp: *mut ibv_qp_ex) -> c_int {
    let Some(functions) = POSTING.get(qp as usize) else {
        return libc::EINVAL;
    };
    // SAFETY: the queue pair is alive and its context open, as ibv_wr_complete requires; the functions are
    // the provider's for this queue pair, and only one of them is called for what was built.
    unsafe {
        let (context, qpn) = ((*qp).qp_base.context, (*qp).qp_base.qp_num);
        match failure(context, "wr_complete", Some(qpn), None) {
            None => (functions.complete)(qp),
            Some(errno) => {
                if let Some(abort) = functions.abort {
                    abort(qp);
                }
                errno.returned()
            }
        }
    }
}
