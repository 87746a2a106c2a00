//! A batch of received packets: which queue pair each is for, and what the queue pairs send afterwards; and
//! what queue pairs have missed.

use std::sync::Arc;

use super::clock::ReadOnce;
use super::inboxes::InboxGuard;
use super::missed::KeptPacket;
use super::peer_channels::PeerChannels;
use super::polled::PolledCompletions;
use super::qp_cache::QpCache;
use super::queue_pair::{Inner, LockedQp, QueuePair, Unavailable};
use super::{Device, clock};
use crate::shm::Receiver;
use crate::transport::{GSI_QPN, SMI_QPN};
use roce::engine::{Addresses, Clock, Fragment, QpState, Service, Time};
use roce::wire::{MULTICAST_QPN, Packet};

/// Batches of datagrams that are received before the first packets of a new channel.
const MAX_ROUNDS_BEFORE_CHANNEL: usize = 64;

/// Locks a queue pair for a packet. None if the queue pair is destroyed, or another thread has it locked and
/// is taken for preempted: then the packet is kept.
pub(super) fn lock_for(
    device: &Device,
    qp: Arc<QueuePair>,
    packet: &Packet<'_>,
    from: &Addresses,
) -> Option<LockedQp> {
    match LockedQp::lock(qp) {
        Ok(locked) => Some(locked),
        Err((qp, Unavailable::Preempted)) => {
            device.keep_missed(&qp, || KeptPacket::of_packet(packet), from);
            None
        }
        Err((_, Unavailable::Destroyed)) => None,
    }
}

/// Delivers a packet to a queue pair. `polled`: of a program that is polling.
#[inline(always)]
pub(super) fn receive(
    locked: &mut LockedQp,
    packet: &Packet<'_>,
    from: &Addresses,
    clock: impl Clock,
    polled: Option<&mut PolledCompletions>,
) {
    let (qp, inner) = locked.split();
    let (engine, mut hca) = inner.split(qp);
    hca.polled = polled;
    engine.receive(packet, from, clock, &mut hca);
}

impl Receiver for Batch<'_> {
    #[inline(always)]
    fn packet(&mut self, packet: &Packet<'_>, from: &Addresses) {
        // A datagram starts no wait.
        self.deliver_by(packet, from, false);
    }

    #[inline(always)]
    fn fragment(&mut self, fragment: &Fragment<'_>, from: &Addresses) {
        self.packets += 1;
        self.one_sided |= fragment.operation().is_one_sided();
        let qpn = fragment.dest_qpn();
        if self.qpn != Some(qpn) {
            if let Err(preempted) = self.begin_receiving(qpn) {
                return self.keep(preempted, || KeptPacket::of_fragment(fragment), from);
            }
        }
        // Only a wait that a NAK begins has to end at the right time.
        let clock = match fragment.is_nak() {
            true => &self.exact,
            false => &self.coarse,
        };
        if let Some(locked) = &mut self.receiving {
            let (qp, inner) = locked.split();
            let (engine, mut hca) = inner.split(qp);
            hca.polled = self.polled.as_deref_mut();
            engine.receive_fragment(fragment, from, clock, &mut hca);
        }
    }
}

/// A batch of received packets. [`Batch::finish`] ends it.
pub(super) struct Batch<'a> {
    pub(super) device: &'a Device,
    /// The queue pairs may defer what they have to send.
    may_defer: bool,
    /// The clock for packets that came by UDP, and NAKs.
    exact: ReadOnce,
    /// The clock for other packets.
    coarse: ReadOnce,
    /// A queue pair whose packets are being received: locked until what it has to send is sent.
    receiving: Option<LockedQp>,
    /// The number of `receiving`.
    qpn: Option<u32>,
    qp_cache: QpCache,
    /// The unreported completions of a program that is polling.
    pub(super) polled: Option<&'a mut PolledCompletions>,
    one_sided: bool,
    packets: u64,
}

impl<'a> Batch<'a> {
    /// An empty batch. `qp_cache`: what [`Batch::finish`] has returned for the one before.
    pub(super) fn new(device: &'a Device, may_defer: bool, qp_cache: QpCache) -> Batch<'a> {
        Batch {
            device,
            may_defer,
            exact: ReadOnce::new(clock::now),
            coarse: ReadOnce::new(clock::coarse),
            receiving: None,
            qpn: None,
            qp_cache,
            polled: None,
            one_sided: false,
            packets: 0,
        }
    }

    /// Delivers a packet.
    #[inline(never)]
    pub(super) fn deliver(&mut self, packet: &Packet<'_>, from: &Addresses) {
        self.deliver_by(packet, from, true);
    }

    /// Delivers a packet; `exactly`: the time that the queue pair reads is exact.
    #[inline(always)]
    fn deliver_by(&mut self, packet: &Packet<'_>, from: &Addresses, exactly: bool) {
        if !self.lock_queue_pair_of(packet, from) {
            return;
        }
        let clock = if exactly { &self.exact } else { &self.coarse };
        if let Some(locked) = &mut self.receiving {
            let polled = self.polled.as_deref_mut();
            receive(locked, packet, from, clock, polled);
        }
    }

    /// Why a packet that is about to be delivered is dropped, as far as that is known before. Locks its queue
    /// pair.
    #[cold]
    pub(super) fn drop_reason(
        &mut self,
        packet: &Packet<'_>,
        from: &Addresses,
    ) -> Option<&'static str> {
        let qpn = packet.bth.dest_qpn;
        if matches!(qpn, SMI_QPN | GSI_QPN | MULTICAST_QPN) {
            return None;
        }
        if self.qpn != Some(qpn) && matches!(self.begin_receiving(qpn), Err(None)) {
            return Some("dropped: no such queue pair");
        }
        let (_, inner) = self.receiving.as_mut()?.split();
        inner.engine().drop_reason(packet, from)
    }

