//! Responses to a queue pair that is bound to shared memory.
//!
//! Not here: writing requests (`sender`, `write`). For packets the same is in `engine::completer`.
//!
//! Specification: 9.7.5.2, 9.7.6.1.3.

use ibverbs_abi::*;

use super::{Fragment, Sender};
use crate::engine::attributes::Attributes;
use crate::engine::completer::{CompleterAction, nak_status};
use crate::engine::send_queue::{OpClass, SendQueue, WqeState};
use crate::engine::{Clock, Hca, PeerActivity, Time};
use crate::wire::{AethKind, Operation, Psn};

impl Sender {
    /// A response to the request with that PSN. Acknowledges what it covers and returns what else it
    /// requires; None if it is old, or answers what was never sent.
    #[inline(always)]
    pub fn on_response(
        &mut self,
        queue: &SendQueue,
        psn: Psn,
        (operation, kind): (Operation, Option<AethKind>),
        attributes: &Attributes,
    ) -> Option<CompleterAction> {
        let end = match kind {
            Some(AethKind::Ack { .. }) => psn.next(),
            _ => psn,
        };
        // One that was never sent, or that is acknowledged already.
        let is_sent = psn.distance(self.highest) < 0
            || psn == self.next && self.sent > 0 && !matches!(kind, Some(AethKind::Ack { .. }));
        if !is_sent || psn.distance(self.acked) < 0 {
            return None;
        }
        if !self.acknowledge(end, queue, attributes) {
            // The response of a READ or an atomic is missing.
            return Some(CompleterAction::Gap);
        }
        Some(match (operation, kind) {
            (_, Some(AethKind::Ack { .. })) => CompleterAction::None,
            (_, Some(AethKind::RnrNak { timer })) => CompleterAction::RnrWait { timer },
            (_, Some(AethKind::Nak(code))) => match nak_status(code) {
                Some(status) => CompleterAction::Fail(status),
                None if self.timers.is_rnr_waiting() => CompleterAction::None,
                None => CompleterAction::Retransmit,
            },
            (Operation::Ack, None) => CompleterAction::Fail(IBV_WC_BAD_RESP_ERR),
            (_, None) => CompleterAction::TakeResponse,
        })
    }

    /// The peer has executed every request before `end`. False if one of them is a READ or atomic whose
    /// response has not come: then only those before it are acknowledged.
    #[inline(always)]
    fn acknowledge(&mut self, end: Psn, queue: &SendQueue, attributes: &Attributes) -> bool {
        let count = end.distance(self.acked);
        if count <= 0 {
            return true;
        }
        // Requests that are to be sent again are not counted.
        if self.rd_atomic_in_flight > 0 || end.distance(self.next) > 0 {
            return self.acknowledge_each(end, queue, attributes);
        }
        self.advance(count as u32, attributes);
        true
    }

    #[cold]
    fn acknowledge_each(&mut self, end: Psn, queue: &SendQueue, attributes: &Attributes) -> bool {
        let count = end.distance(self.acked) as usize;
        let first = self.finished as usize;
        let requests = queue.iter().filter(|wqe| wqe.state == WqeState::Pending);
        let mut acked = 0;
        for wqe in requests.skip(first).take(count) {
            match wqe.class() {
                OpClass::Read | OpClass::Atomic => break,
                OpClass::EmptyResponse => {
                    self.rd_atomic_in_flight = self.rd_atomic_in_flight.saturating_sub(1);
                }
                OpClass::Acked | OpClass::Local => {}
            }
            acked += 1;
        }
        if acked > 0 {
            self.advance(acked as u32, attributes);
        }
        acked == count
    }

    /// This number of requests is finished.
    #[inline(always)]
    fn advance(&mut self, count: u32, attributes: &Attributes) {
        self.acked = self.acked + count;
        self.finished += count;
        self.received = 0;
        if self.next.distance(self.acked) < 0 {
            // The requests were about to be sent again. The WQEs before `current` are removed next.
            self.next = self.acked;
            (self.current, self.sent) = (0, 0);
            self.rd_atomic_in_flight = 0;
        }
        self.timers.on_progress(attributes);
    }

