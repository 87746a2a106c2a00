//! The channels of a device to processes of its host ([`crate::shm`]), and which of them the packets of a
//! queue pair take.
//!
//! Not here: sending through a channel (`channel_sending.rs`), receiving from it (`receiving.rs`), and the
//! end of a peer (`unreachable.rs`).
//!
//! A connected queue pair takes a channel when nothing of it is in flight (`roce::engine`). Datagrams may
//! take either, one by one; a reordering would not be repaired. Therefore what takes a channel first waits
//! for what other threads are still sending by UDP (`switch`). A queue pair starts with UDP, unless there is
//! a channel to its peer already.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::queue_pair::{Inner, QueuePair};
use crate::direct::Exports;
use crate::shm::{Channel, Channels, Ends, Peers, SeenChannels};
use crate::transport::Net;
use roce::engine::{AddressVector, Qp, QpState, Service};
use roce::wire::{Flow, port_of};

/// A poller checks the sockets at every poll of this number only. At the others it checks shared memory,
/// which takes no system call.
const POLLS_PER_SOCKET_POLL: u64 = 32;
/// How long [`PeerChannels::await_answer`] waits for a peer. Its background thread usually answers within
/// 0.2 ms.
const MAX_AWAITED: Duration = Duration::from_millis(100);

/// `IBV_UROCE_LOCAL`: whether devices that are opened from now on use shared memory.
static ENABLED: AtomicBool = AtomicBool::new(false);
/// The program has asked for [`Peers::AnyUser`].
static ANY_USER: AtomicBool = AtomicBool::new(false);

/// Lets devices that this process opens from now on use shared memory with these processes of its host; with
/// None by UDP only.
pub fn enable(peers: Option<Peers>) {
    ANY_USER.store(peers == Some(Peers::AnyUser), Ordering::Relaxed);
    ENABLED.store(peers.is_some(), Ordering::Relaxed);
}

/// Whether the program trusts the other users of the host.
pub fn trusts_any_user() -> bool {
    ANY_USER.load(Ordering::Relaxed)
}

/// The channels of a device to processes of its host. Thread-safe. Methods that take a queue pair's [`Inner`]
/// are called with the queue pair locked.
pub(super) struct PeerChannels {
    channels: Channels,
    /// A queue pair may access its peer's memory directly (`crate::direct`).
    has_direct_access: bool,
}

impl PeerChannels {
    /// The channels of a new device, and the memory that peers may access directly. None if they are switched
    /// off, or the packets of the device are to be datagrams (`has_hooks`).
    pub fn open(
        net: &Net,
        has_hooks: bool,
    ) -> io::Result<(Option<PeerChannels>, Option<Arc<Exports>>)> {
        if has_hooks || !ENABLED.load(Ordering::Relaxed) {
            return Ok((None, None));
        }
        let peers = match ANY_USER.load(Ordering::Relaxed) {
            true => Peers::AnyUser,
            false => Peers::SameUser,
        };
        // Others must not read the keys, and the kernel refuses their accesses anyway.
        let exports = (peers == Peers::SameUser)
            .then(super::direct::open)
            .flatten();
        let channels = Channels::new(net.ifindex(), peers, exports.clone())?;
        net.watch_channels(channels.fd())?;
        let channels = PeerChannels {
            channels,
            has_direct_access: exports.is_some(),
        };
        Ok((Some(channels), exports))
    }

    /// The program has changed a queue pair's attributes. From RTR on, peers of this host can find this
    /// process, and that of a connected queue pair is offered a channel.
    pub fn meet_peer(&self, net: &Net, qp: &QueuePair, engine: &Qp) {
        if !matches!(engine.state(), QpState::Rtr | QpState::Rts) {
            return;
        }
        let port = port_of(qp.qpn);
        for ip in net.table().addresses_of(port) {
            self.channels.listen(ip, port);
        }
        if qp.service == Service::Ud {
            return;
        }
        if let Some(flow) = flow_to_peer(net, qp, engine) {
            self.offer(net, &flow);
        }
    }

