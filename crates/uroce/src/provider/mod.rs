//! The verbs over the device, as a libibverbs provider implements them: an ops table, a file per object.
//!
//! | file | responsible for |
//! |---|---|
//! | `ffi.rs` | the conversion of results to the conventions of C |
//! | `object.rs` | what an object is made of; reference counts; waiting for acknowledged events |
//! | `handle.rs`, `close.rs` | which objects exist, limits; closing a context |
//! | `listed.rs`, `context.rs` | devices of the library's list, opening; contexts, their events, GIDs |
//! | `channel.rs` | completion channels |
//! | `attributes.rs` | device and port attributes; limits |
//! | `pd.rs`, `mr.rs`, `mw.rs` | protection, thread and parent domains; memory regions; windows |
//! | `dm.rs`, `comp_cntr.rs` | device memory; completion counters |
//! | `import.rs` | contexts and objects of another context of this process |
//! | `ah.rs`, `multicast.rs` | address handles; multicast groups |
//! | `srq.rs` | shared receive queues, XRC domains |
//! | `cq.rs`, `cq_ex.rs` | completion queues, plain and extended |
//! | `qp.rs`, `create_qp.rs`, `init_attr.rs` | queue pairs; creating them; what they are created with |
//! | `modify.rs`, `transitions.rs` | attributes of queue pairs; state transition table (pure) |
//! | `post.rs`, `wr_list.rs` | work requests posted as lists; conversions that several verbs share |
//! | `wr_api.rs`, `wr_session.rs` | work requests built by the `ibv_wr_*` functions |
//!
//! Not here: what the library does before it calls an op (argument checks, locks of the device list).

mod ah;
mod attributes;
mod channel;
mod close;
mod comp_cntr;
mod context;
mod cq;
mod cq_ex;
mod create_qp;
mod dm;
mod ffi;
mod handle;
mod import;
mod init_attr;
mod listed;
mod modify;
mod mr;
mod multicast;
mod mw;
mod object;
mod pd;
mod post;
mod qp;
mod srq;
mod transitions;
mod wr_api;
mod wr_list;
mod wr_session;

use core::ffi::{c_int, c_uint, c_void};

use ibverbs_abi::*;

pub use attributes::NO_CABLE;
pub use cq::{unread as unread_completions, unread_failure};
use ffi::{ReturnToC, c_functions};
pub use listed::new_device;

