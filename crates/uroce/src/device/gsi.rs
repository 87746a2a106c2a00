//! Queue pairs 0 and 1, for subnet management and for general services (GSI): management datagrams (MADs).
//!
//! The device sends them, and passes on those that it receives. What they mean is known to the
//! communication manager (`cm`), and for all other classes to `umad`: both register themselves as receivers
//! ([`set_handlers`], [`set_other_handlers`]).

use std::sync::OnceLock;

use super::Device;
use crate::transport::{GSI_QPN, SMI_QPN};
use roce::engine::{AddressVector, Addresses, Gid, Transmit};
use roce::wire::{Bth, Deth, Headers, Opcode, Operation, Packet, Part, Psn, Transport};

/// The length of a MAD, in bytes.
pub const MAD_LEN: usize = 256;
/// The Q_Key of queue pair 1 (10.2.5).
const GSI_QKEY: u32 = 0x8001_0000;
/// The Q_Key of queue pair 0.
const SMI_QKEY: u32 = 0;
/// The management class of the communication manager (13.4.4).
const CLASS_CM: u8 = 7;
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

/// Gets MADs of the communication manager. It is called by threads that receive for the device, so it must
/// not block.
pub type MadHandler = fn(ReceivedMad);

/// Gets all other MADs, with the device and the queue pair that they have come to. As [`MadHandler`]; the
/// thread has no queue pair locked.
pub type OtherMadHandler = fn(&Device, u32, ReceivedMad);

/// A connected queue pair whose peer is gone: its process has ended, or has closed the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostPeer {
    /// The number of this process's queue pair.
    pub qpn: u32,
    /// The peer's GID, and the number of its queue pair.
    pub peer: Gid,
    pub peer_qpn: u32,
}

/// Gets peers that are gone, once all that they had sent is received. It is called with the queue pair
/// locked, so it must neither block nor use the device.
pub type LostPeerHandler = fn(LostPeer);

/// Is called when addresses, GIDs or the state of a device's interface have changed. It must not block.
pub type ChangeHandler = fn();

/// The handlers of the connection manager.
#[derive(Debug)]
pub struct Handlers {
    /// Gets its MADs.
    pub on_mad: MadHandler,
    /// Hears of the changes of all devices.
    pub on_change: ChangeHandler,
    /// Gets the peers that are gone.
    pub on_lost: LostPeerHandler,
}

/// The handlers of all that is not the connection manager's.
#[derive(Debug)]
pub struct OtherHandlers {
    /// Gets the MADs.
    pub on_mad: OtherMadHandler,
    /// Hears of the changes of all devices.
    pub on_change: ChangeHandler,
}

static HANDLERS: OnceLock<Handlers> = OnceLock::new();

static OTHER_HANDLERS: OnceLock<OtherHandlers> = OnceLock::new();

/// Registers who gets the MADs that are not the communication manager's. Only the first call has an effect.
pub fn set_other_handlers(handlers: OtherHandlers) {
    let _ = OTHER_HANDLERS.set(handlers);
}

/// Registers the connection manager. Only the first call has an effect.
pub fn set_handlers(handlers: Handlers) {
    let _ = HANDLERS.set(handlers);
}

/// Lets the handler know that the peer of a queue pair is gone.
#[cold]
pub(super) fn peer_lost(lost: LostPeer) {
    if let Some(handlers) = HANDLERS.get() {
        (handlers.on_lost)(lost);
    }
}

/// Lets the handlers of changes know of one.
pub(super) fn interface_changed() {
    if let Some(handlers) = HANDLERS.get() {
        (handlers.on_change)();
    }
    if let Some(handlers) = OTHER_HANDLERS.get() {
        (handlers.on_change)();
    }
}

/// The queue pair of a MAD's class (13.5.1).
fn special_qpn(mad: &[u8; MAD_LEN]) -> u32 {
    match mad[1] {
        0x01 | 0x81 => SMI_QPN,
        _ => GSI_QPN,
    }
}

fn qkey_of(qpn: u32) -> u32 {
    match qpn {
        SMI_QPN => SMI_QKEY,
        _ => GSI_QKEY,
    }
}

impl Device {
    /// Handles a packet to queue pair 0 or 1.
    pub(super) fn receive_mad(&self, packet: &Packet<'_>, from: &Addresses) {
        let qpn = packet.bth.dest_qpn;
        let has_qkey = packet.deth().is_some_and(|deth| deth.qkey == qkey_of(qpn));
        let Some(mad) = packet.payload.first_chunk::<MAD_LEN>().filter(|_| has_qkey) else {
            return;
        };
        let received = ReceivedMad {
            src: from.src,
            dst: from.dst,
            mad: *mad,
        };
        match (HANDLERS.get(), OTHER_HANDLERS.get()) {
            (Some(handlers), _) if mad[1] == CLASS_CM && qpn == GSI_QPN => {
                (handlers.on_mad)(received)
            }
            (_, Some(others)) if mad[1] != CLASS_CM => (others.on_mad)(self, qpn, received),
            _ => {}
        }
    }

    /// Sends a MAD to queue pair 1 of the device with this GID; subnet management to queue pair 0. Like
    /// every datagram it may be lost.
    pub fn send_mad(&self, sgid_index: u8, dgid: Gid, traffic_class: u8, mad: &[u8; MAD_LEN]) {
        let Some(source) = self.net.table().mad_source(sgid_index) else {
            return;
        };
        let qpn = special_qpn(mad);
        let headers = Headers {
            deth: Some(Deth {
                qkey: qkey_of(qpn),
                src_qpn: qpn,
            }),
            ..Headers::new(Bth {
                opcode: Opcode::new(Transport::Ud, Operation::Send, Part::Only),
                solicited: false,
                migrated: true,
                pad: 0,
                pkey: PKEY,
                dest_qpn: qpn,
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
                dest_qpn: qpn,
                len: start + MAD_LEN,
            };
            self.push(outbox, source, &packet);
            self.net.flush(outbox);
        });
    }
}