    /// Waits a moment for the peer's answer to the offer of a channel. Returns whether an answer was due. The
    /// queue pair is not locked.
    pub fn await_answer(&self, net: &Net, qp: &QueuePair) -> bool {
        if qp.service == Service::Ud {
            return false;
        }
        let flow = flow_to_peer(net, qp, qp.inner.lock().engine());
        let Some(flow) = flow.filter(|flow| self.channels.find(flow).is_none()) else {
            return false;
        };
        self.channels.await_answer(&flow, MAX_AWAITED);
        true
    }

    fn offer(&self, net: &Net, flow: &Flow) {
        if let Some(ends) = ends(net, flow) {
            self.channels.offer(ends);
        }
    }

    /// Looks up the channel of a queue pair whose program is posting: a request that is executed directly
    /// needs it before it would be sent.
    #[inline]
    pub fn refresh(&self, net: &Net, qp: &QueuePair, inner: &mut Inner) {
        if self.has_direct_access
            && qp.service == Service::Rc
            && !inner.channel.is_of(self.channels.generation())
        {
            self.find(net, qp, inner);
        }
    }

    /// Whether the channel of a queue pair's only peer is as of the last lookup, and the peer is not gone:
    /// outstanding requests fail then. True for datagrams.
    #[inline]
    pub fn is_current(&self, qp: &QueuePair, inner: &Inner) -> bool {
        let is_dead = |channel: &Arc<Channel>| channel.is_dead();
        let is_current = inner.channel.is_of(self.channels.generation());
        qp.service == Service::Ud || is_current && !inner.channel.get().is_some_and(is_dead)
    }

    /// Looks up the channel that the next packet of a queue pair takes ([`Inner::split_with_channel`]; it may
    /// be dead). False: UDP.
    #[inline]
    pub fn find(&self, net: &Net, qp: &QueuePair, inner: &mut Inner) -> bool {
        let generation = self.channels.generation();
        if qp.service != Service::Ud && inner.channel.is_for(generation, None) {
            return inner.channel.get().is_some();
        }
        self.look_up(net, qp, inner, generation)
    }

    fn look_up(&self, net: &Net, qp: &QueuePair, inner: &mut Inner, generation: u32) -> bool {
        if inner.channel.has_peer_ended() {
            return false;
        }
        let engine = inner.engine();
        if qp.service != Service::Ud {
            let flow = flow_to_peer(net, qp, engine);
            let found = flow.and_then(|flow| self.channels.find(&flow));
            // A queue pair keeps the channel of a peer that is gone, and does not take that of a later
            // process with the same address and port.
            let old = inner.channel.get().cloned();
            let channel = match old.filter(|old| old.is_dead()) {
                Some(old) if old.has_ended() || found.is_none() => Some(old),
                _ => found,
            };
            return switch(qp, inner, generation, None, channel);
        }
        let Some(to) = engine.next_destination() else {
            return false;
        };
        let (av, dest_qpn) = (to.av, to.qpn);
        let destination = Some((av, port_of(dest_qpn)));
        if inner.channel.is_for(generation, destination) {
            return inner.channel.get().is_some();
        }
        let flow = net.table().flow(qp.qpn, &av, dest_qpn);
        let channel = flow.and_then(|flow| {
            let channel = self.channels.find(&flow);
            if channel.is_none() {
                self.offer(net, &flow);
            }
            channel
        });
        switch(qp, inner, generation, destination, channel)
    }

    /// Whether a poller may skip the sockets at this poll, and check shared memory only.
    pub fn lets_skip_sockets(&self, polls: u64) -> bool {
        self.is_used() && polls % POLLS_PER_SOCKET_POLL != 0
    }

    /// Whether there is any channel.
    pub fn is_used(&self) -> bool {
        self.channels.is_used()
    }

    /// Brings `seen` up to date. Returns whether a packet waits in one of the channels.
    #[inline]
    pub fn has_packet(&self, seen: &mut SeenChannels) -> bool {
        self.channels.has_packet(seen)
    }

    /// Whether a peer has hung up, and what it had sent may not be received yet.
    pub fn has_dead(&self) -> bool {
        self.channels.has_dead()
    }

    /// Takes a channel whose peer has ended, when all that came by it is received: see
    /// [`Channels::take_dead`].
    pub fn take_dead(&self) -> Option<Arc<Channel>> {
        self.channels.take_dead()
    }

