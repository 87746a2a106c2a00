//! A batch of received packets: which queue pair each is for, and what the queue pairs send afterwards.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use lock_api::ArcMutexGuard;

use super::queue_pair::{Inner, QueuePair, Unavailable};
use super::{Device, clock};
use crate::engine::{Addresses, Time};
use crate::local::Channel;
use crate::sync::RawMutex;
use crate::transport::{GSI_QPN, Outbox};
use crate::wire::{MULTICAST_QPN, Packet};

/// A queue pair whose packets are being received: locked until what it has to send is sent.
pub(super) struct Receiving {
    pub(super) qp: Arc<QueuePair>,
    pub(super) inner: ArcMutexGuard<RawMutex, Inner>,
}

impl Receiving {
    /// Locks a queue pair for a packet. None if the queue pair is destroyed, or another thread has it locked
    /// and is taken for preempted: then the packet is kept.
    pub(super) fn new(
        device: &Device,
        qp: Arc<QueuePair>,
        packet: &Packet<'_>,
        from: &Addresses,
    ) -> Option<Receiving> {
        match qp.lock_unless_preempted() {
            Ok(inner) => Some(Receiving { qp, inner }),
            Err(Unavailable::Preempted) => {
                device.keep_missed(&qp, packet, from);
                None
            }
            Err(Unavailable::Destroyed) => None,
        }
    }

    pub(super) fn receive(
        &mut self,
        packet: &Packet<'_>,
        from: &Addresses,
        now: Time,
        source: Option<Arc<Channel>>,
    ) {
        let (engine, mut host) = self.inner.split(&self.qp);
        host.source = source;
        engine.receive(packet, from, now, &mut host);
    }
}

/// A batch of received packets. [`Batch::finish`] ends it.
pub(super) struct Batch<'a> {
    pub(super) device: &'a Device,
    outbox: &'a mut Outbox,
    /// What the queue pairs have to send may be deferred.
    may_defer: bool,
    /// The time of the first packet.
    now: Option<Time>,
    receiving: Option<Receiving>,
    one_sided: bool,
    packets: u64,
}

impl<'a> Batch<'a> {
    pub(super) fn new(device: &'a Device, outbox: &'a mut Outbox, may_defer: bool) -> Batch<'a> {
        Batch {
            device,
            outbox,
            may_defer,
            now: None,
            receiving: None,
            one_sided: false,
            packets: 0,
        }
    }

    /// Delivers a packet.
    pub(super) fn deliver(&mut self, packet: &Packet<'_>, from: &Addresses) {
        let device = self.device;
        if let Some((receiving, now)) = self.queue_pair_of(packet, from) {
            receiving.receive(packet, from, now, device.source_of(packet));
        }
    }

    /// Delivers a packet to a queue pair that pretends to have no receive posted.
    #[cold]
    pub(super) fn deliver_without_receives(&mut self, packet: &Packet<'_>, from: &Addresses) {
        if let Some((receiving, now)) = self.queue_pair_of(packet, from) {
            let (engine, mut host) = receiving.inner.split(&receiving.qp);
            engine.receive_without_receives(packet, from, now, &mut host);
        }
    }

    /// Counts a packet. Returns its queue pair, if the packet is for one; others it delivers itself.
    #[inline]
    fn queue_pair_of(
        &mut self,
        packet: &Packet<'_>,
        from: &Addresses,
    ) -> Option<(&mut Receiving, Time)> {
        self.packets += 1;
        let parts = packet.headers.bth.opcode.parts();
        self.one_sided |= parts.is_some_and(|(_, operation, _)| operation.is_one_sided());
        let now = *self.now.get_or_insert_with(clock::now);
        let qpn = packet.headers.bth.dest_qpn;
        if qpn == GSI_QPN {
            self.device.receive_mad(packet, from);
            return None;
        }
        let (device, may_defer) = (self.device, self.may_defer);
        if qpn == MULTICAST_QPN {
            device.finish_receiving(&mut self.receiving, may_defer, now, self.outbox);
            device.deliver_multicast(packet, from, now, self.outbox);
            return None;
        }
        if self
            .receiving
            .as_ref()
            .is_none_or(|other| other.qp.qpn != qpn)
        {
            device.finish_receiving(&mut self.receiving, may_defer, now, self.outbox);
            let qp = device.queue_pair(qpn);
            self.receiving = qp.and_then(|qp| Receiving::new(device, qp, packet, from));
        }
        self.receiving.as_mut().map(|receiving| (receiving, now))
    }

    /// Sends what the last queue pair has to send, and adds the packets to the device's count. Returns the
    /// time of the first packet.
    pub(super) fn finish(mut self) -> Option<Time> {
        if let Some(now) = self.now {
            let device = self.device;
            device.finish_receiving(&mut self.receiving, self.may_defer, now, self.outbox);
        }
        let activity = &self.device.activity;
        if self.one_sided {
            activity.one_sided.store(true, Ordering::Relaxed);
        }
        let before = activity.packets.load(Ordering::Relaxed);
        activity
            .packets
            .store(before + self.packets, Ordering::Relaxed);
        self.now
    }
}
