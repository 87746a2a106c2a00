//! RDMA WRITEs and READs that wait until all earlier requests are acknowledged, because the host can execute
//! them then, and need not send them.

use super::Requester;
use crate::engine::attributes::Attributes;
use crate::engine::send_queue::{Wqe, WqeState};
use crate::engine::{Host, SendOp, SendWr, Service};

/// Shorter requests are sent: while they are outstanding, both processes work, and the copy of a short one
/// costs little beside the system call.
const MIN_LEN: u32 = 8 << 10;
/// After this number of refusals in a row no WQE waits.
const MAX_REFUSALS: u8 = 4;

/// The WQEs that wait until nothing is in flight, to be executed by the host.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DirectWait {
    /// The current WQE waits, and perhaps those behind it.
    is_waiting: bool,
    /// WQEs in a row that the host did not execute when they had waited.
    refusals: u8,
}

impl Requester {
    /// Whether a WQE, whose first packet is `next`, is not sent now.
    #[inline]
    pub(super) fn waits_for_direct(
        &self,
        wqe: &Wqe,
        attributes: &Attributes,
        host: &impl Host,
    ) -> bool {
        // The last packet must have requested the acknowledgment that ends the wait.
        let in_flight = self.oldest_unacked < self.next && self.next == self.highest_sent;
        in_flight && self.since_ack_req == 0 && self.may_wait_for_direct(wqe, attributes, host)
    }

    /// Whether a WQE may wait for the requests before it.
    #[inline]
    pub(super) fn may_wait_for_direct(
        &self,
        wqe: &Wqe,
        attributes: &Attributes,
        host: &impl Host,
    ) -> bool {
        wqe.len >= MIN_LEN
            && is_executable(&wqe.wr, attributes)
            && self.direct_wait.refusals < MAX_REFUSALS
            && host.can_execute_directly(&wqe.wr, attributes.target())
    }

    /// The current WQE waits.
    pub(super) fn wait_for_direct(&mut self) {
        self.direct_wait.is_waiting = true;
    }

    /// The current WQE is sent.
    #[inline]
    pub(super) fn on_sent(&mut self) {
        self.direct_wait.is_waiting = false;
    }

    /// Whether the current WQE waits for packets in flight.
    #[inline]
    pub(super) fn waits(&self) -> bool {
        self.direct_wait.is_waiting
            && self.oldest_unacked < self.next
            && self.next == self.highest_sent
    }

    /// Whether [`Requester::next_direct`] may return a WR.
    #[inline]
    pub fn has_direct(&self) -> bool {
        self.direct_wait.is_waiting && self.oldest_unacked == self.highest_sent
    }

    /// The oldest WR, if it waits, or is behind one that did, and nothing is left to wait for. The caller
    /// lets the host execute it, and calls [`Requester::on_executed`] or [`Requester::on_refused`].
    pub fn next_direct(&mut self, attributes: &Attributes) -> Option<&SendWr> {
        if !self.has_direct() {
            return None;
        }
        let may_start = self.drain_end.is_none() && self.current == 0;
        let wqe = self.queue.front().filter(|wqe| {
            may_start
                && wqe.state == WqeState::Pending
                && wqe.first == self.next
                && is_executable(&wqe.wr, attributes)
        });
        self.direct_wait.is_waiting = wqe.is_some();
        wqe.map(|wqe| &wqe.wr)
    }

    /// The host has executed the WR.
    pub fn on_executed(&mut self, mtu: u32) {
        let end = self.queue.front().map_or(self.next, |wqe| wqe.end);
        self.queue.execute_oldest(mtu);
        self.oldest_unacked = end;
        self.next = end;
        self.highest_sent = end;
        self.direct_wait.refusals = 0;
    }

    /// The current WQE does not wait any longer.
    pub fn send_waiting(&mut self) {
        self.direct_wait.is_waiting = false;
    }

    /// The host has not executed the WR: it is sent.
    pub fn on_refused(&mut self) {
        self.direct_wait.is_waiting = false;
        self.direct_wait.refusals = self.direct_wait.refusals.saturating_add(1);
    }
}

/// Whether the host may execute a WR: an RDMA WRITE or READ of a reliable connection.
#[inline]
pub fn is_executable(wr: &SendWr, attributes: &Attributes) -> bool {
    let is_possible = match wr.op {
        SendOp::Write { .. } => true,
        SendOp::Read { .. } => attributes.max_rd_atomic > 0,
        _ => false,
    };
    is_possible && attributes.config.service == Service::Rc
}
