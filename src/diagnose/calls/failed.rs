//! The outermost wrappers: a call that fails, and of which no rule knows the cause, is reported with its
//! arguments and with what the error means (call-failed); attributes of ibv_modify_qp are checked before the
//! call (attr-range).
//!
//! Programs probe for features, so a verb that a device does not have is not reported (EOPNOTSUPP, ENOSYS),
//! except for the registration of memory, and for what `unsupported.rs` knows of queue pairs. Nor is an
//! ibv_reg_dmabuf_mr with which programs ask whether there are dma-bufs ([`arguments::probes_dmabuf`]). An
//! error that IBV_FAULTS has injected is reported as injected only.

use core::ffi::{c_int, c_uint, c_void};

use ibverbs_abi::*;

use super::super::check::{reasons, values};
use super::super::finding::{Finding, Kind, Outcome};
use super::super::originals::explaining;
use super::super::rules::Rule;
use super::super::shadow::Shadow;
use super::super::{backtrace, cm, crash_notes, facts, report};
use super::argument::{Argument, first_wrong, number, object};
use super::show::Show;
use super::{arguments, observe, preserving_errno, with};

/// The result of a call, as its C type says success or failure.
trait Returned {
    /// The result, if it is a failure.
    fn failure(&self) -> Option<Outcome>;

    /// The address of the object that the call has created; 0 if it creates none.
    fn address(&self) -> usize;
}

impl Returned for c_int {
    fn failure(&self) -> Option<Outcome> {
        (*self != 0).then(|| Outcome::of(*self))
    }

    fn address(&self) -> usize {
        0
    }
}

impl<T> Returned for *mut T {
    fn failure(&self) -> Option<Outcome> {
        self.is_null().then(|| Outcome::of_pointer(true))
    }

    fn address(&self) -> usize {
        *self as usize
    }
}

/// Defines the wrappers, and the table that has them. `of`: the context; `unless`: the call probes for a
/// feature, and its failure is an answer.
macro_rules! reporting {
    ($(
        $op:ident, $call:literal, of $context:expr, ($($arg:ident: $ty:ty),*) -> $ret:ty
            $(, check $check:expr)? $(, unless $probes:expr)?;
    )+) => {
        /// The ops with wrappers in place of those that can fail.
        pub fn reporting(explaining: &verbs_context_ops) -> verbs_context_ops {
            let ops = verbs_context_ops {
                $($op,)+
                ..*explaining
            };
            verbs_context_ops {
                bind_mw: bind_checked_mw,
                modify_qp: modify_checked_qp,
                poll_cq: enter_poll_cq,
                post_recv: enter_post_recv,
                post_send: enter_post_send,
                ..ops
            }
        }

        $(unsafe extern "C" fn $op($($arg: $ty),*) -> $ret {
            let count_before = report::count();
            // SAFETY: the objects are alive and their context is open and wrapped (see the module above).
            // A destroyed object is not read.
            let (context, ret) = unsafe {
                let context: *mut ibv_context = $context;
                (context, (explaining(context).$op)($($arg),*))
            };
            if let Some(outcome) = ret.failure() {
                $(if $probes {
                    return ret;
                })?
                // SAFETY: the objects and attributes of a call that has returned are still readable.
                $(unsafe { check_arguments(context, $call, &outcome, count_before, || $check) };)?
                // SAFETY: the program's attributes are readable as far as the call reads them.
                let show = || unsafe {
                    [$(format!("{} = {}", stringify!($arg), $arg.show(stringify!($arg)))),*].join(", ")
                };
                report_failure(context, $call, outcome, count_before, show);
            } else if report::traces() {
                created(ret.address());
            }
            ret
        })+
    };
}

