//! The path of packets: through shared memory to processes of this host ([`crate::local`]), by UDP to all
//! others.
//!
//! Both paths carry the same packets, so a queue pair may change from one to the other at any time. Only
//! reliable services repair a reordering. Therefore the first packet that takes a channel waits for those
//! that other threads are still sending by UDP (`Device::switch_path`). A queue pair starts with UDP, unless
//! there is a channel to its peer already.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};

use super::Device;
use super::lock_holder::{InboxGuard, PREEMPTED_AFTER};
use super::qp_host::QpHost;
use super::queue_pair::{Inner, QueuePair, Unavailable};
use crate::direct::Exports;
use crate::engine::{AddressVector, Qp, QpState, Service, Time, Transmit};
use crate::local::{Channel, Ends, Paths, Peers, Receiver, Recorder, Room, Sender, Written};
use crate::transport::{Net, Outbox};
use crate::wire::{Flow, port_of};

/// A poller checks the sockets at every poll of this number only. At the others it checks shared memory,
/// which takes no system call.
const POLLS_PER_SOCKET_POLL: u64 = 32;
/// Batches of datagrams that are received before the first packets of a new channel.
const MAX_ROUNDS_BEFORE_CHANNEL: usize = 64;

/// `IBV_UROCE_LOCAL`: whether devices that are opened from now on use shared memory.
static ENABLED: AtomicBool = AtomicBool::new(false);
/// With [`Peers::AnyUser`].
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

/// The path of a queue pair's packets, as of the last lookup.
#[derive(Default)]
pub struct QpPath {
    /// [`Paths::generation`] at that time; 0 before.
    generation: u32,
    /// Of a datagram: where it goes, and to which port.
    destination: Option<(AddressVector, u16)>,
    /// None: by UDP.
    channel: Option<Arc<Channel>>,
}

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

impl QpPath {
    /// The channel of the last lookup.
    pub(super) fn channel(&self) -> Option<&Arc<Channel>> {
        self.channel.as_ref()
    }

    /// Whether nothing has changed since the last lookup, which was for this destination of a datagram, or
    /// for the only peer of the queue pair.
    #[inline]
    pub(super) fn is_for(
        &self,
        generation: u32,
        destination: Option<(AddressVector, u16)>,
    ) -> bool {
        self.generation == generation && self.destination == destination
    }
}

/// The paths of a new device; None if they are switched off. With them, what peers may access directly, if
/// `direct`.
pub fn open(net: &Net, direct: bool) -> io::Result<(Option<Paths>, Option<Arc<Exports>>)> {
    if !ENABLED.load(Ordering::Relaxed) {
        return Ok((None, None));
    }
    let peers = match ANY_USER.load(Ordering::Relaxed) {
        true => Peers::AnyUser,
        false => Peers::SameUser,
    };
    // Others must not read the keys, and the kernel refuses their accesses anyway.
    let exports = (direct && peers == Peers::SameUser)
        .then(super::direct::open)
        .flatten();
    let paths = Paths::new(net.ifindex(), peers, exports.clone())?;
    net.watch_paths(paths.fd())?;
    Ok((Some(paths), exports))
}

impl Device {
    pub(super) fn ends(&self, flow: &Flow) -> Option<Ends> {
        let (gid, peer_gid) = self.net.gids_of(flow)?;
        Some(Ends {
            flow: *flow,
            gid,
            peer_gid,
        })
    }

    /// The program has changed a queue pair's attributes. From RTR on, peers of this host can find this
    /// process, and are offered a channel.
    pub(super) fn open_path(&self, qp: &QueuePair, engine: &Qp) {
        let Some(paths) = &self.paths else { return };
        if !matches!(engine.state(), QpState::Rtr | QpState::Rts) {
            return;
        }
        let port = port_of(qp.qpn);
        for ip in self.net.addresses_of(port) {
            paths.listen(ip, port);
        }
        if qp.service == Service::Ud {
            return;
        }
        if let Some(flow) = self.flow_to_peer(qp, engine) {
            self.offer_channel(paths, &flow);
        }
    }

    /// The program has moved a queue pair to RTS, and may post next: waits a moment for the answer to the
    /// offer of a channel. A stream of requests that begins by UDP keeps later ones from direct access, as
    /// there is always one outstanding.
    pub fn await_path(&self, qp: &QueuePair) {
        let Some(paths) = &self.paths else { return };
        if qp.service == Service::Ud {
            return;
        }
        let flow = self.flow_to_peer(qp, qp.inner.lock().engine());
        let Some(flow) = flow.filter(|flow| paths.find(flow).is_none()) else {
            return;
        };
        paths.await_answer(&flow);
        if paths.serve(&|flow| self.ends(flow)) {
            self.waker.wake();
        }
        let inner = qp.inner.lock();
        qp.holder.locked();
        self.send(qp, inner);
    }

