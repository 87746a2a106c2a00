//! The sender's position: which fragment of which request is written next, and what is in flight.
//!
//! It does not own the send queue, which is the requester's: each call gets it. Responses are in
//! `completer`.
//!
//! Invariant: the WQEs of the queue are, oldest first, `finished` ones that have been acknowledged,
//! those in flight, the one at `current`, of which `sent` bytes are in flight too, and those that
//! have not begun. Local operations take no PSN.

use ibverbs_abi::*;

use super::direct::DirectWait;
use super::fragment::HEAD_LEN;
use super::timers::AnswerTimers;
use crate::engine::attributes::Attributes;
use crate::engine::requester::{NextRequest, Step};
use crate::engine::send_queue::{Finished, OpClass, SendQueue, Wqe, WqeState, execute_local};
use crate::engine::{Clock, Hca, LocalError, SendOp, Service};
use crate::wire::{Operation, Psn};

/// The most requests in flight: a PSN must identify each.
const MAX_IN_FLIGHT: i32 = 1 << 22;

/// The requests of a queue pair that is bound to shared memory.
#[derive(Debug)]
pub struct Sender {
    pub(super) is_reliable: bool,
    pub(super) is_xrc: bool,
    /// The PSN of the oldest request that is not acknowledged.
    pub(super) acked: Psn,
    /// The PSN of the request at `current`.
    pub(super) next: Psn,
    /// The PSN behind the last request that has ever been written.
    pub(super) highest: Psn,
    /// The index of the WQE that is written next.
    pub(super) current: usize,
    /// Bytes of its message that have been written.
    pub(super) sent: u32,
    /// The WQEs at the front of the queue that had begun when they were last to be sent again.
    pub(super) begun: usize,
    /// WQEs that have been acknowledged and not removed.
    pub(super) finished: u32,
    /// READ, atomic, ATOMIC WRITE and FLUSH requests in flight.
    pub(super) rd_atomic_in_flight: u32,
    /// Bytes of the oldest READ that have come.
    pub(super) received: u32,
    pub(super) direct_wait: DirectWait,
    pub(super) timers: AnswerTimers,
}

impl Sender {
    /// A requester with nothing in flight, whose next request has PSN `next`.
    pub fn new(next: Psn, attributes: &Attributes) -> Sender {
        let service = attributes.config.service;
        Sender {
            is_reliable: service.is_reliable(),
            is_xrc: service == Service::XrcSend,
            acked: next,
            next,
            highest: next,
            current: 0,
            begun: 0,
            sent: 0,
            finished: 0,
            rd_atomic_in_flight: 0,
            received: 0,
            direct_wait: DirectWait::default(),
            timers: AnswerTimers::new(attributes),
        }
    }

    /// The PSN of the next request (`sq_psn` of `ibv_query_qp`).
    pub fn next_psn(&self) -> Psn {
        self.next
    }

    /// Whether a request, or a fragment of one, has not been answered.
    #[inline]
    pub fn is_in_flight(&self) -> bool {
        self.is_reliable && (self.acked != self.next || self.sent > 0)
    }

    /// Whether there is a WQE that is not written completely, or a local operation that is not executed. Not
    /// one that waits for an answer.
    #[inline]
    pub fn has_unsent(&self, queue: &SendQueue) -> bool {
        self.current < queue.len() && !self.waits_for_answer()
    }

    /// Writes the next fragment into `buffer`, and returns its length in bytes.
    #[inline(always)]
    pub fn next_fragment(
        &mut self,
        queue: &mut SendQueue,
        attributes: &Attributes,
        clock: impl Clock,
        hca: &mut impl Hca,
        buffer: &mut [u8],
    ) -> NextRequest<usize> {
        loop {
            match self.next_step(queue, attributes, clock, hca) {
                Step::Send => match self.write(queue, attributes, hca, buffer) {
                    Ok(Some(len)) => {
                        self.start_timer(attributes, clock);
                        return NextRequest::Sent(len);
                    }
                    Ok(None) => return NextRequest::Blocked,
                    Err(error) => {
                        queue.set_state(self.current, WqeState::Failed(error.status()));
                    }
                },
                Step::Skip => {
                    self.current += 1;
                    continue;
                }
                Step::Wait => return NextRequest::Blocked,
                Step::Execute => {
                    if let Some(wqe) = queue.get(self.current) {
                        let state = execute_local(&wqe.wr, hca);
                        queue.set_state(self.current, state);
                    }
                }
                Step::Fail(status) => queue.set_state(self.current, WqeState::Failed(status)),
            }
            return NextRequest::Complete;
        }
    }

    #[inline(always)]
    fn next_step(
        &mut self,
        queue: &SendQueue,
        attributes: &Attributes,
        clock: impl Clock,
        hca: &mut impl Hca,
    ) -> Step {
        if self.timers.must_wait(clock) {
            return Step::Wait;
        }
        let Some(wqe) = queue.get(self.current) else {
            return Step::Wait;
        };
        if self.sent == 0 && queue.drain().stops(wqe.first) {
            return Step::Wait;
        }
        match (wqe.state, wqe.wr.op) {
            // One fragment of a SEND or WRITE, with nothing to wait for.
            (WqeState::Pending, SendOp::Send | SendOp::Write { .. })
                if !wqe.wr.flags.fence && wqe.len as usize <= HEAD_LEN => {}
            _ => {
                let step = self.check_step(wqe, attributes, hca);
                if !matches!(step, Step::Send) {
                    return step;
                }
            }
        }
        match self.next.distance(self.acked) < MAX_IN_FLIGHT {
            true => Step::Send,
            false => Step::Wait,
        }
    }

