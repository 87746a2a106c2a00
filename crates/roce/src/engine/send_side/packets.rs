//! Requests in packets, and the packets that respond to them.

use super::{Attributes, Clock, Hca, SendError, SendSide, Time};
use crate::engine::Transmit;
use crate::engine::completer::CompleterAction;
use crate::engine::emit::Encoded;
use crate::engine::requester::{NextRequest, Pace, UnreliableStep};
use crate::wire::{Operation, Packet};

impl SendSide {
    /// Writes the next packet of a reliable connection into `buffer`.
    #[inline(always)]
    pub fn next_packet(
        &mut self,
        attributes: &Attributes,
        clock: impl Clock,
        hca: &mut impl Hca,
        buffer: &mut [u8],
    ) -> Result<Option<Encoded>, SendError> {
        if self.is_bound() || !self.requester.has_unsent() {
            return Ok(None);
        }
        let now = clock.time();
        loop {
            match self.requester.next_packet(attributes, now, hca, buffer) {
                NextRequest::Sent(encoded) => return Ok(Some(encoded)),
                NextRequest::Blocked => return Ok(None),
                NextRequest::Complete => self.complete(attributes, hca)?,
            }
        }
    }

    /// Writes the next packet of an unreliable connection into `buffer`. Then the caller completes what is
    /// finished.
    pub fn next_uc_packet(
        &mut self,
        attributes: &Attributes,
        now: Time,
        hca: &mut impl Hca,
        buffer: &mut [u8],
    ) -> Result<Option<Encoded>, SendError> {
        if self.is_bound() || !self.prepare_unreliable(attributes, Pace::Paced(now), hca)? {
            return Ok(None);
        }
        Ok(self.requester.send_uc(attributes, hca, buffer)?)
    }

    /// Writes the next datagram into `buffer`. Then the caller completes what is finished.
    pub fn next_datagram(
        &mut self,
        attributes: &Attributes,
        pace: Pace,
        hca: &mut impl Hca,
        buffer: &mut [u8],
    ) -> Result<Option<Transmit>, SendError> {
        while self.prepare_unreliable(attributes, pace, hca)? {
            let sent = self.requester.send_ud(attributes, pace, hca, buffer)?;
            if sent.is_some() {
                return Ok(sent);
            }
            self.complete(attributes, hca)?;
        }
        Ok(None)
    }

    /// Completes and executes WQEs of an unreliable service until one has a packet that may be sent now;
    /// false if there is none.
    fn prepare_unreliable(
        &mut self,
        attributes: &Attributes,
        pace: Pace,
        hca: &mut impl Hca,
    ) -> Result<bool, SendError> {
        loop {
            match self.requester.unreliable_step(pace, hca) {
                UnreliableStep::Blocked => return Ok(false),
                UnreliableStep::Send => return Ok(true),
                UnreliableStep::Complete => self.complete(attributes, hca)?,
                UnreliableStep::Fail(status) => return Err(status.into()),
            }
        }
    }

    /// An ACK, NAK, READ response or ATOMIC ACK from the peer.
    #[inline(always)]
    pub fn on_response(
        &mut self,
        operation: Operation,
        packet: &Packet,
        attributes: &Attributes,
        now: Time,
        hca: &mut impl Hca,
    ) -> Result<(), SendError> {
        if self.is_bound() {
            return self.on_late_ack(packet, attributes, hca);
        }
        self.take_response(operation, packet, attributes, now, hca)?;
        if self.completer.has_early() {
            self.take_early(attributes, now, hca)?;
        }
        self.completer.check_read_order(&self.requester, hca);
        Ok(())
    }

    /// Takes the responses that do not wait for an earlier one any more.
    #[cold]
    fn take_early(
        &mut self,
        attributes: &Attributes,
        now: Time,
        hca: &mut impl Hca,
    ) -> Result<(), SendError> {
        while let Some(early) = self.completer.take_early(&self.requester) {
            let packet = early.packet();
            if let Some((_, operation, _)) = packet.bth.opcode.parts() {
                self.take_response(operation, &packet, attributes, now, hca)?;
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn take_response(
        &mut self,
        operation: Operation,
        packet: &Packet,
        attributes: &Attributes,
        now: Time,
        hca: &mut impl Hca,
    ) -> Result<(), SendError> {
        let action =
            self.completer
                .on_packet(&mut self.requester, operation, packet, attributes, now);
        let Some(action) = action else {
            return Ok(());
        };
        // The acknowledged WQEs complete before a later one fails.
        self.complete(attributes, hca)?;
        let (completer, requester) = (&mut self.completer, &mut self.requester);
        match action {
            CompleterAction::None => {}
            CompleterAction::Retransmit => completer.retransmit(requester, now, hca),
            CompleterAction::Gap => completer.on_gap(requester, packet, now, hca),
            CompleterAction::RnrWait { timer } => {
                completer.on_rnr_nak(requester, timer, attributes, now)?;
            }
            CompleterAction::TakeResponse => {
                completer.on_response(requester, operation, packet, attributes, now, hca)?;
                self.complete(attributes, hca)?;
            }
            CompleterAction::Fail(status) => return Err(status.into()),
        }
        Ok(())
    }
}
