//! Free slots of the send queue.

use super::{Hca, Qp, SendQueue};

impl Qp {
    /// Whether the send queue has free slots for that number of WRs ([`crate::engine::PolledSends`]).
    #[inline]
    pub fn has_send_slots(&mut self, count: u32, hca: &impl Hca) -> bool {
        let max = self.attributes.config.limits.max_send_wr;
        let queue = self.sends.queue_mut();
        let has = |queue: &SendQueue| max.saturating_sub(queue.occupied()) >= count;
        if has(queue) {
            return true;
        }
        queue.free_slots(hca.polled_sends());
        has(queue)
    }
}
