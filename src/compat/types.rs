//! The structs of libibverbs 1.0: the members that its programs use, followed by the pointer to the real
//! object.
#![allow(non_camel_case_types)] // C names

use core::mem::offset_of;

use libc::{c_int, c_uint, c_void, pthread_cond_t, pthread_mutex_t};

use crate::abi::*;

/// A device of the list that `ibv_get_device_list` returns, freed with the list. Programs do not use its
/// members; they pass it to `ibv_get_device_name`, `ibv_get_device_guid` and `ibv_open_device`.
#[repr(C)]
pub struct ibv_device_1_0 {
    pub obsolete_sysfs_dev: *mut c_void,
    pub obsolete_sysfs_ibdev: *mut c_void,
    pub real_device: *mut ibv_device,
    pub _ops: _ibv_device_ops,
}

/// The slot of an op that 1.0 programs do not call through the context.
type Unused = *const c_void;

/// The ops of a context. Programs call five of them by inline functions of the old header; the others are
/// NULL.
#[repr(C)]
pub struct ibv_context_ops_1_0 {
    pub query_device: Unused,
    pub query_port: Unused,
    pub alloc_pd: Unused,
    pub dealloc_pd: Unused,
    pub reg_mr: Unused,
    pub dereg_mr: Unused,
    pub create_cq: Unused,
    pub poll_cq: unsafe extern "C" fn(*mut ibv_cq_1_0, c_int, *mut ibv_wc) -> c_int,
    pub req_notify_cq: unsafe extern "C" fn(*mut ibv_cq_1_0, c_int) -> c_int,
    pub cq_event: Unused,
    pub resize_cq: Unused,
    pub destroy_cq: Unused,
    pub create_srq: Unused,
    pub modify_srq: Unused,
    pub query_srq: Unused,
    pub destroy_srq: Unused,
    pub post_srq_recv: unsafe extern "C" fn(
        *mut ibv_srq_1_0,
        *mut ibv_recv_wr_1_0,
        *mut *mut ibv_recv_wr_1_0,
    ) -> c_int,
    pub create_qp: Unused,
    pub query_qp: Unused,
    pub modify_qp: Unused,
    pub destroy_qp: Unused,
    pub post_send: unsafe extern "C" fn(
        *mut ibv_qp_1_0,
        *mut ibv_send_wr_1_0,
        *mut *mut ibv_send_wr_1_0,
    ) -> c_int,
    pub post_recv: unsafe extern "C" fn(
        *mut ibv_qp_1_0,
        *mut ibv_recv_wr_1_0,
        *mut *mut ibv_recv_wr_1_0,
    ) -> c_int,
    pub create_ah: Unused,
    pub destroy_ah: Unused,
    pub attach_mcast: Unused,
    pub detach_mcast: Unused,
}

/// A context.
#[repr(C)]
pub struct ibv_context_1_0 {
    pub device: *mut ibv_device_1_0,
    pub ops: ibv_context_ops_1_0,
    pub cmd_fd: c_int,
    pub async_fd: c_int,
    pub num_comp_vectors: c_int,
    pub real_context: *mut ibv_context,
}

/// A protection domain.
#[repr(C)]
pub struct ibv_pd_1_0 {
    pub context: *mut ibv_context_1_0,
    pub handle: u32,
    pub real_pd: *mut ibv_pd,
}

/// A memory region.
#[repr(C)]
pub struct ibv_mr_1_0 {
    pub context: *mut ibv_context_1_0,
    pub pd: *mut ibv_pd_1_0,
    pub handle: u32,
    pub lkey: u32,
    pub rkey: u32,
    pub real_mr: *mut ibv_mr,
}

/// A completion queue. The mutex, the condition variable and the event counters of twins are not used;
/// those of the real object are.
#[repr(C)]
pub struct ibv_cq_1_0 {
    pub context: *mut ibv_context_1_0,
    pub cq_context: *mut c_void,
    pub handle: u32,
    pub cqe: c_int,
    pub mutex: pthread_mutex_t,
    pub cond: pthread_cond_t,
    pub comp_events_completed: u32,
    pub async_events_completed: u32,
    pub real_cq: *mut ibv_cq,
}

/// A shared receive queue.
#[repr(C)]
pub struct ibv_srq_1_0 {
    pub context: *mut ibv_context_1_0,
    pub srq_context: *mut c_void,
    pub pd: *mut ibv_pd_1_0,
    pub handle: u32,
    pub mutex: pthread_mutex_t,
    pub cond: pthread_cond_t,
    pub events_completed: u32,
    pub real_srq: *mut ibv_srq,
}

