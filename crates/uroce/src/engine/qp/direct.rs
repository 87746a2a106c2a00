//! WRs that the host executes without the peer's responder.

use super::{Host, Qp, QpState, Service, WorkQueue};
use crate::engine::{Completion, Gid, SendOp, SendWr};
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

impl Qp {
    /// Whether the host may execute a WR that is being posted. All earlier WRs have completed, so their
    /// effects on the peer come before.
    #[inline]
    pub(super) fn may_execute_directly(&self, wr: &SendWr) -> bool {
        let is_possible = match wr.op {
            SendOp::Write { .. } => true,
            SendOp::Read { .. } => self.attributes.max_rd_atomic > 0,
            _ => false,
        };
        is_possible
            && self.attributes.config.service == Service::Rc
            && self.state == QpState::Rts
            && self.requester.depth() == 0
    }

    /// Completes a WR that the host has executed.
    pub(super) fn complete_directly(
        &mut self,
        signaled: bool,
        completion: Completion,
        host: &mut impl Host,
    ) {
        self.counters.direct_ops += 1;
        let signaled = signaled || self.attributes.config.sq_sig_all;
        if signaled && host.complete(WorkQueue::Send, completion).is_err() {
            self.enter_fatal_error(host);
        }
    }

    /// What the peer may do to memory without this queue pair's responder, `IBV_ACCESS_REMOTE_*`. None if
    /// its requests need the responder.
    pub fn direct_access(&self) -> Option<u32> {
        let attributes = &self.attributes;
        // In RTR the first packet raises an event.
        let is_ready = match self.state {
            QpState::Rts => true,
            QpState::Rtr => self.responder.is_established(),
            _ => false,
        };
        let is_connected = is_ready && attributes.config.service == Service::Rc;
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
