//! Requests and responses of kernel ABIs 3 to 5, and the numbers of their commands, which are those of ABI
//! 6.

/// Request of `IB_USER_VERBS_CMD_MODIFY_SRQ` in ABI 3.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_modify_srq_v3 {
    pub srq_handle: u32,
    pub attr_mask: u32,
    pub max_wr: u32,
    pub max_sge: u32,
    pub srq_limit: u32,
    pub reserved: u32,
}

/// Response to [`ib_uverbs_create_qp`](crate::ib_uverbs_create_qp) in ABI 3.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ibv_create_qp_resp_v3 {
    pub qp_handle: u32,
    pub qpn: u32,
}

/// Response to [`ib_uverbs_create_qp`](crate::ib_uverbs_create_qp) in ABI 4.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ibv_create_qp_resp_v4 {
    pub qp_handle: u32,
    pub qpn: u32,
    pub max_send_wr: u32,
    pub max_recv_wr: u32,
    pub max_send_sge: u32,
    pub max_recv_sge: u32,
    pub max_inline_data: u32,
}

/// Response to [`ib_uverbs_create_srq`](crate::ib_uverbs_create_srq) in ABIs up to 5.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ibv_create_srq_resp_v5 {
    pub srq_handle: u32,
}
