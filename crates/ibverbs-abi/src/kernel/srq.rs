//! Commands for shared receive queues (`rdma/ib_user_verbs.h`).

/// Request of `IB_USER_VERBS_CMD_CREATE_SRQ`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_create_srq {
    pub response: u64,
    pub user_handle: u64,
    pub pd_handle: u32,
    pub max_wr: u32,
    pub max_sge: u32,
    pub srq_limit: u32,
    pub driver_data: [u64; 0],
}

/// Request of `IB_USER_VERBS_CMD_CREATE_XSRQ`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_create_xsrq {
    pub response: u64,
    pub user_handle: u64,
    pub srq_type: u32,
    pub pd_handle: u32,
    pub max_wr: u32,
    pub max_sge: u32,
    pub srq_limit: u32,
    pub max_num_tags: u32,
    pub xrcd_handle: u32,
    pub cq_handle: u32,
    pub driver_data: [u64; 0],
}

/// Response to [`ib_uverbs_create_srq`].
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_create_srq_resp {
    pub srq_handle: u32,
    pub max_wr: u32,
    pub max_sge: u32,
    pub srqn: u32,
    pub driver_data: [u32; 0],
}

/// Request of `IB_USER_VERBS_CMD_MODIFY_SRQ`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_modify_srq {
    pub srq_handle: u32,
    pub attr_mask: u32,
    pub max_wr: u32,
    pub srq_limit: u32,
    pub driver_data: [u64; 0],
}

/// Request of `IB_USER_VERBS_CMD_QUERY_SRQ`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_query_srq {
    pub response: u64,
    pub srq_handle: u32,
    pub reserved: u32,
    pub driver_data: [u64; 0],
}

/// Response to [`ib_uverbs_query_srq`].
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_query_srq_resp {
    pub max_wr: u32,
    pub max_sge: u32,
    pub srq_limit: u32,
    pub reserved: u32,
}

/// Request of `IB_USER_VERBS_CMD_DESTROY_SRQ`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_destroy_srq {
    pub response: u64,
    pub srq_handle: u32,
    pub reserved: u32,
}

/// Response to [`ib_uverbs_destroy_srq`].
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_destroy_srq_resp {
    pub events_reported: u32,
}
