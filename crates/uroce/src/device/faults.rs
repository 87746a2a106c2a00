//! Faults of received packets (IBV_FAULTS), whether they come by UDP or through shared memory.
//!
//! Responsible for injecting the faults. The library decides which packet has which fault ([`PacketHook`]).
//! Without a hook a device injects none, at the cost of one test per batch.

use std::sync::OnceLock;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::receiving::Batch;
use super::{Device, clock};
use crate::engine::{Addresses, Time};
use crate::sync::Mutex;
use crate::transport::Outbox;
use crate::wire::{Headers, Operation, Packet, Part, Transport};

/// Delayed packets have this key among the device's timers: it is no queue pair's number.
pub(super) const TIMER_QPN: u32 = 0;
/// Packets delayed at a time. Further ones are dropped, as by a full queue in a network.
const MAX_DELAYED: usize = 1 << 16;

/// What the hook is passed about a received packet.
#[derive(Clone, Copy, Debug)]
pub struct PacketFacts<'a> {
    /// The name of the device that received it.
    pub device: &'a str,
    /// The number of the queue pair that it is for.
    pub qpn: u32,
    /// Its operation, as rules name it.
    pub operation: &'static str,
    /// Bytes from the BTH to the ICRC.
    pub len: u64,
    /// The packet consumes a receive WR of the queue pair or of its SRQ.
    pub takes_receive: bool,
}

/// A fault of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketFault {
    /// It is lost.
    Drop,
    /// Its ICRC is wrong: it is counted and dropped.
    Corrupt,
    /// It arrives twice.
    Duplicate,
    /// It arrives this much later.
    Delay(Duration),
    /// It finds no receive WR.
    ReceiverNotReady,
}

/// Returns the fault of a received packet; None if it has none.
pub type PacketHook = fn(&PacketFacts<'_>) -> Option<PacketFault>;

static HOOK: OnceLock<PacketHook> = OnceLock::new();

/// Devices that this process opens from now on call `hook` for each received packet. Only the first call has
/// an effect.
pub fn set_packet_hook(hook: PacketHook) {
    let _ = HOOK.set(hook);
}

/// A packet that arrives later.
struct Delayed {
    at: Time,
    headers: Headers,
    payload: Vec<u8>,
    from: Addresses,
}

/// The faults of a device.
pub struct Faults {
    hook: PacketHook,
    /// In the order of their arrival.
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

    /// Delivers a packet, with its fault if it has one.
    pub(super) fn receive(&self, batch: &mut Batch<'_>, packet: &Packet<'_>, from: &Addresses) {
        let device = batch.device;
        match (self.hook)(&facts(device, packet)) {
            None => batch.deliver(packet, from),
            Some(PacketFault::Drop) => {}
            Some(PacketFault::Corrupt) => {
                device.net.dropped.icrc.fetch_add(1, Ordering::Relaxed);
            }
            Some(PacketFault::Duplicate) => {
                batch.deliver(packet, from);
                batch.deliver(packet, from);
            }
            Some(PacketFault::Delay(by)) => self.delay(device, packet, from, by),
            Some(PacketFault::ReceiverNotReady) => batch.deliver_without_receives(packet, from),
        }
    }

    fn delay(&self, device: &Device, packet: &Packet<'_>, from: &Addresses, by: Duration) {
        let at = clock::now().after(by);
        let mut delayed = self.delayed.lock();
        if delayed.len() < MAX_DELAYED {
            delayed.push(Delayed {
                at,
                headers: packet.headers,
                payload: packet.payload.to_vec(),
                from: *from,
            });
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

impl Device {
    /// Delivers the delayed packets whose time has come.
    #[cold]
    pub(super) fn deliver_delayed(&self, now: Time) {
        let Some(faults) = &self.faults else { return };
        let due = faults.take_due(now);
        self.with_outbox(|outbox: &mut Outbox| {
            let mut batch = Batch::new(self, outbox, false);
            for packet in &due {
                let headers = packet.headers;
                let payload = &packet.payload[..];
                batch.deliver(&Packet { headers, payload }, &packet.from);
            }
            batch.finish();
        });
    }
}

fn facts<'a>(device: &'a Device, packet: &Packet<'_>) -> PacketFacts<'a> {
    let (operation, takes_receive) = match packet.headers.bth.opcode.parts() {
        Some((transport, operation, part)) => {
            let takes = takes_receive(operation, part) && transport != Transport::Xrc;
            (name(operation), takes)
        }
        None => ("", false),
    };
    PacketFacts {
        device: &device.name,
        qpn: packet.headers.bth.dest_qpn,
        operation,
        len: packet.datagram_len() as u64,
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
    }
}
