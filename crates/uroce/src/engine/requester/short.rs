//! Sends the most frequent requests, SENDs of one packet, with fewer instructions than
//! [`Requester::next_packet`] takes, while nothing unusual happens.

use super::Requester;
use super::write::Written;
use crate::engine::attributes::Attributes;
use crate::engine::emit::MIN_APART;
use crate::engine::send_queue::{Wqe, WqeState};
use crate::engine::timer::Timer;
use crate::engine::{Host, SendOp, Time};
use crate::wire::{Bth, SHORT_DATAGRAM_MAX};

impl Requester {
    /// [`Requester::next_packet`] of an RC queue pair, if it would write a SEND of one packet for the first
    /// time; `now` is called if it matters. Returns its length. None if nothing was done: it is another
    /// packet, or none can be sent now.
    #[inline]
    pub fn next_short(
        &mut self,
        attributes: &Attributes,
        now: impl FnOnce() -> Time,
        host: &mut impl Host,
        bytes: &mut [u8],
    ) -> Option<usize> {
        let wqe = self.queue.get(self.current)?;
        // The payload is padded to a multiple of four.
        let room = bytes.len().saturating_sub(Bth::LEN) & !3;
        let room = room.min(attributes.mtu as usize).min(MIN_APART - 1);
        let is_short = is_short_send(wqe, room);
        let is_new = self.next == wqe.first && self.next == self.highest_sent;
        let may_start = !self.timers.is_set(Timer::Rnr)
            && self.drain_end.is_none()
            && !(wqe.wr.flags.fence && self.rd_atomic_in_flight > 0)
            && self.window_allows(wqe, attributes.mtu);
        if !(is_short && is_new && may_start) {
            return None;
        }
        let end = wqe.end;
        // An error is that of `next_packet`, too, which fails the WQE.
        let written: Written = self.write_send(wqe, attributes, host, bytes).ok()??;
        self.on_written(&written, end, attributes, now());
        Some(written.encoded.len)
    }

    /// Whether the next WQE is a SEND of one packet.
    #[inline]
    pub fn has_one_packet_send(&self, attributes: &Attributes) -> bool {
        let next = self.queue.get(self.current);
        next.is_some_and(|wqe| is_short_send(wqe, attributes.mtu as usize))
    }

    /// [`Requester::send_ud`] for a short datagram, if it may be sent now and does not fail. Returns its
    /// length; None if nothing was done.
    #[inline]
    pub fn next_short_datagram(
        &mut self,
        attributes: &Attributes,
        now: impl FnOnce() -> Time,
        host: &mut impl Host,
        bytes: &mut [u8],
    ) -> Option<usize> {
        let wqe = self.queue.front()?;
        let is_short = is_short_send(wqe, SHORT_DATAGRAM_MAX);
        if !is_short || self.drain_end.is_some() || !self.pacer.may_send(now()) {
            return None;
        }
        self.send_ud(attributes, host, bytes)
            .ok()?
            .map(|sent| sent.len)
    }
}

/// Whether a WQE is a pending SEND of at most `max` bytes.
#[inline]
fn is_short_send(wqe: &Wqe, max: usize) -> bool {
    wqe.wr.op == SendOp::Send && wqe.len as usize <= max && wqe.state == WqeState::Pending
}
