//! Commands for work queues (`rdma/ib_user_verbs.h`).

/// Request of `IB_USER_VERBS_EX_CMD_CREATE_WQ`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_ex_create_wq {
    pub comp_mask: u32,
    pub wq_type: u32,
    pub user_handle: u64,
    pub pd_handle: u32,
    pub cq_handle: u32,
    pub max_wr: u32,
    pub max_sge: u32,
    pub create_flags: u32,
    pub reserved: u32,
}

/// Response to [`ib_uverbs_ex_create_wq`].
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_ex_create_wq_resp {
    pub comp_mask: u32,
    pub response_length: u32,
    pub wq_handle: u32,
    pub max_wr: u32,
    pub max_sge: u32,
    pub wqn: u32,
}

/// Request of `IB_USER_VERBS_EX_CMD_MODIFY_WQ`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_ex_modify_wq {
    pub attr_mask: u32,
    pub wq_handle: u32,
    pub wq_state: u32,
    pub curr_wq_state: u32,
    pub flags: u32,
    pub flags_mask: u32,
}

/// Request of `IB_USER_VERBS_EX_CMD_DESTROY_WQ`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_ex_destroy_wq {
    pub comp_mask: u32,
    pub wq_handle: u32,
}

/// Response to [`ib_uverbs_ex_destroy_wq`].
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_ex_destroy_wq_resp {
    pub comp_mask: u32,
    pub response_length: u32,
    pub events_reported: u32,
    pub reserved: u32,
}

/// Request of `IB_USER_VERBS_EX_CMD_CREATE_RWQ_IND_TBL`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_ex_create_rwq_ind_table {
    pub comp_mask: u32,
    pub log_ind_tbl_size: u32,
    pub wq_handles: [u32; 0],
}

/// Response to [`ib_uverbs_ex_create_rwq_ind_table`].
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_ex_create_rwq_ind_table_resp {
    pub comp_mask: u32,
    pub response_length: u32,
    pub ind_tbl_handle: u32,
    pub ind_tbl_num: u32,
}

/// Request of `IB_USER_VERBS_EX_CMD_DESTROY_RWQ_IND_TBL`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_ex_destroy_rwq_ind_table {
    pub comp_mask: u32,
    pub ind_tbl_handle: u32,
}