c_functions! {
    ah {
        create_ah(pd: *mut ibv_pd, attr: *mut ibv_ah_attr) -> *mut ibv_ah;
        destroy_ah(ah: *mut ibv_ah) -> c_int;
    }
    attributes {
        query_device_ex(
            context: *mut ibv_context,
            input: *const ibv_query_device_ex_input,
            attr: *mut ibv_device_attr_ex,
            attr_size: usize,
        ) -> c_int;
        query_port(context: *mut ibv_context, port_num: u8, attr: *mut ibv_port_attr) -> c_int;
        query_port_speed(context: *mut ibv_context, port_num: u32, speed: *mut u64) -> c_int;
        query_rt_values(context: *mut ibv_context, values: *mut ibv_values_ex) -> c_int;
    }
    comp_cntr {
        create_comp_cntr(
            context: *mut ibv_context,
            attr: *mut ibv_comp_cntr_init_attr,
        ) -> *mut ibv_comp_cntr;
        destroy_comp_cntr(counter: *mut ibv_comp_cntr) -> c_int;
        inc_comp_cntr(counter: *mut ibv_comp_cntr, amount: u64) -> c_int;
        inc_err_comp_cntr(counter: *mut ibv_comp_cntr, amount: u64) -> c_int;
        qp_attach_comp_cntr(
            qp: *mut ibv_qp,
            counter: *mut ibv_comp_cntr,
            attr: *mut ibv_qp_attach_comp_cntr_attr,
        ) -> c_int;
        query_comp_cntr_caps(
            context: *mut ibv_context,
            caps: *mut ibv_comp_cntr_caps,
            caps_size: usize,
        ) -> c_int;
        read_comp_cntr(counter: *mut ibv_comp_cntr, value: *mut u64) -> c_int;
        read_err_comp_cntr(counter: *mut ibv_comp_cntr, value: *mut u64) -> c_int;
        set_comp_cntr(counter: *mut ibv_comp_cntr, value: u64) -> c_int;
        set_err_comp_cntr(counter: *mut ibv_comp_cntr, value: u64) -> c_int;
    }
    cq {
        create_cq(
            context: *mut ibv_context,
            cqe: c_int,
            channel: *mut ibv_comp_channel,
            comp_vector: c_int,
        ) -> *mut ibv_cq;
        destroy_cq(cq: *mut ibv_cq) -> c_int;
        modify_cq(cq: *mut ibv_cq, attr: *mut ibv_modify_cq_attr) -> c_int;
        resize_cq(cq: *mut ibv_cq, cqe: c_int) -> c_int;
    }
    cq_ex {
        create_cq_ex(context: *mut ibv_context, attr: *mut ibv_cq_init_attr_ex) -> *mut ibv_cq_ex;
    }
    create_qp {
        create_qp(pd: *mut ibv_pd, init: *mut ibv_qp_init_attr) -> *mut ibv_qp;
        create_qp_ex(context: *mut ibv_context, init: *mut ibv_qp_init_attr_ex) -> *mut ibv_qp;
        open_qp(context: *mut ibv_context, attr: *mut ibv_qp_open_attr) -> *mut ibv_qp;
    }
    dm {
        alloc_dm(context: *mut ibv_context, attr: *mut ibv_alloc_dm_attr) -> *mut ibv_dm;
        free_dm(dm: *mut ibv_dm) -> c_int;
        memcpy_from_dm(
            host_addr: *mut c_void,
            dm: *mut ibv_dm,
            dm_offset: u64,
            length: usize,
        ) -> c_int;
        memcpy_to_dm(
            dm: *mut ibv_dm,
            dm_offset: u64,
            host_addr: *const c_void,
            length: usize,
        ) -> c_int;
    }
    import {
        import_dm(context: *mut ibv_context, dm_handle: u32) -> *mut ibv_dm;
        import_mr(pd: *mut ibv_pd, mr_handle: u32) -> *mut ibv_mr;
        import_pd(context: *mut ibv_context, pd_handle: u32) -> *mut ibv_pd;
    }
    modify {
        modify_qp(qp: *mut ibv_qp, attr: *mut ibv_qp_attr, mask: c_int) -> c_int;
        query_qp(
            qp: *mut ibv_qp,
            attr: *mut ibv_qp_attr,
            mask: c_int,
            init: *mut ibv_qp_init_attr,
        ) -> c_int;
    }
    mr {
        advise_mr(
            pd: *mut ibv_pd,
            advice: ib_uverbs_advise_mr_advice,
            flags: u32,
            sg_list: *mut ibv_sge,
            num_sges: u32,
        ) -> c_int;
        dereg_mr(mr: *mut verbs_mr) -> c_int;
        reg_dmabuf_mr(
            pd: *mut ibv_pd,
            offset: u64,
            length: usize,
            iova: u64,
            fd: c_int,
            access: c_int,
        ) -> *mut ibv_mr;
        reg_dm_mr(
            pd: *mut ibv_pd,
            dm: *mut ibv_dm,
            dm_offset: u64,
            length: usize,
            access: c_uint,
        ) -> *mut ibv_mr;
        reg_mr(
            pd: *mut ibv_pd,
            addr: *mut c_void,
            length: usize,
            iova: u64,
            access: c_int,
        ) -> *mut ibv_mr;
        rereg_mr(
            vmr: *mut verbs_mr,
            flags: c_int,
            pd: *mut ibv_pd,
            addr: *mut c_void,
            length: usize,
            access: c_int,
        ) -> c_int;
    }
    multicast {
        attach_mcast(qp: *mut ibv_qp, gid: *const ibv_gid, lid: u16) -> c_int;
        detach_mcast(qp: *mut ibv_qp, gid: *const ibv_gid, lid: u16) -> c_int;
    }
    mw {
        dealloc_mw(mw: *mut ibv_mw) -> c_int;
        alloc_mw(pd: *mut ibv_pd, kind: ibv_mw_type) -> *mut ibv_mw;
    }
    pd {
        alloc_parent_domain(
            context: *mut ibv_context,
            attr: *mut ibv_parent_domain_init_attr,
        ) -> *mut ibv_pd;
        alloc_pd(context: *mut ibv_context) -> *mut ibv_pd;
        alloc_td(context: *mut ibv_context, attr: *mut ibv_td_init_attr) -> *mut ibv_td;
        dealloc_pd(pd: *mut ibv_pd) -> c_int;
        dealloc_td(td: *mut ibv_td) -> c_int;
    }
    post {
        bind_mw(qp: *mut ibv_qp, mw: *mut ibv_mw, bind: *mut ibv_mw_bind) -> c_int;
    }
    qp {
        destroy_qp(qp: *mut ibv_qp) -> c_int;
    }
    srq {
        close_xrcd(xrcd: *mut ibv_xrcd) -> c_int;
        create_srq(pd: *mut ibv_pd, init: *mut ibv_srq_init_attr) -> *mut ibv_srq;
        create_srq_ex(context: *mut ibv_context, init: *mut ibv_srq_init_attr_ex) -> *mut ibv_srq;
        destroy_srq(srq: *mut ibv_srq) -> c_int;
        get_srq_num(srq: *mut ibv_srq, number: *mut u32) -> c_int;
        modify_srq(srq: *mut ibv_srq, attr: *mut ibv_srq_attr, mask: c_int) -> c_int;
        open_xrcd(context: *mut ibv_context, attr: *mut ibv_xrcd_init_attr) -> *mut ibv_xrcd;
        query_srq(srq: *mut ibv_srq, attr: *mut ibv_srq_attr) -> c_int;
    }
}

