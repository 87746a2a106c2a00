//! Commands for completion queues (`rdma/ib_user_verbs.h`).

/// Request of `IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_create_comp_channel {
    pub response: u64,
}

/// Response to [`ib_uverbs_create_comp_channel`].
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_create_comp_channel_resp {
    pub fd: u32,
}

/// Request of `IB_USER_VERBS_CMD_CREATE_CQ`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_create_cq {
    pub response: u64,
    pub user_handle: u64,
    pub cqe: u32,
    pub comp_vector: u32,
    pub comp_channel: i32,
    pub reserved: u32,
    pub driver_data: [u64; 0],
}

/// Response to [`ib_uverbs_create_cq`].
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_create_cq_resp {
    pub cq_handle: u32,
    pub cqe: u32,
    pub driver_data: [u64; 0],
}

/// Request of `IB_USER_VERBS_EX_CMD_CREATE_CQ`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_ex_create_cq {
    pub user_handle: u64,
    pub cqe: u32,
    pub comp_vector: u32,
    pub comp_channel: i32,
    pub comp_mask: u32,
    pub flags: u32,
    pub reserved: u32,
}

/// Response to [`ib_uverbs_ex_create_cq`].
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_ex_create_cq_resp {
    pub base: ib_uverbs_create_cq_resp,
    pub comp_mask: u32,
    pub response_length: u32,
}

/// Flags of [`ib_uverbs_ex_create_cq`].
pub type ib_uverbs_ex_create_cq_flags = u32;
pub const IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION: ib_uverbs_ex_create_cq_flags = 1 << 0;
pub const IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN: ib_uverbs_ex_create_cq_flags = 1 << 1;

/// Request of `IB_USER_VERBS_CMD_RESIZE_CQ`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_resize_cq {
    pub response: u64,
    pub cq_handle: u32,
    pub cqe: u32,
    pub driver_data: [u64; 0],
}

/// Response to [`ib_uverbs_resize_cq`].
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_resize_cq_resp {
    pub cqe: u32,
    pub reserved: u32,
    pub driver_data: [u64; 0],
}

/// The kernel's [`ibv_moderate_cq`](crate::ibv_moderate_cq).
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_cq_moderation {
    pub cq_count: u16,
    pub cq_period: u16,
}

/// Request of `IB_USER_VERBS_EX_CMD_MODIFY_CQ`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_ex_modify_cq {
    pub cq_handle: u32,
    pub attr_mask: u32,
    pub attr: ib_uverbs_cq_moderation,
    pub reserved: u32,
}

/// Request of `IB_USER_VERBS_CMD_POLL_CQ`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_poll_cq {
    pub response: u64,
    pub cq_handle: u32,
    pub ne: u32,
}

/// Response to [`ib_uverbs_poll_cq`].
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ib_uverbs_poll_cq_resp {
    pub count: u32,
    pub reserved: u32,
    pub wc: [ib_uverbs_wc; 0],
}

/// The kernel's [`ibv_wc`](crate::ibv_wc).
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ib_uverbs_wc {
    pub wr_id: u64,
    pub status: u32,
    pub opcode: u32,
    pub vendor_err: u32,
    pub byte_len: u32,
    pub ex: ib_uverbs_wc_ex,
    pub qp_num: u32,
    pub src_qp: u32,
    pub wc_flags: u32,
    pub pkey_index: u16,
    pub slid: u16,
    pub sl: u8,
    pub dlid_path_bits: u8,
    pub port_num: u8,
    pub reserved: u8,
}

/// The type of `ex` in [`ib_uverbs_wc`].
#[repr(C)]
#[derive(Clone, Copy)]
pub union ib_uverbs_wc_ex {
    pub imm_data: u32,
    pub invalidate_rkey: u32,
}

/// Request of `IB_USER_VERBS_CMD_REQ_NOTIFY_CQ`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_req_notify_cq {
    pub cq_handle: u32,
    pub solicited_only: u32,
}

/// Request of `IB_USER_VERBS_CMD_DESTROY_CQ`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_destroy_cq {
    pub response: u64,
    pub cq_handle: u32,
    pub reserved: u32,
}

/// Response to [`ib_uverbs_destroy_cq`].
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ib_uverbs_destroy_cq_resp {
    pub comp_events_reported: u32,
    pub async_events_reported: u32,
}

/// The part of a completion counter: successes or errors.
pub type ib_uverbs_comp_cntr_entry = u32;
pub const IB_UVERBS_COMP_CNTR_ENTRY_COMP: ib_uverbs_comp_cntr_entry = 0;
pub const IB_UVERBS_COMP_CNTR_ENTRY_ERR: ib_uverbs_comp_cntr_entry = 1;

/// Operations on a completion counter.
pub type ib_uverbs_comp_cntr_modify_op = u32;
pub const IB_UVERBS_COMP_CNTR_MODIFY_OP_SET: ib_uverbs_comp_cntr_modify_op = 0;
pub const IB_UVERBS_COMP_CNTR_MODIFY_OP_INC: ib_uverbs_comp_cntr_modify_op = 1;
