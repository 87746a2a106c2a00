//! Wrappers of verbs that can fail. If a rule says so, the verb fails with the rule's errno value, and the
//! provider is not called. Otherwise the provider's function gets the program's arguments.
//!
//! Safety, for all functions here: they have the requirements of the op that they wrap, which the program's
//! call meets. The objects are alive, and their context is open and wrapped, because only wrapped contexts
//! have these functions.

use core::ffi::{c_int, c_uint, c_void};

use ibverbs_abi::*;

use super::super::originals::provider;
use super::objects::{self, FaultObject, FaultObjectKind};
use super::{build, data, failure, kernel_events};

/// The result type of a verb, with the value that says failure.
trait Failing {
    fn failed(errno: Errno) -> Self;
}

impl Failing for c_int {
    fn failed(errno: Errno) -> c_int {
        errno.returned()
    }
}

impl<T> Failing for *mut T {
    fn failed(errno: Errno) -> *mut T {
        errno.null()
    }
}

/// Defines the wrappers, and the table that has them. `of`: the context; `qpn`: the queue pair, `size`: the
/// bytes that rules select by; `then`: what is done with an object that was created.
macro_rules! failing {
    ($(
        $op:ident($($arg:ident: $ty:ty),*) -> $ret:ty, of $context:expr
        $(, qpn $qpn:expr)? $(, size $size:expr)? $(, then $then:expr)?;
    )+) => {
        /// The provider's ops with wrappers in place of those that have faults.
        pub fn wrapped(provider: &verbs_context_ops) -> verbs_context_ops {
            verbs_context_ops {
                $($op,)+
                destroy_cq,
                destroy_qp,
                destroy_srq,
                free_context,
                poll_cq: data::poll_cq,
                post_recv: data::post_recv,
                post_send: data::post_send,
                post_srq_recv: data::post_srq_recv,
                query_port,
                rereg_mr,
                ..*provider
            }
        }

        $(unsafe extern "C" fn $op($($arg: $ty),*) -> $ret {
            // SAFETY: the objects are alive and their context is open and wrapped (see the module above);
            // the program's attributes are readable.
            unsafe {
                let context: *mut ibv_context = $context;
                #[allow(unused_mut, unused_assignments)] // Some verbs have neither.
                let (mut qpn, mut size) = (None, None);
                $(qpn = Some($qpn);)?
                $(size = Some($size as u64);)?
                if let Some(errno) = failure(context, stringify!($op), qpn, size) {
                    return <$ret>::failed(errno);
                }
                let ret = (provider(context).$op)($($arg),*);
                $($then(context, ret);)?
                ret
            }
        })+
    };
}