/// The ops table of a context: all verbs that uroce implements, and the library's defaults for the
/// others.
fn ops_table(core: &verbs_software_core) -> verbs_context_ops {
    verbs_context_ops {
        advise_mr,
        alloc_dm,
        alloc_mw,
        alloc_parent_domain,
        alloc_pd,
        alloc_td,
        attach_mcast,
        bind_mw,
        close_xrcd,
        create_ah,
        create_comp_cntr,
        create_cq,
        create_cq_ex,
        create_qp,
        create_qp_ex,
        create_srq,
        create_srq_ex,
        dealloc_mw,
        dealloc_pd,
        dealloc_td,
        dereg_mr,
        destroy_ah,
        destroy_comp_cntr,
        destroy_cq,
        destroy_qp,
        destroy_srq,
        detach_mcast,
        free_dm,
        get_srq_num,
        import_dm,
        import_mr,
        import_pd,
        inc_comp_cntr,
        inc_err_comp_cntr,
        modify_cq,
        modify_qp,
        modify_srq,
        open_qp,
        open_xrcd,
        qp_attach_comp_cntr,
        query_comp_cntr_caps,
        query_device_ex,
        query_port,
        query_port_speed,
        query_qp,
        query_rt_values,
        query_srq,
        read_comp_cntr,
        read_err_comp_cntr,
        reg_dm_mr,
        reg_dmabuf_mr,
        reg_mr,
        rereg_mr,
        resize_cq,
        set_comp_cntr,
        set_err_comp_cntr,
        unimport_dm: import::unimport_dm,
        unimport_mr: import::unimport_mr,
        unimport_pd: import::unimport_pd,
        free_context: listed::free_context,
        poll_cq: cq::poll_cq,
        post_recv: post::post_recv,
        post_send: post::post_send,
        post_srq_recv: srq::post_srq_recv,
        query_qp_data_in_order: qp::query_qp_data_in_order,
        req_notify_cq: cq::req_notify_cq,
        ..*core.default_ops
    }
}