    /// Delivers a packet to a queue pair that pretends to have no receive posted.
    #[cold]
    pub(super) fn deliver_without_receives(&mut self, packet: &Packet<'_>, from: &Addresses) {
        if !self.lock_queue_pair_of(packet, from) {
            return;
        }
        if let Some(locked) = &mut self.receiving {
            let (qp, inner) = locked.split();
            let (engine, mut hca) = inner.split(qp);
            engine.receive_without_receives(packet, from, &self.exact, &mut hca);
        }
    }

    /// Locks another queue pair than that of the last packet. Fails with one whose lock another thread has
    /// that is taken for preempted; with none if there is no queue pair.
    #[inline(never)]
    fn begin_receiving(&mut self, qpn: u32) -> Result<(), Option<Arc<QueuePair>>> {
        self.end_receiving();
        let locked = match self.qp_cache.take(qpn).map(LockedQp::lock) {
            // A new one may have its number.
            None | Some(Err((_, Unavailable::Destroyed))) => {
                self.device.queue_pair(qpn).map(LockedQp::lock)
            }
            cached => cached,
        };
        match locked {
            Some(Ok(locked)) => {
                (self.receiving, self.qpn) = (Some(locked), Some(qpn));
                Ok(())
            }
            Some(Err((qp, Unavailable::Preempted))) => Err(Some(qp)),
            None | Some(Err((_, Unavailable::Destroyed))) => Err(None),
        }
    }

    /// Sends what the queue pair of the last packets has to send.
    #[inline]
    fn end_receiving(&mut self) {
        self.qpn = None;
        if let Some(locked) = self.receiving.take() {
            let (device, may_defer) = (self.device, self.may_defer);
            let qp = device.finish_receiving(locked, may_defer);
            self.qp_cache.put(qp);
        }
    }

    /// The queue pair of a packet or fragment cannot be locked now, or there is none.
    #[cold]
    fn keep(
        &self,
        preempted: Option<Arc<QueuePair>>,
        copy: impl FnOnce() -> Option<KeptPacket>,
        from: &Addresses,
    ) {
        match preempted {
            Some(qp) => self.device.keep_missed(&qp, copy, from),
            None => self.device.net.ingress.dropped.count_without_queue_pair(),
        }
    }

    /// Counts a packet, and locks its queue pair. False if the packet is for no queue pair, or for several:
    /// those it delivers itself.
    #[inline(always)]
    fn lock_queue_pair_of(&mut self, packet: &Packet<'_>, from: &Addresses) -> bool {
        self.packets += 1;
        let parts = packet.bth.opcode.parts();
        self.one_sided |= parts.is_some_and(|(_, operation, _)| operation.is_one_sided());
        let qpn = packet.bth.dest_qpn;
        let device = self.device;
        if qpn <= GSI_QPN {
            // Counters that a MAD asks for are read with no queue pair locked.
            self.end_receiving();
            device.receive_mad(packet, from);
            return false;
        }
        if qpn == MULTICAST_QPN {
            self.end_receiving();
            device.deliver_multicast(packet, from, &self.exact);
            return false;
        }
        if self.qpn != Some(qpn) {
            if let Err(preempted) = self.begin_receiving(qpn) {
                self.keep(preempted, || KeptPacket::of_packet(packet), from);
                return false;
            }
        }
        true
    }

    /// Sends what the last queue pair has to send, and adds the packets to the device's count. Returns the
    /// time, if it was read exactly, and the queue pairs of recent packets.
    pub(super) fn finish(mut self) -> (Option<Time>, QpCache) {
        self.end_receiving();
        let activity = &self.device.activity;
        activity.count_packets(self.packets, self.one_sided);
        (self.exact.get(), self.qp_cache)
    }
}

impl Device {
    /// Whether a packet waits in shared memory.
    #[inline]
    pub(super) fn has_local_packets(&self, inbox: &mut InboxGuard<'_>) -> bool {
        let channels = self.channels.as_ref();
        channels.is_some_and(|channels| channels.has_packet(inbox.channels()))
    }