reporting! {
    advise_mr, "ibv_advise_mr", of (*pd).context,
        (pd: *mut ibv_pd, advice: ib_uverbs_advise_mr_advice, flags: u32, sg_list: *mut ibv_sge,
            num_sges: u32) -> c_int,
        check arguments::advise_mr(pd, sg_list, num_sges);
    alloc_dm, "ibv_alloc_dm", of context, (context: *mut ibv_context, attr: *mut ibv_alloc_dm_attr)
        -> *mut ibv_dm,
        check arguments::alloc_dm(context, attr);
    alloc_mw, "ibv_alloc_mw", of (*pd).context, (pd: *mut ibv_pd, mw_type: ibv_mw_type) -> *mut ibv_mw,
        check arguments::alloc_mw(pd, mw_type);
    alloc_parent_domain, "ibv_alloc_parent_domain", of context,
        (context: *mut ibv_context, attr: *mut ibv_parent_domain_init_attr) -> *mut ibv_pd;
    alloc_pd, "ibv_alloc_pd", of context, (context: *mut ibv_context) -> *mut ibv_pd;
    alloc_td, "ibv_alloc_td", of context, (context: *mut ibv_context, attr: *mut ibv_td_init_attr)
        -> *mut ibv_td;
    attach_mcast, "ibv_attach_mcast", of (*qp).context,
        (qp: *mut ibv_qp, gid: *const ibv_gid, lid: u16) -> c_int,
        check arguments::attach_mcast(qp, gid);
    bind_mw, "ibv_bind_mw", of (*qp).context,
        (qp: *mut ibv_qp, mw: *mut ibv_mw, mw_bind: *mut ibv_mw_bind) -> c_int,
        check arguments::bind_mw(qp, mw, mw_bind);
    create_ah, "ibv_create_ah", of (*pd).context, (pd: *mut ibv_pd, attr: *mut ibv_ah_attr)
        -> *mut ibv_ah,
        check arguments::create_ah(pd, attr);
    create_cq, "ibv_create_cq", of context,
        (context: *mut ibv_context, cqe: c_int, channel: *mut ibv_comp_channel, comp_vector: c_int)
        -> *mut ibv_cq,
        check arguments::create_cq(context, cqe, channel, comp_vector);
    create_cq_ex, "ibv_create_cq_ex", of context,
        (context: *mut ibv_context, cq_attr: *mut ibv_cq_init_attr_ex) -> *mut ibv_cq_ex,
        check arguments::create_cq_ex(context, cq_attr);
    create_flow, "ibv_create_flow", of (*qp).context, (qp: *mut ibv_qp, flow_attr: *mut ibv_flow_attr)
        -> *mut ibv_flow;
    create_qp, "ibv_create_qp", of (*pd).context, (pd: *mut ibv_pd, attr: *mut ibv_qp_init_attr)
        -> *mut ibv_qp,
        check arguments::create_qp(pd, attr);
    create_qp_ex, "ibv_create_qp_ex", of context,
        (context: *mut ibv_context, attr: *mut ibv_qp_init_attr_ex) -> *mut ibv_qp,
        check arguments::create_qp_ex(context, attr);
    create_rwq_ind_table, "ibv_create_rwq_ind_table", of context,
        (context: *mut ibv_context, attr: *mut ibv_rwq_ind_table_init_attr) -> *mut ibv_rwq_ind_table;
    create_srq, "ibv_create_srq", of (*pd).context, (pd: *mut ibv_pd, attr: *mut ibv_srq_init_attr)
        -> *mut ibv_srq,
        check arguments::create_srq(pd, attr);
    create_srq_ex, "ibv_create_srq_ex", of context,
        (context: *mut ibv_context, attr: *mut ibv_srq_init_attr_ex) -> *mut ibv_srq,
        check arguments::create_srq_ex(context, attr);
    create_wq, "ibv_create_wq", of context, (context: *mut ibv_context, attr: *mut ibv_wq_init_attr)
        -> *mut ibv_wq;
    dealloc_mw, "ibv_dealloc_mw", of (*mw).context, (mw: *mut ibv_mw) -> c_int,
        check vec![object("mw", Kind::Mw, mw as usize)];
    dealloc_pd, "ibv_dealloc_pd", of (*pd).context, (pd: *mut ibv_pd) -> c_int,
        check vec![object("pd", Kind::Pd, pd as usize)];
    dereg_mr, "ibv_dereg_mr", of (*mr).ibv_mr.context, (mr: *mut verbs_mr) -> c_int,
        check vec![object("mr", Kind::Mr, mr as usize)];
    destroy_ah, "ibv_destroy_ah", of (*ah).context, (ah: *mut ibv_ah) -> c_int,
        check vec![object("ah", Kind::Ah, ah as usize)];
    destroy_cq, "ibv_destroy_cq", of (*cq).context, (cq: *mut ibv_cq) -> c_int,
        check vec![object("cq", Kind::Cq, cq as usize)];
    destroy_qp, "ibv_destroy_qp", of (*qp).context, (qp: *mut ibv_qp) -> c_int,
        check vec![object("qp", Kind::Qp, qp as usize)];
    destroy_srq, "ibv_destroy_srq", of (*srq).context, (srq: *mut ibv_srq) -> c_int,
        check vec![object("srq", Kind::Srq, srq as usize)];
    detach_mcast, "ibv_detach_mcast", of (*qp).context,
        (qp: *mut ibv_qp, gid: *const ibv_gid, lid: u16) -> c_int;
    free_dm, "ibv_free_dm", of (*dm).context, (dm: *mut ibv_dm) -> c_int,
        check vec![object("dm", Kind::Dm, dm as usize)];
    import_dm, "ibv_import_dm", of context, (context: *mut ibv_context, dm_handle: u32) -> *mut ibv_dm;
    import_mr, "ibv_import_mr", of (*pd).context, (pd: *mut ibv_pd, mr_handle: u32) -> *mut ibv_mr;
    import_pd, "ibv_import_pd", of context, (context: *mut ibv_context, pd_handle: u32) -> *mut ibv_pd;
    modify_cq, "ibv_modify_cq", of (*cq).context, (cq: *mut ibv_cq, attr: *mut ibv_modify_cq_attr) -> c_int,
        check vec![object("cq", Kind::Cq, cq as usize)];
    modify_qp, "ibv_modify_qp", of (*qp).context,
        (qp: *mut ibv_qp, attr: *mut ibv_qp_attr, attr_mask: c_int) -> c_int,
        check arguments::modify_qp(qp, attr, attr_mask);
    modify_srq, "ibv_modify_srq", of (*srq).context,
        (srq: *mut ibv_srq, srq_attr: *mut ibv_srq_attr, srq_attr_mask: c_int) -> c_int,
        check arguments::modify_srq(srq, srq_attr, srq_attr_mask);
    open_qp, "ibv_open_qp", of context, (context: *mut ibv_context, attr: *mut ibv_qp_open_attr)
        -> *mut ibv_qp;
    open_xrcd, "ibv_open_xrcd", of context,
        (context: *mut ibv_context, attr: *mut ibv_xrcd_init_attr) -> *mut ibv_xrcd;
    post_recv, "ibv_post_recv", of (*qp).context,
        (qp: *mut ibv_qp, wr: *mut ibv_recv_wr, bad_wr: *mut *mut ibv_recv_wr) -> c_int;
    post_send, "ibv_post_send", of (*qp).context,
        (qp: *mut ibv_qp, wr: *mut ibv_send_wr, bad_wr: *mut *mut ibv_send_wr) -> c_int;
    post_srq_recv, "ibv_post_srq_recv", of (*srq).context,
        (srq: *mut ibv_srq, wr: *mut ibv_recv_wr, bad_wr: *mut *mut ibv_recv_wr) -> c_int;
    query_port, "ibv_query_port", of context,
        (context: *mut ibv_context, port_num: u8, attr: *mut ibv_port_attr) -> c_int,
        check arguments::query_port(context, port_num);
    query_srq, "ibv_query_srq", of (*srq).context, (srq: *mut ibv_srq, attr: *mut ibv_srq_attr) -> c_int,
        check vec![object("srq", Kind::Srq, srq as usize)];
    reg_dm_mr, "ibv_reg_dm_mr", of (*pd).context,
        (pd: *mut ibv_pd, dm: *mut ibv_dm, offset: u64, length: usize, access: c_uint) -> *mut ibv_mr,
        check arguments::reg_dm_mr(pd, dm, access);
    reg_dmabuf_mr, "ibv_reg_dmabuf_mr", of (*pd).context,
        (pd: *mut ibv_pd, offset: u64, length: usize, iova: u64, fd: c_int, access: c_int)
        -> *mut ibv_mr,
        check arguments::reg_dmabuf_mr(pd, fd, access),
        unless arguments::probes_dmabuf(offset, iova, fd);
    reg_mr, "ibv_reg_mr", of (*pd).context,
        (pd: *mut ibv_pd, addr: *mut c_void, length: usize, iova: u64, access: c_int) -> *mut ibv_mr,
        check arguments::reg_mr(pd, access);
    reg_mr_ex, "ibv_reg_mr_ex", of (*pd).context, (pd: *mut ibv_pd, attr: *mut ibv_mr_init_attr)
        -> *mut ibv_mr;
    req_notify_cq, "ibv_req_notify_cq", of (*cq).context, (cq: *mut ibv_cq, solicited_only: c_int)
        -> c_int,
        check vec![object("cq", Kind::Cq, cq as usize)];
    resize_cq, "ibv_resize_cq", of (*cq).context, (cq: *mut ibv_cq, cqe: c_int) -> c_int,
        check arguments::resize_cq(cq, cqe);
}