/// A queue pair.
#[repr(C)]
pub struct ibv_qp_1_0 {
    pub context: *mut ibv_context_1_0,
    pub qp_context: *mut c_void,
    pub pd: *mut ibv_pd_1_0,
    pub send_cq: *mut ibv_cq_1_0,
    pub recv_cq: *mut ibv_cq_1_0,
    pub srq: *mut ibv_srq_1_0,
    pub handle: u32,
    pub qp_num: u32,
    pub state: ibv_qp_state,
    pub qp_type: ibv_qp_type,
    pub mutex: pthread_mutex_t,
    pub cond: pthread_cond_t,
    pub events_completed: u32,
    pub real_qp: *mut ibv_qp,
}

/// Attributes of a new queue pair, with twins of the CQs and the SRQ.
#[repr(C)]
pub struct ibv_qp_init_attr_1_0 {
    pub qp_context: *mut c_void,
    pub send_cq: *mut ibv_cq_1_0,
    pub recv_cq: *mut ibv_cq_1_0,
    pub srq: *mut ibv_srq_1_0,
    pub cap: ibv_qp_cap,
    pub qp_type: ibv_qp_type,
    pub sq_sig_all: c_int,
}

/// An address handle.
#[repr(C)]
pub struct ibv_ah_1_0 {
    pub context: *mut ibv_context_1_0,
    pub pd: *mut ibv_pd_1_0,
    pub handle: u32,
    pub real_ah: *mut ibv_ah,
}

/// A send work request. Compared with [`ibv_send_wr`], `next` precedes `wr_id`, no member follows `wr`, and
/// `wr.ud.ah` points to an [`ibv_ah_1_0`].
#[repr(C)]
pub struct ibv_send_wr_1_0 {
    pub next: *mut ibv_send_wr_1_0,
    pub wr_id: u64,
    pub sg_list: *mut ibv_sge,
    pub num_sge: c_int,
    pub opcode: ibv_wr_opcode,
    pub send_flags: c_uint,
    pub imm_data: u32,
    pub wr: ibv_send_wr_wr,
}

/// A receive work request. Compared with [`ibv_recv_wr`], `next` precedes `wr_id`.
#[repr(C)]
pub struct ibv_recv_wr_1_0 {
    pub next: *mut ibv_recv_wr_1_0,
    pub wr_id: u64,
    pub sg_list: *mut ibv_sge,
    pub num_sge: c_int,
}

// The offsets and sizes that are compiled into 1.0 programs. Those of libc's types differ between
// architectures.
const _: () = {
    const LOCKS: usize = size_of::<pthread_mutex_t>() + size_of::<pthread_cond_t>();
    assert!(size_of::<ibv_device_1_0>() == 40);
    assert!(offset_of!(ibv_context_ops_1_0, poll_cq) == 7 * 8);
    assert!(offset_of!(ibv_context_ops_1_0, req_notify_cq) == 8 * 8);
    assert!(offset_of!(ibv_context_ops_1_0, post_srq_recv) == 16 * 8);
    assert!(offset_of!(ibv_context_ops_1_0, post_send) == 21 * 8);
    assert!(offset_of!(ibv_context_ops_1_0, post_recv) == 22 * 8);
    assert!(size_of::<ibv_context_ops_1_0>() == 27 * 8);
    assert!(offset_of!(ibv_context_1_0, cmd_fd) == 224);
    assert!(offset_of!(ibv_context_1_0, real_context) == 240);
    assert!(size_of::<ibv_context_1_0>() == 248);
    assert!(offset_of!(ibv_pd_1_0, real_pd) == 16);
    assert!(offset_of!(ibv_mr_1_0, lkey) == 20);
    assert!(offset_of!(ibv_mr_1_0, real_mr) == 32);
    assert!(offset_of!(ibv_cq_1_0, cqe) == 20);
    assert!(offset_of!(ibv_cq_1_0, real_cq) == 32 + LOCKS);
    assert!(offset_of!(ibv_srq_1_0, handle) == 24);
    assert!(offset_of!(ibv_srq_1_0, real_srq) == 40 + LOCKS);
    assert!(offset_of!(ibv_qp_1_0, qp_num) == 52);
    assert!(offset_of!(ibv_qp_1_0, real_qp) == 72 + LOCKS);
    assert!(size_of::<ibv_qp_init_attr_1_0>() == 64);
    assert!(offset_of!(ibv_ah_1_0, real_ah) == 24);
    assert!(offset_of!(ibv_send_wr_1_0, imm_data) == 36);
    assert!(offset_of!(ibv_send_wr_1_0, wr) == 40);
    assert!(size_of::<ibv_send_wr_1_0>() == 72);
    assert!(size_of::<ibv_recv_wr_1_0>() == 32);
};
