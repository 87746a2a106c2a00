//! WRs that the host executes without the peer's responder.

use ibverbs_abi::IBV_WC_SUCCESS;

use super::{Host, Qp, QpState, Service, WorkQueue};
use crate::engine::{Gid, SendOp, SendWr};
use crate::wire::Psn;

/// The peer of a queue pair, as the packets of its requests show it.
pub struct Initiator {
    /// The number of its queue pair.
    pub qpn: u32,
    /// Its address.
    pub gid: Gid,
    /// The first PSN that was expected of it.
    pub first_psn: Psn,
}

/// The peer of a queue pair, as the target of its requests.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The number of its queue pair.
    pub qpn: u32,
    /// The first PSN that was sent to it.
    pub first_psn: Psn,
}

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

    /// Who executes the requests of a connected queue pair.
    #[inline]
    pub(super) fn target(&self) -> Target {
        Target {
            qpn: self.attributes.dest_qpn,
            first_psn: self.attributes.sq_psn,
        }
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

    /// Whose requests a connected queue pair executes.
    pub fn initiator(&self) -> Initiator {
        Initiator {
            qpn: self.attributes.dest_qpn,
            gid: self.attributes.peer,
            first_psn: self.attributes.rq_psn,
        }
    }
}