/// Checks what is bound: the device may notice only when the request is executed.
unsafe extern "C" fn bind_checked_mw(
    qp: *mut ibv_qp,
    mw: *mut ibv_mw,
    bind: *mut ibv_mw_bind,
) -> c_int {
    // SAFETY: the objects are alive, and their context is open and wrapped (see the module above); the
    // program's attributes are readable.
    unsafe {
        let context = (*qp).context;
        let count_before = report::count();
        let arguments = || arguments::bind_mw(qp, mw, bind);
        check_arguments(
            context,
            "ibv_bind_mw",
            &Outcome::Called,
            count_before,
            arguments,
        );
        let info = (*bind).bind_info.into();
        let ret = match report::count() == count_before {
            true => bind_mw(qp, mw, bind),
            false => (explaining(context).bind_mw)(qp, mw, bind),
        };
        if ret == 0 {
            let rkey = (*mw).rkey;
            with(|shadow| shadow.bound(mw as usize, rkey, info, 0));
        }
        ret
    }
}

/// Notes where the program's stack ends, and whether there is a place for a refused request, then calls the
/// wrapper of the table.
unsafe extern "C" fn enter_post_send(
    qp: *mut ibv_qp,
    wr: *mut ibv_send_wr,
    bad_wr: *mut *mut ibv_send_wr,
) -> c_int {
    report::set_stack((&raw const qp).expose_provenance() as u64);
    crash_notes::posting(bad_wr.is_null());
    // SAFETY: the arguments are the program's.
    let ret = unsafe { post_send(qp, wr, bad_wr) };
    crash_notes::posting(false);
    ret
}

