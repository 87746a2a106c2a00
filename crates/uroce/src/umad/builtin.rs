//! Answers that a device gives by itself, in the thread that receives: subnet management, counters.

use super::datagram::{Mad, answer, class, header_of, is_valid, status};
use super::others;
use super::pma::{self, Cleared};
use super::port::{facts, gid_index, has_smi};
use super::queue::enqueue;
use super::sma;
use crate::cm::ucma::names::Incoming;
use crate::device::Device;
use crate::device::gsi::ReceivedMad;
use crate::sync::Mutex;

/// The port that MADs come to.
const PORT: u8 = 1;

/// Cleared counters of each device, by its name.
pub(super) static CLEARED: Mutex<Vec<(String, Cleared)>> = Mutex::new(Vec::new());

/// Gets a MAD from a thread that receives for a device.
pub fn on_mad(device: &Device, qpn: u32, received: ReceivedMad) {
    let ReceivedMad { src, dst, mad } = received;
    let header = header_of(&mad);
    if !is_valid(&header, qpn) || header.is_smp() && !has_smi(device) {
        return;
    }
    if let Some(answered) = respond(device, &mad) {
        return send(device, &Incoming { src, dst, mad }, &answered);
    }
    let incoming = Incoming { src, dst, mad };
    if !enqueue(&incoming) {
        forward_or_refuse(device, &incoming);
    }
}

/// Answers a request to the device.
fn respond(device: &Device, mad: &Mad) -> Option<Mad> {
    let header = header_of(mad);
    if header.is_smp() {
        return sma::respond(mad, &facts(device, PORT));
    }
    if header.class != class::PERF_MGMT || !header.wants_answer() {
        return None;
    }
    let counters = device.counters().port_counters();
    let mut all = CLEARED.lock();
    let at = all.iter().position(|(name, _)| *name == device.name);
    let at = at.unwrap_or_else(|| {
        all.push((device.name.clone(), Cleared::default()));
        all.len() - 1
    });
    let ports = device.profile.limits.ports as u8;
    pma::respond(mad, (PORT, ports), &counters, &mut all[at].1)
}

/// Passes on a MAD that is not for this process. If it is for none, a request is answered so.
pub fn forward_or_refuse(device: &Device, incoming: &Incoming) {
    let is_for_nobody = others::forward(incoming).is_err();
    if is_for_nobody && header_of(&incoming.mad).wants_answer() {
        let refused = answer(&incoming.mad, status::UNSUPPORTED, None);
        send(device, incoming, &refused);
    }
}

/// Sends the answer to a MAD.
fn send(device: &Device, to: &Incoming, mad: &Mad) {
    if let Some(index) = gid_index(device, &to.dst) {
        device.send_mad(index, to.src, 0, mad);
    }
}
