//! Creating a queue pair on kernels that have no ioctl for it: the plain and the extended legacy command.

use core::mem::MaybeUninit;

use ibverbs_abi::*;
use libc::{EINVAL, c_int};

use super::qp::Handles;
use crate::uverbs::write::{self, Uhw};

/// What the kernels of each ABI answer to the legacy command.
pub(super) trait CreateResponse {
    /// Handle and QP number.
    fn qp(&self) -> (u32, u32);
    /// The limits as they came out; kernels of ABI 3 do not tell.
    fn cap(&self) -> Option<ibv_qp_cap>;
}

/// A response that tells the limits.
macro_rules! response_with_cap {
    ($($t:ty),+) => { $(
        impl CreateResponse for $t {
            fn qp(&self) -> (u32, u32) {
                (self.qp_handle, self.qpn)
            }
            fn cap(&self) -> Option<ibv_qp_cap> {
                Some(ibv_qp_cap {
                    max_send_wr: self.max_send_wr,
                    max_recv_wr: self.max_recv_wr,
                    max_send_sge: self.max_send_sge,
                    max_recv_sge: self.max_recv_sge,
                    max_inline_data: self.max_inline_data,
                })
            }
        }
    )+ };
}
response_with_cap!(ib_uverbs_create_qp_resp, ibv_create_qp_resp_v4);

impl CreateResponse for ibv_create_qp_resp_v3 {
    fn qp(&self) -> (u32, u32) {
        (self.qp_handle, self.qpn)
    }
    fn cap(&self) -> Option<ibv_qp_cap> {
        None
    }
}

/// Takes over what the kernel answered.
///
/// # Safety
/// `qp` is live.
#[inline(always)]
unsafe fn accept(qp: *mut ibv_qp, attr: &mut ibv_qp_init_attr_ex, response: &impl CreateResponse) {
    // SAFETY: by the contract.
    unsafe { ((*qp).handle, (*qp).qp_num) = response.qp() };
    if let Some(cap) = response.cap() {
        attr.cap = cap;
    }
}

/// Creates a QP by the plain legacy command; `R` is what this kernel answers.
///
/// # Safety
/// `context`, `qp`, the objects that `attr` names and the provider's buffers in `uhw` are live.
#[inline(always)]
pub(super) unsafe fn create<R: CreateResponse>(
    context: *mut ibv_context,
    qp: *mut ibv_qp,
    attr: &mut ibv_qp_init_attr_ex,
    handles: &Handles,
    uhw: &Uhw,
) -> c_int {
    let (mut request, mut response) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    let (Ok(request), Ok(response)) = (
        uhw.request::<ibv_create_qp>(&mut request),
        uhw.response::<R>(&mut response),
    ) else {
        return EINVAL;
    };
    // SAFETY: by the contract; request and response are on this stack or in front of the provider's.
    unsafe {
        (&raw mut (*request.at).core_payload).write(ib_uverbs_create_qp {
            response: 0,
            user_handle: qp as u64,
            pd_handle: handles.pd,
            send_cq_handle: handles.send_cq.unwrap_or(0),
            recv_cq_handle: handles.recv_cq.unwrap_or(0),
            srq_handle: handles.srq.unwrap_or(0),
            max_send_wr: attr.cap.max_send_wr,
            max_recv_wr: attr.cap.max_recv_wr,
            max_send_sge: attr.cap.max_send_sge,
            max_recv_sge: attr.cap.max_recv_sge,
            max_inline_data: attr.cap.max_inline_data,
            sq_sig_all: attr.sq_sig_all as u8,
            qp_type: attr.qp_type as u8,
            is_srq: handles.srq.is_some().into(),
            reserved: 0,
            driver_data: [],
        });
        let ret = write::execute(context, IB_USER_VERBS_CMD_CREATE_QP, request, response);
        if ret == 0 {
            accept(qp, attr, &*response.at);
        }
        ret
    }
}

/// Creates a QP by the extended legacy command.
///
/// # Safety
/// As for [`create`].
pub(super) unsafe fn create_ex(
    context: *mut ibv_context,
    qp: *mut ibv_qp,
    attr: &mut ibv_qp_init_attr_ex,
    handles: &Handles,
    uhw: &Uhw,
) -> c_int {
    let (mut request, mut response) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    let (Ok(request), Ok(response)) = (
        uhw.request::<ibv_create_qp_ex>(&mut request),
        uhw.response::<ib_uverbs_ex_create_qp_resp>(&mut response),
    ) else {
        return EINVAL;
    };
    let create_flags = if attr.comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS != 0 {
        attr.create_flags
    } else {
        0
    };
    let source_qpn = if create_flags & IBV_QP_CREATE_SOURCE_QPN != 0 {
        attr.source_qpn
    } else {
        0
    };
    // SAFETY: by the contract; request and response are on this stack or in front of the provider's.
    unsafe {
        (&raw mut (*request.at).core_payload).write(ib_uverbs_ex_create_qp {
            user_handle: qp as u64,
            pd_handle: handles.pd,
            send_cq_handle: handles.send_cq.unwrap_or(0),
            recv_cq_handle: handles.recv_cq.unwrap_or(0),
            srq_handle: handles.srq.unwrap_or(0),
            max_send_wr: attr.cap.max_send_wr,
            max_recv_wr: attr.cap.max_recv_wr,
            max_send_sge: attr.cap.max_send_sge,
            max_recv_sge: attr.cap.max_recv_sge,
            max_inline_data: attr.cap.max_inline_data,
            sq_sig_all: attr.sq_sig_all as u8,
            qp_type: attr.qp_type as u8,
            is_srq: handles.srq.is_some().into(),
            reserved: 0,
            comp_mask: if handles.rwq_ind_tbl.is_some() {
                IB_UVERBS_CREATE_QP_MASK_IND_TABLE
            } else {
                0
            },
            create_flags,
            rwq_ind_tbl_handle: handles.rwq_ind_tbl.unwrap_or(0),
            source_qpn,
        });
        let ret = write::execute_ex(context, IB_USER_VERBS_EX_CMD_CREATE_QP, request, response);
        if ret == 0 {
            accept(qp, attr, &(*response.at).base);
        }
        ret
    }
}
