//! Queue pair 1, the general services interface (GSI): management datagrams (MADs).
//!
//! The device sends them, and passes on those that it receives. What they mean is known to the
//! communication manager (`cm`), which registers itself as the receiver ([`set_handlers`]).

use std::sync::OnceLock;

use super::Device;
use crate::transport::GSI_QPN;
use roce::engine::{AddressVector, Addresses, Gid, Transmit};
use roce::wire::{Bth, Deth, Headers, Opcode, Operation, Packet, Part, Psn, Transport};

/// The length of a MAD, in bytes.
pub const MAD_LEN: usize = 256;
/// The Q_Key of queue pair 1 (10.2.5).
const GSI_QKEY: u32 = 0x8001_0000;
const PKEY: u16 = 0xffff;
/// The hop limit that MADs ask for. For unicast [`crate::transport::Outbox`] sends its own.
const HOP_LIMIT: u8 = 64;

/// A MAD that a device has received.
#[derive(Clone, Debug)]
pub struct ReceivedMad {
    /// The sender's GID.
    pub src: Gid,
    /// The device's GID that it was sent to.
    pub dst: Gid,
    pub mad: [u8; MAD_LEN],
}

/// Gets MADs. It is called by threads that receive for the device, so it must not block.
pub type MadHandler = fn(ReceivedMad);

/// Is called when addresses, GIDs or the state of a device's interface have changed. It must not block.
pub type ChangeHandler = fn();

static HANDLERS: OnceLock<(MadHandler, ChangeHandler)> = OnceLock::new();

/// Registers who gets the MADs and the changes of all devices. Only the first call has an effect.
pub fn set_handlers(on_mad: MadHandler, on_change: ChangeHandler) {
    let _ = HANDLERS.set((on_mad, on_change));
}

/// Lets the handler of changes know of one.
pub(super) fn interface_changed() {
    if let Some((_, on_change)) = HANDLERS.get() {
        on_change();
    }
}

impl Device {
    /// Handles a packet to queue pair 1.
    pub(super) fn receive_mad(&self, packet: &Packet<'_>, from: &Addresses) {
        let is_gsi = packet.deth().is_some_and(|deth| deth.qkey == GSI_QKEY);
        let mad = packet.payload.first_chunk::<MAD_LEN>();
        if let (true, Some(mad), Some((on_mad, _))) = (is_gsi, mad, HANDLERS.get()) {
            on_mad(ReceivedMad {
                src: from.src,
                dst: from.dst,
                mad: *mad,
            });
        }
    }

    /// Sends a MAD to queue pair 1 of the device with this GID. Like every datagram it may be lost.
    pub fn send_mad(&self, sgid_index: u8, dgid: Gid, traffic_class: u8, mad: &[u8; MAD_LEN]) {
        let Some(source) = self.net.mad_source(sgid_index) else {
            return;
        };
        let headers = Headers {
            deth: Some(Deth {
                qkey: GSI_QKEY,
                src_qpn: GSI_QPN,
            }),
            ..Headers::new(Bth {
                opcode: Opcode::new(Transport::Ud, Operation::Send, Part::Only),
                solicited: false,
                migrated: true,
                pad: 0,
                pkey: PKEY,
                dest_qpn: GSI_QPN,
                ack_request: false,
                psn: Psn::new(0),
            })
        };
        let av = AddressVector {
            dgid,
            sgid_index,
            traffic_class,
            hop_limit: HOP_LIMIT,
            flow_label: 0,
        };
        self.outboxes.with(|outbox| {
            let buffer = outbox.buffer();
            let start = headers.write(buffer);
            buffer[start..start + MAD_LEN].copy_from_slice(mad);
            let packet = Transmit {
                av,
                dest_qpn: GSI_QPN,
                len: start + MAD_LEN,
            };
            self.push(outbox, source, &packet);
            self.net.flush(outbox);
        });
    }
}