/// As [`enter_post_send`].
unsafe extern "C" fn enter_post_recv(
    qp: *mut ibv_qp,
    wr: *mut ibv_recv_wr,
    bad_wr: *mut *mut ibv_recv_wr,
) -> c_int {
    report::set_stack((&raw const qp).expose_provenance() as u64);
    crash_notes::posting(bad_wr.is_null());
    // SAFETY: the arguments are the program's.
    let ret = unsafe { post_recv(qp, wr, bad_wr) };
    crash_notes::posting(false);
    ret
}

/// As [`enter_post_send`].
unsafe extern "C" fn enter_poll_cq(cq: *mut ibv_cq, num_entries: c_int, wc: *mut ibv_wc) -> c_int {
    report::set_stack((&raw const cq).expose_provenance() as u64);
    // SAFETY: the arguments are the program's.
    unsafe { super::data::poll_cq(cq, num_entries, wc) }
}

/// Checks the attributes, then calls the wrapper of the table.
unsafe extern "C" fn modify_checked_qp(
    qp: *mut ibv_qp,
    attr: *mut ibv_qp_attr,
    mask: c_int,
) -> c_int {
    // SAFETY: the program's attributes are readable: in all releases up to `rate_limit`. The queue pair is
    // alive, and its context is open and wrapped (see the module above).
    unsafe {
        let context = (*qp).context;
        let count_before = report::count();
        let copy = super::attributes::copy(attr, mask as u32).attr;
        let device = preserving_errno(|| facts::device(context));
        observe(|shadow| {
            let object = shadow.qps.object(qp as usize);
            values::of_qp(
                &copy,
                mask as u32,
                device.as_ref(),
                &object,
                Outcome::Called,
            )
        });
        match report::count() == count_before {
            true => modify_qp(qp, attr, mask),
            false => (explaining(context).modify_qp)(qp, attr, mask),
        }
    }
}

