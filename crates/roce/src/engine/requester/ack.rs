//! Acknowledgment and loss: the requester's entry points for packets that are acknowledged, lost,
//! or not acknowledged in time. The completer calls them.
//!
//! Not here: reading a response, and counting retries (`completer`).

use std::time::Duration;

use ibverbs_abi::*;

use super::Requester;
use crate::engine::attributes::Attributes;
use crate::engine::send_queue::OpClass;
use crate::engine::timer::Timer;
use crate::engine::{Hca, Time, encoding};
use crate::wire::{Aeth, AethKind, Operation, Packet, Part, Psn};

/// The outcome of an acknowledgment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acked {
    /// Packets were newly acknowledged.
    pub progress: bool,
    /// Every packet that the acknowledgment covers is acknowledged. False if one of them is a READ or
    /// atomic request whose response has not arrived: then only the packets before it are acknowledged.
    pub complete: bool,
}

/// A retransmission timer that expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expired {
    /// The ack timeout, which expired `late` ago.
    AckTimeout { late: Duration },
    /// The RTO.
    Rto,
    /// The time of a packet that is sent alone, which is sent once more.
    Alone,
}

impl Requester {
    /// The packet number for a PSN in a response: a packet in flight or an older one. None if the packet
    /// has not been sent.
    pub fn sent_packet(&self, psn: Psn) -> Option<u64> {
        let packet = self.queue.nearest_packet(psn, self.oldest_unacked);
        (packet < self.highest_sent).then_some(packet)
    }

    /// The number of the oldest packet that is not acknowledged.
    pub fn oldest_unacked(&self) -> u64 {
        self.oldest_unacked
    }

    /// The smoothed round-trip time; zero before the first sample.
    pub fn srtt(&self) -> Duration {
        self.rtt.srtt()
    }

    /// Takes over the credits of an ACK (9.7.7.2), unless it is older than the last one.
    pub fn on_credits(&mut self, aeth: &Aeth) {
        let AethKind::Ack { credits } = aeth.kind else {
            return;
        };
        let limit = encoding::credit_count(credits)
            .map(|count| Psn::new(aeth.msn.wrapping_add(count)).get());
        let newer = match (limit, self.limit_ssn) {
            (Some(new), Some(old)) => Psn::new(new).distance(Psn::new(old)) > 0,
            _ => true,
        };
        if newer {
            self.limit_ssn = limit;
        }
    }

    /// The peer has executed every packet before `end`.
    #[inline(always)]
    pub fn on_ack(&mut self, end: u64, attributes: &Attributes, now: Time) -> Acked {
        let before = self.oldest_unacked;
        for wqe in self.queue.iter() {
            if self.oldest_unacked >= end {
                break;
            }
            if wqe.end <= self.oldest_unacked {
                continue;
            }
            match wqe.class() {
                OpClass::Read | OpClass::Atomic => break,
                OpClass::EmptyResponse => {
                    self.rd_atomic_in_flight = self.rd_atomic_in_flight.saturating_sub(1);
                }
                OpClass::Acked | OpClass::Local => {}
            }
            self.oldest_unacked = end.min(wqe.end);
        }
        Acked {
            progress: self.on_progress(before, attributes, now),
            complete: self.oldest_unacked >= end,
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
        let number = self.oldest_unacked;
        let Some(wqe) = self.queue.iter().find(|wqe| wqe.end > number) else {
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
                ends_request = number + 1 == wqe.read_end(number, mtu);
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
        self.oldest_unacked += 1;
        if ends_request {
            self.rd_atomic_in_flight = self.rd_atomic_in_flight.saturating_sub(1);
        }
        Ok(Acked {
            progress: self.on_progress(number, attributes, now),
            complete: true,
        })
    }

    /// The packets from `before` on are newly acknowledged. Returns whether there are any.
    #[inline(always)]
    fn on_progress(&mut self, before: u64, attributes: &Attributes, now: Time) -> bool {
        let count = self.oldest_unacked - before;
        if count == 0 {
            return false;
        }
        let srtt = self.rtt.srtt();
        self.selective
            .on_ack(self.oldest_unacked, self.next, srtt, now);
        let was_spurious = self.congestion.on_ack(count, self.oldest_unacked);
        self.rtt.on_ack(was_spurious);
        if let Some(probe) = self.rtt_probe {
            if self.oldest_unacked > probe.packet {
                self.rtt.on_rtt_sample(now.since(probe.sent_at));
                self.rtt_probe = None;
            }
        }
        if self.next <= self.oldest_unacked {
            self.next = self.oldest_unacked;
            self.current = 0;
            self.rd_atomic_in_flight = 0;
        }
        self.timers.stop(Timer::Rnr);
        self.stop_timers();
        if self.oldest_unacked < self.highest_sent {
            self.start_timers(attributes.timeout, now);
        }
        true
    }

    /// Whether a NAK can cause a retransmission: packets have been sent since the last one, and the
    /// peer's RNR timer does not run.
    pub fn may_retransmit(&self) -> bool {
        !self.timers.is_set(Timer::Rnr) && self.next != self.oldest_unacked
    }

    /// The oldest packet in flight was lost: retransmit it, and what follows unless the peer keeps that.
    pub fn on_loss(&mut self) {
        self.congestion
            .on_loss(self.oldest_unacked, self.highest_sent);
        if !self.retransmit_alone() {
            self.rewind();
            self.selective.start_all();
        }
        self.timers.stop(Timer::Rto);
    }

    /// A CNP: packets were marked.
    pub fn on_congestion(&mut self) {
        self.congestion
            .on_mark(self.oldest_unacked, self.highest_sent);
    }

    /// Whether the requester waits after an RNR NAK.
    pub fn is_rnr_waiting(&self) -> bool {
        self.timers.is_set(Timer::Rnr)
    }

    /// RNR NAK for the oldest packet: it is retransmitted at `until`.
    pub fn on_rnr_nak(&mut self, until: Time) {
        self.rewind();
        self.stop_timers();
        self.timers.set(Timer::Rnr, until);
    }

    /// Stops the timers that have expired and returns the one that requires a retransmission. An
    /// expired ack timeout stops the RTO too.
    pub fn take_expired(&mut self, now: Time) -> Option<Expired> {
        if self.timers.is_expired(Timer::Rnr, now) {
            self.timers.stop(Timer::Rnr);
        }
        if let Some(at) = self.timers.get(Timer::AckTimeout).filter(|at| *at <= now) {
            self.stop_timers();
            let late = now.since(at);
            return Some(Expired::AckTimeout { late });
        }
        let expired = self.timers.is_expired(Timer::Rto, now);
        if expired {
            self.timers.stop(Timer::Rto);
        }
        expired.then(|| match self.send_alone_again(now) {
            true => Expired::Alone,
            false => Expired::Rto,
        })
    }

    /// No acknowledgment arrived in time: reduces the congestion window and doubles the RTO.
    pub fn on_rto(&mut self) {
        let is_known = self.rtt.has_sample();
        self.congestion.on_rto(self.oldest_unacked, is_known);
        self.rtt.on_rto();
    }

    /// Retransmits from the oldest unacknowledged packet.
    ///
    /// The first sample is taken nevertheless, if its packet is acknowledged before it is retransmitted. On a
    /// path longer than the first RTO there would be none otherwise: each RTO, being too short, would prevent
    /// the sample that makes the next one long enough.
    pub fn retransmit(&mut self, attributes: &Attributes, now: Time) {
        let first_sample = self.rtt_probe.filter(|_| !self.rtt.has_sample());
        self.rewind();
        self.rtt_probe = first_sample;
        self.start_timers(attributes.timeout, now);
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
