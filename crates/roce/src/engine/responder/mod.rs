//! The responder: validates inbound requests (9.7.4, 9.8.2, 9.8.3), has them executed, and sends the
//! responses (9.7.5).
//!
//! | part | responsible for |
//! |---|---|
//! | `Sequence` | ePSN, and what ACKs may cover |
//! | `Inbound` | the receive queue, and the message in progress |
//! | `EarlyPackets` | requests that wait for an earlier one |
//! | [`Responses`] | responses that wait; duplicates; sending them |
//!
//! The responder does not change the queue pair's state: it returns a [`ResponderAction`]. Invariant: a
//! request packet is executed only if its PSN is the ePSN, so each is executed once and in order.

mod datagram;
mod early;
mod execute;
mod inbound;
mod nak;
mod resources;
mod responses;
mod sequence;
mod unreliable;

use super::attributes::Attributes;
use super::counters::Counters;
use super::early_packets::EarlyPackets;
use super::recv_queue::RecvQueue;
use super::request::Request;
use super::{Access, Completion, Hca, QpConfig, QpEvent, RecvWr, WorkQueue};
use crate::wire::{AethKind, NakCode, Operation, Part, Psn};

use inbound::Inbound;
use nak::NakCause;
use sequence::Sequence;

pub use nak::{ErrorReport, ResponderAction, failed};
pub use responses::{NextResponse, Responses};

/// The responder of a queue pair.
#[derive(Debug)]
pub struct Responder {
    /// The requests come through shared memory, and the responses take it, too.
    is_shared: bool,
    /// The communication-established event has been raised.
    established: bool,
    sequence: Sequence,
    inbound: Inbound,
    early: EarlyPackets,
    responses: Responses,
    counters: Counters,
}

impl Responder {
    /// A responder without a connection.
    pub fn new(config: &QpConfig) -> Responder {
        Responder {
            is_shared: false,
            established: false,
            sequence: Sequence::starting_at(Psn::new(0)),
            inbound: Inbound::new(config.has_srq),
            early: EarlyPackets::default(),
            responses: Responses::new(config),
            counters: Counters::default(),
        }
    }

    /// Starts a connection: the peer's first request packet has PSN `psn`.
    pub fn start(&mut self, psn: Psn) {
        self.sequence = Sequence::starting_at(psn);
        self.early.clear();
    }

    /// The counts of this part since it was created, or since the last [`Self::take_counters`].
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// [`Self::counters`], which begin at 0 again.
    pub fn take_counters(&mut self) -> Counters {
        std::mem::take(&mut self.counters)
    }

    /// Whether requests wait for an earlier one.
    #[inline]
    pub fn has_early(&self) -> bool {
        !self.early.is_empty()
    }

    /// The PSN of the next request packet (ePSN).
    pub fn epsn(&self) -> Psn {
        self.sequence.epsn()
    }

    /// The receive queue.
    pub fn recv_queue(&self) -> &RecvQueue {
        self.inbound.recv_queue()
    }

    /// The receive queue, to post to it or to take from it.
    pub fn recv_queue_mut(&mut self) -> &mut RecvQueue {
        self.inbound.recv_queue_mut()
    }

    /// Whether the requests come through shared memory.
    #[inline]
    pub fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// The peer has bound its requester to shared memory. It had nothing in flight, so that responses that
    /// wait are duplicates.
    #[cold]
    pub fn bind(&mut self) {
        self.is_shared = true;
        self.responses.queue_mut().clear();
    }

    /// The responses.
    #[inline]
    pub fn responses(&self) -> &Responses {
        &self.responses
    }

    /// The responses, to send one.
    #[inline]
    pub fn responses_mut(&mut self) -> &mut Responses {
        &mut self.responses
    }

    /// A packet has arrived in RTR (11.6.3.1). Returns true for the first one.
    pub fn take_established(&mut self) -> bool {
        !std::mem::replace(&mut self.established, true)
    }

