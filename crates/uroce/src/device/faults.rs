//! Faults of packets (IBV_FAULTS). A device with faults uses UDP only (`packet_hooks.rs`).
//!
//! Responsible for injecting the faults. The library decides which packet has which fault ([`PacketHook`]).
//! Without a hook a device injects none (`packet_hooks.rs`).

use std::net::IpAddr;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::qp_cache::QpCache;
use super::receiving::Batch;
use super::{Device, clock};
use crate::sync::Mutex;
use crate::transport::Outbox;
use roce::engine::{Addresses, PacketCopy, Time, Transmit};
use roce::wire::{Operation, Packet, Part, Transport, ip_of};

/// Delayed packets, and events that wait, have this key among the device's timers: it is no queue pair's
/// number.
pub(super) const TIMER_QPN: u32 = 0;
/// Packets delayed at a time. Further ones are dropped, as by a full queue in a network.
const MAX_DELAYED: usize = 1 << 16;

/// The facts about a packet that the hook is passed.
#[derive(Clone, Copy, Debug)]
pub struct PacketFacts<'a> {
    /// The name of the device that received it, or is about to send it.
    pub device: &'a str,
    /// The packet is about to be sent.
    pub sent: bool,
    /// The number of this device's queue pair that it is for, or that sends it.
    pub qpn: u32,
    /// The packet's operation, as rules name it.
    pub operation: &'static str,
    /// Bytes from the BTH to the ICRC.
    pub len: u64,
    /// The address that it comes from, or is sent to.
    pub peer: IpAddr,
    /// The packet is received, and consumes a receive WR of the queue pair or of its SRQ.
    pub takes_receive: bool,
}

/// A fault of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketFault {
    /// The packet is lost.
    Drop,
    /// The packet's ICRC is wrong: the receiver counts and drops it.
    Corrupt,
    /// The packet arrives twice, or is sent twice.
    Duplicate,
    /// The packet arrives, or is sent, this much later.
    Delay(Duration),
    /// A switch has marked it (ECN). Of received packets only.
    Mark,
    /// The packet finds no receive WR. Of received packets only.
    ReceiverNotReady,
}

/// Returns the fault of a packet; None if it has none.
pub type PacketHook = fn(&PacketFacts<'_>) -> Option<PacketFault>;

static HOOK: OnceLock<PacketHook> = OnceLock::new();

/// Devices that this process opens from now on call `hook` for each packet. Only the first call has
/// an effect.
pub fn set_packet_hook(hook: PacketHook) {
    let _ = HOOK.set(hook);
}

impl PacketFault {
    /// The comment of a received packet with the fault.
    pub(super) fn note(self) -> &'static str {
        match self {
            PacketFault::Drop => "dropped: lost on the way by IBV_FAULTS",
            PacketFault::Corrupt => "dropped: damaged on the way by IBV_FAULTS",
            PacketFault::Duplicate => "arrives twice by IBV_FAULTS",
            PacketFault::Delay(_) => "arrives later by IBV_FAULTS",
            PacketFault::Mark => "marked (ECN) by IBV_FAULTS",
            PacketFault::ReceiverNotReady => "finds no receive by IBV_FAULTS",
        }
    }
}

/// A packet that arrives, or is sent, later.
struct Delayed {
    at: Time,
    packet: DelayedPacket,
}

enum DelayedPacket {
    Received {
        copy: PacketCopy,
        from: Addresses,
    },
    /// Without the ICRC.
    Sent {
        bytes: Vec<u8>,
        src_qpn: u32,
        to: Transmit,
    },
}

/// The faults of a device.
pub struct Faults {
    hook: PacketHook,
    /// The delayed packets, in the order of their arrival.
    delayed: Mutex<Vec<Delayed>>,
}

impl Faults {
    /// The faults of a new device; None if no hook is set.
    pub(super) fn open() -> Option<Faults> {
        HOOK.get().map(|hook| Faults {
            hook: *hook,
            delayed: Mutex::default(),
        })
    }

    /// The fault of a received packet.
    pub(super) fn of_received(
        &self,
        device: &Device,
        packet: &Packet<'_>,
        from: &Addresses,
    ) -> Option<PacketFault> {
        (self.hook)(&facts(device, packet, ip_of(&from.src)))
    }

    /// Delivers a packet, with its fault if it has one.
    pub(super) fn receive(
        &self,
        batch: &mut Batch<'_>,
        packet: &Packet<'_>,
        from: &Addresses,
        fault: Option<PacketFault>,
    ) {
        let device = batch.device;
        match fault {
            None => batch.deliver(packet, from),
            Some(PacketFault::Drop) => {}
            Some(PacketFault::Corrupt) => {
                let dropped = &device.net.ingress.dropped;
                dropped.icrc.fetch_add(1, Ordering::Relaxed);
            }
            Some(PacketFault::Duplicate) => {
                batch.deliver(packet, from);
                batch.deliver(packet, from);
            }
            Some(PacketFault::Delay(by)) => {
                // Without memory it is lost, as in a network.
                if let Some(copy) = PacketCopy::try_new(packet) {
                    let from = *from;
                    self.delay(device, by, DelayedPacket::Received { copy, from });
                }
            }
            Some(PacketFault::Mark) => {
                let is_marked = true;
                batch.deliver(packet, &Addresses { is_marked, ..*from });
            }
            Some(PacketFault::ReceiverNotReady) => batch.deliver_without_receives(packet, from),
        }
    }

