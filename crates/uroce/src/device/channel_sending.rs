//! Sending through channels: what a queue pair may send now, packet by packet, until it has no more or the
//! channel is full. Which channel it is, `paths.rs` decides; packets that are sent most have a fast path
//! (`short.rs`).

use std::sync::Arc;

use super::Device;
use super::lock_holder::PREEMPTED_AFTER;
use super::qp_host::QpHost;
use super::queue_pair::{Inner, QueuePair};
use crate::engine::{Link, Qp, Service, Time, Transmit};
use crate::local::{Room, Sender, Written};
use crate::transport::Outbox;

/// Why a queue pair stopped sending through a channel.
enum Filled {
    /// It has nothing more to send.
    All,
    /// The channel has no room.
    Starved,
    /// It has sent one datagram: the next one may have another destination.
    Datagram,
    /// The packet is one for UDP.
    ByUdp,
}

/// What [`Device::put`] has done.
enum Put {
    /// It has sent a packet.
    Packet,
    /// There was no packet.
    Nothing,
    /// The batch for UDP is full, and has to be sent first.
    ByUdp,
}

impl Device {
    /// Sends through shared memory what a queue pair may send now, if there is a channel to its peer. Returns
    /// false if the rest is to be sent by UDP.
    pub(super) fn send_through_channels(
        &self,
        qp: &QueuePair,
        inner: &mut Inner,
        now: Time,
        outbox: &mut Outbox,
    ) -> bool {
        let Some(paths) = &self.paths else {
            return false;
        };
        loop {
            let is_found = self.find_path(paths, qp, inner);
            let (engine, mut host, channel) = inner.split_path(qp);
            let Some(channel) = channel.filter(|_| is_found) else {
                return false;
            };
            if channel.is_dead() {
                if channel.has_ended() {
                    self.fail_unreachable(qp, inner);
                }
                return false;
            }
            if engine.has_held() && engine.execute_held(&mut host) {
                if self.defer_until_room(qp, inner) {
                    // No packet is in flight whose acknowledgment wakes it up, and the program may not
                    // poll.
                    self.waker.wake();
                    return true;
                }
                continue;
            }
            // Without the lock, by UDP: the peer accepts both, and a reliable service repairs the order.
            let limit = qp.service.is_reliable().then_some(PREEMPTED_AFTER);
            let Some(mut sender) = channel.sender(limit) else {
                return false;
            };
            let link = match self.interposed {
                None => Link::SharedMemory,
                Some(_) => Link::Network,
            };
            engine.set_link(link);
            let filled = match qp.service {
                Service::Ud => self.send_datagram(qp, engine, &mut host, now, &mut sender, outbox),
                _ => self.fill_channel(qp, engine, &mut host, now, &mut sender, outbox),
            };
            if sender.finish() {
                let channel = Arc::clone(channel);
                inner.wake_after_unlock(channel);
            }
            match filled {
                Filled::All => return true,
                Filled::ByUdp => return false,
                Filled::Datagram => {}
                // A response that nobody sends later takes UDP.
                Filled::Starved => {
                    return self.defer_until_room(qp, inner) || !inner.engine().has_response();
                }
            }
        }
    }

    /// Sends through a channel what a queue pair may send now to its only peer.
    fn fill_channel(
        &self,
        qp: &QueuePair,
        engine: &mut Qp,
        host: &mut QpHost<'_>,
        now: Time,
        sender: &mut Sender<'_>,
        outbox: &mut Outbox,
    ) -> Filled {
        // A full channel concerns only those that have something to send.
        while engine.may_transmit() {
            let Some(room) = sender.room() else {
                // An ACK must not wait behind the requests of other queue pairs.
                while let Some(room) = sender.room_for_response() {
                    let transmit =
                        |buffer: &mut [u8]| engine.transmit_short_response(now, host, buffer);
                    match self.put(qp.qpn, sender, room, outbox, transmit) {
                        Put::Packet => {}
                        Put::Nothing | Put::ByUdp => break,
                    }
                }
                return Filled::Starved;
            };
            let transmit = |buffer: &mut [u8]| engine.transmit(now, host, buffer);
            match self.put(qp.qpn, sender, room, outbox, transmit) {
                Put::Packet => {}
                Put::Nothing => break,
                Put::ByUdp => return Filled::ByUdp,
            }
        }
        Filled::All
    }

    /// Puts the packet that `transmit` writes into a channel, where the peer reads it. With faults or a
    /// recording it is written to the outbox before.
    #[inline]
    fn put(
        &self,
        src_qpn: u32,
        sender: &mut Sender<'_>,
        room: Room,
        outbox: &mut Outbox,
        transmit: impl FnOnce(&mut [u8]) -> Option<Transmit>,
    ) -> Put {
        if self.interposed.is_none() {
            let is_sent = sender.write(room, |buffer| {
                transmit(buffer).map(|packet| Written {
                    len: packet.len,
                    traffic_class: packet.av.traffic_class,
                    gso_size: packet.gso_size,
                })
            });
            return if is_sent { Put::Packet } else { Put::Nothing };
        }
        if outbox.is_full() {
            return Put::ByUdp;
        }
        match transmit(outbox.buffer()) {
            None => Put::Nothing,
            Some(packet) => self.put_written(src_qpn, (sender, room), outbox, &packet),
        }
    }

    /// [`Device::put`] for a packet that was written to the outbox.
    fn put_written(
        &self,
        src_qpn: u32,
        place: (&mut Sender<'_>, Room),
        outbox: &mut Outbox,
        packet: &Transmit,
    ) -> Put {
        let is_sent = self.push_locally(place, outbox, src_qpn, packet);
        if !is_sent && outbox.is_full() {
            // Packets with a wrong ICRC are in it: they take UDP.
            return Put::ByUdp;
        }
        Put::Packet
    }

    /// Sends the next datagram of a UD queue pair through the channel that was looked up for it.
    fn send_datagram(
        &self,
        qp: &QueuePair,
        engine: &mut Qp,
        host: &mut QpHost<'_>,
        now: Time,
        sender: &mut Sender<'_>,
        outbox: &mut Outbox,
    ) -> Filled {
        let Some(room) = sender.room() else {
            return Filled::Starved;
        };
        let expected = engine.next_destination().map(|to| (to.av, to.qpn));
        let Some(packet) = engine.transmit(now, host, outbox.buffer()) else {
            return Filled::All;
        };
        // The WQE that the channel was looked up for may have failed.
        if expected != Some((packet.av, packet.dest_qpn)) {
            self.push(outbox, qp.qpn, &packet);
            return Filled::ByUdp;
        }
        match self.put_written(qp.qpn, (sender, room), outbox, &packet) {
            Put::ByUdp => Filled::ByUdp,
            Put::Packet | Put::Nothing => Filled::Datagram,
        }
    }

    /// A channel is full: the queue pair continues when the peer has received from it. False if the queue
    /// pair is being destroyed, or there is no memory.
    fn defer_until_room(&self, qp: &QueuePair, inner: &mut Inner) -> bool {
        let qp = self.queue_pair(qp.qpn);
        qp.is_some_and(|qp| self.defer_send(&qp, inner))
    }
}
