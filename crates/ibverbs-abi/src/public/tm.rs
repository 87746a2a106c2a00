//! Tag matching: operations and headers.

use crate::*;

/// Operations on the list of tags.
pub type ibv_ops_wr_opcode = u32;
pub const IBV_WR_TAG_ADD: ibv_ops_wr_opcode = 0;
pub const IBV_WR_TAG_DEL: ibv_ops_wr_opcode = 1;
pub const IBV_WR_TAG_SYNC: ibv_ops_wr_opcode = 2;

/// Flags of an [`ibv_ops_wr`].
pub type ibv_ops_flags = u32;
pub const IBV_OPS_SIGNALED: ibv_ops_flags = 1 << 0;
pub const IBV_OPS_TM_SYNC: ibv_ops_flags = 1 << 1;

/// An operation for a tag matching SRQ (`ibv_post_srq_ops(3)`).
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_ops_wr {
    pub wr_id: u64,
    pub next: *mut ibv_ops_wr,
    pub opcode: ibv_ops_wr_opcode,
    pub flags: c_int,
    pub tm: ibv_ops_wr_tm,
}

/// The type of `tm` in [`ibv_ops_wr`].
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_ops_wr_tm {
    pub unexpected_cnt: u32,
    pub handle: u32,
    pub add: ibv_ops_wr_tm_add,
}

/// The type of `add` in [`ibv_ops_wr_tm`].
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_ops_wr_tm_add {
    pub recv_wr_id: u64,
    pub sg_list: *mut ibv_sge,
    pub num_sge: c_int,
    pub tag: u64,
    pub mask: u64,
}

/// Operations of tagged messages.
pub type ibv_tmh_op = u32;
pub const IBV_TMH_NO_TAG: ibv_tmh_op = 0;
pub const IBV_TMH_RNDV: ibv_tmh_op = 1;
pub const IBV_TMH_FIN: ibv_tmh_op = 2;
pub const IBV_TMH_EAGER: ibv_tmh_op = 3;

/// The header in front of a tagged message's payload; in network byte order.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ibv_tmh {
    pub opcode: u8,
    pub reserved: [u8; 3],
    pub app_ctx: u32,
    pub tag: u64,
}

/// The rendezvous header, which says where to read the payload; in network byte order.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ibv_rvh {
    pub va: u64,
    pub rkey: u32,
    pub len: u32,
}
