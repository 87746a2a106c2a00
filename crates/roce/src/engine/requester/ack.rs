//! Acknowledgment and loss: the requester's entry points for packets that are acknowledged, lost,
//! or not acknowledged in time. The completer calls them.
//!
//! Not here: reading a response, and counting retries (`completer`).

use ibverbs_abi::*;

use super::selective::Retransmission;
use super::{Expired, Requester};
use crate::engine::attributes::Attributes;
use crate::engine::send_queue::OpClass;
use crate::engine::{Hca, Time};
use crate::wire::{Aeth, Operation, Packet, Part};

/// The outcome of an acknowledgment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acked {
    /// Packets were newly acknowledged.
    pub progress: bool,
    /// Every packet that the acknowledgment covers is acknowledged. False if one of them is a READ or
    /// atomic request whose response has not arrived: then only the packets before it are acknowledged.
    pub complete: bool,
}

impl Requester {
    /// Takes over the credits of an ACK.
    #[inline]
    pub fn on_credits(&mut self, aeth: &Aeth) {
        self.credits.on_ack(aeth);
    }

    /// The peer has executed every packet before `end`.
    #[inline(always)]
    pub fn on_ack(&mut self, end: u64, attributes: &Attributes, now: Time) -> Acked {
        let before = self.window.oldest_unacked();
        let complete = self.window.on_ack(end);
        Acked {
            progress: self.on_progress(before, attributes, now),
            complete,
        }
    }

    /// Takes the response to the oldest packet and writes its payload to the WQE's memory. An error is
    /// the status that the oldest WQE fails with.
    pub fn on_response(
        &mut self,
        operation: Operation,
        packet: &Packet,
        attributes: &Attributes,
        now: Time,
        hca: &mut impl Hca,
    ) -> Result<Acked, ibv_wc_status> {
        let number = self.window.oldest_unacked();
        let queue = self.window.queue();
        let Some(wqe) = queue.iter().find(|wqe| wqe.end > number) else {
            let (progress, complete) = (false, true);
            return Ok(Acked { progress, complete });
        };
        let mtu = attributes.mtu;
        let part = packet.bth.opcode.parts().map(|parts| parts.2);
        let mut ends_request = true;
        match (wqe.class(), operation, packet.atomic_ack()) {
            (OpClass::Read, Operation::ReadResponse, _) => {
                let offset = (number - wqe.first) * u64::from(mtu);
                let len = u64::from(wqe.len).saturating_sub(offset).min(mtu.into());
                ends_request = number + 1 == wqe.request_end(number, mtu);
                let starts = wqe.starts_read(number, mtu);
                if packet.payload.len() as u64 != len || !is_part(part, starts, ends_request) {
                    return Err(IBV_WC_BAD_RESP_ERR);
                }
                if len > 0 {
                    hca.scatter(wqe.wr.sges(), offset, packet.payload)
                        .map_err(|error| error.status())?;
                }
            }
            (OpClass::Atomic, Operation::AtomicAck, Some(original_value)) => hca
                .scatter(wqe.wr.sges(), 0, &original_value.to_ne_bytes())
                .map_err(|error| error.status())?,
            (OpClass::EmptyResponse, Operation::ReadResponse, _)
                if packet.payload.is_empty() && part == Some(Part::Only) => {}
            _ => return Err(IBV_WC_BAD_RESP_ERR),
        }
        self.window.on_response(ends_request);
        Ok(Acked {
            progress: self.on_progress(number, attributes, now),
            complete: true,
        })
    }

    /// The packets from `before` on are newly acknowledged. Returns whether there are any.
    #[inline(always)]
    fn on_progress(&mut self, before: u64, attributes: &Attributes, now: Time) -> bool {
        let oldest_unacked = self.window.oldest_unacked();
        let count = oldest_unacked - before;
        if count == 0 {
            return false;
        }
        let srtt = self.timers.rtt().srtt();
        self.selective
            .on_ack(oldest_unacked, self.window.next(), srtt, now);
        let was_spurious = self.congestion.on_ack(count, oldest_unacked);
        self.timers.on_ack(oldest_unacked, was_spurious, now);
        self.window.catch_up();
        if self.window.is_in_flight() {
            self.start_timers(attributes, now);
        }
        true
    }

    /// Whether the last acknowledgment shows that the oldest packet is missing. Returns true once.
    #[inline]
    pub fn take_missing(&mut self) -> bool {
        self.selective.take_missing()
    }

    /// Whether a NAK can cause a retransmission: packets have been sent since the last one, and the
    /// peer's RNR timer does not run.
    pub fn may_retransmit(&self) -> bool {
        !self.timers.is_rnr_waiting() && self.window.next() != self.window.oldest_unacked()
    }

    /// The oldest packet in flight was lost: retransmit it, and what follows unless the peer keeps that.
    pub fn on_loss(&mut self) {
        self.congestion
            .on_loss(self.window.oldest_unacked(), self.window.highest_sent());
        if self.selective.on_loss(&self.window) {
            self.timers.drop_sample(false);
        } else {
            self.rewind(false);
            self.selective.start_all();
        }
        self.timers.stop_rto();
    }

    /// A CNP: packets were marked.
    pub fn on_congestion(&mut self) {
        self.congestion
            .on_mark(self.window.oldest_unacked(), self.window.highest_sent());
    }

    /// RNR NAK for the oldest packet: it is retransmitted at `until`.
    pub fn on_rnr_nak(&mut self, until: Time) {
        self.rewind(false);
        self.timers.on_rnr_nak(until);
    }

    /// Stops the timers that have expired and returns the one that requires a retransmission.
    pub fn take_expired(&mut self, now: Time) -> Option<Expired> {
        let expired = self.timers.take_expired(now)?;
        if expired != Expired::Rto {
            return Some(expired);
        }
        match self.selective.on_timeout(&self.window, self.timers.rtt()) {
            Retransmission::All => return Some(Expired::Rto),
            Retransmission::Alone => self.timers.drop_sample(false),
            Retransmission::Later => {
                let rto = self.timers.rtt().rto();
                self.timers.restart_rto(rto, now);
            }
        }
        Some(Expired::Alone)
    }

    /// No acknowledgment arrived in time: reduces the congestion window and doubles the RTO.
    pub fn on_rto(&mut self) {
        let is_known = self.timers.rtt().has_sample();
        self.congestion
            .on_rto(self.window.oldest_unacked(), is_known);
        self.timers.on_rto();
    }

    /// A timer has expired, and nothing may be retransmitted now: waits for another RTO.
    pub fn delay_retransmission(&mut self, attributes: &Attributes, now: Time) {
        self.timers.restart_rto(self.timers.rtt().rto(), now);
        self.start_timers(attributes, now);
    }

    /// Retransmits from the oldest unacknowledged packet, after a timeout.
    pub fn retransmit(&mut self, attributes: &Attributes, now: Time) {
        self.rewind(true);
        self.start_timers(attributes, now);
    }
}

/// Whether a READ response can be that part of the responses (9.7.5.1.4). `starts`: of the request as it was
/// first sent; one that was sent again may start with any packet. `ends`: it is the last one.
fn is_part(part: Option<Part>, starts: bool, ends: bool) -> bool {
    match part {
        Some(Part::First) => !ends,
        Some(Part::Middle) => !starts && !ends,
        Some(Part::Last) => !starts && ends,
        Some(Part::Only) => ends,
        None => false,
    }
}