failing! {
    alloc_dm(context: *mut ibv_context, attr: *mut ibv_alloc_dm_attr) -> *mut ibv_dm, of context;
    alloc_mw(pd: *mut ibv_pd, kind: ibv_mw_type) -> *mut ibv_mw, of (*pd).context;
    alloc_null_mr(pd: *mut ibv_pd) -> *mut ibv_mr, of (*pd).context;
    alloc_parent_domain(context: *mut ibv_context, attr: *mut ibv_parent_domain_init_attr)
        -> *mut ibv_pd, of context;
    alloc_pd(context: *mut ibv_context) -> *mut ibv_pd, of context;
    alloc_td(context: *mut ibv_context, attr: *mut ibv_td_init_attr) -> *mut ibv_td, of context;
    attach_mcast(qp: *mut ibv_qp, gid: *const ibv_gid, lid: u16) -> c_int,
        of (*qp).context, qpn (*qp).qp_num;
    bind_mw(qp: *mut ibv_qp, mw: *mut ibv_mw, bind: *mut ibv_mw_bind) -> c_int,
        of (*qp).context, qpn (*qp).qp_num;
    create_ah(pd: *mut ibv_pd, attr: *mut ibv_ah_attr) -> *mut ibv_ah, of (*pd).context;
    create_counters(context: *mut ibv_context, attr: *mut ibv_counters_init_attr)
        -> *mut ibv_counters, of context;
    create_cq(
        context: *mut ibv_context,
        cqe: c_int,
        channel: *mut ibv_comp_channel,
        vector: c_int
    ) -> *mut ibv_cq, of context, then cq_created;
    create_cq_ex(context: *mut ibv_context, attr: *mut ibv_cq_init_attr_ex)
        -> *mut ibv_cq_ex, of context, then cq_ex_created;
    create_flow(qp: *mut ibv_qp, attr: *mut ibv_flow_attr) -> *mut ibv_flow,
        of (*qp).context, qpn (*qp).qp_num;
    create_qp(pd: *mut ibv_pd, attr: *mut ibv_qp_init_attr) -> *mut ibv_qp,
        of (*pd).context, then qp_created;
    create_qp_ex(context: *mut ibv_context, attr: *mut ibv_qp_init_attr_ex) -> *mut ibv_qp,
        of context, then (|context, qp| qp_ex_created(context, qp, attr));
    create_rwq_ind_table(context: *mut ibv_context, attr: *mut ibv_rwq_ind_table_init_attr)
        -> *mut ibv_rwq_ind_table, of context;
    create_srq(pd: *mut ibv_pd, attr: *mut ibv_srq_init_attr) -> *mut ibv_srq,
        of (*pd).context, then srq_created;
    create_srq_ex(context: *mut ibv_context, attr: *mut ibv_srq_init_attr_ex) -> *mut ibv_srq,
        of context, then srq_created;
    create_wq(context: *mut ibv_context, attr: *mut ibv_wq_init_attr) -> *mut ibv_wq, of context;
    modify_cq(cq: *mut ibv_cq, attr: *mut ibv_modify_cq_attr) -> c_int, of (*cq).context;
    modify_qp(qp: *mut ibv_qp, attr: *mut ibv_qp_attr, mask: c_int) -> c_int,
        of (*qp).context, qpn (*qp).qp_num;
    modify_qp_rate_limit(qp: *mut ibv_qp, attr: *mut ibv_qp_rate_limit_attr) -> c_int,
        of (*qp).context, qpn (*qp).qp_num;
    modify_srq(srq: *mut ibv_srq, attr: *mut ibv_srq_attr, mask: c_int) -> c_int, of (*srq).context;
    modify_wq(wq: *mut ibv_wq, attr: *mut ibv_wq_attr) -> c_int, of (*wq).context;
    open_qp(context: *mut ibv_context, attr: *mut ibv_qp_open_attr) -> *mut ibv_qp, of context;
    open_xrcd(context: *mut ibv_context, attr: *mut ibv_xrcd_init_attr) -> *mut ibv_xrcd, of context;
    query_device_ex(
        context: *mut ibv_context,
        input: *const ibv_query_device_ex_input,
        attr: *mut ibv_device_attr_ex,
        attr_size: usize
    ) -> c_int, of context;
    query_qp(
        qp: *mut ibv_qp,
        attr: *mut ibv_qp_attr,
        mask: c_int,
        init: *mut ibv_qp_init_attr
    ) -> c_int, of (*qp).context, qpn (*qp).qp_num;
    query_srq(srq: *mut ibv_srq, attr: *mut ibv_srq_attr) -> c_int, of (*srq).context;
    reg_dm_mr(pd: *mut ibv_pd, dm: *mut ibv_dm, offset: u64, length: usize, access: c_uint)
        -> *mut ibv_mr, of (*pd).context, size length;
    reg_dmabuf_mr(
        pd: *mut ibv_pd,
        offset: u64,
        length: usize,
        iova: u64,
        fd: c_int,
        access: c_int
    ) -> *mut ibv_mr, of (*pd).context, size length;
    reg_mr(pd: *mut ibv_pd, addr: *mut c_void, length: usize, iova: u64, access: c_int)
        -> *mut ibv_mr, of (*pd).context, size length;
    reg_mr_ex(pd: *mut ibv_pd, attr: *mut ibv_mr_init_attr) -> *mut ibv_mr,
        of (*pd).context, size (*attr).length;
    req_notify_cq(cq: *mut ibv_cq, solicited_only: c_int) -> c_int, of (*cq).context;
    resize_cq(cq: *mut ibv_cq, cqe: c_int) -> c_int, of (*cq).context;
}

/// # Safety
/// `cq` is NULL or new.
unsafe fn cq_created(context: *mut ibv_context, cq: *mut ibv_cq) {
    if !cq.is_null() {
        objects::add(FaultObject {
            kind: FaultObjectKind::Cq,
            context: context as usize,
            address: cq as usize,
            qpn: 0,
            // SAFETY: the queue is alive, as the caller promises.
            handle: unsafe { (*cq).handle },
            injected: 0,
        });
    }
}

/// # Safety
/// `cq` is NULL or new, and no other thread knows it yet.
unsafe fn cq_ex_created(context: *mut ibv_context, cq: *mut ibv_cq_ex) {
    // SAFETY: an extended CQ begins as a CQ; it is NULL or new, as the caller promises.
    unsafe { cq_created(context, cq.cast()) };
    if !cq.is_null() {
        // SAFETY: the queue is alive and this thread's alone, as the caller promises.
        unsafe { data::wrap_polling(cq) };
    }
}

/// # Safety
/// `qp` is NULL or new.
unsafe fn qp_created(context: *mut ibv_context, qp: *mut ibv_qp) {
    if !qp.is_null() {
        // SAFETY: the queue pair is alive, as the caller promises.
        let (qpn, handle) = unsafe { ((*qp).qp_num, (*qp).handle) };
        objects::add(FaultObject {
            kind: FaultObjectKind::Qp,
            context: context as usize,
            address: qp as usize,
            qpn,
            handle,
            injected: 0,
        });
    }
}

