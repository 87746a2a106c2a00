//! A shorter way through shared memory for the packets that are exchanged most: SENDs of one short packet, and
//! ACKs. They are the packets that [`super::paths`] would put into the channel, by the same rules; whatever is
//! unusual takes that way.

use std::sync::Arc;
use std::time::Duration;

use super::Device;
use super::queue_pair::{Inner, QueuePair};
use crate::engine::Time;
use crate::wire::SHORT_MAX;

impl Device {
    /// Puts short packets of the queue pair into its channel. True if nothing is left that it may send; false
    /// if the rest takes the usual way.
    #[inline]
    pub(super) fn send_short(&self, qp: &QueuePair, inner: &mut Inner, now: Time) -> bool {
        let Some(paths) = &self.paths else {
            return false;
        };
        let is_usual = self.interposed.is_some()
            || !qp.service.is_reliable()
            || !inner.path.is_current(paths.generation());
        let (engine, mut host, channel) = inner.split_path(qp);
        let Some(channel) = channel.filter(|channel| !is_usual && !channel.is_dead()) else {
            return false;
        };
        if engine.has_held() {
            return false;
        }
        // If another thread has it, the usual way waits.
        let Some(mut sender) = channel.sender(Some(Duration::ZERO)) else {
            return false;
        };
        let traffic_class = engine.traffic_class();
        let mut bytes = [0; SHORT_MAX];
        while engine.may_transmit() && sender.has_room() {
            let Some(len) = engine.transmit_short(now, &mut host, &mut bytes) else {
                break;
            };
            sender.push_short(&bytes, len, traffic_class);
        }
        let is_all = !engine.may_transmit();
        if sender.finish() {
            let channel = Arc::clone(channel);
            inner.wake_after_unlock(channel);
        }
        is_all
    }
}
