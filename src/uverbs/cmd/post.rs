//! Posting work requests through the kernel, for devices that have no queues in user space.

use ibverbs_abi::*;
use libc::c_int;

use super::to_c;
use crate::uverbs::{scratch::Scratch, uhw::Buffer, write};

/// Words of eight bytes on the stack for a command, its work requests and their scatter/gather lists. Longer
/// commands are allocated.
const WORDS: usize = 512;

/// A work request of verbs.h.
trait WorkRequest: Sized {
    /// The kernel's form.
    type Kernel;
    /// The next one in the list.
    fn next(&self) -> *mut Self;
    /// The scatter/gather list, and the number of its elements.
    fn sg_list(&self) -> (*const ibv_sge, usize);
    /// The kernel's form, which does not include the scatter/gather list.
    ///
    /// # Safety
    /// The address handle of a UD request is live.
    unsafe fn to_kernel(&self, qp_type: ibv_qp_type) -> Self::Kernel;
}

impl WorkRequest for ibv_recv_wr {
    type Kernel = ib_uverbs_recv_wr;
    fn next(&self) -> *mut Self {
        self.next
    }
    fn sg_list(&self) -> (*const ibv_sge, usize) {
        (self.sg_list, self.num_sge.max(0) as usize)
    }
    unsafe fn to_kernel(&self, _: ibv_qp_type) -> ib_uverbs_recv_wr {
        ib_uverbs_recv_wr {
            wr_id: self.wr_id,
            num_sge: self.num_sge as u32,
            reserved: 0,
        }
    }
}

impl WorkRequest for ibv_send_wr {
    type Kernel = ib_uverbs_send_wr;
    fn next(&self) -> *mut Self {
        self.next
    }
    fn sg_list(&self) -> (*const ibv_sge, usize) {
        (self.sg_list, self.num_sge.max(0) as usize)
    }
    unsafe fn to_kernel(&self, qp_type: ibv_qp_type) -> ib_uverbs_send_wr {
        // SAFETY: all members are integers, for which zeros are valid.
        let mut to: ib_uverbs_send_wr = unsafe { core::mem::zeroed() };
        to.wr_id = self.wr_id;
        to.num_sge = self.num_sge as u32;
        to.opcode = self.opcode;
        to.send_flags = self.send_flags;
        // SAFETY: both members of the union are 32-bit integers.
        to.ex.imm_data = unsafe { self.imm.imm_data };
        // SAFETY: the caller says that the address handle of a UD request is live. All other members of the
        // unions are integers; the QP type and the opcode say which are set.
        unsafe {
            match self.opcode {
                _ if qp_type == IBV_QPT_UD => {
                    to.wr.ud.ah = (*self.wr.ud.ah).handle;
                    to.wr.ud.remote_qpn = self.wr.ud.remote_qpn;
                    to.wr.ud.remote_qkey = self.wr.ud.remote_qkey;
                }
                IBV_WR_RDMA_WRITE | IBV_WR_RDMA_WRITE_WITH_IMM | IBV_WR_RDMA_READ => {
                    to.wr.rdma.remote_addr = self.wr.rdma.remote_addr;
                    to.wr.rdma.rkey = self.wr.rdma.rkey;
                }
                IBV_WR_ATOMIC_CMP_AND_SWP | IBV_WR_ATOMIC_FETCH_AND_ADD => {
                    to.wr.atomic.remote_addr = self.wr.atomic.remote_addr;
                    to.wr.atomic.compare_add = self.wr.atomic.compare_add;
                    to.wr.atomic.swap = self.wr.atomic.swap;
                    to.wr.atomic.rkey = self.wr.atomic.rkey;
                }
                _ => {}
            }
        }
        to
    }
}

/// The three commands have one layout in front of the requests.
type Header = Cmd<ib_uverbs_post_send>;

/// The requests of a list.
///
/// # Safety
/// `first` is null or a live list that ends in null.
unsafe fn list<W: WorkRequest>(first: *mut W) -> impl Iterator<Item = *mut W> {
    let some = |wr: *mut W| (!wr.is_null()).then_some(wr);
    // SAFETY: each request of the list is live.
    core::iter::successors(some(first), move |wr| some(unsafe { (**wr).next() }))
}

/// Builds the command: the header, all work requests, all their scatter/gather elements.
///
/// # Safety
/// `wr` is a live list that ends in null.
unsafe fn build<W: WorkRequest>(
    handle: u32,
    qp_type: ibv_qp_type,
    wr: *mut W,
) -> Result<Scratch<WORDS>, Errno> {
    // SAFETY: the list is live.
    let (wr_count, sge_count) = unsafe {
        let sge_count: usize = list(wr).map(|wr| (*wr).sg_list().1).sum();
        (list(wr).count(), sge_count)
    };
    let wrs_len = wr_count * size_of::<W::Kernel>();
    let len = size_of::<Header>() + wrs_len + sge_count * size_of::<ibv_sge>();
    let mut command = Scratch::<WORDS>::new(len)?;
    let header = command.bytes().as_mut_ptr().cast::<Header>();
    // SAFETY: the command has room for the header, which is zeroed, and for what it counts; the list and
    // what it points to are live.
    unsafe {
        let payload = &mut (*header).core_payload;
        payload.qp_handle = handle;
        payload.wr_count = wr_count as u32;
        payload.sge_count = sge_count as u32;
        payload.wqe_size = size_of::<W::Kernel>() as u32;
        let mut to = header.add(1).cast::<W::Kernel>();
        let mut sge = to.add(wr_count).cast::<ibv_sge>();
        for wr in list(wr) {
            to.write((*wr).to_kernel(qp_type));
            to = to.add(1);
            let (from, count) = (*wr).sg_list();
            if count != 0 {
                from.copy_to_nonoverlapping(sge, count);
                sge = sge.add(count);
            }
        }
    }
    Ok(command)
}