    /// The program is posting: a request that is executed directly needs the channel before it would be sent.
    #[inline]
    pub(super) fn refresh_path(&self, qp: &QueuePair, inner: &mut Inner) {
        if let (Some(paths), Some(_), Service::Rc) = (&self.paths, &self.exports, qp.service) {
            if inner.path.generation != paths.generation() {
                self.find_path(paths, qp, inner);
            }
        }
    }

    fn offer_channel(&self, paths: &Paths, flow: &Flow) {
        if let Some(ends) = self.ends(flow) {
            paths.offer(ends);
        }
    }

    fn flow_to_peer(&self, qp: &QueuePair, engine: &Qp) -> Option<Flow> {
        let attributes = engine.attributes();
        self.net.flow(qp.qpn, &attributes.av?, attributes.dest_qpn?)
    }

    /// Whether a queue pair has nothing to send, and the channel of its peer is as of its last lookup.
    #[inline]
    pub(super) fn has_nothing_to_send(&self, qp: &QueuePair, inner: &Inner) -> bool {
        if inner.engine().may_transmit() {
            return false;
        }
        let Some(paths) = &self.paths else {
            return true;
        };
        // What is outstanding fails when the peer is gone.
        let is_dead = |channel: &Arc<Channel>| channel.is_dead();
        let is_current = inner.path.generation == paths.generation();
        qp.service == Service::Ud || is_current && !inner.path.channel().is_some_and(is_dead)
    }

    /// Looks up the channel that the next packet of a queue pair takes ([`Inner::split_path`]; it may be
    /// dead). False: UDP.
    pub(super) fn find_path(&self, paths: &Paths, qp: &QueuePair, inner: &mut Inner) -> bool {
        let generation = paths.generation();
        let engine = inner.engine();
        if qp.service != Service::Ud {
            if inner.path.is_for(generation, None) {
                return inner.path.channel.is_some();
            }
            let flow = self.flow_to_peer(qp, engine);
            let found = flow.and_then(|flow| paths.find(&flow));
            // A queue pair keeps the channel of a peer that is gone, and does not take that of a later
            // process with the same address and port.
            let old = inner.path.channel.take();
            let channel = match old.filter(|old| old.is_dead()) {
                Some(old) if old.has_ended() || found.is_none() => Some(old),
                _ => found,
            };
            return self.switch_path(qp, inner, generation, None, channel);
        }
        let Some(to) = engine.next_destination() else {
            return false;
        };
        let (av, dest_qpn) = (to.av, to.qpn);
        let destination = Some((av, port_of(dest_qpn)));
        if inner.path.is_for(generation, destination) {
            return inner.path.channel.is_some();
        }
        let flow = self.net.flow(qp.qpn, &av, dest_qpn);
        let channel = flow.and_then(|flow| {
            let channel = paths.find(&flow);
            if channel.is_none() {
                self.offer_channel(paths, &flow);
            }
            channel
        });
        self.switch_path(qp, inner, generation, destination, channel)
    }

    /// The next packets of a queue pair take this channel; without one, UDP: then it returns false. Packets
    /// that another thread has taken from the queue pair before, and is sending by UDP, must not arrive after
    /// them: unreliable services cannot repair that.
    fn switch_path(
        &self,
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
        inner.path = QpPath {
            generation,
            destination,
            channel,
        };
        is_found
    }

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
            engine.set_paced(true);
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
            engine.set_paced(false);
            engine.set_lending(true);
            let filled = match qp.service {
                Service::Ud => self.send_datagram(qp, engine, &mut host, now, &mut sender, outbox),
                _ => self.fill_channel(qp, engine, &mut host, now, &mut sender, outbox),
            };
            engine.set_lending(false);
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
                    by_reference: packet.by_reference,
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

    /// The peer is gone, and all that it had sent is received: what is outstanding fails, but not before the
    /// program has read the completions that it has. Many programs end once they have those that they
    /// count, with others outstanding; their peers may be gone then. Until then the packets take UDP, and
    /// fail by timers.
    fn fail_unreachable(&self, qp: &QueuePair, inner: &mut Inner) {
        // Otherwise the thread that delivers what was missed sends, too.
        if !inner.engine().can_fail_unreachable() || qp.missed.any() {
            return;
        }
        if qp.has_unread_completions() {
            self.await_reading(qp, inner);
            // The program may have read the last one before it could see that it is waited for.
            fence(Ordering::SeqCst);
        }
        if !qp.has_unread_completions() {
            let (engine, mut host) = inner.split(qp);
            engine.fail_unreachable(&mut host);
        }
    }

    /// Tries again when the program polls for the next completion, or is about to block until it comes.
    fn await_reading(&self, qp: &QueuePair, inner: &mut Inner) {
        if inner.is_unreachable {
            return;
        }
        if let Some(qp) = self.queue_pair(qp.qpn) {
            inner.is_unreachable = true;
            self.add_unreachable(qp);
        }
    }

    /// Without memory, the queue pair's timers decide.
    fn add_unreachable(&self, qp: Arc<QueuePair>) {
        let mut unreachable = self.unreachable.lock();
        if unreachable.try_reserve(1).is_ok() {
            unreachable.push(qp);
            self.activity.has_unreachable.store(true, Ordering::Relaxed);
        }
    }