    /// Whether a packet has arrived in RTR.
    #[inline]
    pub fn is_established(&self) -> bool {
        self.established
    }

    /// A request packet of a reliable connection.
    #[inline(always)]
    pub fn on_request(
        &mut self,
        operation: Operation,
        part: Part,
        request: &impl Request,
        attributes: &Attributes,
        hca: &mut impl Hca,
    ) -> ResponderAction {
        let psn = request.psn();
        let ahead = psn.distance(self.sequence.epsn());
        if ahead > 0 {
            self.on_early(request, ahead);
            return ResponderAction::None;
        }
        if ahead < 0 {
            self.counters.duplicate_request += 1;
            let ack_psn = self.sequence.ack_psn();
            self.responses
                .on_duplicate(operation, request, ack_psn, attributes, hca);
            return ResponderAction::None;
        }
        if !request.continues_at(self.inbound.progress()) {
            if !request.continues_at(0) {
                // Parts of the message are missing: it is sent again from its start.
                if !self.sequence.has_nak() {
                    self.on_gap(psn);
                }
                return ResponderAction::None;
            }
            self.inbound.drop_message();
        }
        let (action, is_executed) = self.on_expected(operation, part, request, attributes, hca);
        if self.early.is_empty() {
            return action;
        }
        self.execute_early(action, is_executed, attributes, hca)
    }

    /// The request packet with the ePSN. Returns whether it was executed, too.
    #[inline(always)]
    fn on_expected(
        &mut self,
        operation: Operation,
        part: Part,
        request: &impl Request,
        attributes: &Attributes,
        hca: &mut impl Hca,
    ) -> (ResponderAction, bool) {
        self.sequence.on_expected();
        self.responses.queue_mut().withdraw_nak();
        let executed = match self.may_execute(operation, request, hca) {
            true => self.execute(operation, part, request, attributes, hca),
            false => Err(NakCause::ReadsWait),
        };
        if let Err(NakCause::InvalidRequest | NakCause::RemoteAccess) = executed {
            report_refused(operation, hca);
        }
        (self.on_executed(executed, attributes), executed.is_ok())
    }

    /// [`Responder::on_request`] for any operation.
    #[inline(never)]
    pub fn on_any_request(
        &mut self,
        operation: Operation,
        part: Part,
        request: &impl Request,
        attributes: &Attributes,
        hca: &mut impl Hca,
    ) -> ResponderAction {
        self.on_request(operation, part, request, attributes, hca)
    }

    /// Whether a request may be executed before the READs that wait are answered. READs have the bytes
    /// from before it, as RNICs answer a READ before they execute the next request. The specification
    /// promises that to requests with a fence only (10.8.3.3), but programs rely on it.
    #[inline(always)]
    fn may_execute(
        &mut self,
        operation: Operation,
        request: &impl Request,
        hca: &mut impl Hca,
    ) -> bool {
        match operation {
            Operation::ReadRequest | Operation::Flush => true,
            Operation::Write if request.payload().is_empty() => true,
            _ => self.responses.queue_mut().try_copy_reads(hca),
        }
    }

    /// A request packet was lost: sends a NAK if one is due.
    fn on_gap(&mut self, psn: Psn) {
        if self.sequence.needs_nak(psn) {
            self.responses.queue_mut().withdraw_nak();
            let kind = AethKind::Nak(NakCode::PsnSequence);
            self.responses.push_nak(self.sequence.epsn(), kind);
        }
    }

    /// Flushes the receive queue: [`Inbound::flush`]. Responses that are due are still sent.
    pub fn flush(&mut self, hca: &mut impl Hca) {
        self.early.clear();
        self.inbound.flush(hca);
    }
}

/// A request was refused.
#[cold]
fn report_refused(operation: Operation, hca: &mut impl Hca) {
    match operation {
        Operation::ReadRequest => hca.on_peer_request(Access::Read, None),
        Operation::Write | Operation::WriteImm => hca.on_peer_request(Access::Write, None),
        _ => {}
    }
}