/// Posts a list of work requests. On failure `*bad_wr` is the first one that the kernel did not accept.
///
/// # Safety
/// `context` is open, `wr` is a live list that ends in null, `bad_wr` is writable.
unsafe fn post<W: WorkRequest>(
    context: *mut ibv_context,
    method: u32,
    handle: u32,
    qp_type: ibv_qp_type,
    wr: *mut W,
    bad_wr: *mut *mut W,
) -> Result<(), Errno> {
    let mut response = ib_uverbs_post_send_resp { bad_wr: 0 };
    // SAFETY: the list is live.
    let result = unsafe { build(handle, qp_type, wr) }.and_then(|mut command| {
        let request = Buffer::<Header> {
            len: command.bytes().len(),
            at: command.bytes().as_mut_ptr().cast(),
        };
        let answer = Buffer::core(&raw mut response);
        // SAFETY: `context` is open, the request is valid for its length, the response is a local.
        unsafe {
            (*request.at).core_payload.response = answer.at as u64;
            let parts = write::Parts {
                core_request_len: request.len,
                request: request.cast(),
                core_response_len: answer.len,
                response: answer.cast(),
            };
            write::execute_sized(context, method, &parts)
        }
    });
    // SAFETY: the list is live, `bad_wr` is writable. The kernel counts requests from 1.
    unsafe {
        if response.bad_wr != 0 {
            if let Some(bad) = list(wr).nth(response.bad_wr as usize - 1) {
                *bad_wr = bad;
            }
        } else if result.is_err() {
            *bad_wr = wr;
        }
    }
    result
}

/// Posts to a send queue.
///
/// # Safety
/// `ibqp` is live, `wr` is a live list that ends in null, `bad_wr` is writable.
pub unsafe extern "C" fn ibv_cmd_post_send(
    ibqp: *mut ibv_qp,
    wr: *mut ibv_send_wr,
    bad_wr: *mut *mut ibv_send_wr,
) -> c_int {
    const METHOD: u32 = IB_USER_VERBS_CMD_POST_SEND;
    // SAFETY: `ibqp` is live, its context open, `wr` a live list, `bad_wr` writable.
    to_c(|| unsafe {
        let ibv_qp {
            context,
            handle,
            qp_type,
            ..
        } = &*ibqp;
        post(*context, METHOD, *handle, *qp_type, wr, bad_wr)
    })
}

/// Posts to a receive queue.
///
/// # Safety
/// `ibqp` is live, `wr` is a live list that ends in null, `bad_wr` is writable.
pub unsafe extern "C" fn ibv_cmd_post_recv(
    ibqp: *mut ibv_qp,
    wr: *mut ibv_recv_wr,
    bad_wr: *mut *mut ibv_recv_wr,
) -> c_int {
    const METHOD: u32 = IB_USER_VERBS_CMD_POST_RECV;
    // SAFETY: `ibqp` is live, its context open, `wr` a live list, `bad_wr` writable.
    to_c(|| unsafe {
        let ibv_qp {
            context,
            handle,
            qp_type,
            ..
        } = &*ibqp;
        post(*context, METHOD, *handle, *qp_type, wr, bad_wr)
    })
}

/// Posts to a shared receive queue.
///
/// # Safety
/// `srq` is live, `wr` is a live list that ends in null, `bad_wr` is writable.
pub unsafe extern "C" fn ibv_cmd_post_srq_recv(
    srq: *mut ibv_srq,
    wr: *mut ibv_recv_wr,
    bad_wr: *mut *mut ibv_recv_wr,
) -> c_int {
    const METHOD: u32 = IB_USER_VERBS_CMD_POST_SRQ_RECV;
    // SAFETY: `srq` is live, its context open, `wr` a live list, `bad_wr` writable.
    to_c(|| unsafe {
        let ibv_srq {
            context, handle, ..
        } = &*srq;
        // The QP type makes no difference to a receive request.
        post(*context, METHOD, *handle, IBV_QPT_RC, wr, bad_wr)
    })
}

/// [`Header`] stands for all three.
const _: () = {
    assert!(size_of::<ib_uverbs_post_send>() == size_of::<ib_uverbs_post_recv>());
    assert!(size_of::<ib_uverbs_post_send>() == size_of::<ib_uverbs_post_srq_recv>());
};
