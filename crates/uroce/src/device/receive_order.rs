//! Whether the packets of a device are delivered in the order of their arrival.
//!
//! They are while only one thread receives. Several receive while one is taken for preempted (`inboxes.rs`),
//! unless a queue pair needs the order.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Set while several threads receive. The other bits count the [`InOrder`]s.
const SEVERAL: u32 = 1 << 31;

/// The order in which a device delivers packets.
#[derive(Default)]
pub struct ReceiveOrder(AtomicU32);

impl ReceiveOrder {
    /// Whether several threads receive, so that one may deliver packets before another has delivered earlier
    /// ones.
    #[inline]
    pub fn may_reorder(&self) -> bool {
        self.0.load(Ordering::SeqCst) & SEVERAL != 0
    }

    /// A second thread is about to receive. Returns whether it may: not while a queue pair needs the order,
    /// except with `forced`.
    pub fn begin_several(&self, forced: bool) -> bool {
        self.update(|state| (forced || state & !SEVERAL == 0).then_some(state | SEVERAL))
    }

    /// Only one thread receives from now on.
    pub fn end_several(&self) {
        self.0.fetch_and(!SEVERAL, Ordering::SeqCst);
    }

    /// Lets only one thread receive until the value is dropped. None while several do.
    pub fn require(self: &Arc<Self>) -> Option<InOrder> {
        let is_alone = self.update(|state| (state & SEVERAL == 0).then_some(state + 1));
        is_alone.then(|| InOrder(self.clone()))
    }

    fn update(&self, change: impl FnMut(u32) -> Option<u32>) -> bool {
        let (set, fetch) = (Ordering::SeqCst, Ordering::SeqCst);
        self.0.fetch_update(set, fetch, change).is_ok()
    }
}

/// Only one thread of the device receives while this value exists.
pub struct InOrder(Arc<ReceiveOrder>);

impl Drop for InOrder {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_receive_or_the_order_is_kept() {
        let order = Arc::new(ReceiveOrder::default());
        let (one, two) = (order.require(), order.require());
        assert!(one.is_some() && two.is_some() && !order.begin_several(false));
        drop(one);
        assert!(!order.begin_several(false) && !order.may_reorder());
        assert!(order.begin_several(true) && order.may_reorder());
        assert!(order.require().is_none());
        drop(two);
        assert!(order.may_reorder() && order.begin_several(false));
        order.end_several();
        assert!(!order.may_reorder() && order.require().is_some());
        assert!(order.begin_several(false));
    }
}
