//! Posting work requests through the kernel, for devices that have no queues in user space.

use ibverbs_abi::*;
use libc::{ENOMEM, c_int};

use crate::uverbs::{scratch::Scratch, write};

/// Room on the stack for a command with its work requests and their scatter/gather lists behind it.
const WORDS: usize = 512;

/// A work request as programs post it.
trait WorkRequest: Sized {
    /// As the kernel reads it.
    type Kernel;
    /// The next of the list.
    fn next(&self) -> *mut Self;
    /// The scatter/gather list.
    fn sg_list(&self) -> (*const ibv_sge, usize);
    /// The kernel's form, but for the scatter/gather list.
    ///
    /// # Safety
    /// What the request points to is live.
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
        // SAFETY: zeros are valid for these integers; the unions are read as the QP type and the
        // opcode say they were written.
        unsafe {
            let mut to: ib_uverbs_send_wr = core::mem::zeroed();
            to.wr_id = self.wr_id;
            to.num_sge = self.num_sge as u32;
            to.opcode = self.opcode;
            to.send_flags = self.send_flags;
            to.ex.imm_data = self.imm.imm_data;
            if qp_type == IBV_QPT_UD {
                to.wr.ud.ah = (*self.wr.ud.ah).handle;
                to.wr.ud.remote_qpn = self.wr.ud.remote_qpn;
                to.wr.ud.remote_qkey = self.wr.ud.remote_qkey;
                return to;
            }
            match self.opcode {
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
            to
        }
    }
}

/// Posts a list of work requests; `*bad_wr` is the first that the kernel did not take.
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
) -> c_int {
    // The three commands have one layout in front of the requests.
    type Header = Cmd<ib_uverbs_post_send>;
    let list = |first: *mut W| {
        let some = |wr: *mut W| (!wr.is_null()).then_some(wr);
        // SAFETY: each request of the list is live by the contract.
        core::iter::successors(some(first), move |wr| some(unsafe { (**wr).next() }))
    };
    // SAFETY: by the contract; everything is written within the command's length, which counts the
    // requests and their elements.
    unsafe {
        let wr_count = list(wr).count();
        let sge_count: usize = list(wr).map(|wr| (*wr).sg_list().1).sum();
        let len = size_of::<Header>()
            + wr_count * size_of::<W::Kernel>()
            + sge_count * size_of::<ibv_sge>();
        let Some(mut command) = Scratch::<WORDS>::new(len) else {
            *bad_wr = wr;
            return ENOMEM;
        };
        let mut response = ib_uverbs_post_send_resp { bad_wr: 0 };
        let header = command.bytes().as_mut_ptr().cast::<Header>();
        (*header).core_payload.response = &raw mut response as u64;
        (*header).core_payload.qp_handle = handle;
        (*header).core_payload.wr_count = wr_count as u32;
        (*header).core_payload.sge_count = sge_count as u32;
        (*header).core_payload.wqe_size = size_of::<W::Kernel>() as u32;
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
        let ret = write::execute_sized(
            context,
            method,
            header.cast(),
            len,
            len,
            (&raw mut response).cast(),
            size_of_val(&response),
            size_of_val(&response),
        );
        // The kernel counts from 1.
        if response.bad_wr != 0 {
            if let Some(bad) = list(wr).nth(response.bad_wr as usize - 1) {
                *bad_wr = bad;
            }
        } else if ret != 0 {
            *bad_wr = wr;
        }
        ret
    }
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
    // SAFETY: by the contract.
    unsafe {
        let (handle, qp_type) = ((*ibqp).handle, (*ibqp).qp_type);
        post(
            (*ibqp).context,
            IB_USER_VERBS_CMD_POST_SEND,
            handle,
            qp_type,
            wr,
            bad_wr,
        )
    }
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
    // SAFETY: by the contract.
    unsafe {
        let (handle, qp_type) = ((*ibqp).handle, (*ibqp).qp_type);
        post(
            (*ibqp).context,
            IB_USER_VERBS_CMD_POST_RECV,
            handle,
            qp_type,
            wr,
            bad_wr,
        )
    }
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
    // SAFETY: by the contract.
    unsafe {
        let handle = (*srq).handle;
        post(
            (*srq).context,
            IB_USER_VERBS_CMD_POST_SRQ_RECV,
            handle,
            IBV_QPT_RC,
            wr,
            bad_wr,
        )
    }
}

/// One layout for the three commands.
const _: () = {
    assert!(size_of::<ib_uverbs_post_send>() == size_of::<ib_uverbs_post_recv>());
    assert!(size_of::<ib_uverbs_post_send>() == size_of::<ib_uverbs_post_srq_recv>());
};
