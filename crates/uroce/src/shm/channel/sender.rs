//! Sending through a channel.

use std::sync::atomic::Ordering;
use std::time::Duration;

use lock_api::MutexGuard;

use super::{Channel, FRAGMENT_TAG};
use crate::shm::ring::{Broken, Filled, Producer, Room};
use crate::sync::RawMutex;
use roce::engine::Time;

/// The state of a channel when a [`Sender`] has unlocked it.
#[must_use]
pub struct Unlocked {
    /// The end of all that was sent until then: see [`Channel::has_delivered`].
    pub position: u64,
    /// The caller calls [`Channel::wake_peer`], without locks.
    pub peer_sleeps: bool,
}

/// A channel, locked for sending.
pub struct Sender<'a> {
    channel: &'a Channel,
    producer: MutexGuard<'a, RawMutex, Producer>,
    count: u64,
}

impl<'a> Sender<'a> {
    /// Sends through a channel whose producer the caller has locked.
    pub(super) fn new(
        channel: &'a Channel,
        producer: MutexGuard<'a, RawMutex, Producer>,
    ) -> Sender<'a> {
        Sender {
            channel,
            producer,
            count: 0,
        }
    }

    /// Room for a packet. If there is none, the peer wakes this process up when it has made some.
    #[inline]
    pub fn room(&mut self) -> Option<Room> {
        let ring = self.channel.segment.outgoing();
        let room = self.producer.reserve_or_wait(ring);
        room.unwrap_or_else(|Broken| {
            self.channel.set_broken();
            None
        })
    }

    /// How long the peer has taken nothing from the channel, which has no room: [`Sender::room`] has just
    /// returned none. `now`: the time, or somewhat earlier.
    #[cold]
    pub fn full_for(&mut self, now: Time) -> Duration {
        self.producer.full_for(now)
    }

    /// Room for a packet that [`roce::engine::Qp::transmit_answer`] returns, when there is none for
    /// others.
    pub fn room_for_response(&self) -> Option<Room> {
        self.producer.reserve_for_response()
    }

    /// Sends a datagram, without ICRC. One that does not fit the room is dropped.
    #[cfg(any(test, feature = "internals"))]
    pub fn push(&mut self, room: Room, packet: &[u8], traffic_class: u8) {
        self.write_datagram(room, |to| {
            to.get_mut(..packet.len())?.copy_from_slice(packet);
            Some((packet.len(), traffic_class))
        });
    }

    /// Lets `write` write a fragment where the peer reads it, and sends it. `write` returns its length; None:
    /// nothing is sent, and this returns false.
    #[inline(always)]
    pub fn write_fragment(
        &mut self,
        room: Room,
        write: impl FnOnce(&mut [u8]) -> Option<usize>,
    ) -> bool {
        self.write(room, |buffer| {
            let len = write(buffer)?;
            Some(Filled {
                len,
                tag: FRAGMENT_TAG,
            })
        })
    }

    /// [`Sender::write_fragment`] for a datagram without ICRC. `write` returns its length and its traffic
    /// class (of IPv4: type of service).
    #[inline]
    pub fn write_datagram(
        &mut self,
        room: Room,
        write: impl FnOnce(&mut [u8]) -> Option<(usize, u8)>,
    ) -> bool {
        self.write(room, |buffer| {
            let (len, traffic_class) = write(buffer)?;
            Some(Filled {
                len,
                tag: traffic_class.into(),
            })
        })
    }

    #[inline(always)]
    fn write(&mut self, room: Room, write: impl FnOnce(&mut [u8]) -> Option<Filled>) -> bool {
        let ring = self.channel.segment.outgoing();
        let is_sent = self.producer.push(ring, room, write);
        self.count += u64::from(is_sent);
        is_sent
    }

    /// Unlocks the channel.
    pub fn finish(self) -> Unlocked {
        let channel = self.channel;
        let position = self.producer.position();
        if self.count == 0 {
            return Unlocked {
                position,
                peer_sleeps: false,
            };
        }
        let sent = channel.sent.load(Ordering::Relaxed) + self.count;
        channel.sent.store(sent, Ordering::Relaxed);
        drop(self.producer);
        let peer_sleeps = channel.segment.outgoing().take_asleep();
        Unlocked {
            position,
            peer_sleeps,
        }
    }
}