    /// Fails the queue pairs whose peer is gone, if the program has read their completions meanwhile.
    pub(super) fn retry_unreachable(&self) {
        let has_unreachable = &self.activity.has_unreachable;
        if !has_unreachable.load(Ordering::Relaxed) {
            return;
        }
        has_unreachable.store(false, Ordering::Relaxed);
        let queue_pairs = core::mem::take(&mut *self.unreachable.lock());
        for qp in queue_pairs {
            let locked = qp.lock_unless_preempted().map(|mut inner| {
                inner.is_unreachable = false;
                self.send(&qp, inner);
            });
            if locked == Err(Unavailable::Preempted) {
                self.add_unreachable(qp);
            }
        }
    }

    /// A channel is full: the queue pair continues when the peer has received from it. False if the queue
    /// pair is being destroyed, or there is no memory.
    fn defer_until_room(&self, qp: &QueuePair, inner: &mut Inner) -> bool {
        let qp = self.queue_pair(qp.qpn);
        qp.is_some_and(|qp| self.defer_send(&qp, inner))
    }

    /// Whether a poller may skip the sockets at this poll, and check shared memory only.
    pub(super) fn skips_sockets(&self, polls: u64) -> bool {
        let used = self.paths.as_ref().is_some_and(Paths::is_used);
        used && polls % POLLS_PER_SOCKET_POLL != 0
    }

    /// Whether a packet waits in shared memory.
    #[inline]
    pub(super) fn has_local_packets(&self, inbox: &mut InboxGuard<'_>) -> bool {
        let paths = self.paths.as_ref();
        paths.is_some_and(|paths| paths.has_news(inbox.channels()))
    }

    /// Receives packets from shared memory. Returns their number.
    pub(super) fn receive_locally(
        &self,
        inbox: &mut InboxGuard<'_>,
        recorder: &impl Recorder,
        receiver: &mut impl Receiver,
    ) -> usize {
        let Some(paths) = &self.paths else { return 0 };
        if !paths.has_news(inbox.channels()) {
            return 0;
        }
        let received = inbox.channels().receive(recorder, receiver);
        match received.any_fresh {
            false => received.packets,
            true => received.packets + self.receive_fresh(inbox, recorder, receiver),
        }
    }

    /// Receives the first packets of channels, and before them the datagrams that have arrived. Returns the
    /// number of both.
    #[cold]
    fn receive_fresh(
        &self,
        inbox: &mut InboxGuard<'_>,
        recorder: &impl Recorder,
        receiver: &mut impl Receiver,
    ) -> usize {
        let mut count = 0;
        if inbox.channels().take_fresh() {
            for _ in 0..MAX_ROUNDS_BEFORE_CHANNEL {
                inbox.poll_all_sockets();
                let datagrams = self.net.receive(inbox, &mut |packet, from| {
                    receiver.packet(packet, from);
                });
                count += datagrams;
                if datagrams == 0 {
                    break;
                }
            }
        }
        count + inbox.channels().receive(recorder, receiver).packets
    }

    /// Whether a peer has hung up, and what it had sent may not be received yet.
    pub(super) fn has_dead_peers(&self) -> bool {
        self.paths.as_ref().is_some_and(Paths::has_dead)
    }

    /// Handles what has come through the connections of channels. `drained`: all datagrams were received that
    /// came before a peer hung up, so that such peers have ended once their channels are empty.
    pub(super) fn serve_paths(&self, inbox: &mut InboxGuard<'_>, drained: bool) {
        let Some(paths) = &self.paths else { return };
        if self.net.take_paths_readable() && paths.serve(&|flow| self.ends(flow)) {
            self.waker.wake();
        }
        if drained {
            self.end_dead_peers(paths);
            // Drops the channels that are gone.
            paths.has_news(inbox.channels());
        }
    }

    fn end_dead_peers(&self, paths: &Paths) {
        for channel in paths.take_dead() {
            let queue_pairs: Vec<_> = self.queue_pairs.read().values().cloned().collect();
            for qp in queue_pairs {
                // Otherwise it fails when it has something to send.
                let Ok(inner) = qp.lock_unless_preempted() else {
                    continue;
                };
                let used = inner.path.channel.as_ref();
                if used.is_some_and(|used| Arc::ptr_eq(used, &channel)) {
                    self.send(&qp, inner);
                }
            }
        }
    }

    /// The background thread is about to sleep. Returns true if it must not, because packets have arrived.
    pub(super) fn prepare_sleep(&self) -> bool {
        self.paths.as_ref().is_some_and(Paths::prepare_sleep)
    }

    /// The background thread does not sleep any more. `readable`: a socket or a peer has woken it up.
    pub(super) fn end_sleep(&self, readable: bool) {
        if let Some(paths) = &self.paths {
            paths.end_sleep();
            if readable {
                paths.read_wakeups();
            }
        }
    }
}
