//! The responder of a connected queue pair: validates inbound request packets (9.7.4, 9.8.2), has them
//! executed, and sends the responses (9.7.5).
//!
//! The responder owns the receive queue, the message in progress, the responder resources that duplicates
//! are answered from, the requests that wait for an earlier one, and the queue of responses. It does not
//! change the queue pair's state: it returns a [`ResponderAction`]. Invariant: a request packet is executed
//! only if its PSN is the ePSN, so each is executed once and in order.

mod duplicate;
mod early;
mod execute;
mod fragments;
mod nak;
mod transmit;

use std::collections::VecDeque;

use ibverbs_abi::*;

use super::attributes::Attributes;
use super::counters::Counters;
use super::pacer::Pacer;
use super::recv_queue::RecvQueue;
use super::request::Request;
use super::response_queue::{Response, ResponseQueue};
use super::{Access, Completion, Hca, QpConfig, QpEvent, RecvWr, Time, WorkQueue};
use crate::wire::{AethKind, NakCode, Operation, Part, Psn, Reth};

use duplicate::Resource;
use early::EarlyRequests;
pub use execute::{capacity, place, recv_completion};
pub use fragments::NextAnswer;
pub use nak::{ErrorReport, NakCause, ResponderAction, failed};
pub use transmit::NextResponse;

/// The longest message, in bytes (9.7.1.1).
const MAX_MESSAGE_LEN: u32 = 1 << 31;

/// A receive WR that a message has taken.
#[derive(Debug)]
struct TakenRecv {
    wr: RecvWr,
    /// The work queue that its completion belongs to.
    queue: WorkQueue,
}

/// A message of which more packets follow.
#[derive(Debug)]
enum InboundMessage {
    Send {
        recv: TakenRecv,
        /// Bytes received.
        len: u32,
    },
    Write {
        reth: Reth,
        /// Bytes received.
        len: u32,
    },
}

/// The responder of a queue pair.
#[derive(Debug)]
pub struct Responder {
    /// The requests come through shared memory, and the responses take it, too.
    is_shared: bool,
    /// The PSN of the next request packet (ePSN).
    epsn: Psn,
    /// Messages completed (MSN, 24 bits).
    msn: u32,
    /// Last executed PSN that an ACK may cover; initially ePSN - 1. A READ, atomic, ATOMIC WRITE or
    /// FLUSH is acknowledged by its own response instead.
    ack_psn: Psn,
    /// A NAK has been sent for the ePSN; the PSN of the packet that caused it.
    nak_sent: Option<Psn>,
    /// The communication-established event has been raised.
    established: bool,
    message: Option<InboundMessage>,
    early: EarlyRequests,
    recv_queue: RecvQueue,
    /// The last READ and atomic requests, for their duplicates; oldest first.
    resources: VecDeque<Resource>,
    responses: ResponseQueue,
    /// Paces READ responses.
    pacer: Pacer,
    counters: Counters,
}

impl Responder {
    /// A responder without a connection.
    pub fn new(config: &QpConfig) -> Responder {
        Responder {
            is_shared: false,
            epsn: Psn::new(0),
            msn: 0,
            ack_psn: Psn::new(0),
            nak_sent: None,
            established: false,
            message: None,
            early: EarlyRequests::default(),
            recv_queue: RecvQueue::new(config.has_srq),
            resources: VecDeque::new(),
            responses: ResponseQueue::default(),
            pacer: Pacer::new(config.service),
            counters: Counters::default(),
        }
    }

