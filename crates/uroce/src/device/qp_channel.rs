//! The channel that one queue pair's packets take, as of its last lookup. How it is looked up is in
//! `peer_channels.rs`.

use std::sync::Arc;

use crate::shm::Channel;
use roce::engine::{AddressVector, PeerActivity};

/// The channel that a queue pair's packets take, as of the last lookup; without one they take UDP.
#[derive(Default)]
pub struct QpChannel {
    /// [`crate::shm::Channels::generation`] at that time; 0 before.
    generation: u32,
    /// The destination of a datagram, and its port.
    destination: Option<(AddressVector, u16)>,
    /// None: by UDP.
    channel: Option<Arc<Channel>>,
    /// The position in the channel behind all that the queue pair has sent, or has found no room behind.
    pub sent_until: u64,
    /// The channel's peer has ended, and all that it had sent is received. The queue pair takes no other one:
    /// a later process with the same address and port is not its peer.
    has_peer_ended: bool,
}

impl QpChannel {
    /// Returns what the channel shows of the peer of a connected queue pair.
    pub(super) fn peer_activity(&self) -> PeerActivity {
        match &self.channel {
            Some(channel) if !channel.is_dead() && !channel.has_delivered(self.sent_until) => {
                PeerActivity::Idle
            }
            _ => PeerActivity::Unknown,
        }
    }

    /// The channel of the last lookup.
    pub(super) fn get(&self) -> Option<&Arc<Channel>> {
        self.channel.as_ref()
    }

    /// The peer has ended: gives its channel back. The next lookup is a slow one, as there was none before.
    pub(super) fn end(&mut self) {
        *self = QpChannel {
            has_peer_ended: true,
            ..QpChannel::default()
        };
    }

    /// The queue pair has changed: its peer may have another address. `is_reset`: it has no peer.
    pub(super) fn forget(&mut self, is_reset: bool) {
        *self = QpChannel {
            has_peer_ended: self.has_peer_ended && !is_reset,
            ..QpChannel::default()
        };
    }

    /// Whether [`QpChannel::end`] was called since the queue pair was in RESET.
    pub(super) fn has_peer_ended(&self) -> bool {
        self.has_peer_ended
    }

    /// The next packets take this channel, or UDP without one. Returns whether they took another one before.
    pub(super) fn switch(
        &mut self,
        generation: u32,
        destination: Option<(AddressVector, u16)>,
        channel: Option<Arc<Channel>>,
    ) -> bool {
        let same = |old: &Arc<Channel>| channel.as_ref().is_some_and(|new| Arc::ptr_eq(old, new));
        let is_same = self.channel.as_ref().is_some_and(same);
        let is_replaced = channel.is_some() && !is_same && self.channel.is_some();
        *self = QpChannel {
            generation,
            destination,
            channel,
            sent_until: if is_same { self.sent_until } else { 0 },
            has_peer_ended: false,
        };
        is_replaced
    }

    /// Whether no channel of the device has come or gone since the last lookup.
    #[inline]
    pub(super) fn is_of(&self, generation: u32) -> bool {
        self.generation == generation
    }

    /// Whether nothing has changed since the last lookup, which was for this destination of a datagram, or
    /// for the only peer of the queue pair.
    #[inline]
    pub(super) fn is_for(
        &self,
        generation: u32,
        destination: Option<(AddressVector, u16)>,
    ) -> bool {
        self.is_of(generation) && self.destination == destination
    }
}
