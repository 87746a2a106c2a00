//! Posting through the kernel (`rdma/ib_user_verbs.h`), which only the ipath and hfi1 providers do.

/// The kernel's [`ibv_sge`](crate::ibv_sge).
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_sge {
    pub addr: u64,
    pub length: u32,
    pub lkey: u32,
}

/// The kernel's [`ibv_send_wr`](crate::ibv_send_wr).
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ib_uverbs_send_wr {
    pub wr_id: u64,
    pub num_sge: u32,
    pub opcode: u32,
    pub send_flags: u32,
    pub ex: ib_uverbs_send_wr_ex,
    pub wr: ib_uverbs_send_wr_wr,
}

/// The type of `ex` in [`ib_uverbs_send_wr`].
#[repr(C)]
#[derive(Clone, Copy)]
pub union ib_uverbs_send_wr_ex {
    pub imm_data: u32,
    pub invalidate_rkey: u32,
}

/// The type of `wr` in [`ib_uverbs_send_wr`].
#[repr(C)]
#[derive(Clone, Copy)]
pub union ib_uverbs_send_wr_wr {
    pub rdma: ib_uverbs_send_wr_wr_rdma,
    pub atomic: ib_uverbs_send_wr_wr_atomic,
    pub ud: ib_uverbs_send_wr_wr_ud,
}

/// The type of `rdma` in [`ib_uverbs_send_wr_wr`].
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_send_wr_wr_rdma {
    pub remote_addr: u64,
    pub rkey: u32,
    pub reserved: u32,
}

/// The type of `atomic` in [`ib_uverbs_send_wr_wr`].
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_send_wr_wr_atomic {
    pub remote_addr: u64,
    pub compare_add: u64,
    pub swap: u64,
    pub rkey: u32,
    pub reserved: u32,
}

/// The type of `ud` in [`ib_uverbs_send_wr_wr`].
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_send_wr_wr_ud {
    pub ah: u32,
    pub remote_qpn: u32,
    pub remote_qkey: u32,
    pub reserved: u32,
}

/// Request of `IB_USER_VERBS_CMD_POST_SEND`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ib_uverbs_post_send {
    pub response: u64,
    pub qp_handle: u32,
    pub wr_count: u32,
    pub sge_count: u32,
    pub wqe_size: u32,
    pub send_wr: [ib_uverbs_send_wr; 0],
}

/// Response to [`ib_uverbs_post_send`].
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_post_send_resp {
    pub bad_wr: u32,
}

/// The kernel's [`ibv_recv_wr`](crate::ibv_recv_wr).
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_recv_wr {
    pub wr_id: u64,
    pub num_sge: u32,
    pub reserved: u32,
}

/// Request of `IB_USER_VERBS_CMD_POST_RECV`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_post_recv {
    pub response: u64,
    pub qp_handle: u32,
    pub wr_count: u32,
    pub sge_count: u32,
    pub wqe_size: u32,
    pub recv_wr: [ib_uverbs_recv_wr; 0],
}

/// Response to [`ib_uverbs_post_recv`].
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_post_recv_resp {
    pub bad_wr: u32,
}

/// Request of `IB_USER_VERBS_CMD_POST_SRQ_RECV`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_post_srq_recv {
    pub response: u64,
    pub srq_handle: u32,
    pub wr_count: u32,
    pub sge_count: u32,
    pub wqe_size: u32,
    pub recv: [ib_uverbs_recv_wr; 0],
}

/// Response to [`ib_uverbs_post_srq_recv`].
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_post_srq_recv_resp {
    pub bad_wr: u32,
}