/// Reports the first argument that is wrong, unless something was reported since `count_before`.
///
/// # Safety
/// `context` is open and wrapped; what `arguments` reads is readable.
#[cold]
pub unsafe fn check_arguments(
    context: *mut ibv_context,
    call: &'static str,
    outcome: &Outcome,
    count_before: u32,
    arguments: impl FnOnce() -> Vec<Argument>,
) {
    if report::count() != count_before {
        return;
    }
    let arguments = preserving_errno(arguments);
    observe(|shadow| {
        let about = shadow.devices.object(context as usize);
        first_wrong(&arguments, shadow, context as usize, &about, call, outcome)
    });
}

/// An entry of a port's GID or P_Key table could not be read.
///
/// # Safety
/// `context` is open and wrapped.
pub unsafe fn query_failed(context: *mut ibv_context, call: &'static str, port: u8, index: c_int) {
    let outcome = Outcome::Failed(Errno::last());
    // SAFETY: the context is open and wrapped, as the caller promises.
    unsafe {
        check_arguments(context, call, &outcome, report::count(), || {
            let mut all = arguments::query_port(context, port);
            if let Some(of_port) = facts::port(context, port) {
                let length = match call {
                    "ibv_query_pkey" => of_port.pkey_tbl_len.into(),
                    _ => of_port.gid_tbl_len,
                };
                let meaning = "the table of the port ends there (gid_tbl_len, pkey_tbl_len of \
                ibv_query_port)";
                all.push(number("index", index, 0, length.max(1) - 1, meaning));
            }
            all
        });
    }
}

/// Remembers where in the program an object was created.
#[cold]
fn created(address: usize) {
    if address != 0 {
        // Not with the lock held: finding the symbols takes long, and locks of its own.
        let from = preserving_errno(backtrace::called_from);
        with(|shadow| shadow.places.created(address, from));
    }
}

/// Reports a failure, unless something was reported since `count_before`.
#[cold]
pub fn report_failure(
    context: *mut ibv_context,
    call: &'static str,
    outcome: Outcome,
    count_before: u32,
    show: impl FnOnce() -> String,
) {
    let Outcome::Failed(errno) = outcome else {
        return;
    };
    let probed = matches!(errno.0, libc::EOPNOTSUPP | libc::ENOSYS) && call != "ibv_reg_mr";
    if report::count() != count_before || probed || cm::current::is_explained() {
        return;
    }
    let arguments = preserving_errno(show);
    observe(|shadow| vec![failed(shadow, context as usize, call, errno, arguments)]);
}

fn failed(
    shadow: &Shadow,
    context: usize,
    call: &'static str,
    errno: Errno,
    arguments: String,
) -> Finding {
    let object = shadow.devices.object(context);
    let (why, todo) = reasons::of_error(call, errno.0);
    Finding::new(Rule::CallFailed, object, call, Outcome::Failed(errno))
        .with("arguments", arguments)
        .with("why", why)
        .with("todo", todo)
}
