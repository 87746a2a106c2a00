//! Sending through channels: what a queue pair may send now, packet by packet, until it has no more or the
//! channel is full. Which channel it is, `peer_channels.rs` decides.
//!
//! A peer that does not run takes nothing from its channel, which is full then. Its own queue pairs wait for
//! it, others do not: what it does not take for [`STALLED_AFTER`] is dropped by unreliable services, as a UD
//! queue pair has other destinations, too. The timers of a reliable connection run.

use std::time::Duration;

use super::clock::ReadOnce;
use super::gsi::{self, LostPeer};
use super::lock_holder::PREEMPTED_AFTER;
use super::qp_hca::QpHca;
use super::queue_pair::{Inner, QueuePair};
use super::{Device, background, clock};
use crate::shm::Sender;
use roce::engine::{Clock, Pace, Qp, Service, Time};
use roce::wire::MAX_PACKET;

/// After this time without anything taken from a full channel, unreliable services drop what is for the peer.
const STALLED_AFTER: Duration = Duration::from_millis(500);

/// Why a queue pair stopped sending through a channel.
enum Filled {
    /// The queue pair has nothing more to send.
    All,
    /// The channel has no room.
    Starved,
    /// The queue pair has sent or dropped one packet: the next one may have another destination.
    Packet,
}

impl Device {
    /// Sends through shared memory what a queue pair may send now, if there is a channel to its peer. Returns
    /// false if the rest is to be sent by UDP.
    pub(super) fn send_through_channels(&self, qp: &QueuePair, inner: &mut Inner) -> bool {
        let Some(channels) = &self.channels else {
            return false;
        };
        loop {
            let is_found = channels.find(&self.net, qp, inner);
            let (engine, mut hca, channel) = inner.split_with_channel(qp);
            let channel = channel.filter(|_| is_found);
            let Some(channel) = channel.filter(|channel| !channel.is_dead()) else {
                engine.unbind(&ReadOnce::new(clock::coarse));
                let has_channel = channel.is_some();
                if channel.is_some_and(|channel| channel.has_ended()) {
                    let peer = engine.initiator();
                    inner.channel.end();
                    gsi::peer_lost(LostPeer {
                        qpn: qp.qpn,
                        peer: peer.gid,
                        peer_qpn: peer.qpn,
                    });
                }
                if inner.channel.has_peer_ended() {
                    self.unreachable.fail(&self.queue_pairs, qp, inner);
                } else if !has_channel {
                    return false;
                }
                return !inner.engine().uses_packets();
            };
            if engine.has_direct() {
                end_waiting(engine, &mut hca);
            }
            let Some(mut sender) = channel.sender(PREEMPTED_AFTER) else {
                // No answer to this queue pair may be due, which would let it go on: the background thread
                // tries again.
                self.waker.wake();
                return self.defer_until_room(qp, inner);
            };
            // Exact, if the end of a wait is to be seen; other deadlines may be some milliseconds late.
            let clock = &ReadOnce::new(match engine.is_rnr_waiting() {
                true => clock::now,
                false => clock::coarse,
            });
            let mut filled = match qp.service {
                Service::Ud => self.send_datagram(engine, &mut hca, &mut sender),
                _ => {
                    engine.bind(clock);
                    fill_channel(engine, &mut hca, clock, &mut sender)
                }
            };
            if matches!(filled, Filled::Starved) {
                let now = clock.time();
                let is_stalled = sender.full_for(now) >= STALLED_AFTER;
                if qp.service.is_reliable() {
                    engine.on_no_room(now);
                } else if is_stalled {
                    filled = self.drop_unsent(engine, &mut hca, now);
                }
            }
            let unlocked = sender.finish();
            inner.on_sent(&unlocked);
            let is_datagram = qp.service == Service::Ud;
            match filled {
                Filled::All => return is_datagram || !inner.engine().uses_packets(),
                Filled::Packet if !inner.engine().may_transmit() => return true,
                Filled::Packet => {}
                Filled::Starved => {
                    // An ACK that nobody sends later takes UDP.
                    return self.defer_until_room(qp, inner) || !inner.engine().has_response();
                }
            }
        }
    }

    /// Drops the next datagram or fragment, as the peer takes none.
    #[cold]
    fn drop_unsent(&self, engine: &mut Qp, hca: &mut QpHca<'_>, now: Time) -> Filled {
        let mut buffer = [0; MAX_PACKET];
        let is_dropped = match engine.config().service {
            Service::Ud => engine
                .transmit_datagram(Pace::Unlimited, hca, &mut buffer)
                .is_some(),
            _ => engine.transmit_fragment(now, hca, &mut buffer).is_some(),
        };
        if !is_dropped {
            return Filled::All;
        }
        self.net.count_unsent(1);
        Filled::Packet
    }

    /// Sends the next datagram of a UD queue pair through the channel that was looked up for it.
    fn send_datagram(
        &self,
        engine: &mut Qp,
        hca: &mut QpHca<'_>,
        sender: &mut Sender<'_>,
    ) -> Filled {
        let Some(room) = sender.room() else {
            return Filled::Starved;
        };
        let to = engine.next_destination().map(|to| (to.av, to.qpn));
        let is_sent = sender.write_datagram(room, |buffer| {
            let packet = engine.transmit_datagram(Pace::Unlimited, hca, buffer)?;
            // If the WQE that the channel was looked up for had failed, those behind it would be flushed.
            let is_for_peer = to == Some((packet.av, packet.dest_qpn));
            debug_assert!(is_for_peer);
            is_for_peer.then_some((packet.len, packet.av.traffic_class))
        });
        match is_sent {
            true => Filled::Packet,
            false => Filled::All,
        }
    }

    /// A channel is full: the queue pair continues when the peer has received from it. False if the queue
    /// pair is being destroyed, or there is no memory.
    fn defer_until_room(&self, qp: &QueuePair, inner: &mut Inner) -> bool {
        let qp = self.queue_pair(qp.qpn);
        qp.is_some_and(|qp| self.deferred_sends.add(&qp, inner))
    }
}

/// Lets a queue pair execute, or send, what has waited for direct access.
#[cold]
fn end_waiting(engine: &mut Qp, hca: &mut QpHca<'_>) {
    // The peer could hold up the copy, in a page fault that it serves.
    match background::is_this_thread() {
        true => engine.send_waiting(),
        false => engine.execute_direct(hca),
    }
}

/// Sends through a channel what a queue pair may send now to its only peer.
#[inline]
fn fill_channel(
    engine: &mut Qp,
    hca: &mut QpHca<'_>,
    clock: impl Clock,
    sender: &mut Sender<'_>,
) -> Filled {
    // A full channel concerns only those that have something to send.
    while engine.may_transmit() {
        let Some(room) = sender.room() else {
            // An ACK must not wait behind the requests of other queue pairs.
            while let Some(room) = sender.room_for_response() {
                if !sender.write_fragment(room, |buffer| engine.transmit_answer(hca, buffer)) {
                    break;
                }
            }
            return Filled::Starved;
        };
        if !sender.write_fragment(room, |buffer| engine.transmit_fragment(clock, hca, buffer)) {
            break;
        }
    }
    Filled::All
}