    /// Whether the current WQE can be written, executed, or has to wait.
    #[inline(never)]
    fn check_step(&mut self, wqe: &Wqe, attributes: &Attributes, hca: &mut impl Hca) -> Step {
        match wqe.state {
            WqeState::Executed => return Step::Skip,
            // It fails once all earlier WQEs have completed.
            WqeState::Failed(_) if self.current > 0 => return Step::Wait,
            WqeState::Failed(status) => return Step::Fail(status),
            WqeState::Pending => {}
        }
        if self.sent > 0 {
            return Step::Send;
        }
        if wqe.wr.flags.fence && self.rd_atomic_in_flight > 0 {
            return Step::Wait;
        }
        match wqe.class() {
            // An earlier request that is sent again may still need the key.
            OpClass::Local if matches!(wqe.wr.op, SendOp::LocalInv { .. }) && self.current > 0 => {
                Step::Wait
            }
            OpClass::Local => Step::Execute,
            OpClass::Acked if !self.is_reliable && wqe.wr.is_only_reliable() => {
                Step::Fail(IBV_WC_LOC_QP_OP_ERR)
            }
            OpClass::Acked => match self.waits_for_direct(wqe, attributes, hca) {
                true => Step::Wait,
                false => Step::Send,
            },
            _ if !self.is_reliable => Step::Fail(IBV_WC_LOC_QP_OP_ERR),
            _ if self.waits_for_direct(wqe, attributes, hca) => Step::Wait,
            _ => match u32::from(attributes.max_rd_atomic) {
                0 => Step::Fail(IBV_WC_LOC_QP_OP_ERR),
                limit if self.rd_atomic_in_flight >= limit => Step::Wait,
                _ => Step::Send,
            },
        }
    }

    /// Writes the next fragment of the current WQE. None if the buffer is too small.
    #[inline(always)]
    fn write(
        &mut self,
        queue: &SendQueue,
        attributes: &Attributes,
        hca: &mut impl Hca,
        buffer: &mut [u8],
    ) -> Result<Option<usize>, LocalError> {
        let Some(wqe) = queue.get(self.current) else {
            return Ok(None);
        };
        let written = match wqe.wr.op {
            SendOp::Send => self.write_fragment(Operation::Send, wqe, attributes, hca, buffer),
            _ => self.write_any(wqe, attributes, hca, buffer),
        };
        let Some(written) = written? else {
            return Ok(None);
        };
        self.timers.on_room();
        if wqe.class() != OpClass::Acked {
            self.rd_atomic_in_flight += 1;
        }
        if written.ends {
            self.on_request_written();
        } else {
            self.sent += written.payload_len;
        }
        Ok(Some(written.len))
    }

    /// The last fragment of the current WQE has been written.
    #[inline(always)]
    fn on_request_written(&mut self) {
        self.sent = 0;
        self.current += 1;
        self.next = self.next.next();
        if self.next.distance(self.highest) > 0 {
            self.highest = self.next;
        }
        if !self.is_reliable {
            self.acked = self.next;
            self.finished += 1;
        }
    }

    /// [`SendQueue::next_finished`].
    #[inline]
    pub fn next_finished(&mut self, queue: &mut SendQueue) -> Option<Finished> {
        let finished = &mut self.finished;
        let is_acked = |_: &Wqe| match finished.checked_sub(1) {
            Some(left) => {
                *finished = left;
                true
            }
            None => false,
        };
        let found = queue.next_finished(is_acked)?;
        if matches!(found, Finished::Success { .. }) {
            self.current = self.current.saturating_sub(1);
            self.begun = self.begun.saturating_sub(1);
        }
        Some(found)
    }

    /// The queue pair flushes the send queue: nothing is in flight any more.
    pub fn flush(&mut self) {
        (self.acked, self.next) = (self.highest, self.highest);
        (self.current, self.sent, self.finished, self.begun) = (0, 0, 0, 0);
        (self.rd_atomic_in_flight, self.received) = (0, 0);
        self.timers.stop();
        self.direct_wait = DirectWait::default();
    }

    /// The WQEs that have begun, and are still in the queue.
    pub(super) fn begun_wqes(&self) -> usize {
        let written = self.current + usize::from(self.sent > 0);
        written.max(self.begun)
    }

    /// Enters SQD: only WQEs that have begun are finished.
    pub fn drain(&self, queue: &mut SendQueue) {
        let last = self.begun_wqes().checked_sub(1);
        let end = match last.and_then(|last| queue.get(last)) {
            Some(wqe) => wqe.end,
            None => queue.front().map_or(queue.end(), |wqe| wqe.first),
        };
        queue.drain_mut().start(end);
    }
}
