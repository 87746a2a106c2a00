//! The completer of a reliable connection: reads responses (9.7.4.2, 9.9.2), counts retries and decides
//! about retransmissions, RNR waits and errors. While several threads receive ([`Hca::may_reorder`]), a
//! response that is ahead of an earlier one waits for that.
//!
//! It changes the requester through the requester's entry points. The queue pair completes WQEs and
//! fails the send queue.

use std::time::Duration;

use ibverbs_abi::*;

use super::attributes::Attributes;
use super::counters::Counters;
use super::early_packets::{EarlyPackets, MAX_BYTES};
use super::encoding;
use super::read_order::ReadOrder;
use super::requester::{Acked, Expired, Requester};
use super::retries::Retries;
use super::{Hca, PacketCopy, PeerActivity, Time};
use crate::wire::{AethKind, NakCode, Operation, Packet};

/// A sequence-error NAK for a packet is ignored within this time of the packet's retransmission, or
/// within twice the SRTT if that is longer: it was caused by the first transmission.
const MIN_NAK_INTERVAL: Duration = Duration::from_micros(500);

/// The completer of a reliable connection.
#[derive(Debug, Default)]
pub struct Completer {
    retries: Retries,
    last_nak: Option<NakRetransmission>,
    read_order: ReadOrder,
    /// Responses that arrived before an earlier one.
    early: EarlyPackets,
    counters: Counters,
}

/// The last retransmission that a sequence-error NAK caused.
#[derive(Clone, Copy, Debug)]
struct NakRetransmission {
    packet: u64,
    at: Time,
}

/// The reaction that a response requires after the WQEs that it acknowledges have completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompleterAction {
    None,
    /// Packets or requests were lost: retransmit from the oldest one that is not acknowledged.
    Retransmit,
    /// A response before this one is missing.
    Gap,
    /// Wait for the peer's RNR timer, whose code this is.
    RnrWait {
        timer: u8,
    },
    /// Take the data of the response: [`Completer::on_response`], or in shared memory `Sender::on_data`.
    TakeResponse,
    /// The oldest WQE fails.
    Fail(ibv_wc_status),
}

impl Completer {
    /// Starts a connection.
    pub fn start(&mut self, attributes: &Attributes) {
        *self = Completer {
            retries: Retries::new(attributes),
            counters: self.counters,
            ..Completer::default()
        };
    }

    /// The counts of this part since they were taken last.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The counts of this part, to take them or to add to them.
    pub fn counters_mut(&mut self) -> &mut Counters {
        &mut self.counters
    }

    /// A packet from the peer's responder. Acknowledges what it covers and returns what else it
    /// requires; None if the packet is a duplicate, or responds to a packet that was never sent.
    #[inline(always)]
    pub fn on_packet(
        &mut self,
        requester: &mut Requester,
        operation: Operation,
        packet: &Packet,
        attributes: &Attributes,
        now: Time,
    ) -> Option<CompleterAction> {
        let number = requester.window().sent_packet(packet.bth.psn)?;
        let aeth = packet.aeth();
        if let Some(aeth) = &aeth {
            requester.on_credits(aeth);
        }
        if number < requester.window().oldest_unacked() {
            return None;
        }
        let kind = aeth.map(|aeth| aeth.kind);
        let acked_end = match (operation, kind) {
            (Operation::Ack, Some(AethKind::Ack { .. })) => number + 1,
            _ => number,
        };
        let acked = requester.on_ack(acked_end, attributes, now);
        self.on_progress(acked, attributes);
        if !acked.complete {
            return Some(CompleterAction::Gap);
        }
        Some(match (operation, kind) {
            (Operation::Ack, Some(AethKind::RnrNak { timer })) => {
                CompleterAction::RnrWait { timer }
            }
            (Operation::Ack, Some(AethKind::Nak(code))) => {
                self.counters.rcvd_seq_err += u64::from(code == NakCode::PsnSequence);
                on_nak(code)
            }
            (Operation::Ack, _) if requester.take_missing() => CompleterAction::Retransmit,
            (Operation::Ack, _) => CompleterAction::None,
            (_, None | Some(AethKind::Ack { .. })) => CompleterAction::TakeResponse,
            (_, Some(_)) => CompleterAction::Fail(IBV_WC_BAD_RESP_ERR),
        })
    }

    /// Takes the data of a READ response or ATOMIC ACK for the oldest packet. An error is the status
    /// that the oldest WQE fails with; the same holds for the functions below.
    pub fn on_response(
        &mut self,
        requester: &mut Requester,
        operation: Operation,
        packet: &Packet,
        attributes: &Attributes,
        now: Time,
        hca: &mut impl Hca,
    ) -> Result<(), ibv_wc_status> {
        let acked = requester.on_response(operation, packet, attributes, now, hca)?;
        self.on_progress(acked, attributes);
        Ok(())
    }

    /// Any progress restores all retries.
    fn on_progress(&mut self, acked: Acked, attributes: &Attributes) {
        if acked.progress {
            self.retries.restore(attributes);
        }
    }