/// # Safety
/// `qp` is NULL or was created with the attributes `attr`, and no other thread knows it yet.
unsafe fn qp_ex_created(
    context: *mut ibv_context,
    qp: *mut ibv_qp,
    attr: *const ibv_qp_init_attr_ex,
) {
    // SAFETY: the attributes are those of a call that has just returned, and readable up to `comp_mask`. With
    // SEND_OPS_FLAGS the queue pair is extended. It is this thread's alone, as the caller promises.
    unsafe {
        qp_created(context, qp);
        if !qp.is_null() && (*attr).comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS != 0 {
            build::wrap(qp.cast());
        }
    }
}

/// # Safety
/// `srq` is NULL or new.
unsafe fn srq_created(context: *mut ibv_context, srq: *mut ibv_srq) {
    if !srq.is_null() {
        objects::add(FaultObject {
            kind: FaultObjectKind::Srq,
            context: context as usize,
            address: srq as usize,
            qpn: 0,
            // SAFETY: the queue is alive, as the caller promises.
            handle: unsafe { (*srq).handle },
            injected: 0,
        });
    }
}

/// Destroys an object, which leaves the table before. If that fails, it is put back.
///
/// # Safety
/// The object at `address` is alive, and `destroy` destroys it.
unsafe fn destroying(address: usize, destroy: impl FnOnce() -> c_int) -> c_int {
    let removed = objects::remove(address);
    let counted = |object: &FaultObject, count: u32| {
        // SAFETY: the object is alive, because it is not destroyed yet, or was not.
        unsafe { object.count_acknowledged(count) }
    };
    if let Some(object) = &removed {
        counted(object, object.injected.wrapping_neg());
    }
    let ret = destroy();
    if let Some(object) = removed.filter(|_| ret != 0) {
        counted(&object, object.injected);
        objects::add(object);
    }
    ret
}

unsafe extern "C" fn destroy_srq(srq: *mut ibv_srq) -> c_int {
    // SAFETY: the queue is alive, and its context is open and wrapped (see the module above).
    unsafe { destroying(srq as usize, || (provider((*srq).context).destroy_srq)(srq)) }
}

unsafe extern "C" fn destroy_qp(qp: *mut ibv_qp) -> c_int {
    let posting = build::POSTING.take(qp as usize);
    // SAFETY: the queue pair is alive, and its context is open and wrapped (see the module above).
    let ret = unsafe { destroying(qp as usize, || (provider((*qp).context).destroy_qp)(qp)) };
    if ret != 0 {
        build::POSTING.put_back(qp as usize, posting);
    }
    ret
}

unsafe extern "C" fn destroy_cq(cq: *mut ibv_cq) -> c_int {
    let polling = data::POLLING.take(cq as usize);
    // SAFETY: the queue is alive, and its context is open and wrapped (see the module above).
    let ret = unsafe { destroying(cq as usize, || (provider((*cq).context).destroy_cq)(cq)) };
    if ret != 0 {
        data::POLLING.put_back(cq as usize, polling);
    }
    ret
}

unsafe extern "C" fn free_context(context: *mut ibv_context) {
    objects::closing(context);
    let events = kernel_events::take(context as usize);
    // SAFETY: the context is open and wrapped (see the module above).
    unsafe { (provider(context).free_context)(context) };
    drop(events);
}

/// A port whose PORT_ERR event was raised is down.
unsafe extern "C" fn query_port(
    context: *mut ibv_context,
    port: u8,
    attr: *mut ibv_port_attr,
) -> c_int {
    // SAFETY: the context is open and wrapped (see the module above), and the attributes are writable.
    unsafe {
        if let Some(errno) = failure(context, "query_port", None, None) {
            return errno.returned();
        }
        let ret = (provider(context).query_port)(context, port, attr);
        if ret == 0 && objects::is_port_down(context) {
            (*attr).state = IBV_PORT_DOWN;
        }
        ret
    }
}

/// A failure leaves the region as it is: IBV_REREG_MR_ERR_INPUT says so.
unsafe extern "C" fn rereg_mr(
    vmr: *mut verbs_mr,
    flags: c_int,
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    access: c_int,
) -> c_int {
    // SAFETY: the region is alive, and its context is open and wrapped (see the module above).
    unsafe {
        let context = (*vmr).ibv_mr.context;
        if let Some(errno) = failure(context, "rereg_mr", None, Some(length as u64)) {
            errno.set();
            return IBV_REREG_MR_ERR_INPUT;
        }
        (provider(context).rereg_mr)(vmr, flags, pd, addr, length, access)
    }
}
