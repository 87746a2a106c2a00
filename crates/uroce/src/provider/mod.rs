//! The verbs over the device, an ops table as a provider of libibverbs has, a file per object.
//!
//! | file | what is in it |
//! |---|---|
//! | `object.rs` | what an object is made of; answers; waiting for acknowledgements |
//! | `context.rs`, `channel.rs` | devices of the list, contexts, GIDs; completion channels |
//! | `attributes.rs` | what device and port are like |
//! | `pd.rs`, `mr.rs`, `ah.rs`, `srq.rs` | domains; regions and windows; address handles and groups; shared queues and XRC domains |
//! | `cq.rs`, `cq_ex.rs` | completion queues |
//! | `qp.rs`, `modify.rs`, `transitions.rs` | queue pairs; their attributes; the table of states (pure) |
//! | `post.rs`, `wr_api.rs` | work requests, in lists or built by calls |

mod ah;
mod attributes;
mod channel;
mod context;
mod cq;
mod cq_ex;
mod lid;
mod modify;
mod mr;
mod object;
mod pd;
mod post;
mod qp;
mod srq;
mod transitions;
mod wr_api;

use core::ffi::{c_int, c_void};

use ibverbs_abi::*;

pub use context::new_device;
use object::ToC;

/// Writes the table: the operations that answer by a `Result`, which C gets as its own answers, and
/// those that are C's already.
macro_rules! table {
    (
        answers: { $($op:ident($($arg:ident: $ty:ty),*) -> $answer:ty = $module:ident;)* }
        as_they_are: { $($plain:ident = $from:ident),* $(,)? }
    ) => {
        $(
            unsafe extern "C" fn $op($($arg: $ty),*) -> $answer {
                // SAFETY: the same contract.
                unsafe { $module::$op($($arg),*) }.to_c()
            }
        )*

        /// All operations of a context.
        fn table(core: &verbs_software_core) -> verbs_context_ops {
            verbs_context_ops {
                $($op,)*
                $($plain: $from::$plain,)*
                ..*core.default_ops
            }
        }
    };
}

table! {
    answers: {
    alloc_mw(pd: *mut ibv_pd, kind: ibv_mw_type) -> *mut ibv_mw = mr;
    alloc_parent_domain(
        context: *mut ibv_context, attr: *mut ibv_parent_domain_init_attr
    ) -> *mut ibv_pd = pd;
    alloc_pd(context: *mut ibv_context) -> *mut ibv_pd = pd;
    alloc_td(context: *mut ibv_context, attr: *mut ibv_td_init_attr) -> *mut ibv_td = pd;
    attach_mcast(qp: *mut ibv_qp, gid: *const ibv_gid, lid: u16) -> c_int = ah;
    bind_mw(qp: *mut ibv_qp, mw: *mut ibv_mw, bind: *mut ibv_mw_bind) -> c_int = mr;
    close_xrcd(xrcd: *mut ibv_xrcd) -> c_int = srq;
    create_ah(pd: *mut ibv_pd, attr: *mut ibv_ah_attr) -> *mut ibv_ah = ah;
    create_cq(
        context: *mut ibv_context, cqe: c_int, channel: *mut ibv_comp_channel, comp_vector: c_int
    ) -> *mut ibv_cq = cq;
    create_cq_ex(
        context: *mut ibv_context, attr: *mut ibv_cq_init_attr_ex
    ) -> *mut ibv_cq_ex = cq;
    create_qp(pd: *mut ibv_pd, init: *mut ibv_qp_init_attr) -> *mut ibv_qp = qp;
    create_qp_ex(
        context: *mut ibv_context, init: *mut ibv_qp_init_attr_ex
    ) -> *mut ibv_qp = qp;
    create_srq(pd: *mut ibv_pd, init: *mut ibv_srq_init_attr) -> *mut ibv_srq = srq;
    create_srq_ex(
        context: *mut ibv_context, init: *mut ibv_srq_init_attr_ex
    ) -> *mut ibv_srq = srq;
    dealloc_mw(mw: *mut ibv_mw) -> c_int = mr;
    dealloc_pd(pd: *mut ibv_pd) -> c_int = pd;
    dealloc_td(td: *mut ibv_td) -> c_int = pd;
    dereg_mr(mr: *mut verbs_mr) -> c_int = mr;
    destroy_ah(ah: *mut ibv_ah) -> c_int = ah;
    destroy_cq(cq: *mut ibv_cq) -> c_int = cq;
    destroy_qp(qp: *mut ibv_qp) -> c_int = qp;
    destroy_srq(srq: *mut ibv_srq) -> c_int = srq;
    detach_mcast(qp: *mut ibv_qp, gid: *const ibv_gid, lid: u16) -> c_int = ah;
    get_srq_num(srq: *mut ibv_srq, number: *mut u32) -> c_int = srq;
    modify_qp(qp: *mut ibv_qp, attr: *mut ibv_qp_attr, mask: c_int) -> c_int = modify;
    modify_srq(srq: *mut ibv_srq, attr: *mut ibv_srq_attr, mask: c_int) -> c_int = srq;
    open_qp(context: *mut ibv_context, attr: *mut ibv_qp_open_attr) -> *mut ibv_qp = qp;
    open_xrcd(
        context: *mut ibv_context, attr: *mut ibv_xrcd_init_attr
    ) -> *mut ibv_xrcd = srq;
    query_device_ex(
        context: *mut ibv_context,
        input: *const ibv_query_device_ex_input,
        attr: *mut ibv_device_attr_ex,
        attr_size: usize
    ) -> c_int = attributes;
    query_port(
        context: *mut ibv_context, port_num: u8, attr: *mut ibv_port_attr
    ) -> c_int = attributes;
    query_port_speed(
        context: *mut ibv_context, port_num: u32, speed: *mut u64
    ) -> c_int = attributes;
    query_qp(
        qp: *mut ibv_qp, attr: *mut ibv_qp_attr, mask: c_int, init: *mut ibv_qp_init_attr
    ) -> c_int = modify;
    query_rt_values(
        context: *mut ibv_context, values: *mut ibv_values_ex
    ) -> c_int = attributes;
    query_srq(srq: *mut ibv_srq, attr: *mut ibv_srq_attr) -> c_int = srq;
    reg_mr(
        pd: *mut ibv_pd, addr: *mut c_void, length: usize, iova: u64, access: c_int
    ) -> *mut ibv_mr = mr;
    resize_cq(cq: *mut ibv_cq, cqe: c_int) -> c_int = cq;
    }
    as_they_are: {
        free_context = context,
        poll_cq = cq,
        post_recv = post,
        post_send = post,
        post_srq_recv = srq,
        query_qp_data_in_order = qp,
        req_notify_cq = cq,
        rereg_mr = mr,
    }
}
