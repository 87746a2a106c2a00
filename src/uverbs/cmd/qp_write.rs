//! Creating a queue pair on a kernel without an ioctl for it: the plain and the extended legacy command.

use ibverbs_abi::*;

use super::qp_handles::Handles;
use crate::uverbs::{kernel_abi, uhw::Uhw, write};

/// The response to the legacy command, which depends on the version of the kernel's ABI.
pub(super) trait CreateResponse {
    /// Handle and QP number.
    fn qp(&self) -> (u32, u32);
    /// The capabilities of the new QP; kernels of ABI 3 do not report them.
    fn cap(&self) -> Option<ibv_qp_cap>;
}

/// A response with capabilities.
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

/// Stores the kernel's response in the QP and in the program's attributes.
#[inline(always)]
fn accept(qp: &mut ibv_qp, attr: &mut ibv_qp_init_attr_ex, response: &impl CreateResponse) {
    (qp.handle, qp.qp_num) = response.qp();
    if let Some(cap) = response.cap() {
        attr.cap = cap;
    }
}

/// Creates a QP by the plain legacy command.
///
/// # Safety
/// `context` is open, and the provider's buffers in `uhw` are live.
#[inline(always)] // with and without attributes of the provider's, and fast in both
pub(super) unsafe fn create(
    context: *mut ibv_context,
    qp: &mut ibv_qp,
    attr: &mut ibv_qp_init_attr_ex,
    handles: &Handles,
    uhw: &Uhw,
) -> Result<(), Errno> {
    // SAFETY: `context` is open, the provider's buffers are live, and the response is of the kernel's ABI.
    unsafe {
        match kernel_abi() {
            3 | 4 => create_old(context, qp, attr, *handles, uhw),
            _ => create_as::<ib_uverbs_create_qp_resp>(context, qp, attr, handles, uhw),
        }
    }
}

/// The command on kernels of ABI 3 and 4. Out of line, so that it costs newer kernels no registers.
///
/// # Safety
/// As for [`create`].
#[cold]
#[inline(never)]
unsafe fn create_old(
    context: *mut ibv_context,
    qp: &mut ibv_qp,
    attr: &mut ibv_qp_init_attr_ex,
    handles: Handles,
    uhw: &Uhw,
) -> Result<(), Errno> {
    // SAFETY: `context` is open, the provider's buffers are live, and the response is of the kernel's ABI.
    unsafe {
        match kernel_abi() {
            3 => create_as::<ibv_create_qp_resp_v3>(context, qp, attr, &handles, uhw),
            _ => create_as::<ibv_create_qp_resp_v4>(context, qp, attr, &handles, uhw),
        }
    }
}

/// # Safety
/// As for [`create`]; the kernel answers with an `R`.
#[inline(always)]
unsafe fn create_as<R: CreateResponse>(
    context: *mut ibv_context,
    qp: &mut ibv_qp,
    attr: &mut ibv_qp_init_attr_ex,
    handles: &Handles,
    uhw: &Uhw,
) -> Result<(), Errno> {
    let request = ib_uverbs_create_qp {
        response: 0,
        user_handle: &raw mut *qp as u64,
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
    };
    let accept = |response: &R| accept(qp, attr, response);
    // SAFETY: `context` is open, the provider's buffers are live, and the kernel answers with an `R`.
    unsafe { write::execute_uhw(context, IB_USER_VERBS_CMD_CREATE_QP, uhw, request, accept) }
}

/// Creates a QP by the extended legacy command.
///
/// # Safety
/// As for [`create`].
#[inline(never)]
pub(super) unsafe fn create_ex(
    context: *mut ibv_context,
    qp: &mut ibv_qp,
    attr: &mut ibv_qp_init_attr_ex,
    handles: Handles,
    uhw: &Uhw,
) -> Result<(), Errno> {
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
    let comp_mask = if handles.rwq_ind_tbl.is_some() {
        IB_UVERBS_CREATE_QP_MASK_IND_TABLE
    } else {
        0
    };
    let request = ib_uverbs_ex_create_qp {
        user_handle: &raw mut *qp as u64,
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
        comp_mask,
        create_flags,
        rwq_ind_tbl_handle: handles.rwq_ind_tbl.unwrap_or(0),
        source_qpn,
    };
    let accept = |response: &ib_uverbs_ex_create_qp_resp| accept(qp, attr, &response.base);
    // SAFETY: `context` is open, the provider's buffers are live, and this is the command's response.
    unsafe {
        write::execute_ex_uhw(
            context,
            IB_USER_VERBS_EX_CMD_CREATE_QP,
            uhw,
            request,
            accept,
        )
    }
}
