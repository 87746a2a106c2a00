//! A fast path through shared memory for the packets that are exchanged most: SENDs of one packet, ACKs and
//! short datagrams. They are the packets that [`super::paths`] would put into the channel, by the same
//! rules; whatever is unusual takes that way.

use std::time::Duration;

use super::queue_pair::{Inner, QueuePair};
use super::{Device, clock};
use crate::engine::{Link, Service};
use crate::local::Written;

impl Device {
    /// Puts short packets of the queue pair into its channel. True if nothing is left that it may send; false
    /// if the rest takes the general path.
    #[inline]
    pub(super) fn send_short(&self, qp: &QueuePair, inner: &mut Inner) -> bool {
        let Some(paths) = &self.paths else {
            return false;
        };
        let generation = paths.generation();
        if qp.service == Service::Uc || !inner.has_path(qp.service, generation) {
            return false;
        }
        let (engine, mut host, channel) = inner.split_path(qp);
        let Some(channel) = channel.filter(|channel| !channel.is_dead()) else {
            return false;
        };
        if engine.has_held() {
            return false;
        }
        // If another thread has it, the general path waits.
        let Some(mut sender) = channel.sender(Duration::ZERO) else {
            return false;
        };
        engine.set_link(Link::SharedMemory);
        let mut time = None;
        let destination = engine.next_destination().map(|to| (to.av, to.qpn));
        while engine.may_transmit() {
            let Some(room) = sender.room() else {
                break;
            };
            let traffic_class = engine.next_traffic_class();
            let is_sent = sender.write(room, |buffer| {
                let now = || *time.get_or_insert_with(clock::coarse);
                let len = engine.transmit_short(now, &mut host, buffer)?;
                Some(Written {
                    len,
                    traffic_class,
                    gso_size: 0,
                })
            });
            if !is_sent {
                break;
            }
            // The next datagram may have another destination.
            if destination.is_some()
                && engine.next_destination().map(|to| (to.av, to.qpn)) != destination
            {
                break;
            }
        }
        let is_all = !engine.may_transmit();
        let unlocked = sender.finish();
        inner.on_sent(&unlocked);
        is_all
    }
}
