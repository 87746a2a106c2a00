//! Queue pairs (QP).

use core::mem::MaybeUninit;

use libc::{PTHREAD_COND_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, c_int};

use super::twin::{destroy, pair};
use super::types::*;
use super::{cq, srq};
use crate::abi::*;
use crate::verbs;

/// Creates a queue pair (ibv_create_qp(3)). Writes the capabilities that it really has to `attr`. Returns
/// NULL with errno set if it fails.
///
/// # Safety
///
/// `pd` is a live protection domain of this layer; `attr` is writable, and its CQs and SRQ are NULL or live
/// ones of this layer.
pub unsafe extern "C" fn ibv_create_qp_1_0(
    pd: *mut ibv_pd_1_0,
    attr: *mut ibv_qp_init_attr_1_0,
) -> *mut ibv_qp_1_0 {
    // SAFETY: `attr` is writable, and its CQs and SRQ are NULL or alive, as the caller promises.
    let (attr, mut real_attr) = unsafe {
        let attr = &mut *attr;
        let real_attr = ibv_qp_init_attr {
            qp_context: attr.qp_context,
            send_cq: cq::real(attr.send_cq),
            recv_cq: cq::real(attr.recv_cq),
            srq: srq::real(attr.srq),
            cap: attr.cap,
            qp_type: attr.qp_type,
            sq_sig_all: attr.sq_sig_all,
        };
        (attr, real_attr)
    };
    let real_attr = &raw mut real_attr;
    // SAFETY: the domain is alive, as the caller promises.
    let context = unsafe { (*pd).context };
    let twin_of = |real: &mut ibv_qp, twin: *mut ibv_qp_1_0| {
        // SAFETY: the attributes are a variable of this function, which no other reference uses.
        attr.cap = unsafe { (*real_attr).cap };
        real.qp_context = twin.cast();
        ibv_qp_1_0 {
            context,
            qp_context: attr.qp_context,
            pd,
            send_cq: attr.send_cq,
            recv_cq: attr.recv_cq,
            srq: attr.srq,
            handle: real.handle,
            qp_num: real.qp_num,
            state: real.state,
            qp_type: attr.qp_type,
            mutex: PTHREAD_MUTEX_INITIALIZER,
            cond: PTHREAD_COND_INITIALIZER,
            events_completed: 0,
            real_qp: real,
        }
    };
    // SAFETY: the domain is alive, as the caller promises; the verb returns NULL or a new queue pair.
    unsafe {
        pair(
            || verbs::qp::ibv_create_qp((*pd).real_pd, real_attr),
            twin_of,
        )
    }
}

/// Reports a queue pair's attributes (ibv_query_qp(3)). Returns 0, or an errno value; then `init_attr` is
/// unchanged. (The C library crashes if the queue pair has no SRQ.)
///
/// # Safety
///
/// `qp` is a live queue pair of this layer; `attr` and `init_attr` are writable.
pub unsafe extern "C" fn ibv_query_qp_1_0(
    qp: *mut ibv_qp_1_0,
    attr: *mut ibv_qp_attr,
    attr_mask: c_int,
    init_attr: *mut ibv_qp_init_attr_1_0,
) -> c_int {
    let mut real_init_attr = MaybeUninit::<ibv_qp_init_attr>::zeroed();
    // SAFETY: the twin is alive, so the real queue pair, its CQs and its SRQ are, all of which this layer
    // created. Zeros are valid attributes, if the provider does not write them.
    unsafe {
        let err =
            verbs::qp::ibv_query_qp((*qp).real_qp, attr, attr_mask, real_init_attr.as_mut_ptr());
        if err != 0 {
            return err;
        }
        (*qp).state = (*(*qp).real_qp).state;
        let real = real_init_attr.assume_init();
        init_attr.write(ibv_qp_init_attr_1_0 {
            qp_context: (*qp).qp_context,
            send_cq: cq::twin(real.send_cq),
            recv_cq: cq::twin(real.recv_cq),
            srq: srq::twin(real.srq),
            cap: real.cap,
            qp_type: real.qp_type,
            sq_sig_all: real.sq_sig_all,
        });
    }
    0
}

/// Changes a queue pair's attributes and state (ibv_modify_qp(3)). Returns 0 or an errno value.
///
/// # Safety
///
/// `qp` is a live queue pair of this layer; `attr` is readable.
pub unsafe extern "C" fn ibv_modify_qp_1_0(
    qp: *mut ibv_qp_1_0,
    attr: *mut ibv_qp_attr,
    attr_mask: c_int,
) -> c_int {
    // SAFETY: the twin is alive, so the real queue pair is; `attr` is readable, as the caller promises.
    unsafe {
        let err = verbs::qp::ibv_modify_qp((*qp).real_qp, attr, attr_mask);
        (*qp).state = (*(*qp).real_qp).state;
        err
    }
}

destroy! {
    /// Destroys a queue pair. Blocks until all its events are acknowledged (ibv_create_qp(3)). Returns 0 or
    /// an errno value.
    ibv_destroy_qp_1_0(qp: ibv_qp_1_0 => real_qp) = verbs::qp::ibv_destroy_qp;
}
