//! Work requests.

use crate::*;

/// Opcodes of send requests.
pub type ibv_wr_opcode = u32;
pub const IBV_WR_RDMA_WRITE: ibv_wr_opcode = 0;
pub const IBV_WR_RDMA_WRITE_WITH_IMM: ibv_wr_opcode = 1;
pub const IBV_WR_SEND: ibv_wr_opcode = 2;
pub const IBV_WR_SEND_WITH_IMM: ibv_wr_opcode = 3;
pub const IBV_WR_RDMA_READ: ibv_wr_opcode = 4;
pub const IBV_WR_ATOMIC_CMP_AND_SWP: ibv_wr_opcode = 5;
pub const IBV_WR_ATOMIC_FETCH_AND_ADD: ibv_wr_opcode = 6;
pub const IBV_WR_LOCAL_INV: ibv_wr_opcode = 7;
pub const IBV_WR_BIND_MW: ibv_wr_opcode = 8;
pub const IBV_WR_SEND_WITH_INV: ibv_wr_opcode = 9;
pub const IBV_WR_TSO: ibv_wr_opcode = 10;
pub const IBV_WR_DRIVER1: ibv_wr_opcode = 11;
pub const IBV_WR_FLUSH: ibv_wr_opcode = 14;
pub const IBV_WR_ATOMIC_WRITE: ibv_wr_opcode = 15;

/// Flags of an [`ibv_send_wr`].
pub type ibv_send_flags = u32;
pub const IBV_SEND_FENCE: ibv_send_flags = 1 << 0;
pub const IBV_SEND_SIGNALED: ibv_send_flags = 1 << 1;
pub const IBV_SEND_SOLICITED: ibv_send_flags = 1 << 2;
pub const IBV_SEND_INLINE: ibv_send_flags = 1 << 3;
pub const IBV_SEND_IP_CSUM: ibv_send_flags = 1 << 4;

/// Placement types of a flush, as a mask: global visibility or persistence.
pub type ibv_placement_type = u32;
pub const IBV_FLUSH_GLOBAL: ibv_placement_type = 1;
pub const IBV_FLUSH_PERSISTENT: ibv_placement_type = 2;

/// Selectivity of a flush: a range or the whole memory region.
pub type ibv_selectivity_level = u32;
pub const IBV_FLUSH_RANGE: ibv_selectivity_level = 0;
pub const IBV_FLUSH_MR: ibv_selectivity_level = 1;

/// A piece of memory for inline data.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_data_buf {
    pub addr: *mut c_void,
    pub length: usize,
}

/// A scatter/gather element: a piece of registered memory.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ibv_sge {
    pub addr: u64,
    /// In bytes.
    pub length: u32,
    pub lkey: u32,
}

/// A send request in a list (`ibv_post_send(3)`). The opcode says which members of the unions are valid.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_send_wr {
    pub wr_id: u64,
    pub next: *mut ibv_send_wr,
    pub sg_list: *mut ibv_sge,
    pub num_sge: c_int,
    pub opcode: ibv_wr_opcode,
    pub send_flags: c_uint,
    pub imm: ibv_send_wr_imm,
    pub wr: ibv_send_wr_wr,
    pub qp_type: ibv_send_wr_qp_type,
    pub op: ibv_send_wr_op,
}

/// The type of `imm` in [`ibv_send_wr`].
#[repr(C)]
#[derive(Clone, Copy)]
pub union ibv_send_wr_imm {
    pub imm_data: u32,
    pub invalidate_rkey: u32,
}

/// The type of `wr` in [`ibv_send_wr`].
#[repr(C)]
#[derive(Clone, Copy)]
pub union ibv_send_wr_wr {
    pub rdma: ibv_send_wr_wr_rdma,
    pub atomic: ibv_send_wr_wr_atomic,
    pub ud: ibv_send_wr_wr_ud,
}

/// The type of `rdma` in [`ibv_send_wr_wr`].
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ibv_send_wr_wr_rdma {
    pub remote_addr: u64,
    pub rkey: u32,
}

/// The type of `atomic` in [`ibv_send_wr_wr`].
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ibv_send_wr_wr_atomic {
    pub remote_addr: u64,
    pub compare_add: u64,
    pub swap: u64,
    pub rkey: u32,
}

/// The type of `ud` in [`ibv_send_wr_wr`].
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_send_wr_wr_ud {
    pub ah: *mut ibv_ah,
    pub remote_qpn: u32,
    pub remote_qkey: u32,
}

/// The type of `qp_type` in [`ibv_send_wr`].
#[repr(C)]
#[derive(Clone, Copy)]
pub union ibv_send_wr_qp_type {
    pub xrc: ibv_send_wr_qp_type_xrc,
}

/// The type of `xrc` in [`ibv_send_wr_qp_type`].
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ibv_send_wr_qp_type_xrc {
    pub remote_srqn: u32,
}

/// The type of `op` in [`ibv_send_wr`].
#[repr(C)]
#[derive(Clone, Copy)]
pub union ibv_send_wr_op {
    pub bind_mw: ibv_send_wr_op_bind_mw,
    pub tso: ibv_send_wr_op_tso,
}

/// The type of `bind_mw` in [`ibv_send_wr_op`].
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_send_wr_op_bind_mw {
    pub mw: *mut ibv_mw,
    pub rkey: u32,
    pub bind_info: ibv_mw_bind_info,
}

/// The type of `tso` in [`ibv_send_wr_op`].
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_send_wr_op_tso {
    pub hdr: *mut c_void,
    pub hdr_sz: u16,
    pub mss: u16,
}

/// A receive request in a list (`ibv_post_recv(3)`).
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_recv_wr {
    pub wr_id: u64,
    pub next: *mut ibv_recv_wr,
    pub sg_list: *mut ibv_sge,
    pub num_sge: c_int,
}