    /// A response before `packet` is missing. It was lost (9.7.5.1.2), and requests are retransmitted; or
    /// another thread has not delivered it yet, and `packet` waits for it.
    #[cold]
    pub fn on_gap(
        &mut self,
        requester: &mut Requester,
        packet: &Packet,
        now: Time,
        hca: &mut impl Hca,
    ) {
        // Of two responses to a READ the first one counts.
        let is_kept =
            |early: &mut EarlyPackets| early.has(packet.bth.psn) || early.keep(packet, MAX_BYTES);
        if !hca.may_reorder() || !is_kept(&mut self.early) {
            self.retransmit(requester, now, hca);
        }
    }

    /// Whether responses wait for an earlier one.
    #[inline]
    pub fn has_early(&self) -> bool {
        !self.early.is_empty()
    }

    /// Removes the first response that does not wait any more.
    #[cold]
    pub fn take_early(&mut self, requester: &Requester) -> Option<PacketCopy> {
        let number = requester.window().sent_packet(self.early.first_psn()?);
        let waits = number.is_some_and(|number| requester.window().awaits_response_before(number));
        if waits {
            return None;
        }
        self.early.pop_first()
    }

    /// The peer did not get the oldest packet. Retransmits from there, unless a retransmission within
    /// [`MIN_NAK_INTERVAL`] makes this NAK one for the first transmission.
    pub fn retransmit(&mut self, requester: &mut Requester, now: Time, hca: &mut impl Hca) {
        if !requester.may_retransmit() {
            return;
        }
        let packet = requester.window().oldest_unacked();
        let interval = MIN_NAK_INTERVAL.max(requester.rtt().srtt() * 2);
        if let Some(last) = self.last_nak {
            if last.packet == packet && now.since(last.at) < interval {
                return;
            }
        }
        if !self.read_order.may_retransmit(requester.window(), now, hca) {
            return;
        }
        self.last_nak = Some(NakRetransmission { packet, at: now });
        self.counters.completer_retry_err += 1;
        requester.on_loss();
    }

    /// The peer has no receive WQE for the message of the oldest packet (9.7.5.2.8).
    pub fn on_rnr_nak(
        &mut self,
        requester: &mut Requester,
        timer: u8,
        attributes: &Attributes,
        now: Time,
    ) -> Result<(), ibv_wc_status> {
        self.counters.rcvd_rnr_err += 1;
        if requester.is_rnr_waiting() {
            return Ok(());
        }
        self.retries.consume_rnr(attributes)?;
        requester.on_rnr_nak(now.after(encoding::rnr_timer(timer)));
        Ok(())
    }

    /// A timer of the requester may have expired.
    pub fn on_timeout(
        &mut self,
        requester: &mut Requester,
        attributes: &Attributes,
        now: Time,
        hca: &mut impl Hca,
    ) -> Result<(), ibv_wc_status> {
        let Some(expired) = requester.take_expired(now) else {
            return Ok(());
        };
        if expired != Expired::Alone
            && !self.read_order.may_retransmit(requester.window(), now, hca)
        {
            requester.delay_retransmission(attributes, now);
            return Ok(());
        }
        let counts_as_loss = match expired {
            Expired::AckTimeout { late } => {
                let peer = PeerActivity::Unknown;
                self.retries.consume(late, attributes, peer, now)?
            }
            Expired::Alone => {
                self.counters.completer_retry_err += 1;
                return Ok(());
            }
            Expired::Rto => true,
        };
        if counts_as_loss {
            requester.on_rto();
        }
        self.counters.completer_retry_err += 1;
        requester.retransmit(attributes, now);
        Ok(())
    }

    /// See [`ReadOrder::on_ack`].
    #[inline]
    pub fn check_read_order(&mut self, requester: &Requester, hca: &mut impl Hca) {
        let oldest_unacked = requester.window().oldest_unacked();
        self.read_order.on_ack(oldest_unacked, hca);
    }

    /// The send queue is flushed.
    pub fn flush(&mut self, hca: &mut impl Hca) {
        self.early.clear();
        self.read_order.end(hca);
    }

    #[cfg(test)]
    pub fn retries_left(&self) -> u8 {
        self.retries.left()
    }

    #[cfg(test)]
    pub fn late_timeouts(&self) -> u8 {
        self.retries.late_timeouts()
    }
}

/// Decides what a NAK other than an RNR NAK requires (9.7.5.2).
fn on_nak(code: NakCode) -> CompleterAction {
    nak_status(code).map_or(CompleterAction::Retransmit, CompleterAction::Fail)
}

/// The status of the request that a NAK is for; None if it is to be sent again.
pub fn nak_status(code: NakCode) -> Option<ibv_wc_status> {
    match code {
        NakCode::PsnSequence => None,
        NakCode::InvalidRequest => Some(IBV_WC_REM_INV_REQ_ERR),
        NakCode::RemoteAccess => Some(IBV_WC_REM_ACCESS_ERR),
        NakCode::RemoteOperational => Some(IBV_WC_REM_OP_ERR),
        NakCode::InvalidRdRequest => Some(IBV_WC_REM_INV_RD_REQ_ERR),
    }
}
