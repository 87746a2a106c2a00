//! WRs that the HCA executes without the peer's responder.

use super::{Hca, Qp, QpState, Service};
use crate::engine::Gid;
use crate::wire::Psn;

/// The peer of a queue pair, as the packets of its requests show it.
pub struct Initiator {
    /// The number of its queue pair.
    pub qpn: u32,
    /// The peer's address.
    pub gid: Gid,
    /// The first PSN that was expected of it.
    pub first_psn: Psn,
}

/// RDMA WRITEs and READs without packets, if the HCA has the peer's memory. Only uroce uses this.
impl Qp {
    /// Whether [`Qp::execute_direct`] has something to do.
    #[inline]
    pub fn has_direct(&self) -> bool {
        self.state == QpState::Rts && self.sends.has_direct()
    }

    /// Lets the HCA execute WRs that have waited until all earlier requests were acknowledged. To be called
    /// before [`Qp::transmit`], which sends them otherwise, and those behind some MiB.
    pub fn execute_direct(&mut self, hca: &mut impl Hca) {
        if self.state == QpState::Rts {
            let result = self.sends.execute_direct(&self.attributes, hca);
            self.unwrap_or_fail(result, hca);
        }
    }

    /// The WRs that have waited are sent.
    pub fn send_waiting(&mut self) {
        self.sends.send_waiting();
    }

    /// The accesses that the peer may make to memory without this queue pair's responder,
    /// `IBV_ACCESS_REMOTE_*`. None if its requests need the responder.
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

    /// The peer whose requests a connected queue pair executes.
    pub fn initiator(&self) -> Initiator {
        Initiator {
            qpn: self.attributes.dest_qpn,
            gid: self.attributes.peer,
            first_psn: self.attributes.rq_psn,
        }
    }
}
