//! Arguments of calls as text: numbers, decoded flags, and the members of structures.

use core::ffi::c_void;

use ibverbs_abi::*;

use super::super::check::{key, state};

/// An argument as text.
pub trait Show {
    /// # Safety
    /// A pointer to attributes is NULL, or readable as far as the call reads it.
    unsafe fn show(&self, name: &str) -> String;
}

macro_rules! numbers {
    ($($ty:ty)+) => { $(impl Show for $ty {
        unsafe fn show(&self, name: &str) -> String {
            match name {
                "access" => key::rights(*self as u32),
                "attr_mask" => state::mask_names(*self as u32),
                "iova" => format!("{self:#x}"),
                _ => self.to_string(),
            }
        }
    })+ };
}
numbers!(i32 u32 u64 usize u16 u8);

fn address<T>(pointer: *const T) -> String {
    match pointer.is_null() {
        true => "NULL".into(),
        false => format!("{pointer:p}"),
    }
}

/// Pointers of which only the address is shown.
macro_rules! opaque {
    ($($ty:ty)+) => { $(
        impl Show for *mut $ty {
            unsafe fn show(&self, _: &str) -> String {
                address(*self)
            }
        }
        impl Show for *const $ty {
            unsafe fn show(&self, _: &str) -> String {
                address(*self)
            }
        }
    )+ };
}
opaque! {
    ibv_context ibv_pd ibv_mr ibv_mw ibv_cq ibv_qp ibv_srq ibv_ah ibv_comp_channel ibv_gid c_void verbs_mr
    ibv_td ibv_td_init_attr ibv_xrcd ibv_wq ibv_wq_attr ibv_wq_init_attr ibv_rwq_ind_table ibv_counters
    ibv_rwq_ind_table_init_attr ibv_flow ibv_flow_attr ibv_dm *mut ibv_send_wr
    *mut ibv_recv_wr ibv_port_attr ibv_mw_bind ibv_sge ibv_counters_init_attr
    ibv_qp_rate_limit_attr ibv_modify_cq_attr
}

/// Structures whose members are shown. `$of` is the structure.
macro_rules! structures {
    ($($ty:ty: |$of:ident| $text:expr;)+) => { $(impl Show for *mut $ty {
        unsafe fn show(&self, _: &str) -> String {
            // SAFETY: the pointer is NULL or readable, as the caller promises.
            match unsafe { self.as_ref() } {
                Some($of) => format!("{{ {} }}", $text),
                None => "NULL".into(),
            }
        }
    })+ };
}

impl Show for *mut ibv_qp_attr {
    unsafe fn show(&self, _: &str) -> String {
        if self.is_null() {
            return "NULL".into();
        }
        // SAFETY: the attributes are readable up to `rate_limit`, as far as all releases have them.
        let of = unsafe { super::attributes::copy(*self, 0) }.attr;
        format!(
            "{{ qp_state = {}, pkey_index = {}, port_num = {}, path_mtu = {}, dest_qp_num = {:#x}, \
             ah_attr.is_global = {}, ah_attr.port_num = {}, ah_attr.grh.sgid_index = {}, \
             max_rd_atomic = {}, max_dest_rd_atomic = {}, min_rnr_timer = {}, timeout = {}, \
             retry_cnt = {}, rnr_retry = {} }}",
            state::state_name(of.qp_state),
            of.pkey_index,
            of.port_num,
            of.path_mtu,
            of.dest_qp_num,
            of.ah_attr.is_global,
            of.ah_attr.port_num,
            of.ah_attr.grh.sgid_index,
            of.max_rd_atomic,
            of.max_dest_rd_atomic,
            of.min_rnr_timer,
            of.timeout,
            of.retry_cnt,
            of.rnr_retry
        )
    }
}

fn cap(cap: &ibv_qp_cap) -> String {
    format!(
        "max_send_wr = {}, max_recv_wr = {}, max_send_sge = {}, max_recv_sge = {}, max_inline_data = {}",
        cap.max_send_wr, cap.max_recv_wr, cap.max_send_sge, cap.max_recv_sge, cap.max_inline_data
    )
}

structures! {
    ibv_send_wr: |of| format!(
        "wr_id = {}, opcode = {}, num_sge = {}, send_flags = {:#x}",
        of.wr_id, of.opcode, of.num_sge, of.send_flags
    );
    ibv_recv_wr: |of| format!("wr_id = {}, num_sge = {}", of.wr_id, of.num_sge);
    ibv_qp_init_attr: |of| format!(
        "qp_type = {}, send_cq = {}, recv_cq = {}, srq = {}, {}, sq_sig_all = {}",
        state::type_name(of.qp_type), address(of.send_cq), address(of.recv_cq), address(of.srq),
        cap(&of.cap), of.sq_sig_all
    );
    ibv_qp_init_attr_ex: |of| format!(
        "qp_type = {}, send_cq = {}, recv_cq = {}, srq = {}, {}, sq_sig_all = {}, comp_mask = {:#x}",
        state::type_name(of.qp_type), address(of.send_cq), address(of.recv_cq), address(of.srq),
        cap(&of.cap), of.sq_sig_all, of.comp_mask
    );
    ibv_srq_init_attr: |of| format!(
        "max_wr = {}, max_sge = {}, srq_limit = {}",
        of.attr.max_wr, of.attr.max_sge, of.attr.srq_limit
    );
    ibv_srq_init_attr_ex: |of| format!(
        "max_wr = {}, max_sge = {}, srq_limit = {}, comp_mask = {:#x}",
        of.attr.max_wr, of.attr.max_sge, of.attr.srq_limit, of.comp_mask
    );
    ibv_srq_attr: |of| format!(
        "max_wr = {}, max_sge = {}, srq_limit = {}", of.max_wr, of.max_sge, of.srq_limit
    );
    ibv_cq_init_attr_ex: |of| format!(
        "cqe = {}, channel = {}, comp_vector = {}, wc_flags = {:#x}, comp_mask = {:#x}",
        of.cqe, address(of.channel), of.comp_vector, of.wc_flags, of.comp_mask
    );
    ibv_ah_attr: |of| format!(
        "is_global = {}, port_num = {}, grh.sgid_index = {}, grh.hop_limit = {}, dlid = {}, sl = {}",
        of.is_global, of.port_num, of.grh.sgid_index, of.grh.hop_limit, of.dlid, of.sl
    );
    ibv_mr_init_attr: |of| format!(
        "length = {}, access = {}, comp_mask = {:#x}", of.length, key::rights(of.access as u32), of.comp_mask
    );
    ibv_parent_domain_init_attr: |of| format!(
        "pd = {}, td = {}, comp_mask = {:#x}", address(of.pd), address(of.td), of.comp_mask
    );
    ibv_alloc_dm_attr: |of| format!("length = {}, comp_mask = {:#x}", of.length, of.comp_mask);
    ibv_xrcd_init_attr: |of| format!(
        "fd = {}, oflags = {:#o}, comp_mask = {:#x}", of.fd, of.oflags, of.comp_mask
    );
    ibv_qp_open_attr: |of| format!("qp_num = {:#x}, comp_mask = {:#x}", of.qp_num, of.comp_mask);
}
