//! Faults of a device's packets (IBV_FAULTS), and its recording (IBV_UROCE_PCAP; `transport` records).
//!
//! Both are of UDP datagrams. So a device with an [`PacketHooks`] has no shared memory with its peers
//! (`peer_channels.rs`), and code that sends through channels or receives from them knows nothing of either.

use super::Device;
use super::faults::{Faults, PacketFault};
use super::receiving::Batch;
use crate::transport::{Consumer, Net, Outbox};
use roce::engine::{Addresses, Transmit};
use roce::wire::Packet;

/// The faults of a device, or its recording, or both.
pub struct PacketHooks {
    pub(super) faults: Option<Faults>,
}

impl PacketHooks {
    /// Opens the faults and the recording of a new device; None if it has neither.
    pub(super) fn open(net: &Net) -> Option<PacketHooks> {
        let faults = Faults::open();
        (faults.is_some() || net.ingress.tap().is_some()).then_some(PacketHooks { faults })
    }

    /// Returns the consumer of a batch's packets.
    pub(super) fn consumer<'a, 'b>(&'a self, batch: &'a mut Batch<'b>) -> HookedConsumer<'a, 'b> {
        HookedConsumer {
            faults: self.faults.as_ref(),
            batch,
            fault: None,
        }
    }

    /// Whether the packet in [`Outbox::buffer`] is to be sent now, as it is.
    fn send(&self, device: &Device, outbox: &mut Outbox, src_qpn: u32, to: &Transmit) -> bool {
        let faults = self.faults.as_ref();
        faults.is_none_or(|faults| faults.send(device, outbox, src_qpn, to))
    }
}

/// Delivers packets, with their faults.
pub(super) struct HookedConsumer<'a, 'b> {
    faults: Option<&'a Faults>,
    batch: &'a mut Batch<'b>,
    /// The fault of the packet that is recorded: the rules are asked once.
    fault: Option<Option<PacketFault>>,
}

impl HookedConsumer<'_, '_> {
    fn decide(&self, packet: &Packet<'_>, from: &Addresses) -> Option<PacketFault> {
        self.faults?.of_received(self.batch.device, packet, from)
    }
}

impl Consumer for HookedConsumer<'_, '_> {
    fn note(&mut self, packet: &Packet<'_>, from: &Addresses) -> Option<&'static str> {
        let fault = self.decide(packet, from);
        self.fault = Some(fault);
        match fault {
            Some(fault) => Some(fault.note()),
            None => self.batch.drop_reason(packet, from),
        }
    }

    fn packet(&mut self, packet: &Packet<'_>, from: &Addresses) {
        let decided = self.fault.take();
        let fault = decided.unwrap_or_else(|| self.decide(packet, from));
        match self.faults {
            None => self.batch.deliver(packet, from),
            Some(faults) => faults.receive(self.batch, packet, from, fault),
        }
    }
}

impl Device {
    /// Adds the packet in [`Outbox::buffer`] to the batch of the queue pair `src_qpn`, with its fault if it
    /// has one.
    #[inline]
    pub(super) fn push(&self, outbox: &mut Outbox, src_qpn: u32, packet: &Transmit) {
        let is_sent = match &self.hooks {
            None => true,
            Some(hooks) => hooks.send(self, outbox, src_qpn, packet),
        };
        if is_sent {
            self.net.push(outbox, src_qpn, packet);
        }
    }
}
