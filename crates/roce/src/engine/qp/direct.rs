//! WRs that the HCA executes without the peer's responder.

use super::{Hca, Qp, QpState, Service};
use crate::engine::shm::{Sender, is_executable};
use crate::engine::{Completion, Gid, SendWr};
use crate::wire::Psn;

/// The most bytes that one call copies, apart from its last WR: other threads wait for the queue pair.
const MAX_DIRECT_LEN: u64 = 8 << 20;

/// The peer of a queue pair, as the packets of its requests show it.
pub struct Initiator {
    /// The number of its queue pair.
    pub qpn: u32,
    /// The peer's address.
    pub gid: Gid,
    /// The first PSN that was expected of it.
    pub first_psn: Psn,
}

impl Qp {
    /// Whether the HCA may execute a WR that is being posted. All earlier WRs have completed, so their
    /// effects on the peer come before.
    #[inline]
    pub(super) fn may_execute_directly(&self, wr: &SendWr) -> bool {
        is_executable(wr, &self.attributes)
            && self.state == QpState::Rts
            && self.sends.queue().is_empty()
    }

    /// Whether [`Qp::execute_direct`] has something to do.
    #[inline]
    pub fn has_direct(&self) -> bool {
        let sender = self.sends.sender();
        self.state == QpState::Rts && sender.is_some_and(Sender::has_direct)
    }

    /// Lets the HCA execute WRs that have waited until all earlier requests were acknowledged. To be called
    /// before [`Qp::transmit`], which sends them otherwise, and the one behind `MAX_DIRECT_LEN` bytes.
    pub fn execute_direct(&mut self, hca: &mut impl Hca) {
        let mut len = 0;
        while self.has_direct() && len < MAX_DIRECT_LEN {
            let Some((sender, queue)) = self.sends.sender_mut() else {
                return;
            };
            let Some(wr) = sender.next_direct(queue, &self.attributes) else {
                return;
            };
            if !hca.execute_directly(wr, self.attributes.target()) {
                sender.on_refused();
                return;
            }
            len += wr.message_len();
            self.counters.direct_ops += 1;
            sender.on_executed(queue);
            self.complete_sends(hca);
        }
        self.send_waiting();
    }

    /// The WRs that have waited are sent.
    pub fn send_waiting(&mut self) {
        if let Some((sender, _)) = self.sends.sender_mut() {
            sender.send_waiting();
        }
    }

    /// Completes a WR that the HCA has executed.
    pub(super) fn complete_directly(
        &mut self,
        signaled: bool,
        completion: Completion,
        hca: &mut impl Hca,
    ) {
        self.counters.direct_ops += 1;
        self.sends.queue_mut().skip();
        if self.report_send(signaled, completion, hca).is_err() {
            self.enter_fatal_error(hca);
        }
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
