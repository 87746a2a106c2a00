//! Where the verbs are that programs have called with NULL: for IBV_EXPLAIN, when a program ends in one.

use super::{ah, comp_channel, cq, device_attr, event, gid, mr, pd, pkey, port, qp, srq};

macro_rules! functions {
    ($($module:ident: $($verb:ident)+;)+) => {
        vec![$($((stringify!($verb), $module::$verb as *const () as usize),)+)+]
    };
}

/// The names and addresses of verbs, but for those of `device.rs`.
pub fn all() -> Vec<(&'static str, usize)> {
    functions! {
        ah: ibv_create_ah ibv_destroy_ah;
        comp_channel: ibv_create_comp_channel ibv_destroy_comp_channel;
        cq: ibv_create_cq ibv_destroy_cq ibv_resize_cq;
        device_attr: ibv_query_device;
        event: ibv_get_async_event;
        gid: ibv_query_gid;
        mr: ibv_dereg_mr ibv_reg_dmabuf_mr ibv_reg_mr ibv_reg_mr_iova ibv_reg_mr_iova2;
        pd: ibv_alloc_pd ibv_dealloc_pd;
        pkey: ibv_query_pkey;
        port: ibv_query_port;
        qp: ibv_create_qp ibv_destroy_qp ibv_modify_qp ibv_query_qp;
        srq: ibv_create_srq ibv_destroy_srq ibv_modify_srq ibv_query_srq;
    }
}