    /// Starts a connection: the peer's first request packet has PSN `psn`.
    pub fn start(&mut self, psn: Psn) {
        self.epsn = psn;
        self.ack_psn = psn - 1;
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

    /// The PSN of the next request packet (ePSN).
    pub fn epsn(&self) -> Psn {
        self.epsn
    }

    /// The receive queue.
    pub fn recv_queue(&self) -> &RecvQueue {
        &self.recv_queue
    }

    /// The receive queue, to post to it or to take from it.
    pub fn recv_queue_mut(&mut self) -> &mut RecvQueue {
        &mut self.recv_queue
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
        self.responses.clear();
    }

    /// Whether a response waits to be sent.
    pub fn has_response(&self) -> bool {
        self.responses.front().is_some()
    }

    /// READ and atomic requests that occupy a responder resource.
    #[cfg(test)]
    pub fn pending_rd_atomic(&self) -> usize {
        self.responses.pending_rd_atomic()
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
        let ahead = psn.distance(self.epsn);
        if ahead > 0 {
            self.on_early(request, ahead);
            return ResponderAction::None;
        }
        if ahead < 0 {
            self.counters.duplicate_request += 1;
            self.on_duplicate(operation, request, attributes, hca);
            return ResponderAction::None;
        }
        if !request.continues_at(self.progress()) {
            if !request.continues_at(0) {
                // Parts of the message are missing: it is sent again from its start.
                if self.nak_sent.is_none() {
                    self.on_gap(psn);
                }
                return ResponderAction::None;
            }
            self.drop_message();
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
        self.nak_sent = None;
        self.responses.withdraw_nak();
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
            _ => self.responses.try_copy_reads(hca),
        }
    }

    /// A request packet of an unreliable connection (9.8.2). A message that lost a packet is dropped;
    /// the receive WR that it took goes to the next message.
    pub fn on_uc_request(
        &mut self,
        operation: Operation,
        part: Part,
        request: &impl Request,
        attributes: &Attributes,
        hca: &mut impl Hca,
    ) -> ResponderAction {
        let psn = request.psn();
        let starts = matches!(part, Part::First | Part::Only);
        if starts || psn != self.epsn || !request.continues_at(self.progress()) {
            self.drop_message();
        }
        self.epsn = request.next_psn();
        if !starts && self.message.is_none() {
            return ResponderAction::None;
        }
        let executed = match operation {
            Operation::Send | Operation::SendImm => {
                self.execute_send(part, request, attributes, hca)
            }
            Operation::Write | Operation::WriteImm => {
                self.execute_write(part, request, attributes, hca)
            }
            _ => Err(NakCause::InvalidRequest),
        };
        match executed {
            Err(NakCause::RecvMemory(_) | NakCause::CqOverrun) | Ok(()) => {
                self.on_executed(executed, attributes)
            }
            // 9.9.3, class D.
            Err(_) => {
                self.drop_message();
                ResponderAction::None
            }
        }
    }

    /// A request packet was lost: sends one PSN sequence error NAK (9.7.5.2.3), and another one if the
    /// peer has retransmitted and the same packet is missing still.
    fn on_gap(&mut self, psn: Psn) {
        if self.nak_sent.is_none_or(|cause| psn.distance(cause) <= 0) {
            self.nak_sent = Some(psn);
            self.responses.withdraw_nak();
            self.responses.push(Response::Nak {
                psn: self.epsn,
                kind: AethKind::Nak(NakCode::PsnSequence),
            });
        }
    }

    /// The bytes of the message in progress.
    #[inline(always)]
    fn progress(&self) -> u32 {
        match &self.message {
            None => 0,
            Some(InboundMessage::Send { len, .. } | InboundMessage::Write { len, .. }) => *len,
        }
    }

    /// Drops the message in progress.
    fn drop_message(&mut self) {
        if let Some(InboundMessage::Send { recv, .. }) = self.message.take() {
            self.recv_queue.put_back(recv.wr);
        }
    }

    /// Ends the message in progress; returns the receive WR that it took.
    fn take_message_recv(&mut self) -> Option<TakenRecv> {
        match self.message.take()? {
            InboundMessage::Send { recv, .. } => Some(recv),
            InboundMessage::Write { .. } => None,
        }
    }

    /// Flushes the receive queue: reports the receive WR of the message in progress, then the queue's,
    /// to `complete`. Responses that are due are still sent.
    pub fn flush(&mut self, mut complete: impl FnMut(WorkQueue, Completion)) {
        self.early.clear();
        if let Some(recv) = self.take_message_recv() {
            complete(recv.queue, failed(&recv.wr, IBV_WC_WR_FLUSH_ERR));
        }
        for wr in self.recv_queue.flush() {
            complete(WorkQueue::Recv, failed(&wr, IBV_WC_WR_FLUSH_ERR));
        }
    }

    /// The program moved the queue pair to ERR: its memory must not be read any more.
    pub fn withhold_reads(&mut self) {
        self.responses.withhold_reads();
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