    /// Changes when a channel comes or goes.
    pub fn generation(&self) -> u32 {
        self.channels.generation()
    }

    /// Handles what has come through the connections of channels. Returns whether the background thread is to
    /// be woken up, as it has prepared its sleep for other channels.
    pub fn serve(&self, net: &Net) -> bool {
        self.channels.serve(&|flow| ends(net, flow))
    }

    /// The background thread is about to sleep. Returns true if it must not, because packets have arrived.
    pub fn prepare_sleep(&self) -> bool {
        self.channels.prepare_sleep()
    }

    /// The background thread does not sleep any more. `readable`: a socket or a peer has woken it up.
    pub fn end_sleep(&self, readable: bool) {
        self.channels.end_sleep();
        if readable {
            self.channels.read_wakeups();
        }
    }

    /// Packets sent and received through channels.
    pub fn counts(&self) -> (u64, u64) {
        self.channels.counts()
    }

    /// Lets all peers see that this process has closed the device.
    pub fn close(&self) {
        self.channels.close();
    }
}

fn ends(net: &Net, flow: &Flow) -> Option<Ends> {
    let ([gid, peer_gid], in_grh) = net.table().gids_of(flow)?;
    Some(Ends {
        flow: *flow,
        gid,
        peer_gid,
        in_grh,
    })
}

fn flow_to_peer(net: &Net, qp: &QueuePair, engine: &Qp) -> Option<Flow> {
    let attributes = engine.attributes();
    net.table()
        .flow(qp.qpn, &attributes.av?, attributes.dest_qpn?)
}

/// The next packets of a queue pair take this channel; without one, UDP: then it returns false. Packets
/// that another thread has taken from the queue pair before, and is sending by UDP, must not arrive after
/// them: unreliable services cannot repair that.
fn switch(
    qp: &QueuePair,
    inner: &mut Inner,
    generation: u32,
    destination: Option<(AddressVector, u16)>,
    channel: Option<Arc<Channel>>,
) -> bool {
    let is_found = channel.is_some();
    if is_found {
        drop(qp.send_turn());
    }
    if inner.channel.switch(generation, destination, channel) {
        inner.split(qp).0.on_other_memory();
    }
    is_found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::tests::{BACKGROUND_THREADS, loopback, queue_pair_alone};

    fn open(peers: Option<Peers>, has_hooks: bool) -> (Net, Option<PeerChannels>, bool) {
        enable(peers);
        let net = Net::open(&loopback("alone")).unwrap();
        let (channels, exports) = PeerChannels::open(&net, has_hooks).unwrap();
        enable(None);
        (net, channels, exports.is_some())
    }

    #[test]
    fn a_device_has_channels_if_it_may_share_memory() {
        let _switches = BACKGROUND_THREADS.lock();
        for (peers, has_hooks, expected) in [
            (None, false, false),
            (Some(Peers::SameUser), true, false),
            (Some(Peers::SameUser), false, true),
            (Some(Peers::AnyUser), false, true),
        ] {
            let (_net, channels, has_exports) = open(peers, has_hooks);
            assert_eq!(channels.is_some(), expected, "{peers:?} {has_hooks}");
            // Direct access is switched off.
            assert!(!has_exports && !channels.is_some_and(|it| it.has_direct_access));
        }
    }

    /// Without a peer on this host packets take UDP, and a poller checks the sockets at each poll.
    #[test]
    fn without_a_channel_packets_take_udp() {
        let _switches = BACKGROUND_THREADS.lock();
        let (net, channels, _) = open(Some(Peers::SameUser), false);
        let channels = channels.unwrap();
        let qp = queue_pair_alone(2, None);
        let mut inner = qp.inner.lock();
        assert!(!channels.is_current(&qp, &inner));
        assert!(!channels.find(&net, &qp, &mut inner));
        assert!(channels.is_current(&qp, &inner) && inner.channel.get().is_none());
        assert!(!channels.lets_skip_sockets(1) && !channels.prepare_sleep());
        assert!(!channels.has_packet(&mut SeenChannels::default()));
        assert_eq!(channels.counts(), (0, 0));
    }
}
