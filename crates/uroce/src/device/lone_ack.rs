//! A shorter way through shared memory for the most frequent packet of a responder: an ACK, with nothing else
//! to send. It is the packet that [`super::paths`] would put into the channel, by the same rules; whatever is
//! unusual takes that way.

use std::sync::Arc;
use std::time::Duration;

use super::Device;
use super::queue_pair::{Inner, QueuePair};

impl Device {
    /// Puts the ACK into the queue pair's channel, if that is all that the queue pair may send now. False if
    /// nothing was done: then the packet takes the usual way.
    #[inline]
    pub(super) fn send_lone_ack(&self, qp: &QueuePair, inner: &mut Inner) -> bool {
        let Some(paths) = &self.paths else {
            return false;
        };
        let usable = qp.service.is_reliable()
            && self.interposed.is_none()
            && inner.engine().has_lone_ack()
            && inner.path.is_current(paths.generation());
        let (engine, Some(channel)) = inner.engine_and_channel() else {
            return false;
        };
        if !usable || channel.is_dead() {
            return false;
        }
        // If another thread has it, the usual way waits.
        let Some(mut sender) = channel.sender(Some(Duration::ZERO)) else {
            return false;
        };
        if !sender.has_room() {
            return false;
        }
        let Some(packet) = engine.take_lone_ack() else {
            return false;
        };
        sender.push(&packet, engine.traffic_class());
        if sender.finish() {
            let channel = Arc::clone(channel);
            inner.wake_after_unlock(channel);
        }
        true
    }
}
