//! `struct verbs_context_ops` (driver.h): the table of verbs that a provider implements.

use crate::*;

/// Defines the struct, and the layout that introduced each slot, from one list.
macro_rules! ops_table {
    ($($since:ident $name:ident: fn($($arg:ident: $ty:ty),*) $(-> $ret:ty)?;)*) => {
        /// Every verb that a provider can implement, in the order of rdma-core's newest table. This is the
        /// library's own table, in which no slot is null. A provider's table is an array of pointers with
        /// the slots of a `SLOTS_*` list; null is a verb that it does not implement.
        #[repr(C)]
        #[derive(Clone, Copy)]
        pub struct verbs_context_ops {
            $(pub $name: unsafe extern "C" fn($($arg: $ty),*) $(-> $ret)?,)*
        }

        /// The names of the verbs, in the order of [`verbs_context_ops`].
        pub const OPS_NAMES: [&str; OPS] = [$(stringify!($name)),*];
        /// The layout that introduced each slot.
        pub(crate) const OPS_SINCE: [OpsLayout; OPS] = [$(OpsLayout::$since),*];
        /// The number of verbs in the newest table.
        pub const OPS: usize = [$(stringify!($name)),*].len();
    };
}

ops_table! {
    V36 advise_mr: fn(
        pd: *mut ibv_pd,
        advice: ib_uverbs_advise_mr_advice,
        flags: u32,
        sg_list: *mut ibv_sge,
        num_sges: u32
    ) -> c_int;
    V64 alloc_buf: fn(pd: *mut ibv_pd, size: usize, buf: *mut *mut ibv_buf) -> *mut c_void;
    V36 alloc_dm: fn(context: *mut ibv_context, attr: *mut ibv_alloc_dm_attr) -> *mut ibv_dm;
    V59 alloc_dmah: fn(context: *mut ibv_context, attr: *mut ibv_dmah_init_attr) -> *mut ibv_dmah;
    V36 alloc_mw: fn(pd: *mut ibv_pd, type_: ibv_mw_type) -> *mut ibv_mw;
    V36 alloc_null_mr: fn(pd: *mut ibv_pd) -> *mut ibv_mr;
    V36 alloc_parent_domain: fn(
        context: *mut ibv_context, attr: *mut ibv_parent_domain_init_attr
    ) -> *mut ibv_pd;
    V36 alloc_pd: fn(context: *mut ibv_context) -> *mut ibv_pd;
    V36 alloc_td: fn(context: *mut ibv_context, init_attr: *mut ibv_td_init_attr) -> *mut ibv_td;
    V36 async_event: fn(context: *mut ibv_context, event: *mut ibv_async_event);
    V36 attach_counters_point_flow: fn(
        counters: *mut ibv_counters, attr: *mut ibv_counter_attach_attr, flow: *mut ibv_flow
    ) -> c_int;
    V36 attach_mcast: fn(qp: *mut ibv_qp, gid: *const ibv_gid, lid: u16) -> c_int;
    V36 bind_mw: fn(qp: *mut ibv_qp, mw: *mut ibv_mw, mw_bind: *mut ibv_mw_bind) -> c_int;
    V36 close_xrcd: fn(xrcd: *mut ibv_xrcd) -> c_int;
    V36 cq_event: fn(cq: *mut ibv_cq);
    V36 create_ah: fn(pd: *mut ibv_pd, attr: *mut ibv_ah_attr) -> *mut ibv_ah;
    V65 create_comp_cntr: fn(
        context: *mut ibv_context, attr: *mut ibv_comp_cntr_init_attr
    ) -> *mut ibv_comp_cntr;
    V36 create_counters: fn(
        context: *mut ibv_context, init_attr: *mut ibv_counters_init_attr
    ) -> *mut ibv_counters;
    V36 create_cq: fn(
        context: *mut ibv_context, cqe: c_int, channel: *mut ibv_comp_channel, comp_vector: c_int
    ) -> *mut ibv_cq;
    V36 create_cq_ex: fn(
        context: *mut ibv_context, init_attr: *mut ibv_cq_init_attr_ex
    ) -> *mut ibv_cq_ex;
    V36 create_flow: fn(qp: *mut ibv_qp, flow_attr: *mut ibv_flow_attr) -> *mut ibv_flow;
    V36 create_flow_action_esp: fn(
        context: *mut ibv_context, attr: *mut ibv_flow_action_esp_attr
    ) -> *mut ibv_flow_action;
    V36 create_qp: fn(pd: *mut ibv_pd, attr: *mut ibv_qp_init_attr) -> *mut ibv_qp;
    V36 create_qp_ex: fn(
        context: *mut ibv_context, qp_init_attr_ex: *mut ibv_qp_init_attr_ex
    ) -> *mut ibv_qp;
    V36 create_rwq_ind_table: fn(
        context: *mut ibv_context, init_attr: *mut ibv_rwq_ind_table_init_attr
    ) -> *mut ibv_rwq_ind_table;
    V36 create_srq: fn(pd: *mut ibv_pd, srq_init_attr: *mut ibv_srq_init_attr) -> *mut ibv_srq;
    V36 create_srq_ex: fn(
        context: *mut ibv_context, srq_init_attr_ex: *mut ibv_srq_init_attr_ex
    ) -> *mut ibv_srq;
    V36 create_wq: fn(
        context: *mut ibv_context, wq_init_attr: *mut ibv_wq_init_attr
    ) -> *mut ibv_wq;
    V59 dealloc_dmah: fn(dmah: *mut ibv_dmah) -> c_int;
    V36 dealloc_mw: fn(mw: *mut ibv_mw) -> c_int;
    V36 dealloc_pd: fn(pd: *mut ibv_pd) -> c_int;
    V36 dealloc_td: fn(td: *mut ibv_td) -> c_int;
    V36 dereg_mr: fn(vmr: *mut verbs_mr) -> c_int;
    V36 destroy_ah: fn(ah: *mut ibv_ah) -> c_int;
    V65 destroy_comp_cntr: fn(comp_cntr: *mut ibv_comp_cntr) -> c_int;
    V36 destroy_counters: fn(counters: *mut ibv_counters) -> c_int;
    V36 destroy_cq: fn(cq: *mut ibv_cq) -> c_int;
    V36 destroy_flow: fn(flow: *mut ibv_flow) -> c_int;
    V36 destroy_flow_action: fn(action: *mut ibv_flow_action) -> c_int;
    V36 destroy_qp: fn(qp: *mut ibv_qp) -> c_int;
    V36 destroy_rwq_ind_table: fn(rwq_ind_table: *mut ibv_rwq_ind_table) -> c_int;
    V36 destroy_srq: fn(srq: *mut ibv_srq) -> c_int;
    V36 destroy_wq: fn(wq: *mut ibv_wq) -> c_int;
    V36 detach_mcast: fn(qp: *mut ibv_qp, gid: *const ibv_gid, lid: u16) -> c_int;
    V62 dm_export_dmabuf_fd: fn(dm: *mut ibv_dm) -> c_int;
    V64 free_buf: fn(buf: *mut ibv_buf);
    V36 free_context: fn(context: *mut ibv_context);
    V36 free_dm: fn(dm: *mut ibv_dm) -> c_int;
    V36 get_srq_num: fn(srq: *mut ibv_srq, srq_num: *mut u32) -> c_int;
    V36 import_dm: fn(context: *mut ibv_context, dm_handle: u32) -> *mut ibv_dm;
    V36 import_mr: fn(pd: *mut ibv_pd, mr_handle: u32) -> *mut ibv_mr;
    V36 import_pd: fn(context: *mut ibv_context, pd_handle: u32) -> *mut ibv_pd;
    V65 inc_comp_cntr: fn(comp_cntr: *mut ibv_comp_cntr, amount: u64) -> c_int;
    V65 inc_err_comp_cntr: fn(comp_cntr: *mut ibv_comp_cntr, amount: u64) -> c_int;
    V36 modify_cq: fn(cq: *mut ibv_cq, attr: *mut ibv_modify_cq_attr) -> c_int;
    V36 modify_flow_action_esp: fn(
        action: *mut ibv_flow_action, attr: *mut ibv_flow_action_esp_attr
    ) -> c_int;
    V36 modify_qp: fn(qp: *mut ibv_qp, attr: *mut ibv_qp_attr, attr_mask: c_int) -> c_int;
    V36 modify_qp_rate_limit: fn(qp: *mut ibv_qp, attr: *mut ibv_qp_rate_limit_attr) -> c_int;
    V36 modify_srq: fn(
        srq: *mut ibv_srq, srq_attr: *mut ibv_srq_attr, srq_attr_mask: c_int
    ) -> c_int;
    V36 modify_wq: fn(wq: *mut ibv_wq, wq_attr: *mut ibv_wq_attr) -> c_int;
    V36 open_qp: fn(context: *mut ibv_context, attr: *mut ibv_qp_open_attr) -> *mut ibv_qp;
    V36 open_xrcd: fn(
        context: *mut ibv_context, xrcd_init_attr: *mut ibv_xrcd_init_attr
    ) -> *mut ibv_xrcd;
    V36 poll_cq: fn(cq: *mut ibv_cq, num_entries: c_int, wc: *mut ibv_wc) -> c_int;
    V36 post_recv: fn(
        qp: *mut ibv_qp, wr: *mut ibv_recv_wr, bad_wr: *mut *mut ibv_recv_wr
    ) -> c_int;
    V36 post_send: fn(
        qp: *mut ibv_qp, wr: *mut ibv_send_wr, bad_wr: *mut *mut ibv_send_wr
    ) -> c_int;
    V36 post_srq_ops: fn(
        srq: *mut ibv_srq, op: *mut ibv_ops_wr, bad_op: *mut *mut ibv_ops_wr
    ) -> c_int;
    V36 post_srq_recv: fn(
        srq: *mut ibv_srq, recv_wr: *mut ibv_recv_wr, bad_recv_wr: *mut *mut ibv_recv_wr
    ) -> c_int;
    V65 qp_attach_comp_cntr: fn(
        qp: *mut ibv_qp, comp_cntr: *mut ibv_comp_cntr, attr: *mut ibv_qp_attach_comp_cntr_attr
    ) -> c_int;
    V65 query_comp_cntr_caps: fn(
        context: *mut ibv_context, caps: *mut ibv_comp_cntr_caps, caps_size: usize
    ) -> c_int;
    V36 query_device_ex: fn(
        context: *mut ibv_context,
        input: *const ibv_query_device_ex_input,
        attr: *mut ibv_device_attr_ex,
        attr_size: usize
    ) -> c_int;
    V36 query_ece: fn(qp: *mut ibv_qp, ece: *mut ibv_ece) -> c_int;
    V36 query_port: fn(
        context: *mut ibv_context, port_num: u8, port_attr: *mut ibv_port_attr
    ) -> c_int;
    V62 query_port_speed: fn(context: *mut ibv_context, port_num: u32, speed: *mut u64) -> c_int;
    V36 query_qp: fn(
        qp: *mut ibv_qp, attr: *mut ibv_qp_attr, attr_mask: c_int, init_attr: *mut ibv_qp_init_attr
    ) -> c_int;
    V36 query_qp_data_in_order: fn(qp: *mut ibv_qp, op: ibv_wr_opcode, flags: u32) -> c_int;
    V36 query_rt_values: fn(context: *mut ibv_context, values: *mut ibv_values_ex) -> c_int;
    V36 query_srq: fn(srq: *mut ibv_srq, srq_attr: *mut ibv_srq_attr) -> c_int;
    V65 read_comp_cntr: fn(comp_cntr: *mut ibv_comp_cntr, value: *mut u64) -> c_int;
    V36 read_counters: fn(
        counters: *mut ibv_counters, counters_value: *mut u64, ncounters: u32, flags: u32
    ) -> c_int;
    V65 read_err_comp_cntr: fn(comp_cntr: *mut ibv_comp_cntr, value: *mut u64) -> c_int;
    V36 reg_dm_mr: fn(
        pd: *mut ibv_pd, dm: *mut ibv_dm, dm_offset: u64, length: usize, access: c_uint
    ) -> *mut ibv_mr;
    V36 reg_dmabuf_mr: fn(
        pd: *mut ibv_pd, offset: u64, length: usize, iova: u64, fd: c_int, access: c_int
    ) -> *mut ibv_mr;
    V36 reg_mr: fn(
        pd: *mut ibv_pd, addr: *mut c_void, length: usize, hca_va: u64, access: c_int
    ) -> *mut ibv_mr;
    V59 reg_mr_ex: fn(pd: *mut ibv_pd, mr_init_attr: *mut ibv_mr_init_attr) -> *mut ibv_mr;
    V36 req_notify_cq: fn(cq: *mut ibv_cq, solicited_only: c_int) -> c_int;
    V36 rereg_mr: fn(
        vmr: *mut verbs_mr,
        flags: c_int,
        pd: *mut ibv_pd,
        addr: *mut c_void,
        length: usize,
        access: c_int
    ) -> c_int;
    V36 resize_cq: fn(cq: *mut ibv_cq, cqe: c_int) -> c_int;
    V65 set_comp_cntr: fn(comp_cntr: *mut ibv_comp_cntr, value: u64) -> c_int;
    V36 set_ece: fn(qp: *mut ibv_qp, ece: *mut ibv_ece) -> c_int;
    V65 set_err_comp_cntr: fn(comp_cntr: *mut ibv_comp_cntr, value: u64) -> c_int;
    V36 unimport_dm: fn(dm: *mut ibv_dm);
    V36 unimport_mr: fn(mr: *mut ibv_mr);
    V36 unimport_pd: fn(pd: *mut ibv_pd);
}
