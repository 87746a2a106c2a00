//! What each packet of a device passes besides the engine: faults (IBV_FAULTS), and the recording of packets
//! in shared memory (IBV_UROCE_PCAP; `transport` records those of UDP).
//!
//! A device without either has no [`Interposed`], and makes the same one test per received batch and per sent
//! packet for both. Code that puts packets into a channel calls [`Device::push_locally`], and code that takes
//! them out is within [`Device::receive_all`]. A fast path beside these is for devices without
//! [`Interposed`] only.

use super::Device;
use super::faults::Faults;
use super::receiving::Batch;
use crate::engine::{Addresses, Transmit};
use crate::local::{Room, Sender};
use crate::transport::{Net, Outbox};
use crate::wire::Packet;

/// The faults of a device, or its recording, or both.
pub struct Interposed {
    pub(super) faults: Option<Faults>,
}

impl Interposed {
    /// Those of a new device; None if it has neither.
    pub(super) fn open(net: &Net) -> Option<Interposed> {
        let faults = Faults::open();
        (faults.is_some() || net.tap().is_some()).then_some(Interposed { faults })
    }

    /// Delivers a packet, with its fault if it has one.
    pub(super) fn receive(&self, batch: &mut Batch<'_>, packet: &Packet<'_>, from: &Addresses) {
        match &self.faults {
            None => batch.deliver(packet, from),
            Some(faults) => faults.receive(batch, packet, from),
        }
    }

    /// Whether the packet in [`Outbox::buffer`] is to be sent now, as it is.
    fn send(&self, device: &Device, outbox: &mut Outbox, src_qpn: u32, to: &Transmit) -> bool {
        let faults = self.faults.as_ref();
        faults.is_none_or(|faults| faults.send(device, outbox, src_qpn, to))
    }

    /// [`Interposed::send`]; records the packet if it is to be put into a channel.
    #[cold]
    fn send_locally(
        &self,
        device: &Device,
        sender: &Sender<'_>,
        outbox: &mut Outbox,
        src_qpn: u32,
        to: &Transmit,
    ) -> bool {
        let is_sent = self.send(device, outbox, src_qpn, to);
        if let Some(tap) = device.net.tap().filter(|_| is_sent) {
            let bytes = &outbox.buffer()[..to.len];
            sender.record(tap, bytes, to.av.traffic_class);
        }
        is_sent
    }
}

impl Device {
    /// Adds the packet in [`Outbox::buffer`] to the batch of the queue pair `src_qpn`, with its fault if it
    /// has one.
    #[inline]
    pub(super) fn push(&self, outbox: &mut Outbox, src_qpn: u32, packet: &Transmit) {
        let is_sent = match &self.interposed {
            None => true,
            Some(interposed) => interposed.send(self, outbox, src_qpn, packet),
        };
        if is_sent {
            self.net.push(outbox, src_qpn, packet);
        }
    }

    /// Puts the packet in [`Outbox::buffer`], of the queue pair `src_qpn`, into a channel, with its fault if
    /// it has one. False if it has one and is not put there.
    pub(super) fn push_locally(
        &self,
        (sender, room): (&mut Sender<'_>, Room),
        outbox: &mut Outbox,
        src_qpn: u32,
        packet: &Transmit,
    ) -> bool {
        let is_sent = match &self.interposed {
            None => true,
            Some(interposed) => interposed.send_locally(self, sender, outbox, src_qpn, packet),
        };
        if is_sent {
            let bytes = &outbox.buffer()[..packet.len];
            sender.push(room, bytes, packet.av.traffic_class);
        }
        is_sent
    }
}