    /// Whether the packet in [`Outbox::buffer`] is to be sent now, as it is. If not, it is lost, delayed, or
    /// in the batch with a wrong ICRC.
    pub(super) fn send(
        &self,
        device: &Device,
        outbox: &mut Outbox,
        src_qpn: u32,
        to: &Transmit,
    ) -> bool {
        let bytes = &outbox.buffer()[..to.len];
        let Ok(packet) = Packet::parse_without_icrc(bytes) else {
            return true;
        };
        let sent = PacketFacts {
            sent: true,
            qpn: src_qpn,
            takes_receive: false,
            ..facts(device, &packet, ip_of(&to.av.dgid))
        };
        let copy = || DelayedPacket::Sent {
            bytes: bytes.to_vec(),
            src_qpn,
            to: *to,
        };
        match (self.hook)(&sent) {
            None | Some(PacketFault::ReceiverNotReady | PacketFault::Mark) => true,
            Some(PacketFault::Drop) => {
                device
                    .net
                    .lose(outbox, src_qpn, to, "lost on the way by IBV_FAULTS");
                false
            }
            Some(PacketFault::Duplicate) => {
                self.delay(device, Duration::ZERO, copy());
                true
            }
            Some(PacketFault::Delay(by)) => {
                self.delay(device, by, copy());
                false
            }
            Some(PacketFault::Corrupt) => {
                let note = "damaged on the way by IBV_FAULTS";
                device.net.send_corrupted(outbox, src_qpn, to, note);
                false
            }
        }
    }

    fn delay(&self, device: &Device, by: Duration, packet: DelayedPacket) {
        let at = clock::now().after(by);
        let mut delayed = self.delayed.lock();
        if delayed.len() < MAX_DELAYED {
            delayed.push(Delayed { at, packet });
            drop(delayed);
            device.add_timer(at, TIMER_QPN);
            device.wake_before(at);
        }
    }

    /// The packets whose time has come, the earliest first.
    fn take_due(&self, now: Time) -> Vec<Delayed> {
        let mut delayed = self.delayed.lock();
        let all = delayed.drain(..);
        let (mut due, later): (Vec<_>, Vec<_>) = all.partition(|packet| packet.at <= now);
        *delayed = later;
        // Stable: packets of the same time stay in order.
        due.sort_by_key(|packet| packet.at);
        due
    }
}

/// Removes the GIDs of the device of this name, if this process has it open, or lets them come back. The
/// device raises GID_CHANGE.
pub fn set_gids(device: &str, present: bool) {
    if let Some(device) = Device::find(device) {
        device.report_change(device.net.set_gids_present(present));
    }
}

impl Device {
    /// Delivers or sends the delayed packets whose time has come.
    #[cold]
    pub(super) fn deliver_delayed(&self, now: Time) {
        let hooks = self.hooks.as_ref();
        let Some(faults) = hooks.and_then(|hooks| hooks.faults.as_ref()) else {
            return;
        };
        let due = faults.take_due(now);
        self.outboxes.with(|outbox: &mut Outbox| {
            for Delayed { packet, .. } in &due {
                if let DelayedPacket::Sent { bytes, src_qpn, to } = packet {
                    outbox.buffer()[..bytes.len()].copy_from_slice(bytes);
                    let note = "delayed or repeated by IBV_FAULTS";
                    self.net.send_noted(outbox, *src_qpn, to, note);
                }
            }
        });
        let mut batch = Batch::new(self, false, QpCache::default());
        for Delayed { packet, .. } in &due {
            if let DelayedPacket::Received { copy, from } = packet {
                batch.deliver(&copy.packet(), from);
            }
        }
        batch.finish();
    }
}

/// Gathers the facts about a received packet.
fn facts<'a>(device: &'a Device, packet: &Packet<'_>, peer: IpAddr) -> PacketFacts<'a> {
    let (operation, takes_receive) = match packet.bth.opcode.parts() {
        Some((transport, operation, part)) => {
            let takes = takes_receive(operation, part) && transport != Transport::Xrc;
            (name(operation), takes)
        }
        None => ("", false),
    };
    PacketFacts {
        device: &device.name,
        sent: false,
        qpn: packet.bth.dest_qpn,
        operation,
        len: packet.datagram_len() as u64,
        peer,
        takes_receive,
    }
}

fn takes_receive(operation: Operation, part: Part) -> bool {
    match operation {
        Operation::Send | Operation::SendImm | Operation::SendInv => {
            matches!(part, Part::First | Part::Only)
        }
        Operation::WriteImm => true,
        _ => false,
    }
}

fn name(operation: Operation) -> &'static str {
    match operation {
        Operation::Send => "send",
        Operation::SendImm => "send-imm",
        Operation::SendInv => "send-inv",
        Operation::Write => "write",
        Operation::WriteImm => "write-imm",
        Operation::ReadRequest => "read",
        Operation::ReadResponse => "read-response",
        Operation::Ack => "ack",
        Operation::AtomicAck => "atomic-ack",
        Operation::CmpSwap => "cmp-swap",
        Operation::FetchAdd => "fetch-add",
        Operation::Flush => "flush",
        Operation::AtomicWrite => "atomic-write",
        Operation::Reserved => "reserved",
    }
}
