//! Posting to the send queue, and WRs that the HCA executes without the peer's responder.

use super::{Attributes, Hca, SendError, SendQueue, SendSide};
use crate::engine::shm::{Sender, is_executable};
use crate::engine::{QpState, SendWr};

/// The most bytes that one call copies, apart from its last WR: other threads wait for the queue pair.
const MAX_DIRECT_LEN: u64 = 8 << 20;

impl SendSide {
    /// Whether the queue has free slots for that number of WRs ([`crate::engine::PolledSends`]).
    #[inline]
    pub fn has_slots(&mut self, count: u32, attributes: &Attributes, hca: &impl Hca) -> bool {
        let max = attributes.config.limits.max_send_wr;
        let queue = self.queue_mut();
        let has = |queue: &SendQueue| max.saturating_sub(queue.occupied()) >= count;
        if has(queue) {
            return true;
        }
        queue.free_slots(hca.polled_sends());
        has(queue)
    }

    /// Space for the next WR. It has any values. None if there is no memory.
    #[inline]
    pub fn next_wr(&mut self) -> Option<&mut SendWr> {
        self.queue_mut().next_wr()
    }

    /// Posts the WR that was written to [`SendSide::next_wr`]; false if the queue is full. The HCA may
    /// execute it at once if all earlier WRs have completed, so that their effects on the peer come before.
    #[inline]
    pub fn post_next(
        &mut self,
        state: QpState,
        attributes: &Attributes,
        hca: &mut impl Hca,
    ) -> Result<bool, SendError> {
        if !self.has_slots(1, attributes, hca) {
            return Ok(false);
        }
        let Some(wr) = self.queue().written_wr() else {
            return Ok(false);
        };
        if is_executable(wr, attributes)
            && state == QpState::Rts
            && self.queue().is_empty()
            && hca.execute_directly(wr, attributes.target())
        {
            let (signaled, completion) = (wr.flags.signaled, wr.success());
            self.completer.counters_mut().direct_ops += 1;
            self.queue_mut().skip();
            self.report(signaled, completion, attributes, hca)?;
            return Ok(true);
        }
        self.queue_mut().push_next(attributes.mtu);
        Ok(true)
    }

    /// Whether [`SendSide::execute_direct`] has something to do.
    #[inline]
    pub fn has_direct(&self) -> bool {
        self.sender.as_ref().is_some_and(Sender::has_direct)
    }

    /// Lets the HCA execute WRs that have waited until all earlier requests were acknowledged. Those behind
    /// `MAX_DIRECT_LEN` bytes are sent.
    pub fn execute_direct(
        &mut self,
        attributes: &Attributes,
        hca: &mut impl Hca,
    ) -> Result<(), SendError> {
        let mut len = 0;
        while self.has_direct() && len < MAX_DIRECT_LEN {
            let Some((sender, queue)) = self.sender_mut() else {
                return Ok(());
            };
            let Some(wr) = sender.next_direct(queue, attributes) else {
                return Ok(());
            };
            if !hca.execute_directly(wr, attributes.target()) {
                sender.on_refused();
                return Ok(());
            }
            len += wr.message_len();
            sender.on_executed(queue);
            self.completer.counters_mut().direct_ops += 1;
            self.complete(attributes, hca)?;
        }
        self.send_waiting();
        Ok(())
    }

    /// The WRs that have waited are sent.
    pub fn send_waiting(&mut self) {
        if let Some(sender) = &mut self.sender {
            sender.send_waiting();
        }
    }
}
