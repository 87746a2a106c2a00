//! Recording the packets of channels (IBV_UROCE_PCAP), as the UDP datagrams that they stand for: with the
//! addresses and ports of the channel, and an ICRC.
//!
//! A packet is recorded before it is put into a ring, and when it is taken out, before it has any effect. So
//! in no file does a response come before its request.

use std::time::SystemTime;

use super::channel::{Ends, HOP_LIMIT};
use super::offers::reversed;
use super::ring::PACKET_MAX;
use crate::capture::{Direction, Frame, Tap};
use crate::wire::{Fragmentation, ICRC_LEN};

/// The comment of a recorded packet.
const LOCAL: &str = "through shared memory";
/// The comment of one that is received, but is no packet of RoCE.
const MALFORMED: &str = "through shared memory; dropped: malformed";

/// Sees the packets that are taken out of channels. `()` does nothing, and costs nothing.
pub trait Recorder {
    /// A packet was taken out, and has had no effect yet. `valid`: it is not dropped.
    fn received(&self, ends: &Ends, packet: &[u8], traffic_class: u8, valid: bool);
}

impl Recorder for () {
    #[inline(always)]
    fn received(&self, _: &Ends, _: &[u8], _: u8, _: bool) {}
}

impl Recorder for Option<&Tap> {
    fn received(&self, ends: &Ends, packet: &[u8], traffic_class: u8, valid: bool) {
        let Some(tap) = self else { return };
        let note = if valid { LOCAL } else { MALFORMED };
        let direction = Direction::Received;
        record(tap, direction, ends, packet, traffic_class, note);
    }
}

/// Records a packet without ICRC that is about to be put into a channel.
pub(super) fn record_sent(tap: &Tap, ends: &Ends, packet: &[u8], traffic_class: u8) {
    record(tap, Direction::Sent, ends, packet, traffic_class, LOCAL);
}

fn record(
    tap: &Tap,
    direction: Direction,
    ends: &Ends,
    packet: &[u8],
    traffic_class: u8,
    note: &str,
) {
    let flow = match direction {
        Direction::Sent => ends.flow,
        Direction::Received => reversed(&ends.flow),
    };
    let len = packet.len();
    let mut datagram = [0; PACKET_MAX + ICRC_LEN];
    let Some((to, icrc)) = datagram
        .get_mut(..len + ICRC_LEN)
        .and_then(|datagram| datagram.split_last_chunk_mut())
    else {
        return;
    };
    to.copy_from_slice(packet);
    *icrc = flow.icrc(packet, Fragmentation::SENT);
    let frame = Frame {
        flow,
        traffic_class,
        hop_limit: HOP_LIMIT,
        flow_label: 0,
        fragmentation: Fragmentation::SENT,
        datagram: &datagram[..len + ICRC_LEN],
    };
    tap.record(SystemTime::now(), direction, &frame, Some(note));
}