    /// Takes the data of a READ, the value of an atomic, or the answer to an ATOMIC WRITE or FLUSH: the
    /// oldest request. All WQEs before it have completed. An error is the status that the WQE fails with.
    pub fn on_data(
        &mut self,
        queue: &SendQueue,
        fragment: &Fragment<'_>,
        attributes: &Attributes,
        hca: &mut impl Hca,
    ) -> Result<(), ibv_wc_status> {
        let mut requests = queue.iter().filter(|wqe| wqe.state == WqeState::Pending);
        let Some(wqe) = requests.next().filter(|_| fragment.psn() == self.acked) else {
            return Ok(());
        };
        let (offset, payload) = (fragment.offset(), fragment.payload);
        match (wqe.class(), fragment.operation()) {
            (OpClass::Read, Operation::ReadResponse) => {
                // After a request that was sent again, bytes come a second time.
                if offset > self.received {
                    return Ok(());
                }
                let end = u64::from(offset) + payload.len() as u64;
                let is_complete = end == u64::from(wqe.len);
                if end > u64::from(wqe.len) || fragment.ends() != is_complete {
                    return Err(IBV_WC_BAD_RESP_ERR);
                }
                if !payload.is_empty() {
                    hca.scatter(wqe.wr.sges(), offset.into(), payload)
                        .map_err(|error| error.status())?;
                }
                self.received = end as u32;
                self.timers.on_progress(attributes);
                if !is_complete {
                    return Ok(());
                }
            }
            (OpClass::Atomic, Operation::AtomicAck) => {
                let value = fragment.original_value().to_ne_bytes();
                hca.scatter(wqe.wr.sges(), 0, &value)
                    .map_err(|error| error.status())?;
            }
            (OpClass::EmptyResponse, Operation::ReadResponse) if payload.is_empty() => {}
            _ => return Err(IBV_WC_BAD_RESP_ERR),
        }
        self.rd_atomic_in_flight = self.rd_atomic_in_flight.saturating_sub(1);
        self.advance(1, attributes);
        Ok(())
    }

    /// The peer has no receive for the oldest request (9.7.5.2.8).
    pub fn on_rnr_nak(
        &mut self,
        timer: u8,
        attributes: &Attributes,
        now: Time,
    ) -> Result<(), ibv_wc_status> {
        if self.timers.on_rnr_nak(timer, attributes, now)? {
            self.send_again();
        }
        Ok(())
    }

    /// Sends again from the oldest request. The WQEs that are finished have been removed.
    pub fn send_again(&mut self) {
        self.begun = self.begun_wqes();
        self.next = self.acked;
        self.current = 0;
        self.sent = 0;
        self.rd_atomic_in_flight = 0;
        self.send_waiting();
    }

    /// Whether the sender waits after an RNR NAK.
    #[inline]
    pub fn is_rnr_waiting(&self) -> bool {
        self.timers.is_rnr_waiting()
    }

    /// When [`Sender::on_timeout`] is to be called.
    #[inline]
    pub fn next_timeout(&self) -> Option<Time> {
        self.timers.next()
    }

    /// Starts the timer, as something is in flight.
    #[inline(always)]
    pub(super) fn start_timer(&mut self, attributes: &Attributes, clock: impl Clock) {
        if self.is_reliable {
            self.timers.start(attributes, clock);
        }
    }

    /// Notes that the next fragment has no room.
    #[cold]
    pub fn await_room(&mut self, attributes: &Attributes, now: Time) {
        if self.is_reliable {
            self.timers.await_room(attributes, now);
        }
    }

    /// A timer may have expired. Returns whether requests are sent again; an error is the status that the
    /// oldest WQE fails with.
    pub fn on_timeout(
        &mut self,
        attributes: &Attributes,
        peer: PeerActivity,
        now: Time,
    ) -> Result<bool, ibv_wc_status> {
        let Some(late) = self.timers.take_expired(self.is_in_flight(), now) else {
            return Ok(false);
        };
        // Or it is this side that has not written the rest of a message.
        let is_ours = self.sent > 0 && peer == PeerActivity::Unknown;
        let is_lost = !is_ours && self.timers.on_ack_timeout(late, attributes, peer, now)?;
        if is_lost {
            self.send_again();
        }
        self.start_timer(attributes, now);
        Ok(is_lost)
    }
}
