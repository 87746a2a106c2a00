//! WRs that the host executes without the peer's responder.

use ibverbs_abi::IBV_WC_SUCCESS;

use super::{Host, Qp, QpState, Service, WorkQueue};
use crate::engine::{SendOp, SendWr};

impl Qp {
    /// Whether the host may execute a WR that is being posted: an RDMA WRITE or READ of a reliable
    /// connection. All earlier WRs have completed, so their effects on the peer come before.
    #[inline]
    pub(super) fn may_execute_directly(&self, wr: &SendWr) -> bool {
        let is_possible = match wr.op {
            SendOp::Write { .. } => true,
            SendOp::Read { .. } => self.attributes.max_rd_atomic > 0,
            _ => false,
        };
        is_possible
            && self.state == QpState::Rts
            && self.attributes.config.service == Service::Rc
            && self.requester.depth() == 0
    }

    /// Completes a WR that the host has executed.
    pub(super) fn complete_directly(&mut self, wr: &SendWr, host: &mut impl Host) {
        self.counters.direct_ops += 1;
        let signaled = wr.flags.signaled || self.attributes.config.sq_sig_all;
        let completion = wr.completion(wr.message_len() as u32, IBV_WC_SUCCESS);
        if signaled && host.complete(WorkQueue::Send, completion).is_err() {
            self.enter_fatal_error(host);
        }
    }

    /// What the peer may do to memory without this queue pair's responder, `IBV_ACCESS_REMOTE_*`. None if
    /// its requests need the responder.
    pub fn direct_access(&self) -> Option<u32> {
        let attributes = &self.attributes;
        let is_connected = self.state == QpState::Rts && attributes.config.service == Service::Rc;
        let reads = ibverbs_abi::IBV_ACCESS_REMOTE_READ;
        let denied = if attributes.max_dest_rd_atomic == 0 {
            reads
        } else {
            0
        };
        is_connected.then_some(attributes.access & !denied)
    }

    /// The number of the peer's queue pair, and the peer's address as its packets have it.
    pub fn peer(&self) -> (u32, super::Gid) {
        (self.attributes.dest_qpn, self.attributes.peer)
    }
}