    /// Handles what has come through the connections of channels. `drained`: all datagrams were received that
    /// came before a peer hung up, so that such peers have ended once their channels are empty.
    pub(super) fn serve_channels(&self, inbox: &mut InboxGuard<'_>, drained: bool) {
        let Some(channels) = &self.channels else {
            return;
        };
        if self.net.take_channels_readable() {
            let generation = channels.generation();
            if channels.serve(&self.net) {
                self.waker.wake();
            }
            if channels.generation() != generation {
                self.find_channels(channels);
            }
        }
        if drained {
            self.end_dead_peers(channels);
            // Drops the channels that are gone.
            channels.has_packet(inbox.channels());
        }
    }

    /// Reliable connections that have sent nothing look up their channels, whose end they are to see. UC does
    /// not: the lookup would wait for a thread that is sending by UDP.
    fn find_channels(&self, channels: &PeerChannels) {
        self.queue_pairs.for_each(|qp| {
            if !qp.service.is_reliable() {
                return;
            }
            // Otherwise it is about to send, and looks its channel up itself.
            let Ok(mut inner) = qp.lock_unless_preempted() else {
                return;
            };
            let is_connected = matches!(inner.engine().state(), QpState::Rtr | QpState::Rts);
            if is_connected && inner.channel.get().is_none() {
                channels.find(&self.net, qp, &mut inner);
            }
        });
    }

    fn end_dead_peers(&self, channels: &PeerChannels) {
        while let Some(channel) = channels.take_dead() {
            self.queue_pairs.for_each(|qp| {
                // Otherwise it fails when it has something to send.
                let Ok(mut inner) = qp.lock_unless_preempted() else {
                    return;
                };
                let used = inner.channel.get();
                if !used.is_some_and(|used| Arc::ptr_eq(used, &channel)) {
                    return;
                }
                if qp.service == Service::Ud {
                    inner.channel.forget(true);
                }
                // As the channel is dead, also one that has nothing to send notices the loss of its peer.
                self.send(qp, inner);
            });
        }
    }

    /// Receives the packets that [`Device::has_local_packets`] has found. Returns their number.
    pub(super) fn receive_locally(
        &self,
        inbox: &mut InboxGuard<'_>,
        batch: &mut Batch<'_>,
    ) -> usize {
        let received = inbox.channels().receive(batch);
        match received.any_fresh {
            false => received.packets,
            true => received.packets + self.receive_fresh(inbox, batch),
        }
    }

    /// Receives the first packets of channels, and before them the datagrams that have arrived. Returns the
    /// number of both.
    #[cold]
    fn receive_fresh(&self, inbox: &mut InboxGuard<'_>, batch: &mut Batch<'_>) -> usize {
        let mut count = 0;
        if inbox.channels().take_first_receive() {
            for _ in 0..MAX_ROUNDS_BEFORE_CHANNEL {
                inbox.poll_all_sockets();
                let datagrams = self.net.receive(inbox, &mut |packet, from| {
                    batch.deliver(packet, from);
                });
                count += datagrams;
                if datagrams == 0 {
                    break;
                }
            }
        }
        count + inbox.channels().receive(batch).packets
    }
}

impl Inner {
    /// Delivers what the queue pair has missed.
    #[inline]
    pub fn receive_missed(&mut self, qp: &QueuePair) {
        if qp.missed.any() {
            self.receive_kept(qp);
        }
    }

    #[cold]
    fn receive_kept(&mut self, qp: &QueuePair) {
        let now = clock::now();
        for kept in qp.missed.take() {
            let (engine, mut hca) = self.split(qp);
            match &kept.packet {
                KeptPacket::Packet(copy) => {
                    engine.receive(&copy.packet(), &kept.from, now, &mut hca);
                }
                KeptPacket::Fragment(copy) => {
                    engine.receive_fragment(&copy.fragment(), &kept.from, now, &mut hca);
                }
            }
        }
    }

    /// Delivers the packets of a UC queue pair that are ahead of others, if no thread has still to deliver
    /// those. Returns whether none is left.
    pub fn deliver_early(&mut self, qp: &QueuePair) -> bool {
        let (engine, mut hca) = self.split(qp);
        engine.deliver_early(&mut hca);
        !engine.has_early_packets()
    }
}

impl Device {
    /// Keeps a packet for a queue pair that cannot be locked now. Pollers and the background thread try to
    /// lock it until they can.
    #[cold]
    pub(super) fn keep_missed(
        &self,
        qp: &Arc<QueuePair>,
        copy: impl FnOnce() -> Option<KeptPacket>,
        from: &Addresses,
    ) {
        if !qp.missed.keep(copy, from) {
            return;
        }
        self.deferred_sends.add_missed(qp);
        self.waker.wake();
    }
}
