//! RDMA WRITEs and READs that wait until all earlier requests are answered, because the HCA can execute
//! them then without the peer.

use super::Sender;
use crate::engine::attributes::Attributes;
use crate::engine::send_queue::{SendQueue, Wqe, WqeState};
use crate::engine::{Hca, SendOp, SendWr, Service};

/// Shorter requests are written: while they are outstanding, both processes work, and the copy of a short one
/// costs little beside the system call.
const MIN_LEN: u32 = 8 << 10;
/// After this number of refusals in a row no WQE waits.
const MAX_REFUSALS: u8 = 4;

/// The WQEs that wait until nothing is in flight, to be executed by the HCA.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DirectWait {
    /// The current WQE waits, and perhaps those behind it.
    is_waiting: bool,
    /// WQEs in a row that the HCA did not execute when they had waited.
    refusals: u8,
}

impl Sender {
    /// Whether the current WQE, which has not begun, is not written now.
    #[inline]
    pub(super) fn waits_for_direct(
        &mut self,
        wqe: &Wqe,
        attributes: &Attributes,
        hca: &impl Hca,
    ) -> bool {
        let waits = wqe.len >= MIN_LEN
            && self.acked != self.next
            && is_executable(&wqe.wr, attributes)
            && self.direct_wait.refusals < MAX_REFUSALS
            && hca.can_execute_directly(&wqe.wr, attributes.target());
        self.direct_wait.is_waiting = waits;
        waits
    }

    /// Whether the current WQE waits for answers.
    #[inline]
    pub(super) fn waits_for_answer(&self) -> bool {
        self.direct_wait.is_waiting && self.acked != self.next
    }

    /// Whether [`Sender::next_direct`] may return a WR.
    #[inline]
    pub fn has_direct(&self) -> bool {
        self.direct_wait.is_waiting && self.acked == self.next
    }

    /// The oldest WR, if it waits, or is behind one that did, and nothing is left to wait for. The caller
    /// lets the HCA execute it, and calls [`Sender::on_executed`] or [`Sender::on_refused`].
    pub fn next_direct<'a>(
        &mut self,
        queue: &'a SendQueue,
        attributes: &Attributes,
    ) -> Option<&'a SendWr> {
        if !self.has_direct() {
            return None;
        }
        let may_start = self.current == 0 && self.sent == 0;
        let wqe = queue.front().filter(|wqe| {
            may_start
                && !queue.drain().stops(wqe.first)
                && wqe.state == WqeState::Pending
                && is_executable(&wqe.wr, attributes)
        });
        self.direct_wait.is_waiting = wqe.is_some();
        wqe.map(|wqe| &wqe.wr)
    }

    /// The HCA has executed the WR.
    pub fn on_executed(&mut self, queue: &mut SendQueue) {
        queue.set_state(0, WqeState::Executed);
        self.direct_wait.refusals = 0;
    }

    /// The current WQE does not wait any longer.
    pub fn send_waiting(&mut self) {
        self.direct_wait.is_waiting = false;
    }

    /// The HCA has not executed the WR: it is written.
    pub fn on_refused(&mut self) {
        self.direct_wait.is_waiting = false;
        self.direct_wait.refusals = self.direct_wait.refusals.saturating_add(1);
    }
}

/// Whether the HCA may execute a WR: an RDMA WRITE or READ of a reliable connection.
#[inline]
pub fn is_executable(wr: &SendWr, attributes: &Attributes) -> bool {
    let is_possible = match wr.op {
        SendOp::Write { .. } => true,
        SendOp::Read { .. } => attributes.max_rd_atomic > 0,
        _ => false,
    };
    is_possible && attributes.config.service == Service::Rc
}
